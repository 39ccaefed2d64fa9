#!/usr/bin/env python3
"""Persons are erased from the log: planned, signed by two persons, stopped by holds, resumed after kill -9 at each step, certified; and after the change of the
epoch no copy of the database gives them back (docs/erasure.md)."""
import base64
import datetime
import hashlib
import json
import os
import pwd
import re
import signal
import subprocess
import tempfile
import urllib.parse

import signing_keys
import sijil_test
from signing_keys import Key
from sijil_test import Client, Server, make_person, make_robot, run, wait_until

server = Server(["--erasure-retention", "3600"]).start()
folder = tempfile.TemporaryDirectory()
root_key = os.path.join(server.folder, "officer", "approver.pem")
at = f"127.0.0.1:{server.port}"
people, state = {}, {}
MANIFEST, INDEX = "application/vnd.oci.image.manifest.v1+json", "application/vnd.oci.image.index.v1+json"


def admin():
    return server.client(server.admin)


def environment_of(who):
    home = os.path.join(folder.name, "home-" + who)
    os.makedirs(home, exist_ok=True)
    return {**os.environ, "HOME": home, "XDG_CONFIG_HOME": home, "SIJIL_CA_FILE": server.ca_file}


def sijil(who, *words, code=0, given=""):
    """Runs the command with the login of `who`. With --json its answer, else all that it prints."""
    done = subprocess.run([sijil_test.program("sijil"), *words], input=given + "\n", text=True, capture_output=True, env=environment_of(who), timeout=120)
    assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
    return json.loads(done.stdout) if "--json" in words and done.stdout else done.stdout + done.stderr


def json_lines(who, *words):
    """The lines of an answer that has one JSON object each."""
    done = subprocess.run([sijil_test.program("sijil"), *words, "--json"], text=True, capture_output=True, env=environment_of(who), timeout=120, check=False)
    assert done.returncode == 0, (words, done.returncode, done.stdout[-500:], done.stderr)
    return [json.loads(line) for line in done.stdout.splitlines()]


def approver(who):
    """An administrator with a key that approves."""
    login = make_person(server, who, "registry-admin", "")
    key = Key("ext:" + hashlib.sha256(f"{server.people.url}\n{who}".encode()).hexdigest(), "approve")
    document = key.document()
    drafted = signing_keys.sign(document, key.path)
    server.client(login).api("POST", "/keys/signing", drafted)
    admin().api("POST", f"/keys/signing/{key.name}/approval", {"envelopes": [drafted, signing_keys.sign(document, root_key)]})
    people[who] = {"login": login, "key": key.path}
    sijil(who, "login", at, "--username", login[0], "--ca-file", server.ca_file, given=login[1])


def act(who, times, address="127.0.0.2", name="main/models/digits"):
    """Requests of a person from its own address."""
    client = Client(server, people[who]["login"])
    token = client.token("repository:main/models/digits:pull")
    link = client.connection(address=address)
    for _ in range(times):
        link.request("GET", f"/v2/{name}/tags/list", headers={"Authorization": "Bearer " + token})
        link.getresponse().read()


def prepare():
    publisher = make_robot(server, "publisher", "publisher", "main")
    place = server.client(publisher).repository("main/models/digits")
    place.push_blob(b"content")
    assert place.put_manifest("v1", place.manifest(b"content")).status == 201
    state["auditor"] = make_robot(server, "auditor", "auditor", "")
    sijil("auditor", "login", at, "--username", state["auditor"][0], "--ca-file", server.ca_file, given=state["auditor"][1])
    for who in ("ann", "ben"):
        approver(who)
    for who in ("alice", "bob"):
        people[who] = {"login": make_person(server, who, "consumer", "main/models")}
    act("alice", 1, name="main/gone/digits")  # its project is not there
    act("alice", 30)
    act("bob", 40, "127.0.0.3")


def events(**query):
    found, after = [], None
    while True:
        words = {**query, "limit": 1000, "order": "ascending", **({"after": after} if after is not None else {})}
        page = Client(server, state["auditor"]).api("GET", "/audit/events?" + urllib.parse.urlencode(words))
        found += page["events"]
        after = page.get("next")
        if after is None:
            return found


def load_policies(days, scope="main/models/**", **more):
    """A set in which the events of this scope are kept for so many days; 0: it says nothing about them."""
    document = json.loads(sijil("ann", "policy", "show", "--document", at))
    document["policies"] = [policy for policy in document["policies"] if policy["metadata"]["id"] != "trail"]
    if days:
        document["policies"].append({"apiVersion": "sijil.policy/v1", "kind": "ResidencyPolicy", "closed": False,
                                     "metadata": {"id": "trail", "version": 1, "scope": [scope], "effective_from": "2020-01-01T00:00:00Z", "review_by": "2099-01-01"},
                                     "rules": [{"id": "T-KEEP", "effect": "oblige", "ops": ["read"], "oblige": {"audit_retain_min_days": days}, **more}]})
    state["epoch"] = admin().api("GET", "/policies")["epoch"] + 1
    path = os.path.join(folder.name, "set")
    with open(path + ".json", "w", encoding="utf-8") as file:
        json.dump(document, file)
    subprocess.run([sijil_test.program("sijil"), "policy", "sign", "--key", root_key, "--epoch", str(state["epoch"]), "--output", path + ".dsse", path + ".json"],
                   check=True, capture_output=True)
    with open(path + ".dsse", encoding="utf-8") as file:
        admin().api("POST", "/policies", json.load(file))
    wait_until(lambda: admin().api("GET", "/policies")["epoch"] == state["epoch"], 30, "the set is not in force")


def kept_events():
    found = re.search(r'^sijil_removals_refused_total\{why="audit_retain"\} (\d+)', server.client().call("GET", "/metrics").body.decode(), re.M)
    return int(found[1])


def plan_of(who, by="ann"):
    return sijil(by, "admin", "erase", at, who, "--purpose", "a request of the person", "--json")


def end_roles(who):
    for binding in admin().api("GET", "/bindings?limit=1000")["bindings"]:
        if binding.get("subject") == who:
            admin().api("DELETE", f"/bindings/{binding['id']}")


def sign(by, who, *more, code=0):
    return sijil(by, "admin", "erase", at, who, "--key", people[by]["key"], "--reason", "a request of the person", *more, code=code)


def work_of(pseudonym):
    """As `sijil admin erasure list` shows it; to ask again and again, a process is too dear."""
    state.setdefault("asks", Client(server, people["ben"]["login"]))
    rows = state["asks"].api("GET", "/erasures")["erasures"]
    return next((row["work"]["state"] for row in rows if row["name"] == pseudonym and "work" in row), None)


def await_done(pseudonym):
    wait_until(lambda: work_of(pseudonym) == "done", 90, f"the erasure of {pseudonym} does not end")


