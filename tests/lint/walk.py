#!/usr/bin/env python3
"""usage: walk.py SOURCE-FOLDER   The walk of a push in docs/architecture.md is that of the sources. The page says what an entry is.

A step is "N. `file`, from M: `function()` ...": the file defines the functions, and the file of step M calls the first one. With "by
`object->member`:" the file of step M calls through that pointer, and a source puts the next function into it; with "through `other`" the
file `other` calls it. Behind "It asks" are calls that only return: "`function()` of `file`". The file of the step calls the function, or
the file of a function before it; neither the function nor what it calls in its own file passes the request on.
At most 12 files are entered, none more than twice."""
import os
import re
import sys

PAGE, HEADING, FILES_MAX, ENTRIES_MAX = "docs/architecture.md", "## The walk of a push", 12, 2
ROOMS = ("gateway", "registry", "audit")  # whose sources fill pointers
STEP = re.compile(r"^(\d+)\. `([^`]+)`(?:, from (\d+)(?: through `([^`]+)`)?)?(.*(?:\n {3}.*)*)", re.M)
CALL = re.compile(r"by\s+`\w+->(\w+)`:\s+`(\w+)\(\)`")
ASKED = re.compile(r"`(\w+)\(\)`\s+of\s+`([^`]+)`")
PASSES = re.compile(r"\b(?:sequencer_submit\w*|http_submit|http_resume|http_stream|exchange_answer)\(|"
                    r"->(?:done|start|fast_path|target|search|begin|handle|write|finish|record|run|add|take)\(")


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def steps_of_walk():
    section = read(PAGE).partition(HEADING + "\n")[2].split("\n## ")[0]
    return [match.groups() for match in STEP.finditer(section)]


def code(text):
    """Without comments and texts, so that only code counts."""
    return re.sub(r'/\*.*?\*/|"(?:\\.|[^"\\])*"', "", text, flags=re.S)


def bodies(text):
    """{function: its body} of a source."""
    return {match[1]: match[2] for match in re.finditer(r"^(?:static |const |enum |struct |void |bool |ssize_t )[\w *]*?\b(\w+)\([^;{}]*?\)\n\{(.*?)^\}",
                                                        code(text), re.M | re.S)}


def calls(text, function):
    return any(re.search(rf"(?<![\w.>]){function}\(", body) for body in bodies(text).values())


def calls_member(text, member):
    return re.search(rf"(?:->|\.){member}\(", code(text)) is not None


def passes_on(text, function):
    """Whether the function passes the request on, itself or by a function of its own file."""
    known, waiting, seen = bodies(text), [function], set()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        if PASSES.search(known[name]):
            return True
        waiting += [other for other in known if re.search(rf"(?<![\w.>]){other}\(", known[name])]
    return False


def filled():
    """All sources that fill pointers, as one text. A row of routes.def fills `target` with its function, which has no other name."""
    texts = [re.sub(r"\b(target_\w+),", r".target = \1,", read("gateway/routes.def"))]
    for room in ROOMS:
        for folder, _, names in os.walk(room):
            texts += [code(read(os.path.join(folder, name))) for name in names if name.endswith(".c")]
    return "\n".join(texts)


def check_call(where, path, caller, told, sources):
    """The problems of one step with the file that calls it."""
    text, pointers = read(caller), CALL.findall(told)
    named = re.findall(r"`(\w+)\(\)`", told)
    if not pointers:
        return [] if calls(text, named[0]) else [f"{where}: {caller} does not call {named[0]}()"]
    problems = []
    for member, function in pointers:
        if not calls_member(text, member):
            problems.append(f"{where}: {caller} does not call ...->{member}()")
        if not re.search(rf"\b{member} = {function}\b", sources):
            problems.append(f"{where}: no source puts {function}() of {path} into {member}")
    return problems


def check_asked(where, path, asked):
    problems, callers = [], [path]
    if "It asks" not in asked:
        return []
    for function, file in ASKED.findall(asked):
        if not os.path.exists(file) or function not in bodies(read(file)):
            problems.append(f"{where}: {file} does not define {function}()")
            continue
        if not any(calls(read(caller), function) for caller in callers):
            problems.append(f"{where}: {' and '.join(callers)} do not call {function}()")
        if PASSES.search(f"{function}(") or passes_on(read(file), function):
            problems.append(f"{where}: {function}() of {file} passes the request on, so it is a step")
        callers.append(file)
    return problems


def check_step(step, paths, sources):
    number, path, origin, through, rest = step
    where = f"{PAGE}: step {number}"
    if not os.path.exists(path):
        return [f"{PAGE}: there is no {path}"]
    told, _, asked = rest.partition("It asks")
    named = re.findall(r"`(\w+)\(\)`", told)
    if not named:
        return [f"{where} names no function of {path}"]
    known = bodies(read(path))
    problems = [f"{PAGE}: {path} does not define {name}()" for name in named if name not in known]
    problems += check_asked(where, path, _ + asked)
    if number == "1":
        return problems
    if origin is None or not 0 < int(origin) < int(number):
        return [*problems, f"{where} does not name the step that passes the request on"]
    return problems + check_call(where, path, through or paths[int(origin) - 1], told, sources)


def main():
    os.chdir(sys.argv[1])
    steps = steps_of_walk()
    paths, sources, problems = [step[1] for step in steps], filled(), []
    if [step[0] for step in steps] != [str(number) for number in range(1, len(steps) + 1)]:
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
