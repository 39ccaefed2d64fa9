#!/usr/bin/env python3
"""Training runs on a whole server: requests and approvals signed with openssl, all that must be refused, and one terminal state."""
import base64
import concurrent.futures
import hashlib
import json
import os
import secrets
import signal
import subprocess
import tempfile
import threading
import time
import uuid

import sijil_test
from run_world import APPROVAL, HOUR, KEY_TYPE, PROJECT, REQUEST, Key, canonical, digest_of, seal, spec, url64
from sijil_test import Server, make_person, make_robot, run

RATE = 10  # requests for runs a second, and ten times as many at once: docs/quotas.md
server = Server().start()
folder = tempfile.TemporaryDirectory()
root_key = os.path.join(server.folder, "officer", "approver.pem")
state = {}


def utc(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(seconds))


class SigningKey(Key):
    """A key for people, and its document."""

    def document(self, principal, purpose):
        now = time.time()
        return {"schema": "sijil.document/v1", "kind": "signing-key", "scope": PROJECT, "name": self.name, "version": 1,
                "effective_from": utc(now - 1)[:19] + "Z", "expires": utc(now + 24 * HOUR)[:19] + "Z",
                "body": {"principal": principal, "public_key": url64(self.point), "purpose": purpose}}


def request(**more):
    now = time.time()
    return {"schema": "sijil.run-request/v1", "run": str(uuid.uuid4()), "audience": state["origin"], "project": PROJECT,
            "requester": state["alice"]["principal"], "issued_at": utc(now), "expires": utc(now + HOUR), "nonce": secrets.token_hex(16),
            "spec": spec(), **more}


def approval(asked, who, **more):
    now = time.time()
    return {"schema": "sijil.run-approval/v1", "run": asked["run"], "audience": state["origin"], "request": digest_of(REQUEST, asked),
            "approver": state[who]["principal"], "issued_at": utc(now), "expires": utc(now + HOUR), "nonce": secrets.token_hex(16), **more}


def call(who, method, path="", body=None):
    return server.client(state[who]["login"]).call(method, f"/api/v1/projects/{PROJECT}/runs{path}", None if body is None else json.dumps(body),
                                                   {"Content-Type": "application/json"} if body else {}, scope="registry:admin:*")


def ask(value, who="alice", key=None):
    return call(who, "POST", body=seal(REQUEST, value, key or state[who]["key"]))


def approve(value, who, key=None):
    return call(who, "POST", f"/{value['run']}/approvals", seal(APPROVAL, value, key or state[who]["key"]))


def shown(run_id, who="alice"):
    return call(who, "GET", f"/{run_id}").json


def refused(answer, status, words):
    assert answer.status == status and words in answer.body.decode(), (answer.status, answer.body)


def events(action):
    found = server.client(server.admin).api("GET", "/audit/events?limit=1000")["events"]
    return [one for one in found if one["entry"]["act"] == action]


def enrol(who, purpose="sign"):
    """The person's key: the person drafts its document, and the administrator approves it with the root."""
    login = make_person(server, who, "trainer", PROJECT)
    me = server.client(login).api("GET", "/self")
    principal = "ext:" + hashlib.sha256(f"{me['issuer']}\n{me['name']}".encode()).hexdigest()
    key = SigningKey()
    document = key.document(principal, purpose)
    root = Key(root_key)
    drafted = seal(KEY_TYPE, document, key)
    server.client(login).api("POST", "/keys/signing", drafted)
    server.client(server.admin).api("POST", f"/keys/signing/{key.name}/approval", {"envelopes": [drafted, seal(KEY_TYPE, document, root)]})
    state[who] = {"login": login, "principal": principal, "key": key, "name": me["name"]}


def demand(approvals):
    """Brings a set with a policy that demands so many approvals."""
    officer = os.path.join(server.folder, "officer")
    with open(os.path.join(officer, "policy-set.json"), encoding="utf-8") as file:
        document = json.loads(base64.b64decode(json.load(file)["payload"]))
    document["policies"].append(
        {"apiVersion": "sijil.policy/v1", "kind": "ResidencyPolicy", "closed": False,
         "metadata": {"id": "persons", "version": 1, "scope": ["**"], "effective_from": "2020-01-01T00:00:00Z", "review_by": "2099-01-01"},
         "rules": [{"id": "T-PERSONS", "effect": "oblige", "ops": ["train"], "oblige": {"approvals": approvals, "signed_request": True}}]})
    path = os.path.join(folder.name, "set")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(document, file)
    subprocess.run([sijil_test.program("sijil"), "policy", "sign", "--key", root_key, "--epoch", "2", "--output", path + ".dsse", path], check=True)
    with open(path + ".dsse", encoding="utf-8") as file:
        server.client(server.admin).api("POST", "/policies", json.load(file))


