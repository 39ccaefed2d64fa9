#!/usr/bin/env python3
"""Sijil beside Debian's docker-registry and zot, all over TLS, in one run, with the bounds of the machine in the same run.

The programs are taken from SIJIL_BUILD, a release build, which script/bench makes.
Prints tables of ratios and writes all figures as JSON. Absolute figures mean little on a shared machine; the ratios
of one run mean something. ZOT_PROGRAM names zot; without it docker-registry is the only peer.

`growth` measures something else: what requests cost with 10^3 to 10^6 blobs in the database."""
import argparse
import contextlib
import datetime
import json
import os
import platform
import shutil
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../tests/scenario"))
import growth
import parts
import rows
import tables
from registries import GIB, MIB, DockerRegistry, Sijil, Sink, StraightLine, Zot

DISK_NEEDED = 52 * GIB  # of a whole run: nothing that is pushed is removed before the end


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


def compare(options, folder, results):
    if not options.quick and shutil.disk_usage(folder).free < DISK_NEEDED:
        sys.exit(f"a whole run needs {DISK_NEEDED // GIB} GiB of disk below /var/tmp; --quick needs less")
    tell("memory")
    fill_page_cache(folder)
    tell("bounds")
    results["bounds"] = parts.bounds(folder)
    with Sijil() as sijil, contextlib.ExitStack() as peers:
        zot = os.environ.get("ZOT_PROGRAM")
        targets = [sijil, peers.enter_context(DockerRegistry(sijil, folder))]
        if zot:
            targets.append(peers.enter_context(Zot(sijil, folder, zot)))
        results["registries"] = [target.name for target in targets]
        measured = rows.measure([*targets, *(peers.enter_context(sink(sijil, folder)) for sink in (Sink, StraightLine))],
                                options.quick, tell)
        results["rows"] = {title: figures for title, figures in measured.items() if DockerRegistry.name in figures}
        tell("parts")
        results["push and its parts"] = parts.push_against_parts(measured, parts.parts_alone(folder), os.cpu_count())
        tell("tokens, events, nginx")
        results["tokens"] = parts.tokens_per_second(sijil, options.quick)
        results["audit events"] = parts.events_per_second(sijil)
        results["pull beside nginx MB/s"] = parts.pull_beside_nginx(sijil, folder, (256 * MIB) if options.quick else GIB)
    print(tables.comparison(results["rows"], results["registries"]), end="\n\n")
    print(tables.push_and_parts(results["push and its parts"]), tables.others(results), sep="\n", end="\n\n")
    print(tables.behind(results["rows"], results["registries"]), tables.marks(results), sep="\n\n")
    if not zot:
        print("left out: zot, which could not be had")


def main():
    parser = argparse.ArgumentParser(prog="script/bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=("compare", "growth"), default="compare")
    parser.add_argument("--quick", action="store_true", help="smaller blobs and fewer requests: to see that it works")
    parser.add_argument("--output", help="JSON file (default: bench/results/<time>.json)")
    options = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="sijil-bench-", dir="/var/tmp")
    results = {"time": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "machine": platform.machine(),
               "cores": os.cpu_count(), "quick": options.quick, "load before": os.getloadavg()}
    try:
        if options.what == "growth":
            results["growth"] = growth.measure(folder, options.quick, tell)
        else:
            compare(options, folder, results)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    results["load after"] = os.getloadavg()
    output = options.output or os.path.join(HERE, "results", results["time"].replace(":", "") + ".json")
    os.makedirs(os.path.dirname(os.path.abspath(output)), exist_ok=True)
    with open(output, "w", encoding="utf-8") as file:
        json.dump(results, file, indent=1)
    print("all figures:", output)


if __name__ == "__main__":
    main()
