#!/usr/bin/env python3
"""The costs of the tests (tests/costs.txt), and the targets that one test needs. For script/test and tests/lint.

usage: suite.py check BUILD           checks that the declared costs keep their bounds, and belong to existing tests
       suite.py needs BUILD REGEX     targets that the tests whose names fit are built by
       suite.py dear                  the tests with a line, as one regular expression for ctest
       suite.py long                  those marked "long"
       suite.py table JUNIT           the ten tests that took longest, and those that took much more than they declare
Standard library only."""
import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CHEAP = 2         # seconds that count for a test without a line
ONE_MAX = 120     # seconds that one test may cost
ALL_MAX = 3725    # seconds of all tests together that are not long; a test mostly waits, so several run at a time
LONG_MAX = 1675   # seconds of the long tests together
CHEAP_MAX = 700
LATE = 4          # a test is late if it takes this many times its declared seconds
RUNS = {"scenario": "needs_scenario", "faults": "needs_faults", "programs": "needs_programs",
        "everything": "all"}  # label -> further targets that a test needs


def lines():
    """(seconds, name, whether it is long) of the tests with declared costs."""
    found = []
    with open(os.path.join(ROOT, "tests/costs.txt"), encoding="ascii") as file:
        for number, line in enumerate(file, 1):
            words = line.split("#", 1)[0].split()
            if not words:
                continue
            if not words[0].isdigit() or len(words) not in (2, 3) or words[2:] not in ([], ["long"]) or words[1] in [row[1] for row in found]:
                sys.exit(f"tests/costs.txt:{number}: not 'SECONDS NAME [long]', or a name that has a line already")
            found.append((int(words[0]), words[1], len(words) == 3))
    return found


def costs():
    """Name -> seconds of the tests with declared costs."""
    return {name: seconds for seconds, name, _ in lines()}


def tests(build, *options):
    shown = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1", *options], check=True, capture_output=True, text=True)
    return json.loads(shown.stdout)["tests"]


def check(build):
    declared, names = costs(), [test["name"] for test in tests(build)]
    cheap = CHEAP * len([name for name in names if name not in declared])
    wrong = [f"{name} is no test" for name in declared if name not in names]
    wrong += [f"{name} declares {seconds} s, and {CHEAP} s need no line" for name, seconds in declared.items() if seconds <= CHEAP]
    wrong += [f"{name} declares {seconds} s, and no test may cost more than {ONE_MAX} s: its long form belongs into script/soak"
              for name, seconds in declared.items() if seconds > ONE_MAX]
    long = sum(seconds for seconds, _, is_long in lines() if is_long)
    total = sum(declared.values()) - long + cheap
    for what, sum_of, bound in (("all tests that are not long", total, ALL_MAX), ("the long tests", long, LONG_MAX)):
        if sum_of > bound:
            wrong.append(f"{what} together declare {sum_of} s, and may cost {bound} s")
    if cheap > CHEAP_MAX:
        wrong.append(f"the cheap tests are counted for {cheap} s, and may cost {CHEAP_MAX} s")
    for line in wrong:
        print(f"tests/costs.txt: {line}")
    print(f"{len(names)} tests, {total} s of {ALL_MAX} s, and {long} s of {LONG_MAX} s in script/test --long; the dearest: " +
          ", ".join(f"{name} {seconds} s" for name, seconds in sorted(declared.items(), key=lambda row: -row[1])[:3]))
    return 1 if wrong else 0


def label(test):
    return next((entry["value"] for entry in test["properties"] if entry["name"] == "LABELS"), [])


def declared_commands(build):
    """Name -> command, as CMake wrote them. ctest shows no command of a test whose program is not built yet."""
    found, folders = {}, [build]
    while folders:
        folder = folders.pop()
        with open(os.path.join(folder, "CTestTestfile.cmake"), encoding="utf-8") as file:
            for line in file:
                if nested := re.match(r'subdirs\("([^"]+)"\)', line):
                    folders.append(os.path.join(folder, nested[1]))
                elif test := re.match(r"add_test\(\[(=*)\[(.+?)\]\1\] (.*)\)$", line):
                    found[test[2]] = re.findall(r'"([^"]*)"', test[3])
    return found


def needs(build, regex):
    """Programs in its command by their path in the build folder, and what its labels stand for."""
    chosen = tests(build, "-R", regex)
    if not chosen:
        sys.exit(f"no test is called {regex}; ctest --preset asan -N lists them")
    prefix, targets, declared = os.path.abspath(build) + os.sep, {"storage/migrations.c"}, declared_commands(build)
    for test in chosen:
        for word in test.get("command") or declared[test["name"]]:
            path = os.path.abspath(word)
            if path.startswith(prefix) and (not os.path.exists(path) or os.access(path, os.X_OK) and os.path.isfile(path)):
                targets.add(path[len(prefix):])
        targets.update(RUNS[name] for name in label(test) if name in RUNS)
    known = subprocess.run(["ninja", "-C", build, "-t", "targets", "all"], check=True, capture_output=True, text=True).stdout
    known = {line.rsplit(":", 1)[0] for line in known.splitlines()}
    print("\n".join(sorted(targets & known)))
    return 0


def expression(names):
    print("^(" + "|".join(map(re.escape, names)) + ")$")
    return 0


def dear():
    return expression(name for _, name, _ in lines())


def long():
    return expression(name for _, name, is_long in lines() if is_long)


def table(path):
    declared = costs()
    took = {case.get("name"): float(case.get("time", 0)) for case in xml.etree.ElementTree.parse(path).iter("testcase")}
    print(f"{len(took)} tests took {sum(took.values()):.0f} s; those that took longest, and what tests/costs.txt declares:")
    order = sorted(took, key=lambda name: -took[name])
    for name in order[:10]:
        print(f"  {took[name]:6.1f} s  of {declared.get(name, CHEAP):3} s  {name}")
    late = [name for name in order if took[name] > LATE * declared.get(name, CHEAP) + 10]
    if late:
        print(f"took much longer than declared, on this machine: {', '.join(late)}")
    return 0


COMMANDS = {"check": check, "needs": needs, "dear": dear, "long": long, "table": table}
if len(sys.argv) < 2 or sys.argv[1] not in COMMANDS:
    sys.exit(__doc__)
sys.exit(COMMANDS[sys.argv[1]](*sys.argv[2:]))
