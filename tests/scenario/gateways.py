#!/usr/bin/env python3
"""Four gateways on one database, one region and one key process: they agree, also while one is killed or stopped.

usage: gateways.py [ROUNDS [SEED [CLIENTS]]]     3 rounds by default; 5 clients, or 16 in more than 3 rounds
Each request of a client goes to any of the gateways, so the pieces of one upload go through different gateways. Afterwards
each gateway serves all acknowledged content, rows and files agree, and the log is one chain without a gap."""
import base64
import collections
import concurrent.futures
import hashlib
import json
import os
import random
import signal
import sys
import threading
import time
import urllib.parse

import approvers
import sijil_test
from fleet import CONNECTIONS, Fleet, Judge
from signing_keys import canonical, utc
from sijil_test import sha256
from workers import BROKEN, PATIENCE, Refused, Worker, World, check_acknowledged, sample, wait_for_progress

sijil_test.Client.keeps = False  # a kill may also hit a connection that is being made

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 3
SEED = int(sys.argv[2]) if len(sys.argv) > 2 else int(time.time())
CLIENTS = int(sys.argv[3]) if len(sys.argv) > 3 else 16 if ROUNDS > 3 else 5
COUNT = 4
REPOSITORY = "main/models/many"
MANIFEST = {"Content-Type": "application/vnd.oci.image.manifest.v1+json"}
OCTETS = {"Content-Type": "application/octet-stream"}
SESSIONS_PER_OWNER = 250  # registry/upload/upload.h
FROZEN_SECONDS = 6        # longer than its locks may last
PACE_SECONDS = 1          # of pushes before
FROZEN_BOUND = 5          # seconds that a push to another gateway may take meanwhile: docs/production.md
NEWS_BOUND = 6            # seconds in which all gateways know a new robot: docs/production.md
PACE = 4                  # factor: a request may take so many times as long as alone on this machine


# --- more clients -------------------------------------------------------------------------------------------------------
class Duellist(threading.Thread):
    """Two PATCHes of one session at once, through two gateways, with different bytes: they never both succeed."""

    def __init__(self, places, world, seed):
        super().__init__(daemon=True)
        self.places, self.world, self.random = places, world, random.Random(seed)
        self.duels = self.dropped = 0

    def run(self):
        try:
            while not self.world.stop.is_set():
                self.world.pass_gate()
                try:
                    self.one()
                except (Refused, *BROKEN):
                    self.dropped += 1
                    time.sleep(0.1)
        except Exception as error:  # otherwise a client's failure would not be noticed
            self.world.refuse_to_go_on(f"a duel: {error!r}")

    def one(self):
        answer = self.world.take(self.world.ask(self.random.choice(self.places), "POST", "blobs/uploads/"), (202,), ("upload.begin",))
        location, kept, digest = answer["Location"], 0, hashlib.sha256()
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for _ in range(4):
                pieces = [self.random.randbytes(self.random.choice([1000, 100_000, 400_000])) for _ in range(2)]
                winner = self.duel(pool, location, kept, pieces)
                digest.update(pieces[winner])
                kept += len(pieces[winner])
        name = "sha256:" + digest.hexdigest()
        closed = self.world.ask(self.random.choice(self.places), "PUT", f"{location}?digest={name}")
        self.world.take(closed, (201,), ("upload.commit",))
        with self.world.lock:
            self.world.blobs[name] = kept

    def duel(self, pool, location, kept, pieces):
        """Which PATCH succeeded. Raises Refused if a fault leaves it open; then the upload is given up."""
        places, barrier = self.random.sample(self.places, 2), threading.Barrier(2)
        futures = [pool.submit(self.strike, place, barrier, location, kept, piece) for place, piece in zip(places, pieces)]
        answers = [future.result() for future in futures]
        winners = [number for number, answer in enumerate(answers) if answer == 202]
        if len(winners) == 2:
            self.world.refuse_to_go_on("two writers were acknowledged at the same place of one upload")
        if set(answers) - {202, 409, 416}:
            raise Refused(answers)
        if not winners:
            self.world.refuse_to_go_on(f"nobody won: {answers}")
            raise Refused(answers)
        held = self.world.take(self.world.ask(self.random.choice(self.places), "GET", location), (204,), ("upload.read",))
        if sijil_test.bytes_kept(held) != kept + len(pieces[winners[0]]):
            self.world.refuse_to_go_on(f"the upload holds {held['Range']}, not what the winner was told")
        self.duels += 1
        return winners[0]

    def strike(self, place, barrier, location, kept, piece):
        barrier.wait()
        try:
            headers = {**OCTETS, "Content-Range": f"{kept}-{kept + len(piece) - 1}"}
            return self.world.take(self.world.ask(place, "PATCH", location, piece, headers), (202, 409, 416), ("upload.write",)).status
        except (Refused, *BROKEN):
            return 503


