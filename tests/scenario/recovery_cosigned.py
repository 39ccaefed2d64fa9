#!/usr/bin/env python3
"""The ceremony of docs/recovery.md in a registry with a witness: the statement has what the quorum has cosigned, the witness accepts the new log before it is signed, and
nothing is signed under the new origin before the quorum has cosigned it."""
import json
import os
import subprocess
import sys
import time

from apart import Apart, call, enrol
from sijil_test import make_person, make_robot, program, run, wait_until
from witness_kit import Witness, finish, renamed

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../vectors"))
import audit_log  # a second implementation of notes

REGISTRY = "registry.example/audit"
server = Apart()
state = {}


def cosigned():
    answer = server.client(state["watcher"]).call("GET", "/audit/checkpoint", scope="registry:admin:*")
    return answer.body.decode() if answer.status == 200 else ""


def size_of(note):
    return int(note.split("\n")[1]) if note else 0


def await_cosigned(size):
    wait_until(lambda: size_of(cosigned()) >= size, 60, "the log is not cosigned")
    return cosigned()


def a_registry_has_a_witness():
    server.prepare()
    state["watcher"] = make_robot(server, "watcher", "auditor", "")
    alice, officer = (make_person(server, name, role, "") for name, role in (("alice", "registry-admin"), ("dora", "security-officer")))
    state["alice"] = enrol(server, alice, officer, "approve")
    state["key"] = server.client(state["watcher"]).api("GET", "/audit/key")["vkey"]
    server.stop_gateway()
    witness = state["witness"] = Witness(state["key"], renamed(state["key"], REGISTRY + "/2"))
    witness.accept(REGISTRY)
    witness.start()
    with open(server.path("policy"), "w", encoding="utf-8") as file:
        file.write(f"witness w {witness.vkey} https://127.0.0.1:{witness.port}/\nquorum w\n")
    with open(server.path("sijild.conf"), "a", encoding="utf-8") as file:
        file.write(f'witness_policy = "{server.path("policy")}"\nwitness_ca_file = "{witness.path("tls.pem")}"\nwitness_interval = 1\n')
    server.start_gateway()
    assert server.serves()
    server.grow(2)
    state["older note"] = await_cosigned(server.log_size())
    server.rest()
    subprocess.run(["cp", "-a", server.data(), server.path("data.older")], check=True)
    server.postgres_does("restart")
    server.start_keyd()
    server.start_gateway()
    assert server.serves()
    server.grow(4)
    state["newest note"] = await_cosigned(server.log_size())
    with open(server.path("newest"), "w", encoding="utf-8") as file:
        file.write(state["newest note"])
    server.rest()
    server.put_database("older")
    server.start_keyd()
    state["left"] = server.log_size()


def a_start_says_that_entries_are_lost():
    """And not that a witness is missing: the witness can't help."""
    mark, begun = os.path.getsize(server.path("log")), time.monotonic()
    server.start_gateway()
    assert not server.serves()
    assert "it was truncated, or restored from an older backup" in server.said_since(mark) and time.monotonic() - begun < 30, server.said_since(mark)[-2000:]
    server.stop_gateway()


def plan(name, *more):
    return server.sijild("--recover-plan", server.path(name), "--recover-reason", "a disk is lost", *more)


def the_statement_has_what_the_quorum_has_cosigned():
    plan("from the database")
    shown = call(program("sijil"), "admin", "recover", "show", server.path("from the database"))
    note = shown.split("log that ends:\n", 1)[1]
    audit_log.open_note(note, state["key"])
    assert size_of(note) >= size_of(state["older note"]) and "witness.test/w1 " in note, note
    said = plan("newest plan", "--recover-checkpoint", server.path("newest"))
    assert renamed(state["key"], REGISTRY + "/2") in said, said
    shown = call(program("sijil"), "admin", "recover", "show", server.path("newest plan"))
    assert shown.endswith(state["newest note"]), shown


def a_checkpoint_that_nobody_has_cosigned_is_none():
    text = state["newest note"].split("\u2014 witness.test/w1 ")[0]
    with open(server.path("bare"), "w", encoding="utf-8") as file:
        file.write(text)
    plan("bare plan", "--recover-checkpoint", server.path("bare"))
    said = server.recover(server.sign_plan("bare plan", server.path("approver.pem"), state["alice"].path), code=1)
    assert "quorum" in said, said


def the_witness_sees_a_new_log():
    witness = state["witness"]
    witness.stop()
    witness.accept(REGISTRY + "/2")
    witness.start()
    server.recover(server.sign_plan("newest plan", server.path("approver.pem"), state["alice"].path))
    server.start_gateway()
    assert server.serves()
    server.grow()
    note = await_cosigned(server.log_size())
    key = server.client(state["watcher"]).api("GET", "/audit/key")["vkey"]
    assert key == renamed(state["key"], REGISTRY + "/2")
    with open(server.path("trusted"), "w", encoding="utf-8") as file:
        file.write(f"witness w {witness.vkey}\nquorum w\n")
    call("openssl", "ec", "-in", state["alice"].path, "-pubout", "-out", server.path("alice.pub.pem"))
    said = call(program("sijil-verify"), "succession", "--key", state["key"], "--root", server.path("approver.pub.pem"), "--signer", server.path("alice.pub.pem"), "--witness-policy",
                server.path("trusted"), server.path("newest plan.signed"))
    assert "1 of 1 witnesses have cosigned (w), and the quorum is met" in said and key in said, said
    text = audit_log.open_note(note, key)
    entry = server.client(state["watcher"]).call("GET", f"/api/v1/audit/events/{state['left']}/entry", scope="registry:admin:*")
    assert entry.status == 200 and f" {size_of(state['newest note'])} " in json.loads(entry.body)["res"], entry.body  # what the witness has seen
    assert text.split("\n")[0] == REGISTRY + "/2" and size_of(note) > state["left"]
    line = next(line for line in note.split("\n") if line.startswith("\u2014 witness.test/w1 "))
    witness.check((line + "\n").encode(), note)


def the_witness_has_both():
    server.stop_gateway()
    shown = finish(state["witness"])
    sizes = dict(line.rsplit(" ", 1) for line in shown.splitlines() if line.startswith(REGISTRY))
    assert f"{REGISTRY}/2" in sizes and int(sizes[REGISTRY]) >= size_of(state["newest note"]), shown  # the log went on until it was stopped


run(a_registry_has_a_witness, a_start_says_that_entries_are_lost, the_statement_has_what_the_quorum_has_cosigned, a_checkpoint_that_nobody_has_cosigned_is_none, the_witness_sees_a_new_log, the_witness_has_both,
    server=server)
