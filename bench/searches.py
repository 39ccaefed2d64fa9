#!/usr/bin/env python3
"""usage: searches.py [EVENTS...]   Searches of the log through the API, at growing sizes of the log (100000 1000000), and what the index costs.

SIJIL_BUILD is a release build with the target audit_bench. One server, embedded, on the disk of /var/tmp. audit_bench appends events beside it, as a
second gateway; the server's thread indexes them. Prints for each size: the rate of appending with and without the index beside it, the rate of
indexing, the size of the tables, and for each kind of search the time of its first page (20 searches with different values)."""
import json
import os
import random
import signal
import statistics
import sys
import time
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests/scenario"))
import sijil_test
from parts import become_gateway, database_folder, option_of, record_events, run_program
from registries import BUILD, Sijil

ROUNDS = 20
chance = random.Random(7)


def number(sijil, sql):
    return int(sijil.server.sql(sql))


def append(sijil, seconds, submitters=256):
    keyd = next(socket for pid in sijil.server.processes("sijil-keyd") if (socket := option_of(pid, "--socket")))
    become, database = become_gateway(sijil), f"host={database_folder(sijil)} dbname=sijil user=sijil_app"
    asked = run_program(*become, "psql", "-XAt", "-F", " ", database, "-c", "SELECT l.origin, a.epoch FROM audit_log l, authorization_epoch a").split()
    return record_events([*become, os.path.join(BUILD, "bench/audit_bench"), database, keyd, asked[0], str(submitters), str(seconds), asked[1]])


def gateways(sijil):
    return [pid for pid in sijil.server.processes("sijild") if pid != sijil.server.process.pid]


def cost_of_appending(sijil):
    """Old and new in turn: the gateway's threads stand still, or they index what comes."""
    found = {"without": [], "with": []}
    for _ in range(3):
        for pid in gateways(sijil):
            os.kill(pid, signal.SIGSTOP)
        found["without"].append(append(sijil, 5))
        for pid in gateways(sijil):
            os.kill(pid, signal.SIGCONT)
        await_index(sijil)
        found["with"].append(append(sijil, 5))
        await_index(sijil)
    return {name: {member: statistics.median(each[member] for each in runs) for member in runs[0]} for name, runs in found.items()}


def await_index(sijil):
    began, first = time.monotonic(), number(sijil, "SELECT indexed FROM audit_search")
    while (left := number(sijil, "SELECT l.size - s.indexed FROM audit_log l, audit_search s")) > 0:
        time.sleep(min(1, 0.05 + left / 100000))
    seconds = time.monotonic() - began
    return (number(sijil, "SELECT indexed FROM audit_search") - first) / max(seconds, 0.001)


def searches(client):
    """Kinds of searches, each with a value of its own each time."""
    def subject():
        return f"robot$bench+{chance.randrange(64)}"

    def repository():
        return f"acme/models/repository-{chance.randrange(256)}"

    pseudonyms = [event["entry"]["actor"] for event in client.api("GET", "/audit/events?prefix=acme&limit=300")["events"]]
    return {"everything below a name": lambda: {"prefix": "acme/models"},
            "one actor": lambda: {"actor": chance.choice(pseudonyms)},
            "one repository, denied": lambda: {"resource": repository(), "outcome": "denied"},
            "one digest": lambda: {"digest": f"sha256:{chance.randrange(100000):064x}"},
            "one address": lambda: {"address": f"192.0.2.{chance.randrange(251)}"},
            "actor, repository": lambda: {"actor": chance.choice(pseudonyms), "resource": repository()},
            "actor, address, repository (sparse)": lambda: {"actor": chance.choice(pseudonyms), "address": f"192.0.2.{chance.randrange(251)}",
                                                            "resource": repository()},
            "two repositories (none)": lambda: {"resource": repository(), "prefix": "acme/models/repository-x"},
            "two that are everywhere (none)": lambda: {"resource": "acme/models/repository-1", "prefix": "acme/models/repository-2"}}


def measure(client, make):
    waits, rounds = [], 0
    for _ in range(ROUNDS):
        began = time.monotonic()
        page = client.api("GET", "/audit/events?" + urllib.parse.urlencode(make()))
        waits.append((time.monotonic() - began) * 1000)
        rounds += "next" in page and not page["events"]
    waits.sort()
    return {"p50 ms": round(statistics.median(waits), 1), "p95 ms": round(waits[int(ROUNDS * 0.95) - 1], 1), "longest ms": round(waits[-1], 1),
            "not done": rounds}


def main():
    sizes = [int(word) for word in sys.argv[1:]] or [100000, 1000000]
    with Sijil() as sijil:
        client = sijil.server.client(sijil_test.make_robot(sijil.server, "auditor", "auditor", ""))
        for size in sizes:
            while (left := size - number(sijil, "SELECT size FROM audit_log")) > 0:
                append(sijil, max(1, min(20, left // 20000)))
            rate = await_index(sijil)
            sijil.server.sql("VACUUM ANALYZE")
            found = {"events": number(sijil, "SELECT size FROM audit_log"), "indexed per second": round(rate),
                     "bytes an event of the index": {table: number(sijil, f"SELECT pg_total_relation_size('{table}') / l.size FROM audit_log l")
                                                     for table in ("audit_post", "audit_blind", "audit_run")}}
            for kind, make in searches(client).items():
                found[kind] = measure(client, make)
            print(json.dumps(found, indent=1), flush=True)
        print(json.dumps({"appending": cost_of_appending(sijil)}), flush=True)


if __name__ == "__main__":
    main()