class Contest(threading.Thread):
    """One tag that all clients move to other manifests. The log has the order; no read may return an older manifest."""

    def __init__(self, places, contest, is_reader, seed):
        super().__init__(daemon=True)
        self.places, self.contest, self.is_reader, self.random = places, contest, is_reader, random.Random(seed)

    def run(self):
        world = self.contest.world
        try:
            while not world.stop.is_set():
                world.pass_gate()
                try:
                    (self.read if self.is_reader else self.move)(self.random.choice(self.places))
                except (Refused, *BROKEN):
                    time.sleep(0.1)
        except Exception as error:  # otherwise a client's failure would not be noticed
            world.refuse_to_go_on(f"the contested tag: {error!r}")

    def move(self, place):
        manifest = self.contest.next_manifest()
        answer = self.contest.world.ask(place, "PUT", "manifests/contested", manifest, MANIFEST)
        self.contest.world.take(answer, (201,), ("manifest.push",))
        self.contest.moved(sha256(manifest), int(answer["Sijil-Audit"].rsplit("/", 1)[1]))

    def read(self, place):
        floor = self.contest.newest
        answer = self.contest.world.ask(place, "GET", "manifests/contested")
        self.contest.world.take(answer, (200,), ("manifest.read",))
        self.contest.seen(sha256(answer.body), floor, int(answer["Sijil-Audit"].rsplit("/", 1)[1]))


class Tag:
    def __init__(self, world, template):
        self.world, self.template = world, json.loads(template)
        self.lock, self.made, self.newest = threading.Lock(), 0, -1
        self.places_in_log, self.reads = {}, []

    def next_manifest(self):
        with self.lock:
            self.made += 1
            number = self.made
        return json.dumps({**self.template, "annotations": {"number": str(number)}}).encode()

    def moved(self, digest, number):
        with self.lock:
            self.places_in_log[digest] = number
            self.newest = max(self.newest, number)

    def seen(self, digest, floor, number):
        with self.lock:
            self.reads.append((digest, floor, number))

    def check(self, places):
        """Every read saw a move that is not older than the last one acknowledged before the read began."""
        judged = 0
        for digest, floor, number in self.reads:
            moved = self.places_in_log.get(digest)
            if moved is None:  # its answer was lost
                continue
            judged += 1
            assert moved >= floor, f"read {number} saw the move {moved}, but {floor} was acknowledged before it began"
        last = {sha256(place.call("GET", "manifests/contested").body) for place in places}
        assert len(last) == 1, f"the gateways disagree about a tag: {last}"
        seen = self.places_in_log.get(last.pop())
        assert seen in (None, self.newest), f"the tag is where move {seen} left it, not {self.newest}"
        return judged


# --- what all gateways know ------------------------------------------------------------------------------------------------
fleet = Fleet(COUNT)
state = {}


