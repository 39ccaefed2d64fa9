"""A gateway, sijil-keyd and PostgreSQL as in docs/production.md, each stopped, started and set back by itself."""
import hashlib
import json
import os
import shutil
import signal
import subprocess
import time

import sijil_test
from peers import POSTGRES, Manager, Peers
from signing_keys import Key, sign
from sijil_test import program, wait_until
from workers import BROKEN


def call(*words, code=0, **more):
    """What a program says, on both streams."""
    done = subprocess.run(words, capture_output=True, text=True, timeout=180, check=False, **more)
    assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
    return done.stdout + done.stderr


def enrol(server, person, officer, purpose, key=None):
    """A key of the person, which the root signs, and which another person brings into force."""
    me = server.client(person).api("GET", "/self")
    key = key or Key("ext:" + hashlib.sha256(f"{me['issuer']}\n{me['name']}".encode()).hexdigest(), purpose)
    document = key.document()
    envelope = sign(document, key.path)

    def post(login, path, body):
        return server.client(login).call("POST", "/api/v1/keys/signing" + path, json.dumps(body), {"Content-Type": "application/json"}, scope="registry:admin:*")
    answer = post(person, "", envelope)
    assert answer.status == 201, answer.body
    answer = post(officer, f"/{key.name}/approval", {"envelopes": [envelope, sign(document, server.path("approver.pem"))]})
    assert answer.status == 201 and answer.json["state"] == "in force", answer.body
    return key


class Apart(Peers, sijil_test.Server):
    """A gateway, sijil-keyd and PostgreSQL, each stopped, started and set back by itself."""

    def __init__(self):
        Peers.__init__(self)
        os.chmod(self.root, 0o755)
        self.folder, self.process, self.keyd, self.has_postgres = self.root, None, None, True
        self.manager = Manager(self.path("manager"))

    def prepare(self):
        self.start_postgres()
        self.make_ring()
        self.start_keyd()
        self.make_keys()
        self.configure(reader_threads=4, mover_threads=2)
        self.found()
        self.start_gateway()
        self.wait_ready()
        return self

    def start_keyd(self, *more):
        self.keyd = subprocess.Popen([program("sijil-keyd"), *self.keyd_words(), "--socket", self.path("socket"), *more], stdout=self.log, stderr=self.log,
                                     env=self.manager.environment())
        wait_until(lambda: self.manager.was_told(self.keyd.pid, "READY=1"), 60, "sijil-keyd is not ready")

    def stop_keyd(self):
        if self.keyd is not None:
            self.keyd.terminate()
            assert self.keyd.wait(30) == 0
        self.keyd = None

    def start_gateway(self):
        self.process = subprocess.Popen([program("sijild"), "--config", self.path("sijild.conf")], stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL)

    def stop_gateway(self, sig=signal.SIGTERM):
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(sig)
            self.process.wait(60)
        self.process = None

    def postgres_does(self, action):
        if self.has_postgres == (action == "restart"):
            return
        self.run(POSTGRES, action, self.path("postgres"), timeout=240)
        self.has_postgres = action == "restart"
        if self.has_postgres:
            with open(self.data() + "/postmaster.pid", encoding="ascii") as pid, open(self.path("postgres/pid"), "w", encoding="ascii") as file:
                file.write(pid.readline())
            self.psql.close()

    def data(self):
        with open(self.path("postgres/data_at"), encoding="utf-8") as file:
            return file.read().strip()

    def rest(self):
        self.stop_gateway()
        self.stop_keyd()
        self.postgres_does("crash")

    def keep(self, name):
        """A copy of both, while nothing runs."""
        subprocess.run(["cp", "-a", self.data(), self.path("data." + name)], check=True)
        subprocess.run(["cp", "-a", self.path("keyd"), self.path("keyd." + name)], check=True)

    def put_database(self, name):
        """Where PostgreSQL is stopped."""
        shutil.rmtree(self.data())
        subprocess.run(["cp", "-a", self.path("data." + name), self.data()], check=True)
        self.postgres_does("restart")

    def put_keyd(self, name, settings=()):
        """Where sijil-keyd is stopped."""
        shutil.rmtree(self.path("keyd"))
        subprocess.run(["cp", "-a", self.path("keyd." + name), self.path("keyd")], check=True)
        self.start_keyd(*settings)

    def sql(self, text):
        return self.psql.ask(text)

    def said_since(self, mark):
        with open(self.path("log"), "rb") as file:
            file.seek(mark)
            return file.read().decode(errors="replace")

    def mark(self):
        return os.path.getsize(self.path("log"))

    def stop(self, sig=signal.SIGTERM):
        self.stop_gateway(sig)
        self.stop_keyd()
        self.stop_postgres()
        return 0

    # --- a recovery --------------------------------------------------------------------------------------------------
    def sijild(self, *words, code=0):
        return call(program("sijild"), "--config", self.path("sijild.conf"), *words, code=code)

    def sign_plan(self, name, *keys):
        """The signatures in one file, as sijild --recover reads them."""
        texts = [call(program("sijil"), "admin", "recover", "sign", "--key", key, self.path(name)) for key in keys]
        with open(self.path(name + ".signed"), "w", encoding="utf-8") as file:
            file.write("".join(texts))
        return self.path(name + ".signed")

    def recover(self, signed, code=0):
        return self.sijild("--recover", signed, "--database-owner", self.path("owner"), code=code)

    # --- what tests ask ----------------------------------------------------------------------------------------------
    def serves(self, seconds=60):
        """Whether the gateway comes up; False: it has ended, or says that it does not serve."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if self.process.poll() is not None:
                return False
            try:
                if self.client().call("GET", "/readyz").status == 200:
                    return True
            except BROKEN:
                pass
            time.sleep(0.05)
        raise AssertionError("it neither serves nor ends")

    def grow(self, count=1):
        for number in range(count):
            self.client(self.admin).api("POST", "/organisations", {"name": f"o{time.monotonic_ns()}-{number}"})

    def signed_size(self):
        return int(self.sql("SELECT coalesce(max(size), 0) FROM audit_checkpoint"))

    def log_size(self):
        return int(self.sql("SELECT size FROM audit_log"))

    def await_signed(self):
        wait_until(lambda: self.signed_size() == self.log_size(), 20, "the log is not signed")
        return self.signed_size()
