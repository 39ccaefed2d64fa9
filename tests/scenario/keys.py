#!/usr/bin/env python3
"""Keys of people on a whole server: two persons, documents signed with openssl, and all invalid ways to bring a document into force."""
import base64
import hashlib
import json
import os
import pty
import random
import signal
import subprocess
import tempfile
import threading
import time

import sijil_test
from sijil_test import Server, make_person, make_robot, run
from signing_keys import DAY, TYPE, Key, sign, utc

server = Server().start()
folder = tempfile.TemporaryDirectory()
root_key = os.path.join(server.folder, "officer", "approver.pem")
state = {}


def post(login, path, body):
    return server.client(login).call("POST", "/api/v1/keys/signing" + path, json.dumps(body), {"Content-Type": "application/json"},
                                     scope="registry:admin:*")


def listed(login=None, scope=""):
    return server.client(login or server.admin).api("GET", "/keys/signing?limit=1000&scope=" + scope)


def state_of(key, login=None):
    return next((one["state"] for one in listed(login, key.scope)["keys"] if one["name"] == key.name), None)


def principal_of(login):
    me = server.client(login).api("GET", "/self")
    if me["kind"] == "robot":
        return "robot:" + me["id"]
    return "ext:" + hashlib.sha256(f"{me['issuer']}\n{me['name']}".encode()).hexdigest()


def draft(login, key, **more):
    document = key.document(**more)
    envelope = sign(document, key.path)
    return post(login, "", envelope), document, envelope


def approve(login, key, document, envelope, key_file=None):
    return post(login, f"/{key.name}/approval", {"envelopes": [envelope, sign(document, key_file or root_key)]})


def enrol(key):
    """Enrols a key: its holder drafts the document, and the administrator approves it."""
    answer, document, envelope = draft(state["alice"], key)
    assert answer.status == 201 and answer.json["state"] == "draft", answer.body
    answer = approve(server.admin, key, document, envelope)
    assert answer.status == 201 and answer.json["state"] == "in force", answer.body
    return document, envelope


def refused(answer, status, words):
    assert answer.status == status and words in answer.body.decode(), (answer.status, answer.body)


def prepare():
    state["alice"] = make_person(server, "alice", "security-officer", "")
    state["principal"] = principal_of(state["alice"])


def a_key_is_in_force_when_another_person_has_approved_it():
    key = Key(state["principal"])
    answer, document, envelope = draft(state["alice"], key)
    assert answer.status == 201 and answer.json["state"] == "draft", answer.body
    waiting = [one for one in listed()["drafts"] if one["name"] == key.name]
    assert len(waiting) == 1 and waiting[0]["envelope"] == envelope and waiting[0]["document"] == json.loads(document), waiting
    assert waiting[0]["envelopes"] == [envelope] and waiting[0]["missing"] == 1, waiting
    assert waiting[0]["signed_by"] == [{"principal": state["principal"], "person": state["principal"]}], waiting
    assert state_of(key) is None
    refused(post(state["alice"], "", envelope), 409, "waits for an approval already")
    answer = approve(server.admin, key, document, envelope)
    assert answer.status == 201 and answer.json["state"] == "in force", answer.body
    assert state_of(key) == "in force" and not [one for one in listed()["drafts"] if one["name"] == key.name]
    events = server.client(server.admin).api("GET", f"/audit/events/{answer.json['event']}")["entry"]
    assert events["act"] == "key.approve" and hashlib.sha256(document).hexdigest() in events["res"], events
    refused(approve(server.admin, key, document, envelope), 409, "enrolled already")
    state["key"], state["document"], state["envelope"] = key, document, envelope


def nobody_approves_his_own():
    key = Key(principal_of(server.admin))
    answer, document, envelope = draft(server.admin, key)
    assert answer.status == 201, answer.body
    refused(approve(server.admin, key, document, envelope), 403, "another person")
    other = make_robot(server, "second", "registry-admin", "", None)  # made by the administrator, so it counts as the administrator
    refused(approve(other, key, document, envelope), 403, "another person")
    answer = approve(state["alice"], key, document, envelope)
    assert answer.status == 201 and state_of(key) == "in force", answer.body


