#!/usr/bin/env python3
"""Whole requests over TLS against a gateway whose n-th allocation, file call, query or socket call fails.

Each case is one request. It is tried with each possible failure in turn. After each failure the gateway still runs, the answer was correct
or a well-formed 5xx (or the connection was closed without an answer), nothing is half done, and the same request works.

usage: gateway.py [CASE...]   a sample of the failures; all of them with SIJIL_FAULTS_ALL=1 (hours). SIJIL_FAULTS_SEED
repeats a sample. SIJIL_FAULTS_PROGRAM=sijil-keyd lets the key process fail instead. CASE:KIND:N is one failure, CASE:KIND:N- all from the n-th on. SIJIL_FAULT_TRACE=1 shows in the log
where each happens."""
import os
import sys
import threading
import time

from plan import ALL, WITHOUT_END, Bad, in_order, numbers, one_of, run_cases, series
import api_cases
import key_cases
import oci_cases
from aftermath import check_rows, end_uploads, nothing_is_left_over, the_log_verifies
from attempt import Try, World, call, check_answer, check_event, do_again, is_good, is_settled, readiness
from machine import Machine

KINDS = ("memory", "file", "query", "socket")  # no request starts a thread
PROGRAM = os.environ.get("SIJIL_FAULTS_PROGRAM", "sijild")
BAD_MAX = 10  # of one case: more are not needed
LONG = ("scrub-run", "collection-run")  # they wait for the next try of a job: only if named, or with all failures
LASTING_S = 5  # seconds after which a lasting failure ends: without memory liboauth2 copies a key again and again
SLOW_MAX = 3  # how often a request may be refused without a failure, because the machine is slow for a moment
CASES = {**oci_cases.CASES, **api_cases.CASES, **key_cases.CASES}
CASES_OF_KEYS = ("ready", "token", "upload-begin", "push-small", "blob-get-cold", "manifest-put", "manifest-get", "policy-load",
                 "signing-key-approve", "signing-key-revoke", "audit-checkpoint")


def keys_are_back(world, seconds):
    """Waits for a key process that could not write its ledger: it ends within this time, and is started again."""
    until = time.monotonic() + seconds
    while world.machine.processes["sijil-keyd"].poll() is None and time.monotonic() < until:
        time.sleep(0.05)
    world.machine.revive_keyd()
    do_again(world, oci_cases.token_by("GET")(world), "without the keys")
    do_again(world, Try(lambda: world.repository.call("POST", "blobs/uploads/"), 202), "without the keys")
    is_settled(world)


def prepare(world, case):
    """The gateway may still be recovering from an earlier failure when the next case is prepared."""
    until = time.monotonic() + 20
    while True:
        try:
            attempt = case(world)
            world.keep_tokens()
            return attempt
        except AssertionError:
            if time.monotonic() > until:
                raise
            is_settled(world)


def try_with(world, case, kinds, nth, count, tries=SLOW_MAX):
    """Returns whether a failure happened, and whether the answer was still good."""
    attempt = prepare(world, case)
    plan = world.machine.plans[PROGRAM]
    plan.arm(kinds, nth, count)
    given_back = threading.Timer(LASTING_S, plan.disarm)
    if count > 1:
        given_back.start()
    answer = call(attempt)
    given_back.cancel()
    plan.disarm()
    fired = plan.fired
    world.machine.lives()
    if fired and PROGRAM == "sijil-keyd":
        keys_are_back(world, 3 if kinds == ("file",) else 0)
    check_answer(attempt, answer)
    if fired == 0 and not is_good(attempt, answer):
        if tries > 1 and is_slow(answer):
            is_settled(world)
            return try_with(world, case, kinds, nth, count, tries - 1)
        raise Bad(f"without a failure: {answer and (answer.status, answer.body[:300])}")
    if fired or not is_good(attempt, answer):
        is_settled(world)
    check_event(world, answer)
    if attempt.after:
        attempt.after(is_good(attempt, answer))
    if not is_good(attempt, answer) and not getattr(attempt, "is_over", lambda: False)():
        do_again(world, attempt, "afterwards")
        if attempt.after:
            attempt.after(True)
    return fired > 0, is_good(attempt, answer)


def is_slow(answer):
    """Whether the request was refused with a Retry-After."""
    return answer is not None and answer.status == 503 and answer["Retry-After"]


def count(world, case, tries=SLOW_MAX):
    """Sends one request without failures, and counts its calls by the plan."""
    attempt = prepare(world, case)
    plan = world.machine.plans[PROGRAM]
    plan.count()
    answer = call(attempt)
    plan.disarm()
    if not is_good(attempt, answer):
        if tries > 1 and is_slow(answer):
            is_settled(world)
            return count(world, case, tries - 1)
        raise Bad(f"without a failure: {answer and (answer.status, answer.body[:300])}")
    return {kind: plan.counted(kind) for kind in KINDS}


def run_case(world, name):
    name, only = one_of(name)
    case, tried, unharmed, slowest = CASES[name], 0, 0, (0.0, "")
    asked, bad = count(world, case), []
    for kinds, lasting in series(name, only, KINDS):
        total = asked[kinds[0]]
        for nth in numbers(total, only, beyond=3):
            begun = time.monotonic()
            try:
                fired, good = try_with(world, case, kinds, nth, WITHOUT_END if lasting else 1)
                check_rows(world)
            except (Bad, AssertionError, LookupError, ValueError, OSError) as why:
                world.machine.plans[PROGRAM].disarm()
                bad.append(f"{kinds[0]} {nth}{'-' if lasting else ''} of {total}: {why!r}")
                if len(bad) >= BAD_MAX:
                    break
                continue
            tried += fired
            if tried % 100 == 0:
                end_uploads(world)
            unharmed += fired and good
            slowest = max(slowest, (time.monotonic() - begun, f"{kinds[0]} {nth}{'-' if lasting else ''}"))
    if bad:
        raise Bad("\n     ".join([*bad, f"{readiness(world)}"]))
    print(f"ok   {name:20} {' '.join(f'{n:4}' for n in asked.values())}   {tried:4} failures, {unharmed:3} not seen outside, "
          f"slowest {slowest[0]:.1f} s ({slowest[1]})", flush=True)
    return tried


def main():
    names = sys.argv[1:] or [name for name in in_order(CASES if PROGRAM == "sijild" else CASES_OF_KEYS) if ALL or name not in LONG]
    with Machine(failing=(PROGRAM,)) as machine:
        world = World(machine)
        status = run_cases(names, lambda name: run_case(world, name), "case", KINDS)
        print(f"the log of {the_log_verifies(world)} events verifies; {nothing_is_left_over(world)} blobs have their files")
    return status


sys.exit(main())
