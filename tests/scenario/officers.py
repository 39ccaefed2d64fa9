#!/usr/bin/env python3
"""Officers by documents (docs/identity.md, "Officers"): the administrator has one from the first start, and neither a row of the database nor a name that is used again makes another one."""
import base64
import calendar
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time

import restriction_cases
import signing_keys
import sijil_test
from key_holder import Holder
from signing_keys import DAY, Key, canonical, utc
from sijil_test import IssuerProcess, Server, make_person, run

TYPE = "application/vnd.sijil.officers.v1+json"
Server.officers_by = ()  # as an operator starts it
server = Server().start()
folder = tempfile.TemporaryDirectory()
root_key = os.path.join(server.folder, "officer", "approver.pem")
at = f"127.0.0.1:{server.port}"
admin = server.client(server.admin)
people, keys = {}, {}


def principal_of(issuer, subject):
    return "ext:" + hashlib.sha256(f"{issuer}\n{subject}".encode()).hexdigest()


def call(login, method, path, body=None):
    return server.client(login).call(method, "/api/v1" + path, None if body is None else json.dumps(body), {"Content-Type": "application/json"} if body else {},
                                     scope="registry:admin:*")


def refused(answer, status, says):
    assert answer.status == status and says in answer.body.decode(), (answer.status, answer.body)


def sijil(who, *words, works=True, given=""):
    home = os.path.join(folder.name, "home-" + who)
    os.makedirs(home, exist_ok=True)
    environment = {**os.environ, "HOME": home, "XDG_CONFIG_HOME": home, "SIJIL_CA_FILE": server.ca_file}
    done = subprocess.run([sijil_test.program("sijil"), *words], input=given + "\n", text=True, capture_output=True, env=environment, timeout=120, check=False)
    assert (done.returncode == 0) == works, (words, done.returncode, done.stdout, done.stderr)
    return json.loads(done.stdout) if "--json" in words and done.stdout else done.stdout + done.stderr


def roles(who):
    return [(one["role"], one.get("bound_as"), one["scope"], one.get("document")) for one in call(people[who], "GET", "/self").json["roles"]]


def enrol(who, purpose="sign", sender=None):
    """The person's binding does not count yet, and is enough for this; the root signs, and somebody else sends it."""
    key, before = Key(people[who].principal, purpose), keys.get((who, "sign"))  # an officer's further key has the signature of the one before
    keys[who, purpose] = key
    document = key.document(replaces=before)
    drafted = signing_keys.sign_twice(document, key, *([before] if before else []))
    answer = call(people[who], "POST", "/keys/signing", drafted)
    assert answer.status == 201, answer.body
    approval = {"envelopes": [drafted, signing_keys.sign(document, root_key)]}
    answer = call(people[sender] if sender else server.admin, "POST", f"/keys/signing/{key.name}/approval", approval)
    assert answer.status == 201, answer.body


def document(name, principal, key, role=None, on="", version=1, **more):
    now = time.time()
    return canonical({"schema": "sijil.document/v1", "kind": "officers", "scope": "", "name": name, "version": version, "effective_from": utc(now - 1), "expires": utc(now + DAY),
                      "body": {"principal": principal, "key": key.name, "role": role or name.split(".")[0], "on": on}, **more})


def by_root(made, login=None):
    return call(login or server.admin, "POST", "/officers", signing_keys.sign(made, root_key, TYPE))


def person(name, role, scope):
    people[name] = make_person(server, name, role, scope)
    people[name].principal = principal_of(server.people.url, name)


def the_administrator_has_a_document_from_the_first_start():
    me = admin.api("GET", "/self")
    assert me["officers"] == "documents" and me["one_person"] is True and me["person"] == "administrator", me
    mine = next(role for role in me["roles"] if role["role"] == "registry-admin")
    assert mine["document"] == "registry-admin.administrator" and mine["origin"] == "binding" and "expires" in mine, mine
    listed = admin.api("GET", "/officers")
    assert listed["demanded"] and [(one["name"], one["state"], one["bound"]) for one in listed["officers"]] == [("registry-admin.administrator", "in force", True)], listed
    key = next(one for one in admin.api("GET", "/keys/signing")["keys"] if one["name"] == listed["officers"][0]["document"]["body"]["key"])
    assert key["document"]["body"]["principal"] == "robot:" + me["id"] == listed["officers"][0]["document"]["body"]["principal"], key
    assert os.path.exists(os.path.join(server.folder, "officer", "administrator.pem"))
    sijil("admin", "login", at, "--username", server.admin[0], "--ca-file", server.ca_file, given=server.admin[1])
    shown = sijil("admin", "whoami", at)
    assert "one person" in shown and "by the signed document registry-admin.administrator" in shown and "bindings alone" not in shown, shown
    reviewed = admin.api("GET", "/access/review")
    assert reviewed["officers"] == "documents" and any(one.get("one_person") and one.get("document") for one in reviewed["roles"]), reviewed
    assert "one person" in sijil("admin", "admin", "access", "review", at)


