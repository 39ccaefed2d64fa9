#!/usr/bin/env python3
"""sijil-witness, whole: its key, its list, its answers over TLS to a log that is written here, kill -9 while two histories compete for its
cosignature, and the log of a real registry."""
import base64
import hashlib
import http.client
import os
import random
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from sijil_test import FINDINGS, Server, free_port, make_robot, program, run, trust_in, wait_until, work_folder

KILLS = int(sys.argv[1]) if len(sys.argv) > 1 else 8
ORIGIN = "log.test/audit"


def leaf_hash(data):
    return hashlib.sha256(b"\0" + data).digest()


def node(left, right):
    return hashlib.sha256(b"\1" + left + right).digest()


def split(count):
    return 1 << (count - 1).bit_length() - 1


def tree(hashes):
    if len(hashes) <= 1:
        return hashes[0] if hashes else hashlib.sha256(b"").digest()
    return node(tree(hashes[:split(len(hashes))]), tree(hashes[split(len(hashes)):]))


def consistency(old, hashes, whole=True):
    """RFC 6962, 2.1.2."""
    if old == len(hashes):
        return [] if whole else [tree(hashes)]
    k = split(len(hashes))
    if old <= k:
        return consistency(old, hashes[:k], whole) + [tree(hashes[k:])]
    return consistency(old - k, hashes[k:], False) + [tree(hashes[:k])]


def b64(data):
    return base64.b64encode(data).decode()


class Log:
    """A log whose operator signs what it likes."""

    def __init__(self, origin=ORIGIN):
        self.origin, self.key = origin, Ed25519PrivateKey.generate()
        public = b"\1" + self.key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        self.id = hashlib.sha256(origin.encode() + b"\n" + public).digest()[:4]
        self.vkey = f"{origin}+{self.id.hex()}+{b64(public)}"

    def note(self, hashes):
        text = f"{self.origin}\n{len(hashes)}\n{b64(tree(hashes))}\n"
        return f"{text}\n\u2014 {self.origin} {b64(self.id + self.key.sign(text.encode()))}\n"

    def body(self, old, hashes):
        proof = consistency(old, hashes) if 0 < old <= len(hashes) else []
        return (f"old {old}\n" + "".join(b64(hash) + "\n" for hash in proof) + "\n" + self.note(hashes)).encode()


def history(name, count, shared=0):
    return [leaf_hash(f"{'shared' if i < shared else name}-{i}".encode()) for i in range(count)]


