#!/usr/bin/env python3
"""usage: permits.py SOURCE-FOLDER   Checks "no operation without a decision" for each function, also for those that no test misuses.

A door is a parameter by which a function can reach rows or content: DOORS. Each function of ROOMS that a handler can call and that has a door
demands a permit: as its first argument, never null, or through a handle that only a permit opens. No file of gateway/ makes a permit of another
pointer by a cast, which compiles. No function of training/ leaves the resource of its permit unread. A handler can't see the headers of tests/lint/closed_headers.txt. EXEMPT has the rest with the reasons; each row must be needed, and docs/architecture.md names each function."""
import os
import re
import subprocess
import sys

ROOMS = ("audit", "authz", "documents", "policy", "registry", "training")
DOORS = ("struct pg *", "struct registry *", "const struct document_source *", "struct policy_set_source *")
HANDLES = {  # only a function that got the permit makes one
    "struct upload *": "upload_find() and upload_of_begin() take the permit; the others assert it before they reach rows or bytes",
    "struct audit_page *": "audit_list() and audit_find() take the permit",
}
EXEMPT = {
    "manifest_push_prepare": "seals the body before the record, because the change stores what it seals; it reads the wrapped key of the project",
    "label_sources_find": "names repositories whose labels a pushed manifest gets, because its record brings the label; a client learns of none that it may not see",
    "scim_user_of": "says whose names a change seals before the record; the change finds the person again, and nothing of it is shown",
    "document_view_refresh": "updates the documents in memory, which decisions and checks before the record need",
    "document_view_update": "the same for one kind: trust rules, which each snapshot of the rights needs",
    "document_view_follow": "the same, only if sijil-keyd has pinned something new",
    "run_claim": "reserves a run for seconds for the runner that asks, and tells nobody: only the change of the event run.lease leases it",
    "run_gather_join": "keeps the runner that asks for a run of several nodes, for seconds, and tells nobody: it leases nothing",
    "run_gather_note": "counts the runner that asks among those that fit a run of several nodes, and tells nobody",
    "run_offer_note": "notes what the runner that asks has free: people that may read a run are told how many lack what",
    "run_offer_note_queue": "the same for a scheduler, which says its regions alone",
    "run_ready": "notes that the holder of a lease, which has its event, is ready to start: the event run.start covers all nodes",
    "run_heartbeat": "notes that the holder of a lease, which has its event, is alive: an event every ten seconds would say nothing more",
    "run_log_append": "adds to a log that the event run.append has begun; without the row of that event it fails",
    "run_log_read": "reads for a reader whose event run.log is recorded; without the row of that event it finds nothing",
    "registry_region_has_problem": "the state of a region, for the message of a failure",
    "registry_region_is_readable": "the state of a region, to choose the one that a read is decided about",
    "registry_resolve_cached": "a name is resolved before it is decided: the id of a repository, from memory",
}
CLOSED, PAGE = "tests/lint/closed_headers.txt", "docs/architecture.md"
FUNCTION = re.compile(r"\b(?:RESULT|bool|void|struct result|size_t) (\w+)\(([^;{]*?)\)\s*((?:__attribute__[^;]*)?);")

CAST = re.compile(r"\(\s*(?:const\s+)?struct\s+permit\s*(?:const\s*)?\*[\s*const]*\)\s*[\w(&*\"]")
assert CAST.search("f((const struct permit *)request)") and CAST.search("p = (struct permit*) (void *)x;")
assert not CAST.search("RESULT f(const struct permit *permit, struct pg *pg)") and not CAST.search("void f(const struct permit *) {")


def casts():
    """Casts to a permit in the files of gateway/."""
    listed = subprocess.run(["find", "gateway", "-name", "*.[ch]"], check=True, capture_output=True, text=True).stdout.split()
    for path in sorted(listed):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        for found in CAST.finditer(text):
            yield f"{path}:{text.count(chr(10), 0, found.start()) + 1}: a cast to a permit: only the sequencer makes permits"


