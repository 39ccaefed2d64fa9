#!/usr/bin/env python3
"""Two persons break the glass (docs/break-glass.md), at two gateways: one pulls for at most an hour what no role lets it pull, an alarm is raised and delivered, and a third person
reviews it. Robots, one person with two accounts, the root and rows of the database break nothing. Then the cases of access_cases.py."""
import fcntl
import hashlib
import json
import os
import pty
import struct
import subprocess
import sys
import tempfile
import termios
import time

import access_cases
import grant_cases
import signing_keys
import sijil_test
from fleet import Fleet
from signing_keys import DAY, Key, canonical, url64, utc
from sijil_test import IssuerProcess, Person, make_person, make_robot, run, wait_until

TYPE, REVIEW, SINK = (f"application/vnd.sijil.{kind}.v1+json" for kind in ("break-glass", "break-glass-review", "audit-sink"))
folder = tempfile.TemporaryDirectory()
server = Fleet(2, delivery_folder=folder.name + "/delivery", **access_cases.LIVES)
people, keys, state = {}, {}, {}
DENIED = {401, 403, 404}  # 401: the token has no such right


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


def on_a_terminal(who, *words):
    """The lines that a terminal of 80 columns shows."""
    pid, terminal = pty.fork()
    if pid == 0:
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        home = os.path.join(folder.name, "home-" + who)
        os.execve(sijil_test.program("sijil"), ["sijil", *words], {**os.environ, "HOME": home, "XDG_CONFIG_HOME": home, "SIJIL_CA_FILE": server.ca_file})
    shown = b""
    try:
        while chunk := os.read(terminal, 4096):
            shown += chunk
    except OSError:
        pass  # the command has ended
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, shown
    return shown.decode().replace("\r\033[K", "").split("\r\n")[:-1]


def at():
    return f"127.0.0.1:{server.port}"


def enrol(who, principal, purpose, scope="", sender="dave"):
    """The root signs, and somebody of the same issuer, who is nobody else here, sends it."""
    key = keys[who] = Key(principal, purpose, scope)
    document = key.document()
    drafted = signing_keys.sign(document, key.path)
    server.client(people[who]).api("POST", "/keys/signing", drafted)
    server.client(people[sender]).api("POST", f"/keys/signing/{key.name}/approval", {"envelopes": [drafted, signing_keys.sign(document, server.path("approver.pem"))]})


def prepare():
    os.mkdir(folder.name + "/delivery", 0o700)
    server.start()
    for name, role, scope in (("dave", "registry-admin", ""), ("bob", "registry-admin", ""), ("carol", "registry-admin", ""), ("alice", "org-admin", "main")):
        people[name] = make_person(server, name, role, scope)
        if name != "dave":
            enrol(name, principal_of(server.people.url, name), "sign" if name == "alice" else "approve", scope)
        sijil(name, "login", at(), "--username", people[name][0], "--ca-file", server.ca_file, given=people[name][1])
    admin = server.client(server.admin)
    state["elsewhere"] = elsewhere = IssuerProcess(f"https://{at()}")
    admin.api("POST", "/issuers", {"url": elsewhere.url, "algorithms": ["ES256"], "jwks": elsewhere.fetch(elsewhere.fetch("/.well-known/openid-configuration")["jwks_uri"])})
    for name in ("alex", "ed"):
        admin.api("POST", "/bindings", {"issuer": elsewhere.url, "subject": name, "role": "registry-admin", "scope": ""})
        people[name] = Person(("oidc", elsewhere.fetch("/token", login=(name, elsewhere.add(name)))["id_token"]))
    enrol("alex", principal_of(elsewhere.url, "alex"), "approve", sender="ed")
    admin.api("POST", "/projects", {"organisation": "main", "name": "other"})
    pusher = make_robot(server, "pusher", "publisher", "main/other")
    server.wait_known(pusher, "main/other/x")
    state["digest"] = server.client(pusher).repository("main/other/x").push_blob(b"what nobody here may pull")
    now = time.time()
    sink = canonical({"schema": "sijil.document/v1", "kind": "audit-sink", "scope": "", "name": "tail", "version": 1, "effective_from": utc(now - 1), "expires": utc(now + DAY),
                      "body": {"transport": "file", "region": "local/main", "address": "tail.ndjson", "classes": {"detection-finding": []}}})
    server.client(people["bob"]).api("POST", "/audit/sinks", signing_keys.sign(sink, server.path("approver.pem"), SINK))


