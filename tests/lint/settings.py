#!/usr/bin/env python3
"""usage: settings.py SOURCE-FOLDER   Every setting of sijild and every option of each program, also of the commands of sijil, stands on a page of docs/, and every
type of a message of sijil-keyd on that of its protocol.

A page names one in code: between backticks, or in an indented block. A word that only looks like its name does not count."""
import glob
import os
import re
import sys

TABLES = {  # the file, the pattern of a row, the form of the name on a page, the least number of rows
    "gateway/settings/settings.def": (r"^(?:SETTING|REGION)\(\w+, (\w+),", "{}", 60),
    "cmd/sijild_options.c": (r'^    \{SIJILD_\w+, "([\w-]+)",', "--{}", 8),
    "cmd/sijil_keyd_options.c": (r'^    \{KEYD_\w+, "([\w-]+)",', "--{}", 15),
    "cmd/sijil_runner_options.c": (r'^    \{RUNNER_\w+, "([\w-]+)",', "--{}", 50),
    "cmd/sijil_verify_options.c": (r'^    \{VERIFY_\w+, "([\w-]+)",', "--{}", 10),
    "cmd/sijil_witness_options.c": (r'^    \{WITNESS_\w+, "([\w-]+)",', "--{}", 12),
    "client/commands/commands.def": (r"\{'\w', \"([\w-]+)\"", "--{}", 20),
    "client/commands/commands.c": (r"'\w', \"([\w-]+)\",", "--{}", 60),
}
OF_ALL = {"help", "version"}  # options that every program has


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def code_of(page):
    return "\n".join(re.findall(r"`[^`]+`|^(?:    |\t).*$", re.sub(r"^```.*?^```", lambda block: re.sub("^", "    ", block[0], flags=re.M), page, flags=re.M | re.S), re.M))


def main():
    os.chdir(sys.argv[1])
    pages = "\n".join(code_of(read(path)) for path in glob.glob("docs/*.md"))
    problems = []
    for path, (row, form, fewest) in TABLES.items():
        names = set(re.findall(row, read(path), re.M)) - OF_ALL
        if len(names) < fewest:
            problems.append(f"{path}: only {len(names)} rows can be read here")
        for name in sorted(names):
            if not re.search(rf"(?<![\w-]){re.escape(form.format(name))}(?![\w-])", pages):
                problems.append(f"{path}: no page of docs/ says what {form.format(name)} is for")
    page = read("docs/formats/keyd-protocol.md")
    types = re.findall(r"^    X\((\d+), KEYD_\w+, (\w+)\)", read("crypto/keyd_protocol.h"), re.M)
    problems += [f"docs/formats/keyd-protocol.md has no row for the type {number}, {name}" for number, name in types if f"\n| {number} " not in page]
    if len(types) < 20:
        problems.append(f"crypto/keyd_protocol.h: only {len(types)} types can be read here")
    print("\n".join(problems))
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