def a_robot_of_two_persons_is_none_of_them_alone():
    """Two persons have seen its secret, so what it does counts as done by both (docs/identity.md)."""
    robot = make_robot(server, "shared", "org-admin", "main")
    made = next(one for one in server.client(server.admin).api("GET", "/robots?organisation=main")["robots"] if one["name"] == robot[0])
    bob = make_person(server, "bob", "org-admin", "main")
    secret = server.client(bob).api("POST", f"/robots/{made['id']}/secret", {})["secret"]
    login = (robot[0], secret)
    seen = server.client(login).api("GET", "/self")
    assert seen["person"] is None and sorted(seen["persons"]) == sorted(["administrator", principal_of(bob)]), seen
    own = Key(principal_of(login), scope="main")
    refused(draft(login, own)[0], 403, "several have seen the secret")
    key = Key(principal_of(bob), scope="main")
    answer, document, envelope = draft(bob, key)
    assert answer.status == 201, answer.body
    refused(approve(login, key, document, envelope), 403, "another person than the key's holder")
    publisher = make_robot(server, "pusher", "publisher", "main")  # it may enrol its own key, but approve none
    refused(approve(publisher, key, document, envelope), 403, "SYS-NO-BINDING")
    assert approve(server.admin, key, document, envelope).status == 201


def signatures_that_do_not_count_are_refused():
    key, stranger = Key(state["principal"]), Key(state["principal"])
    document = key.document()
    refused(post(state["alice"], "", sign(document, stranger.path)), 403, "has not signed")
    refused(post(server.admin, "", sign(document, key.path)), 403, "another principal")
    answer, document, envelope = draft(state["alice"], key)
    assert answer.status == 201, answer.body
    refused(approve(server.admin, key, document, envelope, stranger.path), 403, "signatures that count")
    refused(approve(server.admin, key, key.document(effective_from=utc(time.time() - 7)), envelope), 400, "different documents")
    refused(post(server.admin, f"/{stranger.name}/approval", {"envelopes": [envelope]}), 400, "different keys")
    other = key.document(effective_from=utc(time.time() - 9))
    refused(post(server.admin, f"/{key.name}/approval", {"envelopes": [sign(other, key.path), sign(other, root_key)]}), 404, "no draft")
    old = key.document(effective_from=utc(time.time() - 8 * DAY))
    refused(post(state["alice"], "", sign(old, key.path)), 403, "more than a week ago")
    assert post(state["alice"], "", {"payloadType": TYPE}).status == 400 and state_of(key) is None


def a_document_is_shown_as_it_was_signed():
    """Its times may have another offset than UTC. What is wrong with a document is said in the words of this registry."""
    def in_dubai(seconds):
        return time.strftime("%Y-%m-%dT%H:%M:%S+04:00", time.gmtime(time.time() + seconds + 4 * 3600))
    key, said = Key(state["principal"]), {"effective_from": in_dubai(-1), "expires": in_dubai(30 * DAY)}
    answer, document, envelope = draft(state["alice"], key, **said)
    assert answer.status == 201 and approve(server.admin, key, document, envelope).status == 201, answer.body
    shown = server.client(server.admin).api("GET", "/keys/signing/" + key.name)
    assert shown["state"] == "in force" and {name: shown["document"][name] for name in said} == said, shown
    for more, words in (({"version": "1"}, '"version" has to be a whole number'), ({"kind": 1}, '"kind" has to be a text'),
                        ({"colour": "red"}, 'there is no member "colour" here'), ({"body": {}}, '"principal" is missing')):
        answer = draft(state["alice"], Key(state["principal"]), **more)[0]
        assert answer.status == 400 and words in answer.json["detail"], (more, answer.body)
    url = {**envelope, "signatures": [{"sig": envelope["signatures"][0]["sig"].replace("=", "").replace("+", "-").replace("/", "_") + "_"}]}
    answer = post(state["alice"], "", url)
    assert answer.status == 400 and 'the "sig" of an envelope: ' in answer.json["detail"], answer.body


