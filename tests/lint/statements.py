#!/usr/bin/env python3
"""usage: statements.py SOURCE-FOLDER   Each statement of SQL is private to its file, listed once and run.

A statement is an object `static const struct pg_statement NAME_sql = {"NAME", ...` (storage/pg_table.h) of a *_store.c. One table of its file
lists it, so that connections prepare it and check it against the schema; a function of its file uses it. No two have one name. Nobody
else defines or runs statements: only storage/ and *_store.c name pg_run() and pg_pipeline_add()."""
import collections
import os
import re
import subprocess
import sys

FEWEST = 250
FOLDERS = ("base", "supervision", "journal", "crypto", "outgoing", "storage", "audit", "keyd", "documents", "authz", "policy", "registry", "training", "gateway", "client", "embedded", "cmd")
DEFINERS = re.compile(r"(_store\.c|storage/(create|migrate|pg_prepare)\.c)$")
RUNNERS = re.compile(r"(_store\.c|storage/[a-z_]+\.[ch])$")
INCLUDERS = re.compile(r"(_store\.c|storage/(create|migrate)\.c|storage/pg_priv\.h)$")
DEFINITION = re.compile(r"^(static )?const struct pg_statement (\w+) = (?:\{\s*|[A-Z_]+\()\"(\w+)\"", re.M)
LIST = re.compile(r"^static const struct pg_statement \*const (\w+)\[\] = \{(.*?)\};", re.M | re.S)


def sources():
    listed = subprocess.run(["find", *[folder for folder in FOLDERS if os.path.isdir(folder)], "-name", "*.[ch]"], check=True, capture_output=True, text=True)
    for path in sorted(listed.stdout.split()):
        with open(path, encoding="utf-8") as file:
            yield path, re.sub(r"/\*.*?\*/", " ", file.read(), flags=re.S)


def check_uses(path, text, statement, problems):
    """Checks that each is used once in a table, and at least once elsewhere."""
    tables = [content for name, content in LIST.findall(text) if f"PG_TABLE({name})" in text]
    listed = sum(len(re.findall(rf"&{statement}\b", each)) for each in tables)
    used = len(re.findall(rf"&{statement}\b", text)) - listed
    if listed != 1:
        problems.append(f"{path}: {statement} stands in {listed} tables of its file, not in one: no connection prepares it once")
    if used == 0:
        problems.append(f"{path}: {statement} is defined and never run")


def check_file(path, text, names, problems):
    defined = len(re.findall(r"const struct pg_statement \w+ =", text))
    for static, statement, name in DEFINITION.findall(text):
        defined -= 1
        names[name].append(path)
        if path == "storage/pg_prepare.c":  # BEGIN and COMMIT, for pg_pipeline.c
            continue
        if not static:
            problems.append(f"{path}: {statement} is not static: others could run it")
        if statement != f"{name}_sql":
            problems.append(f"{path}: {statement} has the name {name}: call it {name}_sql")
        check_uses(path, text, statement, problems)
    if defined != 0:
        problems.append(f"{path}: {defined} statements are not of the form NAME_sql = {{\"NAME\", ...")
    if path != "storage/pg_table.h" and not DEFINERS.search(path) and "struct pg_statement " in re.sub(r"struct pg_statement (\*|const|\w+, )|extern const struct pg_statement", "", text):
        problems.append(f"{path}: statements belong into a *_store.c")
    if not RUNNERS.search(path) and re.search(r"\bpg_(run|pipeline_add)\b", text):
        problems.append(f"{path}: only a *_store.c runs statements")
    if not INCLUDERS.search(path) and '"storage/pg_table.h"' in text:
        problems.append(f"{path}: storage/pg_table.h is for *_store.c alone")


def main():
    os.chdir(sys.argv[1])
    problems, names = [], collections.defaultdict(list)
    for path, text in sources():
        check_file(path, text, names, problems)
    problems += [f"two statements are called {name}: {', '.join(paths)}" for name, paths in sorted(names.items()) if len(paths) > 1]
    if len(names) < FEWEST:
        problems.append(f"only {len(names)} statements can be read here")
    print("\n".join(problems))
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
