#!/usr/bin/env python3
"""The ceremony of docs/recovery.md: a database comes back from an old copy, and then not at all. Two officers sign, sijil-keyd checks, and the log goes on
under a new origin. What does not count as two officers, what no flag does, a ceremony that is broken off, and what auditors see afterwards."""
import base64
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time

from apart import Apart, call, enrol
from sijil_test import login_of, make_person, make_robot, program, run, wait_until
from witness_kit import renamed
from signing_keys import Key, canonical, sign, utc

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../vectors"))
import audit_log  # a second implementation of notes

REGISTRY = "registry.example/audit"
OTHER_KEY = "sijil.example/audit+c63c23bb+AYqI4910CfGV/VLbLTy6XXLKZwm/HZQSG/N0iAG0D29c"
server = Apart()
state = {}


def sijild(*words, code=0):
    return server.sijild(*words, code=code)


def plan(name, code=0, reason="the disk of the database is lost", *more):
    return sijild("--recover-plan", server.path(name), "--recover-reason", reason, *more, code=code)


def sign_plan(name, *keys):
    return server.sign_plan(name, *keys)


def recover(signed, code=0):
    return server.recover(signed, code)


def root():
    return server.path("approver.pem")


def auditor():
    return server.client(state["auditor"])


def get(path):
    answer = auditor().call("GET", path, scope="registry:admin:*")
    assert answer.status == 200, (path, answer.status, answer.body)
    return answer.body


def vkey():
    return auditor().api("GET", "/audit/key")["vkey"]


def keep(name, content):
    with open(server.path(name), "wb") as file:
        file.write(content)
    return server.path(name)


def verify_proof(key, number, prefix, code=0):
    return call(program("sijil-verify"), "proof", "--key", key, "--entry", server.path(f"{prefix}.entry.{number}"), server.path(f"{prefix}.proof.{number}"), code=code)


def keep_proof(number, prefix):
    server.await_signed()
    entry = keep(f"{prefix}.entry.{number}", get(f"/api/v1/audit/events/{number}/entry"))
    keep(f"{prefix}.proof.{number}", get(f"/api/v1/audit/events/{number}/proof"))
    return entry


def a_registry_works():
    server.prepare()
    state["auditor"] = make_robot(server, "auditor", "auditor", "")
    state["publisher"] = make_robot(server, "publisher", "publisher", "main/models")
    alice, state["officer"] = (make_person(server, name, role, "") for name, role in (("alice", "registry-admin"), ("dora", "security-officer")))
    state["alice"] = enrol(server, alice, state["officer"], "approve")
    state["bob"] = enrol(server, make_person(server, "bob", "registry-admin", ""), state["officer"], "sign")  # who may sign requests, and approve nothing
    server.client(state["publisher"]).repository("main/models/digits").push_blob(b"kept" * 100)
    send_roles(alice, "", version=1)
    state["old key"] = vkey()
    assert state["old key"].startswith(REGISTRY + "+")
    state["kept number"] = server.log_size() - 1
    keep_proof(state["kept number"], "old")
    server.await_signed()
    server.rest()
    state["left"] = keep_database("older")
    server.start_keyd()
    server.postgres_does("restart")
    server.start_gateway()
    assert server.serves()
    server.grow(5)
    erin = make_person(server, "erin", "registry-admin", "")
    state["lost"], state["gone"] = (enrol(server, erin, state["officer"], "sign") for _ in range(2))
    withdraw(erin, state["gone"])
    withdraw_roles(alice)
    state["lost number"] = server.log_size() - 1
    keep_proof(state["lost number"], "old")
    state["signed"] = server.await_signed()
    state["newest"] = get("/api/v1/audit/checkpoint").decode()


def keep_database(name):
    """A copy of the database at rest; its size is asked before, because the last events come while the gateway stops."""
    subprocess.run(["cp", "-a", server.data(), server.path("data." + name)], check=True)
    server.postgres_does("restart")
    size = server.log_size()
    server.postgres_does("crash")
    return size


def nothing_is_planned_while_nothing_is_lost():
    server.stop_gateway()
    said = plan("needless", code=1)
    assert "nothing is lost" in said and not os.path.exists(server.path("needless")), said
    state["signed"] = server.log_size()


def the_database_is_lost_and_an_old_copy_is_refused():
    server.postgres_does("crash")
    server.put_database("older")
    mark = server.mark()
    server.start_gateway()
    assert not server.serves()
    said = server.said_since(mark)
    assert f"sijil-keyd signed {state['signed']} events, the log ends at {state['left']}" in said and "docs/recovery.md" in said, said[-2000:]


