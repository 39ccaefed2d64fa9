"""Keys of people, and documents about them, made with openssl from docs/formats/documents.md alone."""
import base64
import hashlib
import json
import subprocess
import tempfile
import time

TYPE = "application/vnd.sijil.signing-key.v1+json"
DAY = 86400
FOLDER = tempfile.TemporaryDirectory()


def canonical(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def url64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def utc(seconds):
    """With milliseconds, so that two documents of one key differ."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{int(seconds * 1000) % 1000:03d}Z"


class Key:
    """A P-256 key in a file, and the documents about it."""

    def __init__(self, principal, purpose="sign", scope="", lifetime=30 * DAY):
        with tempfile.NamedTemporaryFile(dir=FOLDER.name, suffix=".pem", delete=False) as file:
            self.path = file.name
        subprocess.run(["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", self.path], check=True)
        self.point = subprocess.run(["openssl", "ec", "-in", self.path, "-pubout", "-outform", "DER"], check=True, capture_output=True).stdout[-65:]
        jwk = {"crv": "P-256", "kty": "EC", "x": url64(self.point[1:33]), "y": url64(self.point[33:])}
        self.name = url64(hashlib.sha256(canonical(jwk)).digest())
        self.principal, self.purpose, self.scope, self.lifetime = principal, purpose, scope, lifetime

    def document(self, version=1, replaces=None, **more):
        now = time.time()
        old = {"replaces": url64(replaces.point)} if replaces else {}
        return canonical({"schema": "sijil.document/v1", "kind": "signing-key", "scope": self.scope, "name": self.name, "version": version,
                          "effective_from": utc(now - 1), "expires": utc(now + self.lifetime),
                          "body": {"principal": self.principal, "public_key": url64(self.point), "purpose": self.purpose, **old}, **more})


def sign_twice(document, *keys):
    """One envelope with the signatures of several keys."""
    made = [sign(document, key.path) for key in keys]
    return {**made[0], "signatures": [one for envelope in made for one in envelope["signatures"]]}


def sign(document, key_file, kind=TYPE):
    signed = b"DSSEv1 %d %s %d %s" % (len(kind), kind.encode(), len(document), document)
    made = subprocess.run(["openssl", "dgst", "-sha256", "-sign", key_file], input=signed, capture_output=True, check=True)
    return {"payloadType": kind, "payload": base64.b64encode(document).decode(), "signatures": [{"sig": base64.b64encode(made.stdout).decode()}]}
