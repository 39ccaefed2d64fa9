#!/usr/bin/env python3
"""Sijil beside Debian's docker-registry and zot, all over TLS, in one run, with the bounds of the machine in the same run.

The programs are taken from SIJIL_BUILD, a release build, which script/bench makes.
Prints tables of ratios and writes all figures as JSON. Absolute figures mean little on a shared machine; the ratios
of one run mean something. ZOT_PROGRAM names zot; without it docker-registry is the only peer.

`growth` measures something else: what requests cost with 10^3 to 10^6 blobs in the database. `compare OLD NEW` measures two commits of
Sijil in alternation, and fails when a row got slower by more than 5 % and by more than the old one differs from itself. `runs` measures
signed training runs beside bubblewrap, a plain `python3 train.py` and `sbatch`; a mark that is missed is a failure. `search` asks 20 questions of
logs of growing sizes. `log` measures how many events a second become durable, `plans` how long a plan of a policy set takes.

Figures are written as they come, one line each, to a file beside the output; a run that breaks off keeps them."""
import argparse
import contextlib
import datetime
import os
import platform
import shutil
import signal
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../tests/scenario"))
import builds
import growth
import log_load
import log_searches
import parts
import policy_peers
import policy_plans
import rights
import rows
import signed_runs
import tables
from record import Record
from registries import GIB, MIB, DockerRegistry, Sijil, Sink, StraightLine, Zot

OTHER_DISK = 8 * GIB  # the files of nginx and of the parts, databases, PostgreSQL's own log, and what is not given back at once


def fill_page_cache(folder):
    """A virtual machine gets its memory from its host page by page, and whoever writes there first pays: as much again as for
    the write. So all of it is in use before, by pages that the kernel gives to others when they ask."""
    path = os.path.join(folder, "filler")
    with open("/proc/meminfo", encoding="ascii") as file:
        memory = next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemTotal"))
    with open(path, "wb") as file:
        file.truncate(memory)  # holes: takes no room on the disk
    piece = bytearray(8 * MIB)
    with open(path, "rb", buffering=0) as file:
        while file.readinto(piece):
            pass


def tell(what):
    print(datetime.datetime.now().strftime("%H:%M:%S"), what, file=sys.stderr, flush=True)


def targets_of(sijil, peers, folder):
    zot = os.environ.get("ZOT_PROGRAM")
    targets = [sijil, peers.enter_context(DockerRegistry(sijil, folder))]
    if zot:
        targets.append(peers.enter_context(Zot(sijil, folder, zot)))
    return targets


@contextlib.contextmanager
def fresh_targets(folder):
    """All that is measured, started with nothing in it; what was pushed to it goes with it."""
    place = tempfile.mkdtemp(prefix="row-", dir=folder)
    try:
        with Sijil() as sijil, contextlib.ExitStack() as peers:
            yield [*targets_of(sijil, peers, place), *(peers.enter_context(sink(sijil, place)) for sink in (Sink, StraightLine))]
    finally:
        shutil.rmtree(place, ignore_errors=True)


def check_disk(folder, options):
    kinds = [Sijil, DockerRegistry, *([Zot] if os.environ.get("ZOT_PROGRAM") else []), Sink, StraightLine]
    needed = rows.disk_needed([kind.__new__(kind) for kind in kinds], options.quick, OTHER_DISK)
    free = shutil.disk_usage(folder).free
    if free < needed:
        sys.exit(f"this run needs {needed / GIB:.0f} GiB of disk below /var/tmp, and there are {free / GIB:.0f}" +
                 ("" if options.quick else "; --quick needs less"))
    tell(f"needs at most {needed / GIB:.0f} GiB below /var/tmp")


def peers(options, folder, record):
    check_disk(folder, options)
    tell("memory")
    fill_page_cache(folder)
    tell("bounds")
    results = record.found
    record.put("bounds", value=parts.bounds(folder))
    zot = os.environ.get("ZOT_PROGRAM")
    record.put("registries", value=[Sijil.name, DockerRegistry.name, *([Zot.name] if zot else [])])
    measured = rows.measure(lambda: fresh_targets(folder), options.quick, tell,
                            lambda title, figures: record.put("rows" if DockerRegistry.name in figures else "against parts", title, value=figures))
    tell("parts")
    record.put("push and its parts", value=parts.push_against_parts(measured, parts.parts_alone(folder), os.cpu_count()))
    with Sijil() as sijil:
        tell("tokens, events, nginx")
        record.put("tokens", value=parts.tokens_per_second(sijil, options.quick))
        record.put("audit events", value=parts.events_per_second(sijil))
        record.put("pull beside nginx MB/s", value=parts.pull_beside_nginx(sijil, folder, (256 * MIB) if options.quick else GIB))
    print(tables.comparison(results["rows"], results["registries"]), end="\n\n")
    print(tables.push_and_parts(results["push and its parts"]), tables.others(results), sep="\n", end="\n\n")
    print(tables.behind(results["rows"], results["registries"]), tables.marks(results), sep="\n\n")
    if not zot:
        print("left out: zot, which could not be had")


