"""`script/bench search`: searches of the log through the API as the log grows, and what their index costs.

One server, embedded, on the disk of /var/tmp. log_mix appends a realistic mix beside it, as a second gateway; the server's own thread indexes the
events. A verifier of the log goes through all of the first size: it rests for nine tenths of the time, so larger sizes take hours. Each question is asked ROUNDS times with other values, as the registry's auditor."""
import os
import random
import statistics
import subprocess
import time
import urllib.parse

import sijil_test
from parts import become_gateway, database_folder, option_of, run_program
from registries import BUILD, Sijil

ROUNDS = 20
SIZES = (100000, 1000000, 5000000)
BYTES_AN_EVENT = 2600  # of the whole database, without its journal
chance = random.Random(7)


def number(log, sql):
    return int(log.server.sql(sql))


def append(log, events, seed):
    """Events a second of one gateway; with 0 events the rate of the verifier."""
    keyd = next(socket for pid in log.server.processes("sijil-keyd") if (socket := option_of(pid, "--socket")))
    become, database = become_gateway(log), f"host={database_folder(log)} dbname=sijil user=sijil_app"
    origin, epoch = run_program(*become, "psql", "-XAt", "-F", " ", database, "-c",
                                "SELECT l.origin, a.epoch FROM audit_log l, authorization_epoch a").split()
    said = subprocess.run([*become, os.path.join(BUILD, "bench/log_mix"), database, keyd, origin, str(events), epoch, str(seed)], capture_output=True,
                          text=True, check=False)
    assert said.returncode == 0, said.stdout + said.stderr
    return float(said.stdout.split()[0])


def await_index(log):
    """Events a second of the index, once nothing else appends."""
    began, first = time.monotonic(), number(log, "SELECT indexed FROM audit_search")
    while (left := number(log, "SELECT l.size - s.indexed FROM audit_log l, audit_search s")) > 0:
        time.sleep(min(1, 0.05 + left / 100000))
    return (number(log, "SELECT indexed FROM audit_search") - first) / max(time.monotonic() - began, 0.001)


def few(below):
    return int(chance.random() ** 3 * below)


def repository(organisation=None):
    return f"org{few(20) if organisation is None else organisation:02}/project{few(10)}/model-{few(20)}"


def actor():
    return few(2000)


def name_of(one):
    return f"robot$org{one % 20:02}+m{one}"


def address_of(one):
    network = one % 400
    return f"10.{network % 6}.{network // 6}.{1 + one % 250}"


def network_of(one):
    network = one % 400
    return f"10.{network % 6}.{network // 6}.0/24"


def sample(events, member):
    """A value of an event that exists."""
    event = chance.choice(events)
    return {"decision": event["entry"]["why"]["id"], "request": event["entry"]["req"]}[member]


def between(times, share):
    first = times[0] + chance.random() * (1 - share) * (times[1] - times[0])

    def text(ms):
        return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(ms / 1000)) + f".{int(ms) % 1000:03}Z"
    return {"since": text(first), "until": text(first + share * (times[1] - times[0]))}


def denied(one):
    return {"actor": name_of(one), "outcome": "denied"}


