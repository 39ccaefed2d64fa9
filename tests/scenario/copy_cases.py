"""Copies of content in further regions (docs/replication.md): cases of the scenario `buckets`, on its two gateways, its store, and two folders."""
import json
import os
import signal
import subprocess

import region_keyd_cases
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
    soon(lambda: {found("copied").get(region) for region in regions} == {"current"}, f"the copies are not made: {copies()}")
    shown = copies()
    assert {shown[region]["state"] for region in regions} == {"current"}, shown


def rows_of(digest, project=ME):
    """{region: wrapped key} of the content."""
    found = ask(f"SELECT coalesce(string_agg(region_id || ' ' || encode(wrapped_key, 'hex'), ','), '') FROM blob WHERE project_id = {project} AND digest = '{digest}'")
    return dict(one.split(" ") for one in found.split(",") if one)


def push(content, tag):
    place = state["place"]
    place.push_blob(content)
    answer = place.put_manifest(tag, place.manifest(content))
    assert answer.status == 201, (answer.status, answer.body)
    return sha256(content)


def with_policy(name, rule, scope=PROJECT + "/**"):
    """The set in force with one more policy for the project: a draft."""
    document = json.loads(sijil("policy", "show", "HOST", "--document"))
    document["policies"].append({
        "apiVersion": "sijil.policy/v1", "kind": "ResidencyPolicy", "closed": False, "rules": [rule],
        "metadata": {"id": name, "version": 1, "scope": [scope], "effective_from": "2020-01-01T00:00:00Z", "review_by": "2099-01-01"}})
    return drafted(name, document)


