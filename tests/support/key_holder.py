"""A client's key, and proofs that it has the key (RFC 9449). Standard library and the openssl tool only."""
import base64
import hashlib
import json
import os
import re
import subprocess
import tempfile
import time


def encode(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def digest(text):
    return encode(hashlib.sha256(text.encode()).digest())


class Holder:
    """A key of P-256."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory()
        self.key = os.path.join(self.folder.name, "key.pem")
        subprocess.run(["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", self.key], check=True)
        der = subprocess.run(["openssl", "ec", "-in", self.key, "-pubout", "-outform", "DER"], check=True, capture_output=True).stdout
        self.jwk = {"crv": "P-256", "kty": "EC", "x": encode(der[-64:-32]), "y": encode(der[-32:])}
        self.thumbprint = digest(json.dumps(self.jwk, separators=(",", ":"), sort_keys=True))

    @classmethod
    def of(cls, key):
        """With a key that is there: the path of its PEM."""
        holder = cls.__new__(cls)
        holder.key = key
        der = subprocess.run(["openssl", "ec", "-in", key, "-pubout", "-outform", "DER"], check=True, capture_output=True).stdout
        holder.jwk = {"crv": "P-256", "kty": "EC", "x": encode(der[-64:-32]), "y": encode(der[-32:])}
        return holder

    def act(self, method, origin, asked, sent, token, nonce, **more):
        """A signature over exactly this request (docs/identity.md, "What is signed one by one")."""
        said = {"target": asked, "body": encode(hashlib.sha256(sent).digest()), **more}
        return self.proof(method, origin + asked.partition("?")[0], token, nonce, {"typ": "sijil-act+jwt"}, **said)

    def proof(self, method, url, token=None, nonce=None, header=None, **more):
        """`more` replaces claims; None leaves one out."""
        said = {"htm": method, "htu": url, "iat": int(time.time()), "jti": os.urandom(12).hex(), "nonce": nonce,
                "ath": None if token is None else digest(token), **more}
        said = {name: value for name, value in said.items() if value is not None}
        head = {"typ": "dpop+jwt", "alg": "ES256", "jwk": self.jwk, **(header or {})}
        text = encode(json.dumps(head).encode()) + "." + encode(json.dumps(said).encode())
        shown = subprocess.run(f"openssl dgst -sha256 -sign {self.key} | openssl asn1parse -inform DER", shell=True, check=True,
                               input=text.encode(), capture_output=True).stdout.decode()
        return text + "." + encode(b"".join(int(number, 16).to_bytes(32, "big") for number in re.findall(r"INTEGER +:([0-9A-F]+)", shown)))
