#!/usr/bin/env python3
"""A foreign witness, that of omniwitness (tests/interop/witness/main.go), and our own one cosign the log of a whole registry. INTEROP_PROGRAMS has the
program."""
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../scenario"))
from sijil_test import Server, free_port, make_robot, program, run, wait_until
from witness_kit import Witness, finish

NAME = "omniwitness.test/w"
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
                                             own.path("tls.pem"), own.path("tls.key")], stdout=subprocess.PIPE, stderr=log, text=True)
    state["foreign"] = state["process"].stdout.readline().strip()
    assert state["foreign"].startswith(NAME + "+"), state["foreign"]


def published():
    return state["watcher"].call("GET", "/audit/checkpoint", scope="registry:admin:*")


def size():
    return int(published().body.split(b"\n")[1])


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
        before = size()
        state["auditor"].api("GET", "/audit/events?limit=1")
        wait_until(lambda old=before: size() > old, 60, "the cosigned log stands still")
    note = published().body.decode()
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


def it_ends_in_order():
    state["process"].terminate()
    state["process"].wait(30)
    finish(state["own"])
    server.finish(False)


run(a_registry_names_its_log, start_witnesses, both_witnesses_cosign, its_cosignature_is_verified, it_ends_in_order)