def prepare():
    state["origin"] = server.client(server.admin).api("GET", "/audit/key")["origin"]
    for who in ("alice", "bob", "carol"):
        enrol(who)
    demand(2)


def a_run_waits_for_as_many_persons_as_the_policies_demand():
    asked = request()
    answer = ask(asked)
    assert answer.status == 201 and answer.json["state"] == "awaiting approval" and answer.json["approvals_wanted"] == 2, answer.body
    assert answer.json["request"] == digest_of(REQUEST, asked), answer.json
    again = ask(asked)  # another signature of the same request: its digest is the same
    assert again.status == 201 and again.json["id"] == asked["run"], again.body
    first = approve(approval(asked, "bob"), "bob")
    assert first.status == 201 and first.json["state"] == "awaiting approval" and first.json["approvals"] == 1, first.body
    second = approve(approval(asked, "carol"), "carol")
    assert second.status == 201 and second.json["state"] == "requested", second.body
    assert [one["kind"] for one in second.json["envelopes"]] == ["request", "approval", "approval"], second.json
    refused(approve(approval(asked, "alice"), "alice"), 403, "another person")
    state["run"] = asked["run"]
    named = [one for one in events("run.request") if asked["run"] in one["entry"]["res"] and digest_of(REQUEST, asked) in one["entry"]["res"]]
    assert named, events("run.request")


def nobody_counts_twice_or_approves_his_own():
    asked = request()
    assert ask(asked).status == 201
    refused(approve(approval(asked, "alice"), "alice"), 403, "another person")
    assert approve(approval(asked, "bob"), "bob").status == 201
    refused(approve(approval(asked, "bob"), "bob"), 409, "has approved the run already")
    refused(approve(approval(asked, "carol"), "carol", state["bob"]["key"]), 403, "another principal")
    refused(approve(approval(asked, "carol", request=digest_of(REQUEST, request())), "carol"), 403, "request")
    refused(approve(approval(asked, "carol", expires=utc(time.time() - 5), issued_at=utc(time.time() - 90)), "carol"), 403, "expired")
    assert shown(asked["run"])["approvals"] == 1


def what_is_wrong_with_a_request_is_named():
    other = make_robot(server, "reader", "consumer", PROJECT)
    principal = "robot:" + server.client(other).api("GET", "/self")["id"]
    state["reader"] = {"login": other, "principal": principal, "key": state["alice"]["key"]}
    for value, status, words in (
            (request(audience="another.example/log"), 400, "this one is"),
            (request(project="main/other"), 400, "different projects"),
            (request(requester=state["bob"]["principal"]), 403, "another principal"),
            (request(expires=utc(time.time() - 5), issued_at=utc(time.time() - 90)), 403, "expired"),
            (request(issued_at=utc(time.time() + 600), expires=utc(time.time() + 900)), 403, "future"),
            (request(spec=spec(code={"repository": "elsewhere/models/code", "digest": "sha256:" + "0" * 64})), 403, "elsewhere/models/code"),
            (request(spec=spec(pool="")), 400, "pool"),
            (request(more="x"), 400, "more")):
        refused(ask(value), status, words)
    refused(ask(request(), key=state["bob"]["key"]), 403, "another principal")
    refused(ask(request(), key=Key()), 403, "not enrolled")
    refused(ask(request(), "reader"), 403, "SYS-NO-BINDING")
    refused(ask(request(), "reader"), 403, f"run.request {PROJECT} (")
    broken = seal(REQUEST, request(), state["alice"]["key"])
    broken["payload"] = base64.b64encode(canonical(request())).decode()
    refused(call("alice", "POST", body=broken), 403, "no valid signature")
    first = request()
    assert ask(first).status == 201
    refused(ask(request(run=first["run"])), 409, "another request has this run's id")


