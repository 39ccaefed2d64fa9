#!/usr/bin/env python3
"""usage: enrolment.py RUNNER_RENEW   Runners on a whole server: invited, enrolled and approved by the real programs, and all that must be refused."""
import base64
import hashlib
import http.client
import json
import os
import secrets
import shutil
import ssl
import subprocess
import sys
import tempfile
import time
import uuid

import signing_keys
import sijil_test
from run_world import Person, World, opened, spec
from signing_keys import Key, url64
from sijil_test import Server, make_person, run, wait_until

server = Server().start()
folder = tempfile.TemporaryDirectory()
root_key = os.path.join(server.folder, "officer", "approver.pem")
at = f"127.0.0.1:{server.port}"
state = {}


def person(who, role="registry-admin"):
    """A person with a key that approves."""
    login = make_person(server, who, role, "")
    me = server.client(login).api("GET", "/self")
    principal = "ext:" + hashlib.sha256(f"{me['issuer']}\n{me['name']}".encode()).hexdigest()
    key = Key(principal, "approve")
    document = key.document()
    drafted = signing_keys.sign(document, key.path)
    server.client(login).api("POST", "/keys/signing", drafted)
    server.client(server.admin).api("POST", f"/keys/signing/{key.name}/approval",
                                    {"envelopes": [drafted, signing_keys.sign(document, root_key)]})
    state[who] = {"login": login, "principal": principal, "key": key.path}


def sijil(who, *words, code=0):
    """Runs the command, logged in as this person. With --json its answer, else what it says to people."""
    home = os.path.join(folder.name, "home-" + who)
    environment = {**os.environ, "HOME": home, "XDG_CONFIG_HOME": home}
    os.makedirs(home, exist_ok=True)
    done = subprocess.run([sijil_test.program("sijil"), *words], input=state[who]["login"][1] + "\n", text=True, capture_output=True,
                          env=environment, timeout=120)
    assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
    return json.loads(done.stdout) if code == 0 and "--json" in words else done.stderr


def runner(*words, code=0, given=""):
    done = subprocess.run([sijil_test.program("sijil-runner"), *words], input=given, text=True, capture_output=True, timeout=120)
    assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
    return json.loads(done.stdout) if code == 0 and "--json" in words else done.stderr


def place(name):
    return os.path.join(folder.name, name)


def invite(who="alice", key=None, name=None, code=0, region="dev", **more):
    """The file of a code, and its content."""
    path = place(name or secrets.token_hex(8))
    words = ["runner", "invite", at, "--key", key or state[who]["key"], "--region", region, "--jurisdiction", "AE", "--pool", "gpu", "--output", path]
    for option, value in more.items():
        words += ["--" + option, str(value)]
    said = sijil(who, *words, code=code)
    if code != 0:
        return said
    assert os.stat(path).st_mode & 0o777 == 0o600
    with open(path, encoding="utf-8") as file:
        return path, json.load(file)


def enroll(path, at_folder, *words, code=3):
    return runner("enroll", "--code-file", path, "--state", place(at_folder), *words, code=code)


def key_of(at_folder):
    return runner("show", "--state", place(at_folder), "--json")["key"]


def approve(who, name, key=None, code=0):
    return sijil(who, "runner", "approve", at, name, "--key", key or state[who]["key"], *(["--json"] if code == 0 else []), code=code)


def listed(name, who="alice"):
    return next(one for one in sijil(who, "runner", "list", at, "--json") if one["name"] == name)


def call(path, body, certificate=None):
    """A request as a runner makes it: with a certificate, or with a proof in its body."""
    context = ssl.create_default_context(cafile=server.ca_file)
    if certificate:
        context.load_cert_chain(place(certificate) + "/certificate.pem", place(certificate) + "/key.pem")
    link = http.client.HTTPSConnection("127.0.0.1", server.port, context=context, timeout=60)
    try:
        link.request("POST", "/api/v1" + path, json.dumps(body), {"Content-Type": "application/json"})
        answer = link.getresponse()
        return answer.status, answer.read().decode()
    finally:
        link.close()


def refused(answer, status, words):
    assert answer[0] == status and words in answer[1], answer


def events(action):
    found = server.client(server.admin).api("GET", "/audit/events?limit=1000")["events"]
    return [one for one in found if one["entry"]["act"] == action]


