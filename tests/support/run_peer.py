"""The gateway's routes of training runs, as people call them, in the process of a test: tests/unit/test_run_commands.py. It decides nothing, and fails
where it is told to. Its runs are made by tests/vectors/run.py from docs/formats/run.md.
"""
import base64
import collections
import copy
import hashlib
import http.server
import json
import os
import re
import ssl
import subprocess
import sys
import threading
import urllib.parse
import uuid

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../vectors"))
import run as made  # noqa: E402
from cryptography.hazmat.primitives.asymmetric import ec  # noqa: E402

RUNS = re.compile(rf"/api/v1/projects/{made.PROJECT}/runs(?:/([0-9a-f-]{{36}})(?:/(\w+(?:/manifest)?))?)?")
PIECE = 50  # bytes of a log in one answer
KEY, ATTEMPT_KEY = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())


class Run:
    """A run in a state, with what was signed. `looks`: members that each further look at it changes; `signed_log`: another one than the registry has;
    `node`: whose result there is, and how it ended."""

    def __init__(self, outputs=None, state="succeeded", looks=(), log=b"", signed_log=None, node=0, outcome="succeeded", **request):
        self.id = request.pop("run", str(uuid.uuid4()))
        self.node, self.outcome = node, outcome
        self.requested = made.seal(made.TYPES["request"], made.request(run=self.id, **request), KEY)
        self.description = {"id": self.id, "state": state, "request": made.digest(self.requested), "requester": made.REQUESTER, "pool": "uae-gpu",
                            "approvals": 0, "approvals_wanted": 0, "requested": "2026-11-23T09:00:00.000Z", "attempt": 1, "attempts": 3}
        self.envelopes = [("request", self.requested)]
        whole = log if signed_log is None else signed_log
        layer = {"mediaType": "text/plain", "digest": "sha256:" + hashlib.sha256(whole).hexdigest(), "size": len(whole)}
        self.manifest = json.dumps({"schemaVersion": 2, "layers": [layer]}).encode()
        if state != "awaiting approval":
            event = {"number": 5, "size": 9, "root": made.hex_of("root")}
            self.envelopes.append(("order", made.seal(made.TYPES["order"], made.order(self.requested, [], event), KEY)))
        if outputs is not None:
            self.envelopes.append(("result", self.result(outputs)))
        if state in ("succeeded", "failed", "cancelled", "refused", "quarantined", "expired"):
            self.description["ended"] = "2026-11-23T09:01:05.000Z"
        self.looks, self.logs = collections.deque(looks), {1: log}
        self.log_ends = True

    def result(self, outputs):
        lease = {**made.lease(self.envelopes[1][1], made.thumbprint(made.point_of(KEY.public_key())), node=self.node), "run": self.id}
        leased = made.seal(made.TYPES["lease"], lease, KEY)
        certified = made.seal(made.TYPES["certificate"], made.certificate(self.envelopes[1][1], leased, KEY, ATTEMPT_KEY), KEY)
        value = copy.deepcopy(made.result(self.envelopes[1][1], leased, certified))
        value["subject"] = [{"name": name, "digest": {"sha256": made.hex_of(text)}} for name, text in sorted(outputs.items())] + value["subject"][-1:]
        value["predicate"]["runDetails"]["sijil_outcome"]["status"] = self.outcome
        value["subject"][-1]["digest"]["sha256"] = hashlib.sha256(self.manifest).hexdigest()
        value["predicate"]["buildDefinition"]["externalParameters"]["run"] = self.id
        value["predicate"]["runDetails"]["metadata"]["invocationId"] = f"urn:uuid:{self.id}"
        return made.seal(made.STATEMENT, value, ATTEMPT_KEY)

    def look(self):
        if self.looks:
            self.description.update(self.looks.popleft())
        rows = [{"kind": kind, "digest": made.digest(text), "principal": made.REQUESTER, "envelope": text} for kind, text in self.envelopes]
        is_admitted = self.description["state"] == "succeeded" and any(kind == "result" for kind, _ in self.envelopes)
        return {**self.description, **({"outputs": []} if is_admitted else {}), "envelopes": rows}


