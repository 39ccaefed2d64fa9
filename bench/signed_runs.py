"""What signed runs cost: from the order to the first instruction, beside bubblewrap's own start; runners that wait and runs that are queued; and a training
script beside the same one without a registry, and under Slurm alone. For script/bench runs."""
import contextlib
import json
import os
import shlex
import shutil
import statistics
import subprocess
import tempfile
import threading
import time

import sijil_test
from real_runner import RealRunner, user
from run_fleet import RunFleet
from run_world import PROJECT, Person, Runner, World, spec
from sijil_test import make_robot, program, sha256

import slurm  # tests/support

EXAMPLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../examples/digits")
MODEL = "application/vnd.cncf.model.manifest.v1+json"
WAITING, QUEUED = 200, 1000
CALLER, REGION = "daemon", "ae/dxb"  # of the cluster


class Fleet(RunFleet):
    """One gateway, which takes as many requests for runs as come."""
    REGIONS = {**RunFleet.REGIONS, REGION: {"geo": "AE"}}

    def __init__(self):
        super().__init__(1, run_rate_per_project=1000)


class Place:
    """A registry with a person that asks for runs, and what runs need."""

    def __init__(self):
        self.fleet = Fleet()

    def __enter__(self):
        self.fleet.start()
        conninfo = f"host={self.fleet.database_at} dbname=sijil_template user=sijil_app"
        self.world = World(self.fleet, self.fleet.path("approver.pem"), conninfo, self.fleet.path("socket"))
        self.alice = Person(self.world, "alice")
        self.client = self.fleet.client(self.alice.login)
        self.alice.call = self.call
        self.pusher = self.fleet.client(make_robot(self.fleet, "pusher", "publisher", PROJECT))
        return self

    def __exit__(self, kind, value, trace):
        self.fleet.finish(kind is not None)

    def call(self, method, path="", body=None):
        """With one token: the server gives a person two a second."""
        return self.client.call(method, f"/api/v1/projects/{PROJECT}/runs{path}", None if body is None else json.dumps(body),
                                {"Content-Type": "application/json"} if body else {}, scope="registry:admin:*")

    def push(self, name, *paths):
        there, layers = self.pusher.repository(f"{PROJECT}/{name}"), []
        for path in paths:
            with open(path, "rb") as file:
                content = file.read()
            layers.append({"mediaType": "application/octet-stream", "digest": there.push_blob(content), "size": len(content),
                           "annotations": {"org.opencontainers.image.title": os.path.basename(path)}})
        text = there.manifest(layers=layers)
        assert there.put_manifest("latest", text).status == 201
        return {"repository": there.name, "digest": sha256(text)}

    def ask(self, **more):
        outputs = [{"name": "model", "repository": PROJECT + "/trained", "type": MODEL}]
        return self.alice.request(spec={**spec(outputs=outputs, **more)})

    def wait(self, asked):
        """Looks often: half of the pause between two looks is a part of each figure."""
        while (found := self.alice.run(asked))["state"] not in ("succeeded", "failed", "cancelled", "expired", "refused", "quarantined"):
            time.sleep(0.02)
        return found


def median_ms(seconds):
    return statistics.median(seconds) * 1000


# ---- from the order to the first instruction ----

CLOCK = "date +%s%N; mkdir /out/model; echo 1 > /out/model/1\n"


def bubblewrap(count):
    """From the call to the first instruction of the same shell, in the namespaces that a run gets and with nothing else."""
    words = ["bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib",
             "--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--", "/bin/sh", "-c", "date +%s%N"]
    found = []
    for _ in range(count):
        began = time.time_ns()
        found.append((int(subprocess.run(words, check=True, capture_output=True).stdout) - began) / 1e9)
    return found


def ordered_ms(place, run):
    """The time of the event of the order; keyd signs the order after it."""
    return int(place.fleet.sql("SELECT convert_from(leaf, 'UTF8')::json->>'ts' FROM audit_entry WHERE seq = "
                               f"(SELECT event FROM run_draft WHERE run_id = '{run}')"))


