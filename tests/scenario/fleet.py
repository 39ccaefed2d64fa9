"""Several gateways in production mode on one database, one folder of blobs and one key process (docs/production.md)."""
import os
import shutil
import signal
import subprocess
import time

import sijil_test
from integrity import Integrity
from peers import Manager, Peers
from sijil_test import Client, program
from stores import region_text
from workers import BROKEN, PATIENCE

READERS, MOVERS = 6, 4
CONNECTIONS = READERS + MOVERS + 22  # to PostgreSQL, of one gateway: docs/production.md


class Fleet(Peers, sijil_test.Server):
    """Has the interface of one server for tests; `client(login)` uses the first gateway, `clients(login)` each of them."""

    def __init__(self, count, **settings):
        Peers.__init__(self)
        self.settings = {"reader_threads": READERS, "mover_threads": MOVERS, **settings}
        os.chmod(self.root, 0o755)
        self.folder = self.root
        self.ports = [self.port] + [sijil_test.free_port() for _ in range(count - 1)]
        self.listeners = {name: [sijil_test.free_port() for _ in range(count)] for name in settings.get("listeners", ())}  # the ports of each gateway
        if self.listeners:
            self.settings["listeners"] = " ".join(f"{name}={ports[0]}" for name, ports in self.listeners.items())
        self.gateways = [None] * count
        self.edits = {}  # number of a gateway: a function that changes its configuration
        self.keyd = None
        self.manager = Manager(self.path("manager"))

    # --- starting and stopping -------------------------------------------------------------------------------------------
    def start(self, wait=True):
        self.start_postgres()
        self.make_ring()
        self.keyd = subprocess.Popen([program("sijil-keyd"), *self.keyd_words(), "--socket", self.path("socket")],
                                     stdout=self.log, stderr=self.log, env=self.manager.environment())
        while not self.manager.was_told(self.keyd.pid, "READY=1"):
            assert self.keyd.poll() is None, "sijil-keyd has ended"
            time.sleep(0.05)
        assert os.path.exists(self.path("socket")), "sijil-keyd is not ready"
        self.make_keys()
        self.configure(**self.settings)
        self.found()
        for number in range(len(self.gateways)):
            self.start_gateway(number)
        for number in range(len(self.gateways)):
            self.wait_for_gateway(number)
        return self

    def start_gateway(self, number):
        with open(self.path("sijild.conf"), encoding="utf-8") as file:
            text = file.read()
        name = self.path(f"gateway{number}.conf")
        text = text.replace(f"listen_port = {self.port}", f'listen_port = {self.ports[number]}\ninstance = "gateway{number}"')
        text = self.edits.get(number, lambda unchanged: unchanged)(text)
        for listener, port in self.listeners.items():
            text = text.replace(f"{listener}={port[0]}", f"{listener}={port[number]}")
        with open(name, "w", encoding="utf-8") as file:
            file.write(text.replace("user=sijil_app", f"user=sijil_app application_name=gateway{number}"))
        self.gateways[number] = subprocess.Popen([program("sijild"), "--config", name], stdout=self.log, stderr=self.log,
                                                 stdin=subprocess.DEVNULL, env=self.manager.environment())

    def wait_for_gateway(self, number):
        until = time.monotonic() + PATIENCE
        while True:
            assert self.gateways[number].poll() is None, f"gateway {number} has ended with {self.gateways[number].returncode}"
            try:
                if self.manager.was_told(self.gateways[number].pid, "READY=1"):
                    assert Client(self, None, self.ports[number]).call("GET", "/healthz").status == 200
                if Client(self, None, self.ports[number]).call("GET", "/readyz").status == 200:
                    sijil_test.wait_until(lambda: self.manager.was_told(self.gateways[number].pid, "READY=1"), 10, "nobody is told that it is ready")
                    return
            except BROKEN:
                pass
            assert time.monotonic() < until, f"gateway {number} is not ready"
            time.sleep(0.1)

    def clients(self, login):
        return [Client(self, login, port) for port in self.ports]

    def kill(self, number):
        """Stops the gateway, which must not have ended by itself before."""
        assert self.gateways[number].poll() is None, f"gateway {number} has ended by itself"
        self.gateways[number].kill()
        self.gateways[number].wait()
        self.gateways[number] = None

    def wait_settled(self, number):
        """Waits until all statements that a killed gateway had sent to the database have succeeded or failed."""
        until = time.monotonic() + PATIENCE
        while Judge.sql_at(self, f"SELECT count(*) FROM pg_stat_activity WHERE application_name = 'gateway{number}'") != "0":
            assert time.monotonic() < until, f"the database still works for gateway {number}, which was killed"
            time.sleep(0.02)

    def wait_known(self, login, repository, seconds=PATIENCE):
        """Waits until each gateway knows a new robot, and returns the seconds."""
        began = time.monotonic()
        for client in self.clients(login):
            while not knows(client, repository):
                assert time.monotonic() - began < seconds, f"a gateway does not know {login[0]} after {seconds} s"
                time.sleep(0.05)
        return time.monotonic() - began

    def stop_gateway(self, number):
        self.gateways[number].terminate()
        assert self.gateways[number].wait(60) == 0
        assert self.manager.was_told(self.gateways[number].pid, "STOPPING=1"), self.manager.told
        self.gateways[number] = None

    def stop(self, sig=signal.SIGTERM):
        codes = []
        for gateway in filter(None, self.gateways):
            gateway.send_signal(signal.SIGCONT)
            gateway.send_signal(sig)
        for gateway in filter(None, self.gateways):
            codes.append(gateway.wait(60))
        if self.keyd is not None:
            self.keyd.terminate()
            codes.append(self.keyd.wait(30))
            assert self.manager.was_told(self.keyd.pid, "STOPPING=1"), self.manager.told
        self.stop_postgres()
        self.gateways, self.keyd = [], None
        return max(codes, key=abs, default=0)