def a_plan_tells_what_goes_and_what_stays():
    assert len(events(actor="alice")) >= 30  # a search waits for the index, whose rows the plan counts
    plan = plan_of("alice")
    assert plan["events"] >= 30 and {row["rule"] for row in plan["refused"]} == {"ERASURE-ROLE", "ERASURE-RETENTION"}, plan
    assert next(row["count"] for row in plan["goes"] if "search index" in row["what"]) > 0, plan
    assert any("pseudonym" in row["what"] and "proofs" in row["why"] for row in plan["stays"]), plan
    state["alice"] = plan["pseudonym"]
    assert {event["entry"]["actor"] for event in events(actor="alice")} == {plan["pseudonym"]}
    asked = events(action="erasure.plan")[-1]
    assert asked["who"]["search"] == "subject=alice" and asked["who"]["purpose"] == "a request of the person", asked
    assert "alice" not in json.dumps(asked["entry"]), asked
    assert "forbidden now by ERASURE-ROLE" in sijil("ann", "admin", "erase", at, plan["pseudonym"])
    assert "nobody of this name has acted" in sijil("ann", "admin", "erase", at, "nobody", code=3)


def only_approvers_may_ask():
    for path, body in (("/erasures/plan", {"subject": "alice"}), ("/erasures", {}), ("/holds", {})):
        for login in (state["auditor"], people["alice"]["login"]):
            answer = Client(server, login).call("POST", "/api/v1" + path, json.dumps(body), {"Content-Type": "application/json"}, scope="registry:admin:*")
            assert answer.status in ((403, 404) if path == "/erasures/plan" else (400, 403, 404)), (path, answer.status, answer.body)
    assert Client(server, state["auditor"]).call("GET", "/api/v1/erasures", scope="registry:admin:*").status in (403, 404)


def neither_roles_nor_young_events_are_passed_over():
    assert "ERASURE-ROLE" in sign("ann", "alice", code=1)
    end_roles("alice")
    end_roles("bob")
    assert "ERASURE-RETENTION" in sign("ann", "alice", code=1)
    server.stop()
    server.options[1] = "0"
    server.start()
    assert plan_of("alice")["refused"] == []


def policies_keep_events():
    """The duty audit_retain_min_days, whatever erasure_retention says. It counts where the person has acted."""
    load_policies(400)
    before = kept_events()
    (refused,) = plan_of("alice")["refused"]
    assert refused["rule"] == "ERASURE-POLICY" and "T-KEEP of trail@1 keeps the person's events about main/models/digits: wait until " in refused["why"], refused
    newest, until = (datetime.datetime.fromisoformat(plan_of("alice")[member][:19]) for member in ("newest", "erasable_from"))
    assert 399 <= (until - newest).days <= 400, (newest, until)
    assert "T-KEEP of trail@1" in sign("ann", "alice", code=1) and kept_events() == before + 1
    assert [event["entry"]["out"] for event in events(action="erasure.ask")][-1] == "failed"
    assert "ERASURE-POLICY" not in {row["rule"] for row in plan_of("ben")["refused"]}, "ben has never acted there"
    load_policies(500, "main/**", when={"subjects_any": ["health"]})
    (refused,) = plan_of("alice")["refused"]  # main/models has no health data; what main/gone had nobody knows
    assert "T-KEEP of trail@1 keeps the person's events about main/gone/digits: wait until " in refused["why"], refused
    load_policies(0)
    assert plan_of("alice")["refused"] == []


def two_other_persons_sign():
    assert "which person holds this key" in sijil("ann", "admin", "erase", at, "alice", "--key", root_key, "--reason", "x", code=4)
    drafted = sign("ann", "alice", "--json")
    assert drafted["state"] == "draft" and drafted["name"] == state["alice"], drafted
    assert "signed twice" in sign("ann", "alice", code=1)
    assert "ERASURE-SELF" in sign("ann", plan_of("ann")["pseudonym"], code=4)
    assert len(events(actor="alice")) >= 30  # a draft has no effect


def nobody_erases_its_own_robots():
    """A robot that is revoked, of whoever made it and of whoever rotated its secret."""
    ann = server.client(people["ann"]["login"])
    robots = [ann.api("POST", "/robots", {"organisation": "main", "name": name}) for name in ("of-ann", "of-both")]
    for robot in robots:
        admin().api("POST", "/bindings", {"robot": robot["id"], "role": "consumer", "scope": "main/models"})
        assert Client(server, (robot["name"], robot["secret"])).repository("main/models/digits").call("GET", "tags/list").status == 200
    server.client(people["ben"]["login"]).api("POST", f"/robots/{robots[1]['id']}/secret")
    for robot, by, code in ((robots[0], "ann", 4), (robots[1], "ann", 4), (robots[1], "ben", 4), (robots[0], "ben", 0)):
        admin().call("DELETE", f"/api/v1/robots/{robot['id']}", scope="registry:admin:*")
        said = sign(by, robot["name"], code=code)
        assert ("ERASURE-SELF: nobody erases itself or its own robots" in said) == (code == 4), (robot["name"], by, said)
    assert "ERASURE-SELF" in sign("ann", robots[0]["name"], code=4)  # as the second one, too


def a_hold_stops_it():
    held = sijil("ben", "admin", "hold", "add", at, "case-7", "--subject", "alice", "--key", people["ben"]["key"], "--reason", "a court asks", "--json")
    assert held["state"] == "in force" and held["body"]["subject"] == state["alice"] and "alice" not in json.dumps(held), held
    assert "ERASURE-HOLD" in sign("ben", "alice", code=1)
    assert "case-7" in sijil("ann", "admin", "hold", "list", at)
    assert next(part for part in plan_of("ben")["stays"] if "signed documents" in part["what"])["count"] >= 1  # this hold
    release("case-7")
    assert plan_of("alice")["refused"] == []
    assert "released already" in sijil("ben", "admin", "hold", "release", at, "case-7", "--key", people["ben"]["key"], "--reason", "again", code=1)


def hold(name, *words, code=0):
    return sijil("ben", "admin", "hold", "add", at, name, *words, "--key", people["ben"]["key"], "--reason", "a court asks", code=code)


def release(name):
    """Two approvers: the first one says why, and the second one signs what the first has signed."""
    drafted = sijil("ben", "admin", "hold", "release", at, name, "--key", people["ben"]["key"], "--reason", "the case is over", "--json")
    assert drafted["state"] == "draft", drafted
    assert "signed twice" in sijil("ben", "admin", "hold", "release", at, name, "--key", people["ben"]["key"], code=1)
    shown = next(row for row in sijil("ann", "admin", "hold", "list", at, "--json") if row["name"] == name and row["state"] == "draft")
    assert shown["missing"] == 1 and shown["withdrawn"] == "the case is over", shown
    signed = sijil("ann", "admin", "hold", "release", at, name, "--key", people["ann"]["key"], "--json")
    assert signed["state"] == "withdrawn", signed
    return signed


