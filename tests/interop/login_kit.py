"""A registry and an issuer of other people, over TLS: `sijil login` there with a browser that fills in each form, and other clients that take the login."""
import html.parser
import http.cookiejar
import json
import os
import shutil
import ssl
import subprocess
import urllib.error
import urllib.parse
import urllib.request

import sijil_test


class NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


class Form(html.parser.HTMLParser):
    REFUSALS = {"cancel", "abort"}  # buttons

    def __init__(self, page):
        super().__init__()
        self.action, self.fields = None, {}
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        if tag == "form" and self.action is None:
            self.action = found.get("action")
        if tag == "input" and found.get("name") and found["name"] not in self.REFUSALS:
            self.fields[found["name"]] = found.get("value") or ""


class Browser:
    """A person who fills in each form of the issuer."""

    def __init__(self, place, name):
        self.place, self.name = place, name
        self.opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), NoRedirect(), urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()),
            urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=place.certificate)))

    def call(self, url, form=None):
        try:
            with self.opener.open(url, None if form is None else urllib.parse.urlencode(form).encode(), timeout=30) as answer:
                return answer.status, answer.headers.get("Location"), answer.read().decode()
        except urllib.error.HTTPError as answer:
            with answer:
                return answer.code, answer.headers.get("Location"), answer.read().decode()

    def walk(self, url):
        """Goes where the issuer sends it, to the end: the address outside of the issuer, or the last page."""
        form = None
        for _ in range(20):
            status, location, page = self.call(url, form)
            form = None
            if location is not None:
                url = urllib.parse.urljoin(url, location)
                if not url.startswith(self.place.origin):
                    return url
                continue
            assert status == 200, (status, url, page)
            found = Form(page)
            if found.action is None:
                return page
            known = {"login": self.name, "username": self.name, "password": self.place.password}
            form = {**found.fields, **{name: value for name, value in known.items() if name in found.fields}}
            url = urllib.parse.urljoin(url, found.action)
        raise AssertionError("the issuer sends the browser in a circle")


class Place:
    """The registry `server`, and the issuer at `issuer`, which the certificate in the file vouches for."""
    password = "any"

    def __init__(self, server, folder, issuer, certificate):
        self.server, self.folder, self.issuer, self.certificate = server, folder, issuer, certificate
        self.at = f"127.0.0.1:{server.port}"
        parts = urllib.parse.urlsplit(issuer)
        self.origin = f"{parts.scheme}://{parts.netloc}"

    def environment(self, home):
        os.makedirs(f"{self.folder}/{home}", exist_ok=True)
        kept = {name: value for name, value in os.environ.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")}
        return {**kept, "HOME": f"{self.folder}/{home}", "XDG_CONFIG_HOME": f"{self.folder}/{home}"}

    def sijil(self, home, *words, code=0, **more):
        done = subprocess.run([sijil_test.program("sijil"), *words], input="", text=True, capture_output=True, env={**self.environment(home), **more}, timeout=120, check=False)
        assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
        return json.loads(done.stdout) if "--json" in words else done.stdout + done.stderr

    def as_admin(self, *words, code=0):
        user, secret = self.server.admin
        return self.sijil("root", *words, code=code, SIJIL_USERNAME=user, SIJIL_PASSWORD=secret, SIJIL_CA_FILE=self.server.ca_file)

    def log_in(self, home, way, *words, who=None):
        process = subprocess.Popen([sijil_test.program("sijil"), "login", self.at, "--issuer", self.issuer, "--issuer-ca-file", self.certificate,
                                    "--ca-file", self.server.ca_file, "--json", way, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, env=self.environment(home))
        line = process.stderr.readline()
        assert line.startswith("{"), line + process.stderr.read()
        shown, browser = json.loads(line), Browser(self, who or home)
        if "page" in shown and "code" not in shown:
            back = browser.walk(shown["page"])
            assert "&iss=" in back or "?iss=" in back, back
            urllib.request.urlopen(back, timeout=30).close()
        else:
            browser.walk(shown["page_with_code"])
        out, errors = process.communicate(timeout=120)
        assert process.returncode == 0, (out, errors)
        return json.loads(out)

    def stored(self, home):
        with open(f"{self.folder}/{home}/sijil/hosts.json", encoding="utf-8") as file:
            return json.load(file)

    def end_token(self, home):
        """As if the access token had ended."""
        hosts = self.stored(home)
        hosts[self.at]["issuer"]["expires"] = 0
        with open(f"{self.folder}/{home}/sijil/hosts.json", "w", encoding="utf-8") as file:
            json.dump(hosts, file)
        return hosts[self.at]

    def other_clients(self, home, repository):
        """skopeo and oras take the login from `sijil`, which renews it: they push and pull. Returns the names of those that did."""
        helpers, docker = f"{self.folder}/bin", f"{self.folder}/{home}/.docker"
        for name in (helpers, docker, docker + "/trusted"):
            os.makedirs(name, exist_ok=True)
        with open(helpers + "/docker-credential-sijil", "w", encoding="ascii") as file:
            file.write(f'#!/bin/sh\nexec {sijil_test.program("sijil")} credential "$@"\n')
        os.chmod(helpers + "/docker-credential-sijil", 0o755)
        with open(docker + "/config.json", "w", encoding="ascii") as file:
            json.dump({"credHelpers": {self.at: "sijil"}}, file)
        shutil.copy(self.server.ca_file, docker + "/trusted/ca.crt")
        environment = {**self.environment(home), "PATH": helpers + ":" + os.environ["PATH"], "REGISTRY_AUTH_FILE": docker + "/config.json", "DOCKER_CONFIG": docker}
        with open(f"{self.folder}/{home}/model.bin", "wb") as file:
            file.write(os.urandom(4096))
        self.end_token(home)
        self.sijil(home, "push", f"{self.folder}/{home}/model.bin", f"{self.at}/{repository}:v1")
        certificates, reference, did = docker + "/trusted", f"docker://{self.at}/{repository}", ["sijil", "skopeo"]

        def run(*words):
            done = subprocess.run(words, capture_output=True, text=True, env=environment, cwd=f"{self.folder}/{home}", timeout=120, check=False)
            assert done.returncode == 0, (words, done.stdout, done.stderr)
        self.end_token(home)
        run("skopeo", "copy", "--src-cert-dir", certificates, reference + ":v1", f"dir:{self.folder}/{home}/copy")
        run("skopeo", "copy", "--dest-cert-dir", certificates, "--preserve-digests", f"dir:{self.folder}/{home}/copy", reference + ":skopeo")
        oras = os.path.join(os.environ.get("INTEROP_PROGRAMS", ""), "oras")
        if os.access(oras, os.X_OK):
            run(oras, "push", "--ca-file", self.server.ca_file, f"{self.at}/{repository}:oras", "model.bin:application/octet-stream")
            run(oras, "pull", "--ca-file", self.server.ca_file, "-o", "pulled", f"{self.at}/{repository}:oras")
            did.append("oras")
        else:
            print("left out: oras is not there")
        self.sijil(home, "pull", f"{self.at}/{repository}:skopeo", "-o", f"{self.folder}/{home}/there")
        with open(f"{self.folder}/{home}/there/model.bin", "rb") as pulled, open(f"{self.folder}/{home}/model.bin", "rb") as pushed:
            assert pulled.read() == pushed.read()
        return did


def certify(folder):
    """A certificate for the issuer, in tls.pem, with its key in tls.key."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext",
                    "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", folder + "/tls.key", "-out", folder + "/tls.pem"], check=True, capture_output=True)
    return folder + "/tls.pem"
