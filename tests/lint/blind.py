#!/usr/bin/env python3
"""usage: blind.py SOURCE-FOLDER   A lint that sees nothing, or less than it must, fails and says so: each case takes something away from one."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

import unused

LINTS = os.path.dirname(os.path.abspath(__file__))


def run(*words, **options):
    done = subprocess.run(words, capture_output=True, text=True, **options)
    return done.returncode, done.stdout + done.stderr


def sizes(folder, path):
    """On a tree whose folders are empty."""
    with open(f"{LINTS}/layers.txt", encoding="utf-8") as file:
        for room in (line.strip() for line in file if line[0] != "#"):
            os.makedirs(f"{folder}/{room}", exist_ok=True)
    os.makedirs(f"{folder}/tests", exist_ok=True)
    if not os.path.lexists(f"{folder}/tests/lint"):
        os.symlink(LINTS, f"{folder}/tests/lint")
    return run("sh", f"{LINTS}/sizes.sh", folder, env={**os.environ, "PATH": path})


def no_ctags(folder):
    """A ctags that measures nothing, as the one of emacs, or none."""
    os.makedirs(f"{folder}/bin")
    with open(f"{folder}/bin/ctags", "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\nexit 1\n")
    os.chmod(f"{folder}/bin/ctags", 0o755)
    return sizes(folder, f"{folder}/bin:{os.environ['PATH']}")


def nothing_measured(folder):
    return sizes(folder, os.environ["PATH"])


def nothing_built(folder):
    commands = [{"file": f"{folder}/base/{n}.c", "directory": folder, "command": f"cc -o base/CMakeFiles/sijil_base.dir/{n}.c.o -c {n}.c"} for n in range(300)]
    with open(f"{folder}/compile_commands.json", "w", encoding="utf-8") as file:
        json.dump(commands, file)
    os.makedirs(f"{folder}/tests/lint")
    shutil.copy(f"{LINTS}/layers.txt", f"{folder}/tests/lint")
    return run(sys.executable, f"{LINTS}/circles.py", folder, folder)


def a_stale_row(_):
    return 1, "\n".join(unused.stale({"fault_*": "", "outgoing/*": ""}, {("fault_arm", "base/fault.c")}))


def a_wrong_heading(folder):
    with open(f"{sys.argv[1]}/CONTRIBUTING.md", encoding="utf-8") as page, open(f"{folder}/CONTRIBUTING.md", "w", encoding="utf-8") as file:
        file.write(page.read().replace("### An event: 2 files", "### An event: 1 file"))
    return run(sys.executable, f"{LINTS}/recipes.py", "check", folder)


CASES = (  # what is taken away, what the lint says, what it does not say
    (no_ctags, "there is no universal-ctags", "Traceback"),
    (nothing_measured, "only 0 functions were measured", "there is no universal-ctags"),
    (nothing_built, "only 0 objects are built", "Traceback"),
    (a_stale_row, "no unused function is outgoing/*", "fault_"),
    (a_wrong_heading, "the heading of the recipe for event does not say that it has 2 files", "Traceback"),
)


def main():
    problems = []
    for case, said, unsaid in CASES:
        with tempfile.TemporaryDirectory() as folder:
            status, text = case(folder)
        if status == 0 or said not in text or unsaid in text:
            problems.append(f"{case.__name__}: status {status}, and not '{said}' without '{unsaid}' but:\n{text}")
    print("\n".join(problems))
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
