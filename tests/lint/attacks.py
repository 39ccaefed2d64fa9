#!/usr/bin/env python3
"""usage: attacks.py SOURCE-FOLDER   docs/attacks-on-runs.md names tests that are there: `FILE: FUNCTION`, with the file below tests/. A row without a test fails,
too, and so does a function that its file defines and never runs."""
import os
import re
import sys

PAGE = "docs/attacks-on-runs.md"
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


def main():
    lines = [line for line in read(PAGE).splitlines() if line.startswith("|") and not re.match(r"\| (?:tried|killed) \||\|-", line)]
    found = [f"no test is named: {line[:80]}" for line in lines if not NAMED.search(line)]
    named = {pair for line in lines for pair in NAMED.findall(line)}
    found += sorted(filter(None, (wrong_with(*pair) for pair in named)))
    if len(named) < 50:
        found.append(f"only {len(named)} tests are named")
    for what in found:
        print(f"{PAGE}: {what}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
