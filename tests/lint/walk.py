#!/usr/bin/env python3
"""usage: walk.py SOURCE-FOLDER   The walk of a push in docs/architecture.md is that of the sources.

A line of it is "N. `file`, from M: `function()` ...": the file defines the functions, and the file of step M calls the first one. With "by
`object->member`:" the file of step M calls through that pointer, and a source puts the next function into it. At most 12 files, none entered
more than twice."""
import os
import re
import sys

PAGE, HEADING, FILES_MAX, ENTRIES_MAX = "docs/architecture.md", "## The walk of a push", 12, 2
ROOMS = ("gateway", "registry", "audit")  # whose sources fill pointers
STEP = re.compile(r"^(\d+)\. `([^`]+)`(?:, from (\d+))?(.*(?:\n {3}.*)*)", re.M)
CALL = re.compile(r"by `\w+->(\w+)`: `(\w+)\(\)`")


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def steps_of_walk():
    section = read(PAGE).partition(HEADING + "\n")[2].split("\n## ")[0]
    return [(int(match[1]), match[2], match[3], match[4]) for match in STEP.finditer(section)]


def code(text):
    """Without comments and texts, so that only code counts."""
    return re.sub(r'/\*.*?\*/|"(?:\\.|[^"\\])*"', "", text, flags=re.S)


def defines(text, function):
    return re.search(rf"^(?:static |const |enum |struct |void |bool |ssize_t )[\w *]*\b{function}\([^;]*?\)\n{{", text, re.M) is not None


def calls(text, function):
    """A call is indented, and a definition or a declaration is not."""
    return re.search(rf"^[ \t]+.*(?<![\w.>]){function}\(", code(text), re.M) is not None


def calls_member(text, member):
    return re.search(rf"(?:->|\.){member}\(", code(text)) is not None


def filled():
    """All sources that fill pointers, as one text. A row of routes.def fills `target` with its function, which has no other name."""
    texts = [re.sub(r"\b(target_\w+),", r".target = \1,", read("gateway/routes.def"))]
    for room in ROOMS:
        for folder, _, names in os.walk(room):
            texts += [code(read(os.path.join(folder, name))) for name in names if name.endswith(".c")]
    return "\n".join(texts)


def check_call(number, path, caller, rest, sources):
    """The problems of one step with the step that calls it."""
    where, text, pointers = f"{PAGE}: step {number}", read(caller), CALL.findall(rest)
    named = re.findall(r"`(\w+)\(\)`", rest)
    if not pointers:
        return [] if calls(text, named[0]) else [f"{where}: {caller} does not call {named[0]}()"]
    problems = []
    for member, function in pointers:
        if not calls_member(text, member):
            problems.append(f"{where}: {caller} does not call ...->{member}()")
        if not re.search(rf"\b{member} = {function}\b", sources):
            problems.append(f"{where}: no source puts {function}() of {path} into {member}")
    return problems


def check_step(step, paths, sources):
    number, path, origin, rest = step
    if not os.path.exists(path):
        return [f"{PAGE}: there is no {path}"]
    named, text = re.findall(r"`(\w+)\(\)`", rest), read(path)
    if not named:
        return [f"{PAGE}: step {number} names no function of {path}"]
    problems = [f"{PAGE}: {path} does not define {name}()" for name in named if not defines(text, name)]
    if number == 1:
        return problems
    if origin is None or not 0 < int(origin) < number:
        return [*problems, f"{PAGE}: step {number} does not name the step that calls it"]
    return problems + check_call(number, path, paths[int(origin) - 1], rest, sources)


def main():
    os.chdir(sys.argv[1])
    steps = steps_of_walk()
    paths, sources, problems = [step[1] for step in steps], filled(), []
    if [step[0] for step in steps] != list(range(1, len(steps) + 1)):
        problems.append(f"{PAGE}: the steps of the walk are not numbered from 1")
    for step in steps:
        problems += check_step(step, paths, sources)
    if not 8 <= len(set(paths)) <= FILES_MAX:
        problems.append(f"{PAGE}: a push is followed in {len(set(paths))} files; at most {FILES_MAX}")
    problems += [f"{PAGE}: {path} is entered {paths.count(path)} times" for path in sorted(set(paths)) if paths.count(path) > ENTRIES_MAX]
    print("\n".join(problems))
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