IGNORED = re.compile(r"\(\s*void\s*\)\s*permit_resource\(")
assert IGNORED.search("(void)permit_resource(permit, ACTION_RUN_FINISH);") and not IGNORED.search("where = permit_resource(permit, action);")


def ignored():
    """Functions of training/ that ask only whether the permit allows the action, and not on what."""
    listed = subprocess.run(["find", "training", "-name", "*.c"], check=True, capture_output=True, text=True).stdout.split()
    for path in sorted(listed):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        for found in IGNORED.finditer(text):
            yield (f"{path}:{text.count(chr(10), 0, found.start()) + 1}: nobody compares the resource of the permit: use permit_require(), "
                   "permit_require_detail() or permit_require_above(), or the project in the statement")


def closed_headers():
    with open(CLOSED, encoding="utf-8") as file:
        rows = [line.split("|") for line in file if not line.startswith("#")]
    return {row[0].strip() for row in rows}


def included(path):
    with open(path, encoding="utf-8") as file:
        return [name for name in re.findall(r'#include "([^"]+\.h)"', file.read()) if name.startswith(tuple(room + "/" for room in ROOMS))]


def headers(closed):
    """The headers that a handler may include, and those that they include."""
    listed = subprocess.run(["find", *ROOMS, "-name", "*.h"], check=True, capture_output=True, text=True).stdout.split()
    waiting = [path for path in listed if not path.endswith(("_store.h", "_priv.h")) and path not in closed]
    seen = set()
    while waiting:
        path = waiting.pop()
        if path not in seen:
            seen.add(path)
            waiting += included(path)
    return sorted(seen)


def functions(path):
    with open(path, encoding="utf-8") as file:
        text = re.sub(r"/\*.*?\*/", " ", file.read(), flags=re.S)
    for name, arguments, attributes in FUNCTION.findall(text):
        yield name, " ".join(arguments.split()), attributes


def is_permitted(arguments, attributes):
    """`nonnull` without numbers is for all arguments."""
    if re.match(r"(const )?(" + "|".join(re.escape(handle) for handle in HANDLES) + ")", arguments):
        return True
    return arguments.startswith("const struct permit *") and re.search(r"nonnull(\((1\b|\())?", attributes) is not None


def is_harmless(name, arguments):
    """A function that finds the id of a name for a target function, or that makes, ends, begins or finishes its object without a row: the
    change that it prepares gets the permit when it runs."""
    if "struct lookup *" in arguments:
        return True
    return "struct pg *" not in arguments and name.endswith(("_prepare", "_prepare_for_job", "_new", "_free", "_finish", "_init"))


def main():
    os.chdir(sys.argv[1])
    closed, problems, exempt, seen = closed_headers(), [], set(EXEMPT), 0
    problems += [f"{CLOSED}: there is no {path}" for path in sorted(closed) if not os.path.exists(path)]
    problems += casts()
    problems += ignored()
    for header in headers(closed):
        problems += [f"{header} includes {path}, which {CLOSED} closes" for path in included(header) if path in closed]
        for name, arguments, attributes in functions(header):
            if not any(re.search(r"(^|, )" + re.escape(door), arguments) for door in DOORS):
                continue
            seen += 1
            if name not in EXEMPT and not is_permitted(arguments, attributes) and not is_harmless(name, arguments):
                problems.append(f"{header}: {name}() can reach rows or content without a permit: make the permit its first argument, with "
                                f"__attribute__((nonnull)), or move it into a *_priv.h or into a header of {CLOSED}")
            exempt.discard(name)
    problems += [f"tests/lint/permits.py: {name} is exempt and no longer there, or it has a permit: remove the row" for name in sorted(exempt)]
    with open(PAGE, encoding="utf-8") as file:
        page = file.read()
    problems += [f"{PAGE} does not name {name}(), which works without a permit" for name in EXEMPT if f"`{name}()`" not in page]
    if seen < 60:
        problems.append(f"only {seen} functions with a door were found: the headers have another form now")
    print("\n".join(problems))
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
