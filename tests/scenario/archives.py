#!/usr/bin/env python3
"""Old entries of the log in a region: two gateways, whose region is a bucket. The entries are listed, searched, walked and proven as before, also after
the owner of the database has released their partition; a sink and detection that are behind read them, too; and nothing but the true bytes is shown when the
bucket lies or is away. A dump leaves out the bytes of released entries, and says so; the verifier reads them."""
import base64
import json
import os
import re
import subprocess
import threading
import time

import sijil_test
from fleet import BucketFleet
from signing_keys import DAY, canonical, utc
from sijil_test import wait_until
from small_store import SmallStore

PIECE, SIZE = 4096, 4300
REPOSITORY, REGION = "main/models/archived", "local/main"
state = {}


class Archives(BucketFleet):
    MORE = ' endpoint_networks = "127.0.0.0/8"\n'


fleet = Archives(2, SmallStore(), audit_verify_rate=1000000)
fleet.settings["delivery_folder"] = fleet.path("delivered")


def make_small_partitions():
    """Partitions have 16,777,216 entries; here the first one has 4,096."""
    fleet.psql.ask("""SET ROLE sijil_owner; BEGIN; ALTER TABLE audit_entry DETACH PARTITION audit_entry_0; ALTER TABLE audit_entry_0 RENAME TO whole;
                      CREATE TABLE audit_entry_0 (LIKE audit_entry INCLUDING ALL); CREATE TABLE audit_entry_rest (LIKE audit_entry INCLUDING ALL);
                      ALTER TABLE audit_entry ATTACH PARTITION audit_entry_0 FOR VALUES FROM (0) TO (4096);
                      ALTER TABLE audit_entry ATTACH PARTITION audit_entry_rest FOR VALUES FROM (4096) TO (16777216);
                      INSERT INTO audit_entry SELECT * FROM whole; DROP TABLE whole; COMMIT; RESET ROLE""")


def read_often(count):
    client, link = fleet.clients(state["login"])[count % 2], fleet.clients(state["login"])[count % 2].connection()
    for _ in range(count):
        assert client.call("HEAD", f"/v2/{REPOSITORY}/blobs/{state['digest']}", connection=link, scope=f"repository:{REPOSITORY}:pull").status == 200
    link.close()


def size():
    return int(fleet.psql.ask("SELECT size FROM audit_log"))


def auditors():
    return fleet.clients(state["auditor"])


def pages(client, query):
    """All events of a list or a search before PIECE, in ascending order."""
    events, after = [], ""
    while True:
        page = client.api("GET", f"/audit/events?order=ascending&limit=1000&{query}{after}")
        events += [event for event in page["events"] if event["seq"] < PIECE]
        if "next" not in page or len(events) == PIECE or (page["events"] and page["events"][-1]["seq"] >= PIECE):
            return events
        after = "&after=" + page["next"]


