"""`script/bench search`: searches of the log through the API as the log grows, and what their index costs.

One server, embedded, on the disk of /var/tmp or of --folder. log_bulk fills the log with a realistic mix while the server waits; the last LIVE events of a size
are appended by log_mix beside it, as a second gateway, and the server's own thread indexes them. Each question is asked ROUNDS times with other values, as the
registry's auditor. At one size the log is dumped and checked by sijil-verify fsck. With --verify a verifier of the log goes through all of the first size: it rests
for nine tenths of the time, so larger sizes take hours. With --cold the kernel keeps no page of a file when a question is asked for the first time."""
import os
import random
import statistics
import subprocess
import tempfile
import time
import urllib.parse

import sijil_test
from growth import cpu_of_server, sql as administer
from parts import become_gateway, database_folder, option_of, run_program
from registries import BUILD, Sijil

ROUNDS = 20
SIZES = (100000, 1000000, 5000000)
LIVE, IDLE = 10000, 10  # events; seconds
BEHIND = 3  # status of log_bulk: the index of searches must know all events first
chance = random.Random(7)


def number(log, sql):
    return int(log.server.sql(sql))


def run_as_gateway(log, name, events, seed, *more):
    keyd = next(socket for pid in log.server.processes("sijil-keyd") if (socket := option_of(pid, "--socket")))
    become, database = become_gateway(log), f"host={database_folder(log)} dbname=sijil user=sijil_app"
    origin, epoch = run_program(*become, "psql", "-XAt", "-F", " ", database, "-c",
                                "SELECT l.origin, a.epoch FROM audit_log l, authorization_epoch a").split()
    return subprocess.run([*become, os.path.join(BUILD, "bench", name), database, keyd, origin, str(events), epoch, str(seed), *more],
                          stdout=subprocess.PIPE, text=True, check=False)


def append(log, events, seed):
    """Events a second of one gateway; with 0 events the rate of the verifier."""
    said = run_as_gateway(log, "log_mix", events, seed)
    assert said.returncode == 0, said.stdout
    return float(said.stdout.split()[0])


def fill(log, events, seed, *more):
    """By COPY, while the server waits; detection begins behind the new events. Events a second. With "unsearched" in `more` the index of searches gets no rows."""
    while True:
        await_index(log)
        said = run_as_gateway(log, "log_bulk", events, seed, *more)
        if said.returncode != BEHIND:
            break
    assert said.returncode == 0, said.stdout
    log.server.sql("UPDATE audit_detection SET at = (SELECT size FROM audit_log), done = 0")
    log.server.sql("SELECT count(pg_terminate_backend(pid)) FROM pg_locks WHERE locktype = 'advisory' AND classid = 7309 AND objid = 0")
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


def search(client, conditions):
    """How long it takes, and the page."""
    began = time.monotonic()
    page = client.api("GET", "/audit/events?" + urllib.parse.urlencode(conditions))
    assert "searched_to" in page and "known_to" in page
    return (time.monotonic() - began) * 1000, page


def cpu_without_searches(log):
    """CPU seconds a second: the verifier, detection and the signer work all the time."""
    began, cpu = time.monotonic(), cpu_of_server(log)
    time.sleep(IDLE)
    return (cpu_of_server(log) - cpu) / (time.monotonic() - began)


def forget_pages():
    """Of files, those that the kernel keeps. PostgreSQL has 128 MiB of its own."""
    os.sync()
    with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as file:
        file.write("1")


def ask(log, make, idle):
    """First pages with values that were not asked for before, then the same again: what of the time is the disk and the processor."""
    asked = [make() for _ in range(ROUNDS)]
    if log.is_cold:
        forget_pages()
    first = [search(log.auditor, conditions) for conditions in asked]
    began, cpu = time.monotonic(), cpu_of_server(log)
    again = sorted(search(log.auditor, conditions)[0] for conditions in asked)
    cpu = (cpu_of_server(log) - cpu - idle * (time.monotonic() - began)) * 1000 / ROUNDS
    waits = sorted(wait for wait, _ in first)
    return {"p50 ms": round(statistics.median(waits), 1), "p95 ms": round(waits[int(ROUNDS * 0.95) - 1], 1), "longest ms": round(waits[-1], 1),
            "again p50 ms": round(statistics.median(again), 1), "again p95 ms": round(again[int(ROUNDS * 0.95) - 1], 1), "cpu ms": round(cpu, 1),
            "events": round(sum(len(page["events"]) for _, page in first) / ROUNDS),
            "unfinished": sum("next" in page and len(page["events"]) < 100 for _, page in first)}


