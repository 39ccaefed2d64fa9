"""Whether one build of Sijil is slower than another one: arithmetic alone, tested in tests/unit/test_bench.py.

A row fails when the new build's median is worse by more than 5 %, and by more than the old build's own spread, which is the
distance between its best and its worst run. What the old build does by itself from run to run is no loss."""
import statistics

TOLERANCE = 0.05


def spread(values):
    """The distance between the best and the worst, as a part of the median."""
    return (max(values) - min(values)) / statistics.median(values)


def judge(old, new):
    """Of one row, more is better: medians, spreads, how much of the old median is lost (less than 0: won), and whether it fails."""
    if min(len(old), len(new)) < 2 or min(old + new) <= 0:
        raise ValueError(f"two figures each, at least: {old} {new}")
    before, after = statistics.median(old), statistics.median(new)
    lost = (before - after) / before
    return {"old": before, "new": after, "old spread": spread(old), "new spread": spread(new), "lost": lost,
            "fails": lost > TOLERANCE and lost > spread(old)}


def judge_all(runs):
    """`runs`: {row: {"old": [...], "new": [...]}}. Answers {row: judgement}; a row that one side lacks is an error."""
    return {row: judge(sides["old"], sides["new"]) for row, sides in runs.items()}


def order(round_number):
    """Who goes first: in turn, so that neither has the warmer machine."""
    return ("old", "new") if round_number % 2 == 0 else ("new", "old")


def table(found):
    lines = [f"{'':52} {'old':>10} {'spread':>8} {'new':>10} {'spread':>8} {'change':>8}"]
    for row, said in found.items():
        lines.append(f"{row:52} {said['old']:10.1f} {said['old spread']:8.1%} {said['new']:10.1f} {said['new spread']:8.1%} "
                     f"{-said['lost']:+8.1%}{'  SLOWER' if said['fails'] else ''}")
    return "\n".join(lines)
