"""`script/bench rights`: how fast rights and policy sets change, and what changes cost others, among 100,000 roles, 10,000 groups and 1,000 issuers.

Four gateways in production mode on one database, on this machine, with the default number of workers. 25 organisations have all roles and robots; their rows are filled in,
as years of grants would leave them, and the documents of groups are signed. Each organisation has an administrator, who gives 20 roles a second, as the default limits
allow at most; for grants in one organisation alone, these limits are lifted. Batches have as many roles in requests of 100. Pulls are of another organisation's robot, at half the rate that can go on for ever: until the index of searches and detection have the events. A wait counts from the
moment at which its request was due."""
import base64
import concurrent.futures
import http.client
import json
import statistics
import threading
import time

import registries
import sijil_test
from fleet import Fleet
from log_searches import cpu_of_server
from parts import settle
from signing_keys import canonical, sign, utc

GATEWAYS, BANKS, ROUNDS, GRANTS, SECONDS = 4, 25, 20, 500, 10
ROBOTS, SUBJECTS, ISSUERS, GRANTS_OF_DOCUMENT = 10000, 25000, 1000, 64  # five roles each robot, two each subject
SETTINGS = {"audit_verify_rest": 31536000, "reader_threads": 12, "rights_rate_per_organisation": 1000, "rights_rate_per_principal": 1000}
SECRET = "sijil_" + "A" * 43
DOCUMENT = "application/vnd.sijil.group-roles.v1+json"

PROJECTS = """
INSERT INTO project (project_id, organisation_id, name, home_region)
  SELECT md5(o.name || n)::uuid, o.organisation_id, 'p' || n, 'local/main' FROM organisation o, generate_series(0, 9) n WHERE o.name LIKE 'bank%';
SELECT raise_authorization_epoch();
"""
FILLER = """
SET session_replication_role = replica;
INSERT INTO robot (robot_id, organisation_id, name, secret_hash, created_by, expires_at, behind)
  SELECT md5('robot' || n)::uuid, o.organisation_id, 'robot$' || o.name || '+r' || n, sha256('$secret'), 'system', now() + interval '80 days', '{administrator}'
    FROM generate_series(0, $robots - 1) n JOIN organisation o ON o.name = 'bank' || n % $banks;
INSERT INTO binding (binding_id, robot_id, role, organisation_id, project_id, granted_by)
  SELECT md5('of' || n || ' ' || k)::uuid, md5('robot' || n)::uuid, 'consumer', o.organisation_id, md5(o.name || k)::uuid, 'system'
    FROM generate_series(0, $robots - 1) n JOIN organisation o ON o.name = 'bank' || n % $banks, generate_series(0, 4) k;
INSERT INTO trusted_issuer (issuer_id, url, audience, algorithms, lifetime_max_s, jwks)
  SELECT md5('issuer' || n)::uuid, 'https://i' || n || '.example', 'us', '{ES256}', 600, t.jwks
    FROM generate_series(1, $issuers) n, (SELECT jwks FROM trusted_issuer LIMIT 1) t;
INSERT INTO binding (binding_id, issuer, subject, role, organisation_id, project_id, granted_by)
  SELECT md5('by' || n || ' ' || k)::uuid, 'https://i' || (1 + n % $issuers) || '.example', 'person-' || n, 'consumer', o.organisation_id, md5(o.name || k)::uuid, 'system'
    FROM generate_series(0, $subjects - 1) n JOIN organisation o ON o.name = 'bank' || n % $banks, generate_series(0, 1) k;
SET session_replication_role = origin;
SELECT raise_authorization_epoch();
"""


def add_groups(fleet, groups):
    """As documents of the root: 64 grants each."""
    officer = fleet.client(sijil_test.make_robot(fleet, "officer", "security-officer", ""))
    now = time.time()
    for first in range(0, groups, GRANTS_OF_DOCUMENT):
        grants = [{"group": f"group-{number}", "role": "consumer", "on": f"bank{number % BANKS}/p{number % 10}"} for number in range(first, min(first + GRANTS_OF_DOCUMENT, groups))]
        document = canonical({"schema": "sijil.document/v1", "kind": "group-roles", "scope": "", "name": f"g{first}", "version": 1, "effective_from": utc(now - 1),
                              "expires": utc(now + 86400), "body": {"issuer": f"https://i{1 + first % ISSUERS}.example", "claim": "/groups", "grant": grants}})
        officer.api("POST", "/groups", sign(document, fleet.path("approver.pem"), DOCUMENT))