def glass(name, who="alice", on="main/other", seconds=3600, begun=1, **body):
    now = time.time()
    return canonical({"schema": "sijil.document/v1", "kind": "break-glass", "scope": "", "name": name, "version": 1, "effective_from": utc(now - begun),
                      "expires": utc(now - begun + seconds),
                      "body": {"principal": keys[who].principal, "public_key": url64(keys[who].point), "on": on, "reason": "the model is down", **body}})


def ask(document, who="alice", key=None):
    envelope = signing_keys.sign(document, (key or keys[who]).path, TYPE)
    return call(people[who], "POST", "/break-glass", envelope), envelope


def approve(document, envelope, who, key_file=None):
    name = json.loads(document)["name"]
    return call(people[who], "POST", f"/break-glass/{name}/approval", {"envelopes": [envelope, signing_keys.sign(document, key_file or keys[who].path, TYPE)]})


def pulls(who="alice"):
    """The answers of both gateways."""
    return [client.call("GET", "/v2/main/other/x/blobs/" + state["digest"], scope="repository:main/other/x:pull").status for client in server.clients(people[who])]


def listed(name):
    return next(one for one in server.client(people["carol"]).api("GET", "/break-glass?limit=1000")["glasses"] if one["name"] == name)


def only_a_person_with_an_enrolled_key_asks():
    assert set(pulls()) <= DENIED, pulls()
    stranger = Key(keys["alice"].principal)
    refused(ask(glass("bg-1", public_key=url64(stranger.point)), key=stranger)[0], 403, "not an enrolled signing key of its holder")
    refused(ask(glass("bg-1"), key=stranger)[0], 403, "has not signed it")
    refused(ask(glass("bg-1"), "bob", keys["alice"])[0], 403, "another principal")
    refused(ask(glass("bg-1", public_key=url64(keys["bob"].point)), key=keys["bob"])[0], 403, "not an enrolled signing key of its holder")
    refused(ask(glass("bg-1", on="elsewhere"))[0], 403, "for the registry or for elsewhere")  # the key is of main
    refused(ask(glass("bg-1", seconds=3601))[0], 400, "within 60 minutes")
    refused(ask(glass("bg-1", on=""))[0], 400, "on: an organisation")
    robot = people["robot"] = make_robot(server, "machine", "registry-admin", "")
    me = server.client(robot).api("GET", "/self")
    keys["robot"] = Key("robot:" + me["id"])
    refused(ask(glass("bg-1", "robot"), "robot")[0], 403, "not one person's")
    refused(ask(glass("bg-1"), "robot", keys["alice"])[0], 403, "not one person's")
    assert not server.client(people["carol"]).api("GET", "/break-glass")["drafts"]


def one_person_does_not_approve_itself():
    document = glass("bg-2")
    answer, envelope = ask(document)
    assert answer.status == 201 and answer.json["state"] == "draft", answer.body
    waiting = server.client(people["carol"]).api("GET", "/break-glass")["drafts"]
    assert [(one["name"], one["missing"], [each["principal"] for each in one["signed_by"]]) for one in waiting] == [("bg-2", 1, [keys["alice"].principal])], waiting
    refused(approve(document, envelope, "alex"), 403, "another person")  # an account at another issuer may be alice's
    refused(approve(document, envelope, "alice"), 403, "SYS-NO-BINDING")
    refused(approve(document, envelope, "dave", keys["bob"].path), 403, "another person than the one that sends it")
    refused(approve(document, envelope, "bob", server.path("approver.pem")), 403, "the root does not count")
    refused(approve(document, envelope, "robot", keys["bob"].path), 403, "not one person's")
    both = signing_keys.sign(document, keys["bob"].path, TYPE)
    both["signatures"] += signing_keys.sign(document, keys["alex"].path, TYPE)["signatures"]  # bob would review it, if alex were taken for the approver
    refused(call(people["bob"], "POST", "/break-glass/bg-2/approval", {"envelopes": [envelope, both]}), 403, "has two signatures")
    own = glass("bg-3", "bob")
    answer, signed = ask(own, "bob")
    assert answer.status == 201, answer.body
    refused(approve(own, signed, "bob"), 403, "another person")
    assert set(pulls()) <= DENIED, pulls()
    for name in ("bg-2", "bg-3"):
        assert call(people["carol"], "DELETE", f"/break-glass/{name}/drafts").status == 204
    refused(approve(document, envelope, "bob"), 404, "no draft")


