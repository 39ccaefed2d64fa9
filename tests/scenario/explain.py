#!/usr/bin/env python3
"""Decisions explained, and reviews of access (docs/identity.md): /api/v1/authz/explain, /api/v1/access/review, and their commands.

usage: explain.py [CASES]   250 if it is not said; script/soak has 10,000

Random principals with random roles, under random policies, send random requests from random networks, and each is explained first. The
explanation's verdict and rules must be what the gateway then did, by its answer and by the event in the log. What an explanation says would allow
it is done, and must allow it."""
import csv
import datetime
import json
import os
import random
import shutil
import subprocess
import sys
import time

import sijil_test
from fleet import Fleet
from psql import Psql
from sijil_test import Issuer, make_robot, program, run, sha256

CASES = int(sys.argv[1]) if len(sys.argv) > 1 else 250
UNLIMITED = {name: 1000000 for name in ("denial_rate_per_principal", "denial_rate_per_organisation", "wrong_secrets_per_network",
                                        "wrong_secrets_per_name", "rights_rate_per_organisation", "rights_rate_per_principal")}
PLACES = ["main/one/digits", "main/one/deep/scans", "main/two/digits", "globex/one/digits", "main/none/digits", "nobody/one/digits"]
CONTENT = ["publisher", "promoter", "consumer", "trainer"]
ROLES = {"": ["registry-admin", "auditor", "security-officer", "witness"],
         "main": ["org-admin", "project-admin", "auditor", *CONTENT], "globex": ["org-admin", *CONTENT],
         "main/one": ["project-admin", "auditor", *CONTENT], "main/two": ["project-admin", *CONTENT], "main/one/digits": CONTENT,
         "main/one/*": CONTENT, "main/one/deep/*": CONTENT, "globex/one": ["project-admin", *CONTENT]}
ADDRESSES = ["127.0.0.1", "127.0.0.2", "127.0.1.1"]
seed = int(os.environ.get("SIJIL_SEED", random.randrange(1 << 32)))
chance = random.Random(seed)
server = Fleet(1, log_level="warning", **UNLIMITED)
state = {"epoch": 1, "robots": [], "people": [], "bindings": [], "links": {}, "done": [], "allowed": 0}


# --- the world ----------------------------------------------------------------------------------------------------------------
def random_policy(number):
    scope = chance.choice([["main/**"], ["main/one/**"], ["main/one/deep/**", "globex/**"], ["**"]])
    rules = []
    for rule in range(chance.randint(1, 3)):
        effect = chance.choice(["require", "deny"])
        rules.append({"id": f"R{number}-{rule}", "effect": effect, "ops": chance.sample(["read", "ingest", "metadata", "log"], 2),
                      "target": chance.choice([{"geo_within": ["AE"]}, {"min_assurance": 2}, {"geo_within": ["FR"]}]),
                      **chance.choice([{}, {"when": {"subjects_any": ["health"]}}])})
    return {"apiVersion": "sijil.policy/v1", "kind": "ResidencyPolicy", "closed": False,
            "metadata": {"id": f"extra-{number}", "version": state["epoch"], "scope": scope, "effective_from": "2020-01-01T00:00:00Z",
                         "review_by": "2099-01-01"}, "rules": rules}