def whole(at_folder, first="alice", second="bob"):
    """A runner in force, in the registry's own region, so that it gets runs."""
    path, _ = invite(first, region="local/main")
    enroll(path, at_folder)
    name = key_of(at_folder)
    approve(first, name)
    approve(second, name)
    runner("enroll", "--state", place(at_folder))
    return name


# ---- the steps, as openssl makes them ----

def sign_jose(key, message):
    der = subprocess.run(["openssl", "dgst", "-sha256", "-sign", key], input=message, capture_output=True, check=True).stdout
    length = der[3]
    parts = der[4:4 + length], der[4 + length + 2:]
    return url64(b"".join(int.from_bytes(part, "big").to_bytes(32, "big") for part in parts))


def pae(kind, payload):
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind.encode(), len(payload), payload)


def seal(kind, payload, key):
    made = subprocess.run(["openssl", "dgst", "-sha256", "-sign", key], input=pae(kind, payload), capture_output=True, check=True)
    return {"payloadType": kind, "payload": base64.b64encode(payload).decode(), "signatures": [{"sig": base64.b64encode(made.stdout).decode()}]}


def document_of(invitation, key, **changes):
    """The document that follows from an invitation and a key (docs/formats/documents.md)."""
    signed = json.loads(base64.b64decode(invitation["payload"]))
    body = {name: signed[name] for name in ("runner", "pool", "region", "jurisdictions", "devices", "isolation", "assurance")}
    return signing_keys.canonical({"schema": "sijil.document/v1", "kind": "runner", "scope": signed["scope"], "name": key.name, "version": 1,
                                   "effective_from": signed["issued_at"], "expires": signed["runner_expires"],
                                   "body": {**body, "public_key": url64(key.point), **changes}})


def enrolment(content, key, code=None, signer=None, issued=None, **changes):
    code = code or content["code"]
    document = document_of(content["invitation"], key, **changes)
    issued = issued or signing_keys.utc(time.time())
    about = f"{code} sha256:{hashlib.sha256(document).hexdigest()}"
    message = f"sijil runner proof v1\nenrolment\n{content['registry']['audience']}\n{issued}\n{about}\n".encode()
    return {"code": code, "envelope": seal("application/vnd.sijil.runner.v1+json", document, key.path), "issued_at": issued,
            "proof": sign_jose((signer or key).path, message)}


def post_enrolment(*arguments, **more):
    return call("/runner/enrolment", enrolment(*arguments, **more))


# ---- cases ----

def prepare():
    for who in ("alice", "bob", "carol"):
        person(who)
    state["admin"] = {"login": server.admin, "key": root_key}
    for who in state:
        sijil(who, "login", at, "--username", state[who]["login"][0], "--ca-file", server.ca_file)


def a_machine_becomes_a_runner():
    with open(place("visit.txt"), "w", encoding="utf-8") as file:
        file.write("photographs")
    about = {"devices": 1, "assurance": 4, "evidence": place("visit.txt"), "attested-by": "Mona Saleh, in the hall"}
    for lacking in (about, {"assurance": 4}, {**about, "assurance": 3, "network": "127.0.0.0/16"}, {**about, "network": "127.0.0.1/16"}, {**about, "network": "127.0.0.0/8"}):
        assert "attest" in invite(code=2, **lacking), lacking
    path, content = invite(network="127.0.0.0/16", **about)
    said = enroll(path, "first", "--log-key", content["registry"]["log_key"])
    name = key_of("first")
    assert f"sijil runner approve {at} {name} --key KEY. Then: sijil-runner enroll --state=" in said, said
    shown = runner("show", "--state", place("first"), "--json")
    assert shown["state"] == "waiting for its approval" and shown["pool"] == "gpu" and shown["devices"] == 1, shown
    assert os.stat(place("first")).st_mode & 0o777 == 0o700 and os.stat(place("first/key.pem")).st_mode & 0o777 == 0o600
    assert listed(name)["missing"] == 2 and listed(name)["state"] == "draft"
    told = sijil("alice", "runner", "approve", at, name, "--key", state["alice"]["key"])
    for words in ("region         dev", "attested by    Mona Saleh, in the hall", "evidence       sha256:" + hashlib.sha256(b"photographs").hexdigest(),
                  "only from      127.0.0.0/16"):
        assert words in told, told
    assert listed(name)["missing"] == 1 and listed(name)["state"] == "draft"
    runner("enroll", "--state", place("first"), code=3)
    made = approve("bob", name)
    assert made["state"] == "in force" and made["runner"] == shown["runner"] and made["assurance"] == 4 and made["attestation"]["networks"] == ["127.0.0.0/16"], made
    ready = runner("enroll", "--state", place("first"), "--wait", "--json")
    assert ready["state"] == "enrolled" and ready["certificate_until"], ready
    whole_one = sijil("bob", "runner", "show", at, name, "--json")
    assert len(whole_one["envelopes"]) == 3 and whole_one["state"] == "in force", whole_one
    for action, count in (("runner.invite", 1), ("runner.enroll", 1), ("runner.confirm", 1), ("runner.approve", 1), ("runner.certify", 1)):
        found = [one for one in events(action) if one["entry"]["out"] == "allowed"]
        assert len(found) == count, (action, found)
    state["first"] = name


