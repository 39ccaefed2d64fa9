"""Copies of content in further regions (docs/replication.md): cases of the scenario `buckets`, on its two gateways, its store, and two folders."""
import json
import os
import signal

import sijil_test
from region_cases import REGION, approve, rows, sijil, world
from sijil_test import sha256, wait_until

MIB = 1 << 20
HOME, FOLDER, KEYED = "on-prem/a", "on-prem/b", "onprem/dc9"  # the last one has a sijil-keyd of its own (region_keyd_cases.py)
PROJECT, REPOSITORY = "main/copied", "main/copied/model"
SMALL = os.urandom(300000)
ME = "(SELECT project_id FROM project WHERE name = 'copied')"
state = {}


def ask(sql):
    return world["fleet"].psql.ask(sql)


def copies():
    return {row["region"]: row for row in sijil("admin", "project", "copies", "HOST", PROJECT, "--json")}


def is_current(*regions):
    wait_until(lambda: {copies()[region]["state"] for region in regions} == {"current"}, 90, f"the copies are not made: {copies()}")


def rows_of(digest):
    """{region: wrapped key} of the content."""
    found = ask(f"SELECT coalesce(string_agg(region_id || ' ' || encode(wrapped_key, 'hex'), ','), '') FROM blob WHERE project_id = {ME} AND digest = '{digest}'")
    return dict(one.split(" ") for one in found.split(",") if one)


def push(content, tag):
    place = state["place"]
    place.push_blob(content)
    answer = place.put_manifest(tag, place.manifest(content))
    assert answer.status == 201, (answer.status, answer.body)
    return sha256(content)


