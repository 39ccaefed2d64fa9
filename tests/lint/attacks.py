#!/usr/bin/env python3
"""usage: attacks.py SOURCE-FOLDER   docs/attacks-on-runs.md and docs/bypasses.md name tests that are there: `FILE: FUNCTION`, with the file below tests/. A row without
a test fails, too, and so does a function that its file defines and never runs."""
import os
import re
import sys

PAGES = ("docs/attacks-on-runs.md", "docs/bypasses.md")
FEWEST = 50
NAMED = re.compile(r"`([\w/]+\.(?:py|c)): (\w+)`")


def read(*path):
    with open(os.path.join(sys.argv[1], *path), encoding="utf-8") as file:
        return file.read()


def wrong_with(name, function):
    """Nothing, or what is wrong with the test."""
    if not os.path.exists(os.path.join(sys.argv[1], "tests", name)):
        return f"there is no tests/{name}"
    text = read("tests", name)
    definition = rf"^def {function}\(" if name.endswith(".py") else rf"^static void {function}\(void \*\*state\)"
    if not re.search(definition, text, re.M):
        return f"tests/{name} has no test {function}"
    return "" if len(re.findall(rf"\b{function}\b", text)) > 1 else f"tests/{name} does not run {function}"


def wrong_of(page):
    """What is wrong with a page."""
    lines = [line for line in read(page).splitlines() if line.startswith("|") and not re.match(r"\| (?:tried|killed) \||\|-", line)]
    found = [f"no test is named: {line[:80]}" for line in lines if not NAMED.search(line)]
    named = {pair for line in lines for pair in NAMED.findall(line)}
    found += sorted(filter(None, (wrong_with(*pair) for pair in named)))
    if len(named) < FEWEST:
        found.append(f"only {len(named)} tests are named")
    return found


def main():
    found = [f"{page}: {what}" for page in PAGES for what in wrong_of(page)]
    for what in found:
        print(what)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
