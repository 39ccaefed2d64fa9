#!/usr/bin/env python3
"""Foreign programs read the log over HTTPS (C2SP tlog-tiles): tests/interop/tlog/main.go, at sizes around those at which tiles fill. The log
is filled by tests/support/log_fill.c before the server starts, so that a checkpoint of each of these sizes is published. INTEROP_PROGRAMS has
the program, and INTEROP_SIGSTORE a folder of npm with @sigstore/verify. What is missing is named and left out."""
import base64
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../scenario"))
import sijil_test
from production import Production
from sijil_test import make_robot, program, run

HERE, MODULES = os.path.dirname(os.path.abspath(__file__)), os.environ.get("INTEROP_SIGSTORE", "")
SIZES = [str(size) for size in (1, 255, 256, 257, 65535, 65536, 65537, 70000)]
PROGRAM = os.path.join(os.environ["INTEROP_PROGRAMS"], "tlog")


class Filled(Production):
    """Has 70,000 events before its first own one."""

    def found(self):
        self.run(program("sijild"), "--migrate", "--database-owner", self.path("owner"))
        begun = time.monotonic()
        done = subprocess.run([os.path.join(sijil_test.BUILD, "tests/scenario/log_fill"), f"host={self.database_at} dbname=sijil_template "
                               "user=sijil_app", self.path("socket"), "1", *SIZES], capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, done.stderr
        print(f"     {SIZES[-1]} events were appended in {time.monotonic() - begun:.1f} s", flush=True)
        super().found()


server = Filled().start()
auditor = server.client(make_robot(server, "auditor", "auditor", ""))
witness = server.client(make_robot(server, "watcher", "witness", ""))


def read(client, *sizes):
    key = auditor.api("GET", "/audit/key")["vkey"]
    return subprocess.run([PROGRAM, f"https://127.0.0.1:{server.port}", server.ca_file, key, client.token("registry:admin:*", fresh=True), *sizes],
                          capture_output=True, text=True, timeout=600, check=False)


def foreign_programs_agree_at_each_size():
    begun = time.monotonic()
    done = read(auditor, *SIZES)
    print("     " + done.stdout.strip().replace("\n", "\n     "), flush=True)
    assert done.returncode == 0 and f"ok   {SIZES[-1]} entries" in done.stdout, done.stderr
    print(f"     in {time.monotonic() - begun:.1f} s", flush=True)


def keep(name, content):
    with open(server.path(name), "wb") as file:
        file.write(content)
    return server.path(name)


def proven(index, size):
    """The entry and its proof under the checkpoint of that size, as files."""
    where = f"/api/v1/audit/events/{index}/"
    answers = [auditor.call("GET", where + what, scope="registry:admin:*") for what in ("entry", f"proof?size={size}")]
    assert [answer.status for answer in answers] == [200, 200], answers
    return [keep(f"{index}-{size}.{what}", answer.body) for what, answer in zip(("entry", "proof"), answers)]


def npm(key, *names):
    return subprocess.run(["node", os.path.join(HERE, "tlog/verify.js"), key, *names], capture_output=True, text=True, timeout=120, check=False,
                          env={**os.environ, "NODE_PATH": MODULES + "/node_modules"})


def sigstore_verify_takes_the_proofs():
    """Its Merkle tree and its checkpoints, at each size; and it refuses a changed entry, hash, number, checkpoint and key."""
    if not os.path.isdir(MODULES + "/node_modules"):
        raise sijil_test.LeftOut("@sigstore/verify could not be had")
    key = auditor.api("GET", "/audit/key")["vkey"]
    asked = [(index, int(size)) for size in SIZES for index in sorted({0, int(size) // 2, int(size) - 1})]
    files = {pair: proven(*pair) for pair in asked}
    done = npm(key, *[name for pair in asked for name in files[pair]])
    assert done.returncode == 0 and done.stdout.split("\n")[:-1] == [f"{index} {size}" for index, size in asked], (done.stdout, done.stderr)
    entry, proof = files[35000, 70000]
    with open(entry, "rb") as one, open(proof, "rb") as other:
        content, text = one.read(), other.read().decode()
    lines = text.split("\n")
    hash = base64.b64encode(bytes([base64.b64decode(lines[2])[0] ^ 1]) + base64.b64decode(lines[2])[1:]).decode()
    forged = {"entry": keep("forged.entry", content[:-1] + bytes([content[-1] ^ 1])), "hash": keep("forged.hash", "\n".join([*lines[:2], hash, *lines[3:]]).encode()),
              "number": keep("forged.number", text.replace("index 35000\n", "index 35001\n").encode()),
              "checkpoint": keep("forged.checkpoint", text.replace("\n70000\n", "\n70001\n").encode())}
    for what, name in forged.items():
        done = npm(key, *((name, proof) if what == "entry" else (entry, name)))
        reason = "invalid checkpoint signature" if what == "checkpoint" else "calculated root hash does not match"
        assert done.returncode != 0 and reason in done.stderr, (what, done.stdout, done.stderr)
    name, identity, _ = key.split("+", 2)
    other = base64.b64encode(b"\1" + bytes(31) + b"\1").decode()
    done = npm(f"{name}+{identity}+{other}", entry, proof)
    assert done.returncode != 0 and "invalid checkpoint signature" in done.stderr, (done.stdout, done.stderr)
    print(f"     {len(asked)} proofs of inclusion", flush=True)


def a_foreign_program_meets_the_limits_of_a_witness():
    done = read(witness, "256")
    assert done.returncode != 0 and "403" in done.stderr and "entry" in done.stderr, (done.stdout, done.stderr)


def a_foreign_program_finds_an_edit():
    """The server finds it before, and gives the tile to nobody."""
    server.psql.ask("UPDATE audit_entry SET leaf = set_byte(leaf, 29, get_byte(leaf, 29) # 1) WHERE seq = 300")
    done = read(auditor, "70000")
    assert done.returncode != 0 and "503" in done.stderr, (done.stdout, done.stderr)


run(foreign_programs_agree_at_each_size, sigstore_verify_takes_the_proofs, a_foreign_program_meets_the_limits_of_a_witness, a_foreign_program_finds_an_edit, server=server)
