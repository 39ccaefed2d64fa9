#!/usr/bin/env python3
"""usage: ci_run.py SOURCE-FOLDER   .ci/run, with stand-ins for what it runs: a signal ends it and all that it has started, at once, whatever runs just then."""
import concurrent.futures
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

# Says that it runs, and whether it ignores SIGINT; then it waits longer than this test does.
WAITS = """#!/bin/sh
grep SigIgn /proc/self/status > "$PLACE/ignored"
echo "$$" > "$PLACE/running"
exec sleep 600
"""
ENDS = "#!/bin/sh\nexit 0\n"
STEPS = {"in script/setup": ("script/setup",), "in the tests": ("script/test",), "beside the tests": ("script/demo",), "in the tests alone, after the rest": ()}


def write(place, name, text):
    path = os.path.join(place, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, 0o755)


def wait_for(what, holds):
    until = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < until, what
        time.sleep(0.05)


def made(source, place, waiting):
    os.makedirs(os.path.join(place, ".ci"))
    shutil.copy(os.path.join(source, ".ci/run"), os.path.join(place, ".ci/run"))
    write(place, "script/lib.sh", "build() { :; }\n")
    for name in ("script/setup", "script/test", "script/demo", "script/interop"):
        write(place, name, WAITS if name in waiting else ENDS)
    if not waiting:  # the second run of the tests is the one of those with the label `alone`
        write(place, "script/test", "#!/bin/sh\ncase \"$*\" in *-LE*) exit 0 ;; esac\n" + WAITS.split("\n", 1)[1])


def alive(group):
    try:
        os.killpg(group, 0)
        return True
    except ProcessLookupError:
        return False


def a_signal_ends_it(source, step, waiting, number):
    with tempfile.TemporaryDirectory() as place:
        made(source, place, waiting)
        process = subprocess.Popen([os.path.join(place, ".ci/run")], env={**os.environ, "PLACE": place, "TMPDIR": place}, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, start_new_session=True)
        running, group = os.path.join(place, "running"), None
        try:
            wait_for(f"{step}: it does not run", lambda: os.path.exists(running) and os.path.getsize(running) > 0)
            with open(running, encoding="utf-8") as file:
                waits = int(file.read())
            group = os.getpgid(waits)
            process.send_signal(number)
            assert process.wait(20) == 130, (step, number, process.returncode)
            wait_for(f"{step}: what it ran is still there", lambda: not alive(group))
        finally:
            process.kill()
            process.wait()
            if group is not None and alive(group):
                os.killpg(group, signal.SIGKILL)
        with open(os.path.join(place, "ignored"), encoding="utf-8") as file:
            ignored = int(file.read().split()[1], 16)
        assert waiting == STEPS["beside the tests"] or not ignored & 1 << signal.SIGINT - 1, f"{step}: it ignores SIGINT, with which tests end programs"


def all_succeeds_without_a_signal(source):
    with tempfile.TemporaryDirectory() as place:
        made(source, place, ("nothing",))
        done = subprocess.run([os.path.join(place, ".ci/run")], env={**os.environ, "TMPDIR": place}, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0 and "left out" in done.stdout and "NOT RUN" not in done.stdout, (done.stdout, done.stderr)
        write(place, "script/interop", "#!/bin/sh\necho tlog: a part >> \"$SIJIL_LEFT_OUT\"\n")
        done = subprocess.run([os.path.join(place, ".ci/run")], env={**os.environ, "TMPDIR": place}, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0 and done.stdout.endswith("NOT RUN, as it could not be had: tlog: a part\n"), (done.stdout, done.stderr)
        write(place, "script/test", "#!/bin/sh\nexit 8\n")
        done = subprocess.run([os.path.join(place, ".ci/run")], env={**os.environ, "TMPDIR": place}, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 1 and "failed: script/test" in done.stdout, (done.stdout, done.stderr)


def main():
    source = os.path.abspath(sys.argv[1])
    with concurrent.futures.ThreadPoolExecutor(9) as pool:  # all of it is waiting
        cases = [pool.submit(all_succeeds_without_a_signal, source)]
        cases += [pool.submit(a_signal_ends_it, source, step, waiting, number) for step, waiting in STEPS.items() for number in (signal.SIGTERM, signal.SIGINT)]
        for case in cases:
            case.result()


main()
