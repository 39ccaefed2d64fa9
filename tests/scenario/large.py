#!/usr/bin/env python3
"""One large model, pushed by `sijil` through all kinds of faults, and pulled again: with little memory, and resuming after each fault.

usage: large.py [GIB [STORE]]     of the file; a quarter of a GiB by default. SIJIL_SOAK=1: bounds of time and memory count
The file is sparse; the stored bytes are not, because they are encrypted. If the disk has too little room, holes are made in
the stored files, as far as needed, and the output names the parts that were read back. With a STORE (stores.py) the region
is a bucket of it, and all bytes are kept."""
import ctypes
import glob
import json
import os
import random
import re
import signal
import shutil
import subprocess
import sys
import threading
import time

import sijil_test
import stores
from fleet import BucketFleet, Fleet, Judge
from sijil_test import LeftOut, program

GIB, MIB = 1 << 30, 1 << 20
SIZE = int(float(sys.argv[1]) * GIB) + 12345 if len(sys.argv) > 1 else GIB // 4 + 12345
STORE = stores.KINDS[sys.argv[2]]() if len(sys.argv) > 2 else None
JUDGED = os.environ.get("SIJIL_SOAK") == "1"
RESIDENT_MAX = 128 * MIB
RECORD, STORED_RECORD, HEADER = 65520, 65536, 4096  # docs/formats/sjb1.md
OBJECT = 32 * GIB  # bytes of an extent in one object of a bucket: docs/s3.md
ISLANDS = 64
MARGIN = 6 * GIB if SIZE > 16 * GIB else GIB // 2  # bytes of the disk that stay free
NAME = "model.safetensors"

fleet = Fleet(2, drain_size_max=MIB) if STORE is None else BucketFleet(2, STORE, drain_size_max=MIB)
work = fleet.path("work")
state = {"kept": None}


