#!/usr/bin/env python3
"""Recorded decisions are made again from an export, its facts and the policy set, by sijil-verify and by an independent
program. A caller that may not read an event does not get the facts of its decision."""
import base64
import html.parser
import json
import os
import subprocess
import sys
import tempfile
import time

import approvers
import sijil_test
from signing_keys import canonical, utc
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


# --- the residency report (docs/formats/residency-report.md) ---------------------------------------------------------------------
def sijil(login, *words, code=0):
    folder = os.path.join(work, login)
    environment = {**os.environ, "SIJIL_CONFIG_HOME": folder, "XDG_CONFIG_HOME": folder}
    host = f"127.0.0.1:{server.port}"
    if not os.path.isdir(folder):
        os.mkdir(folder)
        name, secret = state[login] if login in state else server.admin
        done = subprocess.run([program("sijil"), "login", host, "--username", name, "--ca-file", server.ca_file], input=secret + "\n",
                              capture_output=True, text=True, env=environment, timeout=120)
        assert done.returncode == 0, done.stderr
    done = subprocess.run([program("sijil"), *[host if word == "HOST" else word for word in words]], capture_output=True, text=True, env=environment,
                          timeout=120)
    assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
    return done.stdout + done.stderr


def officer(name):
    return server.folder + "/officer/" + name


def with_exceptions():
    """A policy with a type of exceptions, and its digest."""
    document = {"apiVersion": "sijil.policy/v1", "kind": "ResidencyPolicy", "closed": False,
                "metadata": {"id": "audits", "version": 1, "scope": ["main/story/**"], "effective_from": "2026-01-01T00:00:00Z", "review_by": "2030-01-01"},
                "exception_types": {"any": {"lifts": ["A-READ-AE"], "approvals": 2, "max_days": 60, "required_evidence": ["letter"]}},
                "rules": [{"id": "A-READ-AE", "effect": "require", "ops": ["read"], "target": {"geo_within": ["AE"]}}]}
    return document, sha256(canonical(document))


def exception_of(project, document, digest):
    now = time.time()
    return {"apiVersion": "sijil.policy/v1", "kind": "ResidencyException", "id": "audit-abroad", "type": "any", "project": project,
            "policy": {"id": document["metadata"]["id"], "version": document["metadata"]["version"], "digest": digest}, "lifts": ["A-READ-AE"], "ops": ["read"],
            "targets": ["127.0.0.0/8"], "digests": [sha256(b"a scan")], "not_before": utc(now - 86400), "not_after": utc(now + 30 * 86400),
            "requested_by": {"iss": "https://idp", "sub": "carol"}, "uses_left": 2,
            "approvals": [approvers.person(server, each) for each in state["approvers"]], "evidence": {"ticket": "<b>7</b>", "letter": sha256(b"a letter")}}


def next_set(**parts):
    now = server.client(server.admin).api("GET", "/policies")
    document = {**now["set"], **parts}
    path = os.path.join(work, f"set{now['epoch'] + 1}")
    with open(path + ".json", "w", encoding="utf-8") as file:
        json.dump(document, file)
    sijil("admin", "policy", "sign", "--key", officer("approver.pem"), "--epoch", str(now["epoch"] + 1), "-o", path + ".dsse", path + ".json")
    with open(path + ".dsse", encoding="utf-8") as file:
        envelope = json.load(file)
    with open(path + ".dsse", "w", encoding="utf-8") as file:
        json.dump(approvers.add_signatures(envelope, state["approvers"].values()), file)
    sijil("admin", "policy", "load", "HOST", path + ".dsse")


def a_project_has_a_story():
    admin = server.client(server.admin)
    made = admin.api("POST", "/projects", {"organisation": "main", "name": "story", "label": {"subjects": ["health"]}})
    place = server.client(state["publisher"]).repository("main/story/scans")
    place.push_blob(b"a scan")
    first = place.put_manifest("v1", place.manifest(b"a scan"))["Docker-Content-Digest"]
    assert place.call("GET", "blobs/" + sha256(b"a scan")).status == 403
    state["moment"] = int(server.sql("SELECT size FROM audit_log"))
    audits, digest = with_exceptions()
    state["approvers"] = approvers.make(server, ("amal", "badr"), officer("approver.pem"))
    next_set(policies=[*admin.api("GET", "/policies")["set"]["policies"], audits],
             networks=[{"cidr": "127.0.0.0/8", "facts": {"geo": "AE/DU", "assurance": 2, "recipient": "same-controller"}}],
             exceptions=[exception_of(made["id"], audits, digest)])
    assert place.call("GET", "blobs/" + sha256(b"a scan")).status == 200
    assert place.call("DELETE", "manifests/" + first, scope="repository:main/story/scans:delete,pull").status == 202
    state.update({"first": first, "vkey": Client(server, state["auditor"]).api("GET", "/audit/key")["vkey"]})


