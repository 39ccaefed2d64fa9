#!/usr/bin/env python3
"""usage: reach.py SOURCE-FOLDER BUILD-FOLDER   What the files of gateway/ can reach without a permit, as the compiler and the linker see it.

Headers:   a file of gateway/ has read only headers that it may read, also through other headers and by any spelling of #include: of storage/ those
           of reach.txt, of closed_headers.txt those that the row allows, and no *_priv.h of another room.
Functions: each function that its object needs is declared by a header that it has read. So a prototype by hand gives nothing.
           A function of storage/ or of a GUARDED header is needed only by the files of reach.txt; so is one of RIGHTS, which changes in memory who is
           believed, or whether a region was told which policy set is in force.
Text:      no cast to a permit, no complete type for a struct that a lower header keeps incomplete, no typeof and no assembly.

rogue.py shows with rogue files that each of these is found."""
import fnmatch
import functools
import json
import os
import re
import subprocess
import sys

TABLE, CLOSED, ROOMS = "tests/lint/reach.txt", "tests/lint/closed_headers.txt", "tests/lint/layers.txt"
GUARDED = ("crypto/keyd_client.h", "crypto/keyd_replacement.h", "audit/sequencer.h", "audit/permit.h", "audit/job_permit.h", "audit/decision_make.h", "authz/mint.h",
           "authz/run_token.h", "outgoing/call.h", "outgoing/stream.h")
LOWER = ("storage", "audit", "authz", "documents", "policy", "registry", "training")
RIGHTS = {"authz_directory_publish", "authz_snapshot_confirm", "issuer_confirm", "issuer_replace_keys", "authenticator_set_keys", "dpop_nonces_set",
          "decider_region_lacks"}
BY_NAME = RIGHTS | {"decider_decide", "decider_decide_copy", "dlopen", "dlsym", "dlvsym", "syscall", "system", "popen", "execve", "execv", "posix_spawn"}
OF_COMPILER = {"memcmp", "memcpy", "memmove", "memset"}  # it calls them for initializers and assignments, too
FEWEST = 80
CAST = re.compile(r"\((?:\s*(?:const|volatile))*\s*struct\s+permit\s*(?:const\s*)?\*[\s*const]*\)")
FORBIDDEN = re.compile(r"\b(__typeof__|__typeof|typeof|__auto_type|__asm__|__asm|asm)\b")


@functools.lru_cache(maxsize=None)
def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def code(text):
    """Without comments and texts."""
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', " ", text, flags=re.S)


@functools.lru_cache(maxsize=None)
def words(path):
    return set(re.findall(r"\w+", code(read(path))))


@functools.lru_cache(maxsize=None)
def declared(path):
    """The names that may be those of functions and objects of a header."""
    return set(re.findall(r"\b(\w+)[(;,]", code(read(path))))


def rows(path):
    """(names, files) of each row of a table."""
    for line in read(path).splitlines():
        if line.strip() and not line.startswith("#"):
            names, files = line.split("|")[:2]
            yield tuple(names.split()), tuple(files.split())


def is_in(path, files):
    return any(path == file or (file.endswith("/") and path.startswith(file)) for file in files)


