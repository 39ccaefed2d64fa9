"""Gateways of regions (docs/replication.md): cases of the scenario `buckets`, after those of copy_cases.py. One gateway has the region onprem/dc9 and its sijil-keyd
alone, the other one has all other regions and no key of that one. They give each other copies over mutual TLS."""
import glob
import http.client
import json
import os
import re
import signal
import ssl
import subprocess

import region_keyd_cases
import sijil_test
from copy_cases import FOLDER, HOME, KEYED, ME, MIB, PROJECT, REPOSITORY, SMALL, ask, copies, hold_ends, is_current, let_end, push, put, rows_of, soon, with_policy
from copy_cases import found as found_of
from copy_cases import state as copied
from region_cases import REGION, approve, sijil, world
from sijil_test import sha256, wait_until

MAIN, REGIONAL = 0, 1  # the two gateways
OTHERS = (REGION, HOME, FOLDER)
mesh = {}


def path(name):
    return world["fleet"].path(os.path.join("mesh", name))


def authority(name):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30", "-subj", "/CN=" + name, "-keyout",
                    path(name + ".key"), "-out", path(name + ".pem")], check=True, capture_output=True)


def certify(name, regions, by="peers"):
    names = ",".join(["IP:127.0.0.1", *[f"URI:sijil:region:{region}" for region in regions]])
    subprocess.run(["openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=" + name, "-addext", "subjectAltName=" + names,
                    "-keyout", path(name + ".key"), "-out", path(name + ".csr")], check=True, capture_output=True)
    subprocess.run(["openssl", "x509", "-req", "-in", path(name + ".csr"), "-CA", path(by + ".pem"), "-CAkey", path(by + ".key"), "-CAcreateserial", "-days", "30",
                    "-copy_extensions", "copy", "-out", path(name + ".pem")], check=True, capture_output=True)


def logged():
    with open(world["fleet"].path("log"), encoding="utf-8", errors="replace") as file:
        return file.read()


def mesh_lines(number, peers):
    name = ("main", "regional")[number]
    lines = {"region_peers": peers, "peer_certificate": path(name + ".pem"), "peer_key": path(name + ".key"), "peer_ca": path("peers.pem"), "peer_networks": "127.0.0.0/8"}
    return "".join(f'{key} = "{value}"\n' for key, value in lines.items()) + f"peer_listen_port = {mesh['ports'][number]}\n"


def without(text, *names):
    return "".join(line for line in text.splitlines(True) if line.split(" ")[0] not in names)


def of_main(text):
    return mesh_lines(MAIN, f"{KEYED}=https://127.0.0.1:{mesh['ports'][REGIONAL]}") + without(text, "region_keyd_folder")


def of_region(text):
    head = without(text, "region_folder", "region_key_folder", "region_networks", "region_ca_file").split('\nregion "')[0]
    peers = ", ".join(f"{region}=https://127.0.0.1:{mesh['ports'][MAIN]}" for region in OTHERS)
    place = world["fleet"].path("recorded/" + KEYED.replace("/", "-"))
    return mesh_lines(REGIONAL, peers) + head + f'\nregion "{KEYED}" {{\n driver = "fs"\n location = "{place}"\n}}\n'


def restart(numbers, edits):
    fleet = world["fleet"]
    for number in numbers:
        fleet.stop_gateway(number)
        fleet.edits[number] = edits[number]
    start(numbers)


def start(numbers):
    fleet = world["fleet"]
    for number in numbers:
        fleet.start_gateway(number)
    for number in numbers:
        fleet.wait_for_gateway(number)
    copied["place"] = fleet.clients(copied["login"])[MAIN].repository(REPOSITORY)


def entries(action, digest, region=KEYED, limit=100):
    found = world["fleet"].client(world["fleet"].admin).api("GET", f"/audit/events?action={action}&order=descending&limit={limit}")["events"]
    kept = [event["entry"] for event in found]
    return [entry for entry in kept if entry["act"] == action and digest in json.dumps(entry) and f'"{region}"' in json.dumps(entry)]


