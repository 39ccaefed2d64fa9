"""A region whose keys are with a sijil-keyd of its own (docs/region-keyd.md): cases of the scenario `buckets`, after those of region_cases.py."""
import os
import re
import subprocess

import sijil_test
from region_cases import approve, rows, sijil, world
from sijil_test import wait_until

REGION = "onprem/dc9"
state = {}


def path(*names):
    return world["fleet"].path(os.path.join("region-keyd", *names))


def make_ring(name, region):
    """For the region as `sijil-keyd --init --region` does, with a passphrase that costs little. Returns the key that the record names."""
    os.makedirs(path(name + ".ring"), mode=0o700, exist_ok=False)
    subprocess.run([os.path.join(sijil_test.BUILD, "tests/integration/ring_tool"), path(name + ".ring"), f"registry.example/audit#region={region}", path("pass")],
                   check=True)
    return act(name, "--main-key", path("main.pem"))


def act(name, *words):
    """Runs sijil-keyd to its end on the folder of a region."""
    done = subprocess.run([sijil_test.program("sijil-keyd"), "--directory", path(name + ".ring"), "--passphrase-file", path("pass"), *words], capture_output=True,
                          text=True, timeout=60, check=False)
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout.strip()


def begin(name="onprem-dc9", geo="AE"):
    """Its socket replaces the one of before."""
    before = os.stat(path(name)).st_ino if os.path.exists(path(name)) else 0
    state[name] = subprocess.Popen([sijil_test.program("sijil-keyd"), "--directory", path(name + ".ring"), "--passphrase-file", path("pass"), "--socket",
                                    path(name), "--key-ring", "kr9", "--key-geo", geo, "--key-control", "customer-soft"],
                                   stdout=world["fleet"].log, stderr=world["fleet"].log, stdin=subprocess.DEVNULL)
    until(lambda: os.path.exists(path(name)) and os.stat(path(name)).st_ino != before, "the sijil-keyd of the region does not start")


def end(how="terminate", name="onprem-dc9"):
    getattr(state[name], how)()
    state[name].wait(30)


def until(what, why, show=lambda: ""):
    try:
        wait_until(what, 60, why)
    except AssertionError:
        raise AssertionError(f"{why}: {show()}") from None


def keyd(number=0):
    found = rows(number, REGION)
    return found[0].get("keyd", {}) if found else {}


def pulls(digest, number=0):
    """(status, rule)"""
    answer = world["fleet"].clients(state["login"])[number].repository("main/dc9/x").call("GET", f"blobs/{digest}")
    return answer.status, "".join(re.findall("SYS-[A-Z-]+", answer.body.decode(errors="replace"))[:1])


def pull_is(digest, *wanted):
    until(lambda: pulls(digest) == wanted, f"a pull is not {wanted}", lambda: pulls(digest))


def look(code=0):
    """The first gateway asks at once; the other one within five seconds."""
    return sijil("region", "check", "HOST", REGION, "--json", code=code)


def disagrees(region):
    try:
        return "has keys" in sijil("region", "check", "HOST", region, code=6)
    except AssertionError:  # it ends with 0
        return False


def metric():
    text = sijil_test.Client(world["fleet"], None, world["fleet"].ports[0]).call("GET", "/metrics").body.decode()
    return re.findall(r'^sijil_region_keys\{region="onprem/dc9"\} (\d)', text, re.MULTILINE)


