#!/usr/bin/env python3
"""Kill -9 of any process at random moments while clients push and pull; PostgreSQL, log and disk are checked after each.

usage: crash.py [ROUNDS [SEED [CLIENTS]]]     9 rounds by default; fewer are different strokes, chosen by the seed; 5 clients in fewer, 16 in more than 20
No acknowledged write is lost, no refused request is half done, and no wrong byte is ever served. The seed is printed, so
that the order of the kills can be repeated; their exact moments can't."""
import os
import random
import signal
import sys
import time

import sijil_test
from integrity import Integrity
from sijil_test import Server
from workers import PATIENCE, Worker, World, check_acknowledged, sample, wait_for_progress

sijil_test.Client.keeps = False  # a kill may also hit a connection that is being made

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 9
SEED = int(sys.argv[2]) if len(sys.argv) > 2 else int(time.time())
CLIENTS = int(sys.argv[3]) if len(sys.argv) > 3 else 16 if ROUNDS > 20 else 8 if ROUNDS >= 9 else 5
REPOSITORY = "main/models/crash"


# --- strokes -------------------------------------------------------------------------------------------------------
def candidates(server):
    """Name -> processes that may be killed."""
    supervisor = server.process.pid
    postmaster = min(server.processes("postgres"), default=None)
    return {"supervisor": [supervisor], "gateway": [pid for pid in server.processes("sijild") if pid != supervisor],
            "keyd": server.processes("sijil-keyd"), "postmaster": [postmaster] if postmaster else [],
            "backend": sijil_test.children_of(postmaster) if postmaster else []}


STROKES = ("gateway", "keyd", "postmaster", "backend", "supervisor", "several", "supervisor twice", "postmaster twice",
           "gateway twice")


def hit(server, kind):
    found = candidates(server)[kind]
    if not found:
        return None
    process = random.choice(found)
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        return None
    if kind != "supervisor":
        server.wait_gone(process)
    return process


def strike(server, kind):
    if kind == "several":
        for each in random.sample(["gateway", "keyd", "postmaster", "backend"], random.choice([2, 3])):
            hit(server, each)
            time.sleep(random.choice([0, 0, random.uniform(0, 0.6)]))  # also while the one before it starts again
    elif kind.startswith("supervisor"):
        hit(server, "supervisor")
        server.process.wait(60)
        if kind.endswith("twice"):  # in the middle of its start
            server.start(wait=False)
            time.sleep(random.uniform(0, 2.5))
            hit(server, "supervisor")
            server.process.wait(60)
        server.start(wait=False)
    else:
        hit(server, kind.split()[0])
        if kind.endswith("twice"):
            time.sleep(random.uniform(0.2, 1.5))
            hit(server, kind.split()[0])
    server.wait_ready(PATIENCE)


# --- checks --------------------------------------------------------------------------------------------------------
def check_round(integrity, place, world, turn):
    """While no client writes: log, rows, pages and files are consistent, and all acknowledged content exists."""
    world.pause()
    figures = integrity.check(world.events, proofs=1)
    check_acknowledged(place, world, sample(world.blobs, 10, 10), sample(world.tags, 10, 10))
    if turn % 10 == 9:
        integrity.check_keys_of_log()
    assert not world.wrong, world.wrong[0]
    world.gate.set()
    return figures


def check_all(server, integrity, place, world):
    """At the end: checks all acknowledged content, every stored object and every page, and again after a stop and a start."""
    check_acknowledged(place, world, world.blobs, world.tags)
    again = Integrity(server, integrity.auditor)  # the whole log from its first entry
    figures = again.check(world.events, proofs=10)
    again.check_keys_of_log()
    assert again.entries[:len(integrity.entries)] == integrity.entries, "entries that were seen before have changed"
    digests = again.link_all("crash")
    total = again.check_content(place, digests)
    assert server.stop() == 0
    pages = again.check_checksums()
    server.start()
    again.check_log()
    check_acknowledged(place, world, sample(world.blobs, 20, 20), sample(world.tags, 20, 20))
    again.check(world.events)
    print(f"  {len(digests)} stored blobs ({total / 1e6:.0f} MB) decrypt and have their digests; {figures['events']} events verify "
          f"from the first on, {integrity.proven + again.proven} proofs by sijil-verify; {pages} pages of PostgreSQL have "
          f"their checksums; {figures['objects']} objects on the disk, none without a row")


def acknowledged_survives_kill_9():
    print(f"{ROUNDS} rounds, seed {SEED}, {CLIENTS} clients", flush=True)
    random.seed(SEED)
    world = World(CLIENTS)
    with Server() as server:
        # A robot may have 250 sessions, and each POST whose answer is lost leaves one for a day.
        logins = [sijil_test.make_robot(server, f"crash{number}", "publisher", "main/models") for number in range(8)]
        login = logins[0]
        auditor = sijil_test.make_robot(server, "auditor", "auditor", "")
        integrity = Integrity(server, auditor)
        place = server.client(login).repository(REPOSITORY)
        place.push_blob(b"{}")
        workers = [Worker([server.client(logins[number % len(logins)]).repository(REPOSITORY)], world, number, SEED)
                   for number in range(CLIENTS)]
        for worker in workers:
            worker.start()
        first = random.sample(STROKES, min(ROUNDS, len(STROKES)))
        for turn in range(ROUNDS):
            kind = first[turn] if turn < len(first) else random.choice(STROKES)
            time.sleep(random.uniform(0.2, 2.0))
            began = time.monotonic()
            strike(server, kind)
            integrity.wait_for_database(PATIENCE)
            server.wait_ready(PATIENCE)
            wait_for_progress(world, world.counts["pushed"])
            back = time.monotonic() - began
            figures = check_round(integrity, place, world, turn)
            print(f"  round {turn + 1:3}: {kind:16} back in {back:4.1f} s; {world.counts['pushed']} blobs pushed, "
                  f"{world.counts['pulled']} pulled, {figures['events']} events, {figures['objects']} objects", flush=True)
        world.stop.set()
        for worker in workers:
            worker.join(PATIENCE)
            assert not worker.is_alive()
        assert not world.wrong, world.wrong[0]
        print("  " + ", ".join(f"{count} {what}" for what, count in world.counts.items()) +
              f"; {len(world.events)} named events, all in the log")
        check_all(server, integrity, place, world)
        assert world.counts["resumed"] > 0 and world.counts["settled"] > 0, "nothing was ever cut off: the test did not test"


sijil_test.run(acknowledged_survives_kill_9)