def status(client, method, path, **more):
    """The status of a call; 401 also if the token is refused."""
    try:
        return client.call(method, path, scope=f"repository:{REPOSITORY}:pull,push,delete", **more).status
    except AssertionError as error:
        return error.args[0][0]


def four_gateways_are_one_registry():
    fleet.start()
    login = sijil_test.make_robot(fleet, "ci", "publisher", "main/models")
    state["login"] = login
    places = [client.repository(REPOSITORY) for client in fleet.clients(login)]
    wait_until_all(fleet.clients(login), (200, 404), "HEAD", f"/v2/{REPOSITORY}/blobs/{sha256(b'nothing')}")
    location = places[0].begin()
    content, digest = os.urandom(4 * 70_000), hashlib.sha256()
    for turn, place in enumerate(places):
        answer = place.patch(location, content[turn * 70_000:(turn + 1) * 70_000], turn * 70_000)
        assert answer.status == 202, (turn, answer.status, answer.body)
    assert places[1].close(location, sha256(content)).status == 201
    for place in places:
        assert place.call("GET", f"blobs/{sha256(content)}").body == content
    assert places[2].put_manifest("first", places[2].manifest(content)).status == 201
    for place in places:
        assert place.call("GET", "manifests/first").status == 200
    held = int(Judge.sql_at(fleet, "SELECT count(*) FROM pg_stat_activity WHERE usename = 'sijil_app'"))
    assert held <= COUNT * CONNECTIONS, f"{held} connections to PostgreSQL instead of {COUNT * CONNECTIONS}: docs/production.md"
    state["digest"] = sha256(content)


def wait_until_all(clients, good, method, path):
    """Seconds until the last gateway answers so."""
    began, slowest = time.monotonic(), 0
    for client in clients:
        asked = began
        while status(client, method, path) not in good:
            slowest = max(slowest, time.monotonic() - asked)
            took = asked - began
            assert took < NEWS_BOUND + PACE * slowest, f"a gateway does not know it after {took:.1f} s"
            time.sleep(0.03)
            asked = time.monotonic()
    return time.monotonic() - began


def a_right_that_is_taken_is_gone_everywhere_at_once():
    path, slowest = f"/v2/{REPOSITORY}/blobs/{state['digest']}", 0
    for number, admin in enumerate(fleet.clients(fleet.admin)):
        robot = admin.api("POST", "/robots", {"organisation": "main", "name": f"short{number}"})
        binding = admin.api("POST", "/bindings", {"robot": robot["id"], "role": "consumer", "scope": "main/models"})
        clients = fleet.clients((robot["name"], robot["secret"]))
        slowest = max(slowest, wait_until_all(clients, (200,), "GET", path))
        admin.api("DELETE", f"/bindings/{binding['id']}")
        seen = [status(client, "GET", path) for client in clients]  # with tokens from before
        assert not {200, 206} & set(seen), f"a right that was taken through gateway {number} still counts: {seen}"
        admin.api("POST", "/bindings", {"robot": robot["id"], "role": "consumer", "scope": "main/models"})
        slowest = max(slowest, wait_until_all(clients, (200,), "GET", path))
        admin.api("DELETE", f"/robots/{robot['id']}")
        seen = [status(client, "GET", path) for client in clients]
        assert set(seen) <= {401, 403, 404}, f"a robot that was revoked through gateway {number} still reads: {seen}"
    print(f"     what is given is known by all within {slowest * 1000:.0f} ms, what is taken is gone with the next request")


def load_policies(client, epoch, **more):
    answer = client.call("POST", "/api/v1/policies", fleet.policy_set(epoch, **more), {"Content-Type": "application/json"},
                         scope="registry:admin:*")
    assert answer.status == 201, (answer.status, answer.body)


