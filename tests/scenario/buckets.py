#!/usr/bin/env python3
"""Two gateways with a region in a bucket: one continues an upload that the other began, also after kill -9.

The store is tests/support/s3_server.py; script/interop s3 does the same with real ones."""
import os
import subprocess
import threading
import time

import copy_cases
import mesh_cases
import region_cases
import region_keyd_cases
import sijil_test
from fleet import Judge, RegionFleet
from small_store import SmallStore
from sijil_test import sha256, wait_until

MIB = 1 << 20
REPOSITORY = "main/models/bucket"


fleet = RegionFleet(2, SmallStore())
state = {}


def push(content, pieces, after):
    """Uploads in that many PATCHes, through the gateways in turn; `after(number)` is called after each acknowledged PATCH."""
    places = [client.repository(REPOSITORY) for client in fleet.clients(state["login"])]
    location, offset, step = places[0].begin(), 0, -(-len(content) // pieces)
    while offset < len(content):
        number = offset // step
        answer = places[number % 2].patch(location, content[offset:offset + step], offset)
        assert answer.status == 202, (number, answer.status, answer.body)
        location, offset = answer["Location"], min(offset + step, len(content))
        after(number)
    return location, places


def check(content):
    for client in fleet.clients(state["login"]):
        place = client.repository(REPOSITORY)
        assert place.call("GET", f"blobs/{sha256(content)}").body == content
        part = place.call("GET", f"blobs/{sha256(content)}", headers={"Range": f"bytes={len(content) // 2}-{len(content) // 2 + 70000}"})
        assert part.status == 206 and part.body == content[len(content) // 2:len(content) // 2 + 70001]


def two_gateways_take_turns():
    fleet.start()
    state["login"] = sijil_test.make_robot(fleet, "ci", "publisher", "main/models")
    fleet.wait_known(state["login"], REPOSITORY)
    content = os.urandom(13 * MIB + 5)
    location, places = push(content, 6, lambda number: None)
    answer = places[1].close(location, sha256(content))
    assert answer.status == 201, (answer.status, answer.body)
    check(content)


def the_other_goes_on_when_one_is_killed_in_a_patch():
    content = os.urandom(24 * MIB + 7)
    places = [client.repository(REPOSITORY) for client in fleet.clients(state["login"])]
    for victim, kept in ((0, 3 * MIB), (1, 9 * MIB + 1)):  # less than one part is saved, or more
        location = places[victim].begin()
        location = places[victim].patch(location, content[:kept], 0)["Location"]
        before = len(fleet.store.requests())
        patch = threading.Thread(target=patch_in_vain, args=(places[victim], location, content, kept), daemon=True)
        patch.start()
        until = time.monotonic() + 60
        while sum(" PUT " in f" {line} " for line in fleet.store.requests()[before:]) < 1:  # it has begun to store
            assert time.monotonic() < until, "nothing is stored"
            time.sleep(0.01)
        fleet.kill(victim)
        fleet.wait_settled(victim)
        patch.join(60)
        other = places[1 - victim]
        answer = other.call("GET", location)
        offset = sijil_test.bytes_kept(answer)
        assert answer.status == 204 and offset >= kept, (answer.status, offset, kept)
        answer = other.patch(location, content[offset:], offset)
        assert answer.status == 202, (answer.status, answer.body)
        answer = other.close(location, sha256(content))
        assert answer.status == 201, (answer.status, answer.body)
        fleet.start_gateway(victim)
        fleet.wait_for_gateway(victim)
        check(content)
        assert places[0].call("DELETE", f"blobs/{sha256(content)}").status == 202


def patch_in_vain(place, location, content, kept):
    try:
        place.patch(location, content[kept:] + content, kept)  # long enough to be cut off in the middle
    except OSError:
        pass
    except sijil_test.http.client.HTTPException:
        pass


def nothing_is_left_of_uploads():
    rows = Judge.sql_at(fleet, "SELECT (SELECT count(*) FROM multipart) + (SELECT count(*) FROM multipart_piece)"
                               " + (SELECT count(*) FROM upload)")
    assert rows == "0", f"{rows} rows of uploads that are over"


def asked(config):
    """Output and status of --check-config --online, while gateways run."""
    outcome = subprocess.run([sijil_test.program("sijild"), "--check-config", "--online", "--config", config], stdin=subprocess.DEVNULL,
                             capture_output=True, text=True, timeout=120, check=False)
    return outcome.returncode, outcome.stderr


def the_bucket_is_asked_by_who_checks_a_configuration():
    good, wrong = fleet.path("gateway0.conf"), fleet.path("wrong.conf")
    status, said = asked(good)
    assert status == 0, said
    with open(good, encoding="utf-8") as file:
        text = file.read()
    with open(wrong, "w", encoding="utf-8") as file:
        file.write(text.replace('bucket_location = "', 'bucket_location = "elsewhere-'))
    status, said = asked(wrong)
    assert status == 2 and "region local/main" in said and "elsewhere-" in said, said
    with open(wrong, "w", encoding="utf-8") as file:
        file.write(text.replace('region "local/main"', 'region "local/renamed"').replace('metadata_region = "local/main"',
                                                                                       'metadata_region = "local/renamed"'))
    status, said = asked(wrong)
    assert status == 2 and "region local/main has blobs in the database and is not in this gateway's configuration" in said, said


def a_bucket_that_moved_is_found_by_the_scan():
    """The gateway that finds the move reads and writes nothing there any more. It checks the location every ten minutes."""
    admin = fleet.client(fleet.admin)
    digest = fleet.clients(state["login"])[0].repository(REPOSITORY).push_blob(b"before it moved")
    fleet.store.move("eu-elsewhere-1")
    wait_until(lambda: region_cases.has_token(admin), 10, "there is no token")
    sijil_test.follow(admin, admin.api("POST", "/scrubs", {})["id"], seconds=60, state="failed")
    statuses = sorted(client.repository(REPOSITORY).call("GET", f"blobs/{digest}").status for client in fleet.clients(state["login"]))
    assert statuses[-1] in (403, 503) and statuses[0] in (200, 403, 503), statuses  # the other may have looked, too; 403: in quarantine by now


def regions(case):
    """A case of region_cases.py or region_keyd_cases.py."""
    def run():
        region_cases.world.update(fleet=fleet, login=state["login"], repository=REPOSITORY)
        case()
    run.__name__ = case.__name__
    return run


sijil_test.run(two_gateways_take_turns, the_other_goes_on_when_one_is_killed_in_a_patch, nothing_is_left_of_uploads,
               the_bucket_is_asked_by_who_checks_a_configuration,
               *[regions(case) for case in (*region_cases.CASES, *region_keyd_cases.CASES, *copy_cases.CASES, *mesh_cases.CASES, *copy_cases.LAST, *region_keyd_cases.LAST)],
               a_bucket_that_moved_is_found_by_the_scan, server=fleet)
