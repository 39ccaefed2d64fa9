#!/usr/bin/env python3
"""Plans of policy sets (docs/policies.md, "What a set would change"): POST /api/v1/policies/plan, and `sijil policy plan`.

usage: plans.py [REQUESTS] [ROUNDS]   120 and 3 if it is not said; script/soak has 10,000 requests

In each round all requests are sent, a random set is proposed and planned, and comes into force; then all requests are sent again. What the plan names as
newly denied and newly allowed must be exactly what is then decided otherwise, with the number of its events."""
import collections
import datetime
import hashlib
import json
import os
import pty
import random
import select
import subprocess
import sys

import approvers
import sijil_test
from fleet import Fleet
from sijil_test import make_robot, program, run, sha256, wait_until

REQUESTS = int(sys.argv[1]) if len(sys.argv) > 1 else 120
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 3
UNLIMITED = {name: 1000000 for name in ("denial_rate_per_principal", "denial_rate_per_organisation", "rights_rate_per_organisation",
                                        "rights_rate_per_principal")}
PLACES = ["main/one/digits", "main/one/deep/scans", "main/two/digits", "globex/one/digits"]
ADDRESSES = ["127.0.0.1", "127.0.0.2", "127.0.1.1", "127.0.2.1"]  # the last one is in no network
seed = int(os.environ.get("SIJIL_SEED", random.randrange(1 << 32)))
chance = random.Random(seed)
server = Fleet(1, log_level="warning", **UNLIMITED)
state = {"epoch": 1, "links": {}, "sent": [], "policies": set()}


# --- sets ---------------------------------------------------------------------------------------------------------------------
def policy_of(name, scope, rules, **more):
    return {"apiVersion": "sijil.policy/v1", "kind": "ResidencyPolicy", "rules": rules, **more,
            "metadata": {"id": name, "version": 1, "scope": scope, "effective_from": "2020-01-01T00:00:00Z", "review_by": "2099-01-01"}}


def permits(**when):
    return policy_of("all", ["**"], [{"id": "PERMIT", "effect": "permit", "ops": ["ingest", "mount", "read", "metadata", "log", "train"],
                                      **({"when": when} if when else {})}], labels={"class": "confidential"})


def health():
    return policy_of("health", ["main/two/**"], [{"id": "KEEP", "effect": "oblige", "ops": ["ingest"], "oblige": {"retain_min_days": 1}}], closed=False,
                     labels={"class": "confidential", "subjects": ["health"]})


def random_policy():
    """Some of these label, so that a later set without them leaves pins behind."""
    name = f"extra-{chance.randrange(5)}"
    scope = chance.choice([["main/**"], ["main/one/**"], ["main/one/deep/**", "globex/**"], ["**"]])
    rules = [{"id": f"R{rule}", "effect": chance.choice(["require", "deny"]), "ops": chance.sample(["read", "ingest", "metadata", "log"], 2),
              "target": chance.choice([{"geo_within": ["AE"]}, {"min_assurance": 2}, {"geo_within": ["FR"]}]),
              **chance.choice([{}, {"when": {"subjects_any": ["health"]}}])} for rule in range(chance.randint(1, 2))]
    labels = chance.choice([{}, {}, {"labels": {"class": "sensitive", "subjects": ["health"]}}])
    return policy_of(name, scope, rules, closed=False, **labels)


def set_of(policies, **more):
    facts = [{"geo": "AE/DU", "assurance": 2}, {"geo": "FR", "assurance": chance.choice([1, 2])}, {"geo": chance.choice(["AE", "FR"])}]
    return {"policies": policies, "regions": {"local/main": {"geo": "AE"}, "local/far": {"geo": "FR"}},
            "networks": [{"cidr": f"{address}/32", "facts": each} for address, each in zip(ADDRESSES, facts)], **more}


def lifted(numbers):
    return [{"policy": f"extra-{each}", "scope": ["**"], "reason": "a test", "evidence": "sha256:" + 64 * "e"} for each in numbers]


def random_set():
    drawn = {each["metadata"]["id"]: each for each in (random_policy() for _ in range(chance.randint(0, 3)))}
    given = sorted(chance.sample(range(5), chance.randint(0, 4)))
    return set_of([permits(class_at_most=chance.choice(["confidential", "sensitive"])), *drawn.values()],
                  **({"declassified": lifted(given)} if given else {}))