def load_policies():
    """A set with a policy that permits most, and some that don't. It is in force when this returns."""
    state["epoch"] += 1
    base = {"apiVersion": "sijil.policy/v1", "kind": "ResidencyPolicy",
            "metadata": {"id": "all", "version": state["epoch"], "scope": ["**"], "effective_from": "2020-01-01T00:00:00Z",
                         "review_by": "2099-01-01"}, "labels": {"class": "confidential"},
            "rules": [{"id": "PERMIT", "effect": "permit", "ops": ["ingest", "mount", "read", "metadata", "log"],
                       "when": {"class_at_most": chance.choice(["confidential", "sensitive"])}},
                      {"id": "KEEP", "effect": "oblige", "ops": ["ingest"], "oblige": {"retain_min_days": 30}}]}
    networks = [{"cidr": "127.0.0.1/32", "facts": {"geo": "AE/DU", "assurance": 2}},
                {"cidr": "127.0.0.2/32", "facts": {"geo": "FR", "assurance": chance.choice([1, 2])}}]
    with open(server.path("set.json"), "w", encoding="utf-8") as file:
        json.dump({"policies": [base, *(random_policy(each) for each in range(chance.randint(0, 3)))],
                   "regions": {"local/main": {"geo": "AE"}}, "networks": networks}, file)
    subprocess.run([program("sijil"), "policy", "sign", "--key", server.path("approver.pem"), "--epoch", str(state["epoch"]), "--output",
                    server.path("next.dsse"), server.path("set.json")], check=True, capture_output=True)
    with open(server.path("next.dsse"), encoding="utf-8") as file:
        state["admin"].api("POST", "/policies", json.load(file))
    os.unlink(server.path("next.dsse"))
    sijil_test.wait_until(lambda: state["admin"].api("GET", "/policies")["epoch"] == state["epoch"], 30, "the set is not in force")
    await_places()


def await_places():
    """What may not be where it is any more is closed now, and this gateway knows: not between an explanation and the request."""
    server.psql.ask("WITH due AS (UPDATE placement_review SET began_at = '-infinity' RETURNING 1) SELECT count(*) FROM due")
    sijil_test.wait_until(lambda: server.psql.ask(f"SELECT after IS NULL AND began_at > '-infinity' AND done_version >> 40 = {state['epoch']} FROM placement_review") == "t", 30,
                          "nobody looks what may stay where it is")
    state["admin"].api("GET", "/policies")


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
    load_policies()
    issuer = state["issuer"] = Issuer("https://token.actions.example", f"https://127.0.0.1:{server.port}")
    admin.api("POST", "/issuers", {"url": issuer.url, "algorithms": ["ES256"], "jwks": issuer.jwks, "lifetime_max": 3600})
    for number in range(8):
        where = ["main", "main", "main", "globex", None][number % 5]
        made = admin.api("POST", "/robots", {"name": f"robot{number}", **({"organisation": where} if where else {})})
        state["robots"].append({"robot": made["name"], "id": made["id"], "client": server.client((made["name"], made["secret"])), "of": where})
    for number in range(4):
        state["people"].append({"issuer": issuer.url, "subject": f"person{number}", "token": issuer.token(sub=f"person{number}", exp=int(time.time()) + 3500)})


def change_rights():
    """A binding more or less, a label, or another set: in force at this gateway when the answer comes."""
    admin, kind = state["admin"], chance.random()
    if kind < 0.03:
        load_policies()
    elif kind < 0.06:
        admin.api("PUT", "/projects/main/two/label", chance.choice([{}, {"class": "sensitive"}, {"subjects": ["health"]}]), (200, 204, 403, 409))
        await_places()
    elif kind < 0.45 and state["bindings"]:
        admin.api("DELETE", "/bindings/" + state["bindings"].pop(chance.randrange(len(state["bindings"]))))
    else:
        scope = chance.choice(list(ROLES))
        who = chance.choice(state["robots"] + state["people"])
        made = admin.call("POST", "/api/v1/bindings", json.dumps({**named(who, "id"), "scope": scope, "role": chance.choice(ROLES[scope])}),
                          {"Content-Type": "application/json"}, scope="registry:admin:*")
        if made.status == 201:
            state["bindings"].append(made.json["id"])


def named(who, key="robot"):
    return {"robot": who[key]} if "robot" in who else {"issuer": who["issuer"], "subject": who["subject"]}


