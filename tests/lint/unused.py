#!/usr/bin/env python3
"""usage: unused.py SOURCE-FOLDER BUILD-FOLDER   Functions that no program needs, because nothing or only tests call them.

A function that other files can see must be needed by another object of the programs (nm calls it undefined there), or be named a second
time in its own source. tests/lint/unused_argued.txt has the exceptions, one line each: NAME REASON. A function must need each of them."""
import collections
import fnmatch
import json
import os
import re
import subprocess
import sys

FEWEST_OBJECTS = 200
ARGUED_MAX = 36
FOLDERS = ("tests/", "bench/")


def objects(source, build):
    """{object: its source} of everything that programs are linked from; each source once."""
    with open(f"{build}/compile_commands.json", encoding="utf-8") as file:
        commands = json.load(file)
    for each in commands:
        path = os.path.relpath(each["file"], source)
        made = re.search(r" -o (\S+\.o) ", each["command"])
        if made and "_faulty" not in made[1] and "_verify_interface_" not in made[1] and not path.startswith(("..", *FOLDERS)):
            yield f"{each['directory']}/{made[1]}", path


def symbols(files):
    """(source that defines it, name) of each visible function, and the names that some object lacks."""
    defined, lacking = [], set()
    listing = subprocess.run(["nm", "-A", "-P", "-g", *files], capture_output=True, text=True, check=True).stdout
    for line in listing.splitlines():
        path, _, symbol = line.partition(": ")
        name, kind = symbol.split()[:2]
        if kind == "U":
            lacking.add(name)
        elif kind == "T":
            defined.append((files[path], name))
    return defined, lacking


def is_named_again(text, name):
    return len(re.findall(rf"\b{name}\b", text)) > 1


def argued(source):
    with open(f"{source}/tests/lint/unused_argued.txt", encoding="utf-8") as file:
        rows = [line.split(None, 1) for line in file if line.strip() and not line.startswith("#")]
    twice = sorted(name for name, count in collections.Counter(row[0] for row in rows).items() if count > 1)
    if twice:
        sys.exit(f"unused_argued.txt: two rows for {', '.join(twice)}")
    return {row[0]: row[1].strip() if len(row) > 1 else "" for row in rows}


def covers(pattern, name, path):
    return any(fnmatch.fnmatchcase(each, pattern) for each in (name, path))


def stale(exceptions, unused):
    """The rows that no unused function needs. `unused` has (name, path)."""
    return [f"unused_argued.txt: no unused function is {pattern}: remove the row" for pattern in exceptions
            if not any(covers(pattern, name, path) for name, path in unused)]


def main():
    source, build = (os.path.abspath(path) for path in sys.argv[1:3])
    files = dict(objects(source, build))
    missing = sorted(name for path, name in files.items() if not os.path.exists(path))
    if missing or len(files) < FEWEST_OBJECTS:
        sys.exit(f"{len(missing)} of {len(files)} objects are not built in {build}, such as that of {missing[:1]}: build all, then judge")
    defined, lacking = symbols(files)
    exceptions, problems, unused = argued(source), [], set()
    texts = {}
    for path, name in sorted(defined):
        if name == "main" or name in lacking:
            continue
        if path not in texts:
            with open(f"{source}/{path}", encoding="utf-8") as file:
                texts[path] = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
        if not is_named_again(texts[path], name):
            unused.add((name, path))
            if not any(covers(pattern, name, path) for pattern in exceptions):
                problems.append(f"{path}: no program needs {name}()")
    problems += stale(exceptions, unused)
    problems += [f"unused_argued.txt: {name} without a reason" for name, reason in exceptions.items() if not reason]
    if len(exceptions) > ARGUED_MAX:
        problems.append(f"unused_argued.txt: {len(exceptions)} exceptions; at most {ARGUED_MAX}")
    print("\n".join(problems))
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
