"""Shared by the tests of faults: the programs that fail on demand, the plan of failures, and the choice of failures.

A plan lies in a file that the program maps (tests/support/fault_program.c). Standard library only."""
import mmap
import os
import random
import signal
import struct
import sys
import time
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(1, os.path.join(HERE, "../scenario"))
SOURCE = os.path.dirname(os.path.dirname(HERE))
BUILD = os.environ.setdefault("SIJIL_BUILD", os.path.join(SOURCE, "build/asan"))
KINDS = ("memory", "file", "query", "socket", "thread")  # the kinds of base/fault.h
ALL = os.environ.get("SIJIL_FAULTS_ALL") == "1"
SAMPLE = int(os.environ.get("SIJIL_FAULTS_SAMPLE", "2"))  # of each case and kind, and also the last but one; 0: one of these
SEED = int(os.environ.get("SIJIL_FAULTS_SEED", str(int(time.time()))))
WITHOUT_END = 1 << 40
import sijil_test  # it is in a folder, and reads a build folder, that are named above
from sijil_test import FINDINGS

sijil_test.Client.keeps = False  # a call that fails may also be one for a new connection

# Otherwise a sanitizer's finding ends a program with status 1, as a refusal does.
for options in ("ASAN_OPTIONS", "UBSAN_OPTIONS"):
    os.environ[options] = ":".join(filter(None, [os.environ.get(options), "abort_on_error=1"]))


class Bad(Exception):
    pass


def no_findings(text):
    """Checks that a program's output has no finding of a sanitizer, with any exit status."""
    if any(mark in text for mark in FINDINGS):
        raise Bad(f"it crashed: {text[-6000:]}")


def real(name):
    return os.path.join(BUILD, "cmd", name)


def faulty(name):
    return os.path.join(BUILD, "tests/faults/cmd", name)


class Plan:
    """The questions of one program that are answered with a failure. See struct fault_plan."""

    WORDS = 4 + 2 * len(KINDS)

    def __init__(self, path):
        self.path = path
        with open(path, "wb") as file:
            file.write(bytes(8 * self.WORDS))
        os.chmod(path, 0o666)  # for any user of the program
        self.file = open(path, "r+b")
        self.map = mmap.mmap(self.file.fileno(), 8 * self.WORDS)

    def _set(self, word, value):
        struct.pack_into("=Q", self.map, 8 * word, value)

    def _get(self, word):
        return struct.unpack_from("=Q", self.map, 8 * word)[0]

    def arm(self, kinds, nth, count=1):
        """Lets `count` questions of these kinds fail, from the n-th on. The counts begin at 0."""
        self.disarm()
        for word in range(3, self.WORDS):
            self._set(word, 0)
        self._set(1, nth)
        self._set(2, nth + count - 1)
        self._set(0, sum(1 << KINDS.index(kind) for kind in kinds))

    def disarm(self):
        self._set(0, 0)

    def count(self):
        """Counts all kinds from now on, without a failure."""
        self.arm(KINDS, 0)

    def counted(self, kind):
        return self._get(4 + len(KINDS) + KINDS.index(kind))

    @property
    def fired(self):
        return sum(self._get(4 + i) for i in range(len(KINDS)))


def one_of(name):
    """CASE, CASE:KIND, CASE:KIND:N, CASE:KIND:N-, CASE:KIND:M..N or CASE:KIND:M..N/STEP: the case, and the wanted failures of it, or
    nothing."""
    name, *only = name.split(":")
    return name, only


def series(name, only, kinds):
    """The kinds that fail in this case, and whether each failure lasts. In the smallest sample a case has one or two of these, chosen by
    its name."""
    if only:
        return [((only[0],), only[-1].endswith("-"))]
    every = [((kind,), False) for kind in kinds] + [(("memory",), True)]
    return every if ALL or SAMPLE > 0 else every[zlib.crc32(name.encode()) % 4::4]


def numbers(total, only, beyond=None):
    """The failures that are tried, out of `total`. With all failures some numbers `beyond` the last are tried too, because the number of
    questions varies between runs."""
    if beyond is None:
        beyond = min(total, 1)
    if len(only) == 2:
        span, _, step = only[1].rstrip("-").partition("/")
        first, _, last = span.partition("..")
        return range(int(first), int(last or first) + 1, int(step or 1))
    if ALL or total <= max(SAMPLE, 1):
        return range(1, total + 1 + beyond)
    # The last but one breaks the connection of the answer: the command was done, and the answer is lost.
    tries = [total - 1, *random.sample(range(1, total + 1), max(SAMPLE, 1))]
    return sorted(set(tries)) if SAMPLE > 0 else [random.choice(tries)]


def in_order(cases):
    """The names of the cases. Cases that make rows come last, because lists would grow with each try."""
    return sorted(cases, key=lambda name: name.endswith("-create"))


def run_cases(names, run_case, what, kinds):
    """Runs each case. The exit status is 1 if one failed."""
    failed = tried = 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # stops the started processes, too
    random.seed(SEED)
    print(f"seed {SEED}; {'all failures' if ALL else f'{SAMPLE} of each {what} and kind'}: {', '.join(kinds)}", flush=True)
    for name in names:
        try:
            tried += run_case(name)
        except (Bad, AssertionError) as why:
            print(f"FAIL {name}: {why}", flush=True)
            failed += 1
    print(f"{len(names)} {what}s, {tried} failures; {failed} failed", flush=True)
    return 1 if failed else 0
