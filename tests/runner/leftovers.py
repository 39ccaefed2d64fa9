"""Processes and control groups that a test of runners left behind. Standard library only."""
import glob


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
    """Control groups of runs, of all runners of this machine."""
    return glob.glob("/sys/fs/cgroup/**/run-" + 32 * "[0-9a-f]", recursive=True)
