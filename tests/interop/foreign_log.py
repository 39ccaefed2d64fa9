#!/usr/bin/env python3
"""sijil-witness cosigns a log that Sijil did not write: Tessera's, on files (tests/interop/tessera/main.go), which publishes nothing without the cosignature.
INTEROP_PROGRAMS has the program."""
import os
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../scenario"))
from sijil_test import run
from witness_kit import Witness, finish

PROGRAM, PATIENCE = os.path.join(os.environ["INTEROP_PROGRAMS"], "tessera"), 6
witness = Witness()
state = {"size": 0}


class Tessera:
    def __init__(self, folder):
        self.folder = witness.path(folder)
        self.errors = open(witness.path(folder + ".log"), "wb")
        self.process = subprocess.Popen([PROGRAM, self.folder, witness.path("tessera.key"), witness.path("policy"), witness.path("tls.pem"), str(PATIENCE)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True)
        self.vkey = self.process.stdout.readline().strip()

    def say(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def add(self, count):
        self.say(str(count))
        return self.process.stdout.readline().strip()

    def published(self):
        with open(os.path.join(self.folder, "checkpoint"), encoding="utf-8") as file:
            return file.read()

    def stop(self):
        self.process.stdin.close()
        assert self.process.wait(30) == 0
        self.errors.close()

    def said(self):
        with open(self.errors.name, encoding="utf-8", errors="replace") as file:
            return file.read()


def a_log_is_listed_and_accepted():
    witness.write("policy", f"witness own {witness.vkey} https://127.0.0.1:{witness.port}\nquorum own\n")
    log = state["log"] = Tessera("one")
    assert log.vkey.startswith("tessera.test/log+"), log.vkey
    witness.write("logs", f"log {log.vkey}\n")
    witness.accept("tessera.test/log")
    witness.start()
    log.say("begin")


def grow(count):
    """Tessera publishes the next size, with a cosignature that code of our own finds good."""
    state["size"] += count
    assert state["log"].add(count) == str(state["size"]), state["log"].said()[-2000:]
    note = state["log"].published()
    assert note.split("\n")[:2] == ["tessera.test/log", str(state["size"])], note
    (line,) = [line for line in note.split("\n") if line.startswith("\u2014 witness.test/w1 ")]
    witness.check((line + "\n").encode(), note)


def what_tessera_publishes_is_cosigned():
    for count in (1, 254, 1, 1, 300):
        grow(count)
    print(f"     {state['size']} entries of Tessera's POSIX log, each checkpoint cosigned by sijil-witness", flush=True)


def without_the_witness_nothing_is_published():
    before = state["log"].published()
    witness.stop(signal.SIGKILL)
    assert "not published" in state["log"].add(10)
    assert state["log"].published() == before
    witness.start()
    state["size"] += 10
    grow(1)


def a_second_history_is_refused():
    """The folder is copied, and both copies grow under the same key: the witness has cosigned the first."""
    state["log"].stop()
    shutil.copytree(witness.path("one"), witness.path("two"))
    log = state["log"] = Tessera("one")
    log.say("begin")
    grow(5)
    log.stop()
    other = Tessera("two")
    assert other.vkey == log.vkey
    other.say("begin")
    assert "not published" in other.add(9) and int(other.published().split("\n")[1]) < state["size"]
    assert "consistency proof is bad: 422" in other.said(), other.said()[-2000:]
    assert witness.metric('sijil_witness_answers_total{status="422"}') > 0
    other.stop()


def it_ends_in_order():
    shown = finish(witness)
    assert "tessera.test/log" in shown and str(state["size"]) in shown, shown


run(a_log_is_listed_and_accepted, what_tessera_publishes_is_cosigned, without_the_witness_nothing_is_published, a_second_history_is_refused, it_ends_in_order)
