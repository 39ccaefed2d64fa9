#!/usr/bin/env python3
"""usage: killed_runs.py BUILD-FOLDER [TEST]...   `sijil-runner serve` is killed or stopped at each state of a run, runs several at once, and is
suspended: nothing is left running or on disk, and each run has one end."""
import fcntl
import glob
import json
import os
import shutil
import signal
import subprocess
import time

from leftovers import groups_of_runs
from runner_world import BUILD, IS_ROOT, RUNNER, made, run_tests, user, workers

from own_groups import own_paths  # tests/support, which runner_world has put on the path

OK = "mkdir /out/model; echo 1 > /out/model/1"
LONG = "trap '' TERM; echo ready; sh -c 'trap \"\" TERM; sleep 60; : MARK' & sh -c 'sleep 60; : MARK'; sleep 60"


def runs_once(world):
    run, _ = world.run(OK)
    assert world.ended(run)[0]["status"] == "succeeded"


def runs_again(world):
    """The next start runs what comes; nothing of before is left."""
    world.start()
    runs_once(world)
    world.stop()


def at_state(world, state):
    """A run that has come as far as `state`, and the gate that holds it there."""
    route = {"asking": "leases", "fetching": "blob", "starting": "start", "uploading": "upload", "sending": "result"}.get(state)
    gate = (world.peer.gates.get(route) or world.peer.hold(route)) if route else None
    world.peer.uploaded.clear()
    run, lease = world.give(world.script(LONG if state == "running" else OK))
    phases = {"fetching": lambda: run.tokens, "starting": lambda: run.heartbeats, "running": lambda: run.log}
    phases["uploading"] = phases["sending"] = lambda: any(beat["phase"] == "finishing" for beat in run.heartbeats)
    world.peer.wait(phases.get(state, lambda: True), f"it does not come to {state}")
    time.sleep(0.3)
    return run, lease, gate


def open_gate(world, gate):
    if gate is not None:
        world.peer.gates.clear()
        gate.set()


def a_killed_runner_leaves_nothing(world):
    for state in ("asking", "fetching", "starting", "running", "uploading", "sending"):
        if state == "asking":
            world.peer.hold("leases")  # before the first question, which would get the lease
        world.start()
        run, lease, gate = at_state(world, state)
        world.kill()
        world.nothing_runs()
        open_gate(world, gate)
        time.sleep(0.5)
        world.peer.leases.clear()
        kept = os.listdir(os.path.join(world.state, "leases"))
        assert any(name.endswith(".result") for name in kept) == (state == "sending"), (state, kept)
        before, run.has_started = run.results, False
        world.start()
        if state == "sending":
            world.peer.wait(lambda: run.results > before, "the kept result is not sent")
            assert world.ended(run)[0]["status"] == "succeeded"
        world.peer.wait(lambda: os.listdir(os.path.join(world.state, "leases")) == [], f"{state}: files are left")
        world.peer.give(lease)  # nobody takes it a second time
        if state != "asking":
            world.peer.wait(lambda: run.refusal, f"{state}: it is taken again")
            assert world.registry.opened(run.refusal)["check"] == "nonce" and not run.has_started
        else:
            world.peer.wait(lambda: run.result, "it is not run")
        world.stop()
    runs_again(world)


def left(world):
    """Files and control groups of runs."""
    return [*os.listdir(world.work), *os.listdir(os.path.join(world.state, "leases")), *(set(groups_of_runs()) - world.groups)]


def a_killed_worker_ends_only_its_run(world):
    """And what it leaves goes away at once, also if no other run comes."""
    world.groups = set(groups_of_runs())
    world.start()
    for state in ("fetching", "running", "sending"):
        run, _, gate = at_state(world, state)
        for pid in workers(world):
            os.kill(pid, signal.SIGKILL)
        open_gate(world, gate)
        world.nothing_runs()
        world.peer.wait(lambda: left(world) == [], f"{state}: files or control groups are left")
        assert (run.result is not None) == (state == "sending") and run.refusal is None, state
        after, _ = world.run(OK)
        assert world.ended(after)[0]["status"] == "succeeded"
    world.stop()


