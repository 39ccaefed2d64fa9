#!/usr/bin/env python3
"""usage: walk.py SOURCE-FOLDER   The walk of a push in docs/architecture.md: each file is there and defines the functions that the walk names.

A line of it is "N. `file`: ... `function()` ...". At most 12 files, none entered more than twice."""
import os
import re
import sys

PAGE, HEADING, FILES_MAX, ENTRIES_MAX = "docs/architecture.md", "## The walk of a push", 12, 2


def lines_of_walk():
    with open(PAGE, encoding="utf-8") as file:
        _, _, rest = file.read().partition(HEADING + "\n")
    section = rest.split("\n## ")[0]
    return [(match[1], re.findall(r"`(\w+)\(\)`", match[2])) for match in re.finditer(r"^\d+\. `([^`]+)`: (.*(?:\n {3}.*)*)", section, re.M)]


def defines(text, function):
    return re.search(rf"^(?:static |const |enum |struct |void |bool |ssize_t )[\w *]*\b{function}\([^;]*?\)\n{{", text, re.M) is not None


def main():
    os.chdir(sys.argv[1])
    walk, problems = lines_of_walk(), []
    for path, functions in walk:
        if not os.path.exists(path):
            problems.append(f"{PAGE}: there is no {path}")
            continue
        with open(path, encoding="utf-8") as file:
            text = file.read()
        if not functions:
            problems.append(f"{PAGE}: no function of {path} is named")
        problems += [f"{PAGE}: {path} does not define {name}()" for name in functions if not defines(text, name)]
    paths = [path for path, _ in walk]
    if not 8 <= len(set(paths)) <= FILES_MAX:
        problems.append(f"{PAGE}: a push is followed in {len(set(paths))} files; at most {FILES_MAX}")
    problems += [f"{PAGE}: {path} is entered {paths.count(path)} times" for path in sorted(set(paths)) if paths.count(path) > ENTRIES_MAX]
    print("\n".join(problems))
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
