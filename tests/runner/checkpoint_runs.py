#!/usr/bin/env python3
"""usage: checkpoint_runs.py BUILD-FOLDER [TEST]...   Checkpoints of programs that run under `sijil-runner serve`, against a registry's routes
(tests/support/runner_peer.py): what is kept, what is refused, and what a run gets that continues from one."""
import json
import re

from runner_world import PROJECT, run_tests, sha256

TYPE = "application/vnd.sijil.run-checkpoint.v1"
OK = "mkdir /out/model; echo 1 > /out/model/1"
KEPT = re.compile(rb"^\[sijil\] checkpoint (\S+) kept: (sha256:[0-9a-f]{64})$", re.MULTILINE)


def files(world, text):
    """The files of a kept checkpoint, all of whose blobs are uploaded."""
    manifest = json.loads(text)
    assert manifest["artifactType"] == TYPE and "subject" not in manifest, manifest
    assert json.loads(manifest["annotations"]["sijil.label"])["class"] == "confidential", "of all that the run writes"
    return world.files(manifest)


def told(run, count=1):
    """The checkpoints that the log names, once there are so many."""
    return lambda: len(KEPT.findall(run.log)) >= count


def finished_checkpoints_are_kept(world):
    """A folder, then a file; what was not renamed is not looked at."""
    text = """set -e
mkdir -p $SIJIL_CHECKPOINTS/.new/deep; echo one > $SIJIL_CHECKPOINTS/.new/a; echo two > $SIJIL_CHECKPOINTS/.new/deep/b
mv $SIJIL_CHECKPOINTS/.new $SIJIL_CHECKPOINTS/first
printf 'no line feed'
sleep 8
echo half > /checkpoints/.half; echo three > /checkpoints/.new; mv /checkpoints/.new /checkpoints/second.bin
sleep 8
""" + OK
    run, _ = world.give(world.script(text))
    world.peer.wait(told(run), "no checkpoint is kept")
    assert run.result is None, "only after the end"
    world.peer.wait(told(run, 2), "the second is not kept")
    world.peer.wait(lambda: run.result, "no result")
    assert world.ended(run)[0]["status"] == "succeeded"
    assert [files(world, one) for one in run.checkpoints] == [{"a": b"one\n", "deep/b": b"two\n"}, {"second.bin": b"three\n"}], run.checkpoints
    assert KEPT.findall(run.log) == [(name, sha256(one).encode()) for name, one in zip((b"first", b"second.bin"), run.checkpoints)], run.log
    assert run.log.startswith(b"no line feed\n[sijil]"), run.log
    assert all(repository == f"{PROJECT}/trained" for repository, _ in world.peer.uploaded)
    assert sorted(world.ended(run)[1]) == ["log", "model"]


def the_last_one_counts_if_the_program_failed(world):
    last = "mkdir /checkpoints/.n; echo last > /checkpoints/.n/w; mv /checkpoints/.n /checkpoints/last"
    for name, text, more, status, count in (("failed", last + "; exit 3", {}, "failed", 1), ("succeeded", OK + "; " + last, {}, "succeeded", 0),
                                            ("time", "trap '" + last + "; exit 0' TERM; sleep 60 & wait", {"time_s": 1, "grace_s": 5}, "timeout", 1)):
        run, _ = world.run(text, **more)
        assert world.ended(run)[0]["status"] == status and len(run.checkpoints) == count, (name, run.checkpoints, world.ended(run)[0])
        assert len(KEPT.findall(run.log)) == count, run.log
        if count:
            assert files(world, run.checkpoints[0]) == {"w": b"last\n"}
            assert world.files(world.ended(run)[1]["log"]) == {"log.txt": run.log}


