"""What must hold of all runs after kills: one end, one event that says why, at most one admission, and nothing left; for run_kills.py."""
import collections
import json
import os
import re
import subprocess
import time

import sijil_test
from fleet import Judge
from run_kill_people import PROGRAMS
from run_kill_world import MARK, control_groups, processes
from run_world import FOLDER
from sijil_test import make_robot, program

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
# The events of a run's end, and the state that each may lead to. A result that is sent again, because its answer was lost, is allowed and completes
# nothing. One that says `succeeded` is a run.finish, too, and ends nothing. Each result that came too late has a run.quarantine, and each
# lease that was returned a run.refuse; they end nothing, either, unless it was the last attempt.
FINISHED, REFUSED, LATE = ("run.finish", "completed"), ("run.refuse", "completed"), ("run.quarantine", "allowed")
LAST = {("run.admit", "completed"): "succeeded", ("run.end", "allowed"): "failed", ("run.cancel", "allowed"): "cancelled", FINISHED: "failed cancelled",
        ("run.expire", "allowed"): "expired", REFUSED: "refused failed", LATE: "quarantined"}
JOB_ENDED = "the scheduler ended the job, or the runner was stopped"  # docs/slurm.md: then the run is cancelled

OF_OTHERS = ("PostgreSQL", "sem.", "sijil-", "sijil_blob_")  # files in memory of servers, and of tests that run beside this one (tests/support/blob.h)