def a_worker_killed_before_its_first_word_returns_its_lease(world):
    """A registry that heard nothing gives the lease again. It is never run twice, and the run gets another attempt."""
    world.start()
    run, lease, gate = at_state(world, "fetching")
    for pid in workers(world):
        os.kill(pid, signal.SIGKILL)
    open_gate(world, gate)
    for _ in range(2):  # as if the answer was lost
        run.refusal = None
        world.peer.give(lease)
        world.peer.wait(lambda: run.refusal, "nothing is said of the lease")
        said = world.registry.opened(run.refusal)
        assert said["check"] == "machine" and "was killed" in said["reason"], said
    assert not run.has_started and run.result is None
    ended, again = world.run(OK)
    run.refusal = None
    world.peer.give(again)  # this one has ended, so nobody was interrupted
    world.peer.wait(lambda: ended.refusal, "nothing is said of an ended lease")
    assert world.registry.opened(ended.refusal)["check"] == "nonce" and ended.results == 1
    world.stop()
    world.start()  # another process was not interrupted: such a registry is wrong
    run.refusal, run.refusals, run.refusal_status = None, 0, 400
    world.peer.give(lease)
    world.peer.wait(lambda: run.refusal, "nothing is said of the lease")
    assert world.registry.opened(run.refusal)["check"] == "nonce" and not run.has_started
    world.peer.give(lease)  # it does not take the refusal either, which filled its log with leases and refusals
    time.sleep(2)
    assert run.refusals == 1, f"{run.refusals} refusals in two seconds"
    world.stop()


def a_lease_that_is_taken_by_a_dying_worker_is_settled(world):
    """Its last question is answered when it is dead already."""
    gate = world.peer.hold("leases")
    world.start()
    world.peer.wait(lambda: world.peer.arrived["leases"], "it does not ask")
    serving, (worker,) = world.process.pid, workers(world)
    os.kill(serving, signal.SIGSTOP)  # it does not answer
    run, lease = world.give(world.script(OK))
    open_gate(world, gate)
    world.peer.wait(lambda: glob.glob(os.path.join(world.state, "leases", "*.bundle")), "it does not keep the bundle")
    time.sleep(0.5)  # now it waits for the answer
    os.kill(worker, signal.SIGKILL)
    os.kill(serving, signal.SIGCONT)
    world.peer.wait(lambda: world.said("a run was interrupted"), "the lease is lost")
    world.peer.give(lease)
    world.peer.wait(lambda: run.refusal, "nothing is said of the lease")
    assert world.registry.opened(run.refusal)["check"] == "machine" and not run.has_started
    world.peer.wait(lambda: os.listdir(os.path.join(world.state, "leases")) == [], "files are left")
    world.stop()


def has_groups():
    done = subprocess.run([RUNNER, "check", "--json"], capture_output=True, text=True, check=False)
    return json.loads(done.stdout)["isolation"] != "rlimits"


SWEEPER = """
import fcntl, os, sys
while True:
    for name in os.listdir(sys.argv[1]):
        if name.startswith("run-") and len(name) == 36:
            try:
                group = os.open(os.path.join(sys.argv[1], name), os.O_RDONLY | os.O_DIRECTORY)
            except FileNotFoundError:
                continue
            try:
                fcntl.flock(group, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.rmdir(os.path.join(sys.argv[1], name))
            except OSError:
                pass
            os.close(group)
"""


def another_runner_that_sweeps_takes_no_new_group(world):
    """It sweeps all the time here, so it is often faster than a new group's own lock."""
    if not has_groups():
        print("  left out: this machine gives no control groups")
        return
    world.log = os.devnull
    parent = own_paths().get("pids", "/sys/fs/cgroup")
    with subprocess.Popen(["/usr/bin/python3", "-c", SWEEPER, parent]) as sweeper:
        try:
            for _ in range(12):
                done = subprocess.run([RUNNER, "check", f"--work={world.work}", *([f"--user={user()}"] if IS_ROOT else [])], capture_output=True, text=True,
                                      check=False)
                assert "does not work" not in done.stdout, done.stdout
        finally:
            sweeper.kill()


