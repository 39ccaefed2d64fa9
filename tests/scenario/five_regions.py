#!/usr/bin/env python3
"""Five regions in two countries under four regimes: two object stores, folders, and one with a sijil-keyd of its own. Three worked examples of policies, an officer that goes from
nothing to "ADGM alone", and the ways around the policies that no other test has (docs/bypasses.md)."""
import json
import os
import subprocess
import tempfile
import urllib.parse

import region_cases
import region_keyd_cases
import sijil_test
from fleet import RegionFleet
from region_cases import approve, sijil
from signing_keys import Key
from sijil_test import make_person, make_robot, sha256, wait_until
from small_store import SmallStore

fleet = RegionFleet(1, SmallStore(), [("store/two", SmallStore())])
folder = tempfile.TemporaryDirectory()
state = {}
HERE, FAR = "127.0.0.1", "127.0.9.1"
SECRET = b"name,diagnosis\nthe only patient of this test\n" * 3000
RECORDS = {"local/main": ["--change", "--geo", "AE/AZ", "--regime", "ADGM", "--key-geo", "AE/AZ", "--key-control", "customer-hsm", "--prefix", fleet.PREFIX],
           "store/two": ["--geo", "DE", "--regime", "EU-GDPR", "--key-geo", "DE", "--key-control", "customer-hsm", "--prefix", "two/"],
           "on-prem/difc": ["--geo", "AE/DU", "--regime", "DIFC", "--key-geo", "AE/DU", "--key-control", "customer-hsm"],
           "on-prem/kms": ["--geo", "AE/AZ", "--regime", "AE-FED", "--key-geo", "AE/AZ", "--key-control", "provider-kms"],
           "onprem/dc9": ["--geo", "AE", "--regime", "AE-FED", "--key-ring", "kr9", "--key-geo", "AE", "--key-control", "customer-soft"]}
STORED = ["ingest", "mount", "replicate", "migrate", "cache", "backup", "restore"]
USED = ["read", "train", "export"]
EACH = [*STORED, *USED, "metadata", "log", "key-wrap", "promote"]


# --- the worked examples ------------------------------------------------------------------------------------------------------
def policy(name, scope, rules, **more):
    metadata = {"id": name, "version": 1, "scope": scope, "effective_from": "2026-01-01T00:00:00Z", "review_by": "2099-01-01", **more.pop("metadata", {})}
    return {"apiVersion": "sijil.policy/v1", "kind": "ResidencyPolicy", "metadata": metadata, "rules": rules, **more}


def require(name, ops, target, **when):
    return {"id": name, "effect": "require", "ops": ops, **({"when": when} if when else {}), **target}


def permit(name, at_most):
    return {"id": name, "effect": "permit", "ops": EACH, "when": {"class_at_most": at_most}}


