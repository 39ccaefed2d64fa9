#!/usr/bin/env python3
"""A PostgreSQL with a standby by streaming replication (docs/database.md): the primary is killed under load, then frozen under load, and the standby is promoted. Nothing that
was acknowledged is lost, and a server that no standby follows says so."""
import json
import os
import pwd
import shutil
import subprocess
import threading
import time

from apart import Apart
from psql import Psql
from sijil_test import Client, make_robot, program, run, wait_until, working_in
from workers import BROKEN

Client.keeps = False  # a kill may also hit a connection that is being made

THREADS = 6
SECONDS = 2


class Pair(Apart):
    """Two clusters, each with a folder of its own for its socket. The one that `main` names was a primary last."""

    def __init__(self):
        super().__init__()
        self.standby, self.sockets, self.folders = None, {}, {}

    def as_server(self, *words, check=True, **more):
        user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
        return subprocess.run([*user, *words], check=check, cwd="/", stdout=self.log, stderr=self.log, timeout=120, **more)

    def binary(self, name):
        return f"/usr/lib/postgresql/15/bin/{name}"

    def settings(self, name, **values):
        with open(self.folders[name] + "/postgresql.auto.conf", "a", encoding="utf-8") as file:
            file.writelines(f"{key} = '{value}'\n" for key, value in values.items())

    def adopt(self):
        """The cluster of the fixture is the first one."""
        self.folders["one"], self.sockets["one"] = self.data(), self.database_at

    def make_standby(self, name, of):
        """A standby of `of`, that its commits wait for."""
        folder, socket = self.path("cluster." + name), self.path("socket." + name)
        for path in (folder, socket):
            shutil.rmtree(path, ignore_errors=True)
            os.mkdir(path, 0o700)
            if os.geteuid() == 0:
                user = pwd.getpwnam("postgres")
                os.chown(path, user.pw_uid, user.pw_gid)
        os.rmdir(folder)
        os.chmod(self.root, 0o777)
        self.as_server(self.binary("pg_basebackup"), "-D", folder, "-R", "-X", "stream", "-c", "fast", "-d", f"host={self.sockets[of]} user=postgres application_name={name}")
        self.folders[name], self.sockets[name] = folder, socket
        with open(folder + "/postgresql.auto.conf", encoding="utf-8") as file:
            kept = [line for line in file if not line.startswith(("synchronous_standby_names", "unix_socket_directories"))]
        with open(folder + "/postgresql.auto.conf", "w", encoding="utf-8") as file:
            file.writelines(kept)
        self.settings(name, unix_socket_directories=socket)
        self.start_cluster(name)
        self.settings(of, synchronous_standby_names=name)
        self.ask(of, "SELECT pg_reload_conf()")
        wait_until(lambda: self.ask(of, f"SELECT sync_state FROM pg_stat_replication WHERE application_name = '{name}'") == "sync", 30, "the standby does not follow")

    def start_cluster(self, name):
        self.as_server(self.binary("pg_ctl"), "start", "-D", self.folders[name], "-l", self.folders[name] + "/server.log", "-w")

    def ask(self, name, text):
        psql = Psql(self.sockets[name], "sijil_template")
        try:
            return psql.ask(text)
        finally:
            psql.close()

    def signal_cluster(self, name, sig):
        for process in working_in(os.path.realpath(self.folders[name])):
            try:
                os.kill(process, sig)
            except ProcessLookupError:
                pass

    def promote(self, name):
        self.as_server(self.binary("pg_ctl"), "promote", "-D", self.folders[name], "-w")

    def stop(self, sig=15):
        code = super().stop(sig)
        for name, folder in self.folders.items():
            if name != "one" and working_in(os.path.realpath(folder)):
                self.signal_cluster(name, 18)
                self.as_server(self.binary("pg_ctl"), "stop", "-D", folder, "-m", "immediate", check=False)
        return code


server = Pair()
state = {}


class Load(threading.Thread):
    """Does what is recorded, and keeps what was acknowledged: number of the event, and the request's id."""

    def __init__(self, number):
        super().__init__(daemon=True)
        self.number, self.acknowledged, self.failed, self.is_stopping = number, {}, 0, False

    def run(self):
        client, count = Client(server, state["login"]), 0
        while not self.is_stopping:
            try:
                count += 1
                if count % 4 == 0:
                    made = client.call("POST", "/api/v1/organisations", json.dumps({"name": f"o{self.number}-{time.monotonic_ns()}"}), {"Content-Type": "application/json"},
                                       scope="registry:admin:*")
                else:
                    made = client.call("GET", "/api/v1/bindings", scope="registry:admin:*")
                if made.status in (200, 201):
                    self.acknowledged[int(made["Sijil-Audit"].rsplit("/", 1)[1])] = made["X-Request-Id"]
                else:
                    self.failed += 1
            except (*BROKEN, AssertionError):
                self.failed += 1
                client = Client(server, state["login"])
                time.sleep(0.05)


def loaded(act):
    """Runs `act` in the middle of load. The load goes on until requests are acknowledged again."""
    loads = [Load(number) for number in range(THREADS)]
    for load in loads:
        load.start()
    time.sleep(SECONDS)
    act()
    before = {load: len(load.acknowledged) for load in loads}
    wait_until(lambda: sum(len(load.acknowledged) - before[load] for load in loads) > 10 * THREADS, 90, "nothing is acknowledged after the promotion")
    for load in loads:
        load.is_stopping = True
    for load in loads:
        load.join(60)
        assert not load.is_alive()
    found = {}
    for load in loads:
        assert not set(found) & set(load.acknowledged), "a number was acknowledged twice"
        found.update(load.acknowledged)
    assert len(found) > 100, len(found)
    return found


