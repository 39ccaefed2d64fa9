#!/usr/bin/env python3
"""Kill -9 of gateways, sijil-keyd, PostgreSQL, runners, their workers, payloads, slurmctld and jobs at random moments, while training runs are asked for,
ordered, leased, run and admitted, here and on Slurm; and of gateways, sijil-keyd and PostgreSQL exactly between two steps, when an event is recorded and the
order, lease or admission that it is about is not stored. After each batch every run has one end, and nothing is left.

usage: run_kills.py [KILLS [SEED [BATCH]]]     4 kills by default, without Slurm; fewer than 10 are different ones, chosen by the seed. The seed is printed, so
that the order of the kills can be repeated; their exact moments can't. After each BATCH (20) kills all runs come to their ends, and everything is checked."""
import collections
import os
import random
import sys
import time

import sijil_test
from run_kill_check import Checks
from run_kill_people import People, push_programs
from run_kill_world import MARK, KillFleet, Machine, Slurm, control_groups, kill, processes, slurm_is_missing
from run_world import Person, Runner, World

KILLS = int(sys.argv[1]) if len(sys.argv) > 1 else 4
SEED = int(sys.argv[2]) if len(sys.argv) > 2 else int(time.time())
BATCH = int(sys.argv[3]) if len(sys.argv) > 3 else 20
IS_SHORT = KILLS < 10  # then a silent runner is lost after some seconds, not after 40
sijil_test.Client.keeps = False  # a kill may also hit a connection that is being made


class Kills:
    """The registry, its people and its runners, and what was killed."""

    def __init__(self):
        self.before = control_groups(), set(os.listdir("/dev/shm"))
        self.fleet, self.machines, self.slurm = KillFleet(), [], None
        self.counts = collections.Counter()  # (what, state of a run meanwhile)
        self.hits = collections.Counter()

    def start(self):
        self.fleet.start()
        conninfo = f"host={self.fleet.database_at} dbname=sijil_template user=sijil_app"
        world = World(self.fleet, self.fleet.path("approver.pem"), conninfo, self.fleet.path("socket"))
        for number in (0, 1):
            self.machines.append(Machine(self.fleet, Runner(world, pool="here"), self.fleet.ports[number]).start())
        if not IS_SHORT and slurm_is_missing():
            print(f"  without Slurm: {slurm_is_missing()}")
        elif not IS_SHORT:
            self.slurm = Slurm(self.fleet, world)
        wanted = {"here": 2 if IS_SHORT else 7, "slurm": 3 if self.slurm else 0}
        self.people = People(self.fleet, Person(world, "alice"), push_programs(self.fleet, MARK), wanted, SEED)
        self.checks = Checks(self)
        self.people.start()

    # ---- kills ----

    def kill_payload(self):
        found = processes(MARK)
        return "payload" if found and kill(random.choice(found)) else None

    def strokes(self):
        found = {"gateway": self.fleet.kill_gateway, "keyd": self.fleet.kill_key_process, "database": self.fleet.kill_database,
                 **{f"{what}, at a step": lambda what=what: self.fleet.kill_between(what) for what in ("gateways", "sijil-keyd", "PostgreSQL")},
                 "runner": lambda: random.choice(self.machines).kill_it(), "worker": lambda: random.choice(self.machines).kill_worker(),
                 "payload": self.kill_payload}
        if self.slurm:
            found.update({"slurmctld": self.slurm.kill_controller, "job": self.slurm.kill_job, "head": self.slurm.kill_head,
                          "node": self.slurm.kill_node})
        return found

    def keep(self):
        """As service managers do: what has ended is started again, if it may end."""
        assert not self.people.wrong, self.people.wrong[0]
        self.fleet.keep()
        for machine in self.machines:
            machine.keep()
        if self.slurm:
            self.slurm.keep()

    def strike(self, kind):
        """Waits until there is something to kill, and notes where the runs were. False: there was nothing for a while, as of Slurm's jobs between two attempts."""
        until = time.monotonic() + 30
        while True:
            self.keep()
            states = {row[0] for row in self.fleet.ask("SELECT DISTINCT state FROM run WHERE ended_at IS NULL")}
            hit = self.strokes()[kind]()
            if hit:
                self.hits[hit] += 1
                self.counts.update((kind, state) for state in states)
                return True
            if time.monotonic() > until:
                return False
            time.sleep(random.uniform(0.05, 0.3))

    # ---- at rest ----

    def settle(self):
        """Nobody asks for more; the runs that are open come to their ends."""
        self.people.goes_on.clear()
        until = time.monotonic() + 400
        while open_runs := self.fleet.ask("SELECT run_id, state, attempt, coalesce(reason, '') FROM run WHERE ended_at IS NULL"):
            self.keep()
            if IS_SHORT:
                self.fleet.ask("UPDATE run_attempt SET deadline = now() WHERE ended_at IS NULL AND heard_at < now() - interval '14 s' RETURNING run_id")
            assert time.monotonic() < until, f"runs do not end: {open_runs}"
            time.sleep(0.3)

    def table(self):
        """What was killed, and in which states runs were at that time."""
        states = sorted({state for _, state in self.counts})
        lines = ["  killed while there were runs in the state" + "".join(f" {state:>11}" for state in states)]
        lines += [f"  {kind:41}" + "".join(f" {self.counts[kind, state]:>11}" for state in states) for kind in sorted({kind for kind, _ in self.counts})]
        return "\n".join(lines)

    def stop(self, failed):
        self.people.ends = True
        self.people.join(30)
        for machine in self.machines:
            machine.__exit__(Exception if failed else None, None, None)
        if self.slurm:
            self.slurm.close(failed)
        self.fleet.finish(failed)


def strike_all(kills):
    kinds = list(kills.strokes())
    first = random.sample(kinds, min(KILLS, len(kinds)))
    for number in range(KILLS):
        if number % BATCH == 0:
            kills.people.log_in_again()
            kills.people.goes_on.set()
        time.sleep(random.uniform(0.2, 2.0))
        kind = first[number] if number < len(first) else random.choice(kinds)
        while not kills.strike(kind):
            kind = random.choice(kinds)
        if number % BATCH == BATCH - 1 or number == KILLS - 1:
            began = time.monotonic()
            kills.settle()
            print(f"  {number + 1:3} kills: at rest after {time.monotonic() - began:.0f} s; {kills.checks.check()}", flush=True)


def each_run_has_one_end():
    print(f"{KILLS} kills, seed {SEED}", flush=True)
    random.seed(SEED)
    kills, failed = Kills(), True
    try:
        kills.start()
        strike_all(kills)
        print(kills.table(), "  " + ", ".join(f"{count} {what}" for what, count in kills.hits.most_common()), kills.checks.summary(), sep="\n")
        failed = False
    finally:
        kills.stop(failed)


if __name__ == "__main__":
    sijil_test.run(each_run_has_one_end)
