#!/usr/bin/env python3
"""usage: measure.py BUILD REGEX   Measures the cost of each test that the regular expression finds: seconds on the clock, and of the
processor. Each runs alone. The seconds of the processor hardly depend on other work of the machine. They include all processes of the test,
also those that it leaves behind, and the PostgreSQL that the tests share. A test that fails is marked; its output lies in
BUILD/measured/NAME.log. Standard library only."""
import ctypes
import json
import os
import re
import resource
import subprocess
import sys
import time

SUBREAPER = 36      # PR_SET_CHILD_SUBREAPER of prctl(2)
LEFT_BEHIND_S = 1.5  # the longest wait for processes that outlive their test
TICKS = os.sysconf("SC_CLK_TCK")
FIXTURE = ("postgres_start", "postgres_stop")


def properties(test):
    return {entry["name"]: entry["value"] for entry in test["properties"]}


def tests(build):
    shown = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], check=True, capture_output=True, text=True)
    return {test["name"]: test for test in json.loads(shown.stdout)["tests"]}


def ticks(process, first, last):
    """Of /proc/PROCESS/stat; none if it has ended."""
    try:
        with open(f"/proc/{process}/stat", encoding="ascii", errors="replace") as file:
            return sum(map(int, file.read().rsplit(")", 1)[1].split()[first:last]))
    except OSError:
        return 0


def of_postgres(server):
    """Seconds of the server, of its processes that ended, and of those that run."""
    if server is None:
        return 0
    with open(f"/proc/{server}/task/{server}/children", encoding="ascii") as file:
        return (ticks(server, 11, 15) + sum(ticks(child, 11, 13) for child in file.read().split())) / TICKS


def of_children():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def environment_of(test):
    return dict(os.environ, **dict(each.split("=", 1) for each in properties(test).get("ENVIRONMENT", [])))


def run(test, build):
    os.makedirs(f"{build}/measured", exist_ok=True)
    with open(f"{build}/measured/{test['name']}.log", "wb") as log:
        process = subprocess.Popen(test["command"], env=environment_of(test), cwd=properties(test).get("WORKING_DIRECTORY", build),
                                   stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    while True:  # also for those that it leaves behind, as init does, so that a dead server does not look like a running one
        ended, status = os.waitpid(-1, 0)
        if ended == process.pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return process.returncode


def bury():
    """Waits for the processes that the test left behind, so that they count."""
    until = time.monotonic() + LEFT_BEHIND_S
    while time.monotonic() < until:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.05)
        except ChildProcessError:
            return


def measure(chosen, build, server):
    for test in chosen:
        before, began = of_children() + of_postgres(server), time.monotonic()
        status = run(test, build)
        took = time.monotonic() - began
        bury()
        used = of_children() + of_postgres(server) - before
        print(f"{took:7.1f} s {used:7.1f} s of the processor  {test['name']}{'  FAILED' if status else ''}", flush=True)


def main():
    build, every = os.path.abspath(sys.argv[1]), tests(sys.argv[1])
    chosen = [test for name, test in every.items() if name not in FIXTURE and re.search(sys.argv[2], name)]
    needed = any("postgres" in properties(test).get("FIXTURES_REQUIRED", []) for test in chosen)
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
    server = None
    if needed:
        command = every["postgres_start"]["command"]
        subprocess.run([*command, str(os.getpid())], check=True, env=environment_of(every["postgres_start"]))
        with open(f"{command[2]}/pid", encoding="ascii") as file:
            server = int(file.read())
    try:
        measure(chosen, build, server)
    finally:
        if needed:
            subprocess.run(every["postgres_stop"]["command"], check=True)


if len(sys.argv) != 3:
    sys.exit(__doc__)
main()