class BucketFleet(Fleet):
    """The region of every gateway is a bucket of one store, which lives as long as they do."""
    PREFIX, MORE = "many/", ""

    def __init__(self, count, store, **settings):
        super().__init__(count, **settings)
        self.store = store

    def start(self, wait=True):
        self.store.start()
        self.store.make_bucket()
        return super().start(wait)

    def configure(self, **settings):
        super().configure(**settings)
        with open(self.path("sijild.conf"), encoding="utf-8") as file:
            head = file.read().split('\nregion "')[0]
        with open(self.path("sijild.conf"), "w", encoding="utf-8") as file:
            file.write(head + "\n" + region_text(self.store, self.PREFIX, more=self.MORE))

    def objects(self):
        return [(key.rsplit("/", 1)[1], size) for key, size, _ in self.store.listing(self.PREFIX)]

    def finish(self, failed):
        try:
            super().finish(failed)
        finally:
            self.store.done()


class RegionFleet(BucketFleet):
    """Takes regions of the signed set without a restart: folders, buckets of the stores, and regions with a sijil-keyd of their own."""
    MORE = ' endpoint_networks = "127.0.0.0/8"\n'

    def __init__(self, count, store, others=(), **settings):
        """`others`: (name of a region, its store)."""
        super().__init__(count, store, **settings)
        self.others = others

    def start(self, wait=True):
        for _, store in self.others:
            store.start()
        return super().start(wait)

    def configure(self, **settings):
        for name in ("recorded", "keys", "region-keyd"):
            os.makedirs(self.path(name))
        shutil.copy(self.store.key_file, self.path("keys/store-b"))
        with open(self.path("stores.pem"), "w", encoding="ascii") as all_of_them:
            for name, store in (("", self.store), *self.others):
                with open(store.ca_file, encoding="ascii") as file:
                    all_of_them.write(file.read())
                if name:
                    shutil.copy(store.key_file, self.path("keys/" + name.replace("/", "-")))
        super().configure(region_folder=self.path("recorded"), region_key_folder=self.path("keys"), region_keyd_folder=self.path("region-keyd"),
                          region_networks="127.0.0.0/8", region_ca_file=self.path("stores.pem"), **settings)

    def finish(self, failed):
        try:
            super().finish(failed)
        finally:
            for _, store in self.others:
                store.done()


def knows(client, repository):
    """Whether the client may see the repository, which exists."""
    try:
        return client.repository(repository).call("HEAD", f"blobs/{sijil_test.sha256(b'nothing')}").status == 404
    except AssertionError:  # no token is given out
        return False


class Judge(Integrity):
    """The same checks for a database that is not the embedded one."""

    def postgres(self):
        return "/usr/lib/postgresql/15/bin", self.server.database_at, ""

    def database(self):
        return "sijil_template"

    @staticmethod
    def sql_at(server, text):
        return server.psql.ask(text)