def a_row_of_the_database_gives_nothing():
    """The database's superuser writes it, and names a subject of an issuer that is trusted."""
    person("alice", "registry-admin", "")
    server.people.add("mallory")
    # A round of the verifier would take her row away (tests/scenario/scim.py), so the others would not see that it gives nothing while it is there.
    server.sql("CREATE OR REPLACE FUNCTION doubt_row(doubted uuid, event bigint) RETURNS boolean LANGUAGE sql AS 'SELECT false'; INSERT INTO binding (binding_id, issuer, subject, role, granted_by) VALUES (gen_random_uuid(), "
               f"'{server.people.url}', 'mallory', 'registry-admin', 'system'); SELECT raise_authorization_epoch()")
    people["mallory"] = sijil_test.login_of(server, "mallory")
    people["mallory"].principal = principal_of(server.people.url, "mallory")
    for who in ("alice", "mallory"):
        assert roles(who) == [("unsigned-officer", "registry-admin", "", None)], roles(who)
        refused(call(people[who], "POST", "/organisations", {"name": "hers", "label": {}}), 403, "SYS-OFFICER")
        refused(call(people[who], "GET", "/bindings"), 403, "no document of officers")
        refused(call(people[who], "GET", "/officers"), 403, "SYS-OFFICER")
    told = call(people["mallory"], "POST", "/authz/explain", {"action": "organisation.create", "resource": ""}).json
    assert not told["allowed"] and told["roles"][0]["bound_as"] == "registry-admin" and told["denials"][0]["rule"] == "SYS-OFFICER", told
    assert told["changes"][0]["kind"] == "person" and "admin officers draft" in told["changes"][0]["text"], told
    told = admin.api("POST", "/authz/explain", {"issuer": server.people.url, "subject": "mallory", "action": "binding.create", "resource": ""})
    assert not told["allowed"] and told["denials"][0]["rule"] == "SYS-OFFICER", told
    metrics = server.client().call("GET", "/metrics").body.decode()
    if "sijil_officers" in metrics:
        assert "sijil_officers_by_documents 1" in metrics and "sijil_officers_unsigned 2" in metrics, metrics


def a_document_makes_the_binding_count():
    enrol("alice")
    mine = keys["alice", "sign"]
    refused(by_root(document("registry-admin.alice", people["alice"].principal, Key(people["alice"].principal))), 403, "not an enrolled signing key")
    refused(by_root(document("registry-admin.mallory", people["mallory"].principal, mine)), 403, "not an enrolled signing key")
    refused(by_root(document("security-officer.alice", people["alice"].principal, mine)), 409, "no live binding as security-officer")
    refused(by_root(document("org-admin.alice", people["alice"].principal, mine, on="nowhere")), 404, "there is no organisation")
    refused(by_root(document("registry-admin.alice", people["alice"].principal, mine, on="main")), 400, "on:")
    unknown = Key(people["alice"].principal)
    refused(call(server.admin, "POST", "/officers", signing_keys.sign(document("registry-admin.alice", people["alice"].principal, mine), unknown.path, TYPE)), 403, "signed neither")
    made = os.path.join(folder.name, "alice.json")
    with open(made, "w", encoding="utf-8") as file:
        json.dump({"name": "registry-admin.alice", "principal": people["alice"].principal, "key": mine.name, "role": "registry-admin", "on": ""}, file)
    assert "in force" in sijil("admin", "admin", "officers", "draft", at, made, "--key", root_key)
    assert roles("alice") == [("registry-admin", None, "", "registry-admin.alice")], roles("alice")
    assert call(people["alice"], "POST", "/organisations", {"name": "acme", "label": {}}).status == 201
    shown = sijil("admin", "admin", "officers", "list", at)
    assert "registry-admin.alice" in shown and "alice" in shown, shown
    assert roles("mallory")[0][0] == "unsigned-officer"


