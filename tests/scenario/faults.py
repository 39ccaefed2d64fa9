#!/usr/bin/env python3
"""Faults around Sijil: disks, database, key process, clocks. Each leads to a clear refusal, and the effect ends with the fault.

usage: faults.py [CASE|servers|disks...]     all by default; SIJIL_SOAK=1 lets each fault last longer, and adds slower ones and
those that are left to it: disks whose writes fail past the page cache and whose reads fail through it, each clock both ways
Nothing is restarted but what ends by itself. The rules for each fault:
- no request takes longer than its deadlines; a refusal has a status, a code, a message, and the time for a retry;
- /healthz answers all the time; operations that do not need the faulty part go on;
- afterwards the same server does everything again, and the log has each event, or the exact count of the missing ones."""
import concurrent.futures
import contextlib
import errno
import glob
import http.client
import os
import random
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time

import sijil_test
from integrity import Integrity
from production import Production
from sijil_test import LeftOut, NoToken, Server, sha256

sijil_test.Client.keeps = False  # a fault may also hit a connection that is being made
LONG = os.environ.get("SIJIL_SOAK") == "1"
BROKEN = (OSError, http.client.HTTPException, ssl.SSLError)
DEADLINE = 25      # seconds: waiting for a worker, for the log and for a row, 10 each at most, never all three in full
RECOVERED = 20 if LONG else 60  # seconds after a fault until everything works; a slow machine beside other tests takes longer
SERVED = 60        # seconds in which some request must be served, although a peer is slow
REPOSITORY = "main/models/faults"
SHORT_BLOB = 100_000
LONG_BLOB = 6 << 20
CACHED_MAX = 1 << 20  # a long blob uses direct I/O (O_DIRECT), a short one the page cache
SEEN = {}          # (case, operation) -> statuses, for the table at the end

stack = Production(rate_window=5, header_timeout=5, page_cache_blob_max=CACHED_MAX)


class Bench:
    """A server, an auditor of its log, and all operations of clients, which run at the same time."""

    def __init__(self, server):
        self.server = server
        self.login = sijil_test.make_robot(server, "faults", "publisher", "main/models")
        self.auditor = sijil_test.make_robot(server, "auditor", "auditor", "")
        self.place = server.client(self.login).repository(REPOSITORY)
        self.data = os.urandom(200_000)
        self.digest = self.place.push_blob(self.data)
        self.manifest = self.place.manifest(self.data)
        assert self.place.put_manifest("one", self.manifest).status == 201
        self.place.client.token(self.place.scope)
        self.size, self.way = SHORT_BLOB, ""
        self.unread, self.kept = [], []  # digests of acknowledged long blobs: the ones that were never pulled, and all of them
        self.begun = []  # uploads

    def push(self):
        fresh = os.urandom(self.size)
        answer = self.place.call("POST", f"blobs/uploads/?digest={sha256(fresh)}", fresh, {"Content-Type": "application/octet-stream"})
        if answer.status == 201 and self.size == LONG_BLOB:
            self.unread.append(sha256(fresh))
            self.kept.append(sha256(fresh))
        return answer

    def begin(self):
        answer = self.place.call("POST", "blobs/uploads/")
        if answer.status == 202:
            self.begun.append(answer["Location"])
        return answer

    def cancel(self):
        """Otherwise this token would have too many open uploads. Uploads of an earlier token are not its own."""
        while self.begun:
            answer = self.place.call("DELETE", self.begun.pop())
            assert answer.status in (204, 404), (answer.status, answer.body)

    def pull(self):
        """Pulls a blob, for the first time if there is one that was never pulled."""
        digest = self.unread.pop() if self.unread else self.digest
        answer = self.place.call("GET", f"blobs/{digest}")
        assert answer.status != 200 or sha256(answer.body) == digest, f"{digest} was answered with other bytes"
        return answer

    def note(self, case, name, status, seconds):
        SEEN.setdefault((case + self.way, name), []).append((status, seconds))

    def operations(self):
        place, client = self.place, self.server.client()
        manifest = {"Content-Type": "application/vnd.oci.image.manifest.v1+json"}
        basic = self.server.client(self.login)
        return {
            "healthz": lambda: client.call("GET", "/healthz"),
            "readyz": lambda: client.call("GET", "/readyz"),
            "token": lambda: basic.ask_for_token(place.scope),
            "pull a manifest": lambda: place.call("GET", "manifests/one"),
            "pull a blob": self.pull,
            "push a blob": self.push,
            "begin an upload": self.begin,
            "push a manifest": lambda: place.call("PUT", f"manifests/m{random.randrange(1 << 30)}", self.manifest, manifest),
            "list tags": lambda: place.call("GET", "tags/list"),
        }

    def round(self, case):
        """Runs each operation once, all at the same time. Every answer is correct or a clear refusal, and in time."""
        answers = {}
        operations = self.operations()
        with concurrent.futures.ThreadPoolExecutor(len(operations)) as pool:
            futures = {name: pool.submit(timed, call) for name, call in operations.items()}
            for name, future in futures.items():
                answer, seconds = future.result()
                assert seconds < DEADLINE, f"{case}: {name} took {seconds:.0f} s"
                self.note(case, name, answer.status, seconds)
                check_answer(case, name, answer)
                answers[name] = answer.status
        if answers.get("pull a blob") == 200:
            assert self.place.call("GET", "manifests/one").status in (200, 503)
        return answers

    def rounds(self, case, seconds, awaited=None):
        """Repeats rounds for that time, and until one round has served all operations of `awaited`."""
        began, seen = time.monotonic(), []
        while (passed := time.monotonic() - began) < seconds or (awaited and not served(seen, *awaited) and passed < SERVED):
            seen.append(self.round(case))
            time.sleep(0.5 if LONG else 1)
        return seen

    def recovers(self, case, seconds=RECOVERED):
        """Everything works again, and stays so."""
        until, good = time.monotonic() + seconds, 0
        while good < 2:
            answers = self.round(case + ", afterwards")
            good = good + 1 if all(status < 300 for status in answers.values()) else 0
            assert good or time.monotonic() < until, f"{case}: still {answers} after {seconds} s"
            time.sleep(0.2)
        assert self.server.process.poll() is None, "sijild has ended"
        self.cancel()


