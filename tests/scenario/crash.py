#!/usr/bin/env python3
"""Kill -9 of any process at random moments while clients push: nothing that was acknowledged is lost.

usage: crash.py [ROUNDS [SEED]]     20 rounds by default; the seed is printed, so that a run can be repeated."""
import http.client
import os
import random
import signal
import ssl
import sys
import threading
import time

import sijil_test
from sijil_test import Server, sha256

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 20
SEED = int(sys.argv[2]) if len(sys.argv) > 2 else int(time.time())
CLIENTS = 4
VICTIMS = ("sijild", "sijil-keyd", "postgres")
REPOSITORY = "main/models/crash"
BROKEN = (OSError, http.client.HTTPException, ssl.SSLError, AssertionError, KeyError, TypeError)


class Acknowledged:
    """What the server said yes to, and the number of the event that it named."""

    def __init__(self):
        self.lock = threading.Lock()
        self.blobs, self.tags, self.events, self.refused = {}, {}, set(), 0

    def note(self, answer):
        if answer["Sijil-Audit"]:
            with self.lock:
                self.events.add(int(answer["Sijil-Audit"].rsplit("/", 1)[1]))


class Pusher(threading.Thread):
    """Pushes blobs in pieces, then a manifest; after a cut it asks where the upload is and goes on from there."""

    def __init__(self, server, login, acknowledged, number, stop):
        super().__init__(daemon=True)
        self.client = server.client(login)
        self.repository = self.client.repository(REPOSITORY)
        self.acknowledged, self.number, self.stop = acknowledged, number, stop
        self.random = random.Random(SEED * 1000 + number)
        self.resumed = self.count = 0

    def run(self):
        while not self.stop.is_set():
            try:
                self.push_one()
            except BROKEN:
                with self.acknowledged.lock:
                    self.acknowledged.refused += 1
                time.sleep(0.2)

    def push_one(self):
        data = self.random.randbytes(self.random.choice([100, 70_000, 300_000, 1_500_000]))
        location = self.repository.begin()
        location = self.send_all(location, data)
        answer = self.repository.close(location, sha256(data))
        if answer.status != 201:
            raise AssertionError(answer.status)
        self.acknowledged.note(answer)
        with self.acknowledged.lock:
            self.acknowledged.blobs[sha256(data)] = len(data)
        manifest = self.repository.manifest(data)
        self.count += 1
        tag = f"t{self.number}-{self.count}"
        answer = self.repository.put_manifest(tag, manifest)
        if answer.status != 201:
            raise AssertionError(answer.status)
        self.acknowledged.note(answer)
        with self.acknowledged.lock:
            self.acknowledged.tags[tag] = sha256(manifest)

    def send_all(self, location, data):
        offset = 0
        piece = max(1, len(data) // self.random.choice([1, 3]))
        while offset < len(data):
            try:
                answer = self.repository.patch(location, data[offset:offset + piece], offset)
                if answer.status != 202:
                    raise AssertionError(answer.status)
                self.acknowledged.note(answer)
                location, offset = answer["Location"], offset + len(data[offset:offset + piece])
            except BROKEN:
                if self.stop.is_set():
                    raise
                known = offset
                location, offset = self.ask(location)
                assert offset >= known, f"the upload went back from the acknowledged {known} to {offset}"
                self.resumed += 1
        return location

    def ask(self, location):
        until = time.monotonic() + 60
        while time.monotonic() < until:
            try:
                answer = self.repository.call("GET", location)
                if answer.status == 204:
                    return answer["Location"], int((answer["Range"] or "0--1").split("-", 1)[1]) + 1
                if answer.status == 404:
                    raise LookupError("an upload that was acknowledged is gone")
            except BROKEN:
                pass
            time.sleep(0.2)
        raise AssertionError("the server did not come back")


def strike(server, victim):
    """Kills one process of that name: the supervisor or the gateway, the key process, any of PostgreSQL's."""
    process = random.choice(server.processes(victim))
    os.kill(process, signal.SIGKILL)
    if process == server.process.pid:  # the supervisor itself: all that it started ends with it
        server.process.wait(60)
        server.start()
    else:
        server.wait_gone(process)
        server.wait_ready()


def wait_until_whole(server, login):
    """The last stroke may have hit the key process, which /readyz misses only after some seconds."""
    until = time.monotonic() + 60
    while True:
        try:
            answer = server.client(login).repository(REPOSITORY).call("GET", "tags/list")
            assert answer.status == 200, answer.status
            return
        except BROKEN:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)


