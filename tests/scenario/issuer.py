"""An identity provider for tests: persons with passwords, tokens signed with a P-256 key, over TLS on this machine.

Standard library and the openssl tool only."""
import base64
import http.server
import json
import os
import re
import ssl
import subprocess
import tempfile
import threading
import time
import urllib.parse
import urllib.request


class Issuer:
    """An OIDC issuer with one P-256 key, made with the openssl tool."""

    def __init__(self, url, audience):
        self.url, self.audience, self.folder = url, audience, tempfile.TemporaryDirectory()
        self.key = os.path.join(self.folder.name, "key.pem")
        subprocess.run(["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", self.key], check=True)
        der = subprocess.run(["openssl", "ec", "-in", self.key, "-pubout", "-outform", "DER"], check=True,
                             capture_output=True).stdout
        self.jwks = {"keys": [{"kty": "EC", "crv": "P-256", "kid": "one", "x": self.encode(der[-64:-32]), "y": self.encode(der[-32:])}]}

    @staticmethod
    def encode(data):
        return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

    def token(self, **more):
        now = int(time.time())
        said = {"iss": self.url, "sub": "repo:acme/train:ref:refs/heads/main", "iat": now, "exp": now + 600, "jti": os.urandom(8).hex(),
                "aud": self.audience, **more}
        text = self.encode(b'{"alg":"ES256","kid":"one"}') + "." + self.encode(json.dumps(said).encode())
        shown = subprocess.run(f"openssl dgst -sha256 -sign {self.key} | openssl asn1parse -inform DER", shell=True, check=True,
                               input=text.encode(), capture_output=True).stdout.decode()
        numbers = re.findall(r"INTEGER +:([0-9A-F]+)", shown)
        return text + "." + self.encode(b"".join(int(number, 16).to_bytes(32, "big") for number in numbers))


class LocalIssuer(Issuer):
    """The same at https://localhost:PORT with its own certificate: discovery, keys, and a token for a person with the password."""

    def __init__(self, port, audience):
        super().__init__(f"https://localhost:{port}", audience)
        self.passwords = {}
        self.certificate, key = (os.path.join(self.folder.name, name) for name in ("tls.pem", "tls.key"))
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                        "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", self.certificate],
                       check=True, capture_output=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.load_cert_chain(self.certificate, key)
        server = http.server.ThreadingHTTPServer(("localhost", port), self.handler())
        server.socket = context.wrap_socket(server.socket, server_side=True)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()

    def add(self, name):
        """Adds a person and returns the password."""
        self.passwords[name] = os.urandom(16).hex()
        return self.passwords[name]

    def answer(self, path, authorization):
        """The status and document of a path."""
        if path == "/.well-known/openid-configuration":
            return 200, {"issuer": self.url, "jwks_uri": self.url + "/jwks", "token_endpoint": self.url + "/token"}
        if path == "/jwks":
            return 200, self.jwks
        if path != "/token":
            return 404, {"error": "not_found"}
        name, _, password = base64.b64decode(authorization.removeprefix("Basic ")).decode().partition(":")
        if not password or self.passwords.get(name) != password:
            return 401, {"error": "invalid_client"}
        return 200, {"id_token": self.token(sub=name), "token_type": "Bearer", "expires_in": 600}

    def handler(self):
        issuer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                status, document = issuer.answer(self.path, self.headers.get("Authorization", ""))
                body = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass
        return Handler

    def fetch(self, path, login=None):
        """Gets a token as a client does that trusts only this certificate."""
        request = urllib.request.Request(urllib.parse.urljoin(self.url, path))
        if login is not None:
            request.add_header("Authorization", "Basic " + base64.b64encode(":".join(login).encode()).decode())
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}),
                                             urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=self.certificate)))
        with opener.open(request, timeout=20) as answer:
            return json.loads(answer.read())