def pull(number, digest, repository=REPOSITORY, login=None):
    return world["fleet"].clients(login or copied["login"])[number].repository(repository).call("GET", "blobs/" + digest)


def nothing_is_asked_of_a_gateway_whose_certificate_is_of_other_regions():
    os.makedirs(path(""))
    mesh["ports"] = [sijil_test.free_port() for _ in (MAIN, REGIONAL)]
    authority("peers")
    authority("strangers")
    certify("main", [REGION, FOLDER])
    certify("regional", [KEYED])
    certify("stranger", [KEYED], by="strangers")
    restart((MAIN, REGIONAL), {MAIN: of_main, REGIONAL: of_region})
    sijil("admin", "project", "replicate", "HOST", PROJECT, KEYED)
    wait_until(lambda: copies()[KEYED]["state"] == "unreachable" and "its certificate is of somebody else" in logged(), 30, f"it is asked: {copies()}")
    assert entries("copy.read", copied["small"]) == [], "it has lent something"


def copies_are_fetched_from_the_gateway_of_the_home_region():
    fleet = world["fleet"]
    certify("main", OTHERS)
    fleet.gateways[MAIN].send_signal(signal.SIGHUP)
    soon(lambda: set(rows_of(copied["small"])) == {HOME, FOLDER, KEYED}, f"no copy is made: {copies()}")
    is_current(KEYED)
    assert len(set(rows_of(copied["small"]).values())) == 3, "two regions have the same wrapped key"
    lent, written = entries("copy.read", copied["small"]), entries("copy.write", copied["small"])
    assert [entry["out"] for entry in lent] == ["allowed"] and all(HOME in json.dumps(entry) for entry in lent), lent
    assert [entry["out"] for entry in written][:2] == ["completed", "allowed"], written
    answer = pull(REGIONAL, copied["small"])
    assert answer.status == 200 and answer.body == SMALL, (answer.status, answer.body[:300])
    newest = fleet.client(fleet.admin).api("GET", "/audit/events?action=blob.read&order=descending&limit=1")["events"][0]["entry"]
    assert f'"{KEYED}"' in json.dumps(newest), newest


def what_is_in_no_region_of_a_gateway_is_told_with_the_gateway_that_has_it():
    lonely = sha256(b"no manifest refers to this")
    dc9 = region_keyd_cases.state
    for answer, region in ((pull(REGIONAL, lonely), HOME), (pull(MAIN, dc9["first"], "main/dc9/x", dc9["login"]), KEYED)):
        told = answer.body.decode()
        assert answer.status == 503 and f"region {region} is served by another gateway, 127.0.0.1" in told, (answer.status, told)
    assert pull(REGIONAL, dc9["first"], "main/dc9/x", dc9["login"]).body == b"under a key of its own"
    assert pull(MAIN, lonely).status == 200


def link_of(name, port=MAIN):
    """As the gateway with this certificate. "": without one."""
    context = ssl.create_default_context(cafile=path("peers.pem"))
    if name:
        context.load_cert_chain(path(name + ".pem"), path(name + ".key"))
    return http.client.HTTPSConnection("127.0.0.1", mesh["ports"][port], context=context, timeout=30)


def fetch(name, target, offset=0):
    """(status, text); (0, why) if there is no connection."""
    link = link_of(name)
    try:
        link.request("GET", target, headers={"Range": f"bytes={offset}-"} if offset else {})
        answer = link.getresponse()
        return answer.status, answer.read()
    except (OSError, http.client.HTTPException) as error:
        return 0, str(error).encode()
    finally:
        link.close()


def target_of(digest, region=KEYED, epoch=0, policies=None, project="copied"):
    now = world["fleet"].client(world["fleet"].admin).api("GET", "/policies")
    return f"/v1/copies/{ask('SELECT project_id FROM project WHERE name = ' + repr(project))}/{digest}/{now['epoch'] + epoch}/{policies or now['digest']}/{region}"


