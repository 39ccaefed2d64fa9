"""Checks that must succeed whenever Sijil is at rest, after any faults: of log, rows, pages and files.

`Integrity` checks from outside, with as little of Sijil's code as possible: it hashes the log itself, walks the folder of the
region itself, and lets PostgreSQL check its pages."""
import base64
import glob
import hashlib
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time

import sijil_test
from sijil_test import sha256

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../vectors"))
import audit_log  # a second implementation of proofs and notes

OBJECT_NAME = re.compile(r"^([0-9a-f]{32})\.(?:e(\d+)(?:\.\d+)?|[cs][0-9a-f]{32})$")  # .e0.1 and .s exist in buckets only
HEADER_SIZE, RECORD_SIZE, TAG_SIZE = 4096, 65520, 16  # docs/formats/sjb1.md


class Frontier:
    """Root of an append-only log (RFC 6962), stored as one hash for each set bit of its size."""

    def __init__(self):
        self.size, self.nodes = 0, []

    def add(self, leaf_hash):
        level = 0
        while self.nodes and self.nodes[-1][0] == level:
            leaf_hash = audit_log.node_hash(self.nodes.pop()[1], leaf_hash)
            level += 1
        self.nodes.append((level, leaf_hash))
        self.size += 1

    @property
    def root(self):
        if not self.nodes:
            return hashlib.sha256(b"").digest()
        root = self.nodes[-1][1]
        for _, left in reversed(self.nodes[:-1]):
            root = audit_log.node_hash(left, root)
        return root

    @property
    def stored(self):
        return b"".join(node for _, node in reversed(self.nodes))


