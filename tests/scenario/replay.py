#!/usr/bin/env python3
"""Recorded decisions are made again from an export, its facts and the policy set, by sijil-verify and by an independent
program. A caller that may not read an event does not get the facts of its decision."""
import base64
import json
import os
import subprocess
import sys
import tempfile

import sijil_test
from sijil_test import Client, Server, program, sha256

AUDIT_LOG_PY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../vectors/audit_log.py")
PULLS = 300
server = Server()
work = tempfile.mkdtemp(prefix="replay-", dir=server.root)  # goes with the server
state = {}


def events(login, **query):
    """All events that this auditor may read, with facts, oldest first."""
    client, found, after = Client(server, login), [], "-1"
    while after is not None:
        more = "".join(f"&{name}={value}" for name, value in query.items())
        page = client.api("GET", f"/audit/events?order=ascending&limit=1000&facts=true&after={after}{more}")
        found += page["events"]
        after = page.get("next")
    return found


def write_export(name, rows):
    path = os.path.join(work, name)
    with open(path, "w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
    return path


def verify(*words):
    return subprocess.run([program("sijil-verify"), "replay", *words], capture_output=True, text=True, timeout=120)


def prepare():
    server.start()
    admin = server.client(server.admin)
    admin.api("POST", "/projects", {"organisation": "main", "name": "health", "label": {"subjects": ["health"]}})
    admin.api("POST", "/organisations", {"name": "globex"})
    state["publisher"] = sijil_test.make_robot(server, "publisher", "publisher", "main")
    state["stranger"] = sijil_test.make_robot(server, "stranger", "publisher", "globex", organisation="globex")
    state["auditor"] = sijil_test.make_robot(server, "auditor", "auditor", "")
    state["part"] = sijil_test.make_robot(server, "part", "auditor", "main")
    state["other"] = sijil_test.make_robot(server, "other", "auditor", "globex", organisation="globex")
    state["set"] = os.path.join(work, "set.json")
    with open(state["set"], "w", encoding="utf-8") as file:
        json.dump(admin.api("GET", "/policies")["set"], file)


def what_happens_is_of_every_kind():
    place = server.client(state["publisher"]).repository("main/models/digits")
    blob = place.push_blob(b"weights")
    assert place.put_manifest("v1", place.manifest(b"weights")).status == 201
    assert place.call("GET", "blobs/" + blob).status == 200
    health = server.client(state["publisher"]).repository("main/health/scans")
    scan = health.push_blob(b"a scan")
    assert health.call("GET", "blobs/" + scan).status == 403
    assert health.call("HEAD", "blobs/" + scan).status == 404
    hidden = server.client(state["stranger"]).repository("main/models/digits")
    try:
        assert hidden.call("GET", "blobs/" + blob).status in (401, 403, 404)
    except sijil_test.NoToken:
        pass
    admin = server.client(server.admin)
    mounted = server.client(state["publisher"]).call("POST", f"/v2/main/models/copy/blobs/uploads/?mount={blob}&from=main/models/digits",
                                                     scope="repository:main/models/copy:pull,push repository:main/models/digits:pull")
    assert mounted.status in (201, 202), mounted.body
    admin.call("PUT", "/api/v1/projects/main/models/label", json.dumps({"class": "confidential"}), {"Content-Type": "application/json"},
               scope="registry:admin:*")
    state["blob"] = blob


def pulls_add_no_facts():
    place = server.client(state["publisher"]).repository("main/models/digits")
    before = server.sql("SELECT count(*) FROM audit_facts")
    for _ in range(PULLS):
        assert place.call("GET", "blobs/" + state["blob"]).status == 200
    assert server.sql("SELECT count(*) FROM audit_facts") == before
    print(f"     {before} rows of facts for {server.sql('SELECT size FROM audit_log')} events")


def every_decision_agrees():
    rows = events(state["auditor"])
    path = write_export("export.ndjson", rows)
    done = verify("--set", state["set"], path)
    print("     " + done.stdout.strip())
    assert done.returncode == 0, (done.stdout, done.stderr)
    tally = json.loads(verify("--set", state["set"], "--json", path).stdout)
    assert tally["verified"] and tally["differ"] == 0 and tally["agree"] > PULLS, tally
    assert {row["entry"]["out"] for row in rows} >= {"allowed", "denied"}
    again = subprocess.run(["/usr/bin/python3", AUDIT_LOG_PY, "--replay", path, state["set"]], capture_output=True, text=True, timeout=300)
    assert again.returncode in (0, 77), again.stderr
    if again.returncode == 0:
        assert f"{tally['agree']} decisions agree" in again.stdout, (again.stdout, tally)
    state["rows"] = rows


def what_was_changed_is_told():
    rows = json.loads(json.dumps(state["rows"]))
    place = next(i for i, row in enumerate(rows) if row["facts"] and row["facts"][0]["judged"])
    rows[place]["facts"][0]["judged"][0]["operations"][0]["target"] = {"geo": "AE"}
    done = verify("--set", state["set"], write_export("changed.ndjson", rows))
    assert done.returncode == 1 and f"event {rows[place]['seq']}: the facts of its target 1 are not those" in done.stdout, done
    rows = json.loads(json.dumps(state["rows"]))
    rows[place]["facts"] = [None]
    done = verify("--set", state["set"], "--json", write_export("gone.ndjson", rows))
    told = json.loads(done.stdout)
    assert done.returncode == 1 and not told["verified"] and told["differ"] == 0 and told["not_replayable"]["lacking_facts"] == 1, told
    assert told["first_missing"] == rows[place]["seq"], told
    done = verify(write_export("same.ndjson", state["rows"]))
    assert done.returncode == 1 and "first missing policy set: sha256:" in done.stdout, done
    assert verify("--set", state["set"], write_export("none.ndjson", [{"seq": 1}])).returncode == 1
    assert verify("--set", state["set"], write_export("empty.ndjson", [])).returncode == 1
    folder = verify("--set", work, write_export("same.ndjson", state["rows"]))
    assert folder.returncode == 2 and f"{work} is a folder" in folder.stderr and folder.stderr.count(work) == 1, folder.stderr
    assert verify("--set", "/nowhere", write_export("same.ndjson", state["rows"])).returncode == 2


def canonical(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def key_pair(name):
    secret, public = os.path.join(work, name + ".pem"), os.path.join(work, name + ".pub")
    subprocess.run(["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", secret], check=True)
    subprocess.run(["openssl", "pkey", "-in", secret, "-pubout", "-out", public], check=True)
    return secret, public


def signatures_of_sets_are_checked():
    kind = "application/vnd.sijil.policy-set.v1+json"
    with open(state["set"], encoding="utf-8") as file:
        document = canonical(json.load(file))
    (secret, public), (_, other) = key_pair("approver"), key_pair("other")
    signed = b"DSSEv1 %d %s %d %s" % (len(kind), kind.encode(), len(document), document)
    made = subprocess.run(["openssl", "dgst", "-sha256", "-sign", secret], input=signed, capture_output=True, check=True)
    envelope = os.path.join(work, "set.dsse")
    with open(envelope, "w", encoding="utf-8") as file:
        json.dump({"payloadType": kind, "payload": base64.b64encode(document).decode(),
                   "signatures": [{"sig": base64.b64encode(made.stdout).decode()}]}, file)
    path = write_export("signed.ndjson", state["rows"])
    assert verify("--set", envelope, "--signer", public, path).returncode == 0
    assert verify("--set", envelope, "--signer", other, path).returncode == 1
    assert verify("--set", envelope, path).returncode == 2
    assert verify("--set", state["set"], "--signer", public, path).returncode == 2
    assert verify("--set", state["set"]).returncode == 2
    assert verify("--set", state["set"], "--key", "x", path).returncode == 2


def facts_are_read_by_those_who_may_read_the_event():
    seq = next(row["seq"] for row in state["rows"] if row["entry"]["res"].startswith("main/models/digits") and row["facts"])
    path = f"/api/v1/audit/events/{seq}?facts=true"
    within = {"scope": "registry:admin:*"}
    before = int(server.sql("SELECT count(*) FROM audit_entry WHERE action = 'audit.read'"))
    mine = Client(server, state["part"]).call("GET", path + "&within=main", **within)
    assert mine.status == 200 and mine.json["facts"][0]["action"] == mine.json["entry"]["act"], mine.body
    assert Client(server, state["other"]).call("GET", path + "&within=globex", **within).status == 404
    assert Client(server, state["part"]).call("GET", path, **within).status in (403, 404)
    assert Client(server, state["auditor"]).call("GET", f"/api/v1/audit/events/{seq}?facts=maybe", **within).status == 400
    assert int(server.sql("SELECT count(*) FROM audit_entry WHERE action = 'audit.read'")) >= before + 4
    for row in events(state["part"], within="main"):
        assert row["entry"]["res"].split("/")[0].split("#")[0] in ("main", ""), row


def facts_name_nobody():
    text = server.sql("SELECT string_agg(convert_from(facts, 'UTF8'), ' ') FROM audit_facts")
    for name in ("robot$", "publisher", "auditor", "127.0.0.1", state["blob"], sha256(b"a scan")):
        assert name not in text, name


def the_command_line_shows_them():
    environment = {**os.environ, "SIJIL_CONFIG_HOME": work, "XDG_CONFIG_HOME": work}
    host = f"127.0.0.1:{server.port}"
    name, secret = state["auditor"]

    def sijil(*words, text=None):
        done = subprocess.run([program("sijil"), *words], input=text, capture_output=True, text=True, env=environment, timeout=120)
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout

    sijil("login", host, "--username", name, "--ca-file", server.ca_file, text=secret + "\n")
    seq = next(row["seq"] for row in state["rows"] if row["entry"]["act"] == "manifest.push" and row["facts"])
    shown = sijil("audit", "show", host, str(seq))
    assert "manifest.push" in shown and "facts of target 1: {" in shown and '"op":"ingest"' in shown, shown
    one, many = os.path.join(work, "one.ndjson"), os.path.join(work, "many.ndjson")
    for path, words in ((one, ["show", "--json", host, str(seq)]), (many, ["tail", "--json", "--facts", "-n", "200", host])):
        with open(path, "w", encoding="utf-8") as file:
            file.write(sijil("audit", *words))
        done = verify("--set", state["set"], path)
        assert done.returncode == 0 and " 0 differ" in done.stdout and not done.stdout.startswith("0 "), done


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    prepare()
    sijil_test.run(what_happens_is_of_every_kind, pulls_add_no_facts, every_decision_agrees, what_was_changed_is_told,
                   signatures_of_sets_are_checked,
                   facts_are_read_by_those_who_may_read_the_event, facts_name_nobody, the_command_line_shows_them, server=server)
