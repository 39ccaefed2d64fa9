#!/usr/bin/env python3
"""usage: rogue.py SOURCE-FOLDER BUILD-FOLDER   No decision, no operation: handlers without a permit do not compile.

tests/lint/rogue.c is compiled with the options of a file of gateway/, once for each case; the compiler's error must say what is missing.
The same source compiles when it passes the permit on, so that another mistake in it does not look like a success."""
import json
import os
import re
import shlex
import subprocess
import sys

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
    return entry["directory"], [*words, "-Wno-unused", "-fsyntax-only", "-fno-diagnostics-color"]


def compiles(directory, words, source, case, *more):
    done = subprocess.run([*words, *more, f"-DCASE_{case}", f"{source}/tests/lint/rogue.c"], cwd=directory, capture_output=True, text=True,
                          env={**os.environ, "LC_ALL": "C"})
    return done.returncode == 0, done.stderr


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
        whole = [word for word in words if word != "-fsyntax-only" and not word.startswith("-fsanitize")]
        for case, wanted in {"PERMITTED": None, **ANALYSED}.items():
            ok, said = compiles(directory, whole, source, case, "-O0", "-fanalyzer", "-S", "-o", os.devnull)
            if ok != (wanted is None) or (wanted is not None and not re.search(wanted, said)):
                problems.append(f"{case}: the analyser says not /{wanted}/ but:\n{said}")
    print("\n".join(problems))
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