def check_export(name, persons, withdrawn):
    """What the hold says is proven offline, with two keys from elsewhere; and another file is not."""
    root, path = os.path.join(folder.name, "root.pub"), os.path.join(folder.name, "hold.json")
    subprocess.run(["openssl", "pkey", "-in", root_key, "-pubout", "-out", root], check=True, capture_output=True)
    sijil("eve", "admin", "hold", "export", at, name, "--output", path)
    with open(path, "rb") as file:
        text = file.read()
    for changed, code in ((text, 0), (text.replace(b'"kind":"Legal', b'"more":1,"kind":"Legal'), 1), (re.sub(rb'"chain":\[.*?\],"entry":', b'"chain":[],"entry":', text, flags=re.S), 1)):
        with open(path, "wb") as file:
            file.write(changed)
        done = subprocess.run([sijil_test.program("sijil-verify"), "policy", "--key", sijil("auditor", "audit", "key", at).strip(), "--root", root, "--json", path],
                              capture_output=True, text=True, timeout=120)
        assert done.returncode == code, (code, done.returncode, done.stdout, done.stderr)
        if code == 0:
            answer = json.loads(done.stdout)
            assert answer["verified"] and answer["persons"] == persons and answer["document"]["name"] == name and answer["document"].get("withdrawn") == withdrawn, answer


def metric(name):
    return int(re.search("^" + re.escape(name) + r" (\d+)", server.client().call("GET", "/metrics").body.decode(), re.M)[1])


def collect():
    return sijil_test.follow(admin(), admin().api("POST", "/collections", {"project": "main/models"})["id"])["report"]


def holds_of_content_are_signed():
    """One approver keeps content by a signed hold, and two let it go. What the rows say is not believed."""
    login = make_person(server, "eve", "security-officer", "")
    admin().api("POST", "/bindings", {"issuer": server.people.url, "subject": "eve", "role": "auditor", "scope": ""})
    sijil("eve", "login", at, "--username", login[0], "--ca-file", server.ca_file, given=login[1])
    place, other = (server.client(make_robot(server, f"of-{name}", "publisher", "main")).repository("main/models/" + name) for name in ("held", "free"))
    remover = server.client(make_robot(server, "remover", "project-admin", "main/models")).repository("main/models/held")
    digests = {}
    for name in ("first", "second", "third"):
        data = (name + " of a case").encode()
        place.push_blob(data)
        answer = place.put_manifest(name, place.manifest(data))
        digests[name] = answer["Docker-Content-Digest"]
    def put_index(name, listed, size):
        text = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": [{"mediaType": INDEX if name == "outer" else MANIFEST, "digest": digests[listed], "size": size}]}).encode()
        digests[name] = place.put_manifest(name, text, INDEX)["Docker-Content-Digest"]
        return len(text)
    put_index("outer", "inner", put_index("inner", "first", len(place.manifest(b"first of a case"))))
    other.push_blob(b"third of a case")
    other.put_manifest("third", other.manifest(b"third of a case"))

    def delete(name):
        answer = remover.call("DELETE", "manifests/" + digests[name])
        assert answer.status == 202 or (answer.status == 403 and b"LEGAL-HOLD keeps it until two persons release the hold" in answer.body), (answer.status, answer.body)
        return answer.status == 202

    # An index of an index: what is two steps below is kept, too.
    hold("case-9", "--content", "main/models/held", "--digest", digests["outer"])
    check_export("case-9", 1, None)
    assert "--content" in hold("case-9", "--digest", digests["first"], code=2)
    assert delete("second"), "a hold of one manifest keeps another one"
    assert not any([delete(name) for name in ("outer", "inner", "first")])
    kept = admin().api("GET", "/repositories/main/models/held/deletion")["kept"]
    assert [row["rule"] for row in kept] == ["LEGAL-HOLD"] and admin().api("GET", "/repositories/main/models/free/deletion")["kept"] == [], kept
    # Whoever writes the database ends no hold, and makes none: each removal has the rows made what the documents say.
    for tampering in ("DELETE FROM signed_hold", "UPDATE signed_hold SET until = now() - interval '1 day'", "UPDATE signed_hold SET content = 'main/other'"):
        server.sql(tampering)
        assert not delete("first"), tampering
    server.sql("INSERT INTO signed_hold (name, content, until) VALUES ('made-up', 'main/models', now() + interval '1 day')")
    assert delete("third"), "a row without a document holds"
    # Of a whole repository: no rule of the project removes anything there, nor does a round that finds no row.
    hold("case-10", "--content", "main/models")
    admin().api("PUT", "/projects/main/models/rules", {"untagged_days": 0, "retention": [{"repositories": "*", "tags": "*", "keep_last": 0}]})
    server.sql("UPDATE manifest SET created_at = created_at - interval '40 days', renewed_at = renewed_at - interval '40 days'")
    before = metric("sijil_hold_rows_mended_total")
    server.sql("DELETE FROM signed_hold")
    assert collect()["manifests"] == 0, "rules of the project go round the hold"
    assert metric("sijil_hold_rows_mended_total") >= before + 2
    admin().api("PUT", "/projects/main/models/rules", {})
    release("case-10")
    # A later version might let something go, so it takes two persons, as the release does.
    assert "draft" in hold("case-9", "--content", "main/other")
    assert not delete("first"), "a draft ends a hold"
    sijil("ann", "admin", "hold", "reject", at, "case-9")
    released = release("case-9")
    shown = sijil("ann", "admin", "hold", "show", at, "case-9", "--json")
    assert len(shown["envelopes"]) == 2 and shown["event"] == released["event"] and shown["document"]["withdrawn"], shown
    check_export("case-9", 2, "the case is over")
    acts = [event["entry"]["act"] for event in events() if event["entry"]["act"].startswith("hold.") and event["entry"]["act"] != "hold.read" and event["entry"].get("out") != "failed"]
    assert acts[-5:] == ["hold.ask", "hold.reject", "hold.ask", "hold.release", "hold.release"], acts  # the first release is that of a person that signs twice
    assert all([delete(name) for name in ("outer", "inner", "first")]), "a released hold holds"


ROWS = "SELECT json_build_object('subjects', (SELECT json_agg(s) FROM (SELECT encode(subject, 'hex') AS subject, key_version AS version, " \
       "encode(wrapped_key, 'hex') AS wrapped FROM audit_subject WHERE subject IN (SELECT subject FROM audit_payload WHERE seq = %d)) AS s), " \
       "'payloads', (SELECT json_agg(p) FROM (SELECT seq, encode(subject, 'hex') AS subject, encode(salt, 'hex') AS salt, encode(box, 'hex') AS box " \
       "FROM audit_payload WHERE seq = %d) AS p))"