def damage_is_marked_where_it_is_lent(digest, mark):
    """Nobody has read it here: the gateway of the other region asks for it."""
    name = ask(f"SELECT replace(blob_id::text, '-', '') FROM blob WHERE project_id = {ME} AND region_id = '{HOME}' AND digest = '{digest}'")
    (path,) = [found for found in glob.glob(world["fleet"].path("recorded/on-prem-a/**/*"), recursive=True) if os.path.basename(found).startswith(name)]
    with open(path, "r+b") as file:
        file.seek(100000)
        sound = file.read(64)
        file.seek(100000)
        file.write(b"\0" * 64)
        file.flush()
        assert fetch("regional", target_of(digest))[1] != SMALL
        wait_until(lambda: ask(f"SELECT count(*) FROM blob WHERE blob_id::text = '{name[:8]}-{name[8:12]}-{name[12:16]}-{name[16:20]}-{name[20:]}' AND damaged_at IS NOT NULL") == "1", 30,
                   "damage that was lent is not marked")
        file.seek(100000)
        file.write(sound)
    ask(mark % "NULL")


def only_the_gateway_of_the_region_gets_bytes():
    """Each is refused, and leaves no event of an allowed read."""
    digest, count = copied["small"], "SELECT count(*) FROM audit_entry WHERE action = 'copy.read'"
    refused = "SELECT coalesce(max(seq), 0) FROM audit_entry WHERE action = 'http.refused'"
    before, turned_away = int(ask(count)), int(ask(refused))
    for name in ("", "stranger"):
        status, said = fetch(name, target_of(digest))
        assert status in (0, 400) and SMALL[:20] not in said, (name, status, said)
    for name, target, status, rule in (
            ("main", target_of(digest), 403, "SYS-NOT-THE-REGION"),  # a gateway of other regions
            ("regional", target_of(digest, FOLDER), 403, "SYS-NOT-THE-REGION"),
            ("regional", target_of(digest, epoch=-1), 409, "SYS-OTHER-SET"),
            ("regional", target_of(digest, epoch=1), 409, "SYS-OTHER-SET"),
            ("regional", target_of(digest, policies=digest), 409, "SYS-OTHER-SET"),
            ("regional", target_of(sha256(b"no manifest refers to this")), 404, "SYS-NOT-FOUND"),
            ("regional", target_of(digest).replace("/v1/", "/v2/"), 400, "SYS-REQUEST"),
            ("regional", target_of(digest) + "?x=1", 414, "SYS-REQUEST"),
            ("regional", "/" + "x" * 600, 414, "SYS-REQUEST")):
        found, said = fetch(name, target)
        assert found == status and said.decode().startswith(rule + ":"), (target, found, said)
    mark = f"UPDATE blob SET damaged_at = %s WHERE project_id = {ME} AND region_id = '{HOME}' AND digest = '{digest}' RETURNING 1"
    ask(mark % "now()")
    assert fetch("regional", target_of(digest)) == (422, b"SYS-DAMAGED: what is stored of the blob does not verify\n")
    ask(mark % "NULL")
    assert int(ask(count)) == before, "something was recorded as read"
    damage_is_marked_where_it_is_lent(digest, mark)
    before = int(ask(count))
    wait_until(lambda: int(ask(refused)) > turned_away, 30, "no event counts what was turned away")
    assert fetch("regional", target_of(digest)) == (200, SMALL)
    assert fetch("regional", target_of(digest), 299990) == (206, SMALL[299990:])
    assert int(ask(count)) == before + 2