def timed(call):
    """The answer to the call, or to the request for its token, and the seconds."""
    began = time.monotonic()
    try:
        answer = call()
    except NoToken as refused:
        answer = refused.answer
    return answer, time.monotonic() - began


def check_answer(case, name, answer):
    where = f"{case}: {name}: {answer.status} {answer.body[:300]}"
    if name == "healthz":
        assert answer.status == 200, where
    if answer.status < 300:
        return
    assert answer.status in (503, 507, 429), where
    if name == "readyz":
        assert len(answer.body) > 10, f"{where}: it does not say what is missing"
        return
    assert answer.status == 507 or answer["Retry-After"], f"{where}: it does not say when to come back"
    assert b"try again" in answer.body, f"{where}: it does not say what to do"


@contextlib.contextmanager
def stopped(processes):
    """Stops the processes with SIGSTOP: they exist, and do nothing."""
    for process in processes:
        os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in reversed(processes):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGCONT)


@contextlib.contextmanager
def slowed(processes, run_ms, stop_ms):
    """A duty cycle of SIGCONT and SIGSTOP makes the processes as slow as on an overloaded machine."""
    ends = threading.Event()

    def work():
        while not ends.is_set():
            with contextlib.suppress(ProcessLookupError), stopped(processes()):
                ends.wait(stop_ms / 1000)
            ends.wait(run_ms / 1000)
    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    try:
        yield
    finally:
        ends.set()
        worker.join()


def refused(rounds, *names):
    return [answers for answers in rounds if any(answers[name] >= 500 for name in names)]


def served(rounds, *names):
    return [answers for answers in rounds if all(answers[name] < 300 for name in names)]


def metric(server, name):
    text = server.client().call("GET", "/metrics").body.decode()
    return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name))


def an_alarm_tells(detector, action):
    """The default rule of this detector has seen an event of the action, in the log of this server."""
    def events(wanted):
        answer = stack.client(state["bench"].auditor).api("GET", f"/audit/events?action={wanted}&limit=100")
        return {event["seq"]: event["entry"]["res"].lstrip("#").split(" ") for event in answer["events"]}

    def is_told():
        causes = {str(number) for number in events(action)}
        return any(words[0] == detector and causes & {number for word in words if word.startswith("events=") for number in word[len("events="):].split(",")}
                   for words in events("alarm.raise").values())
    sijil_test.wait_until(is_told, 60, f"no alarm of {detector} names an event {action}")


# --- the database ----------------------------------------------------------------------------------------------------
def a_database_that_stands_still():
    bench = state["bench"]
    assert bench.place.call("POST", "blobs/uploads/").status == 202
    with stopped(stack.postgres_processes()):
        # Its commit is sent, and its result is unknown. A client that is told "not done" would not check.
        answer = bench.place.call("POST", "blobs/uploads/")
        assert answer.status == 503 and b"look whether it was done" in answer.body, (answer.status, answer.body)
        rounds = bench.rounds("database stopped", 30 if LONG else 8)
        said = stack.client().call("GET", "/readyz")
        assert said.status == 503 and b"PostgreSQL" not in said.body, (said.status, said.body)
    assert all(answers["pull a manifest"] == 503 and answers["begin an upload"] == 503 for answers in rounds), rounds
    bench.recovers("database stopped")
    state["integrity"].check_log()  # its gaps are exactly those in log.unrecorded
    an_alarm_tells("log-gap", "log.unrecorded")


def a_database_that_is_slow():
    bench = state["bench"]
    with slowed(stack.postgres_processes, 50, 450):
        rounds = bench.rounds("database slow", 30 if LONG else 6, ("pull a manifest", "push a manifest"))
    assert served(rounds, "pull a manifest", "push a manifest"), f"a tenth of the speed serves nobody: {rounds}"
    bench.recovers("database slow")