def fill(fleet, groups):
    admin = fleet.client(fleet.admin)
    for number in range(BANKS):
        admin.api("POST", "/organisations", {"name": f"bank{number}"})
    sijil_test.make_person(fleet, "first", "consumer", "main")  # its issuer's keys are everybody's
    fleet.psql.ask(PROJECTS)
    add_groups(fleet, groups)  # before the rows: each document has everything read again
    text = FILLER
    for name, value in (("secret", SECRET), ("robots", ROBOTS), ("issuers", ISSUERS), ("subjects", SUBJECTS), ("banks", BANKS)):
        text = text.replace("$" + name, str(value))
    fleet.psql.ask(text)
    fleet.psql.ask("VACUUM ANALYZE")


class Target:
    """One gateway of the fleet, for the load client."""

    def __init__(self, fleet, login):
        self.fleet, self.login = fleet, login
        self.url, self.ca_file = f"https://127.0.0.1:{fleet.port}", fleet.ca_file

    def pids(self):
        return [process.pid for process in [*self.fleet.gateways, self.fleet.keyd] if process is not None]

    def database_pids(self):
        with open(self.fleet.path("postgres/pid"), encoding="ascii") as file:
            postmaster = int(file.read())
        return [postmaster, *sijil_test.children_of(postmaster)]


# --- a revocation at all gateways ----------------------------------------------------------------------------------------
def await_refusal(fleet, port, robot, project, until):
    """When this gateway lets the robot see the project no more."""
    link = http.client.HTTPSConnection("127.0.0.1", port, context=sijil_test.trust_in(fleet.ca_file), timeout=10)
    basic = base64.b64encode(f"robot$bank{robot % BANKS}+r{robot}:{SECRET}".encode()).decode()
    ready = threading.Event()

    def watch():
        while time.monotonic() < until:
            link.request("GET", f"/token?scope=repository:bank{robot % BANKS}/{project}/x:pull", headers={"Authorization": "Basic " + basic})
            granted = json.loads(link.getresponse().read()).get("scope", "")
            ready.set()
            if not granted:
                return time.monotonic()
            time.sleep(0.002)
        return None

    return watch, ready


def revoke_once(fleet, admin, number):
    """Seconds from the answer until each gateway refuses."""
    binding, project = fleet.psql.ask(f"SELECT md5('of{number} 3')::uuid"), "p3"
    watches = [await_refusal(fleet, port, number, project, time.monotonic() + 30) for port in fleet.ports]
    with concurrent.futures.ThreadPoolExecutor(len(watches)) as pool:
        found = [pool.submit(watch) for watch, _ in watches]
        for _, ready in watches:
            assert ready.wait(30)
        admin.api("DELETE", f"/bindings/{binding}")
        answered = time.monotonic()
        ends = [one.result() for one in found]
    assert all(ends), "a revocation did not reach all gateways within 30 s"
    return [max(0.0, end - answered) for end in ends]


def revocations(fleet, first):
    admin = fleet.client(fleet.admin)
    waits = sorted(max(revoke_once(fleet, admin, first + number)) * 1000 for number in range(ROUNDS))
    return {"p50 ms": round(statistics.median(waits), 1), "longest ms": round(waits[-1], 1)}


# --- a policy set at all gateways ----------------------------------------------------------------------------------------
def await_epoch(fleet, port, token, epoch, until):
    """When this gateway has the set of this epoch in force."""
    link = http.client.HTTPSConnection("127.0.0.1", port, context=sijil_test.trust_in(fleet.ca_file), timeout=10)
    ready = threading.Event()

    def watch():
        while time.monotonic() < until:
            link.request("GET", "/api/v1/policies", headers={"Authorization": "Bearer " + token})
            found = json.loads(link.getresponse().read())
            ready.set()
            if found.get("epoch", 0) >= epoch:
                return time.monotonic()
            time.sleep(0.02)  # each of these is an event of the log
        return None

    return watch, ready


def activate_once(fleet, client, epoch):
    """Seconds from the request until each gateway has the set in force."""
    signed, token = fleet.policy_set(epoch), client.token("registry:admin:*")
    watches = [await_epoch(fleet, port, token, epoch, time.monotonic() + 30) for port in fleet.ports]
    with concurrent.futures.ThreadPoolExecutor(len(watches)) as pool:
        found = [pool.submit(watch) for watch, _ in watches]
        for _, ready in watches:
            assert ready.wait(30)
        sent = time.monotonic()
        answer = client.call("POST", "/api/v1/policies", signed, {"Content-Type": "application/json"}, scope="registry:admin:*")
        assert answer.status == 201, (answer.status, answer.body)
        ends = [one.result() for one in found]
    assert all(ends), "a policy set did not reach all gateways within 30 s"
    return [end - sent for end in ends]


