#!/usr/bin/env python3
"""usage: decisions.py SOURCE-FOLDER   docs/decisions/README.md has one line for each decision, in order, with its title."""
import os
import re
import sys

FOLDER = "docs/decisions"
FEWEST = 30


def expected():
    """The line of each page: its number, and its title as a link."""
    for name in sorted(os.listdir(FOLDER)):
        number = re.fullmatch(r"(\d{4})-[a-z0-9-]+\.md", name)
        if number:
            with open(f"{FOLDER}/{name}", encoding="utf-8") as file:
                title = re.fullmatch(r"# (\d+)\. (.+)\n", file.readline())
            if not title or int(title[1]) != int(number[1]):
                yield f"{FOLDER}/{name} does not begin with '# {int(number[1])}. TITLE'"
            else:
                yield f"- {title[1]}: [{title[2]}]({name})"


def main():
    os.chdir(sys.argv[1])
    wanted = list(expected())
    with open(f"{FOLDER}/README.md", encoding="utf-8") as file:
        found = [line.rstrip("\n") for line in file if line.startswith("- ")]
    problems = [f"{FOLDER}/README.md lacks: {line}" for line in wanted if line not in found]
    problems += [f"{FOLDER}/README.md: no page fits: {line}" for line in found if line not in wanted]
    if not problems and found != wanted:
        problems.append(f"{FOLDER}/README.md: the lines are not in order, or stand twice")
    if len(wanted) < FEWEST:
        problems.append(f"only {len(wanted)} decisions are found")
    print("\n".join(problems))
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
