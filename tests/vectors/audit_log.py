#!/usr/bin/python3
"""Checks a proof of the audit log with code that shares nothing with ours (docs/formats/audit-log.md).

usage: audit_log.py VKEY ENTRY-FILE PROOF-FILE    exit status 0: verified; 1: not; 77: no Ed25519 here
       audit_log.py --vectors FILE                recomputes the trees and notes of the vectors from their definition
Standard library, and python3-cryptography for Ed25519.
"""
import base64
import hashlib
import json
import sys

try:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
except ImportError:
    sys.exit(77)


def leaf_hash(data):
    return hashlib.sha256(b"\x00" + data).digest()


def node_hash(left, right):
    return hashlib.sha256(b"\x01" + left + right).digest()


def split(count):
    k = 1
    while 2 * k < count:
        k *= 2
    return k


def tree_hash(leaves):
    """RFC 6962 2.1, word for word."""
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return leaves[0]
    k = split(len(leaves))
    return node_hash(tree_hash(leaves[:k]), tree_hash(leaves[k:]))


def root_from(path, index, size, leaf):
    """The root that an inclusion path leads to, from the definition of the path (RFC 6962 2.1.1), from the top."""
    if size == 1:
        if path:
            raise ValueError("the path is too long")
        return leaf
    if not path:
        raise ValueError("the path is too short")
    k = split(size)
    if index < k:
        return node_hash(root_from(path[:-1], index, k, leaf), path[-1])
    return node_hash(path[-1], root_from(path[:-1], index - k, size - k, leaf))


def read_vkey(vkey):
    name, key_id, material = vkey.split("+", 2)
    raw = base64.b64decode(material, validate=True)
    if len(raw) != 33 or raw[0] != 1:
        raise ValueError("not an Ed25519 key")
    if hashlib.sha256(name.encode() + b"\n" + raw).digest()[:4].hex() != key_id:
        raise ValueError("the key id is not that of the key")
    return name, bytes.fromhex(key_id), Ed25519PublicKey.from_public_bytes(raw[1:])


def open_note(note, vkey):
    """The text of a note that this key has signed."""
    name, key_id, public = read_vkey(vkey)
    text, signatures = note.rsplit("\n\n", 1)
    text += "\n"
    for line in signatures.splitlines():
        dash, signer, encoded = line.split(" ")
        raw = base64.b64decode(encoded, validate=True)
        if dash == "\u2014" and signer == name and raw[:4] == key_id:
            public.verify(raw[4:], text.encode())
            return text
    raise ValueError("the note is not signed by this key")


def check(vkey, entry, proof):
    head, note = proof.split("\n\n", 1)
    lines = head.split("\n")
    if lines.pop(0) != "c2sp.org/tlog-proof@v1":
        raise ValueError("not a tlog-proof")
    if lines[0].startswith("extra "):
        lines.pop(0)
    index = int(lines.pop(0).removeprefix("index "))
    path = [base64.b64decode(line, validate=True) for line in lines]
    origin, size, root = open_note(note, vkey).split("\n")[:3]
    if origin != vkey.split("+", 1)[0]:
        raise ValueError("another log")
    if not 0 <= index < int(size):
        raise ValueError("the index is outside the log")
    if root_from(path, index, int(size), leaf_hash(entry)) != base64.b64decode(root, validate=True):
        raise ValueError("the path does not lead to the root")
    return index


def check_vectors(path):
    with open(path, encoding="utf-8") as file:
        vectors = json.load(file)
    tree = vectors["tree8"]
    leaves = [leaf_hash(bytes.fromhex(text)) for text in tree["leaves_hex"]]
    for size, root in enumerate(tree["roots_0_to_8"]):
        assert tree_hash(leaves[:size]).hex() == root, size
    for row in tree["inclusion"]:
        path = [bytes.fromhex(text) for text in row["proof"]]
        assert root_from(path, row["index"], row["size"], leaves[row["index"]]).hex() == tree["roots_0_to_8"][row["size"]]
    large = [leaf_hash(f"sijil-{i}".encode()) for i in range(70000)]
    assert tree_hash(large).hex() == vectors["size_70000"]["root"]
    for note in vectors["checkpoints"].values():
        open_note(note, vectors["log_key"]["vkey"])
    entry = bytes.fromhex(tree["leaves_hex"][5])
    assert check(vectors["log_key"]["vkey"], entry, vectors["tlog_proof_index_5_size_8"]) == 5


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "--vectors":
        check_vectors(sys.argv[2])
        return 0
    if len(sys.argv) != 4:
        print(__doc__, file=sys.stderr)
        return 2
    with open(sys.argv[2], "rb") as file:
        entry = file.read()
    with open(sys.argv[3], encoding="utf-8", newline="") as file:
        proof = file.read()
    try:
        print(f"verified: entry {check(sys.argv[1], entry, proof)}")
    except (ValueError, InvalidSignature) as problem:
        print(f"not verified: {problem!r}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