def two_other_persons_sign():
    for who in ("bob", "carol"):
        person(who, "registry-admin", "")
        enrol(who)
        assert by_root(document(f"registry-admin.{who}", people[who].principal, keys[who, "sign"])).status == 201
    for who in ("alice", "bob", "carol"):
        enrol(who, "approve", sender="bob" if who != "bob" else "alice")
    person("dora", "security-officer", "acme")
    enrol_dora()
    name, hers = "security-officer.dora", document("security-officer.dora", people["dora"].principal, keys["dora", "sign"], on="acme")
    first = signing_keys.sign(hers, keys["alice", "approve"].path, TYPE)
    answer = call(people["alice"], "POST", "/officers", first)
    assert answer.status == 201 and answer.json["state"] == "draft", answer.body
    draft = call(people["bob"], "GET", "/officers").json["drafts"][0]
    assert draft["missing"] == 1 and draft["holder"]["subject"] == "dora" and draft["bound"] is True, draft
    refused(call(people["bob"], "POST", f"/officers/{name}/approval", {"envelopes": [first, signing_keys.sign(hers, keys["carol", "approve"].path, TYPE)]}), 403, "another person")
    refused(call(people["alice"], "POST", f"/officers/{name}/approval", {"envelopes": [first, signing_keys.sign(hers, keys["alice", "approve"].path, TYPE)]}), 409, "signed twice")
    assert roles("dora")[0][0] == "unsigned-officer"
    answer = call(people["bob"], "POST", f"/officers/{name}/approval", {"envelopes": [first, signing_keys.sign(hers, keys["bob", "approve"].path, TYPE)]})
    assert answer.status == 201 and answer.json["state"] == "in force", answer.body
    assert roles("dora") == [("security-officer", None, "acme", name)], roles("dora")
    own = document("registry-admin.alice", people["alice"].principal, keys["alice", "sign"], version=2)
    refused(call(people["alice"], "POST", "/officers", signing_keys.sign(own, keys["alice", "approve"].path, TYPE)), 403, "other persons than the officer")


def draft_next(who, key, made, *signers):
    """A draft of another key, as its holder signs it, and the approval of alice."""
    envelope = signing_keys.sign_twice(made, *signers)
    answer = call(people[who], "POST", "/keys/signing", envelope)
    return answer, {"envelopes": [envelope, signing_keys.sign(made, keys["alice", "approve"].path)]}, f"/keys/signing/{key.name}"


def another_key_waits_a_day_without_the_one_before():
    """A thief of a login, with an approver who was talked into it, gets no key at once; and the person learns of it, and takes it back."""
    mine, bob = keys["bob", "sign"], people["bob"]
    new = Key(bob.principal)
    answer, approval, at_key = draft_next("bob", new, new.document(), new)
    assert answer.status == 201, answer.body
    answer = call(people["alice"], "POST", at_key + "/approval", approval)
    assert answer.status == 202 and answer.json["state"] == "draft", answer.body
    left = calendar.timegm(time.strptime(answer.json["waits_until"][:19], "%Y-%m-%dT%H:%M:%S")) - time.time()
    assert 86200 < left <= 86400, answer.json
    refused(call(people["alice"], "POST", at_key + "/approval", approval), 409, "waits for")
    waiting = next(one for one in call(bob, "GET", "/keys/signing").json["drafts"] if one["name"] == new.name)
    assert waiting["waits_until"] == answer.json["waits_until"], waiting
    shown = call(bob, "GET", "/self").json["waiting_keys"]
    assert [(one["name"], one["waits_until"]) for one in shown] == [(new.name, answer.json["waits_until"])], shown
    assert "waiting_keys" not in call(people["alice"], "GET", "/self").json
    assert answer.json["waits_until"] in sijil("admin", "key", "list", at)
    begun = [one for one in admin.api("GET", "/audit/events?limit=100&action=key.replace")["events"]]
    assert len(begun) == 1 and begun[0]["entry"]["out"] == "allowed", begun
    sijil_test.wait_until(lambda: any(f"events={begun[0]['entry']['seq']}" in one["entry"]["res"]
                                      for one in admin.api("GET", "/audit/events?limit=100&action=alarm.raise")["events"]), 60, "no alarm")
    withdrawal = new.document(2, replaces=mine, withdrawn="not mine")
    refused(call(bob, "POST", at_key + "/withdrawal", signing_keys.sign(withdrawal, new.path)), 403, "has not signed")
    refused(call(bob, "POST", at_key + "/withdrawal", signing_keys.sign(new.document(2, replaces=keys["carol", "sign"], withdrawn="no"), keys["carol", "sign"].path)), 403, "no other key")
    answer = call(bob, "POST", at_key + "/withdrawal", signing_keys.sign(withdrawal, mine.path))
    assert answer.status == 201 and answer.json["state"] == "withdrawn", answer.body
    assert "waiting_keys" not in call(bob, "GET", "/self").json
    drafts = [one["name"] for one in call(bob, "GET", "/keys/signing").json["drafts"]]
    assert new.name not in drafts and server.sql(f"SELECT count(*) FROM document_draft WHERE name = '{new.name}'") == "0", drafts
    refused(call(people["alice"], "POST", at_key + "/approval", approval), 409, "withdrawn, for good")
    assert roles("bob") == [("registry-admin", None, "", "registry-admin.bob")], roles("bob")