def a_database_whose_disk_is_slow():
    bench = state["bench"]
    stack.faults["postgres"].set(sync_ms=1000)
    rounds = bench.rounds("database's disk slow", 20 if LONG else 5, ("pull a manifest", "push a manifest"))
    assert served(rounds, "pull a manifest", "push a manifest"), f"a second for each commit serves nobody: {rounds}"
    if LONG:  # a commit now takes longer than requests wait for the log
        stack.faults["postgres"].set(sync_ms=14000)
        answers = {tag: bench.place.put_manifest(tag, bench.manifest) for tag in ("late1", "late2", "late3")}
        rounds = bench.rounds("database's disk hangs", 40)
        assert refused(rounds, "push a manifest"), rounds
        stack.calm()
        bench.recovers("database's disk hangs", 40)
        for tag, answer in answers.items():
            is_there = bench.place.call("HEAD", f"manifests/{tag}").status == 200
            assert not (is_there and b"it was not done" in answer.body), f"{tag} is there, and was refused with {answer.body}"
    stack.calm()
    bench.recovers("database's disk slow", 40)


def a_database_that_dies_again_and_again():
    """As many failovers as in a year: the same gateway goes on. (An earlier one aborted, because it listened again after each failover.)"""
    bench = state["bench"]
    for _ in range(12 if LONG else 3):
        stack.run_postgres("crash")
        bench.round("database dies")
        stack.run_postgres("restart")
        bench.recovers("database dies")


def somebody_else_locks_the_log():
    bench = state["bench"]
    programs = "/usr/lib/postgresql/15/bin"
    seconds = 25 if LONG else 12
    with subprocess.Popen([programs + "/psql", "-Xq", "-h", stack.database_at, "-U", "postgres", "-d", "sijil_template", "-c",
                           f"BEGIN; LOCK TABLE audit_log; SELECT pg_sleep({seconds}); ROLLBACK"], stdout=subprocess.DEVNULL):
        time.sleep(0.5)
        rounds = bench.rounds("log locked", seconds - 4)
    assert refused(rounds, "pull a manifest") and refused(rounds, "push a manifest"), rounds
    bench.recovers("log locked")


# --- the key process -------------------------------------------------------------------------------------------------
def a_key_process_that_stands_still():
    bench = state["bench"]
    with stopped([stack.keyd.pid]):
        rounds = bench.rounds("keyd stopped", 20 if LONG else 9)
    assert refused(rounds, "token") and refused(rounds, "begin an upload"), rounds
    # A log without a new signature is trusted for five seconds.
    assert rounds[-1]["readyz"] == 503 and rounds[-1]["pull a manifest"] == 503, rounds[-1]
    bench.recovers("keyd stopped")


def a_key_process_that_is_slow():
    bench = state["bench"]
    with slowed(lambda: [stack.keyd.pid], 100, 700):
        rounds = bench.rounds("keyd slow", 20 if LONG else 6, ("pull a manifest", "begin an upload", "token"))
    assert served(rounds, "pull a manifest", "begin an upload", "token"), f"an eighth of the speed serves nobody: {rounds}"
    bench.recovers("keyd slow")


def a_key_process_that_dies_again_and_again():
    bench = state["bench"]
    until = time.monotonic() + (20 if LONG else 6)
    while time.monotonic() < until:
        with contextlib.suppress(ProcessLookupError):
            stack.keyd.kill()
        bench.round("keyd dies")
    bench.recovers("keyd dies")


def a_key_process_whose_disk_fails():
    """After a failed write keyd acknowledges nothing more; its next start reads the content of the disk."""
    bench, before = state["bench"], stack.keyd.pid
    stack.faults["keyd"].set(failure=errno.EIO)
    rounds = bench.rounds("keyd's disk fails", 15 if LONG else 8)
    assert rounds[-1]["readyz"] == 503, rounds
    stack.calm()
    bench.recovers("keyd's disk fails")
    assert stack.keyd.pid != before, "who could not write its ledger went on as if it could"


# --- the disk of the region ------------------------------------------------------------------------------------------
@contextlib.contextmanager
def long_blobs(server, bench):
    """Blobs for direct I/O (O_DIRECT); yields whether the file system supports it."""
    gateway = server.faults["gateway"]
    before = gateway.past()
    bench.size, bench.way = LONG_BLOB, ", past"
    try:
        assert bench.push().status == 201 and bench.pull().status == 200
        yield all(now > then for now, then in zip(gateway.past(), before))
    finally:
        bench.size, bench.way = SHORT_BLOB, ""
        bench.unread.clear()


def past(case):
    """The same case with direct I/O; afterwards each acknowledged blob exists."""
    def run():
        gateway, bench = stack.faults["gateway"], state["bench"]
        with long_blobs(stack, bench) as is_past:
            if not is_past:
                print(f"     (left out: {stack.root} lies on a file system that has no writes past the page cache)")
                return
            before = gateway.past()
            case()
            counts = [now - then for now, then in zip(gateway.past(), before)]
            assert all(counts), f"past the page cache went {counts} writes, fsyncs and reads"
            print("     past the page cache: {} writes, {} fsyncs, {} reads".format(*counts))
        Integrity.check_content(bench.place, bench.kept)
    run.__name__ = case.__name__ + "_past_the_page_cache"
    return run


