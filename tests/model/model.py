#!/usr/bin/env python3
"""usage: model.py ROOT [--large]   Checks tests/model/*.pml with Spin: what must hold holds in all states within the bounds, and each guard that is taken away breaks it.

Then compares the steps that the models name with the sources: each "@step FILE: FUNCTION" must be there, and docs/audit-model.md must name each of them.
--large takes the larger bounds of script/soak. Ends with 77 if Spin is not there."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
MEMORY_MB = 6000
SMALL = {"SIZE_MAX": 2, "EVENTS": 2}
WIDE = {"SIZE_MAX": 3, "EVENTS": 3}
# name, bounds, names that are defined. All of the first list hold; in each of the others something that must hold does not.
HOLDS = (
    ("two gateways, whoever owns the database", {**SMALL, "ACTS": 1, "DEATHS": 0}, ()),
    ("a gateway that dies, whoever owns the database", {**WIDE, "ACTS": 2, "DEATHS": 1, "GATEWAYS": 1}, ()),
    ("gateways that die: each acknowledged event is in each later tree", {**WIDE, "ACTS": 0, "DEATHS": 1}, ("KEPT",)),
    ("one gateway: nothing is acknowledged after a loss was signed", {**WIDE, "ACTS": 2, "DEATHS": 0, "GATEWAYS": 1}, ("NONE_AFTER_A_LOSS",)),
    ("sijil-keyd and the database restored under a gateway that goes on", {**WIDE, "ACTS": 2, "DEATHS": 0, "GATEWAYS": 1}, ("KEYD_RESTORE", "ONE_HISTORY")),
    ("a standby that is promoted: each acknowledged event is in each later tree", {**SMALL, "ACTS": 0, "DEATHS": 1}, ("STANDBY", "KEPT")),
    ("a recovery: each log has one history, and the statement names the end of the first", {**SMALL, "ACTS": 1, "DEATHS": 1, "GATEWAYS": 1}, ("RECOVERY",)),
    ("a pinned document is in each later tree", {**SMALL, "ACTS": 1, "DEATHS": 1, "GATEWAYS": 1}, ("PINS",)),
    ("sijil-keyd restored: cosigned checkpoints are one history", {**SMALL, "ACTS": 1, "DEATHS": 1, "GATEWAYS": 1}, ("KEYD_RESTORE", "WITNESS")),
)
# Guards behind which another one stands: they find the same earlier, or remember it. What must hold holds without any one of them.
SPARE = tuple((f"a gateway that dies, without the guard {name}", {**WIDE, "ACTS": 2, "DEATHS": 1, "GATEWAYS": 1}, (name,))
              for name in ("NO_COMPARE_NEWEST", "NO_REPORT", "NO_START_CHECK"))
LARGE = (
    ("two gateways, one dies, whoever owns the database", {**SMALL, "ACTS": 1, "DEATHS": 1}, ()),
    ("gateways that die twice: each acknowledged event is in each later tree", {**WIDE, "ACTS": 0, "DEATHS": 2}, ("KEPT",)),
    ("a gateway that dies twice, whoever owns the database", {"SIZE_MAX": 4, "EVENTS": 3, "ACTS": 3, "DEATHS": 2, "GATEWAYS": 1}, ()),
    ("a recovery while two gateways run", {**SMALL, "ACTS": 1, "DEATHS": 0}, ("RECOVERY",)),
    ("a standby that is promoted, three events", {**WIDE, "ACTS": 0, "DEATHS": 1}, ("STANDBY", "KEPT")),
    ("a standby that is promoted, a gateway that dies, whoever owns the database", {**SMALL, "ACTS": 1, "DEATHS": 1, "GATEWAYS": 1}, ("STANDBY",)),
    ("sijil-keyd restored, two gateways: cosigned checkpoints are one history", {**SMALL, "ACTS": 1, "DEATHS": 0}, ("KEYD_RESTORE", "WITNESS")),
)
BREAKS = (
    ("keyd does not compare", {**SMALL, "ACTS": 1, "DEATHS": 0}, ("NO_GROWTH",)),
    ("the signature leaves before the ledger is on disk", {**SMALL, "ACTS": 1, "DEATHS": 0}, ("RELEASE_FIRST",)),
    ("an append without its fence", {**SMALL, "ACTS": 0, "DEATHS": 0}, ("NO_FENCE", "KEPT")),
    ("reads are not compared with the signed tree", {**SMALL, "ACTS": 1, "DEATHS": 0}, ("NO_READ_CHECK",)),
    ("the signer does not look for what it acknowledged", {**WIDE, "ACTS": 2, "DEATHS": 0, "GATEWAYS": 1}, ("NONE_AFTER_A_LOSS", "NO_OWN_CHECK")),
    ("an append is not compared with what its gateway has appended", {**WIDE, "ACTS": 2, "DEATHS": 0, "GATEWAYS": 1}, ("NONE_AFTER_A_LOSS", "NO_CACHE_COMPARE")),
    ("sijil-keyd and the database restored, and the gateway does not look for what it has had signed", {**WIDE, "ACTS": 2, "DEATHS": 0, "GATEWAYS": 1},
     ("KEYD_RESTORE", "ONE_HISTORY", "NO_CHECK_NEWEST", "NO_OWN_CHECK", "NO_COMPARE_NEWEST")),
    ("a commit whose wait for the standby was broken off", {**SMALL, "ACTS": 0, "DEATHS": 0}, ("STANDBY", "NO_AWAIT", "KEPT")),
    ("a standby that nobody waits for", {**SMALL, "ACTS": 0, "DEATHS": 0}, ("STANDBY", "NO_SYNCHRONOUS", "KEPT")),
    ("a recovery under the same origin", {**SMALL, "ACTS": 1, "DEATHS": 0, "GATEWAYS": 1}, ("RECOVERY", "SAME_ORIGIN")),
    ("a plan that sijil-keyd does not compare with what it has signed", {**SMALL, "ACTS": 2, "DEATHS": 1, "GATEWAYS": 1}, ("RECOVERY", "NO_BEFORE")),
    ("a document is pinned without a proof", {**SMALL, "ACTS": 1, "DEATHS": 1, "GATEWAYS": 1}, ("PINS", "NO_INCLUSION")),
    ("a witness that does not compare", {**SMALL, "ACTS": 1, "DEATHS": 1, "GATEWAYS": 1}, ("KEYD_RESTORE", "WITNESS", "NO_WITNESS_CHECK")),
    ("a witness that comes back from a backup", {**SMALL, "ACTS": 1, "DEATHS": 1, "GATEWAYS": 1}, ("KEYD_RESTORE", "WITNESS", "WITNESS_RESTORE")),
    # What is not stopped, and docs/audit-model.md says so.
    ("sijil-keyd restored without a witness", {**SMALL, "ACTS": 1, "DEATHS": 1, "GATEWAYS": 1}, ("KEYD_RESTORE", "ONE_HISTORY")),
    ("an unsigned event, if its gateway dies", {**SMALL, "ACTS": 1, "DEATHS": 1, "GATEWAYS": 1}, ("KEPT",)),
    ("an unsigned event, if another gateway goes on", {**WIDE, "ACTS": 1, "DEATHS": 0}, ("NONE_AFTER_A_LOSS",)),
)


def search(bounds, names, *options):
    """(states, whether an assertion failed, seconds)."""
    folder = tempfile.mkdtemp(prefix="sijil-model-")
    try:
        defines = [f"-D{name}={value}" for name, value in bounds.items()] + [f"-D{name}" for name in names]
        subprocess.run(["spin", "-a", *defines, os.path.join(HERE, "log.pml")], cwd=folder, check=True, capture_output=True)
        subprocess.run(["cc", *options, "-w", "-DSAFETY", f"-DMEMLIM={MEMORY_MB}", "-o", "pan", "pan.c"], cwd=folder, check=True, capture_output=True)
        began = time.monotonic()
        said = subprocess.run(["./pan", "-E", "-m1000000"], cwd=folder, check=False, capture_output=True, text=True).stdout
        seconds = time.monotonic() - began
        if "assertion violated" in said:
            return 0, True, seconds
        found = re.search(r"errors: (\d+)", said)
        if found is None or found[1] != "0" or "Search not completed" in said or "max search depth" in said:
            sys.exit(f"the search ended early: {said[-3000:]}")
        return int(re.search(r"(\d+) states, stored", said)[1]), False, seconds
    finally:
        shutil.rmtree(folder)


def options_for(bounds, is_large):
    """To compile with an optimization takes longer than it saves in the search of one gateway; so does to fold states that have room as they are."""
    if is_large:
        return ["-O1", "-DCOLLAPSE"]
    return ["-O1"] if "GATEWAYS" not in bounds else ["-O0"]


def steps(root):
    """(file, function) of each step that the model names."""
    with open(os.path.join(HERE, "log.pml"), encoding="utf-8") as file:
        named = sorted(set(re.findall(r"@step ([a-z_/]+\.c): ([a-z_]+)", file.read())))
    with open(os.path.join(root, "docs/audit-model.md"), encoding="utf-8") as file:
        page = file.read()
    wrong = []
    for path, function in named:
        try:
            with open(os.path.join(root, path), encoding="utf-8") as file:
                text = file.read()
        except FileNotFoundError:
            text = ""
        if not re.search(rf"\b{function}\b *[({{=]", text):
            wrong.append(f"{path} has no {function}, which the model names")
        if f"`{function}`" not in page:
            wrong.append(f"docs/audit-model.md does not name {function} of {path}")
    return named, wrong


def main():
    root, is_large = sys.argv[1], "--large" in sys.argv
    if shutil.which("spin") is None:
        print("left out: there is no spin")
        return 77
    named, wrong = steps(root)
    for what, bounds, names in (LARGE if is_large else HOLDS + SPARE):
        states, broken, seconds = search(bounds, names, *options_for(bounds, is_large))
        print(f"{'BROKEN' if broken else 'holds':7} {what}: {states} states, {seconds:.1f} s", flush=True)
        if broken:
            wrong.append(f"does not hold: {what}")
    for what, bounds, names in (() if is_large else BREAKS):
        states, broken, seconds = search(bounds, names, "-O0")
        print(f"{'breaks' if broken else 'HOLDS':7} {what}: {seconds:.1f} s", flush=True)
        if not broken:
            wrong.append(f"nothing shows it: {what} ({states} states)")
    print(f"{len(named)} steps are named", *wrong, sep="\n")
    return 1 if wrong else 0


sys.exit(main())
