"""Holds gcovr's summary against the limits. usage: coverage.py SUMMARY.json"""
import json
import sys

LINES = 90.0
# Folder -> least per cent of branches; docs/supply-chain.md says what the rest is.
BRANCHES = {"audit": 70.0, "crypto": 70.0, "policy": 80.0}

summary = json.load(open(sys.argv[1], encoding="utf-8"))
folders = {}
for file in summary["files"]:
    row = folders.setdefault(file["filename"].split("/")[0], [0, 0, 0, 0])
    for index, key in enumerate(("line_covered", "line_total", "branch_covered", "branch_total")):
        row[index] += file[key]

bad = []
print(f"{'folder':10} {'lines':>7} {'branches':>9}")
for name, (lines, line_total, branches, branch_total) in sorted(folders.items()):
    share = 100 * branches / max(branch_total, 1)
    print(f"{name:10} {100 * lines / max(line_total, 1):6.1f}% {share:8.1f}%")
    if share < BRANCHES.get(name, 0):
        bad.append(f"branches of {name}: {share:.1f}%, the limit is {BRANCHES[name]}%")
total = 100 * sum(row[0] for row in folders.values()) / max(sum(row[1] for row in folders.values()), 1)
print(f"{'all':10} {total:6.1f}%")
if total < LINES:
    bad.append(f"lines: {total:.1f}%, the limit is {LINES}%")
for line in bad:
    print("under the limit: " + line)
sys.exit(bool(bad))