def a_disk_that_is_slow():
    bench = state["bench"]
    stack.faults["gateway"].set(sync_ms=800, write_ms=20)
    rounds = bench.rounds("disk slow", 20 if LONG else 5)
    stack.calm()
    assert all(answers["push a blob"] == 201 and answers["pull a manifest"] == 200 for answers in rounds), rounds
    bench.recovers("disk slow")


def a_disk_that_hangs_holds_up_nobody_else():
    """More uploads than receivers wait for a disk that takes seconds for each write; small requests go on."""
    bench = state["bench"]
    seconds = 20 if LONG else 6
    stack.faults["gateway"].set(**{"write_ms" if bench.way else "sync_ms": seconds * 1000})
    with concurrent.futures.ThreadPoolExecutor(12) as pool, contextlib.ExitStack() as lifted:
        lifted.callback(stack.calm)  # also after a failure, so that the next cases are not affected
        pushes = [pool.submit(timed, bench.push) for _ in range(12)]
        time.sleep(1)
        slowest = 0
        for _ in range(20):
            answer, took = timed(lambda: bench.place.call("GET", "manifests/one"))
            slowest = max(slowest, took)
            assert answer.status == 200, answer.status
        answer, took = timed(bench.pull)
        check_answer("disk hangs", "pull a blob", answer)
        bench.note("disk hangs", "pull a blob", answer.status, took)
        assert took < DEADLINE, f"a pull waited {took:.0f} s for a receiver"
        stack.calm()
        for push in pushes:
            answer, took = push.result()
            bench.note("disk hangs", "push a blob", answer.status, took)
            check_answer("disk hangs", "push a blob", answer)
    assert slowest < seconds - 1, f"a manifest took {slowest:.1f} s beside a disk that hangs for {seconds} s"
    bench.recovers("disk hangs")


def a_disk_that_is_full_or_fails_keeps_the_upload():
    bench = state["bench"]
    for failure, status in ((errno.ENOSPC, 507), (errno.EIO, 503)):
        first, second = os.urandom(3 * bench.size), os.urandom(3 * bench.size)
        location = bench.place.patch(bench.place.begin(), first)["Location"]
        stack.faults["gateway"].set(failure=failure)
        answer = bench.place.patch(location, second, len(first))
        assert answer.status == status, (answer.status, answer.body)
        check_answer("disk fails", "push a blob", answer)
        bench.note(f"disk: {errno.errorcode[failure]}", "push a blob", answer.status, 0)
        assert bench.place.call("GET", "manifests/one").status == 200
        stack.calm()
        kept = bench.place.call("GET", location)
        assert kept.status == 204 and kept["Range"] == f"0-{len(first) - 1}", (kept.status, kept["Range"])
        location = bench.place.patch(kept["Location"], second, len(first))["Location"]
        assert bench.place.close(location, sha256(first + second)).status == 201
        assert bench.place.call("GET", f"blobs/{sha256(first + second)}").body == first + second
    bench.recovers("disk fails")


def a_disk_whose_reads_are_slow():
    bench = state["bench"]
    assert bench.push().status == 201  # its first pull must be among the slow ones
    stack.faults["gateway"].set(read_ms=30)
    rounds = bench.rounds("reads slow", 20 if LONG else 5)
    stack.calm()
    assert len(served(rounds, "pull a blob", "pull a manifest", "push a blob")) == len(rounds), rounds
    bench.recovers("reads slow")


def a_disk_whose_reads_fail_breaks_answers_off():
    """The sent part of a pull is correct and visibly incomplete. Other pulls are refused, pushes go on, and no blob is marked as damaged."""
    bench, gateway = state["bench"], stack.faults["gateway"]
    data = random.randbytes(48 << 20)
    digest = bench.place.push_blob(data)
    aborted, damaged, told = metric(stack, "sijil_answers_aborted_total"), metric(stack, "sijil_blob_damage_total"), broken_off()
    with contextlib.ExitStack() as lifted:
        lifted.callback(stack.calm)
        received = pulled_until(bench, digest, lambda: gateway.set(read_failure=errno.EIO))
        assert 0 < len(received) < len(data) and data.startswith(received), f"{len(received)} bytes, of {len(data)}"
        answer, took = timed(lambda: bench.place.call("GET", f"blobs/{digest}"))
        assert answer.status == 503, (answer.status, answer.body)
        check_answer("reads fail", "pull a blob", answer)
        bench.note("reads fail", "pull a blob", answer.status, took)
        assert bench.place.call("GET", "manifests/one").status == 200 and bench.push().status == 201
    sijil_test.await_count(lambda: metric(stack, "sijil_answers_aborted_total"), aborted + 1, "answers that were broken off")
    sijil_test.await_count(broken_off, told + 1, "lines of the log that say why")
    assert bench.place.call("GET", f"blobs/{digest}").body == data
    assert metric(stack, "sijil_blob_damage_total") == damaged, "a disk that fails is not a blob that is damaged"
    bench.recovers("reads fail")