# --- one case -----------------------------------------------------------------------------------------------------------------
def random_request():
    """The action, the thing, and a request that asks for this."""
    name = chance.choice(PLACES)
    project, organisation = "/".join(name.split("/")[:2]), name.split("/")[0]
    digest = chance.choice([sha256(b"bytes"), sha256(b"other")])
    content, api = f"/v2/{name}/", "/api/v1/"
    return chance.choice([
        ("manifest.read", name, "v1", "GET", content + "manifests/v1"), ("manifest.read", name, digest, "GET", content + "manifests/" + digest),
        ("manifest.stat", name, "v1", "HEAD", content + "manifests/v1"), ("blob.read", name, digest, "GET", content + "blobs/" + digest),
        ("blob.stat", name, digest, "HEAD", content + "blobs/" + digest), ("tag.list", name, None, "GET", content + "tags/list"),
        ("referrer.list", name, digest, "GET", content + "referrers/" + digest), ("upload.begin", name, None, "POST", content + "blobs/uploads/"),
        ("tag.delete", name, "gone", "DELETE", content + "manifests/gone"), ("project.read", project, None, "GET", f"{api}projects/{project}"),
        ("binding.read", project, None, "GET", f"{api}bindings?limit=1&scope={project}"),
        ("binding.read", organisation, None, "GET", f"{api}bindings?limit=1&scope={organisation}"),
        ("audit.read", organisation, None, "GET", f"{api}audit/events?limit=1&within={organisation}"),
        ("policy.read", "", None, "GET", api + "policies"), ("issuer.read", "", None, "GET", api + "issuers?limit=1")])


def credential(who, path, name):
    """What the principal brings, and the scope of a token of ours; None: it has no bounds."""
    if "token" in who:
        return "Bearer " + who["token"], None
    if path.startswith("/v2/") and chance.random() < 0.5:
        place = chance.choice([name, name, chance.choice(PLACES)])
        answer = who["client"].ask_for_token(f"repository:{place}:" + chance.choice(["pull", "pull,push,delete"])).json
    else:
        answer = who["client"].ask_for_token("registry:admin:*" + (f" repository:{name}:pull,push,delete" if chance.random() < 0.9 else "")).json
    return "Bearer " + answer["access_token"], answer["scope"] or "nothing"


def send(method, path, authorization, address):
    link = state["links"].setdefault(address, state["admin"].connection(address=address))
    link.request(method, path, headers={"Authorization": authorization})
    answer = link.getresponse()
    answer.read()
    return answer


def explain(asker, question):
    return asker.api("POST", "/authz/explain", {key: value for key, value in question.items() if value is not None})


def number_of(answer):
    said = answer.headers.get("Sijil-Audit")
    return int(said.rsplit("/", 1)[1]) if said else None


def decide_one(number):
    """Explains, asks, and notes both; the events are compared at the end."""
    who = chance.choice(state["robots"] if chance.random() < 0.4 else state["people"])
    action, name, detail, method, path = random_request()
    authorization, scope = credential(who, path, name)
    address = chance.choice(ADDRESSES)
    question = {**named(who), "action": action, "resource": name, "detail": detail, "token_scope": scope, "address": address}
    asker = state["admin"] if number % 2 == 0 else state["auditor"]
    told = explain(asker, question)
    if who.get("of") and number % 8 == 0:  # what it is told itself is the same
        own = explain(who["client"], {**question, "robot": None})
        assert (own["verdict"], own["denials"]) == (told["verdict"], told["denials"]), (own, told)
    answer = send(method, path, authorization, address)
    also = explain(state["admin"], {**question, "action": "upload.probe"}) if method == "HEAD" else None
    state["done"].append((question, told, also, answer.status, number_of(answer)))
    if told["verdict"] == "hide" and all(each["kind"] == "role" for each in told["changes"]) and state["allowed"] < 40:
        do_what_it_says(who, told, (method, path, authorization, address), scope, question)


def do_what_it_says(who, told, request, scope, question):
    """The one change of a denial, on a thing that is there, must allow it."""
    (change,), place = told["changes"], question["resource"].split("/")
    is_there = "/".join(place[:2]) in ("main/one", "main/two", "globex/one") and len(place) > 1
    if not is_there or scope is not None and len(place) > 2 or who.get("of", place[0]) not in (place[0], None):
        return
    made = state["admin"].api("POST", "/bindings", {**named(who, "id"), "role": change["role"], "scope": change["scope"]}, (201, 409))
    told = explain(state["admin"], question)
    answer = send(*request)
    state["done"].append((question, told, None, answer.status, number_of(answer)))
    assert told["allowed"] and [each["role"] for each in told["roles"] if each["decides"]] == [change["role"]], told
    state["admin"].api("DELETE", "/bindings/" + made["id"])
    state["allowed"] += 1


