"""Regions as people run them (docs/regions.md): cases of the scenario `buckets`, on its two gateways and its store."""
import json
import os
import re
import subprocess
import tempfile

import sijil_test
from sijil_test import wait_until

REGION = "local/main"
EXPIRES = "<Rule><Status>Enabled</Status><Filter><Prefix>many/</Prefix></Filter><Expiration><Days>1</Days></Expiration></Rule>"
folder = tempfile.TemporaryDirectory()
world = {}


def sijil(*words, code=0):
    """The command as the administrator, who also has the approver's key."""
    fleet, home = world["fleet"], folder.name
    environment = {**os.environ, "HOME": home, "XDG_CONFIG_HOME": home, "SIJIL_CA_FILE": fleet.ca_file}
    at = f"127.0.0.1:{fleet.port}"
    if not os.path.exists(os.path.join(home, "sijil")):
        subprocess.run([sijil_test.program("sijil"), "login", at, "--username", fleet.admin[0], "--ca-file", fleet.ca_file], input=fleet.admin[1] + "\n", text=True,
                       check=True, capture_output=True, env=environment, timeout=60)
    done = subprocess.run([sijil_test.program("sijil"), *[at if word == "HOST" else word for word in words]], text=True, capture_output=True, env=environment,
                          timeout=120, check=False)
    assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
    return json.loads(done.stdout) if "--json" in words and done.stdout else done.stdout + done.stderr


def region(number=0):
    answer = world["fleet"].clients(world["fleet"].admin)[number].api("GET", "/regions")
    return next(row for row in answer["regions"] if row["id"] == REGION)


def check(*words, code=0):
    return sijil("region", "check", "HOST", REGION, "--json", *words, code=code)


def approve(drafted):
    sijil("policy", "approve", "HOST", drafted["name"], "--key", world["fleet"].path("approver.pem"))


def pulls(digest):
    """(status, rule) of each gateway."""
    answers = [client.repository(world["repository"]).call("GET", f"blobs/{digest}") for client in world["fleet"].clients(world["login"])]
    return [(answer.status, "".join(re.findall("SYS-[A-Z-]+", answer.body.decode(errors="replace"))[:1])) for answer in answers]


def pull_is(digest, status):
    """Each gateway has the newest rights within a moment."""
    wait_until(lambda: {found for found, _ in pulls(digest)} == {status}, 30, f"pulls are not {status}")


def a_store_gets_a_mark_and_is_known_by_it():
    wait_until(lambda: "mark" in region(), 60, "no gateway has written a mark")
    mark = region()["mark"]
    assert region()["state"] == "active" and region(1)["mark"] == mark, region(1)
    report = check()
    assert report["agrees"] and report["mark"] == mark and report["place"] == "me-test-1", report
    assert [finding["about"] for finding in report["findings"]] == ["record"], report


def its_record_is_drafted_signed_and_in_force_without_a_restart():
    fleet = world["fleet"]
    evidence = os.path.join(folder.name, "certificate.txt")
    with open(evidence, "w", encoding="utf-8") as file:
        file.write("certified\n")
    refused = sijil("region", "add", "HOST", "onprem/x", "--geo", "AE/XX", code=2)
    assert "no place of ISO 3166" in refused, refused
    refused = sijil("region", "add", "HOST", "onprem/x", "--geo", "AE", "--regime", "DIFFC", code=2)
    assert "no known regime" in refused, refused
    refused = sijil("region", "add", "HOST", REGION, "--geo", "AE", code=2)
    assert "--change" in refused, refused
    drafted = sijil("region", "add", "HOST", REGION, "--change", "--geo", "AE/DU", "--regime", "AE-FED", "--operator", "Bank", "--controlled-from", "AE",
                    "--key-ring", "kr", "--key-geo", "AE/DU", "--key-control", "customer-soft", "--attr", f"iso27001=2099-01-31,{evidence}", "--endpoint",
                    fleet.store.endpoint, "--bucket", "models", "--location", "me-test-1", "--prefix", fleet.PREFIX, "--json")
    approve(drafted)
    wait_until(lambda: "store" in region(1).get("record", {}), 30, "the other gateway has no record")
    record = region(1)["record"]
    assert record["store"]["mark"] == region()["mark"] and record["attested"]["iso27001"]["until"] == "2099-01-31", record
    assert record["attested"]["iso27001"]["evidence"].startswith("sha256:") and record["geo"] == "AE/DU", record
    report = check()
    assert report["agrees"] and report["findings"] == [], report