def write_set(document):
    with open(server.path("set.json"), "w", encoding="utf-8") as file:
        json.dump(document, file)


def compose(document):
    """The payload, as the approver signs it, and the envelope."""
    write_set(document)
    done = subprocess.run([program("sijil"), "policy", "sign", "--key", server.path("approver.pem"), "--epoch", str(state["epoch"] + 1), "--output",
                           server.path("next.dsse"), server.path("set.json")], capture_output=True, text=True)
    assert done.returncode == 0, (done.stderr, document)
    with open(server.path("next.dsse"), encoding="utf-8") as file:
        envelope = json.load(file)
    os.unlink(server.path("next.dsse"))
    return json.loads(sijil_test.base64.b64decode(envelope["payload"])), envelope


def load(document, *keys):
    """With the signatures of these keys of approvers, beside the root's."""
    _, envelope = compose(document)
    envelope = approvers.add_signatures(envelope, keys)
    state["epoch"] += 1
    state["admin"].api("POST", "/policies", envelope)
    wait_until(lambda: state["admin"].api("GET", "/policies")["epoch"] == state["epoch"], 30, "the set is not in force")
    wait_until(lambda: server.psql.ask(f"SELECT after IS NULL AND done_version >> 40 = {state['epoch']} FROM placement_review") == "t", 30, "nobody looks what may stay where it is")


