#!/usr/bin/env python3
"""A foreign witness, that of omniwitness (tests/interop/witness/main.go), and our own one cosign the log of a whole registry, also over a change of the
log's key. INTEROP_PROGRAMS has the program."""
import json
import os
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../scenario"))
from sijil_test import Server, free_port, make_robot, program, run, wait_until
from witness_kit import Witness, finish

NAME = "omniwitness.test/w"
OVERLAP = 30  # seconds in which both keys of the log sign
server = Server()
state = {}


def path(name):
    return os.path.join(server.root, name)


def a_registry_names_its_log():
    server.start()
    state["auditor"], state["watcher"] = (server.client(make_robot(server, role, role, "")) for role in ("auditor", "witness"))
    state.update(state["auditor"].api("GET", "/audit/key"))
    assert server.stop() == 0


def start_witnesses():
    own = state["own"] = Witness(state["vkey"])
    own.accept(state["origin"])
    own.start()
    state["port"] = free_port()
    with open(path("foreign.log"), "wb") as log:
        state["process"] = subprocess.Popen([os.path.join(os.environ["INTEROP_PROGRAMS"], "witness"), state["vkey"], f"127.0.0.1:{state['port']}",
                                             own.path("tls.pem"), own.path("tls.key")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
    state["foreign"] = state["process"].stdout.readline().strip()
    assert state["foreign"].startswith(NAME + "+"), state["foreign"]


def published():
    return state["watcher"].call("GET", "/audit/checkpoint", scope="registry:admin:*")


def size():
    return int(published().body.split(b"\n")[1])


def grow(seconds=60):
    """One more event, and a checkpoint with it that both witnesses have cosigned."""
    before = size()
    state["auditor"].api("GET", "/audit/events?limit=1")
    wait_until(lambda: size() > before, seconds, "the cosigned log stands still")
    return published().body.decode()


def both_witnesses_cosign():
    """All of two. The policy has the foreign key as its program prints it, with the algorithm of a log."""
    own = state["own"]
    with open(path("policy"), "w", encoding="utf-8") as file:
        file.write(f"witness own {own.vkey} https://127.0.0.1:{own.port}\nwitness foreign {state['foreign']} https://127.0.0.1:{state['port']}\n"
                   "group both all own foreign\nquorum both\n")
    shutil.copyfile(own.path("tls.pem"), path("witnesses.pem"))  # where the gateway's user can read it
    server.options = ["--witness-policy", path("policy"), "--witness-ca-file", path("witnesses.pem"), "--witness-interval", "1"]
    server.start()
    wait_until(lambda: published().status == 200, 60, "the foreign witness does not cosign")
    for _ in range(3):
        note = grow()
    assert f"\u2014 {NAME} " in note and "\u2014 witness.test/w1 " in note, note
    print(f"     {size()} entries, cosigned by omniwitness and sijil-witness", flush=True)


def its_cosignature_is_verified():
    number = state["auditor"].api("GET", "/audit/events?limit=1&order=ascending")["events"][0]["entry"]["seq"]
    for what in ("entry", "proof"):
        with open(path(what), "wb") as file:
            file.write(state["auditor"].call("GET", f"/api/v1/audit/events/{number}/{what}", scope="registry:admin:*").body)
    with open(path("mine"), "w", encoding="utf-8") as file:
        file.write(f"witness foreign {state['foreign']}\nquorum foreign\n")
    done = subprocess.run([program("sijil-verify"), "proof", "--key", state["vkey"], "--entry", path("entry"), "--witness-policy", path("mine"), path("proof")],
                          capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0 and "1 of 1 witnesses have cosigned (foreign)" in done.stdout, (done.stdout, done.stderr)


def make_log_key():
    assert server.stop() == 0
    where = os.path.join(server.folder, "keyd")
    with open(server.passphrase, "rb") as secret:
        done = subprocess.run([program("sijil-keyd"), "--directory", where, "--passphrase-fd", str(secret.fileno()), "--add-log-key"], pass_fds=[secret.fileno()],
                              user=os.stat(where).st_uid, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    state["new"] = done.stdout.strip()
    subprocess.run([program("sijil"), "admin", "log-key", "sign", "--key", os.path.join(server.folder, "officer/approver.pem"), "--old", state["vkey"], "--new",
                    state["new"], "--overlap", f"{OVERLAP}s", "-o", path("order")], check=True, timeout=60)
    server.start()


def lines_by(name, note):
    return sum(line.startswith(f"\u2014 {name} ") for line in note.split("\n"))


def both_go_on_in_the_overlap():
    """The foreign one knows the old key alone; our own one both."""
    make_log_key()
    own = state["own"]
    own.write("logs", f"log {state['vkey']}\nlog {state['new']}\n")
    own.stop()
    own.start()
    assert lines_by(state["origin"], grow()) == 1
    with open(path("order"), encoding="utf-8") as file:
        operator = server.client(make_robot(server, "operator", "registry-admin", ""))
        operator.api("POST", "/log-key", json.load(file))
    state["until"] = time.monotonic() + OVERLAP
    wait_until(lambda: lines_by(state["origin"], grow()) == 2, 60, "the new key does not sign")
    note = grow()
    assert lines_by(NAME, note) == 1 and lines_by("witness.test/w1", note) == 1, note
    assert time.monotonic() < state["until"], "this machine is too slow for the overlap"


def a_witness_that_was_not_told_stands_still():
    """Behind the overlap the old key signs nothing, so who knows it alone cosigns nothing."""
    time.sleep(max(0.0, state["until"] + 1 - time.monotonic()))
    state["auditor"].api("GET", "/audit/events?limit=1")  # the next checkpoint is behind the overlap
    time.sleep(5)
    before = size()
    state["auditor"].api("GET", "/audit/events?limit=1")
    time.sleep(5)
    assert size() == before and lines_by(state["origin"], published().body.decode()) == 2, published().body
    print(f"     behind the overlap {before} entries stay the last cosigned ones", flush=True)


def it_goes_on_with_the_new_key():
    """Its operator changes the key, and not its state: what it has cosigned is by the origin. The policy of witnesses stays as it is."""
    began = time.monotonic()
    state["process"].stdin.write(state["new"] + "\n")
    state["process"].stdin.flush()
    assert state["process"].stdout.readline() == "trusted\n"
    note = grow()
    assert lines_by(state["origin"], note) == 1 and lines_by(NAME, note) == 1, note
    print(f"     cosigned again {time.monotonic() - began:.1f} s after the change of its key", flush=True)


def foreign_programs_read_the_log_under_its_new_key():
    """Go's sumdb, the libraries of transparency-dev and Tessera's fsck, which know the new key alone, read all tiles; with the old key nothing is read."""
    for key, works in ((state["new"], True), (state["vkey"], False)):
        done = subprocess.run([os.path.join(os.environ["INTEROP_PROGRAMS"], "tlog"), f"https://127.0.0.1:{server.port}", server.ca_file, key,
                               state["auditor"].token("registry:admin:*", fresh=True), str(size())], capture_output=True, text=True, timeout=120, check=False)
        assert (done.returncode == 0, "entries: sumdb tlog and note, merkle, formats, fsck" in done.stdout) == (works, works), (done.stdout, done.stderr)


def it_ends_in_order():
    state["process"].terminate()
    state["process"].wait(30)
    finish(state["own"])
    server.finish(False)


run(a_registry_names_its_log, start_witnesses, both_witnesses_cosign, its_cosignature_is_verified, both_go_on_in_the_overlap,
    a_witness_that_was_not_told_stands_still, it_goes_on_with_the_new_key, foreign_programs_read_the_log_under_its_new_key,
    it_ends_in_order)
