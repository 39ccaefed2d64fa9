#!/usr/bin/env python3
"""usage: circles.py SOURCE-FOLDER BUILD-FOLDER   Finds circles of calls between files in the built objects.

An object needs the symbols that nm calls undefined, and gives those that nm calls defined. Files in a ring of any length can't be
understood or moved one at a time. A ring must not join files of two rooms (layers.txt); within the rooms of FREE there must be none."""
import json
import os
import re
import subprocess
import sys

FREE = {"base", "supervision", "crypto", "journal", "keyd", "audit/format", "training", "training/format", "runner/serve", "runner/slurm"}  # and all rooms of gateway/
FEWEST_OBJECTS = 200


def rooms_of(source):
    with open(f"{source}/tests/lint/layers.txt", encoding="utf-8") as file:
        return [line.strip() for line in file if re.match("[a-z]", line)]


def room_of(path, rooms):
    """The longest room that the path is in."""
    return max((room for room in rooms if path.startswith(room + "/")), key=len, default="")


def objects(source, build, rooms):
    """(file without its ending, object) of each source that ships and is built, once. Objects of sources that moved away may lie about still."""
    with open(f"{build}/compile_commands.json", encoding="utf-8") as file:
        commands = json.load(file)
    for each in commands:
        path = os.path.relpath(each["file"], source)
        made = re.search(r" -o (\S+/CMakeFiles/sijil_\w+\.dir/\S+\.o) ", each["command"])
        if made and "_faulty.dir/" not in made[1] and room_of(path, rooms) and path.endswith(".c"):
            if os.path.exists(f"{each['directory']}/{made[1]}"):
                yield path[:-2], f"{each['directory']}/{made[1]}"


def calls(found):
    """{file: {file that it needs: symbols}}"""
    file_of = {path: file for file, path in found}
    given, needed = {}, {file: set() for file in file_of.values()}
    listing = subprocess.run(["nm", "-A", "-P", "-g", *file_of], capture_output=True, text=True, check=True).stdout
    for line in listing.splitlines():
        path, _, symbol = line.partition(": ")
        name, kind = symbol.split()[:2]
        if kind == "U":
            needed[file_of[path]].add(name)
        elif kind in "TDBRC":
            given[name] = file_of[path]
    edges = {file: {} for file in needed}
    for file, names in needed.items():
        for name in sorted(names):
            if name in given and given[name] != file:
                edges[file].setdefault(given[name], []).append(name)
    return edges


def reached(edges, start):
    seen, waiting = set(), [start]
    while waiting:
        for file in edges[waiting.pop()]:
            if file not in seen:
                seen.add(file)
                waiting.append(file)
    return seen


def circles(edges):
    """Sets of files each of which reaches all others of its set."""
    below = {file: reached(edges, file) for file in edges}
    left = sorted(file for file in edges if file in below[file])
    while left:
        circle = {file for file in left if file in below[left[0]] and left[0] in below[file]}
        yield sorted(circle)
        left = [file for file in left if file not in circle]


def tell(circle, edges):
    print("files that need each other:", ", ".join(circle))
    for file in circle:
        for other in circle:
            if other in edges[file]:
                print(f"    {file} needs of {other}: {', '.join(edges[file][other])}")


def main():
    source, build = sys.argv[1:3]
    rooms = rooms_of(source)
    found = list(objects(os.path.abspath(source), build, rooms))
    if len(found) < FEWEST_OBJECTS:
        sys.exit(f"only {len(found)} objects are built in {build}")
    edges = calls(found)
    bad = 0
    for circle in circles(edges):
        inside = {room_of(file, rooms) for file in circle}
        if len(inside) > 1 or inside & FREE or any(room.split("/")[0] == "gateway" for room in inside):
            tell(circle, edges)
            bad = 1
    sys.exit(bad)


if __name__ == "__main__":
    main()
