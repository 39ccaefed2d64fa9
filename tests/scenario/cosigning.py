#!/usr/bin/env python3
"""A registry whose checkpoints are cosigned: two sijil-witness and a liar, 2 of 3. A witness that is down, one that lost its state, a quorum that
is lost and comes back; what is published and proven meanwhile."""
import base64
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import signing_keys
from sijil_test import Server, make_robot, program, run, wait_until
from witness_kit import Liar, Witness, finish

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../vectors"))
import audit_log  # a second implementation of notes

server = Server()
state = {}


def log_text():
    with open(os.path.join(server.root, "log"), encoding="utf-8", errors="replace") as file:
        return file.read()


def published():
    return state["watcher"].call("GET", "/audit/checkpoint", scope="registry:admin:*")


def size_of(note):
    return int(note.split("\n")[1])


def cosigners(note):
    """Names of those whose cosignature of the published note is good, by code of our own; the signature of the log is checked, too."""
    audit_log.open_note(note, state["vkey"])
    good = []
    for witness in state["witnesses"]:
        name = witness.vkey.split("+")[0]
        lines = [line for line in note.split("\n") if line.startswith(f"\u2014 {name} ")]
        assert len(lines) <= 1
        if lines:
            witness.check((lines[0] + "\n").encode(), note)
            good.append(name)
    assert not any("liar" in line for line in note.split("\n"))
    return good


def events(action):
    return [event["entry"] for event in state["auditor"].api("GET", f"/audit/events?action={action}&limit=100")["events"]]


def metric(name):
    text = server.client().call("GET", "/metrics").body.decode()
    return next(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name + " "))


def grow():
    """Something that the log has."""
    state["auditor"].api("GET", "/audit/events?limit=1")


def a_registry_without_witnesses_says_so():
    server.start()
    assert "no witnesses are configured" in log_text()
    for role in ("auditor", "witness"):
        state[role] = make_robot(server, role, role, "")
    state["login"] = state["auditor"]
    state["auditor"], state["watcher"] = server.client(state["auditor"]), server.client(state["witness"])
    key = state["auditor"].api("GET", "/audit/key")
    state["vkey"], state["origin"] = key["vkey"], key["origin"]
    note = published().body.decode()
    assert audit_log.open_note(note, state["vkey"]) and note.count("\u2014") == 1
    assert server.stop() == 0


def a_policy_that_can_not_work_is_refused():
    path = os.path.join(server.root, "policy")
    for text, why in (("quorum w\n", "line 1"), ("witness w %s\nquorum w\n" % state["first"].vkey, "needs the URL"),
                      ("log %s\nquorum none\n" % state["other_log"], "does not list the key of this log")):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        server.options = ["--witness-policy", path]
        server.start(wait=False)
        assert server.process.wait(60) != 0
        assert why in log_text(), (why, log_text()[-3000:])


def make_witnesses():
    first, second = (Witness(state["vkey"], name=f"witness.test/w{i}") for i in (1, 2))
    state.update(first=first, second=second, witnesses=[first, second])
    state["liar"] = Liar(first.path("tls"))
    for witness in state["witnesses"]:
        witness.accept(state["origin"])
        witness.start()


def other_log_key():
    """The key of another log, with its right id."""
    material = base64.b64decode(state["vkey"].split("+", 2)[2])
    key_id = hashlib.sha256(b"other.example/audit\n" + material).digest()[:4].hex()
    state["other_log"] = f"other.example/audit+{key_id}+{base64.b64encode(material).decode()}"