def the_command_line_replaces_a_key_and_takes_one_back():
    mine, new = os.path.join(server.folder, "officer", "administrator.pem"), Key("").path
    name = sijil("admin", "key", "enroll", "--json", at, "--key", new, "--old", mine)["name"]
    draft = next(one for one in admin.api("GET", "/keys/signing")["drafts"] if one["name"] == name)
    assert "replaces" in draft["document"]["body"] and len(draft["envelope"]["signatures"]) == 2, draft
    sijil("admin", "key", "discard", at, name)
    assert sijil("admin", "key", "enroll", "--json", at, "--key", new)["name"] == name
    draft = next(one for one in admin.api("GET", "/keys/signing")["drafts"] if one["name"] == name)
    approval = [draft["envelope"], signing_keys.sign(base64.b64decode(draft["envelope"]["payload"]), keys["alice", "approve"].path)]
    assert call(people["alice"], "POST", f"/keys/signing/{name}/approval", {"envelopes": approval}).status == 202
    shown = sijil("admin", "whoami", at)
    assert "waiting key" in shown and name in shown, shown
    assert sijil("admin", "key", "revoke", "--json", at, name, "--key", mine, "--reason", "not mine")["state"] == "withdrawn"
    assert "waiting key" not in sijil("admin", "whoami", at)


def the_key_before_signs_the_next_one():
    mine, bob = keys["bob", "sign"], people["bob"]
    new = Key(bob.principal)
    refused(draft_next("bob", new, new.document(replaces=mine), new)[0], 403, "has not signed")
    hers = keys["alice", "sign"]
    refused(draft_next("bob", new, new.document(replaces=hers), new, hers)[0], 403, "no other key in force")
    answer, approval, at_key = draft_next("bob", new, new.document(replaces=mine), new, mine)
    assert answer.status == 201, answer.body
    answer = call(people["alice"], "POST", at_key + "/approval", approval)
    assert answer.status == 201 and answer.json["state"] == "in force", answer.body
    version = call(bob, "GET", "/officers/registry-admin.bob").json["document"]["version"] + 1
    assert by_root(document("registry-admin.bob", bob.principal, new, version=version)).status == 201
    gone = mine.document(2, withdrawn="replaced")
    assert call(bob, "POST", f"/keys/signing/{mine.name}/withdrawal", signing_keys.sign(gone, mine.path)).status == 201
    assert roles("bob") == [("registry-admin", None, "", "registry-admin.bob")], roles("bob")
    keys["bob", "sign"] = new


def enrol_dora():
    """Her binding is of acme, so her key is, too."""
    key = keys["dora", "sign"] = Key(people["dora"].principal, "sign", "acme")
    made = key.document()
    drafted = signing_keys.sign(made, key.path)
    assert call(people["dora"], "POST", "/keys/signing", drafted).status == 201
    assert call(people["bob"], "POST", f"/keys/signing/{key.name}/approval", {"envelopes": [drafted, signing_keys.sign(made, root_key)]}).status == 201