class Integrity:
    def __init__(self, server, auditor):
        self.server, self.auditor = server, auditor
        self.frontier = Frontier()
        self.roots = {}                # roots by size, since the last checkpoint, because a checkpoint may be stored late
        self.entries = []              # (action, outcome) by number
        self.numbers = {}              # (gateway, start) -> its newest number
        self.last_checkpoint = 0
        self.unwraps = 0
        self.proven = 0
        self.vkey = server.client(auditor).api("GET", "/audit/key")["vkey"]

    # --- PostgreSQL ------------------------------------------------------------------------------------------------
    def postgres(self):
        """Folder of the programs, folder of the socket, folder of the data."""
        with open(f"/proc/{min(self.server.processes('postgres'))}/cmdline", "rb") as file:
            words = [word.decode() for word in file.read().split(b"\0")]
        socket = next(word.split("=", 1)[1] for word in words if word.startswith("--unix_socket_directories="))
        return os.path.dirname(words[0]), socket, words[words.index("-D") + 1]

    def database(self):
        return "sijil"

    def sql(self, text):
        programs, socket, _ = self.postgres()
        done = subprocess.run([programs + "/psql", "-XAtq", "-F", "\t", "-v", "ON_ERROR_STOP=1", "-h", socket, "-U", "postgres",
                               "-d", self.database(), "-c", text], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return [line.split("\t") for line in done.stdout.splitlines()]

    def wait_for_database(self, seconds):
        """Waits until its own server answers: while it starts, processes of a killed server may still answer the gateway."""
        until = time.monotonic() + seconds
        while True:
            try:
                return self.sql("SELECT 1")
            except (AssertionError, OSError, ValueError, StopIteration):  # it does not run yet, or accepts no connections yet
                assert time.monotonic() < until, f"PostgreSQL does not answer after {seconds} s"
                time.sleep(0.05)

    def number(self, text):
        return int(self.sql(text)[0][0])

    def check_pages(self):
        """Checks every page of every table and index, and that each index has each row, with PostgreSQL's own checker."""
        programs, socket, _ = self.postgres()
        done = subprocess.run([programs + "/pg_amcheck", "-h", socket, "-U", "postgres", "-d", self.database(), "--install-missing",
                               "--heapallindexed", "--parent-check"], capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr

    def check_checksums(self):
        """Verifies the checksum of every page on the disk; the server must be stopped."""
        data = os.path.join(self.server.folder, "postgres", "data")
        program = sorted(glob.glob("/usr/lib/postgresql/*/bin/pg_checksums"))[-1]
        words = [program, "--check", "-D", data]
        if os.geteuid() == 0:
            words = ["runuser", "-u", "postgres", "--", *words]
        done = subprocess.run(words, capture_output=True, text=True, cwd="/", timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        return int(re.search(r"Blocks scanned: +(\d+)", done.stdout)[1])

    # --- the log ---------------------------------------------------------------------------------------------------
    def check_log(self):
        """New entries continue those seen before; the hashes, the frontier and each signed checkpoint follow from them."""
        checkpoints = {int(size): (root, bytes.fromhex(note).decode()) for size, root, note in self.sql(
            "SELECT size, encode(root, 'hex'), encode(convert_to(note, 'UTF8'), 'hex') FROM audit_checkpoint "
            f"WHERE size > {self.last_checkpoint} ORDER BY size")}
        rows = self.sql("SELECT seq, encode(leaf_hash, 'hex'), convert_from(leaf, 'UTF8') FROM audit_entry "
                        f"WHERE seq >= {self.frontier.size} ORDER BY seq")
        for seq, leaf_hash, leaf in rows:
            assert int(seq) == self.frontier.size, f"the log has a gap before {seq}"
            found = audit_log.leaf_hash(leaf.encode())
            assert found.hex() == leaf_hash, f"the hash of entry {seq} is not that of its bytes"
            self.take_entry(int(seq), json.loads(leaf))
            self.frontier.add(found)
            self.roots[self.frontier.size] = self.frontier.root.hex()
        for size, (root, note) in checkpoints.items():
            self.check_checkpoint(size, root, note)
        size, stored = self.sql("SELECT size, encode(frontier, 'hex') FROM audit_log")[0]
        if int(size) == self.frontier.size:  # otherwise events were recorded in between
            assert stored == self.frontier.stored.hex(), "the stored frontier is not that of the entries"
        assert int(size) >= self.frontier.size
        return len(rows)

    def check_checkpoint(self, size, root, note):
        lines = audit_log.open_note(note, self.vkey).split("\n")
        stated = base64.b64decode(lines[2]).hex()
        assert int(lines[1]) == size and root == stated == self.roots.get(size), f"checkpoint {size} is not that of the entries"
        self.roots = {known: hashed for known, hashed in self.roots.items() if known > size}
        self.last_checkpoint = size

    def take_entry(self, seq, entry):
        assert entry["seq"] == seq, f"entry {seq} says that it is {entry['seq']}"
        self.entries.append((entry["act"], entry["out"]))
        instance, boot, number = entry["src"]
        hole = number - self.numbers.get((instance, boot), 0) - 1
        stated = entry.get("why", {}).get("count", 0) if entry["act"] == "log.unrecorded" else 0
        assert hole == stated, f"entry {seq} ({entry['act']}): {hole} events are missing before it, and it says {stated}"
        self.numbers[instance, boot] = number
        if entry["act"] == "keyd.unwraps":
            count = int(entry["res"].split("#")[1].split(",")[0])
            assert count >= self.unwraps, f"the key process counted {self.unwraps} keys, and then {count}"
            self.unwraps = count

    def check_events(self, named):
        """Checks that the event named in each answer exists, and has the action."""
        for number, actions in named.items():
            assert number < len(self.entries), f"event {number} was named in an answer and is not in the log"
            assert self.entries[number][0] in actions, f"event {number} is {self.entries[number]}, not one of {actions}"

    def check_proofs(self, numbers):
        """sijil-verify finds these entries in the signed log, and does not find a changed one."""
        client = self.server.client(self.auditor)
        with tempfile.TemporaryDirectory() as folder:
            entry, proof = folder + "/entry.json", folder + "/proof"
            for number in numbers:
                for path, what in ((entry, "entry"), (proof, "proof")):
                    target = f"/api/v1/audit/events/{number}/{what}"
                    answer = sijil_test.insist(lambda path=target: client.call("GET", path, scope="registry:admin:*"))
                    assert answer.status == 200, (number, what, answer.status, answer.body)
                    with open(path, "wb") as file:
                        file.write(answer.body)
                words = [sijil_test.program("sijil-verify"), "proof", "--key", self.vkey, "--entry", entry, proof]
                done = subprocess.run(words, capture_output=True, text=True, timeout=60)
                assert done.returncode == 0, (number, done.stderr)
                with open(entry, "ab") as file:
                    file.write(b" ")
                assert subprocess.run(words, capture_output=True, timeout=60).returncode == 1, "a changed entry verifies"
                self.proven += 1

    def check_keys_of_log(self):
        """The index of the log: under each key the numbers are 1..n, without a gap."""
        wrong = self.number(
            "SELECT count(*) FROM (SELECT n, row_number() OVER (PARTITION BY key ORDER BY seq) AS place FROM audit_key) k"
            " WHERE n <> place")
        assert wrong == 0, f"{wrong} keys of the log's index have gaps"

    # --- rows and files --------------------------------------------------------------------------------------------
    def files(self):
        """blob id -> {part or 'checkpoints': size} of the objects in the regions."""
        found, strangers = {}, []
        for name, size in self.server.objects():
            match = OBJECT_NAME.match(name)
            if not match:
                strangers.append(name)
                continue
            parts = found.setdefault(match[1], {})
            key = "checkpoints" if match[2] is None else int(match[2])
            parts[key] = parts.get(key, 0) + (1 if match[2] is None else size)
        assert not strangers, f"files that nobody made: {strangers[:5]}"
        return found

    def check_files(self):
        """Each row has its object, and each object has a row: a blob, an upload, or one to be swept. At rest only."""
        files = self.files()
        blobs = {row[0]: (int(row[1]), int(row[2])) for row in self.sql(
            "SELECT replace(blob_id::text, '-', ''), size_bytes, part FROM blob")}
        others = {row[0] for row in self.sql("SELECT replace(blob_id::text, '-', '') FROM upload UNION ALL "
                                             "SELECT replace(blob_id::text, '-', '') FROM abandoned_object")}
        nameless = [name for name in files if name not in blobs and name not in others]
        files = self.files() if nameless else files  # an object that was swept between the two reads is no finding
        nameless = [name for name in nameless if name in files]
        assert not nameless, f"{len(nameless)} objects without a row: {nameless[:3]}"
        for name, (size, part) in blobs.items():
            extents = {key: value for key, value in files.get(name, {}).items() if key != "checkpoints"}
            assert part in extents, f"blob {name} has a row and no object"
            least = size + TAG_SIZE * max(1, -(-size // RECORD_SIZE)) + HEADER_SIZE
            assert sum(extents.values()) > least, f"blob {name}: {extents} can't hold {size} bytes"
        return len(blobs), len(files)

    def check_rows(self):
        """Checks a rule that foreign keys can't express: all blobs of a manifest are linked to its repository."""
        lost = self.number(
            "SELECT count(*) FROM manifest_reference m WHERE NOT is_manifest AND NOT EXISTS (SELECT FROM repository_blob b"
            " WHERE b.repository_id = m.repository_id AND b.digest = m.digest)")
        assert lost == 0, f"{lost} blobs that manifests need are not linked"
        lost = self.number("SELECT count(*) FROM blob WHERE damaged_at IS NOT NULL")
        assert lost == 0, f"{lost} blobs are marked as damaged"

    def check(self, named, proofs=2):
        """Runs all checks and returns some figures. No client may write at the same time."""
        added = self.check_log()
        self.check_events(named)
        signed = [number for number in named if number < self.last_checkpoint]
        self.check_proofs(random.sample(signed, min(proofs, len(signed))))
        self.check_rows()
        blobs, objects = self.check_files()
        self.check_pages()
        return {"events": len(self.entries), "new": added, "blobs": blobs, "objects": objects}

    # --- content ---------------------------------------------------------------------------------------------------
    def link_all(self, repository):
        """Makes every stored blob of the project readable in that repository, also those that were deleted there."""
        self.sql("INSERT INTO repository_blob (repository_id, digest, blob_id) SELECT r.repository_id, b.digest, b.blob_id "
                 f"FROM blob b JOIN repository r USING (project_id) WHERE r.name = '{repository}' ON CONFLICT DO NOTHING")
        return [row[0] for row in self.sql("SELECT digest FROM blob ORDER BY digest")]

    @staticmethod
    def check_content(repository, digests):
        """Checks that each blob is served whole with its digest, which requires that it decrypts."""
        link = repository.client.connection()
        total = 0
        for digest in digests:
            answer = repository.call("GET", f"blobs/{digest}", connection=link)
            assert answer.status == 200, (digest, answer.status, answer.body[:200])
            assert sha256(answer.body) == digest, f"{digest} has other bytes"
            total += len(answer.body)
        link.close()
        return total