def activations(fleet, first):
    client = fleet.client(fleet.admin)
    waits = sorted(max(activate_once(fleet, client, first + number)) * 1000 for number in range(ROUNDS))
    return {"p50 ms": round(statistics.median(waits), 1), "longest ms": round(waits[-1], 1)}


# --- grants beside pulls -------------------------------------------------------------------------------------------------
class Grants:
    """So many roles a second, by the administrators of so many banks in turn, through one gateway."""
    GRANTERS = 8  # at a time
    ROLES = ("trainer", "publisher", "auditor", "promoter")  # of each robot on each project; the second one begins with number 10 * ROBOTS / BANKS of one bank

    def __init__(self, fleet, admins, rate, first, banks=BANKS):
        self.fleet, self.admins, self.rate, self.first, self.next, self.banks = fleet, admins, rate, first, first, banks
        self.stop, self.lock, self.done, self.said = threading.Event(), threading.Lock(), 0, None
        self.tokens = [admin.token("registry:admin:*") for admin in admins]
        self.threads = [threading.Thread(target=self.run) for _ in range(self.GRANTERS)]

    def take(self):
        with self.lock:
            self.next += 1
            return self.next - 1

    def link(self):
        return http.client.HTTPSConnection("127.0.0.1", self.fleet.port, context=sijil_test.trust_in(self.fleet.ca_file), timeout=60)

    def wanted(self, number):
        bank, robots = number % self.banks, ROBOTS // BANKS * self.banks  # all that these banks have
        robot, project = number // self.banks * BANKS % ROBOTS + bank, number // robots
        return bank, {"robot": f"robot$bank{bank}+r{robot}", "role": self.ROLES[project // 10 % len(self.ROLES)], "scope": f"bank{bank}/p{project % 10}"}

    def post(self, link, bank, path, body):
        link.request("POST", "/api/v1/bindings" + path, json.dumps(body), {"Authorization": "Bearer " + self.tokens[bank], "Content-Type": "application/json"})
        answer = link.getresponse()
        said = answer.read()
        return answer.status, said

    def wait(self, number):
        time.sleep(max(0.0, self.began + number / self.rate - time.monotonic()))

    def run(self):
        link = self.link()
        while not self.stop.is_set() and self.said is None:
            number = self.take()
            bank, body = self.wanted(number)
            self.wait(number - self.first)
            status, said = self.post(link, bank, "", body)
            with self.lock:
                self.done += status == 201
                self.said = said if status != 201 else self.said

    def __enter__(self):
        self.began = time.monotonic()
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *trace):
        self.seconds = time.monotonic() - self.began
        self.stop.set()
        for thread in self.threads:
            thread.join()
        assert self.said is None, self.said


class Batches(Grants):
    """As many, in requests of BATCH roles of one bank each: one client, as a nightly export of a directory sends them."""
    GRANTERS, BATCH = 1, 100

    def run(self):
        link, sent, at = self.link(), 0, -(-self.first // self.banks)
        while not self.stop.is_set() and self.said is None:
            for bank in range(self.banks):
                self.wait(sent)
                body = {"bindings": [self.wanted(bank + self.banks * (at + place))[1] for place in range(self.BATCH)]}
                status, said = self.post(link, bank, f"/batch?scope=bank{bank}", body)
                sent += self.BATCH
                self.done += json.loads(said).get("given", 0)
                self.said = said if status != 201 else None
                if self.stop.is_set() or self.said is not None:
                    break
            at += self.BATCH
        self.next = self.banks * at


def grants_alone(fleet, target, admins, first, banks=BANKS, kind=Grants):
    """What a grant costs all servers, without their idle work."""
    before, began = cpu_of_server(target), time.monotonic()
    time.sleep(SECONDS / 2)
    idle = (cpu_of_server(target) - before) / (time.monotonic() - began)
    before, own = cpu_of_server(target), time.process_time()
    with kind(fleet, admins, GRANTS, first, banks) as grants:
        time.sleep(SECONDS)
    spent, own = cpu_of_server(target) - before - idle * grants.seconds, time.process_time() - own
    return {"per second": round(grants.done / grants.seconds), "ms of the servers": round(spent * 1000 / grants.done, 3),
            "ms of the client": round(own * 1000 / grants.done, 3), "idle, cores": round(idle, 3), "next": grants.next}


def await_followers(fleet):
    """Until the index of searches and detection have all events."""
    while int(fleet.psql.ask("SELECT max(l.size - least(s.indexed, coalesce(d.at, 0))) FROM audit_log l, audit_search s LEFT JOIN audit_detection d ON true")) > 0:
        time.sleep(0.1)


def pulls_now(target, rate):
    found = registries.load(target, run="push,manifest", requests=int(rate * SECONDS), clients=32, rate=int(rate), size=1024, count=1)["manifest"]
    return {"per second": round(found["per_second"]), "p50 ms": found["p50_ms"], "p99 ms": found["p99_ms"]}


def pulls(fleet, target, rate):
    await_followers(fleet)
    settle()
    return pulls_now(target, rate)


def beside(fleet, target, rate, admins, first, kind=Grants):
    await_followers(fleet)
    with kind(fleet, admins, GRANTS, first) as grants:
        found = pulls_now(target, rate)
    return {**found, "grants a second": round(grants.done / grants.seconds), "next": grants.next}


def half_load(fleet, target):
    """Half of the pulls a second that can go on for ever."""
    await_followers(fleet)
    began = time.monotonic()
    registries.load(target, run="push,manifest", requests=20000, clients=32, size=1024, count=1)
    await_followers(fleet)
    return 20000 / (time.monotonic() - began) / 2


def in_turns(fleet, target, admins, first, tell):
    """Three times each, in changing order: the middle one counts."""
    half_load(fleet, target)
    fleet.psql.ask("ANALYZE")  # as autovacuum does it after some minutes: the log was empty a moment ago, and has plans of that time
    rate, runs = half_load(fleet, target), {"pulls alone": [], "beside grants": [], "beside batches": []}
    tell(f"half load: {rate:.0f} pulls a second")
    for turn in range(3):
        for name in list(runs)[turn:] + list(runs)[:turn]:
            if name == "pulls alone":
                found = pulls(fleet, target, rate)
            else:
                found = beside(fleet, target, rate, admins, first, Grants if name == "beside grants" else Batches)
                first = found.pop("next")
            runs[name].append(found)
            tell(f"{name}: {found}")
    return {name: {figure: round(statistics.median(run[figure] for run in some), 2) for figure in some[0]} for name, some in runs.items()}, first


def measure(options, record, tell):
    global SECONDS, ROUNDS
    SECONDS, ROUNDS = (4, 5) if options.quick else (SECONDS, ROUNDS)
    with Fleet(GATEWAYS, **SETTINGS) as fleet:
        login = sijil_test.make_robot(fleet, "bench", "publisher", "main/models")
        target = Target(fleet, login)
        fill(fleet, options.groups)
        admins = [fleet.client(sijil_test.make_robot(fleet, "admin", "org-admin", f"bank{number}", f"bank{number}")) for number in range(BANKS)]
        tell(f"filled: {fleet.psql.ask('SELECT count(*) FROM binding')} roles")
        record.put("revocation at four gateways", value=revocations(fleet, 0))
        tell(f"revocation: {record.found['revocation at four gateways']}")
        record.put("activation at four gateways", value=activations(fleet, 2))
        tell(f"activation of a policy set: {record.found['activation at four gateways']}")
        first, first_of_one = 0, 10 * ROBOTS // BANKS
        for gateways in (GATEWAYS, 1):
            while sum(one is not None for one in fleet.gateways) > gateways:
                fleet.stop_gateway(max(number for number, one in enumerate(fleet.gateways) if one is not None))
            found = grants_alone(fleet, target, admins, first)
            first = found.pop("next")
            record.put("grants", str(gateways), value=found)
            tell(f"{gateways} gateways, grants alone: {found}")
            found = grants_alone(fleet, target, admins, first, kind=Batches)
            first = found.pop("next")
            record.put("grants in batches", str(gateways), value=found)
            tell(f"{gateways} gateways, grants in batches of {Batches.BATCH}: {found}")
            found = grants_alone(fleet, target, admins, first_of_one, 1)
            first_of_one = found.pop("next")
            record.put("grants in one organisation", str(gateways), value=found)
            tell(f"{gateways} gateways, grants in one organisation: {found}")
            found, first = in_turns(fleet, target, admins, first, tell)
            record.put("pulls", str(gateways), value=found)
    print(json.dumps(record.found, indent=1))
