"""A registry's queue, a real Slurm cluster whose nodes have runners, and a machine that schedules: tests/runner/slurm_served.py."""
import glob
import json
import os
import signal
import subprocess
import time
import urllib.parse

from ports import free_ports
from runner_peer import RUNS, Handler, Peer
from runner_registry import Registry
from runner_world import BUILD, IS_ROOT, RUNNER, SECONDS, World, leftovers, user
from slurm import Cluster

NODES = {"node1": "ae/dxb", "node2": "ae/auh"}
CALLER = "daemon"  # the user whose jobs they are
SILENCE_S = 5      # after which an attempt is lost; a registry waits longer
ATTEMPTS = 3


class Queued:
    """A run, as the registry sees it."""

    def __init__(self, ordered, wanted, regions):
        self.run, self.ordered, self.wanted, self.regions = ordered[0], ordered, wanted, regions
        self.attempt, self.state, self.heard = 1, "ordered", 0.0
        self.leases, self.statement_of = [], None  # (attempt, runner)
        self.nodes, self.results = wanted["nodes"], 0
        self.gathers, self.listens, self.texts, self.certificates = set(), {}, {}, {}  # of several nodes: who waits, where they listen, their leases

    def name(self, head):
        return f"sijil-{head[:8]}-{self.run}-{self.attempt}"


class QueueHandler(Handler):
    def route(self):
        return "queue" if self.path.endswith("/runner/queue") else super().route()

    def caller(self):
        subject = dict(pair[0] for pair in self.connection.getpeercert()["subject"])
        return next(name for name, one in self.server.registry.ids.items() if one == subject["commonName"])

    def runner(self, route, body):
        with self.server.changed:
            self.server.lose()
            if route == "queue":
                self.queue(json.loads(body))
                return
            found = RUNS.fullmatch(urllib.parse.urlsplit(self.path).path)
            queued = self.server.queued.get(found.group(1)) if found else None
            if queued is not None and not self.note(queued, route, body):
                return
        super().runner(route, body)

    def note(self, queued, route, body):
        """Whether the call goes on: the attempt must be open, and the caller's own."""
        attempt = json.loads(body)["attempt"] if route != "log" else int(urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)["attempt"][0])
        if queued.state not in ("leased", "running") or (attempt, self.caller()) not in queued.leases[-queued.nodes:]:
            self.answer(409, {"title": "the attempt has ended"})
            return False
        queued.heard = time.monotonic()
        if route == "start":
            queued.state = "running"
        queued.results += 1 if route == "result" else 0
        if route == "refusal" or queued.results == queued.nodes:
            queued.state, queued.statement_of = "ended", self.caller()
        return True

    def check_session(self, asked):
        """Two generations of a journal in the wrong order would suspend the key."""
        before = self.server.sessions.get(self.caller(), (asked["session"], 0))
        self.server.sessions[self.caller()] = (asked["session"], asked["generation"])
        if asked["generation"] < before[1] or (asked["generation"] == before[1] and asked["session"] != before[0]):
            self.server.problems.append((self.caller(), before, asked))

    def queue(self, asked):
        self.check_session(asked)
        runs = []
        for one in self.server.queued.values():
            if one.state in ("ordered", "leased", "running") and set(one.regions) & set(asked["regions"]):
                limits, devices = one.wanted["limits"], one.wanted.get("devices", {"count": 0})
                runs.append({"run": one.run, "attempt": one.attempt, "held": one.state != "ordered", "nodes": one.nodes, "cpus": limits["cpus"],
                             "memory_bytes": limits["memory_bytes"], "time_s": limits["time_s"] + limits["grace_s"], "devices": devices["count"],
                             **({"device_type": devices["type"]} if devices["count"] else {}),
                             "regions": [region for region in one.regions if region in asked["regions"]]})
        self.server.listed += 1
        self.answer(200, {"runs": runs, "more": False})

    def lease(self, asked):
        server, name, until = self.server, self.caller(), time.monotonic() + min(asked["wait_s"], 1)
        with server.changed:
            self.check_session(asked)
            server.asked.append({**asked, "by": name})
            while (found := server.find(name, asked)) is None and time.monotonic() < until:
                server.changed.wait(0.05)
            if found is None:
                self.answer(204)
                return
            found.leases.append((found.attempt, name))
            node = sum(1 for attempt, _ in found.leases if attempt == found.attempt) - 1
            found.state, found.heard = "leased" if node == found.nodes - 1 else "ordered", time.monotonic()
            lease = server.registry.lease_of(found.ordered, attempt=found.attempt, name=name, node=node)
            found.texts[node] = lease.bundle["lease"]
            self.answer(200, lease.text())

    def run_of(self, run_id, node):
        return self.server.runs[run_id if node == 0 else f"{run_id} {node}"]

    def take_start(self, run, body):
        """Of several nodes: the barrier of docs/runs.md."""
        queued = self.server.queued.get(RUNS.fullmatch(self.path).group(1))
        if queued is None or queued.nodes == 1:
            super().take_start(run, body)
            return
        queued.listens[body["node"]] = body["listen"]
        queued.certificates[body["node"]] = body["certificate"]
        run.certify(body)
        if len(queued.listens) < queued.nodes:
            self.answer(200, {"ready": False, "every_ms": 200})
        else:
            self.answer(200, {"ready": True, "peers": [{"node": node, "listen": listen, "lease": queued.texts[node],
                                                        "certificate": queued.certificates[node]}
                                                       for node, listen in sorted(queued.listens.items()) if node != body["node"]]})