def all_events():
    found, after = {}, None
    while True:
        page = state["auditor"].api("GET", "/audit/events?order=ascending&limit=1000" + (f"&after={after}" if after is not None else ""))
        found.update({event["seq"]: event["entry"] for event in page["events"]})
        after = page.get("next")
        if after is None:
            return found


def compare(events, question, told, also, status, number):
    case = json.dumps([question, told, status, number])
    if number is None:  # counted only: the answer says it
        assert told["verdict"] == {401: "challenge", 403: "deny", 404: "hide"}[status], case
        return told["verdict"]
    event = events[number]
    if also is not None and event["act"] == "upload.probe":
        assert also["allowed"] and told["verdict"] == "deny", case
        return "probe"
    assert event["act"] == question["action"], (case, event)
    assert told["allowed"] == (event["out"] not in ("denied",)), (case, event)
    if not told["allowed"]:
        assert [each["rule"] for each in told["denials"]][:4] == event["why"]["rules"], (case, event)  # an event has the first four
        assert told["verdict"] == {401: "challenge", 403: "deny", 404: "hide"}[status], (case, event)
    assert told["allowed"] or told["changes"], case
    return told["verdict"]


# --- cases --------------------------------------------------------------------------------------------------------------------
def explanations_are_what_the_gateway_does():
    for number in range(CASES):
        if number % 3 == 0:
            change_rights()
        decide_one(number)
    events, seen = all_events(), {}
    for each in state["done"]:
        verdict = compare(events, *each)
        seen[verdict] = seen.get(verdict, 0) + 1
    print(f"     {len(state['done'])} cases: {seen}; {state['allowed']} times what was named was done, and allowed it", flush=True)
    least = CASES // 60
    assert all(seen.get(verdict, 0) > least for verdict in ("allow", "deny", "hide", "challenge")) and state["allowed"] > 1, seen


def post(client, question):
    return client.call("POST", "/api/v1/authz/explain", json.dumps(question), {"Content-Type": "application/json"}, scope="registry:admin:*")


def shape(answer):
    """An answer without its ids and the names that were asked for."""
    return answer.status, {key: value for key, value in answer.json.items() if key != "instance"}


def who_may_not_know_learns_nothing():
    """The same answer for what exists and what does not: to a consumer, to an administrator of another organisation, and about robots."""
    question = {"robot": "robot$main+robot0", "action": "manifest.read"}
    outsiders = [server.client(make_robot(server, "plain", "consumer", "main/two")), server.client(make_robot(server, "chief", "org-admin", "globex", organisation="globex"))]
    for client in outsiders:
        here = post(client, {**question, "resource": "main/one/digits"})
        assert shape(here) == shape(post(client, {**question, "resource": "main/none/digits"})) and here.status == 404, here.body
        for place in ("main/one/digits", "main/none/digits"):
            own = explain(client, {"action": "manifest.read", "resource": place})
            assert (own["verdict"], own["roles"], own["operations"], own["denials"][0]["rule"]) == ("hide", [], [], "SYS-NO-BINDING"), own
    names = ["robot$main+robot0", "robot$main+nobody", "robot$robot4"]  # of another organisation, of nobody, of the registry
    told = [shape(post(outsiders[1], {"robot": name, "action": "manifest.read", "resource": "globex/one/digits"})) for name in names]
    assert told[0] == told[1] == told[2] and told[0][0] == 404, told
    rules = [post(outsiders[1], {"rule": name, "action": "project.read", "resource": "globex/one"}) for name in ("main:ci", "main:none", ":ci", "globexx:ci")]
    assert {shape(each)[0] for each in rules} == {404} and shape(rules[0]) == shape(rules[1]), [each.body for each in rules]
    assert post(outsiders[1], {"rule": "globex:none", "action": "project.read", "resource": "globex/one"}).status == 200
    anonymous = server.client().call("POST", "/api/v1/authz/explain", json.dumps(question), {"Content-Type": "application/json"})
    assert anonymous.status == 401, anonymous.body
    wrong = [{"resource": "main/one/digits", "action": "none"}, {"resource": "main/one", "action": "manifest.read"},
             {"resource": "A", "action": "project.read"}, {"resource": "main", "action": "project.read", "subject": "x"},
             {"resource": "main", "action": "project.read", "robot": "a", "rule": ":b"}, {"resource": "main", "action": "project.read", "address": "x"},
             {"resource": "main", "action": "project.read", "at": "2020-01-01T00:00:00Z", "rule": ":x"}, {"resource": "main", "action": "project.read", "at": "x"}]
    for each in wrong:
        assert post(state["admin"], each).status == 400, each


