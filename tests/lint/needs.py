#!/usr/bin/env python3
"""usage: needs.py SOURCE-FOLDER BUILD-FOLDER   script/test TEST builds what the test needs, also where nothing was ever built.

ctest hides the command of a test whose program is missing. So tests/support/suite.py is asked about a copy of the build folder that has
its description alone, and no program. And each test that docs/oauth-security.md names in the last column of a row is one that there is."""
import os
import re
import subprocess
import sys
import tempfile

ROWS = (
    ("unit test", "^base$", {"tests/unit/test_base"}),
    ("two tests, one with a database", "^(thread|pg)$", {"tests/unit/test_thread", "tests/integration/test_pg"}),
    ("seeds of a fuzz target", "^fuzz_range_header$", {"tests/fuzz/fuzz_range_header"}),
    ("scenario", "^scenario_keys$", {"needs_scenario"}),
    ("test of all programs", "^sandbox_runs$", {"needs_programs"}),
)


def copy_description(build, copy):
    """The files that describe the build, with the folder's new name in them."""
    for folder, _, files in os.walk(build):
        for name in files:
            if name == "CTestTestfile.cmake" or name.endswith(".ninja"):
                inside = os.path.join(copy, os.path.relpath(folder, build))
                os.makedirs(inside, exist_ok=True)
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    text = file.read()
                with open(os.path.join(inside, name), "w", encoding="utf-8") as file:
                    file.write(text.replace(build, copy))


def named_in_vain(source, build):
    listed = subprocess.run(["ctest", "--test-dir", build, "-N"], capture_output=True, text=True, check=True).stdout
    known = set(re.findall(r"^ +Test +#\d+: (\S+)", listed, re.M))
    with open(os.path.join(source, "docs/oauth-security.md"), encoding="utf-8") as page:
        rows = [line for line in page if line.startswith("| ")]
    return [(row[2:60], name) for row in rows for name in re.findall(r"`([a-z0-9_]+)`", row.rstrip().rstrip("|").rpartition("|")[2]) if name not in known]


def main(source, build):
    failed = 0
    for row, name in named_in_vain(source, build):
        failed = 1
        print(f"docs/oauth-security.md: there is no test {name} ({row})")
    with tempfile.TemporaryDirectory() as copy:
        copy_description(os.path.abspath(build), copy)
        for title, regex, wanted in ROWS:
            asked = subprocess.run([sys.executable, os.path.join(source, "tests/support/suite.py"), "needs", copy, regex],
                                   capture_output=True, text=True, check=False)
            if asked.returncode != 0 or not wanted <= set(asked.stdout.split()):
                failed = 1
                print(f"{title} ({regex}): wants {sorted(wanted)}, and is told {asked.stdout.split()}{asked.stderr}")
    print(f"{len(ROWS)} rows")
    return failed


if len(sys.argv) != 3:
    sys.exit(__doc__)
sys.exit(main(*sys.argv[1:]))
