#!/usr/bin/env python3
"""Whole requests over TLS against a gateway whose n-th allocation, file call, query or socket call fails.

Each case is one request. It is tried with each failure of its way in turn; after each the gateway lives, the answer was
right or a well-formed 5xx (or none: a closed connection), nothing is half done, and the same request works then.

usage: gateway.py [CASE...]   a sample of the failures; all of them with SIJIL_FAULTS_ALL=1 (hours). SIJIL_FAULTS_SEED
repeats a sample. SIJIL_FAULTS_PROGRAM=sijil-keyd lets the key process fail instead. CASE:KIND:N is one failure, CASE:KIND:N- all from the n-th on. SIJIL_FAULT_TRACE=1 shows in the log
where each happens."""
import base64
import hashlib
import http.client
import json
import os
import random
import ssl
import sys
import time
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../scenario"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import faults
import sijil_test
from faults import KINDS, REGION, Machine
from sijil_test import Client, sha256

ALL = os.environ.get("SIJIL_FAULTS_ALL") == "1"
SAMPLE = int(os.environ.get("SIJIL_FAULTS_SAMPLE", "2"))  # of each case and kind
SEED = int(os.environ.get("SIJIL_FAULTS_SEED", str(int(time.time()))))
PROGRAM = os.environ.get("SIJIL_FAULTS_PROGRAM", "sijild")
PATIENCE_S = 20   # longer than the gateway waits for its own log
GONE = (OSError, http.client.HTTPException, ssl.SSLError)
IMAGE = "application/vnd.oci.image.manifest.v1+json"
REFUSALS = (500, 503, 507)  # a good request is never called bad, unknown or forbidden because something lacks

BROKEN_INVARIANTS = """
SELECT concat_ws('; ',
  CASE WHEN (SELECT size FROM audit_log) <> (SELECT count(*) FROM audit_entry)
         OR (SELECT size FROM audit_log) <> (SELECT max(seq) + 1 FROM audit_entry) THEN 'the log has a gap' END,
  CASE WHEN EXISTS (SELECT FROM manifest_reference r WHERE NOT is_manifest AND NOT EXISTS
        (SELECT FROM repository_blob b WHERE b.repository_id = r.repository_id AND b.digest = r.digest))
       THEN 'a manifest without its blob' END,
  CASE WHEN EXISTS (SELECT FROM manifest_reference r WHERE is_manifest AND NOT EXISTS
        (SELECT FROM manifest m WHERE m.repository_id = r.repository_id AND m.digest = r.digest))
       THEN 'a manifest without its child' END,
  CASE WHEN EXISTS (SELECT FROM manifest m WHERE NOT EXISTS
        (SELECT FROM manifest_reference r WHERE r.repository_id = m.repository_id AND r.manifest_digest = m.digest))
       THEN 'a manifest without its references' END,
  CASE WHEN EXISTS (SELECT FROM blob JOIN abandoned_object USING (blob_id)) THEN 'a blob that is abandoned' END,
  CASE WHEN EXISTS (SELECT FROM blob JOIN upload USING (blob_id)) THEN 'a blob that is still an upload' END,
  CASE WHEN EXISTS (SELECT FROM blob WHERE damaged_at IS NOT NULL) THEN 'a good blob is called damaged' END,
  CASE WHEN EXISTS (SELECT FROM blob b WHERE NOT EXISTS (SELECT FROM repository_blob r WHERE r.blob_id = b.blob_id)
                    AND b.created_at > now() - interval '1 second' AND NOT %(unlinked)s)
       THEN 'a blob that no repository has' END)
"""


WORLD = []