def newest(action):
    return next(each for each in state["auditor"].api("GET", "/audit/events?limit=20")["events"] if each["entry"]["act"] == action)


def an_explanation_is_an_event():
    explain(state["admin"], {"issuer": state["issuer"].url, "subject": "person0", "action": "manifest.read", "resource": "main/one/digits"})
    event = newest("authz.explain")
    assert event["entry"]["act"] == "authz.explain" and event["entry"]["res"] == "main/one/digits#manifest.read external", event
    assert "person0" not in json.dumps(event["entry"]) and "person0" in json.dumps(event), event
    explain(state["robots"][0]["client"], {"action": "manifest.read", "resource": "main/one/digits"})
    event = newest("authz.ask")["entry"]
    assert (event["act"], event["res"]) == ("authz.ask", "#manifest.read"), event


def a_role_that_ends_is_seen_before():
    made = state["admin"].api("POST", "/robots", {"organisation": "main", "name": "soon"})
    state["admin"].api("POST", "/bindings", {"robot": made["id"], "role": "trainer", "scope": "main/one", "expires_days": 1})
    question = {"robot": made["name"], "action": "project.read", "resource": "main/one"}
    later = (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=2)).strftime("%Y-%m-%dT%H:%M:%SZ")
    now, then = explain(state["admin"], question), explain(state["admin"], {**question, "at": later})
    assert now["allowed"] and now["roles"][0]["expires"], now
    assert not then["allowed"] and then["changes"][0]["role"] == "consumer" and "changes until then" in then["unknown"][0], then


