#!/usr/bin/env python3
"""Kill -9 of the gateway that collects garbage, while clients push: while it looks for garbage, and in the middle of a removal's
transaction. The run continues after a restart, or on another gateway; nothing is lost, and no unneeded object is left.

Short: one kill of each kind, with 4 clients that pause between requests; SIJIL_SOAK=1: ten of each, with 32 clients that do not."""
import concurrent.futures
import multiprocessing
import os
import subprocess
import time

import sijil_test
from fleet import Fleet, Judge
from pushers import Clients, Wanderer, collected_to_the_end
from sijil_test import Client

Client.keeps = False  # a kill may also hit a connection that is being made
LONG = os.environ.get("SIJIL_SOAK") == "1"
ROUNDS, CLIENTS, PAUSE_S = (10, 32, 0) if LONG else (1, 4, 1.2)
LEASE_S = 6 if LONG else 4
GARBAGE = 200 if LONG else 120  # blobs of each round; eight go in one transaction
RUN_LEASE_S = 30   # seconds after which another gateway takes over a run: docs/garbage-collection.md
EXPECTED = ("cut", "deletions", "manifests", "mounts", "pulls", "skipped", "uploads")


class Session:
    """A session of PostgreSQL's administrator that holds a lock while the test checks."""

    def __init__(self, fleet, lock):
        self.psql = subprocess.Popen(["psql", "-XAtq", "-h", fleet.database_at, "-U", "postgres", "-d", "sijil_template"], text=True,
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.psql.stdin.write(f"BEGIN; {lock};\n\\echo locked\n")
        self.psql.stdin.flush()
        while self.psql.stdout.readline() != "locked\n":
            assert self.psql.poll() is None, "no lock"

    def done(self):
        self.psql.stdin.close()
        self.psql.wait()


class World:
    def __init__(self, fleet):
        self.fleet = fleet
        self.admin = fleet.client(fleet.admin)
        self.admin.api("PUT", "/projects/main/models/rules", {"untagged_days": 0})
        self.login = sijil_test.make_robot(fleet, "pushers", "publisher", "main/models")
        self.judge = Judge(fleet, sijil_test.make_robot(fleet, "auditor", "auditor", ""))

    def sql(self, text):
        return Judge.sql_at(self.fleet, text)

    def wait(self, question, answer, seconds=60):
        until = time.monotonic() + seconds
        while (said := self.sql(question)) != answer:
            assert time.monotonic() < until, f"{question}: {said}"
            time.sleep(0.05)

    def litter(self, turn):
        """Blobs that no manifest will ever need."""
        def push(first):
            repository = Client(self.fleet, self.login).repository("main/models/litter")
            for number in range(first, GARBAGE, 8):
                repository.push_blob(b"litter %d %d" % (turn, number))
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(push, range(8)))

    def collected(self):
        return int(self.sql("SELECT count(*) FROM audit_entry WHERE action = 'blob.collect' AND outcome = 'allowed'"))

    def begin(self):
        self.admin.port = self.alive()
        return self.admin.api("POST", "/collections", {})["id"]

    def runner_of(self, job):
        return int(self.sql(f"SELECT runner FROM job WHERE job_id = '{job}'").removeprefix("gateway"))

    def waits_for_lock(self, statement):
        """A statement with these words in it waits for a lock."""
        self.wait("SELECT count(*) > 0 FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE NOT l.granted"
                  f" AND position('{statement}' IN a.query) > 0", "t")

    def waits_for_table(self, table):
        self.wait(f"SELECT count(*) > 0 FROM pg_locks WHERE NOT granted AND relation = '{table}'::regclass", "t")

    def alive(self):
        return next(port for port, gateway in zip(self.fleet.ports, self.fleet.gateways) if gateway is not None)

    def follow(self, job):
        self.admin.port = self.alive()
        return sijil_test.follow(self.admin, job, seconds=RUN_LEASE_S + 90)

    def is_open(self, job):
        assert self.sql(f"SELECT ended_at IS NULL FROM job WHERE job_id = '{job}'") == "t", "it was over before it was killed"


