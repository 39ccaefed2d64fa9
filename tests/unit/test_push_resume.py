"""usage: test_push_resume.py SIJIL   `sijil push` of a file whose upload was broken off, against a stand-in of a registry that can't answer at first: its session is
neither left behind nor begun a second time."""
import hashlib
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

SIJIL = os.path.abspath(sys.argv[1])
DATA = os.urandom(5 << 20)  # more than goes in one request without a session
DIGEST = "sha256:" + hashlib.sha256(DATA).hexdigest()
OLD = "/v2/main/models/x/blobs/uploads/old"


class Peer(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, folder):
        self.ca_file = os.path.join(folder, "tls.pem")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "9", "-subj", "/CN=127.0.0.1",
                        "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", os.path.join(folder, "tls.key"), "-out", self.ca_file], check=True, capture_output=True)
        super().__init__(("127.0.0.1", 0), Handler)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(self.ca_file, os.path.join(folder, "tls.key"))
        self.begin([], 0)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def begin(self, faults, kept):
        """`faults`: the statuses of the first requests for the old session; `kept`: how many bytes it has."""
        self.faults, self.sessions, self.blobs, self.asked = list(faults), {OLD: DATA[:kept]}, {}, []

    def get_request(self):
        connection, address = super().get_request()
        return self.context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False), address

    def handle_error(self, request, client_address):
        pass


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *words):
        pass

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def of_session(self, path, body, digest):
        server = self.server
        if path not in server.sessions:
            self.answer(404, b'{"errors": [{"code": "BLOB_UPLOAD_UNKNOWN"}]}')
        elif self.command == "DELETE":
            del server.sessions[path]
            self.answer(204)
        elif self.command == "PUT":
            server.blobs[digest] = server.sessions.pop(path) + body
            self.answer(201)
        else:
            server.sessions[path] += body
            self.answer(202 if self.command == "PATCH" else 204, Location=path, Range=f"0-{max(len(server.sessions[path]) - 1, 0)}")

    def handle_all(self):
        server = self.server
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path, _, query = self.path.partition("?")
        server.asked.append(f"{self.command} {path}")
        found = re.search(r"digest=(\S+)", query.replace("%3A", ":").replace("%3a", ":"))
        if path == "/token":
            self.answer(200, json.dumps({"token": "token", "expires_in": 300}).encode())
        elif path == OLD and server.faults:
            self.answer(server.faults.pop(0))
        elif path.endswith("/blobs/uploads/"):
            server.sessions[path + "new"] = b""
            self.answer(202, Location=path + "new")
        elif "/blobs/uploads/" in path:
            self.of_session(path, body, found and found[1])
        elif "/blobs/" in path:
            self.answer(200 if path.rsplit("/", 1)[1] in server.blobs else 404)
        elif "/manifests/" in path:
            self.answer(201 if self.command == "PUT" else 404, Docker_Content_Digest="sha256:" + hashlib.sha256(body).hexdigest())
        else:
            self.answer(200)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = handle_all


class World:
    def __init__(self, folder):
        self.folder, self.peer = folder, Peer(folder)
        self.host = f"127.0.0.1:{self.peer.server_port}"
        self.environment = {**os.environ, "HOME": folder, "XDG_CONFIG_HOME": folder, "XDG_CACHE_HOME": folder, "SIJIL_USERNAME": "robot$main+ci",
                            "SIJIL_PASSWORD": "secret", "SIJIL_CA_FILE": self.peer.ca_file}
        name = hashlib.sha256(f"{self.host}\nmain/models/x\n{DIGEST}".encode()).hexdigest()
        self.note = os.path.join(folder, "sijil", "upload-" + name)
        os.makedirs(os.path.dirname(self.note), exist_ok=True)
        with open(os.path.join(folder, "model.bin"), "wb") as file:
            file.write(DATA)

    def push(self, faults, kept, code=0):
        self.peer.begin(faults, kept)
        with open(self.note, "w", encoding="ascii") as file:
            file.write(OLD)
        done = subprocess.run([SIJIL, "push", "model.bin", self.host + "/main/models/x:v1"], cwd=self.folder, env=self.environment, capture_output=True,
                              text=True, timeout=120, check=False)
        assert done.returncode == code, (done.returncode, done.stdout, done.stderr, self.peer.asked)
        return done.stderr, self.peer.asked

    def whole(self):
        assert self.peer.blobs.get(DIGEST) == DATA, self.peer.asked
        assert OLD not in self.peer.sessions and not os.path.exists(self.note), self.peer.asked


def a_busy_registry_is_asked_again(world):
    """Seen under load: one 503 for the question, and the upload began anew beside the old session."""
    said, asked = world.push([503, 503], 1 << 20)
    assert "pushed (resumed)" in said and said.count("trying again in") == 2, said
    assert asked.count(f"GET {OLD}") == 3 and asked.count(f"PATCH {OLD}") == 1, asked
    world.whole()


def an_empty_session_is_ended_also_by_a_busy_registry(world):
    """The question is answered, and the end of the session is not at first."""
    original, left = Handler.of_session, [503, 409]

    def of_session(handler, path, body, digest):
        if handler.command == "DELETE" and left:
            handler.answer(left.pop(0))
        else:
            original(handler, path, body, digest)
    Handler.of_session = of_session
    try:
        said, asked = world.push([], 0)
    finally:
        Handler.of_session = original
    assert asked.count(f"DELETE {OLD}") == 3 and "resumed" not in said, (said, asked)
    world.whole()


def a_registry_that_stays_busy_keeps_the_note(world):
    """Its session goes on with the next push."""
    began = time.monotonic()
    said, asked = world.push([503] * 4, 1 << 20, code=5)
    assert asked.count(f"GET {OLD}") == 4 and f"PATCH {OLD}" not in asked and os.path.exists(world.note), (said, asked)
    assert time.monotonic() - began < 60
    said, _ = world.push([], 1 << 20)
    assert "pushed (resumed)" in said, said
    world.whole()


def a_refusal_is_final(world):
    """404: the session is gone, and nobody is asked twice."""
    said, asked = world.push([404], 1 << 20)
    assert asked.count(f"GET {OLD}") == 1 and "trying again" not in said, (said, asked)
    assert world.peer.blobs[DIGEST] == DATA


def main():
    with tempfile.TemporaryDirectory() as folder:
        world = World(folder)
        for test in (a_busy_registry_is_asked_again, an_empty_session_is_ended_also_by_a_busy_registry, a_registry_that_stays_busy_keeps_the_note, a_refusal_is_final):
            test(world)
            print("ok", test.__name__)


main()