class World:
    def __init__(self, machine):
        WORLD.append(self)
        self.machine, self.count = machine, 0
        self.admin = Client(machine, machine.admin)
        self.wait_ready()
        robot = self.admin.api("POST", "/robots", {"organisation": "main", "name": "ci"})
        self.admin.api("POST", "/bindings", {"robot": robot["id"], "role": "publisher", "scope": "main/models"})
        self.robot_id = robot["id"]
        self.ci = Client(machine, (robot["name"], robot["secret"]))
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

    def fresh(self):
        self.count += 1
        return self.count

    def bytes(self, length):
        return hashlib.sha256(str(self.fresh()).encode()).digest() * (length // 32 + 1)

    def basic(self):
        return {"Authorization": "Basic " + base64.b64encode(":".join(self.ci.login).encode()).decode()}


class Try:
    """One request: `call` sends it, `right` looks at a good answer, `after` at the state, given whether it was good;
    a second time `repeated` is an answer as well (it was done, though nobody heard), and `instead` is one that is as right
    when something fails."""

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
    """A request to the API with names of its own each time: `path` and `document` may be functions of its number."""
    def case(world):
        number = world.fresh()
        target = path(world, number) if callable(path) else path
        body = document(world, number) if callable(document) else document
        text = json.dumps(body) if isinstance(body, dict) else body
        headers = {"Content-Type": "application/json"} if body is not None else {}
        return Try(lambda: world.admin.call(method, "/api/v1" + target, text, headers, scope="registry:admin:*"), good,
                   right, after and (lambda done: after(world, number, done)), repeated)
    return case


# ---- uploads ----

def upload_begin(world):
    return Try(lambda: world.repository.call("POST", "blobs/uploads/"), 202, lambda answer: answer["Location"] is not None)


def is_whole(world, data):
    answer = world.repository.call("GET", "blobs/" + sha256(data))
    return answer.status == 404 or (answer.status == 200 and answer.body == data)


def must_be_there(world, data):
    def after(done):
        answer = world.repository.call("GET", "blobs/" + sha256(data))
        if done or answer.status != 404:
            assert answer.status == 200 and answer.body == data, ("the blob", answer.status, len(answer.body))
    return after


def push_at_once(length):
    def case(world):
        data = world.bytes(length)
        return Try(lambda: world.repository.call("POST", "blobs/uploads/?digest=" + sha256(data), data,
                                                 {"Content-Type": "application/octet-stream"}), 201,
                   after=must_be_there(world, data))
    return case


def push_chunked(world):
    """One PATCH, chunked, from wherever the upload is; and its end once it passed."""
    data = world.bytes(300_000)
    location = world.repository.begin()

    def offset():
        answer = world.repository.call("GET", location)
        assert answer.status == 204, ("the upload", answer.status, answer.body)
        return sijil_test.bytes_kept(answer)

    def call():
        start = state["start"]
        pieces = (data[at:at + 40_000] for at in range(start, len(data), 40_000))
        return world.repository.call("PATCH", location, pieces if start == 0 else data[start:],
                                     {"Content-Type": "application/octet-stream",
                                      **({"Content-Range": f"{start}-{len(data) - 1}"} if start else {})},
                                     encode_chunked=start == 0)

    def after(done):
        state["start"] = offset()
        assert not done or state["start"] == len(data), (done, state["start"])
        if state["start"] == len(data):  # all came, though perhaps nobody heard: nothing is left to send
            answer = world.repository.close(location, sha256(data))
            assert answer.status == 201, ("the end", answer.status, answer.body)
            must_be_there(world, data)(True)
            state["ended"] = True
    state = {"start": 0, "ended": False}
    attempt = Try(call, 202, after=after)
    attempt.is_over = lambda: state["ended"]
    return attempt


def push_end(world):
    data = world.bytes(150_000)
    location = world.repository.begin()
    answer = world.repository.patch(location, data[:100_000], 0)
    assert answer.status == 202, answer.status
    location = answer["Location"]

    def after(done):
        must_be_there(world, data)(done)
        if is_pushed(world, data):
            return
        answer = world.repository.call("GET", location)
        assert answer.status == 204, ("the upload", answer.status, answer.body)
        state["rest"] = data[sijil_test.bytes_kept(answer):]
    state = {"rest": data[100_000:]}
    attempt = Try(lambda: world.repository.close(location, sha256(data), state["rest"]), 201, after=after)
    attempt.is_over = lambda: is_pushed(world, data)
    return attempt


def is_pushed(world, data):
    return world.repository.call("HEAD", "blobs/" + sha256(data)).status == 200


def upload_status(world):
    location = world.repository.begin()
    return Try(lambda: world.repository.call("GET", location), 204)


def upload_cancel(world):
    location = world.repository.begin()
    return Try(lambda: world.repository.call("DELETE", location), 204, repeated=(404,))


def blob_mount(world):
    data = world.bytes(1000)
    world.repository.push_blob(data)
    other = world.ci.repository("main/models/other")
    scope = "repository:main/models/other:pull,push repository:main/models/there:pull"
    query = "blobs/uploads/?mount=" + urllib.parse.quote(sha256(data)) + "&from=main%2Fmodels%2Fthere"

    def after(done):
        answer = other.call("GET", "blobs/" + sha256(data))
        assert answer.body == data if done else answer.status in (200, 404), (done, answer.status)
    return Try(lambda: other.call("POST", query, scope=scope), 201, after=after, instead=(202,))  # then it is uploaded


def blob_delete(world):
    data = world.bytes(1000)
    world.repository.push_blob(data)

    def after(done):
        assert not done or not is_pushed(world, data)
        assert is_whole(world, data)
    return Try(lambda: world.repository.call("DELETE", "blobs/" + sha256(data)), 202, after=after, repeated=(404,))


# ---- manifests ----

def manifest_of(world, number):
    document = json.loads(world.manifest)
    document["annotations"] = {"number": str(number)}
    return json.dumps(document).encode()


def manifest_put(world):
    number = world.fresh()
    manifest, tag = manifest_of(world, number), f"t{number}"

    def after(done):
        by_tag = world.repository.call("GET", "manifests/" + tag)
        by_digest = world.repository.call("GET", "manifests/" + sha256(manifest))
        assert by_tag.status == by_digest.status, ("half a push", by_tag.status, by_digest.status)
        assert not done or by_tag.status == 200
        assert by_tag.status == 404 or by_tag.body == manifest == by_digest.body
    return Try(lambda: world.repository.put_manifest(tag, manifest), 201, after=after)


def manifest_gone(what):
    def case(world):
        number = world.fresh()
        manifest, tag = manifest_of(world, number), f"t{number}"
        assert world.repository.put_manifest(tag, manifest).status == 201
        target = tag if what == "tag" else sha256(manifest)

        def after(done):
            there = world.repository.call("GET", "manifests/" + tag)
            assert there.status == (404 if done else there.status) and there.status in (200, 404)
            assert there.status == 404 or there.body == manifest
            if what == "tag":
                assert world.repository.call("GET", "manifests/" + sha256(manifest)).body == manifest
        return Try(lambda: world.repository.call("DELETE", "manifests/" + target), 202, after=after, repeated=(404,))
    return case


# ---- the API ----

def label(number):
    return {"class": "confidential"}


def project_is_whole(world, number, done):
    answer = world.admin.call("GET", f"/api/v1/projects/main/p{number}", scope="registry:admin:*")
    assert answer.status == 200 if done else answer.status in (200, 404), answer.status
    assert answer.status == 404 or answer.json["label"] is not None


def made_robot(world, number):
    return world.admin.api("POST", "/robots", {"organisation": "main", "name": f"r{number}"})["id"]


def made_binding(world, number):
    return world.admin.api("POST", "/bindings", {"robot": made_robot(world, number), "role": "consumer",
                                                 "scope": "main/models"})["id"]


def issuer(number):
    return {"url": f"https://issuer{number}.example", "algorithms": ["ES256"],
            "jwks": {"keys": [{"kty": "EC", "crv": "P-256", "kid": "k", "alg": "ES256",
                               "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
                               "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}}


def policy_load(world):
    epoch = int(world.machine.sql("SELECT max(epoch) FROM policy_set")) + 1
    document = world.machine.policy_set(epoch)

    def after(done):
        there = world.admin.api("GET", "/policies")
        assert there["epoch"] in ((epoch,) if done else (epoch - 1, epoch)), there
    return Try(lambda: world.admin.call("POST", "/api/v1/policies", document, {"Content-Type": "application/json"},
                                        scope="registry:admin:*"), (201, 202), after=after, repeated=(409,))


def token_by(method):
    def case(world):
        query = urllib.parse.urlencode({"service": "sijil", "scope": world.repository.scope})

        def call():
            if method == "GET":
                return world.ci.call("GET", "/token?" + query, headers=world.basic())
            user, password = world.ci.login
            form = urllib.parse.urlencode({"grant_type": "password", "service": "sijil", "username": user,
                                           "password": password, "scope": world.repository.scope})
            return world.ci.call("POST", "/token", form, {"Content-Type": "application/x-www-form-urlencoded"})

        def right(answer):
            token = answer.json.get("token") or answer.json["access_token"]
            claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
            assert sorted(claims["access"][0]["actions"]) == ["delete", "pull", "push"], claims
            return True
        return Try(call, 200, right)
    return case


def plain(path):
    return lambda world: Try(lambda: world.admin.call("GET", path), 200)


CASES = {
    "alive": plain("/healthz"),
    "metrics": plain("/metrics"),
    "ready": plain("/readyz"),
    "ping": reading(lambda world: "/v2/"),
    "token": token_by("GET"),
    "token-post": token_by("POST"),
    "catalog": lambda world: Try(lambda: world.ci.call("GET", "/v2/_catalog", scope="registry:catalog:*"), 200,
                                 lambda answer: "main/models/there" in answer.json["repositories"]),
    "upload-begin": upload_begin,
    "push-small": push_at_once(3_000),
    "push-large": push_at_once(400_000),
    "push-chunked": push_chunked,
    "push-end": push_end,
    "upload-status": upload_status,
    "upload-cancel": upload_cancel,
    "blob-mount": blob_mount,
    "blob-get": reading(lambda world: "blobs/" + world.digest, lambda world, answer: answer.body == world.data),
    "blob-range": reading(lambda world: "blobs/" + world.digest,
                          lambda world, answer: answer.body == world.data[70_000:200_001], 206,
                          headers={"Range": "bytes=70000-200000"}),
    "blob-head": reading(lambda world: "blobs/" + world.digest, method="HEAD",
                         right=lambda world, answer: answer["Content-Length"] == "300000"),
    "blob-delete": blob_delete,
    "manifest-put": manifest_put,
    "manifest-get": reading(lambda world: "manifests/v1", lambda world, answer: answer.body == world.manifest),
    "manifest-head": reading(lambda world: "manifests/" + sha256(world.manifest), method="HEAD"),
    "tag-delete": manifest_gone("tag"),
    "manifest-delete": manifest_gone("manifest"),
    "tag-list": reading(lambda world: "tags/list", lambda world, answer: "v1" in answer.json["tags"]),
    "referrers": reading(lambda world: "referrers/" + world.digest, lambda world, answer: answer.json["manifests"] == []),
    "organisation-create": changing("POST", "/organisations", lambda world, n: {"name": f"o{n}"}, 201, (409,)),
    "organisation-list": api_reading("/organisations", "organisations"),
    "organisation-label": changing("PUT", "/organisations/main/label", lambda world, n: label(n), 200),
    "project-create": changing("POST", "/projects", lambda world, n: {"organisation": "main", "name": f"p{n}",
                                                                      "region": REGION, "label": label(n)}, 201, (409,),
                               right=lambda answer: answer.json["label"] is not None, after=project_is_whole),
    "project-list": api_reading("/projects", "projects"),
    "project-read": api_reading("/projects/main/models", "region"),
    "project-label": changing("PUT", "/projects/main/models/label", lambda world, n: label(n), 200),
    "robot-create": changing("POST", "/robots", lambda world, n: {"organisation": "main", "name": f"r{n}",
                                                                  "expires_days": 3}, 201, (409,),
                             right=lambda answer: answer.json["secret"] and answer.json["name"].startswith("robot$main+")),
    "robot-list": api_reading("/robots?organisation=main", "robots"),
    "robot-revoke": changing("DELETE", lambda world, n: "/robots/" + made_robot(world, n), None, 204, (404,)),
    "binding-create": changing("POST", "/bindings", lambda world, n: {"robot": made_robot(world, n), "role": "consumer",
                                                                      "scope": "main/models"}, 201, (409,)),
    "binding-list": api_reading("/bindings?scope=main", "bindings"),
    "binding-revoke": changing("DELETE", lambda world, n: "/bindings/" + made_binding(world, n), None, 204, (403, 404)),
    "issuer-trust": changing("POST", "/issuers", lambda world, n: issuer(n), 201,
                             right=lambda answer: answer.json["algorithms"] == ["ES256"]),
    "issuer-list": api_reading("/issuers", "issuers"),
    "issuer-remove": changing("DELETE", lambda world, n: "/issuers/" + world.admin.api("POST", "/issuers", issuer(n))["id"],
                              None, 204, (404,)),
    "repository-label": changing("PUT", "/repositories/main/models/there/label", lambda world, n: label(n), 200),
    "policy-read": api_reading("/policies", "epoch"),
    "policy-load": policy_load,
    "audit-list": api_reading("/audit/events?limit=5", "events"),
    "audit-event": api_reading("/audit/events/3", "entry"),
    "audit-entry": api_reading("/audit/events/3/entry"),
    "audit-proof": api_reading("/audit/events/3/proof"),
    "audit-checkpoint": api_reading("/audit/checkpoint"),
    "audit-key": api_reading("/audit/key", "vkey"),
}

CASES_OF_KEYS = ("ready", "token", "upload-begin", "push-small", "blob-get", "manifest-put", "manifest-get", "policy-load",
                 "audit-checkpoint")


class Bad(Exception):
    pass


def call(attempt):
    """The answer, or None if the connection broke. Waiting in vain is a failure of the test."""
    begun = time.monotonic()
    try:
        return attempt.call()
    except TimeoutError as silent:
        raise Bad("no answer at all") from silent
    except GONE:
        if time.monotonic() - begun > PATIENCE_S:
            raise Bad(f"the connection ended after {time.monotonic() - begun:.0f} s") from None
        return None


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


def do_again(attempt, what):
    """Without failures: recovery may take a moment, but no restart."""
    until = time.monotonic() + PATIENCE_S
    while True:
        answer = call(attempt)
        if is_good(attempt, answer) or (answer is not None and answer.status in attempt.repeated):
            return
        if answer is not None and answer.status not in REFUSALS:
            raise Bad(f"{what}, it is answered {answer.status} {answer.body[:300]}")
        if time.monotonic() > until:
            raise Bad(f"{what}, it still does not work: {answer and (answer.status, answer.body[:300])}; "
                      f"{readiness(WORLD[0])}")
        time.sleep(0.02)
        WORLD[0].machine.revive_keyd()


def is_settled(world):
    """Until the gateway's own connections are back, state can't be looked at."""
    do_again(Try(lambda: world.repository.call("GET", "tags/list")), "afterwards")
    do_again(Try(lambda: world.admin.call("GET", "/api/v1/projects", scope="registry:admin:*")), "afterwards")


def keys_are_back(world, seconds):
    """A key process that could not write its ledger ends within so many seconds, and is started again."""
    until = time.monotonic() + seconds
    while world.machine.processes["sijil-keyd"].poll() is None and time.monotonic() < until:
        time.sleep(0.05)
    world.machine.revive_keyd()
    do_again(token_by("GET")(world), "without the keys")
    do_again(Try(lambda: world.repository.call("POST", "blobs/uploads/"), 202), "without the keys")
    is_settled(world)


def try_with(world, case, kinds, nth, count):
    """Whether a failure happened, and whether the answer was good nevertheless."""
    attempt = case(world)
    plan = world.machine.plans[PROGRAM]
    plan.arm(kinds, nth, count)
    answer = call(attempt)
    plan.disarm()
    fired = plan.fired
    world.machine.lives()
    if fired and PROGRAM == "sijil-keyd":
        keys_are_back(world, 3 if kinds == ("file",) else 0)
    check_answer(attempt, answer)
    if fired == 0 and not is_good(attempt, answer):
        raise Bad(f"without a failure: {answer and (answer.status, answer.body[:300])}")
    if not is_good(attempt, answer):
        is_settled(world)
    check_event(world, answer)
    if attempt.after:
        attempt.after(is_good(attempt, answer))
    if not is_good(attempt, answer) and not getattr(attempt, "is_over", lambda: False)():
        do_again(attempt, "afterwards")
        if attempt.after:
            attempt.after(True)
    return fired > 0, is_good(attempt, answer)


def check_rows(world):
    broken = world.machine.sql(BROKEN_INVARIANTS % {"unlinked": "true"})
    if broken:
        raise Bad(broken)


def count_of(world, case, kinds):
    attempt = case(world)
    plan = world.machine.plans[PROGRAM]
    plan.arm(kinds, 0)
    answer = call(attempt)
    plan.disarm()
    if not is_good(attempt, answer):
        raise Bad(f"without a failure: {answer and (answer.status, answer.body[:300])}")
    return plan.asked


def series(only):
    """What is counted, and whether what began to fail goes on to."""
    if only:
        return [((only[0],), only[1].endswith("-"))]
    return [((kind,), False) for kind in KINDS] + [(("memory",), True)]


def numbers(total, only):
    if only:
        return [int(only[1].rstrip("-"))]
    if ALL or total <= SAMPLE:
        return range(1, total + 4)
    return sorted(random.sample(range(1, total + 1), SAMPLE))


def run_case(world, name):
    name, *only = name.split(":")
    case, tried, unharmed, slowest = CASES[name], 0, 0, (0.0, "")
    asked = []
    for kinds, lasting in series(only):
        total = count_of(world, case, kinds)
        asked.append(total)
        for nth in numbers(total, only):
            begun = time.monotonic()
            try:
                fired, good = try_with(world, case, kinds, nth, 1 << 40 if lasting else 1)
                check_rows(world)
            except (Bad, AssertionError, LookupError, ValueError, OSError) as why:
                world.machine.plans[PROGRAM].disarm()
                raise Bad(f"{name}: {kinds[0]} {nth} of {total}{' and all after it' if lasting else ''}: {why!r}") from why
            tried += fired
            unharmed += fired and good
            slowest = max(slowest, (time.monotonic() - begun, f"{kinds[0]} {nth}{'-' if lasting else ''}"))
    print(f"ok   {name:20} {' '.join(f'{n:4}' for n in asked[:4])}   {tried:4} failures, {unharmed:3} not seen outside, "
          f"slowest {slowest[0]:.1f} s ({slowest[1]})", flush=True)
    return tried


# ---- at the end ----

def tree_root(hashes):
    """RFC 6962, 2.1."""
    if len(hashes) == 1:
        return hashes[0]
    split = 1 << ((len(hashes) - 1).bit_length() - 1)
    return hashlib.sha256(b"\x01" + tree_root(hashes[:split]) + tree_root(hashes[split:])).digest()


def the_log_verifies(world):
    note = world.admin.call("GET", "/api/v1/audit/checkpoint", scope="registry:admin:*").body.decode().split("\n")
    size, root = int(note[1]), base64.b64decode(note[2])
    text = world.machine.sql(f"SELECT string_agg(encode(leaf, 'hex'), ' ' ORDER BY seq) FROM audit_entry WHERE seq < {size}")
    leaves = [bytes.fromhex(leaf) for leaf in text.split(" ")]
    assert len(leaves) == size and tree_root([hashlib.sha256(b"\0" + leaf).digest() for leaf in leaves]) == root
    return size


def nothing_is_left_over(world):
    """After a restart, which tidies at once: every file is of a blob, and every blob has its files."""
    machine = world.machine
    machine.sql("UPDATE upload SET expires_at = now()")
    process = machine.processes["sijild"]
    process.terminate()
    code = process.wait(60)
    assert code == 0, f"sijild ended with {code}:\n{machine.last_words()}"
    machine.start_gateway()
    until = time.monotonic() + 60
    while machine.sql("SELECT (SELECT count(*) FROM upload) + (SELECT count(*) FROM abandoned_object)") != "0":
        assert time.monotonic() < until, "uploads and abandoned objects stay"
        time.sleep(0.1)
    blobs = set(machine.sql("SELECT string_agg(replace(blob_id::text, '-', ''), ' ') FROM blob").split())
    files = [file for folder, _, files in os.walk(machine.path("region")) for file in files if not file.startswith(".")]
    owners = {file.split(".")[0] for file in files}
    assert owners == blobs, f"without a blob: {owners - blobs}; without a file: {blobs - owners}"
    return len(blobs)


def readiness(world):
    try:
        return world.admin.call("GET", "/readyz").body
    except GONE as why:
        return why


def main():
    names = sys.argv[1:] or list(CASES if PROGRAM == "sijild" else CASES_OF_KEYS)
    random.seed(SEED)
    print(f"seed {SEED}; {'all failures' if ALL else f'{SAMPLE} of each case and kind'}; questions of: {' '.join(KINDS)}")
    failed = tried = 0
    with Machine(failing=(PROGRAM,)) as machine:
        world = World(machine)
        for name in names:
            try:
                tried += run_case(world, name)
            except (Bad, AssertionError) as why:
                print(f"FAIL {name}: {why} {readiness(world)}", flush=True)
                failed += 1
                machine.lives()
        print(f"the log of {the_log_verifies(world)} events verifies; {nothing_is_left_over(world)} blobs have their files")
    print(f"{len(names)} cases, {tried} failures; {failed} cases failed")
    sys.exit(1 if failed else 0)


main()