def checkpoints_are_cosigned():
    witnesses = [*state["witnesses"], state["liar"]]
    state["policy"], authorities = os.path.join(server.root, "policy"), os.path.join(server.root, "witnesses.pem")
    with open(state["policy"], "w", encoding="utf-8") as file:
        file.write(f"# who cosigns\nlog {state['vkey']}\n")
        for i, witness in enumerate(witnesses):
            file.write(f"witness w{i + 1} {witness.vkey} https://127.0.0.1:{witness.port}/\n")
        file.write("group two-of-three 2 w1 w2 w3\nquorum two-of-three\n")
    with open(authorities, "w", encoding="ascii") as out:
        for witness in state["witnesses"]:
            with open(witness.path("tls.pem"), encoding="ascii") as file:
                out.write(file.read())
    server.options = ["--witness-policy", state["policy"], "--witness-ca-file", authorities, "--witness-interval", "1", "--witness-lag", "8", "--witness-patience", "15"]
    state["options"] = server.options
    server.start()
    wait_until(lambda: published().status == 200, 60, "no checkpoint is cosigned")
    first = published().body.decode()
    assert cosigners(first) == ["witness.test/w1", "witness.test/w2"], first
    for _ in range(3):
        grow()
        before = size_of(first)
        wait_until(lambda size=before: size_of(published().body.decode()) > size, 30, "the cosigned log stands still")
        first = published().body.decode()
        assert len(cosigners(first)) == 2, first
    assert metric("sijil_audit_witness_late") == 0 and metric("sijil_audit_cosigned_last_seconds") > time.time() - 60
    assert metric("sijil_audit_cosigned_size") >= size_of(first)
    assert server.sql("SELECT count(*) FROM audit_cosigned") > "1"
    rows = state["watcher"].api("GET", "/audit/checkpoints?limit=1000")["checkpoints"]
    known = [row for row in rows if row["cosignatures"]]
    assert known and known[0]["size"] >= size_of(first) and any(not row["cosignatures"] for row in rows), rows[:3]
    for row in known:
        assert [one["witness"] for one in row["cosignatures"]] == cosigners(row["note"]) == ["witness.test/w1", "witness.test/w2"], row


def proofs_are_under_a_cosigned_checkpoint():
    number = state["auditor"].api("GET", "/audit/events?limit=1")["events"][0]["entry"]["seq"]

    def proof():
        return state["auditor"].call("GET", f"/api/v1/audit/events/{number}/proof", scope="registry:admin:*").body.decode()
    wait_until(lambda: len(cosigners(proof().split("\n\n", 1)[1])) == 2, 30, "the event is not under a cosigned checkpoint")
    size = size_of(proof().split("\n\n", 1)[1])
    again = state["auditor"].call("GET", f"/api/v1/audit/events/{number}/proof?size={size}", scope="registry:admin:*").body.decode()
    assert len(cosigners(again.split("\n\n", 1)[1])) == 2


def a_liar_is_reported_once():
    wait_until(lambda: [event["res"] for event in events("witness.refused")], 30, "no event about the liar")
    liars = [event for event in events("witness.refused")]
    assert len(liars) == 1 and "w3" in json.dumps(liars[0]), liars
    assert "without a good cosignature" in log_text() and state["liar"].asked > 3
    assert not events("witness.late")
    assert metric('sijil_audit_witness_failures_total{why="refused"}') >= 3


def a_lost_quorum_is_late_and_nothing_else_is_published():
    state["second"].stop()
    wait_until(lambda: metric("sijil_audit_witness_late") == 1, 60, "nobody notices that the quorum is lost")
    wait_until(lambda: events("witness.late"), 30, "no event says that the quorum is lost")
    kept = published().body.decode()
    grow()
    time.sleep(3)
    assert size_of(published().body.decode()) == size_of(kept) and len(cosigners(kept)) == 2
    number = state["auditor"].api("GET", "/audit/events?limit=1")["events"][0]["entry"]["seq"]
    proof = state["auditor"].call("GET", f"/api/v1/audit/events/{number}/proof", scope="registry:admin:*")
    assert proof.status == 200 and cosigners(proof.body.decode().split("\n\n", 1)[1]) == []
    state["second"].start()
    wait_until(lambda: metric("sijil_audit_witness_late") == 0, 60, "the quorum is not noticed")
    wait_until(lambda: events("witness.back"), 30, "no event says that the quorum is back")
    wait_until(lambda: size_of(published().body.decode()) > size_of(kept), 30, "the cosigned log stands still")
    assert len(cosigners(published().body.decode())) == 2 and len(events("witness.late")) == 1


