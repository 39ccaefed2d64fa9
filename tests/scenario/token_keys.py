#!/usr/bin/env python3
"""The keys of the registry's tokens follow each other while two gateways serve: no request is refused, and whoever verifies tokens by the published keys refuses none.
And what takes a day in the registry, begun at one gateway and finished at the other.

The programs are those that ship, but a key signs for 12 seconds and not for 30 days, and is published 6 seconds longer and not 2 days; gateways ask each half a second
and not each minute (tests/support/hasty_keyd.c)."""
import base64
import hashlib
import json
import os
import subprocess
import tempfile
import threading
import time

import fleet
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, utils
from signing_keys import Key, sign
from sijil_test import make_person, make_robot, program, run, wait_until

USED_S, ASKED_S = 2, 3  # how long a client uses a token, and how old the keys of an outsider may be: less than the 6 seconds
CLIENTS = 4

fleet.program = lambda name: program({"sijil-keyd": "sijil-keyd-hasty", "sijild": "sijild-hasty"}.get(name, name))
server = fleet.Fleet(2).start()
login = make_robot(server, "puller", "publisher", "main/models")
server.wait_known(login, "main/models/x")
places = server.clients(login)
LIST, SCOPE = "/v2/main/models/x/tags/list", "repository:main/models/x:pull,push"


def decoded(part):
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


class Outsider:
    """Verifies tokens by the published keys of one gateway, which it keeps for a while."""

    def __init__(self, place):
        self.place, self.keys, self.asked = place, {}, 0

    def verify(self, token):
        if time.monotonic() - self.asked > ASKED_S:
            self.asked = time.monotonic()
            self.keys = {key["kid"]: key for key in self.place.call("GET", "/.well-known/jwks.json").json["keys"]}
        head, payload, signature = token.split(".")
        key = self.keys[json.loads(decoded(head))["kid"]]  # KeyError: signed before it was published
        x, y, r, s = (int.from_bytes(part, "big") for part in (decoded(key["x"]), decoded(key["y"]), decoded(signature)[:32], decoded(signature)[32:]))
        point = ec.EllipticCurvePublicNumbers(x, y, ec.SECP256R1()).public_key()
        try:
            point.verify(utils.encode_dss_signature(r, s), f"{head}.{payload}".encode(), ec.ECDSA(hashes.SHA256()))
        except InvalidSignature:
            raise AssertionError("a token that the published key does not verify") from None
        return key["kid"]


class Worker(threading.Thread):
    """Fetches a token at one gateway, and uses it at both."""

    def __init__(self, number, ends):
        super().__init__()
        self.mine, self.ends, self.outsider = server.clients(login), ends, Outsider(server.clients(login)[number % 2])
        self.number, self.seen, self.requests, self.wrong = number, [], 0, []

    def run(self):
        try:
            while not self.ends.is_set() and not self.wrong:
                self.use(self.mine[self.number % 2].token(SCOPE, fresh=True))
        except Exception as wrong:  # pylint: disable=broad-except
            self.wrong.append(repr(wrong))

    def use(self, token):
        self.seen.append(self.outsider.verify(token))
        until = time.monotonic() + USED_S
        while time.monotonic() < until and not self.ends.is_set():
            for place in self.mine:
                answer = place.call("GET", LIST, headers={"Authorization": "Bearer " + token})
                self.requests += 1
                if answer.status not in (200, 404) or answer["WWW-Authenticate"] is not None:
                    self.wrong.append((answer.status, answer["WWW-Authenticate"], self.seen))
                    return
            time.sleep(0.05)


def the_keys_change_under_load():
    ends, began = threading.Event(), places[0].token(SCOPE)
    first = Outsider(places[1]).verify(began)
    workers = [Worker(number, ends) for number in range(CLIENTS)]
    for worker in workers:
        worker.start()
    try:
        wait_until(lambda: any(worker.wrong for worker in workers) or all(len({first, *worker.seen}) >= 3 for worker in workers), 90, "the keys do not change")
        time.sleep(USED_S)  # the last change is behind all of them
    finally:
        ends.set()
        for worker in workers:
            worker.join()
    assert not any(worker.wrong for worker in workers), [worker.wrong for worker in workers]
    print(f"{len({kid for worker in workers for kid in worker.seen})} keys, {sum(len(worker.seen) for worker in workers)} tokens, "
          f"{sum(worker.requests for worker in workers)} requests, none refused")
    refused = places[0].call("GET", LIST, headers={"Authorization": "Bearer " + began})  # its key has ended, though it lives for 300 s: the change is real
    assert refused.status == 401, refused.status


def another_key_of_an_approver_counts_after_a_day():
    """sijil-keyd begins the wait, and its clock is a day ahead when it is asked for the pin (tests/support/hasty_keyd.c)."""
    alice, bob = (make_person(server, who, "registry-admin", "") for who in ("alice", "bob"))
    principal = "ext:" + hashlib.sha256(f"{server.people.url}\nalice".encode()).hexdigest()

    def call(number, login, path, body):
        return server.clients(login)[number].call("POST", "/api/v1/keys/signing" + path, json.dumps(body), {"Content-Type": "application/json"}, scope="registry:admin:*")

    def ask(key):
        document = key.document()
        drafted = sign(document, key.path)
        answer = call(0, alice, "", drafted)
        assert answer.status == 201, answer.body
        return f"/{key.name}/approval", {"envelopes": [drafted, sign(document, server.path("approver.pem"))]}

    answer = call(0, bob, *ask(Key(principal, "approve")))
    assert answer.status == 201 and answer.json["state"] == "in force", answer.body
    key = Key(principal, "approve")
    path, approval = ask(key)
    with tempfile.TemporaryDirectory() as home:  # a wait is no failure, and says when it is over
        at, environment = f"127.0.0.1:{server.ports[0]}", {**os.environ, "HOME": home, "XDG_CONFIG_HOME": home, "SIJIL_CA_FILE": server.ca_file}

        def sijil(*words, text=None):
            done = subprocess.run([program("sijil"), *words], input=text, text=True, capture_output=True, env=environment, timeout=60, check=False)
            assert done.returncode == 0, (words, done.returncode, done.stderr)
            return done

        sijil("login", at, "--username", bob[0], "--ca-file", server.ca_file, text=bob[1])
        said = sijil("key", "approve", at, key.name, "--key", server.path("approver.pem"))
        assert "waits until" in said.stderr and "waits_until" in said.stdout, (said.stdout, said.stderr)
    answer = call(1, bob, path, approval)
    assert answer.status == 201 and answer.json["state"] == "in force", answer.body


run(another_key_of_an_approver_counts_after_a_day, the_keys_change_under_load, server=server)