def keep_copy():
    """The rows that an old copy of the database has about alice, and that put back let anybody try to open them."""
    state["numbers"] = [event["seq"] for event in events(actor="alice")]
    state["copy"] = json.loads(server.sql(ROWS % (state["numbers"][0], state["numbers"][0])))
    assert len(state["copy"]["subjects"]) == 1 and len(state["copy"]["payloads"]) == 1, state["copy"]


def put_copy_back():
    """What the log then shows about alice's first event."""
    subject, payload = state["copy"]["subjects"][0], state["copy"]["payloads"][0]
    server.sql(f"INSERT INTO audit_subject (subject, key_version, wrapped_key) VALUES (decode('{subject['subject']}', 'hex'), {subject['version']}, "
               f"decode('{subject['wrapped']}', 'hex')); INSERT INTO audit_payload (seq, subject, salt, box) VALUES ({payload['seq']}, "
               f"decode('{payload['subject']}', 'hex'), decode('{payload['salt']}', 'hex'), decode('{payload['box']}', 'hex'))")
    shown = Client(server, state["auditor"]).api("GET", f"/audit/events/{payload['seq']}")["who"]
    server.sql(f"DELETE FROM audit_payload WHERE seq = {payload['seq']}; DELETE FROM audit_subject WHERE subject = decode('{subject['subject']}', 'hex')")
    return shown


def an_entry_without_its_bytes_leads_to_the_key():
    """The bytes of the event by which the key is found may be in a region (migrations/0082). All of this is rolled back."""
    keep_copy()
    number, alice, bob = state["numbers"][0], state["alice"], plan_of("bob")["pseudonym"]
    of_alice = f"(SELECT count(*) FROM audit_subject s JOIN audit_payload p USING (subject) WHERE p.seq = {number})"
    begin = f"""BEGIN; UPDATE audit_entry SET leaf = '' WHERE seq = {number};
        INSERT INTO audit_entry (seq, ts, leaf, leaf_hash, action, outcome) SELECT 9000000 + n, 0, convert_to('{{"res":"#{alice}"}}', 'UTF8'), sha256(''), action, 'allowed'
        FROM (VALUES (0, 'audit.erase'), (1, 'subject.erase')) AS event (n, action);"""
    asked = f"event_is_of({number}, '{alice}'), event_is_of({number}, '{bob}'), erasure_event_is({number}, 'subject.erase', '#{alice}')"
    done = server.sql(f"""{begin} DO $$ BEGIN ASSERT {of_alice} = 1; PERFORM erasure_thin('{alice}', {number}, 9000001, 1000);
        PERFORM erasure_begin('{alice}', {number}, 9000000, 9000001); END $$; SELECT json_build_array({asked}, {of_alice}); ROLLBACK""")
    assert json.loads(done) == [True, False, False, 0], done
    for wrong in (f"erasure_thin('{alice}', {number}, 9000000, 1000)", f"erasure_thin('{bob}', {number}, 9000001, 1000)",
                  f"erasure_begin('{bob}', {number}, 9000000, 9000001)", f"erasure_begin('{alice}', -1, 9000000, 9000001)"):
        try:
            server.sql(f"{begin} SELECT {wrong}; ROLLBACK")
            raise AssertionError(wrong + " was done")
        except subprocess.CalledProcessError as refused:
            assert "no event of the log asks" in refused.stderr or "the event is of another person" in refused.stderr, refused.stderr


def the_second_signature_erases():
    before = events(key="act:" + state["alice"])
    signed = sign("ben", "alice", "--json")
    assert signed["state"] == "in force", signed
    await_done(state["alice"])
    assert next(row for row in sijil("ben", "admin", "erasure", "list", at, "--json") if row["name"] == state["alice"])["work"] == "done"
    after = events(key="act:" + state["alice"])
    assert [event["entry"] for event in after] == [event["entry"] for event in before] and len(after) >= 30
    own = [event for event in after if event["entry"]["actor"] == state["alice"]]
    assert all(event["who"] == {"missing": "payload"} for event in own), own[-1]
    others = [event for event in after if event not in own]
    assert [event["entry"]["act"] for event in others] == ["audit.export"] and others[0]["who"]["subject"] == state["auditor"][0], others
    assert events(actor="alice") == [] and not {event["seq"] for event in events(address="127.0.0.2")} & {event["seq"] for event in after}
    steps = [(event["entry"]["out"], event["entry"]["why"].get("note")) for event in events(detail=state["alice"], action="subject.erase")]
    assert steps == [("allowed", None), ("completed", "the key is destroyed"), ("completed", f"{len(own)} sealed parts are deleted")], steps
    assert "the person was erased" in sijil("ann", "admin", "erase", at, state["alice"], code=1)


def a_dump_of_the_database_has_no_name():
    pids = server.processes("postgres")
    with open(f"/proc/{min(pids)}/cmdline", "rb") as file:
        words = [word.decode() for word in file.read().split(b"\0")]
    sockets = next(word.split("=", 1)[1] for word in words if word.startswith("--unix_socket_directories="))
    dump = subprocess.run([os.path.join(os.path.dirname(words[0]), "pg_dump"), "-h", sockets, "-U", "postgres", "--inserts", "sijil"], check=True,
                          capture_output=True, text=True, timeout=120).stdout
    rows = [line for line in dump.splitlines() if "alice" in line]
    assert not rows, [line[:200] for line in rows]
    assert "bob" in dump  # so the search finds a name that is there


def proofs_and_exports_still_verify():
    key = sijil("auditor", "audit", "key", at).strip()
    proven = os.path.join(folder.name, "proven")
    sijil("auditor", "audit", "proof", at, str(state["numbers"][0]), "-o", proven)
    verify = sijil_test.program("sijil-verify")
    subprocess.run([verify, "proof", "--key", key, "--entry", proven + "/entry.json", proven + "/entry.tlog-proof"], check=True, capture_output=True)
    file, nonce = os.path.join(folder.name, "export.ndjson"), "0123456789abcdef" * 2
    sijil("auditor", "audit", "export", at, "--key", "act:" + state["alice"], "--nonce", nonce, "--open", "--purpose", "a check", "-o", file)
    done = subprocess.run([verify, "export", "--key", key, "--nonce", nonce, file], check=True, capture_output=True, text=True)
    with open(file, encoding="utf-8") as text:
        assert "complete" in done.stdout and "alice" not in text.read(), done.stdout


def the_continuous_check_does_not_complain():
    def metric(name):
        text = server.client().call("GET", "/metrics").body.decode()
        return next(float(line.split()[1]) for line in text.splitlines() if line.startswith(name + " "))
    server.stop()
    server.start()
    wait_until(lambda: metric("sijil_audit_verify_last_seconds") > 0, 120, "no round of the verification ends")
    assert metric("sijil_audit_payloads_missing") == 0 and metric("sijil_audit_payloads_damaged") == 0
    assert metric("sijil_audit_search_missing") == 0 and metric("sijil_audit_rows_wrong") == 0
    assert metric("sijil_audit_forked") == 0


