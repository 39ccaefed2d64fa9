#!/usr/bin/env python3
"""What a runner reads and writes for its run, on two gateways: the token of a run, its limits, the log while the run goes on and those that
follow it, and one whole run by the real `sijil-runner serve`."""
import base64
import concurrent.futures
import http.client
import json
import os
import pwd
import secrets
import shutil
import subprocess
import tempfile
import threading
import time

import run_world
import sijil_test
from fleet import Judge
from run_fleet import TRAINING, RunFleet, load_policies
from run_world import FOLDER, PROJECT, RUNNER_TYPE, Approver, Person, Runner, World, canonical, opened, seal, spec, url64
from sijil_test import Client, make_person, make_robot, program, run, sha256

MANIFEST, INDEX = "application/vnd.oci.image.manifest.v1+json", "application/vnd.oci.image.index.v1+json"
BROKEN = (ConnectionError, http.client.HTTPException, OSError)
server = RunFleet(2, lease_time=1).start()  # a body that moves is decided again each second
state, pushed = {"epoch": 1}, {}


def sql(text):
    return Judge.sql_at(server, text)


def load(operations=TRAINING):
    """The next set of policies."""
    state["epoch"] += 1
    load_policies(server, state["epoch"], operations=operations)


# ---- a world with content ----

def push(name, files):
    """An artifact with these files, by a publisher. Returns its place, as a spec names it."""
    place = server.client(state["publisher"]).repository(f"{PROJECT}/{name}")
    for content in files.values():
        place.push_blob(content)
    manifest = json.loads(place.manifest(*files.values()))
    for layer, title in zip(manifest["layers"], files):
        layer["annotations"] = {"org.opencontainers.image.title": title}
    text = json.dumps(manifest).encode()
    answer = place.put_manifest("latest", text)
    assert answer.status == 201, answer.body
    pushed[name] = (text, files)
    return {"repository": f"{PROJECT}/{name}", "digest": sha256(text)}


def prepare():
    conninfo = f"host={server.database_at} dbname=sijil_template user=sijil_app"
    world = state["world"] = World(server, server.path("approver.pem"), conninfo, server.path("socket"))
    state["publisher"] = make_robot(server, "publisher", "publisher", PROJECT)
    sijil_test.wait_until(lambda: all(Client(server, state["publisher"], port).ask_for_token("").status == 200 for port in server.ports), 20, "no robot")
    state["code"], state["digits"] = push("code", {"train.sh": b"echo hello\n"}), push("digits", {"a.txt": b"some digits\n", "b.txt": b"x" * 300000})
    state["secret"] = push("secret", {"s.txt": b"of another run\n"})
    state["other digits"] = push("digits", {"c.txt": b"another version\n"})
    state["alice"] = Person(world, "alice")
    state["runner"], state["other"], state["leaving"] = Runner(world), Runner(world), Runner(world, pool="leaving")


def asked_for(wait=True, **more):
    """`wait`: until it is ordered. A runner that waits already may have it earlier."""
    limits = {**spec()["limits"], **more.pop("limits", {})}
    inputs = more.pop("inputs", [{"name": "digits", **state["digits"]}])
    asked = state["alice"].request(spec=spec(code=state["code"], inputs=inputs, limits=limits, **more))
    if wait:
        state["alice"].wait(asked, "ordered")
    return asked


class Lease:
    """A run that a runner holds. It begins in the state `leased`."""

    def __init__(self, runner=None, **more):
        self.runner = runner or state["runner"]
        self.asked = asked_for(**more)
        lease = opened(self.runner.lease()["lease"])[0]
        self.run, self.attempt = self.asked["run"], lease["attempt"]
        assert lease["run"] == self.run, (lease, self.run)
        assert self.runner.beat(self.run, self.attempt, phase="fetching").status == 200

    def ask_token(self, runner=None, port=None):
        return (runner or self.runner).call(f"runs/{self.run}/token", {"attempt": self.attempt, "node": 0}, port)

    def token(self):
        answer = self.ask_token()
        assert answer.status == 200, (answer.status, answer.body)
        return answer.json["access_token"]

    def v2(self, method, path, body=None, token=None, runner=None, port=None, link=None, **headers):
        own = link or (runner or self.runner).connection(port)
        try:
            return Client(server, None, port).call(method, "/v2/" + path, body, {"Authorization": "Bearer " + (token or self.token()), **headers},
                                                   connection=own)
        finally:
            if link is None:
                own.close()

    def append(self, offset, data, port=None, runner=None, attempt=None):
        own = (runner or self.runner).connection(port, timeout=20)
        try:
            return Client(server, None, port).call("POST", f"/api/v1/runner/runs/{self.run}/log?attempt={attempt or self.attempt}&node=0&offset={offset}", data,
                                                   {"Content-Type": "application/octet-stream", **(runner or self.runner).named()}, connection=own)
        finally:
            own.close()

    @staticmethod
    def end_of(run_id):
        answer = state["alice"].call("DELETE", "/" + run_id)
        assert answer.status in (204, 409), answer.body

    def end(self):
        self.end_of(self.run)


def shared():
    """The lease of the first cases. Its runner is heard at the beginning of each, because it is lost after 40 s of silence."""
    lease = state["lease"]
    assert lease.runner.beat(lease.run, lease.attempt, phase="fetching").status == 200
    return lease


def read_log(run_id, login=None, port=None, project=PROJECT, **query):
    client = Client(server, login or state["alice"].login, port)
    words = "&".join(f"{name}={value}" for name, value in query.items())
    return client.call("GET", f"/api/v1/projects/{project}/runs/{run_id}/log?{words}", scope="registry:admin:*")


def events(action, outcome=None):
    return [one for one in state["world"].events(action) if outcome in (None, one["out"])]


# ---- what a token reads ----

def a_token_reads_what_the_order_names():
    lease = state["lease"] = Lease()
    answer = lease.ask_token()
    assert answer.status == 200 and 0 < answer.json["expires_in"] <= 300 and answer.json["token_type"] == "Bearer", answer.body
    token = answer.json["access_token"]
    claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    assert claims["sub"] == "run:" + lease.run and set(claims["cnf"]) == {"x5t#S256"} and claims["access"] == [], claims
    before = len(events("run.fetch", "allowed"))
    for name, port in (("code", server.ports[0]), ("digits", server.ports[1])):
        place, (_, files) = state[name], pushed[name] if name == "code" else (None, {"a.txt": b"some digits\n", "b.txt": b"x" * 300000})
        answer = lease.v2("GET", f"{place['repository']}/manifests/{place['digest']}", token=token, port=port)
        assert answer.status == 200 and sha256(answer.body) == place["digest"], (answer.status, answer.body)
        assert lease.v2("HEAD", f"{place['repository']}/manifests/{place['digest']}", token=token, port=port).status == 200
        assert lease.v2("GET", f"{place['repository']}/blobs/{sha256(b'{}')}", token=token, port=port).body == b"{}"
        for content in files.values():
            answer = lease.v2("GET", f"{place['repository']}/blobs/{sha256(content)}", token=token, port=port)
            assert answer.status == 200 and answer.body == content, (answer.status, answer.body[:200])
    assert lease.v2("GET", "", token=token).status == 200  # the ping of a registry
    assert len(events("run.fetch", "allowed")) == before + 9, "an access has no event"
    assert len(events("run.token", "allowed")) == 1 and state["alice"].run(lease.asked)["state"] == "leased"