def check(server, login, acknowledged):
    repository = server.client(login).repository(REPOSITORY)
    for digest, size in acknowledged.blobs.items():
        answer = repository.call("GET", f"blobs/{digest}")
        assert answer.status == 200 and len(answer.body) == size and sha256(answer.body) == digest, (digest, answer.status)
    for tag, digest in acknowledged.tags.items():
        answer = repository.call("GET", f"manifests/{tag}")
        assert answer.status == 200 and sha256(answer.body) == digest, (tag, answer.status)
    entries = {event["seq"]: event["entry"] for event in all_events(server.client(server.admin))}
    numbers = sorted(entries)
    assert numbers == list(range(numbers[-1] + 1)), "the log has a gap"
    missing = acknowledged.events - set(numbers)
    assert not missing, f"acknowledged events are not in the log: {sorted(missing)[:5]}"
    unwraps = [int(entry["res"].split("#")[1].split(",")[0]) for entry in entries.values() if entry["act"] == "keyd.unwraps"]
    assert unwraps and unwraps == sorted(unwraps), f"the key process's own count of given keys: {unwraps}"
    return len(numbers)


def all_events(client):
    after = ""
    while True:
        page = client.api("GET", f"/audit/events?order=ascending&limit=1000{after}")
        yield from page["events"]
        if not page.get("next"):  # asking is an event too: there is always one more
            return
        after = f"&after={page['next']}"


def acknowledged_survives_kill_9():
    print(f"{ROUNDS} rounds, seed {SEED}", flush=True)
    random.seed(SEED)
    acknowledged, stop = Acknowledged(), threading.Event()
    with Server() as server:
        login = sijil_test.make_robot(server, "crash", "publisher", "main/models")
        pushers = [Pusher(server, login, acknowledged, number, stop) for number in range(CLIENTS)]
        for pusher in pushers:
            pusher.start()
        for turn in range(ROUNDS):
            time.sleep(random.uniform(0.3, 2.0))
            victim = VICTIMS[turn % len(VICTIMS)] if turn < len(VICTIMS) else random.choice(VICTIMS)
            before = len(acknowledged.blobs)
            strike(server, victim)
            until = time.monotonic() + 60
            while len(acknowledged.blobs) <= before and time.monotonic() < until:
                time.sleep(0.05)
            assert len(acknowledged.blobs) > before, f"no push succeeded after {victim} was killed"
            print(f"  round {turn + 1:2}: killed {victim:10}  {len(acknowledged.blobs)} blobs, "
                  f"{len(acknowledged.tags)} tags acknowledged", flush=True)
        stop.set()
        for pusher in pushers:
            pusher.join(90)
            assert not pusher.is_alive()
        server.wait_ready()
        wait_until_whole(server, login)
        events = check(server, login, acknowledged)
        resumed = sum(pusher.resumed for pusher in pushers)
        print(f"  {len(acknowledged.blobs)} blobs, {len(acknowledged.tags)} tags, {len(acknowledged.events)} named events all "
              f"there; {events} events without a gap; {resumed} uploads resumed; {acknowledged.refused} requests refused meanwhile")
        assert resumed > 0, "no upload had to resume: the test did not test"


sijil_test.run(acknowledged_survives_kill_9)
