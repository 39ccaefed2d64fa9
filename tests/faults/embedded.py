#!/usr/bin/env python3
"""`sijild --embedded` while its n-th allocation, file call, query, socket call or thread fails, in any of its processes. Each start reports
the failure, or succeeds. Nothing incomplete is left, and the next start works.

usage: embedded.py [CASE...]   a sample; all failures with SIJIL_FAULTS_ALL=1 (hours). CASE:KIND:N is one failure, CASE:KIND:N-
all from the n-th on."""
import hashlib
import http.client
import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import time

from plan import KINDS, WITHOUT_END, Bad, Plan, faulty, no_findings, numbers, one_of, real, run_cases, series
import sijil_test
from sijil_test import Client, sha256

START_S = 120     # PostgreSQL's initdb included, on a busy machine
LASTING_S = 2     # seconds after which a lasting failure ends
STATUSES = (1, 75)  # of a start that failed, permanently or for the moment
PRIVATE = ("admin.json", "tls/ca.key", "tls/server.key", "officer/approver.pem")
STATE = """SELECT concat_ws(' ', (SELECT count(*) FROM organisation), (SELECT count(*) FROM project),
  (SELECT count(*) FROM region), (SELECT count(*) FROM document WHERE kind = 1),
  (SELECT count(*) FROM robot WHERE name = 'robot$admin' AND revoked_at IS NULL),
  (SELECT size FROM audit_log) = (SELECT count(*) FROM audit_entry))"""
WHOLE = "1 1 1 1 1 t"


class World:
    def __init__(self):
        self.root = tempfile.mkdtemp(prefix="sijil-faults-", dir=sijil_test.work_folder())
        os.chmod(self.root, 0o755)
        self.plan = Plan(os.path.join(self.root, "plan"))
        self.number = 0
        os.environ["XDG_DATA_HOME"] = os.path.join(self.root, "data")  # a user other than root keeps the passphrase there
        os.mkdir(os.environ["XDG_DATA_HOME"])

    def fresh(self):
        self.number += 1
        return Instance(self, os.path.join(self.root, f"r{self.number}"))

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if os.environ.get("SIJIL_FAULTS_KEEP") == "1":
            sys.stderr.write(f"the folder is {self.root}\n")
        else:
            shutil.rmtree(self.root, ignore_errors=True)


