#!/usr/bin/env python3
"""Default rules of docs/detection.md whose attacks need a whole server and persons: an officer that approves its own draft, and an administrator that is replaced.
tests/scenario/delivery.py plays the others; a gap of the log and a clock that is set are played in tests/unit/test_detection.c."""
import hashlib
import json
import time

from signing_keys import Key, canonical, sign, utc
from sijil_test import Client, Server, make_person, make_robot, run, sha256, wait_until

server = Server().start()
state = {}


def admin():
    return server.client(server.admin)


def root_key():
    return server.folder + "/officer/approver.pem"


def document(kind, name, body, **more):
    now = time.time()
    return canonical({"schema": "sijil.document/v1", "kind": kind, "scope": "", "name": name, "version": 1, "effective_from": utc(now - 1), "expires": utc(now + 86400),
                      "body": body, **more})


def events(action):
    return Client(server, state["auditor"]).api("GET", f"/audit/events?order=ascending&limit=1000&action={action}")["events"]


def alarms(rule):
    """Members of the details of the rule's alarms."""
    found = []
    for event in events("alarm.raise"):
        words = event["entry"]["res"].lstrip("#").split(" ")
        if words[0] == rule:
            found.append(dict(word.split("=", 1) for word in words[1:]))
    return found


def await_alarm(rule, count=1):
    wait_until(lambda: len(alarms(rule)) >= count, 60, f"no alarm of {rule}")
    assert len(alarms(rule)) == count, alarms(rule)
    return alarms(rule)[-1]


def approver(who):
    """An administrator with a key that approves."""
    login = make_person(server, who, "registry-admin", "")
    key = Key("ext:" + hashlib.sha256(f"{server.people.url}\n{who}".encode()).hexdigest(), "approve")
    text = key.document()
    drafted = sign(text, key.path)
    server.client(login).api("POST", "/keys/signing", drafted)
    admin().api("POST", f"/keys/signing/{key.name}/approval", {"envelopes": [drafted, sign(text, root_key())]})
    return login, key


def an_officer_that_approves_itself_makes_an_alarm():
    """Ann drafts a sink, and approves her own draft. Ben may approve it, and that makes none."""
    state["auditor"] = make_robot(server, "auditor", "auditor", "")
    (ann, ann_key), (ben, ben_key) = approver("ann"), approver("ben")
    kind = "application/vnd.sijil.audit-sink.v1+json"
    for name, approves, approving_key, status in (("honest", ben, ben_key, 201), ("own", ann, ann_key, 409)):
        text = document("audit-sink", name, {"transport": "file", "region": "local/main", "address": name + ".ndjson", "classes": {"detection-finding": []}})
        drafted = sign(text, ann_key.path, kind)
        server.client(ann).api("POST", "/audit/sinks", drafted)
        answer = server.client(approves).call("POST", f"/api/v1/audit/sinks/{name}/approval", json.dumps({"envelopes": [drafted, sign(text, approving_key.path, kind)]}),
                                              {"Content-Type": "application/json"}, scope="registry:admin:*")
        assert answer.status == status, (name, answer.status, answer.body)
    alarm = await_alarm("self-dealing")
    refused = [event for event in events("sink.approve") if event["entry"]["out"] in ("denied", "failed")]
    assert alarm["actor"] == refused[0]["entry"]["actor"] and str(refused[0]["seq"]) in alarm["events"].split(","), (alarm, refused)


def project(name, organisation="main", **label):
    if organisation != "main":
        admin().api("POST", "/organisations", {"name": organisation})
    admin().api("POST", "/projects", {"organisation": organisation, "name": name, "label": label})
    login = make_robot(server, "pusher-of-" + name, "publisher", f"{organisation}/{name}", organisation)
    return server.client(login).repository(f"{organisation}/{name}/data")


def told(answers):
    """What a client sees of a push: nothing in it may depend on what lies elsewhere."""
    changing = ("location", "date", "docker-content-digest", "etag", "x-request-id", "request-id", "docker-upload-uuid", "content-length", "sijil-audit")
    return [(answer.status, sorted(name.lower() for name in answer.headers.keys()),
             sorted((name.lower(), value) for name, value in answer.headers.items() if name.lower() not in changing)) for answer in answers]


def push(there, data):
    """All answers of a push of one blob and its manifest."""
    begun = there.call("POST", "blobs/uploads/")
    sent = there.patch(begun["Location"], data)
    closed = there.close(sent["Location"], sha256(data))
    return [begun, sent, closed, there.put_manifest("v1", there.manifest(data))]


