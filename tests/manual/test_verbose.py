"""`sijil --verbose` against a registry that knows its own secrets: none of them is shown, everything else is.

The registry here is a stand-in, since only one that chooses token, session and password itself can say what must not
appear. It answers as the wire contract says, over TLS 1.3."""
import base64
import hashlib
import http.server
import json
import os
import re
import socket
import ssl
import subprocess
import sys
import tempfile
import threading

SIJIL = os.path.join(os.path.abspath(sys.argv[1]), "cmd", "sijil")
TOKEN, SESSION, STATE, PASSWORD = "tOkEn-4711", "sEsSiOn-4712", "sTaTe-4713", "pAsSwOrD-4714"
BASIC = base64.b64encode(f"robot$acme+ci:{PASSWORD}".encode()).decode()
SECRETS = (TOKEN, SESSION, STATE, PASSWORD, BASIC)


class Registry(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    uploads = "/v2/acme/models/m/blobs/uploads/"  # a registry may put its sessions elsewhere: see main
    seen, elsewhere = [], None

    def log_message(self, *words):
        pass

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("X-Request-Id", "request-99")
        self.send_header("Sijil-Audit", "1234")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def handle_any(self):
        self.seen.append((self.command, self.path, self.headers.get("Authorization")))
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path.startswith("/token"):
            self.answer(200, json.dumps({"token": TOKEN, "expires_in": 300}).encode())
        elif self.headers.get("Authorization") != "Bearer " + TOKEN:
            self.answer(401, WWW_Authenticate='Bearer realm="x"')
        elif self.command == "HEAD":
            self.answer(404)
        elif self.command == "GET":
            self.answer(200, b"{}")
        elif self.command == "POST":
            self.answer(202, Location=f"{type(self).elsewhere or type(self).uploads}{SESSION}?_state={STATE}")
        elif self.command == "PATCH":
            self.answer(202, Location=f"{type(self).uploads}{SESSION}?_state={STATE}")
        else:
            self.answer(201, Docker_Content_Digest="sha256:" + hashlib.sha256(body).hexdigest()
                        if "/manifests/" in self.path else "none")

    do_GET = do_HEAD = do_POST = do_PATCH = do_PUT = handle_any


def serve(folder):
    key, certificate = os.path.join(folder, "key.pem"), os.path.join(folder, "ca.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                    "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate],
                   check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(certificate, key)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_port, certificate


def sijil(folder, certificate, *words, typed=None):
    environment = {**os.environ, "HOME": folder, "XDG_CONFIG_HOME": folder, "XDG_CACHE_HOME": folder,
                   "SIJIL_USERNAME": "robot$acme+ci", "SIJIL_PASSWORD": PASSWORD, "SIJIL_CA_FILE": certificate}
    done = subprocess.run([SIJIL, *words], input=typed, capture_output=True, text=True, cwd=folder, env=environment, timeout=60)
    for secret in SECRETS:
        assert secret not in done.stdout + done.stderr, (words, secret, done.stderr)
    return done


def push_shows_each_request(folder, port, certificate, shown_upload):
    Registry.seen.clear()
    done = sijil(folder, certificate, "push", "--verbose", "file.bin", f"127.0.0.1:{port}/acme/models/m:v1")
    assert done.returncode == 0, done.stderr
    asked = re.findall(r"^> (\w+) (\S+)$", done.stderr, flags=re.M)
    answered = re.findall(r"^< (\d+) in \d+ ms, sent (\d+) bytes, received (\d+), request request-99, audit 1234$",
                          done.stderr, flags=re.M)
    assert len(asked) == len(answered) == len(Registry.seen), (asked, answered, Registry.seen)
    assert [method for method, _ in asked] == [method for method, _, _ in Registry.seen]
    assert asked[0] == ("GET", "/.well-known/oauth-authorization-server") and asked[1] == ("GET", "/token?..."), asked
    patch = next(i for i, (method, _) in enumerate(asked) if method == "PATCH")
    assert asked[patch][1] == shown_upload and answered[patch][:2] == ("202", "1000"), (asked[patch], answered[patch])
    # The secrets were there to be shown: otherwise this test could not fail.
    sent = json.dumps(Registry.seen)
    assert all(secret in sent for secret in (TOKEN, SESSION, STATE, BASIC)), sent


def main():
    with tempfile.TemporaryDirectory(prefix="sijil-verbose-") as folder:
        with open(os.path.join(folder, "file.bin"), "wb") as file:
            file.write(os.urandom(1000))
        port, certificate = serve(folder)
        push_shows_each_request(folder, port, certificate, "/v2/acme/models/m/blobs/uploads/(session)")
        done = sijil(folder, certificate, "login", "-v", f"127.0.0.1:{port}", "--ca-file", certificate, "--username", "robot$acme+ci",
                     typed=PASSWORD + "\n")
        assert done.returncode == 0 and "> GET /token" in done.stderr, done
        Registry.uploads = "/write/"
        push_shows_each_request(folder, port, certificate, "/(session)")
        Registry.elsewhere = f"https://other.example/{SESSION}?"
        done = sijil(folder, certificate, "push", "-v", "file.bin", f"127.0.0.1:{port}/acme/models/m:v1")
        assert done.returncode == 4 and "another host, which we do not follow: https://other.example\n" in done.stderr, done
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            closed = free.getsockname()[1]
        done = sijil(folder, certificate, "tags", "-v", f"127.0.0.1:{closed}/acme/models/m")
        assert done.returncode == 5 and re.search(r"> GET /.well-known/oauth-authorization-server\n< no answer in \d+ ms", done.stderr), done
        done = sijil(folder, certificate, "push", "file.bin", f"127.0.0.1:{closed}/acme/models/m:v1")
        assert "> " not in done.stderr, done.stderr
    print("ok")


main()
