"""The set-up of docs/production.md: PostgreSQL, sijil-keyd and sijild as three peers in one folder; none starts another.
The caller decides which programs run, and which faults they get."""
import json
import os
import socket
import struct
import subprocess
import tempfile

import sijil_test
from psql import Psql
from sijil_test import program

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
POSTGRES = SOURCE + "/tests/support/postgres.sh"
REGION = "local/main"


class Manager:
    """A service manager's end of sd_notify(3): which process sent which message."""

    def __init__(self, path):
        self.path, self.told = path, []
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self.socket.bind(path)
        os.chmod(path, 0o666)

    def environment(self):
        return {**os.environ, "NOTIFY_SOCKET": self.path}

    def was_told(self, process, state):
        try:
            while True:
                text, rest, _, _ = self.socket.recvmsg(4096, socket.CMSG_SPACE(12))
                self.told.append((struct.unpack("3i", rest[0][2])[0], text.decode()))
        except BlockingIOError:
            return (process, state) in self.told


class Peers:
    """The files of the three: key ring, certificate, approver, policy sets, configuration."""

    def __init__(self, prefix="sijil-"):
        self.root = tempfile.mkdtemp(prefix=prefix, dir=sijil_test.work_folder())
        self.port = sijil_test.free_port()
        self.log = open(self.path("log"), "ab")
        self.psql = None

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

    def run(self, *words, env=None, timeout=120):
        subprocess.run(words, check=True, stdout=self.log, stderr=self.log, env=env, timeout=timeout)

    def run_sijild(self, *options):
        self.run(program("sijild"), "--config", self.path("sijild.conf"), *options)

    def start_postgres(self, env=None):
        env = {**(env or os.environ), "SIJIL_TEST_CLUSTER": sijil_test.CLUSTER}
        self.run(POSTGRES, "start", self.path("postgres"), "/bin/true", str(os.getpid()), env=env)
        with open(self.path("postgres/socket"), encoding="utf-8") as file:
            self.database_at = file.read().strip()
        self.psql = Psql(self.database_at, "sijil_template")

    def keyd_words(self):
        return ["--directory", self.path("keyd"), "--passphrase-file", self.path("passphrase")]

    def make_ring(self):
        """As sijil-keyd --init does, but its passphrase costs little: each start of sijil-keyd would take a tenth of a second."""
        os.mkdir(self.path("keyd"), 0o700)
        with open(self.path("passphrase"), "w", encoding="ascii", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write("a long passphrase\n")
        self.run(os.path.join(sijil_test.BUILD, "tests/integration/ring_tool"), self.path("keyd"), "registry.example/audit",
                 self.path("passphrase"))

    def make_keys(self):
        self.run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30",
                 "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost", "-keyout", self.path("server.key"), "-out",
                 self.ca_file)
        self.run("openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", self.path("approver.pem"))
        self.run("openssl", "ec", "-in", self.path("approver.pem"), "-pubout", "-out", self.path("approver.pub.pem"))

    def policy_set(self, epoch, operations=("ingest", "mount", "read", "metadata", "log")):
        """A signed set of this epoch, as the approver makes it: at most confidential content is allowed here."""
        policy = {"apiVersion": "sijil.policy/v1", "kind": "ResidencyPolicy",
                  "metadata": {"id": "all", "version": epoch, "scope": ["**"], "effective_from": "2020-01-01T00:00:00Z",
                               "review_by": "2099-01-01"},
                  "labels": {"class": "confidential"},
                  "rules": [{"id": "PERMIT", "effect": "permit", "ops": list(operations),
                             "when": {"class_at_most": "confidential"}}]}
        return json.dumps(self.sign_set(epoch, policies=[policy])).encode()

    def sign_set(self, epoch, **parts):
        """A set of these parts with the root's signature."""
        with open(self.path("set.json"), "w", encoding="utf-8") as file:
            json.dump({"regions": {REGION: {"geo": "AE"}}, **parts}, file)
        self.run(program("sijil"), "policy", "sign", "--key", self.path("approver.pem"), "--epoch", str(epoch),
                 "--output", self.path("set.dsse"), self.path("set.json"))
        with open(self.path("set.dsse"), "rb") as file:
            return json.load(file)

    def configure(self, **settings):
        """sijild.conf; `settings` are lines of it."""
        database = f"host={self.database_at} dbname=sijil_template user="
        given = {"listen_port": self.port, "public_url": f"https://127.0.0.1:{self.port}", "tls_certificate": self.ca_file,
                 "tls_key": self.path("server.key"), "database": database + "sijil_app",
                 "keyd_socket": self.path("socket"),
                 "metadata_region": REGION, **settings}
        lines = [f"{name} = {value}" if isinstance(value, int) else f'{name} = "{value}"' for name, value in given.items()]
        location = self.path("regions/main")
        os.makedirs(location)
        lines.append(f'region "{REGION}" {{\n driver = "fs"\n location = "{location}"\n}}\n')
        with open(self.path("sijild.conf"), "w", encoding="utf-8") as file:
            file.write("\n".join(lines))
        with open(self.path("owner"), "w", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(database + "sijil_owner\n")

    def found(self):
        """Tables and first rows; sijil-keyd and PostgreSQL run."""
        self.policy_set(1)
        self.run(program("sijild"), "--migrate", "--database-owner", self.path("owner"))
        self.run_sijild("--found", self.path("admin.json"), "--approver", self.path("approver.pub.pem"), "--policy-set",
                        self.path("set.dsse"))

    def stop_postgres(self):
        if self.psql is not None:
            self.psql.close()
        subprocess.run([POSTGRES, "stop", self.path("postgres")], check=False, timeout=60, stdout=self.log, stderr=self.log)