def bytes_an_event(log):
    found = {table: number(log, f"SELECT pg_total_relation_size('{table}') / l.size FROM audit_log l")
             for table in ("audit_post", "audit_blind", "audit_run", "audit_payload", "audit_tile")}
    found["audit_entry"] = number(log, "SELECT sum(pg_total_relation_size(relid))::int8 / (SELECT size FROM audit_log) FROM pg_partition_tree('audit_entry')")
    return found


def measure_size(log, size, tell):
    before = number(log, "SELECT size FROM audit_log")
    live = min(LIVE, (size - before) // 2)
    filled = fill(log, size - live - before, size)
    tell(f"{size}: filled, {filled:.0f} events a second")
    rate = append(log, live, size + 1)
    index_rate = await_index(log)
    administer(log, "VACUUM ANALYZE")
    administer(log, "CHECKPOINT")
    events = log.auditor.api("GET", "/audit/events?prefix=org00&limit=300")["events"]
    times = [number(log, f"SELECT ts FROM audit_entry WHERE seq = {seq}") for seq in (before, size - 1)]
    found = {"filled a second": round(filled), "appended a second": round(rate), "indexed a second, afterwards": round(index_rate),
             "bytes an event": bytes_an_event(log), "load": os.getloadavg(), "questions": {}}
    idle = cpu_without_searches(log)
    found["cpu ms a second without searches"] = round(1000 * idle, 1)
    tell(f"{size}: {found}")
    for question, make in questions(events, times).items():
        found["questions"][question] = ask(log, make, idle)
        tell(f"{size}: {question}: {found['questions'][question]}")
    return found


def run_timed(words, **options):
    """Seconds, CPU seconds, peak MiB, what it said."""
    with tempfile.NamedTemporaryFile("r", encoding="utf-8") as times:
        said = subprocess.run(["/usr/bin/time", "-f", "%e %U %S %M", "-o", times.name, *words], capture_output=True, text=True, check=False, **options)
        assert said.returncode == 0, said.stdout + said.stderr
        wall, user, system, peak = times.read().split()
    return {"s": float(wall), "cpu s": float(user) + float(system), "peak MiB": int(peak) // 1024, "said": said.stdout.strip()}


def check(log, tell):
    """The filled log is one that a gateway could have written."""
    database, dump = os.path.join(log.server.root, "dump-database"), os.path.join(log.server.root, "log.dump")
    with open(database, "w", encoding="ascii", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
        file.write(f"host={database_folder(log)} user=postgres dbname=sijil\n")
    found = {"dump": run_timed([os.path.join(BUILD, "cmd/sijil-audit-dump"), "--database=" + database, "--output=" + dump])}
    found["dump"]["bytes"] = os.path.getsize(dump)
    vkey = log.auditor.api("GET", "/audit/key")["vkey"]
    found["fsck"] = run_timed([os.path.join(BUILD, "cmd/sijil-verify"), "fsck", "--key=" + vkey, dump])
    os.unlink(dump)
    tell(f"{found}")
    return found


def table(levels):
    sizes = list(levels)
    lines = ["| first page of 100, ms (p50 / p95) | " + " | ".join(f"{int(size):,}" for size in sizes) + " |", "|---|" + "---|" * len(sizes)]
    for question in levels[sizes[0]]["questions"]:
        cells = [levels[size]["questions"][question] for size in sizes]
        lines.append(f"| {question} | " + " | ".join(f"{cell['p50 ms']} / {cell['p95 ms']}" for cell in cells) + " |")
    return "\n".join(lines)


def measure(sizes, options, record, tell):
    """Writes the figures of each size when it is measured; prints the table."""
    levels, dumped = {}, sizes[-1] if options.dump is None else options.dump
    with Sijil(options.folder) as log:
        log.is_cold = options.cold
        log.auditor = log.server.client(sijil_test.make_robot(log.server, "auditor", "auditor", ""))
        for size in sizes:
            tell(f"{size} events")
            levels[str(size)] = measure_size(log, size, tell)
            record.put("searches", str(size), value=levels[str(size)])
            if size == sizes[0] and options.verify:
                record.put("verified a second", value=append(log, 0, 0))
            if size == dumped:
                record.put("checked", value=check(log, tell))
    print(table(levels))