def a_set_that_tightens_cuts_a_transfer_at_the_home_end():
    """The other end, which is this test, goes on reading."""
    fleet = world["fleet"]
    fleet.client(fleet.admin).api("POST", "/projects", {"organisation": "main", "name": "tight", "region": HOME})
    login = sijil_test.make_robot(fleet, "tight", "publisher", "main/tight")
    fleet.wait_known(login, "main/tight/model")
    content, tight = os.urandom(48 * MIB), "(SELECT project_id FROM project WHERE name = 'tight')"
    digest = put(fleet.clients(login)[MAIN].repository("main/tight/model"), content, "v1")
    sijil("admin", "project", "replicate", "HOST", "main/tight", KEYED)
    draft = with_policy("tight", {"id": "T-STAY", "effect": "deny", "ops": ["replicate"], "target": {"geo_within": ["AE"]}, "message": "no copies"}, "main/tight/**")
    link, taken = link_of("regional"), 0
    link.request("GET", target_of(digest, project="tight"))
    answer = link.getresponse()
    assert answer.status == 200 and answer.read(1000) == content[:1000], answer.status
    approve(draft)
    wait_until(lambda: "failed" in {entry["out"] for entry in entries("copy.read", digest)}, 30, "the home end does not cut it")
    try:
        while piece := answer.read(MIB):
            taken += len(piece)
    except (OSError, http.client.HTTPException):
        pass  # it is cut
    link.close()
    assert taken < len(content) - 1000, "all of it came"
    said = [json.dumps(entry) for entry in entries("copy.read", digest) if entry["out"] == "failed"]
    assert said and all("SYS-OTHER-SET" in entry or "T-STAY" in entry for entry in said), said
    soon(lambda: set(rows_of(digest, tight)) == {HOME} and found_of("tight") == {KEYED: "denied"}, f"a copy stays: {rows_of(digest, tight)}")
    assert fetch("regional", target_of(digest, project="tight"))[1].startswith(b"T-STAY:")


def a_fetched_copy_goes_on_after_either_end_was_killed():
    fleet = world["fleet"]
    big = push(os.urandom(112 * MIB), "fetched")
    hold_ends(KEYED)
    row = f"SELECT coalesce(max(blob_id::text || ' ' || offset_bytes), '') FROM copying WHERE digest = '{big}' AND region_id = '{KEYED}' AND sequence > 0"
    there = f"SELECT coalesce(max(blob_id::text), '') FROM blob WHERE project_id = {ME} AND region_id = '{KEYED}' AND digest = '{big}'"
    soon(lambda: ask(row), "the copy has no checkpoint")
    fleet.kill(MAIN)
    blob = ask(row).split(" ")[0]
    assert ask(there) == "", "it was there before the kill"
    fleet.kill(REGIONAL)
    for number in (MAIN, REGIONAL):
        fleet.wait_settled(number)
    let_end()
    start((MAIN,))
    sijil("admin", "rewrap", "HOST", "--detach")
    handed = f"SELECT coalesce(max(runner), 'none') FROM job WHERE kind = 'rewrap' AND region_id = '{KEYED}'"
    wait_until(lambda: ask(handed) == "", 30, "the keys of a region that is not served here are passed over")
    start((REGIONAL,))
    wait_until(lambda: ask(handed) == "gateway1", 30, "the gateway of the region does not wrap its keys again")
    soon(lambda: ask(there), f"nobody goes on with the copy: {copies()}")
    assert ask(there) == blob, "it began anew"
    text = sijil_test.Client(fleet, None, fleet.ports[MAIN]).call("GET", "/metrics").body.decode()
    assert re.findall(r"^sijil_lent_total (\d+)", text, re.MULTILINE)[0] != "0"


def a_project_moves_only_where_one_gateway_has_both_regions():
    """To fetch it would be decided as `replicate` at the other end, and nobody could seal the manifests anew."""
    fleet = world["fleet"]
    fleet.client(fleet.admin).api("POST", "/projects", {"organisation": "main", "name": "apart", "region": HOME})
    sijil("admin", "project", "migrate", "HOST", "main/apart", KEYED)
    row = "FROM project_copy JOIN project USING (project_id) WHERE name = 'apart'"
    ask("WITH due AS (UPDATE project_copy SET due_at = now() - interval '2 minutes' WHERE region_id = '%s' RETURNING 1) SELECT count(*) FROM due" % KEYED)
    wait_until(lambda: ask(f"SELECT count(*) {row} AND state = 'unreachable' AND why LIKE '%both regions%'") == "1", 30,
               "nobody says so: " + ask(f"SELECT string_agg(state || ' ' || why, ',') {row}"))
    assert ask("SELECT home_region FROM project WHERE name = 'apart'") == HOME
    sijil("admin", "project", "migrate", "HOST", "main/apart", KEYED, "--end")
    wait_until(lambda: ask("SELECT count(*) " + row) == "0", 60, "the move does not end")