SOCKET = "/usr/bin/python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"%s\")'"  # pipes can't be made in a sandbox
HOSTILE = {
    "a link": ("ln -s /etc/passwd .n", "symbolic link"),
    "a link inside": ("mkdir .n; ln -s /in .n/in", "symbolic link"),
    "a socket": (SOCKET % ".n", "no pipe, socket"),
    "a socket inside": ("mkdir .n; " + SOCKET % ".n/s", "no pipe, socket"),
    "a hard link": ("mkdir .n; echo 1 > .n/1; ln .n/1 .n/2", "hard link"),
    "holes": ("truncate -s 1M .n", "sparse"),
    "too many": ("mkdir .n; for i in $(seq 30); do echo > .n/$i; done", "more files"),
    "too large": ("head -c 17000000 /dev/zero > .n", "larger than"),
    "deep": ("mkdir -p .n/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a", "16 deep"),
    "nothing": ("mkdir .n", "has no file"),
    "setuid": ("mkdir .n; echo 1 > .n/1; chmod u+s .n/1", "setuid"),
    "a name of a terminal": ("mkdir .n; echo 1 > \".n/$(printf 'a\\033b')\"", "steer a terminal"),
    "the name of a part file": ("mkdir .n; echo 1 > .n/.x.sijil-part", "can't be the name of a layer"),
}


def hostile_checkpoints_end_nothing(world):
    """Each is refused in the log of its run, which goes on; nothing of it is uploaded."""
    world.peer.uploaded.clear()
    for name, (text, says) in HOSTILE.items():
        goes_on = name in ("a link", "too large")
        run, _ = world.run("cd /checkpoints; " + text + "; mv .n bad; " + ("sleep 1.6; " + OK if goes_on else "exit 3"))
        assert world.ended(run)[0]["exit"] == (0 if goes_on else 3) and run.checkpoints == [], (name, run.checkpoints, run.log)
        assert b"[sijil] checkpoint bad not kept: " in run.log and says.encode() in run.log, (name, run.log)
    kinds = {len(content) for _, content in world.peer.uploaded.items()}
    assert max(kinds) < 5000, "a part of a refused one was uploaded"


def one_that_grows_is_refused_and_taken_later(world):
    text = "cd /checkpoints; head -c 9000000 /dev/zero > .n; (while [ ! -e .enough ]; do echo more; done) >> .n & mv .n grows; sleep 3; touch .enough; wait; sleep 0.2; mv grows done; sleep 9; " + OK
    run, _ = world.run(text)
    assert world.ended(run)[0]["status"] == "succeeded", run.log
    assert b"[sijil] checkpoint grows not kept: " in run.log and b"read" in run.log, run.log
    assert len(run.checkpoints) == 1 and set(files(world, run.checkpoints[0])) == {"done"}, run.log


def a_registry_that_is_away_gets_it_later(world):
    for route, fault, after in (("upload", 503, "sleep 8; " + OK), ("checkpoint", 503, "exit 3"), ("checkpoint", "lose", "exit 3")):
        world.peer.fail(route, fault)
        run, _ = world.run("cd /checkpoints; echo 1 > .n; mv .n one; " + after)
        assert run.result and told(run)() and len(set(run.checkpoints)) == 1, (route, run.checkpoints, run.log)
    world.peer.fail("checkpoint", 403)
    run, _ = world.run("cd /checkpoints; echo 1 > .n; mv .n one; sleep 2; " + OK)
    assert world.ended(run)[0]["status"] == "succeeded" and b"not kept: " in run.log and run.checkpoints == [], run.log


def a_run_continues_from_one(world):
    """The checkpoint of an order lies in /in/resume, read-only, and the result names it."""
    resume = world.peer.push("trained", {"weights": b"of yesterday\n", "deep/x": b"y"})
    run, _ = world.run("cat /in/resume/weights /in/resume/deep/x; if (echo 1 > /in/resume/weights) 2> /dev/null; then exit 9; fi; " + OK, resume=resume)
    assert run.refusal is None and world.ended(run)[0]["status"] == "succeeded" and run.log == b"of yesterday\ny", (run.log, run.refusal)
    named = world.statement(run)["predicate"]["buildDefinition"]["resolvedDependencies"][1]
    assert named == {"name": "resume", "uri": f"urn:sijil:{PROJECT}/trained", "digest": {"sha256": resume["digest"][7:]}}, named
    run, _ = world.give(world.script(OK, resume={**resume, "digest": sha256(b"none")}))
    world.peer.wait(lambda: run.refusal, "it runs without its checkpoint")
    assert world.registry.opened(run.refusal)["check"] == "digest"


run_tests((finished_checkpoints_are_kept, the_last_one_counts_if_the_program_failed, hostile_checkpoints_end_nothing,
           one_that_grows_is_refused_and_taken_later, a_registry_that_is_away_gets_it_later, a_run_continues_from_one), starts=True)