def the_certificate_gets_the_next_one():
    status, text = call("/runner/certificate", {}, certificate="first")
    assert status == 200 and "BEGIN CERTIFICATE" in json.loads(text)["certificate"], (status, text)
    before = open(place("first/certificate.pem"), encoding="ascii").read()
    environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}

    def renew(days):
        return subprocess.run([sys.argv[1], place("first"), str(days)], capture_output=True, text=True, check=True, timeout=60, env=environment).stdout.strip()
    assert renew(1) == "good" and open(place("first/certificate.pem"), encoding="ascii").read() == before
    time.sleep(1.1)  # times of certificates are whole seconds
    assert renew(21) == "renewed"
    after = open(place("first/certificate.pem"), encoding="ascii").read()
    assert after != before and call("/runner/certificate", {}, certificate="first")[0] == 200
    os.remove(place("first/certificate.pem"))  # a runner that was off for a month proves its key again
    assert renew(0) == "renewed" and call("/runner/certificate", {}, certificate="first")[0] == 200


def a_code_gives_nothing_but_a_draft():
    path, content = invite()
    key = Key("")
    refused(call("/runner/enrolment/certificate", {"runner": content["invitation"] and json.loads(base64.b64decode(content["invitation"]["payload"]))["runner"],
                                                   "key": url64(key.point), "issued_at": signing_keys.utc(time.time()), "proof": "A" * 86}), 401, "proof")
    other = Key("")
    refused(post_enrolment(content, key, signer=other), 401, "proof")
    refused(post_enrolment(content, key, issued="2020-01-01T00:00:00Z"), 401, "older or newer than five minutes")
    refused(post_enrolment(content, key, assurance=3), 401, "not the one of the invitation")
    refused(post_enrolment(content, key, pool="default"), 401, "not the one of the invitation")
    wrong = content["code"][:-4] + ("AAAA" if content["code"][-4:] != "AAAA" else "BBBB")
    refused(post_enrolment(content, key, code=wrong), 401, "the code is wrong")
    refused(post_enrolment(content, key, code="sjr_" + "A" * 64), 401, "the code is wrong")
    assert call("/runner/enrolment", {"code": content["code"]})[0] == 400
    assert call("/runner/enrolment", {**enrolment(content, key), "more": 1})[0] == 400
    status, text = post_enrolment(content, key)
    assert status == 201 and json.loads(text)["name"] == key.name, (status, text)
    status, text = post_enrolment(content, key)  # the answer was lost
    assert status == 200, (status, text)
    refused(post_enrolment(content, other), 401, "used already")
    enroll(path, "late", code=1)
    proof = {"runner": json.loads(text)["runner"], "key": url64(key.point), "issued_at": signing_keys.utc(time.time())}
    message = f"sijil runner proof v1\ncertificate\n{content['registry']['audience']}\n{proof['issued_at']}\n{key.name}\n".encode()
    proof["proof"] = sign_jose(key.path, message)
    refused(call("/runner/enrolment/certificate", proof), 401, "no enrolment of this runner is in force")
    state["draft"] = key.name


def a_lost_answer_is_asked_for_again():
    path, _ = invite()
    enroll(path, "again")
    name = key_of("again")
    os.remove(place("again/document.json"))  # as if the program was killed before it kept the document
    enroll(path, "again")
    assert key_of("again") == name and listed(name)["missing"] == 2