def everything_else_is_refused():
    lease = shared()
    token, digits, secret, other = lease.token(), state["digits"]["repository"], state["secret"], state["other digits"]
    blob = sha256(b"another version\n")
    wrong = [("GET", f"{digits}/manifests/{other['digest']}", 403), ("GET", f"{digits}/manifests/latest", 403),
             ("HEAD", f"{digits}/manifests/{other['digest']}", 403), ("GET", f"{digits}/blobs/{blob}", 403),
             ("GET", f"{digits}/blobs/{state['digits']['digest']}", 403), ("GET", f"{digits}/manifests/{sha256(b'some digits' + bytes([10]))}", 403),
             ("GET", f"{secret['repository']}/manifests/{secret['digest']}", 404), ("GET", f"{secret['repository']}/blobs/{sha256(b'of another run' + bytes([10]))}", 404),
             ("GET", f"main/none/x/manifests/{secret['digest']}", 404), ("GET", f"{digits}/tags/list", 403),
             ("GET", f"{digits}/referrers/{state['digits']['digest']}", 403), ("GET", f"{PROJECT}/trained/tags/list", 403),
             ("GET", f"{PROJECT}/trained/blobs/{blob}", 403), ("GET", "_catalog", 404),
             ("DELETE", f"{digits}/blobs/{sha256(b'{}')}", 403), ("DELETE", f"{digits}/manifests/{state['digits']['digest']}", 403),
             ("DELETE", f"{PROJECT}/trained/manifests/latest", 403)]
    for method, path, status in wrong:
        answer = lease.v2(method, path, token=token)
        assert answer.status == status, (method, path, answer.status, answer.body)
    denied = [one for one in events("run.fetch", "denied")]
    assert len(denied) >= 6, denied
    answer = lease.v2("PUT", f"{PROJECT}/trained/manifests/latest", pushed["code"][0], token=token, **{"Content-Type": MANIFEST})
    assert answer.status == 403 and b"writes only blobs" in answer.body, (answer.status, answer.body)
    own = lease.runner.connection()
    for path in ("projects", f"projects/{PROJECT}/runs", f"projects/{PROJECT}/runs/{lease.run}", "self"):
        answer = Client(server).call("GET", "/api/v1/" + path, headers={"Authorization": "Bearer " + token}, connection=own)
        assert answer.status in (403, 404), (path, answer.status, answer.body)
    answer = Client(server).call("GET", "/token", headers={"Authorization": "Bearer " + token}, connection=own)
    assert answer.status in (400, 401), answer.body
    own.close()


def a_token_is_bound_to_the_runner():
    lease, place = shared(), state["code"]
    token, path = lease.token(), f"{place['repository']}/manifests/{place['digest']}"
    plain = Client(server).call("GET", "/v2/" + path, headers={"Authorization": "Bearer " + token})
    assert plain.status == 401 and b"certificate" in plain.body + plain["WWW-Authenticate"].encode(), (plain.status, plain.body)
    assert lease.v2("GET", path, token=token, runner=state["other"]).status == 401
    assert lease.ask_token(runner=state["other"]).status == 404
    body = json.dumps({"attempt": 1, "node": 0})
    assert Client(server).call("POST", f"/api/v1/runner/runs/{lease.run}/token", body, {"Content-Type": "application/json"}).status == 401
    assert lease.v2("GET", path, token=token).status == 200


def what_the_database_says_is_not_an_order():
    lease, place = shared(), state["secret"]
    token, kept = lease.token(), sql(f"SELECT envelope FROM run_envelope WHERE run_id = '{lease.run}' AND kind = 'order'")
    envelope = json.loads(kept)
    payload = json.loads(base64.b64decode(envelope["payload"]))
    payload["spec"]["code"] = place
    envelope["payload"] = base64.b64encode(canonical(payload)).decode()
    path = f"{place['repository']}/manifests/{place['digest']}"
    sql(f"UPDATE run_envelope SET envelope = $q${canonical(envelope).decode()}$q$ WHERE run_id = '{lease.run}' AND kind = 'order'")
    try:
        answer = lease.v2("GET", path, token=token)
        assert answer.status == 500 and b"another run" not in answer.body, (answer.status, answer.body)
    finally:
        sql(f"UPDATE run_envelope SET envelope = $q${kept}$q$ WHERE run_id = '{lease.run}' AND kind = 'order'")
    assert lease.v2("GET", path, token=token).status == 404


def a_row_of_an_attempt_is_no_lease():
    """The runner is of another pool. Somebody with the gateways' database role has written the row for it."""
    lease, thief, place = shared(), state["leaving"], state["code"]
    assert thief.ask().status == 204
    sql("INSERT INTO run_attempt (run_id, attempt, node, runner, key, session, deadline, ends_at, lease)"
        f" SELECT run_id, 99, 0, '{thief.id}', '{thief.key.name}', substring(sha256('\\x{thief.session}') FOR 16), now() + interval '9 days', now() + interval '9 days', lease"
        f" FROM run_attempt WHERE run_id = '{lease.run}' AND attempt = 1")
    try:
        for signed in ("lease", "NULL"):
            sql(f"UPDATE run_attempt SET lease = {signed} WHERE run_id = '{lease.run}' AND attempt = 99")
            for answer in (thief.call(f"runs/{lease.run}/token", {"attempt": 99, "node": 0}), thief.start(lease.run, 99), thief.beat(lease.run, 99, progress=99),
                           lease.append(0, b"all is well\n", runner=thief, attempt=99),
                           thief.call(f"runs/{lease.run}/checkpoint?attempt=99", {"schemaVersion": 2})):
                assert answer.status == 403, (answer.status, answer.body)
        assert sql(f"SELECT count(*) FROM run_log WHERE run_id = '{lease.run}' AND attempt = 99") == "0"
        assert sql(f"SELECT phase FROM run_attempt WHERE run_id = '{lease.run}' AND attempt = 99") == "leased"
    finally:
        sql(f"DELETE FROM run_attempt WHERE run_id = '{lease.run}' AND attempt = 99")


