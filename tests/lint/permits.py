#!/usr/bin/env python3
"""usage: permits.py SOURCE-FOLDER   No decision, no operation, also for functions that nobody has tried to misuse yet.

Each function of authz/, documents/, registry/ and training/ that gateway/ can call and that takes a connection must demand a permit: as its first
argument, or through a handle that only a permit opens. EXEMPT has the others with the reason, and every row of it must be needed."""
import os
import re
import subprocess
import sys

ROOMS = ("authz", "documents", "registry", "training")
FOUNDERS = ("authz/administrator.h",)  # layers.sh: only embedded/ and cmd/ may include these
HANDLES = ("struct upload *upload",)   # asserts that upload_find() or upload_of_begin() has taken the permit
EXEMPT = {
    "authz_snapshot_load": "decisions need the snapshot",
    "authz_snapshot_renew": "decisions need the snapshot",
    "advisory_lock_take": "a lock, no row",
    "advisory_lock_release": "a lock, no row",
    "registry_clean_up": "a job: records its own permit",
    "registry_clean_up_for": "a job: records its own permit",
    "registry_end_expired": "a job: records its own permit",
    "registry_drop_forgotten": "a job: drops keys that an earlier permit has ended",
    "registry_record_forgotten": "a job: records its own permit",
    "job_begin_scrubs_if_due": "a job: records its own permit",
    "job_begin_collection_if_due": "a job: records its own permit",
    "registry_work": "a job: records its own permit",
    "run_expire_due": "a job: records its own permit",
    "manifest_uses_write": "times of reads that permits have allowed",
    "document_scope_find": "finds since when the documents of a name count",
    "quota_count_new": "counters, which no client sees",
    "quota_events_list": "counters, which no client sees",
    "quota_events_take": "counters, which no client sees",
    "registry_check_regions": "checks of the start: no client's data",
    "registry_check_served": "checks of the start: no client's data",
    "registry_write_notes": "notes of damage that a read under a permit has found",
    "manifest_push_prepare": "only reads the form of the body; its change demands the permit",
    "upload_cancel_finish": "after a change that has demanded the permit",
    "upload_end_finish": "after a change that has demanded the permit",
}
FUNCTION = re.compile(r"\b(?:RESULT|bool|void|struct result|size_t) (\w+)\(([^;{]*?)\)\s*(?:__attribute__[^;]*)?;")


def included(source, path):
    with open(os.path.join(source, path), encoding="utf-8") as file:
        return re.findall(r'#include "([^"]+\.h)"', file.read())


def headers(source):
    """Those that a file of gateway/ may include, and all that it gets with them."""
    listed = subprocess.run(["find", *ROOMS, "-name", "*.h"], cwd=source, check=True, capture_output=True, text=True).stdout.split()
    waiting = [path for path in listed if not path.endswith(("_store.h", "_priv.h")) and path not in FOUNDERS]
    seen = set()
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        waiting += [each for each in included(source, path) if each.split("/")[0] in ROOMS]
    return sorted(seen)


def functions(path):
    with open(path, encoding="utf-8") as file:
        text = re.sub(r"/\*.*?\*/", " ", file.read(), flags=re.S)
    for name, arguments in FUNCTION.findall(text):
        yield name, " ".join(arguments.split())


def main():
    source, problems, exempt, seen = sys.argv[1], [], set(EXEMPT), 0
    for header in headers(source):
        for name, arguments in functions(os.path.join(source, header)):
            if "struct pg *" not in arguments:
                continue
            seen += 1
            if arguments.startswith("const struct permit *") or any(handle in arguments for handle in HANDLES):
                continue
            if name not in EXEMPT:
                problems.append(f"{header}: {name}() takes a connection and no permit: make the permit its first argument, or move it into a "
                                "*_store.h or *_priv.h that no other header includes: gateway/ can't see those")
            exempt.discard(name)
    problems += [f"tests/lint/permits.py: {name} is exempt and no longer there, or it has a permit: remove the row" for name in sorted(exempt)]
    if seen < 40:
        problems.append(f"only {seen} functions with a connection were found: the headers have another form now")
    print("\n".join(problems))
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