def the_same_name_again_is_nobody():
    """Renamed, reassigned, deleted and created again: a document names the issuer's subject, the robot's id, and an organisation that was there."""
    elsewhere = IssuerProcess(f"https://{at}")
    admin.api("POST", "/issuers", {"url": elsewhere.url, "algorithms": ["ES256"], "jwks": elsewhere.fetch(elsewhere.fetch("/.well-known/openid-configuration")["jwks_uri"])})
    admin.api("POST", "/bindings", {"issuer": elsewhere.url, "subject": "alice", "role": "registry-admin", "scope": ""})
    people["other alice"] = sijil_test.Person(("oidc", elsewhere.fetch("/token", login=("alice", elsewhere.add("alice")))["id_token"]))
    assert roles("other alice") == [("unsigned-officer", "registry-admin", "", None)], roles("other alice")
    person("alice-2", "registry-admin", "")  # the issuer made her account again, under another subject
    assert roles("alice-2")[0][0] == "unsigned-officer"
    elsewhere.stop()
    assert roles("dora")[0][0] == "security-officer"
    plan = admin.api("GET", "/organisations/acme/deletion")
    answer = call(server.admin, "DELETE", f"/organisations/acme?plan={plan['plan']}")
    assert answer.status == 204, answer.body
    assert call(people["alice"], "POST", "/organisations", {"name": "acme", "label": {}}).status == 201
    admin.api("POST", "/bindings", {"issuer": server.people.url, "subject": "dora", "role": "security-officer", "scope": "acme"})
    assert roles("dora") == [("unsigned-officer", "security-officer", "acme", None)], roles("dora")


def a_withdrawn_key_ends_the_role():
    key = keys["carol", "sign"]
    assert roles("carol")[0][0] == "registry-admin"
    answer = call(people["carol"], "POST", f"/keys/signing/{key.name}/withdrawal", signing_keys.sign(key.document(2, withdrawn="the laptop was stolen"), key.path))
    assert answer.status == 201, answer.body
    assert roles("carol")[0][0] == "unsigned-officer", roles("carol")


def persons_document(version, **more):
    now = time.time()
    return canonical({"schema": "sijil.document/v1", "kind": "persons", "scope": "", "name": "_registry", "version": version, "effective_from": utc(now - 1), "expires": utc(now + DAY),
                      "body": {"issuer": server.people.url, "tokens": {"acts": "signed"}}, **more})


def the_event_keeps_the_signature(act):
    """An auditor needs no registry to know that the person itself has asked."""
    events = [one for one in admin.api("GET", "/audit/events?limit=100&action=robot.create&purpose=case+4711")["events"] if "signed by" in one["entry"]["why"].get("note", "")]
    event = next(one for one in events if one["who"].get("act") == act)
    assert len(events) == 2 and {one["entry"]["why"]["note"] for one in events} == {"signed by " + keys_of_the_administrator()}, events
    shown = sijil("admin", "audit", "show", at, str(event["seq"]), "--purpose", "case 4711")
    assert "signed by  " + keys_of_the_administrator() in shown and "good, over POST /api/v1/robots" in shown, shown
    shown = sijil("admin", "audit", "show", at, str(event["seq"]))
    assert "signed by" in shown and "good" not in shown and act not in shown, shown
    made = admin.api("POST", "/audit/exports", {"key": "org:acme", "nonce": "0" * 32, "open": True, "purpose": "case 4711"})
    lines, more = b"", ""
    while b'"place":"closing"' not in lines:
        lines += admin.call("GET", f"/api/v1/audit/exports/{made['number']}/lines?format=ndjson{more}", scope="registry:admin:*").body
        size = json.loads(lines.split(b"\n")[0])["export"]["checkpoint"].split("\n")[1]
        more = f"&after={json.loads(lines.splitlines()[-1])['entry']['seq']}&size={size}"
    vkey = admin.api("GET", "/audit/key")["vkey"]
    for content, code in ((lines, 0), (lines.replace(b"signed by " + keys_of_the_administrator().encode(), b"signed by " + b"A" * 43), 1)):
        done = subprocess.run([sijil_test.program("sijil-verify"), "export", "--key", vkey, "--json", "-"], input=content, capture_output=True, timeout=60, check=False)
        assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
        assert code or json.loads(done.stdout)["acts"] >= 5, done.stdout


def keys_of_the_administrator():
    return next(one["document"]["body"]["key"] for one in admin.api("GET", "/officers")["officers"] if one["name"] == "registry-admin.administrator")