def a_witness_without_its_state_asks_first():
    second = state["second"]
    second.stop()
    for name in os.listdir(second.directory):
        if name not in ("key", "lock"):
            os.unlink(os.path.join(second.directory, name))
    second.start()
    wait_until(lambda: len(events("witness.refused")) == 2, 60, "no event about the witness without a state")
    assert "w2" in json.dumps(events("witness.refused")[0]) and "--accept" in log_text()
    second.stop()
    second.accept(state["origin"])
    second.start()
    before = size_of(published().body.decode())
    wait_until(lambda: size_of(published().body.decode()) > before, 60, "the log is not cosigned from zero")
    assert len(cosigners(published().body.decode())) == 2


def rows_of_strangers_are_no_cosigned_checkpoints():
    newest = published().body.decode()
    forged = newest.replace(f"\n{size_of(newest)}\n", f"\n{size_of(newest) + 1000}\n")
    server.sql(f"INSERT INTO audit_cosigned (size, note) VALUES ({size_of(newest) + 1000}, E'{forged}'), ({size_of(newest)}, 'nonsense')")
    before = size_of(newest)
    wait_until(lambda: size_of(published().body.decode()) > before, 30, "a forged row stops the feed")
    assert size_of(published().body.decode()) < before + 1000 and len(cosigners(published().body.decode())) == 2


def sijil(*words, **more):
    return subprocess.run([program("sijil"), *words], capture_output=True, text=True, timeout=180, check=False,
                          env={**os.environ, "HOME": server.root, "XDG_CONFIG_HOME": os.path.join(server.root, "config")}, **more)


def logged_in():
    name, secret = state["login"]
    done = sijil("login", f"127.0.0.1:{server.port}", "--ca-file", server.ca_file, "--username", name, "--password-stdin", input=secret)
    assert done.returncode == 0, done.stderr
    return name