def random_islands():
    """Offsets where the file has bytes: its ends, both sides of 4 GiB, and random ones."""
    places = {0, SIZE - MIB, 4 * GIB - MIB // 2} | {(SIZE // ISLANDS * number) & ~4095 for number in range(1, ISLANDS)}
    return sorted(place for place in places if 0 <= place <= SIZE - MIB)


def make_file():
    os.makedirs(work)
    path = os.path.join(work, NAME)
    with open(path, "wb") as file:
        file.truncate(SIZE)
        for place in random_islands():
            file.seek(place)
            file.write(random.Random(place).randbytes(MIB))
    return path


def sijil(*words, code=0, wait=True, text=None):
    environment = {**os.environ, "XDG_CONFIG_HOME": work + "/config", "XDG_CACHE_HOME": work + "/cache"}
    process = subprocess.Popen([program("sijil"), *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, env=environment, cwd=work)
    if not wait:
        return process
    out, said = process.communicate(text)
    assert process.returncode == code, (words, process.returncode, out, said)
    return out, said


def target(tag="v1"):
    return f"127.0.0.1:{fleet.port}/main/models/large:{tag}"


def peak(process):
    """The peak of the process's memory in bytes; 0 if it has just ended."""
    with open(f"/proc/{process}/status", encoding="ascii") as file:
        return next((int(line.split()[1]) for line in file if line.startswith("VmHWM")), 0) * 1024


def note_peaks():
    running = next(filter(None, fleet.gateways), None)
    for name, process in (("gateway", running), ("sijil", state.get("sijil"))):
        if process is not None and process.poll() is None:
            state[name + " peak"] = max(state.get(name + " peak", 0), peak(process.pid))
    if STORE is not None and time.monotonic() > state.get("next look", 0):
        state["room"] = max(state.get("room", 0), STORE.room_taken())
        state["next look"] = time.monotonic() + 1


def kept_bytes():
    """How many bytes of the upload the registry has saved."""
    text = Judge.sql_at(fleet, "SELECT max(offset_bytes) FROM upload")
    return int(text) if text else 0


# --- a disk that is too small ------------------------------------------------------------------------------------------
class Puncher(threading.Thread):
    """If the disk is too small, frees stored bytes in the middle of the blob, far behind the writer."""
    PUNCH_HOLE_KEEP_SIZE = 3

    def __init__(self):
        super().__init__(daemon=True)
        room = shutil.disk_usage(fleet.root).free - MARGIN
        self.first = self.last = None  # bytes of the plain file that are lost
        assert STORE is None or SIZE <= room, f"the disk has room for {room / GIB:.0f} GiB, and a store can't do without any of it"
        if SIZE > room:
            self.first, self.last = room // 3, SIZE - room // 3
            assert self.last - self.first < SIZE and room > 6 * GIB, "there is no room at all"
        self.begins = {0: 0}           # start of each extent in the stored bytes of the blob; noticed within a second, so within a GiB
        self.stopped = threading.Event()

    def run(self):
        while self.first is not None and not self.stopped.wait(1):
            self.punch()

    def punch(self):
        """Records of extents lie where they belong in the blob; each extent's file has them from its own beginning."""
        for path in glob.glob(fleet.path("regions/main/*/*.e*")):
            number = int(path.rsplit(".e", 1)[1])
            start = self.begins.setdefault(number, HEADER + kept_bytes() // RECORD * STORED_RECORD)
            length = os.path.getsize(path)
            first = max(HEADER, HEADER + self.first // RECORD * STORED_RECORD - start)
            last = min(HEADER + self.last // RECORD * STORED_RECORD - start, length - GIB)
            if last > first:
                with open(path, "r+b") as file:
                    done = ctypes.CDLL(None, use_errno=True).fallocate(file.fileno(), self.PUNCH_HOLE_KEEP_SIZE,
                                                                      ctypes.c_int64(first), ctypes.c_int64(last - first))
                    assert done == 0, os.strerror(ctypes.get_errno())


def extents():
    """Number -> sizes of the files or objects that it is in."""
    found, blob = {}, Judge.sql_at(fleet, "SELECT replace(blob_id::text, '-', '') FROM blob ORDER BY size_bytes DESC LIMIT 1")
    for name, size in sorted(fleet.objects()):
        if name.startswith(blob + ".e"):
            found.setdefault(int(name.split(".")[1][1:]), []).append(size)
    return found


def checkpoints():
    return [size for name, size in fleet.objects() if ".c" in name]


# --- pushing -----------------------------------------------------------------------------------------------------------
def begin():
    fleet.start()
    fleet.stop_gateway(1)  # its turn comes
    state["login"] = sijil_test.make_robot(fleet, "large", "publisher", "main/models")
    state["path"] = make_file()
    sijil("login", f"127.0.0.1:{fleet.port}", "--username", state["login"][0], "--ca-file", fleet.ca_file, text=state["login"][1] + "\n")


def wait_for_share(push, share):
    """Waits until so much of the file is saved. The client is stopped during each look, also the last one, so that it can't finish."""
    until = time.monotonic() + 3600
    while True:
        push.send_signal(signal.SIGSTOP)
        kept = kept_bytes()
        if kept >= share * SIZE:
            return kept
        assert push.poll() is None, f"the push ended at {kept / SIZE:.0%}: {push.communicate()}"
        assert time.monotonic() < until, f"the push stands still at {kept / SIZE:.0%}"
        state["checkpoint"] = max([state.get("checkpoint", 0), *checkpoints()])
        note_peaks()
        push.send_signal(signal.SIGCONT)
        time.sleep(0.02 if SIZE < 4 * GIB else 0.5)


def sijil_is_killed():
    """The connection is cut in the middle, and no client sends a request for a while."""
    state["sijil"].kill()
    state["sijil"].wait()
    time.sleep(1)
    state["sijil"] = sijil("push", NAME, target(), wait=False)


def kill_gateway():
    fleet.kill(0)
    state["sijil"].send_signal(signal.SIGCONT)  # it goes on by itself


def the_gateway_is_killed():
    kill_gateway()
    fleet.start_gateway(0)
    fleet.wait_for_gateway(0)


def another_takes_over():
    kill_gateway()
    fleet.ports.reverse()  # as a balancer does
    fleet.start_gateway(1)
    fleet.wait_for_gateway(1)


# Each gateway begins an extent. In a bucket one extent is long enough to need a second object, in which its writer stops.
CUTS = (((0.15, sijil_is_killed), (0.4, the_gateway_is_killed), (0.7, another_takes_over)) if STORE is None else
        ((0.03, the_gateway_is_killed), (0.5, sijil_is_killed), (0.95, another_takes_over)))


def end_of_push():
    while True:
        note_peaks()
        try:
            return state["sijil"].communicate(timeout=0.2)
        except subprocess.TimeoutExpired:
            pass


def a_push_goes_on_whatever_is_cut():
    puncher = Puncher()
    puncher.start()
    began = time.monotonic()
    state["sijil"] = sijil("push", NAME, target(), wait=False)
    for share, cut in CUTS:
        at = wait_for_share(state["sijil"], share)
        cut()
        assert kept_bytes() >= at, "an upload went back"
    out, said = end_of_push()
    assert state["sijil"].returncode == 0 and "pushed (resumed)" in said, (state["sijil"].returncode, out, said)
    seconds = time.monotonic() - began
    puncher.stopped.set()
    if puncher.first is not None:
        puncher.join()
        puncher.punch()
    state["hole"] = (puncher.first, puncher.last)
    note_peaks()
    print(f"     {SIZE / GIB:.1f} GiB pushed in {seconds:.0f} s, {SIZE / seconds / 1e6:.0f} MB/s with hashing before and three "
          f"interruptions; {len(extents())} extents; a checkpoint has {state['checkpoint']} bytes at most", flush=True)


def extents_longer_than_an_object_have_several():
    if STORE is None:
        return
    listing = [(key, size, etag) for key, size, etag in STORE.listing(fleet.PREFIX) if ".e" in key and size > MIB]
    parts = sum(int(etag.split("-")[1]) if "-" in etag else 1 for _, _, etag in listing)  # as S3 makes an etag of a multipart upload
    print(f"     {len(listing)} objects of {parts} parts: " + ", ".join(f"{key.split('.', 1)[1]} {size / GIB:.2f} GiB"
                                                                       for key, size, _ in listing))
    print(f"     on the store's disk at most {state['room'] / GIB:.2f} GiB, with what was not put together yet")
    for sizes in extents().values():
        assert all(size == OBJECT for size in sizes[:-1]) and sizes[-1] <= OBJECT, sizes
    assert (max(map(sum, extents().values())) > OBJECT) == (SIZE * (CUTS[-1][0] - CUTS[0][0]) > OBJECT), "in another place than expected"


def closing_takes_a_moment_whatever_the_size():
    with open(fleet.path("log"), encoding="utf-8", errors="replace") as log:
        lines = [json.loads(line) for line in log if '"route":"upload_commit"' in line and '"message":"request"' in line]
    times = [float(line["ms"]) for line in lines if line["status"] == "201" and line["in"] == "0"]
    assert times, "no closing PUT in the log"
    print(f"     the closing PUT took {max(times):.0f} ms")
    assert not JUDGED or max(times) < 1000, f"closing took {max(times):.0f} ms"


def memory_does_not_grow_with_the_blob():
    note_peaks()
    print("     most resident: " + ", ".join(f"{name} {state[name + ' peak'] / MIB:.1f} MiB" for name in ("gateway", "sijil")))
    for name in ("gateway", "sijil"):
        assert not JUDGED or state[name + " peak"] < RESIDENT_MAX, f"{name} used {state[name + ' peak'] / MIB:.0f} MiB"


# --- reading -----------------------------------------------------------------------------------------------------------
def is_kept(first, last):
    hole = state["hole"]
    return hole[0] is None or last < hole[0] - 2 * GIB or first > hole[1] + 2 * GIB


def digest():
    if "digest" not in state:
        manifest = fleet.client(state["login"]).repository("main/models/large").call("GET", "manifests/v1").json
        state["digest"] = manifest["layers"][0]["digest"]
        assert manifest["layers"][0]["size"] == SIZE
    return state["digest"]


def ranges_come_from_anywhere_at_once():
    place, slowest, count = fleet.client(state["login"]).repository("main/models/large"), 0, 0
    with open(state["path"], "rb") as file:
        for island in random_islands()[::1 if JUDGED else 4]:
            for first, length in ((island, 100), (island + MIB - 50, 100), (island // RECORD * RECORD + RECORD - 1, 2)):
                last = min(first + length, SIZE) - 1
                if not is_kept(first, last):
                    continue
                began = time.monotonic()
                answer = place.call("GET", f"blobs/{digest()}", headers={"Range": f"bytes={first}-{last}"})
                slowest, count = max(slowest, time.monotonic() - began), count + 1
                file.seek(first)
                assert answer.status == 206 and answer.body == file.read(last - first + 1), (first, last, answer.status)
    print(f"     {count} ranges all over it are right; the slowest took {slowest * 1000:.0f} ms with its connection")
    assert not JUDGED or slowest < 1


def compare(first, last):
    """Streams one range and compares each byte; returns the longest wait for a MiB."""
    link = fleet.client(state["login"]).connection()
    client = fleet.client(state["login"])
    link.request("GET", f"/v2/main/models/large/blobs/{digest()}", headers={
        "Range": f"bytes={first}-{last}", "Authorization": "Bearer " + client.token("repository:main/models/large:pull")})
    answer, at, longest, asked = link.getresponse(), first, 0, time.monotonic()
    assert answer.status == 206, answer.status
    with open(state["path"], "rb") as file:
        file.seek(first)
        while piece := answer.read(MIB):
            assert piece == file.read(len(piece)), f"wrong bytes near {at}"
            longest, at = max(longest, time.monotonic() - asked), at + len(piece)
            asked = time.monotonic()
    assert at == last + 1, f"{at - first} bytes of {last + 1 - first}"
    link.close()
    return longest


def what_is_kept_is_pulled_and_compared():
    hole = state["hole"]
    spans = [(0, SIZE - 1)] if hole[0] is None else [(0, hole[0] - 2 * GIB), (hole[1] + 2 * GIB, SIZE - 1)]
    began, total, longest = time.monotonic(), 0, 0
    for first, last in spans:
        longest = max(longest, compare(first, last))
        total += last - first + 1
    print(f"     {total / GIB:.1f} of {SIZE / GIB:.1f} GiB pulled and compared, {total / 1e6 / (time.monotonic() - began):.0f} MB/s" +
          ("" if hole[0] is None else ": the disk had no room for the rest") + f"; the longest wait for a MiB was {longest:.1f} s")
    assert not JUDGED or longest < 30, "the stream stood still"


def a_pull_goes_on_from_what_is_there():
    room = shutil.disk_usage(fleet.root).free - MARGIN // 2
    if state["hole"][0] is not None or room < SIZE * 1.05:
        raise LeftOut("no room for another copy")
    folder = work + "/pulled"
    part, whole = f"{folder}/.{NAME}.sijil-part", f"{folder}/{NAME}"
    pull = sijil("pull", target(), "-o", folder, wait=False)
    while not os.path.exists(part) or os.path.getsize(part) < SIZE * 0.3:
        assert pull.poll() is None, pull.communicate()
        time.sleep(0.01)
    pull.kill()
    pull.wait()
    at = os.path.getsize(part)
    assert at < SIZE and not os.path.exists(whole)
    with open(part, "r+b") as file:  # a wrong byte in the existing part: all bytes are received, but none of them is accepted
        file.seek(at // 2)
        right = file.read(1)
        file.seek(at // 2)
        file.write(bytes([right[0] ^ 1]))
    _, said = sijil("pull", target(), "-o", folder, code=6)
    assert "does not match its digest" in said and not os.path.exists(whole), said
    pull = sijil("pull", target(), "-o", folder, wait=False)
    while os.path.getsize(part) < SIZE * 0.3:
        assert pull.poll() is None, pull.communicate()
        time.sleep(0.01)
    pull.kill()
    pull.wait()
    at = os.path.getsize(part)
    log = os.path.getsize(fleet.path("log"))
    sijil("pull", target(), "-o", folder)
    with open(fleet.path("log"), "rb") as file:
        file.seek(log)
        sent = sum(int(size) for size in re.findall(rb'"route":"blob_read","status":"206".*?"out":"(\d+)"', file.read()))
    assert 0 < sent <= SIZE - at, f"{sent} bytes were sent for the last {SIZE - at}"
    assert not os.path.exists(part)
    assert subprocess.run(["cmp", "-s", state["path"], whole], check=False).returncode == 0
    os.remove(whole)
    print(f"     a pull that was killed at {at / SIZE:.0%} got the other {sent / SIZE:.0%}")


def several_files_move_at_once():
    names = [f"shard-{number}.bin" for number in range(9)]
    size = 2 * MIB if SIZE < GIB else 64 * MIB
    for number, name in enumerate(names):
        with open(os.path.join(work, name), "wb") as file:
            file.write(random.Random(number % 8).randbytes(size))  # the last is the first once more
    _, said = sijil("push", "--jobs", "4", *names, target("shards"))
    assert said.count("  pushed") == 8, said
    out, said = sijil("pull", "--jobs", "3", target("shards"), "-o", work + "/shards")
    assert said.count("pulled and verified") == 9, said
    for name in names:
        assert subprocess.run(["cmp", "-s", f"{work}/{name}", f"{work}/shards/{name}"], check=False).returncode == 0, name
    again, said = sijil("pull", "--jobs", "16", target("shards"), "-o", work + "/shards")
    assert said.count("there already, verified") == 9 and again == out, said
    _, said = sijil("push", "--jobs", "3", *names[:8], "127.0.0.1:%d/main/elsewhere/large:v1" % fleet.port, code=4)
    assert "40" in said, said
    for wrong in ("0", "17", "many"):
        _, said = sijil("push", "--jobs", wrong, names[0], target("shards"), code=2)
        assert "1 to 16" in said, said


def the_disk_holds_what_the_rows_say():
    judge = Judge(fleet, sijil_test.make_robot(fleet, "auditor", "auditor", ""))
    judge.check({}, proofs=0)


sijil_test.run(begin, a_push_goes_on_whatever_is_cut, extents_longer_than_an_object_have_several,
               closing_takes_a_moment_whatever_the_size, ranges_come_from_anywhere_at_once, what_is_kept_is_pulled_and_compared,
               a_pull_goes_on_from_what_is_there, memory_does_not_grow_with_the_blob, several_files_move_at_once,
               the_disk_holds_what_the_rows_say, server=fleet)