def drafted(name, document):
    path = world["fleet"].path(name + ".json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(document, file)
    return sijil("policy", "draft", "HOST", path, "--json")


def permit():
    """The tests' set is closed: it permits no copies. More is permitted only by a set that the root signs."""
    document = json.loads(sijil("policy", "show", "HOST", "--document"))
    for rule in (rule for policy in document["policies"] for rule in policy["rules"] if rule["effect"] == "permit"):
        rule["ops"] = sorted({*rule["ops"], "replicate", "migrate"})
    by_root("permit", document)


def by_root(name, document):
    """Signs the set and waits until it is in force."""
    fleet, path = world["fleet"], world["fleet"].path(name + ".json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(document, file)
    epoch = fleet.client(fleet.admin).api("GET", "/policies")["epoch"] + 1
    sijil("policy", "sign", "--key", fleet.path("approver.pem"), "--epoch", str(epoch), "--output", fleet.path(name + ".dsse"), path)
    with open(fleet.path(name + ".dsse"), encoding="utf-8") as file:
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
    for region, left in ((REGION, {HOME, FOLDER, KEYED}), (KEYED, {HOME, FOLDER})):
        sijil("admin", "project", "replicate", "HOST", PROJECT, region, "--end")
        soon(lambda wanted=left: set(rows_of(state["small"])) == wanted, f"the copy in {region} stays")
    soon(lambda: set(found("copied")) == {FOLDER}, "the copies stay")
    assert set(copies()) == {FOLDER}
    assert set(rows_of(state["small"])) == {HOME, FOLDER}
    gone = f"SELECT count(*) FROM forgotten_key WHERE project_id = {ME} AND region_id IN ('{REGION}', '{KEYED}') AND digest = '{state['small']}' AND sequence IS NOT NULL"
    wait_until(lambda: ask(gone) == "2", 30, "no event proves that the keys are gone")
    assert "no copies" in sijil("admin", "project", "replicate", "HOST", PROJECT, REGION, "--end", code=3)


def its_certificate_names_the_sijil_keyd_that_held_the_key():
    """The copy in KEYED was the last one that went. What that sijil-keyd destroys, the main one does not know, and so it says stage 1."""
    fleet, path = world["fleet"], region_keyd_cases.path("deleted.json")
    sijil("admin", "deletion-certificate", "HOST", PROJECT, state["small"], "--output", path)
    done = subprocess.run([sijil_test.program("sijil-verify"), "certificate", "--key", fleet.client(fleet.admin).api("GET", "/audit/key")["vkey"], "--signer",
                           region_keyd_cases.path("main.pem"), path, "--json"], capture_output=True, text=True, timeout=60, check=True)
    stated = json.loads(done.stdout)["certificate"]
    assert stated["region"] == KEYED and stated["stage"] == 1 and stated["keyd"] == region_keyd_cases.state["key"], stated


def hold_ends(region):
    """A copy into the region waits a while before its end, so that a kill meets it at its checkpoint."""
    ask("CREATE FUNCTION hold_end() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(5); RETURN NEW; END';"
        f"CREATE TRIGGER hold_end BEFORE INSERT ON blob FOR EACH ROW WHEN (NEW.region_id = '{region}') EXECUTE FUNCTION hold_end()")


def let_end():
    ask("DROP TRIGGER hold_end ON blob; DROP FUNCTION hold_end()")


def a_copy_goes_on_at_its_checkpoint_after_a_kill():
    fleet = world["fleet"]
    big = push(os.urandom(112 * MIB), "big")
    hold_ends(FOLDER)
    row = f"SELECT coalesce(max(blob_id::text || ' ' || offset_bytes), '') FROM copying WHERE digest = '{big}' AND sequence > 0"
    soon(lambda: ask(row), "the copy has no checkpoint")
    victim = int(ask(f"SELECT runner FROM project_copy WHERE project_id = {ME} AND region_id = '{FOLDER}'")[-1])
    fleet.kill(victim)
    fleet.wait_settled(victim)
    let_end()
    blob, offset = ask(row).split(" ")
    assert 64 * MIB <= int(offset) < 65 * MIB, offset
    fleet.start_gateway(victim)
    fleet.wait_for_gateway(victim)
    there = f"SELECT coalesce(max(blob_id::text), '') FROM blob WHERE project_id = {ME} AND region_id = '{FOLDER}' AND digest = '{big}'"
    soon(lambda: ask(there), "nobody goes on with the copy")
    assert ask(there) == blob, "it began anew"
    state["place"] = fleet.clients(state["login"])[0].repository(REPOSITORY)


def a_set_that_tightens_stops_a_copy_and_withdraws_what_is_there():
    """The store stands still, so that the copy is on its way when the set comes."""
    fleet = world["fleet"]
    draft = with_policy("no-copies", {"id": "C-STAY", "effect": "deny", "ops": ["replicate"], "target": {"geo_within": ["AE"]}, "message": "no copies"})
    fleet.store.process.send_signal(signal.SIGSTOP)
    try:
        sijil("admin", "project", "replicate", "HOST", PROJECT, REGION)
        soon(lambda: ask(f"SELECT count(*) FROM copying WHERE region_id = '{REGION}'") == "1", "no copy has begun")
        for digest in (state["small"], sha256(b"no manifest refers to this")):  # begun and interrupted, as after a kill: of what will be denied, and of what is gone
            ask("INSERT INTO copying (blob_id, project_id, region_id, digest, key_version, wrapped_key, commitment)"
                f" VALUES (gen_random_uuid(), {ME}, '{FOLDER}', '{digest}', 1, '\\x00', decode(repeat('00', 32), 'hex')) RETURNING 1")
        approve(draft)
    finally:
        fleet.store.process.send_signal(signal.SIGCONT)
    soon(lambda: set(found("copied").values()) == {"denied"}, f"copies are not denied: {copies()}")
    shown = copies()
    assert {(row["state"], row["blobs"], row["why"]) for row in shown.values()} == {("denied", 0, "C-STAY")}, shown
    assert set(rows_of(state["small"])) == {HOME} and ask("SELECT count(*) FROM copying") == "0"
    kept = [event["entry"] for event in fleet.client(fleet.admin).api("GET", "/audit/events?action=copy.write&order=descending&limit=50")["events"]]
    assert {"failed", "denied"} <= {entry["out"] for entry in kept if "C-STAY" in json.dumps(entry)}, kept
    wait_until(lambda: ask(f"SELECT count(*) FROM multipart m JOIN abandoned_object a USING (blob_id) WHERE a.region_id = '{REGION}'") == "0", 60, "parts are left")
    assert state["place"].call("GET", f"blobs/{state['small']}").body == SMALL


MOVED, SECRET = "main/moved", "main/moved/secret"
MOVED_ID = "(SELECT project_id FROM project WHERE name = 'moved')"


def move(project, region, *options, code=0):
    return sijil("admin", "project", "migrate", "HOST", project, region, *options, code=code)


def places():
    return {row["region"]: row for row in sijil("admin", "project", "copies", "HOST", MOVED, "--json")}


def found(name="moved"):
    """{region: state}, without a token of the administrator for each look."""
    text = ask(f"SELECT coalesce(string_agg(c.region_id || ' ' || c.state, ','), '') FROM project_copy c JOIN project p USING (project_id) WHERE p.name = '{name}'")
    return dict(one.split(" ") for one in text.split(",") if one)


def begin_a_round():
    ask("WITH due AS (UPDATE project_copy SET due_at = now() WHERE lease_until IS NULL AND due_at > now() RETURNING 1) SELECT count(*) FROM due")


def soon(what, why):
    """Without the pause between two rounds."""
    def look():
        begin_a_round()
        return what()
    wait_until(look, 120, why)


def home(name="moved"):
    return ask(f"SELECT home_region FROM project WHERE name = '{name}'")


def where(digest):
    return set(ask(f"SELECT coalesce(string_agg(region_id, ',' ORDER BY region_id), '') FROM blob WHERE project_id = {MOVED_ID} AND digest = '{digest}'").split(","))


def events(action):
    return [event["entry"] for event in world["fleet"].client(world["fleet"].admin).api("GET", f"/audit/events?action={action}&order=descending&limit=50")["events"]]


def put(place, content, tag):
    place.push_blob(content)
    answer = place.put_manifest(tag, place.manifest(content))
    assert answer.status == 201, (answer.status, answer.body)
    return sha256(content)


def before(event, region, digest, then):
    """What somebody does just before a copy comes or goes."""
    row = "NEW" if event == "INSERT" else "OLD"
    ask("CREATE OR REPLACE FUNCTION meanwhile() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN "
        f"IF {row}.region_id = '{region}' AND {row}.digest = '{digest}' THEN {then}; END IF; RETURN {row}; END $$")
    ask(f"CREATE OR REPLACE TRIGGER meanwhile BEFORE {event} ON blob FOR EACH ROW EXECUTE FUNCTION meanwhile()")


def what_may_not_move_is_no_event_of_each_round():
    """Manifests are as before the move, and the new home takes nothing. One event of each may come from a gateway that has not heard of it."""
    sijil("region", "drain", "HOST", REGION)
    ask("ALTER TABLE manifest DISABLE TRIGGER sealed_under_a_newer_key")
    ask("UPDATE manifest m SET key_id = k.key_id, sealed = k.sealed FROM kept k WHERE k.repository_id = m.repository_id AND k.digest = m.digest")
    ask("ALTER TABLE manifest ENABLE TRIGGER sealed_under_a_newer_key")
    ask("DROP TABLE kept")
    for _ in range(3):
        begin_a_round()
        wait_until(lambda: ask(f"SELECT due_at > now() + interval '5 seconds' AND why LIKE '%SYS-DRAINING%' FROM project_copy WHERE project_id = {MOVED_ID}") == "t",
                   30, "the manifests move into a region that drains")
    sijil("region", "drain", "HOST", REGION, "--end")
    old = f"SELECT count(*) FROM manifest m JOIN project_key k USING (key_id) WHERE k.project_id = {MOVED_ID} AND k.region_id = '{HOME}'"
    soon(lambda: ask(old) == "0", "the manifests stay")


def a_plan_names_what_keeps_a_project_from_moving():
    fleet = world["fleet"]
    admin = fleet.client(fleet.admin)
    admin.api("POST", "/projects", {"organisation": "main", "name": "moved", "region": HOME})
    state["mover"] = sijil_test.make_robot(fleet, "moved", "publisher", MOVED)
    fleet.wait_known(state["mover"], MOVED + "/open")
    client = fleet.clients(state["mover"])[0]
    state["open"], secret = client.repository(MOVED + "/open"), client.repository(SECRET)
    state["first"], state["secret"] = put(state["open"], b"o" * 100000, "v1"), put(secret, b"s" * 1000, "v1")
    state["lonely"] = state["open"].push_blob(b"its manifest comes after the move")
    assert "home region" in move(MOVED, HOME, code=1) and "no region" in move(MOVED, "no/such", code=3)
    approve(with_policy("secret-stays", {"id": "M-STAY", "effect": "deny", "ops": ["migrate"], "target": {"geo_within": ["AE"]}, "message": "it stays"}, SECRET))
    planned = move(MOVED, REGION, "--plan", "--json")
    of_secret = {entry["digest"] for entry in planned["denials"]}
    assert not planned["moves"] and planned["blobs"] == 4 and planned["manifests"] == 2 and planned["denied_blobs"] == 2, planned
    assert state["secret"] in of_secret and {(entry["name"], entry["rule"]) for entry in planned["denials"]} == {(SECRET, "M-STAY")}, planned
    assert "M-STAY denies " + SECRET in move(MOVED, REGION, "--plan")
    told = client.api("GET", f"/projects/{MOVED}/move?region=no%2Fsuch", expect=(403,))
    assert "no/such" not in json.dumps(told), told  # who pushes plans no move
    move(MOVED, REGION)
    assert "on its way" in move(MOVED, FOLDER, code=1)
    soon(lambda: found() == {REGION: "denied"}, "nothing is denied")
    shown = places()[REGION]
    assert (shown["move"], shown["why"], shown["denied_blobs"], shown["blobs"]) == ("to", "M-STAY", 2, 2), shown  # what the plan has said
    assert home() == HOME and where(state["first"]) == where(state["lonely"]) == {HOME, REGION} and where(state["secret"]) == {HOME}
    move(MOVED, REGION, "--end")
    soon(lambda: found() == {}, "the move does not end")
    assert where(state["first"]) == {HOME} and home() == HOME
    document = json.loads(sijil("policy", "show", "HOST", "--document"))
    document["policies"] = [policy for policy in document["policies"] if policy["metadata"]["id"] != "secret-stays"]
    state["without"] = drafted("secret-moves", document)


def a_project_moves_to_another_home_though_its_gateway_is_killed():
    """The store stands still while a gateway dies in the middle; a legal hold keeps the old home until its end."""
    fleet = world["fleet"]
    approve(state["without"])
    ask("INSERT INTO content_hold (hold_id, organisation_id, project_id, reason, set_by) SELECT gen_random_uuid(), organisation_id, project_id, 'a case', 'x'"
        f" FROM project WHERE name = 'moved' RETURNING 1")
    planned = move(MOVED, REGION, "--plan", "--json")
    assert planned["moves"] and planned["blobs"] == 4 and planned["holds"] == 1 and planned["denials"] == [], planned
    upload = state["open"].begin()
    lonely = b"its manifest comes after the move"
    before("INSERT", REGION, state["lonely"], "UPDATE blob SET lease_until = now() + interval '99 days' WHERE project_id = NEW.project_id AND digest = NEW.digest")  # asked for at home
    ask(f"CREATE TABLE kept AS SELECT repository_id, digest, key_id, sealed FROM manifest JOIN repository USING (repository_id) WHERE project_id = {MOVED_ID}")
    fleet.store.process.send_signal(signal.SIGSTOP)
    try:
        move(MOVED, REGION)
        begun = f"SELECT count(*) FROM copying WHERE project_id = {MOVED_ID} AND region_id = '{REGION}'"
        soon(lambda: ask(begun) == "1", "nothing moves")
        victim = int(ask(f"SELECT runner FROM project_copy WHERE project_id = {MOVED_ID}")[-1])
        fleet.kill(victim)
    finally:
        fleet.store.process.send_signal(signal.SIGCONT)
    fleet.wait_settled(victim)
    fleet.start_gateway(victim)
    fleet.wait_for_gateway(victim)
    soon(lambda: home() == REGION and found() == {HOME: "held"}, "the home stays")
    assert "legal hold" in places()[HOME]["why"] and where(state["first"]) == where(state["lonely"]) == {HOME, REGION}, places()
    assert ask(f"SELECT bool_and(lease_until > now() + interval '98 days') FROM blob WHERE digest = '{state['lonely']}'") == "t", "the new home keeps it for less time"
    what_may_not_move_is_no_event_of_each_round()
    clients = fleet.clients(state["mover"])
    state["open"] = clients[0].repository(MOVED + "/open")
    answer = state["open"].patch(upload, b"late")
    assert answer.status == 404, (answer.status, answer.body)  # an open upload ends with the change
    assert state["open"].put_manifest("late", state["open"].manifest(lonely)).status == 201
    state["new"] = put(state["open"], b"n" * 5000, "v2")
    assert where(state["new"]) == {REGION}
    for client in clients:
        place = client.repository(MOVED + "/open")
        assert place.call("GET", f"blobs/{state['first']}").body == b"o" * 100000 and place.call("GET", "manifests/v1").status == 200
        assert client.repository(SECRET).call("GET", "manifests/v1").status == 200
    assert ask(f"SELECT string_agg(DISTINCT k.region_id, ',') FROM manifest m JOIN project_key k USING (key_id) WHERE k.project_id = {MOVED_ID}") == REGION
    release = ("UPDATE content_hold SET release_reason = 'r', release_asked_by = 'x', release_asked_at = now(), released_by = 'y', released_at = now()"
               f" WHERE project_id = {MOVED_ID} AND released_at IS NULL")
    first = ask(f"SELECT min(digest) FROM blob WHERE project_id = {MOVED_ID} AND region_id = '{HOME}'")
    before("DELETE", HOME, first, "INSERT INTO content_hold (hold_id, organisation_id, project_id, reason, set_by) SELECT gen_random_uuid(), organisation_id,"
           " project_id, 'another', 'x' FROM project WHERE project_id = OLD.project_id")
    blobs = f"SELECT count(*) FROM blob WHERE project_id = {MOVED_ID} AND region_id = '{HOME}' AND digest > '{first}'"
    later = ask(blobs)
    ask(release)
    soon(lambda: where(first) == {REGION} and found() == {HOME: "held"}, "the second hold keeps nothing")
    assert ask(blobs) == later != "0", "copies went after the hold"
    ask("DROP TRIGGER meanwhile ON blob")
    ask(release)
    soon(lambda: found() == {}, "the old home stays")
    assert where(state["first"]) == where(state["secret"]) == {REGION}
    assert ask(f"SELECT string_agg(region_id, ',') FROM project_key WHERE project_id = {MOVED_ID}") == REGION, "the old key of manifests stays"
    gone = f"SELECT count(*) FROM forgotten_key WHERE project_id = {MOVED_ID} AND region_id = '{HOME}' AND digest = '{state['first']}' AND sequence IS NOT NULL"
    wait_until(lambda: ask(gone) == "1", 30, "no event proves that the key is gone")
    assert [entry["out"] for entry in events("project.moved")] == ["allowed"] and HOME in json.dumps(events("project.moved")) and len(events("project.left")) == 1
    moves = [entry for entry in events("move.write") if entry["out"] == "completed"]
    assert len([entry for entry in moves if "a manifest of" in json.dumps(entry)]) == 4, moves  # two manifests, twice
    assert len([entry for entry in events("move.write") if entry["out"] == "denied"]) <= 2, "a denial is recorded in each round"


def a_region_is_drained_to_another_one():
    fleet = world["fleet"]
    fleet.client(fleet.admin).api("POST", "/projects", {"organisation": "main", "name": "drained", "region": FOLDER})
    said = sijil("region", "drain", "HOST", FOLDER, "--to", "no/such", code=3)
    state = next(row["state"] for row in sijil("region", "list", "HOST", "--json") if row["id"] == FOLDER)
    assert "the registry has no region no/such" in said and state == "active", (said, state)
    said = sijil("region", "drain", "HOST", FOLDER, "--to", FOLDER, code=1)
    assert "1 do not move: main/drained" in said, said
    rows_shown = {row["project"]: row for row in sijil("region", "drain", "HOST", FOLDER, "--to", KEYED, "--json")}
    assert rows_shown["main/drained"]["moves"] and not rows_shown[PROJECT]["moves"] and "copies" in rows_shown[PROJECT]["why"], rows_shown
    soon(lambda: home("drained") == KEYED and found("drained") == {}, "it is not drained")
    assert "on its way" not in json.dumps(sijil("region", "drain", "HOST", FOLDER, "--to", KEYED, "--json"))
    sijil("region", "drain", "HOST", FOLDER, "--end")


STRAYED = "main/strayed"


def strayed(number=0):
    place = world["fleet"].clients(state["strayer"])[number].repository(STRAYED + "/model")
    return [(answer.status, b"SYS-MISPLACED" in answer.body) for answer in (
        place.call("GET", f"blobs/{state['stray']}"), place.call("GET", "manifests/v1"), place.call("HEAD", f"blobs/{state['stray']}"), place.call("GET", "tags/list"))]


def look_again():
    ask("WITH due AS (UPDATE placement_review SET began_at = '-infinity' RETURNING 1) SELECT count(*) FROM due")


def no_way_of_reading_goes_around_a_closed_place():
    """With the tokens from before the set: a part, a manifest by its digest, another tag or repository for it; rows that are removed; a move that is begun and ended."""
    place = world["fleet"].clients(state["strayer"])[0].repository(STRAYED + "/model")
    text = state["stray_text"]
    for answer in (place.call("GET", f"blobs/{state['stray']}", headers={"Range": "bytes=0-0"}), place.call("GET", "manifests/" + sha256(text))):
        assert answer.status == 403 and b"SYS-MISPLACED" in answer.body, (answer.status, answer.body)
    other = world["fleet"].clients(state["strayer"])[0].repository(STRAYED + "/other")
    for answer in (place.put_manifest("v2", text), other.call("POST", f"blobs/uploads/?mount={state['stray']}&from={STRAYED}/model")):
        assert answer.status == 403 and b"P-LEAVE" in answer.body, (answer.status, answer.body)
    move(STRAYED, HOME)
    move(STRAYED, HOME, "--end")
    soon(lambda: found("strayed") == {}, "the move does not end")
    never = "version = 9223372036854775807, runner = 'nobody', lease_until = 'infinity', began_at"
    for row in ("began_at = '-infinity'", f"{never} = '-infinity'", f"{never} = 'infinity'"):  # due; and as the role of the gateways could write it, so that nobody looks
        ask(f"WITH gone AS (DELETE FROM misplaced_content RETURNING 1), next AS (UPDATE placement_review SET {row} RETURNING 1) SELECT count(*) FROM gone, next")
        wait_until(lambda: ask("SELECT count(*) FROM misplaced_content") == "1", 30, f"a row that somebody removes opens it: {row}")
    assert strayed()[:2] == [(403, True)] * 2, strayed()


def content_where_it_may_not_be_is_closed_until_it_moves():
    """A set breaks the place of content that is there: nobody reads it, HEAD and lists are as before, and a move frees it."""
    fleet = world["fleet"]
    admin = fleet.client(fleet.admin)
    admin.api("POST", "/projects", {"organisation": "main", "name": "strayed", "region": FOLDER})
    state["strayer"] = sijil_test.make_robot(fleet, "strayed", "publisher", STRAYED)
    fleet.wait_known(state["strayer"], STRAYED + "/model")
    place = fleet.clients(state["strayer"])[0].repository(STRAYED + "/model")
    state["stray"], state["stray_text"] = put(place, b"x" * 3000, "v1"), place.manifest(b"x" * 3000)
    open_to_all = [(200, False)] * 4
    assert strayed() == open_to_all, strayed()
    seen = len(events("placement.quarantine"))
    approve(with_policy("leave-az", {"id": "P-LEAVE", "effect": "deny", "ops": ["ingest"], "target": {"geo_within": ["AE/AZ"]}, "message": "not there"}, STRAYED + "/**"))
    wait_until(lambda: [strayed(number) for number in (0, 1)] == [[(403, True), (403, True), (200, False), (200, False)]] * 2, 30, f"it is read where it may not be: {strayed()}")
    shown = sijil("admin", "project", "show", "HOST", STRAYED, "--json")
    assert shown["out_of_place"] == 1 and (shown["misplaced"][0]["repository"], shown["misplaced"][0]["rule"], shown["misplaced"][0]["operation"]) == (STRAYED + "/model", "P-LEAVE", "ingest"), shown
    assert "P-LEAVE of leave-az@1 denies ingest" in sijil("admin", "project", "show", "HOST", STRAYED)
    of_check = [entry for entry in events("placement.check") if entry["out"] == "denied"]
    assert len(of_check) == 1 and "P-LEAVE" in json.dumps(of_check) and of_check[0]["facts"], of_check
    assert [entry["out"] for entry in events("placement.quarantine")][:len(events("placement.quarantine")) - seen] == ["allowed"]
    wait_until(lambda: any("content-misplaced" in json.dumps(entry) for entry in events("alarm.raise")), 30, "nobody is alarmed")
    wait_until(lambda: b"sijil_misplaced_repositories 1" in sijil_test.Client(fleet, None, fleet.ports[0]).call("GET", "/metrics").body, 30, "it is not counted")
    no_way_of_reading_goes_around_a_closed_place()
    move(STRAYED, REGION)  # the others are in AE/AZ, too
    soon(lambda: home("strayed") == REGION, "it does not move")
    wait_until(lambda: [strayed(number) for number in (0, 1)] == [open_to_all] * 2, 30, f"it stays closed: {strayed()}")
    def is_freed():
        look_again()  # a gateway that copies looks between two copies
        return ask("SELECT count(*) FROM misplaced_content") == "0"
    wait_until(is_freed, 120, "it is not freed")
    assert [entry["out"] for entry in events("placement.free")] == ["allowed"] and "out_of_place" not in sijil("admin", "project", "show", "HOST", STRAYED, "--json")


CASES = (content_is_copied_into_further_regions_under_keys_of_theirs, a_copy_that_does_not_verify_is_made_anew, pulls_go_on_from_a_copy_while_the_home_region_is_closed,
         a_withdrawn_copy_is_gone_with_its_key, its_certificate_names_the_sijil_keyd_that_held_the_key, a_copy_goes_on_at_its_checkpoint_after_a_kill)
LAST = (a_plan_names_what_keeps_a_project_from_moving, a_project_moves_to_another_home_though_its_gateway_is_killed,
        content_where_it_may_not_be_is_closed_until_it_moves, a_region_is_drained_to_another_one, a_set_that_tightens_stops_a_copy_and_withdraws_what_is_there)