def a_policy_holds_everywhere_at_once():
    path = f"/v2/{REPOSITORY}/blobs/{state['digest']}"
    clients = fleet.clients(state["login"])
    assert {status(client, "GET", path) for client in clients} == {200}
    for number, admin in enumerate(fleet.clients(fleet.admin)):
        load_policies(admin, 2 + 2 * number, operations=("ingest", "mount", "metadata", "log"))
        seen = [status(client, "GET", path) for client in clients]
        assert 200 not in seen, f"a policy that was loaded through gateway {number} is not in force: {seen}"
        load_policies(admin, 3 + 2 * number)
        wait_until_all(clients, (200,), "GET", path)


def uses_while_a_gateway_is_killed(path, uses):
    """kill -9 of the one that many ask. What it had counted stays counted, whether or not its answer came; nothing is counted twice."""
    clients = fleet.clients(state["login"])

    def ask(number):
        try:
            return status(clients[number], "GET", path)
        except BROKEN:
            return 503
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        asked = [pool.submit(ask, number % 2) for number in range(24)]
        next(concurrent.futures.as_completed(asked)).result()
        fleet.kill(1)
        seen = [one.result() for one in asked]
    fleet.wait_settled(1)
    fleet.start_gateway(1)
    seen += [ask(0) for _ in range(uses + 1)]
    assert set(seen) <= {200, 403, 503} and seen.count(200) <= uses and seen[-1] == 403, collections.Counter(seen)
    notes = fleet.psql.ask("SELECT string_agg(convert_from(leaf, 'UTF8')::json->'why'->>'note', ',' ORDER BY seq) FROM audit_entry"
                           " WHERE convert_from(leaf, 'UTF8')::json->'why'->>'note' LIKE 'use % of audit-2'")
    assert notes == ",".join(f"use {number} of audit-2" for number in range(1, uses + 1)), notes
    fleet.wait_for_gateway(1)


def an_exceptions_last_use_is_taken_once():
    """Reading is denied, and an exception lifts that for so many requests, whichever gateway they go to."""
    uses, each = 9, 12
    admin = fleet.client(fleet.admin)
    keys = approvers.make(fleet, ("amal", "badr"), fleet.path("approver.pem"))
    base = json.loads(base64.b64decode(json.loads(fleet.policy_set(50))["payload"]))
    policy = {**base["policies"][0], "exception_types": {"audit": {"lifts": ["NOBODY"], "approvals": 2, "max_days": 30, "required_evidence": ["letter"]}}}
    policy["rules"] = [*policy["rules"], {"id": "NOBODY", "effect": "require", "ops": ["read"], "target": {"geo_within": ["AE"]}}]
    leave = {"apiVersion": "sijil.policy/v1", "kind": "ResidencyException", "id": "audit-1", "type": "audit", "uses_left": uses,
             "project": admin.api("GET", "/projects/main/models")["id"], "lifts": ["NOBODY"], "ops": ["read"], "targets": ["client"], "digests": [state["digest"]],
             "policy": {"id": "all", "version": 50, "digest": sha256(canonical(policy))}, "not_before": utc(time.time() - 3600), "not_after": utc(time.time() + 86400),
             "requested_by": approvers.person(fleet, "carol"), "approvals": [approvers.person(fleet, name) for name in keys], "evidence": {"letter": sha256(b"a letter")}}
    rare = fleet.clients(state["login"])[0].repository(REPOSITORY).push_blob(b"read while a gateway is killed")
    envelope = fleet.sign_set(50, policies=[policy], exceptions=[leave, {**leave, "id": "audit-2", "digests": [rare]}])
    answer = admin.call("POST", "/api/v1/policies", json.dumps(approvers.add_signatures(envelope, [keys["amal"]])), {"Content-Type": "application/json"},
                        scope="registry:admin:*")
    assert answer.status == 403 and b"has not signed the set: badr" in answer.body, answer.body  # a name is no signature
    admin.api("POST", "/policies", approvers.add_signatures(envelope, keys.values()))
    path, clients = f"/v2/{REPOSITORY}/blobs/{state['digest']}", fleet.clients(state["login"])
    other = clients[0].repository(REPOSITORY).push_blob(b"another content")
    wait_until_all(clients, (403,), "GET", f"/v2/{REPOSITORY}/blobs/{other}")
    with concurrent.futures.ThreadPoolExecutor(COUNT * each) as pool:
        seen = list(pool.map(lambda number: status(clients[number % COUNT], "GET", path), range(COUNT * each)))
    assert sorted(seen) == [200] * uses + [403] * (COUNT * each - uses), collections.Counter(seen)
    notes = fleet.psql.ask("SELECT string_agg(convert_from(leaf, 'UTF8')::json->'why'->>'note', ',' ORDER BY seq) FROM audit_entry"
                           " WHERE convert_from(leaf, 'UTF8')::json->'why'->>'note' LIKE 'use %'")
    assert notes == ",".join(f"use {number} of audit-1" for number in range(1, uses + 1)), notes
    uses_while_a_gateway_is_killed(f"/v2/{REPOSITORY}/blobs/{rare}", uses)
    shown = {row["id"]: (row["state"], row["used"], row["uses"]) for row in admin.api("GET", "/policies/exceptions")["exceptions"]}
    assert shown == {"audit-1": ("used-up", uses, uses), "audit-2": ("used-up", uses, uses)}, shown
    load_policies(admin, 51)
    wait_until_all(clients, (200,), "GET", path)