def rights_and_policies_of_then_are_known():
    """A binding that was revoked, a robot that was revoked, and a set that was replaced: before, meanwhile, and after."""
    admin, moments = state["admin"], []
    made = admin.api("POST", "/robots", {"organisation": "main", "name": "past"})
    asked = {"robot": made["name"], "action": "manifest.read", "resource": "main/one/digits", "address": "127.0.0.1"}

    def note():
        time.sleep(0.05)  # rows have the time of the database, which may differ from ours by milliseconds
        moments.append(datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z"))
        time.sleep(0.05)
    note()
    binding = admin.api("POST", "/bindings", {"robot": made["id"], "role": "consumer", "scope": "main/one"})
    staying, leaving = [server.client(make_robot(server, name, "consumer", "main/one")) for name in ("staying", "leaving")]
    note()
    sets = explain(admin, asked)["policy_set"]
    load_policies()
    note()
    admin.api("DELETE", "/bindings/" + binding["id"])
    admin.api("DELETE", "/robots/" + made["id"])
    note()
    told = [post(admin, {**asked, "at": moment}) for moment in moments]
    assert [each.status for each in told] == [200, 200, 200, 404], [each.body for each in told]
    told = [each.json for each in told[:3]]
    assert [[role["binding"] for role in each["roles"]] for each in told] == [[], [binding["id"]], [binding["id"]]], told
    assert told[0]["verdict"] == "hide" and [each["policy_set"] == sets for each in told] == [True, True, False], told
    assert all("labels and names of then" in each["unknown"][0] for each in told), told
    own = explain(staying, {"action": "manifest.read", "resource": "main/one/digits", "at": moments[1]})
    assert own["who"]["name"] == "robot$main+staying" and own["at"] == moments[1] and own["roles"][0]["role"] == "consumer", own
    assert post(staying, {"action": "manifest.read", "resource": "main/one/digits", "at": moments[0]}).status == 404  # it was not there yet
    page = admin.api("GET", "/bindings?scope=main/one&limit=1000")["bindings"]
    admin.api("DELETE", "/bindings/" + next(each["id"] for each in page if each.get("robot") == "robot$main+leaving"))
    told = [shape(post(leaving, {"action": "manifest.read", "resource": place, "at": moments[1]})) for place in ("main/one/digits", "main/none/digits")]
    assert told[0] == told[1] and told[0][0] == 404, told  # who has no role today learns nothing of today from its past
    early = explain(admin, {"issuer": state["issuer"].url, "subject": "person0", "action": "manifest.read", "resource": "main/one/digits", "at": "2020-01-01T00:00:00Z"})
    assert early["verdict"] == "hide" and "policy_set" not in early, early


def sijil(*words, code=0):
    done = subprocess.run([program("sijil"), *words], capture_output=True, text=True, env=state["environment"], timeout=300)
    assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
    return done.stdout


def the_command_says_why():
    at, (user, password) = f"127.0.0.1:{server.port}", server.admin
    state["environment"] = {**os.environ, "XDG_CONFIG_HOME": server.path("config"), "XDG_CACHE_HOME": server.path("cache")}
    subprocess.run([program("sijil"), "login", at, "--ca-file", server.ca_file, "--username", user], input=password, text=True, check=True,
                   env=state["environment"], capture_output=True)
    made = state["admin"].api("POST", "/robots", {"organisation": "main", "name": "asked"})
    words = ("authz", "explain", at, "main/asked", "manifest.read", "main/two/new")
    denied = sijil(*words)
    assert "denied: 404" in denied and "none here" in denied and "SYS-NO-BINDING" in denied, denied
    command = next(line.strip() for line in denied.splitlines() if "admin binding create" in line)
    assert command == f"sijil admin binding create {at} 'robot$main+asked' consumer 'main/two/new'", command
    folder = os.path.dirname(os.path.abspath(program("sijil")))
    subprocess.run(["sh", "-c", command], env={**state["environment"], "PATH": folder + ":" + os.environ["PATH"]}, check=True, capture_output=True)
    told = json.loads(sijil(*words, "--address", "127.0.0.1", "--json"))
    assert [each["role"] for each in told["roles"] if each["decides"]] == ["consumer"] and told["operations"][0]["operation"] == "read", told
    assert f'binding {told["roles"][0]["binding"]}' in sijil(*words) and "where the client is" in sijil(*words)
    assert sijil("authz", "explain", at, "me", "organisation.create", "").startswith("allowed"), "the administrator of the registry"
    hinted = sijil("authz", "explain", at, "me", "manifest.read", "main/two/new", "--token-scope", "repository:main/one/x:pull")
    assert "does not cover it" in hinted and "a token with the scope repository:main/two/new:pull" in hinted, hinted
    assert "no role permits" in sijil("authz", "explain", at, "me", "key.forgotten", "main/two")
    state["asked"] = made["name"], made["secret"]


def a_review_shows_who_used_what():
    at, admin = f"127.0.0.1:{server.port}", state["admin"]
    user = server.client(state["asked"])
    assert user.call("GET", "/v2/main/two/new/manifests/v1", scope="repository:main/two/new:pull").status in (403, 404)
    used = server.client(make_robot(server, "busy", "consumer", "main/one"))
    make_robot(server, "lazy", "consumer", "main/one/digits")
    admin.api("POST", "/bindings", {"issuer": state["issuer"].url, "subject": "person3", "role": "trainer", "scope": "main/one/deep/*"}, (201, 409))
    assert used.repository("main/one/digits").call("GET", "tags/list", scope="repository:main/one/digits:pull").status in (200, 403)
    explain(admin, {"robot": used.login[0], "action": "tag.list", "resource": "main/one/digits"})
    event = state["auditor"].api("GET", "/audit/events?limit=1")["events"][0]["seq"]
    sijil_test.wait_until(lambda: admin.api("GET", "/access/review?scope=main&limit=1")["known_to"] > event, 60, "the index does not know the log")
    rows = json.loads(sijil("admin", "access", "review", at, "main", "--days", "0", "--json"))
    assert len({row["id"] for row in rows}) == len(rows) > 5, rows
    mine = {row["name"].split("+")[-1]: row for row in rows}
    assert "last_event" in mine["busy"] or mine["busy"]["unused"], mine["busy"]
    assert "last_used" not in mine["lazy"] and mine["lazy"]["unused"] and mine["lazy"]["remove"].endswith(mine["lazy"]["id"]), mine["lazy"]
    for row in rows:
        if "last_event" in row:
            used_in = state["auditor"].api("GET", f"/audit/events/{row['last_event']}")["entry"]
            assert used_in["out"] in ("allowed", "completed") and row["scope"].removesuffix("/*") in used_in["res"], (row, used_in)
    assert any("last_event" in row for row in rows), rows
    table = list(csv.DictReader(sijil("admin", "access", "review", at, "main", "--csv").splitlines()))
    assert len(table) == len(rows) and not any(row["remove"] for row in table), table[:3]  # none is 90 days old
    text = sijil("admin", "access", "review", at, "main/one", "--days", "0", "--unused")
    command = next(line.strip() for line in text.splitlines() if mine["lazy"]["id"] in line)
    subprocess.run([program("sijil"), *command.split()[1:]], env=state["environment"], check=True, capture_output=True)
    assert mine["lazy"]["id"] not in sijil("admin", "access", "review", at, "main/one", "--days", "0")


def reviewed(scope="main", days=0):
    return {row["name"].split("+")[-1]: row for row in json.loads(sijil("admin", "access", "review", f"127.0.0.1:{server.port}", scope, "--days", str(days), "--json"))}


def what_a_robot_did_under_a_name_is_no_use_of_the_next_one():
    admin = state["admin"]
    robot = make_robot(server, "phoenix", "consumer", "main/one")
    # Some random sets of policies let nobody see the repository, so its project tells whether the robot is known.
    sijil_test.wait_until(lambda: server.client(robot).call("GET", "/api/v1/projects/main/one", scope="registry:admin:*").status == 200, 20, "the robot is not known")
    assert server.client(robot).call("GET", "/v2/main/one/digits/tags/list", scope="repository:main/one/digits:pull").status in (200, 403, 404)
    assert "last_used" in reviewed()["phoenix"], reviewed()["phoenix"]
    old = next(one["id"] for one in admin.api("GET", "/robots?organisation=main&limit=1000")["robots"] if one["name"] == robot[0])
    assert admin.call("DELETE", "/api/v1/robots/" + old, scope="registry:admin:*").status == 204
    make_robot(server, "phoenix", "consumer", "main/one")
    again = reviewed()["phoenix"]
    assert "last_used" not in again and "last_event" not in again and again["unused"], again


def each_role_has_an_end_and_those_without_are_shown():
    """By default a role ends after binding_days_default days. What was given without an end goes on; the review and a metric show it."""
    at, admin = f"127.0.0.1:{server.port}", state["admin"]
    days = (datetime.datetime.fromisoformat(reviewed()["phoenix"]["expires"].rstrip("Z")) - datetime.datetime.fromisoformat(reviewed()["phoenix"]["granted"].rstrip("Z"))).days
    assert 364 <= days <= 365, reviewed()["phoenix"]
    robot = admin.api("POST", "/robots", {"organisation": "main", "name": "old"})
    for wanted, status in ((3650, 201), (3651, 400)):
        answer = admin.call("POST", "/api/v1/bindings", json.dumps({"robot": robot["id"], "role": "consumer", "scope": "main/two", "expires_days": wanted}),
                            {"Content-Type": "application/json"}, scope="registry:admin:*")
        assert answer.status == status, answer.body
    before = endless()
    server.psql.ask(f"INSERT INTO binding (binding_id, robot_id, role, organisation_id, granted_by) SELECT gen_random_uuid(), '{robot['id']}', 'consumer', organisation_id,"
               f" 'system' FROM organisation WHERE name = 'main'; SELECT raise_authorization_epoch()")
    sijil_test.wait_until(lambda: endless() == before + 1, 20, "the metric does not count it")
    rows = json.loads(sijil("admin", "access", "review", at, "main", "--endless", "--json"))
    assert any(row["name"] == robot["name"] and row["scope"] == "main" for row in rows) and not any("expires" in row for row in rows), rows
    everywhere = json.loads(sijil("admin", "access", "review", at, "--endless", "--json"))
    assert "registry-admin" in [row["role"] for row in everywhere if row["name"] == server.admin[0] and row["scope"] == ""], everywhere


def roles_that_end_soon_are_counted_and_shown():
    """The default: within 14 days. What was given for hours or days does not count."""
    at, admin, before = f"127.0.0.1:{server.port}", state["admin"], gauge("sijil_bindings_ending")
    robot = admin.api("POST", "/robots", {"organisation": "main", "name": "ending"})
    for days, scope in ((10, "main/one"), (3, "main/two"), (30, "main")):
        admin.api("POST", "/bindings", {"robot": robot["id"], "role": "consumer", "scope": scope, "expires_days": days})
    sijil_test.wait_until(lambda: gauge("sijil_bindings_ending") == before + 1, 20, "the metric does not count it")
    sijil_test.wait_until(lambda: "roles end soon" in log_text(), 5, "the log does not say it")
    rows = json.loads(sijil("admin", "access", "review", at, "main", "--ending", "14", "--json"))
    assert sorted(row["scope"] for row in rows if row["name"] == robot["name"]) == ["main/one", "main/two"] and all("expires" in row for row in rows), rows
    sijil("admin", "access", "review", at, "main", "--ending", "soon", code=2)
    page = admin.api("GET", "/access/review?scope=main&limit=1")
    event = next(one for one in state["auditor"].api("GET", "/audit/events?limit=100")["events"] if one["entry"]["act"] == "access.review")
    assert page["wanted_to"] == event["seq"], (page, event)  # what was there before it: it does not wait for itself


def log_text():
    with open(os.path.join(server.root, "log"), encoding="utf-8", errors="replace") as file:
        return file.read()


def gauge(name):
    text = server.client().call("GET", "/metrics").body.decode()
    return int(next(line.split()[1] for line in text.splitlines() if line.startswith(name + " ")))


def endless():
    return gauge("sijil_bindings_without_end")


def a_review_suggests_nothing_that_it_does_not_know():
    """The index of searches stands still here."""
    index = Psql(server.database_at, "sijil_template")
    index.ask("BEGIN")
    index.ask("SELECT indexed FROM audit_search FOR UPDATE")
    try:
        rows = json.loads(sijil("admin", "access", "review", f"127.0.0.1:{server.port}", "main/one", "--days", "0", "--json", code=5))
    finally:
        index.ask("ROLLBACK")
        index.close()
    assert rows and not any(row["unused"] or "remove" in row for row in rows), rows
    assert any(row["unused"] for row in reviewed("main/one").values())


def a_review_has_pages():
    everything, after = [], ""
    while after is not None:
        page = state["admin"].api("GET", "/access/review?limit=3&after=" + after)
        assert len(page["roles"]) <= 3, page
        everything += [row["id"] for row in page["roles"]]
        after = page.get("next")
    assert everything == sorted(set(everything)) and len(everything) > 10, everything
    for login, status in ((state["auditor"].login, 404), (state["asked"], 403)):
        answer = server.client(login).call("GET", "/api/v1/access/review?scope=main", scope="registry:admin:*")
        assert answer.status in (401, status), (login, answer.status, answer.body)
    shutil.rmtree(server.path("config"))


if __name__ == "__main__":
    run(prepare, explanations_are_what_the_gateway_does, who_may_not_know_learns_nothing, an_explanation_is_an_event,
        a_role_that_ends_is_seen_before, rights_and_policies_of_then_are_known, the_command_says_why, a_review_shows_who_used_what, what_a_robot_did_under_a_name_is_no_use_of_the_next_one,
        each_role_has_an_end_and_those_without_are_shown, roles_that_end_soon_are_counted_and_shown, a_review_suggests_nothing_that_it_does_not_know, a_review_has_pages, server=server)