def verifiers_demand_the_quorum():
    """sijil-verify with a policy of its user: whom it believes, and what it says without one."""
    number = state["auditor"].api("GET", "/audit/events?limit=1")["events"][0]["entry"]["seq"]
    places = {name: os.path.join(server.root, name) for name in ("entry", "proof", "strict", "foreign", "weak")}

    def fetch(what, query=""):
        return state["auditor"].call("GET", f"/api/v1/audit/events/{number}/{what}{query}", scope="registry:admin:*").body

    def verify(policy, code, *more):
        words = [program("sijil-verify"), "proof", "--key", state["vkey"], "--entry", places["entry"], *more, places["proof"]]
        done = subprocess.run([*words, *(["--witness-policy", places[policy]] if policy else [])], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == code, (policy, done.returncode, done.stdout, done.stderr)
        return done.stdout + done.stderr
    wait_until(lambda: len(cosigners(fetch("proof").decode().split("\n\n", 1)[1])) == 2, 30, "the event is not under a cosigned checkpoint")
    first, second = (witness.vkey for witness in state["witnesses"])
    for name, content in (("entry", fetch("entry")), ("proof", fetch("proof"))):
        with open(places[name], "wb") as file:
            file.write(content)
    for name, content in (("strict", f"witness a {first}\nwitness b {second}\ngroup g all a b\nquorum g\n"),
                          ("foreign", f"witness a {first}\nwitness l {state['liar'].vkey}\ngroup g all a l\nquorum g\n"), ("weak", "quorum none\n")):
        with open(places[name], "w", encoding="utf-8") as file:
            file.write(content)
    assert "2 of 2 witnesses have cosigned (a, b), and the quorum is met" in verify("strict", 0)
    assert json.loads(verify("strict", 0, "--json"))["witnesses"] == ["a", "b"]
    assert "1 of 2 witnesses have cosigned (a), and the quorum is not met" in verify("foreign", 1)
    assert "0 of 0 witnesses" in verify("weak", 0)
    assert "no policy of witnesses was given" in verify(None, 0) and json.loads(verify(None, 0, "--json"))["witnesses"] is None
    grow()
    newest, out = state["auditor"].api("GET", "/audit/events?limit=1")["events"][0]["entry"]["seq"], os.path.join(server.root, "out")
    state["logins"] = logged_in()
    waited = sijil("audit", "proof", f"127.0.0.1:{server.port}", str(newest), "--output", out, "--witness-policy", places["strict"])
    assert waited.returncode == 0, waited.stderr
    with open(os.path.join(out, "entry.tlog-proof"), encoding="utf-8") as file:
        assert len(cosigners(file.read().split("\n\n", 1)[1])) == 2
    export = os.path.join(server.root, "denied.ndjson")
    made = sijil("audit", "export", f"127.0.0.1:{server.port}", "--key", "out:denied", "--output", export, "--witness-policy", places["strict"])
    assert made.returncode == 0, made.stderr
    for policy, code, said in (("strict", 0, "2 of 2 witnesses have cosigned"), ("foreign", 1, "the quorum is not met"), (None, 0, "no policy of witnesses was given")):
        more = ["--witness-policy", places[policy]] if policy else []
        done = subprocess.run([program("sijil-verify"), "export", "--key", state["vkey"], *more, export], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == code and said in done.stdout + done.stderr, (policy, done.stdout, done.stderr)
    whole = fetch("proof").decode()
    line = next(line for line in whole.split("\n") if line.startswith("\u2014 witness.test/w2"))
    with open(places["proof"], "w", encoding="utf-8") as file:
        file.write(whole.replace(line + "\n", ""))
    verify("strict", 1)
    with open(places["proof"], "w", encoding="utf-8") as file:
        file.write(whole.replace(line, line[:-8] + ("AAAA" if line[-8:-4] != "AAAA" else "BBBB") + line[-4:]))
    verify("strict", 1)


def a_gateway_without_the_pinned_policy_does_not_start():
    assert server.stop() == 0
    for options, why in (([], "has pinned a policy of witnesses"), (["--witness-policy", os.path.join(server.root, "weak")], "another policy of witnesses is pinned")):
        server.options = options
        server.start(wait=False)
        assert server.process.wait(90) != 0
        assert why in log_text()


def after_a_start_nothing_is_signed_without_the_quorum():
    server.options = state["options"]
    state["second"].stop()
    server.start(wait=False)
    time.sleep(8)
    begun = time.monotonic()
    server.stop()  # whoever waits for witnesses still takes a signal
    assert time.monotonic() - begun < 20
    server.start(wait=False)
    time.sleep(8)
    assert server.process.poll() is None, log_text()[-3000:]
    assert not is_open() and "sijil-keyd was started, and waits for the witnesses" in log_text()
    state["second"].start()
    server.wait_ready()
    before = size_of(published().body.decode())
    grow()
    wait_until(lambda: size_of(published().body.decode()) > before, 30, "the cosigned log stands still")


def is_open():
    try:
        return server.is_ready()
    except OSError:
        return False


def a_keyd_that_was_killed_waits_for_the_quorum_too():
    old = server.processes("sijil-keyd")
    for process in old:
        os.kill(process, signal.SIGKILL)
    wait_until(lambda: server.processes("sijil-keyd") and not set(old) & set(server.processes("sijil-keyd")), 60, "sijil-keyd is not started again")
    server.wait_ready()
    before = size_of(published().body.decode())
    grow()
    wait_until(lambda: size_of(published().body.decode()) > before, 30, "the cosigned log stands still")


def signed(kind, name, body, scope="", **more):
    """By the root, which is also the key of an approver here."""
    now = time.time()
    ends = {} if kind == "restriction" else {"expires": signing_keys.utc(now + 86400)}
    document = signing_keys.canonical({"schema": "sijil.document/v1", "kind": kind, "scope": scope, "name": name, "version": 1, "effective_from": signing_keys.utc(now), **ends, "body": body, **more})
    return signing_keys.sign(document, os.path.join(server.folder, "officer", "approver.pem"), f"application/vnd.sijil.{kind}.v1+json")


def administrative_changes():
    """What an administrator may do with a quorum, by path; docs/witness.md, "What waits for a quorum"."""
    sink = signed("audit-sink", "old", {"transport": "file", "region": "local/main", "address": "old.ndjson", "classes": {"api-activity": []}})
    rule = signed("detection-rule", "pulls", {"detector": "mass-pull", "threshold": 5})
    person = signed("erasure", "0" * 64, {"reason": "a test"})
    free = {"metadata": {"id": "main.closed", "version": 1, "scope": ["main/**"], "organisation": "main", "effective_from": "2026-01-01T00:00:00Z", "review_by": "2030-01-01"},
            "rules": [{"id": "A", "effect": "require", "ops": ["ingest"], "target": {"geo_within": ["AE"]}, "message": "m"}]}
    restriction = signed("restriction", "main.closed", {"policy": {"apiVersion": "sijil.policy/v1", "kind": "ResidencyPolicy", "closed": False, **free}}, "main")
    release = signed("legal-hold", "kept", {}, version=2, withdrawn="over")
    hold = {"scope": "main/models", "reason": "a test"}
    project, holds = "/projects/main/models", "/content-holds/3d0c2f1a-9b1e-4a57-8a43-0d6f5f0c7a11"

    def twice(envelope):
        return {"envelopes": [envelope, envelope]}
    return [("/audit/sinks", sink), ("/audit/sinks/old/approval", twice(sink)), ("/audit/detections", rule), ("/audit/detections/pulls/approval", twice(rule)), ("/erasures", person),
            (f"/erasures/{'0' * 64}/approval", twice(person)), ("/restrictions", restriction), ("/restrictions/main.closed/approval", twice(restriction)),
            ("/holds/kept/withdrawal", release), ("/holds/kept/approval", twice(release)), (holds + "/release", hold), (holds + "/release/approval", {"scope": "main/models", "asked_by": "ext:" + "0" * 64}),
            ("/log-key", signing_keys.sign(b"an order", os.path.join(server.folder, "officer", "approver.pem"), "application/vnd.sijil.log-key.v1+json")),
            (project + "/quota", {}), (project + "/rules", {}), (project + "/copies", {"region": "no/such"}), (project + "/move", {"region": "no/such"}),
            ("/regions/drain", {"region": "local/main", "end": True}), ("/regions/retire", {"region": "local/main"})]


def without_a_quorum_rights_are_taken_and_not_made():
    admin = server.client(server.admin)
    kept = admin.api("POST", "/robots", {"organisation": "main", "name": "to-be-revoked"})
    state["second"].stop()

    def make(name):
        return admin.call("POST", "/api/v1/robots", json.dumps({"organisation": "main", "name": name}), {"Content-Type": "application/json"}, scope="registry:admin:*")
    wait_until(lambda: make(f"robot-{time.monotonic_ns()}").status == 503, 60, "rights are made without a quorum")
    refused = make("another")
    service = signed("scim-service", "bank", {"issuer": "https://id.bank.example", "claim": "/sub", "client": "robot:" + kept["id"], "deactivations": 5})
    waits = admin.call("POST", "/api/v1/scim", json.dumps(service), {"Content-Type": "application/json"}, scope="registry:admin:*")
    assert waits.status == 503 and b"no quorum of witnesses has cosigned" in waits.body, waits.body
    assert b"no quorum of witnesses has cosigned" in refused.body and int(refused["Retry-After"]) > 0, refused.body
    waiting = administrative_changes()
    for path, body in waiting:
        method = "PUT" if path.endswith(("/quota", "/rules")) else "POST"
        answer = admin.call(method, "/api/v1" + path, json.dumps(body), {"Content-Type": "application/json"}, scope="registry:admin:*")
        assert answer.status == 503 and b"no quorum of witnesses has cosigned" in answer.body, (path, answer.status, answer.body)
    assert metric('sijil_refused_total{why="no_witnesses"}') >= 2 + len(waiting)
    hold = signed("legal-hold", "kept", {"content": "main/models", "reason": "what keeps something does not wait"})
    answer = admin.call("POST", "/api/v1/holds", json.dumps(hold), {"Content-Type": "application/json"}, scope="registry:admin:*")
    assert b"no quorum" not in answer.body or answer.status != 503, answer.body
    assert admin.call("DELETE", f"/api/v1/robots/{kept['id']}", scope="registry:admin:*").status in (200, 204)
    grow()
    state["second"].start()
    wait_until(lambda: make(f"robot-{time.monotonic_ns()}").status == 201, 60, "rights are not made with a quorum")


def what_was_set_back_together_is_refused():
    """Database and keyd's folder from one older copy: both agree with each other, and only the witnesses know more. Then the folder alone, which would sign what is there."""
    old, newer = server.folder + ".old", server.folder + ".newer"
    assert server.stop() == 0
    subprocess.run(["cp", "-a", server.folder, old], check=True)
    server.start()
    before = size_of(published().body.decode())
    grow()
    wait_until(lambda: size_of(published().body.decode()) > before, 30, "the cosigned log stands still")
    assert server.stop() == 0
    os.rename(server.folder, newer)
    os.rename(old, server.folder)
    server.start(wait=False)
    assert server.process.wait(90) != 0
    assert "were set back together" in log_text(), log_text()[-3000:]
    os.rename(server.folder, old)
    os.rename(newer, server.folder)
    keyd, said = os.path.join(server.folder, "keyd"), len(log_text())
    os.rename(keyd, keyd + ".newer")
    subprocess.run(["cp", "-a", os.path.join(old, "keyd"), keyd], check=True)
    server.start(wait=False)
    assert server.process.wait(90) != 0
    assert "were set back together" in log_text()[said:], log_text()[-3000:]
    shutil.rmtree(keyd)
    os.rename(keyd + ".newer", keyd)
    server.start()
    grow()


def the_root_signs_another_policy():
    """A quorum that is lost for good is replaced: the registry does not start with the old policy, and does with the new one."""
    assert server.stop() == 0
    state["second"].stop()
    text, signed = os.path.join(server.root, "next"), os.path.join(server.root, "next.signed")
    with open(text, "w", encoding="utf-8") as file:
        file.write(f"witness w1 {state['first'].vkey} https://127.0.0.1:{state['first'].port}/\nquorum w1\n")
    key = os.path.join(server.folder, "officer", "approver.pem")

    def sign(epoch, origin):
        return subprocess.run([program("sijil"), "audit", "witnesses", "sign", "--key", key, "--origin", origin, "--epoch", epoch, "--output", signed, text],
                              capture_output=True, text=True, timeout=60, check=False)
    assert sign("0", state["origin"]).returncode != 0
    for origin, code in (("other.example/audit", 1), (state["origin"], 0)):
        done = sign("1", origin)
        assert done.returncode == 0, done.stderr
        server.options = ["--witness-policy", signed, *state["options"][2:]]
        server.start(wait=False)
        if code:
            assert server.process.wait(90) != 0 and "is for another log" in log_text()
    server.wait_ready()
    before = size_of(published().body.decode())
    grow()
    wait_until(lambda: size_of(published().body.decode()) > before, 30, "the cosigned log stands still")
    assert cosigners(published().body.decode()) == ["witness.test/w1"]
    state["second"].start()


def it_ends_in_order():
    server.finish(False)
    state["liar"].close()
    for witness in state["witnesses"]:
        shown = finish(witness)
        assert state["origin"] in shown


run(a_registry_without_witnesses_says_so, make_witnesses, other_log_key, a_policy_that_can_not_work_is_refused, checkpoints_are_cosigned,
    proofs_are_under_a_cosigned_checkpoint, a_liar_is_reported_once, a_lost_quorum_is_late_and_nothing_else_is_published,
    a_witness_without_its_state_asks_first, rows_of_strangers_are_no_cosigned_checkpoints, verifiers_demand_the_quorum,
    a_gateway_without_the_pinned_policy_does_not_start, after_a_start_nothing_is_signed_without_the_quorum,
    a_keyd_that_was_killed_waits_for_the_quorum_too, without_a_quorum_rights_are_taken_and_not_made,
    what_was_set_back_together_is_refused, the_root_signs_another_policy, it_ends_in_order)
