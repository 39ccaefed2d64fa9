"""Debian's glewlwyd as a real OAuth 2.0 and OpenID Connect issuer over TLS, for tests: its package is unpacked (script/lib.sh), so it never runs as a
service. Everything is in one temporary folder, and it listens on loopback only."""
import base64
import gzip
import http.cookiejar
import json
import os
import re
import signal
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

from ports import free_port

ROOT = os.environ.get("SIJIL_GLEWLWYD", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "build", "glewlwyd"))
CONFIGURATION = """
port={port}
bind_address="127.0.0.1"
external_url="{url}"
login_url="login.html"
api_prefix="api"
static_files_path="{root}/usr/share/glewlwyd/webapp/"
log_mode="file"
log_level="INFO"
log_file="{folder}/log"
cookie_domain="127.0.0.1"
cookie_secure=1
cookie_same_site="empty"
session_expiration=3600
session_key="GLEWLWYD2_SESSION_ID"
admin_session_authentication="cookie"
profile_session_authentication="cookie"
admin_scope="g_admin"
profile_scope="g_profile"
user_module_path="{root}/usr/lib/glewlwyd/user"
user_middleware_module_path="{folder}/none"
client_module_path="{root}/usr/lib/glewlwyd/client"
user_auth_scheme_module_path="{root}/usr/lib/glewlwyd/scheme"
plugin_module_path="{root}/usr/lib/glewlwyd/plugin"
use_secure_connection=true
secure_connection_key_file="{folder}/tls.key"
secure_connection_pem_file="{folder}/tls.pem"
hash_algorithm="SHA512"
database = {{ type = "sqlite3"; path = "{folder}/database"; }};
static_files_mime_types = ( {{ extension = ".html"; mime_type = "text/html"; compress = 0 }} )
"""


class NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


class Browser:
    """What a person's browser does at the issuer: it keeps cookies, and shows where it is sent."""

    def __init__(self, certificate):
        self.opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), NoRedirect(), urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()),
            urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=certificate)))

    def call(self, method, url, document=None):
        """(status, Location or None, body)"""
        request = urllib.request.Request(url, method=method)
        if document is not None:
            request.data = json.dumps(document).encode()
            request.add_header("Content-Type", "application/json")
        try:
            with self.opener.open(request, timeout=30) as answer:
                return answer.status, answer.headers.get("Location"), answer.read()
        except urllib.error.HTTPError as answer:
            with answer:
                return answer.code, answer.headers.get("Location"), answer.read()