def an_expired_code_is_refused():
    path, content = invite()
    run_id = json.loads(base64.b64decode(content["invitation"]["payload"]))["runner"]
    server.sql(f"UPDATE runner_invitation SET expires_at = now() - interval '1 second' WHERE runner = '{run_id}'")
    refused(post_enrolment(content, Key("")), 401, "the code has expired")
    enroll(path, "expired", code=1)


def rows_give_nothing():
    """Whoever writes into the database invites nobody and enrolls nobody."""
    path, content = invite()
    stranger, key = Key(""), Key("")
    payload = json.loads(base64.b64decode(content["invitation"]["payload"]))
    payload["runner"] = str(uuid.uuid4())
    forged = seal("application/vnd.sijil.runner-invitation.v1+json", signing_keys.canonical(payload), stranger.path)
    secret = secrets.token_bytes(32)
    text = base64.b64encode(signing_keys.canonical(forged)).decode()
    server.sql("INSERT INTO runner_invitation (runner, scope, code, envelope, invited_by, expires_at) VALUES "
               f"('{payload['runner']}', '', sha256('\\x{secret.hex()}'), decode('{text}', 'base64'), 'ext:x', now() + interval '1 hour')")
    code = "sjr_" + url64(uuid.UUID(payload["runner"]).bytes + secret)
    refused(post_enrolment({**content, "code": code, "invitation": forged}, key), 401, "signed neither by the root nor by an approver")
    document = document_of(content["invitation"], key)
    envelope = signing_keys.canonical(seal("application/vnd.sijil.runner.v1+json", document, key.path))
    server.sql("INSERT INTO document (kind, scope, name, version, digest, envelopes, recorded_by) VALUES "
               f"(3, '', '{key.name}', 1, sha256('x'), ARRAY[decode('{base64.b64encode(envelope).decode()}', 'base64')], 'ext:x')")
    assert key.name not in json.dumps(sijil("alice", "runner", "list", at, "--json"))
    enroll(path, "unknown")
    server.sql(f"DELETE FROM runner_invitation WHERE name = '{key_of('unknown')}'")
    assert "no invitation of this runner" in approve("alice", key_of("unknown"), code=3)


def two_persons_are_needed():
    path, _ = invite()
    enroll(path, "persons")
    name = key_of("persons")
    approve("alice", name)
    assert "one person has signed twice" in approve("alice", name, code=1)
    assert "another person" in approve("carol", name, key=state["bob"]["key"], code=4)
    assert "neither by the root nor by an approver" in approve("carol", name, key=Key("").path, code=4)
    assert "signed twice" in sijil("alice", "runner", "approve", at, name, "--key", state["alice"]["key"], code=1)
    path, _ = invite("admin", key=root_key)
    enroll(path, "root")
    assert "another person than the one that invited" in approve("admin", key_of("root"), code=4)
    made = approve("carol", key_of("root"), key=root_key)
    assert made["state"] == "in force", made
    assert "enrolled already" in str(call_approval("bob", key_of("root")))
    assert call_approval("bob", key_of("root"), {"If-Match": '"other"'})[0] == 412


def call_approval(who, name, headers=()):
    one = server.client(state[who]["login"]).api("GET", f"/runners/{name}")
    answer = server.client(state[who]["login"]).call("POST", f"/api/v1/runners/{name}/approval", json.dumps({"envelopes": one["envelopes"]}),
                                                     {"Content-Type": "application/json", **dict(headers)}, scope="registry:admin:*")
    return answer.status, answer.body


def a_runner_of_an_organisation_is_its_own():
    path, content = invite(scope="main")
    enroll(path, "of-main")
    name = key_of("of-main")
    assert runner("show", "--state", place("of-main"), "--json")["scope"] == "main"
    approve("alice", name, code=3)  # no draft of the registry has this name
    for who in ("alice", "bob"):
        sijil(who, "runner", "approve", at, name, "--key", state[who]["key"], "--scope", "main", "--json")
    runner("enroll", "--state", place("of-main"))
    assert call("/runner/certificate", {}, certificate="of-main")[0] == 200
    assert [one["name"] for one in sijil("alice", "runner", "list", at, "--scope", "main", "--json")] == [name]
    assert name not in json.dumps(sijil("alice", "runner", "list", at, "--json"))
    assert sijil("alice", "runner", "show", at, name, "--scope", "main", "--json")["document"]["scope"] == "main"
    assert "to the registry or to an organisation" in invite(scope="main/models", code=2)
    assert "no organisation nobody" in invite(scope="nobody", code=3)
    refused(post_enrolment(content, Key("")), 401, "used already")