def certificate(pseudonym):
    name = os.path.join(folder.name, "certificate.json")
    wait_until(lambda: os.path.exists(name) or sijil("ann", "admin", "erasure", "certificate", at, pseudonym, "-o", name) is not None, 20, "no certificate")
    return name


def check_certificate(name, code=0):
    for option, file in ((("--documents",), "documents.pem"), ((), "log.vkey")):
        with open(os.path.join(folder.name, file), "w", encoding="utf-8") as out:
            out.write(sijil("auditor", "audit", "key", at, *option))
    with open(os.path.join(folder.name, "log.vkey"), encoding="utf-8") as file:
        key = file.read().strip()
    done = subprocess.run([sijil_test.program("sijil-verify"), "certificate", "--key", key, "--signer", os.path.join(folder.name, "documents.pem"), name],
                          capture_output=True, text=True)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return done.stdout + done.stderr


def a_certificate_is_checked_offline():
    name = certificate(state["alice"])
    said = check_certificate(name)
    assert "Stage 1 of 2" in said and state["alice"] in said, said
    with open(name, encoding="utf-8") as file:
        bundle = json.load(file)
    for member, value in (("document", bundle["document"].replace("a request", "no request")), ("erased", bundle["asked"]), ("asked_proof", bundle["erased_proof"])):
        changed = os.path.join(folder.name, "changed.json")
        with open(changed, "w", encoding="utf-8") as file:
            json.dump({**bundle, member: value}, file)
        check_certificate(changed, code=1)
    os.remove(name)


def a_copy_from_before_gives_her_back_until_the_epoch_ends():
    shown = put_copy_back()
    assert shown.get("subject") == "alice", shown
    server.stop()
    keyd("--add-version")
    server.start()
    job = sijil("ann", "admin", "rewrap", at, "--json")
    assert job["state"] == "completed", job
    assert int(server.sql("SELECT count(*) FROM audit_subject WHERE key_version < 2")) == 0
    server.stop()
    keyd("--destroy-version", "1")
    server.start()
    shown = put_copy_back()
    assert shown == {"damaged": True}, shown
    assert "Stage 2 of 2" in check_certificate(certificate(state["alice"]))
    bob = [event for event in events(actor="bob")]
    assert len(bob) >= 40 and all(event["who"]["subject"] == "bob" for event in bob)  # others are still found, and opened
    wait_until(lambda: len({event["seq"] for event in events(address="127.0.0.3")} & {event["seq"] for event in bob}) >= 40, 60, "the index is not made again")


def no_file_of_the_registry_gives_her_back():
    """Of her the write-ahead log and dead rows may still have what put_copy_back() has put back, which nothing opens, and the name in rows of roles (docs/erasure.md). What her
    sealed parts said is in no file, with what PostgreSQL has kept in memory written out."""
    server.sql("CHECKPOINT")
    server.sql("SELECT pg_switch_wal()")
    server.sql("CHECKPOINT")
    said = [b'"subject":"alice"', b"127.0.0.2"]
    found, read = {piece: [] for piece in (*said, b"bob")}, 0
    for place, _, names in os.walk(server.folder):
        for path in (os.path.join(place, name) for name in names):
            if os.path.islink(path) or not os.path.isfile(path):
                continue
            with open(path, "rb") as file:
                data = file.read()
            read += len(data)
            for piece, paths in found.items():
                paths += [path] if piece in data else []
    assert any("/base/" in path for path in found[b"bob"]) and any("/pg_wal/" in path for path in found[b"bob"]), "the search does not find a name that is there"
    assert read > 16 << 20 and not any(found[piece] for piece in said), {piece: found[piece] for piece in said}


def an_exposure_lists_what_was_done_and_by_what_was_made():
    """A robot that makes robots is stolen: its events, theirs, and those of its token alone."""
    chief = make_robot(server, "chief", "org-admin", "main")
    maker = Client(server, chief)
    made = maker.api("POST", "/robots", {"organisation": "main", "name": "made"})
    admin().api("POST", "/bindings", {"robot": made["id"], "role": "consumer", "scope": "main/models"})
    made["secret"] = maker.api("POST", f"/robots/{made['id']}/secret")["secret"]  # its secret was seen twice: its events are shown once
    place = Client(server, (made["name"], made["secret"])).repository("main/models/digits")
    shown = place.call("GET", "manifests/v1")
    digest = shown["Docker-Content-Digest"]
    assert shown.status == 200 and place.call("GET", "manifests/" + digest).status == 200
    assert place.call("DELETE", "manifests/v1").status >= 400
    words = ["audit", "exposure", at, chief[0], "--from", "1h", "--purpose", "incident 9"]
    rows = json_lines("auditor", *words)
    assert len({row["seq"] for row in rows}) == len(rows), rows
    created = next(row for row in rows if row["action"] == "robot.create")
    theirs = [row for row in rows if row.get("made_by") == f"robot.create {created['seq']}"]
    assert {row["subject"] for row in theirs} == {made["name"]} and any(digest in row["digests"] for row in theirs), theirs
    assert {row["what"] for row in theirs} >= {"read", "minted", "denied"} and all(row["address"] == "127.0.0.1" for row in theirs), theirs
    assert {row["seq"] for row in rows if "made_by" not in row} == {event["seq"] for event in events(actor=chief[0])}
    assert "seq,time,what" in sijil("auditor", *words, "--csv") and "WHAT" in sijil("auditor", *words)
    sijil("auditor", "audit", "exposure", at, chief[0], code=2)  # without a purpose
    token = next(event["who"]["token"] for event in events(actor=made["name"]) if event["entry"]["act"] == "manifest.read")
    client = Client(server, state["auditor"])
    asked = {"credential": chief[0], "purpose": "incident 9", "limit": 1}
    first = client.api("GET", "/audit/exposure?" + urllib.parse.urlencode(asked))
    assert len(first["events"]) == 1 and first["next"] and {row["seq"] for row in first["events"]} < {row["seq"] for row in rows}, first
    paged, page = list(first["events"]), first
    while "next" in page:
        page = client.api("GET", "/audit/exposure?" + urllib.parse.urlencode({**asked, "after": page["next"]}))
        paged += page["events"]
    assert [row["seq"] for row in paged] == [event["seq"] for event in events(actor=chief[0])]
    assert {(row["action"], row["next"]["kind"], row["next"]["name"]) for row in paged if "next" in row} == \
        {("robot.create", "credential", made["name"]), ("robot.rotate", "credential", made["name"])}, paged
    recorded = [event for event in events(action="audit.read", purpose="a check") if event["who"].get("purpose") == "incident 9"]
    assert any(event["who"].get("search") == "credential=" + chief[0] for event in recorded), recorded[-1]
    for wrong in ({"credential": chief[0]}, {"purpose": "x"}, {"credential": "a", "run": "b", "purpose": "x"},
                  {"run": "b", "purpose": "x"}):
        assert client.call("GET", "/api/v1/audit/exposure?" + urllib.parse.urlencode(wrong), scope="registry:admin:*").status == 400, wrong
    assert client.call("GET", "/api/v1/audit/exposure?credential=3f1c0000-0000-4000-8000-000000000000&purpose=x", scope="registry:admin:*").status == 404
    rows = json_lines("auditor", "audit", "exposure", at, token, "--purpose", "incident 9")
    assert rows and {row["action"] for row in rows} <= {"manifest.read", "manifest.delete", "tag.delete"} and {row["subject"] for row in rows} == {made["name"]}, rows
    rotation = next(event for event in events(actor=chief[0]) if event["entry"]["act"] == "robot.rotate")  # its own event has the id of the robot alone
    rows = client.api("GET", "/audit/exposure?" + urllib.parse.urlencode({"credential": rotation["who"]["token"], "purpose": "incident 9"}))["events"]
    assert [row["next"]["name"] for row in rows if row["seq"] == rotation["seq"]] == [made["name"]], rows