def a_start_removes_control_groups_of_before(world):
    """Also those of which the folder knows nothing any more, and none that another runner uses."""
    if not has_groups():
        print("  left out: this machine gives no control groups")
        return
    before = set(groups_of_runs())
    world.start()
    at_state(world, "running")
    world.kill()
    world.nothing_runs()
    shutil.rmtree(world.work)
    stale = set(groups_of_runs()) - before
    assert stale, "a killed runner leaves no groups"
    parent = os.path.dirname(stale.copy().pop())
    used, odd = (os.path.join(parent, name) for name in ("run-" + 32 * "0", "run-" + 31 * "0"))
    os.mkdir(used)
    os.mkdir(odd)
    holder = os.open(used, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(holder, fcntl.LOCK_EX)
        world.start()
        world.peer.wait(lambda: not stale & set(groups_of_runs()), "its control groups are left")
        assert os.path.isdir(used) and os.path.isdir(odd), "a group of others is removed"
        os.close(holder)
        holder = None
        runs_once(world)
        world.peer.wait(lambda: not os.path.isdir(used), "a group whose runner is gone is left")
    finally:
        for path in (used, odd):
            if os.path.isdir(path):
                os.rmdir(path)
        if holder is not None:
            os.close(holder)
    world.stop()


def a_request_to_stop_cancels(world):
    world.start()
    run, _, _ = at_state(world, "running")
    began = time.monotonic()
    world.stop()
    outcome = world.ended(run)[0]
    assert outcome["status"] == "cancelled" and outcome["reason"] == "the runner was stopped" and time.monotonic() - began < 20, outcome
    world.start()
    run, _, gate = at_state(world, "fetching")
    world.process.terminate()
    open_gate(world, gate)
    world.process.wait(60)
    assert world.process.returncode == 0 and run.result is None
    returned = world.registry.opened(run.refusal)  # another runner gets it at once
    assert returned["check"] == "machine" and returned["reason"] == "the runner stops, and the run had not begun", returned
    world.nothing_is_left()
    runs_again(world)


def a_run_may_end_by_itself(world):
    world.start("--drain=60")
    run, _ = world.give(world.script("echo ready; sleep 3; " + OK))
    world.peer.wait(lambda: run.log, "no log")
    world.stop(signal.SIGINT)
    assert world.ended(run)[0]["status"] == "succeeded"


def several_at_once(world):
    world.start("--parallel=3", "--cpus=4", f"--memory={1 << 30}")
    big, _ = world.give(world.script("echo ready; sleep 4; " + OK, cpus=3))
    world.peer.wait(lambda: big.log, "no log")
    world.peer.wait(lambda: world.peer.asked[-1]["cpus"] == 1, "the offer does not shrink")
    assert world.peer.asked[-1]["memory_bytes"] == 768 << 20
    small, _ = world.give(world.script("echo ready; sleep 2; " + OK, cpus=1))
    world.peer.wait(lambda: small.log, "the second does not run beside the first")
    assert big.result is None
    world.peer.wait(lambda: big.result and small.result, "no results")
    world.peer.wait(lambda: world.peer.asked[-1]["cpus"] == 4, "the offer does not grow")
    generations = [asked["generation"] for asked in world.peer.asked]
    assert generations == sorted(generations) and len({asked["session"] for asked in world.peer.asked}) == 1
    again = world.registry.lease(world.script("echo ready; sleep 2; " + OK))
    run = world.peer.give(again)
    world.peer.give(again)  # a registry that has not noticed that it started
    world.peer.wait(lambda: run.result, "no result")
    assert run.refusal is None and run.results == 1
    world.stop()


def a_device_has_one_run(world):
    nodes = os.path.join(world.folder, "nodes")
    os.makedirs(nodes)
    for name in ("nvidia0", "nvidia1", "nvidia2", "nvidiactl"):
        os.symlink("/dev/null", os.path.join(nodes, name))
    world.start("--parallel=3", f"--nvml={os.path.join(BUILD, 'tests/runner/libfake_nvml.so')}", f"--devices={nodes}")
    wanted = {"devices": {"count": 1, "type": "H200", "memory_bytes": 0}}
    first, _ = world.give(world.script("echo $CUDA_VISIBLE_DEVICES; sleep 4; " + OK, **wanted))
    world.peer.wait(lambda: first.log, "no log")
    world.peer.wait(lambda: not any(one["type"] == "NVIDIA H200" for one in world.peer.asked[-1]["devices"]), "the device is offered twice")
    parts = [(one["type"], one["mig"], one["memory_bytes"] >> 30) for one in world.peer.asked[-1]["devices"] if "mig" in one]
    assert parts == 2 * [("NVIDIA H200 MIG 1g.18gb", "1g.18gb", 18)] + [("NVIDIA H200 MIG 1c.3g.71gb", "1c.3g.71gb", 71)], parts
    second, _ = world.give(world.script("true", **wanted))
    world.peer.wait(lambda: second.refusal, "the device is given twice")
    assert "others are in use" in world.registry.opened(second.refusal)["reason"]
    world.peer.wait(lambda: first.result, "no result")
    details = world.statement(first)["predicate"]["runDetails"]
    assert len(details["sijil_devices"]) == 1 and details["sijil_usage"]["device_ms"] >= 4000, details
    assert first.log.decode().strip() == details["sijil_devices"][0]["uuid"]
    world.peer.wait(lambda: any(one["type"] == "NVIDIA H200" for one in world.peer.asked[-1]["devices"]), "the device is not offered again")
    third, _ = world.give(world.script(OK, **wanted))
    world.peer.wait(lambda: third.result, "the device is not free again")
    world.stop()


def a_suspended_runner_ends(world):
    world.start("--parallel=2")
    run, _, _ = at_state(world, "running")
    world.peer.is_suspended = True
    assert world.process.wait(60) == 3 and world.said("suspended")
    world.nothing_is_left()
    assert run.refusal is None


def certificates_are_renewed(world):
    with open(os.path.join(world.state, "certificate.pem"), "wb") as file:
        file.write(world.registry.certificate(days=5, age_days=25))
    world.start()
    world.peer.wait(lambda: world.peer.certificates and world.said("certificate was renewed"), "it is not renewed")
    world.run(OK)
    world.run(OK)
    assert len(world.peer.certificates) == 1
    world.stop()
    os.unlink(os.path.join(world.state, "certificate.pem"))  # as before its approval
    world.start()
    world.peer.wait(lambda: world.said("no client certificate"), "it asks without a certificate")
    world.stop()


def it_says_why_it_does_not_serve(world):
    for name, change, says in (("key.pem", lambda path: os.chmod(path, 0o644), "others may use it"),
                               ("certificate.pem", lambda path: open(path, "w", encoding="ascii").close(), "certificate.pem"),
                               ("registry.json", lambda path: open(path, "w", encoding="ascii").close(), "registry.json")):
        path = os.path.join(world.state, name)
        with open(path, "rb") as file:
            before = file.read()
        change(path)
        world.start()
        assert world.process.wait(60) == 1 and world.said(says), name
        with open(path, "wb") as file:
            file.write(before)
        os.chmod(path, 0o600)
    world.start()
    first = world.process
    world.start()
    assert world.process.wait(60) == 1 and world.said("leases.journal"), "two serve from one folder"
    world.process = first
    world.stop()
    os.unlink(os.path.join(world.state, "leases.journal"))
    world.start()
    assert world.process.wait(60) == 1 and world.said("revoke its key")


def logs_are_json(world):
    world.start()
    world.run(OK)
    world.stop()
    with open(world.log, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    said = [line["msg"] if "msg" in line else line for line in lines]
    assert lines and all(isinstance(line, dict) for line in lines), said
    assert made.RUNNER in json.dumps(lines)


run_tests((a_killed_runner_leaves_nothing, a_killed_worker_ends_only_its_run, a_worker_killed_before_its_first_word_returns_its_lease,
           a_lease_that_is_taken_by_a_dying_worker_is_settled, a_start_removes_control_groups_of_before,
           another_runner_that_sweeps_takes_no_new_group, a_request_to_stop_cancels, a_run_may_end_by_itself, several_at_once,
           a_device_has_one_run, a_suspended_runner_ends, certificates_are_renewed, it_says_why_it_does_not_serve, logs_are_json), starts=False)