class QueuePeer(Peer):
    handler = QueueHandler

    def __init__(self, folder, authority):
        super().__init__(folder, authority)
        self.queued, self.sessions, self.problems, self.listed = {}, {}, [], 0
        self.places = {"runner": "local/dxb", **NODES}

    def find(self, name, asked):
        for one in self.queued.values():
            wanted = asked.get("run") in (None, one.run) and asked.get("attempt") in (None, one.attempt)
            if asked["cpus"] > 0 and one.state == "ordered" and self.places[name] in one.regions and wanted and self.is_gathered(one, name, asked):
                return one
        return None

    def is_gathered(self, queued, name, asked):
        """Several nodes are given when as many runners ask; each gets one."""
        if queued.nodes == 1:
            return True
        if asked["nodes"] > 0:
            queued.gathers.add(name)
        return len(queued.gathers) >= queued.nodes and name in queued.gathers and (queued.attempt, name) not in queued.leases

    def lose(self):
        for one in self.queued.values():
            if one.state in ("leased", "running") and time.monotonic() - one.heard > SILENCE_S:
                one.attempt, one.state = one.attempt + 1, "ordered" if one.attempt < ATTEMPTS else "ended"

    def order(self, wanted, regions):
        """A run that is ordered now: what its runner says, and its place in the queue."""
        queued = Queued(self.registry.order(wanted), wanted, regions)
        with self.changed:
            self.queued[queued.run] = queued
            self.changed.notify_all()
        return self.runs[queued.run], queued

    def end(self, queued):
        with self.changed:
            queued.state = "ended"


