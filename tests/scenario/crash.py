#!/usr/bin/env python3
"""Kill -9 of any process at random moments while clients push and pull; PostgreSQL, log and disk are checked after each.

usage: crash.py [ROUNDS [SEED [CLIENTS]]]     20 rounds and 16 clients by default
Nothing that was acknowledged is lost, nothing that was refused is half done, no wrong byte is ever served. The seed is
printed, so that the order of strokes can be repeated; the moments at which they hit can't."""
import http.client
import os
import random
import signal
import ssl
import sys
import threading
import time

import sijil_test
from integrity import Integrity
from sijil_test import Server, sha256

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 20
SEED = int(sys.argv[2]) if len(sys.argv) > 2 else int(time.time())
CLIENTS = int(sys.argv[3]) if len(sys.argv) > 3 else 16
REPOSITORY = "main/models/crash"
SIZES = [0, 100, 65_520, 70_000, 70_000, 300_000, 300_000, 1_500_000, 4_000_000]
BROKEN = (OSError, http.client.HTTPException, ssl.SSLError)
PATIENCE = 90  # seconds until a client must have got through again; sanitizers and a recovery included


class Refused(Exception):
    """An answer that a client may get while something is down."""


class World:
    """What the server said yes to, what it said no to, and what it must never have said."""

    def __init__(self):
        self.lock = threading.Lock()
        self.blobs, self.tags, self.events, self.wrong = {}, {}, {}, []
        self.counts = dict.fromkeys(("pushed", "pulled", "tagged", "deleted", "resumed", "cancelled", "refused", "broken",
                                     "settled"), 0)
        self.gate, self.stop = threading.Event(), threading.Event()
        self.gate.set()
        self.waiting = 0

    def count(self, what):
        with self.lock:
            self.counts[what] += 1

    def refuse_to_go_on(self, why):
        with self.lock:
            self.wrong.append(why)

    def take(self, answer, good, actions):
        """Sorts an answer: as wished; a refusal that a fault explains; or wrong."""
        if answer.status in good:
            if answer["Sijil-Audit"]:
                with self.lock:
                    self.events[int(answer["Sijil-Audit"].rsplit("/", 1)[1])] = actions
            return answer
        if answer.status == 503:
            if not answer["Retry-After"]:
                self.refuse_to_go_on(f"{actions}: {answer.status} without Retry-After: {answer.body[:200]}")
            raise Refused(answer.status)
        self.refuse_to_go_on(f"{actions}: {answer.status} {answer.body[:300]}")
        raise Refused(answer.status)

    def pause(self):
        """Until every client stands still between two operations."""
        self.gate.clear()
        until = time.monotonic() + PATIENCE
        while self.waiting < CLIENTS:
            assert not self.wrong, self.wrong[0]
            assert time.monotonic() < until, f"{CLIENTS - self.waiting} clients hang"
            time.sleep(0.02)