def plan(document, days=1):
    payload, _ = compose(document)
    job = state["admin"].api("POST", "/policies/plan", {"set": payload, "days": days})
    assert job["kind"] == "plan", job
    wait_until(lambda: "ended" in state["admin"].api("GET", "/policies/plans/" + job["id"])["job"], 120, "the plan does not end")
    answer = state["admin"].api("GET", "/policies/plans/" + job["id"])
    assert answer["job"]["state"] == "completed", answer
    made = answer["plan"]
    assert made["set"] == {"epoch": state["epoch"] + 1, "digest": payload["digest"]} and made["base"]["epoch"] == state["epoch"], made
    rest = {key: value for key, value in made.items() if key != "digest"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    assert made["digest"] == "sha256:" + hashlib.sha256(text).hexdigest(), made["digest"]
    return made


# --- the world ----------------------------------------------------------------------------------------------------------------
def prepare():
    server.start()
    print(f"     seed {seed}", flush=True)
    state["admin"] = admin = server.client(server.admin)
    for name in ("main/one", "main/two", "globex/one"):
        admin.api("POST", "/organisations", {"name": name.split("/")[0]}, (201, 409))
        admin.api("POST", "/projects", {"organisation": name.split("/")[0], "name": name.split("/")[1]})
    state["auditor"] = server.client(make_robot(server, "watch", "auditor", ""))
    pusher = server.client(make_robot(server, "first", "publisher", "main"))
    for name in PLACES[:3]:
        place = pusher.repository(name)
        place.push_blob(b"bytes")
        assert place.put_manifest("v1", place.manifest(b"bytes")).status == 201
    load(set_of([permits()]))
    state["robots"] = [(server.client(make_robot(server, f"robot{number}", role, scope, organisation=scope.split("/")[0])), role)
                       for number, (role, scope) in enumerate([("consumer", "main"), ("consumer", "main/one"), ("publisher", "main"),
                                                               ("consumer", "globex"), ("publisher", "globex/one")])]


def random_request():
    client, role = chance.choice(state["robots"])
    name, digest = chance.choice(PLACES), chance.choice([sha256(b"bytes"), sha256(b"other")])
    content = f"/v2/{name}/"
    asked = [("manifest.read", "GET", content + "manifests/v1"), ("manifest.read", "GET", content + "manifests/" + digest),
             ("blob.read", "GET", content + "blobs/" + digest), ("tag.list", "GET", content + "tags/list"),
             ("referrer.list", "GET", content + "referrers/" + digest)]
    if role == "consumer":  # to who may push a HEAD that is denied becomes a probe
        asked += [("manifest.stat", "HEAD", content + "manifests/v1"), ("blob.stat", "HEAD", content + "blobs/" + digest)]
    action, method, path = chance.choice(asked)
    return {"client": client, "action": action, "name": name, "method": method, "path": path, "address": chance.choice(ADDRESSES)}


def send(request):
    """The number of its event."""
    client = request["client"]
    if client not in state["links"]:
        state["links"][client] = {"token": client.ask_for_token("registry:admin:* " + " ".join(f"repository:{name}:pull,push" for name in PLACES)).json["access_token"]}
    mine = state["links"][client]
    link = mine.setdefault(request["address"], client.connection(address=request["address"]))
    link.request(request["method"], request["path"], headers={"Authorization": "Bearer " + mine["token"]})
    answer = link.getresponse()
    answer.read()
    return int(answer.headers["Sijil-Audit"].rsplit("/", 1)[1])


def all_events():
    after = state.get("after")
    events = state.setdefault("events", {})
    while True:
        page = state["auditor"].api("GET", "/audit/events?order=ascending&limit=1000" + (f"&after={after}" if after is not None else ""))
        events.update({event["seq"]: event["entry"] for event in page["events"]})
        after = state["after"] = max(events)
        if "next" not in page:
            return events


def send_all(requests):
    """What became of each: its event."""
    numbers = [send(request) for request in requests]
    events = all_events()
    state["sent"] += [(kind, events[number]) for kind, number in enumerate(numbers)]
    return [events[number] for number in numbers]


# --- cases --------------------------------------------------------------------------------------------------------------------
def a_plan_names_what_enforcement_does():
    requests, flips = [random_request() for _ in range(REQUESTS)], collections.Counter()
    for number in range(4 * ROUNDS):
        if number >= ROUNDS and flips:  # three random sets may change nothing
            break
        before, proposed = send_all(requests), random_set()
        for request, event in zip(requests, before):
            assert event["act"] == request["action"] and event["res"].split("#")[0] == request["name"], (request, event)
        made, times = plan(proposed), collections.Counter(kind for kind, _ in state["sent"])
        load(proposed)
        after = send_all(requests)
        expected, examples = collections.Counter(), collections.defaultdict(set)
        for kind, (was, now) in enumerate(zip(before, after)):
            if was["out"] != now["out"]:
                key = ("newly_denied" if now["out"] == "denied" else "newly_allowed", was["actor"], was["act"], requests[kind]["name"])
                expected[key] += times[kind]
                flips[key[0]] += 1
        named = collections.Counter()
        actors = {event["actor"] for event in before}
        for change in ("newly_denied", "newly_allowed"):
            for row in made[change]:
                key = (change, row["actor"], row["action"], row["resource"])
                if row["actor"] in actors:
                    named[key] += row["count"]
                    examples[key] |= set(row["examples"])
        assert named == expected, json.dumps([proposed, sorted((named - expected).items()), sorted((expected - named).items())])
        for key, numbers in examples.items():
            for number in numbers:
                entry = state["events"][number]
                assert (entry["actor"], entry["act"], entry["res"].split("#")[0]) == key[1:], (key, entry)
        assert made["requests"]["undecided"] == 0 and made["log"]["until"] >= max(event["seq"] for event in before), made
    print(f"     {len(requests)} requests, {ROUNDS} rounds: {dict(flips)}", flush=True)
    assert sum(flips.values()) > 0, flips


def places_and_pins_that_are_lost_are_named():
    load(set_of([permits(), health()],
                declassified=lifted(range(5))))
    bound = policy_of("bound", ["main/one/**"], [{"id": "FAR", "effect": "require", "ops": ["ingest"], "target": {"geo_within": ["FR"]}}], closed=False)
    made = plan(set_of([permits(), bound], declassified=lifted(range(5))))
    rows = {row["repository"]: row for row in made["unplaceable"]["rows"]}
    assert set(rows) == {"main/one/digits", "main/one/deep/scans", "main/two/digits"}, rows
    row = rows["main/one/digits"]
    assert (row["rule"], row["policy"], row["region"], row["regions"]) == ("FAR", "bound@1", "local/main", ["local/far"]), row
    assert row["manifests"] == 1 and row["bytes"] > len(b"bytes") and rows["main/two/digits"]["rule"] == "SYS-PIN-MISSING", rows
    assert made["unplaceable"]["bytes"] == sum(each["bytes"] for each in rows.values()) and made["unplaceable"]["manifests"] == 3, made
    (pin,) = made["pins_lost"]
    assert (pin["policy"], pin["repositories"], pin["examples"]) == ("health", 1, ["main/two/digits"]), pin
    assert made["inventory"]["manifests"] == 3 and made["inventory"]["repositories"] >= 3, made["inventory"]
    same = plan(set_of([permits(), health()],
                       declassified=lifted(range(5))))
    assert same["inventory"]["digest"] == made["inventory"]["digest"] and not same["pins_lost"] and not same["unplaceable"]["rows"], same


def what_is_not_known_is_counted_apart():
    """The proposed set has a network inside of a present one: which clients are in it, the log does not tell without opening addresses."""
    document = set_of([permits()])
    document["networks"] = [{"cidr": "127.0.0.0/8", "facts": {"geo": "AE", "assurance": 2}}]
    load(document)
    send_all([random_request() | {"action": "tag.list", "method": "GET", "path": "/v2/main/one/digits/tags/list", "client": state["robots"][0][0]}])
    document["networks"].append({"cidr": "127.0.0.2/32", "facts": {"geo": "FR"}})
    made = plan(document)
    assert made["requests"]["undecided"] > 0 and {row["why"] for row in made["undecided"]} == {"network"}, made["undecided"]


def exceptions_that_do_not_fit_are_named():
    """And what they allowed by digest is named, too: of two equal reads one was of the digest that the exception is for."""
    project = state["admin"].api("GET", "/projects/main/one")["id"]
    bound = policy_of("bound", ["main/one/**"], [{"id": "NOBODY", "effect": "deny", "ops": ["read"], "target": {"geo_within": ["AE"]}}], closed=False,
                      exception_types={"continuity": {"lifts": ["NOBODY"], "approvals": 2, "max_days": 60, "required_evidence": []}})

    keys = approvers.make(server, ("amal", "badr"), server.path("approver.pem"))

    def some(exceptions):
        document = set_of([permits(), bound], exceptions=exceptions, declassified=lifted(range(5)))
        document["networks"] = [{"cidr": "127.0.0.1/32", "facts": {"geo": "AE", "assurance": 2}}]
        return document
    load(some([]))
    digest = next(each["digest"] for each in state["admin"].api("GET", "/policies")["policies"] if each["id"] == "bound")
    days = [(datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=each)).strftime("%Y-%m-%dT00:00:00Z") for each in (-1, 30)]

    def exception(name, **more):
        return {"apiVersion": "sijil.policy/v1", "kind": "ResidencyException", "id": name, "type": "continuity", "project": project,
                "policy": {"id": "bound", "version": 1, "digest": digest}, "lifts": ["NOBODY"], "ops": ["read"], "targets": ["127.0.0.1/32"],
                "digests": [sha256(b"bytes")], "not_before": days[0], "not_after": days[1], "evidence": {"letter": sha256(b"a letter")},
                "requested_by": {"iss": "i", "sub": "a"}, "approvals": [approvers.person(server, each) for each in keys], **more}
    load(some([exception("left-out")]), *keys.values())
    asked = [{"client": state["robots"][0][0], "method": "GET", "path": "/v2/main/one/digits/blobs/" + each, "address": "127.0.0.1"}
             for each in (sha256(b"bytes"), sha256(b"third"))]
    events = send_all(asked)
    assert [event["out"] for event in events] == ["allowed", "denied"], events
    made = plan(some([exception("no-rule", lifts=["GONE"]), exception("ended", not_before="2020-01-01T00:00:00Z", not_after="2020-01-02T00:00:00Z"),
                      exception("old", policy={"id": "bound", "version": 7, "digest": digest}), exception("other", digests=[sha256(b"third")])]))
    found = {row["exception"]: row["why"] for row in made["exceptions"]}
    assert set(found) == {"left-out", "no-rule", "ended", "old"} and all(row["project"] == project for row in made["exceptions"]), made["exceptions"]
    assert "does not have it" in found["left-out"] and "no such rule" in found["no-rule"] and "ended" in found["ended"] and "version" in found["old"], found
    for change, event in zip(("newly_denied", "newly_allowed"), events):
        rows = [row for row in made[change] if row["action"] == "blob.read" and row["resource"] == "main/one/digits" and row["actor"] == event["actor"] and
                (event["seq"] in row["examples"] or row["count"] > len(row["examples"]))]  # earlier requests may be like it
        assert len(rows) == 1 and rows[0]["rule"] == "NOBODY", (change, event, made)


