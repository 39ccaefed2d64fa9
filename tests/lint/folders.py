#!/usr/bin/env python3
"""usage: folders.py SOURCE-FOLDER   Checks that a page cites each run of the bench, and that the table of a folder's README names each of
its source files, and no missing ones.

A name in the first column, between backticks, is a file, or a folder with its final slash; without an ending, or with .c or .h, it stands
for NAME.c, NAME.h, NAME_priv.h and NAME.def together. `*` is any end. A README without a table of files is left alone."""
import fnmatch
import os
import re
import sys

ENDINGS = (".c", ".h", ".def", ".py", ".sh")
LEFT_ALONE = {"tests/fuzz"}  # one file for each target, named as the target is
NOT_SOURCE = {"build", "__pycache__"}
FEWEST_TABLES = 12


def described():
    """Folders with a README, with their files; built and hidden files are not sources."""
    for folder, below, files in os.walk("."):
        below[:] = sorted(name for name in below if name[0] != "." and name not in NOT_SOURCE)
        if "README.md" in files and folder != ".":
            yield folder[2:], set(files)


def names_of(readme):
    with open(readme, encoding="utf-8") as file:
        cells = re.findall(r"^\| ([^|]*`[^|]*) \|", file.read(), re.M)
    return [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]


def patterns_of(name):
    if name.endswith("/"):
        return []
    stem, dot, ending = name.rpartition(".")
    if dot and ending not in ("c", "h"):
        return [name]
    stem = (stem or name).removesuffix("_priv")
    return [name] + [stem + each for each in (".c", ".h", "_priv.h", ".def")]


def check(folder, files, problems):
    names = names_of(f"{folder}/README.md")
    if not names:
        return 0
    patterns = [pattern for name in names for pattern in patterns_of(name)]
    for file in sorted(files):
        if file.endswith(ENDINGS) and not any(fnmatch.fnmatchcase(file, pattern) for pattern in patterns):
            problems.append(f"{folder}/README.md does not say what {file} is")
    for name in names:
        there = os.path.isdir(f"{folder}/{name}") or any(fnmatch.filter(files, pattern) for pattern in patterns_of(name))
        if not there:
            problems.append(f"{folder}/README.md: there is no {name}")
    return 1


def check_results(problems):
    """A run of the bench is kept as long as the page cites it."""
    with open("docs/performance.md", encoding="utf-8") as file:
        page = file.read()
    for name in sorted(os.listdir("bench/results")):
        run = re.fullmatch(r"\d{4}-\d\d-\d\d-([a-z-]+)\.json", name)
        if run is None or not re.search(rf"(?<![a-z]){re.escape(run[1])}(?![a-z])", page):
            problems.append(f"bench/results/{name}: docs/performance.md does not cite it")
    with open("bench/README.md", encoding="utf-8") as file:
        for name in re.findall(r"results/([\w-]+\.json)", file.read()):
            if not os.path.exists(f"bench/results/{name}"):
                problems.append(f"bench/README.md: there is no results/{name}")


def main():
    os.chdir(sys.argv[1])
    problems, tables = [], 0
    check_results(problems)
    for folder, files in described():
        if folder not in LEFT_ALONE:
            tables += check(folder, files, problems)
    if tables < FEWEST_TABLES:
        problems.append(f"only {tables} READMEs have a table of files that can be read here")
    print("\n".join(problems))
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