def the_plan_says_what_is_lost():
    said = plan("plan")
    assert f'"signed":"{state["signed"]}"' in said and f'"left":"{state["left"]}"' in said and f'"proven by a checkpoint":"{state["left"]}"' in said, said
    with open(server.path("plan.keys"), encoding="utf-8") as file:
        assert file.read() == state["old key"] + "\n"  # no other key has followed
    shown = call(program("sijil"), "admin", "recover", "show", server.path("plan"))
    for words in (f"ends      {REGISTRY}, of which {state['signed']} entries were signed", f"begins    {REGISTRY}/2, with the first {state['left']} entries",
                  f"lost      {state['signed'] - state['left']} entries", "the disk of the database is lost", f"new key   {REGISTRY}/2+", "officers  2 must sign"):
        assert words in shown, shown
    note = shown.split("log that ends:\n", 1)[1]
    assert audit_log.open_note(note, state["old key"]).split("\n")[:2] == [REGISTRY, str(state["signed"])]


def only_two_officers_count():
    stranger = Key("robot:nobody")
    with open(server.path("plan"), "rb") as file:
        keep("alone", file.read().replace(b"officers 2", b"officers 1"))
    said = recover(sign_plan("alone", root()), code=1)
    assert "only sijild --embedded lets one administrator do it" in said, said
    for keys, why in (((root(),), "1 of 2 officers have signed the plan"), ((root(), root()), "1 of 2 officers have signed the statement"),
                      ((root(), stranger.path), "1 of 2 officers"), ((root(), state["bob"].path), "1 of 2 officers"),
                      ((stranger.path, state["bob"].path), "0 of 2 officers")):
        said = recover(sign_plan("plan", *keys), code=1)
        assert why in said, (why, said)


def a_plan_is_for_one_state_of_one_log():
    with open(server.path("plan"), encoding="utf-8") as file:
        text = file.read()
    changes = {"another size": (f"before {REGISTRY} {state['signed']} ", f"before {REGISTRY} {state['signed'] - 1} ", "make another plan"),
               "a key of nobody": (renamed(state["old key"], REGISTRY + "/2"), renamed(OTHER_KEY, REGISTRY + "/2"), "Make another plan"),
               "an earlier version": ("succession/v2", "succession/v1", "make another plan"),
               "one officer": ("officers 2", "officers 1", "of 1 officers have signed"),
               "the same origin": (f"after {REGISTRY}/2", f"after {REGISTRY}", "has another origin"),
               "an origin that is passed over": (f"after {REGISTRY}/2", f"after {REGISTRY}/3", "has another origin"),
               "an older checkpoint": (text.split("\n\n", 1)[1], get_older_note(), "is not the newest one")}
    other = text.replace(REGISTRY, "other.example/audit")
    key = renamed(state["old key"], REGISTRY + "/2")
    changes["another registry"] = (text, other.replace(key.replace(REGISTRY, "other.example/audit"), renamed(key, "other.example/audit/2")), "another registry")
    for name, (old, new, why) in changes.items():
        assert old in text, name
        with open(server.path("edited"), "w", encoding="utf-8") as file:
            file.write(text.replace(old, new))
        try:
            said = recover(sign_plan("edited", root(), state["alice"].path), code=1)
        except AssertionError as refused:  # the command that signs reads the plan, too
            said = str(refused)
        assert why in said, (name, said)


def get_older_note():
    return server.sql("SELECT note FROM audit_checkpoint ORDER BY size LIMIT 1")


