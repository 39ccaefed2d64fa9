"""A registry whose runs have several nodes, and a runner for each: for tests/runner/node_runs.py."""
import collections
import json
import os
import signal
import subprocess
import time

from runner_world import IS_ROOT, MARK, RUNNER, SECONDS, Registry, World, spec, user
from ports import free_ports
from runner_peer import Handler, Peer

NAMES = ("runner", "east", "west")


class NodeHandler(Handler):
    def name(self):
        """Whose certificate it is."""
        subject = {field[0][0]: field[0][1] for field in self.connection.getpeercert()["subject"]}
        return next(name for name, uuid in self.server.registry.ids.items() if uuid == subject["commonName"])

    def runner(self, route, body):
        if route == "leases":
            self.lease_for(json.loads(body), self.name())
        else:
            super().runner(route, body)

    def run_of(self, run_id, node):
        return self.server.runs[(run_id, node)]

    def lease_for(self, asked, name):
        server, until = self.server, time.monotonic() + min(asked["wait_s"], 1)
        waiting = server.leases_of[name]
        with server.changed:
            server.asked.append({**asked, "by": name})
            while not waiting and time.monotonic() < until:
                server.changed.wait(0.05)
            text = waiting.popleft() if waiting and asked["cpus"] > 0 else None
        self.answer(204 if text is None else 200, text or b"")

    def take_start(self, run, body):
        """The barrier of docs/runs.md."""
        order = self.server.orders[run.id]
        with self.server.changed:
            order.listens[body["node"]] = body.get("listen")
            order.certificates[body["node"]] = body["certificate"]
            run.certify(body)
            ready = len(order.listens) == order.nodes and not order.is_held
        if order.nodes == 1:
            run.has_started = True
            self.answer(204)
        elif run.stop:
            self.answer(409, {"title": "the attempt has ended", "detail": run.stop})
        elif not ready:
            self.answer(200, {"ready": False, "every_ms": order.every_ms.get(body["node"], 200)})
            order.waiting.add(body["node"])
        else:
            run.has_started = True
            peers = [{"node": node, "lease": order.leases[node], "certificate": order.certificates[node], **({"listen": listen} if listen else {})}
                     for node, listen in sorted(order.listens.items()) if node != body["node"]]
            self.answer(200, {"ready": True, "peers": order.change(peers)})

    def take_refusal(self, run, body):
        super().take_refusal(run, body)
        self.server.end(run.id, "a node refused", but=body["node"])

    def take_result(self, run, body):
        super().take_result(run, body)
        if self.server.registry.statement(body, run.name)["predicate"]["runDetails"]["sijil_outcome"]["status"] != "succeeded":
            self.server.end(run.id, f"node {body['node']} failed", but=body["node"])


class Order:
    """One attempt of one run."""

    def __init__(self, nodes):
        self.nodes, self.leases, self.certificates, self.listens = nodes, {}, {}, {}
        self.waiting = set()  # nodes that know that they wait for others
        self.is_held = False           # the barrier does not open
        self.every_ms = {}             # node -> until it asks again, 200 ms to 10 s
        self.change = lambda peers: peers  # what a dishonest registry says of other nodes


class NodePeer(Peer):
    handler = NodeHandler

    def __init__(self, folder, authority):
        self.leases_of = collections.defaultdict(collections.deque)
        self.orders = {}
        super().__init__(folder, authority)

    def order(self, wanted, names, **more):
        """Gives a lease of each node to a runner. The runs of its nodes, in their order."""
        ordered, order = self.registry.order(wanted, **more), Order(len(names))
        self.orders[ordered[0]] = order
        runs = []
        for node, name in enumerate(names):
            lease = self.registry.lease_of(ordered, name=name, node=node)
            order.leases[node] = lease.bundle["lease"]
            run = self.runs[(ordered[0], node)]
            run.id, run.name, run.lease = ordered[0], name, lease
            runs.append(run)
        with self.changed:
            for node, name in enumerate(names):
                self.leases_of[name].append(runs[node].lease.text())
            self.changed.notify_all()
        return runs

    def end(self, run_id, why, but=None):
        """The attempt ends for all nodes."""
        for (known, node), run in list(self.runs.items()):
            if known == run_id and node != but:
                run.stop = run.stop or why


