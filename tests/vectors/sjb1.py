#!/usr/bin/python3
"""A second implementation of docs/formats/sjb1.md, from the page alone.

Seals the cases of docs/formats/sjb1-vectors.json anew and compares every value; then opens the sealed bytes with code that knows only the
data key and the stored bytes. `--write FILE` makes the file (test_blob_vectors checks the C code with it). Exit status 77:
python3-cryptography is not installed.
"""
import hashlib
import hmac
import json
import struct
import sys

try:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
except ImportError:
    print("python3-cryptography is not installed: skipped")
    sys.exit(77)

RECORD = 65520
REGION = "test/here"
PROJECT = bytes(range(0x10, 0x20))
UPLOAD = bytes(range(0x20, 0x30))
DATA_KEY = bytes(range(0x80, 0xa0))

# name, with sha512, offsets at which a writer makes a checkpoint and then ends, length
CASES = [
    ("nothing", False, [], 0),
    ("three bytes, two digests", True, [], 3),
    ("one full record", False, [], 65520),
    ("one byte more than a record", False, [], 65521),
    ("interrupted before the first record, two digests", True, [4], 10),
    ("two extents", False, [65600], 131050),
    ("interrupted at the end of a full record", False, [65520], 65520),
    ("three extents", False, [65600, 131100], 196561),
]