def who_may_not_load_may_not_plan():
    payload, _ = compose(set_of([permits()]))
    body = json.dumps({"set": payload})
    headers = {"Content-Type": "application/json"}
    for client, status in ((state["auditor"], 403), (state["robots"][0][0], 403), (server.client(), 401)):
        answer = client.call("POST", "/api/v1/policies/plan", body, headers, **({} if status == 401 else {"scope": "registry:admin:*"}))
        assert answer.status in (status, 404), answer.body
        answer = client.call("GET", "/api/v1/policies/plans/00000000-0000-4000-8000-000000000000", **({} if status == 401 else {"scope": "registry:admin:*"}))
        assert answer.status in (status, 404), answer.body
    officer = server.client(make_robot(server, "officer", "security-officer", ""))
    assert officer.call("GET", "/api/v1/policies/plans/00000000-0000-4000-8000-000000000000", scope="registry:admin:*").status == 404
    for document, status in (({"set": {**payload, "epoch": 1}}, 400), ({"set": {}}, 400), ({"set": payload, "days": -1}, 400), ({"days": 1}, 400)):
        answer = officer.call("POST", "/api/v1/policies/plan", json.dumps(document), headers, scope="registry:admin:*")
        assert answer.status == status, (document, answer.status, answer.body)
    job = officer.api("POST", "/policies/plan", {"set": payload})
    event = next(each["entry"] for each in reversed(state["auditor"].api("GET", "/audit/events?limit=50&order=descending")["events"])
                 if each["entry"]["act"] == "policy.plan" and each["entry"]["res"] == "#" + payload["digest"])
    assert event["out"] == "allowed", event
    wait_until(lambda: "ended" in officer.api("GET", "/policies/plans/" + job["id"])["job"], 60, "the plan does not end")
    load(set_of([permits()], declassified=lifted(range(5))))
    answer = officer.call("POST", "/api/v1/policies/plan", body, headers, scope="registry:admin:*")
    assert answer.status == 409 and b"larger" in answer.body, answer.body


