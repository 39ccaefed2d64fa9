#!/usr/bin/env python3
"""An attacker can write to the database but has no key: changed rows are not trusted, and a truncated log is found and reported."""
import os
import signal
import sys
import time

from sijil_test import Server, await_count, make_robot, run, wait_until

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../vectors"))
import audit_log  # a second implementation of notes

server = Server().start()
publisher = make_robot(server, "publisher", "publisher", "main/models")
auditor = make_robot(server, "auditor", "auditor", "")
STRANGE = "INSERT INTO audit_checkpoint (size, root, note) VALUES ({}, decode(repeat('00', 32), 'hex'), 'x')"


def checkpoint():
    """Size of the served checkpoint, whose signature is verified by independent code."""
    client = server.client(auditor)
    note = client.call("GET", "/api/v1/audit/checkpoint", scope="registry:admin:*")
    assert note.status == 200, (note.status, note.body)
    return int(audit_log.open_note(note.body.decode(), client.api("GET", "/audit/key")["vkey"]).split("\n")[1])


def size():
    return int(server.sql("SELECT size FROM audit_log"))


def said(words):
    with open(os.path.join(server.root, "log"), encoding="utf-8", errors="replace") as log:
        return sum(words in line for line in log)


def metric(name):
    lines = server.client().call("GET", "/metrics").body.decode().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name + " "))


def a_row_that_nobody_signed_turns_nothing_off():
    before = size()
    for role, strange in (("sijil_app", 1_000_000_000), ("postgres", 2_000_000_000)):
        server.sql(f"SET ROLE {role}; {STRANGE.format(strange)}")
        server.sql(f"SET ROLE {role}; {STRANGE.format(size() + 3)}")  # which a true one will need
        server.client(publisher).repository("main/models/digits").push_blob(os.urandom(1000))
        wanted = size()
        wait_until(lambda wanted=wanted: checkpoint() >= wanted, 10, "signing stopped")
    assert size() > before and server.client().call("GET", "/readyz").status == 200
    wait_until(lambda: said("was not signed by sijil-keyd") >= 1, 10, "the row is not noticed")
    wait_until(lambda: metric("sijil_audit_strange_checkpoints_total") >= 1, 10, "the row is not counted")
    server.stop()
    server.start()  # nor over a restart
    wanted = size()
    wait_until(lambda: checkpoint() >= wanted, 10, "signing stopped with the restart")


def what_is_cut_off_is_found_and_said():
    """The issue's attack: something acknowledged happens, and its event is deleted by the database's superuser."""
    server.client(server.admin).api("POST", "/organisations", {"name": "ghost"})
    cut = size() - 1
    wait_until(lambda: checkpoint() > cut, 10, "it is not signed")
    cut = 2  # two entries have a frontier that SQL can compute
    server.sql(
        f"DELETE FROM audit_entry WHERE seq >= {cut}; DELETE FROM audit_payload WHERE seq >= {cut};"
        f"DELETE FROM audit_run WHERE last >= {cut}; DELETE FROM audit_checkpoint WHERE size > {cut}; DELETE FROM audit_tile;"
        f"UPDATE audit_log SET size = {cut}, last_ts = (SELECT ts FROM audit_entry WHERE seq = {cut - 1}), frontier ="
        " (SELECT sha256('\\x01'::bytea || a.leaf_hash || b.leaf_hash) FROM audit_entry a, audit_entry b"
        " WHERE a.seq = 0 AND b.seq = 1)")
    wait_until(lambda: server.client().call("GET", "/readyz").status == 503, 10, "it is not noticed")
    ready = server.client().call("GET", "/readyz")
    assert any(word in ready.body for word in (b"truncated", b"restored", b"is missing")), ready.body  # as the signer says it, or what follows the log
    for path in ("/v2/main/models/digits/tags/list", "/v2/", "/api/v1/jobs"):
        answer = server.client().call("GET", path)
        assert answer.status == 503 and answer["Retry-After"] is None, (path, answer.status, answer.headers)
        assert b"not the one that was signed" in answer.body, (path, answer.body)
    assert metric("sijil_audit_forked") == 1
    await_count(lambda: said("is not the one that was signed; nothing is served"), 1, "lines of the log that say it")
    before = said("it was truncated")
    gateways = [process for process in server.processes("sijild") if process != server.process.pid]
    for process in gateways:
        os.kill(process, signal.SIGKILL)
    wait_until(lambda: said("it was truncated") > before, 30, "a start goes through")
    until = time.monotonic() + 3
    while time.monotonic() < until:
        try:
            assert server.client().call("GET", "/readyz").status == 503
        except OSError:  # no port listens: it does not start
            pass
        time.sleep(0.2)
    server.stop()
    server.ends_with = server.process.returncode  # a server that has served before tries again, another ends


run(a_row_that_nobody_signed_turns_nothing_off, what_is_cut_off_is_found_and_said, server=server)