class SlurmWorld(World):
    """Nodes with runners, and a head, around a cluster that has started."""

    def __init__(self, folder, cluster):
        places = {name: {"region": region} for name, region in NODES.items()}
        self.folder, self.cluster, self.number, self.process = folder, cluster, 0, None
        self.registry = Registry(more={**places, "head": {"region": "ae/dxb", "assurance": 1}})
        self.peer = QueuePeer(folder, self.registry.authority())
        self.peer.registry = self.registry
        self.runners, self.logs = {}, {}
        self.ports = {name: free_ports(2) for name in NODES}  # two runs at a time (--parallel)
        for name in ("runner", "head", *NODES):
            os.makedirs(self.at(name, "work"), exist_ok=True)
            self.registry.enroll(self.at(name, "state"), self.peer.server_port, self.peer.ca(), name=name)

    def at(self, *names):
        return os.path.join(self.folder, *names)

    def launch(self, name, *options):
        self.number += 1
        self.logs[name] = self.at(f"{name}.log{self.number}")
        with open(self.logs[name], "wb") as out:
            process = subprocess.Popen([RUNNER, "serve", "--state=" + self.at(name, "state"), *options], stderr=out)
        self.runners[name] = process
        self.peer.wait(lambda: self.has_said(name, "scheduling" if name == "head" else "serving") or process.poll() is not None, f"{name} does not serve")
        return process

    def has_said(self, name, what):
        with open(self.logs[name], encoding="utf-8", errors="replace") as file:
            return any(what in line for line in file)

    def start_runner(self, name, *options):
        jobs = [f"--jobs={self.at(name, 'here', 'jobs')}", f"--jobs-user={CALLER}"] if name in NODES else []
        if name in NODES and os.path.exists("/dev/net/tun"):
            jobs.append(f"--tunnel-listen=127.0.0.1:{self.ports[name]}")
        return self.launch(name, "--work=" + self.at(name, "work"), "--parallel=2", *jobs, *([f"--user={user()}"] if IS_ROOT else []), *options)

    def start_head(self, *options, url=None, patience=20):
        if url is None:
            url = self.cluster.url
        token = [f"--slurm-user={CALLER}", "--slurm-token=" + self.token] if url.startswith("unix:") else [f"--slurm-config={self.cluster.config}"]
        return self.launch("head", f"--slurm={url}", *token, *(f"--slurm-region={region}" for region in NODES.values()), "--slurm-extra=600",
                           f"--slurm-patience={patience}", f"--slurm-runner={RUNNER}", f"--jobs={self.cluster.mount_point()}/jobs", *options)

    def stop_runner(self, name, number=signal.SIGTERM):
        process = self.runners.pop(name)
        process.send_signal(number)
        process.wait(SECONDS)
        if number == signal.SIGTERM:
            assert process.returncode == 0, (name, process.returncode)

    # ---- runs ----

    def wait_for(self, test, what, seconds=SECONDS):
        self.peer.wait(test, what, seconds)

    def result(self, run, queued):
        """The outcome of a run that came to its end, and its manifests."""
        self.wait_for(lambda: run.result or run.refusal, "no result")
        assert run.refusal is None, run.refusal
        return self.ended(run) if queued is None else self.ended_by(run, queued.leases[-1][1])

    def ended_by(self, run, name):
        statement = self.registry.statement(run.result, name)
        return statement["predicate"]["runDetails"]["sijil_outcome"], {key: json.loads(text) for key, text in run.result["manifests"].items()}

    def details(self, run, queued):
        return self.registry.statement(run.result, queued.leases[-1][1])["predicate"]["runDetails"]

    def refusal(self, run, queued):
        self.wait_for(lambda: run.result or run.refusal, "no refusal")
        return self.registry.opened(run.refusal, queued.leases[-1][1])

    # ---- the cluster ----

    def jobs(self, queued=None, states="all"):
        """Number, name and state of each job."""
        text = self.cluster.run("squeue", "-h", "-t", states, "--Format=JobID:|,Name:64|,State:|")
        found = [[field.strip() for field in line.split("|")[:3]] for line in text.splitlines() if line.strip()]
        return [one for one in found if queued is None or queued.run in one[1]]

    def open_jobs(self, queued=None):
        return [one for one in self.jobs(queued) if one[2] in ("PENDING", "RUNNING", "COMPLETING", "CONFIGURING")]

    def no_job_is_left(self):
        self.wait_for(lambda: not self.open_jobs(), "jobs are left")

    def nothing_is_left(self):
        self.nothing_runs()
        self.no_job_is_left()
        for name in ("runner", *NODES):
            self.wait_for(lambda name=name: not glob.glob(self.at(name, "work", "*")) and not glob.glob(self.at(name, "state", "leases", "*")),
                          f"files are left at {name}")
        assert not self.peer.problems, self.peer.problems

    def close(self):
        for name in list(self.runners):
            self.runners[name].kill()
            self.runners[name].wait()

    def show_logs(self):
        for name, path in self.logs.items():
            with open(path, encoding="utf-8", errors="replace") as file:
                print(f"--- {name}\n{file.read()[-6000:]}", flush=True)


__all__ = ["BUILD", "CALLER", "NODES", "Cluster", "SlurmWorld", "leftovers"]