class Glewlwyd:
    def __init__(self, resource, lifetime_s=300):
        self.root = tempfile.TemporaryDirectory(prefix="sijil-glewlwyd-")
        self.folder, self.port, self.resource, self.lifetime_s = self.root.name, free_port(), resource, lifetime_s
        self.origin = f"https://127.0.0.1:{self.port}"
        self.url = self.origin + "/api/oidc"  # the issuer
        self.certificate = os.path.join(self.folder, "tls.pem")
        os.mkdir(self.folder + "/none")
        self.openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext",
                     "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", self.folder + "/tls.key", "-out", self.certificate)
        with gzip.open(ROOT + "/usr/share/doc/glewlwyd/database/init.sqlite3.sql.gz") as script:
            subprocess.run(["sqlite3", self.folder + "/database"], input=script.read(), check=True, capture_output=True)
        with open(self.folder + "/conf", "w", encoding="ascii") as file:
            file.write(CONFIGURATION.format(port=self.port, url=self.origin, root=os.path.abspath(ROOT), folder=self.folder))
        self.process = None
        self.start()
        self.admin = Browser(self.certificate)
        self.log_in(self.admin, "admin", "password")
        self.configure()

    @staticmethod
    def openssl(*words):
        return subprocess.run(["openssl", *words], check=True, capture_output=True).stdout

    def start(self):
        with open(self.folder + "/out", "ab") as out:
            self.process = subprocess.Popen([ROOT + "/usr/bin/glewlwyd", "--config-file=" + self.folder + "/conf"], stdout=out, stderr=out,
                                            env={**os.environ, "LD_LIBRARY_PATH": ROOT + "/usr/lib/x86_64-linux-gnu"})
        until, browser = time.monotonic() + 60, Browser(self.certificate)
        while True:
            assert self.process.poll() is None and time.monotonic() < until, "glewlwyd has not started: " + self.tail()
            try:
                if browser.call("GET", self.origin + "/config")[0] == 200:
                    return
            except OSError:
                pass
            time.sleep(0.05)

    def tail(self):
        found = ""
        for name in ("out", "log"):
            if os.path.exists(f"{self.folder}/{name}"):
                with open(f"{self.folder}/{name}", encoding="utf-8", errors="replace") as file:
                    found += "".join(file.readlines()[-10:])
        return found

    def ask(self, browser, method, path, document=None):
        status, _, body = browser.call(method, self.origin + "/api" + path, document)
        assert status == 200, (method, path, status, body, self.tail())
        return body

    def log_in(self, browser, name, password):
        self.ask(browser, "POST", "/auth/", {"username": name, "password": password})

    def keys(self):
        """An ES256 key with its private part, as glewlwyd reads it."""
        self.openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", self.folder + "/key.pem")
        text = self.openssl("ec", "-in", self.folder + "/key.pem", "-text", "-noout").decode()

        def part(name):
            digits = re.sub(r"[\s:]", "", re.search(name + r":\s*\n((?:\s+[0-9a-f:]+\n)+)", text).group(1))
            return bytes.fromhex(digits)

        def encode(data):
            return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
        point, secret = part("pub")[1:], part("priv")[-32:].rjust(32, b"\0")
        return json.dumps({"keys": [{"kty": "EC", "crv": "P-256", "kid": "one", "alg": "ES256", "use": "sig", "x": encode(point[:32]),
                                     "y": encode(point[32:]), "d": encode(secret)}]})

    def configure(self):
        people = json.loads(self.ask(self.admin, "GET", "/mod/user/database"))
        people["parameters"]["data-format"]["groups"] = {"multiple": True, "read": True, "write": True, "profile-read": False, "profile-write": False}
        self.ask(self.admin, "PUT", "/mod/user/database", people)
        self.ask(self.admin, "PUT", "/mod/reload/")
        self.ask(self.admin, "POST", "/scope/", {"name": "registry", "display_name": "the registry", "password_required": True})
        self.ask(self.admin, "POST", "/mod/plugin/", {"module": "oidc", "name": "oidc", "display_name": "oidc", "enabled": True, "parameters": {
            "iss": self.url, "jwks-private": self.keys(), "default-kid": "one", "access-token-duration": self.lifetime_s, "refresh-token-duration": 3600,
            "code-duration": 60, "refresh-token-rolling": True, "refresh-token-one-use": "always", "allow-non-oidc": True, "auth-type-client-enabled": True,
            "auth-type-code-enabled": True, "auth-type-code-revoke-replayed": True, "auth-type-token-enabled": False, "auth-type-id-token-enabled": True,
            "auth-type-password-enabled": False, "auth-type-refresh-enabled": True, "auth-type-device-enabled": True,
            "device-authorization-expiration": 600, "device-authorization-interval": 1, "pkce-allowed": True, "pkce-required": True,
            "pkce-method-plain-allowed": False, "jwks-show": True, "introspection-revocation-allowed": True,
            "introspection-revocation-allow-target-client": True, "introspection-revocation-auth-scope": ["registry"], "resource-allowed": True,
            "resource-scope": {"registry": [self.resource]}, "resource-client-property": "resource", "resource-scope-and-client-property": False,
            "additional-parameters": [{"user-parameter": "groups", "token-parameter": "groups", "type": "array"}], "client-cert-source": "TLS",
            "subject-type": "public"}})

    def add_client(self, name, redirect_uris=()):
        """A public client, for programs on the machines of people."""
        self.ask(self.admin, "POST", "/client/", {"client_id": name, "client_name": name, "confidential": False, "enabled": True,
                                                 "authorization_type": ["code", "device_authorization", "refresh_token", "delete_token"],
                                                 "redirect_uri": list(redirect_uris), "scope": ["registry", "openid"],
                                                 "token_endpoint_auth_method": ["none"]})

    def add_person(self, name, password, client):
        """A person who has agreed that the client may have the scope. Returns the person's browser, logged in."""
        self.ask(self.admin, "POST", "/user/", {"username": name, "password": password, "name": name, "enabled": True,
                                               "scope": ["registry", "openid", "g_profile"]})
        browser = Browser(self.certificate)
        self.log_in(browser, name, password)
        self.ask(browser, "PUT", f"/auth/grant/{client}", {"scope": "registry openid"})
        return browser

    def set_groups(self, name, *groups):
        person = json.loads(self.ask(self.admin, "GET", f"/user/{name}"))
        self.ask(self.admin, "PUT", f"/user/{name}", {**person, "groups": list(groups)})

    def jwks(self):
        return json.loads(Browser(self.certificate).call("GET", self.url + "/jwks")[2])

    def approve(self, browser, code):
        """What the page of the issuer does when the person has typed the code of a device."""
        status, location, body = browser.call("GET", self.url + "/device?" + urllib.parse.urlencode({"code": code, "g_continue": ""}))
        assert status == 302 and "prompt=deviceComplete" in location, (status, location, body)

    def authorize(self, browser, url):
        """Where the issuer sends the browser."""
        status, location, body = browser.call("GET", url + "&g_continue")
        assert status == 302, (status, location, body)
        return location

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()
        self.root.cleanup()