def on_a_terminal(who, *words):
    """What the command says there beside its answer."""
    master, slave = os.openpty()
    done = subprocess.run([sijil_test.program("sijil"), *words], env=environment_of(who), stdout=subprocess.DEVNULL, stderr=slave, timeout=60)
    os.close(slave)
    said = os.read(master, 65536).decode()
    os.close(master)
    assert done.returncode == 0, said
    return said


def an_exposure_of_a_person_whose_name_looks_like_a_token_or_a_certificate():
    """As each subject of some issuers does. The id of a token that is somebody's name, too, shows both."""
    token = events(action="token.mint")[-1]
    asked = ("AAAAAAAAAAAAAAAAAAAAAIkzqFVrSaSaFHy782bbtaQ", "450d160a-037c-4baa-a883-484a67378c18", token["entry"]["req"])
    issuer = sijil_test.Issuer("https://names.example", f"https://127.0.0.1:{server.port}")
    admin().api("POST", "/issuers", {"url": issuer.url, "algorithms": ["ES256"], "jwks": issuer.jwks})
    for name in asked:
        admin().api("POST", "/bindings", {"issuer": issuer.url, "subject": name, "role": "consumer", "scope": "main/models"})
        place = Client(server, sijil_test.Person(("oidc", issuer.token(sub=name)))).repository("main/models/digits")
        assert place.call("GET", "tags/list", scope="repository:main/models/digits:pull").status == 200
        own = {event["seq"] for event in events(actor=name)}
        rows = Client(server, state["auditor"]).api("GET", "/audit/exposure?" + urllib.parse.urlencode({"credential": name, "purpose": "incident 9"}))["events"]
        assert len(own) == 2 and {row["seq"] for row in rows if row["subject"] == name} == own, (name, own, rows)
    assert token["entry"]["actor"] in {row["actor"] for row in rows}, rows
    certificate = {"credential": "x5t#S256:" + asked[0], "purpose": "incident 9"}
    assert Client(server, state["auditor"]).api("GET", "/audit/exposure?" + urllib.parse.urlencode(certificate))["events"] == []


def an_auditors_export_is_no_event_of_the_person():
    """It stands under the person's key; the person is not told of it, and it stops no erasure."""
    before, own = plan_of("alice"), json_lines("ann", "audit", "subject", at, "alice", "--purpose", "request 17")
    export = {"key": "act:" + before["pseudonym"], "nonce": "0123456789abcdef" * 2, "purpose": "an inquiry"}
    number = Client(server, state["auditor"]).api("POST", "/audit/exports", export)["number"]
    assert f"act:{before['pseudonym']}" in events(action="audit.export")[-1]["entry"]["k"]
    assert plan_of("alice") == before
    after = json_lines("ann", "audit", "subject", at, "alice", "--purpose", "request 17")
    assert after == own and number not in {event.get("seq") for event in after}
    seen = Client(server, people["alice"]["login"]).api("GET", "/self/events?limit=1000")
    assert {event["entry"]["actor"] for event in seen["events"]} == {before["pseudonym"]} and "an inquiry" not in json.dumps(seen), seen["events"][-2:]


def a_person_gets_a_copy_of_what_is_held():
    assert re.search(r"(\d+) of \1 events", on_a_terminal("ben", "audit", "subject", at))
    own = json_lines("ben", "audit", "subject", at)
    pseudonym = plan_of("ben")["pseudonym"]
    assert own[-1]["pseudonym"] == pseudonym and own[-1]["held"]["roles"] == 1, own[-1]
    assert {event["entry"]["actor"] for event in own[:-1]} == {pseudonym} and all(event["who"]["subject"] == "ben" for event in own[:-1])
    assert [event["seq"] for event in own[:-1]] == sorted(event["seq"] for event in own[:-1]) and len(own) > 4
    asked = json_lines("ann", "audit", "subject", at, "ben", "--purpose", "request 17")
    assert [event["seq"] for event in asked[:-1]][:len(own) - 1] == [event["seq"] for event in own[:-1]]
    assert events(action="subject.read")[-1]["who"]["subject"] == "ben" and events(action="subject.copy")[-1]["who"]["purpose"] == "request 17"
    sijil("ann", "audit", "subject", at, "ben", code=2)  # without a purpose
    sijil("auditor", "audit", "subject", at, "ben", "--purpose", "curiosity", code=4)


def keyd(*words):
    owner = pwd.getpwnam("sijil-keyd") if os.geteuid() == 0 else None
    who = {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []} if owner else {}
    with open(server.passphrase, "rb") as secret:
        done = subprocess.run([sijil_test.program("sijil-keyd"), "--directory", os.path.join(server.folder, "keyd"), "--passphrase-fd", str(secret.fileno()),
                               *words], pass_fds=[secret.fileno()], capture_output=True, text=True, **who)
    assert done.returncode == 0, (words, done.stdout, done.stderr)


