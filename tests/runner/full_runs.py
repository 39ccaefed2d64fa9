#!/usr/bin/env python3
"""usage: full_runs.py BUILD-FOLDER [TEST]...   `sijil-runner serve` where something is full or slow: the runner's disk, the registry's disk, the way of a
long log. No run is lost or refused for that. A limit on the size of files makes a disk full (EFBIG)."""
import contextlib
import resource
import time

from runner_world import run_tests, workers

OK = "mkdir /out/model; echo 1 > /out/model/1"
MIB = 1 << 20


def set_room(world, size):
    limits = resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY)
    resource.prlimit(world.process.pid, *limits)  # first: a worker that begins after this has it, too
    for _ in range(10):  # a worker that was just beginning has the limits of before, and is not listed yet
        for pid in workers(world):
            with contextlib.suppress(ProcessLookupError):  # it has ended since
                resource.prlimit(pid, *limits)
        time.sleep(0.02)


def a_full_disk_returns_the_lease(world):
    """Neither code nor a log that does not fit is a reason to refuse an order for good."""
    world.start()
    set_room(world, 2 * MIB)
    code = world.peer.push("code", {"train.sh": OK.encode(), "large": bytes(3 * MIB)})
    wanted = {**world.script(OK), "code": code}
    run, _ = world.give(wanted)
    world.peer.wait(lambda: run.refusal or run.result, "no word about a run that does not fit")
    value = world.registry.opened(run.refusal)
    assert value["check"] == "machine" and "large" in value["reason"], value
    asked = len(world.peer.asked)
    time.sleep(3)
    assert len(world.peer.asked) == asked, "the next run would lose an attempt at once"
    world.stop()


def without_room_nothing_is_asked(world):
    world.start()
    world.peer.wait(lambda: any(asked["cpus"] > 0 for asked in world.peer.asked), "it asks for nothing")
    set_room(world, MIB // 2)
    world.peer.wait(lambda: world.said("no run is asked for"), "it does not say that its disk is full")
    assert world.said("the disk of --work=")
    run, _ = world.give(world.script(OK))
    time.sleep(2)
    assert run.refusal is None and run.result is None and not run.has_started
    set_room(world, resource.RLIM_INFINITY)
    world.peer.wait(lambda: run.result, "it does not go on once there is room")
    assert world.ended(run)[0]["status"] == "succeeded"
    world.stop()


def a_full_registry_is_waited_for(world):
    world.start()
    for route in ("token", "manifests", "blob", "start", "upload", "log", "result"):
        world.peer.fail(route, 507, 507)
        run, _ = world.run("echo hello; " + OK)
        assert run.refusal is None and world.ended(run)[0]["status"] == "succeeded", route
        assert run.log == b"hello\n", (route, run.log)
    world.stop()


def a_slow_log_arrives_as_a_whole(world):
    """The result ends the log: it waits for it, longer than ten seconds, too."""
    world.start()
    gate = world.peer.hold("log")
    run, _ = world.give(world.script("head -c 3000000 /dev/zero; echo THE REASON; exit 3", log_bytes=4000000))
    world.peer.wait(lambda: run.has_started, "it does not begin")
    time.sleep(13)
    assert run.result is None
    world.peer.gates.clear()
    gate.set()
    world.peer.wait(lambda: run.result, "no result")
    assert len(run.log) == 3000011 and run.log.endswith(b"THE REASON\n"), len(run.log)
    assert world.ended(run)[0]["exit"] == 3
    world.stop()


run_tests((a_full_disk_returns_the_lease, without_room_nothing_is_asked, a_full_registry_is_waited_for, a_slow_log_arrives_as_a_whole),
          starts=False)