def everything_is_there(name, acknowledged):
    rows = server.ask(name, "SELECT seq, convert_from(leaf, 'UTF8')::json ->> 'req' FROM audit_entry").split("\n")
    stored = {int(row.split("|")[0]): row.split("|")[1] for row in rows}
    lost = {number: request for number, request in acknowledged.items() if stored.get(number) != request}
    assert not lost, f"{len(lost)} of {len(acknowledged)} acknowledged events are lost: {sorted(lost)[:5]}"
    assert sorted(stored) == list(range(len(stored))), "the log has a gap"


def configure(*names, **more):
    """Names the servers in sijild.conf, the given ones first."""
    hosts = ",".join(server.sockets[name] for name in names)
    with open(server.path("sijild.conf"), encoding="utf-8") as file:
        lines = [line for line in file if not line.startswith("database = ")]
    words = "".join(f" {key}={value}" for key, value in more.items())
    with open(server.path("sijild.conf"), "w", encoding="utf-8") as file:
        file.writelines([f'database = "host={hosts} dbname=sijil_template user=sijil_app target_session_attrs=read-write{words}"\n', *lines])


def check_config():
    return subprocess.run([program("sijild"), "--config", server.path("sijild.conf"), "--check-config", "--online"], capture_output=True, text=True, timeout=60, check=False)


def a_registry_has_a_standby():
    server.prepare()
    server.adopt()
    state["login"] = make_robot(server, "loader", "registry-admin", "")
    server.stop_gateway()
    server.sockets["two"] = server.path("socket.two")
    configure("one", "two")
    done = check_config()  # nobody follows yet
    assert done.returncode != 0 and "waits for no standby" in done.stderr, done
    server.make_standby("two", "one")
    done = check_config()
    assert done.returncode == 0, done
    server.settings("one", synchronous_commit="remote_write")
    server.ask("one", "SELECT pg_reload_conf()")
    wait_until(lambda: "synchronous_commit is remote_write" in check_config().stderr, 20, "a standby that may lack events is no problem")
    mark = server.mark()
    server.start_gateway()
    assert not server.serves() and "synchronous_commit is remote_write" in server.said_since(mark)
    server.settings("one", synchronous_commit="on")
    server.ask("one", "SELECT pg_reload_conf()")
    wait_until(lambda: check_config().returncode == 0, 20, "the setting is not read again")
    server.start_gateway()
    assert server.serves()


def a_standby_that_is_away_confirms_nothing():
    """The primary serves, and its standby is frozen. A commit that waits longer than a connection may is on the primary alone: it is neither acknowledged nor signed."""
    loads = [Load(100 + number) for number in range(THREADS)]
    for load in loads:
        load.start()
    wait_until(lambda: all(load.acknowledged for load in loads), 30, "nothing is acknowledged")
    server.signal_cluster("two", 19)
    time.sleep(0.5)  # what it has confirmed already is acknowledged now
    before = server.log_size()
    wait_until(lambda: server.log_size() > before, 40, "no broken commit is seen")  # a backend was ended
    time.sleep(4)
    acknowledged = [number for load in loads for number in list(load.acknowledged) if number >= before]
    assert not acknowledged, (before, acknowledged)
    assert int(server.ask("one", "SELECT max(size) FROM audit_checkpoint")) <= before
    assert int(server.ask("one", "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")) < 20  # none is left behind by each attempt
    server.signal_cluster("two", 18)
    wait_until(lambda: sum(number >= before for load in loads for number in list(load.acknowledged)) > 10, 60, "nothing is acknowledged after the standby came back")
    for load in loads:
        load.is_stopping = True
    for load in loads:
        load.join(60)
        assert not load.is_alive()
    everything_is_there("one", {number: request for load in loads for number, request in load.acknowledged.items()})


def a_killed_primary_loses_nothing():
    def fail_over():
        server.signal_cluster("one", 9)
        server.promote("two")
    acknowledged = loaded(fail_over)
    everything_is_there("two", acknowledged)
    assert server.is_ready()


def a_frozen_primary_loses_nothing():
    """It does not answer, and refuses nothing: whoever waits for it waits in vain. A thawed one confirms nothing any more."""
    shutil.rmtree(server.folders["one"])
    del server.folders["one"]
    server.make_standby("three", "two")
    server.stop_gateway()
    configure("two", "three")
    server.start_gateway()
    assert server.serves()

    def fail_over():
        server.signal_cluster("two", 19)
        server.promote("three")
    acknowledged = loaded(fail_over)
    everything_is_there("three", acknowledged)
    server.stop_gateway()
    mark = server.mark()
    server.start_gateway()  # the first host is frozen still
    assert server.serves()
    assert "a standby may lack events" in server.said_since(mark)
    server.signal_cluster("two", 18)
    server.as_server(server.binary("pg_ctl"), "stop", "-D", server.folders["two"], "-m", "immediate")
    server.grow(3)
    assert server.is_ready()


def an_old_primary_that_comes_back_is_found():
    server.stop_gateway()
    server.start_cluster("two")
    server.ask("two", "ALTER SYSTEM SET synchronous_standby_names = ''")
    server.ask("two", "SELECT pg_reload_conf()")
    mark = server.mark()
    server.start_gateway()
    assert not server.serves()
    assert "it was truncated, or restored from an older backup" in server.said_since(mark), server.said_since(mark)[-2000:]
    server.as_server(server.binary("pg_ctl"), "stop", "-D", server.folders["two"], "-m", "immediate")
    server.start_gateway()
    assert server.serves()


run(a_registry_has_a_standby, a_standby_that_is_away_confirms_nothing, a_killed_primary_loses_nothing, a_frozen_primary_loses_nothing, an_old_primary_that_comes_back_is_found, server=server)