class Session:
    """A transaction of another connection, which ends with end()."""

    def __init__(self, query):
        with open(f"/proc/{min(server.processes('postgres'))}/cmdline", "rb") as file:
            words = [word.decode() for word in file.read().split(b"\0")]
        sockets = next(word.split("=", 1)[1] for word in words if word.startswith("--unix_socket_directories="))
        self.psql = subprocess.Popen([os.path.join(os.path.dirname(words[0]), "psql"), "-XAtq", "-h", sockets, "-U", "postgres", "-d", "sijil"],
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.psql.stdin.write(f"BEGIN; {query}; SELECT 'held';\n")
        self.psql.stdin.flush()
        while self.psql.stdout.readline().strip() != "held":
            pass

    def end(self):
        self.psql.stdin.close()
        self.psql.wait(30)


class Held(Session):
    """Locks rows, as a database that hangs would."""

    def __init__(self, query):
        super().__init__(query + " FOR UPDATE")

    def kill_when_blocked(self, then=None):
        """Waits until a gateway waits for the rows, kills all gateways, and lets the rows go."""
        waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND wait_event IN ('transactionid', 'tuple')"
        wait_until(lambda: int(server.sql(waits)) > 0, 90, "nothing waits for the rows")
        for process in server.processes("sijild"):
            if process != server.process.pid:
                os.kill(process, signal.SIGKILL)
        if then is not None:
            then()
        self.end()


def kills_at_each_step_lead_to_one_end():
    """Before the key is destroyed, while sealed parts are deleted, before the end is noted. Groups of the person have roles at first."""
    server.sql(f"INSERT INTO group_login VALUES ('{server.people.url}', 'bob', '{{everyone}}', now(), now() + interval '1 hour')")
    assert "ERASURE-ROLE" in {row["rule"] for row in plan_of("bob")["refused"]}
    server.sql("UPDATE group_login SET until = now() - interval '1 hour'")
    pseudonym = plan_of("bob")["pseudonym"]
    numbers = [event["seq"] for event in events(actor="bob")]
    row = server.sql(f"SELECT encode(subject, 'hex') FROM audit_payload WHERE seq = {numbers[0]}")
    sign("ann", "bob")
    payload = Held(f"SELECT seq FROM audit_payload WHERE seq = {numbers[-1]}")
    key = Held(f"SELECT subject FROM audit_subject WHERE subject = decode('{row}', 'hex')")
    signed = subprocess.Popen([sijil_test.program("sijil"), "admin", "erase", at, "bob", "--key", people["ben"]["key"]], env=environment_of("ben"),
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    key.kill_when_blocked()
    assert signed.wait(60) is not None
    server.wait_ready()
    payload.kill_when_blocked(lambda: state.update(end=Held(f"SELECT 1 FROM audit_erasure WHERE pseudonym = '{pseudonym}'")))
    state["end"].kill_when_blocked()
    server.wait_ready()
    await_done(pseudonym)
    assert int(server.sql(f"SELECT count(*) FROM audit_payload WHERE seq IN ({','.join(map(str, numbers))})")) == 0
    assert int(server.sql(f"SELECT payloads FROM audit_erasure WHERE pseudonym = '{pseudonym}'")) == len(numbers)
    assert server.sql(f"SELECT subject IS NULL FROM audit_erasure WHERE pseudonym = '{pseudonym}'") == "t"
    assert server.sql("SELECT count(*) FROM group_login") == "0"
    assert events(actor="bob") == [] and len(events(key="act:" + pseudonym)) == len(numbers)


def a_person_with_a_role_again_keeps_nobody_waiting():
    """Two erasures wait; the person of the first one gets a role again. The other one is erased, and nothing of the first."""
    for who in ("carol", "dave"):
        people[who] = {"login": make_person(server, who, "consumer", "main/models")}
        act(who, 3)
        end_roles(who)
    plans = {plan_of(who)["pseudonym"]: who for who in ("carol", "dave")}
    stays, goes = (plans[pseudonym] for pseudonym in sorted(plans))  # gateways try them by pseudonym
    stays_as, goes_as = sorted(plans)
    assert len(events(actor=stays)) >= 3  # so the index knows them
    blind = next(part["count"] for part in plan_of(stays)["goes"] if "search index" in part["what"])
    others = Session("SELECT pg_advisory_lock(7307, 6)")  # gateways do without erasures meanwhile
    for who in (stays, goes):
        sign("ann", who)
        sign("ben", who)
    again = admin().api("POST", "/bindings", {"issuer": server.people.url, "subject": stays, "role": "consumer", "scope": "main/models"})
    others.end()
    sijil("ben", "admin", "hold", "add", at, "case-8", "--subject", "ann", "--key", people["ben"]["key"], "--reason", "it wakes the work", "--json")
    await_done(goes_as)
    wait_until(lambda: len(events(detail=stays_as, action="subject.erase")) > 0, 60, "the first one is not tried")
    admin().api("DELETE", f"/bindings/{again['id']}")
    assert work_of(stays_as) == "waits" and next(part["count"] for part in plan_of(stays)["goes"] if "search index" in part["what"]) == blind > 0
    load_policies(400)  # a policy that comes after both have signed counts, too
    tries = len(events(detail=stays_as, action="subject.erase"))
    server.stop()
    server.start()  # else it is tried again in a quarter of an hour
    wait_until(lambda: len(events(detail=stays_as, action="subject.erase")) > tries, 60, "it is not tried again")
    wait_until(lambda: kept_events() == 1, 30, "the policy is not asked")
    assert work_of(stays_as) == "waits"
    load_policies(0)
    server.stop()
    server.start()
    await_done(stays_as)


def a_person_that_never_acted_is_erased_too():
    """A role names it, and no event does. A namesake at another issuer makes it two."""
    grant = {"issuer": server.people.url, "subject": "erin", "role": "consumer", "scope": "main/models"}
    role = admin().api("POST", "/bindings", grant)
    other = admin().api("POST", "/bindings", {**grant, "issuer": "https://other.example"})
    assert "2 issuers have a subject of this name" in sijil("ann", "admin", "erase", at, "erin", code=1)
    plan = sijil("ann", "admin", "erase", at, "erin", "--issuer", server.people.url, "--json")
    assert plan["events"] == 0 and {row["rule"] for row in plan["refused"]} == {"ERASURE-ROLE"}, plan
    for binding in (role, other):
        admin().api("DELETE", f"/bindings/{binding['id']}")
    pseudonym = sijil("ben", "admin", "erase", at, "erin", "--issuer", server.people.url, "--json")["pseudonym"]
    assert pseudonym == plan["pseudonym"]
    Client(server, state["auditor"]).api("POST", "/audit/exports", {"key": "act:" + pseudonym, "nonce": "0123456789abcdef" * 2})  # is no event of the person
    named = f"WHERE pseudonym = '{pseudonym}'"
    row = server.sql(f"SELECT subject::text || ' ' || binding_id::text FROM audit_named {named}")
    for change in (f"binding_id = '{other['id']}'", "subject = decode(repeat('ab', 32), 'hex')"):  # the database names somebody else
        server.sql(f"UPDATE audit_named SET {change} {named}")
        answer = Client(server, people["ben"]["login"]).call("POST", "/api/v1/erasures/plan", json.dumps({"subject": pseudonym}),
                                                             {"Content-Type": "application/json"}, scope="registry:admin:*")
        assert answer.status == 500, (change, answer.status, answer.body)
        server.sql(f"UPDATE audit_named SET binding_id = '{row.split()[1]}', subject = '{row.split()[0]}' {named}")
    for by in ("ann", "ben"):
        sign(by, "erin", "--issuer", server.people.url)
    await_done(pseudonym)
    assert server.sql(f"SELECT subject, salt IS NULL FROM binding WHERE binding_id = '{role['id']}'") == f"erased:{pseudonym}|t", "with the salt anybody tries names against the event of the grant"
    assert server.sql("SELECT count(*) FROM audit_named") == "0"
    assert server.sql(f"SELECT subject FROM binding WHERE binding_id = '{other['id']}'") == "erin"  # the namesake is somebody else
    assert "ERASURE-SELF" in sign("ann", "erin", "--issuer", "https://other.example", code=4)  # but it may be ann, as long as no document separates them
    server.sql("DELETE FROM audit_named")  # of this plan
    assert "the person was erased" in sijil("ann", "admin", "erase", at, pseudonym, code=1)
    assert "neither a role nor SCIM names it" in sijil("ann", "admin", "erase", at, "erin", "--issuer", server.people.url, code=3)
    os.remove(os.path.join(folder.name, "certificate.json"))  # of another person
    said = check_certificate(certificate(pseudonym))
    assert "Stage 1 of 2" in said and pseudonym in said, said


def a_person_of_scim_that_never_acted_is_erased_too():
    """No event and no role names it: its row of SCIM does, and its names are sealed under its key."""
    robot = admin().api("POST", "/robots", {"name": "scim"})
    path = os.path.join(folder.name, "scim.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"name": "hr", "issuer": server.people.url, "claim": "/sub", "client": "robot:" + robot["id"], "deactivations": 5, "others": "admit"}, file)
    sijil("admin", "login", at, "--username", server.admin[0], "--ca-file", server.ca_file, given=server.admin[1])
    assert "in force" in sijil("admin", "admin", "scim", "draft", at, path, "--key", root_key)
    headers = {"Authorization": "Basic " + base64.b64encode(f"{robot['name']}:{robot['secret']}".encode()).decode(), "Content-Type": "application/scim+json"}
    user = {"schemas": ["urn:ietf:params:scim:schemas:core:2.0:User"], "userName": "olga", "externalId": "id-of-olga"}
    made = server.client().call("POST", "/scim/v2/Users", json.dumps(user), headers)
    assert made.status == 201, made.body
    plan = sijil("ann", "admin", "erase", at, "id-of-olga", "--json")
    assert plan["events"] == 0 and {row["rule"] for row in plan["refused"]} == {"ERASURE-ROLE"}, plan
    assert server.client().call("DELETE", "/scim/v2/Users/" + made.json["id"], headers=headers).status == 204
    for by in ("ann", "ben"):
        sign(by, "id-of-olga")
    await_done(plan["pseudonym"])
    assert server.sql("SELECT count(*) FROM scim_user") == server.sql("SELECT count(*) FROM audit_named") == "0"
    assert "nobody of this name has acted" in sijil("ann", "admin", "erase", at, "id-of-olga", code=3)
    sijil("admin", "admin", "scim", "revoke", at, "hr", "--reason", "a test", "--key", root_key)


def a_person_that_acts_after_its_plan_keeps_the_pseudonym():
    people["finn"] = {"login": make_person(server, "finn", "consumer", "main/models")}
    planned = plan_of("finn")
    assert planned["events"] == 0, planned
    act("finn", 3)
    assert {event["entry"]["actor"] for event in events(actor="finn")} == {planned["pseudonym"]}
    end_roles("finn")
    for by in ("ann", "ben"):
        sign(by, "finn")
    await_done(planned["pseudonym"])
    assert events(actor="finn") == [] and server.sql("SELECT count(*) FROM audit_named") == "0"


def a_person_that_comes_back_is_another_one():
    os.remove(os.path.join(server.people.folder, "people", "alice"))  # the issuer gives her a new password
    admin().api("POST", "/bindings", {"issuer": server.people.url, "subject": "alice", "role": "consumer", "scope": "main/models"})
    people["alice"] = {"login": sijil_test.Person(("oidc", server.people.fetch("/token", login=("alice", server.people.add("alice")))["id_token"]))}
    act("alice", 3)
    found = {event["entry"]["actor"] for event in events(actor="alice")}
    assert len(found) == 1 and found != {state["alice"]}, found


def the_whole_log_is_sound_after_all_of_that():
    """Offline, from a dump: parts that erasures took are no finding, and the index that was made anew is whole."""
    wait_until(lambda: server.sql("SELECT s.indexed = l.size AND EXISTS (SELECT FROM audit_checkpoint c WHERE c.size = l.size) FROM audit_log l, audit_search s")
               == "t", 60, "the log does not come to rest")
    database, dump = os.path.join(folder.name, "database"), os.path.join(folder.name, "log.dump")
    with open(f"/proc/{min(server.processes('postgres'))}/cmdline", "rb") as file:
        words = [word.decode() for word in file.read().split(b"\0")]
    sockets = next(word.split("=", 1)[1] for word in words if word.startswith("--unix_socket_directories="))
    with open(database, "w", encoding="ascii", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
        file.write(f"host={sockets} user=postgres dbname=sijil\n")
    subprocess.run([sijil_test.program("sijil-audit-dump"), "--database=" + database, "--output=" + dump], check=True, capture_output=True, timeout=120)
    done = subprocess.run([sijil_test.program("sijil-verify"), "fsck", "--key", sijil("auditor", "audit", "key", at).strip(), "--json", dump],
                          capture_output=True, text=True, timeout=120)
    answer = json.loads(done.stdout)
    assert done.returncode == 0 and answer["verified"] and answer["erased"] >= 30 and answer["found"] == {}, (answer, done.stderr)


prepare()
run(a_person_gets_a_copy_of_what_is_held, an_exposure_lists_what_was_done_and_by_what_was_made, an_exposure_of_a_person_whose_name_looks_like_a_token_or_a_certificate,
    a_plan_tells_what_goes_and_what_stays, an_auditors_export_is_no_event_of_the_person, only_approvers_may_ask, neither_roles_nor_young_events_are_passed_over, policies_keep_events, two_other_persons_sign, nobody_erases_its_own_robots, a_hold_stops_it, holds_of_content_are_signed,
    an_entry_without_its_bytes_leads_to_the_key, the_second_signature_erases, a_dump_of_the_database_has_no_name, proofs_and_exports_still_verify, the_continuous_check_does_not_complain,
    a_certificate_is_checked_offline, a_copy_from_before_gives_her_back_until_the_epoch_ends, no_file_of_the_registry_gives_her_back, kills_at_each_step_lead_to_one_end,
    a_person_with_a_role_again_keeps_nobody_waiting, a_person_that_never_acted_is_erased_too, a_person_of_scim_that_never_acted_is_erased_too,
    a_person_that_acts_after_its_plan_keeps_the_pseudonym,
    a_person_that_comes_back_is_another_one, the_whole_log_is_sound_after_all_of_that, server=server)