def two_persons_break_it_and_an_alarm_is_delivered():
    asked = sijil("alice", "admin", "break-glass", "request", at(), "main/other", "--reason", "the model is down", "--minutes", "20", "--key", keys["alice"].path, "--json")
    name = state["name"] = asked["name"]
    assert asked["state"] == "draft" and asked["document"]["body"]["on"] == "main/other", asked
    shown = sijil("bob", "admin", "break-glass", "approve", at(), name, "--key", keys["bob"].path)
    assert "You sign: version 1 of the broken glass" in shown and "the model is down" in shown and keys["alice"].principal in shown and "  subject     alice" in shown, shown
    wait_until(lambda: pulls() == [200, 200], 10, "a gateway does not know it")
    assert set(pulls("carol")) <= DENIED  # nobody else
    pushed = server.client(people["alice"]).call("POST", "/v2/main/other/x/blobs/uploads/", scope="repository:main/other/x:pull,push")
    assert pushed.status in (401, 403), pushed.body
    me = server.client(people["alice"]).api("GET", "/self")
    role = next(one for one in me["roles"] if one["role"] == "break-glass")
    assert (role["origin"], role["document"], role["scope"]) == ("break-glass", name, "main/other") and "binding" not in role, role
    assert [(one["name"], one["review"], one["approved_by"]) for one in me["break_glass"]] == [(name, "later", keys["bob"].principal)], me
    assert "by the broken glass " + name in sijil("alice", "whoami", at())
    row = listed(name)
    assert (row["state"], row["review"], row["approved_by"]) == ("in force", "later", keys["bob"].principal), row
    event = server.client(server.admin).api("GET", f"/audit/events/{row['event']}")["entry"]
    assert event["act"] == "breakglass.approve" and event["out"] == "allowed", event
    review = server.client(people["carol"]).api("GET", "/access/review?scope=main&limit=200")["roles"]
    assert [(one["origin"], one["document"]) for one in review if one["role"] == "break-glass"] == [("break-glass", name)], review

    def delivered():
        if not os.path.exists(folder.name + "/delivery/tail.ndjson"):
            return False
        with open(folder.name + "/delivery/tail.ndjson", encoding="utf-8") as file:
            return any("break-glass" in line and f'{row["event"]}' in line for line in file)
    wait_until(delivered, 30, "no alarm is delivered")


def a_row_breaks_nothing():
    """The database's owner writes that the glass is carol's, and that it gave her the role. Alice alone has the hash that was signed."""
    server.psql.ask("UPDATE break_glass_holder SET subject = 'carol'; SELECT raise_authorization_epoch()")
    wait_until(lambda: set(pulls()) <= DENIED, 10, "a row of another subject counts")
    assert set(pulls("carol")) <= DENIED
    server.psql.ask(f"INSERT INTO break_glass_holder SELECT 'other', '{keys['carol'].principal}', issuer, 'carol', until FROM break_glass_holder LIMIT 1;"
               " INSERT INTO binding (binding_id, issuer, subject, role, organisation_id, granted_by, approved_by, expires_at) SELECT"
               f" gen_random_uuid(), '{server.people.url}', 'carol', 'break-glass', organisation_id, 'one', 'two', now() + interval '50 min'"
               " FROM organisation WHERE name = 'main'; UPDATE break_glass_holder SET subject = 'alice' WHERE name <> 'other'; SELECT raise_authorization_epoch()")
    wait_until(lambda: pulls() == [200, 200], 10, "the right row does not count again")
    assert set(pulls("carol")) <= DENIED
    assert not [one for one in server.client(people["carol"]).api("GET", "/self")["roles"] if one["role"] == "break-glass"]