class Worker(threading.Thread):
    """One client: mostly pushes, pulls what anybody pushed, moves its tags, deletes its own."""

    def __init__(self, server, login, world, number):
        super().__init__(daemon=True)
        self.world, self.number = world, number
        self.place = server.client(login).repository(REPOSITORY)
        self.random = random.Random(SEED * 1000 + number)
        self.loose, self.manifests, self.serial = [], [], 0

    def run(self):
        try:
            while not self.world.stop.is_set():
                self.pass_gate()
                self.one()
        except Exception as error:  # a client that dies would go unnoticed
            self.world.refuse_to_go_on(f"client {self.number}: {error!r}")

    def pass_gate(self):
        with self.world.lock:
            self.world.waiting += 1
        self.world.gate.wait()
        with self.world.lock:
            self.world.waiting -= 1

    def one(self):
        deeds = [self.push] * 6 + [self.pull] * 5 + [self.pull_tag] * 2 + [self.move_tag, self.delete_tag, self.delete_blob]
        try:
            self.random.choice(deeds)()
        except Refused:
            self.world.count("refused")
            time.sleep(0.1)
        except BROKEN:
            self.world.count("broken")
            time.sleep(0.1)

    def call(self, good, actions, *args, **more):
        try:
            answer = self.place.call(*args, **more)
        except AssertionError as error:  # no token was given out
            status = error.args[0][0] if error.args and isinstance(error.args[0], tuple) else None
            if status != 503:
                self.world.refuse_to_go_on(f"token: {error.args}")
            raise Refused(status) from error
        return self.world.take(answer, good, actions)

    def insist(self, good, actions, *args, **more):
        """The same until it is answered: what came of a request whose answer was lost."""
        until = time.monotonic() + PATIENCE
        while True:
            try:
                return self.call(good, actions, *args, **more)
            except (Refused, *BROKEN):
                if time.monotonic() > until or self.world.wrong:
                    raise
                time.sleep(0.2)

    # --- pushing -----------------------------------------------------------------------------------------------------
    def push(self):
        size = self.random.choice(SIZES)
        data = self.random.randbytes(size) if size else b""
        digest = self.push_blob(data)
        if digest is None or size == 0:
            return
        if self.random.random() < 0.3:
            self.loose.append(digest)
            return
        self.serial += 1
        config = self.push_blob(b"{}")
        if config is None:
            return
        manifest = self.manifest_of(digest, size)
        if self.set_tag(f"t{self.number}-{self.serial}", manifest):
            self.manifests.append(manifest)

    def push_blob(self, data):
        """The digest once the server has said that it is there; None if it said that it is not."""
        digest = sha256(data)
        is_there = self.random.choice((self.in_pieces, self.in_pieces, self.with_put, self.with_post))(data, digest)
        if not is_there:
            return None
        with self.world.lock:
            self.world.counts["pushed"] += digest not in self.world.blobs
            self.world.blobs[digest] = len(data)
        return digest

    def is_there(self, digest):
        """What came of a push whose answer was lost."""
        self.world.count("settled")
        return self.insist((200, 404), ("blob.stat",), "HEAD", f"blobs/{digest}").status == 200

    def with_post(self, data, digest):
        headers = {"Content-Type": "application/octet-stream"}
        try:
            self.call((201,), ("upload.begin", "upload.commit"), "POST", f"blobs/uploads/?digest={digest}", data, headers)
        except (Refused, *BROKEN):
            return self.is_there(digest)
        return True

    def with_put(self, data, digest):
        location = self.call((202,), ("upload.begin",), "POST", "blobs/uploads/")["Location"]
        try:
            if self.commit(location, digest, data).status != 201:
                self.world.refuse_to_go_on(f"a new session was refused: {digest}")
        except (Refused, *BROKEN):
            if self.is_there(digest):
                return True
            self.cancel(location)
            return self.is_there(digest)
        return True

    def cancel(self, location):
        """The session is given back, once the request that was cut off is cleared away; it may have got through meanwhile."""
        answer = self.insist((204, 404, 409), ("upload.cancel",), "DELETE", location)
        while answer.status == 409:
            time.sleep(0.2)
            answer = self.insist((204, 404, 409), ("upload.cancel",), "DELETE", location)
        self.world.count("cancelled")

    def commit(self, location, digest, data=b""):
        mark = "&" if "?" in location else "?"
        headers = {"Content-Type": "application/octet-stream"} if data else {}
        return self.call((201, 404, 409), ("upload.commit",), "PUT", f"{location}{mark}digest={digest}", data, headers)

    def insist_on_commit(self, location, digest):
        """Until the blob is there. A session that has gone without leaving the blob would be an upload that was lost."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            try:
                answer = self.commit(location, digest)
                if answer.status == 201:
                    return True
                if answer.status == 404:
                    if not self.is_there(digest):
                        self.world.refuse_to_go_on(f"the upload of {digest} was acknowledged, and is gone")
                    return True
            except (Refused, *BROKEN):
                self.world.count("resumed")
            time.sleep(0.2)
        raise Refused("no commit")

    def in_pieces(self, data, digest):
        location = self.call((202,), ("upload.begin",), "POST", "blobs/uploads/")["Location"]
        pieces = self.random.choice([1, 1, 2, 5])
        step, offset = max(2, -(-len(data) // pieces)), 0  # a single byte reads as none: sijil_test.bytes_kept()
        while offset < len(data):
            piece = data[offset:offset + step]
            try:
                location, offset = self.patch(location, piece, offset), offset + len(piece)
            except (Refused, *BROKEN):
                known = offset
                location, offset = self.ask(location)
                if offset < known:
                    self.world.refuse_to_go_on(f"an upload went back from the acknowledged {known} to {offset}")
                self.world.count("resumed")
        return self.insist_on_commit(location, digest)

    def patch(self, location, piece, offset):
        headers = {"Content-Type": "application/octet-stream"}
        if self.random.random() < 0.3:  # chunked transfer: a length that nobody said before
            parts = iter([piece[:len(piece) // 2], piece[len(piece) // 2:]] if len(piece) > 1 else [piece])
            answer = self.call((202, 409), ("upload.write",), "PATCH", location, parts, headers, encode_chunked=True)
        else:
            headers["Content-Range"] = f"{offset}-{offset + len(piece) - 1}"
            answer = self.call((202, 409), ("upload.write",), "PATCH", location, piece, headers)
        if answer.status == 409:  # the request that was cut off is still being cleared away
            raise Refused(409)
        return answer["Location"]

    def ask(self, location):
        answer = self.insist((204,), ("upload.read",), "GET", location)
        return answer["Location"], sijil_test.bytes_kept(answer)

    # --- manifests and tags --------------------------------------------------------------------------------------------
    def manifest_of(self, digest, size):
        return ('{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{"mediaType":'
                f'"application/vnd.oci.empty.v1+json","digest":"{sha256(b"{}")}","size":2}},"layers":[{{"mediaType":'
                f'"application/octet-stream","digest":"{digest}","size":{size}}}]}}').encode()

    def set_tag(self, tag, manifest):
        with self.world.lock:
            self.world.tags[tag] = None  # nothing is known while it changes
        try:
            self.call((201,), ("manifest.push",), "PUT", f"manifests/{tag}", manifest,
                      {"Content-Type": "application/vnd.oci.image.manifest.v1+json"})
            seen = sha256(manifest)
        except (Refused, *BROKEN):
            seen = self.settle_tag(tag)
        with self.world.lock:
            self.world.tags[tag] = seen
            self.world.counts["tagged"] += 1
        return seen == sha256(manifest)

    def settle_tag(self, tag):
        """What is there now stays: its digest, or "gone"."""
        self.world.count("settled")
        answer = self.insist((200, 404), ("manifest.read",), "GET", f"manifests/{tag}")
        return sha256(answer.body) if answer.status == 200 else "gone"

    def move_tag(self):
        if self.manifests:
            self.set_tag(f"moving{self.number}", self.random.choice(self.manifests))

    def delete_tag(self):
        with self.world.lock:
            own = [tag for tag, digest in self.world.tags.items() if tag.startswith(f"t{self.number}-") and digest != "gone"]
        if not own:
            return
        tag = self.random.choice(own)
        with self.world.lock:
            self.world.tags[tag] = None
        try:
            self.call((202,), ("tag.delete",), "DELETE", f"manifests/{tag}")
            seen = "gone"
        except (Refused, *BROKEN):
            seen = self.settle_tag(tag)
        with self.world.lock:
            self.world.tags[tag] = seen
            self.world.counts["deleted"] += 1

    def delete_blob(self):
        if not self.loose:
            return
        digest = self.loose.pop(self.random.randrange(len(self.loose)))
        with self.world.lock:
            size = self.world.blobs.pop(digest)
        try:
            self.call((202,), ("blob.delete",), "DELETE", f"blobs/{digest}")
            is_there = False
        except (Refused, *BROKEN):
            self.world.count("settled")
            is_there = self.insist((200, 404), ("blob.stat",), "HEAD", f"blobs/{digest}").status == 200
        with self.world.lock:
            if is_there:
                self.world.blobs[digest] = size
            self.world.counts["deleted"] += 1

    # --- pulling -----------------------------------------------------------------------------------------------------
    def pull(self):
        with self.world.lock:
            digest = self.random.choice(list(self.world.blobs)) if self.world.blobs else None
        if digest is None:
            return
        answer = self.call((200, 404), ("blob.read",), "GET", f"blobs/{digest}")
        with self.world.lock:
            self.world.counts["pulled"] += 1
            if answer.status == 404 and digest in self.world.blobs:  # nobody deletes it meanwhile
                self.world.wrong.append(f"blob {digest} was acknowledged and is gone")
            if answer.status == 200 and sha256(answer.body) != digest:
                self.world.wrong.append(f"blob {digest}: {len(answer.body)} wrong bytes were served as if they were right")

    def pull_tag(self):
        with self.world.lock:
            known = [tag for tag, digest in self.world.tags.items() if digest is not None]
            tag = self.random.choice(known) if known else None
            before = self.world.tags.get(tag)
        if tag is None:
            return
        answer = self.call((200, 404), ("manifest.read",), "GET", f"manifests/{tag}")
        seen = sha256(answer.body) if answer.status == 200 else "gone"
        with self.world.lock:
            self.world.counts["pulled"] += 1
            if self.world.tags[tag] == before and seen != before and not tag.startswith("moving"):
                self.world.wrong.append(f"tag {tag} is {seen} instead of {before}")


# --- strokes -------------------------------------------------------------------------------------------------------
def candidates(server):
    """Name -> processes that may be hit."""
    supervisor = server.process.pid
    postmaster = min(server.processes("postgres"), default=None)
    return {"supervisor": [supervisor], "gateway": [pid for pid in server.processes("sijild") if pid != supervisor],
            "keyd": server.processes("sijil-keyd"), "postmaster": [postmaster] if postmaster else [],
            "backend": sijil_test.children_of(postmaster) if postmaster else []}


STROKES = ("gateway", "keyd", "postmaster", "backend", "supervisor", "several", "supervisor twice", "postmaster twice",
           "gateway twice")


def hit(server, kind):
    found = candidates(server)[kind]
    if not found:
        return None
    process = random.choice(found)
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        return None
    if kind != "supervisor":
        server.wait_gone(process)
    return process


def strike(server, kind):
    if kind == "several":
        for each in random.sample(["gateway", "keyd", "postmaster", "backend"], random.choice([2, 3])):
            hit(server, each)
            time.sleep(random.choice([0, 0, random.uniform(0, 0.6)]))  # also while the one before it starts again
    elif kind.startswith("supervisor"):
        hit(server, "supervisor")
        server.process.wait(60)
        if kind.endswith("twice"):  # in the middle of its start
            server.start(wait=False)
            time.sleep(random.uniform(0, 2.5))
            hit(server, "supervisor")
            server.process.wait(60)
        server.start(wait=False)
    else:
        hit(server, kind.split()[0])
        if kind.endswith("twice"):
            time.sleep(random.uniform(0.2, 1.5))
            hit(server, kind.split()[0])
    server.wait_ready(PATIENCE)


def wait_for_progress(world, before):
    until = time.monotonic() + PATIENCE
    while world.counts["pushed"] - before < 2:
        assert not world.wrong, world.wrong[0]
        assert time.monotonic() < until, "no push succeeds any more"
        time.sleep(0.02)


# --- checks --------------------------------------------------------------------------------------------------------
def check_acknowledged(place, world, blobs, tags):
    link = place.client.connection()
    for digest in blobs:
        answer = place.call("GET", f"blobs/{digest}", connection=link)
        assert answer.status == 200 and len(answer.body) == world.blobs[digest] and sha256(answer.body) == digest, \
            (digest, answer.status)
    for tag in tags:
        answer = place.call("GET", f"manifests/{tag}", connection=link)
        seen = sha256(answer.body) if answer.status == 200 else {404: "gone"}.get(answer.status, answer.status)
        assert seen == world.tags[tag], f"tag {tag} is {seen} instead of {world.tags[tag]}"
    link.close()


def sample(things, count, newest):
    """The newest of them, and as many others."""
    things = list(things)
    return things[-newest:] + random.sample(things[:-newest], min(count, len(things[:-newest])))


def check_round(integrity, place, world, turn):
    """Nobody writes: the log, the rows, the pages and the files are as they must be, and what was promised is there."""
    world.pause()
    figures = integrity.check(world.events, proofs=1)
    check_acknowledged(place, world, sample(world.blobs, 10, 10), sample(world.tags, 10, 10))
    if turn % 10 == 9:
        integrity.check_keys_of_log()
    assert not world.wrong, world.wrong[0]
    world.gate.set()
    return figures


def check_all(server, integrity, place, world):
    """At the end: every promise, every stored object, every page; and once more after a stop and a start."""
    check_acknowledged(place, world, world.blobs, world.tags)
    again = Integrity(server, integrity.auditor)  # the whole log from its first entry
    figures = again.check(world.events, proofs=10)
    again.check_keys_of_log()
    assert again.entries[:len(integrity.entries)] == integrity.entries, "entries that were seen before have changed"
    digests = again.link_all("crash")
    total = again.check_content(place, digests)
    assert server.stop() == 0
    pages = again.check_checksums()
    server.start()
    again.check_log()
    check_acknowledged(place, world, sample(world.blobs, 20, 20), sample(world.tags, 20, 20))
    again.check(world.events)
    print(f"  {len(digests)} stored blobs ({total / 1e6:.0f} MB) decrypt and have their digests; {figures['events']} events verify "
          f"from the first on, {integrity.proven + again.proven} proofs by sijil-verify; {pages} pages of PostgreSQL have "
          f"their checksums; {figures['objects']} objects on the disk, none without a row")


def acknowledged_survives_kill_9():
    print(f"{ROUNDS} rounds, seed {SEED}, {CLIENTS} clients", flush=True)
    random.seed(SEED)
    world = World()
    with Server() as server:
        # A robot may have 250 sessions, and each POST whose answer is lost leaves one for a day.
        logins = [sijil_test.make_robot(server, f"crash{number}", "publisher", "main/models") for number in range(8)]
        login = logins[0]
        auditor = sijil_test.make_robot(server, "auditor", "auditor", "")
        integrity = Integrity(server, auditor)
        place = server.client(login).repository(REPOSITORY)
        place.push_blob(b"{}")
        workers = [Worker(server, logins[number % len(logins)], world, number) for number in range(CLIENTS)]
        for worker in workers:
            worker.start()
        for turn in range(ROUNDS):
            kind = STROKES[turn % len(STROKES)] if turn < len(STROKES) else random.choice(STROKES)
            time.sleep(random.uniform(0.2, 2.0))
            before, began = world.counts["pushed"], time.monotonic()
            strike(server, kind)
            wait_for_progress(world, before)
            back = time.monotonic() - began
            figures = check_round(integrity, place, world, turn)
            print(f"  round {turn + 1:3}: {kind:16} back in {back:4.1f} s; {world.counts['pushed']} blobs pushed, "
                  f"{world.counts['pulled']} pulled, {figures['events']} events, {figures['objects']} objects", flush=True)
        world.stop.set()
        for worker in workers:
            worker.join(PATIENCE)
            assert not worker.is_alive()
        assert not world.wrong, world.wrong[0]
        print("  " + ", ".join(f"{count} {what}" for what, count in world.counts.items()) +
              f"; {len(world.events)} named events, all in the log")
        check_all(server, integrity, place, world)
        assert world.counts["resumed"] > 0 and world.counts["settled"] > 0, "nothing was ever cut off: the test did not test"


sijil_test.run(acknowledged_survives_kill_9)
