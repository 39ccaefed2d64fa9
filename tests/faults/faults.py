"""What the tests of faults share: plans of failures, a gateway that fails on demand, and the rows behind it.

A plan lies in a file that the program maps (tests/support/fault_program.c). Standard library only."""
import json
import mmap
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
BUILD = os.environ.get("SIJIL_BUILD", os.path.join(SOURCE, "build/asan"))
KINDS = ("memory", "file", "query", "socket")  # as base/fault.h has them
REGION = "local/main"


def real(name):
    return os.path.join(BUILD, "cmd", name)


def faulty(name):
    return os.path.join(BUILD, "tests/faults/cmd", name)


class Plan:
    """Which questions of one program are answered with a failure. See struct fault_plan."""

    WORDS = 4 + len(KINDS)

    def __init__(self, path):
        self.path = path
        with open(path, "wb") as file:
            file.write(bytes(8 * self.WORDS))
        self.file = open(path, "r+b")
        self.map = mmap.mmap(self.file.fileno(), 8 * self.WORDS)

    def _set(self, word, value):
        struct.pack_into("=Q", self.map, 8 * word, value)

    def _get(self, word):
        return struct.unpack_from("=Q", self.map, 8 * word)[0]

    def arm(self, kinds, nth, count=1):
        """The `count` questions of these kinds from the n-th on fail; nothing is counted before."""
        self.disarm()
        for word in range(3, self.WORDS):
            self._set(word, 0)
        self._set(1, nth)
        self._set(2, nth + count - 1)
        self._set(0, sum(1 << KINDS.index(kind) for kind in kinds))

    def disarm(self):
        self._set(0, 0)

    @property
    def asked(self):
        return self._get(3)

    @property
    def fired(self):
        return sum(self._get(4 + i) for i in range(len(KINDS)))


