"""Two builds of Sijil, in alternation, by the same load client; a row that got slower fails. For script/bench compare.

Each round starts each build anew, in a fresh folder, and measures all rows; who goes first changes. A build is started with the
helpers of its own tree, because what a server is told at its start may change."""
import json
import os
import shutil
import subprocess
import sys

import verdict

HERE = os.path.dirname(os.path.abspath(__file__))
DISK_NEEDED = 8 << 30  # one server at a time: what a round pushes, its database, and as much again for the log's and PostgreSQL's files


def run_round(tree, quick):
    """{row: figures} of one build, from bench/one_build.py in a process of its own."""
    environment = {**os.environ, "SIJIL_BUILD": os.path.join(tree, "build/release"), "SIJIL_HELPERS": os.path.join(tree, "tests/scenario"),
                   "SIJIL_LOAD": os.environ["SIJIL_LOAD"]}
    words = [sys.executable, os.path.join(HERE, "one_build.py"), *(["--quick"] if quick else [])]
    done = subprocess.run(words, env=environment, stdout=subprocess.PIPE, text=True, timeout=1800)
    if done.returncode != 0:
        raise RuntimeError(f"{tree}: the round ended with {done.returncode}")
    return {entry["row"]: entry["figures"] for entry in map(json.loads, done.stdout.splitlines())}


def speed(figures):
    return figures["mb_per_second"] or figures["per_second"]


def compare(trees, rounds, quick, record, tell):
    """Prints the table; False when a row fails. `trees`: of the old build and of the new one."""
    free = shutil.disk_usage("/var/tmp").free
    if free < DISK_NEEDED:
        sys.exit(f"this needs {DISK_NEEDED >> 30} GiB below /var/tmp; there are {free >> 30}")
    tree_of, runs = dict(zip(("old", "new"), trees)), {}
    for number in range(rounds):
        for side in verdict.order(number):
            tell(f"round {number + 1} of {rounds}, {side}")
            found = run_round(tree_of[side], quick)
            record.put("runs", str(number), side, value=found)
            for row, figures in found.items():
                runs.setdefault(row, {"old": [], "new": []})[side].append(speed(figures))
    judged = verdict.judge_all(runs)
    record.put("verdict", value=judged)
    print(verdict.table(judged))
    slower = [row for row, said in judged.items() if said["fails"]]
    print(f"{len(slower)} of {len(judged)} rows are slower by more than {verdict.TOLERANCE:.0%} and by more than the old build's spread")
    return not slower