class NodeWorld(World):
    def __init__(self, folder):
        registry = Registry(more={name: {"region": "local/dxb"} for name in NAMES[1:]})
        self.folder, self.registry, self.process, self.number = folder, registry, None, 0
        self.peer = NodePeer(folder, registry.authority())
        self.peer.registry = registry
        self.processes, self.logs = {}, {}
        self.ports = {name: free_ports(2) for name in NAMES}  # two runs at a time (--parallel)
        for name in NAMES:
            os.makedirs(os.path.join(folder, name), exist_ok=True)
            registry.enroll(os.path.join(folder, name, "state"), self.peer.server_port, self.peer.ca(), name=name)

    def at(self, name, *path):
        return os.path.join(self.folder, name, *path)

    def start(self, *options):
        for name in NAMES:
            self.start_runner(name, *options)
        self.process = self.processes[NAMES[0]]

    def start_runner(self, name, *options, joins=True):
        os.chmod(self.at(name), 0o755)
        self.logs[name] = self.log = self.at(name, f"log{len(self.logs)}-{self.number}")
        self.number += 1
        place = [f"--tunnel-listen=127.0.0.1:{self.ports[name]}"] if joins else []
        with open(self.log, "wb") as out:
            self.processes[name] = subprocess.Popen([RUNNER, "serve", f"--state={self.at(name, 'state')}", f"--work={self.at(name, 'work')}", "--parallel=2", *place,
                                                     *([f"--user={user()}"] if IS_ROOT else []), *options], stderr=out)
        self.peer.wait(lambda: self.said("serving", name) or self.processes[name].poll() is not None, "it does not serve")
        assert self.processes[name].poll() is None, self.all_logs()

    def said(self, what, name=NAMES[0]):
        with open(self.logs[name], encoding="utf-8", errors="replace") as file:
            return [line for line in file if what in line]

    def said_of(self, run, what):
        """What the runner of this node has said of its run."""
        return [line for line in map(json.loads, self.said(what, run.name)) if line.get("run") == run.id]

    def stop(self, number=signal.SIGTERM, status=0):
        for process in self.processes.values():
            process.send_signal(number)
        for process in self.processes.values():
            assert process.wait(SECONDS) == status, process.returncode
        self.nothing_is_left()

    def kill(self):
        for process in self.processes.values():
            process.kill()
            process.wait(SECONDS)

    def nothing_is_left(self):
        self.nothing_runs()
        for name in NAMES:
            assert os.listdir(self.at(name, "work")) == [] and os.listdir(self.at(name, "state", "leases")) == [], name

    def all_logs(self):
        return {name: open(path, encoding="utf-8", errors="replace").read()[-3000:] for name, path in self.logs.items()}

    # ---- runs ----

    def python(self, text, nodes=2, **more):
        """A specification of a Python program."""
        code = self.peer.push("code", {"train.py": text.replace("MARK", MARK).encode()})
        return {**spec(code, **more), "nodes": nodes, "network": more.get("network", "tasks"), "argv": ["/usr/bin/python3", "/code/train.py"]}

    def ends(self, runs):
        """The outcomes of all nodes."""
        self.peer.wait(lambda: all(run.result or run.refusal for run in runs), f"no result: {self.all_logs()}")
        for run in runs:
            assert run.refusal is None, self.registry.opened(run.refusal, run.name)
        return [self.registry.statement(run.result, run.name)["predicate"]["runDetails"]["sijil_outcome"] for run in runs]

    def subjects(self, run):
        statement = self.registry.statement(run.result, run.name)
        return [one["name"] for one in statement["subject"]], [one["name"] for one in statement["predicate"]["runDetails"].get("byproducts", [])]


__all__ = ["MARK", "NAMES", "NodeWorld"]