def held_plan(number):
    """A job that another gateway holds stands for a plan that takes long."""
    job, (payload, _) = f"0190aaaa-0000-4000-8000-{number:012}", compose(set_of([permits()]))
    text = json.dumps({"days": 1, "set": payload}).replace("'", "''")
    server.psql.ask("INSERT INTO job (job_id, kind, region_id, with_digest, rate_bytes, is_dry_run, input, runner, runner_epoch, lease_until) VALUES"
               f" ('{job}', 'plan', NULL, false, 0, false, '{text}', 'elsewhere', 1, now() + interval '1 hour')")
    return job


def end_of(job):
    """That gateway is gone, and this one takes the job over."""
    server.psql.ask(f"UPDATE job SET lease_until = NULL WHERE job_id = '{job}'")
    wait_until(lambda: "ended" in state["admin"].api("GET", "/policies/plans/" + job)["job"], 60, "the plan does not end")
    return state["admin"].api("GET", "/policies/plans/" + job)


def read_until(terminal, text):
    said = b""
    while text not in said:
        assert select.select([terminal], [], [], 30)[0], said
        said += os.read(terminal, 4096)
    return said


def control_c_asks(at, environment):
    job = held_plan(2)
    child, terminal = pty.fork()
    if child == 0:
        os.execve(program("sijil"), [program("sijil"), "policy", "plan", at, "--show", job], environment)
    for awaited, typed in ((b"events: 0 of 0", b"\x03"), (b"stop the plan?", b"no\n"), (b"events: 0 of 0", b"\x03"), (b"stop the plan?", b"yes\n")):
        read_until(terminal, awaited)
        os.write(terminal, typed)
    read_until(terminal, b"stops: " + job.encode())
    assert end_of(job)["job"]["state"] == "stopped"
    read_until(terminal, b"stopped by")
    status = os.waitpid(child, 0)[1]
    os.close(terminal)  # not before: it would be hung up
    assert os.waitstatus_to_exitcode(status) == 1, status