def an_approver_approves_others_but_no_approver():
    carol = make_person(server, "carol", "registry-admin", "")
    approver = Key(principal_of(carol), purpose="approve")
    answer, document, envelope = draft(carol, approver)
    assert answer.status == 201 and approve(server.admin, approver, document, envelope).status == 201
    key = Key(state["principal"])
    answer, document, envelope = draft(state["alice"], key)
    refused(approve(server.admin, key, document, envelope, approver.path), 403, "of another person than the one that sends it")
    answer = approve(carol, key, document, envelope, approver.path)
    assert answer.status == 201 and state_of(key) == "in force", answer.body
    second = Key(state["principal"], purpose="approve")
    answer, document, envelope = draft(state["alice"], second)
    refused(approve(carol, second, document, envelope, approver.path), 403, "signatures that count")


def an_expired_key_says_so():
    key = Key(state["principal"], lifetime=12)
    enrol(key)
    sijil_test.wait_until(lambda: state_of(key) == "expired", 30, "the key did not expire")


def a_withdrawn_key_does_not_come_back():
    key, document, envelope = state["key"], state["document"], state["envelope"]
    gone = sign(key.document(version=2, withdrawn="lost"), key.path)
    other = Key(state["principal"])
    refused(post(state["alice"], f"/{key.name}/withdrawal", sign(key.document(version=2, withdrawn="lost"), other.path)), 403, "none of them has signed")
    unknown = sign(other.document(version=2, withdrawn="lost"), other.path)
    refused(post(state["alice"], f"/{other.name}/withdrawal", unknown), 404, "no key of this name")
    answer = post(state["alice"], f"/{key.name}/withdrawal", gone)
    assert answer.status == 201 and answer.json["state"] == "withdrawn", answer.body
    assert state_of(key) == "withdrawn"
    refused(post(state["alice"], f"/{key.name}/withdrawal", gone), 409, "withdrawn, for good")
    refused(post(state["alice"], "", envelope), 409, "withdrawn, for good")
    refused(approve(server.admin, key, document, envelope), 409, "withdrawn, for good")


def an_approver_learns_whose_key_it_is():
    """A document names a subject of an issuer by a hash. Who may approve the key is told the names; others are not."""
    me = server.client(state["alice"]).api("GET", "/self")
    key = Key(state["principal"], scope="main")
    answer, document, envelope = draft(state["alice"], key)
    assert answer.status == 201, answer.body
    whose = {"issuer": me["issuer"], "subject": me["name"]}
    waiting = next(one for one in listed(scope="main")["drafts"] if one["name"] == key.name)
    assert waiting["holder"] == whose, waiting
    state["whose"] = whose
    publisher = make_robot(server, "curious", "publisher", "main")
    assert [one for one in listed(publisher, "main")["drafts"] if one["name"] == key.name] == [{k: v for k, v in waiting.items() if k != "holder"}]
    at = f"127.0.0.1:{server.port}"
    log_in("admin", server.admin)
    assert sijil("admin", "key", "show", "--json", at, key.name, "--scope", "main")["state"] == "draft"
    shown = next(one for one in sijil("admin", "key", "list", "--json", at, "--scope", "main") if one["name"] == key.name)
    assert {name: shown[name] for name in whose} == whose, shown
    told = sijil("admin", "key", "approve", at, key.name, "--key", root_key, "--scope", "main")
    assert f"subject    {me['name']}\n" in told and f"issuer     {me['issuer']}\n" in told and state["principal"] in told, told
    asking = server.client(server.admin)
    assert asking.api("GET", f"/keys/signing/{key.name}?scope=main")["holder"] == whose
    assert f" as {me['name']}\n" in log_in("alice", state["alice"]), "a token is not a name"
    environment = {**os.environ, "HOME": os.path.join(folder.name, "alice"), "XDG_CONFIG_HOME": os.path.join(folder.name, "alice")}
    me_told = subprocess.run([sijil_test.program("sijil"), "whoami", at], capture_output=True, text=True, env=environment, check=True).stdout
    assert state["principal"] in me_told.split(), me_told