def a_run_ends_once():
    asked = request()
    assert ask(asked).status == 201
    assert call("alice", "DELETE", f"/{asked['run']}").status == 204
    assert shown(asked["run"])["state"] == "cancelled" and shown(asked["run"])["ended"]
    assert shown(asked["run"])["reason"] == f"{state['alice']['principal']} asked for it", shown(asked["run"])
    refused(call("alice", "DELETE", f"/{asked['run']}"), 409, "the run is cancelled: it can't be cancelled any more")
    refused(approve(approval(asked, "bob"), "bob"), 409, "state")
    refused(call("alice", "DELETE", f"/{uuid.uuid4()}"), 404, "no such run")
    assert call("alice", "GET", f"/{uuid.uuid4()}").status == 404


def a_request_expires():
    asked = request(expires=utc(time.time() + 3))
    assert ask(asked).status == 201
    sijil_test.wait_until(lambda: shown(asked["run"])["state"] == "expired", 90, "the run did not expire")
    assert [one for one in events("run.expire") if asked["run"] in one["entry"]["res"]]


def lists_have_pages_and_a_filter():
    found, after = [], ""
    while True:
        answer = call("bob", "GET", "?limit=2" + after).json
        found += answer["runs"]
        if "next" not in answer:
            break
        after = "&after=" + answer["next"]
    assert len({one["id"] for one in found}) == len(found) > 3
    one = call("bob", "GET", "?state=cancelled").json["runs"]
    assert one and all(each["state"] == "cancelled" for each in one)
    assert call("bob", "GET", "?state=unheard").status == 400
    assert all("envelopes" not in each for each in found)


def a_row_stays_ended():
    """Not even the database's own administrator brings a cancelled run back with an UPDATE."""
    try:
        server.sql("UPDATE run SET state = 'requested', ended_at = NULL WHERE state = 'cancelled'")
    except subprocess.CalledProcessError as error:
        assert "has ended" in error.stderr, error.stderr
    else:
        raise AssertionError("a run that has ended went on")


def sijil(who, *words, code=0):
    """Runs the command, logged in as this person."""
    home = os.path.join(folder.name, "home-" + who)
    environment = {**os.environ, "HOME": home, "XDG_CONFIG_HOME": home}
    os.makedirs(home, exist_ok=True)
    done = subprocess.run([sijil_test.program("sijil"), *words], input=state[who]["login"][1] + "\n", text=True, capture_output=True,
                          env=environment, timeout=120)
    assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
    return json.loads(done.stdout) if code == 0 and "--json" in words else done.stdout + done.stderr


def the_command_line_does_all_of_it():
    at = f"127.0.0.1:{server.port}"
    pusher = server.client(make_robot(server, "pusher", "publisher", PROJECT)).repository(PROJECT + "/code")
    pusher.push_blob(b"print()")
    pushed = pusher.put_manifest("v1", pusher.manifest(b"print()"))
    assert pushed.status == 201, pushed.body
    for who in ("alice", "bob", "carol"):
        sijil(who, "login", at, "--username", state[who]["login"][0], "--ca-file", server.ca_file)
    wanted = {name: value for name, value in spec(code={"reference": PROJECT + "/code:v1"}, inputs=[]).items()
              if name not in ("environment", "nodes", "tasks", "network", "assurance", "pool", "inputs")}
    path = os.path.join(folder.name, "spec.json")

    def start(value, code=0, **more):
        with open(path, "w", encoding="utf-8") as file:
            file.write(value if isinstance(value, str) else json.dumps(value))
        return sijil("alice", "run", "start", "--json", at, PROJECT, path, "--key", more.get("key", state["alice"]["key"].path), code=code)
    assert "spec.json: not JSON" in start('{"argv":\n x}', code=1)
    assert "limits: time_s is missing" in start({**wanted, "limits": {}}, code=1)
    assert "argvs" in start({**wanted, "argvs": []}, code=1)
    start({**wanted, "code": {"reference": PROJECT + "/code:unheard"}}, code=3)
    assert "another principal" in start(wanted, code=4, key=state["bob"]["key"].path)
    made = start(wanted)
    assert made["state"] == "awaiting approval", made
    whole = sijil("bob", "run", "show", "--json", at, PROJECT, made["id"])
    signed = json.loads(base64.b64decode(json.loads(whole["envelopes"][0]["envelope"])["payload"]))
    assert signed["spec"]["code"] == {"repository": PROJECT + "/code", "digest": pushed["Docker-Content-Digest"]}, signed
    named = ("--request", made["request"])
    assert made["request"] in sijil("bob", "run", "approve", at, PROJECT, made["id"], "--key", state["bob"]["key"].path, *named)
    sijil("alice", "run", "approve", at, PROJECT, made["id"], "--key", state["alice"]["key"].path, *named, code=4)
    last = sijil("carol", "run", "approve", "--json", at, PROJECT, made["id"], "--key", state["carol"]["key"].path, *named)
    assert last["state"] == "requested", last
    listed = sijil("alice", "run", "list", "--json", at, PROJECT)
    assert [one["state"] for one in listed if one["id"] == made["id"]] in (["requested"], ["ordered"]), listed  # the order comes by itself
    listed = sijil("alice", "run", "list", "--json", at, PROJECT, "--state", "awaiting approval")
    assert made["id"] not in [one["id"] for one in listed], listed
    assert f"{made['id']} is cancelled\n" in sijil("alice", "run", "cancel", at, PROJECT, made["id"])
    assert "no such run" in sijil("alice", "run", "cancel", at, PROJECT, str(uuid.uuid4()), code=3)
    text = sijil("bob", "run", "show", at, PROJECT, made["id"])
    assert f"{state['bob']['principal']}, {state['carol']['principal']}" in text and f"{state['alice']['principal']} asked for it" in text, text
    assert sijil("alice", "run", "show", "--json", at, PROJECT, made["id"])["state"] == "cancelled"
    sijil("alice", "run", "show", at, PROJECT, "no-id", code=2)


