"""sijil-witness as a program, and logs whose operator signs what it likes: for the scenarios about witnesses.

Standard library and python3-cryptography only."""
import base64
import hashlib
import http.client
import http.server
import os
import shutil
import signal
import ssl
import struct
import subprocess
import tempfile
import threading

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from sijil_test import FINDINGS, free_port, program, trust_in, wait_until, work_folder

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


def renamed(vkey, name):
    """The same key under another name: its id differs."""
    material = vkey.split("+", 2)[2]
    key_id = hashlib.sha256(name.encode() + b"\n" + base64.b64decode(material)).digest()[:4].hex()
    return f"{name}+{key_id}+{material}"


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
    def __init__(self, *logs, name="witness.test/w1"):
        self.root = tempfile.mkdtemp(prefix="sijil-witness-", dir=work_folder())
        self.port, self.process, self.directory = free_port(), None, os.path.join(self.root, "state")
        os.mkdir(self.directory, 0o700)
        self.write("passphrase", "a long passphrase\n")
        self.write("logs", "# who is watched\n" + "".join(f"log {vkey} https://x.example/\n" for vkey in logs))
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30", "-subj",
                        "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", self.path("tls.key"), "-out", self.path("tls.pem")],
                       check=True, capture_output=True)
        made = self.call("--init", "--name", name, code=0).stdout.split()
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


def finish(some):
    some.stop()
    shown = some.call("--logs", some.path("logs"), "--show", code=0).stdout
    assert some.vkey in shown
    assert not any(mark in some.said() for mark in FINDINGS), some.said()[-2000:]
    some.log.close()
    shutil.rmtree(some.root)
    return shown


class Liar:
    """A witness of the policy that answers 200 to everything, with what `lie` makes of the checkpoint's text."""

    def __init__(self, certificate, name="witness.test/liar"):
        self.name, self.key, self.asked, self.lie = name, Ed25519PrivateKey.generate(), 0, self.other_text
        public = b"\4" + self.key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        self.id = hashlib.sha256(name.encode() + b"\n" + public).digest()[:4]
        self.vkey = f"{name}+{self.id.hex()}+{b64(public)}"
        liar = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                liar.asked += 1
                answer = liar.lie(body.split("\n\n", 1)[1].rsplit("\n\n", 1)[0] + "\n").encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format, *args):
                pass
        self.port = free_port()
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate + ".pem", certificate + ".key")
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def cosign(self, text, seconds):
        signature = self.key.sign(f"cosignature/v1\ntime {seconds}\n{text}".encode())
        return f"\u2014 {self.name} {b64(self.id + struct.pack('>Q', seconds) + signature)}\n"

    def other_text(self, text):
        """A good signature, for another size."""
        origin, size, root = text.split("\n")[:3]
        return self.cosign(f"{origin}\n{int(size) + 1}\n{root}\n", 1767225600)

    def close(self):
        self.server.shutdown()
        self.server.server_close()