def what_disagrees_is_quarantined_everywhere():
    fleet = world["fleet"]
    digest = fleet.clients(world["login"])[0].repository(world["repository"]).push_blob(b"before the quarantine")
    fleet.store.plan(lifecycle=EXPIRES)
    report = check(code=6)
    assert not report["agrees"] and [finding["about"] for finding in report["findings"] if finding["grave"]] == ["lifecycle"], report
    pull_is(digest, 403)
    assert {rule for _, rule in pulls(digest)} == {"SYS-QUARANTINE"}, pulls(digest)
    answer = fleet.clients(world["login"])[1].repository(world["repository"]).call("POST", "blobs/uploads/")
    assert answer.status == 403 and b"SYS-QUARANTINE" in answer.body, (answer.status, answer.body)
    assert "lifecycle" in region(1)["quarantine"] and region(1)["state"] == "quarantined", region(1)
    wait_until(lambda: all(REGION in client.call("GET", "/readyz").body.decode() for client in fleet.clients(None)), 30, "/readyz does not name the region")
    fleet.store.plan()
    assert region()["state"] == "quarantined", "a quarantine ends by itself"
    assert check()["agrees"]
    pull_is(digest, 200)
    wait_until(lambda: all("quarantined" not in client.call("GET", "/readyz").body.decode() for client in fleet.clients(None)), 30, "still on /readyz")
    kept = [fleet.psql.ask(f"SELECT count(*) FROM audit_entry WHERE action = '{action}'") for action in ("region.quarantine", "region.release")]
    assert "0" not in kept, kept
    wait_until(lambda: fleet.psql.ask("SELECT count(*) FROM audit_entry WHERE action = 'alarm.raise' AND encode(leaf, 'escape') LIKE '%region-quarantined%'") == "1",
               60, "no alarm was raised")


def another_set_releases_what_agrees_again():
    fleet = world["fleet"]
    fleet.store.plan(replication="<Rule><Status>Enabled</Status><Destination><Bucket>arn:aws:s3:::elsewhere</Bucket></Destination></Rule>")
    report = check(code=6)
    assert "arn:aws:s3:::elsewhere" in json.dumps(report), report
    fleet.store.plan(replication=403)  # it does not tell any more what it was quarantined for
    approve(sijil("region", "add", "HOST", REGION, "--change", "--site", "dc1", "--json"))
    wait_until(lambda: "disagreement" not in region() and "disagreement" not in region(1), 60, "nobody has looked")
    assert region()["state"] == "quarantined", "who takes away the right to ask ends the quarantine"
    fleet.store.plan(lifecycle=403)
    approve(sijil("region", "add", "HOST", REGION, "--change", "--site", "dc2", "--json"))
    wait_until(lambda: region()["state"] == "active", 60, "the signed record did not release the region")


def a_store_that_is_another_one_is_quarantined_until_a_person_says_so():
    fleet = world["fleet"]
    fleet.store.plan()
    fleet.store.forget(fleet.PREFIX + "sijil-region")
    report = check(code=6)
    assert [finding["about"] for finding in report["findings"] if finding["grave"]] == ["mark"], report
    assert check(code=6)["agrees"] is False
    assert check("--adopt")["agrees"]
    assert region()["state"] == "active", region()


def a_region_that_drains_takes_nothing_and_is_retired_when_it_is_empty():
    fleet = world["fleet"]
    repository = fleet.clients(world["login"])[0].repository(world["repository"])
    wait_until(lambda: repository.call("POST", "blobs/uploads/").status == 202, 30, "a region that was released takes nothing")
    digest = repository.push_blob(b"before it drains")
    refused = sijil("region", "retire", "HOST", REGION, code=1)
    assert "not draining" in refused, refused
    assert sijil("region", "drain", "HOST", REGION, "--json")["state"] == "draining"
    answer = repository.call("POST", "blobs/uploads/")
    assert answer.status == 403 and b"SYS-DRAINING" in answer.body, (answer.status, answer.body)
    pull_is(digest, 200)
    shown = sijil("region", "show", "HOST", REGION, "--json")
    assert shown["state"] == "draining" and shown["blobs"] > 0 and shown["homes"] > 0, shown
    assert any(project["home"] for project in shown["projects"]) and any(project["blobs"] > 0 for project in shown["projects"]), shown
    refused = sijil("region", "retire", "HOST", REGION, code=1)
    assert "not empty" in refused, refused
    assert sijil("region", "drain", "HOST", REGION, "--end", "--json")["state"] == "active"
    wait_until(lambda: repository.call("POST", "blobs/uploads/").status == 202, 30, "it takes nothing")
    assert sijil("region", "show", "HOST", "no/such", code=3)
    assert "customer-hsm, customer-soft or provider-kms" in sijil("region", "add", "HOST", "onprem/x", "--geo", "AE", "--key-control", "own", code=2)
    assert "the last day" in sijil("region", "add", "HOST", "onprem/x", "--geo", "AE", "--attr", "iso27001=2027-13-01,/etc/hostname", code=2)


