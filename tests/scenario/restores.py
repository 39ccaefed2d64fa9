#!/usr/bin/env python3
"""Database and folder of sijil-keyd come back in all combinations of now, an older copy, a truncated log and another history: at a start, and
while a gateway serves (the table of docs/backup.md). What can't be found without witnesses is here, too: cosigning.py has it with them."""
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time

import sijil_test
from peers import POSTGRES, Manager, Peers
from sijil_test import program, run, wait_until
from workers import BROKEN

TRUNCATED, OTHER_HISTORY, NOT_SIGNED = "it was truncated, or restored from an older backup", "are not those that sijil-keyd has signed", "found the log changed"
PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/backup.md")


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


server = Apart()
sizes = {}


def grow(count=1):
    for number in range(count):
        name = f"o{time.monotonic_ns()}-{number}"
        server.client(server.admin).api("POST", "/organisations", {"name": name})


def serves(seconds=60):
    """Whether the gateway comes up; False: it has ended, or says that it does not serve."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if server.process.poll() is not None:
            return False
        try:
            if server.client().call("GET", "/readyz").status == 200:
                return True
        except BROKEN:
            pass
        time.sleep(0.05)
    raise AssertionError("it neither serves nor ends")


def signed_size():
    return int(server.sql("SELECT max(size) FROM audit_checkpoint"))


def keep(name):
    wait_until(lambda: signed_size() == int(server.sql("SELECT size FROM audit_log")), 20, "the log is not signed")
    sizes[name] = signed_size()
    server.rest()
    server.keep(name)


def again(database, keyd):
    """A start with these copies of both."""
    server.rest()
    server.put_database(database)
    server.put_keyd(keyd)
    server.start_gateway()


def cut_last(cut):
    """What the owner of the database does who wants to lose the events from `cut` on: all rows fit each other afterwards."""
    rows = server.sql(f"SELECT encode(leaf_hash, 'hex') FROM audit_entry WHERE seq < {cut} ORDER BY seq").split("\n")
    hashes, frontier, at = [bytes.fromhex(row) for row in rows], [], 0
    assert len(hashes) == cut
    for bit in reversed(range(cut.bit_length())):
        if cut >> bit & 1:
            frontier.insert(0, tree(hashes[at:at + (1 << bit)]))
            at += 1 << bit
    server.sql(f"DELETE FROM audit_entry WHERE seq >= {cut}; DELETE FROM audit_payload WHERE seq >= {cut}; DELETE FROM audit_run WHERE last >= {cut};"
               f"DELETE FROM audit_checkpoint WHERE size > {cut}; DELETE FROM audit_tile WHERE (idx + 1) * (256::bigint << (8 * level)) > {cut};"
               f"UPDATE audit_log SET size = {cut}, last_ts = (SELECT ts FROM audit_entry WHERE seq = {cut - 1}), frontier = '\\x{b''.join(frontier).hex()}'")


def tree(hashes):
    while len(hashes) > 1:
        hashes = [hashlib.sha256(b"\1" + hashes[i] + hashes[i + 1]).digest() for i in range(0, len(hashes), 2)]
    return hashes[0]


def copies_are_made():
    """older: a backup. now: what was signed last. other: another history since the backup, longer than now. truncated: now without its last two events."""
    server.prepare()
    grow(3)
    keep("older")
    again("older", "older")
    assert serves()
    grow(3)
    keep("now")
    again("older", "older")
    assert serves()
    grow(9)
    keep("other")
    assert sizes["older"] < sizes["now"] < sizes["other"], sizes
    server.put_database("now")
    sizes["truncated"] = sizes["now"] - 2
    cut_last(sizes["truncated"])
    server.sql("CHECKPOINT")
    server.postgres_does("crash")
    server.keep("truncated")


# What a start says: None if it serves.
AT_START = {
    ("now", "now"): None,
    ("older", "now"): TRUNCATED,
    ("truncated", "now"): TRUNCATED,
    ("other", "now"): OTHER_HISTORY,
    ("now", "older"): None,         # the later events are signed, too
    ("older", "older"): None,       # without witnesses nobody knows more
    ("truncated", "older"): None,   # the same
    ("other", "older"): None,       # the same: another history is signed
    ("now", "other"): TRUNCATED,    # the other history is longer
    ("older", "other"): TRUNCATED,
    ("truncated", "other"): TRUNCATED,
    ("other", "other"): None,
}


def every_combination_is_found_at_the_start():
    for (database, keyd), wanted in AT_START.items():
        mark = server.mark()
        again(database, keyd)
        assert serves() == (wanted is None), (database, keyd, server.said_since(mark)[-3000:])
        said = server.said_since(mark)
        if wanted is not None:
            assert wanted in said and "docs/backup.md" in said, (database, keyd, said[-3000:])


def check_online(database, keyd, wanted):
    server.rest()
    server.put_database(database)
    server.put_keyd(keyd)
    done = subprocess.run([program("sijild"), "--config", server.path("sijild.conf"), "--check-config", "--online"], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode == 0) == (wanted is None), (database, keyd, done)
    assert wanted is None or wanted in done.stdout + done.stderr, (database, keyd, done)


def the_check_before_a_start_says_it_too():
    check_online("now", "now", None)
    check_online("older", "now", TRUNCATED)


def is_refused(wanted):
    """A gateway that serves finds it: each request is refused, without an hour to come again, and the reason is told."""
    def reason():
        try:
            answer = server.client().call("GET", "/readyz")
        except BROKEN:
            return ""
        return answer.body.decode() if answer.status == 503 else ""
    wait_until(lambda: any(words in reason() for words in wanted), 30, f"it is not found while serving: {reason()}")
    answer = server.client().call("GET", "/v2/")
    assert answer.status == 503 and answer["Retry-After"] is None and b"not the one that was signed" in answer.body, (answer.status, answer.body)


def swap_database(name):
    server.postgres_does("crash")
    shutil.rmtree(server.path("data.latest"), ignore_errors=True)
    subprocess.run(["cp", "-a", server.data(), server.path("data.latest")], check=True)
    server.put_database(name)


def swap_keyd(name):
    server.stop_keyd()
    server.put_keyd(name)


def the_finding_stays_until_a_person_ends_it():
    """The right database comes back: keyd remembers what was found, also over its restart."""
    mark = server.mark()
    server.rest()
    server.put_database("latest")
    server.start_keyd()
    server.start_gateway()
    assert not serves()
    assert NOT_SIGNED in server.said_since(mark) and "docs/audit.md" in server.said_since(mark)
    server.stop_keyd()
    done = subprocess.run([program("sijil-keyd"), *server.keyd_words(), "--log-restored"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0 and TRUNCATED in done.stdout + done.stderr, done
    server.start_keyd()
    server.start_gateway()
    assert serves()


def a_database_that_is_exchanged_while_a_gateway_serves_is_found():
    for name, wanted in (("older", [TRUNCATED]), ("truncated", [TRUNCATED]), ("other", ["does not continue", "was changed", "is not as it was signed"])):
        again("now", "now")
        assert serves()
        swap_database(name)
        is_refused(wanted)
        if name == "older":
            the_finding_stays_until_a_person_ends_it()


def a_folder_of_keyd_that_is_exchanged_while_a_gateway_serves_is_found():
    again("now", "now")
    assert serves()
    swap_keyd("older")  # it goes on: sijil-keyd signs what came since
    wait_until(lambda: server.is_ready(), 30, "it does not go on with an older folder of sijil-keyd")
    grow()
    again("now", "now")
    assert serves()
    swap_keyd("other")
    is_refused([TRUNCATED])


def both_that_are_exchanged_while_a_gateway_serves_are_found():
    """The gateway remembers what it has had signed."""
    for name, wanted in (("older", [TRUNCATED]), ("other", ["does not continue", "was changed", "is not as it was signed"])):
        again("now", "now")
        assert serves()
        server.postgres_does("crash")
        server.stop_keyd()
        server.put_keyd(name)
        server.put_database(name)
        is_refused(wanted)


def the_page_has_what_is_said():
    with open(PAGE, encoding="utf-8") as file:
        page = " ".join(file.read().split())
    for words in (TRUNCATED, "are not those that sijil-keyd has signed", NOT_SIGNED, "does not continue", "were set back together"):
        assert words in page, words


run(copies_are_made, every_combination_is_found_at_the_start, the_check_before_a_start_says_it_too, a_database_that_is_exchanged_while_a_gateway_serves_is_found,
    a_folder_of_keyd_that_is_exchanged_while_a_gateway_serves_is_found, both_that_are_exchanged_while_a_gateway_serves_are_found, the_page_has_what_is_said, server=server)
