#!/usr/bin/env python3
"""usage: own_groups.py COMMAND [ARGUMENT...]   Runs a test whose runners make control groups, so that it may look for groups that were left behind.
       own_groups.py                        Says whether tests can have groups of their own.

The test gets groups of its own, below those of the caller, and all runs that it starts are in them. Where it can't have them (version 2 of
control groups, a user that is not root, or a container that shows other paths than it has), such tests run one after another: ctest knows this
from the configuration, and each waits for the lock of this file. Standard library only."""
import fcntl
import os
import subprocess
import sys
import time

HIERARCHIES = ("memory", "pids", "cpu", "cpuacct")  # version 1: those of runner/sandbox/cgroup.c
MOUNTS = "/sys/fs/cgroup"
LEFT_S = 5  # the kernel lets go of a group some time after its last process


def own_paths():
    """Hierarchy -> the folder of the group of this process. In a container the path may be that of the machine (runner/sandbox/cgroup.c)."""
    found = {}
    with open("/proc/self/cgroup", encoding="ascii") as file:
        for line in file:
            _, names, path = line.rstrip("\n").split(":", 2)
            for name in names.split(","):
                base = os.path.join(MOUNTS, name)
                found[name] = base + path if os.path.isdir(base + path) else base
    return {name: found[name] for name in HIERARCHIES if name in found}


def are_seen(groups):
    """Whether a process in these groups finds itself in them: else its runs would be elsewhere, and a test would look for what they left where nothing can be."""
    child = os.fork()
    if child == 0:
        try:
            join(groups)
            os._exit(0 if list(own_paths().values()) == groups else 1)
        except OSError:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def make(name):
    """The new groups, or none of them."""
    groups, parents = [], own_paths()
    if sorted(parents) != sorted(HIERARCHIES):
        return groups
    try:
        for parent in parents.values():
            groups.append(os.path.join(parent, name))
            os.makedirs(groups[-1], exist_ok=True)  # two hierarchies may be mounted as one
            if not os.path.exists(groups[-1] + "/cgroup.procs"):
                raise OSError(f"{parent} has no control groups")
        if are_seen(groups):
            return groups
    except OSError:
        pass
    remove(groups, LEFT_S)
    return []


def join(groups):
    for group in groups:
        with open(group + "/cgroup.procs", "w", encoding="ascii") as file:
            file.write("0")


def remove(groups, seconds):
    """With the groups of runs that are still in them: the test has judged these."""
    until = time.monotonic() + seconds
    while True:
        for group in groups:
            for folder, _, _ in os.walk(group, topdown=False):
                try:
                    os.rmdir(folder)
                except OSError:
                    pass
        if not any(map(os.path.isdir, groups)) or time.monotonic() >= until:
            return
        time.sleep(0.05)


def main():
    groups, lock = make(f"sijil-test-{os.getpid()}"), None
    if not groups:
        lock = os.open(os.path.abspath(__file__), os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        process = subprocess.Popen(sys.argv[1:], preexec_fn=lambda: join(groups),
                                   env={**os.environ, **({"SIJIL_TEST_GROUP": os.path.basename(groups[0])} if groups else {})})
        status = process.wait()
    finally:
        remove(groups, LEFT_S)
    return status if status >= 0 else 128 - status


def can():
    groups = make(f"sijil-test-{os.getpid()}")
    remove(groups, LEFT_S)
    return 0 if groups else 1


if __name__ == "__main__":
    sys.exit(main() if len(sys.argv) > 1 else can())