class Peer(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, folder):
        self.ca_file = os.path.join(folder, "tls.pem")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "9", "-subj",
                        "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", os.path.join(folder, "tls.key"), "-out",
                        self.ca_file], check=True, capture_output=True)
        super().__init__(("127.0.0.1", 0), Handler)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_3
        self.context.load_cert_chain(self.ca_file, os.path.join(folder, "tls.key"))
        self.runs, self.bundles = {}, {}
        self.self = None  # who asks, if it is somebody else than alice
        self.next_run = None  # the words of Run() for the run that is asked for next
        self.asked = []  # method, path
        self.false = {}  # members of the next answers to requests for runs
        self.faults = collections.defaultdict(list)  # the last word of a path -> what happens to the next requests: "close", "cut" or a status
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def get_request(self):
        connection, address = super().get_request()
        return self.context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False), address

    def handle_error(self, request, client_address):
        pass  # a client that gives up

    def add(self, run):
        self.runs[run.id] = run
        return run


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    fault = None

    def log_message(self, *words):
        pass

    def answer(self, status, body=b"", **headers):
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[:len(body) // 2] if self.fault == "cut" else body)
        if self.fault == "cut":
            self.close_connection = True

    def log_of(self, run, query):
        attempt = int(query.get("attempt", [max(run.logs)])[0])
        if attempt not in run.logs:
            self.answer(404, {"title": "not found"})
            return
        kept, offset = run.logs[attempt], int(query["offset"][0])
        self.answer(200, kept[offset:offset + PIECE], Sijil_Log_Offset=offset, Sijil_Log_Size=len(kept), Sijil_Run_State=run.description["state"],
                    Sijil_Log_End="true" if run.log_ends and offset + PIECE >= len(kept) else "false", Content_Type="application/octet-stream")

    def create(self, body):
        asked = made.opened(body)[1]
        run = self.server.add(Run(run=asked["run"], **(self.server.next_run or {"state": "requested"})))
        run.asked = asked
        self.answer(201, {**run.look(), **self.server.false})

    def handle_all(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        place = urllib.parse.urlsplit(self.path)
        found, query = RUNS.fullmatch(place.path), urllib.parse.parse_qs(place.query)
        self.server.asked.append((self.command, self.path))
        faults = self.server.faults[place.path.rsplit("/", 1)[1] if found is None or found[2] else "run"]
        self.fault = faults.pop(0) if faults else None
        run = None if found is None else self.server.runs.get(found[1])
        if self.fault == "close":
            self.close_connection = True
        elif isinstance(self.fault, int):
            self.answer(self.fault, {"title": "a fault", "detail": "of the test"})
        elif place.path == "/token":
            self.answer(200, {"token": "token", "expires_in": 300})
        elif place.path == "/api/v1/self":
            self.answer(200, self.server.self or {"id": "x", "issuer": "https://id.example", "name": "alice", "audience": made.ORIGIN})
        elif found and self.command == "POST":
            self.create(body)
        elif found and found[2] == "bundle" and found[1] in self.server.bundles:
            self.answer(200, self.server.bundles[found[1]])
        elif found and found[1] is None:
            self.answer(200, {"runs": [one.description for one in reversed(self.server.runs.values())]})
        elif run is not None and found[2] == "log":
            self.log_of(run, query)
        elif run is not None and found[2] == "log/manifest" and run.manifest and query["attempt"] == ["1"] and query["node"] == [str(run.node)]:
            self.answer(200, run.manifest)
        elif run is not None and found[2] is None:
            self.answer(200, run.look())
        else:
            self.answer(404, {"title": "not found", "detail": "no such thing"})

    do_GET = do_POST = handle_all


def payload(envelope):
    return json.loads(base64.b64decode(json.loads(envelope)["payload"]))