def a_region_of_the_set_alone_is_served_without_a_restart():
    """Also after one: the database has its blobs, and no configuration has it."""
    fleet = world["fleet"]
    approve(sijil("region", "add", "HOST", "on-prem/a", "--geo", "AE/AZ", "--regime", "ADGM", "--comment", "another region", "--json"))
    wait_until(lambda: all(found and found[0]["served"] and "mark" in found[0] for found in (rows(0, "on-prem/a"), rows(1, "on-prem/a"))), 60,
               "the region is not served")
    row = rows(0, "on-prem/a")[0]
    assert row["mark"] == row["record"]["store"]["mark"] and row["geo"] == "AE/AZ", row
    admin = fleet.client(fleet.admin)
    admin.api("POST", "/projects", {"organisation": "main", "name": "adgm", "region": "on-prem/a"})
    login = sijil_test.make_robot(fleet, "adgm", "publisher", "main")
    fleet.wait_known(login, "main/adgm/x")
    there = fleet.clients(login)[0].repository("main/adgm/x")
    wait_until(lambda: there.call("POST", "blobs/uploads/").status == 202, 30, "the gateway that was not first serves nothing")
    digest = there.push_blob(b"in the region of the set")
    fleet.store.plan(lifecycle=EXPIRES)  # what is made of quarantined content has its label, too: a base is not hidden meanwhile
    check(code=6)
    wait_until(lambda: region()["state"] == "quarantined", 30, "it is not quarantined")
    made = there.put_manifest("v1", there.manifest(b"in the region of the set", annotations={"sijil.base": world["repository"]}))
    assert made.status == 201, (made.status, made.body)
    fleet.store.plan()
    assert check()["agrees"]
    assert any(name.endswith(".e0") or ".e" in name for _, _, names in os.walk(fleet.path("recorded/on-prem-a")) for name in names)
    fleet.stop_gateway(1)
    fleet.start_gateway(1)
    fleet.wait_for_gateway(1)
    assert fleet.clients(login)[1].repository("main/adgm/x").call("GET", f"blobs/{digest}").status == 200


def has_token(client):
    """One credential gets two tokens of the administration a second."""
    try:
        return client.token("registry:admin:*") != ""
    except sijil_test.NoToken:
        return False


def rows(number, name):
    admin = world["fleet"].clients(world["fleet"].admin)[number]
    wait_until(lambda: has_token(admin), 10, "there is no token")
    return [row for row in admin.api("GET", "/regions")["regions"] if row["id"] == name]


def an_empty_region_is_retired_for_ever():
    """It is a bucket of the set alone, with its access key in a folder of the gateways."""
    approve(sijil("region", "add", "HOST", "on/prem-a", "--geo", "AE", "--json"))  # it would have the folder of on-prem/a
    approve(sijil("region", "add", "HOST", "store/b", "--geo", "AE", "--endpoint", world["fleet"].store.endpoint, "--bucket", "models", "--location", "me-test-1",
                  "--prefix", "second/", "--json"))
    wait_until(lambda: all(found and found[0]["served"] and "mark" in found[0] for found in (rows(0, "store/b"), rows(1, "store/b"))), 60,
               "the region is not served")
    assert sijil("region", "check", "HOST", "store/b", "--json")["agrees"]
    assert rows(0, "on/prem-a") == rows(1, "on/prem-a") == [], "two regions share a folder"
    sijil("region", "drain", "HOST", "store/b")
    answer = world["fleet"].client(world["fleet"].admin).call("POST", "/api/v1/projects", json.dumps({"organisation": "main", "name": "late", "region": "store/b"}),
                                                               {"Content-Type": "application/json"}, scope="registry:admin:*")
    assert answer.status == 403 and b"SYS-DRAINING" in answer.body, (answer.status, answer.body)
    assert sijil("region", "retire", "HOST", "store/b", "--json")["state"] == "retired"
    sijil("region", "drain", "HOST", "store/b", "--end", code=1)
    assert rows(1, "store/b")[0]["state"] == "retired"


CASES = (a_store_gets_a_mark_and_is_known_by_it, its_record_is_drafted_signed_and_in_force_without_a_restart, what_disagrees_is_quarantined_everywhere,
         another_set_releases_what_agrees_again, a_store_that_is_another_one_is_quarantined_until_a_person_says_so,
         a_region_that_drains_takes_nothing_and_is_retired_when_it_is_empty, a_region_of_the_set_alone_is_served_without_a_restart,
         an_empty_region_is_retired_for_ever)