def a_tag_that_moves_has_moved_everywhere():
    places = [client.repository(REPOSITORY) for client in fleet.clients(state["login"])]
    manifests = [places[0].manifest(b"{}", annotations={"number": str(number)}) for number in range(2)]
    for turn in range(2 * COUNT):
        place, manifest = places[turn % COUNT], manifests[turn % 2]
        for reader in places:  # so that all have it in memory
            reader.call("GET", "manifests/moves")
        assert place.put_manifest("moves", manifest).status == 201
        seen = {reader.call("GET", "manifests/moves").body for reader in places}
        assert seen == {manifest}, f"turn {turn}: a gateway answers from before"
        assert place.call("DELETE", f"manifests/{sha256(manifest)}").status == 202
        assert {reader.call("GET", f"manifests/{sha256(manifest)}").status for reader in places} == {404}


def sessions_are_counted_together():
    login = sijil_test.make_robot(fleet, "greedy", "publisher", "main/models")
    places = [client.repository(REPOSITORY) for client in fleet.clients(login)]
    wait_until_all(fleet.clients(login), (404,), "HEAD", f"/v2/{REPOSITORY}/blobs/{sha256(b'nothing')}")
    opened, lock = [], threading.Lock()

    def open_many(place):
        link, seen = place.client.connection(), []
        for _ in range(SESSIONS_PER_OWNER // COUNT + 10):
            answer = place.call("POST", "blobs/uploads/", connection=link)
            seen.append(answer.status)
            if answer.status == 202:
                with lock:
                    opened.append(answer["Location"])
        link.close()
        return seen
    with concurrent.futures.ThreadPoolExecutor(COUNT) as pool:
        statuses = [each for seen in pool.map(open_many, places) for each in seen]
    assert set(statuses) == {202, 429} and len(opened) == SESSIONS_PER_OWNER, (len(opened), set(statuses))

    def cancel(part):
        link = places[part].client.connection()
        for location in opened[part::COUNT]:  # through another gateway than the one that began it, mostly
            assert places[part].call("DELETE", location, connection=link).status == 204
        link.close()
    with concurrent.futures.ThreadPoolExecutor(COUNT) as pool:
        list(pool.map(cancel, range(COUNT)))
    places[0].push_blob(b"there is room again")


def an_upload_is_ended_by_whichever_gateway():
    """An administrator ends an upload at another gateway. Within seconds its client gets the answer that the upload is unknown."""
    place, admin = fleet.clients(state["login"])[0].repository(REPOSITORY), fleet.clients(fleet.admin)[1]
    location = place.begin()
    upload = urllib.parse.urlsplit(location).path.rsplit("/", 1)[1].split(".")[0]
    body = sijil_test.send_slowly(place, location, 200_000_000)
    time.sleep(1)  # so that it is on its way
    admin.api("DELETE", f"/projects/main/models/uploads/{upload}")
    begun = time.monotonic()
    assert b"BLOB_UPLOAD_UNKNOWN" in sijil_test.answer_while_sending(body, b"HTTP/1.1 404")
    assert time.monotonic() - begun < 30, f"after {time.monotonic() - begun:.0f} s; it is looked for every ten"
    assert place.call("GET", location).status == 404


def bytes_are_counted_together():
    """However many clients push at once, and in whatever way, no byte above the quota is stored."""
    size, count = 200_000, 15
    admin = fleet.client(fleet.admin)
    admin.api("POST", "/projects", {"organisation": "main", "name": "limited", "label": {"class": "confidential"}})
    login = sijil_test.make_robot(fleet, "limited", "publisher", "main/limited")
    places = [client.repository("main/limited/bytes") for client in fleet.clients(login)]
    fleet.wait_known(login, "main/limited/bytes")
    admin.api("PUT", "/projects/main/limited/quota", {"bytes": size * count})

    def push(number):
        place, data = places[number % COUNT], os.urandom(size)
        if number % 3 == 0:
            return place.call("POST", f"blobs/uploads/?digest={sha256(data)}", data, OCTETS).status
        begun = place.call("POST", "blobs/uploads/")
        if begun.status != 202:
            return begun.status
        location, other = begun["Location"], places[(number + 1) % COUNT]
        answer = other.patch(location, data, 0)
        if answer.status == 202:
            answer = place.close(location, sha256(data))
        if answer.status != 201:
            other.call("DELETE", location)
        return answer.status
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        seen = list(pool.map(push, range(60)))
    for number in range(60, 60 + count):  # a client that was refused because of another reservation may try again
        seen.append(push(number))
    assert set(seen) == {201, 403} and seen.count(201) == count, f"{seen.count(201)} of {count} blobs came in: {set(seen)}"
    for client in fleet.clients(fleet.admin):
        used = client.api("GET", "/projects/main/limited/quota")
        assert (used["bytes_used"], used["bytes_reserved"], used["sessions_open"]) == (size * count, 0, 0), used


def requests_are_counted_together():
    """A quota of requests a minute is given to gateways in portions, so all gateways together serve no more than the quota."""
    quota = 400
    admin = fleet.client(fleet.admin)
    login = sijil_test.make_robot(fleet, "frequent", "consumer", "main/limited")
    places = [client.repository("main/limited/bytes") for client in fleet.clients(login)]
    for place in places:
        place.scope = "repository:main/limited/bytes:pull"
    fleet.wait_known(login, "main/limited/bytes")
    for most, answer in ((1, 429), (quota, 404)):  # the first answer shows that the second one is new
        admin.api("PUT", "/projects/main/limited/quota", {"events_per_minute": most})
        for place in places:
            until = time.monotonic() + PATIENCE
            while place.call("HEAD", f"blobs/{sha256(b'nothing')}").status != answer:
                assert time.monotonic() < until, f"a gateway does not know of a quota of {most}"
                time.sleep(0.05)

    def ask(place):
        link = place.client.connection()
        seen = [place.call("HEAD", f"blobs/{sha256(b'nothing')}", connection=link).status for _ in range(quota // 2)]
        link.close()
        return seen
    minute, tries = None, 0
    while time.time() // 60 != minute:  # all of it within one minute of the clock
        tries += 1
        assert tries <= 3, "too slow to tell"
        while time.time() % 60 > 30 or (tries > 1 and time.time() // 60 <= minute + 1):  # of the one after it some are taken, too
            time.sleep(0.5)
        minute = time.time() // 60
        with concurrent.futures.ThreadPoolExecutor(COUNT) as pool:
            seen = [each for some in pool.map(ask, places) for each in some]
    assert set(seen) == {404, 429}, set(seen)
    assert quota * (1 - COUNT / 64) - 1 <= seen.count(404) + 20 and seen.count(404) <= quota, f"{seen.count(404)} of {quota} came through"
    admin.api("PUT", "/projects/main/limited/quota", {})


def counted_and_stored():
    """The count in the row of main/models, and the bytes that exist."""
    return Judge.sql_at(fleet, """
        SELECT q.bytes_used, (SELECT coalesce(sum(size_bytes), 0) FROM blob b WHERE b.project_id = q.project_id)
             + (SELECT coalesce(sum(m.size_bytes), 0) FROM repository r JOIN manifest m USING (repository_id) WHERE r.project_id = q.project_id)
             + (SELECT coalesce(sum(reserved_bytes), 0) FROM upload u WHERE u.project_id = q.project_id)
          FROM project_quota q JOIN project p USING (project_id) WHERE p.name = 'models'""").split("|")


# --- while one is killed, or stands still ----------------------------------------------------------------------------------
def kill(world):
    number = random.randrange(COUNT)
    world.calm.clear()
    fleet.kill(number)
    began = time.monotonic()
    fleet.wait_settled(number)
    world.calm.set()
    wait_for_progress(world, world.counts["pushed"])
    others = time.monotonic() - began
    time.sleep(random.uniform(0, 1))
    fleet.start_gateway(number)
    fleet.wait_for_gateway(number)
    return f"gateway {number} killed; the others pushed on after {others:.1f} s"


def freeze():
    """A stopped process, as when a virtual machine is moved or a process swaps: it may hold locks of the database."""
    number = random.randrange(COUNT)
    others = [client for at, client in enumerate(fleet.clients(state["login"])) if at != number]
    pace = pushes(others, PACE_SECONDS)
    for _ in range(8):  # so that it is more often in the middle of an operation
        fleet.gateways[number].send_signal(signal.SIGSTOP)
        time.sleep(0.15)
        fleet.gateways[number].send_signal(signal.SIGCONT)
        time.sleep(0.05)
    fleet.gateways[number].send_signal(signal.SIGSTOP)
    slowest = pushes(others, FROZEN_SECONDS)  # all gateways, while it is stopped
    fleet.gateways[number].send_signal(signal.SIGCONT)
    assert slowest < FROZEN_BOUND + PACE * pace, f"a push to another gateway took {slowest:.1f} s, and {pace:.1f} s before"
    return f"gateway {number} stood still for {FROZEN_SECONDS} s; a push to another took {slowest:.1f} s at most, {pace:.1f} s before"


def pushes(clients, seconds):
    """Clients push for that time; returns the seconds of the slowest push."""
    until = time.monotonic() + seconds

    def push_on(client):
        place, slowest = client.repository(REPOSITORY), 0
        while time.monotonic() < until:
            began = time.monotonic()
            place.push_blob(random.randbytes(1000))
            slowest = max(slowest, time.monotonic() - began)
        return slowest
    with concurrent.futures.ThreadPoolExecutor(len(clients)) as pool:
        return max(pool.map(push_on, clients))


def nothing_is_lost_whatever_happens_to_one():
    print(f"     {ROUNDS} rounds, seed {SEED}, {CLIENTS} clients on {COUNT} gateways", flush=True)
    random.seed(SEED)
    logins = [sijil_test.make_robot(fleet, f"many{number}", "publisher", "main/models") for number in range(4)]
    for login in logins:
        wait_until_all(fleet.clients(login), (404,), "HEAD", f"/v2/{REPOSITORY}/blobs/{sha256(b'nothing')}")
    judge = Judge(fleet, sijil_test.make_robot(fleet, "auditor", "auditor", ""))
    everywhere = [[client.repository(REPOSITORY) for client in fleet.clients(login)] for login in logins]
    places = everywhere[0]
    others = 2 + 4  # duels and the contested tag
    world = World(CLIENTS + others)
    fleet.client(fleet.admin).api("PUT", "/projects/main/models/quota", {"bytes": 1 << 40})
    template = places[0].manifest(b"{}")
    assert places[0].put_manifest("contested", template).status == 201
    tag = Tag(world, template)
    duellists = [Duellist(everywhere[number], world, SEED + number) for number in range(2)]
    contest = [Contest(places, tag, number % 2 == 0, SEED + number) for number in range(4)]
    workers = [Worker(everywhere[number % len(logins)], world, number, SEED) for number in range(CLIENTS)]
    for each in workers + duellists + contest:
        each.start()
    for turn in range(ROUNDS):
        time.sleep(random.uniform(0.2, 1.5))
        what = freeze() if turn % 3 == 1 else kill(world)
        wait_for_progress(world, world.counts["pushed"])
        world.pause()
        settle()
        figures = judge.check(world.events, proofs=1)
        counted, stored = counted_and_stored()
        assert counted == stored, f"the quota's row says {counted} bytes, and there are {stored}"
        for place in places:
            check_acknowledged(place, world, sample(world.blobs, 4, 4), sample(world.tags, 4, 4))
        assert not world.wrong, world.wrong[0]
        print(f"     round {turn + 1}: {what}; {world.counts['pushed']} pushed, {world.counts['pulled']} pulled, "
              f"{figures['events']} events, {figures['objects']} objects", flush=True)
        if turn < ROUNDS - 1:
            world.gate.set()
    finish(world, judge, places, tag, workers + duellists + contest)
    duels, dropped = sum(each.duels for each in duellists), sum(each.dropped for each in duellists)
    print("     " + ", ".join(f"{count} {what}" for what, count in world.counts.items()) +
          f"; {duels} duels with one winner each, {dropped} left open by a fault; the tag moved {len(tag.places_in_log)} times")
    assert world.counts["broken"] + world.counts["resumed"] > 0 and duels > 0, "nothing was ever cut off: the test did not test"


def settle():
    """Gives requests that were cut off a second to end at their gateways."""
    time.sleep(1)


def finish(world, judge, places, tag, clients):
    world.stop.set()
    world.gate.set()
    for each in clients:
        each.join(PATIENCE)
        assert not each.is_alive()
    settle()
    assert not world.wrong, world.wrong[0]
    judged = tag.check(places)
    for place in places:
        check_acknowledged(place, world, world.blobs, world.tags)
    again = Judge(fleet, judge.auditor)  # the whole log from its first entry
    figures = again.check(world.events, proofs=10)
    again.check_keys_of_log()
    assert again.entries[:len(judge.entries)] == judge.entries, "entries that were seen before have changed"
    starts = {key[0] for key in again.numbers}
    assert {f"gateway{number}" for number in range(COUNT)} <= starts, f"only {starts} wrote to the log"
    print(f"     {len(world.blobs)} blobs and {len(world.tags)} tags are right through each gateway; {figures['events']} events of "
          f"{len(again.numbers)} starts are one chain, {judge.proven + again.proven} proofs by sijil-verify; "
          f"{judged} reads of the contested tag saw no older state")


sijil_test.run(four_gateways_are_one_registry, a_tag_that_moves_has_moved_everywhere,
               a_right_that_is_taken_is_gone_everywhere_at_once, a_policy_holds_everywhere_at_once, an_exceptions_last_use_is_taken_once, sessions_are_counted_together, an_upload_is_ended_by_whichever_gateway,
               bytes_are_counted_together, requests_are_counted_together, nothing_is_lost_whatever_happens_to_one, server=fleet)