class Instance:
    """One directory, and the process that serves it."""

    def __init__(self, world, folder):
        self.world, self.folder, self.port = world, folder, sijil_test.free_port()
        self.log_path, self.process, self.begins = folder + ".log", None, 0

    @property
    def ca_file(self):
        return self.folder + "/ca.pem"

    @property
    def admin(self):
        with open(self.folder + "/admin.json", encoding="utf-8") as file:
            admin = json.load(file)
        return admin["username"], admin["password"]

    @property
    def log(self):
        """Of the last start."""
        with open(self.log_path, encoding="utf-8", errors="replace") as file:
            file.seek(self.begins)
            return file.read()

    def begin(self, failing, *options):
        environment = {**os.environ, **({"SIJIL_FAULT_PLAN": self.world.plan.path} if failing else {})}
        with open(self.log_path, "ab") as log:
            self.begins = log.tell()
            self.process = subprocess.Popen(
                [faulty("sijild") if failing else real("sijild"), "--embedded", self.folder, "--listen-port", str(self.port),
                 "--public-url", f"https://127.0.0.1:{self.port}", "--secrets-dir", os.path.join(self.world.root, "secrets"), "--no-runner",
                 *options],
                env=environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def is_ready(self):
        try:
            return Client(self).call("GET", "/readyz").status == 200
        except (OSError, http.client.HTTPException, ssl.SSLError):
            return False

    def wait(self, seconds=START_S):
        """Waits until it serves or has ended. Returns whether it serves, or None if neither happened."""
        until = time.monotonic() + seconds
        while self.process.poll() is None:
            if self.is_ready():
                return True
            if time.monotonic() > until:
                return None
            time.sleep(0.02)
        return False

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Bad(f"it does not stop: {self.log[-2000:]}") from None
        self.nothing_runs()
        if code != 0:
            raise Bad(f"stopped, it ended with {code}: {self.log[-2000:]}")

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.nothing_runs()

    def nothing_runs(self):
        until = time.monotonic() + 60
        while (left := subprocess.run(["pgrep", "-af", "--", self.folder + "(/|$| )"], capture_output=True, text=True,
                                      check=False).stdout):
            if time.monotonic() > until:
                raise Bad(f"something is left running: {left}")
            time.sleep(0.05)

    def database_answers(self):
        """Whether its own database answers: processes of a killed instance may still answer the gateway while another one starts."""
        try:
            return self.sql("SELECT 1") == "1"
        except subprocess.CalledProcessError:
            return False

    def sql(self, text):
        name = f"sijil-{os.getuid()}-{self.id[:8]}"
        place = "/run" if os.getuid() == 0 else os.environ.get("XDG_RUNTIME_DIR", "/tmp")
        return subprocess.run(["psql", "-qXAt", "-h", f"{place}/{name}/pg", "-U", "postgres", "-d", "sijil", "-c", text],
                              check=True, capture_output=True, text=True).stdout.strip()

    @property
    def id(self):
        with open(self.folder + "/instance", encoding="ascii") as file:
            return file.read().strip()

    @property
    def passphrase(self):
        return ("/var/lib/sijil-keyd" if os.getuid() == 0 else os.environ["XDG_DATA_HOME"] + "/sijil") + f"/{self.id}.passphrase"

    def secrets(self):
        """The secrets that must survive a start: the digests of its keys, and the administrator."""
        kept = {"admin": self.admin}
        for path in (self.passphrase, self.ca_file, *(f"{self.folder}/{name}" for name in ("keyd/keyring", *PRIVATE[1:]))):
            with open(path, "rb") as file:
                kept[path] = hashlib.sha256(file.read()).hexdigest()
        return kept

    def check(self):
        """Checks that everything exists exactly once, and works."""
        for name in PRIVATE:
            assert os.stat(f"{self.folder}/{name}").st_mode & 0o77 == 0, f"others may read {name}"
        assert os.path.getsize(self.passphrase) == 65, "half a passphrase"
        state = self.sql(STATE)
        assert state == WHOLE, f"organisations, projects, regions, policy sets, administrators, log: {state}"
        name, secret = sijil_test.make_robot(self, f"r{int(time.monotonic() * 1e6)}", "publisher", "main/models")
        repository = Client(self, (name, secret)).repository("main/models/there")
        data = os.urandom(1000)
        repository.push_blob(data)
        assert repository.call("GET", "blobs/" + sha256(data)).body == data

    def client(self, login):
        return Client(self, login)

    def forget(self):
        if self.process is not None and self.process.poll() is None:
            self.kill()
        if os.path.exists(self.folder + "/instance") and os.path.exists(self.passphrase):
            os.unlink(self.passphrase)
        shutil.rmtree(self.folder, ignore_errors=True)


def judge_log(instance):
    """The log has the reports of sanitizers and assertions, and it must name the failure."""
    no_findings(instance.log)
    if instance.process.returncode not in (None, 0) and '"sijild ends' not in instance.log and "error" not in instance.log:
        raise Bad(f"nothing is said: {instance.log[-1000:]}")


def start_failing(instance, kinds, nth, count, *options):
    """One start with a failure somewhere. Returns whether it serves now. A lasting failure ends after a while."""
    plan = instance.world.plan
    plan.arm(kinds, nth, count)
    instance.begin(True, *options)
    serves = instance.wait(LASTING_S if count > 1 else START_S)
    plan.disarm()
    if serves is None:  # it tries again and again, and must succeed once nothing fails
        serves = instance.wait()
    fired = plan.fired > 0
    if serves is None:
        raise Bad(f"neither serves nor ends: {instance.log[-3000:]}")
    judge_log(instance)
    if not serves:
        if instance.process.returncode not in STATUSES:
            raise Bad(f"it ended with {instance.process.returncode}: {instance.log[-3000:]}")
        if not fired:
            raise Bad(f"without a failure: {instance.log[-3000:]}")
        instance.nothing_runs()
    return serves


def start_well(instance, *options):
    instance.begin(False, *options)
    if not instance.wait():
        raise Bad(f"afterwards it does not start: {instance.log[-3000:]}")


def starts_once(world, kinds, nth, count):
    """A start in a directory that does not exist yet."""
    instance = world.fresh()
    try:
        if not start_failing(instance, kinds, nth, count):
            start_well(instance)
        instance.check()
        instance.stop()
        judge_log(instance)
    finally:
        instance.forget()


class Kept:
    """One directory after a good start, for all tries of a case."""
    instance = None

    @classmethod
    def of(cls, world):
        if cls.instance is None:
            cls.instance = world.fresh()
            start_well(cls.instance)
            cls.instance.stop()
        return cls.instance

    @classmethod
    def serving(cls, world):
        """Starts programs that fail on demand, without a failure yet. Its log is read from here on."""
        instance = cls.of(world)
        world.plan.disarm()
        if instance.process.poll() is not None:
            instance.begin(True)
            if not instance.wait():
                raise Bad(instance.log[-3000:])
        instance.begins = os.path.getsize(instance.log_path)
        return instance


def starts_again(world, kinds, nth, count):
    """A start with an existing directory: nothing is made again."""
    instance = Kept.of(world)
    before = instance.secrets()
    if not start_failing(instance, kinds, nth, count):
        assert instance.secrets() == before, "something was made anew"
        start_well(instance)
    instance.check()
    instance.stop()
    judge_log(instance)
    assert instance.secrets() == before, "something was made anew"


def replaces_its_administrator(world, kinds, nth, count):
    """--new-admin: once the command reports it, the new administrator works and the old one does not."""
    instance = Kept.of(world)
    before = instance.secrets()
    if not start_failing(instance, kinds, nth, count, "--new-admin"):
        start_well(instance, "--new-admin")
    instance.check()
    instance.stop()
    after = instance.secrets()
    assert after.pop("admin") != before.pop("admin"), "the administrator was not replaced"
    assert after == before, "something else was made anew"


def renews_its_certificate(world, kinds, nth, count):
    """While it serves: the failure is in the log, the old certificate stays in use, and the next check renews it."""
    instance, plan = Kept.serving(world), world.plan
    names = instance.folder + "/tls/server.names"
    certificate = instance.folder + "/tls/server.pem"

    def written():
        with open(certificate, "rb") as file:
            return file.read()

    def is_renewed():
        """The names are written last. Later lines of the log may come after the next try has begun."""
        with open(names, "rb") as file:
            return b"other.example" not in file.read() and written() != before
    with open(names, "a", encoding="ascii") as file:
        file.write("other.example\n")
    before = written()
    plan.arm(kinds, nth, count)
    instance.process.send_signal(signal.SIGHUP)
    until = time.monotonic() + START_S
    while "could not be renewed" not in instance.log and not is_renewed():
        assert time.monotonic() < until, "it neither renews nor says why not: " + instance.log
        time.sleep(0.01)
    plan.disarm()
    judge_log(instance)
    while not instance.is_ready():  # the failure may have been in the gateway's own work
        assert instance.process.poll() is None and time.monotonic() < until, "it does not serve"
        time.sleep(0.01)
    if "could not be renewed" in instance.log:
        instance.process.send_signal(signal.SIGHUP)
    while not is_renewed() or not instance.is_ready():
        assert time.monotonic() < until, "the certificate is not renewed afterwards"
        time.sleep(0.01)


def starts_its_children_again(program):
    def case(world, kinds, nth, count):
        """A killed process comes back, although the supervisor fails to start it for a while."""
        instance, plan = Kept.serving(world), world.plan
        victims = [int(pid) for pid in subprocess.run(["pgrep", "-P", str(instance.process.pid), program], check=True,
                                                      capture_output=True, text=True).stdout.split()]
        plan.arm(kinds, nth, count)
        for victim in victims:
            os.kill(victim, signal.SIGKILL)
        sijil_test.Server.wait_gone(victims[0])
        until = time.monotonic() + START_S
        began = time.monotonic()
        while not (has_child(instance, program) and instance.database_answers() and instance.is_ready()):
            assert instance.process.poll() is None, f"it ended: {instance.log[-3000:]}"
            assert time.monotonic() < until, f"{program} does not come back: {instance.log[-3000:]}"
            if count > 1 and time.monotonic() - began > LASTING_S:
                plan.disarm()
            time.sleep(0.05)
        plan.disarm()
        judge_log(instance)
        check_soon(instance, until)
    return case


def check_soon(instance, until):
    """A gateway that was ready may refuse a request with "try again": on a busy machine, some time after sijil-keyd was killed, nothing is
    served if the log has not been signed for 5 s. But it must recover."""
    while True:
        try:
            return instance.check()
        except AssertionError as why:
            if not str(why).startswith("(503,") or time.monotonic() > until:
                raise
        time.sleep(0.2)


def has_child(instance, program):
    return subprocess.run(["pgrep", "-P", str(instance.process.pid), program], check=False, stdout=subprocess.DEVNULL).returncode == 0


class Ring:
    """The directory and passphrase of a sijil-keyd without a supervisor."""

    def __init__(self, world, name):
        self.world, self.folder = world, os.path.join(world.root, name)
        os.mkdir(self.folder, 0o700)
        passphrase = self.folder + ".passphrase"
        with open(passphrase, "w", encoding="ascii", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write("a long passphrase\n")
        self.words = ["--directory=" + self.folder, "--passphrase-file=" + passphrase]
        self.making, self.serving = ("--init", "--origin=registry.test/audit"), ("--socket=" + self.folder + ".socket",)

    def run(self, failing, *words):
        """Runs it until it ends, or until it is ready and gets a signal to end. Returns its exit status and its output."""
        program = faulty("sijil-keyd") if failing else real("sijil-keyd")
        environment = {**os.environ, **({"SIJIL_FAULT_PLAN": self.world.plan.path} if failing else {})}
        with open(self.folder + ".log", "wb") as log:
            process = subprocess.Popen([program, *self.words, *words], env=environment, stdout=log, stderr=log)
        until = time.monotonic() + 60
        while process.poll() is None and '"message":"ready"' not in self.log and time.monotonic() < until:
            time.sleep(0.01)
        self.world.plan.disarm()
        process.terminate()
        status = process.wait(60)
        no_findings(self.log)
        if time.monotonic() > until:
            raise Bad(f"it neither is ready nor ends: {self.log[-3000:]}")
        return status, self.log

    @property
    def log(self):
        with open(self.folder + ".log", encoding="utf-8", errors="replace") as file:
            return file.read()

    def fail(self, *words):
        """As run(), with a failure on demand."""
        status, text = self.run(True, *words)
        if status not in (0, *STATUSES):
            raise Bad(f"it ended with {status}: {text[-3000:]}")
        if status != 0 and (self.world.plan.fired == 0 or not text):
            raise Bad(f"without a failure, or a word: {text[-3000:]}")

    def works(self, words, what):
        status, text = self.run(False, *words)
        if status != 0:
            raise Bad(f"afterwards {what}: {text[-3000:]}")


def makes_a_key_ring(world, kinds, nth, count):
    """sijil-keyd --init: makes a complete ring, or none; never one that can't be opened."""
    world.number += 1
    ring = Ring(world, f"ring{world.number}")
    world.plan.arm(kinds, nth, count)
    ring.fail(*ring.making)
    if not os.path.exists(ring.folder + "/keyring"):
        ring.works(ring.making, "no key ring can be made")
    ring.works(ring.serving, "the key ring can't be opened")
    shutil.rmtree(ring.folder)


def opens_a_key_ring(world, kinds, nth, count):
    """sijil-keyd is ready, or reports the reason; the next start is ready."""
    world.number += 1
    ring = Ring(world, f"ring{world.number}")
    ring.works(ring.making, "no key ring can be made")
    world.plan.arm(kinds, nth, count)
    ring.fail(*ring.serving)
    ring.works(ring.serving, "the key ring can't be opened")
    shutil.rmtree(ring.folder)


CASES = {
    "first-start": starts_once,
    "second-start": starts_again,
    "new-admin": replaces_its_administrator,
    "key-ring": makes_a_key_ring,
    "key-process": opens_a_key_ring,
    "certificate": renews_its_certificate,
    "keyd-again": starts_its_children_again("sijil-keyd"),
    "postgres-again": starts_its_children_again("postgres"),
}


def run_case(world, name):
    name, only = one_of(name)
    tried, begun = 0, time.monotonic()
    CASES[name](world, KINDS, 0, 1)  # nothing fails, but all calls are counted
    asked = {kind: world.plan.counted(kind) for kind in KINDS}
    for kinds, lasting in series(name, only, KINDS):
        total = asked[kinds[0]]
        for nth in numbers(total, only):
            try:
                CASES[name](world, kinds, nth, WITHOUT_END if lasting else 1)
            except (Bad, AssertionError, LookupError, ValueError, OSError, subprocess.SubprocessError) as why:
                raise Bad(f"{kinds[0]} {nth}{'-' if lasting else ''} of {total}: {why}") from why
            tried += world.plan.fired > 0
    if Kept.instance is not None:
        if Kept.instance.process.poll() is None:
            Kept.instance.stop()
    print(f"ok   {name:16} {' '.join(f'{n:5}' for n in asked.values())}   {tried:4} failures, {time.monotonic() - begun:.0f} s", flush=True)
    return tried


def main():
    with World() as world:
        try:
            return run_cases(sys.argv[1:] or list(CASES), lambda name: run_case(world, name), "case", KINDS)
        finally:
            if Kept.instance is not None:
                Kept.instance.forget()


sys.exit(main())
