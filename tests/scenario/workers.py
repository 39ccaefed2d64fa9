"""Clients that push, pull, move tags and delete while faults hit the server, and remember all acknowledged writes.

No acknowledged write is lost, no refused request is half done, and no wrong byte is ever served. A client with several
gateways uses any of them for each request."""
import http.client
import random
import ssl
import threading
import time

import sijil_test
from sijil_test import sha256

SIZES = [0, 100, 65_520, 70_000, 70_000, 300_000, 300_000, 1_500_000, 4_000_000]
BROKEN = (OSError, http.client.HTTPException, ssl.SSLError)
PATIENCE = 90  # seconds until a client must succeed again, including sanitizers and a recovery


class Refused(Exception):
    """An answer that a client may get while something is down."""


class World:
    """The acknowledged requests, the refused ones, and answers that must never occur."""

    def __init__(self, clients):
        self.lock, self.clients = threading.Lock(), clients
        self.blobs, self.tags, self.events, self.wrong = {}, {}, {}, []
        self.counts = dict.fromkeys(("pushed", "pulled", "tagged", "deleted", "resumed", "cancelled", "refused", "broken",
                                     "settled"), 0)
        self.gate, self.stop, self.calm = threading.Event(), threading.Event(), threading.Event()
        self.gate.set()
        self.calm.set()  # not while statements of a killed gateway may still succeed
        self.waiting = 0

    def count(self, what):
        with self.lock:
            self.counts[what] += 1

    def refuse_to_go_on(self, why):
        with self.lock:
            self.wrong.append(why)

    def ask(self, place, *args, **more):
        """The answer to a request, or to the request for its token if a fault refused it."""
        try:
            return place.call(*args, **more)
        except AssertionError as error:  # no token was given out
            status = sijil_test.token_status(error)
            if status != 503:
                self.refuse_to_go_on(f"token: {error.args}")
            raise Refused(status) from error

    def take(self, answer, good, actions):
        """Sorts an answer: expected, a refusal that a fault explains, or wrong."""
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

    def pass_gate(self):
        """Each client calls it between two operations."""
        with self.lock:
            self.waiting += 1
        self.gate.wait()
        with self.lock:
            self.waiting -= 1

    def pause(self):
        """Waits until every client has paused between two operations."""
        self.gate.clear()
        until = time.monotonic() + PATIENCE
        while self.waiting < self.clients:
            assert not self.wrong, self.wrong[0]
            assert time.monotonic() < until, f"{self.clients - self.waiting} clients hang"
            time.sleep(0.02)


class Worker(threading.Thread):
    """One client: mostly pushes, pulls what anybody pushed, moves its tags, deletes its own."""

    def __init__(self, places, world, number, seed):
        super().__init__(daemon=True)
        self.world, self.number, self.places = world, number, places
        self.random = random.Random(seed * 1000 + number)
        self.loose, self.manifests, self.serial = [], [], 0

    def run(self):
        try:
            while not self.world.stop.is_set():
                self.world.pass_gate()
                self.one()
        except Exception as error:  # otherwise a client's failure would not be noticed
            self.world.refuse_to_go_on(f"client {self.number}: {error!r}")

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
        return self.world.take(self.world.ask(self.random.choice(self.places), *args, **more), good, actions)

    def settle(self):
        """A request whose answer was lost may still take effect, because the statements that its gateway had sent run to their end."""
        self.world.count("settled")
        if len(self.places) > 1:
            time.sleep(1)
            assert self.world.calm.wait(PATIENCE), "a killed gateway's work never ends"

    def insist(self, good, actions, *args, **more):
        """Repeats it until there is an answer: the outcome of a request whose answer was lost."""
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
        """The digest, after the server has confirmed the blob; None if the server has denied it."""
        digest = sha256(data)
        is_there = self.random.choice((self.in_pieces, self.in_pieces, self.with_put, self.with_post))(data, digest)
        if not is_there:
            return None
        with self.world.lock:
            self.world.counts["pushed"] += digest not in self.world.blobs
            self.world.blobs[digest] = len(data)
        return digest

    def is_there(self, digest):
        """The outcome of a push whose answer was lost."""
        self.settle()
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
        """Ends the session after the server has finished the request that was cut off; that request may have succeeded."""
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
        """Continues until the blob exists. If the session ended without a blob, the upload was lost."""
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
        is_sure = True  # a request that was cut off may still write, so the next one has a Content-Range
        while offset < len(data):
            piece = data[offset:offset + step]
            try:
                location, offset = self.patch(location, piece, offset, is_sure), offset + len(piece)
            except (Refused, *BROKEN):
                known, is_sure = offset, False
                location, offset = self.ask(location)
                if offset < known:
                    self.world.refuse_to_go_on(f"an upload went back from the acknowledged {known} to {offset}")
                self.world.count("resumed")
        return self.insist_on_commit(location, digest)

    def patch(self, location, piece, offset, is_sure):
        headers = {"Content-Type": "application/octet-stream"}
        if is_sure and self.random.random() < 0.3:  # chunked transfer: the length is not announced
            parts = iter([piece[:len(piece) // 2], piece[len(piece) // 2:]] if len(piece) > 1 else [piece])
            answer = self.call((202, 409), ("upload.write",), "PATCH", location, parts, headers, encode_chunked=True)
        else:
            headers["Content-Range"] = f"{offset}-{offset + len(piece) - 1}"
            answer = self.call((202, 409) if is_sure else (202, 409, 416), ("upload.write",), "PATCH", location, piece, headers)
        if answer.status != 202:  # the server still works on the request that was cut off, or that request wrote more than was reported
            raise Refused(answer.status)
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
            self.world.tags[tag] = None  # its state is unknown while it changes
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
        """The present state, which stays: its digest, or "gone"."""
        self.settle()
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
            self.settle()
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
            if answer.status == 404 and digest in self.world.blobs:  # no client deletes it in that time
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


# --- checks ----------------------------------------------------------------------------------------------------------
def wait_for_progress(world, before):
    until = time.monotonic() + PATIENCE
    while world.counts["pushed"] - before < 2:
        assert not world.wrong, world.wrong[0]
        assert time.monotonic() < until, "no push succeeds any more"
        time.sleep(0.02)


def check_acknowledged(place, world, blobs, tags):
    link = place.client.connection()
    for digest in blobs:
        answer = sijil_test.insist(lambda path=f"blobs/{digest}": place.call("GET", path, connection=link))
        assert answer.status == 200 and len(answer.body) == world.blobs[digest] and sha256(answer.body) == digest, \
            (digest, answer.status)
    for tag in tags:
        answer = sijil_test.insist(lambda path=f"manifests/{tag}": place.call("GET", path, connection=link))
        seen = sha256(answer.body) if answer.status == 200 else {404: "gone"}.get(answer.status, answer.status)
        assert seen == world.tags[tag], f"tag {tag} is {seen} instead of {world.tags[tag]}"
    link.close()


def sample(things, count, newest):
    """The newest entries, and as many others."""
    things = list(things)
    return things[-newest:] + random.sample(things[:-newest], min(count, len(things[:-newest])))
