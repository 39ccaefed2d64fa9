"""PostgreSQL, sijil-keyd and sijild as docs/production.md has them: three peers, none of which starts another.

Each runs below tests/support/fault_shim.c, so that a test can step its clock and slow down or fail its disk while it runs.
Nobody restarts anything here, but for sijil-keyd, which a service manager starts again when it ends."""
import json
import mmap
import os
import shutil
import signal
import struct
import subprocess
import tempfile
import threading
import time

import sijil_test
from sijil_test import program

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
POLICY_SET = {
    "policies": [{
        "apiVersion": "sijil.policy/v1", "kind": "ResidencyPolicy",
        "metadata": {"id": "all", "version": 1, "scope": ["**"], "effective_from": "2020-01-01T00:00:00Z",
                     "review_by": "2099-01-01"},
        "labels": {"class": "confidential"},
        "rules": [{"id": "PERMIT", "effect": "permit", "ops": ["ingest", "read", "metadata", "log"],
                   "when": {"class_at_most": "confidential"}}]}],
    "regions": {"local/main": {"geo": "AE"}}}


class Faults:
    """What goes wrong in one process: written into memory that it has mapped."""
    FORM = "=qiiii"

    def __init__(self, folder, name, library):
        self.path, self.library = os.path.join(folder, name + ".faults"), library
        with open(self.path, "wb") as file:
            file.write(bytes(struct.calcsize(self.FORM)))
        os.chmod(self.path, 0o666)
        with open(self.path, "r+b") as file:
            self.memory = mmap.mmap(file.fileno(), struct.calcsize(self.FORM))

    def set(self, clock_ms=0, sync_ms=0, write_ms=0, failure=0):
        self.memory[:] = struct.pack(self.FORM, clock_ms, sync_ms, write_ms, failure, 0)

    def environment(self):
        # Sanitizers want to be the first library, and bear not to be.
        options = ":".join(filter(None, [os.environ.get("ASAN_OPTIONS"), "verify_asan_link_order=0"]))
        return {**os.environ, "LD_PRELOAD": self.library, "SIJIL_FAULT_FILE": self.path, "ASAN_OPTIONS": options}