def questions(events, times):
    """20 questions, each with a value of its own each time."""
    return {
        "everything of an organisation": lambda: {"prefix": f"org{few(20):02}"},
        "one repository": lambda: {"resource": repository()},
        "one actor, by name": lambda: {"actor": name_of(actor())},
        "one action": lambda: {"action": chance.choice(["tag.delete", "run.read", "blob.read"])},
        "denials": lambda: {"outcome": "denied"},
        "one rule": lambda: {"rule": f"R-RULE-{few(12):02}"},
        "one region": lambda: {"region": chance.choice(["ae/dubai", "eu/berlin"])},
        "one country": lambda: {"country": chance.choice(["AE", "DE", "US"])},
        "one address": lambda: {"address": address_of(actor())},
        "one network": lambda: {"network": network_of(actor())},
        "one digest": lambda: {"digest": f"sha256:{few(200000):064x}"},
        "one tag of a repository": lambda: {"tag": f"v{few(40)}", "resource": repository()},
        "one run": lambda: {"run": f"{few(5000):08x}-0000-4000-8000-000000000000"},
        "one decision": lambda: {"decision": sample(events, "decision")},
        "one request": lambda: {"request": sample(events, "request")},
        "a hundredth of the time": lambda: between(times, 0.01),
        "who read it, in a tenth of the time": lambda: {"action": "blob.read,manifest.read", "resource": repository(), **between(times, 0.1)},
        "denials of an actor": lambda: denied(actor()),
        "sparse: actor, repository of another organisation": lambda: {"actor": name_of(one := actor()), "prefix": f"org{(one + 7) % 20:02}"},
        "sparse: network, country where it is not": lambda: {"network": network_of(one := few(100)), "country": ["AE", "SA", "DE"][(one % 400 % 6 + 2) // 2 % 3],
                                                             "action": "tag.delete"},
    }


def ask(client, make):
    waits, unfinished, found = [], 0, 0
    for _ in range(ROUNDS):
        began = time.monotonic()
        page = client.api("GET", "/audit/events?" + urllib.parse.urlencode(make()))
        waits.append((time.monotonic() - began) * 1000)
        found += len(page["events"])
        assert "searched_to" in page and "known_to" in page
        unfinished += "next" in page and len(page["events"]) < 100
    waits.sort()
    return {"p50 ms": round(statistics.median(waits), 1), "p95 ms": round(waits[int(ROUNDS * 0.95) - 1], 1), "longest ms": round(waits[-1], 1),
            "events": round(found / ROUNDS), "unfinished": unfinished}


def measure_size(log, size, tell):
    before = number(log, "SELECT size FROM audit_log")
    began = time.monotonic()
    rate = append(log, size - before, size)
    index_rate = await_index(log)
    both = (size - before) / (time.monotonic() - began)
    log.server.sql("VACUUM ANALYZE")
    events = log.auditor.api("GET", "/audit/events?prefix=org00&limit=300")["events"]
    times = [number(log, f"SELECT ts FROM audit_entry WHERE seq = {seq}") for seq in (before, size - 1)]
    found = {"appended a second": round(rate), "indexed a second, afterwards": round(index_rate), "both a second": round(both),
             "bytes an event": {table: number(log, f"SELECT pg_total_relation_size('{table}') / l.size FROM audit_log l")
                                for table in ("audit_post", "audit_blind", "audit_run", "audit_payload")},
             "questions": {}}
    found["bytes an event"]["audit_entry"] = number(log, "SELECT sum(pg_total_relation_size(relid))::int8 / (SELECT size FROM audit_log)"
                                                         " FROM pg_partition_tree('audit_entry')")
    for question, make in questions(events, times).items():
        found["questions"][question] = ask(log.auditor, make)
        tell(f"{size}: {question}: {found['questions'][question]}")
    return found


def table(levels):
    sizes = list(levels)
    lines = ["| first page of 100, ms (p50 / p95) | " + " | ".join(f"{int(size):,}" for size in sizes) + " |", "|---|" + "---|" * len(sizes)]
    for question in levels[sizes[0]]["questions"]:
        cells = [levels[size]["questions"][question] for size in sizes]
        lines.append(f"| {question} | " + " | ".join(f"{cell['p50 ms']} / {cell['p95 ms']}" for cell in cells) + " |")
    return "\n".join(lines)


def measure(sizes, record, tell):
    """Writes the figures of each size when it is measured; prints the table."""
    levels = {}
    with Sijil() as log:
        log.auditor = log.server.client(sijil_test.make_robot(log.server, "auditor", "auditor", ""))
        for size in sizes:
            tell(f"{size} events")
            levels[str(size)] = measure_size(log, size, tell)
            record.put("searches", str(size), value=levels[str(size)])
            if size == sizes[0]:
                record.put("verified a second", value=append(log, 0, 0))
    print(table(levels))