def examples():
    """A floor for everybody; health data stay in the State with their keys; a bank's models stay under the DIFC's law or an adequate one; and what is public is about nobody."""
    floor = policy("org-floor", ["**"], [
        require("O-SECRET", STORED, {"target": {"geo_within": ["AE"], "attrs_all": ["sovereign"], "key_control_in": ["customer-hsm"]}}, class_at_least="secret"),
        require("O-BANK-AE", STORED, {"target": {"geo_within": ["AE"]}}, attached_any=["AE-CBUAE"])], closed=False)
    health = policy("health-ae", ["health/**"], [
        require("H-STORE-AE", [*STORED, "metadata", "log"], {"target": {"geo_within": ["AE"]}}, subjects_any=["health"]),
        require("H-KEY-AE", STORED, {"target": {"key_geo_within": ["AE"], "key_control_in": ["customer-hsm", "customer-soft"]}}, subjects_any=["health"]),
        require("H-READ-AE", USED, {"target": {"geo_within": ["AE"], "min_assurance": 2}}, subjects_any=["health"]), permit("H-PERMIT", "sensitive")],
        labels={"class": "sensitive", "subjects": ["personal", "health"], "attached": ["AE-FED"]}, metadata={"applies_to_labels": {"subjects_any": ["health"]}})
    bank = policy("difc-bank", ["difcbank/**"], [
        require("D-TRANSFER", [*STORED, *USED], {"any_of": [{"regime_any": ["DIFC"]}, {"regime_in_group": ["DIFC-ADEQUATE"]}]}, attached_any=["DIFC"]),
        require("D-KEY-HSM", STORED, {"target": {"key_control_in": ["customer-hsm"]}}, class_at_least="confidential"), permit("D-PERMIT", "sensitive")],
        labels={"class": "confidential", "subjects": ["personal", "financial-customer"], "attached": ["DIFC"]}, metadata={"applies_to_labels": {"attached_any": ["DIFC"]}})
    public = policy("public-models", ["public/**"], [
        require("P-NO-TAINT", [*STORED, *USED, "promote"], {"label": {"subjects_none": ["personal", "health", "financial-customer"]}}), permit("P-PERMIT", "open")],
        labels={"class": "open", "subjects": [], "attached": []})
    return [floor, health, bank, public, policy("rest", ["main/**"], [permit("M-PERMIT", "confidential")], labels={"class": "confidential"})]


def load(**more):
    """A set with the root's signature: the regions of the set in force, and these policies."""
    path = fleet.path("five.json")
    document = json.loads(sijil("policy", "show", "HOST", "--document"))
    document.update({"policies": examples(), "groups": {"DIFC-ADEQUATE": {"kind": "regime", "members": ["EU-GDPR", "ADGM"], "as_of": "2026-11-20"}},
                     "networks": [{"cidr": "127.0.0.0/24", "facts": {"geo": "AE/DU", "regimes": ["AE-FED", "DIFC"], "assurance": 2}},
                                  {"cidr": "127.0.9.0/24", "facts": {"geo": "DE", "regimes": ["EU-GDPR"], "assurance": 2}}], **more})
    with open(path, "w", encoding="utf-8") as file:
        json.dump(document, file)
    epoch = api("GET", "/policies")["epoch"] + 1
    sijil("policy", "sign", "--key", fleet.path("approver.pem"), "--epoch", str(epoch), "--output", path + ".dsse", path)
    with open(path + ".dsse", encoding="utf-8") as file:
        api("POST", "/policies", json.load(file))
    os.unlink(path + ".dsse")
    wait_until(lambda: api("GET", "/policies")["epoch"] == epoch, 30, "the set is not in force")
    if fleet.psql.ask("SELECT count(*) FROM misplaced_content") != "0":  # what the set before had closed may be open again
        wait_until(lambda: fleet.psql.ask(f"SELECT after IS NULL AND done_version >> 40 = {epoch} FROM placement_review") == "t", 30, "nobody looks what may stay where it is")


def api(method, path, document=None):
    return state["admin"].api(method, path, document)


def rules(answer):
    """What refuses."""
    if answer.status != 403:
        return answer.status
    found = answer.json.get("denials") or answer.json["errors"][0]["detail"]["denials"]
    return sorted(one["rule"] for one in found)


def post(path, document, method="POST"):
    return state["admin"].call(method, "/api/v1" + path, json.dumps(document), {"Content-Type": "application/json"}, scope="registry:admin:*")


def place(organisation, name, region):
    """The rules that refuse a project there, or 201."""
    return rules(post("/projects", {"organisation": organisation, "name": name, "region": region}))


# --- what rests -----------------------------------------------------------------------------------------------------------------
def at_rest():
    """All objects of the five regions, and the rows of sessions and of what is to be removed."""
    objects = []
    for root in (fleet.path("recorded"), fleet.path("regions")):
        for where, _, names in os.walk(root):
            objects += [(os.path.join(where, name), os.path.getsize(os.path.join(where, name))) for name in names]
    stores = [fleet.store.requests()[-1].split()[-2:], in_store_two()]  # objects, and uploads in parts
    rows = fleet.psql.ask("SELECT (SELECT count(*) FROM blob) || ' ' || (SELECT count(*) FROM upload) || ' ' || (SELECT count(*) FROM multipart)")
    return sorted(objects), stores, rows


