"""Processes and control groups that a test of runners left behind. Standard library only."""
import glob
import os


def processes_with(mark, without):
    """Command lines that have `mark`, a word of this test's payloads, and do not have `without`."""
    found = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as file:
                line = file.read()
        except OSError:
            continue
        if mark.encode() in line and without not in line:
            found.append(line)
    return found


def groups_of_runs():
    """Control groups of runs: of this test if it has groups of its own (tests/support/own_groups.py), else of all runners of this machine."""
    own = os.environ.get("SIJIL_TEST_GROUP")
    return glob.glob("/sys/fs/cgroup/**/" + (f"{own}/**/" if own else "") + "run-" + 32 * "[0-9a-f]", recursive=True)