def a_scope_that_does_not_exist_gets_no_key():
    """Else the key would be in force in whatever organisation gets the name later."""
    for scope in ("nowhere", "nowhere/models", "main/nothing"):
        key = Key(state["principal"], scope=scope)
        answer, document, envelope = draft(state["alice"], key)
        refused(answer, 404, "there is no such organisation or project")
        refused(approve(server.admin, key, document, envelope), 404, "there is no such organisation or project")
        assert state_of(key) is None and listed(scope=scope)["drafts"] == [], scope


def a_deleted_project_gets_no_key():
    server.client(server.admin).api("POST", "/projects", {"organisation": "main", "name": "shortlived"})
    key = Key(state["principal"], scope="main/shortlived")
    answer, document, envelope = draft(state["alice"], key)
    assert answer.status == 201, answer.body
    plan = server.client(server.admin).api("GET", "/projects/main/shortlived/deletion")
    answer = server.client(server.admin).call("DELETE", f"/api/v1/projects/main/shortlived?plan={plan['plan']}", scope="registry:admin:*")
    assert answer.status == 204, answer.body
    refused(approve(server.admin, key, document, envelope), 404, "there is no such organisation or project")


def organisation_again(name):
    """Deletes an organisation with one draft, and makes another one of the same name."""
    asking = server.client(server.admin)
    refused(asking.call("DELETE", f"/api/v1/organisations/{name}", scope="registry:admin:*"), 409, '"drafts":1')
    plan = asking.api("GET", f"/organisations/{name}/deletion")
    assert plan["drafts"] == 1, plan
    answer = asking.call("DELETE", f"/api/v1/organisations/{name}?plan={plan['plan']}", scope="registry:admin:*")
    assert answer.status == 204, answer.body
    asking.api("POST", "/organisations", {"name": name})


def an_organisation_that_is_made_again_has_none_of_the_old_keys():
    server.client(server.admin).api("POST", "/organisations", {"name": "globex"})
    key, waiting, gone = (Key(state["principal"], scope="globex") for _ in range(3))
    document, envelope = enrol(key)
    gone_document, _ = enrol(gone)
    assert post(state["alice"], f"/{gone.name}/withdrawal", sign(gone.document(version=2, withdrawn="lost"), gone.path)).status == 201
    answer, draft_document, draft_envelope = draft(state["alice"], waiting)
    assert answer.status == 201 and state_of(key) == "in force" and len(listed(scope="globex")["drafts"]) == 1
    organisation_again("globex")
    assert listed(scope="globex") == {"keys": [], "drafts": []}
    refused(approve(server.admin, waiting, draft_document, draft_envelope), 404, "no draft")
    refused(post(state["alice"], f"/{key.name}/withdrawal", sign(key.document(version=2, withdrawn="lost"), key.path)), 404, "no key of this name")
    refused(post(state["alice"], "", envelope), 409, "deleted organisation")
    refused(approve(server.admin, key, document, envelope), 409, "deleted organisation")
    refused(post(state["alice"], "", sign(gone_document, gone.path)), 409, "withdrawn, for good")
    enrol(key)
    assert state_of(key) == "in force"


def a_key_is_withdrawn_in_all_scopes_and_has_one_owner():
    key = Key(state["principal"])
    enrol(key)
    key.scope = "main"
    enrol(key)
    dave = make_person(server, "dave", "org-admin", "main")
    key.principal = principal_of(dave)
    refused(draft(dave, key)[0], 409, "belongs to another principal")
    key.principal, key.scope = state["principal"], ""
    answer = post(state["alice"], f"/{key.name}/withdrawal", sign(key.document(version=2, withdrawn="stolen"), key.path))
    assert answer.status == 201 and state_of(key) == "withdrawn", answer.body
    for scope in ("main", "main/models"):
        key.scope = scope
        assert state_of(key) in ("withdrawn", None), scope
        refused(draft(state["alice"], key)[0], 409, "withdrawn, for good")