def a_new_region_gets_keys_of_its_own():
    fleet = world["fleet"]
    with open(path("pass"), "w", encoding="ascii", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write("correct horse\n")
    with open(path("main.pem"), "w", encoding="ascii") as file:
        file.write(sijil("audit", "key", "HOST", "--documents"))
    state["key"] = make_ring("onprem-dc9", REGION)
    begin()
    approve(sijil("region", "add", "HOST", REGION, "--geo", "AE", "--regime", "AE-FED", "--key-ring", "kr9", "--key-geo", "AE", "--key-control", "customer-soft",
                  "--keyd", state["key"], "--json"))
    until(lambda: keyd(0).get("usable") and keyd(1).get("usable"), "a gateway has no keys", lambda: (keyd(0), keyd(1)))
    assert keyd()["key"] == state["key"] and keyd()["version"] == 1 and keyd()["epoch"] > 0, keyd()
    fleet.client(fleet.admin).api("POST", "/projects", {"organisation": "main", "name": "dc9", "region": REGION})
    state["login"] = sijil_test.make_robot(fleet, "dc9", "publisher", "main/dc9")
    fleet.wait_known(state["login"], "main/dc9/x")
    there = fleet.clients(state["login"])[0].repository("main/dc9/x")
    until(lambda: there.call("POST", "blobs/uploads/").status == 202, "it takes nothing")
    state["first"], state["second"] = there.push_blob(b"under a key of its own"), there.push_blob(b"and another one")
    assert pulls(state["first"], 1) == (200, "")
    report = look()
    assert report["agrees"] and report["findings"] == [] and keyd()["unwraps"] > 0, (report, keyd())
    kept = fleet.psql.ask(f"SELECT keyd FROM region WHERE region_id = '{REGION}'")
    assert kept == state["key"], kept
    assert fleet.psql.ask("SELECT count(*) FROM audit_entry WHERE action = 'region.keyd'") != "0"
    assert metric() == ["1"], metric()


def without_it_that_region_alone_stands_still():
    """After kill -9 nothing is lost. The key of the second blob is in the memory of no gateway but the first."""
    fleet = world["fleet"]
    end("kill")
    assert pulls(state["second"], 1)[0] == 503, pulls(state["second"], 1)
    report = look()
    assert [finding["about"] for finding in report["findings"]] == ["keyd"], report
    assert metric() == ["0"] and "does not say where it is" in keyd()["problem"], keyd()
    ready = fleet.client(None).call("GET", "/readyz")
    assert ready.status == 200 and REGION in ready.body.decode(), ready.body
    there = fleet.clients(state["login"])[0].repository("main/dc9/x")
    assert there.call("POST", "blobs/uploads/").status == 503
    there = fleet.clients(world["login"])[0].repository(world["repository"])
    assert there.call("GET", f"blobs/{there.push_blob(b'elsewhere')}").status == 200
    begin()
    assert look()["findings"] == []
    until(lambda: pulls(state["second"], 1) == (200, ""), "the other gateway does not go on", lambda: keyd(1))


def who_is_not_told_which_set_is_in_force_opens_nothing():
    """It believes another main sijil-keyd: so it is told nothing that it believes, as one that is cut off for ten minutes."""
    end()
    assert act("onprem-dc9", "--main-key", world["fleet"].path("approver.pem")) == state["key"]
    begin()
    report = look()
    assert [finding["about"] for finding in report["findings"]] == ["keyd"] and report["agrees"], report
    assert pulls(state["first"]) == (403, "SYS-NOT-CURRENT"), pulls(state["first"])
    answer = world["fleet"].clients(state["login"])[0].repository("main/dc9/x").call("POST", "blobs/uploads/")
    assert answer.status == 403 and b"SYS-NOT-CURRENT" in answer.body, (answer.status, answer.body)
    answer = world["fleet"].clients(state["login"])[1].repository("main/dc9/x").call("POST", "blobs/uploads/")
    assert answer.status in (403, 503), (answer.status, answer.body)  # 503: this gateway does not know it yet, and sijil-keyd refuses by itself
    end()
    act("onprem-dc9", "--main-key", path("main.pem"))
    begin()
    assert look()["findings"] == []
    assert pulls(state["first"]) == (200, ""), pulls(state["first"])


def keys_at_another_place_than_the_record_says_are_a_quarantine():
    end()
    begin(geo="SA")
    report = look(code=6)
    assert [finding["about"] for finding in report["findings"] if finding["grave"]] == ["keyd"], report
    pull_is(state["first"], 403, "SYS-QUARANTINE")
    assert "place of its keys" in rows(0, REGION)[0]["quarantine"], rows(0, REGION)
    end()
    begin()
    assert look()["agrees"]
    pull_is(state["first"], 200, "")


def a_region_that_has_keys_gets_no_sijil_keyd():
    """What is there could be opened by the main one alone."""
    key = make_ring("on-prem-a", "on-prem/a")
    begin("on-prem-a")
    approve(sijil("region", "add", "HOST", "on-prem/a", "--change", "--keyd", key, "--json"))
    until(lambda: "keyd" in rows(0, "on-prem/a")[0], "the record is not in force")
    until(lambda: disagrees("on-prem/a"), "its keys are asked of another sijil-keyd")  # at first another gateway might have begun it just now
    assert "has keys" in rows(0, "on-prem/a")[0]["quarantine"], rows(0, "on-prem/a")
    assert world["fleet"].psql.ask("SELECT count(*) FROM region WHERE region_id = 'on-prem/a' AND keyd IS NOT NULL") == "0"
    end("terminate", "on-prem-a")
    end()


CASES = (a_new_region_gets_keys_of_its_own, without_it_that_region_alone_stands_still, who_is_not_told_which_set_is_in_force_opens_nothing,
         keys_at_another_place_than_the_record_says_are_a_quarantine)
LAST = (a_region_that_has_keys_gets_no_sijil_keyd,)  # the region is closed from then on
