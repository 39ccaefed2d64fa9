"""A registry with runners of this machine and, where it can be started, of a Slurm cluster: what run_kills.py kills, and starts again."""
import glob
import os
import random
import shutil
import signal
import tempfile
import time

import sijil_test
from peers import POSTGRES
from real_runner import RealRunner
from run_fleet import RunFleet
from run_kill_people import BROKEN
from run_world import Runner
from sijil_test import children_of, program, working_in

import slurm  # tests/support, which sijil_test.py has put on the path

CALLER = "daemon"  # the user whose jobs they are
REGION = "ae/dxb"  # of the cluster
MARK = f"kills-{os.getpid()}-{time.time_ns()}"  # a word of each payload's command line
BY_ITSELF = (75, 0)  # a gateway may end because the database ended while it started; and it may have finished its requests

# Between two steps of a run: its event is recorded, and what sijil-keyd signs for it is not stored. So it asks sijil-keyd just now.
STEPS = {"order": "SELECT 1 FROM run_draft JOIN run USING (run_id) WHERE state = 'requested' LIMIT 1",
         "lease": "SELECT 1 FROM run_attempt WHERE ended_at IS NULL AND lease IS NULL LIMIT 1",
         "admission": "SELECT 1 FROM run_admission JOIN run USING (run_id) WHERE state = 'finishing' LIMIT 1"}
STEP_S = 15  # how long sijil-keyd is slow at most: after 40 s of silence attempts are lost


def words_of(process):
    try:
        with open(f"/proc/{process}/cmdline", "rb") as file:
            return file.read()
    except OSError:
        return b""