def the_holder_ends_it_and_a_third_person_reviews_it():
    name = state["name"]
    for who in ("carol", "bob"):
        assert "in force still" in sijil(who, "admin", "break-glass", "review", at(), name, "--finding", "justified", "--note", "n", "--key", keys[who].path, works=False)
    stranger = Key("x")
    assert sijil("alice", "admin", "break-glass", "end", at(), name, "--reason", "over", "--key", stranger.path, works=False)
    sijil("alice", "admin", "break-glass", "end", at(), name, "--reason", "the model is up again", "--key", keys["alice"].path)
    wait_until(lambda: set(pulls()) <= DENIED, 10, "a gateway still lets alice pull")
    row = listed(name)
    assert (row["state"], row["review"], row["approved_by"]) == ("withdrawn", "open", keys["bob"].principal), row
    assert "on" not in row["document"]["body"] and (row["on"], row["reason"]) == ("main/other", "the model is down"), row  # the end does not say where and why
    for shown in (sijil("carol", "admin", "break-glass", "list", at()), sijil("carol", "admin", "break-glass", "show", at(), name)):
        assert "the model is down" in shown and "main/other" in shown, shown
    narrow, wide = on_a_terminal("carol", "admin", "break-glass", "list", at()), on_a_terminal("carol", "admin", "break-glass", "list", at(), "--wide")
    assert max(map(len, narrow)) <= 80 and any(line.startswith(name) for line in narrow) and "--wide shows all" in narrow[-1], narrow
    assert max(map(len, wide)) > 80 and any("the model is down" in line for line in wide), wide
    assert f"{name} waits for a review" in sijil("alice", "whoami", at())
    assert "there is no broken glass nobodys" in sijil("carol", "admin", "break-glass", "review", at(), "nobodys", "--finding", "justified", "--note", "n", "--key",
                                                       keys["carol"].path, works=False)
    text = server.client().call("GET", "/metrics").body.decode()
    assert "sijil_break_glass_unreviewed 1\n" in text and "sijil_break_glass_in_force 0\n" in text, [line for line in text.split("\n") if "glass" in line]
    assert "another person than those who broke" in sijil("bob", "admin", "break-glass", "review", at(), name, "--finding", "justified", "--note", "n", "--key", keys["bob"].path,
                                                         works=False)
    refused(call(people["alice"], "POST", f"/break-glass/{name}/review", review_of(name, "alice")), 403, "SYS-NO-BINDING")
    refused(call(people["alex"], "POST", f"/break-glass/{name}/review", review_of(name, "alex")), 403, "another person than those who broke")
    sijil("carol", "admin", "break-glass", "review", at(), name, "--finding", "not-justified", "--note", "it could have waited", "--key", keys["carol"].path)
    row = listed(name)
    assert (row["review"], row["note"]) == ("not-justified", "it could have waited"), row
    assert "break_glass" not in server.client(people["alice"]).api("GET", "/self")
    refused(call(people["carol"], "POST", f"/break-glass/{name}/review", review_of(name, "carol")), 409, "recorded already")
    assert "sijil_break_glass_unreviewed 0\n" in server.client().call("GET", "/metrics").body.decode()


def review_of(name, who):
    now = time.time()
    document = canonical({"schema": "sijil.document/v1", "kind": "break-glass-review", "scope": "", "name": name, "version": 1, "effective_from": utc(now - 1),
                          "expires": utc(now + DAY), "body": {"finding": "justified", "note": "n"}})
    return signing_keys.sign(document, keys[who].path, REVIEW)