def others_stop_a_plan_and_its_state_says_who():
    """Whoever may plan stops what somebody else began."""
    at = f"127.0.0.1:{server.port}"
    name, password = make_robot(server, "second-officer", "registry-admin", "")
    environment = {**os.environ, "XDG_CONFIG_HOME": server.path("officer"), "XDG_CACHE_HOME": server.path("officer")}
    subprocess.run([program("sijil"), "login", at, "--ca-file", server.ca_file, "--username", name], input=password, text=True, check=True, env=environment,
                   capture_output=True)
    officer = "robot:" + server.psql.ask(f"SELECT robot_id FROM robot WHERE name = '{name}'")
    job = held_plan(1)
    for client, status in ((state["auditor"], 403), (state["robots"][0][0], 403)):
        assert client.call("DELETE", "/api/v1/policies/plans/" + job, scope="registry:admin:*").status in (status, 404)
    said = subprocess.run([program("sijil"), "policy", "plan", at, "--cancel", job], env=environment, capture_output=True, text=True)
    assert said.returncode == 0 and "stops: " + job in said.stderr, said
    event = next(each["entry"] for each in reversed(state["auditor"].api("GET", "/audit/events?limit=50&order=descending")["events"])
                 if each["entry"]["act"] == "policy.stop" and each["entry"]["out"] == "allowed")
    assert event["res"] == "#" + job, event
    shown = state["admin"].api("GET", "/policies/plans/" + job)["job"]
    assert (shown["state"], shown["stopped_by"]) == ("stopping", officer), shown
    shown = end_of(job)
    assert (shown["job"]["state"], shown["job"]["stopped_by"]) == ("stopped", officer) and "plan" not in shown, shown
    said = subprocess.run([program("sijil"), "policy", "plan", at, "--show", job], env=environment, capture_output=True, text=True)
    assert said.returncode == 1 and f"stopped by {officer}" in said.stderr, said
    for words, why in ((("--cancel", job), b"it is over"), ((), b"--cancel ID")):
        said = subprocess.run([program("sijil"), "policy", "plan", at, *words], env=environment, capture_output=True)
        assert said.returncode != 0 and why in said.stderr, said
    control_c_asks(at, environment)


def the_command_shows_it():
    at, (user, password) = f"127.0.0.1:{server.port}", server.admin
    environment = {**os.environ, "XDG_CONFIG_HOME": server.path("config"), "XDG_CACHE_HOME": server.path("cache")}
    subprocess.run([program("sijil"), "login", at, "--ca-file", server.ca_file, "--username", user], input=password, text=True, check=True,
                   env=environment, capture_output=True)
    send_all([{"client": state["robots"][0][0], "method": "GET", "path": "/v2/main/one/digits/tags/list", "address": "127.0.0.1"}])
    write_set(set_of([permits(), policy_of("bound", ["main/one/**"], [{"id": "NOBODY", "effect": "deny", "ops": ["read", "ingest"], "target": {"geo_within": ["AE"]}}], closed=False)],
                     declassified=lifted(range(5))))
    words = [program("sijil"), "policy", "plan", at, server.path("set.json"), "--days", "1"]
    done = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == 0, done
    for each in ("newly denied", "NOBODY", "bound@1", "main/one/digits", "bytes to move", f"proposed   epoch {state['epoch'] + 1}", "plan       sha256:"):
        assert each in done.stdout, (each, done.stdout)
    assert "events: " in done.stderr or "done: " in done.stderr, done.stderr
    told = subprocess.run([*words, "--json"], capture_output=True, text=True, env=environment, timeout=120, check=True)
    made = json.loads(told.stdout)
    assert all(len(row["actor"]) == 64 for row in made["newly_denied"]) and "NOBODY" in {row["rule"] for row in made["newly_denied"]}, made
    assert told.stderr == "", told
    wrong = subprocess.run([*words, "--days", "many"], capture_output=True, text=True, env=environment, timeout=120)
    assert wrong.returncode != 0 and "--days" in wrong.stderr, wrong


if __name__ == "__main__":
    run(prepare, a_plan_names_what_enforcement_does, places_and_pins_that_are_lost_are_named, what_is_not_known_is_counted_apart,
        exceptions_that_do_not_fit_are_named, who_may_not_load_may_not_plan, others_stop_a_plan_and_its_state_says_who, the_command_shows_it, server=server)