def a_lease_is_proven_once():
    """Its row is believed no more afterwards than before; what ends it counts at once."""
    damage = "UPDATE run_attempt SET lease = replace(lease, '\"sig\":\"', '\"sig\":\"MEUCIQ') WHERE run_id = '{}'"
    first, second, place = Lease(), asked_for()["run"], state["code"]
    assert opened(first.runner.lease()["lease"])[0]["run"] == second  # and it reports nothing yet
    path = f"{place['repository']}/manifests/{place['digest']}"
    token = first.token()
    assert first.v2("GET", path, token=token).status == 200 and first.runner.beat(first.run).status == 200
    for run_id in (first.run, second):
        sql(damage.format(run_id))
    assert first.v2("GET", path, token=token).status == 200 and first.runner.beat(first.run).status == 200
    assert first.runner.beat(second).status == 403
    sql(f"UPDATE run_attempt SET key = '{state['other'].key.name}' WHERE run_id = '{first.run}'")
    assert first.v2("GET", path, token=token).status == 401 and first.runner.beat(first.run).status == 404
    sql(f"UPDATE run_attempt SET key = '{first.runner.key.name}' WHERE run_id = '{first.run}'")
    for run_id in (first.run, second):
        Lease.end_of(run_id)
    assert first.v2("GET", path, token=token).status == 401


def the_policies_of_today_decide_each_access():
    lease, place = shared(), state["code"]
    token, path = lease.token(), f"{place['repository']}/manifests/{place['digest']}"
    load(tuple(one for one in TRAINING if one != "train"))
    sijil_test.wait_until(lambda: lease.v2("GET", path, token=token).status == 403, 20, "it still reads")
    assert lease.ask_token().status == 403
    load()
    sijil_test.wait_until(lambda: lease.v2("GET", path, token=token).status == 200, 20, "it does not read again")


def what_is_out_of_place_is_closed_to_runners_elsewhere():
    """The runner is in a region where the content might be. It reads it at its home, where it may not be."""
    far, place = Runner(state["world"], pool="far", region="local/elsewhere", jurisdictions=["SA"]), state["code"]
    asked = asked_for(pool="far", jurisdictions=["SA"])
    token = far.token(far.lease()).json["access_token"]

    def read():
        answer = Client(server).call("GET", f"/v2/{place['repository']}/manifests/{place['digest']}", headers={"Authorization": "Bearer " + token}, connection=far.connection())
        return answer.status, b"SYS-MISPLACED" in answer.body

    assert read() == (200, False), read()
    state["epoch"] += 1
    load_policies(server, state["epoch"], operations=TRAINING, rules=[{"id": "LEAVE", "effect": "deny", "ops": ["ingest"], "target": {"geo_within": ["AE"]}, "message": "not there"}])
    sijil_test.wait_until(lambda: read() == (403, True), 20, f"it reads what may not be there: {read()}")
    load()
    sijil_test.wait_until(lambda: read() == (200, False), 20, "it does not read again")
    Lease.end_of(asked["run"])


