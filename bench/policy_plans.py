"""`script/bench plans`: how long `sijil policy plan` takes as log and inventory grow.

One server, embedded, on the disk of /var/tmp or of --folder. log_bulk fills the log with the mix of `script/bench search`; the rows of repositories and manifests
are filled in, without bytes. Under the proposed set, readers must be in the country for what is confidential, and one region may hold it no more; so the plan has
rows of every kind. The clock runs from the request to the finished plan, as `sijil policy plan` waits for it; the CPU time is that of server and database. A plan tells
what it works on, and how far it is: so the time of each part is told, and the longest time in which nothing moved. Searches are not needed, so the index of searches has
no rows (`log_bulk unsearched`): ten million events take 16 GB."""
import base64
import hashlib
import json
import os
import subprocess
import time

from log_searches import await_index, cpu_of_server, fill, number
from registries import Sijil
from signing_keys import canonical

SIZES = ((100000, 100000), (1000000, 1000000), (10000000, 1000000))  # events, artifacts
ORGANISATIONS, PROJECTS, REPOSITORIES = 20, 10, 20  # as bench/event_mix.c
COUNTRIES = ("AE/DU", "AE/AZ", "SA", "DE/BE", "IN/MH", "US/VA")
ROUNDS = 3

PLACES = """
INSERT INTO organisation (organisation_id, name) SELECT md5('org' || n)::uuid, 'org' || lpad(n::text, 2, '0') FROM generate_series(0, $organisations - 1) n;
INSERT INTO project (project_id, organisation_id, name, home_region)
  SELECT md5('project' || n || ' ' || k)::uuid, md5('org' || n)::uuid, 'project' || k, 'local/main' FROM generate_series(0, $organisations - 1) n, generate_series(0, $projects - 1) k;
INSERT INTO repository (repository_id, project_id, name)
  SELECT md5('model' || n || ' ' || k || ' ' || m)::uuid, md5('project' || n || ' ' || k)::uuid, 'model-' || m
    FROM generate_series(0, $organisations - 1) n, generate_series(0, $projects - 1) k, generate_series(0, $repositories - 1) m;
"""
# A manifest of an artifact; what it refers to is not there. In parts, because one statement has a minute.
ARTIFACTS = """
SET session_replication_role = replica;
INSERT INTO manifest (repository_id, digest, media_type, size_bytes, key_id, sealed)
  SELECT md5('model' || n % $organisations || ' ' || n / $organisations % $projects || ' ' || n / $organisations / $projects % $repositories)::uuid,
         'sha256:' || encode(sha256(('artifact' || n)::bytea), 'hex'), 'application/vnd.oci.image.manifest.v1+json', 600, gen_random_uuid(), '\\x00'
    FROM generate_series($first, $last) n;
"""
PART = 100000


def filled(text, **values):
    for name, value in {"organisations": ORGANISATIONS, "projects": PROJECTS, "repositories": REPOSITORIES, **values}.items():
        text = text.replace("$" + name, str(value))
    return text


def networks():
    return [{"cidr": f"10.{each}.0.0/16", "facts": {"assurance": 2, "geo": country, "recipient": "same-controller"}} for each, country in enumerate(COUNTRIES)]


def policy(name, rules):
    return {"apiVersion": "sijil.policy/v1", "kind": "ResidencyPolicy", "closed": False, "rules": rules,
            "metadata": {"id": name, "version": 1, "scope": [f"org0{each}/**" for each in range(10)], "effective_from": "2020-01-01T00:00:00Z", "review_by": "2099-01-01"}}


def at_home(home, kept):
    """What is confidential is read from `home` alone, and everything is kept in `kept` alone."""
    return policy("at-home", [{"id": "READ-AT-HOME", "effect": "require", "ops": ["read"], "when": {"class_at_least": "confidential"}, "target": {"geo_within": [home]}},
                              {"id": "KEEP-AT-HOME", "effect": "require", "ops": ["ingest"], "target": {"geo_within": [kept]}}])


def next_set(log, **members):
    """The set in force with other members, unsigned, with the next epoch."""
    current = json.loads(base64.b64decode(json.loads(log.admin.api("GET", "/policies?envelope=true")["envelope"])["payload"]))
    current.update({"epoch": current["epoch"] + 1, **members})
    current.pop("digest", None)
    current["digest"] = "sha256:" + hashlib.sha256(canonical(current)).hexdigest()
    return current