def the_most_dangerous_requests_are_signed_one_by_one():
    """A token alone, however fresh its login is, makes no robot where the document of persons says so."""
    kind = "application/vnd.sijil.persons.v1+json"
    assert call(server.admin, "POST", "/persons", signing_keys.sign(persons_document(1), root_key, kind)).status == 201
    key_file = os.path.join(server.folder, "officer", "administrator.pem")
    mine, hers, unknown = Holder.of(key_file), Holder.of(keys["alice", "sign"].path), Holder()
    basic = {"Authorization": "Basic " + base64.b64encode(":".join(server.admin).encode()).decode()}
    token, other = (admin.call("GET", "/token?scope=registry:admin:*", headers=basic).json["token"] for _ in range(2))
    origin = f"https://{at}"
    nonce = admin.call("GET", "/token?scope=registry:admin:*", headers={**basic, "DPoP": mine.proof("GET", origin + "/token")})["DPoP-Nonce"]

    def send(method, target, body, act=None):
        headers = {"Authorization": "Bearer " + token, **({"Sijil-Act": act} if act else {}), **({"Content-Type": "application/json"} if body else {})}
        return admin.call(method, target, body or None, headers=headers)

    def refusal(answer, says):
        said = answer["WWW-Authenticate"] or ""
        assert answer.status == 401 and 'error="request_signature_required"' in said and says in answer.body.decode(), (answer.status, said, answer.body)
        assert answer["DPoP-Nonce"] == nonce, says  # so that a client without proofs learns it

    target, body = "/api/v1/robots", json.dumps({"organisation": "acme", "name": "signed"}).encode()
    refusal(send("POST", target, body), "Sijil-Act")
    for says, act in (("is not that of its key", mine.proof("POST", origin + target, token, nonce, {"typ": "sijil-act+jwt", "jwk": unknown.jwk})),
                      ("typ must be", mine.proof("POST", origin + target, token, nonce)),
                      ("no enrolled key", unknown.act("POST", origin, target, body, token, nonce)),
                      ("no enrolled key", hers.act("POST", origin, target, body, token, nonce)),
                      ("body is not", mine.act("POST", origin, target, body + b" ", token, nonce)),
                      ("body is not", mine.act("POST", origin, target, body, token, nonce, body=None)),
                      ("target is not", mine.act("POST", origin, target + "?a=b", body, token, nonce)),
                      ("target is not", mine.act("POST", origin, target, body, token, nonce, target=None)),
                      ("htm is not", mine.act("PUT", origin, target, body, token, nonce)),
                      ("htu is not", mine.act("POST", "https://elsewhere.example", target, body, token, nonce)),
                      ("ath is not", mine.act("POST", origin, target, body, other, nonce)),
                      ("nonce", mine.act("POST", origin, target, body, token, "A" * 22)),
                      ("ago", mine.act("POST", origin, target, body, token, nonce, iat=1700000000)),
                      ("three segments", "x")):
        refusal(send("POST", target, body, act), says)
    good = mine.act("POST", origin, target, body, token, nonce)
    assert send("POST", target, body, good).status == 201
    refusal(send("POST", target, body, good), "used before")
    assert send("GET", "/api/v1/robots", None).status == 200  # looking is no act
    many = send("POST", "/api/v1/bindings/batch?scope=acme", json.dumps({"bindings": [{"robot": "robot$acme+signed", "role": "auditor", "scope": "acme"}]}).encode())
    assert many.status == 403 and b"signed one by one" in many.body, many.body  # each signature is for one grant
    robots = {one["name"].partition("+")[2]: one["id"] for one in admin.api("GET", "/robots?organisation=acme")["robots"]}
    rotation, days = f"/api/v1/robots/{robots['signed']}/secret", b'{"expires_days":3}'  # a body that arrives after a first decision
    refusal(send("POST", rotation, days), "Sijil-Act")
    refusal(send("POST", rotation, days, mine.act("POST", origin, rotation, b"", token, nonce)), "body is not")
    rotated = send("POST", rotation, days, mine.act("POST", origin, rotation, days, token, nonce))
    assert rotated.status == 200, (rotated.status, rotated.body)
    assert send("POST", rotation, None, mine.act("POST", origin, rotation, b"", token, nonce)).status == 200
    plan = admin.api("GET", "/organisations/acme/deletion")["plan"]
    doomed = "/api/v1/organisations/acme?plan="
    refusal(send("DELETE", doomed + plan, None, mine.act("DELETE", origin, doomed + "0" * 64, b"", token, nonce)), "target is not")
    admin.api("POST", "/projects", {"organisation": "acme", "name": "gone"})
    server.sql("CREATE FUNCTION raise() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN IF (SELECT count(*) = 1 FROM audit_entry WHERE action = ''project.delete'') THEN PERFORM raise_authorization_epoch(); END IF; RETURN NULL; END'; CREATE TRIGGER raise AFTER INSERT ON audit_entry"
               " FOR EACH ROW WHEN (NEW.action = 'project.delete') EXECUTE FUNCTION raise()")  # so the deletion is decided again behind its first event, which alone has the signature
    gone = send("DELETE", "/api/v1/projects/acme/gone", None, mine.act("DELETE", origin, "/api/v1/projects/acme/gone", b"", token, nonce))
    server.sql("DROP FUNCTION raise CASCADE")
    assert gone.status == 204, (gone.status, gone.body)
    assert server.sql("SELECT count(*) FILTER (WHERE outcome <> 'denied') > 1 FROM audit_entry WHERE action = 'project.delete'") == "t"
    assert "--sign-with" in sijil("admin", "admin", "robot", "create", at, "acme/by-command", works=False)
    sijil("admin", "admin", "robot", "create", at, "acme/by-command", "--sign-with", key_file)
    hidden = admin.api("GET", "/robots?organisation=acme")["robots"]
    assert {"signed", "by-command"} <= {one["name"].partition("+")[2] for one in hidden}, hidden
    the_event_keeps_the_signature(good)
    end = persons_document(2, body={}, withdrawn="the end of the test")
    assert call(server.admin, "POST", "/persons/_registry/withdrawal", signing_keys.sign(end, root_key, kind)).status == 201
    assert send("POST", target, json.dumps({"organisation": "acme", "name": "plain"}).encode()).status == 201


