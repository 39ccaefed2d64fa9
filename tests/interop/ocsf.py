#!/usr/bin/env python3
"""Exports as OCSF, and what sinks get, are valid by the schema of OCSF 1.3.0, as PyPI's ocsf-json-schema has it: events of each class, sealed and opened, denied and
allowed. Of a sink's event only members are missing that its document leaves out.

INTEROP_OCSF is the Python with ocsf-json-schema and jsonschema."""
import json
import os
import secrets
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../scenario"))
import sijil_test
from signing_keys import canonical, sign, utc
from sijil_test import Client, Server, make_robot, wait_until

PYTHON = os.environ["INTEROP_OCSF"]
VALIDATE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ocsf", "validate.py")
server = Server()
state = {}


def auditor():
    return Client(server, state["auditor"])


def prepare():
    """Requests that are allowed and denied, tokens, the start, and so many denials that they make an alarm."""
    server.start()
    state["auditor"] = make_robot(server, "auditor", "auditor", "")
    state["reader"] = make_robot(server, "reader", "consumer", "main/models")
    place = server.client(make_robot(server, "publisher", "publisher", "main")).repository("main/models/digits")
    place.push_blob(b"content")
    assert place.put_manifest("v1", place.manifest(b"content")).status == 201
    reader = Client(server, state["reader"])
    assert reader.repository("main/models/digits").call("GET", "manifests/v1").status == 200
    for _ in range(25):
        reader.call("GET", "/v2/main/other/x/manifests/v1", scope="repository:main/other/x:pull")
    wait_until(lambda: auditor().api("GET", "/audit/events?action=alarm.raise")["events"], 60, "the denials make no alarm")


def export(key, **more):
    made = auditor().api("POST", "/audit/exports", {"key": key, "nonce": secrets.token_hex(16), **more})
    answer = auditor().call("GET", f"/api/v1/audit/exports/{made['number']}/lines?format=ocsf", scope="registry:admin:*")
    assert answer.status == 200 and answer.body.count(b"\n") > 3, (answer.status, answer.body[:300])
    return answer.body


def validate(content, code=0):
    done = subprocess.run([PYTHON, VALIDATE], input=content, capture_output=True, timeout=300)
    assert done.returncode == code, (done.returncode, done.stdout.decode()[-3000:], done.stderr.decode()[-2000:])
    return json.loads(done.stdout)["classes"] if code == 0 else done.stdout.decode()


def each_class_is_valid():
    event = auditor().api("GET", "/audit/events?purpose=a+check&actor=" + state["reader"][0].replace("$", "%24").replace("+", "%2B"))["events"][0]
    found = {}
    for key in ("org:main", "act:system", "act:" + event["entry"]["actor"], "out:denied"):
        for more in ({}, {"open": True, "purpose": "a check"}):
            for name, count in validate(export(key, **more)).items():
                found[name] = found.get(name, 0) + count
    print("valid events:", found)
    assert set(found) == {"api_activity", "authentication", "application_lifecycle", "detection_finding", "base_event"}, found


def a_foreign_member_is_found():
    lines = export("org:main").split(b"\n")
    changed = json.loads(lines[2])
    changed["finding_info"] = {"uid": "1", "title": "x"}
    assert "finding_info" in validate(b"\n".join([lines[0], json.dumps(changed).encode()]) + b"\n", code=1)
    del changed["finding_info"], changed["severity_id"]
    assert "severity_id" in validate(json.dumps(changed).encode() + b"\n", code=1)


CLASSES = ("api-activity", "authentication", "application-lifecycle", "detection-finding")


def put_sink(name, classes, **more):
    """A file, signed by the root of approvers: a webhook and syslog get the same line of JSON."""
    body = {"transport": "file", "region": "local/main", "address": name + ".ndjson", "classes": classes, **more}
    now = time.time()
    document = canonical({"schema": "sijil.document/v1", "kind": "audit-sink", "scope": "", "name": name, "version": 1, "effective_from": utc(now - 1),
                          "expires": utc(now + 86400), "body": body})
    server.client(server.admin).api("POST", "/audit/sinks", sign(document, server.folder + "/officer/approver.pem", "application/vnd.sijil.audit-sink.v1+json"))


def delivered(name):
    """The whole events that the sink has so far."""
    path = f"{server.folder}/delivery/{name}.ndjson"
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [line for line in file.read().splitlines() if "class_uid" in line]


LEFT_OUT = {"api-activity": ["actor", "resource", "detail", "region", "rules", "request"], "authentication": ["actor", "request"], "application-lifecycle": ["raw"],
            "detection-finding": ["actor"]}
LEAVES = {6003: ("actor", "resources", "raw_data"), 3002: ("raw_data",), 6002: ("raw_data",), 2004: ("raw_data",)}


def what_sinks_get_is_valid():
    put_sink("whole", {name: [] for name in CLASSES}, names={"purpose": "a check"})
    put_sink("cut", LEFT_OUT)
    server.stop()
    server.start()  # a start is an event of its own class
    burst = Client(server, make_robot(server, "burst", "consumer", "main/models"))
    burst.repository("main/models/digits").call("GET", "manifests/v1")
    for _ in range(25):
        burst.call("GET", "/v2/main/other/x/manifests/v1", scope="repository:main/other/x:pull")
    for name in ("whole", "cut"):
        wait_until(lambda name=name: {json.loads(line)["class_uid"] for line in delivered(name)} == {2004, 3002, 6002, 6003}, 60, f"{name}: a class is missing")
    found = validate("\n".join(delivered("whole")).encode() + b"\n")
    print("valid events of a sink:", found)
    assert set(found) == {"api_activity", "authentication", "application_lifecycle", "detection_finding"}, found
    for line in delivered("cut"):
        event = json.loads(line)
        assert not any(member in event for member in LEAVES[event["class_uid"]]), event
    done = subprocess.run([PYTHON, VALIDATE], input="\n".join(delivered("cut")).encode() + b"\n", capture_output=True, timeout=300)
    wrong = done.stdout.decode().splitlines() if done.returncode == 1 else []
    assert done.returncode in (0, 1) and all("is a required property" in line for line in wrong), wrong[:5]
    print("required members that the document leaves out:", sorted({line.split(": ", 2)[2] for line in wrong}))


prepare()
sijil_test.run(each_class_is_valid, a_foreign_member_is_found, what_sinks_get_is_valid, server=server)
