#!/usr/bin/env python3
"""Who is another person (docs/identity.md, "Persons"): subjects of two issuers, documents that two approvers sign, and robots whose secrets several have seen."""
import hashlib
import json
import os
import subprocess
import tempfile
import time

import signing_keys
import sijil_test
from signing_keys import Key, utc
from sijil_test import IssuerProcess, Server, login_of, make_person, run

server = Server().start()
folder = tempfile.TemporaryDirectory()
root_key = os.path.join(server.folder, "officer", "approver.pem")
at = f"127.0.0.1:{server.port}"
admin = server.client(server.admin)
TYPE = "application/vnd.sijil.persons.v1+json"
people = {}


def key_of(issuer, subject):
    return "ext:" + hashlib.sha256(f"{issuer}\n{subject}".encode()).hexdigest()


class Elsewhere:
    """A second issuer, and subjects of it."""

    def __init__(self):
        self.people = IssuerProcess(f"https://{at}")
        admin.api("POST", "/issuers", {"url": self.people.url, "algorithms": ["ES256"], "jwks": self.people.fetch(self.people.fetch("/.well-known/openid-configuration")["jwks_uri"])})
        self.url = self.people.url

    def person(self, name, role, scope):
        admin.api("POST", "/bindings", {"issuer": self.url, "subject": name, "role": role, "scope": scope})
        return ("oidc", self.people.fetch("/token", login=(name, self.people.add(name)))["id_token"])


def call(login, method, path, body=None):
    return server.client(login).call(method, "/api/v1" + path, None if body is None else json.dumps(body), {"Content-Type": "application/json"} if body else {},
                                     scope="registry:admin:*")


def refused(answer, status, says):
    assert answer.status == status and says in answer.body.decode(), (answer.status, answer.body)


def sijil(who, *words, code=0, given=""):
    home = os.path.join(folder.name, "home-" + who)
    os.makedirs(home, exist_ok=True)
    environment = {**os.environ, "HOME": home, "XDG_CONFIG_HOME": home, "SIJIL_CA_FILE": server.ca_file}
    done = subprocess.run([sijil_test.program("sijil"), *words], input=given + "\n", text=True, capture_output=True, env=environment, timeout=120, check=False)
    assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
    return json.loads(done.stdout) if "--json" in words and done.stdout else done.stdout + done.stderr


def enrol(login, issuer, subject):
    """A key that approves, by the root's signature."""
    key = Key(key_of(issuer, subject), "approve")
    document = key.document()
    drafted = signing_keys.sign(document, key.path)
    server.client(login).api("POST", "/keys/signing", drafted)
    admin.api("POST", f"/keys/signing/{key.name}/approval", {"envelopes": [drafted, signing_keys.sign(document, root_key)]})
    return key.path


def prepare():
    for name in ("alice", "bob"):
        login = make_person(server, name, "registry-admin", "")
        people[name] = (login, enrol(login, server.people.url, name))
        sijil(name, "login", at, "--username", login[0], "--ca-file", server.ca_file, given=login[1])
    elsewhere = people["elsewhere"] = Elsewhere()
    login = elsewhere.person("alex", "registry-admin", "")
    people["alex"] = (login, enrol(login, elsewhere.url, "alex"))
    people["carol"] = (elsewhere.person("carol", "org-admin", "main"), None)