def seen(client):
    """Everything that is known of the first piece, in each way in which it can be read."""
    entries = [client.call("GET", f"/audit/tile/entries/{number:03}", scope="registry:admin:*") for number in range(PIECE // 256)]
    assert [answer.status for answer in entries] == [200] * len(entries)
    return {"list": pages(client, ""), "key": pages(client, f"key=res:{REPOSITORY}"), "denied": pages(client, "outcome=denied"),
            "search": pages(client, f"resource={REPOSITORY}&action=blob.stat&address=127.0.0.1"), "entries": [answer.body for answer in entries],
            "facts": client.api("GET", f"/audit/events/{PIECE - 3}?facts=true"),
            "entry": client.call("GET", f"/api/v1/audit/events/{PIECE - 3}/entry", scope="registry:admin:*").body}


def old_page(client):
    """How long a page of 100 old events that meet three conditions takes, in ms: the quickest of five."""
    waits = []
    for _ in range(5):
        began = time.monotonic()
        page = client.api("GET", f"/audit/events?order=ascending&limit=100&resource={REPOSITORY}&action=blob.stat&address=127.0.0.1")
        waits.append(1000 * (time.monotonic() - began))
        assert len(page["events"]) == 100 and page["events"][-1]["seq"] < PIECE, page
    return min(waits)


def archive(before, region=REGION, login=None, status=200):
    client = fleet.client(login or fleet.admin)
    answer = client.call("POST", "/api/v1/audit/archives", json.dumps({"before": before, "region": region}), {"Content-Type": "application/json"},
                         scope="registry:admin:*")
    assert answer.status == status, (answer.status, answer.body)
    return answer.json


def environment_of():
    return {**os.environ, "HOME": fleet.root, "XDG_CONFIG_HOME": fleet.path("client")}


def command(*words, code=0, given=""):
    """`sijil WORDS` of the last login: what it prints."""
    done = subprocess.run([sijil_test.program("sijil"), *words], input=given + "\n", text=True, capture_output=True, env=environment_of(), timeout=120)
    assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
    return done.stdout + done.stderr


def a_log_fills():
    os.mkdir(fleet.path("delivered"))
    fleet.start()
    make_small_partitions()
    state["login"] = sijil_test.make_robot(fleet, "ci", "publisher", "main/models")
    state["auditor"] = sijil_test.make_robot(fleet, "auditor", "auditor", "")
    fleet.wait_known(state["login"], REPOSITORY)
    place = fleet.clients(state["login"])[0].repository(REPOSITORY)
    state["digest"] = place.push_blob(b"read very often")
    assert place.put_manifest("v1", place.manifest(b"read very often")).status == 201
    threads = [threading.Thread(target=read_often, args=((SIZE - size()) // 4 + 1 + number % 2,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert size() > PIECE
    wait_until(lambda: int(fleet.psql.ask("SELECT indexed FROM audit_search")) > PIECE, 60, "the index of searches is behind")
    state["seen"] = seen(auditors()[0])
    assert len(state["seen"]["list"]) == PIECE and len(state["seen"]["search"]) > 3000
    state["old page"] = old_page(auditors()[0])


def only_an_allowed_region_gets_entries():
    archive(str(PIECE), login=state["auditor"], status=403)
    archive("never", status=400)
    refused = archive(str(PIECE), status=403)  # the set permits log, and not backup
    event = auditors()[0].api("GET", "/audit/events?order=descending&action=audit.archive&outcome=denied")["events"][0]
    assert event["entry"]["rgn"] == REGION and event["entry"]["why"]["rules"][0] == "SYS-CLOSED" and "SYS-CLOSED" in json.dumps(refused), (refused, event)
    assert fleet.psql.ask("SELECT count(*) FROM audit_archive") == "0"
    load_policies(2, "backup", "export")


def objects():
    return int(fleet.store.requests()[-1].split()[-2])


def load_policies(epoch, *more):
    answer = fleet.client(fleet.admin).call("POST", "/api/v1/policies", fleet.policy_set(epoch, ("ingest", "mount", "read", "metadata", "log", *more)),
                                            {"Content-Type": "application/json"}, scope="registry:admin:*")
    assert answer.status in (200, 201), (answer.status, answer.body)


def what_a_set_forbids_while_bytes_move_is_not_noted():
    """Decided at the start, and again at the commit under the epoch: nothing is left of the piece that was on its way."""
    before, answers, requests = objects(), [], len(fleet.store.requests())
    fleet.psql.ask("BEGIN; LOCK TABLE audit_archive IN ACCESS EXCLUSIVE MODE")
    moving = threading.Thread(target=lambda: answers.append(archive(str(PIECE), status=403)))
    moving.start()
    try:
        wait_until(lambda: fleet.psql.ask("SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'audit_archive'::regclass") != "0", 60, "no piece is begun")
        load_policies(3)
    finally:
        fleet.psql.ask("COMMIT")
    moving.join()
    assert "SYS-CLOSED" in json.dumps(answers[0]), answers
    assert any(line.startswith("DELETE ") for line in fleet.store.requests()[requests:]), "no piece was written"
    assert fleet.psql.ask("SELECT count(*) FROM audit_archive") == "0" and objects() == before, "the refused piece is there still"
    acts = [event["entry"]["out"] for event in auditors()[0].api("GET", "/audit/events?order=descending&action=audit.archive")["events"]]
    assert acts[0] == "denied" and acts[1] == "allowed", acts
    load_policies(4, "backup", "export")


def a_partition_is_released_after_it_was_archived():
    try:
        fleet.psql.ask("CALL audit_release_archived('audit_entry_0')")
        assert False, "what is not archived was released"
    except AssertionError as why:
        assert "not all entries" in str(why), why
    before = len(fleet.store.requests())
    at = f"127.0.0.1:{fleet.port}"
    command("login", at, "--username", fleet.admin[0], "--ca-file", fleet.ca_file, given=fleet.admin[1])
    assert "--before NUMBER|TIME and --region REGION are both needed" in command("admin", "audit", "archive", at, "--before", "7", code=2)
    assert "0 entries were archived now; all entries before 0 are" in command("admin", "audit", "archive", at, "--before", "90d", "--region", REGION)
    said = command("admin", "audit", "archive", at, "--before", str(PIECE + 10), "--region", REGION)
    assert f"{PIECE} entries were archived now; all entries before {PIECE} are in a region, too" in said, said
    assert archive(str(PIECE + 10)) == {"archived": 0, "archived_to": PIECE, "done": True}
    again = command("admin", "audit", "archive", at, "--before", str(PIECE + 10), "--region", REGION, "--json")
    assert json.loads(again) == {"archived": 0, "archived_to": PIECE, "done": True}, again
    assert any(" GET " in f" {line} " for line in fleet.store.requests()[before:]), "it was not read back"
    fleet.psql.ask("SET ROLE sijil_owner; CALL audit_release_archived('audit_entry_0'); RESET ROLE")
    fleet.psql.ask("CALL audit_release_archived('audit_entry_0')")  # once more, as the administrator of the database
    assert fleet.psql.ask("SELECT pg_get_userbyid(relowner) FROM pg_class WHERE relname = 'audit_entry_0'") == "sijil_owner"
    empty, kept = (int(fleet.psql.ask(f"SELECT count(*) FROM audit_entry WHERE seq < {PIECE} AND leaf {how} ''")) for how in ("=", "<>"))
    assert empty > 3900 and kept > 0 and empty + kept == PIECE, (empty, kept)
    assert fleet.psql.ask("SELECT count(*) FROM pg_inherits WHERE inhparent = 'audit_entry'::regclass") == "3"


def it_is_read_as_before():
    for client in auditors():
        again = seen(client)
        for what, before in state["seen"].items():
            assert again[what] == before, (what, len(before))
    proof = auditors()[1].call("GET", f"/api/v1/audit/events/{PIECE - 3}/proof", scope="registry:admin:*")
    assert proof.status == 200 and proof.body.startswith(b"c2sp.org/tlog-proof@v1\n"), (proof.status, proof.body[:200])
    print(f"     a page of 100 old events takes {state['old page']:.1f} ms from the database, {old_page(auditors()[0]):.1f} ms from the bucket", flush=True)
    read_often(10)  # appends find the last entry of each key


def put_sink():
    """A sink that is a file, signed by the root."""
    kind, now = "application/vnd.sijil.audit-sink.v1+json", time.time()
    body = {"transport": "file", "region": REGION, "address": "old.ndjson", "classes": {"api-activity": [], "authentication": [], "application-lifecycle": []}}
    document = canonical({"schema": "sijil.document/v1", "kind": "audit-sink", "scope": "", "name": "old", "version": 1, "effective_from": utc(now - 1),
                          "expires": utc(now + 30 * DAY), "body": body})
    made = subprocess.run(["openssl", "dgst", "-sha256", "-sign", fleet.path("approver.pem")], check=True, capture_output=True,
                          input=b"DSSEv1 %d %s %d %s" % (len(kind), kind.encode(), len(document), document))
    fleet.client(fleet.admin).api("POST", "/audit/sinks", {"payloadType": kind, "payload": base64.b64encode(document).decode(),
                                                           "signatures": [{"sig": base64.b64encode(made.stdout).decode()}]})
    wait_until(lambda: fleet.psql.ask("SELECT count(*) FROM audit_sink") == "1", 60, "no gateway delivers to the sink")


def sink(columns):
    return fleet.psql.ask(f"SELECT {columns} FROM audit_sink")


def set_behind(until=SIZE):
    fleet.psql.ask("UPDATE audit_sink SET first = 0, next = 0")
    wait_until(lambda: int(sink("next")) >= until, 120, "the sink does not go on")


def a_sink_that_is_behind_gets_released_entries():
    put_sink()
    set_behind()
    with open(fleet.path("delivered/old.ndjson"), encoding="utf-8") as file:
        lines = [json.loads(line) for line in file.read().splitlines()]
    whole = {line["metadata"]["sequence"]: json.loads(line["raw_data"]) for line in lines if "metadata" in line}
    known = set(whole) | {number for line in lines if "withheld" in line for number in range(line["first"], line["last"] + 1)}
    assert set(range(SIZE)) <= known and len([number for number in whole if number < PIECE]) > 3000, (len(known), len(whole))
    assert all(leaf["seq"] == number for number, leaf in whole.items())


def a_sink_says_that_a_region_is_away():
    plan({"how": "403", "count": 100000, "only": "GET"})
    fleet.psql.ask("UPDATE audit_sink SET first = 0, next = 0")
    wait_until(lambda: sink("problem").startswith("on this side: "), 60, "nothing says why the sink gets nothing")
    assert sink("next") == "0", "an event was left out"
    plan({})
    wait_until(lambda: int(sink("next")) >= SIZE and sink("problem") == "", 120, "the sink does not go on")


def detection_that_is_behind_reads_released_entries():
    """From this start on the verifier begins a round each second: earlier ones would read the whole log for nothing."""
    for number in range(2):
        fleet.stop_gateway(number)
    with open(fleet.path("sijild.conf"), encoding="utf-8") as file:
        text = file.read()
    with open(fleet.path("sijild.conf"), "w", encoding="utf-8") as file:
        file.write("audit_verify_rest = 1\n" + text)
    fleet.psql.ask("UPDATE audit_detection SET at = 100, done = 0")
    for number in range(2):
        fleet.start_gateway(number)
    for number in range(2):
        fleet.wait_for_gateway(number)
    wait_until(lambda: int(fleet.psql.ask("SELECT at FROM audit_detection")) >= SIZE, 120, "detection does not go on")
    assert [gateway.poll() for gateway in fleet.gateways] == [None, None], "a gateway has ended"


def rounds(number):
    text = sijil_test.Client(fleet, None, fleet.ports[number]).call("GET", "/metrics").body.decode()
    assert "sijil_audit_forked 0\n" in text
    return int(float(next(line.split()[1] for line in text.splitlines() if line.startswith("sijil_audit_verify_rounds_total "))))


def the_verifier_reads_archived_entries():
    before = len(fleet.store.requests()), rounds(1)
    wait_until(lambda: rounds(1) > before[1], 300, "the verifier does not end its round")
    assert any(" GET " in f" {line} " for line in fleet.store.requests()[before[0]:]), "the verifier did not read the bucket"


def dump_and_check():
    """The dump, what was said while it was made, and the answers of fsck as text and as JSON."""
    database, path = (os.path.join(fleet.root, name) for name in ("dump-database", "log.dump"))
    if not os.path.exists(database):
        with open(database, "w", encoding="ascii", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(f"host={fleet.database_at} user=archives_dumper dbname=sijil_template\n")
    wait_until(lambda: fleet.psql.ask("SELECT s.indexed = l.size AND EXISTS (SELECT FROM audit_checkpoint c WHERE c.size = l.size)"
                                      " FROM audit_log l, audit_search s") == "t", 60, "the log does not come to rest")
    made = subprocess.run([sijil_test.program("sijil-audit-dump"), "--database=" + database, "--output=" + path], capture_output=True, text=True, timeout=120)
    assert made.returncode == 0, made.stderr
    return made.stderr, verify("fsck", path), verify("fsck", path, "--json")


def verify(command, path, *more):
    done = subprocess.run([sijil_test.program("sijil-verify"), command, "--key", state["vkey"], *more, path], capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout, done.stderr


# The peak of a child counts what its parent had when it was made, so the parent is a small one.
PEAK = """import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"""


def an_export_takes_memory_for_a_page():
    """However long it is: the gateway makes pages of a megabyte, and the client takes no more for twice the lines."""
    client, at, peaks, sizes = auditors()[0], f"127.0.0.1:{fleet.port}", {}, {}
    command("login", at, "--username", state["auditor"][0], "--ca-file", fleet.ca_file, given=state["auditor"][1])
    environment = {**environment_of(), "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=0:thread_local_quarantine_size_kb=0"}
    for end in (PIECE // 2, PIECE):
        path = fleet.path(f"to-{end}")
        words = ["audit", "export", at, "--key", f"res:{REPOSITORY}", "--to", str(end), "-o", path]
        done = subprocess.run(["/usr/bin/python3", "-c", PEAK, sijil_test.program("sijil"), *words], env=environment, stdout=subprocess.PIPE, text=True, check=True, timeout=300)
        peaks[end], sizes[end] = int(done.stdout), os.path.getsize(path)
    print(f"     files of {sizes[PIECE // 2]} and {sizes[PIECE]} bytes, {peaks[PIECE // 2]} and {peaks[PIECE]} KiB")
    assert sizes[PIECE] - sizes[PIECE // 2] > 1 << 20 and peaks[PIECE] - peaks[PIECE // 2] < 1024, (sizes, peaks)
    made = client.api("POST", "/audit/exports", {"key": f"res:{REPOSITORY}", "nonce": "0123456789abcdef" * 2, "to": str(PIECE)})
    first = client.call("GET", f"/api/v1/audit/exports/{made['number']}/lines", scope="registry:admin:*")
    assert first.status == 200 and 1 << 19 < len(first.body) <= 1 << 20, (first.status, len(first.body))


def a_dump_says_what_it_leaves_out():
    """Neither damage nor a silent pass; and bytes that are gone of an event that a tag follows from are found."""
    state["vkey"] = auditors()[0].api("GET", "/audit/key")["vkey"]
    fleet.psql.ask("CREATE ROLE archives_dumper LOGIN; GRANT CONNECT ON DATABASE sijil_template TO archives_dumper;"
                   " SET ROLE sijil_owner; SELECT grant_audit_dump('archives_dumper'); RESET ROLE")
    first, last, count = (int(word) for word in fleet.psql.ask("SELECT min(seq) || ' ' || max(seq) || ' ' || count(*) FROM audit_entry WHERE leaf = ''").split())
    told, (code, said, why), (as_json, answer, _) = dump_and_check()
    assert f"{count} entries from {first} to {last}" in told, told
    assert code == 0 and said.startswith("Sound as far as the dump goes") and f"{count} entries from {first} to {last}: archived" in said, said + why
    report = json.loads(answer)
    assert as_json == 0 and report["verified"] and report["released"] == count and report["unreadable"] == 0 and report["tags"] == 1, report
    path = os.path.join(fleet.root, "log.dump")
    code, said, why = verify("replay-keys", path)
    assert code == 1 and said == "" and f"{count} entries" in why, (code, said, why)
    assert verify("fsck", path, "--witness-policy=" + path)[0] == 2 and verify("replay-keys", path, "--witness-policy=" + path)[0] == 2
    pushed = fleet.psql.ask("SELECT max(seq) FROM audit_entry WHERE action = 'manifest.push'")
    fleet.psql.ask(f"CREATE TABLE kept AS SELECT * FROM audit_entry WHERE seq = {pushed}; UPDATE audit_entry SET leaf = '' WHERE seq = {pushed}")
    _, (code, said, _), (_, answer, _) = dump_and_check()
    fleet.psql.ask("UPDATE audit_entry e SET leaf = k.leaf FROM kept k WHERE k.seq = e.seq; DROP TABLE kept")
    assert code == 1 and re.search(rf"^  {pushed}  entry: it has no bytes", said, re.M), said
    assert not json.loads(answer)["verified"]


def metric(name):
    text = sijil_test.Client(fleet, None, fleet.ports[1]).call("GET", "/metrics").body.decode()
    return float(next(line.split()[1] for line in text.splitlines() if line.startswith(name + " ")))


def the_verifier_compares_rows_with_released_entries():
    assert metric("sijil_audit_rows_wrong") == 0, "the tag was pushed by an archived event"
    assert metric("sijil_audit_search_missing") == 0
    fleet.psql.ask("CREATE TABLE kept AS SELECT * FROM audit_post WHERE block = 0; DELETE FROM audit_post WHERE block = 0")
    wait_until(lambda: metric("sijil_audit_search_missing") > 3900, 300, "a search does not find released entries, and nobody says so")
    fleet.psql.ask("INSERT INTO audit_post SELECT * FROM kept; DROP TABLE kept")


def no_false_byte_is_shown_while_the_bucket_fails():
    client, old = auditors()[0], int(fleet.psql.ask("SELECT max(seq) FROM audit_entry WHERE leaf = ''"))
    for how, status in (("403", 503), ("lost", 500)):
        plan({"how": how, "count": 100000, "only": "GET"})
        answer = client.call("GET", f"/api/v1/audit/events/{old}", scope="registry:admin:*")
        assert answer.status == status and b'"entry"' not in answer.body, (how, answer.status, answer.body)
        assert client.api("GET", f"/audit/events/{SIZE}")["seq"] == SIZE, "entries that are not archived"
        read_often(3)
    plan({})
    assert client.api("GET", f"/audit/events/{old}")["seq"] == old


def plan(content):
    with open(fleet.store.root + "/plan.new", "w", encoding="utf-8") as file:
        json.dump(content, file)
    os.rename(fleet.store.root + "/plan.new", fleet.store.root + "/plan")


def a_false_leaf_in_its_place_is_found():
    """The owner of the database writes an archived entry again, with other bytes."""
    fleet.psql.ask("UPDATE audit_entry SET leaf = '{}' WHERE seq = (SELECT min(seq) FROM audit_entry WHERE leaf = '')")
    wait_until(lambda: sijil_test.Client(fleet, None, fleet.ports[0]).call("GET", "/readyz").status == 503, 300, "a false leaf is not found")


sijil_test.run(a_log_fills, only_an_allowed_region_gets_entries, what_a_set_forbids_while_bytes_move_is_not_noted, a_partition_is_released_after_it_was_archived, it_is_read_as_before,
               a_sink_that_is_behind_gets_released_entries, a_sink_says_that_a_region_is_away, detection_that_is_behind_reads_released_entries,
               no_false_byte_is_shown_while_the_bucket_fails, the_verifier_reads_archived_entries, an_export_takes_memory_for_a_page, a_dump_says_what_it_leaves_out,
               the_verifier_compares_rows_with_released_entries, a_false_leaf_in_its_place_is_found, server=fleet)