def a_draft_shows_only_signatures_that_verify():
    """The application's role adds an envelope to the row, and names the administrator as its signer."""
    key, stranger = Key(state["principal"]), Key(state["principal"])
    answer, document, envelope = draft(state["alice"], key)
    assert answer.status == 201, answer.body
    planted = json.dumps(sign(document, stranger.path)).encode().hex()
    server.sql("SET ROLE sijil_app; UPDATE document_draft SET envelopes = envelopes || decode('{0}', 'hex'),"
               " signed_by = ARRAY['{1}', '{1}'] WHERE name = '{2}'".format(planted, principal_of(server.admin), key.name))
    shown = next(one for one in listed()["drafts"] if one["name"] == key.name)
    assert shown["envelopes"] == [envelope] and shown["missing"] == 1, shown
    assert shown["signed_by"] == [{"principal": state["principal"], "person": state["principal"]}], shown
    server.sql("UPDATE document_draft SET envelopes = envelopes[1:1] || decode('{0}', 'hex') WHERE name = '{1}'".format(
        json.dumps(sign(document, root_key)).encode().hex(), key.name))
    shown = next(one for one in listed()["drafts"] if one["name"] == key.name)
    assert shown["missing"] == 0 and [one["principal"] for one in shown["signed_by"]] == [state["principal"], "root"], shown
    refused(approve(server.admin, key, document, envelope), 404, "no draft")  # the row has more signatures than came in requests
    answer, document, envelope = draft(state["alice"], key)
    assert answer.status == 201 and len([one for one in listed()["drafts"] if one["name"] == key.name]) == 1, answer.body
    answer = approve(server.admin, key, document, envelope)
    assert answer.status == 201 and state_of(key) == "in force", answer.body


def metric(name):
    lines = server.client().call("GET", "/metrics").body.decode().splitlines()
    return next(float(line.split()[-1]) for line in lines if line.startswith(name + " "))


def a_row_that_somebody_wrote_counts_for_nothing():
    key, before = Key(state["principal"]), metric("sijil_documents_strange")
    document = key.document()
    envelopes = [json.dumps(sign(document, each)).encode().hex() for each in (key.path, root_key)]
    server.sql("INSERT INTO document (kind, scope, name, version, digest, envelopes, recorded_by) VALUES"
               f" (2, '', '{key.name}', 1, decode('{hashlib.sha256(document).hexdigest()}', 'hex'),"
               f" ARRAY[decode('{envelopes[0]}', 'hex'), decode('{envelopes[1]}', 'hex')], 'mallory')")
    sijil_test.wait_until(lambda: metric("sijil_documents_strange") == before + 1, 30, "nobody noticed the row")
    assert state_of(key) is None and server.client().call("GET", "/readyz").status == 200


def a_row_that_is_left_out_is_noticed():
    """A restart reads all documents. No answer about keys is given until the database agrees with the pins of sijil-keyd."""
    server.sql(f"CREATE TABLE kept AS SELECT * FROM document WHERE kind = 2 AND name = '{state['key'].name}' AND version = 1;"
               "DELETE FROM document WHERE detail IN (SELECT detail FROM kept)")
    server.stop()
    server.start(wait=False)

    def is_named():
        try:
            answer = server.client().call("GET", "/readyz")
        except OSError:
            return False
        return answer.status == 503 and b"signing-key" in answer.body
    sijil_test.wait_until(is_named, 120, "nobody noticed that a row is gone")
    answer = server.client(server.admin).call("GET", "/api/v1/keys/signing", scope="registry:admin:*")
    assert answer.status >= 500, answer.body
    server.sql("INSERT INTO document (kind, scope, name, version, digest, envelopes, recorded_by)"
               " SELECT kind, scope, name, version, digest, envelopes, recorded_by FROM kept; DROP TABLE kept")
    server.wait_ready()
    assert state_of(state["key"]) == "withdrawn"


HOLDS = "SELECT count(*) FROM pg_locks WHERE relation = 'audit_checkpoint'::regclass AND mode = 'AccessExclusiveLock' AND granted"


