#!/usr/bin/env python3
"""The arithmetic of script/bench: when a row counts as slower, how much disk a run needs, and that figures outlive a run."""
import json
import os
import sys
import tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
sys.path[:0] = [os.path.join(ROOT, "bench"), os.path.join(ROOT, "tests/scenario")]
os.environ.setdefault("SIJIL_BUILD", "")
import record
import rows
import signed_runs
import verdict
from registries import GIB, MIB, DockerRegistry, Sijil, Sink, StraightLine, Zot

# name, old, new, lost, fails
VERDICTS = [
    ("the same", [100, 100, 100], [100, 100, 100], 0, False),
    ("faster", [100, 101, 99], [150, 150, 150], -0.5, False),
    ("five per cent are none", [100, 100, 100], [95, 95, 95], 0.05, False),
    ("a little more than five", [1000, 1000, 1000], [949, 949, 949], 0.051, True),
    ("six, and the old one varies by eight", [96, 100, 104], [94, 94, 94], 0.06, False),
    ("nine, and the old one varies by eight", [96, 100, 104], [91, 91, 91], 0.09, True),
    ("the new one's spread is no excuse", [100, 100, 100], [90, 50, 150], 0.1, True),
    ("one bad run of five is none", [100, 100, 100, 100, 100], [100, 100, 100, 100, 10], 0, False),
    ("of an even number, the middle of two", [100, 100], [80, 100], 0.1, True),
]


def verdicts():
    for name, old, new, lost, fails in VERDICTS:
        said = verdict.judge(old, new)
        assert abs(said["lost"] - lost) < 1e-9 and said["fails"] == fails, (name, said)
    for old, new in (([], [1, 1]), ([1, 1], []), ([0, 1], [1, 1]), ([1, 1], [-1, 1]), ([100], [94])):
        try:
            verdict.judge(old, new)
        except ValueError:
            continue
        raise AssertionError((old, new))
    runs = {"a": {"old": [100, 100], "new": [100, 100]}, "b": {"old": [100, 100], "new": [10, 10]}}
    assert [said["fails"] for said in verdict.judge_all(runs).values()] == [False, True]
    text = verdict.table(verdict.judge_all(runs))
    assert text.count("SLOWER") == 1 and "-90.0%" in text, text
    try:
        verdict.judge_all({"a": {"old": [1, 1], "new": []}})
    except ValueError:
        pass
    else:
        raise AssertionError("a row that one build lacks passes")
    assert [verdict.order(number)[0] for number in range(4)] == ["old", "new", "old", "new"]


def figures_outlive_a_run():
    with tempfile.TemporaryDirectory() as folder:
        output = os.path.join(folder, "deep/run.json")
        kept = record.Record(output)
        kept.put("rows", "a", "sijil", value=1)
        kept.put("rows", "a", "zot", value={"x": 2})
        with open(kept.lines, "ab") as file:  # as after a crash in the middle of a line
            file.write(b'{"path": ["rows", "b"], "val')
        assert record.read(kept.lines) == {"rows": {"a": {"sijil": 1, "zot": {"x": 2}}}} == kept.found
        other = record.Record(os.path.join(folder, "other.json"))
        other.put("rows", "a", value=3)
        with open(other.end(False), encoding="utf-8") as file:
            assert json.load(file) == {"rows": {"a": 3}, "complete": False}


def disk_is_that_of_the_largest_row():
    def targets(*kinds):
        return [kind.__new__(kind) for kind in kinds]

    four = targets(Sijil, DockerRegistry, Zot, Sink, StraightLine)
    row = rows.Row({}, 3, lambda target: True, size=MIB, count=10)
    assert rows.pushed_bytes(row, targets(Sijil)) == 30 * MIB
    assert rows.pushed_bytes(row, targets(Sijil, Zot)) == 60 * MIB
    assert rows.pushed_bytes(row, targets(Sink)) == 0 and rows.pushed_bytes(row, targets(StraightLine)) == 10 * MIB
    assert rows.pushed_bytes(rows.Row({}, 1, lambda target: False, size=MIB, count=10), four) == 0
    whole, quick = (rows.disk_needed(four, way, 0) for way in (False, True))
    all_at_once = sum(rows.pushed_bytes(row, four) for row in rows.rows(False))
    assert quick < whole == max(rows.pushed_bytes(row, four) for row in rows.rows(False)) <= 16 * GIB < all_at_once, (quick, whole, all_at_once)
    assert rows.disk_needed(four, False, GIB) == whole + GIB


def marks_of_signed_runs():
    figures = {"first instruction, s": {"from the request": [0.4, 0.4, 0.4], "from the order": [0.1, 0.2, 0.9], "bubblewrap alone": [0.01, 0.01, 0.05]},
               "waiting": {"runs alone": {"gateway": 0.001}, "with waiting runners": {"gateway": 0.049}, "with runners kept for a large run": {"gateway": 0.04}},
               "training, s": {"python3 train.py": [2, 2, 3], "a signed run": [3, 3, 9]}}
    assert signed_runs.marks(figures).count(" met") == 3, signed_runs.marks(figures)
    shown = [line.split() for line in signed_runs.tables(figures).splitlines()]
    assert ["from", "the", "order", "200", "760", "20.0"] in shown and ["a", "signed", "run", "3.00", "1.50", "1.00"] in shown, shown
    figures["first instruction, s"]["from the order"] = [0.3, 0.3, 0.3]
    figures["waiting"]["with waiting runners"]["gateway"] = 0.05
    assert signed_runs.marks(figures).count("MISSED") == 2, signed_runs.marks(figures)


for case in (verdicts, figures_outlive_a_run, disk_is_that_of_the_largest_row, marks_of_signed_runs):
    case()
    print("ok  ", case.__name__.replace("_", " "))
