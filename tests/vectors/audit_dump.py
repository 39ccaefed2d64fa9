#!/usr/bin/env python3
"""A second reader of dumps of an audit log, written from docs/formats/audit-dump.md alone. Standard library; no code of the server.

usage: audit_dump.py --vectors FILE   checks the vectors
       audit_dump.py DUMP             checks the tree and the numbers under keys of a dump, and prints the statement about the heads of keys"""
import base64
import hashlib
import json
import struct
import sys

MAGIC = b"sijil-audit-dump/v1\n"
ORDER = "HFAETPCRSBGDUILMZ"


class Refused(Exception):
    pass


def records(data):
    if not data.startswith(MAGIC):
        raise Refused("no dump")
    at, before, count = len(MAGIC), -1, 0
    while True:
        if len(data) < at + 5:
            raise Refused("cut")
        kind, length = chr(data[at]), struct.unpack_from(">I", data, at + 1)[0]
        body = data[at + 5:at + 5 + length]
        if kind not in ORDER or length > 1 << 20 or len(body) < length or (kind == "H") != (count == 0):
            raise Refused(f"record {count}")
        place = ORDER.index(kind)
        if place < before and not (kind in "ETPC" and ORDER[before] in "ETPC"):
            raise Refused(f"record {count} is out of order")
        if kind == "Z":
            if body != struct.pack(">Q", count) + hashlib.sha256(data[:at]).digest() or at + 5 + length != len(data):
                raise Refused("the end does not fit")
            return
        yield kind, body
        at, before, count = at + 5 + length, place, count + 1


def take_name(body):
    return body[1:1 + body[0]], body[1 + body[0]:]


def node_hash(left, right):
    return hashlib.sha256(b"\1" + left + right).digest()


class Tree:
    def __init__(self):
        self.nodes, self.size = [], 0

    def add(self, leaf_hash):
        level = 0
        while self.nodes and self.nodes[-1][0] == level:
            leaf_hash, level = node_hash(self.nodes.pop()[1], leaf_hash), level + 1
        self.nodes.append((level, leaf_hash))
        self.size += 1

    @property
    def root(self):
        if not self.nodes:
            return hashlib.sha256(b"").digest()
        root = self.nodes[-1][1]
        for _, left in reversed(self.nodes[:-1]):
            root = node_hash(left, root)
        return root


class Seen:
    def __init__(self):
        self.tree, self.keys, self.leaves, self.origin, self.size, self.archived, self.released = Tree(), {}, {}, "", 0, 0, set()

    def statement(self):
        if self.released:
            raise Refused(f"the keys of {len(self.released)} released entries are not known")
        heads = Tree()
        for key in sorted(self.keys):
            heads.add(hashlib.sha256(b"\0" + key + struct.pack(">QQ", *self.keys[key])).digest())
        text = (base64.b64encode(root).decode() for root in (self.tree.root, heads.root))
        return f"sijil-key-heads/v1\n{self.origin}\n{self.size}\n{next(text)}\n{len(self.keys)}\n{next(text)}\n"


def take_state(seen, body):
    origin, rest = take_name(body)
    seen.origin = origin.decode()
    seen.size = struct.unpack_from(">Q", rest)[0]


def take_archive(seen, body):
    seen.archived = struct.unpack(">Q", body)[0]


def take_entry(seen, body):
    number, time, leaf_hash = struct.unpack_from(">Qq32s", body)
    action, rest = take_name(body[48:])
    outcome, leaf = take_name(rest)
    if number == seen.tree.size and not leaf and number < seen.archived:
        seen.released.add(number)
        seen.tree.add(leaf_hash)
        return
    if number != seen.tree.size or hashlib.sha256(b"\0" + leaf).digest() != leaf_hash:
        raise Refused(f"entry {number}")
    event = json.loads(leaf)
    if (event["seq"], event["ts"], event["act"], event["out"]) != (number, time, action.decode(), outcome.decode()):
        raise Refused(f"a column of entry {number}")
    seen.tree.add(leaf_hash)
    for name, ordinal in event["k"].items():
        seen.leaves[hashlib.sha256(name.encode()).digest()[:16], ordinal] = number


def take_run(seen, body):
    key, last, ordinal, count = struct.unpack_from(">16sqqI", body)
    numbers = struct.unpack(f">{count}Q", body[36:])
    before = seen.keys.get(key, (0, -1))[0]
    if before + count != ordinal or numbers[-1] != last:
        raise Refused(f"a run of a key that ends with entry {last}")
    for place, number in enumerate(numbers):
        if number not in seen.released and seen.leaves.pop((key, before + 1 + place), None) != number:
            raise Refused(f"entry {number} under a key")
    seen.keys[key] = ordinal, last


def check(data):
    """The tree, and the numbers under keys; Refused if they do not hold."""
    seen = Seen()
    takers = {"H": take_state, "A": take_archive, "E": take_entry, "R": take_run}
    for kind, body in records(data):
        try:
            takers.get(kind, lambda *_: None)(seen, body)
        except (ValueError, KeyError, IndexError, struct.error) as why:
            raise Refused(f"a record {kind}") from why
    if seen.tree.size != seen.size or seen.leaves:
        raise Refused("entries are missing, or stand under no key")
    return seen


def check_vectors(path):
    with open(path, encoding="utf-8") as file:
        vectors = json.load(file)
    for vector in vectors["dumps"]:
        data = base64.b64decode(vector["dump"])
        try:
            said = check(data).statement()
        except Refused as why:
            said = None
            assert vector["statement"] is None, (vector["name"], why)
        assert said == vector["statement"], vector["name"]
    print(f"{len(vectors['dumps'])} vectors of dumps agree")


if __name__ == "__main__":
    if sys.argv[1] == "--vectors":
        check_vectors(sys.argv[2])
    else:
        with open(sys.argv[1], "rb") as dump:
            print(check(dump.read()).statement(), end="")