def a_read_that_memory_spoiled_is_asked_of_the_disk_again():
    """One wrong read marked a blob as damaged for everybody. Pulls and scrubs read again first, and mark the blob only if it is wrong again."""
    bench, gateway = state["bench"], stack.faults["gateway"]
    data = random.randbytes(200_000)
    digest = bench.place.push_blob(data)
    damaged, again = metric(stack, "sijil_blob_damage_total"), metric(stack, "sijil_blob_read_again_total")
    with contextlib.ExitStack() as lifted:
        lifted.callback(stack.calm)
        gateway.set(spoiled_reads=1)
        assert bench.place.call("GET", f"blobs/{digest}").body == data
        assert gateway.spoiled_left() == 0, "nothing was spoiled"
        sijil_test.await_count(lambda: metric(stack, "sijil_blob_read_again_total"), again + 1, "reads that were repeated")
        gateway.set(spoiled_reads=1)
        assert scrubbed()["found"] == 0 and gateway.spoiled_left() == 0
        assert metric(stack, "sijil_blob_damage_total") == damaged, "a blob was marked for one wrong read"
        gateway.set(spoiled_reads=1000)
        assert bench.place.call("GET", f"blobs/{digest}").status == 500
        sijil_test.await_count(lambda: metric(stack, "sijil_blob_damage_total"), damaged + 1, "blobs that are damaged")
        gateway.set(spoiled_reads=1000)
        assert bench.place.call("GET", f"blobs/{digest}").status == 404
    sijil_test.wait_until(lambda: bench.place.call("GET", f"blobs/{digest}").body == data, 30, "the mark of a sound blob stays")
    assert scrubbed()["found"] == 0


def scrubbed():
    client = stack.client(stack.admin)
    return sijil_test.follow(client, client.api("POST", "/scrubs", {"digest": False})["id"])


def broken_off():
    """How many answers were broken off because the disk failed, by the log."""
    with open(stack.path("log"), encoding="utf-8", errors="replace") as log:
        return len([line for line in log if "an answer was broken off" in line and os.strerror(errno.EIO) in line])


def pulled_until(bench, digest, happens):
    """The received bytes of a blob, if `happens` is called after the first of them."""
    with connect(65536) as link, link.makefile("rb") as answer:
        link.sendall(head(bench, "GET", f"/v2/{REPOSITORY}/blobs/{digest}"))
        assert b" 200 " in answer.readline()
        while answer.readline().strip():
            pass
        received = [answer.read(65536)]
        happens()
        with contextlib.suppress(*BROKEN):
            while piece := answer.read1(65536):
                received.append(piece)
    return b"".join(received)


def a_disk_whose_reads_hang_holds_up_nobody_else():
    """More pulls than workers of any kind wait for a disk that takes seconds for each read; all other requests go on."""
    bench = state["bench"]
    seconds = 20 if LONG else 6
    for _ in range(14 if bench.way else 0):
        assert bench.push().status == 201
    with concurrent.futures.ThreadPoolExecutor(14) as pool, contextlib.ExitStack() as lifted:
        lifted.callback(stack.calm)
        stack.faults["gateway"].set(read_ms=seconds * 1000)
        pulls = [pool.submit(timed, bench.pull) for _ in range(14)]
        time.sleep(1)
        for name, call in bench.operations().items():
            if name != "pull a blob":
                answer, took = timed(call)
                bench.note("reads hang", name, answer.status, took)
                assert answer.status < 300 and took < seconds - 2, f"{name}: {answer.status} after {took:.1f} s beside reads that hang"
        stack.calm()
        for pull in pulls:
            answer, took = pull.result()
            bench.note("reads hang", "pull a blob", answer.status, took)
            check_answer("reads hang", "pull a blob", answer)
    bench.recovers("reads hang")


def a_disk_that_is_full_for_all_of_it():
    """Region, database and key process are on one full disk: requests are refused; later everything works as before."""
    if os.geteuid() != 0:
        raise LeftOut("mounting a small file system needs root")
    folder = os.path.join(stack.root, "small")
    os.mkdir(folder)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400m,mode=755", "tmpfs", folder], check=True)
    try:
        with Server(folder=folder) as small:
            bench = Bench(small)
            integrity = Integrity(small, bench.auditor)
            bench.recovers("all of the disk full")
            ballast = os.path.join(folder, "ballast")
            subprocess.run(["dd", "if=/dev/zero", "of=" + ballast, "bs=64k", "conv=notrunc"], check=False, capture_output=True)
            rounds = bench.rounds("all of the disk full", 40 if LONG else 12)
            assert refused(rounds, "push a blob"), rounds
            os.remove(ballast)
            bench.recovers("all of the disk full", 60)
            assert bench.place.call("GET", f"blobs/{bench.digest}").body == bench.data
            time.sleep(2)
            integrity.check({})
    finally:
        subprocess.run(["umount", "-l", folder], check=False)


@contextlib.contextmanager
def small_disk(folder, megabytes):
    """Mounts a separate ext4 in that new folder; yields whether that is possible."""
    os.mkdir(folder)
    with open(folder + ".ext4", "wb") as file:
        file.truncate(megabytes << 20)
    subprocess.run(["mkfs.ext4", "-q", "-m", "0", folder + ".ext4"], check=True)
    is_mounted = subprocess.run(["mount", "-o", "loop", folder + ".ext4", folder], check=False, capture_output=True).returncode == 0
    try:
        yield is_mounted
    finally:
        if is_mounted:
            subprocess.run(["umount", "-l", folder], check=False)