def answer_of_keyd_too_late(send):
    """Sends a document that expires after the gateway's checks and before those of sijil-keyd: meanwhile the log can't be signed."""
    for seconds in (3, 6, 9):  # a slow machine needs more
        expires = time.time() + seconds
        time.sleep(max(0, seconds - 3.5))
        hold = f"BEGIN; LOCK TABLE audit_checkpoint; SELECT pg_sleep({expires + 0.3 - time.time()}); COMMIT"
        holding = threading.Thread(target=server.sql, args=(hold,))
        holding.start()
        sijil_test.wait_until(lambda: server.sql(HOLDS) == "1" or not holding.is_alive(), 30, "the table is not locked")
        answer = send(expires)
        holding.join()
        if answer.status != 403:  # it had expired before the gateway's checks
            return answer
    raise AssertionError(answer.body)


def what_keyd_refuses_after_the_record_is_told():
    """The answer was 201, "in force"."""
    key = Key(state["principal"])

    def send_approval(expires):
        answer, document, envelope = draft(state["alice"], key, expires=utc(expires))
        return answer if answer.status != 201 else approve(server.admin, key, document, envelope)

    refused(answer_of_keyd_too_late(send_approval), 409, "sijil-keyd has refused it, for good: the document has expired")
    assert state_of(key) is None and not [one for one in listed()["drafts"] if one["name"] == key.name]
    newest = server.client(server.admin).api("GET", "/audit/events?limit=100")["events"]
    outcomes = [event["entry"]["out"] for event in newest if event["entry"]["act"] == "key.approve"]
    assert sorted(outcomes[:2]) == ["allowed", "failed"], outcomes
    enrol(key)

    def send_withdrawal(expires):
        return post(state["alice"], f"/{key.name}/withdrawal", sign(key.document(version=2, withdrawn="lost", expires=utc(expires)), key.path))

    refused(answer_of_keyd_too_late(send_withdrawal), 409, "the document has expired")
    assert state_of(key) == "in force"
    answer = post(state["alice"], f"/{key.name}/withdrawal", sign(key.document(version=2, withdrawn="lost"), key.path))
    assert answer.status == 201 and state_of(key) == "withdrawn", answer.body


def sijil(who, *words, code=0):
    """Runs the command, logged in as this caller; each has a separate folder for logins."""
    home = os.path.join(folder.name, who)
    environment = {**os.environ, "HOME": home, "XDG_CONFIG_HOME": home}
    os.makedirs(home, exist_ok=True)
    done = subprocess.run([sijil_test.program("sijil"), *words], input=state.get("secret-" + who), text=True, capture_output=True,
                          env=environment, timeout=120)
    assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
    return json.loads(done.stdout) if code == 0 and "--json" in words else done.stderr


def log_in(who, login):
    state["secret-" + who] = login[1] + "\n"
    return sijil(who, "login", f"127.0.0.1:{server.port}", "--username", login[0], "--ca-file", server.ca_file)


def verify_by_openssl(envelope, key_file):
    """The signature of an envelope, with openssl alone."""
    payload, kind = base64.b64decode(envelope["payload"]), envelope["payloadType"].encode()
    with tempfile.NamedTemporaryFile() as file:
        file.write(base64.b64decode(envelope["signatures"][0]["sig"]))
        file.flush()
        subprocess.run(["openssl", "dgst", "-sha256", "-prverify", key_file, "-signature", file.name], check=True, capture_output=True,
                       input=b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload))