def again(attested_to):
    """All decisions under the set in force, and one of them for this place, are made again by sijil-verify and by an independent program."""
    admin = server.client(server.admin)
    in_force = admin.api("GET", "/policies")["set"]
    found = [row for row in admin.api("GET", "/audit/events?order=descending&limit=100&facts=true")["events"] if row["entry"]["why"].get("policy") == in_force["digest"]]
    assert any(f'"target_id": "{attested_to}"' in json.dumps(row["facts"]) for row in found), found
    with open(server.path("again.json"), "w", encoding="utf-8") as file:
        json.dump(in_force, file)
    with open(server.path("again.ndjson"), "w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in reversed(found))
    done = subprocess.run([program("sijil-verify"), "replay", "--set", server.path("again.json"), "--json", server.path("again.ndjson")], capture_output=True, text=True)
    told = json.loads(done.stdout)
    assert done.returncode == 0 and told["differ"] == 0 and told["agree"] > 0, (told, done.stderr)
    reader = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../vectors/audit_log.py")
    other = subprocess.run(["/usr/bin/python3", reader, "--replay", server.path("again.ndjson"), server.path("again.json")], capture_output=True, text=True)
    assert other.returncode == 77 or f"{told['agree']} decisions agree" in other.stdout, (other.stdout, other.stderr, told)


def an_attested_runner_reads_where_it_calls_from():
    """A rule asks for the assurance 4. The record of the runner names 127.0.0.1; the same key, certificate and token come from 127.0.0.2, too."""
    world, place = state["world"], state["code"]
    approver = Approver(world, "amal", "registry-admin").key
    said = {"by": "Mona, who was there", "evidence": sha256(b"photographs"), "networks": ["127.0.0.1/32"]}
    about = {"pool": "attested", "assurance": 4, "attestation": said}
    try:  # the root alone enrols a runner, and attests none
        Runner(world, **about)
        raise AssertionError("one person has attested a runner")
    except AssertionError as refused:
        assert "two persons" in str(refused), refused
    runner, other = Runner(world, approver, **about), Runner(world, pool="attested", assurance=3)
    state["epoch"] += 1
    load_policies(server, state["epoch"], operations=TRAINING, rules=[{"id": "ATTESTED", "effect": "require", "ops": ["train"], "target": {"min_assurance": 4}}])
    question = {"issuer": server.people.url, "subject": "alice", "action": "run.use", "resource": place["repository"]}
    for where, may in (("attested:local/main", True), ("local/main", False), ("attested:local/elsewhere", True)):
        told = server.client(server.admin).api("POST", "/authz/explain", {**question, "runner": where})
        (shown,) = [one for one in told["operations"] if one["operation"] == "train"]
        assert (shown["target"], shown["allowed"]) == (where, may), told
        assert may or told["denials"][0]["rule"] == "ATTESTED" and "assurance" in told["denials"][0]["missing"], told
    asked = asked_for(pool="attested")  # in no region itself, but where a runner is attested
    assert other.ask().status == 204
    bundle = runner.lease()
    assert runner.start(asked["run"]).status == 204
    token, path = runner.token(bundle).json["access_token"], f"/v2/{place['repository']}/manifests/{place['digest']}"

    def read(address, **headers):
        own = runner.connection()
        own.source_address = (address, 0)
        try:
            return Client(server).call("GET", path, headers={"Authorization": "Bearer " + token, **headers}, connection=own)
        finally:
            own.close()

    assert read("127.0.0.1").status == 200
    for headers in ({}, {"X-Forwarded-For": "127.0.0.1", "Forwarded": "for=127.0.0.1", "X-Real-IP": "127.0.0.1"}):
        far = read("127.0.0.2", **headers)
        assert far.status == 403 and b"ATTESTED" in far.body, (far.status, far.body)
    assert read("127.0.0.1").status == 200
    facts = sql("SELECT string_agg(convert_from(facts, 'UTF8'), ' ') FROM audit_facts WHERE convert_from(facts, 'UTF8') LIKE '%\"run.%'")
    assert '"op":"train","target":{"assurance":4,"geo":"AE"},"target_id":"attested:local/main"' in facts, facts
    assert '"op":"train","target":{"geo":"AE"},"target_id":"local/main"' in facts, facts
    again(attested_to="attested:local/main")
    # of the place of the connection the set may say that it is in another country, or that nothing is certain there
    state["epoch"] += 1
    networks = [{"cidr": "127.0.0.0/8", "facts": {"geo": "SA", "assurance": 1}}]
    load_policies(server, state["epoch"], operations=TRAINING, networks=networks, rules=[{"id": "AE", "effect": "require", "ops": ["train"], "target": {"min_assurance": 4}}])
    assert b'"AE"' in read("127.0.0.1").body, read("127.0.0.1").body
    again(attested_to="local/main")
    load()
    assert read("127.0.0.2").status == 200
    Lease.end_of(asked["run"])


def an_index_lets_the_runner_read_what_it_lists():
    """And what it lists has the label of the index, because both are in one repository (docs/decisions/0061)."""
    place, name = server.client(state["publisher"]).repository(f"{PROJECT}/indexed"), f"{PROJECT}/indexed"
    listed, unlisted = (place.manifest(content) for content in (b"listed\n", b"unlisted\n"))
    for content, text in ((b"listed\n", listed), (b"unlisted\n", unlisted)):
        place.push_blob(content)
        assert place.put_manifest(sha256(text), text).status == 201
    inner, outer = (json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": [{"mediaType": kind, "digest": sha256(text), "size": len(text)}]}).encode()
                    for kind, text in ((MANIFEST, listed), (INDEX, b"")))
    outer = outer.replace(sha256(b"").encode(), sha256(inner).encode()).replace(b'"size": 0', b'"size": %d' % len(inner))
    for text in (inner, outer):
        answer = place.call("PUT", "manifests/" + sha256(text), text, {"Content-Type": INDEX})
        assert answer.status == 201, answer.body
    elsewhere = server.client(state["publisher"]).repository(state["digits"]["repository"])
    elsewhere.push_blob(b"listed\n")
    assert elsewhere.put_manifest(sha256(listed), listed).status == 201
    lease = Lease(inputs=[{"name": "digits", **state["digits"]}, {"name": "set", "repository": name, "digest": sha256(outer)}])
    token, there = lease.token(), state["digits"]["repository"]
    reads = [(f"{name}/manifests/{sha256(outer)}", 200), (f"{name}/manifests/{sha256(inner)}", 200), (f"{name}/manifests/{sha256(listed)}", 200),
             (f"{name}/blobs/{sha256(b'listed' + bytes([10]))}", 200), (f"{name}/manifests/{sha256(unlisted)}", 403),
             (f"{name}/blobs/{sha256(b'unlisted' + bytes([10]))}", 403), (f"{there}/manifests/{sha256(listed)}", 403),
             (f"{there}/blobs/{sha256(b'listed' + bytes([10]))}", 403)]
    for path, status in reads:
        assert lease.v2("GET", path, token=token).status == status, (path, status)
    server.client(server.admin).api("PUT", f"/repositories/{name}/label", {"attached": ["AE-FED"]})  # the place of what is listed
    sijil_test.wait_until(lambda: lease.runner.beat(lease.run, lease.attempt, phase="fetching").json["stop"], 30, "the run goes on")
    assert "has a stricter label than" in state["alice"].run(lease.asked)["reason"], state["alice"].run(lease.asked)
    assert lease.v2("GET", f"{name}/manifests/{sha256(listed)}", token=token).status == 401


# ---- what a token writes ----

def send(lease, repository, data, token, port=None):
    answer = lease.v2("POST", f"{repository}/blobs/uploads/?digest={sha256(data)}", data, token=token, port=port, **{"Content-Type": "application/octet-stream"})
    return answer


def a_token_pushes_blobs_of_outputs():
    lease = shared()
    token, place = lease.token(), f"{PROJECT}/trained"
    assert lease.v2("HEAD", f"{place}/blobs/{sha256(b'weights')}", token=token).status == 404
    assert send(lease, place, b"weights", token).status == 201
    begun = lease.v2("POST", f"{place}/blobs/uploads/", token=token)
    assert begun.status == 202, begun.body
    location = begun["Location"].removeprefix("/v2/")
    patched = lease.v2("PATCH", location, b"more ", token=token, port=server.ports[1], **{"Content-Type": "application/octet-stream"})
    assert patched.status == 202, patched.body
    assert lease.v2("PATCH", location, b"x", token=None, runner=state["other"], **{"Authorization": "Bearer " + token}).status == 401
    closed = lease.v2("PUT", location + f"?digest={sha256(b'more weights')}", b"weights", token=token, **{"Content-Type": "application/octet-stream"})
    assert closed.status == 201, closed.body
    counted = f"SELECT uploaded_bytes FROM run_attempt WHERE run_id = '{lease.run}'"
    assert sql(counted) == str(len(b"weights" + b"more weights")), sql(counted)
    assert send(lease, place, b"weights", token).status == 201  # the same again counts once
    assert sql(counted) == str(len(b"weights" + b"more weights")), sql(counted)
    assert send(lease, state["digits"]["repository"], b"weights", token).status == 403
    assert send(lease, state["secret"]["repository"], b"weights", token).status == 404
    assert send(lease, f"{PROJECT}/trained2", b"weights", token).status == 404
    mounted = lease.v2("POST", f"{place}/blobs/uploads/?mount={sha256(b'some digits' + bytes([10]))}&from={state['digits']['repository']}", token=token)
    assert mounted.status == 202, mounted.status  # not mounted: it may be uploaded


def an_order_limits_what_is_pushed():
    lease = Lease(limits={"output_bytes": 4096, "log_bytes": 100})
    token, place = lease.token(), f"{PROJECT}/trained"
    room = 4096 + 100 + 3 * (1 << 20)  # docs/runs.md: and a MiB for the config of each of one output, the log and the metrics;
    room += 3 * (4096 + (1 << 20))     # two checkpoints, and the one that comes
    assert send(lease, place, b"1" * (room // 2), token).status == 201
    refused = send(lease, place, b"2" * (room // 2 + 1), token)
    assert refused.status == 403 and b"outputs and log" in refused.body, (refused.status, refused.body)
    begun = lease.v2("POST", f"{place}/blobs/uploads/", token=token)["Location"].removeprefix("/v2/")
    own = lease.runner.connection()
    pieces = [b"3" * 65536] * (room // 65536)
    answer = Client(server).call("PATCH", "/v2/" + begun, iter(pieces), {"Authorization": "Bearer " + token, "Content-Type": "application/octet-stream",
                                                                        "Transfer-Encoding": "chunked"}, connection=own, encode_chunked=True)
    own.close()
    assert answer.status == 403, (answer.status, answer.body)
    with concurrent.futures.ThreadPoolExecutor() as pool:  # each fits alone, and only one of them can be kept
        sent = list(pool.map(lambda byte: send(lease, place, byte * (room // 4), token, server.ports[byte[0] % 2]), (b"4", b"5", b"6", b"7")))
    assert sorted(answer.status for answer in sent) == [201, 201, 403, 403], [(answer.status, answer.body) for answer in sent]
    assert int(sql(f"SELECT uploaded_bytes FROM run_attempt WHERE run_id = '{lease.run}'")) <= room
    lease.end()


def open_uploads_count_and_end_with_the_lease():
    """Uploads that nobody commits lie on disk, too."""
    lease = Lease(limits={"output_bytes": 4096, "log_bytes": 0})
    token, place = lease.token(), f"{PROJECT}/trained"
    room = 4096 + 3 * (1 << 20) + 3 * (4096 + (1 << 20))  # configs of output, log and metrics; and checkpoints: two that are kept, and a new one

    def leave_open(number):
        location = lease.v2("POST", f"{place}/blobs/uploads/", token=token)["Location"].removeprefix("/v2/")
        answer = lease.v2("PATCH", location, secrets.token_bytes(1 << 20), token=token, port=server.ports[number % 2], **{"Content-Type": "application/octet-stream"})
        assert answer.status in (202, 403), (answer.status, answer.body)
        return answer.status, location
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        left = list(pool.map(leave_open, range(16)))
    kept = [location for status, location in left if status == 202]
    assert len(kept) == 2 * room >> 20, left
    opened_bytes = f"SELECT open_bytes FROM run_attempt WHERE run_id = '{lease.run}'"
    assert int(sql(opened_bytes)) == len(kept) << 20
    refused = lease.v2("PATCH", kept[0], b"x" * (1 << 20), token=token, **{"Content-Type": "application/octet-stream"})
    assert refused.status == 403 and b"open uploads have the rest" in refused.body, refused.body
    assert lease.v2("DELETE", kept.pop(), token=token).status == 204
    assert int(sql(opened_bytes)) == len(kept) << 20
    assert send(lease, place, secrets.token_bytes(1 << 20), token).status == 201
    assert int(sql(opened_bytes)) == len(kept) << 20, "a kept blob counts twice"
    going = f"SELECT count(*) FROM run_upload_open JOIN upload USING (upload_id) WHERE run_id = '{lease.run}' AND expires_at > now()"
    assert int(sql(going)) == len(kept)
    lease.end()
    assert sql(going) == "0"


# ---- the log ----

def pieces_are_appended_once():
    lease = shared()
    assert lease.append(0, b"one\n").status == 204
    assert lease.append(0, b"one\n", server.ports[1]).status == 204  # the answer was lost
    assert lease.append(4, b"two\n", server.ports[1]).status == 204
    assert lease.append(2, b"e\ntw").status == 204
    for offset, data in ((0, b"eno\n"), (4, b"two\nmore"), (9, b"late"), (1 << 40, b"x")):
        answer = lease.append(offset, data)
        assert answer.status in (409, 413) and (answer.status == 413 or answer.json["offset"] == 8), (offset, answer.status, answer.body)
    assert lease.append(8, b"").status == 400 and lease.append(8, b"x" * 262145).status == 413
    assert lease.append(8, b"x", runner=state["other"]).status == 404 and lease.append(8, b"x", attempt=2).status == 404
    assert lease.append("8&surprise=1", b"x").status == 400 and lease.append("eight", b"x").status == 400 and lease.append("-1", b"x").status == 400
    assert len(events("run.append", "allowed")) == 1, "each piece has an event"
    found = read_log(lease.run)
    assert found.status == 200 and found.body == b"one\ntwo\n" and found["Content-Type"] == "application/octet-stream", (found.status, found.body)
    assert [found["Sijil-Log-" + name] for name in ("Attempt", "Offset", "Size", "End")] == ["1", "0", "8", "false"] and found["Sijil-Run-State"] == "leased"
    assert read_log(lease.run, port=server.ports[1], offset=4).body == b"two\n" and read_log(lease.run, offset=99).body == b""
    line = b"this line stands nowhere in the clear\n"
    assert lease.append(8, line).status == 204 and read_log(lease.run, offset=8).body == line
    assert subprocess.run(["grep", "-rlF", "stands nowhere", server.folder], capture_output=True, check=False).stdout == b"", "the log is in the clear"
    assert lease.append(8 + len(line), b"two\n").status == 204
    lease.end()


def a_log_has_a_limit():
    lease = Lease(limits={"log_bytes": 300000})
    assert lease.append(0, b"a" * 262144).status == 204
    refused = lease.append(262144, b"b" * 262144)
    assert refused.status == 413, (refused.status, refused.body)
    assert lease.append(262144, b"b" * (300000 - 262144)).status == 204
    assert lease.append(300000, b"c").status == 413
    first, rest = read_log(lease.run), read_log(lease.run, offset=262144)
    assert (len(first.body), len(rest.body)) == (262144, 300000 - 262144) and first.body + rest.body == b"a" * 262144 + b"b" * (300000 - 262144)
    lease.end()


def quota(limits=None):
    """Sets it, if there are limits. Bytes used, and bytes reserved."""
    admin, path = server.client(server.admin), f"/projects/{PROJECT}/quota"
    if limits is not None:
        admin.api("PUT", path, limits)
    shown = admin.api("GET", path)
    return shown["bytes_used"], shown["bytes_reserved"]


def a_log_counts_in_the_quota():
    """Pieces of a log counted nowhere: a run could fill the disk beside the quota."""
    use = quota
    shared()  # whose log has begun, too
    early = Lease(limits={"log_bytes": 50000})  # its log begins before there is a quota
    assert early.append(0, b"e" * 100).status == 204
    used, reserved = use()
    assert quota({"bytes": used + 300000}) == (used, reserved) and reserved >= 49900, (use(), used, reserved)
    lease = Lease(limits={"log_bytes": 300000})
    for _ in range(2):  # the second answer is a lost one
        assert lease.append(0, b"a" * 5000).status == 204
        assert use() == (used + 300000, reserved + 295000), (use(), used)
    refused = Lease(state["other"], limits={"log_bytes": 400})
    answer = refused.append(0, b"x" * 10)
    assert answer.status == 403 and f"400 bytes more do not fit into the project's quota: {used + 300000} of {used + 300000}" in answer.body.decode(), answer.body
    lease.end()
    assert use() == (used + 5000, reserved), (use(), used)
    assert refused.append(0, b"x" * 10).status == 204 and use() == (used + 5400, reserved + 390), use()
    refused.end()
    early.end()
    end = used - 50000 + 100 + 5000 + 10
    assert use() == (end, reserved - 49900), (use(), end)
    assert int(sql(f"SELECT bytes_used FROM project_quota JOIN project USING (project_id) WHERE name = '{PROJECT.split('/')[1]}'")) == end
    assert quota({})[0] == end, "the count without a quota is another one"
    state["counted"] = [lease.run, early.run, refused.run]


def small_pieces_become_few():
    lease, whole = Lease(), b""
    for number in range(70):
        line = b"step %d: loss %f\n" % (number, 1 / (number + 1))
        assert lease.append(len(whole), line, server.ports[number % 2]).status == 204
        whole += line
    assert int(sql(f"SELECT count(*) FROM run_log_piece WHERE run_id = '{lease.run}'")) < 40
    assert read_log(lease.run).body == whole and read_log(lease.run, offset=len(whole) // 2).body == whole[len(whole) // 2:]
    assert lease.append(5, whole[5:100]).status == 204
    lease.end()
    ended = read_log(lease.run)
    assert ended.body == whole and ended["Sijil-Log-End"] == "true" and ended["Sijil-Run-State"] == "cancelled", dict(ended.headers)


class Follower(threading.Thread):
    """Reads as `sijil run logs -f` does, from the gateway of `port` and on its connection."""

    def __init__(self, run_id, port):
        super().__init__()
        self.run_id, self.port, self.got, self.asked, self.failed, self.times = run_id, port, b"", 0, None, {}
        self.start()

    def run(self):
        try:
            while True:
                answer = read_log(self.run_id, port=self.port, offset=len(self.got), wait_s=20)
                assert answer.status == 200 and int(answer["Sijil-Log-Offset"]) == len(self.got), (answer.status, answer.body[:200])
                self.got += answer.body
                self.asked += 1
                self.times.setdefault(len(self.got), time.monotonic())
                if answer["Sijil-Log-End"] == "true":
                    return
        except AssertionError as why:
            self.failed = why


def followers_get_everything_live():
    lease = state["follow"] = Lease()
    before = len(events("run.log", "allowed"))
    followers = [Follower(lease.run, server.ports[0])]
    time.sleep(0.5)
    followers.append(Follower(lease.run, server.ports[1]))
    time.sleep(0.5)
    whole, sent = b"", {}
    for number in range(5):
        line = b"line %d\n" % number
        assert lease.append(len(whole), line).status == 204
        whole += line
        sent[len(whole)] = time.monotonic()
        time.sleep(0.4)
    lease.end()
    for follower in followers:
        follower.join(30)
        assert not follower.is_alive() and follower.failed is None and follower.got == whole, (follower.failed, follower.got)
    local = [followers[0].times[end] - sent[end] for end in sent if end in followers[0].times]
    assert len(local) == 5 and max(local) < 1, local  # the same gateway wakes it at once
    assert followers[1].asked < 20, followers[1].asked
    assert len(events("run.log", "allowed")) == before + 1, "each question has an event"


def a_log_shows_no_piece_of_another_project():
    """Rows of pieces can be written under another run; they name the project whose key opens them."""
    world, own = state["world"], shared()
    server.client(server.admin).api("POST", "/projects", {"organisation": "main", "name": "vault"})
    run_world.PROJECT = "main/vault"
    try:
        carol = Person(world, "carol")
        asked = carol.request(spec=spec(pool="leaving"))
        carol.wait(asked, "ordered")
        assert opened(state["leaving"].lease()["lease"])[0]["run"] == asked["run"]
        show_piece_of(asked["run"], own)
        assert carol.call("DELETE", "/" + asked["run"]).status == 204
    finally:
        run_world.PROJECT = PROJECT


def show_piece_of(run_id, own):
    victim, secret = Lease.__new__(Lease), b"patient 4711\n"
    victim.run, victim.attempt, victim.runner = run_id, 1, state["leaving"]
    assert victim.append(0, secret).status == 204
    before = read_log(own.run).body
    columns = "start, length, blob_id, project_id, region_id, digest, size_bytes, part, key_version, wrapped_key, commitment"
    sql(f"CREATE TABLE kept AS SELECT * FROM run_log_piece WHERE run_id IN ('{own.run}', '{run_id}');"
        f"DELETE FROM run_log_piece WHERE run_id IN ('{own.run}', '{run_id}');"
        f"INSERT INTO run_log_piece SELECT '{own.run}', attempt, node, {columns} FROM kept WHERE run_id = '{run_id}'")
    try:
        found = read_log(own.run)
        assert secret[:8] not in found.body, found.body
    finally:
        sql(f"DELETE FROM run_log_piece WHERE run_id = '{own.run}'; INSERT INTO run_log_piece SELECT * FROM kept; DROP TABLE kept")
    assert before and read_log(own.run).body == before


def a_follower_without_read_is_refused():
    lease = state["follow"]
    keeper = make_person(server, "keeper", "project-admin", PROJECT)  # may see runs, and no content
    stranger = make_person(server, "stranger", "publisher", "main/models/digits")
    server.wait_known(state["publisher"], f"{PROJECT}/code")
    denied = len(events("run.log", "denied"))
    assert Client(server, keeper).call("GET", f"/api/v1/projects/{PROJECT}/runs/{lease.run}", scope="registry:admin:*").status == 200
    refused = read_log(lease.run, keeper)
    assert refused.status == 403, (refused.status, refused.body)
    assert len(events("run.log", "denied")) == denied + 1
    assert read_log(lease.run, stranger).status in (403, 404)
    assert read_log("00000000-0000-4000-8000-000000000000").status == 404 and read_log(lease.run, project="main/other").status == 404
    assert Client(server).call("GET", f"/api/v1/projects/{PROJECT}/runs/{lease.run}/log").status == 401
    for query in ({"offset": "x"}, {"offset": "0508"}, {"offset": "9" * 19}, {"node": 256}, {"attempt": 0}, {"attempt": 101}, {"wait_s": 31}, {"limit": 1}):
        assert read_log(lease.run, **query).status == 400, query


def whoever_may_get_a_run_may_ask_for_its_head():
    """RFC 9110, 9.1: GET and HEAD are there for each resource that is read."""
    lease = state["follow"]
    for path in ("", f"/{lease.run}", f"/{lease.run}/log", f"/{lease.run}/bundle"):
        whole, head = state["alice"].call("GET", path), state["alice"].call("HEAD", path)
        assert whole.status == head.status == 200 and head.body == b"", (path, head.status, head.body)
        assert head["Content-Type"] == whole["Content-Type"] and head["Sijil-Log-Attempt"] == whole["Sijil-Log-Attempt"], (path, head.headers)


def a_packed_body_is_refused_as_such():
    path = f"/api/v1/projects/{PROJECT}/runs"
    for coding, status in (("gzip", 415), ("identity", 400)):
        answer = Client(server, state["alice"].login).call("POST", path, b"\x1f\x8b packed", {"Content-Type": "application/json", "Content-Encoding": coding},
                                                          scope="registry:admin:*")
        assert answer.status == status, (coding, answer.status, answer.body)


def a_reader_that_waits_is_decided_again():
    lease, reader = Lease(), make_person(server, "reader", "consumer", PROJECT)
    assert read_log(lease.run, reader).status == 200
    bindings = server.client(server.admin).api("GET", f"/bindings?scope={PROJECT}&limit=1000")["bindings"]
    mine = [one["id"] for one in bindings if one.get("subject") == "reader"]
    denied = len(events("run.log", "denied"))
    assert len(mine) == 1, bindings
    with concurrent.futures.ThreadPoolExecutor() as pool:
        waiting = pool.submit(read_log, lease.run, reader, wait_s=25)
        time.sleep(1)
        server.client(server.admin).api("DELETE", "/bindings/" + mine[0])
        assert lease.append(0, b"not for you\n").status == 204
        answer = waiting.result()
    assert answer.status == 403 and b"not for you" not in answer.body, (answer.status, answer.body)
    assert len(events("run.log", "denied")) == denied + 1
    lease.end()


def kills_lose_nothing_that_was_taken():
    lease, whole, taken = Lease(), b"", threading.Event()
    stop, failed = threading.Event(), []

    def write():
        nonlocal whole
        number = 0
        while not stop.is_set():
            line = b"%06d %s\n" % (number, b"." * (number % 500))
            try:
                answer = lease.append(len(whole), line, server.ports[number % 2] if taken.is_set() else server.ports[1])
            except BROKEN:
                time.sleep(0.05)
                taken.clear() if taken.is_set() else taken.set()
                continue
            if answer.status == 204:
                whole, number = whole + line, number + 1
            elif answer.status == 409:
                failed.append((answer.body, len(whole)))
                return

    writer = threading.Thread(target=write)
    writer.start()
    for _ in range(2):
        for gateway in range(2):
            time.sleep(1)
            assert lease.runner.beat(lease.run, port=server.ports[1 - gateway]).status == 200
            server.kill(gateway)
            server.start_gateway(gateway)
            server.wait_for_gateway(gateway)
    stop.set()
    writer.join(60)
    assert not failed and not writer.is_alive(), failed
    found = b""
    while len(found) < len(whole):
        answer = read_log(lease.run, offset=len(found))
        assert answer.status == 200 and answer.body, (answer.status, len(found), len(whole))
        found += answer.body
    assert found[:len(whole)] == whole and len(whole) > 1000, len(whole)
    lease.end()


# ---- the end ----

def nothing_counts_after_the_end():
    lease, place = Lease(), state["code"]
    token, path = lease.token(), f"{place['repository']}/manifests/{place['digest']}"
    begun = lease.v2("POST", f"{PROJECT}/trained/blobs/uploads/", token=token)["Location"].removeprefix("/v2/")
    lease.end()
    for port in server.ports:
        assert lease.v2("GET", path, token=token, port=port).status == 401
        assert send(lease, f"{PROJECT}/trained", b"late", token, port).status == 401
        assert lease.v2("PATCH", begun, b"late", token=token, port=port).status == 401
        assert lease.ask_token(port=port).status == 409 and lease.append(0, b"late\n", port).status == 409
    assert read_log(lease.run)["Sijil-Log-End"] == "true"
    assert sql(f"SELECT count(*) FROM upload WHERE subject = 'run:{lease.run}' AND expires_at > now()") == "0", "an upload session outlives its run"
    for change in ("ends_at = now()", "ended_at = now(), outcome = 'lost'"):
        lease = Lease()
        token = lease.token()
        assert lease.v2("GET", path, token=token).status == 200
        sql(f"UPDATE run_attempt SET {change} WHERE run_id = '{lease.run}'")
        assert lease.v2("GET", path, token=token).status == 401 and lease.ask_token().status in (403, 409) and lease.append(0, b"x").status == 409
        lease.end()


def a_body_that_moves_ends_with_its_lease():
    lease = Lease()
    begun = lease.v2("POST", f"{PROJECT}/trained/blobs/uploads/")["Location"].removeprefix("/v2/")
    ended, began = [], time.monotonic()

    def slowly():
        for number in range(400):
            if number == 3:
                lease.end()
                ended.append(time.monotonic())
            yield b"x" * 1024
            time.sleep(0.1)
    try:
        answer = Client(server).call("PATCH", "/v2/" + begun, slowly(), {"Authorization": "Bearer " + lease.token(), "Transfer-Encoding": "chunked"},
                                     connection=lease.runner.connection(), encode_chunked=True)
        assert answer.status >= 400, answer.status
    except BROKEN:
        pass
    assert ended and time.monotonic() - ended[0] < 20, time.monotonic() - began
    failed = [one for one in state["world"].events("upload.write") if one["out"] == "failed"]
    assert failed, "no event says that its right was lost"


def many_leases_that_end_cut_no_body_of_another():
    """A project that ended 4,096 leases within two minutes stopped the uploads of all runs of the registry."""
    lease, others = Lease(), asked_for(pool="nobody")
    sql("INSERT INTO run_attempt (run_id, attempt, node, runner, key, session, deadline, ends_at, ended_at, outcome)"
        f" SELECT '{others['run']}', a, n, '{lease.runner.id}', '{lease.runner.key.name}', '\\x{'00' * 16}', now(), now(), now(), 'stopped'"
        " FROM generate_series(1, 17) a, generate_series(0, 255) n")
    Lease.end_of(others["run"])
    data = b"x" * 8000

    def slowly():
        for _ in range(8):  # longer than the dispatcher needs to look
            yield data[:1000]
            time.sleep(1)
    answer = Client(server).call("POST", f"/v2/{PROJECT}/trained/blobs/uploads/?digest={sha256(data)}", slowly(),
                                 {"Authorization": "Bearer " + lease.token(), "Content-Length": str(len(data)), "Content-Type": "application/octet-stream"},
                                 connection=lease.runner.connection(timeout=30))
    assert answer.status == 201, (answer.status, answer.body)
    lease.end()
    sql(f"DELETE FROM run_attempt WHERE run_id = '{others['run']}'")


def a_withdrawn_runner_has_no_token():
    lease, place = Lease(state["leaving"], pool="leaving"), state["code"]
    token, path = lease.token(), f"{place['repository']}/manifests/{place['digest']}"
    assert lease.v2("GET", path, token=token).status == 200
    lease.runner.withdraw()
    for port in server.ports:
        assert lease.v2("GET", path, token=token, port=port).status == 401 and lease.ask_token(port=port).status == 401
        assert lease.append(0, b"x", port).status == 401
    lease.end()


def the_log_goes_when_it_is_due():
    run_id = state["follow"].run
    due = ", ".join(f"'{one}'" for one in [run_id, *state["counted"]])
    objects = int(sql(f"SELECT count(*) FROM run_log_piece JOIN abandoned_object USING (blob_id) WHERE run_id = '{run_id}'"))
    assert objects > 0 and read_log(run_id).status == 200
    counted = int(sql(f"SELECT sum(reserved_bytes) FROM run_log WHERE run_id IN ({due})"))
    used, _ = quota({"bytes": 1 << 40})
    sql(f"UPDATE run SET regions = regions WHERE false; UPDATE run_log SET pieces_due = now() WHERE run_id IN ({due})")
    sijil_test.wait_until(lambda: read_log(run_id).status == 410 and quota()[0] <= used - counted, 60, "the log stays, or counts")
    assert quota()[0] == used - counted and counted > 5110, (quota(), used, counted)
    assert len([one for one in events("run.forget") if run_id in json.dumps(one)]) == 1
    assert sql(f"SELECT count(*) FROM run_log_piece WHERE run_id IN ({due})") == "0"
    assert quota({})[0] == used - counted, "the count without a quota is another one"


# ---- the real runner ----

TRAIN = b"""set -e
echo training on $(cat /in/digits/a.txt) with seed $SEED
mkdir -p /out/model
echo weights > /out/model/w.bin
echo '{"loss": 1}' > /out/metrics.jsonl
sleep 1.5
echo done
"""


def make_state(runner, folder):
    """The folder of an enrolled runner, as the enrolment leaves it (docs/runner.md)."""
    keys = server.client(server.admin).api("GET", "/audit/key")
    signer = subprocess.run(["openssl", "ec", "-pubin", "-outform", "DER"], input=keys["documents"].encode(), capture_output=True, check=True).stdout[-65:]
    key = subprocess.run(["openssl", "pkcs8", "-topk8", "-nocrypt", "-in", runner.key.path], capture_output=True, check=True).stdout
    pins = {"schema": "sijil.runner-registry/v1", "url": f"https://127.0.0.1:{server.ports[0]}", "audience": state["world"].origin,
            "log_key": keys["vkey"], "signer": url64(signer), "root": url64(state["world"].root.point), "ca_file": "ca.pem"}
    with open(runner.certificate, "rb") as certificate, open(server.ca_file, "rb") as authority:
        files = {"registry.json": canonical(pins), "key.pem": key, "ca.pem": authority.read(), "certificate.pem": certificate.read(),
                 "document.json": canonical(seal(RUNNER_TYPE, runner.document, runner.key))}
    os.makedirs(folder, mode=0o700)
    for name, content in files.items():
        with open(os.path.join(folder, name), "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write(content)


def user():
    try:
        return pwd.getpwnam("sijil-run").pw_name
    except KeyError:
        return "nobody"


def the_real_runner_fetches_logs_and_uploads():
    folder = tempfile.mkdtemp(prefix="sijil-content-", dir="/var/tmp")
    os.chmod(folder, 0o755)  # the payload's user must reach its folder
    as_user = [f"--user={user()}"] if os.geteuid() == 0 else []
    checked = subprocess.run([program("sijil-runner"), "check", f"--work={folder}/check", *as_user], capture_output=True, text=True, check=False)
    if "does not work: the sandbox can't be made" in checked.stdout:
        shutil.rmtree(folder)
        raise sijil_test.LeftOut(checked.stdout)
    runner = Runner(state["world"], pool="real")
    make_state(runner, folder + "/state")
    state["code"] = push("code", {"train.sh": TRAIN})
    log = open(folder + "/log", "wb")
    serving = subprocess.Popen([program("sijil-runner"), "serve", f"--state={folder}/state", f"--work={folder}/work", *as_user], stderr=log)
    asked = {"run": ""}
    try:
        asked = asked_for(wait=False, pool="real", argv=["/bin/sh", "/code/train.sh"], environment={"SEED": "7"}, limits={"time_s": 60, "grace_s": 1})
        follower = Follower(asked["run"], server.ports[1])
        wanted = b"training on some digits with seed 7\ndone\n"
        sijil_test.wait_until(lambda: follower.got == wanted or serving.poll() is not None, 60, f"the log is {follower.got}")
        assert follower.got == wanted, (follower.got, open(folder + "/log", encoding="utf-8").read())
        blobs = sorted(json.loads(sql(f"SELECT json_agg(digest) FROM run_upload WHERE run_id = '{asked['run']}'") or "[]") or [])
        sijil_test.wait_until(lambda: sha256(wanted) in sql(f"SELECT string_agg(digest, ' ') FROM run_upload WHERE run_id = '{asked['run']}'"), 30,
                              f"its log is no blob: {blobs}")
        kept = sql(f"SELECT string_agg(digest, ' ') FROM run_upload WHERE run_id = '{asked['run']}'")
        assert all(sha256(content) in kept for content in (b"weights\n", b'{"loss": 1}\n')), kept
        state["alice"].wait(asked, "succeeded", 60)
        assert sql(f"SELECT pieces_due > now() FROM run_log WHERE run_id = '{asked['run']}'") == "t"
        assert read_log(asked["run"]).body == wanted and read_log(asked["run"])["Sijil-Log-End"] == "true"
    finally:
        if asked["run"]:
            Lease.end_of(asked["run"])
        serving.terminate()
        serving.wait(90)
        log.close()
        with open(folder + "/log", encoding="utf-8") as file:
            print(file.read())
        shutil.rmtree(folder, ignore_errors=True)
    follower.join(30)
    assert not follower.is_alive() and follower.failed is None, follower.failed
    assert FOLDER.name


if __name__ == "__main__":
    run(prepare, a_token_reads_what_the_order_names, everything_else_is_refused, a_token_is_bound_to_the_runner, what_the_database_says_is_not_an_order, a_row_of_an_attempt_is_no_lease, a_lease_is_proven_once,
        the_policies_of_today_decide_each_access, what_is_out_of_place_is_closed_to_runners_elsewhere, an_attested_runner_reads_where_it_calls_from, an_index_lets_the_runner_read_what_it_lists, a_token_pushes_blobs_of_outputs, an_order_limits_what_is_pushed, open_uploads_count_and_end_with_the_lease, pieces_are_appended_once,
        a_log_has_a_limit, a_log_counts_in_the_quota, small_pieces_become_few, followers_get_everything_live, a_log_shows_no_piece_of_another_project, a_follower_without_read_is_refused, whoever_may_get_a_run_may_ask_for_its_head, a_packed_body_is_refused_as_such,
        a_reader_that_waits_is_decided_again, kills_lose_nothing_that_was_taken, nothing_counts_after_the_end, a_body_that_moves_ends_with_its_lease, many_leases_that_end_cut_no_body_of_another, a_withdrawn_runner_has_no_token,
        the_log_goes_when_it_is_due, the_real_runner_fetches_logs_and_uploads, server=server)