def processes(*wanted):
    """Those whose command lines have all of these words; not this test."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        line = words_of(name)
        if line and all(word.encode() in line for word in wanted) and int(name) != os.getpid() and b"run_kills.py" not in line:
            found.append(int(name))
    return found


def kill(process):
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


class KillFleet(RunFleet):
    """Two gateways, sijil-keyd and PostgreSQL, which a keeper starts again as a service manager does."""
    REGIONS = {**RunFleet.REGIONS, REGION: {"geo": "AE"}, "ae/auh": {"geo": "AE"}}

    def __init__(self):
        super().__init__(2)
        self.ended = []  # what a gateway ended with by itself

    def keep(self):
        for number, gateway in enumerate(self.gateways):
            if gateway is not None and gateway.poll() is not None:
                self.ended.append(gateway.returncode)
                assert gateway.returncode in BY_ITSELF, f"gateway {number} has ended with {gateway.returncode}"
                self.start_gateway(number)
        if self.keyd is not None and self.keyd.poll() is not None:
            raise AssertionError(f"sijil-keyd has ended with {self.keyd.returncode}")

    def is_up(self, number):
        return self.gateways[number] is not None and self.gateways[number].poll() is None

    def kill_gateway(self):
        number = random.randrange(2)
        if not self.is_up(number):
            return None
        self.kill(number)
        pause()
        self.start_gateway(number)
        return "gateway"

    def kill_key_process(self):
        self.kill_keyd()
        pause()
        self.start_keyd()
        return "sijil-keyd"

    def kill_database(self):
        """All of PostgreSQL, or one of its processes, after which it starts anew by itself."""
        if random.random() < 0.5:
            with open(self.path("postgres/data_at"), encoding="utf-8") as file:
                data = file.read().strip()
            with open(data + "/postmaster.pid", encoding="utf-8") as file:
                server = int(file.readline())
            backends = [process for process in working_in(data) if process != server]
            return "process of PostgreSQL" if backends and kill(random.choice(backends)) else None
        self.crash_database()
        pause()
        self.restart_database()
        return "PostgreSQL"

    def crash_database(self):
        self.run(POSTGRES, "crash", self.path("postgres"))

    def restart_database(self):
        self.run(POSTGRES, "restart", self.path("postgres"), timeout=200)

    # ---- between two steps ----

    def kill_between(self, what):
        """Kills `what` while a run is between two steps, at which sijil-keyd then stands still."""
        step, keyd = random.choice(list(STEPS)), self.keyd
        if not all(self.is_ready(port) for port in self.ports):
            return None
        try:
            is_there = self.wait_for_step(STEPS[step], keyd)
            start_again = self.strike(what) if is_there else None
        finally:
            keyd.send_signal(signal.SIGCONT)
        if not is_there:
            return None
        pause()
        start_again()
        return f"{what} before the {step}"

    def is_ready(self, port):
        try:
            return sijil_test.Client(self, None, port).call("GET", "/readyz").status == 200
        except BROKEN:
            return False

    def wait_for_step(self, text, keyd):
        """sijil-keyd works for a moment at a time, so that its signatures take long. It stands still when a run is at the step."""
        until = time.monotonic() + STEP_S
        while time.monotonic() < until:
            keyd.send_signal(signal.SIGSTOP)
            if self.ask(text):
                return True
            keyd.send_signal(signal.SIGCONT)
            time.sleep(random.uniform(0.002, 0.02))
        return False

    def strike(self, what):
        """Returns what starts it again."""
        if what == "sijil-keyd":
            self.kill_keyd()
            return self.start_keyd
        if what == "PostgreSQL":
            self.crash_database()
            return self.restart_database
        killed = [number for number in range(2) if self.is_up(number)]
        for number in killed:
            self.kill(number)
        return lambda: [self.start_gateway(number) for number in killed]

    def ask(self, text, seconds=90):
        """The rows of the answer, also while the database starts."""
        until = time.monotonic() + seconds
        while True:
            try:
                return [line.split("|") for line in self.sql(text).splitlines()]
            except AssertionError:
                assert time.monotonic() < until, f"no answer of the database: {text}"
                time.sleep(0.2)


def pause():
    """How long something is away: often not at all."""
    time.sleep(random.choice((0, 0, random.uniform(0, 2.5))))


class Machine(RealRunner):
    """A runner that a service manager starts again."""

    def __init__(self, fleet, runner, port, options=()):
        self.options = list(options)
        super().__init__(fleet, runner, port)

    def command(self):
        return [*super().command(), "--parallel=2", *self.options]

    def keep(self):
        if self.process.poll() is not None:
            raise AssertionError(f"sijil-runner has ended with {self.process.returncode}: {self.said()[-3000:]}")

    def kill_it(self):
        self.kill()
        pause()
        self.start()
        return "runner"

    def kill_worker(self):
        found = children_of(self.process.pid)
        return "worker" if found and kill(random.choice(found)) else None

    def left(self):
        """Files that nobody needs once all runs have ended."""
        return [path for place in ("work", "state/leases") for path in glob.glob(f"{self.folder}/{place}/*") if not path.endswith("/images")]


class Head(Machine):
    """The machine that schedules: it has no folder of runs."""

    def command(self):
        return [program("sijil-runner"), "serve", f"--state={self.folder}/state", *self.options]


class Slurm:
    """A cluster whose two nodes have runners, and the machine that schedules."""

    def __init__(self, fleet, world):
        self.folder, self.looks_at = tempfile.mkdtemp(prefix="sijil-kills-", dir="/var/tmp"), 0.0
        os.chmod(self.folder, 0o755)
        self.sockets = {f"node{number}": os.path.join(self.folder, f"node{number}") for number in (1, 2)}
        for path in self.sockets.values():
            os.mkdir(path)
        self.cluster = slurm.Cluster(self.sockets).__enter__()
        token = self.cluster.token(CALLER)
        self.nodes = [Machine(fleet, Runner(world, pool="slurm", region=REGION), fleet.ports[number % 2],
                              (f"--jobs={path}/jobs", f"--jobs-user={CALLER}")) for number, path in enumerate(self.sockets.values())]
        self.head = Head(fleet, Runner(world, pool="slurm", region=REGION), fleet.ports[0],
                         (f"--slurm={self.cluster.url}", f"--slurm-user={CALLER}", f"--slurm-token={token}", f"--slurm-region={REGION}", "--slurm-extra=600",
                          "--slurm-patience=20", f"--slurm-runner={program('sijil-runner')}", f"--jobs={self.cluster.mount_point()}/jobs"))
        for machine in (*self.nodes, self.head):
            machine.start()

    def kill_controller(self):
        self.cluster.kill_controller()
        pause()
        self.cluster.start_controller()
        return "slurmctld"

    def kill_job(self):
        """What Slurm started for a run, on either node."""
        found = processes("sijil-runner\0job\0", self.cluster.mount_point())
        return "job of Slurm" if found and kill(random.choice(found)) else None

    def kill_head(self):
        return self.head.kill_it() and "runner that schedules"

    def kill_node(self):
        return random.choice(self.nodes).kill_it() and "runner of a node"

    def keep(self):
        if self.cluster.controller.poll() is not None:  # it ends if its port is not free yet
            self.cluster.start_controller()
        if time.monotonic() > self.looks_at:
            self.looks_at = time.monotonic() + 5
            self.resume_nodes()
        for machine in (*self.nodes, self.head):
            machine.keep()

    def resume_nodes(self):
        """As the administrator does: Slurm takes a node out of use when a job on it was killed in an odd way. Jobs that Slurm holds are not released: the
        machine that schedules ends them."""
        for line in self.cluster.run("sinfo", "-h", "-N", "-o", "%N %T", check=False).splitlines():
            node, _, state = line.partition(" ")
            if state.startswith(("drain", "down")):
                self.cluster.run("scontrol", "update", f"nodename={node}", "state=resume", check=False)

    def open_jobs(self):
        text = self.cluster.run("squeue", "-h", "--Format=Name:64|,State:|", check=False)
        return [line.split("|")[0].strip() for line in text.splitlines() if any(state in line for state in ("PENDING", "RUNNING", "COMPLETING"))]

    def close(self, failed):
        for machine in (self.head, *self.nodes):
            machine.__exit__(Exception if failed else None, None, None)
        self.cluster.__exit__()
        shutil.rmtree(self.folder, ignore_errors=True)


def slurm_is_missing():
    return slurm.why_not()


def own_groups():
    """The folders in which runners that this test starts make the groups of their runs (runner/sandbox/cgroup.c)."""
    with open("/proc/self/cgroup", encoding="ascii") as file:
        lines = [line.strip().split(":", 2) for line in file]
    places = [(f"/sys/fs/cgroup/{name}".rstrip("/"), path) for _, names, path in lines for name in names.split(",")]
    return {base + path.rstrip("/") if os.path.isdir(base + path) else base for base, path in places}


def control_groups():
    """Those of runs in which nothing runs: another test may have runs meanwhile."""
    found = set()
    for path in (path for folder in own_groups() for path in glob.glob(folder + "/run-" + 32 * "[0-9a-f]")):
        try:
            with open(path + "/cgroup.procs", encoding="ascii") as file:
                if not file.read().strip():
                    found.add(path)
        except OSError:
            pass  # it is gone
    return found
