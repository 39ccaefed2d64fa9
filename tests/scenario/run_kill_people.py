"""People that ask for training runs while things are killed, and the programs of these runs; for run_kills.py."""
import http.client
import os
import random
import ssl
import threading
import time
import uuid

import sijil_test
from run_world import HOUR, PROJECT, REQUEST, canonical, seal, spec, utc
from sijil_test import make_robot, sha256

BROKEN = (OSError, http.client.HTTPException, ssl.SSLError)
MODEL = "application/vnd.cncf.model.manifest.v1+json"
EPOCH = "echo epoch $i; echo $i/3 > $SIJIL_HEARTBEAT; sh -c 'sleep 1; : MARK'"
GOOD = "mkdir /out/model; cat /in/digits/a.txt > /out/model/w.bin; echo '{\"loss\":1}' > /out/metrics.jsonl"
# Each with its share, and the states in which it may end: a kill may also fail a run, or lose all of its attempts.
PROGRAMS = {
    "good": (f"set -e; for i in 1 2 3; do {EPOCH}; done; {GOOD}", 6, "succeeded failed"),
    "failing": (f"for i in 1; do {EPOCH}; done; exit 3", 1, "failed"),
    "ignores TERM": (f"trap '' TERM; sh -c 'trap \"\" TERM; sleep 600; : MARK' & for i in $(seq 300); do {EPOCH}; done", 1, "cancelled failed"),
    "forks": ("for i in $(seq 200); do sh -c 'sleep 600; : MARK' & done; exit 4", 0.5, "failed"),
    "floods the log": (f"yes 'a line of the log' | head -c 3000000; {GOOD}", 0.5, "succeeded failed"),
    "fills the output": ("mkdir /out/model; dd if=/dev/zero of=/out/model/w bs=1M count=64 2> /dev/null || exit 5", 0.5, "failed"),
    "looks around": (f"for p in /root /home /var /etc/shadow /run/dbus /sys; do [ ! -e $p ] || exit 9; done; {GOOD}", 0.5, "succeeded failed"),
}


def push_programs(fleet, mark):
    """The artifacts of the programs by name, and the input."""
    place, found = fleet.client(make_robot(fleet, "pusher", "publisher", PROJECT)), {}
    files = {"data": ("a.txt", b"some digits\n"), **{name: ("train.sh", text.replace("MARK", mark).encode()) for name, (text, _, _) in PROGRAMS.items()}}
    for name, (title, content) in files.items():
        there = place.repository(f"{PROJECT}/{name.lower().replace(' ', '-')}")
        layer = {"mediaType": "application/octet-stream", "digest": there.push_blob(content), "size": len(content),
                 "annotations": {"org.opencontainers.image.title": title}}
        text = there.manifest(layers=[layer])
        assert there.put_manifest("latest", text).status == 201
        found[name] = {"repository": there.name, "digest": sha256(text)}
    return found


class People(threading.Thread):
    """Ask for runs, so that some are always open, and cancel those that would not end."""

    def __init__(self, fleet, alice, programs, wanted, seed):
        super().__init__(daemon=True)
        self.fleet, self.alice, self.programs, self.wanted = fleet, alice, programs, wanted
        self.asked, self.wrong, self.random = {}, [], random.Random(seed)
        self.goes_on, self.ends, self.repeated = threading.Event(), False, 0

    def run(self):
        try:
            while not self.ends:
                self.look()
                time.sleep(0.2)
        except Exception as error:  # otherwise nobody would notice
            if not self.ends:
                self.wrong.append(error)

    def look(self):
        open_runs = self.fleet.ask("SELECT run_id, state, pool FROM run WHERE ended_at IS NULL")
        for pool, count in self.wanted.items() if self.goes_on.is_set() else ():
            if sum(row[2] == pool for row in open_runs) < count:
                self.ask_for_one(pool)
        for run, state, _ in open_runs:
            if self.asked[run]["kind"] == "ignores TERM" and (state == "running" or not self.goes_on.is_set()):
                time.sleep(self.random.uniform(0, 1))
                self.insist("DELETE", "/" + run, None, (204, 404, 409))

    def ask_for_one(self, pool):
        kind = self.random.choices(list(PROGRAMS), [share for _, share, _ in PROGRAMS.values()])[0]
        now, wanted = time.time(), spec(code=self.programs[kind], inputs=[{"name": "digits", **self.programs["data"]}], argv=["/bin/sh", "/code/train.sh"], pool=pool)
        wanted["outputs"] = [{"name": "model", "repository": PROJECT + "/trained", "type": MODEL}]
        wanted["limits"]["grace_s"] = 1
        asked = {"schema": "sijil.run-request/v1", "run": str(uuid.uuid4()), "audience": self.alice.world.origin, "project": PROJECT,
                 "requester": self.alice.principal, "issued_at": utc(now), "expires": utc(now + HOUR), "nonce": os.urandom(16).hex(), "spec": wanted}
        self.asked[asked["run"]] = {"kind": kind, "pool": pool}
        self.insist("POST", "", canonical(seal(REQUEST, asked, self.alice.key)).decode(), (200, 201))

    def insist(self, method, path, body, good):
        """The same request until it is answered: a fault may refuse it, or lose its answer."""
        until = time.monotonic() + 120
        while True:
            try:
                answer = sijil_test.Client(self.fleet, self.alice.login, self.random.choice(self.fleet.ports)).call(
                    method, f"/api/v1/projects/{PROJECT}/runs{path}", body, {"Content-Type": "application/json"} if body else {}, scope="registry:admin:*")
                if answer.status in good:
                    return answer
                assert answer.status == 503 and answer["Retry-After"], (method, path, answer.status, answer.body)
            except BROKEN:
                pass
            except AssertionError as refused:
                if sijil_test.token_status(refused) != 503:
                    raise
            assert time.monotonic() < until, f"{method} {path} is not answered"
            self.repeated += 1
            time.sleep(0.2)

    def log_in_again(self):
        """A login lives for ten minutes."""
        self.alice.login = sijil_test.login_of(self.fleet, "alice")
