"""How tests start `sijil-runner try`: as root with a user for payloads, and as a plain user."""
import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import time

from leftovers import groups_of_runs, processes_with

BUILD = os.path.abspath(sys.argv[1])
HERE = os.path.dirname(os.path.abspath(__file__))
RUNNER = os.path.join(BUILD, "cmd/sijil-runner")
SECONDS = 120
NO_SANDBOX = "does not work: the sandbox can't be made"
IS_ROOT = os.geteuid() == 0


def has_user(name):
    try:
        pwd.getpwnam(name)
        return True
    except KeyError:
        return False


USER = "sijil-run" if has_user("sijil-run") else "nobody"


class World:
    """One way to start the runner, with its folders."""

    def __init__(self, folder, plain):
        self.plain, self.folder = plain, os.path.join(folder, "plain" if plain else "root")
        os.makedirs(self.folder)
        self.work = os.path.join(self.folder, "work")
        self.code = os.path.join(self.folder, "code")
        os.mkdir(self.code)
        shutil.copy(os.path.join(HERE, "hostile.py"), self.code)
        os.chmod(folder, 0o755)  # the payload's user must be able to reach its folder
        if plain and IS_ROOT:
            for path in (self.folder, self.code):
                shutil.chown(path, USER, None)
        self.count = 0

    def user(self):
        return {"user": USER, "group": pwd.getpwnam(USER).pw_gid, "extra_groups": []} if self.plain and IS_ROOT else {}

    def spec(self, **members):
        self.count += 1
        path = os.path.join(self.folder, f"spec{self.count}.json")
        with open(path, "w", encoding="ascii") as file:
            json.dump(members, file)
        return path

    def command(self, spec, *words, options=()):
        more = [] if self.plain else [f"--user={USER}"]
        return [RUNNER, "try", spec, f"--work={self.work}", "--json", *more, *options, "--", *words]

    def start(self, words, options=(), **members):
        command = self.command(self.spec(**members), *words, options=(f"--code={self.code}", *options))
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **self.user())

    def run(self, *words, options=(), **members):
        """(exit status, report or None, what the program printed, errors)"""
        process = self.start(words, options, **members)
        out, errors = process.communicate(timeout=SECONDS)
        lines = out.decode("utf-8", "replace").rsplit("\n", 2)
        report = json.loads(lines[-2]) if len(lines) > 1 and lines[-2].startswith("{") else None
        return process.returncode, report, out, errors.decode("utf-8", "replace")

    def hostile(self, what, *more, options=(), **members):
        return self.run("/usr/bin/python3", "-B", "/code/hostile.py", what, *more, MARK, options=options, **members)

    def held(self, what, *more, **options):
        code, report, out, errors = self.hostile(what, *more, **options)
        assert code == 0 and b"held\n" in out, (what, code, out[-300:], errors)
        return report, out, errors

    def nothing_is_left(self):
        assert os.listdir(self.work) == [], os.listdir(self.work)
        assert leftovers() == [], leftovers()
        assert groups_without_folder() == []


def is_empty(group):
    try:
        with open(os.path.join(group, "cgroup.procs"), encoding="ascii") as file:
            return file.read() == ""
    except OSError:
        return False  # it has gone away


THERE_BEFORE = set(groups_of_runs())  # of a runner that another test has killed and not started again


def groups_without_folder():
    """Control groups of ended runs: without processes, for a while. Other runs may be active at the same time."""
    until = time.monotonic() + 10
    groups = [group for group in groups_of_runs() if group not in THERE_BEFORE]
    while (groups := [group for group in groups if is_empty(group)]) and time.monotonic() < until:
        time.sleep(0.1)
    return groups


MARK = f"mark-{os.getpid()}-{time.time_ns()}"


def leftovers():
    return processes_with(MARK, without=b"sijil-runner")


def can_start(world):
    try:
        done = subprocess.run([RUNNER, "check", f"--work={world.work}", *([] if world.plain else [f"--user={USER}"])], capture_output=True,
                              text=True, check=False, **world.user())
    except PermissionError:
        return "user " + USER + " can't start programs of this build folder"
    return done.stdout if NO_SANDBOX in done.stdout else None


def run_tests(tests):
    """Runs each test in both ways; after each, nothing of a run may be left."""
    folder = tempfile.mkdtemp(prefix="sijil-sandbox-", dir="/var/tmp")
    ran = 0
    try:
        for plain in (False, True) if IS_ROOT else (True,):
            world = World(folder, plain)
            why = can_start(world)
            if why is not None:
                print("left out,", "as a plain user:" if plain else "as root:", why)
                continue
            for test in tests:
                test(world)
                world.nothing_is_left()
                print("ok", "plain" if plain else "root", test.__name__, flush=True)
                ran += 1
    finally:
        shutil.rmtree(folder)
    sys.exit(0 if ran > 0 else 77)