class Lint:
    """In the source folder. `used` has the names of rows that some file needed."""

    def __init__(self):
        self.table, self.closed, self.used = list(rows(TABLE)), dict(), set()
        for names, files in rows(CLOSED):
            self.closed[names[0]] = files
        self.rooms = [line for line in read(ROOMS).splitlines() if re.match("[a-z]", line)]
        lower = [os.path.join(folder, name) for room in LOWER for folder, _, names in os.walk(room) for name in names if name.endswith(".h") and not name.endswith("_priv.h")]
        self.incomplete = {name for path in lower for name in re.findall(r"^struct (\w+);", read(path), re.M)}

    def room_of(self, path):
        return max((room for room in self.rooms if path.startswith(room + "/")), key=len, default="")

    def allows(self, name, source):
        for names, files in self.table:
            for pattern in names:
                if fnmatch.fnmatchcase(name, pattern) and is_in(source, files):
                    self.used.add(pattern)
                    return True
        return False

    def check_header(self, source, header):
        own = self.room_of(source)
        if header in self.closed and not is_in(source, self.closed[header]):
            return f"{source} reads {header}, which {CLOSED} closes"
        if header.endswith("_priv.h") and not (own + "/").startswith(self.room_of(header) + "/"):
            return f"{source} reads {header}, which is private to {self.room_of(header)}"
        if header.startswith("storage/") and not self.allows(header, source):
            return f"{source} reads {header}: {TABLE} says which headers of storage/ a file may read"
        return None

    def check_function(self, source, name, headers):
        naming = [header for header in headers if name in words(header)]
        if not naming and name in OF_COMPILER:
            return None
        if not naming:
            return f"{source} needs {name}(), and no header that it reads declares it: a prototype by hand opens no door"
        is_guarded = name in BY_NAME or any((header.startswith("storage/") or header in GUARDED) and name in declared(header) for header in naming)
        if is_guarded and not self.allows(name, source):
            return f"{source} needs {name}(), which works without a permit, or gives one: {TABLE} says which files may call it"
        return None

    def check_text(self, source, text):
        text = code(text)
        problems = [f"{source} casts to a permit" for _ in CAST.findall(text)]
        problems += [f"{source} has {word}" for word in FORBIDDEN.findall(text)]
        problems += [f"{source} defines struct {name}, which a lower header keeps incomplete" for name in re.findall(r"\bstruct\s+(\w+)\s*\{", text)
                     if name in self.incomplete]
        return problems

    def check(self, source, headers, functions):
        """The problems of one file. `source` is its path as seen by the tables."""
        found = [self.check_header(source, header) for header in headers if not header.startswith("/")]
        found += [self.check_function(source, name, headers) for name in functions]
        return [problem for problem in found if problem]


def needed(path):
    """The functions and objects that an object file needs. Names that begin with _ are of the compiler and of libc."""
    listing = subprocess.run(["nm", "-u", "-P", path], capture_output=True, text=True, check=True).stdout
    return [name for name in (line.split()[0] for line in listing.splitlines()) if not name.startswith("_")]


def objects(source, build):
    """(path of the source, object) of gateway/, as far as it is built."""
    for each in json.loads(read(f"{build}/compile_commands.json")):
        path = os.path.relpath(each["file"], source)
        made = re.search(r" -o (\S+/CMakeFiles/sijil_\w+\.dir/\S+\.o) ", each["command"])
        if path.startswith("gateway/") and made and "_faulty" not in made[1] and "_verify_interface_" not in made[1]:
            if os.path.exists(os.path.join(each["directory"], made[1])):
                yield path, made[1]


def headers_of(source, build, paths):
    """{object: the files that the compiler read for it}, from ninja; those of the source folder relative to it."""
    listing = subprocess.run(["ninja", "-C", build, "-t", "deps", *paths], capture_output=True, text=True, check=True).stdout
    found, current = {}, []
    for line in listing.splitlines():
        if line.startswith("    "):
            path = os.path.realpath(os.path.join(build, line.strip()))
            current.append(os.path.relpath(path, source) if path.startswith(source + "/") else path)
        elif ": #deps" in line:
            current = found.setdefault(line.split(": #deps")[0], [])
    return found


def main():
    source, build = (os.path.realpath(path) for path in sys.argv[1:3])
    os.chdir(source)
    lint, problems = Lint(), []
    made = dict(objects(source, build))
    if len(made) < FEWEST:
        sys.exit(f"only {len(made)} objects of gateway/ are built in {build}")
    headers = headers_of(source, build, list(made.values()))
    for path, object_ in sorted(made.items()):
        read_by = [name for name in headers.get(object_, []) if name != path]
        if not read_by:
            problems.append(f"{path}: ninja does not know what was read for {object_}: build it again")
            continue
        problems += lint.check_text(path, read(path)) + lint.check(path, read_by, needed(os.path.join(build, object_)))
    names = {pattern for patterns, _ in lint.table for pattern in patterns}
    problems += [f"{TABLE}: no file needs {name}: remove it" for name in sorted(names - lint.used)]
    print("\n".join(problems))
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