def a_disk_that_is_full_past_the_page_cache():
    """The region is on a small disk with direct I/O: the kernel reports the full disk while other writes are in progress."""
    small = Production(page_cache_blob_max=CACHED_MAX)
    with small_disk(os.path.join(stack.root, "small_disk"), 96) as is_mounted:
        if not is_mounted:
            print("     (left out: mounting a small file system needs root, and a loop device)")
            return
        os.symlink(os.path.join(stack.root, "small_disk"), small.path("regions"))
        with small, open(small.path("regions/ballast"), "wb") as ballast:
            os.posix_fallocate(ballast.fileno(), 0, 24 << 20)
            bench = Bench(small)
            integrity = Judge(small, bench.auditor)
            with long_blobs(small, bench) as is_past:
                assert is_past, "an ext4 has no writes past the page cache"
                fills_up(small, bench, ballast)
            bench.recovers("small disk full")
            Integrity.check_content(bench.place, bench.kept)
            time.sleep(2)
            integrity.check({})


def fills_up(small, bench, ballast):
    """Fills the disk with blobs and an upload. They continue after the ballast file is removed."""
    first, second = os.urandom(LONG_BLOB), os.urandom(LONG_BLOB)
    location = bench.place.patch(bench.place.begin(), first)["Location"]
    before = small.faults["gateway"].counts()[3]
    while (answer := bench.push()).status == 201:
        pass
    refusals = {"push a blob": answer, "go on with an upload": bench.place.patch(location, second, len(first))}
    assert small.faults["gateway"].counts()[3] > before, "the disk was not full for a write past the page cache"
    for name, answer in refusals.items():
        assert answer.status == 507, (name, answer.status, answer.body)
        check_answer("small disk full", name, answer)
        bench.note("small disk full", name, answer.status, 0)
    Integrity.check_content(bench.place, bench.kept)
    assert bench.place.call("GET", "manifests/one").status == 200
    os.ftruncate(ballast.fileno(), 0)
    kept = bench.place.call("GET", location)
    assert kept.status == 204 and kept["Range"] == f"0-{len(first) - 1}", (kept.status, kept["Range"])
    location = bench.place.patch(kept["Location"], second, len(first))["Location"]
    assert bench.place.close(location, sha256(first + second)).status == 201
    assert bench.place.call("GET", f"blobs/{sha256(first + second)}").body == first + second
    assert bench.push().status == 201


# --- clocks ----------------------------------------------------------------------------------------------------------
HOUR = 3_600_000


def times_of_log():
    return [int(row[0]) for row in state["integrity"].sql("SELECT ts FROM audit_entry ORDER BY seq")]


def a_gateway_whose_clock_is_wrong():
    """Tokens look expired, or as if from the future, and are refused. Then the clocks are compared, and nothing is recorded any more."""
    bench = state["bench"]
    token = {"Authorization": "Bearer " + bench.place.client.token(bench.place.scope, fresh=True)}
    for step, words in ((HOUR, b"expired"), (-HOUR, b"future")):
        stack.faults["gateway"].set(clock_ms=step)
        until = time.monotonic() + 10
        while True:
            answer = stack.client().call("GET", f"/v2/{REPOSITORY}/tags/list", headers=token)
            SEEN.setdefault((f"gateway's clock {step // HOUR:+} h", "list tags"), []).append((answer.status, 0))
            if answer.status == 503:
                break
            assert answer.status == 401 and words in answer.body, (step, answer.status, answer.body)
            assert 'error="invalid_token"' in answer["WWW-Authenticate"] and time.monotonic() < until
        said = stack.client().call("GET", "/readyz")
        assert said.status == 503 and b"clocks" in said.body, (said.status, said.body)
        assert stack.client().call("GET", "/healthz").status == 200
        stack.calm()
        answer = sijil_test.insist(lambda: stack.client().call("GET", f"/v2/{REPOSITORY}/tags/list", headers=token))
        assert answer.status == 200, (step, answer.status, answer.body)
    bench.recovers("gateway's clock")


def a_database_or_key_process_whose_clock_is_wrong():
    """keyd signs no checkpoint whose time is more than a minute from its own: soon nothing is served, and /readyz says why."""
    bench = state["bench"]
    for name in ("keyd", "postgres"):
        for step in (HOUR, -HOUR) if LONG else (HOUR,) if name == "keyd" else (-HOUR,):
            stack.faults[name].set(clock_ms=step)
            case = f"clock of {name} {step // HOUR:+} h"
            rounds = bench.rounds(case, 9)
            assert rounds[-1]["readyz"] == 503, (case, rounds[-1])
            said = stack.client().call("GET", "/readyz").body
            assert b"clock" in said or b"minute" in said, (case, said)
            stack.calm()
            bench.place.client.tokens.clear()  # one may be from another hour
            bench.recovers(case)
    times = times_of_log()
    assert times == sorted(times), "the log's times went back"