def first_instruction(place, folder, count):
    """Seconds from the request, and from the order's event, to the first instruction."""
    path = os.path.join(folder, "train.sh")
    with open(path, "w", encoding="ascii") as file:
        file.write(CLOCK)
    code, from_request, from_order = place.push("clock", path), [], []
    with RealRunner(place.fleet, Runner(place.world, pool="here")):
        for number in range(count + 2):
            time.sleep(0.2)  # the runner asks again
            began = time.time_ns()
            asked = place.ask(code=code, inputs=[], pool="here", argv=["/bin/sh", "/code/train.sh"])
            found = place.wait(asked)
            assert found["state"] == "succeeded", found
            log = place.call("GET", f"/{asked['run']}/log?offset=0&wait_s=0")
            first = int(log.body)
            if number >= 2:  # the first ones find nothing in any cache
                from_request.append((first - began) / 1e9)
                from_order.append(first / 1e9 - ordered_ms(place, asked["run"]) / 1e3)
    return {"from the request": from_request, "from the order": from_order, "bubblewrap alone": bubblewrap(count)}


# ---- waiting runners, queued runs ----

def cpu_of(processes):
    """Seconds of the processor that they have used."""
    total = 0
    for process in processes:
        with open(f"/proc/{process}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def database_of(fleet):
    with open(fleet.path("postgres/data_at"), encoding="utf-8") as file, open(file.read().strip() + "/postmaster.pid", encoding="utf-8") as pid:
        first = int(pid.readline())
    return [first, *sijil_test.children_of(first)]


def share(place, seconds):
    """The share of a core that the gateway, sijil-keyd and PostgreSQL use for so long."""
    groups = {"gateway": [place.fleet.gateways[0].pid], "sijil-keyd": [place.fleet.keyd.pid], "PostgreSQL": database_of(place.fleet)}
    before, began = {name: cpu_of(pids) for name, pids in groups.items()}, time.monotonic()
    time.sleep(seconds)
    took = time.monotonic() - began
    return {name: (cpu_of(pids) - before[name]) / took for name, pids in groups.items()}


class Waiting(threading.Thread):
    """A runner that asks for work again and again, over one connection."""

    def __init__(self, runner, ends):
        super().__init__(daemon=True)
        self.runner, self.ends, self.wrong, self.asked = runner, ends, None, 0

    def run(self):
        link = self.runner.connection()
        try:
            while not self.ends.is_set():
                answer = self.runner.ask(30, link=link, nodes=1)
                assert answer.status == 204, (answer.status, answer.body)
                self.asked += 1
        except Exception as error:  # after the end, the server is gone
            self.wrong = error


def waiting(place, runners, runs, seconds, tell):
    """Runs that fit none of the runners that wait; then one that fits them all, and needs one more."""
    tell(f"{runs} runs are queued")
    asked = [place.ask(pool="nobody") for _ in range(runs)]
    while place.fleet.sql("SELECT count(*) FROM run WHERE state = 'ordered'") != str(len(asked)):
        time.sleep(0.5)
    idle = share(place, seconds / 2)
    tell(f"{runners} runners are enrolled")
    ends = threading.Event()
    threads = [Waiting(Runner(place.world, pool="waiting"), ends) for _ in range(runners)]
    for thread in threads:
        thread.start()
    time.sleep(5)
    found = share(place, seconds)
    large = place.ask(pool="waiting", nodes=runners + 1)
    sijil_test.wait_until(lambda: place.alice.run(large).get("nodes_kept") == runners, 40, "not all are kept")  # of a minute
    kept = share(place, min(seconds, 30))
    assert place.alice.run(large)["nodes_kept"] == runners
    wrong = next((thread.wrong for thread in threads if thread.wrong), None)
    assert wrong is None, wrong
    ends.set()
    return {"runs alone": idle, "with waiting runners": found, "with runners kept for a large run": kept}


# ---- the overhead of a run ----

def data_folder(folder):
    path = os.path.join(folder, "digits")
    subprocess.run(["/usr/bin/python3", os.path.join(EXAMPLE, "data.py"), path], check=True, stdout=subprocess.DEVNULL)
    return path


def timed(work, rounds):
    found = []
    for _ in range(rounds):
        began = time.monotonic()
        work()
        found.append(time.monotonic() - began)
    return found


class Training:
    """examples/digits, in several ways."""

    def __init__(self, folder, rounds):
        self.folder, self.rounds = folder, rounds
        self.data = data_folder(folder)
        with open(os.path.join(EXAMPLE, "run.json"), encoding="utf-8") as file:
            self.run = json.load(file)
        self.number = 0

    def environment(self):
        self.number += 1
        out = os.path.join(self.folder, f"out{self.number}")
        os.makedirs(out)
        os.chmod(out, 0o777)
        place = os.path.join(self.folder, "in")
        os.makedirs(place, exist_ok=True)
        if not os.path.exists(place + "/digits"):
            os.symlink(self.data, place + "/digits")
        return {**self.run["environment"], "SIJIL_INPUTS": place, "SIJIL_OUTPUTS": out, "SIJIL_HEARTBEAT": out + "/heartbeat", "PATH": "/usr/bin:/bin",
                "HOME": "/tmp", "LANG": "C.UTF-8"}

    def words(self):
        return ["/usr/bin/python3", os.path.join(EXAMPLE, "train.py")]

    def plain(self):
        subprocess.run(self.words(), env=self.environment(), check=True, capture_output=True)

    def alone(self):
        """The sandbox of a run, without a registry."""
        words = [program("sijil-runner"), "try", os.path.join(EXAMPLE, "run.json"), f"--work={self.folder}/work", f"--code={EXAMPLE}",
                 f"--input=digits={self.data}", *([f"--user={user()}"] if os.geteuid() == 0 else [])]
        subprocess.run(words, check=True, capture_output=True)

    def ask(self, place, **more):
        if not hasattr(self, "pushed"):
            self.pushed = place.push("digits-code", os.path.join(EXAMPLE, "train.py")), place.push("digits", os.path.join(self.data, "digits.csv"))
        limits = {"time_s": 300, "grace_s": 5, "cpus": 1, "memory_bytes": 1 << 31, "output_bytes": 1 << 24, "output_files": 10, "log_bytes": 1 << 20,
                  "processes": 64}
        asked = place.ask(code=self.pushed[0], inputs=[{"name": "digits", **self.pushed[1]}], argv=self.run["argv"], environment=self.run["environment"],
                          limits=limits, **more)
        found = place.wait(asked)
        assert found["state"] == "succeeded", found


class Cluster:
    """Slurm with a runner for one node, and the machine that schedules."""

    def __init__(self, place, folder):
        self.sockets = {f"node{number}": os.path.join(folder, f"node{number}") for number in (1, 2)}
        for path in self.sockets.values():
            os.mkdir(path)
        self.cluster = slurm.Cluster(self.sockets).__enter__()
        token = self.cluster.token(CALLER)
        self.machines = [self.machine(place, f"--jobs={path}/jobs", f"--jobs-user={CALLER}") for path in self.sockets.values()]
        self.machines.append(self.machine(place, f"--slurm={self.cluster.url}", f"--slurm-user={CALLER}", f"--slurm-token={token}", f"--slurm-region={REGION}",
                                          "--slurm-extra=600", f"--slurm-runner={program('sijil-runner')}", f"--jobs={self.cluster.mount_point()}/jobs"))

    @staticmethod
    def machine(place, *options):
        made = RealRunner(place.fleet, Runner(place.world, pool="slurm", region=REGION))
        usual = made.command()
        if any(option.startswith("--slurm=") for option in options):
            usual = usual[:3]  # it has no folder of runs
        made.command = lambda: [*usual, *options]
        return made.start()

    def batch(self, training):
        """The script alone, as a job."""
        script = os.path.join(training.folder, "batch.sh")
        with open(script, "w", encoding="utf-8") as file:
            variables = " ".join(f"{name}={shlex.quote(value)}" for name, value in training.environment().items())
            file.write(f"#!/bin/sh\nexec env {variables} {' '.join(training.words())}\n")
        self.cluster.run("sbatch", "--wait", "--output=/dev/null", "--chdir=/tmp", script)

    def close(self):
        for machine in self.machines:
            machine.__exit__(None, None, None)
        self.cluster.__exit__()


def overhead(place, folder, rounds, beside, tell):
    """Seconds of each way, the ways in turn."""
    training = Training(folder, rounds)
    cluster = Cluster(place, folder) if slurm.why_not() is None else None
    ways = {"python3 train.py": training.plain, "sijil-runner try": training.alone, "a signed run": lambda: training.ask(place, pool="here")}
    if cluster:
        ways["sbatch --wait"] = lambda: cluster.batch(training)
        ways["a signed run through Slurm"] = lambda: training.ask(place, pool="slurm")
    for name, command in beside:
        ways[name] = lambda command=command: subprocess.run(command, shell=True, check=True, capture_output=True, timeout=600)
    found = {name: [] for name in ways}
    with contextlib.ExitStack() as stack:
        if cluster:
            stack.callback(cluster.close)
        stack.enter_context(RealRunner(place.fleet, Runner(place.world, pool="here")))
        for number in range(rounds):
            tell(f"training, round {number + 1} of {rounds}")
            for name, work in ways.items():
                found[name] += timed(work, 1)
    return found


# ---- all of it ----

def line(*cells):
    return f"{cells[0]:44}" + "".join(f" {cell:>14}" for cell in cells[1:])


def tables(figures):
    """What people read: each figure beside what it is measured against, and the marks."""
    lines = [line("share of a core", *next(iter(figures["waiting"].values())))]
    lines += [line(name, *(f"{100 * value:.1f} %" for value in shares.values())) for name, shares in figures["waiting"].items()]
    if "first instruction, s" not in figures:
        return "\n".join(lines)
    first, bare = figures["first instruction, s"], median_ms(figures["first instruction, s"]["bubblewrap alone"])
    lines += ["", line("to the first instruction, ms", "median", "9 of 10 below", "of bubblewrap")]
    for name, seconds in first.items():
        tenth = statistics.quantiles(seconds, n=10, method="inclusive")[-1] * 1000 if len(seconds) > 1 else seconds[0] * 1000
        lines.append(line(name, f"{median_ms(seconds):.0f}", f"{tenth:.0f}", f"{median_ms(seconds) / bare:.1f}"))
    plain = statistics.median(figures["training, s"]["python3 train.py"])
    lines += ["", line("training digits, s", "median", "beside plain", "more, s")]
    for name, seconds in figures["training, s"].items():
        found = statistics.median(seconds)
        lines.append(line(name, f"{found:.2f}", f"{found / plain:.2f}", f"{found - plain:.2f}"))
    return "\n".join(lines)


def marks(figures):
    """What is wanted of signed runs: what, the figure, the most, whether it is met."""
    shares = {name: 100 * found["gateway"] for name, found in figures["waiting"].items()}
    rows = [("gateway with queued runs and waiting runners, % of a core", shares["with waiting runners"], 5),
            ("gateway with runners kept for a large run, % of a core", shares["with runners kept for a large run"], 5)]
    if "first instruction, s" in figures:
        rows.insert(0, ("from the order to the first instruction, ms, median", median_ms(figures["first instruction, s"]["from the order"]), 300))
    return "\n".join(f"{what:60} {found:>8.1f}   below {most:<5} {'met' if found < most else 'MISSED'}" for what, found, most in rows)


def measure(options, record, tell):
    """Prints the tables; false if a mark is missed."""
    folder = tempfile.mkdtemp(prefix="sijil-bench-runs-", dir="/var/tmp")
    os.chmod(folder, 0o755)
    quick = options.quick
    try:
        if not options.waiting:
            with Place() as place:
                tell("order to first instruction")
                record.put("runs", "first instruction, s", value=first_instruction(place, folder, 5 if quick else 50))
                record.put("runs", "training, s", value=overhead(place, folder, 1 if quick else 5, options.beside, tell))
        with Place() as place:
            record.put("runs", "waiting", value=waiting(place, *((10, 50, 4) if quick else (WAITING, QUEUED, 60)), tell))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    figures = record.found["runs"]
    print(tables(figures), marks(figures), sep="\n\n")
    return "MISSED" not in marks(figures)
