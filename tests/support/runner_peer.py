"""The gateway's routes for runners, and its blobs and manifests, in the process of a test: tests/runner/served_runs.py. It decides nothing; it notes
what a runner says, and fails where it is told to.
"""
import collections
import http.server
import json
import os
import re
import ssl
import subprocess
import threading
import time
import urllib.parse

from runner_registry import sha256

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
RUNS = re.compile(r"/api/v1/runner/runs/([0-9a-f-]{36})/(\w+)")
BLOBS = re.compile(r"/v2/(.+)/blobs/(sha256:[0-9a-f]{64})")


class Run:
    """What the runner said of one run."""

    def __init__(self):
        self.log, self.heartbeats, self.tokens = b"", [], 0
        self.has_started, self.refusal, self.result, self.results = False, None, None, 0
        self.refusals, self.refusal_status = 0, 204
        self.certificates = {}  # by attempt
        self.stop = ""  # why the run must stop
        self.checkpoints = []  # their manifests

    def certify(self, body):
        """A runner certifies one key for an attempt, before the program begins."""
        assert self.certificates.setdefault(body["attempt"], body["certificate"]) == body["certificate"], "another certificate"


class Peer(http.server.ThreadingHTTPServer):
    handler = None  # of a test; else Handler
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, folder, authority):
        """`authority`: PEM of the authority of clients."""
        self.folder = folder
        for name, content in (("runners.pem", authority),):
            with open(os.path.join(folder, name), "wb") as file:
                file.write(content)
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "99", "-subj",
                        "/CN=peer.example", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", os.path.join(folder, "tls.key"), "-out",
                        os.path.join(folder, "tls.pem")], check=True, capture_output=True)
        super().__init__(("127.0.0.1", 0), self.handler or Handler)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_3
        self.context.load_cert_chain(os.path.join(folder, "tls.pem"), os.path.join(folder, "tls.key"))
        self.context.load_verify_locations(os.path.join(folder, "runners.pem"))
        self.context.verify_mode = ssl.CERT_REQUIRED
        self.changed = threading.Condition()
        self.leases, self.asked = collections.deque(), []
        self.runs = collections.defaultdict(Run)
        self.blobs, self.manifests, self.uploaded, self.fetched = {}, {}, {}, []
        self.faults = {}  # (route) -> list of what happens to the next requests
        self.gates = {}   # (route) -> event that such requests wait for
        self.arrived = collections.Counter()  # requests of a route
        self.certificates = []
        self.is_suspended, self.lost_leases = False, 0
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def ca(self):
        with open(os.path.join(self.folder, "tls.pem"), "rb") as file:
            return file.read()

    def get_request(self):
        connection, address = super().get_request()
        return self.context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False), address

    def handle_error(self, request, client_address):
        pass  # clients are killed here

    # ---- for tests ----

    def give(self, lease, text=None):
        with self.changed:
            self.leases.append(text or lease.text())
            self.changed.notify_all()
        return self.runs[lease.run]

    def push(self, name, files, *, titles=None, annotations=None):
        """An artifact of these files; its repository and digest. `annotations`: of its manifest."""
        layers = []
        for title, content in files.items():
            self.blobs[sha256(content)] = content
            layers.append({"mediaType": "application/octet-stream", "digest": sha256(content), "size": len(content),
                           "annotations": {"org.opencontainers.image.title": (titles or {}).get(title, title)}})
        text = json.dumps({"schemaVersion": 2, "mediaType": MANIFEST, "layers": layers,
                           "config": {"mediaType": "application/vnd.oci.empty.v1+json", "digest": sha256(b"{}"), "size": 2},
                           **({} if annotations is None else {"annotations": annotations})}).encode()
        self.manifests[sha256(text)] = text
        return {"repository": f"acme/models/{name}", "digest": sha256(text)}

    def push_image(self, image):
        """A container image (images.py)."""
        text = image.manifest()
        self.blobs.update(image.blobs)
        self.manifests[sha256(text)] = text
        return {"repository": "acme/models/image", "digest": sha256(text)}

    def fail(self, route, *what):
        """The next requests of a route: "close" without an answer, "lose" the answer of what was done, or a status."""
        self.faults.setdefault(route, []).extend(what)

    def hold(self, route):
        """Requests of a route wait until the event is set."""
        self.gates[route] = threading.Event()
        return self.gates[route]

    def wait(self, test, what, seconds=60):
        until = time.monotonic() + seconds
        with self.changed:
            while not test():
                assert time.monotonic() < until, what
                self.changed.wait(0.05)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", **headers):
        if isinstance(body, dict):
            body = json.dumps(body).encode()
        if self.is_lost:
            self.close_connection = True
            return
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def route(self):
        path = urllib.parse.urlsplit(self.path).path
        found = RUNS.fullmatch(path)
        if found:
            return found.group(2)
        return "leases" if path.endswith("/leases") else "blob" if "/blobs/sha256" in path else "upload" if "/uploads/" in path else path.split("/")[-2]

    def handle_all(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        route, self.is_lost = self.route(), False
        self.server.arrived[route] += 1
        if route in self.server.gates:
            self.server.gates[route].wait(60)
        with self.server.changed:
            fault = self.server.faults[route].pop(0) if self.server.faults.get(route) else None
        if fault == "close":
            self.close_connection = True
            return
        if isinstance(fault, int):
            self.answer(fault, {"title": "a fault", "detail": "of the test"})
            return
        self.is_lost = fault == "lose"
        if self.path.startswith("/v2/"):
            self.registry(body)
        else:
            self.runner(route, body)
        with self.server.changed:
            self.server.changed.notify_all()

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = handle_all

    # ---- routes for runners ----

    def runner(self, route, body):
        if route == "leases":
            self.lease(json.loads(body))
        elif route == "log":
            self.take_log(body)
        elif route == "checkpoint":
            self.server.runs[RUNS.fullmatch(urllib.parse.urlsplit(self.path).path).group(1)].checkpoints.append(body)
            self.answer(204)
        elif route == "runner":
            self.server.certificates.append(1)
            self.answer(200, {"certificate": self.server.registry.certificate().decode(), "expires": ""})
        else:
            run = self.run_of(RUNS.fullmatch(urllib.parse.urlsplit(self.path).path).group(1), json.loads(body)["node"])
            if self.is_known():
                getattr(self, "take_" + route)(run, json.loads(body))
            else:
                self.answer(409, {"title": "conflict", "detail": "this is not the newest session of the runner's key: ask for work first"})

    def run_of(self, run_id, _):
        """What is noted of this node of a run."""
        return self.server.runs[run_id]

    def is_known(self):
        return self.headers.get("Sijil-Runner-Session") in {asked["session"] for asked in self.server.asked}

    def lease(self, asked):
        server, until = self.server, time.monotonic() + min(asked["wait_s"], 1)
        with server.changed:
            server.asked.append(asked)
            while not server.leases and not server.is_suspended and time.monotonic() < until:
                server.changed.wait(0.05)
            text = server.leases.popleft() if server.leases and asked["cpus"] > 0 else None  # without room it only names its session
            if text is not None and self.is_lost:
                server.leases.appendleft(text)  # the same lease again
                server.lost_leases += 1
        if server.is_suspended:
            self.answer(409, {"type": "urn:sijil:problem:runner-suspended", "title": "suspended"})
        else:
            self.answer(204 if text is None else 200, text or b"")

    def take_start(self, run, body):
        run.certify(body)
        run.has_started = True
        self.answer(204)

    def take_heartbeat(self, run, body):
        run.heartbeats.append(body)
        more = {"reason": run.stop} if run.stop else {}
        self.answer(200, {"state": "cancelled" if run.stop else "running", "stop": bool(run.stop), "every_ms": 1000, **more})

    def take_token(self, run, _):
        run.tokens += 1
        self.answer(200, {"access_token": "run-token", "expires_in": 600})

    def take_refusal(self, run, body):
        run.refusal = body["refusal"]
        run.refusals += 1
        self.answer(run.refusal_status)

    def take_result(self, run, body):
        assert run.result is None or run.result == body, "another result"
        run.certify(body)
        run.result = body
        run.results += 1
        self.answer(200, {"state": "finishing"})

    def take_log(self, body):
        parts = urllib.parse.urlsplit(self.path)
        query = urllib.parse.parse_qs(parts.query)
        run = self.run_of(RUNS.fullmatch(parts.path).group(1), int(query["node"][0]))
        with self.server.changed:
            if int(query["offset"][0]) != len(run.log):
                self.answer(409, {"title": "another offset", "offset": len(run.log)})
                return
            run.log += body
        self.answer(204)

    # ---- blobs and manifests, under the run's token ----

    def registry(self, body):
        path, _, query = self.path.partition("?")
        found = BLOBS.fullmatch(path)
        if self.headers.get("Authorization") != "Bearer run-token":
            self.answer(401, {"errors": [{"code": "UNAUTHORIZED", "message": "no token of a run"}]})
        elif "/manifests/" in path and self.command == "GET":
            self.server.fetched.append(path.rsplit("/", 1)[1])
            text = self.server.manifests.get(path.rsplit("/", 1)[1])
            self.answer(404 if text is None else 200, text or b"{}", Content_Type=MANIFEST)
        elif "/uploads/" in path:
            self.upload(path, urllib.parse.parse_qs(query), body)
        elif found is None:
            self.answer(405)
        elif self.command == "HEAD":
            self.answer(200 if (found.group(1), found.group(2)) in self.server.uploaded else 404)
        else:
            self.blob(found.group(2))

    def blob(self, digest):
        self.server.fetched.append(digest)
        content = self.server.blobs.get(digest)
        begin = int(re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", "bytes=0-")).group(1))
        if content is None:
            self.answer(404, {"errors": [{"code": "BLOB_UNKNOWN", "message": "no such blob"}]})
        else:
            self.answer(206 if begin else 200, content[begin:])

    def upload(self, path, query, body):
        repository = path[len("/v2/"):].split("/blobs/")[0]
        if self.command == "POST" and "digest" not in query:
            self.answer(202, Location=f"/v2/{repository}/blobs/uploads/1")
            return
        if self.command == "PATCH":
            self.server.partial = body
            self.answer(202, Location=path)
            return
        content = body if self.command == "POST" else getattr(self.server, "partial", b"") + body
        self.server.partial = b""
        assert sha256(content) == query["digest"][0], "an upload has another digest"
        self.server.uploaded[(repository, query["digest"][0])] = content
        self.answer(201, Location=f"/v2/{repository}/blobs/{query['digest'][0]}")