def a_robot_that_is_nobody_does_not_invite():
    login = sijil_test.make_robot(server, "nobody", "registry-admin", "")
    server.client(login)
    state["robot"] = {"login": login, "key": state["alice"]["key"]}
    sijil("robot", "login", at, "--username", login[0], "--ca-file", server.ca_file)
    assert "another person" in invite("robot", code=4)  # the robot of the administrator counts as the administrator
    reader = make_person(server, "reader", "auditor", "")
    state["reader"] = {"login": reader, "key": state["alice"]["key"]}
    sijil("reader", "login", at, "--username", reader[0], "--ca-file", server.ca_file)
    invite("reader", code=4)


def keys_can_be_compared_before_anything_is_sent():
    path, content = invite()
    public = place("root.pem")
    subprocess.run(["openssl", "ec", "-in", root_key, "-pubout", "-out", public], check=True, capture_output=True)
    assert "another key" in enroll(path, "pins", "--root", Key("").path, code=1)
    assert "another key" in enroll(path, "pins", "--signer", public, code=1)
    assert "another key" in enroll(path, "pins", "--log-key", "other+12345678+AAAA", code=1)
    assert not os.path.exists(place("pins/registry.json"))
    documents = place("documents.pem")
    with open(documents, "w", encoding="ascii") as file:
        file.write(server.client(server.admin).api("GET", "/audit/key")["documents"])
    with open(path, encoding="utf-8") as file:
        runner("enroll", f"https://{at}", "--code-file", "-", "--state", place("pins"), "--root", public, "--signer", documents, "--log-key",
               content["registry"]["log_key"], code=3, given=file.read())
    os.chmod(place("pins"), 0o755)
    assert "others may use it" in runner("show", "--state", place("pins"), code=1)
    os.chmod(place("pins"), 0o700)
    with open(place("pins/registry.json"), "r+", encoding="ascii") as file:
        file.write("[")
    assert "registry.json" in runner("show", "--state", place("pins"), code=1)
    for text in ("", "{}", "[]", json.dumps({**content, "code": "sjr_"}), json.dumps({**content, "code": "sjr_" + "A" * 64}), json.dumps({**content, "ca": "x" * 9})[:-2]):
        runner("enroll", "--code-file", "-", "--state", place("none"), code=1, given=text)
    assert not os.path.exists(place("none"))


def invitations_and_drafts_can_be_taken_back():
    _, content = invite()
    runner_id = json.loads(base64.b64decode(content["invitation"]["payload"]))["runner"]
    assert runner_id in json.dumps(sijil("bob", "runner", "list", at, "--json"))
    sijil("bob", "runner", "reject", at, runner_id)
    sijil("bob", "runner", "reject", at, runner_id, code=3)
    refused(post_enrolment(content, Key("")), 401, "the code is wrong, or its invitation has ended")
    path, _ = invite()
    enroll(path, "rejected")
    name = key_of("rejected")
    sijil("carol", "runner", "reject", at, name)
    approve("alice", name, code=3)
    runner("enroll", "--state", place("rejected"), code=3)


def open_invitations_are_bounded():
    count = 0
    while True:
        said = invite("carol", code=0) if count < 8 else invite("carol", code=1)
        if count == 8:
            assert "8 invitations of yours wait" in said, said
            break
        count += 1


def wrong_codes_are_limited():
    answers = []
    for _ in range(150):
        answers.append(call("/runner/enrolment", {"code": "sjr_" + url64(secrets.token_bytes(48)), "envelope": {
            "payloadType": "application/vnd.sijil.runner.v1+json", "payload": "e30=", "signatures": [{"sig": "e30="}]},
            "issued_at": signing_keys.utc(time.time()), "proof": "A" * 86}))
        if answers[-1][0] == 429:
            break
    assert answers[0][0] == 401 and answers[-1][0] == 429, (answers[0], answers[-1])
    path, _ = invite("bob")  # a right code is taken all the same
    enroll(path, "busy")


