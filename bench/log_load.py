"""`script/bench log`: how many events a second become durable, alone, beside searches, by four gateways, and beside Tessera's POSIX back end and immudb.

The rows take turns, ROUNDS times; a figure is the middle one. Everything is on the disk of /var/tmp. At the end the log must have each number once."""
import os
import re
import resource
import shutil
import statistics
import subprocess
import tempfile
import threading
import time
import urllib.parse

import log_searches
import sijil_test
from parts import become_gateway, database_folder, option_of, record_events, run_program
from registries import BUILD, Sijil
from rows import settle

ROUNDS, SECONDS, SEARCHERS = 3, 10, 2
PEERS = {"tessera": "Tessera's POSIX back end", "immudb": "immudb's store"}


def figures_of(said):
    found = re.match(r"([\d.]+) events/s, p50 ([\d.]+) ms, p99 ([\d.]+) ms, longest ([\d.]+) ms, (\d+) failed", said)
    return {"per_second": float(found[1]), "p50 ms": float(found[2]), "p99 ms": float(found[3]), "failed": int(found[5])}


def words_of(log, submitters):
    keyd = next(socket for pid in log.server.processes("sijil-keyd") if (socket := option_of(pid, "--socket")))
    become, database = become_gateway(log), f"host={database_folder(log)} dbname=sijil user=sijil_app"
    origin, epoch = run_program(*become, "psql", "-XAt", "-F", " ", database, "-c",
                                "SELECT l.origin, a.epoch FROM audit_log l, authorization_epoch a").split()
    return [*become, os.path.join(BUILD, "bench/audit_bench"), database, keyd, origin, str(submitters), str(SECONDS), epoch]


def await_followers(log):
    """Until the index of searches and detection have all events."""
    log_searches.await_index(log)
    while log_searches.number(log, "SELECT size - (SELECT coalesce(max(at), 0) FROM audit_detection) FROM audit_log") > 0:
        time.sleep(0.1)


def alone(log, submitters):
    """With what an event costs: CPU time of PostgreSQL, gateways and keyd, that of the appending program, and bytes of the journal; and that of the servers
    until all that follows the log has the event, too."""
    words, before, cpu = words_of(log, submitters), log.server.sql("SELECT pg_current_wal_lsn()"), log_searches.cpu_of_server(log)
    own = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = record_events(words)
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    events = found["per_second"] * SECONDS
    found["us of the servers"] = (log_searches.cpu_of_server(log) - cpu) * 1e6 / events
    found["us of the appending program"] = (spent.ru_utime + spent.ru_stime - own.ru_utime - own.ru_stime) * 1e6 / events
    found["journal bytes"] = int(log.server.sql(f"SELECT pg_current_wal_lsn() - '{before}'")) / events
    await_followers(log)
    found["us of the servers, to the end"] = (log_searches.cpu_of_server(log) - cpu) * 1e6 / events
    return found


def together(log, gateways, submitters):
    """With the CPU time of an event, as far as servers and appending programs have spent it when the last of them ends."""
    settle()
    words, cpu, own = words_of(log, submitters), log_searches.cpu_of_server(log), resource.getrusage(resource.RUSAGE_CHILDREN)
    running = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(gateways)]
    found = [figures_of(one.communicate()[0]) for one in running]
    spent, per_second = resource.getrusage(resource.RUSAGE_CHILDREN), sum(one["per_second"] for one in found)
    return {"per_second": per_second, "p50 ms": statistics.median(one["p50 ms"] for one in found),
            "p99 ms": max(one["p99 ms"] for one in found), "failed": sum(one["failed"] for one in found),
            "us of the servers": (log_searches.cpu_of_server(log) - cpu) * 1e6 / (per_second * SECONDS),
            "us of the appending program": (spent.ru_utime + spent.ru_stime - own.ru_utime - own.ru_stime) * 1e6 / (per_second * SECONDS)}


def beside_searches(log, submitters):
    waits, stop = [], threading.Event()

    def search():
        while not stop.is_set():
            began = time.monotonic()
            log.auditor.api("GET", "/audit/events?" + urllib.parse.urlencode(log_searches.chance.choice(log.questions)()))
            waits.append((time.monotonic() - began) * 1000)

    threads = [threading.Thread(target=search) for _ in range(SEARCHERS)]
    for thread in threads:
        thread.start()
    found = record_events(words_of(log, submitters))
    behind = log_searches.number(log, "SELECT l.size - s.indexed FROM audit_log l, audit_search s")
    stop.set()
    for thread in threads:
        thread.join()
    waits.sort()
    return {**found, "searches a second": len(waits) / SECONDS, "search p50 ms": statistics.median(waits), "search p95 ms": waits[len(waits) * 95 // 100],
            "behind at the end": behind}


def peer(folder, name, submitters):
    program = os.path.join(os.environ.get("PEERS_FOLDER", ""), name)
    if not os.access(program, os.X_OK):
        return None
    place = tempfile.mkdtemp(dir=folder)
    settle()
    own = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = figures_of(run_program(program, place, str(submitters), str(SECONDS)))
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    found["us of the appending program"] = (spent.ru_utime + spent.ru_stime - own.ru_utime - own.ru_stime) * 1e6 / (found["per_second"] * SECONDS)
    shutil.rmtree(place)
    return found


def check_whole(log):
    """The log has each number once; the index of keys has each event."""
    size, count, last = (int(word) for word in log.server.sql("SELECT (SELECT size FROM audit_log) || ' ' || count(*) || ' ' || max(seq) FROM audit_entry").split())
    assert size == count == last + 1, (size, count, last)
    return size


def middle(runs):
    return {name: round(statistics.median(run[name] for run in runs), 2) for name in runs[0]}


def measure(folder, quick, record, tell):
    global SECONDS
    SECONDS = 3 if quick else SECONDS
    with Sijil() as log:
        log.auditor = log.server.client(sijil_test.make_robot(log.server, "auditor", "auditor", ""))
        log_searches.append(log, 5000 if quick else 100000, 1)
        log_searches.await_index(log)
        events = log.auditor.api("GET", "/audit/events?prefix=org00&limit=300")["events"]
        log.questions = list(log_searches.questions(events, [events[-1]["entry"]["ts"], events[0]["entry"]["ts"]]).values())
        rows = {f"{many} at a time": lambda many=many: alone(log, many) for many in (16, 64, 256)}
        rows |= {f"{many}, beside searches": lambda many=many: beside_searches(log, many) for many in (16, 64, 256)}
        rows |= {"four gateways, 64 each": lambda: together(log, 4, 64)}
        rows |= {f"{PEERS[name]}, 256 at a time": lambda name=name: peer(folder, name, 256) for name in PEERS}
        runs = {name: [] for name in rows}
        for _ in range(ROUNDS):
            for name, row in rows.items():
                if (found := row()) is not None:  # the index must not be behind when the next row begins
                    runs[name].append(found)
                    tell(f"{name}: {found}")
                log_searches.await_index(log)
        for name, some in runs.items():
            if some:
                record.put("log", name, value=middle(some))
        record.put("log", "events", value=check_whole(log))
    print("| | events a second | p50 ms | p99 ms |\n|---|---|---|---|")
    for name, figures in record.found["log"].items():
        if name != "events":
            print(f"| {name} | {figures['per_second']:,.0f} | {figures['p50 ms']} | {figures['p99 ms']} |")
    for name, title in PEERS.items():
        if not runs[f"{title}, 256 at a time"]:
            print(f"left out: {name}, which could not be built")