def leaves_nothing(what):
    """Runs it, and waits until all that it has left is gone."""
    before = at_rest()
    what()
    wait_until(lambda: at_rest() == before, 60, f"something is left: {before} {at_rest()}")


def is_served(name):
    found = region_cases.rows(0, name)
    return bool(found) and found[0]["served"] and "mark" in found[0]


def prepare():
    fleet.start()
    state["admin"] = fleet.client(fleet.admin)
    region_cases.world.update(fleet=fleet)
    wait_until(lambda: "mark" in region_cases.region(), 60, "no gateway has written a mark")
    path = region_keyd_cases.path
    with open(path("pass"), "w", encoding="ascii", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write("correct horse\n")
    with open(path("main.pem"), "w", encoding="ascii") as file:
        file.write(sijil("audit", "key", "HOST", "--documents"))
    RECORDS["onprem/dc9"] += ["--keyd", region_keyd_cases.make_ring("onprem-dc9", "onprem/dc9")]
    for name, store in (("local/main", fleet.store), *fleet.others):
        RECORDS[name] += ["--endpoint", store.endpoint, "--bucket", "models", "--location", "me-test-1"]
    region_keyd_cases.begin()
    for name, words in RECORDS.items():
        approve(sijil("region", "add", "HOST", name, *words, "--json"))
    wait_until(lambda: all(is_served(name) for name in RECORDS) and region_keyd_cases.keyd().get("usable"), 60, "a region is not served")
    sijil("region", "check", "HOST", "local/main")
    for name in ("health", "difcbank", "public"):
        api("POST", "/organisations", {"name": name})
    load()


# --- cases ----------------------------------------------------------------------------------------------------------------------
def each_example_is_placed_as_it_says():
    """Which of the five regions takes it, and which rules refuse it elsewhere."""
    def ask(organisation):
        return {region: place(organisation, region.replace("/", "-"), region) for region in RECORDS}
    assert ask("health") == {"local/main": 201, "store/two": ["H-KEY-AE", "H-STORE-AE"], "on-prem/difc": 201, "on-prem/kms": ["H-KEY-AE"], "onprem/dc9": 201}
    assert ask("difcbank") == {"local/main": 201, "store/two": 201, "on-prem/difc": 201, **dict.fromkeys(("on-prem/kms", "onprem/dc9"), ["D-KEY-HSM", "D-TRANSFER"])}
    assert ask("public") == dict.fromkeys(RECORDS, 201)
    assert rules(post("/projects/public/local-main/label", {"subjects": ["health"]}, "PUT")) == ["P-NO-TAINT"]
    assert rules(post("/projects/health/local-main/label", {"class": "secret"}, "PUT")) == ["O-SECRET"]
    assert rules(post("/projects/difcbank/store-two/label", {"attached": ["AE-CBUAE"]}, "PUT")) == ["O-BANK-AE"]
    for organisation in ("health", "difcbank", "public"):
        state[organisation] = fleet.client(make_robot(fleet, "all", "publisher", organisation, organisation))
        state[organisation + " reader"] = fleet.client(make_robot(fleet, "reads", "consumer", organisation, organisation))
    for name in ("health/local-main/scans", "health/on-prem-difc/scans", "health/onprem-dc9/scans"):
        there = state["health"].repository(name)
        there.push_blob(SECRET)
        assert there.put_manifest("v1", there.manifest(SECRET)).status == 201


def asked(client, path, address, method="GET", token=None, **headers):
    """The answer to one request from an address."""
    link = client.connection(address=address)
    repository = path.split("/v2/")[1].split("/blobs/")[0].split("/manifests/")[0].split("/tags/")[0].split("/referrers/")[0]
    token = token or client.token(f"repository:{repository}:pull")
    try:
        return client.call(method, path, headers={"Authorization": "Bearer " + token, **headers}, connection=link)
    finally:
        link.close()


def no_way_of_reading_goes_around_the_place_of_the_client():
    """Ranges, HEAD, tags, referrers; a token that was made at home; and what a client says of its own address. From home each of them is answered."""
    reader, name = state["health reader"], "/v2/health/on-prem-difc/scans"
    manifest = asked(reader, name + "/manifests/v1", HERE)
    token = reader.token("repository:health/on-prem-difc/scans:pull")
    spoofed = {"X-Forwarded-For": HERE, "Forwarded": f"for={HERE}", "X-Real-IP": HERE, "True-Client-IP": HERE, "CF-Connecting-IP": HERE, "Via": "1.1 home"}
    ways = [("GET", "/blobs/" + sha256(SECRET), {}), ("GET", "/blobs/" + sha256(SECRET), {"Range": "bytes=0-9"}), ("GET", "/blobs/" + sha256(SECRET), {"Range": "bytes=-1"}),
            ("HEAD", "/blobs/" + sha256(SECRET), {}), ("HEAD", "/blobs/" + sha256(SECRET), {"Range": "bytes=0-9"}), ("GET", "/manifests/v1", {}),
            ("GET", "/manifests/" + manifest["Docker-Content-Digest"], {}), ("HEAD", "/manifests/v1", {}), ("GET", "/manifests/v1", {"If-None-Match": manifest["ETag"] or '"x"'}),
            ("GET", "/tags/list", {}), ("GET", "/referrers/" + manifest["Docker-Content-Digest"], {})]
    for method, path, headers in ways:
        near = asked(reader, name + path, HERE, method, token, **headers)
        assert near.status in (200, 206, 304), (method, path, headers, near.status)
        for more in ({}, spoofed):
            far = asked(reader, name + path, FAR, method, token, **headers, **more)
            assert far.status == 403 and SECRET[:20] not in far.body and far["Docker-Content-Digest"] is None and far["Content-Range"] is None, (method, path, far.status)
            assert method == "HEAD" or rules(far) == ["H-READ-AE"], (method, path, far.body)
    for address in (HERE, FAR):
        found = asked(reader, "/v2/_catalog", address, token=reader.token("registry:catalog:*")).json["repositories"]
        assert ("health/on-prem-difc/scans" in found) == (address == HERE), (address, found)


def bytes_at_rest_are_nothing_without_the_gateway():
    """Neither a folder of a region nor an answer helps anybody to go around it: files are ciphertext, and nobody is sent to a bucket."""
    for root in (fleet.path("recorded"), fleet.path("regions")):
        for where, _, names in os.walk(root):
            for name in names:
                with open(os.path.join(where, name), "rb") as file:
                    assert SECRET[15:40] not in file.read(), (where, name)
    kept = [os.path.join(where, name) for where, _, names in os.walk(fleet.path("recorded")) for name in names if name != "sijil-region"]
    assert kept, "nothing lies in the folders"
    answers = [asked(state["health"], f"/v2/health/{name}/scans/blobs/{sha256(SECRET)}", HERE) for name in ("local-main", "on-prem-difc", "onprem-dc9")]
    for answer in answers:
        assert answer.status == 200 and answer.body == SECRET and answer["Location"] is None, answer.headers
        assert not [value for value in answer.headers.values() if str(urllib.parse.urlsplit(fleet.store.endpoint).port) in value], answer.headers


def stays(scope):
    return policy("stays", [scope], [{"id": "S-STOP", "effect": "deny", "ops": ["ingest", "mount"], "target": {"geo_within": ["AE"]}, "message": "moved away"}], closed=False)


def sessions_and_tokens_of_the_old_set_bring_nothing_more():
    """Begun under the old set: the next piece, the last one, and the end without one are refused; so is a mount, in all regions. What was sent is removed."""
    names = ["health/local-main/late", "health/on-prem-difc/late", "health/onprem-dc9/late"]
    places = [state["health"].repository(name) for name in names]
    for there in places:
        there.client.token(there.scope)  # made under the old set

    def begin_and_end():
        begun = [[there.patch(there.begin(), SECRET, 0)["Location"] for _ in range(3)] for there in places]
        load(policies=[*examples(), stays("health/**")])
        for there, (goes_on, brings_last, only_ends) in zip(places, begun):
            answers = [there.patch(goes_on, b"more", len(SECRET)), there.close(brings_last, sha256(SECRET + b"more"), b"more"), there.close(only_ends, sha256(SECRET)),
                       there.call("POST", "blobs/uploads/"), there.call("POST", "blobs/uploads/?digest=" + sha256(b"whole"), b"whole"),
                       there.call("POST", f"blobs/uploads/?mount={sha256(SECRET)}&from={there.name.replace('late', 'scans')}")]
            for number, answer in enumerate(answers):
                assert rules(answer) == ["S-STOP"], (there.name, number, answer.status, answer.body)
            for location in (goes_on, brings_last, only_ends):
                there.call("DELETE", location)
            assert there.call("HEAD", "blobs/" + sha256(SECRET)).status == 404
    leaves_nothing(begin_and_end)
    load()


def a_manifest_that_is_refused_leaves_no_row():
    """Its label breaks the place. The bytes go within a minute, while the other cases go on: nobody else writes into that region."""
    label = {"attached": ["AE-CBUAE"], "class": "sensitive", "lineage": "attested", "pins": ["difc-bank"], "subjects": ["financial-customer", "personal"]}
    there, content = state["difcbank"].repository("difcbank/store-two/model"), os.urandom(200000)
    state["before"] = in_store_two()
    there.push_blob(content)
    assert in_store_two() != state["before"]
    answer = there.put_manifest("v1", there.manifest(content, annotations={"sijil.label": json.dumps(label, sort_keys=True, separators=(",", ":"))}))
    assert answer.status == 403 and b"O-BANK-AE" in answer.body, (answer.status, answer.body)
    assert there.call("HEAD", "blobs/" + sha256(content)).status == 404
    assert fleet.psql.ask(f"SELECT count(*) FROM blob WHERE digest = '{sha256(content)}'") == "0", "the row and its wrapped key are left"


def in_store_two():
    """Its objects, and uploads in parts."""
    return fleet.others[0][1].requests()[-1].split()[-2:]


def its_bytes_are_gone_from_the_store():
    wait_until(lambda: in_store_two() == state["before"], 90, f"something is left: {state['before']}")


def the_same_bytes_are_no_other_data():
    """A name or a label in another spelling is refused, or governed as the same."""
    for label in ({"subjects": ["Health"]}, {"subjects": ["health "]}, {"subjects": ["\uff48ealth"]}, {"subjects": ["he\u0430lth"]}, {"subjects": ["health\u200b"]}, {"class": "OPEN"},
                  {"class": "open\u0000"}, {"attached": ["ae-fed"]}, {"Subjects": ["health"]}):
        answer = post("/projects/public/local-main/label", label, "PUT")
        assert answer.status == 400, (label, answer.status, answer.body)
    for name in ("Health", "he\u0430lth", "\uff48ealth", "health/..", "health%2fscans"):
        assert post("/organisations", {"name": name}).status == 400, name
    for path in ("health/../public/local-main/x", "health/./local-main/x", "health//local-main/x", "Health/local-main/x", "health/local-main/%2e%2e/x"):
        answer = state["health"].call("POST", f"/v2/{path}/blobs/uploads/", scope="repository:health/local-main/x:pull,push")
        assert answer.status in (400, 401, 403, 404), (path, answer.status)


def a_person(who, *words, given=None):
    """One command that a person types; each has a folder of its own for logins."""
    home = os.path.join(folder.name, who)
    os.makedirs(home, exist_ok=True)
    done = subprocess.run([sijil_test.program("sijil"), *[f"127.0.0.1:{fleet.port}" if word == "HOST" else word for word in words]], input=given, text=True,
                          capture_output=True, timeout=120, check=False, cwd=home, env={**os.environ, "HOME": home, "XDG_CONFIG_HOME": home})
    state["commands"] = state.get("commands", 0) + 1
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return json.loads(done.stdout) if "--json" in words else done.stdout + done.stderr


def two_persons_go_from_nothing_to_adgm_alone_in_nine_commands():
    """Neither has a login before; one holds the root's key. From then on one person changes nothing more."""
    api("POST", "/organisations", {"name": "adgmbank"})
    logins = {who: make_person(fleet, who, "registry-admin", "") for who in ("amal", "badr")}
    root, key = fleet.path("approver.pem"), Key("unused", "approve")
    for who, (user, password) in logins.items():
        a_person(who, "login", "HOST", "--username", user, "--ca-file", fleet.ca_file, given=password + "\n")
    enrolled = a_person("badr", "key", "enroll", "HOST", "--key", key.path, "--purpose", "approve", "--json")
    a_person("amal", "key", "approve", "HOST", enrolled["name"], "--key", root)
    amal = a_person("amal", "whoami", "HOST", "--json")["person"]
    said = a_person("amal", "policy", "init", "HOST", "--regime", "adgm", "--organisation", "adgmbank", "--region", "local/main", "--network", "127.0.5.0/24", "-o", "next.json")
    assert "adgmbank/** may be stored in local/main, and in no other region of this set." in " ".join(said.split()), said
    drafted = a_person("amal", "policy", "draft", "HOST", "next.json", "--root", "2", "--policies", "2", "--officers", "2", "--holder", amal, "--json")["name"]
    a_person("amal", "policy", "approve", "HOST", drafted, "--key", root)
    before = api("GET", "/policies")["epoch"]
    done = a_person("badr", "policy", "approve", "HOST", drafted, "--key", key.path, "--json")
    assert done["state"] == "in-force" and state["commands"] == 9, (done, state["commands"])
    wait_until(lambda: api("GET", "/policies")["epoch"] == before + 1, 30, "the set is not in force")
    answers = {region: place("adgmbank", region.replace("/", "-"), region) for region in RECORDS}
    assert answers == {"local/main": 201, "store/two": ["A-TRANSFER"], "on-prem/difc": ["A-TRANSFER"], "on-prem/kms": ["A-KEY", "A-TRANSFER"], "onprem/dc9": ["A-TRANSFER"]}, answers
    login = make_robot(fleet, "ci", "publisher", "adgmbank", "adgmbank")
    there = fleet.client(login).repository("adgmbank/local-main/model")
    there.push_blob(b"for the ADGM alone")
    assert there.put_manifest("v1", there.manifest(b"for the ADGM alone")).status == 201
    read = {address: asked(there.client, "/v2/adgmbank/local-main/model/blobs/" + sha256(b"for the ADGM alone"), address).status for address in (HERE, FAR, "127.0.5.1")}
    assert read == {HERE: 403, FAR: 403, "127.0.5.1": 200}, read
    answer = state["admin"].call("POST", "/api/v1/policies", fleet.policy_set(before + 2), {"Content-Type": "application/json"}, scope="registry:admin:*")
    assert answer.status == 403 and b"needs 2 persons" in answer.body, (answer.status, answer.body)


def the_second_sijil_keyd_ends():
    region_keyd_cases.end()


sijil_test.run(prepare, each_example_is_placed_as_it_says, no_way_of_reading_goes_around_the_place_of_the_client, bytes_at_rest_are_nothing_without_the_gateway,
               sessions_and_tokens_of_the_old_set_bring_nothing_more, a_manifest_that_is_refused_leaves_no_row, the_same_bytes_are_no_other_data,
               two_persons_go_from_nothing_to_adgm_alone_in_nine_commands, its_bytes_are_gone_from_the_store, the_second_sijil_keyd_ends, server=fleet)