def requester():
    """Somebody whose runs are ordered."""
    if "requester" not in state:
        state["requester"] = Person(World(server, root_key, None, None), "requester")
    return state["requester"]


def leased(at_folder):
    """A run that this runner has, with the lease that sijil-keyd has signed for it."""
    run_id = requester().request(spec=spec(pool="gpu"))["run"]
    status, text = call("/runner/leases", {"session": secrets.token_hex(16), "generation": time.time_ns(), "wait_s": 20, "isolation": "rlimits",
                                           "cpus": 4, "memory_bytes": 1 << 32, "devices": []}, certificate=at_folder)
    assert status == 200, (status, text)
    lease, _ = opened(json.loads(text)["lease"])
    assert lease["run"] == run_id and lease["runner"]["key"] == key_of(at_folder), lease
    return run_id


FREE = "SET session_replication_role = replica; "  # only so may a row say that an attempt has ended in the past


def ended(run_id, minutes_ago, state_of_run):
    """As if its runner had finished it then."""
    times = {"finishing": "NULL", "succeeded": "now()"}
    server.sql(f"{FREE} UPDATE run_attempt SET ended_at = now() - interval '{minutes_ago} minutes', outcome = 'finished' WHERE run_id = '{run_id}'; "
               f"UPDATE run SET state = '{state_of_run}', ended_at = {times[state_of_run]} WHERE run_id = '{run_id}'")
    return run_id


def a_row_of(name, minutes_ago):
    """A run with an attempt by this key for which sijil-keyd has signed nothing: a row, as the gateways' role can write it."""
    run_id = str(uuid.uuid4())
    server.sql("INSERT INTO run (run_id, project_id, state, request, requester, approvals_wanted, pool, expires_at, attempts, attempt) "
               f"SELECT '{run_id}', project_id, 'finishing', sha256('x'), 'ext:x', 0, 'gpu', now() + interval '1 day', 1, 1 FROM project p JOIN organisation o "
               "USING (organisation_id) WHERE o.name = 'main' AND p.name = 'models'")
    server.sql("INSERT INTO run_attempt (run_id, attempt, node, runner, key, session, deadline, ends_at, ended_at, outcome) VALUES "
               f"('{run_id}', 1, 0, '{uuid.uuid4()}', '{name}', decode(repeat('00', 16), 'hex'), now(), now() + interval '1 hour', "
               f"now() - interval '{minutes_ago} minutes', 'finished')")
    return run_id


def a_withdrawn_runner_is_refused_and_its_results_are_marked():
    name = whole("stolen")
    assert call("/runner/certificate", {}, certificate="stolen")[0] == 200
    old, new = ended(leased("stolen"), 60, "succeeded"), ended(leased("stolen"), 5, "succeeded")
    waiting, forged = ended(leased("stolen"), 5, "finishing"), a_row_of(name, 5)
    sijil("carol", "runner", "revoke", at, name, "--key", state["carol"]["key"], code=2)
    sijil("carol", "runner", "revoke", at, name, "--key", state["carol"]["key"], "--reason", "x", "--since", "2999-01-01T00:00:00Z", code=2)
    sijil("carol", "runner", "revoke", at, name, "--key", Key("").path, "--reason", "x", code=4)
    since = signing_keys.utc(time.time() - 1800)
    made = sijil("carol", "runner", "revoke", at, name, "--key", state["carol"]["key"], "--reason", "its disk was stolen", "--since", since, "--json")
    assert made["state"] == "withdrawn" and made["since"] == since, made
    refused(call("/runner/certificate", {}, certificate="stolen"), 401, "withdrawn")
    runner("enroll", "--state", place("stolen"))  # it has a certificate, which gives nothing
    os.remove(place("stolen/certificate.pem"))
    assert "this runner was withdrawn" in runner("enroll", "--state", place("stolen"), code=3)
    sijil("carol", "runner", "revoke", at, name, "--key", state["carol"]["key"], "--reason", "again", code=1)

    reader = server.client(sijil_test.make_robot(server, "trainer", "trainer", "main/models"))

    def shown(run_id):
        return reader.api("GET", f"/projects/main/models/runs/{run_id}")
    wait_until(lambda: "doubts" in shown(new), 90, "the run has no mark")
    doubt = shown(new)["doubts"][0]
    assert shown(new)["state"] == "succeeded" and doubt["key"] == name and doubt["reason"] == "its disk was stolen" and doubt["since"] == since, doubt
    assert "doubts" not in shown(old) and shown(old)["state"] == "succeeded"
    wait_until(lambda: shown(waiting)["state"] == "quarantined", 60, "the run that waited is not quarantined")
    assert "its disk was stolen" in shown(waiting)["reason"]
    assert shown(forged)["state"] == "finishing", "an attempt without a signed lease has ended a run"
    assert [one for one in events("run.doubt") if new in one["entry"]["res"]] and not [one for one in events("run.doubt") if old in one["entry"]["res"]]
    # The theft turns out to be older. Only an earlier time changes anything, and it counts for all runs.
    later = sijil("carol", "runner", "revoke", at, name, "--key", state["carol"]["key"], "--reason", "again", "--since", signing_keys.utc(time.time() - 900), code=1)
    assert "only an earlier --since" in later, later
    earlier = signing_keys.utc(time.time() - 2 * 3600)
    made = sijil("carol", "runner", "revoke", at, name, "--key", state["carol"]["key"], "--reason", "stolen before that", "--since", earlier, "--json")
    assert made["since"] == earlier, made
    for run_id in (old, new):
        wait_until(lambda run_id=run_id: [one["since"] for one in shown(run_id).get("doubts", [])] == [earlier], 90, f"no earlier doubt: {shown(run_id)}")
        assert shown(run_id)["doubts"][0]["reason"] == "stolen before that"
    assert shown(forged)["state"] == "finishing" and forged not in json.dumps(events("run.doubt"))