def content(length):
    return bytes((7 * i + i // 251) & 0xff for i in range(length))


def hkdf(salt, info, length=32):
    prk = hmac.new(salt, DATA_KEY, hashlib.sha256).digest()
    out = block = b""
    counter = 1
    while len(out) < length:
        block = hmac.new(prk, block + info + bytes([counter]), hashlib.sha256).digest()
        out += block
        counter += 1
    return out[:length]


# ---- XChaCha20-Poly1305 (draft-irtf-cfrg-xchacha-03), from ChaCha20-Poly1305 and HChaCha20 ----

def rotate32(value, count):
    return ((value << count) | (value >> (32 - count))) & 0xffffffff


def quarter(state, a, b, c, d):
    for x, y, z, count in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
        state[x] = (state[x] + state[y]) & 0xffffffff
        state[z] = rotate32(state[z] ^ state[x], count)


def hchacha20(key, nonce):
    state = list(struct.unpack("<4I", b"expand 32-byte k") + struct.unpack("<8I", key) + struct.unpack("<4I", nonce))
    for _ in range(10):
        for i in range(4):
            quarter(state, i, 4 + i, 8 + i, 12 + i)
        for i in range(4):
            quarter(state, i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4)
    return struct.pack("<8I", *(state[:4] + state[12:]))


def xchacha(key, nonce):
    return ChaCha20Poly1305(hchacha20(key, nonce[:16])), bytes(4) + nonce[16:]


# ---- SHA-2 with a state that can be looked at (FIPS 180-4) ----

def primes(count):
    found = []
    candidate = 2
    while len(found) < count:
        if all(candidate % prime for prime in found):
            found.append(candidate)
        candidate += 1
    return found


def root_bits(number, root, bits):
    """The first `bits` bits of the fractional part of a square or cube root."""
    low, high = 0, number << bits
    target = number << (root * bits)
    while low < high:
        middle = (low + high + 1) // 2
        if middle ** root <= target:
            low = middle
        else:
            high = middle - 1
    return low & ((1 << bits) - 1)


class Sha2:
    def __init__(self, bits, rounds, letter, rotations):
        self.bits, self.rounds, self.letter, self.rotations = bits, rounds, letter, rotations
        self.mask = (1 << bits) - 1
        self.block = bits * 2
        self.constants = [root_bits(prime, 3, bits) for prime in primes(rounds)]
        self.initial = [root_bits(prime, 2, bits) for prime in primes(8)]

    def rotate(self, value, count):
        return ((value >> count) | (value << (self.bits - count))) & self.mask

    def sigma(self, value, which):
        a, b, c = self.rotations[which]
        last = self.rotate(value, c) if which < 2 else value >> c
        return self.rotate(value, a) ^ self.rotate(value, b) ^ last

    def compress(self, h, block):
        w = list(struct.unpack(">16" + self.letter, block))
        for i in range(16, self.rounds):
            w.append((self.sigma(w[i - 2], 3) + w[i - 7] + self.sigma(w[i - 15], 2) + w[i - 16]) & self.mask)
        a, b, c, d, e, f, g, k = h
        for i in range(self.rounds):
            t = (k + self.sigma(e, 1) + ((e & f) ^ (~e & g)) + self.constants[i] + w[i]) & self.mask
            u = (self.sigma(a, 0) + ((a & b) ^ (a & c) ^ (b & c))) & self.mask
            a, b, c, d, e, f, g, k = (t + u) & self.mask, a, b, c, (d + t) & self.mask, e, f, g
        return [(x + y) & self.mask for x, y in zip(h, (a, b, c, d, e, f, g, k))]

    def state(self, data):
        h = self.initial
        whole = len(data) // self.block * self.block
        for at in range(0, whole, self.block):
            h = self.compress(h, data[at:at + self.block])
        return (b"SJSHA" + {32: b"256", 64: b"512"}[self.bits] + struct.pack(">8" + self.letter, *h) +
                struct.pack(">Q", len(data)) + data[whole:].ljust(self.block, b"\0"))


SHA256 = Sha2(32, 64, "I", ((2, 13, 22), (6, 11, 25), (7, 18, 3), (17, 19, 10)))
SHA512 = Sha2(64, 80, "Q", ((28, 34, 39), (14, 18, 41), (1, 8, 7), (19, 61, 6)))


# ---- Sealing ----

class Random:
    """The random bytes of the store, in the order of their use."""

    def __init__(self, name):
        self.name, self.count, self.drawn = name, 0, b""

    def draw(self, length):
        self.count += 1
        out = hashlib.sha256(f"{self.name} {self.count}".encode()).digest()[:length]
        self.drawn += out
        return out


def prefixed(value):
    return struct.pack(">I", len(value)) + value


def nonce(index, last):
    return struct.pack(">Q", index) + bytes([0, 0, 0, 1 if last else 0])


def format_extents(extents):
    return struct.pack(">I", len(extents)) + b"".join(
        struct.pack(">Q", first) + salt + struct.pack(">I", part) for first, salt, part in extents)


def make_header(blob):
    start = (b"SJB1" + bytes([1, 16, 0, 0]) + blob + PROJECT + hashlib.sha256(REGION.encode()).digest()[:16])
    h = hashlib.sha256(start).digest()
    return (start + hkdf(h, b"sjb1 commit")).ljust(4096, b"\0"), h


def seal_checkpoint(h, blob, epoch, sequence, data, records, extents, sha512, random_nonce):
    bound = b"".join(prefixed(field) for field in (UPLOAD, blob, PROJECT, struct.pack(">Q", epoch),
                                                   struct.pack(">Q", sequence), struct.pack(">Q", len(data))))
    states = [SHA256.state(data)] + ([SHA512.state(data)] if sha512 else [])
    plain = (bytes([len(states)]) + b"".join(prefixed(state) for state in states) + format_extents(extents) +
             prefixed(data[records * RECORD:]))
    cipher, short_nonce = xchacha(hkdf(h, b"sjb1 checkpoint"), random_nonce)
    return b"SJC1" + bound + random_nonce + cipher.encrypt(short_nonce, plain, bound), plain


def seal_case(name, sha512, stops, length):
    random, data = Random(name), content(length)
    blob = bytearray(random.draw(16))
    blob[6], blob[8] = blob[6] & 0x0f | 0x40, blob[8] & 0x3f | 0x80
    blob = bytes(blob)
    header, h = make_header(blob)
    case = {"name": name, "sha512": sha512, "stops": stops, "length": length, "blob": blob.hex(), "h": h.hex(),
            "commitment": header[56:88].hex(), "header": header[:88].hex(), "checkpoints": [], "files": []}
    extents, sealed, files = [], 0, {}
    for epoch, stop in enumerate(stops + [None], 1):
        salt, trailer_salt = random.draw(16), random.draw(16)
        key = hkdf(h, b"sjb1 data" + salt)
        until = length if stop is None else stop
        records = max(0, (until - 1) // RECORD) if stop is not None else max(1, (until + RECORD - 1) // RECORD)
        body = b"".join(AESGCM(key).encrypt(nonce(i, stop is None and i == records - 1),
                                            data[i * RECORD:min((i + 1) * RECORD, until)], None)
                        for i in range(sealed, records))
        if records > sealed:
            part = len(extents)
            extents.append((sealed, salt, part))
            files[part] = header + body
            case.setdefault("data_keys", []).append(key.hex())
        sealed = records
        if stop is not None:
            stored, plain = seal_checkpoint(h, blob, epoch, epoch, data[:stop], sealed, extents, sha512,
                                            random.draw(24))
            entry = {"offset": stop, "digest": hashlib.sha256(stored).hexdigest()}
            if len(stored) <= 2048:
                entry.update({"state": plain.hex(), "stored": stored.hex()})
            case["checkpoints"].append(entry)
            continue
        digests = bytes([1]) + hashlib.sha256(data).digest()
        if sha512:
            digests += bytes([2]) + hashlib.sha512(data).digest()
        plain = (struct.pack(">QQ", length, sealed) + PROJECT + bytes([2 if sha512 else 1]) + digests +
                 format_extents(extents))
        footer = struct.pack(">I", 16 + len(plain) + 16) + b"SJT1"
        box = AESGCM(hkdf(h, b"sjb1 trailer" + trailer_salt)).encrypt(bytes(12), plain, footer)
        files[part] += trailer_salt + box + footer
        case.update({"part": part, "trailer_plain": plain.hex(), "trailer": (trailer_salt + box + footer).hex()})
    for part, stored in sorted(files.items()):
        case["files"].append({"part": part, "size": len(stored), "sha256": hashlib.sha256(stored).hexdigest()})
    case["random"] = random.drawn.hex()
    return case, blob, files


# ---- Opening: only from the stored bytes ----

def open_blob(blob, files, part):
    header, h = make_header(blob)
    stored = files[part]
    assert stored[:4096] == header
    footer = stored[-8:]
    size = struct.unpack(">I", footer[:4])[0]
    assert footer[4:] == b"SJT1"
    trailer = stored[-8 - size:-8]
    plain = AESGCM(hkdf(h, b"sjb1 trailer" + trailer[:16])).decrypt(bytes(12), trailer[16:], footer)
    length, records = struct.unpack(">QQ", plain[:16])
    assert plain[16:32] == PROJECT
    at, digests = 33, {}
    for _ in range(plain[32]):
        algorithm, width = {1: ("sha256", 32), 2: ("sha512", 64)}[plain[at]]
        digests[algorithm] = plain[at + 1:at + 1 + width]
        at += 1 + width
    count = struct.unpack(">I", plain[at:at + 4])[0]
    extents = [struct.unpack(">Q16sI", plain[at + 4 + 28 * i:at + 32 + 28 * i]) for i in range(count)]
    assert len(plain) == at + 4 + 28 * count and extents[-1][2] == part
    data = b""
    for i in range(records):
        first, salt, number = [extent for extent in extents if extent[0] <= i][-1]
        start = 4096 + (i - first) * 65536
        last = i == records - 1
        sealed = files[number][start:start + (length - i * RECORD if last else RECORD) + 16]
        data += AESGCM(hkdf(h, b"sjb1 data" + salt)).decrypt(nonce(i, last), sealed, None)
    assert len(data) == length
    for algorithm, value in digests.items():
        assert hashlib.new(algorithm, data).digest() == value
    return data


def main():
    assert SHA256.state(b"")[8:40].hex().startswith("6a09e667bb67ae85")
    cases = []
    for name, sha512, stops, length in CASES:
        case, blob, files = seal_case(name, sha512, stops, length)
        assert open_blob(blob, files, case["part"]) == content(length), name
        cases.append(case)
    made = {"about": "docs/formats/sjb1.md, section 9: byte i of the content is 7 * i + i / 251, modulo 256",
            "region": REGION, "project": PROJECT.hex(), "upload": UPLOAD.hex(), "data_key": DATA_KEY.hex(),
            "cases": cases}
    if len(sys.argv) == 3 and sys.argv[1] == "--write":
        with open(sys.argv[2], "w", encoding="ascii") as file:
            json.dump(made, file, indent=1)
            file.write("\n")
        return 0
    with open(sys.argv[1], encoding="ascii") as file:
        stated = json.load(file)
    for mine, theirs in zip(cases, stated["cases"]):
        for key in mine.keys() | theirs.keys():
            if mine.get(key) != theirs.get(key):
                print(f"{mine['name']}: {key} differs")
                return 1
    if made != stated:
        print("the files differ")
        return 1
    print(f"{len(cases)} cases agree")
    return 0


if __name__ == "__main__":
    sys.exit(main())
