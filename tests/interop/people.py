#!/usr/bin/env python3
"""`sijil login` at npm's oidc-provider over TLS, which follows the specifications where glewlwyd does not: any port of the loopback address, `iss` in the
answer, revocation by a public client, groups as a list. INTEROP_PEOPLE is a folder of npm with the module."""
import html.parser
import http.cookiejar
import json
import os
import shutil
import ssl
import subprocess
import sys
import tempfile
import urllib.error
import urllib.parse
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../scenario"), os.path.join(HERE, "../support")]
import sijil_test
from ports import free_port
from sijil_test import Server, run

server = Server().start()
folder = tempfile.TemporaryDirectory(prefix="sijil-people-")
at, port = f"127.0.0.1:{server.port}", free_port()
audience, issuer, certificate = "https://" + at, f"https://127.0.0.1:{port}", folder.name + "/tls.pem"
admin = server.client(server.admin)


class NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


class Form(html.parser.HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.action, self.fields = None, {}
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        if tag == "form" and self.action is None:
            self.action = found.get("action")
        if tag == "input" and found.get("name"):
            self.fields[found["name"]] = found.get("value") or ""


class Browser:
    """A person who fills in each form of the issuer."""

    def __init__(self, name):
        self.name = name
        self.opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), NoRedirect(), urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()),
            urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=certificate)))

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
                if not url.startswith(issuer):
                    return url
                continue
            assert status == 200, (status, url, page)
            found = Form(page)
            if found.action is None:
                return page
            form = {**found.fields, **({"login": self.name, "password": "any"} if "login" in found.fields else {})}
            url = urllib.parse.urljoin(url, found.action)
        raise AssertionError("the issuer sends the browser in a circle")


def environment(home):
    os.makedirs(f"{folder.name}/{home}", exist_ok=True)
    kept = {name: value for name, value in os.environ.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")}
    return {**kept, "HOME": f"{folder.name}/{home}", "XDG_CONFIG_HOME": f"{folder.name}/{home}"}


def sijil(home, *words, code=0):
    done = subprocess.run([sijil_test.program("sijil"), *words], input="", text=True, capture_output=True, env=environment(home), timeout=120)
    assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
    return json.loads(done.stdout) if "--json" in words else done.stdout + done.stderr


def log_in(home, way):
    process = subprocess.Popen([sijil_test.program("sijil"), "login", at, "--issuer", issuer, "--issuer-ca-file", certificate, "--ca-file", server.ca_file, "--json", way],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(home))
    shown = json.loads(process.stderr.readline())
    if way == "--browser":
        back = Browser(home).walk(shown["page"])
        assert "&iss=" in back, back
        urllib.request.urlopen(back, timeout=30).close()
    else:
        Browser(home).walk(shown["page_with_code"])
    out, errors = process.communicate(timeout=120)
    assert process.returncode == 0, (out, errors)
    return json.loads(out)


def stored(home):
    with open(f"{folder.name}/{home}/sijil/hosts.json", encoding="utf-8") as file:
        return json.load(file)


def end_token(home):
    hosts = stored(home)
    hosts[at]["issuer"]["expires"] = 0
    with open(f"{folder.name}/{home}/sijil/hosts.json", "w", encoding="utf-8") as file:
        json.dump(hosts, file)
    return hosts[at]


def a_person_logs_in_with_a_browser():
    assert log_in("ann", "--browser")["name"] == "ann"
    assert sijil("ann", "whoami", at, "--json")["issuer"] == issuer


def a_person_logs_in_by_a_code():
    assert log_in("ben", "--device")["name"] == "ben"


def a_login_is_renewed_and_ended():
    for home in ("ann", "ben"):
        before = end_token(home)
        sijil(home, "whoami", at)
        after = stored(home)[at]
        assert after["password"] != before["password"] and after["issuer"]["refresh"] != before["issuer"]["refresh"]
        sijil(home, "logout", at)
        form = {"grant_type": "refresh_token", "client_id": "sijil", "refresh_token": after["issuer"]["refresh"]}
        status, _, body = Browser(home).call(issuer + "/token", form)
        assert status == 400 and json.loads(body)["error"] == "invalid_grant", body


def groups_come_as_a_list():
    with open(folder.name + "/groups/ann", "w", encoding="utf-8") as file:
        json.dump(["others", "data scientists, of the bank"], file)
    with open(folder.name + "/groups.json", "w", encoding="utf-8") as file:
        json.dump({"name": "bank", "issuer": issuer, "claim": "/groups",
                   "grant": [{"group": "data scientists, of the bank", "role": "publisher", "on": "main/models"}]}, file)
    user, secret = server.admin
    done = subprocess.run([sijil_test.program("sijil"), "admin", "groups", "draft", at, folder.name + "/groups.json", "--key",
                           server.folder + "/officer/approver.pem"], capture_output=True, text=True, timeout=60,
                          env={**environment("root"), "SIJIL_USERNAME": user, "SIJIL_PASSWORD": secret, "SIJIL_CA_FILE": server.ca_file}, check=False)
    assert done.returncode == 0, done
    log_in("ann", "--browser")
    roles = sijil("ann", "whoami", at, "--json")["roles"]
    assert [(role["role"], role["scope"], role["document"]) for role in roles] == [("publisher", "main/models", "bank")], roles


os.mkdir(folder.name + "/groups")
subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext",
                "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", folder.name + "/tls.key", "-out", certificate], check=True, capture_output=True)
shutil.copy(os.path.join(HERE, "people", "provider.mjs"), os.environ["INTEROP_PEOPLE"])  # modules are found beside it
process = subprocess.Popen(["node", "--no-warnings", "provider.mjs", folder.name, str(port), audience], cwd=os.environ["INTEROP_PEOPLE"],
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
try:
    while "ready" not in (line := process.stdout.readline()):
        assert line, "oidc-provider has not started"
    keys = json.loads(Browser("nobody").call(issuer + "/jwks")[2])
    admin.api("POST", "/issuers", {"url": issuer, "algorithms": ["ES256"], "jwks": {"keys": [{name: value for name, value in key.items() if name in (
        "kty", "crv", "kid", "x", "y", "alg", "use")} for key in keys["keys"]]}, "audience": audience})
    run(a_person_logs_in_with_a_browser, a_person_logs_in_by_a_code, a_login_is_renewed_and_ended, groups_come_as_a_list, server=server)
finally:
    process.terminate()
    process.wait()