def with_policy(name, rule):
    """The set in force with one more policy for the project: a draft."""
    document = json.loads(sijil("policy", "show", "HOST", "--document"))
    document["policies"].append({
        "apiVersion": "sijil.policy/v1", "kind": "ResidencyPolicy", "closed": False, "rules": [rule],
        "metadata": {"id": name, "version": 1, "scope": [PROJECT + "/**"], "effective_from": "2020-01-01T00:00:00Z", "review_by": "2099-01-01"}})
    path = world["fleet"].path(name + ".json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(document, file)
    return sijil("policy", "draft", "HOST", path, "--json")


def permit():
    """The tests' set is closed: it permits no copies. More is permitted only by a set that the root signs."""
    fleet, path = world["fleet"], world["fleet"].path("permit.json")
    document = json.loads(sijil("policy", "show", "HOST", "--document"))
    for rule in (rule for policy in document["policies"] for rule in policy["rules"] if rule["effect"] == "permit"):
        rule["ops"] = sorted({*rule["ops"], "replicate"})
    with open(path, "w", encoding="utf-8") as file:
        json.dump(document, file)
    epoch = fleet.client(fleet.admin).api("GET", "/policies")["epoch"] + 1
    sijil("policy", "sign", "--key", fleet.path("approver.pem"), "--epoch", str(epoch), "--output", fleet.path("permit.dsse"), path)
    with open(fleet.path("permit.dsse"), encoding="utf-8") as file:
        fleet.client(fleet.admin).api("POST", "/policies", json.load(file))
    wait_until(lambda: all(client.api("GET", "/policies")["epoch"] == epoch for client in fleet.clients(fleet.admin)), 30, "the set is not in force")


def unmet():
    return [line.strip().split("  ")[1] for line in sijil("admin", "gc", "HOST", PROJECT, "--dry-run").splitlines() if line.strip().startswith("unmet:")]


def content_is_copied_into_further_regions_under_keys_of_theirs():
    fleet = world["fleet"]
    admin = fleet.client(fleet.admin)
    approve(sijil("region", "add", "HOST", FOLDER, "--geo", "AE/AZ", "--regime", "ADGM", "--json"))
    wait_until(lambda: all(rows(number, FOLDER) and rows(number, FOLDER)[0]["served"] for number in (0, 1)), 60, "the region is not served")
    admin.api("POST", "/projects", {"organisation": "main", "name": "copied", "region": HOME})
    state["login"] = sijil_test.make_robot(fleet, "copied", "publisher", PROJECT)
    fleet.wait_known(state["login"], REPOSITORY)
    state["place"] = fleet.clients(state["login"])[0].repository(REPOSITORY)
    state["small"], lonely = push(SMALL, "v1"), state["place"].push_blob(b"no manifest refers to this")
    approve(with_policy("three-sites", {"id": "C-SITES", "effect": "oblige", "ops": ["ingest"],
                                        "oblige": {"min_sites": 3, "anchor_copy": {"geo_within": ["AE/DU"], "max_staleness_s": 3600}}}))
    wait_until(lambda: unmet() == ["min_sites 3: 1", "anchor_copy 1: 0"], 30, "nobody misses copies")
    permit()
    assert "home region" in sijil("admin", "project", "replicate", "HOST", PROJECT, HOME, code=1)
    assert "no region" in sijil("admin", "project", "replicate", "HOST", PROJECT, "no/such", code=3)
    told = [fleet.client(state["login"]).api("POST", f"/projects/{PROJECT}/copies", {"region": region}, expect=(403, 404)) for region in ("no/such", REGION)]
    assert told[0]["title"] == told[1]["title"] and told[0]["status"] == told[1]["status"], f"a publisher learns which regions there are: {told}"
    assert sijil("admin", "project", "replicate", "HOST", PROJECT, REGION, "--json") == {"project": PROJECT, "region": REGION}
    for region in (FOLDER, KEYED):
        sijil("admin", "project", "replicate", "HOST", PROJECT, region)
    is_current(REGION, FOLDER, KEYED)
    found = rows_of(state["small"])
    assert set(found) == {HOME, REGION, FOLDER, KEYED} and len(set(found.values())) == 4, found
    assert set(rows_of(lonely)) == {HOME}, "what no manifest refers to was copied"
    shown = copies()[FOLDER]
    assert shown["blobs"] == 2 and shown["bytes"] == len(SMALL) + 2 and shown["waiting_blobs"] == 0, shown
    kept = [event["entry"] for event in admin.api("GET", "/audit/events?action=copy.write&order=descending&limit=50")["events"]]
    of_small = [entry for entry in kept if state["small"] in json.dumps(entry) and f'"{FOLDER}"' in json.dumps(entry)]
    assert sorted(entry["out"] for entry in of_small) == ["allowed", "completed"] and all(HOME in json.dumps(entry) for entry in of_small), kept
    assert ask("SELECT count(*) FROM copying") == "0" and unmet() == [], unmet()


def a_copy_that_does_not_verify_is_made_anew():
    there = f"FROM blob WHERE project_id = {ME} AND region_id = '{FOLDER}' AND digest = '{state['small']}'"
    before = ask("SELECT blob_id " + there)
    ask(f"WITH bad AS (UPDATE blob SET damaged_at = now() WHERE blob_id = '{before}') UPDATE project_copy SET reviewed_version = 0, due_at = now()"
        f" WHERE project_id = {ME} AND region_id = '{FOLDER}' RETURNING 1")
    wait_until(lambda: ask(f"SELECT count(*) {there} AND damaged_at IS NULL AND blob_id <> '{before}'") == "1", 60, "the damaged copy stays")


def pulls(number=0):
    place = world["fleet"].clients(state["login"])[number].repository(REPOSITORY)
    whole, part = place.call("GET", f"blobs/{state['small']}"), place.call("GET", f"blobs/{state['small']}", headers={"Range": "bytes=100-70000"})
    return [(answer.status, answer.body) for answer in (whole, part, place.call("HEAD", f"blobs/{state['small']}"), place.call("GET", "manifests/v1"))]


def pulls_go_on_from_a_copy_while_the_home_region_is_closed():
    fleet = world["fleet"]
    before = pulls()
    assert [status for status, _ in before] == [200, 206, 200, 200] and before[0][1] == SMALL and before[1][1] == SMALL[100:70001], [len(body) for _, body in before]
    mark = fleet.path("recorded/on-prem-a/sijil-region")
    os.rename(mark, mark + ".away")
    sijil("region", "check", "HOST", HOME, "--json", code=6)
    wait_until(lambda: all([status for status, _ in pulls(number)] == [200, 206, 200, 200] for number in (0, 1)), 30, f"pulls end: {pulls()}")
    assert pulls() == before
    newest = fleet.client(fleet.admin).api("GET", "/audit/events?action=blob.read&order=descending&limit=1")["events"][0]["entry"]
    assert f'"{REGION}"' in json.dumps(newest), newest
    answer = state["place"].call("POST", "blobs/uploads/")
    assert answer.status == 403 and b"SYS-QUARANTINE" in answer.body, (answer.status, answer.body)
    assert copies()[FOLDER]["blobs"] == 2, "a quarantine has withdrawn copies"
    os.rename(mark + ".away", mark)
    assert sijil("region", "check", "HOST", HOME, "--json")["agrees"]
    wait_until(lambda: state["place"].call("POST", "blobs/uploads/").status == 202, 30, "the home region stays closed")


def a_withdrawn_copy_is_gone_with_its_key():
    for region in (REGION, KEYED):
        sijil("admin", "project", "replicate", "HOST", PROJECT, region, "--end")
    wait_until(lambda: set(copies()) == {FOLDER}, 60, "the copies stay")
    assert set(rows_of(state["small"])) == {HOME, FOLDER}
    gone = f"SELECT count(*) FROM forgotten_key WHERE project_id = {ME} AND region_id = '{REGION}' AND digest = '{state['small']}' AND sequence IS NOT NULL"
    wait_until(lambda: ask(gone) == "1", 30, "no event proves that the key is gone")
    assert "no copies" in sijil("admin", "project", "replicate", "HOST", PROJECT, REGION, "--end", code=3)


def a_copy_goes_on_at_its_checkpoint_after_a_kill():
    fleet = world["fleet"]
    big = push(os.urandom(112 * MIB), "big")
    row = f"SELECT coalesce(max(blob_id::text || ' ' || offset_bytes), '') FROM copying WHERE digest = '{big}' AND sequence > 0"
    wait_until(lambda: ask(row), 60, "the copy has no checkpoint")
    victim = int(ask(f"SELECT runner FROM project_copy WHERE project_id = {ME} AND region_id = '{FOLDER}'")[-1])
    fleet.kill(victim)
    fleet.wait_settled(victim)
    blob, offset = ask(row).split(" ")
    assert 64 * MIB <= int(offset) < 65 * MIB, offset
    fleet.start_gateway(victim)
    fleet.wait_for_gateway(victim)
    there = f"SELECT coalesce(max(blob_id::text), '') FROM blob WHERE project_id = {ME} AND region_id = '{FOLDER}' AND digest = '{big}'"
    wait_until(lambda: ask(there), 90, "nobody goes on with the copy")
    assert ask(there) == blob, "it began anew"
    state["place"] = fleet.clients(state["login"])[0].repository(REPOSITORY)


def a_set_that_tightens_stops_a_copy_and_withdraws_what_is_there():
    """The store stands still, so that the copy is on its way when the set comes."""
    fleet = world["fleet"]
    drafted = with_policy("no-copies", {"id": "C-STAY", "effect": "deny", "ops": ["replicate"], "target": {"geo_within": ["AE"]}, "message": "no copies"})
    fleet.store.process.send_signal(signal.SIGSTOP)
    try:
        sijil("admin", "project", "replicate", "HOST", PROJECT, REGION)
        wait_until(lambda: ask(f"SELECT count(*) FROM copying WHERE region_id = '{REGION}'") == "1", 60, "no copy has begun")
        for digest in (state["small"], sha256(b"no manifest refers to this")):  # begun and interrupted, as after a kill: of what will be denied, and of what is gone
            ask("INSERT INTO copying (blob_id, project_id, region_id, digest, key_version, wrapped_key, commitment)"
                f" VALUES (gen_random_uuid(), {ME}, '{FOLDER}', '{digest}', 1, '\\x00', decode(repeat('00', 32), 'hex')) RETURNING 1")
        approve(drafted)
    finally:
        fleet.store.process.send_signal(signal.SIGCONT)
    wait_until(lambda: {row["state"] for row in copies().values()} == {"denied"}, 90, f"copies are not denied: {copies()}")
    assert {(row["blobs"], row["why"]) for row in copies().values()} == {(0, "C-STAY")}, copies()
    assert set(rows_of(state["small"])) == {HOME} and ask("SELECT count(*) FROM copying") == "0"
    kept = [event["entry"] for event in fleet.client(fleet.admin).api("GET", "/audit/events?action=copy.write&order=descending&limit=50")["events"]]
    assert {"failed", "denied"} <= {entry["out"] for entry in kept if "C-STAY" in json.dumps(entry)}, kept
    wait_until(lambda: ask(f"SELECT count(*) FROM multipart m JOIN abandoned_object a USING (blob_id) WHERE a.region_id = '{REGION}'") == "0", 60, "parts are left")
    assert state["place"].call("GET", f"blobs/{state['small']}").body == SMALL


CASES = (content_is_copied_into_further_regions_under_keys_of_theirs, a_copy_that_does_not_verify_is_made_anew, pulls_go_on_from_a_copy_while_the_home_region_is_closed,
         a_withdrawn_copy_is_gone_with_its_key, a_copy_goes_on_at_its_checkpoint_after_a_kill)
LAST = (a_set_that_tightens_stops_a_copy_and_withdraws_what_is_there,)
