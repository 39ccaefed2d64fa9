#!/usr/bin/env python3
"""usage: runner_links.py PROGRAM   A program that links the client's session, supervision, sandbox, journal and DSSE, and no command of
`sijil`.

The registry here breaks the line of the first push and of the first fetch. The program has no HOME: its notes lie in the folder that it
names."""
import hashlib
import http.server
import json
import os
import ssl
import subprocess
import sys
import tempfile
import threading

SIZE = 5 << 20
DIGEST = "sha256:" + hashlib.sha256(bytes(SIZE)).hexdigest()
CUT_AT = 1 << 20
LOCATION = "/v2/acme/models/runs/blobs/uploads/1"


class Registry:
    """It has the bytes of the one upload, and a list of its requests."""
    held, whole, begun, resumed_at, ranges, is_cutting = 0, False, 0, [], [], True


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, headers=None, body=b""):
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def cut(self):
        self.close_connection = True
        self.connection.close()

    def do_HEAD(self):
        self.answer(200 if Registry.whole else 404)

    def do_GET(self):
        if self.path.startswith("/token"):
            return self.answer(200, {"Content-Type": "application/json"}, json.dumps({"access_token": "t", "expires_in": 300}).encode())
        if self.path.startswith("/.well-known/"):
            return self.answer(404)  # it publishes nothing about itself
        if self.path == LOCATION:
            Registry.resumed_at.append(Registry.held)
            return self.answer(204, {"Range": f"0-{Registry.held - 1}", "Location": LOCATION})
        asked = self.headers.get("Range")
        Registry.ranges.append(asked)
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked else 0
        self.send_response(206 if asked else 200)
        self.send_header("Content-Length", str(SIZE - start))
        self.end_headers()
        if asked is None:
            self.wfile.write(bytes(CUT_AT))
            return self.cut()
        self.wfile.write(bytes(SIZE - start))
        return None

    def do_POST(self):
        Registry.begun += 1
        self.answer(202, {"Location": LOCATION, "Range": "0-0"})

    def do_PATCH(self):
        start, _ = self.headers["Content-Range"].split("-")
        assert int(start) == Registry.held, (start, Registry.held)
        left = int(self.headers["Content-Length"])
        while left > 0:
            if Registry.is_cutting and Registry.held >= CUT_AT:
                return self.cut()
            piece = self.rfile.read(min(left, 65536))
            Registry.held += len(piece)
            left -= len(piece)
        return self.answer(202, {"Location": LOCATION, "Range": f"0-{Registry.held - 1}"})

    def do_PUT(self):
        Registry.whole = Registry.held == SIZE and DIGEST.replace(":", "%3A") in self.path
        self.answer(201 if Registry.whole else 400)


def serve(work):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
    "/CN=localhost",
                    "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", f"{work}/key.pem", "-out", f"{work}/ca.pem"], check=True,
                    capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{work}/ca.pem", f"{work}/key.pem")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_address[1]


def run(program, port, work, number, status, said):
    # Without HOME and XDG_CACHE_HOME. The sanitizers inspect their own process, which sandbox_prepare() forbids.
    kept = {"ASAN_OPTIONS": "detect_leaks=0"}
    done = subprocess.run([program, f"127.0.0.1:{port}", f"{work}/ca.pem", f"{work}/state", f"{work}/notes", str(number)], env=kept,
    capture_output=True,
                          text=True, timeout=120, cwd="/", check=False)
    assert (done.returncode, done.stdout.split()) == (status, said), (done.returncode, done.stdout, done.stderr)


def main():
    program = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as work:
        for folder in ("state", "notes"):
            os.mkdir(f"{work}/{folder}", 0o700)
        port = serve(work)
        run(program, port, work, 7, 4, ["number", "ran", "signed"])
        notes = os.listdir(f"{work}/notes")
        assert len(notes) == 1 and notes[0].startswith("upload-"), notes
        assert os.stat(f"{work}/notes/{notes[0]}").st_mode & 0o777 == 0o600
        run(program, port, work, 7, 3, [])  # the number counts once, also in another process
        Registry.is_cutting = False
        run(program, port, work, 8, 0, ["number", "ran", "signed", "pushed", "fetched"])
        assert Registry.begun == 1 and Registry.resumed_at[-1] >= CUT_AT, (Registry.begun, Registry.resumed_at)
        assert Registry.whole and len(Registry.ranges) == 2 and Registry.ranges[1].startswith("bytes="), Registry.ranges
        assert os.listdir(f"{work}/notes") == []
        left = subprocess.run(["pgrep", "-xf", "sleep 1000"], capture_output=True, text=True, check=False).stdout.split()
        assert not [pid for pid in left if os.path.exists(f"/proc/{pid}") and parent_is_gone(pid)], left
    print("a program that is not sijil runs, signs, pushes and fetches")


def parent_is_gone(pid):
    """A process without a parent: the program should have ended it."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        return file.read().rsplit(")", 1)[1].split()[1] == "1"


if __name__ == "__main__":
    main()
