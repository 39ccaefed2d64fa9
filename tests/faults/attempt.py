"""One request to a gateway that fails on demand, and its allowed answers."""
import base64
import hashlib
import http.client
import json
import os
import ssl
import time

from plan import Bad
from sijil_test import Client, insist

PATIENCE_S = 40   # longer than the gateway waits for its own log
GONE = (OSError, http.client.HTTPException, ssl.SSLError)
REFUSALS = (500, 503, 507)  # a correct request is never called bad, unknown or forbidden because something is lacking


class Patient(Client):
    """Requests around the tested one. They may be repeated, because a machine that is slow for a moment refuses them."""
    is_direct = False

    def call(self, method, path, body=None, headers=None, **more):
        def once():
            return super(Patient, self).call(method, path, body, headers, **more)
        if Patient.is_direct or path == "/readyz" or not isinstance(body, (bytes, str, type(None))):
            return once()
        return insist(once, PATIENCE_S)


class World:
    def __init__(self, machine):
        self.machine, self.count = machine, 0
        self.deleted = set()  # digests of blobs that may be in no repository until they are collected
        self.admin = Patient(machine, machine.admin)
        self.wait_ready()
        robot = self.admin.api("POST", "/robots", {"organisation": "main", "name": "ci"})
        self.admin.api("POST", "/bindings", {"robot": robot["id"], "role": "publisher", "scope": "main/models"})
        self.robot_id = robot["id"]
        self.ci = Patient(machine, (robot["name"], robot["secret"]))
        self.repository = self.ci.repository("main/models/there")
        self.ci.repository("main/models/other").push_blob(b"so that it is there")
        self.data = os.urandom(300_000)
        self.digest = self.repository.push_blob(self.data)
        self.manifest = self.repository.manifest(self.data)
        answer = self.repository.put_manifest("v1", self.manifest)
        assert answer.status == 201, answer.body
        self.ci.token("registry:catalog:*")
        self.admin.token("registry:admin:*")

    def wait_ready(self):
        until = time.monotonic() + 60
        while self.admin.call("GET", "/readyz").status != 200:
            assert time.monotonic() < until, "not ready"
            time.sleep(0.1)

    def keep_tokens(self):
        """Keeps tokens from expiring during a tested request, because the request for a new one would be tested with it."""
        for client in (self.admin, self.ci):
            for scope, (_, ends) in list(client.tokens.items()):
                if ends < time.time() + 120:
                    client.token(scope, fresh=True)

    def fresh(self):
        self.count += 1
        return self.count

    def bytes(self, length):
        return hashlib.sha256(str(self.fresh()).encode()).digest() * (length // 32 + 1)

    def basic(self):
        return {"Authorization": "Basic " + base64.b64encode(":".join(self.ci.login).encode()).decode()}


class Try:
    """One request. `call` sends it, `right` checks a good answer, `after` checks the state and gets whether the answer was good. `repeated`
    is also correct at the second try, because the first may have been done and its answer lost. `instead` is also correct when something
    fails."""

    def __init__(self, call, good=200, right=None, after=None, repeated=(), instead=()):
        self.call, self.good, self.right, self.after = call, good, right, after
        self.repeated, self.instead = repeated, instead


def reading(path, right=None, good=200, method="GET", headers=None, who="repository"):
    def case(world):
        if who == "repository":
            return Try(lambda: world.repository.call(method, path(world), headers=headers), good,
                       right and (lambda answer: right(world, answer)))
        return Try(lambda: world.admin.call(method, "/api/v1" + path(world), headers=headers, scope="registry:admin:*"),
                   good, right and (lambda answer: right(world, answer)))
    return case


def api_reading(path, member=None):
    return reading(lambda world: path, lambda world, answer: member is None or answer.json[member] is not None, who="api")


def changing(method, path, document, good, repeated=(), right=None, after=None):
    """A request to the API with new names each time: `path` and `document` may be functions of its number."""
    def case(world):
        number = world.fresh()
        target = path(world, number) if callable(path) else path
        body = document(world, number) if callable(document) else document
        text = json.dumps(body) if isinstance(body, dict) else body
        headers = {"Content-Type": "application/json"} if body is not None else {}
        return Try(lambda: world.admin.call(method, "/api/v1" + target, text, headers, scope="registry:admin:*"), good,
                   right, after and (lambda done: after(world, number, done)), repeated)
    return case


def plain(path):
    return lambda world: Try(lambda: world.admin.call("GET", path), 200)


def call(attempt):
    """The answer, or None if the connection broke. A time-out is a failure of the test."""
    begun = time.monotonic()
    Patient.is_direct = True
    try:
        return attempt.call()
    except TimeoutError as silent:
        raise Bad("no answer at all") from silent
    except GONE:
        if time.monotonic() - begun > PATIENCE_S:
            raise Bad(f"the connection ended after {time.monotonic() - begun:.0f} s") from None
        return None
    finally:
        Patient.is_direct = False


def is_good(attempt, answer):
    return answer is not None and answer.status in (attempt.good if isinstance(attempt.good, tuple) else (attempt.good,))


def check_answer(attempt, answer):
    if answer is None:
        return
    if is_good(attempt, answer):
        if attempt.right and not attempt.right(answer):
            raise Bad(f"a wrong answer: {answer.status} {answer.body[:300]}")
        return
    if answer.status in attempt.instead:
        return
    if answer.status not in REFUSALS:
        raise Bad(f"a good request is answered {answer.status} {answer.body[:300]}")
    kind = answer["Content-Type"] or ""
    if kind.startswith("text/plain") or answer.body == b"":
        return
    document = answer.json
    if kind == "application/problem+json" and document["status"] == answer.status and document["title"]:
        return
    if kind == "application/json" and ("errors" in document or "error" in document):
        return
    if "status" in document or "ready" in document:  # of the probes
        return
    raise Bad(f"not a well-formed error: {kind} {answer.body[:300]}")


def check_event(world, answer):
    if answer is None or answer["Sijil-Audit"] is None:
        return
    sequence = int(answer["Sijil-Audit"].rsplit("/", 1)[1])
    if world.machine.sql(f"SELECT count(*) FROM audit_entry WHERE seq = {sequence}") != "1":
        raise Bad(f"event {sequence} was named and is not in the log")


def do_again(world, attempt, what):
    """Repeats the request without failures: recovery may take a moment, but needs no restart."""
    until = time.monotonic() + PATIENCE_S
    while True:
        answer = call(attempt)
        if is_good(attempt, answer) or (answer is not None and answer.status in attempt.repeated):
            return
        if answer is not None and answer.status not in REFUSALS:
            raise Bad(f"{what}, it is answered {answer.status} {answer.body[:300]}")
        if time.monotonic() > until:
            raise Bad(f"{what}, it still does not work: {answer and (answer.status, answer.body[:300])}; "
                      f"{readiness(world)}")
        time.sleep(0.05)
        world.machine.revive_keyd()


def is_settled(world):
    """Whether the gateway's own connections are back; before that the state can't be read."""
    do_again(world, Try(lambda: world.repository.call("GET", "tags/list")), "afterwards")
    do_again(world, Try(lambda: world.admin.call("GET", "/api/v1/projects", scope="registry:admin:*")), "afterwards")


def readiness(world):
    try:
        return world.admin.call("GET", "/readyz").body
    except GONE as why:
        return why