def load(log, document):
    name = os.path.join(log.server.root, "set.json")
    with open(name, "w", encoding="utf-8") as file:
        json.dump(document, file)
    signed = subprocess.run([os.path.join(os.environ["SIJIL_BUILD"], "cmd/sijil"), "policy", "sign", "--key", os.path.join(log.server.folder, "officer/approver.pem"), "--epoch",
                             str(document["epoch"]), "--output", name + ".dsse", name], capture_output=True, text=True, check=False)
    assert signed.returncode == 0, signed.stderr
    with open(name + ".dsse", encoding="utf-8") as file:
        log.admin.api("POST", "/policies", json.load(file))


class Progress:
    """When a plan told something new. A part is noted when it begins."""

    def __init__(self):
        self.began = self.moved = time.monotonic()
        self.last, self.still, self.parts = None, 0.0, {}

    def note(self, job):
        now, told = time.monotonic(), (job["phase"], job["done"], "ended" in job)
        if told == self.last:
            return
        if self.last is not None:
            self.parts[self.last[0]] = self.parts.get(self.last[0], 0.0) + now - self.moved
            self.still = max(self.still, now - self.moved)
        self.last, self.moved = told, now

    def found(self):
        return {"s": round(self.moved - self.began, 2), "parts s": {name: round(value, 2) for name, value in self.parts.items()}, "longest without progress s": round(self.still, 2)}


def plan(log, document):
    before, progress = cpu_of_server(log), Progress()
    job = log.admin.api("POST", "/policies/plan", {"set": document, "days": 30})
    while "ended" not in (answer := log.admin.api("GET", "/policies/plans/" + job["id"]))["job"]:
        progress.note(answer["job"])
        time.sleep(0.1)
    progress.note(answer["job"])
    assert answer["job"]["state"] == "completed", answer["job"]
    return answer["plan"], {**progress.found(), "cpu s": round(cpu_of_server(log) - before, 2)}


def add_artifacts(log, first, count):
    for part in range(first, count, PART):
        log.server.sql(filled(ARTIFACTS, first=part, last=min(part + PART, count) - 1))


def counted(value):
    """A plan, with the lengths of its lists in their place."""
    if isinstance(value, dict):
        return {key: counted(each) for key, each in value.items()}
    return len(value) if isinstance(value, list) else value


def measure_size(log, events, artifacts, tell):
    add_artifacts(log, number(log, "SELECT count(*) FROM manifest"), artifacts)
    missing = events - number(log, "SELECT size FROM audit_log")
    if missing > 0:
        tell(f"filled, events a second: {fill(log, missing, events, 'unsearched'):.0f}")
    await_index(log)
    log.server.sql("ANALYZE manifest, audit_entry, audit_facts, repository")
    tell(f"database: {number(log, 'SELECT pg_database_size(current_database()) >> 20')} MiB")
    tried = [plan(log, next_set(log, policies=[*log.policies, at_home("AE", "SA")])) for _ in range(ROUNDS)]
    made, times = tried[-1][0], sorted((each for _, each in tried), key=lambda each: each["s"])
    found = {"plan": counted(made), "median": times[ROUNDS // 2], "all": times}
    tell(f"{events} events, {artifacts} artifacts: {found}")
    return found


def measure(options, record, tell):
    """Writes the figures, prints the table."""
    sizes = [(each, min(each, 1000000)) for each in sorted(options.events)] if options.events else [(5000, 5000), (20000, 20000)] if options.quick else SIZES
    lines = ["| events | artifacts | a plan | of it events, content | CPU time |", "|---|---|---|---|---|"]
    with Sijil(options.folder) as log:
        log.admin = log.server.client(log.server.admin)
        log.server.sql(filled(PLACES))
        log.policies = next_set(log)["policies"]
        load(log, next_set(log, networks=networks()))
        for events, artifacts in sizes:
            found = measure_size(log, events, artifacts, tell)
            record.put("plans", f"{events} events, {artifacts} artifacts", value=found)
            of, median = found["median"]["parts s"], found["median"]
            lines.append(f"| {events:,} | {artifacts:,} | {median['s']} s | {of.get('events', 0)} s, {of.get('content', 0)} s | {median['cpu s']} s |")
    print("\n".join(lines))