def the_last_administrator_stays():
    for who in ("bob", "alice"):
        end = canonical({**json.loads(document(f"registry-admin.{who}", people[who].principal, keys[who, "sign"], version=3)), "body": {}, "withdrawn": "the end"})
        answer = call(server.admin, "POST", f"/officers/registry-admin.{who}/withdrawal", signing_keys.sign(end, root_key, TYPE))
        assert answer.status == 201 and roles(who)[0][0] == "unsigned-officer", answer.body
    me = admin.api("GET", "/self")
    version = admin.api("GET", "/officers/registry-admin.administrator")["document"]["version"]
    end = canonical({**json.loads(document("registry-admin.administrator", "robot:" + me["id"], keys["alice", "sign"], version=version + 1)), "body": {}, "withdrawn": "the end"})
    refused(call(server.admin, "POST", "/officers/registry-admin.administrator/withdrawal", signing_keys.sign(end, root_key, TYPE)), 403, "SYS-LAST-OFFICER")
    mine = next(role for role in me["roles"] if role["role"] == "registry-admin")
    refused(call(server.admin, "DELETE", "/bindings/" + mine["binding"]), 403, "SYS-LAST-OFFICER")
    again = document("registry-admin.alice", people["alice"].principal, keys["alice", "sign"], version=4)
    assert by_root(again, people["alice"]).status == 201  # her binding is enough to post what the root has signed: nobody is locked out
    assert roles("alice")[0][0] == "registry-admin"
    refused(by_root(document("registry-admin.bob", people["bob"].principal, keys["bob", "sign"], version=2)), 409, "sign a higher one")
    assert call(people["alice"], "POST", "/officers/registry-admin.administrator/withdrawal", signing_keys.sign(end, root_key, TYPE)).status == 201
    assert call(server.admin, "GET", "/bindings").status == 403


if __name__ == "__main__":
    run(the_administrator_has_a_document_from_the_first_start, a_row_of_the_database_gives_nothing, a_document_makes_the_binding_count, two_other_persons_sign,
        *restriction_cases.Restrictions(sys.modules["__main__"]).all(), another_key_waits_a_day_without_the_one_before, the_command_line_replaces_a_key_and_takes_one_back, the_key_before_signs_the_next_one,
        the_same_name_again_is_nobody, the_most_dangerous_requests_are_signed_one_by_one, a_withdrawn_key_ends_the_role, the_last_administrator_stays, server=server)