class Witness:
    def __init__(self, *logs):
        self.root = tempfile.mkdtemp(prefix="sijil-witness-", dir=work_folder())
        self.port, self.process, self.directory = free_port(), None, os.path.join(self.root, "state")
        os.mkdir(self.directory, 0o700)
        self.write("passphrase", "a long passphrase\n")
        self.write("logs", "# who is watched\n" + "".join(f"log {vkey} https://x.example/\n" for vkey in logs))
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30", "-subj",
                        "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", self.path("tls.key"), "-out", self.path("tls.pem")],
                       check=True, capture_output=True)
        made = self.call("--init", "--name", "witness.test/w1", code=0).stdout.split()
        self.vkey = made[0]
        self.log = open(self.path("log"), "ab")

    def path(self, name):
        return os.path.join(self.root, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write(text)

    def words(self, *more):
        return [program("sijil-witness"), "--directory", self.directory, "--passphrase-file", self.path("passphrase"), *more]

    def call(self, *more, code):
        done = subprocess.run(self.words(*more), capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == code, (more, done.returncode, done.stdout, done.stderr)
        return done

    def accept(self, origin, code=0):
        done = subprocess.run([program("sijil-witness"), "--directory", self.directory, "--logs", self.path("logs"), "--accept", origin],
                              capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == code, (done.returncode, done.stderr)
        return done

    def start(self):
        self.process = subprocess.Popen(self.words("--logs", self.path("logs"), "--listen-port", str(self.port), "--tls-certificate",
                                                   self.path("tls.pem"), "--tls-key", self.path("tls.key")),
                                        stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL)
        wait_until(self.is_ready, 60, "the witness does not start")
        return self

    def is_ready(self):
        assert self.process.poll() is None, self.said()
        try:
            return self.get("/healthz")[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def stop(self, sig=signal.SIGTERM):
        self.process.send_signal(sig)
        code = self.process.wait(30)
        assert code == (0 if sig == signal.SIGTERM else -sig), (code, self.said())

    def said(self):
        with open(self.path("log"), encoding="utf-8", errors="replace") as file:
            return file.read()

    def request(self, method, path, body=None, headers=None):
        link = http.client.HTTPSConnection("127.0.0.1", self.port, context=trust_in(self.path("tls.pem")), timeout=20)
        try:
            link.request(method, path, body=body, headers=headers or {})
            answer = link.getresponse()
            return answer.status, answer.read(), answer.headers
        finally:
            link.close()

    def get(self, path):
        return self.request("GET", path)

    def add(self, body):
        return self.request("POST", "/add-checkpoint", body)

    def check(self, line, note):
        """The time of the cosignature, by code of our own."""
        name, key_id, material = self.vkey.split("+", 2)
        public = base64.b64decode(material)
        assert public[0] == 4 and hashlib.sha256(name.encode() + b"\n" + public).digest()[:4].hex() == key_id
        dash, signer, encoded = line.decode().rstrip("\n").split(" ")
        payload = base64.b64decode(encoded, validate=True)
        assert (dash, signer, payload[:4].hex(), len(payload)) == ("\u2014", name, key_id, 76), line
        seconds = struct.unpack(">Q", payload[4:12])[0]
        text = note.rsplit("\n\n", 1)[0] + "\n"
        Ed25519PublicKey.from_public_bytes(public[1:]).verify(payload[12:], f"cosignature/v1\ntime {seconds}\n{text}".encode())
        return seconds

    def metric(self, name):
        status, body, _ = self.get("/metrics")
        assert status == 200
        return next(float(line.rsplit(" ", 1)[1]) for line in body.decode().splitlines() if line.startswith(name + " "))


log = Log()
witness = Witness(log.vkey)
honest, forked = history("honest", 400, shared=10), history("forked", 400, shared=10)


def a_log_without_a_state_is_asked_for():
    witness.start()
    status, body, _ = witness.add(log.body(0, honest[:5]))
    assert status == 404 and b"--accept" in body, (status, body)
    assert "has no state here" in witness.said()
    assert "another sijil-witness" in witness.accept(ORIGIN, code=1).stderr
    witness.stop()
    witness.accept("other.test/log", code=2)
    witness.accept(ORIGIN)
    assert "goes on from it" in witness.accept(ORIGIN, code=1).stderr
    witness.start()


def checkpoints_are_cosigned_as_the_specification_says():
    hex_name = hashlib.sha256(ORIGIN.encode()).hexdigest()
    assert witness.get(f"/{hex_name}/checkpoint")[0] == 404
    status, body, headers = witness.add(log.body(0, honest[:5]))
    assert status == 200 and abs(witness.check(body, log.note(honest[:5])) - time.time()) < 60, (status, body)
    assert headers["Content-Type"] == "text/plain; charset=utf-8" and headers["Cache-Control"] == "no-store"
    assert witness.add(log.body(5, honest[:9]))[0] == 200
    status, body, headers = witness.add(log.body(5, honest[:9]))
    assert (status, body, headers["Content-Type"]) == (409, b"9\n", "text/x.tlog.size"), (status, body, headers)
    status, body, _ = witness.add(log.body(9, honest[:9]))
    assert status == 200 and witness.check(body, log.note(honest[:9])), (status, body)
    assert witness.add(log.body(9, history("others", 12)))[0] == 422
    status, body, _ = witness.add(log.body(9, [*history("others", 8), honest[8]]))
    assert status == 422 and b"two histories" in body, (status, body)
    stranger = Log()
    assert witness.add(stranger.body(9, honest[:10]))[0] == 403
    assert witness.add(Log("other.test/log").body(0, honest[:10]))[0] == 404
    assert witness.add(b"old 9\n\nnonsense")[0] == 400 and witness.add(b"")[0] == 400
    assert witness.add(log.body(12, honest[:10]))[0] == 400
    assert witness.add(b"old 0\n" + b"x" * (70 << 10))[0] == 413
    status, note, headers = witness.get(f"/{hex_name}/checkpoint")
    text, lines = note.decode().rsplit("\n\n", 1)
    first, second = lines.splitlines()
    assert status == 200 and text + "\n\n" + first + "\n" == log.note(honest[:9]) and witness.check((second + "\n").encode(), note.decode())
    status, head, headers = witness.request("HEAD", f"/{hex_name}/checkpoint")
    assert status == 200 and head == b"" and int(headers["Content-Length"]) == len(note)
    for method, path, expected in (("GET", "/add-checkpoint", 405), ("PUT", f"/{hex_name}/checkpoint", 405), ("GET", "/", 404), ("GET", "/a/b/c", 404),
                                   ("GET", f"/{hex_name[:-1]}/checkpoint", 404), ("GET", "/%2e%2e/checkpoint", 400), ("POST", "/metrics", 404)):
        assert witness.request(method, path)[0] == expected, (method, path)
    assert witness.metric('sijil_witness_answers_total{status="200"}') == 3 and witness.metric("sijil_witness_forks_total") == 1
    assert witness.metric('sijil_witness_logs{state="accepted"}') == 1 and witness.metric("sijil_witness_cosigned_last_seconds") > time.time() - 60


def a_body_in_chunks_or_cut_off_is_no_other_request():
    status, body, _ = witness.request("POST", "/add-checkpoint", iter([log.body(9, honest[:10])[:60], log.body(9, honest[:10])[60:]]))
    assert status == 200 and witness.check(body, log.note(honest[:10])), (status, body)
    link = trust_in(witness.path("tls.pem")).wrap_socket(socket.create_connection(("127.0.0.1", witness.port)), server_hostname="127.0.0.1")
    link.sendall(b"POST /add-checkpoint HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n\r\nold 10\n")
    link.close()
    assert witness.add(log.body(10, honest[:10]))[0] == 200


def one_process_has_the_folder():
    done = witness.call("--logs", witness.path("logs"), "--listen-port", str(free_port()), "--tls-certificate", witness.path("tls.pem"), "--tls-key",
                        witness.path("tls.key"), code=1)
    assert "another sijil-witness has this folder" in done.stderr, done.stderr
    witness.call("--init", "--name", "witness.test/w2", code=1)
    witness.write("wrong", "another passphrase\n")
    done = subprocess.run([program("sijil-witness"), "--directory", witness.directory, "--passphrase-file", witness.path("wrong"), "--logs",
                           witness.path("logs"), "--show"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2 and "passphrase" in done.stderr, (done.returncode, done.stderr)


def a_new_certificate_is_read_on_a_signal():
    old = ssl.get_server_certificate(("127.0.0.1", witness.port))
    subprocess.run(["openssl", "req", "-x509", "-new", "-key", witness.path("tls.key"), "-days", "20", "-subj", "/CN=127.0.0.1", "-addext",
                    "subjectAltName=IP:127.0.0.1", "-out", witness.path("tls.pem")], check=True, capture_output=True)
    witness.process.send_signal(signal.SIGHUP)
    wait_until(lambda: ssl.get_server_certificate(("127.0.0.1", witness.port)) != old, 10, "the old certificate stays")


cosigned = {}  # size -> the roots that were cosigned


def compete(hashes, stop):
    """Goes on from whatever size the witness says, with one history."""
    old = 10
    while not stop.is_set():
        new = min(old + random.randrange(0, 3), len(hashes))
        try:
            status, body, _ = witness.add(log.body(old, hashes[:new]))
        except (OSError, http.client.HTTPException):
            time.sleep(0.02)
            continue
        if status == 200:
            witness.check(body, log.note(hashes[:new]))
            cosigned.setdefault(new, set()).add(tree(hashes[:new]))
            old = new
        elif status == 409:
            old = int(body)


def kills_never_yield_two_roots_of_one_size():
    stop = threading.Event()
    threads = [threading.Thread(target=compete, args=(hashes, stop)) for hashes in (honest, forked, honest, forked)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(KILLS):
            time.sleep(random.random() * 0.8)
            witness.stop(signal.SIGKILL)
            witness.start()
        time.sleep(1)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    twice = {size: roots for size, roots in cosigned.items() if len(roots) > 1}
    assert not twice and len(cosigned) > 5, (twice, len(cosigned))
    print(f"     {KILLS} kills, {len(cosigned)} sizes", flush=True)


def the_log_of_a_registry_is_cosigned():
    """The registry's proof of consistency is the body that the witness takes."""
    with Server() as server:
        auditor, watcher = (server.client(make_robot(server, role, role, "")) for role in ("auditor", "witness"))
        own = Witness(auditor.api("GET", "/audit/key")["vkey"])
        origin = auditor.api("GET", "/audit/key")["origin"]
        own.accept(origin)
        own.start()

        def note():
            return watcher.call("GET", "/audit/checkpoint", scope="registry:admin:*").body.decode()

        def proof(old):
            answer = watcher.call("GET", f"/api/v1/audit/consistency?old={old}", scope="registry:admin:*")
            assert answer.status == 200, answer.body
            return answer.body
        first = note()
        status, body, _ = own.add(b"old 0\n\n" + first.encode())
        assert status == 200 and own.check(body, first), (status, body)
        size = int(first.split("\n")[1])
        for _ in range(3):
            wait_until(lambda old=size: int(note().split("\n")[1]) > old, 20, "the log stands still")
            request = proof(size)
            status, body, _ = own.add(request)
            text = request.decode().split("\n\n", 1)[1]
            assert status == 200 and own.check(body, text), (status, body)
            size = int(text.split("\n")[1])
        assert f"{origin} {size}" in finish(own)


def finish(some):
    some.stop()
    shown = some.call("--logs", some.path("logs"), "--show", code=0).stdout
    assert some.vkey in shown
    assert not any(mark in some.said() for mark in FINDINGS), some.said()[-2000:]
    some.log.close()
    shutil.rmtree(some.root)
    return shown


def it_ends_in_order():
    assert ORIGIN in finish(witness)


run(a_log_without_a_state_is_asked_for, checkpoints_are_cosigned_as_the_specification_says, a_body_in_chunks_or_cut_off_is_no_other_request,
    one_process_has_the_folder, a_new_certificate_is_read_on_a_signal, kills_never_yield_two_roots_of_one_size, the_log_of_a_registry_is_cosigned,
    it_ends_in_order)