class Machine:
    """PostgreSQL, sijil-keyd and sijild with a configuration file, in a folder of its own. Either program may be one
    that fails on demand: `plans` has the plan of each that is."""

    def __init__(self, failing=("sijild",)):
        self.root = tempfile.mkdtemp(prefix="sijil-faults-", dir="/var/tmp")
        self.plans = {name: Plan(self.path("plan-" + name)) for name in failing}
        self.log = open(self.path("log"), "ab")
        self.processes = {}
        self.psql = None
        self.postgres("start", "/bin/true", str(os.getpid()))
        with open(self.path("postgres/socket"), encoding="utf-8") as file:
            self.database_at = file.read().strip()
        self.make_keys()
        self.configure()
        self.start_keyd()
        self.run_sijild("--migrate")
        self.found()
        self.start_gateway()

    def path(self, name):
        return os.path.join(self.root, name)

    def postgres(self, action, *arguments):
        subprocess.run([os.path.join(SOURCE, "tests/support/postgres.sh"), action, self.path("postgres"), *arguments],
                       check=True)

    def tool(self, *command):
        subprocess.run(command, check=True, stdout=self.log, stderr=self.log)

    def run_sijild(self, *options):
        self.tool(real("sijild"), "--config=" + self.path("sijild.conf"), *options)

    def make_keys(self):
        os.mkdir(self.path("keyd"), 0o700)
        os.close(os.open(self.path("passphrase"), os.O_CREAT | os.O_WRONLY, 0o600))
        with open(self.path("passphrase"), "w", encoding="ascii") as file:
            file.write("a long passphrase\n")
        self.tool(real("sijil-keyd"), "--directory=" + self.path("keyd"), "--init", "--origin=registry.test/audit",
                  "--passphrase-file=" + self.path("passphrase"))
        self.tool("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days",
                  "1", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout",
                  self.path("server.key"), "-out", self.path("server.pem"))
        self.tool("openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", self.path("approver.pem"))
        self.tool("openssl", "ec", "-in", self.path("approver.pem"), "-pubout", "-out", self.path("approver.pub.pem"))

    def configure(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        database = f"host={self.database_at} dbname=sijil_template user="
        with open(self.path("sijild.conf"), "w", encoding="ascii") as file:
            file.write(f"""listen_port = {self.port}
public_url = "https://127.0.0.1:{self.port}"
tls_certificate = "{self.path('server.pem')}"
tls_key = "{self.path('server.key')}"
database = "{database}sijil_app"
database_owner = "{database}sijil_owner"
keyd_socket = "{self.path('keyd.socket')}"
metadata_region = "{REGION}"
record_timeout = 1500
reader_threads = 3
mover_threads = 2
event_threads = 1
region "{REGION}" {{
    driver = "fs"
    location = "{self.path('region')}"
}}
""")

    def policy_set(self, epoch):
        """A signed set of this epoch, as the approver makes one."""
        policy = {"apiVersion": "sijil.policy/v1", "kind": "ResidencyPolicy",
                  "metadata": {"id": "all", "version": epoch, "scope": ["**"], "effective_from": "2020-01-01T00:00:00Z",
                               "review_by": "2099-01-01"},
                  "labels": {"class": "confidential"},
                  "rules": [{"id": "PERMIT", "effect": "permit", "ops": ["ingest", "mount", "read", "metadata", "log"],
                             "when": {"class_at_most": "confidential"}}]}
        with open(self.path("set.json"), "w", encoding="ascii") as file:
            json.dump({"policies": [policy], "regions": {REGION: {"geo": "AE"}}}, file)
        self.tool(real("sijil"), "policy", "sign", "--key", self.path("approver.pem"), "--epoch", str(epoch),
                  "--output", self.path("set.dsse"), self.path("set.json"))
        with open(self.path("set.dsse"), "rb") as file:
            return file.read()

    def found(self):
        self.policy_set(1)
        self.run_sijild("--found=" + self.path("admin.json"), "--approver=" + self.path("approver.pub.pem"),
                        "--policy-set=" + self.path("set.dsse"))

    def start(self, name, *options):
        environment = dict(os.environ)
        if name in self.plans:
            environment["SIJIL_FAULT_PLAN"] = self.plans[name].path
        path = faulty(name) if name in self.plans else real(name)
        self.processes[name] = subprocess.Popen([path, *options], env=environment, stdout=self.log, stderr=self.log,
                                                stdin=subprocess.DEVNULL)

    def start_keyd(self):
        if os.path.exists(self.path("keyd.socket")):
            os.unlink(self.path("keyd.socket"))
        self.start("sijil-keyd", "--directory=" + self.path("keyd"), "--socket=" + self.path("keyd.socket"),
                   "--passphrase-file=" + self.path("passphrase"))
        self.wait(lambda: os.path.exists(self.path("keyd.socket")), "sijil-keyd")

    def revive_keyd(self):
        """What it could not write makes it end in order; whoever keeps it running starts it again."""
        process, until = self.processes["sijil-keyd"], time.monotonic() + 10
        while process.poll() is None:
            with socket.socket(socket.AF_UNIX) as probe:
                if probe.connect_ex(self.path("keyd.socket")) == 0:
                    return
            assert time.monotonic() < until, "sijil-keyd neither listens nor ends"
            time.sleep(0.01)
        if process.returncode not in (1, 75):
            self.lives("sijil-keyd")
        self.start_keyd()

    def start_gateway(self):
        self.start("sijild", "--config=" + self.path("sijild.conf"))
        self.wait(self.is_listening, "sijild")

    def is_listening(self):
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def wait(self, condition, name, seconds=60):
        until = time.monotonic() + seconds
        while not condition():
            if self.processes[name].poll() is not None or time.monotonic() > until:
                raise AssertionError(f"{name} does not start:\n{self.last_words()}")
            time.sleep(0.02)

    def lives(self, name="sijild"):
        code = self.processes[name].poll()
        if code is not None:
            raise AssertionError(f"{name} ended with {code}:\n{self.last_words()}")

    def last_words(self, lines=60):
        with open(self.path("log"), encoding="utf-8", errors="replace") as file:
            return "".join(file.readlines()[-lines:])

    @property
    def ca_file(self):
        return self.path("server.pem")

    @property
    def admin(self):
        with open(self.path("admin.json"), encoding="utf-8") as file:
            admin = json.load(file)
        return admin["username"], admin["password"]

    def sql(self, text):
        """The first column of the first row, through one psql that stays."""
        if self.psql is None:
            self.psql = subprocess.Popen(
                ["psql", "-qXAt", "-h", self.database_at, "-U", "postgres", "-d", "sijil_template"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.psql.stdin.write(" ".join(text.split()) + ";\n\\echo .\n")
        self.psql.stdin.flush()
        lines = []
        while not lines or lines[-1] != ".":
            line = self.psql.stdout.readline()
            if line == "":
                raise AssertionError("psql ended")
            lines.append(line.rstrip("\n"))
        return lines[0] if len(lines) > 1 else ""

    def stop(self):
        """The exit statuses of the programs; sanitizers speak through them."""
        if self.psql is not None:
            self.psql.stdin.close()
            self.psql.wait()
            self.psql = None
        codes = {}
        for name in ("sijild", "sijil-keyd"):
            process = self.processes.get(name)
            if process is None:
                continue
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            try:
                codes[name] = process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                codes[name] = "killed: it did not end"
                process.wait()
        self.postgres("stop")
        return codes

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        codes = self.stop()
        self.log.close()
        bad = {name: code for name, code in codes.items() if code != 0}
        if kind is not None or bad or os.environ.get("SIJIL_FAULTS_KEEP") == "1":
            sys.stderr.write(self.last_words(120))
            sys.stderr.write(f"the folder is {self.root}\n")
        else:
            shutil.rmtree(self.root, ignore_errors=True)
        assert kind is not None or not bad, f"not a clean end: {bad}"
