#!/usr/bin/python3
"""Compares the counts of gcovr with the limits: lines of all programs, and decisions of audit/, crypto/ and policy/.

usage: coverage.py COVERAGE.json [ARGUED.txt]     (from the root of the sources; COVERAGE.json is gcovr's --json)

A decision is a branch of the compiled code, with these exceptions, because they decide nothing:
  assert(...)             its failing edge ends the process;
  TRY(...)                its failing edge passes on what the callee decided - if its other edge was taken;
  json_object_foreach     its second edge: a member of a jansson object always has a value;
  OWNED(...) and the like the compiler's own branch to where the scope is left for, once the thing is freed.
Each decision must be taken both ways by the tests, or be argued in ARGUED.txt: one row a line,
  file | edges that are not taken, at most | the source line | why
A row whose line is gone, or is reached in whole, is an error too; unless its reason begins with "timing:", which says
that a race may take it in one run and not in the next."""
import json
import os
import re
import sys

LINES = 90.0
FOLDERS = ("audit", "crypto", "policy")
OWNED = re.compile(r"^(?:const |struct buffer )?OWNED")


def folded(text):
    return re.sub(r"\s+", " ", text).strip()


def read_argued(path):
    rows = {}
    if not os.path.exists(path):
        return rows
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if not line.strip() or line.startswith("#"):
                continue
            parts = [part.strip() for part in line.split(" | ")]
            if len(parts) < 4 or not parts[1].isdigit() or len(parts[-1]) < 10:
                sys.exit(f"{path}:{number}: file | edges | line | why")
            key = (parts[0], folded(" | ".join(parts[2:-1])))
            rows.setdefault(key, []).append([int(parts[1]), parts[-1], number])
    return rows


def missed(source, line):
    """The number of edges of this line that decide something and were not taken."""
    text = folded(source[line["line_number"] - 1])
    counts = [branch["count"] for branch in line["branches"]]
    if text.count("TRY(") == 1 and len(counts) >= 2 and counts[-1] > 0:
        del counts[-2] # TRY tests its result last, and the failing edge comes first
    untaken = counts.count(0)
    if untaken == 0 or text.startswith("assert(") or OWNED.match(text):
        return 0
    if "json_object_foreach" in text and untaken < len(counts):
        return untaken - 1
    return untaken


class Folder:
    def __init__(self):
        self.lines = self.lines_reached = self.branches = self.branches_taken = 0
        self.argued = self.open = 0


def read(coverage, argued):
    folders, problems = {}, []
    for file in coverage["files"]:
        name = file["file"]
        folder = folders.setdefault(name.split("/")[0], Folder())
        with open(name, encoding="utf-8") as handle:
            source = handle.read().split("\n")
        for line in file["lines"]:
            if line.get("gcovr/noncode") or line.get("gcovr/excluded"):
                continue
            folder.lines += 1
            folder.lines_reached += line["count"] > 0
            folder.branches += len(line["branches"])
            folder.branches_taken += sum(branch["count"] > 0 for branch in line["branches"])
            untaken = missed(source, line) if name.split("/")[0] in FOLDERS else 0
            if untaken == 0:
                continue
            text = folded(source[line["line_number"] - 1])
            row = next((row for row in argued.get((name, text), []) if row[0] >= untaken and len(row) == 3), None)
            if row is not None:
                row.append(True)
                folder.argued += untaken
            else:
                folder.open += untaken
                problems.append(f"{name}:{line['line_number']}: {untaken} of {len(line['branches'])} edges not taken: {text}")
    for (name, text), rows in argued.items():
        for row in rows:
            if len(row) == 3 and not row[1].startswith("timing:"):
                problems.append(f"coverage_argued.txt:{row[2]}: nothing needs this row any more: {name}: {text}")
    return folders, problems


def share(part, whole):
    return 100 * part / whole if whole else 100.0


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        coverage = json.load(file)
    argued = read_argued(sys.argv[2] if len(sys.argv) > 2 else os.path.join(os.path.dirname(__file__), "coverage_argued.txt"))
    folders, problems = read(coverage, argued)
    print("| folder | lines | branches | decisions not reached | of them argued |\n|---|---|---|---|---|")
    for name, folder in sorted(folders.items()):
        decisions = f"{folder.argued + folder.open} | {folder.argued}" if name in FOLDERS else "- | -"
        print(f"| {name} | {share(folder.lines_reached, folder.lines):.1f} % | "
              f"{share(folder.branches_taken, folder.branches):.1f} % | {decisions} |")
    reached, lines = (sum(getattr(folder, key) for folder in folders.values()) for key in ("lines_reached", "lines"))
    total = share(reached, lines)
    print(f"| all | {total:.1f} % | | | |")
    if total < LINES:
        problems.append(f"lines: {total:.1f}%, the limit is {LINES}%")
    for problem in problems:
        print("error: " + problem)
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