def rows_are_no_doubts():
    """With the database role: a doubt about a runner that nobody has withdrawn, one about a run of which a withdrawn runner had no part, and one with an attempt
    of that runner as a row, too: nobody has signed it a lease."""
    honest, stolen = whole("honest"), server.sql("SELECT key FROM run_doubt LIMIT 1").strip()
    good, other, forged = ended(leased("honest"), 5, "succeeded"), ended(leased("honest"), 5, "succeeded"), leased("honest")
    server.sql("INSERT INTO run_attempt (run_id, attempt, node, runner, key, session, deadline, ends_at, lease) SELECT run_id, attempt, 1, runner,"
               f" '{stolen}', session, deadline, ends_at, lease FROM run_attempt WHERE run_id = '{forged}'")
    ended(forged, 5, "succeeded")
    for run_id, key in ((good, honest), (other, stolen), (forged, stolen)):
        server.sql(f"INSERT INTO run_doubt (run_id, key, runner, since, reason) VALUES ('{run_id}', '{key}', '{uuid.uuid4()}', now() - interval '1 hour', 'invented')")
    reader = server.client(sijil_test.make_robot(server, "looker", "trainer", "main/models"))
    assert server.sql(f"SELECT count(*) FROM run_attempt WHERE run_id = '{forged}'").strip() == "2"
    for run_id in (good, other, forged):
        assert "doubts" not in reader.api("GET", f"/projects/main/models/runs/{run_id}")


def a_killed_registry_forgets_nothing():
    path, content = invite("bob")
    enroll(path, "killed")
    name = key_of("killed")
    server.stop(9)
    server.start()
    assert listed(name)["missing"] == 2
    key = Key("")
    refused(post_enrolment(content, key), 401, "used already")
    approve("alice", name)
    server.stop(9)
    server.start()
    approve("bob", name)
    runner("enroll", "--state", place("killed"), "--wait")
    shutil.rmtree(place("killed"))


if __name__ == "__main__":
    run(prepare, a_machine_becomes_a_runner, the_certificate_gets_the_next_one, a_code_gives_nothing_but_a_draft, a_lost_answer_is_asked_for_again,
        an_expired_code_is_refused, rows_give_nothing, two_persons_are_needed, a_runner_of_an_organisation_is_its_own, a_robot_that_is_nobody_does_not_invite,
        keys_can_be_compared_before_anything_is_sent, invitations_and_drafts_can_be_taken_back, open_invitations_are_bounded,
        a_withdrawn_runner_is_refused_and_its_results_are_marked, rows_are_no_doubts, a_killed_registry_forgets_nothing, wrong_codes_are_limited, server=server)