def a_copy_under_a_laxer_label_makes_an_alarm():
    """A health dataset, byte by byte, in an open project of another organisation: an alarm, of which the pusher learns nothing. What everybody has makes none."""
    health, public, other = project("health", subjects=["health"], **{"class": "sensitive"}), project("open", "elsewhere"), project("other")
    dataset = b"name,diagnosis\n" * 200
    assert [answer.status for answer in push(health, dataset)] == [202, 202, 201, 201]
    assert alarms("laxer-copy") == []
    plain, copied = push(public, b"nothing that anybody else has\n" * 100), push(public, dataset)
    assert told(copied) == told(plain) and copied[3].body == plain[3].body, (told(copied), told(plain))
    alarm = await_alarm("laxer-copy")
    commits = {event["seq"]: event["entry"] for event in events("upload.commit") if sha256(dataset) in event["entry"]["res"]}
    entry = commits[int(alarm["events"])]
    assert entry["res"].startswith("elsewhere/open/data#") and entry["out"] == "completed" and entry["actor"] == alarm["actor"], entry
    ids = dict(row.split("|") for row in server.sql("SELECT string_agg(repository_id || '|' || full_name, ' ') FROM repository").split())
    assert (ids[alarm["stricter"]], ids[alarm["laxer"]]) == ("main/health/data", "elsewhere/open/data"), alarm
    for there in (other, health):
        assert there.push_blob(b"{}")  # the empty config lies in all of them
    # The other way round: what lies in an open project comes to a stricter one.
    assert push(other, b"a patient\n" * 90)[2].status == 201 and push(health, b"a patient\n" * 90)[2].status == 201
    wait_until(lambda: len(alarms("laxer-copy")) == 2, 60, "no alarm of bytes that were there before")
    alarm = alarms("laxer-copy")[1]
    assert (ids[alarm["stricter"]], ids.get(alarm["laxer"])) == ("main/health/data", None), alarm


def bytes_that_many_have_are_common():
    """The base of many images lies in four open projects before it comes to the stricter one."""
    base = b"a layer that everybody has\n" * 50
    before = len(alarms("laxer-copy"))
    for number in range(4):
        push(project(f"base{number}"), base)
    push(project("strict", **{"class": "sensitive"}), base)
    push(project("last"), b"the end\n")
    end = [event["seq"] for event in events("upload.commit")][-1]
    wait_until(lambda: int(server.sql("SELECT at FROM audit_detection")) > end, 60, "the rules have not looked at all events")
    assert len(alarms("laxer-copy")) == before, alarms("laxer-copy")


def replace_administrator():
    server.stop()
    server.options.append("--new-admin")
    server.start()
    server.options.remove("--new-admin")


def an_administrator_that_is_replaced_makes_an_alarm():
    """Also if the first try ends between its event and its change: the log tells that the old one is replaced, so it is believed no longer, and the next try makes the new one."""
    old = server.admin
    server.sql("CREATE FUNCTION cut() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN IF (SELECT count(*) FROM public.audit_entry WHERE action = 'administrator.replace') = 1 THEN"
               " RAISE EXCEPTION 'cut short'; END IF; RETURN NEW; END $$; CREATE TRIGGER cut BEFORE INSERT ON robot FOR EACH ROW EXECUTE FUNCTION cut()")
    try:
        replace_administrator()
        raise RuntimeError("nothing cut it short")
    except AssertionError as why:
        assert "sijild ended with" in str(why), why
    server.options.remove("--new-admin")
    assert server.admin == old, "a secret was stored for nobody"
    server.start()
    of = f"FROM robot WHERE name = '{old[0]}' AND revoked_at IS NULL"
    wait_until(lambda: server.sql(f"SELECT count(*) {of} AND robot_id IN (SELECT id FROM doubted_row)") == "1", 60, "it is believed")
    replace_administrator()
    assert server.admin != old and admin().api("GET", "/bindings")["bindings"]
    server.sql("DROP TRIGGER cut ON robot; DROP FUNCTION cut; DELETE FROM doubted_row")
    replaced = {str(event["seq"]) for event in events("administrator.replace")}
    assert len(replaced) == 2, replaced
    wait_until(lambda: replaced == {number for alarm in alarms("break-glass") for number in alarm["events"].split(",")}, 60, "no alarm of break-glass")
    # Whoever writes to the database lets the one before in again, until the first round of a verifier.
    server.sql("UPDATE binding SET revoked_at = NULL FROM robot r WHERE r.robot_id = binding.robot_id AND r.name = 'robot$admin' AND r.revoked_at IS NOT NULL;"
               " UPDATE robot SET name = 'robot$back', revoked_at = NULL WHERE name = 'robot$admin' AND revoked_at IS NOT NULL")
    server.stop()
    server.start()
    of = "FROM robot LEFT JOIN binding b USING (robot_id), unnest(ARRAY[robot_id, b.binding_id]) AS row"
    wait_until(lambda: server.sql(f"SELECT bool_and(row IN (SELECT id FROM doubted_row)) {of} WHERE robot.name = 'robot$back'") == "t", 60, "it is believed")
    assert server.sql(f"SELECT count(*) {of} WHERE robot.name <> 'robot$back' AND row IN (SELECT id FROM doubted_row)") == "0"


run(an_officer_that_approves_itself_makes_an_alarm, a_copy_under_a_laxer_label_makes_an_alarm, bytes_that_many_have_are_common, an_administrator_that_is_replaced_makes_an_alarm, server=server)