def killed_in_a_removal(world, turn):
    """Kills all gateways while one has an open transaction of a removal. One is started again, and continues its own run."""
    fleet = world.fleet
    world.litter(turn)
    time.sleep(LEASE_S + 0.5)
    before = world.collected()
    # In the order of the collection, far behind the clients' garbage.
    held = world.sql("SELECT blob_id FROM blob b JOIN repository_blob USING (blob_id) JOIN repository r USING (repository_id)"
                     f" WHERE r.name = 'litter' ORDER BY b.digest OFFSET {GARBAGE // 2} LIMIT 1")
    session = Session(fleet, f"SELECT FROM blob WHERE blob_id = '{held}' FOR UPDATE")
    job = world.begin()
    world.waits_for_lock("WITH doomed AS (SELECT b.blob_id, b.region_id, b.project_id")
    runner = world.runner_of(job)
    world.is_open(job)
    for number in range(len(fleet.gateways)):
        fleet.kill(number)
    session.done()
    taken = world.collected() - before
    assert taken > 0 and world.sql("SELECT count(*) FROM blob b JOIN repository_blob USING (blob_id) JOIN repository r"
                                   " USING (repository_id) WHERE r.name = 'litter'") != "0", taken
    fleet.start_gateway(runner)
    fleet.wait_for_gateway(runner)
    report = world.follow(job)["report"]
    assert world.sql(f"SELECT runner_epoch FROM job WHERE job_id = '{job}'") == "2"
    for number in range(len(fleet.gateways)):
        if number != runner:
            fleet.start_gateway(number)
            fleet.wait_for_gateway(number)
    return f"{taken} blobs were gone when it was killed; its own next start went on: {report['blobs']} told"


def killed_while_it_reads(world, turn):
    """Kills the gateway that runs it, while it looks for untagged manifests; another gateway takes over the run."""
    fleet = world.fleet
    world.litter(turn)
    time.sleep(LEASE_S + 0.5)
    session = Session(fleet, "LOCK TABLE manifest_use IN ACCESS EXCLUSIVE MODE")  # no push and no pull waits for this lock
    before = world.collected()
    job = world.begin()
    world.wait(f"SELECT runner <> '' FROM job WHERE job_id = '{job}'", "t")
    world.waits_for_table("manifest_use")
    runner = world.runner_of(job)
    world.is_open(job)
    fleet.kill(runner)
    session.done()
    began = time.monotonic()
    report = world.follow(job)["report"]
    assert world.runner_of(job) != runner, "nobody else did it"
    assert report["blobs"] >= GARBAGE and world.collected() - before >= GARBAGE, report
    over = time.monotonic() - began
    fleet.start_gateway(runner)
    fleet.wait_for_gateway(runner)
    return f"another gateway was done {over:.0f} s after the kill: {report['blobs']} blobs, {report['manifests']} manifests"


def nothing_is_left(world):
    """All unneeded objects are removed, with their bytes."""
    report = collected_to_the_end(lambda: world.follow(world.begin())["report"], LEASE_S)
    world.sql("UPDATE upload SET expires_at = now()")  # uploads that the kills interrupted
    world.wait("SELECT (SELECT count(*) FROM upload) + (SELECT count(*) FROM abandoned_object)", "0", 150)
    figures = world.judge.check({})
    assert figures["blobs"] == figures["objects"] == report["blobs_looked_at"], (figures, report)
    again = world.admin.api("GET", "/projects/main/models/quota")["bytes_used"]
    assert int(world.sql("SELECT bytes_used FROM project_quota") or again) == again
    print(f"     in the end {figures['blobs']} blobs and as many objects; {figures['events']} events verify")


def a_killed_collection_goes_on():
    with Fleet(2, blob_lease=LEASE_S, collect_interval=0) as fleet:
        world, stopped = World(fleet), multiprocessing.Event()
        world.admin.api("PUT", "/projects/main/models/quota", {"bytes": 1 << 40, "sessions": 1000})
        Wanderer.ports = fleet.ports

        def make(number, figures):
            def goes_on():
                return not stopped.wait(PAUSE_S)
            return Wanderer(number, Client(fleet, world.login, fleet.ports[number % 2]), LEASE_S, goes_on, figures)
        clients = Clients(make, CLIENTS)
        try:
            for turn in range(ROUNDS):
                print(f"     {killed_in_a_removal(world, 2 * turn)}", flush=True)
                print(f"     {killed_while_it_reads(world, 2 * turn + 1)}", flush=True)
        finally:
            stopped.set()
            figures, failures = clients.ended()
        print(f"     {CLIENTS} clients: " + ", ".join(f"{count} {name}" for name, count in sorted(figures.items())))
        assert not failures, f"{len(failures)} clients failed; the first: {failures[0]}"
        assert all(figures[name] > 0 for name in EXPECTED), figures
        nothing_is_left(world)


sijil_test.run(a_killed_collection_goes_on)
