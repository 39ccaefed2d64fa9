#!/usr/bin/env python3
"""Default rules of docs/detection.md whose attacks need a whole server and persons: an officer that approves its own draft, and an administrator that is replaced.
tests/scenario/delivery.py plays the others; a gap of the log and a clock that is set are played in tests/unit/test_detection.c."""
import hashlib
import json
import time

from signing_keys import Key, canonical, sign, utc
from sijil_test import Client, Server, make_person, make_robot, run, wait_until

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


def an_administrator_that_is_replaced_makes_an_alarm():
    server.stop()
    server.options.append("--new-admin")
    server.start()
    server.options.remove("--new-admin")
    alarm = await_alarm("break-glass")
    assert alarm["events"].split(",") == [str(events("administrator.replace")[0]["seq"])], alarm


run(an_officer_that_approves_itself_makes_an_alarm, an_administrator_that_is_replaced_makes_an_alarm, server=server)