def on_a_terminal(who, answer, *words):
    """What the command shows on a terminal where this is typed, and its exit status."""
    home = os.path.join(folder.name, "home-" + who)
    leader, follower = os.openpty()
    process = subprocess.Popen([sijil_test.program("sijil"), *words], stdin=follower, stdout=follower, stderr=follower,
                               env={**os.environ, "HOME": home, "XDG_CONFIG_HOME": home})
    os.close(follower)
    shown = b""
    while True:
        try:
            shown += os.read(leader, 65536)
        except OSError:
            break
        if answer and b"Type yes: " in shown:
            os.write(leader, answer.encode() + b"\n")
            answer = None
    os.close(leader)
    return shown.decode(), process.wait(timeout=60)


def nobody_approves_what_was_not_shown():
    """The argument reads otherwise on a terminal that gets it raw: it hides its end, and moves the cursor."""
    at, hidden = f"127.0.0.1:{server.port}", "safe\u202egnp.\u009b2K\x1b[2J\u2028\x7f\n"
    asked = request(spec=spec(argv=["python3", hidden]))
    assert call("alice", "POST", body=seal(REQUEST, asked, state["alice"]["key"])).status == 201
    approve = ("run", "approve", at, PROJECT, asked["run"], "--key", state["bob"]["key"].path)
    digest = shown(asked["run"])["request"]
    assert f"--request {digest}" in sijil("bob", *approve, code=1)
    assert "nothing was signed" in sijil("bob", *approve, "--json", code=1)
    assert "nothing was signed" in sijil("bob", *approve, "--request", "sha256:" + "0" * 64, code=1)
    for words, answer in ((approve, "no"), (approve, "y"), (("run", "show", at, PROJECT, asked["run"]), None)):
        said, code = on_a_terminal("bob", answer, *words)
        assert code == (0 if answer is None else 1) and digest in said, said
        assert f"{state['alice']['principal']} is {state['alice']['name']} of " in said, said
        assert "      | safe\\u202egnp.\\u009b2K\\u001b[2J\\u2028\\u007f" in said, said
        assert not any(letter in said for letter in "\u202e\u009b\x1b\u2028\x7f"), said
    assert shown(asked["run"])["approvals"] == 0
    said, code = on_a_terminal("bob", "yes", *approve)
    assert code == 0 and shown(asked["run"])["approvals"] == 1, said