def report(name, *more, login="auditor"):
    path, state["exported"] = os.path.join(work, name), os.path.join(work, "exported.json")
    sijil("admin", "policy", "export", "HOST", "--organisation", "main", "-o", state["exported"])  # a set with exceptions: others than the root have signed it
    told = sijil(login, "report", "residency", "HOST", "main/story", "-o", path, "--log-key", state["vkey"], "--root", officer("approver.pub.pem"), "--set", state["exported"], *more)
    with open(path + ".json", encoding="utf-8") as file:
        return path, json.load(file), told


def check_report(path, *more, code=0, exported=True):
    exported = ["--set", state["exported"]] if exported else []
    done = subprocess.run([program("sijil-verify"), "report", "--key", state["vkey"], "--root", officer("approver.pub.pem"), *exported, *more[1:], path + ".json", *more[:1]],
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return done.stdout + done.stderr


def a_report_says_where_everything_was():
    path, found, told = report("now")
    print("     " + told.splitlines()[1])
    assert found["statement"].startswith("Evidence for a review") and "complian" not in json.dumps(found).lower().replace("compliance (family", ""), found
    content = {row["digest"]: row for row in found["content"]}
    scan = content[sha256(b"a scan")]
    assert scan["region"] == "local/main" and scan["kind"] == "blob" and "until" not in scan, scan
    assert content[state["first"]]["removed_by"] == "manifest.delete", content
    assert {row["operation"] for row in found["places"]} >= {"ingest", "metadata", "log"} and found["places"][0]["facts"]["geo"] == "AE", found["places"]
    assert found["places"][0]["facts"]["key"]["geo"] == "AE", found["places"]
    reads = [row for row in found["readers"] if row["operation"] == "read"]
    assert len(reads) == 1 and reads[0]["network"] == "127.0.0.0/8" and reads[0]["facts"]["geo"] == "AE/DU" and reads[0]["count"] == 1, reads
    assert [row["rules"] for row in found["refusals"] if row["action"] == "blob.read"] == [["H-READ-AE"]], found["refusals"]
    assert [row["epoch"] for row in found["sets"]] == [1, 2] and [row["in_force"] for row in found["sets"]] == [False, True], found["sets"]
    assert [len(row["signatures"]) for row in found["sets"]] == [1, 3] and found["decisions"]["differ"] == 0, found
    assert [(row["id"], row["state"], row["used"], row["uses"], row["epochs"]) for row in found["exceptions"]] == [("audit-abroad", "in force", 0, 2, [2])], found["exceptions"]
    assert {row["epochs"][-1] for row in found["rules"]} == {2} and found["controls"], found["rules"]
    assert [row["label"]["subjects"] for row in found["labels"] if row["name"] == "main/story/scans"] == [["health"]], found["labels"]
    for page in ("", ".en.html", ".ar.html", ".csv"):
        told = check_report(path, *([path + page] if page else []))
        assert told.startswith("Verified:") and " 0 differ" in told and "evidence for a review" in told, told
    assert "several persons sign the policy set of epoch 2" in check_report(path, code=1, exported=False)  # nobody but the root need have signed it, as far as the file tells
    state["report"] = (path, found)


def an_earlier_moment_and_a_shorter_time_are_reported():
    _, then, _ = report("then", "--at", str(state["moment"]))
    assert not then["readers"] and [row["epoch"] for row in then["sets"]] == [1] and not then["exceptions"] and not [
        row for row in then["content"] if "until" in row], then
    assert check_report(os.path.join(work, "then")).startswith("Verified:")
    _, late, _ = report("late", "--from", str(state["moment"]))
    assert not late["refusals"] and len(late["readers"]) == 1 and len(late["content"]) == len(state["report"][1]["content"]), late
    assert check_report(os.path.join(work, "late")).startswith("Verified:")
    assert check_report(os.path.join(work, "late"), os.path.join(work, "then.en.html"), code=1).count("is no page of this report") == 1


def a_wrong_row_of_a_report_is_named():
    path, found = state["report"]
    with open(path + ".json", encoding="utf-8") as file:
        kept = file.read()
    changes = [(f'row 1 of "{table}"', lambda report, table=table: report[table][0].update({"count": 77})) for table in
               ("places", "readers", "refusals", "sets", "exceptions", "rules", "content", "labels", "controls")]
    changes += [('row 2 of "sets"', lambda report: report["sets"].pop()), ('"project"', lambda report: report.update({"project": "main/other"})),
                ('"decisions"', lambda report: report["decisions"].update({"agree": 1})), ("a member that no report has", lambda report: report.update({"more": 1})),
                ("is not spelt", lambda report: None)]
    with open(path + ".json", "w", encoding="utf-8") as file:
        claims = {**json.loads(kept), "mapping": "2031-01-01", "controls": [{"control": "all", "title": "is fulfilled"}]}
        file.write(json.dumps(claims, sort_keys=True, separators=(",", ":"), ensure_ascii=False) + "\n")
    assert "Not checked: the table of controls" in check_report(path), "nothing leads to these rows"
    for words, change in changes:
        copy = json.loads(kept)
        change(copy)
        with open(path + ".json", "w", encoding="utf-8") as file:
            file.write(json.dumps(copy, sort_keys=True, separators=(",", ":") if words != "is not spelt" else (", ", ": "), ensure_ascii=False) + "\n")
        assert words in check_report(path, code=1), words
    with open(path + ".json", "w", encoding="utf-8") as file:
        file.write(kept)


def evidence_that_was_changed_is_refused():
    path, _ = state["report"]
    with open(path + ".evidence.ndjson", encoding="utf-8") as file:
        lines = file.readlines()
    event = next(i for i, line in enumerate(lines) if "manifest.push" in line)
    facts = next(i for i, line in enumerate(lines) if line.startswith('{"facts"') and '"read"' in line)
    sets = [i for i, line in enumerate(lines) if line.startswith('{"set"')]
    assert len(sets) == 2
    for words, changed in (
            (f"line {event + 1}", lines[:event] + [lines[event].replace("local/main", "local/mean")] + lines[event + 1:]),
            ("an event is missing", lines[:event] + lines[event + 1:]), ("ends after line", lines[:event]), ("is cut off", lines[:-1] + [lines[-1][:-1]]),
            ("is wrong", lines[:facts] + lines[facts + 1:]), ("not in the order", lines[:sets[0]] + [lines[sets[1]], lines[sets[0]]]),
            ("does not load this set", lines[:sets[1]] + [lines[sets[1]].replace(json.loads(lines[sets[1]])["set"]["entry"].replace('"', '\\"'),
                                                                               json.loads(lines[sets[0]])["set"]["entry"].replace('"', '\\"'))
                                                          .replace(json.dumps(json.loads(lines[sets[1]])["set"]["proof"], ensure_ascii=False),
                                                                   json.dumps(json.loads(lines[sets[0]])["set"]["proof"], ensure_ascii=False))])):
        with open(path + ".other", "w", encoding="utf-8") as file:
            file.writelines(changed)
        told = check_report(path, path + ".csv", "--evidence", path + ".other", code=1)
        assert words in told, (words, told)


class Markup(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.seen, self.text = [], ""

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data


def pages_have_nothing_from_elsewhere():
    path, _ = state["report"]
    for language, direction, title in (("en", "ltr", "Residency report"), ("ar", "rtl", "تقرير إقامة البيانات")):
        with open(f"{path}.{language}.html", encoding="utf-8") as file:
            page = Markup()
            page.feed(file.read())
        tags = {tag for tag, _ in page.seen}
        assert page.seen[0] == ("html", {"lang": language, "dir": direction}) and title in page.text, page.seen[:3]
        assert tags <= {"html", "head", "meta", "title", "style", "body", "header", "section", "footer", "h1", "h2", "p", "table", "thead", "tbody", "tr", "th",
                        "td", "bdi", "pre"}, tags
        assert not any(name in attrs for _, attrs in page.seen for name in ("src", "href", "onload", "style")), page.seen
        assert "<b>7</b>" in page.text, "the exception's evidence is text"
        with open(path + ".json", "rb") as file:
            assert dict(page.seen[4][1]) == {"name": "sijil-report", "content": sha256(file.read())}, page.seen[4]


def who_may_report():
    told = sijil("publisher", "report", "residency", "HOST", "main/story", "-o", os.path.join(work, "none"), code=4)
    assert not os.path.exists(os.path.join(work, "none.evidence.ndjson")), told
    assert report("part", "--within", "main", login="part")[1]["content"] == state["report"][1]["content"]
    assert "give another --output" in sijil("auditor", "report", "residency", "HOST", "main/story", "-o", os.path.join(work, "now"), code=1)
    none = os.path.join(work, "none")
    assert "No such file" in sijil("auditor", "report", "residency", "HOST", "main/story", "-o", none, "--root", "/nowhere.pem", code=3)
    assert "--at is before" in sijil("auditor", "report", "residency", "HOST", "main/story", "-o", none, "--at", "2020-01-01T00:00:00Z", code=3)
    assert not os.path.exists(none + ".evidence.ndjson")
    within = {"scope": "registry:admin:*"}
    for login, path, status in (("other", "/api/v1/reports/residency/sets?within=main", 404), ("other", "/api/v1/reports/residency/sets?within=globex", 200),
                                ("publisher", "/api/v1/reports/residency/sets/0?within=main", 403), ("part", "/api/v1/reports/residency/sets/1?within=main", 404),
                                ("part", "/api/v1/reports/residency/sets/x?within=main", 404), ("part", "/api/v1/reports/residency/sets", 403)):
        answer = Client(server, state[login]).call("GET", path, **within)
        assert answer.status == status, (login, path, answer.status, answer.body)
    assert int(server.sql("SELECT count(*) FROM audit_entry WHERE action = 'report.residency'")) >= 4


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    prepare()
    sijil_test.run(what_happens_is_of_every_kind, pulls_add_no_facts, every_decision_agrees, what_was_changed_is_told,
                   signatures_of_sets_are_checked,
                   facts_are_read_by_those_who_may_read_the_event, facts_name_nobody, the_command_line_shows_them,
                   a_project_has_a_story, a_report_says_where_everything_was, an_earlier_moment_and_a_shorter_time_are_reported, a_wrong_row_of_a_report_is_named,
                   evidence_that_was_changed_is_refused, pages_have_nothing_from_elsewhere, who_may_report, server=server)