def a_ceremony_that_is_broken_off_goes_on():
    """sijil-keyd has taken the plan, and the database does not know it yet."""
    signed = sign_plan("plan", root(), state["alice"].path)
    with open(server.path("nobody"), "w", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write("host=/nonexistent dbname=none user=none\n")
    sijild("--recover", signed, "--database-owner", server.path("nobody"), code=75)
    server.stop_keyd()
    server.start_keyd()
    mark = server.mark()
    server.start_gateway()
    assert not server.serves()
    assert "end the recovery with sijild --recover" in server.said_since(mark)
    with open(server.path("plan"), "rb") as file:
        keep("forged", file.read().replace(b"the disk of the database is lost", b"nobody has signed this"))
    said = recover(sign_plan("forged", Key("robot:nobody").path, state["bob"].path), code=1)
    assert "0 of 2 officers" in said, said  # the database must not get a statement that sijil-keyd has not checked
    said = recover(signed)
    assert "goes on under a new origin" in said, said
    recover(signed)  # once more: nothing happens
    assert server.sql("SELECT name, begins, size FROM audit_log") == f"{REGISTRY}/2|{state['left']}|{state['left'] + 1}"


def the_registry_serves():
    server.start_gateway()
    assert server.serves()
    state["new key"] = vkey()
    assert state["new key"].startswith(f"{REGISTRY}/2+") and state["new key"] != state["old key"]
    server.client(state["publisher"]).repository("main/models/digits").push_blob(os.urandom(1000))
    answer = auditor().call("GET", "/api/v1/audit/events?limit=1", scope="registry:admin:*")
    assert answer["Sijil-Audit"].startswith(f"{REGISTRY}/2/"), answer.headers


def the_first_entry_says_what_ended():
    entry = json.loads(get(f"/api/v1/audit/events/{state['left']}/entry"))
    with open(server.path("plan"), "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    ended = audit_log.open_note(state_note(), state["old key"]).split("\n")
    wanted = f"sha256:{digest} {state['signed']} " + base64.urlsafe_b64encode(base64.b64decode(ended[2])).decode().rstrip("=") + " 2"
    assert entry["act"] == "log.succeed" and entry["res"].endswith("#" + wanted) and entry["actor"] == "system", entry
    assert server.sql("SELECT count(*) FROM audit_succession") == "1"


def state_note():
    shown = call(program("sijil"), "admin", "recover", "show", server.path("plan"))
    return shown.split("log that ends:\n", 1)[1]


def proofs_old_and_new():
    number = state["kept number"]
    verify_proof(state["old key"], number, "old")          # what was proven stays proven
    verify_proof(state["old key"], state["lost number"], "old")  # also of what is lost: the loss can be shown
    keep_proof(number, "new")
    verify_proof(state["new key"], number, "new")          # the new log has the entries that are left
    verify_proof(state["old key"], number, "new", code=1)  # under its own key alone
    with open(server.path(f"old.entry.{number}"), "rb") as old, open(server.path(f"new.entry.{number}"), "rb") as new:
        assert old.read() == new.read()
    page = auditor().api("GET", "/audit/events?limit=1000&purpose=after+the+recovery")["events"]
    assert any(event["who"] and event["who"].get("subject") for event in page if event["entry"]["seq"] < state["left"]), page[-1]


def an_auditor_follows_from_the_old_key_to_the_new_one():
    """With the old key, the keys of two officers and the signed plan alone, and then with the first entry of the new log."""
    state["keys"] = {}
    for name, key in (("root", root()), ("alice", state["alice"].path), ("bob", state["bob"].path)):
        state["keys"][name] = server.path(name + ".pub.pem")
        call("openssl", "ec", "-in", key, "-pubout", "-out", state["keys"][name])

    def follow(*more, first="root", second="alice", key=state["old key"], plan_file="plan.signed", code=0):
        return call(program("sijil-verify"), "succession", "--key", key, "--root", state["keys"][first], "--signer", state["keys"][second], server.path(plan_file), *more, code=code)
    said = follow()
    assert state["new key"] in said and f"ended with {state['signed']} entries" in said and "no policy of witnesses was given" in said, said
    assert json.loads(follow("--json"))["key"] == state["new key"]
    with open(server.path("plan.keys"), encoding="utf-8") as file:
        assert state["new key"] in follow(key=file.read())
    keep_proof(state["left"], "first")
    keep_proof(state["left"] + 1, "second")
    proofs = {number: ["--entry", server.path(f"{name}.entry.{number}"), server.path(f"{name}.proof.{number}")] for number, name in ((state["left"], "first"), (state["left"] + 1, "second"))}
    assert "it is in the new log, and names this statement" in follow(*proofs[state["left"]])
    assert "does not say" in follow(*proofs[state["left"] + 1], code=1)
    assert "has not signed" in follow(second="bob", code=1)
    assert "two are one" in follow(second="root", code=1)
    follow(key=state["new key"], code=1)
    follow(plan_file="plan", code=1)
    the_policy_set_says_how_many_sign(follow)
    with open(server.path("plan.signed"), encoding="utf-8") as file:
        lines = file.read().split("\n")
    keep("twice", "\n".join([lines[0], lines[0], ""]).encode())
    assert "has not signed" in follow(plan_file="twice", code=1)
    keep("nobody-has", "witness w witness.example/w0+253ebc85+BEOnLnFEAXYt9mtowm373yaCquyfJHTspGE+QkoPuv08\nquorum w\n".encode())
    assert "quorum" in follow("--witness-policy", server.path("nobody-has"), code=1)


def the_policy_set_says_how_many_sign(follow):
    """A verifier takes the number that the root has signed, whatever keys it is given."""
    with open(server.path("set.dsse"), "rb") as file:
        set_now = file.read()
    follow("--set", keep("set", set_now))

    def with_root(persons, key, epoch=2, policies=1):
        found = {**json.loads(base64.b64decode(json.loads(set_now)["payload"])), "epoch": epoch, "root": {"officers": 1, "policies": policies, "root": persons, "holder": "ext:" + "0" * 64}}
        found.pop("digest")
        found["digest"] = "sha256:" + hashlib.sha256(canonical(found)).hexdigest()
        return keep("set", json.dumps(sign(canonical(found), key, "application/vnd.sijil.policy-set.v1+json")).encode())
    follow("--set", with_root(2, root()))
    assert "the policy set says that the root is 3 persons" in follow("--set", with_root(3, root()), code=1)
    assert "needs the signatures of 1 of the given officers, and has 0" in follow("--set", with_root(3, state["bob"].path), code=1)
    assert "needs the signatures of 2 of the given officers, and has 1" in follow("--set", with_root(2, root(), policies=2), code=1)
    assert "and has 1, and that of the root" in follow("--set", with_root(1, state["alice"].path), code=1)  # nobody lowers the number alone, but the root
    assert "another policy set than number 1" in follow("--set", with_root(1, root(), epoch=1), code=1)


def exports_and_dumps_go_across():
    export = server.path("denied.ndjson")
    name, secret = state["auditor"]
    environment = {**os.environ, "HOME": server.root, "XDG_CONFIG_HOME": server.path("config")}
    host = f"127.0.0.1:{server.port}"
    call(program("sijil"), "login", host, "--ca-file", server.ca_file, "--username", name, "--password-stdin", env=environment, input=secret)
    call(program("sijil"), "audit", "export", host, "--key", "act:system", "--output", export, env=environment)
    call(program("sijil-verify"), "export", "--key", state["new key"], export)
    server.psql.ask("DO $$ BEGIN CREATE ROLE dumper LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$; SELECT grant_audit_dump('dumper')")
    keep("dump-database", f"host={server.database_at} dbname=sijil_template user=dumper\n".encode())
    os.chmod(server.path("dump-database"), 0o600)
    server.await_signed()
    call(program("sijil-audit-dump"), "--database", server.path("dump-database"), "--output", server.path("dump"))
    said = call(program("sijil-verify"), "fsck", "--key", state["new key"], server.path("dump"))
    assert "Sound" in said and f"entry {state['left']} says so" in said, said
    call(program("sijil-verify"), "fsck", "--key", state["old key"], server.path("dump"), code=1)


def withdraw(person, key):
    body = json.dumps(sign(key.document(version=2, withdrawn="it was copied"), key.path))
    answer = server.client(person).call("POST", f"/api/v1/keys/signing/{key.name}/withdrawal", body, {"Content-Type": "application/json"}, scope="registry:admin:*")
    assert answer.status == 201 and answer.json["state"] == "withdrawn", answer.body


def send_roles(person, path, version, **more):
    """Roles of a group, which the root signs alone."""
    body = {"issuer": server.people.url, "claim": "/groups", "grant": [{"group": "staff", "role": "consumer", "on": "main"}]}
    document = canonical({"schema": "sijil.document/v1", "kind": "group-roles", "scope": "", "name": "staff", "version": version, "effective_from": utc(time.time() - 1),
                          "expires": utc(time.time() + 86400), "body": body, **more})
    text = json.dumps(sign(document, root(), "application/vnd.sijil.group-roles.v1+json"))
    answer = server.client(person).call("POST", "/api/v1/groups" + path, text, {"Content-Type": "application/json"}, scope="registry:admin:*")
    assert answer.status == 201, (answer.status, answer.body)


def withdraw_roles(person):
    send_roles(person, "/staff/withdrawal", 2, body={}, withdrawn="they have left")
    assert state_of_roles() == "withdrawn"


def state_of_roles():
    rows = server.client(server.admin).api("GET", "/groups")["groups"]
    return next(row["state"] for row in rows if row["name"] == "staff")


def what_was_withdrawn_is_withdrawn_again():
    """The copy of the database does not know it, so the version is one that sijil-keyd has seen."""
    assert state_of_roles() == "in force"
    withdraw_roles(login_of(server, "alice"))
    assert server.is_ready()


def what_was_lost_can_be_done_again():
    """A key that was enrolled in the lost time is enrolled again. One that was withdrawn then stays withdrawn for sijil-keyd."""
    server.client(server.admin).api("POST", "/bindings", {"issuer": server.people.url, "subject": "erin", "role": "registry-admin", "scope": ""})  # the role was lost, too
    erin = login_of(server, "erin")
    enrol(server, erin, state["officer"], "sign", state["lost"])
    try:
        enrol(server, erin, state["officer"], "sign", state["gone"])
    except AssertionError as refused:
        assert "was withdrawn" in str(refused), refused
    else:
        raise AssertionError("a withdrawn key came back")


def documents_stay_in_force():
    keys = server.client(server.admin).api("GET", "/keys/signing?limit=1000&scope=")["keys"]
    assert {one["name"]: one["state"] for one in keys} == {state["alice"].name: "in force", state["bob"].name: "in force"}, keys
    carol = enrol(server, make_person(server, "carol", "registry-admin", ""), state["officer"], "sign")
    assert carol.name


def no_shorter_log_is_taken_under_its_own_origin():
    server.rest()
    server.put_database("older")
    server.start_keyd()
    mark = server.mark()
    server.start_gateway()
    assert not server.serves()
    said = server.said_since(mark).replace("\\u0022", "'")
    assert f"the database has the log '{REGISTRY}', and sijil-keyd signs '{REGISTRY}/2'" in said, said[-2000:]
    said = recover(server.path("plan.signed"), code=1)  # the old plan, and the old copy once more: sijil-keyd has signed more since
    assert "signed" in said, said


def killed_while_it_recovers(signed, moment):
    """kill -9 of the program, and of sijil-keyd, at some moment."""
    process = subprocess.Popen([program("sijild"), "--config", server.path("sijild.conf"), "--recover", signed, "--database-owner", server.path("owner")],
                               stdout=server.log, stderr=server.log)
    time.sleep(0.08 * moment)
    if moment % 2 == 1:
        server.keyd.kill()
        server.keyd.wait()
        server.start_keyd()
    process.kill()
    process.wait()


def everything_of_the_database_is_lost():
    server.postgres_does("crash")
    shutil.rmtree(server.data())
    server.stop_postgres()
    server.has_postgres = True
    server.start_postgres()
    call("sed", "-i", f"s,host=[^ ]*,host={server.database_at},", server.path("sijild.conf"), server.path("owner"))
    server.run(program("sijild"), "--migrate", "--database-owner", server.path("owner"))
    plan("all")
    shown = call(program("sijil"), "admin", "recover", "show", server.path("all"))
    assert f"begins    {REGISTRY}/3, with the first 0 entries" in shown, shown
    signed = sign_plan("all", state["alice"].path, root())
    for moment in range(8):
        killed_while_it_recovers(signed, moment)
    recover(signed)
    os.unlink(server.path("admin.json"))
    server.run_sijild("--found", server.path("admin.json"), "--approver", server.path("approver.pub.pem"), "--policy-set", server.path("set.dsse"))
    server.start_gateway()
    assert server.serves()
    state["auditor"] = make_robot(server, "auditor", "auditor", "")
    assert vkey().startswith(f"{REGISTRY}/3+")
    assert json.loads(get("/api/v1/audit/events/0/entry"))["act"] == "log.succeed"
    server.grow()
    server.await_signed()


def what_needs_no_key_is_told_without_sijil_keyd():
    """Who somebody is, is known; whether a key of it waits, sijil-keyd alone knows, and the answer says so."""
    client = server.client(state["auditor"])
    bearer = {"Authorization": "Bearer " + client.token("registry:admin:*")}
    assert "unknown" not in client.call("GET", "/api/v1/self", headers=bearer).json
    server.stop_keyd()
    answer = client.call("GET", "/api/v1/self", headers=bearer)
    assert answer.status == 200 and "waiting_keys" in answer.json["unknown"] and [one["role"] for one in answer.json["roles"]] == ["auditor"], answer.body


def a_start_after_it_finds_nothing():
    server.stop_gateway(signal.SIGKILL)
    server.start_keyd()
    server.start_gateway()
    assert server.serves()
    wait_until(server.is_ready, 10, "it is not ready")


run(a_registry_works, nothing_is_planned_while_nothing_is_lost, the_database_is_lost_and_an_old_copy_is_refused, the_plan_says_what_is_lost, only_two_officers_count,
    a_plan_is_for_one_state_of_one_log, a_ceremony_that_is_broken_off_goes_on, the_registry_serves, the_first_entry_says_what_ended, proofs_old_and_new,
    an_auditor_follows_from_the_old_key_to_the_new_one, exports_and_dumps_go_across, documents_stay_in_force, what_was_withdrawn_is_withdrawn_again, what_was_lost_can_be_done_again, no_shorter_log_is_taken_under_its_own_origin, everything_of_the_database_is_lost, what_needs_no_key_is_told_without_sijil_keyd, a_start_after_it_finds_nothing,
    server=server)