class Checks:
    def __init__(self, kills):
        self.kills, self.fleet = kills, kills.fleet
        self.judge = Judge(self.fleet, make_robot(self.fleet, "auditor", "auditor", ""))
        self.ends, self.reasons, self.attempts, self.models = (collections.Counter() for _ in range(4))
        self.checked, self.seen, self.events = set(), 0, collections.defaultdict(list)
        self.keys = self.verifier_keys()

    def verifier_keys(self):
        keys, signer = self.fleet.client(self.fleet.admin).api("GET", "/audit/key"), os.path.join(FOLDER.name, "signer.pem")
        with open(signer, "w", encoding="ascii") as file:
            file.write(keys["documents"])
        return ["--key", keys["vkey"], "--signer", signer, "--root", self.fleet.path("approver.pub.pem")]

    # ---- nothing is left ----

    def left(self):
        groups, memory = self.kills.before
        machines = [*self.kills.machines, *(self.kills.slurm.nodes if self.kills.slurm else ())]
        return [*(f"process {process}" for process in processes(MARK)), *(control_groups() - groups), *(path for machine in machines for path in machine.left()),
                *(name for name in set(os.listdir("/dev/shm")) - memory if not name.startswith(OF_OTHERS)),
                *(self.kills.slurm.open_jobs() if self.kills.slurm else ())]

    def check_nothing_is_left(self):
        until = time.monotonic() + 60
        while found := self.left():
            assert time.monotonic() < until, f"these are left: {found[:10]}"
            self.kills.keep()
            time.sleep(0.3)

    def check_uploads(self):
        """A run that has ended has no upload session, whose bytes would lie on the registry's disk."""
        sijil_test.wait_until(lambda: self.fleet.ask("SELECT count(*) FROM upload") == [["0"]], 90, "upload sessions of ended runs are left")

    # ---- each run ----

    def read_events(self):
        """The events of runs since the last look, by run."""
        rows = self.fleet.ask(f"SELECT convert_from(leaf, 'UTF8') FROM audit_entry WHERE seq >= {self.seen} AND action LIKE 'run.%' ORDER BY seq")
        for row in rows:
            entry = json.loads("|".join(row))
            self.seen = entry["seq"] + 1
            for run in set(UUID.findall(entry["res"])):
                self.events[run].append((entry["act"], entry["out"]))

    def ends_of(self, run, state, kinds):
        """The events that ended the run: of those in LAST, some may only have ended an attempt, or nothing."""
        ends = [one for one in self.events[run] if one in LAST]
        if "result" in kinds and FINISHED in ends and state in ("succeeded", "quarantined"):
            ends.remove(FINISHED)
        assert ends.count(REFUSED) == kinds.count("refusal") + kinds.count("return"), f"{run} has {kinds}: {self.events[run]}"
        returned = kinds.count("return") - (state == "failed" and ends[-1] == REFUSED)
        for one in kinds.count("late") * [LATE] + returned * [REFUSED]:
            ends.remove(one)
        return ends

    def check_run(self, run, state, attempt, reason, kinds):
        """`kinds`: of its envelopes."""
        kind, job_ended = self.kills.people.asked[run]["kind"], (state, reason) == ("cancelled", JOB_ENDED)
        assert state in PROGRAMS[kind][2].split() or job_ended, f"a run that {kind} is {state}, {reason}: {self.events[run]}"
        ends = self.ends_of(run, state, kinds)
        assert len(ends) == 1 and state in LAST[ends[0]].split(), f"{run} is {state}, and its events are {self.events[run]}"
        assert kinds.count("admission") == (state == "succeeded") and kinds.count("order") <= 1 and kinds.count("result") <= 1, (run, state, kinds)
        self.ends[kind, state] += 1
        self.attempts[attempt] += 1

    def check_outputs(self, run):
        """The admission verifies, and the model is the same each time."""
        answer = self.kills.people.insist("GET", f"/{run}/bundle", None, (200,))
        path = os.path.join(FOLDER.name, "bundle")
        with open(path, "wb") as file:
            file.write(answer.body)
        done = subprocess.run([program("sijil-verify"), "run", *self.keys, path], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0 and "sijil-keyd admitted" in done.stdout, (run, done.stdout, done.stderr)
        self.models[self.kills.people.insist("GET", "/" + run, None, (200,)).json["outputs"][0]["digest"]] += 1

    def check_rows(self):
        """What no run may leave in the database."""
        for text in ("SELECT run_id FROM run_attempt JOIN run USING (run_id) WHERE run_attempt.ended_at IS NULL AND run.ended_at IS NOT NULL",
                     "SELECT run_id FROM run_attempt WHERE outcome = 'finished' GROUP BY run_id HAVING count(*) > 1",
                     "SELECT key FROM run_session WHERE suspended_at IS NOT NULL"):
            found = self.fleet.ask(text)
            assert not found, (text, found[:3])

    def check(self):
        """All of it, of the runs that have ended since the last time. Returns a line of figures."""
        self.check_nothing_is_left()
        self.check_uploads()
        self.read_events()
        runs = self.fleet.ask("SELECT run_id, state, attempt, coalesce(reason, '') FROM run")
        assert {row[0] for row in runs} == set(self.kills.people.asked), "a run that was asked for is lost"
        envelopes = collections.defaultdict(list)
        for run, kind in self.fleet.ask("SELECT run_id, kind FROM run_envelope"):
            envelopes[run].append(kind)
        fresh = [row for row in runs if row[0] not in self.checked]
        for run, state, attempt, reason in fresh:
            self.check_run(run, state, int(attempt), reason, envelopes[run])
            self.reasons[f"{state}: {re.sub(r'[0-9]+', 'N', reason) or 'a person asked for it'}"] += state != "succeeded"
            if state == "succeeded":
                self.check_outputs(run)
        self.checked.update(row[0] for row in fresh)
        assert len(self.models) <= 1, f"the same code and data gave other models: {self.models}"
        self.check_rows()
        figures = self.judge.check({}, proofs=0)
        return f"{len(fresh)} runs, {sum(row[1] == 'succeeded' for row in fresh)} succeeded; {figures['events']} events, {figures['objects']} objects"

    def summary(self):
        lines = [f"  {count:4} that {kind}: {state}" if kind not in ("good", "failing") else f"  {count:4} {kind}: {state}"
                 for (kind, state), count in sorted(self.ends.items())]
        lines += [f"  {count:4} ended in attempt {attempt}" for attempt, count in sorted(self.attempts.items())]
        lines += [f"  {count:4} {reason}" for reason, count in self.reasons.most_common() if count]
        return "\n".join([*lines, f"  {len(self.checked)} runs, each with one end; {sum(self.models.values())} admissions verified by sijil-verify; "
                                  f"{self.kills.people.repeated} requests of people were repeated"])
