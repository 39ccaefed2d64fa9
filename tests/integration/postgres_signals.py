#!/usr/bin/env python3
"""usage: postgres_signals.py POSTGRES_SH   tests/support/postgres.sh signals only processes that work in the folder of its data, whatever number its files have.
The programs of this test are `sleep`, and the script is in a session of its own, so that a signal to its group meets nothing else."""
import os
import subprocess
import sys
import tempfile
import time

SCRIPT = sys.argv[1]


def is_stopped(process):
    with open(f"/proc/{process.pid}/stat", encoding="ascii") as file:
        return file.read().rsplit(")", 1)[1].split()[0] == "T"


def wait_for(what, why):
    until = time.monotonic() + 20
    while not what():
        assert time.monotonic() < until, why
        time.sleep(0.01)


def run(action, state):
    """The script's status; it fails if it signalled its own group."""
    return subprocess.run([SCRIPT, action, state], start_new_session=True, timeout=60, check=False, stdout=subprocess.DEVNULL).returncode


def write(state, name, text):
    with open(os.path.join(state, name), "w", encoding="ascii") as file:
        file.write(f"{text}\n")


def sleeper(folder):
    return subprocess.Popen(["sleep", "100"], cwd=folder, start_new_session=True)


def a_number_that_is_another_process_now(state, data, other):
    for number in (other.pid, 0, ""):
        for action in ("pause", "resume", "crash", "stop"):
            write(data, "postmaster.pid", number)
            assert run(action, state) == 0, (action, number)
            assert other.poll() is None and not is_stopped(other), (action, number)
            made(state, data)


def what_works_there(state, data, server):
    child = sleeper(data)
    write(data, "postmaster.pid", server.pid)
    assert run("pause", state) == 0
    wait_for(lambda: is_stopped(server) and is_stopped(child), "they run on")
    assert run("resume", state) == 0
    wait_for(lambda: not is_stopped(server) and not is_stopped(child), "they stand still")
    assert run("crash", state) == 0
    assert server.wait(20) == child.wait(20) == -9 and not os.path.exists(os.path.join(data, "postmaster.pid"))


def made(state, data):
    """The files, which `stop` removes."""
    os.makedirs(data, exist_ok=True)
    os.makedirs(os.path.join(state, "run"), exist_ok=True)
    for path in (state, data):
        os.chmod(path, 0o755)
    write(state, "data_at", data)
    write(state, "socket", os.path.join(state, "run"))


with tempfile.TemporaryDirectory() as place:
    folder = os.path.realpath(place)
    data = os.path.join(folder, "data")
    made(folder, data)
    running = [sleeper("/")]
    try:
        a_number_that_is_another_process_now(folder, data, running[0])
        made(folder, data)
        running.append(sleeper(data))
        what_works_there(folder, data, running[-1])
    finally:
        for process in running:
            process.kill()
            process.wait()