def an_upload_goes_on_with_its_token(location, content, token, may):
    """An expired token is valid for the session that it began, until the session ends. A token from the future is valid for nothing."""
    more = {**token, "Content-Type": "application/octet-stream", "Content-Range": "400-999"}
    answers = [stack.client().call("GET", location, headers=token), stack.client().call("PATCH", location, content[400:], more)]
    if may:
        location = answers[1]["Location"]
        mark = "&" if "?" in location else "?"
        answers.append(stack.client().call("PUT", f"{location}{mark}digest={sha256(content)}", b"", token))
    assert [answer.status for answer in answers] == ([204, 202, 201] if may else [401, 401]), [answer.status for answer in answers]


def a_machine_whose_clock_steps():
    """All three clocks step together. An hour forward, old tokens are expired; an hour back, they are from the future. New ones work."""
    bench = state["bench"]
    for step in (HOUR, -HOUR):
        token = {"Authorization": "Bearer " + bench.place.client.token(bench.place.scope, fresh=True)}
        content = os.urandom(1000)
        location = bench.place.patch(bench.place.begin(), content[:400], 0)["Location"]
        for faults in stack.faults.values():
            faults.set(clock_ms=step)
        answer = stack.client().call("GET", f"/v2/{REPOSITORY}/tags/list", headers=token)
        assert answer.status == 401, (step, answer.status)
        an_upload_goes_on_with_its_token(location, content, token, step > 0)
        bench.place.client.tokens.clear()
        bench.recovers(f"all clocks {step // HOUR:+} h")
        stack.calm()
        bench.place.client.tokens.clear()
        bench.recovers(f"all clocks {step // HOUR:+} h and back")
    an_alarm_tells("clock-step", "clock.step")
    times = times_of_log()
    assert times == sorted(times), "the log's times went back"
    state["integrity"].check_log()


# --- clients ---------------------------------------------------------------------------------------------------------
def connect(window=None):
    """`window`: size of the client's receive buffer in bytes."""
    context = ssl.create_default_context(cafile=stack.ca_file)
    plain = socket.socket()
    if window is not None:
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
    plain.settimeout(90)
    plain.connect(("127.0.0.1", stack.port))
    return context.wrap_socket(plain, server_hostname="127.0.0.1")


def until_closed(link, step=lambda: None):
    """Seconds until the server ends the connection."""
    began = time.monotonic()
    link.settimeout(0.5)
    while time.monotonic() - began < 80:
        try:
            step()
            if not link.recv(65536):
                break
        except TimeoutError:
            continue
        except OSError:
            break
    else:
        raise AssertionError("the server never closed the connection")
    return time.monotonic() - began


def head(bench, method, path, *lines):
    token = bench.place.client.token(bench.place.scope)
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", "Authorization: Bearer " + token, *lines, "", ""]).encode()


def says_nothing(bench):
    return until_closed(connect())


def stalls_in_the_head(bench):
    link = connect()
    link.sendall(b"GET /v2/ HTTP/1.1\r\nHost: 127.0.0.1\r\nX-")
    return until_closed(link)


def trickles_the_head(bench):
    link = connect()
    return until_closed(link, lambda: link.sendall(b"G"))


def path_of(location):
    return location[location.index("/v2/"):]


SENT = 3_000_000  # of a body of 10,000,000 bytes


def stalls_in_the_body(bench):
    location = bench.place.begin()
    link = connect()
    link.sendall(head(bench, "PATCH", path_of(location), "Content-Length: 10000000") + b"x" * SENT)
    seconds = until_closed(link)
    goes_on(bench, location)
    return seconds


def trickles_the_body(bench):
    location = bench.place.begin()
    link = connect()
    link.sendall(head(bench, "PATCH", path_of(location), "Content-Length: 1000000"))
    return until_closed(link, lambda: link.sendall(b"x"))


def vanishes_in_the_body(bench):
    location = bench.place.begin()
    link = connect()
    link.sendall(head(bench, "PATCH", path_of(location), "Content-Length: 10000000") + b"x" * SENT)
    time.sleep(1)
    link.close()
    goes_on(bench, location)
    return 0


def goes_on(bench, location):
    """Most of the received bytes are kept, except those in buffers of a mebibyte, and the upload continues from there."""
    until, kept = time.monotonic() + 10, 0
    while kept < SENT - (1 << 20):
        answer = bench.place.call("GET", location)
        assert answer.status == 204, answer.status
        kept = sijil_test.bytes_kept(answer)
        assert time.monotonic() < until, f"of {SENT} bytes that had come, {kept} are kept"
        time.sleep(0.2)
    assert kept <= SENT, f"{SENT} bytes were sent, and {kept} are kept"
    rest = b"y" * 1000
    answer = bench.place.patch(answer["Location"], rest, kept)
    assert answer.status == 202, (answer.status, answer.body)
    assert bench.place.close(answer["Location"], sha256(b"x" * kept + rest)).status == 201


def stalls_while_reading(bench):
    """Requests more bytes than all buffers in between can hold, and reads none of them."""
    link = connect()
    link.sendall(head(bench, "GET", f"/v2/{REPOSITORY}/blobs/{state['large']}"))
    began, before = time.monotonic(), metric(stack, 'sijil_connections_cut_total{why="rate"}')
    while metric(stack, 'sijil_connections_cut_total{why="rate"}') == before:
        assert time.monotonic() - began < 80, "who does not read is never cut off"
        time.sleep(0.5)
    return time.monotonic() - began