def written(document):
    path = os.path.join(folder.name, f"persons-{time.monotonic_ns()}.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(document, file)
    return path


def robot(login, name):
    made = server.client(login).api("POST", "/robots", {"organisation": "main", "name": name})
    return made["name"], made["secret"], made["id"]


def appoint(login, name):
    return call(login, "POST", "/bindings", {"robot": name, "role": "security-officer", "scope": "main"})


def accounts_at_two_issuers_are_one_person():
    """Alice appoints the first officer. Alex, of another issuer, may be alice."""
    first, second = robot(people["alice"][0], "first"), robot(people["alex"][0], "second")
    people["robots"] = first, second
    assert appoint(people["bob"][0], first[0]).status == 201
    refused(call(people["alice"][0], "DELETE", "/robots/" + first[2]), 409, "last security officer")  # whom bob has appointed
    answer = appoint(people["alex"][0], second[0])
    assert answer.status == 403 and answer.json["rule"] == "SYS-BOTH-OFFICERS", answer.body
    subject = call(people["alice"][0], "POST", "/bindings", {"issuer": people["elsewhere"].url, "subject": "carol", "role": "security-officer", "scope": "main"})
    refused(subject, 403, "subjects of different issuers")
    key = Key(key_of(server.people.url, "alice"))
    document = key.document()
    drafted = signing_keys.sign(document, key.path)
    assert call(people["alice"][0], "POST", "/keys/signing", drafted).status == 201
    refused(call(people["alex"][0], "POST", f"/keys/signing/{key.name}/approval", {"envelopes": [drafted, signing_keys.sign(document, people["alex"][1])]}),
            403, "another person")


def two_approvers_sign_where_persons_come_from():
    issuer, elsewhere = server.people.url, people["elsewhere"].url
    wanted = {"name": "main", "issuer": issuer, "separate": [key_of(elsewhere, "alex")]}
    for change, says in (({"separate": ["alex@bank.example"]}, "separate: ext:"), ({"name": "Main"}, "the name is that of an organisation"),
                         ({"issuer": "http://x"}, "issuer: the exact"), ({"also": 1}, "has no member")):
        assert says in sijil("alice", "admin", "persons", "draft", at, written({**wanted, **change}), "--key", people["alice"][1], code=1), change
    drafted = sijil("alice", "admin", "persons", "draft", at, written(wanted), "--key", people["alice"][1], "--json")
    assert drafted["state"] == "draft", drafted
    assert call(people["carol"][0], "GET", "/self").json["person"] is not None  # a draft has no effect
    assert "signed twice" in sijil("alice", "admin", "persons", "approve", at, "main", "--key", people["alice"][1], code=1)
    assert "only the owner" in sijil("bob", "admin", "persons", "approve", at, "main", "--key", people["alice"][1], code=4)
    said = sijil("bob", "admin", "persons", "approve", at, "main", "--key", people["bob"][1])
    assert "You sign: version 1 of the document of persons main" in said and issuer in said and "in force" in said, said
    (row,) = sijil("bob", "admin", "persons", "list", at, "--json")
    assert (row["name"], row["state"], row["issuer"]) == ("main", "in force", issuer), row
    named = admin.api("GET", "/audit/events?limit=100")["events"]
    assert any(event["entry"]["act"] == "persons.approve" for event in named)


def then_a_separate_subject_is_another_person():
    """A signature of alex counts, carol's acts count for nobody, and what is not in the organisation is as before."""
    assert appoint(people["alex"][0], people["robots"][1][0]).status == 201
    own = Key(key_of(people["elsewhere"].url, "carol"), scope="main")
    refused(call(people["carol"][0], "POST", "/keys/signing", signing_keys.sign(own.document(), own.path)), 403, "a signing key is a person's")
    own = Key(key_of(people["elsewhere"].url, "alex"), scope="main")
    document = own.document()
    drafted = signing_keys.sign(document, own.path)
    assert call(people["alex"][0], "POST", "/keys/signing", drafted).status == 201
    assert call(people["bob"][0], "POST", f"/keys/signing/{own.name}/approval", {"envelopes": [drafted, signing_keys.sign(document, people["bob"][1])]}).status == 201
    assert server.client(people["alex"][0]).api("GET", "/self")["person"] == key_of(people["elsewhere"].url, "alex")


def nobody_gives_keys_to_the_issuer_of_the_persons():
    """Else an administrator would sign tokens of each second person. Of another issuer it may: whoever comes from there is nobody."""
    issuer, elsewhere = server.people.url, people["elsewhere"].url
    stolen = sijil_test.Issuer(issuer, f"https://{at}")
    wanted = {"url": issuer, "algorithms": ["ES256"]}
    refused(call(people["alice"][0], "POST", "/issuers", {**wanted, "jwks": stolen.jwks}), 403, "from its own metadata")
    refused(call(people["alice"][0], "POST", "/issuers", {**wanted, "keys_url": "https://keys.example/jwks"}), 403, "from its own metadata")
    refused(call(people["alice"][0], "POST", "/issuers", {**wanted, "audience": "https://other.example"}), 403, "its tokens count for https://127.0.0.1")
    refused(call(people["alice"][0], "POST", "/issuers", {**wanted, "lifetime_max": 7200}), 403, "for at most 3600 s")
    assert server.client().exchange(stolen.token(sub="bob"), "registry:admin:*").status == 400
    keys = people["elsewhere"].people.fetch("/jwks")
    assert call(people["alice"][0], "POST", "/issuers", {"url": elsewhere, "algorithms": ["ES256"], "jwks": keys}).status == 201


def a_question_does_not_tell_where_persons_come_from():
    """Nor that the organisation is there. Dora has no role; a document of main says that she is nobody there."""
    password = people["elsewhere"].people.add("dora")
    dora = ("oidc", people["elsewhere"].people.fetch("/token", login=("dora", password))["id_token"])
    told = [call(dora, "POST", "/authz/explain", {"action": "project.read", "resource": f"{name}/models"}).json for name in ("main", "none")]
    assert told[0]["who"] == told[1]["who"] and told[0]["verdict"] == told[1]["verdict"] == "hide", told
    told = call(people["carol"][0], "POST", "/authz/explain", {"action": "project.read", "resource": "main/models"}).json
    assert told["who"]["person"] is None, told  # who has a role there is told


def a_robot_is_everybody_who_has_seen_its_secret():
    name, _, made = robot(people["alice"][0], "shared")
    secret = server.client(people["bob"][0]).api("POST", f"/robots/{made}/secret", {})["secret"]
    admin.api("POST", "/bindings", {"robot": name, "role": "security-officer", "scope": "main"}, expect=(201, 403))
    seen = server.client((name, secret)).call("GET", "/api/v1/self", scope="").json
    assert seen["person"] is None and sorted(seen["persons"]) == sorted(key_of(server.people.url, who) for who in ("alice", "bob")), seen
    assert "unknown_person" not in seen, seen
    sijil("robot", "login", at, "--username", name, "--ca-file", server.ca_file, given=secret)
    assert "several" in sijil("robot", "whoami", at)


def a_document_is_withdrawn_by_one_and_does_not_come_back():
    first = server.sql("SELECT encode(envelopes[1], 'hex') FROM document WHERE kind = 9 AND version = 1").strip()
    said = sijil("alice", "admin", "persons", "revoke", at, "main", "--key", people["alice"][1], "--reason", "alone", code=4)
    assert "who may trust issuers does not also withdraw" in said, said  # it would give its own keys to the issuer then
    sijil("alice", "admin", "persons", "revoke", at, "main", "--key", root_key, "--reason", "the audit is over")
    rows = sijil("bob", "admin", "persons", "list", at, "--json")
    assert [row["state"] for row in rows] == ["withdrawn"], rows
    assert call(people["carol"][0], "GET", "/self").json["person"] is not None
    again = json.loads(bytes.fromhex(first))
    refused(call(people["alice"][0], "POST", "/persons", again), 409, "version 2 of main is recorded already")


def the_root_signs_for_all_others():
    body = {"issuer": server.people.url}
    document = signing_keys.canonical({"schema": "sijil.document/v1", "kind": "persons", "scope": "", "name": "_registry", "version": 1, "effective_from": utc(time.time() - 1),
                                       "expires": utc(time.time() + 86400), "body": body})
    envelope = signing_keys.sign(document, root_key, TYPE)
    assert call(people["alice"][0], "POST", "/persons", envelope).status == 201
    seen = call(people["alex"][0], "GET", "/self").json
    assert seen["person"] is None and seen["unknown_person"], seen
    assert call(login_of(server, "alice"), "GET", "/self").json["person"] == key_of(server.people.url, "alice")
    draft = written({"name": "main", "issuer": server.people.url})
    said = sijil("bob", "admin", "persons", "draft", at, draft, "--key", people["alex"][1], code=4)
    assert "only the owner" in said, said


def a_subject_of_the_same_name_is_the_same_person_again():
    """Its roles end and come back: issuer and subject stay, and so does what it has seen. The issuer must give a subject to nobody else."""
    before = call(people["alice"][0], "GET", "/self").json["person"]
    for binding in admin.api("GET", "/bindings?limit=1000")["bindings"]:
        if binding.get("subject") == "alice":
            admin.api("DELETE", "/bindings/" + binding["id"])
    make_person_again = {"issuer": server.people.url, "subject": "alice", "role": "registry-admin", "scope": ""}
    admin.api("POST", "/bindings", make_person_again)
    login = login_of(server, "alice")
    assert call(login, "GET", "/self").json["person"] == before
    answer = appoint(login, robot(login, "third")[0])
    assert answer.status == 403 and answer.json["rule"] == "SYS-BOTH-OFFICERS", answer.body


def the_first_document_of_an_administrator_ends_that_bindings_count_alone():
    """An upgraded registry: documents of officers are signed while bindings count still; the one of a registry-admin ends that."""
    seen = call(people["bob"][0], "GET", "/self").json
    assert seen["officers"] == "bindings" and "bindings alone" in sijil("bob", "whoami", at), seen
    sijil("bob", "admin", "persons", "revoke", at, "_registry", "--key", root_key, "--reason", "everybody may come")
    keys = {}
    for who in ("carol", "alice"):
        login = people[who][0] if who == "carol" else login_of(server, who)
        issuer = people["elsewhere"].url if who == "carol" else server.people.url
        key = keys[who] = Key(key_of(issuer, who), scope="main" if who == "carol" else "")
        document = key.document()
        drafted = signing_keys.sign(document, key.path)
        assert call(login, "POST", "/keys/signing", drafted).status == 201
        admin.api("POST", f"/keys/signing/{key.name}/approval", {"envelopes": [drafted, signing_keys.sign(document, root_key)]})
    made = {"name": "org-admin.carol", "principal": keys["carol"].principal, "key": keys["carol"].name, "role": "org-admin", "on": "main"}
    assert "in force" in sijil("bob", "admin", "officers", "draft", at, written(made), "--key", root_key)
    assert call(people["bob"][0], "GET", "/self").json["officers"] == "bindings"
    made = {"name": "registry-admin.alice", "principal": keys["alice"].principal, "key": keys["alice"].name, "role": "registry-admin", "on": ""}
    assert "in force" in sijil("bob", "admin", "officers", "draft", at, written(made), "--key", root_key)
    alice = login_of(server, "alice")
    states = {who: [(role["role"], role.get("bound_as")) for role in call(login, "GET", "/self").json["roles"]]
              for who, login in (("alice", alice), ("bob", people["bob"][0]), ("carol", people["carol"][0]), ("admin", server.admin))}
    assert ("registry-admin", None) in states["alice"] and ("org-admin", None) in states["carol"], states
    assert ("unsigned-officer", "registry-admin") in states["bob"] and ("unsigned-officer", "registry-admin") in states["admin"], states
    assert sum(one.get("bound_as") is not None for one in call(alice, "GET", "/access/review").json["roles"]) > 1


if __name__ == "__main__":
    run(prepare, accounts_at_two_issuers_are_one_person, two_approvers_sign_where_persons_come_from, then_a_separate_subject_is_another_person, nobody_gives_keys_to_the_issuer_of_the_persons,
        a_question_does_not_tell_where_persons_come_from,
        a_robot_is_everybody_who_has_seen_its_secret, a_document_is_withdrawn_by_one_and_does_not_come_back, the_root_signs_for_all_others,
        a_subject_of_the_same_name_is_the_same_person_again, the_first_document_of_an_administrator_ends_that_bindings_count_alone, server=server)
