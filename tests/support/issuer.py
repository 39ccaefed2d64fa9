#!/usr/bin/env python3
"""usage: issuer.py FOLDER AUDIENCE [NAME...]   A small OpenID Connect issuer on this machine, for tests and script/demo.

Makes FOLDER, with the password of each person in people/NAME, its certificate in tls.pem, its keys in jwks.json, and its URL in the file
url once it listens. A file that is added to people/ later is a further person. POST /token with grant_type=client_credentials and the name
and password as Basic gives an ID token for AUDIENCE. It ends with the process that started it. TLS 1.3 only.
Standard library and the openssl tool only."""
import base64
import hmac
import http.server
import json
import os
import re
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request


class Issuer:
    """The keys and the tokens of an issuer: one P-256 key, made with the openssl tool."""

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

    def token(self, header=None, **more):
        now = int(time.time())
        said = {"iss": self.url, "sub": "repo:acme/train:ref:refs/heads/main", "iat": now, "exp": now + 600, "jti": os.urandom(8).hex(),
                "aud": self.audience, **more}
        text = self.encode(json.dumps({"alg": "ES256", "kid": "one", **(header or {})}).encode()) + "." + self.encode(json.dumps(said).encode())
        shown = subprocess.run(f"openssl dgst -sha256 -sign {self.key} | openssl asn1parse -inform DER", shell=True, check=True,
                               input=text.encode(), capture_output=True).stdout.decode()
        numbers = re.findall(r"INTEGER +:([0-9A-F]+)", shown)
        return text + "." + self.encode(b"".join(int(number, 16).to_bytes(32, "big") for number in numbers))


class Endpoints(http.server.BaseHTTPRequestHandler):
    """Discovery, keys, and a token for a person with the password."""
    timeout = 20  # seconds without a byte
    issuer, folder = None, None  # set by serve()

    def do_GET(self):
        url = self.issuer.url
        if self.path.startswith("/actions?"):
            return self.answer_job(dict(urllib.parse.parse_qsl(self.path.partition("?")[2])))
        documents = {"/.well-known/openid-configuration": {"issuer": url, "jwks_uri": url + "/jwks", "token_endpoint": url + "/token"},
                     "/jwks": self.issuer.jwks}
        found = documents.get(self.path)
        return self.answer(*((200, found) if found else (404, {"error": "not_found"})))

    def answer_job(self, asked):
        """A token for the job that shows its own password, with the claims of the job."""
        name = asked.get("job", "")
        if asked.get("audience") != self.issuer.audience or not self.is_password(name, self.headers.get("Authorization", "").removeprefix("Bearer ")):
            return self.answer(403, {"error": "access_denied"})
        with open(os.path.join(self.folder, "claims", name + ".json"), encoding="utf-8") as file:
            return self.answer(200, {"value": self.issuer.token(**json.load(file))})

    def do_POST(self):
        length = self.headers.get("Content-Length", "")
        if self.path != "/token" or not re.fullmatch("[0-9]{1,4}", length):
            return self.answer(404, {"error": "not_found"})
        form = dict(urllib.parse.parse_qsl(self.rfile.read(int(length)).decode("ascii", "replace")))
        if form.get("grant_type") != "client_credentials":
            return self.answer(400, {"error": "unsupported_grant_type"})
        name = self.person()
        if name is None:
            return self.answer(401, {"error": "invalid_client"})
        return self.answer(200, {"id_token": self.issuer.token(sub=name), "token_type": "Bearer", "expires_in": 600})

    def person(self):
        """The name of the person whose password the request has; None: there is no such person, or it is another password."""
        try:
            login = base64.b64decode(self.headers.get("Authorization", "").removeprefix("Basic "), validate=True).decode()
        except ValueError:
            return None
        name, _, password = login.partition(":")
        return name if self.is_password(name, password) else None

    def is_password(self, name, password):
        if not re.fullmatch("[a-z0-9-]{1,63}", name):
            return False
        try:
            with open(os.path.join(self.folder, "people", name), encoding="ascii") as file:
                return hmac.compare_digest(file.read(), password)
        except (FileNotFoundError, TypeError):  # TypeError: a password that is not ASCII
            return False

    def answer(self, status, document):
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def add_person(folder, name):
    """Adds a person and returns the password."""
    password = os.urandom(16).hex()
    with open(os.open(os.path.join(folder, "people", name), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
        file.write(password)
    return password


def write_whole(path, text):
    with open(path + ".new", "w", encoding="ascii") as file:
        file.write(text)
    os.rename(path + ".new", path)


def certify(folder):
    certificate, key = (os.path.join(folder, name) for name in ("tls.pem", "tls.key"))
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj",
                    "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", key, "-out", certificate],
                   check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(certificate, key)
    return context


def serve(folder, audience, names):
    parent = os.getppid()
    os.makedirs(os.path.join(folder, "people"), mode=0o700)
    os.makedirs(os.path.join(folder, "claims"), mode=0o700)
    os.chmod(folder, 0o700)
    for name in names:
        add_person(folder, name)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Endpoints)
    server.daemon_threads = True
    Endpoints.folder, Endpoints.issuer = folder, Issuer(f"https://localhost:{server.server_port}", audience)
    server.socket = certify(folder).wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    write_whole(os.path.join(folder, "jwks.json"), json.dumps(Endpoints.issuer.jwks))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    write_whole(os.path.join(folder, "url"), Endpoints.issuer.url)
    while os.getppid() == parent:
        time.sleep(0.5)


class IssuerProcess:
    """This program as a process of its own, as a test sees it: it has no key of the issuer, only its certificate and its answers."""

    def __init__(self, audience):
        self.root = tempfile.TemporaryDirectory()
        self.folder = os.path.join(self.root.name, "issuer")
        self.certificate = os.path.join(self.folder, "tls.pem")
        self.process = subprocess.Popen([sys.executable, os.path.abspath(__file__), self.folder, audience])
        until = time.monotonic() + 60
        while not os.path.exists(os.path.join(self.folder, "url")):
            assert self.process.poll() is None and time.monotonic() < until, "the issuer has not started"
            time.sleep(0.05)
        with open(os.path.join(self.folder, "url"), encoding="ascii") as file:
            self.url = file.read()

    def add(self, name):
        """Adds a person and returns the password."""
        return add_person(self.folder, name)

    def fetch(self, path, login=None):
        """The document of a path; with a login, a token. The client trusts only the issuer's certificate."""
        request = urllib.request.Request(urllib.parse.urljoin(self.url, path))
        if login is not None:
            request.data = b"grant_type=client_credentials"
            request.add_header("Authorization", "Basic " + base64.b64encode(":".join(login).encode()).decode())
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}),
                                             urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=self.certificate)))
        with opener.open(request, timeout=20) as answer:
            return json.loads(answer.read())

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.root.cleanup()


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    serve(sys.argv[1], sys.argv[2], sys.argv[3:])