def vanishes_while_reading(bench):
    link = connect()
    link.sendall(head(bench, "GET", f"/v2/{REPOSITORY}/blobs/{state['large']}"))
    link.recv(4096)
    link.close()
    return 0


MISDEEDS = (says_nothing, stalls_in_the_head, trickles_the_head, stalls_in_the_body, trickles_the_body, vanishes_in_the_body,
            stalls_while_reading, vanishes_while_reading)


def clients_that_stall_trickle_or_vanish():
    bench, each = state["bench"], 8 if LONG else 2
    state["large"] = bench.place.push_blob(random.randbytes(48 << 20))
    gateway = stack.process.pid
    before = len(os.listdir(f"/proc/{gateway}/fd"))
    cut = metric(stack, "sijil_connections_cut_total")
    longest, slowest = {}, 0
    with concurrent.futures.ThreadPoolExecutor(each * len(MISDEEDS)) as pool:
        pending = {pool.submit(misdeed, bench): misdeed.__name__ for misdeed in MISDEEDS for _ in range(each)}
        while any(not future.done() for future in pending):  # other clients are served in that time
            answer, took = timed(lambda: bench.place.call("GET", f"blobs/{bench.digest}"))
            assert answer.status == 200 and answer.body == bench.data, answer.status
            slowest = max(slowest, took)
            time.sleep(0.2)
        for future, name in pending.items():
            longest[name] = max(longest.get(name, 0), future.result())
    print("     cut off after: " + ", ".join(f"{name.replace('_', ' ')} {seconds:.0f} s" for name, seconds in longest.items() if seconds))
    print(f"     beside them a pull took {slowest * 1000:.0f} ms at most; {metric(stack, 'sijil_connections_cut_total') - cut:.0f} cut")
    for name, seconds in longest.items():
        assert seconds < 30, f"who {name} held a connection for {seconds:.0f} s"
    assert slowest < 5, f"others waited {slowest:.1f} s"
    until = time.monotonic() + 15
    while len(os.listdir(f"/proc/{gateway}/fd")) > before + 4:
        assert time.monotonic() < until, f"descriptors: {before} before, {len(os.listdir(f'/proc/{gateway}/fd'))} after"
        time.sleep(0.5)
    bench.recovers("bad clients")


def after_all_of_it_the_log_and_the_disk_are_whole():
    time.sleep(2)
    figures = state["integrity"].check({}, 3)
    state["integrity"].check_keys_of_log()
    print("     " + ", ".join(f"{count} {name}" for name, count in figures.items()))
    for case in dict.fromkeys(case for case, _ in SEEN):
        rows = [(name, found) for (of, name), found in SEEN.items() if of == case]
        slowest = max(seconds for _, found in rows for _, seconds in found)
        statuses = sorted({status for _, found in rows for status, _ in found})
        print(f"     {case:38} {', '.join(map(str, statuses)):20} slowest {slowest:4.1f} s")


class Judge(Integrity):
    """The same checks for a database that is not the embedded one."""

    def postgres(self):
        return "/usr/lib/postgresql/15/bin", self.server.database_at, ""

    def database(self):
        return "sijil_template"


WRITE_CASES = (a_disk_that_is_slow, a_disk_that_hangs_holds_up_nobody_else, a_disk_that_is_full_or_fails_keeps_the_upload)
READ_CASES = (a_disk_whose_reads_are_slow, a_disk_whose_reads_fail_breaks_answers_off, a_disk_whose_reads_hang_holds_up_nobody_else)
GROUPS = {
    "servers": (a_database_that_stands_still, a_database_that_is_slow, a_database_whose_disk_is_slow,
                a_database_that_dies_again_and_again, somebody_else_locks_the_log, a_key_process_that_stands_still,
                a_key_process_that_is_slow, a_key_process_that_dies_again_and_again, a_gateway_whose_clock_is_wrong,
                a_database_or_key_process_whose_clock_is_wrong, a_machine_whose_clock_steps, clients_that_stall_trickle_or_vanish),
    "disks": (a_key_process_whose_disk_fails, a_read_that_memory_spoiled_is_asked_of_the_disk_again, *WRITE_CASES,
              *(READ_CASES if LONG else ()), *map(past, WRITE_CASES if LONG else ()), *map(past, READ_CASES),
              a_disk_that_is_full_for_all_of_it, a_disk_that_is_full_past_the_page_cache),
}
CASES = tuple(case for group in GROUPS.values() for case in group)
state = {}
wanted = [case for group, cases in GROUPS.items() for case in cases
          if len(sys.argv) == 1 or group in sys.argv[1:] or case.__name__ in sys.argv[1:]]
unknown = set(sys.argv[1:]) - {case.__name__ for case in CASES} - set(GROUPS)
if unknown:
    sys.exit(f"faults.py: there is no case {sorted(unknown)[0]}; there are {', '.join(case.__name__ for case in CASES)}")
stack.start()
state["bench"] = Bench(stack)
state["integrity"] = Judge(stack, state["bench"].auditor)
sijil_test.run(*wanted, after_all_of_it_the_log_and_the_disk_are_whole, server=stack)
