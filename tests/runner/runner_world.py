"""A registry, its routes and a runner that serves, for tests of `sijil-runner serve`."""
import hashlib
import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(HERE, "../support"))
from leftovers import processes_with  # noqa: E402  (its folder is not a package)
from images import Image  # noqa: E402, F401
from runner_peer import Peer  # noqa: E402
from runner_registry import HOUR, PROJECT, Registry, made, policy_set, sha256, spec  # noqa: E402, F401

BUILD = os.path.abspath(sys.argv[1])
RUNNER = os.path.join(BUILD, "cmd/sijil-runner")
IS_ROOT = os.geteuid() == 0
SECONDS = 60
MARK = f"serve-{os.getpid()}-{time.time_ns()}"


def user():
    try:
        return pwd.getpwnam("sijil-run").pw_name
    except KeyError:
        return "nobody"


class World:
    """A registry, its peer, and a runner's folder."""

    def __init__(self, folder, registry=None):
        self.folder, self.registry = folder, registry or Registry()
        self.peer = Peer(folder, self.registry.authority())
        self.peer.registry = self.registry
        self.state, self.work = os.path.join(folder, "state"), os.path.join(folder, "work")
        self.registry.enroll(self.state, self.peer.server_port, self.peer.ca())
        self.process, self.number = None, 0

    def start(self, *options):
        self.number += 1
        self.log = os.path.join(self.folder, f"log{self.number}")
        with open(self.log, "wb") as out:
            self.process = subprocess.Popen([RUNNER, "serve", f"--state={self.state}", f"--work={self.work}", *([f"--user={user()}"] if IS_ROOT else []),
                                             *options], stderr=out)
        self.peer.wait(lambda: self.said("serving") or self.process.poll() is not None, "it does not serve")
        return self.process

    def said(self, what):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return any(what in line for line in file)

    def stop(self, number=signal.SIGTERM, status=0):
        self.process.send_signal(number)
        assert self.process.wait(SECONDS) == status, self.process.returncode
        self.nothing_is_left()

    def kill(self):
        self.process.kill()
        self.process.wait(SECONDS)

    def nothing_runs(self):
        until = time.monotonic() + 20
        while leftovers() and time.monotonic() < until:
            time.sleep(0.05)
        assert leftovers() == [], leftovers()

    def nothing_is_left(self):
        self.nothing_runs()
        left = [name for name in os.listdir(self.work) if name != "images" or self.process.poll() is not None]  # those are kept while it serves
        assert left == [], left
        assert os.listdir(os.path.join(self.state, "leases")) == [], os.listdir(os.path.join(self.state, "leases"))

    def script(self, text, **more):
        return spec(self.peer.push("code", {"train.sh": text.replace("MARK", MARK).encode()}), **more)

    def run(self, text, **more):
        """Runs a script to its result."""
        run, lease = self.give(self.script(text, **more))
        self.peer.wait(lambda: run.result or run.refusal, "no result")
        return run, lease

    def give(self, wanted, **more):
        lease = self.registry.lease(wanted, **more)
        return self.peer.give(lease), lease

    def statement(self, run):
        return self.registry.statement(run.result)

    def ended(self, run):
        """Outcome of the result, and its subjects by name."""
        statement = self.statement(run)
        subjects = {one["name"]: one["digest"]["sha256"] for one in statement["subject"]}
        for one in statement["predicate"]["runDetails"].get("byproducts", []):
            subjects[one["name"]] = one["digest"]["sha256"]
        texts = run.result["manifests"]
        assert {name: hashlib.sha256(text.encode()).hexdigest() for name, text in texts.items()} == subjects, (texts, subjects)
        return statement["predicate"]["runDetails"]["sijil_outcome"], {name: json.loads(text) for name, text in texts.items()}

    def files(self, manifest, repository=f"{PROJECT}/trained"):
        """The files of an uploaded artifact."""
        assert (repository, manifest["config"]["digest"]) in self.peer.uploaded
        return {one["annotations"]["org.opencontainers.image.title"]: self.peer.uploaded[(repository, one["digest"])] for one in manifest["layers"]}


def workers(world):
    """Processes of the runner's workers, by their parent."""
    found = []
    for name in os.listdir("/proc"):
        try:
            with open(f"/proc/{name}/stat", encoding="ascii", errors="replace") as file:
                if name.isdigit() and int(file.read().rpartition(")")[2].split()[1]) == world.process.pid:
                    found.append(int(name))
        except OSError:
            continue
    return found


def leftovers():
    return processes_with(MARK, without=b"_runs.py")


def run_tests(tests, starts, options=(), world=World):
    """Runs each test in a world of its own, or all in one that serves (`starts`)."""
    folder = tempfile.mkdtemp(prefix="sijil-serve-", dir="/var/tmp")
    os.chmod(folder, 0o755)  # the payload's user must be able to reach its folder
    done = subprocess.run([RUNNER, "check", f"--work={folder}/check", *([f"--user={user()}"] if IS_ROOT else [])], capture_output=True, text=True,
                          check=False)
    if "does not work: the sandbox can't be made" in done.stdout:
        print("left out:", done.stdout)
        shutil.rmtree(folder)
        sys.exit(77)
    wanted = [test for test in tests if not sys.argv[2:] or test.__name__ in sys.argv[2:]]
    try:
        if starts:
            run_in_one(world(folder), wanted, options)
        for test in [] if starts else wanted:
            place = os.path.join(folder, test.__name__)
            os.makedirs(place)
            guarded(world(place), test)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run_in_one(world, tests, options):
    def all_of_them(world):
        world.start(*options)
        for test in tests:
            began = time.monotonic()
            test(world)
            print(f"ok {test.__name__} {time.monotonic() - began:.1f} s", flush=True)
        world.stop()
    guarded(world, all_of_them)


def guarded(world, test):
    began = time.monotonic()
    try:
        test(world)
        print(f"ok {test.__name__} {time.monotonic() - began:.1f} s", flush=True)
    except BaseException:
        traceback.print_exc()
        with open(world.log, encoding="utf-8", errors="replace") as file:
            print(file.read()[-8000:], flush=True)
        raise
    finally:
        if world.process is not None and world.process.poll() is None:
            world.kill()