def the_command_line_does_all_of_it():
    at = f"127.0.0.1:{server.port}"
    key, other = Key(state["principal"]), Key(state["principal"])
    log_in("alice", state["alice"])
    log_in("admin", server.admin)
    os.chmod(key.path, 0o644)
    assert "chmod 600" in sijil("alice", "key", "enroll", at, "--key", key.path, code=4)
    os.chmod(key.path, 0o600)
    sijil("alice", "key", "enroll", at, code=2)
    sijil("alice", "key", "enroll", at, "--key", key.path, "--expires", "733", code=2)
    shown = sijil("alice", "key", "enroll", "--json", at, "--key", key.path, "--expires", "30")
    assert (shown["name"], shown["state"], shown["principal"]) == (key.name, "draft", state["principal"]), shown
    sijil("alice", "key", "approve", at, key.name, "--key", root_key, code=4)
    sijil("admin", "key", "approve", at, key.name, "--key", other.path, code=4)
    sijil("admin", "key", "approve", at, other.name, "--key", root_key, code=3)
    again = sijil("alice", "key", "enroll", "--json", at, "--key", key.path, "--expires", "30")
    waiting = [one for one in sijil("alice", "key", "list", "--json", at) if one["name"] == key.name]
    assert [one["expires"] for one in waiting] == [again["expires"]], waiting
    sijil("alice", "key", "enroll", at, "--key", other.path)
    sijil("admin", "key", "discard", at, other.name, code=3)  # it is another's
    sijil("alice", "key", "discard", at, other.name)
    sijil("alice", "key", "discard", at, other.name, code=3)
    sijil("alice", "key", "enroll", at, "--key", other.path)
    sijil("admin", "key", "reject", at, other.name)
    assert not [one for one in sijil("alice", "key", "list", "--json", at) if one["name"] == other.name]
    assert sijil("admin", "key", "approve", "--json", at, key.name, "--key", root_key)["state"] == "in force"
    signed = sijil("alice", "key", "show", "--json", at, key.name)
    assert server.client(state["alice"]).api("GET", f"/keys/signing/{key.name}") == signed
    assert json.loads(server.client(server.admin).api("GET", "/policies?envelope=true")["envelope"])["payloadType"].endswith("policy-set.v1+json")
    assert signed["state"] == "in force" and len(signed["envelopes"]) == 2, signed
    for envelope, file in zip(signed["envelopes"], (key.path, root_key)):
        verify_by_openssl(envelope, file)
    sijil("alice", "key", "show", at, other.name, code=3)
    found = [one for one in sijil("alice", "key", "list", "--json", at) if one["name"] == key.name]
    assert found == [{"name": key.name, "state": "in force", "purpose": "sign", "principal": state["principal"], "expires": found[0]["expires"],
                      **state["whose"]}], found
    sijil("alice", "key", "revoke", at, key.name, "--key", key.path, code=2)
    sijil("alice", "key", "revoke", at, key.name, "--key", other.path, "--reason", "lost", code=4)
    assert sijil("alice", "key", "revoke", "--json", at, key.name, "--key", key.path, "--reason", "lost")["state"] == "withdrawn"
    assert state_of(key) == "withdrawn"


SOFTHSM, PIN = "/usr/lib/softhsm/libsofthsm2.so", "471147"


def make_token(path):
    """A token with one key pair, named alice; the path of the pair."""
    os.makedirs(os.path.join(path, "tokens"))
    conf = os.path.join(path, "softhsm2.conf")
    with open(conf, "w", encoding="utf-8") as file:
        file.write(f"directories.tokendir = {path}/tokens\nobjectstore.backend = file\nlog.level = ERROR\n")
    os.environ["SOFTHSM2_CONF"] = conf
    pair = os.path.join(path, "alice.pem")
    for command in (["softhsm2-util", "--init-token", "--free", "--label", "card", "--pin", PIN, "--so-pin", "12345678"],
                    ["openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", pair],
                    ["softhsm2-util", "--import", pair, "--token", "card", "--label", "alice", "--id", "01", "--pin", PIN]):
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return pair