def both_gateways_have_all_regions_again():
    sijil("admin", "project", "replicate", "HOST", PROJECT, KEYED, "--end")
    soon(lambda: KEYED not in copies(), "the copies stay")
    restart((MAIN, REGIONAL), {number: lambda text: text for number in (MAIN, REGIONAL)})


def a_damaged_blob_is_read_from_its_copy_which_stays_as_the_last_sound_one():
    fleet = world["fleet"]
    fleet.client(fleet.admin).api("POST", "/projects", {"organisation": "main", "name": "rescued", "region": HOME})
    login = sijil_test.make_robot(fleet, "rescued", "publisher", "main/rescued")
    fleet.wait_known(login, "main/rescued/model")
    there, content = fleet.clients(login)[MAIN].repository("main/rescued/model"), os.urandom(300000)
    there.push_blob(content)
    answer = there.put_manifest("v1", there.manifest(content))
    assert answer.status == 201, (answer.status, answer.body)
    sijil("admin", "project", "replicate", "HOST", "main/rescued", FOLDER)
    rows = "FROM blob JOIN project USING (project_id) WHERE name = 'rescued' AND digest = '%s' AND region_id = '%s'"

    def count(region):
        return ask("SELECT count(*) " + rows % (sha256(content), region))
    soon(lambda: count(FOLDER) == "1", "no copy is made")
    name = ask("SELECT replace(blob_id::text, '-', '') " + rows % (sha256(content), HOME))
    files = [found for found in glob.glob(fleet.path("recorded/on-prem-a/**/*"), recursive=True) if os.path.basename(found).startswith(name)]
    for found in files:
        with open(found, "r+b") as file:
            file.seek(100000)
            file.write(b"\0" * 64)
    assert files, "the blob at home has no file"
    wait_until(lambda: pull(MAIN, sha256(content), there.name, login).body == content, 30, "no copy is read")
    newest = fleet.client(fleet.admin).api("GET", "/audit/events?action=blob.read&order=descending&limit=1")["events"][0]["entry"]
    assert f'"{FOLDER}"' in json.dumps(newest), newest
    assert there.call("HEAD", "blobs/" + sha256(content)).status == 404, "a push repairs nothing"
    sijil("admin", "project", "replicate", "HOST", "main/rescued", FOLDER, "--end")
    kept = "SELECT count(*) FROM project_copy JOIN project USING (project_id) WHERE name = 'rescued' AND withdrawn_at IS NOT NULL AND why LIKE '%last sound copy%'"
    soon(lambda: ask(kept) == "1", "nobody says that it stays")
    assert count(FOLDER) == "1", "the last sound copy is gone"
    there.push_blob(content)
    soon(lambda: count(FOLDER) == "0", "it stays though the home is repaired")
    assert pull(MAIN, sha256(content), there.name, login).body == content


CASES = (nothing_is_asked_of_a_gateway_whose_certificate_is_of_other_regions, copies_are_fetched_from_the_gateway_of_the_home_region,
         what_is_in_no_region_of_a_gateway_is_told_with_the_gateway_that_has_it, only_the_gateway_of_the_region_gets_bytes,
         a_set_that_tightens_cuts_a_transfer_at_the_home_end, a_fetched_copy_goes_on_after_either_end_was_killed,
         a_project_moves_only_where_one_gateway_has_both_regions, both_gateways_have_all_regions_again,
         a_damaged_blob_is_read_from_its_copy_which_stays_as_the_last_sound_one)