def it_ends_by_itself_and_does_not_come_back():
    """The hour began long before the approval, so some seconds are left of it."""
    document = glass("bg-short", begun=3580)
    answer, envelope = ask(document)
    assert answer.status == 201, answer.body
    answer = approve(document, envelope, "bob")
    assert answer.status == 201 and answer.json["state"] == "in force", answer.body
    wait_until(lambda: pulls() == [200, 200], 20, "a gateway does not know it")
    wait_until(lambda: set(pulls()) <= DENIED, 40, "a gateway lets alice pull after the hour")
    row = listed("bg-short")
    assert (row["state"], row["review"]) == ("expired", "open"), row
    refused(ask(document)[0], 403, "expired")
    refused(approve(document, envelope, "bob"), 409, "recorded already")


def it_is_reviewed_after_its_end_alone():
    """The holder's clock may be ahead. From the approval on it gives the role, so it is in force, whatever its `effective_from` says."""
    document = glass("bg-ahead", begun=-45, seconds=3600)
    answer, envelope = ask(document)
    assert answer.status == 201, answer.body
    answer = approve(document, envelope, "bob")
    assert answer.status == 201, answer.body
    wait_until(lambda: pulls() == [200, 200], 20, "a gateway does not know it")
    assert listed("bg-ahead")["review"] == "later", listed("bg-ahead")
    assert "sijil_break_glass_in_force 1\n" in server.client().call("GET", "/metrics").body.decode()
    refused(call(people["carol"], "POST", "/break-glass/bg-ahead/review", review_of("bg-ahead", "carol")), 409, "in force still")
    sijil("alice", "admin", "break-glass", "end", at(), "bg-ahead", "--reason", "over", "--key", keys["alice"].path)
    wait_until(lambda: set(pulls()) <= DENIED, 10, "a gateway still lets alice pull")
    # The approver leaves: no role of bob's is there, and no document separates anybody. A role that it had tells its issuer.
    server.psql.ask("UPDATE binding SET revoked_at = now() WHERE subject = 'bob'; SELECT raise_authorization_epoch()")
    wait_until(lambda: call(people["bob"], "GET", "/self").status in DENIED or not server.client(people["bob"]).api("GET", "/self")["roles"], 10, "bob has a role still")
    refused(call(people["alex"], "POST", "/break-glass/bg-ahead/review", review_of("bg-ahead", "alex")), 403, "another person than those who broke")
    assert call(people["carol"], "POST", "/break-glass/bg-ahead/review", review_of("bg-ahead", "carol")).status == 201
    server.psql.ask("UPDATE binding SET revoked_at = NULL WHERE subject = 'bob'; SELECT raise_authorization_epoch()")


def a_person_who_is_made_again_gets_nothing_back():
    """The same name with the same subject is the same person; a withdrawn key stays withdrawn; another subject is another person, whatever it is called."""
    key = keys["alice"]
    withdrawal = key.document(version=2, withdrawn="alice has left")
    assert call(people["alice"], "POST", f"/keys/signing/{key.name}/withdrawal", signing_keys.sign(withdrawal, key.path)).status == 201
    refused(ask(glass("bg-4"))[0], 403, "not an enrolled signing key of its holder")
    people["again"] = make_person(server, "alice-2", "org-admin", "main")
    refused(ask(glass("bg-4"), "again", key)[0], 403, "another principal")
    keys["again"] = Key(principal_of(server.people.url, "alice-2"))
    refused(ask(glass("bg-4", "again", public_key=url64(key.point)), "again", key)[0], 403, "not an enrolled signing key of its holder")


if __name__ == "__main__":
    run(prepare, only_a_person_with_an_enrolled_key_asks, one_person_does_not_approve_itself, two_persons_break_it_and_an_alarm_is_delivered, a_row_breaks_nothing,
        the_holder_ends_it_and_a_third_person_reviews_it, it_ends_by_itself_and_does_not_come_back, it_is_reviewed_after_its_end_alone,
        *access_cases.OwnRoles(sys.modules["__main__"]).all(), *access_cases.Elevations(sys.modules["__main__"]).all(),
        *access_cases.Grants(sys.modules["__main__"]).all(), grant_cases.Batches(server).each_counts_in_the_limits, a_person_who_is_made_again_gets_nothing_back, server=server)