def type_at_prompt(command, line, prompt):
    """Runs a command on a terminal of its own, types one line when it is asked, and returns all that the terminal showed."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvp(command[0], command)
    shown = b""
    while prompt not in shown:
        shown += os.read(terminal, 4096)
    os.write(terminal, line + b"\n")
    try:
        while chunk := os.read(terminal, 4096):
            shown += chunk
    except OSError:
        pass  # the command has ended
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), shown


def a_key_in_a_token_signs():
    at, card = f"127.0.0.1:{server.port}", os.path.join(folder.name, "card")
    pair = make_token(card)
    pin_file, uri = os.path.join(card, "pin"), f"pkcs11:token=card;object=alice?module-path={SOFTHSM}"
    with open(pin_file, "w", encoding="utf-8") as file:
        file.write(PIN + "\n")
    with_pin = f"{uri}&pin-source=file://{pin_file}"
    os.chmod(pin_file, 0o644)
    assert "chmod 600" in sijil("alice", "key", "enroll", at, "--pkcs11", with_pin, code=4)
    os.chmod(pin_file, 0o600)
    sijil("alice", "key", "enroll", at, "--pkcs11", with_pin, "--key", pair, code=2)
    assert "command line" in sijil("alice", "key", "enroll", at, "--pkcs11", f"{uri}&pin-value={PIN}", code=1)
    assert "absolute" in sijil("alice", "key", "enroll", at, "--pkcs11", f"{uri}&pin-source=pin", code=1)
    shown = sijil("alice", "key", "enroll", "--json", at, "--pkcs11", with_pin)
    assert (shown["state"], shown["principal"]) == ("draft", state["principal"]), shown
    assert sijil("admin", "key", "approve", "--json", at, shown["name"], "--key", root_key)["state"] == "in force"
    revoked = sijil("alice", "key", "revoke", "--json", at, shown["name"], "--pkcs11", with_pin, "--reason", "lost")
    assert revoked["state"] == "withdrawn", revoked
    rules, signed = os.path.join(card, "set.json"), os.path.join(card, "set.dsse")
    with open(rules, "w", encoding="utf-8") as file:
        json.dump({"policies": [], "regions": {}}, file)
    sign_set = [sijil_test.program("sijil"), "policy", "sign", "--pkcs11", uri, "--epoch", "7", "--output", signed, rules]
    code, screen = type_at_prompt(sign_set, PIN.encode(), b"PIN of the token card: ")
    assert code == 0 and PIN.encode() not in screen, (code, screen)
    with open(signed, encoding="utf-8") as file:
        assert json.load(file)["signatures"][0]["keyid"] == shown["name"]
    code, screen = type_at_prompt(sign_set, b"000000", b"PIN of the token card: ")
    assert code == 4 and b"refuses the PIN" in screen, (code, screen)


def a_gateway_that_is_killed_leaves_a_key_in_force_or_not_recorded():
    for _ in range(3):
        key = Key(state["principal"])
        answer, document, envelope = draft(state["alice"], key)
        assert answer.status == 201, answer.body

        def ask(key=key, document=document, envelope=envelope):
            try:
                approve(server.admin, key, document, envelope)
            except Exception:  # pylint: disable=broad-except # it is killed meanwhile
                pass
        server.client(server.admin).token("registry:admin:*")
        asking = threading.Thread(target=ask)
        asking.start()
        time.sleep(random.uniform(0.05, 0.5))
        server.stop(signal.SIGKILL)
        asking.join()
        server.start()
        recorded = server.sql(f"SELECT count(*) FROM document WHERE name = '{key.name}'").strip() == "1"
        assert state_of(key) == ("in force" if recorded else None), recorded
        waiting = [one for one in listed()["drafts"] if one["name"] == key.name]
        assert len(waiting) == (0 if recorded else 1), waiting


if __name__ == "__main__":
    run(prepare, a_key_is_in_force_when_another_person_has_approved_it, nobody_approves_his_own, a_robot_of_two_persons_is_none_of_them_alone,
        signatures_that_do_not_count_are_refused, a_document_is_shown_as_it_was_signed, an_approver_approves_others_but_no_approver, an_expired_key_says_so,
        a_withdrawn_key_does_not_come_back, what_keyd_refuses_after_the_record_is_told, a_key_is_withdrawn_in_all_scopes_and_has_one_owner,
        a_draft_shows_only_signatures_that_verify, an_organisation_that_is_made_again_has_none_of_the_old_keys, an_approver_learns_whose_key_it_is,
        a_scope_that_does_not_exist_gets_no_key, a_deleted_project_gets_no_key, the_command_line_does_all_of_it, a_key_in_a_token_signs, a_row_that_somebody_wrote_counts_for_nothing, a_row_that_is_left_out_is_noticed,
        a_gateway_that_is_killed_leaves_a_key_in_force_or_not_recorded, server=server)
