#!/usr/bin/env python3
"""Two gateways whose region lies in a bucket: an upload that one began is gone on with by the other, also after kill -9.

The store is tests/support/s3_server.py; script/interop s3 does the like with real ones."""
import os
import subprocess
import threading
import time

import sijil_test
from fleet import Fleet, Judge
from sijil_test import sha256

MIB = 1 << 20
SERVER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support/s3_server.py")
BUCKET, LOCATION, REGION = "models", "me-test-1", "local/main"
REPOSITORY = "main/models/bucket"


class Buckets(Fleet):
    """The region of every gateway is a bucket of one store."""

    def start(self, wait=True):
        self.bucket = self.path("bucket")
        os.mkdir(self.bucket, 0o700)
        # pylint: disable=consider-using-with
        self.store = subprocess.Popen(["/usr/bin/python3", SERVER, self.bucket, "--part-minimum", str(5 * MIB)],
                                      stdin=subprocess.PIPE, stdout=self.log, stderr=self.log)
        until = time.monotonic() + 30
        while not os.path.exists(self.bucket + "/port"):
            assert time.monotonic() < until and self.store.poll() is None, "the store does not listen"
            time.sleep(0.05)
        return super().start(wait)

    def configure(self, **settings):
        super().configure(**settings)
        with open(self.bucket + "/port", encoding="ascii") as file:
            port = int(file.read())
        with open(self.path("sijild.conf"), encoding="utf-8") as file:
            head = file.read().split('\nregion "')[0]
        with open(self.path("sijild.conf"), "w", encoding="utf-8") as file:
            file.write(f'{head}\nregion "{REGION}" {{\n driver = s3\n endpoint = "https://127.0.0.1:{port}"\n bucket = "{BUCKET}"\n'
                       f' bucket_location = "{LOCATION}"\n prefix = "many/"\n access_key_file = "{self.bucket}/key"\n'
                       f' ca_file = "{self.bucket}/ca.pem"\n endpoint_networks = "127.0.0.0/8"\n}}\n')

    def requests(self):
        with open(self.bucket + "/log", encoding="utf-8") as file:
            return file.read().splitlines()

    def stop(self, sig=15):
        code = super().stop(sig)
        self.store.stdin.close()
        self.store.wait(30)
        return code


fleet = Buckets(2)
state = {}


def push(content, pieces, after):
    """In that many PATCHes, each through the other gateway; `after(number)` is called when one was acknowledged."""
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
    for victim, kept in ((0, 3 * MIB), (1, 9 * MIB + 1)):  # less than a part is safe, or more than one
        location = places[victim].begin()
        location = places[victim].patch(location, content[:kept], 0)["Location"]
        before = len(fleet.requests())
        patch = threading.Thread(target=patch_in_vain, args=(places[victim], location, content, kept), daemon=True)
        patch.start()
        until = time.monotonic() + 60
        while sum(" PUT " in f" {line} " for line in fleet.requests()[before:]) < 1:  # it has begun to store
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


sijil_test.run(two_gateways_take_turns, the_other_goes_on_when_one_is_killed_in_a_patch, nothing_is_left_of_uploads, server=fleet)