def a_gateway_that_is_killed_leaves_a_run_whole_or_not_there():
    for _ in range(3):
        asked = request()
        sealed = seal(REQUEST, asked, state["alice"]["key"])

        def post(sealed=sealed):
            try:
                call("alice", "POST", body=sealed)
            except Exception:  # pylint: disable=broad-except # it is killed meanwhile
                pass
        asking = threading.Thread(target=post)
        asking.start()
        time.sleep(secrets.randbelow(300) / 1000)
        server.stop(signal.SIGKILL)
        asking.join()
        server.start()
        runs = int(server.sql(f"SELECT count(*) FROM run WHERE run_id = '{asked['run']}'"))
        envelopes = int(server.sql(f"SELECT count(*) FROM run_envelope WHERE run_id = '{asked['run']}'"))
        assert runs == envelopes, (runs, envelopes)
        again = call("alice", "POST", body=sealed)
        assert again.status == 201 and shown(asked["run"])["state"] == "awaiting approval", again.body


def a_project_asks_for_runs_slowly_and_not_for_ever():
    """Cancelled runs free their place, and their envelopes stay: so neither their number a second nor their bytes may be without a limit."""
    sealed, began = seal(REQUEST, request(), state["alice"]["key"]), time.monotonic()
    alice = server.client(state["alice"]["login"])
    alice.token("registry:admin:*")

    def ask_at_once(_):
        return alice.call("POST", f"/api/v1/projects/{PROJECT}/runs", json.dumps(sealed), {"Content-Type": "application/json"},
                          scope="registry:admin:*")
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask_at_once, range(RATE * 30)))
    took, late = time.monotonic() - began, [answer for answer in answers if answer.status == 429]
    assert {answer.status for answer in answers} == {201, 429} and all(answer["Retry-After"] for answer in late), [answer.status for answer in answers]
    assert len(answers) - len(late) <= RATE * (10 + took + 1), (len(late), took)
    refused(late[0], 429, "asks for runs too fast")
    assert call("bob", "GET", "").status == 200  # only requests for runs are counted

    def ask_slowly():
        answer = call("alice", "POST", body=seal(REQUEST, request(), state["alice"]["key"]))
        return None if answer.status == 429 else answer

    def answer_of_one():
        found = []
        sijil_test.wait_until(lambda: found.append(ask_slowly()) or found[-1], 30, "the rate does not recover")
        return found[-1]

    server.sql(f"UPDATE project_runs SET bytes = bytes + {1 << 30}")
    refused(answer_of_one(), 413, "run_bytes_per_project")
    server.sql(f"UPDATE project_runs SET bytes = bytes - {1 << 30}")
    assert answer_of_one().status == 201
    counted = server.sql("SELECT bytes FROM project_runs")
    assert counted == server.sql("SELECT sum(octet_length(envelope)) FROM run_envelope"), counted


def a_request_beyond_the_budget_is_refused_with_the_figures():
    """An attempt of spec() takes at most its time and grace on its processors."""
    limits = spec()["limits"]
    most = (limits["time_s"] + limits["grace_s"]) * limits["cpus"] * spec()["nodes"]
    path = f"/projects/{PROJECT}/quota"
    boss = server.client(server.admin)
    before = boss.api("GET", path)
    assert before["cpu_seconds"] is None and before["gpu_seconds_used"] == 0, before
    changed = {**{name: before[name] for name in before["ceiling"]}, "cpu_seconds": before["cpu_seconds_used"] + before["cpu_seconds_reserved"] + most - 1}
    assert boss.api("PUT", path, changed)["cpu_seconds"] == changed["cpu_seconds"]
    answer = ask(request())
    refused(answer, 403, f"the run may need {most} CPU-seconds, and of the project's budget of {changed['cpu_seconds']} are")
    assert boss.api("PUT", path, {**changed, "cpu_seconds": changed["cpu_seconds"] + 1})
    asked = request()
    assert ask(asked).status == 201
    assert boss.api("PUT", path, {**changed, "cpu_seconds": None})["cpu_seconds"] is None


if __name__ == "__main__":
    run(prepare, a_run_waits_for_as_many_persons_as_the_policies_demand, nobody_counts_twice_or_approves_his_own,
        what_is_wrong_with_a_request_is_named, a_run_ends_once, a_request_expires, lists_have_pages_and_a_filter, a_row_stays_ended,
        the_command_line_does_all_of_it, nobody_approves_what_was_not_shown, a_gateway_that_is_killed_leaves_a_run_whole_or_not_there,
        a_request_beyond_the_budget_is_refused_with_the_figures, a_project_asks_for_runs_slowly_and_not_for_ever, server=server)