def way(text):
    """--beside: a name and a command."""
    name, mark, command = text.partition("=")
    if not name or not mark or not command:
        raise argparse.ArgumentTypeError(f"{text} is not NAME=COMMAND")
    return name, command


def parse():
    parser = argparse.ArgumentParser(prog="script/bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=("peers", "growth", "compare", "runs", "search", "log", "plans", "policies", "rights"), default="peers")
    parser.add_argument("builds", nargs="*", metavar="COMMIT", help="of compare: the old one and the new one")
    parser.add_argument("--rounds", type=int, default=5, help="of compare: alternations (default: 5)")
    parser.add_argument("--beside", action="append", type=way, default=[], metavar="NAME=COMMAND",
                        help="of runs: another way to train, such as one of kubectl that waits for its job's end; may be repeated")
    parser.add_argument("--waiting", action="store_true", help="of runs: only what waiting runners cost")
    parser.add_argument("--events", type=int, action="append", help="of search and plans: a size of the log; may be repeated (default: 10^5, 10^6, 5 x 10^6; of plans 10^7)")
    parser.add_argument("--folder", help="of search and plans: where the server has its files (default: below /var/tmp); a million events take 3 GB (2 of plans), their dump 2 GB")
    parser.add_argument("--dump", type=int, metavar="SIZE", help="of search: the size at which the log is dumped and checked (default: the largest; 0: never)")
    parser.add_argument("--groups", type=int, default=10000, help="of rights: groups that have a role by a document (default: 10000)")
    parser.add_argument("--verify", action="store_true", help="of search: measure a round of the verifier through the first size; it takes long")
    parser.add_argument("--cold", action="store_true", help="of search: the kernel forgets the pages of all files before each question; slows other programs, too")
    parser.add_argument("--quick", action="store_true", help="smaller blobs and fewer requests: to see that it works")
    parser.add_argument("--output", help="JSON file (default: bench/results/<time>.json)")
    options = parser.parse_args()
    if len(options.builds) != (2 if options.what == "compare" else 0) or options.rounds < 2:
        parser.error("compare takes two commits and at least two rounds, and nothing else does")
    return options


def run(options, folder, record):
    """False: a row got slower."""
    record.put("machine", value={"time": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
                                 "machine": platform.machine(), "cores": os.cpu_count(), "quick": options.quick,
                                 "load before": os.getloadavg()})
    if options.what == "growth":
        record.put("growth", value=growth.measure(folder, options.quick, tell))
    elif options.what == "compare":
        return builds.compare(options.builds, options.rounds, options.quick, record, tell)
    elif options.what == "runs":
        return signed_runs.measure(options, record, tell)
    elif options.what == "log":
        log_load.measure(folder, options.quick, record, tell)
    elif options.what == "plans":
        policy_plans.measure(options, record, tell)
    elif options.what == "policies":
        policy_peers.measure(folder, options.quick, record, tell)
    elif options.what == "rights":
        rights.measure(options, record, tell)
    elif options.what == "search":
        sizes = sorted(options.events or ([5000, 20000] if options.quick else log_searches.SIZES))
        log_searches.measure(sizes, options, record, tell)
    else:
        peers(options, folder, record)
    return True


def main():
    options = parse()
    folder = tempfile.mkdtemp(prefix="sijil-bench-", dir="/var/tmp")
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    record = Record(options.output or os.path.join(HERE, "results", now.replace(":", "") + ".json"))
    complete = is_good = False
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended from outside"))  # servers and folders go as at any other end
    try:
        is_good = run(options, folder, record)
        complete = True
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        record.put("load after", value=os.getloadavg())
        print("all figures:" if complete else "broken off; the figures so far:", record.end(complete))
    sys.exit(0 if is_good else 1)


if __name__ == "__main__":
    main()