class Production(sijil_test.Server):
    """Looks like the embedded server to whoever tests it; `settings` are lines of sijild.conf."""

    def __init__(self, **settings):
        self.root = tempfile.mkdtemp(prefix="sijil-", dir="/var/tmp")
        os.chmod(self.root, 0o755)
        self.folder, self.port, self.settings = self.root, sijil_test.free_port(), settings
        self.log = open(os.path.join(self.root, "log"), "ab")
        library = os.path.join(self.root, "shim.so")  # where PostgreSQL's user can read it
        shutil.copy(os.path.join(sijil_test.BUILD, "tests/scenario/libsijil_fault_shim.so"), library)
        self.faults = {name: Faults(self.root, name, library) for name in ("gateway", "keyd", "postgres")}
        self.process = self.keyd = None
        self.is_stopping = False

    def path(self, name):
        return os.path.join(self.root, name)

    @property
    def ca_file(self):
        return self.path("server.pem")

    @property
    def admin(self):
        with open(self.path("admin.json"), encoding="utf-8") as file:
            admin = json.load(file)
        return admin["username"], admin["password"]

    def run(self, *words, name=None, **more):
        """`name`: below that process's faults; else as anybody runs it."""
        environment = self.faults[name].environment() if name else None
        subprocess.run(words, check=True, stdout=self.log, stderr=self.log, env=environment, timeout=120, **more)

    # --- starting ------------------------------------------------------------------------------------------------
    def start(self, wait=True):
        self.run(SOURCE + "/tests/support/postgres.sh", "start", self.path("postgres"), "/bin/true", str(os.getpid()),
                 name="postgres")
        with open(self.path("postgres/socket"), encoding="ascii") as file:
            self.socket = file.read().strip()
        self.start_keyd(first=True)
        self.make_files()
        sijild = [program("sijild"), "--config", self.path("sijild.conf")]
        self.run(*sijild, "--migrate")
        self.run(*sijild, "--found", self.path("admin.json"), "--approver", self.path("approver.pub.pem"), "--policy-set",
                 self.path("set.dsse"))
        self.process = subprocess.Popen(sijild, stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL,
                                        env=self.faults["gateway"].environment())
        self.wait_ready()
        return self

    def start_keyd(self, first=False):
        if first:
            os.mkdir(self.path("keyd"), 0o700)
            with open(self.path("passphrase"), "w", encoding="ascii", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
                file.write("a long passphrase\n")
        words = [program("sijil-keyd"), "--directory", self.path("keyd"), "--passphrase-file", self.path("passphrase")]
        if first:
            self.run(*words, "--init", "--origin", "registry.example/audit")
        self.keyd = subprocess.Popen([*words, "--socket", self.path("socket")], stdout=self.log, stderr=self.log,
                                     env=self.faults["keyd"].environment())
        if first:
            threading.Thread(target=self.keep_keyd, daemon=True).start()
            while not os.path.exists(self.path("socket")):
                time.sleep(0.05)

    def keep_keyd(self):
        """Restart=always, RestartSec=500ms."""
        while not self.is_stopping:
            self.keyd.wait()
            time.sleep(0.5)
            if not self.is_stopping:
                self.start_keyd()

    def make_files(self):
        self.run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30",
                 "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", self.path("server.key"), "-out",
                 self.path("server.pem"))
        self.run("openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", self.path("approver.pem"))
        self.run("openssl", "ec", "-in", self.path("approver.pem"), "-pubout", "-out", self.path("approver.pub.pem"))
        with open(self.path("set.json"), "w", encoding="utf-8") as file:
            json.dump(POLICY_SET, file)
        self.run(program("sijil"), "policy", "sign", "--key", self.path("approver.pem"), "--epoch", "1", "--output",
                 self.path("set.dsse"), self.path("set.json"))
        database = f"host={self.socket} dbname=sijil_template user="
        given = {"listen_port": self.port, "public_url": f"https://127.0.0.1:{self.port}", "tls_certificate": self.ca_file,
                 "tls_key": self.path("server.key"), "database": database + "sijil_app",
                 "database_owner": database + "sijil_owner", "keyd_socket": self.path("socket"),
                 "metadata_region": "local/main", **self.settings}
        lines = [f"{name} = {value}" if isinstance(value, int) else f'{name} = "{value}"' for name, value in given.items()]
        location = self.path("regions/main")
        os.makedirs(location)
        lines.append(f'region "local/main" {{\n driver = "fs"\n location = "{location}"\n}}\n')
        with open(self.path("sijild.conf"), "w", encoding="utf-8") as file:
            file.write("\n".join(lines))

    # --- what is done to it ----------------------------------------------------------------------------------------
    def postgres_processes(self):
        with open(self.path("postgres/pid"), encoding="ascii") as file:
            postmaster = int(file.read())
        return [postmaster, *sijil_test.children_of(postmaster)]

    def run_postgres(self, action):
        self.run(SOURCE + "/tests/support/postgres.sh", action, self.path("postgres"), name="postgres")
        data = self.path("postgres/data")
        if action == "restart":
            with open(data + "/postmaster.pid", encoding="ascii") as pid, open(self.path("postgres/pid"), "w", encoding="ascii") as file:
                file.write(pid.readline())

    def calm(self):
        for faults in self.faults.values():
            faults.set()

    def stop(self, sig=signal.SIGTERM):
        self.is_stopping = True
        code = super().stop(sig)
        if self.keyd is not None:
            self.keyd.terminate()
            self.keyd.wait(30)
        subprocess.run([SOURCE + "/tests/support/postgres.sh", "stop", self.path("postgres")], check=False, timeout=60,
                       stdout=self.log, stderr=self.log)
        return code
