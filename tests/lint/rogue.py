#!/usr/bin/env python3
"""usage: rogue.py SOURCE-FOLDER BUILD-FOLDER   No decision, no operation: handlers without a permit do not compile, or a lint refuses them.

tests/lint/rogue.c is compiled with the options of a file of gateway/, once for each case; the compiler's error must say what is missing.
The same source compiles when it passes the permit on, so that another mistake in it does not look like a success.

The files of tests/lint/rogue/ compile. Each is judged as gateway/api/rogue.c, and each line "LINT: REGEX" of its first comment is a message
that the lint must give. The file without such lines must pass all of them."""
import glob
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile

import reach

AS = "gateway/api/binding.c"
NULL_FIRST = r"(argument 1 null where non-null expected|null passed to a callee that requires a non-null argument)"
CASES = {  # the expected error of the compiler
    "STATEMENT_BY_NAME": r"pg_run.*\n(?:.*\n)*.*struct pg_statement",
    "STATEMENT_OF_ANOTHER_FILE": r"tag_delete_sql.* undeclared",
    "STATEMENT_OF_A_TABLE": r"(invalid use of undefined|incomplete).* type .*struct pg_table",
    "STATEMENT_MADE_UP": r"statement.* (has initializer but|has) incomplete type",
    "BINDING_WITHOUT_PERMIT": r"struct permit",
    "TAGS_WITHOUT_PERMIT": r"struct permit",
    "NULL_FOR_PERMIT": NULL_FIRST,
    "NULL_FOR_PERMIT_OF_BINDINGS": NULL_FIRST,
    "CHANGE_WITHOUT_PERMIT": r"struct permit",
    "CHANGE_WITH_NULL_FOR_PERMIT": NULL_FIRST,
    "ISSUERS_WITHOUT_PERMIT": r"struct permit",
    "ROBOT_REVOKED_WITH_NULL": NULL_FIRST,
    "LOG_WITHOUT_PERMIT": r"struct permit",
    "LOG_WITH_NULL": NULL_FIRST,
    "SERVER_CLEANS_UP": r"implicit declaration of function .registry_clean_up",
    "DRAFTS_WITHOUT_PERMIT": r"struct permit",
    "JOBS_WITH_NULL": NULL_FIRST,
    "JOBS_WITH_A_LOOKUP": r"struct pg \*.*\n(?:.*\n)*.*struct lookup|struct lookup \*.*\n(?:.*\n)*.*struct pg",
    "PERMIT_MADE_UP": r"permit.* (has initializer but|has) incomplete type",
    "PERMIT_OF_A_JOB": r"implicit declaration of function .permit_for_job",
    "PRINCIPAL_CHANGED": r"read-only object",
    "LOOKUP_AS_CONNECTION": r"struct pg \*.*\n(?:.*\n)*.*struct lookup|struct lookup \*.*\n(?:.*\n)*.*struct pg",
}


ANALYSED = {"NULL_IN_A_VARIABLE": r"use of NULL .permit. where non-null expected"}  # of the analyser; the compiler accepts it


def command(source, build):
    """The compiler with the options of a handler's file, without the name of that file."""
    with open(f"{build}/compile_commands.json", encoding="utf-8") as file:
        entry = next(each for each in json.load(file) if each["file"] == f"{source}/{AS}")
    words = [word for word in shlex.split(entry["command"]) if word not in ("-c", entry["file"])]
    at = words.index("-o")
    del words[at:at + 2]
    if os.path.basename(words[0]) in ("ccache", "sccache"):
        del words[0]
    return entry["directory"], [*words, "-Wno-unused", "-fno-diagnostics-color"]


def compiles(directory, words, source, case, *more):
    done = subprocess.run([*words, *(more or ["-fsyntax-only"]), f"-DCASE_{case}", f"{source}/tests/lint/rogue.c"], cwd=directory, capture_output=True, text=True,
                          env={**os.environ, "LC_ALL": "C"})
    return done.returncode == 0, done.stderr


def copied(source, path):
    """A folder with the lints, empty rooms, and the rogue file as a handler's."""
    tree = tempfile.TemporaryDirectory()
    for room in reach.Lint().rooms:
        os.makedirs(f"{tree.name}/{room}", exist_ok=True)
    os.makedirs(f"{tree.name}/tests")
    os.symlink(f"{source}/tests/lint", f"{tree.name}/tests/lint")
    with open(f"{tree.name}/gateway/api/rogue.c", "w", encoding="utf-8") as file:
        file.write(reach.read(path))
    return tree


def by_script(source, path, *words):
    with copied(source, path) as tree:
        return subprocess.run([*words, tree], capture_output=True, text=True).stdout


def by_reach(directory, words, source, path):
    """What reach.py says of the compiled file."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([*words, "-c", path, "-o", f"{folder}/rogue.o", "-MD", "-MF", f"{folder}/rogue.d"], cwd=directory,
                              capture_output=True, text=True)
        if done.returncode != 0:
            return f"it does not compile:\n{done.stderr}"
        read = [os.path.realpath(os.path.join(directory, each)) for each in reach.read(f"{folder}/rogue.d").replace("\\\n", " ").split()[1:]]
        headers = [os.path.relpath(each, source) if each.startswith(source + "/") else each for each in read if each != path]
        functions = reach.needed(f"{folder}/rogue.o")
    lint, name = reach.Lint(), "gateway/api/rogue.c"
    return "\n".join(lint.check_text(name, reach.read(path)) + lint.check(name, headers, functions))


def refusals(directory, words, source):
    """The problems of tests/lint/rogue/."""
    os.chdir(source)
    problems, paths = [], sorted(glob.glob(f"{source}/tests/lint/rogue/*.c"))
    for path in paths:
        wanted = re.findall(r"\b(layers|statements|reach): (.*)", reach.read(path).split("*/")[0])
        said = {"layers": by_script(source, path, "sh", "tests/lint/layers.sh"), "reach": by_reach(directory, words, source, path),
                "statements": by_script(source, path, "python3", "tests/lint/statements.py")}
        problems += [f"{path}: {lint} does not say /{each}/ but:\n{said[lint]}" for lint, each in wanted if not re.search(each, said[lint])]
        if not wanted and (said["layers"] + said["reach"]).strip():
            problems.append(f"{path}: a lint refuses it:\n{said['layers']}{said['reach']}")
    if len(paths) < 23:
        problems.append(f"only {len(paths)} rogue files are found")
    return problems


def main():
    source, build = (os.path.realpath(path) for path in sys.argv[1:3])
    directory, words = command(source, build)
    problems = []
    ok, said = compiles(directory, words, source, "PERMITTED")
    if not ok:
        problems.append(f"a handler that hands its permit on does not compile:\n{said}")
    for case, wanted in CASES.items():
        ok, said = compiles(directory, words, source, case)
        if ok:
            problems.append(f"{case}: it compiles")
        elif not re.search(wanted, said):
            problems.append(f"{case}: the compiler does not say /{wanted}/:\n{said}")
    if "Free Software" in subprocess.run([words[0], "--version"], check=True, capture_output=True, text=True).stdout:  # clang has no -fanalyzer
        whole = [word for word in words if not word.startswith("-fsanitize")]
        for case, wanted in {"PERMITTED": None, **ANALYSED}.items():
            ok, said = compiles(directory, whole, source, case, "-O0", "-fanalyzer", "-S", "-o", os.devnull)
            if ok != (wanted is None) or (wanted is not None and not re.search(wanted, said)):
                problems.append(f"{case}: the analyser says not /{wanted}/ but:\n{said}")
    problems += refusals(directory, words, source)
    print("\n".join(problems))
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
