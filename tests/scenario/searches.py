#!/usr/bin/env python3
"""Searches of the log equal a scan of all its events: for random conditions, also while events are appended and the gateway is killed, for the
auditor of an organisation, after an erasure, with a false index, and in a database that had events before it had the index."""
import base64
import collections
import concurrent.futures
import csv
import datetime
import fcntl
import functools
import hashlib
import http.client
import json
import os
import random
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
import urllib.parse

import sijil_test
from psql import Psql
from sijil_test import Client, Server, sha256, wait_until

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

FILTERS = int(sys.argv[1]) if len(sys.argv) > 1 else 120
REQUESTS = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
TYPE = "application/vnd.sijil.policy-set.v1+json"
ADDRESSES = ["127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.1.9"]
chance = random.Random(20)
server = Server()
state = {"logins": {}, "blobs": []}


def canonical(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def load_networks(networks):
    """A signed set that says where clients are."""
    officer = os.path.join(server.folder, "officer")
    with open(os.path.join(officer, "policy-set.json"), encoding="utf-8") as file:
        found = json.loads(base64.b64decode(json.load(file)["payload"]))
    found.update({"epoch": 2, "networks": networks})
    del found["digest"]
    found["digest"] = "sha256:" + hashlib.sha256(canonical(found)).hexdigest()
    text = canonical(found)
    made = subprocess.run(["openssl", "dgst", "-sha256", "-sign", os.path.join(officer, "approver.pem")],
                          input=b"DSSEv1 %d %s %d %s" % (len(TYPE), TYPE.encode(), len(text), text), capture_output=True, check=True)
    envelope = {"payloadType": TYPE, "payload": base64.b64encode(text).decode(),
                "signatures": [{"sig": base64.b64encode(made.stdout).decode()}]}
    server.client(server.admin).api("POST", "/policies", envelope)


def prepare():
    server.start()
    assert server.sql("SHOW min_wal_size") == "1GB"  # while a new file of the journal is made, all appends wait
    admin = server.client(server.admin)
    admin.api("POST", "/organisations", {"name": "globex"})
    admin.api("POST", "/projects", {"organisation": "globex", "name": "models"})
    admin.api("POST", "/projects", {"organisation": "main", "name": "health", "label": {"subjects": ["health"]}})
    load_networks([{"cidr": "127.0.0.0/16", "facts": {"geo": "AE/DU", "assurance": 2}},
                   {"cidr": "127.0.0.3/32", "facts": {"geo": "FR", "assurance": 2}}])
    for name, role, scope, where in (("publisher", "publisher", "main", "main"), ("reader", "consumer", "main/models", "main"),
                                     ("stranger", "publisher", "globex", "globex"), ("part", "auditor", "main", "main"),
                                     ("project", "auditor", "main/models", "main"), ("auditor", "auditor", "", "main")):
        state["logins"][name] = sijil_test.make_robot(server, name, role, scope, organisation=where)
    state["person"] = sijil_test.make_person(server, "alice", "consumer", "main/models")


def request_of(login, method, path, scope, address):
    """One request from this address, over a connection that is kept."""
    client = state.setdefault("clients", {}).setdefault(login, Client(server, login))
    links = state.setdefault("links", {})
    try:
        token = client.token(scope)
    except sijil_test.NoToken:
        return
    key = (login, address, threading.get_ident())
    link = links.get(key) or links.setdefault(key, client.connection(address=address))
    link.request(method, path, headers={"Authorization": "Bearer " + token})
    link.getresponse().read()


def act(number):
    """One of the requests that the log is made of."""
    names = ["main/models/digits", "main/models/vision/large", "main/models/vision/small", "main/health/scans", "globex/models/other"]
    login = state["person"] if number % 7 == 0 else state["logins"][chance.choice(["publisher", "reader", "stranger"])]
    name, blob = chance.choice(names), chance.choice(state["blobs"])
    method, path = chance.choice([("HEAD", "blobs/" + blob), ("GET", "blobs/" + blob), ("GET", "manifests/v1"), ("GET", "tags/list"),
                                  ("HEAD", "manifests/latest"), ("DELETE", "manifests/none")])
    request_of(login, method, f"/v2/{name}/{path}", f"repository:{name}:pull,push,delete", chance.choice(ADDRESSES))


def many_kinds_of_events_are_recorded():
    for name in ("main/models/digits", "main/models/vision/large", "main/health/scans", "globex/models/other"):
        login = state["logins"]["stranger" if name.startswith("globex") else "publisher"]
        place = server.client(login).repository(name)
        state["blobs"].append(place.push_blob(b"content of " + name.encode()))
        for tag in ("v1", "latest"):
            assert place.put_manifest(tag, place.manifest(b"content of " + name.encode())).status == 201
    for number in range(REQUESTS):
        act(number)
    for number, name in enumerate(("publisher", "reader", "stranger", "publisher")):  # of runs that are not there, so they are denied or end with 404
        request_of(state["logins"][name], "GET", f"/api/v1/projects/main/models/runs/3d0c2f1a-9b1e-4a57-8a43-0d6f5f0c7a1{number // 2}", "registry:admin:*", ADDRESSES[number])
    for path in ("/v2/main/models/digits/tags/list", "/v2/", "/api/v1/robots"):
        assert server.client().call("GET", path).status == 401


@functools.cache
def client_of(login):
    """One for all searches: a new one asks for a token each time."""
    return Client(server, login)


def pages(login, query, limit=1000, **more):
    client, found, after, order = client_of(login), [], None, more.pop("order", "descending")
    while True:
        words = {**query, **more, "limit": limit, "order": order, **({"after": after} if after is not None else {})}
        page = client.api("GET", "/audit/events?" + urllib.parse.urlencode(words))
        found += page["events"]
        after = page.get("next")
        if after is None:
            return found, page


def scan(login, **within):
    """All events in the order of their numbers, and what each of them says, read here from the entries alone."""
    found = pages(login, within, order="ascending")[0]
    sets = {}
    for event in found:
        event["said"] = said_by(event, sets)
    return found


def words_of(action, detail):
    for word in filter(None, detail.split(" ")):
        if word.startswith(("sha256:", "sha512:")):
            yield "digest", word
        elif action.startswith(("manifest.", "tag.")):
            yield "tag", word
        elif action.startswith("run.") and re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", word):
            yield "run", word
        else:
            yield "detail", word


def said_by(event, countries):
    entry, who = event["entry"], event.get("who") or {}
    said = {(field, entry[member]) for field, member in (("actor", "actor"), ("outcome", "out"), ("request", "req"))}
    said |= {("rule", rule) for rule in entry["why"].get("rules", [])} | {("decision", entry["why"].get("id", ""))}
    for action, resource, region in [(entry["act"], entry["res"], entry["rgn"]), *entry.get("also", [])]:
        name, _, detail = resource.partition("#")
        said |= {("action", action), ("resource", name), ("region", region), *words_of(action, detail)}
        parts = name.split("/")
        said |= {("prefix", "/".join(parts[:length])) for length in range(1, len(parts) + 1)}
    for facts in event.get("facts") or []:
        for operation in (operation for entry in facts["judged"] for operation in entry["operations"]):
            if operation["op"] in ("read", "stat", "list") and "geo" in operation["target"]:
                said.add(("country", operation["target"]["geo"].split("/")[0]))
    if "address" in who:
        said |= {("address", who["address"]), ("network", who["address"].rsplit(".", 1)[0] + ".0/24")}
    said |= {("network", row["network"]) for row in who.get("rows", [])}
    return {(field, value) for field, value in said if value}


def time_text(milliseconds):
    return datetime.datetime.fromtimestamp(milliseconds / 1000, datetime.timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def random_filter(events):
    """One to four conditions. They come from one event, so that there is an answer, or one of them from another event."""
    event, other = chance.choice(events), chance.choice(events)
    conditions = dict(chance.sample(sorted(event["said"]), chance.randint(1, 3)))
    if chance.random() < 0.3:
        conditions.update([chance.choice(sorted(other["said"]))])
    if chance.random() < 0.3:
        times = sorted(chance.choice(events)["entry"]["ts"] for _ in range(2))
        conditions.update({"since": time_text(times[0]), "until": time_text(times[1] + 1)})
    return conditions


def meets(event, conditions):
    for field, value in conditions.items():
        if field == "since":
            good = time_text(event["entry"]["ts"]) >= value
        elif field == "until":
            good = time_text(event["entry"]["ts"]) < value
        else:
            good = (field, value) in event["said"]
        if not good:
            return False
    return True


def compare(login, events, count, **within):
    """Random searches against the scan; returns how many found something."""
    until, hits = events[-1]["seq"] + 1, 0
    for _ in range(count):
        conditions = random_filter(events)
        wanted = [event["seq"] for event in events if meets(event, conditions)]
        order = chance.choice(["ascending", "descending"])
        limit = 7 if len(wanted) < 30 and chance.random() < 0.5 else 1000
        found, last = sijil_test_insist(lambda: pages(login, {**conditions, **within}, limit, order=order, before=until))
        numbers = [event["seq"] for event in found]
        assert numbers == (wanted if order == "ascending" else wanted[::-1]), (conditions, order, numbers[:20], wanted[:20])
        assert last["known_to"] >= until, (last["known_to"], until)
        hits += bool(wanted)
    return hits


def sijil_test_insist(call, tries=600):
    """While the gateway is down, a call fails."""
    for attempt in range(tries):
        try:
            return call()
        except (OSError, http.client.HTTPException, AssertionError) as why:
            down = not isinstance(why, AssertionError) or " 503" in str(why) or ", 503," in str(why) or sijil_test.token_status(why) == 503
            if not down or attempt == tries - 1:
                raise
            threading.Event().wait(0.1)
    return None


def searches_equal_a_scan():
    state["events"] = scan(state["logins"]["auditor"], facts="true")
    actions = {event["entry"]["act"] for event in state["events"]}
    fields = {field for event in state["events"] for field, _ in event["said"]}
    assert len(state["events"]) > REQUESTS and len(actions) > 12, (len(state["events"]), actions)
    assert fields >= {"actor", "outcome", "rule", "region", "digest", "tag", "detail", "run", "country", "address", "network", "prefix"}, fields
    assert len({value for event in state["events"] for field, value in event["said"] if field == "country"}) == 2
    hits = compare(state["logins"]["auditor"], state["events"], FILTERS)
    assert hits > FILTERS / 2, hits
    runs = {value for event in state["events"] for field, value in event["said"] if field == "run"}
    assert len(runs) == 2
    for conditions in [{"run": value} for value in runs] + [{"run": min(runs), "actor": event["entry"]["actor"]} for event in state["events"] if ("run", min(runs)) in event["said"]]:
        found = [event["seq"] for event in pages(state["logins"]["auditor"], conditions, order="ascending")[0]]
        assert found == [event["seq"] for event in state["events"] if meets(event, conditions)] and found, (conditions, found)
    print(f"     {FILTERS} searches in {len(state['events'])} events, {hits} with an answer")


def also_while_events_come_and_the_gateway_is_killed():
    stops, acted = threading.Event(), []

    def go_on():
        while not stops.is_set():
            try:
                act(len(acted))
                acted.append(1)
            except (OSError, http.client.HTTPException, AssertionError):
                state["links"].clear()
                stops.wait(0.1)

    worker = threading.Thread(target=go_on)
    worker.start()
    try:
        for _ in range(2):
            compare(state["logins"]["auditor"], state["events"], FILTERS // 12)
            for process in server.processes("sijild"):
                if process != server.process.pid:
                    os.kill(process, signal.SIGKILL)
            compare(state["logins"]["auditor"], state["events"], FILTERS // 12)
    finally:
        stops.set()
        worker.join()
    server.wait_ready()
    assert len(acted) > 20, len(acted)
    state["events"] = scan(state["logins"]["auditor"], facts="true")
    compare(state["logins"]["auditor"], state["events"], FILTERS // 12)


def both_directions_give_each_event_once():
    for limit in (1, 3, 1000):
        query = {"prefix": "main/models/vision", "outcome": "denied,allowed"} if limit > 1 else {"action": "manifest.push"}
        query["before"] = state["events"][-1]["seq"] + 1
        up, down = (pages(state["logins"]["auditor"], query, limit, order=order)[0] for order in ("ascending", "descending"))
        numbers = [event["seq"] for event in up]
        assert numbers == [event["seq"] for event in reversed(down)] and len(set(numbers)) == len(numbers) > 3, (limit, len(numbers))


def auditors_of_a_part_see_their_part_alone():
    for name, scope in (("part", "main"), ("project", "main/models")):
        events = scan(state["logins"][name], facts="true", within=scope)
        whole = {event["seq"]: event for event in state["events"]}
        assert len(events) > 100 and all(("prefix", scope) in event["said"] for event in events)
        missing = [seq for seq, event in whole.items() if events[0]["seq"] <= seq <= events[-1]["seq"] and ("prefix", scope) in event["said"]
                   and seq not in {event["seq"] for event in events}]
        assert not missing, missing[:5]
        compare(state["logins"][name], events, FILTERS // 10, within=scope)
        strange = pages(state["logins"][name], {"prefix": "globex", "within": scope})[0]
        assert not strange, strange[:1]
        assert Client(server, state["logins"][name]).call("GET", "/api/v1/audit/events?outcome=denied", scope="registry:admin:*").status in (403, 404)


def counted(login, query, **more):
    """The rows of all answers, added up; how many events they are; the last answer; and how many there were."""
    client, rows, events, answers, after = Client(server, login), {}, 0, 0, None
    while True:
        words = {**query, **more, "purpose": "a test", **({"after": after} if after is not None else {})}
        answer = client.api("GET", "/audit/counts?" + urllib.parse.urlencode(words))
        for row in answer["counts"]:
            rows.setdefault((row["by"], row["name"]), collections.Counter()).update({name: row[name] for name in ("events", "allowed", "denied", "failed", "completed")})
            assert row["first"] <= row["last"], row
        events, answers, after = events + answer["events"], answers + 1, answer.get("next")
        if after is None:
            return {name: +row for name, row in rows.items()}, events, answer, answers


def tally(events):
    rows = {}
    for entry in (event["entry"] for event in events):
        begins = [("minute", time_text(entry["ts"] - entry["ts"] % 60000)), ("quarter", time_text(entry["ts"] - entry["ts"] % 900000))]
        for name in [("action", entry["act"]), ("actor", entry["actor"])] + begins + [("rule", rule) for rule in entry.get("why", {}).get("rules", [])]:
            rows.setdefault(name, collections.Counter()).update({"events": 1, entry["out"]: 1})
    return rows


def counts_equal_a_scan():
    """Also of an auditor of a part, and of one second at a time: the answers together have each event once."""
    by = "action,rule,actor,minute,quarter"
    for name, within in (("auditor", {}), ("part", {"within": "main"}), ("project", {"within": "main/models"})):
        events = scan(state["logins"][name], **within) if within else state["events"]
        until = events[-1]["seq"] + 1
        for conditions in [{}] + [random_filter(events) for _ in range(max(FILTERS // 12, 3))]:
            wanted = [event for event in events if meets(event, conditions)]
            rows, number, last, _ = counted(state["logins"][name], {**conditions, **within}, by=by, before=until, order=chance.choice(["ascending", "descending"]))
            assert number == len(wanted) and rows == tally(wanted), (conditions, number, len(wanted))
            assert last["known_to"] >= until
    rows, number, _, answers = counted(state["logins"]["auditor"], {}, by="action")
    assert number > 1000 and answers < number / 100, (number, answers)  # a page of events has a hundred or two
    client = Client(server, state["logins"]["auditor"])
    named, after = {}, ""
    while after is not None:  # an answer ends with its time, on a busy machine
        answer = client.api("GET", "/audit/counts?by=actor&purpose=a+test" + (after and f"&after={after}"))
        named.update({row["name"]: row.get("subject") for row in answer["counts"]})
        after = answer.get("next")
    assert "alice" in named.values() and not [row for row in client.api("GET", "/audit/counts?by=actor")["counts"] if "subject" in row], named
    recorded = next(event for event in pages(state["logins"]["auditor"], {"action": "audit.read"})[0] if (event["who"] or {}).get("search") == "by=actor")
    assert recorded["entry"]["out"] == "allowed"
    for query in ("", "by=", "by=name", "by=action&limit=3", "by=action&actor=alice", "by=action&outcome=maybe"):
        assert client.call("GET", "/api/v1/audit/counts?" + query, scope="registry:admin:*").status == 400, query
    assert Client(server, state["logins"]["part"]).call("GET", "/api/v1/audit/counts?by=action", scope="registry:admin:*").status in (403, 404)


def a_name_is_found_and_only_its_pseudonym_is_in_the_log():
    auditor = state["logins"]["auditor"]
    for name in (state["logins"]["reader"][0], "alice"):
        pseudonym = next(event["entry"]["actor"] for event in state["events"] if (event.get("who") or {}).get("subject") == name)
        by_name, by_pseudonym = (pages(auditor, {"actor": actor, "before": state["events"][-1]["seq"]})[0] for actor in (name, pseudonym))
        assert [event["seq"] for event in by_name] == [event["seq"] for event in by_pseudonym] and len(by_name) > 20, name
    assert pages(auditor, {"actor": "nobody@example.test"})[0] == []
    client = Client(server, auditor)
    client.api("GET", "/audit/events?" + urllib.parse.urlencode({"actor": "alice", "network": "127.0.0.0/24", "purpose": "case 7 & 8"}))
    event = pages(auditor, {"action": "audit.read", "limit": 1})[0][0]
    recorded = next(event for event in pages(auditor, {"action": "audit.read"})[0] if (event["who"] or {}).get("purpose", "a test") != "a test")
    assert recorded["who"]["purpose"] == "case 7 & 8" and recorded["who"]["search"] == "actor=alice&network=127.0.0.0/24", recorded
    assert "alice" not in json.dumps(recorded["entry"]) and "127.0.0" not in json.dumps(recorded["entry"]), event


def questions_without_an_answer_are_refused():
    client = Client(server, state["logins"]["auditor"])
    for query in ("actr=x", "actor=a&actor=b", "digest=abc", "outcome=maybe", "action=blob.eat", "run=7", "address=127.0.0.0/8", "network=127.0.0.0/8",
                  "network=127.0.0.1/24", "country=ae", "since=yesterday", "until=2026", "prefix=" + "a/" * 16 + "b", "decision=x", "actor=",
                  "outcome=denied&after=x", "outcome=denied&order=random", "outcome=denied&limit=0", "rule=" + "R" * 256, "tag=" + "t" * 129, "request=" + "0" * 37, "outcome=denied&facts=no",
                  "outcome=denied&purpose=" + "p" * 513, "outcome=denied&purpose="):
        answer = client.call("GET", "/api/v1/audit/events?" + (query if "purpose" in query else "purpose=x&" + query), scope="registry:admin:*")
        assert answer.status == 400, (query, answer.status, answer.body)


def personal_data_needs_a_purpose():
    client = Client(server, state["logins"]["auditor"])
    for query in ("actor=alice", "address=127.0.0.1", "network=127.0.0.0/24", "country=FR"):
        answer = client.call("GET", "/api/v1/audit/events?" + query, scope="registry:admin:*")
        assert answer.status == 400 and "purpose" in answer.json["detail"], (query, answer.status, answer.body)
    event = next(event for event in state["events"] if (event.get("who") or {}).get("subject") == "alice")
    for path in (f"/{event['seq']}", "?limit=50", f"?actor={event['entry']['actor']}"):
        shown = client.call("GET", "/api/v1/audit/events" + path, scope="registry:admin:*").json
        whos = [one["who"] for one in shown.get("events", [shown])]
        assert {"sealed": True} in whos and all(who in (None, {"sealed": True}) for who in whos), (path, whos[:3])
    for purpose in ("", "p" * 513):
        answer = client.call("GET", f"/api/v1/audit/events/{event['seq']}?purpose={purpose}", scope="registry:admin:*")
        assert answer.status == 400 and "purpose" in answer.json["detail"], (answer.status, answer.body)


def an_auditor_has_the_log_and_nothing_else():
    """Every route of the description, as auditor of the registry: only those of the log and of the caller itself answer."""
    client = Client(server, state["logins"]["auditor"])
    tried, found = 0, []
    for path, methods in client.api("GET", "/openapi.json")["paths"].items():
        place = path.replace("{name}", "main/models/digits" if path.startswith("/v2/") else "main/models").replace("{reference}", "latest")
        for method in (each.upper() for each in methods if each in ("get", "post", "put", "patch", "delete")):
            if path in ("/v2/", "/v2", "/healthz", "/readyz", "/metrics", "/token", "/v2/_catalog", "/api/v1/projects") or \
                    path.startswith(("/audit/", "/api/v1/audit/events", "/api/v1/audit/checkpoint", "/api/v1/audit/consistency", "/api/v1/audit/export",
                                     "/api/v1/audit/key", "/api/v1/audit/alarm-rules", "/api/v1/reports/residency/sets", "/api/v1/self", "/api/v1/openapi", "/.well-known/", "/scim/v2/ServiceProviderConfig", "/scim/v2/ResourceTypes", "/scim/v2/Schemas")):  # the last are for everybody
                continue
            scope = "repository:main/models/digits:pull,push,delete" if path.startswith("/v2/") else "registry:admin:*"
            body = "{}" if method in ("POST", "PUT", "PATCH") else None
            answer = client.call(method, place, body, {"Content-Type": "application/json"} if body else {}, scope=scope)
            tried += 1
            if answer.status < 400 and (method != "GET" or any(answer.json.values())):  # a list of nothing tells nothing
                found.append((method, path, answer.status, answer.body[:200]))
    assert tried > 100 and not found, (tried, found)
    for path, name in (("/api/v1/projects", "projects"), ("/v2/_catalog", "repositories")):
        answer = client.call("GET", path, scope="registry:catalog:*" if name == "repositories" else "registry:admin:*")
        assert answer.status == 200 and answer.json[name] == [], answer.body


def program(*words, code=0, text=None):
    environment = {**os.environ, "XDG_CONFIG_HOME": server.root + "/client", "SIJIL_CONFIG_HOME": server.root + "/client", "TZ": "Asia/Dubai"}
    done = subprocess.run([sijil_test.program("sijil"), *words], input=text, capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == code, (words, done.returncode, done.stdout[-500:], done.stderr)
    return done


def sijil(*words, **more):
    return program(*words, **more).stdout


def the_command_line_searches():
    host, (name, secret) = f"127.0.0.1:{server.port}", state["logins"]["auditor"]
    sijil("login", host, "--username", name, "--ca-file", server.ca_file, text=secret + "\n")
    last = state["events"][-1]["seq"]
    denied = [event for event in state["events"] if ("outcome", "denied") in event["said"] and ("prefix", "main") in event["said"]]
    first = denied[0]
    words = ["--outcome", "denied", "--prefix", "main", "--until", time_text(state["events"][-1]["entry"]["ts"] + 1)]
    rows = [json.loads(line) for line in sijil("audit", "search", host, *words, "--json", "--lines", "all", "--oldest-first").splitlines()]
    assert [row["seq"] for row in rows if row["seq"] <= last] == [event["seq"] for event in denied], (len(rows), len(denied))
    table = sijil("audit", "search", host, *words, "--oldest-first", "-n", "1").splitlines()
    local = datetime.datetime.fromtimestamp(first["entry"]["ts"] / 1000, datetime.timezone(datetime.timedelta(hours=4)))
    assert len(table) == 2 and local.strftime("%Y-%m-%d %H:%M:%S") in table[1] and "+0400" in table[1] and first["entry"]["why"]["rules"][0] in table[1], table
    lines = sijil("audit", "search", host, *words, "--csv", "--lines", "3").split("\n")
    assert lines[0] == "seq,time,outcome,action,resource,region,actor,address,rules,decision" and len(lines) == 5 and lines[1].count('","') == 9, lines
    stats = json.loads(sijil("audit", "stats", host, "--json", *words))
    assert stats["events"] == len(rows) == sum(row["events"] for row in stats["actions"]) and stats["rules"], stats
    actors = json.loads(sijil("audit", "actors", host, "--json", "--purpose", "a test", *words))
    assert sum(row["events"] for row in actors) == len(rows) and "alice" in {row.get("subject") for row in actors}, actors
    times = json.loads(sijil("audit", "timeline", host, "--json", "--by", "day", *words))
    assert sum(row["denied"] for row in times) == len(rows), times
    assert "ACTION" in sijil("audit", "stats", host, "--since", "1h") and "TIME" in sijil("audit", "timeline", host, "--since", "30m")
    sijil("audit", "search", host, *words, "-n", "1", "--save", "denials of alice")
    sijil("audit", "search", host, "--actor", "alice", "--since", "2h", "--purpose", "a test", "-n", "1", "--save", "alice")
    assert {row["name"] for row in json.loads(sijil("audit", "saved", host, "--json"))} == {"denials of alice", "alice"}
    again = [json.loads(line) for line in sijil("audit", "saved", host, "denials of alice", "--json", "--lines", "all", "--oldest-first").splitlines()]
    assert [row["seq"] for row in again] == [row["seq"] for row in rows], (len(again), len(rows))
    assert "ACTION" in sijil("audit", "saved", host, "alice", "--purpose", "a test")
    sijil("audit", "saved", host, "alice", code=1)  # a name without a purpose
    assert server.sql("SELECT count(*) > 0 AND max(position('alice'::bytea IN box)) = 0 AND max(position('denied'::bytea IN box)) = 0 FROM audit_saved") == "t"
    assert Client(server, server.admin).api("GET", "/audit/searches")["searches"] == []  # nobody else's
    sijil("audit", "search", host, "--actor", "alice", "--since", "1h", "--purpose", "a test", "-n", "1", "--save", "alice")
    sijil("audit", "saved", host, "denials of alice", "--remove")
    (left,) = json.loads(sijil("audit", "saved", host, "--json"))
    assert left["name"] == "alice" and "since=1h" in left["search"], left
    why = sijil("audit", "search", host, *words, "--oldest-first", "-n", "1", "--why", "--purpose", "a test").splitlines()
    table = sijil("audit", "search", host, *words, "--oldest-first", "-n", "1", "--purpose", "a test").splitlines()
    reason = first["who"]["denials"][0]
    assert why[:2] == table and f"{reason['rule']} of {reason['policy']}: {reason['message']}" in why[2], why
    shown = sijil("audit", "show", host, str(first["seq"]), "--purpose", "a test")
    sealed = sijil("audit", "show", host, str(first["seq"]))
    assert "address" not in sealed and sealed.count("--purpose opens") == 2, sealed
    for line in (f"event      {first['seq']}", "outcome    denied", f"address    {first['who']['address']}", f"action     {first['entry']['act']}",
                 f"pseudonym  {first['entry']['actor']}", f"decision   {first['entry']['why']['id']}", f"request    {first['entry']['req']}"):
        assert line in shown.splitlines(), (line, shown)
    assert local.strftime("%Y-%m-%d %H:%M:%S") in shown and "+0400" in shown and why[2].strip() in shown, shown
    for asked in (["tail", host, "-n", "1"], ["checkpoints", host, "-n", "1"], ["saved", host]):
        assert "+0400" in sijil("audit", *asked), (asked, "the reader's zone")
    for asked, count, column in ((["tail", host, "-n", "3"], 3, "time"), (["show", host, str(first["seq"])], 1, "time"), (["checkpoints", host, "-n", "2"], 2, "stored"),
                                 (["saved", host], 1, "saved")):
        found = list(csv.DictReader(sijil("audit", *asked, "--csv").splitlines()))
        assert len(found) == count and all(row[column].endswith("Z") and None not in row for row in found), (asked, found)
        assert asked[0] != "show" or (found[0]["seq"], found[0]["outcome"]) == (str(first["seq"]), "denied"), found
    lines = sijil("audit", "actors", host, "--purpose", "a test", *words, "--csv").split("\n")
    assert lines[0] == "subject,events,denied,failed,first,last,pseudonym" and len(lines) == len(actors) + 2 and '"alice"' in "".join(lines), lines
    assert all(row["first"].endswith("Z") and row["failed"] == "0" for row in csv.DictReader(lines)), "UTC, and a number"
    lines = sijil("audit", "timeline", host, *words, "--csv", "--by", "day").split("\n")
    assert lines[0] == "time,events,allowed,denied,failed,completed" and sum(int(row["denied"]) for row in csv.DictReader(lines)) == len(rows), lines
    lines = sijil("audit", "stats", host, *words, "--csv").split("\n")
    rows = list(csv.DictReader(lines))
    assert lines[0] == "kind,name,events,allowed,denied,failed,completed" and {row["kind"] for row in rows} == {"action", "rule"}, lines
    assert all(int(row["events"]) == int(row["denied"]) and None not in row for row in rows), rows
    for wrong in (["search", host, "--csv", "--json"], ["stats", host, "--csv", "--json"], ["tail", host, "--csv", "--json"], ["show", host, "1", "--csv", "--json"],
                  ["checkpoints", host, "--csv", "--json"], ["saved", host, "--csv", "--json"], ["search", host, "--lines", "0"],
                  ["timeline", host, "--by", "week"]):
        sijil("audit", *wrong, code=2)
    sijil("audit", "search", host, "--network", "10.0.0.0/8", "--purpose", "a test", code=1)


def on_a_terminal(columns, *words):
    """The lines that a person sees: both outputs are the same terminal."""
    environment = {**os.environ, "XDG_CONFIG_HOME": server.root + "/client", "SIJIL_CONFIG_HOME": server.root + "/client", "TERM": "xterm"}
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    done = subprocess.Popen([sijil_test.program("sijil"), *words], stdin=subprocess.DEVNULL, stdout=slave, stderr=slave, env=environment)
    os.close(slave)
    said = b""
    while piece := read_terminal(master):
        said += piece
    os.close(master)
    assert done.wait(60) == 0, said[-500:]
    return [line.rsplit("\033[K", 1)[-1].rsplit("\r", 1)[-1] for line in said.decode().replace("\r\n", "\n").rstrip("\n").split("\n")]


def read_terminal(master):
    try:
        return os.read(master, 65536)
    except OSError:  # nobody has the other end any more
        return b""


def a_terminal_shows_each_event_on_lines_of_its_own():
    """Also behind the first page, where a line of progress has been, and where one line has no room for an event."""
    host, name = f"127.0.0.1:{server.port}", state["logins"]["publisher"][0]
    page = Client(server, state["logins"]["auditor"]).api("GET", "/audit/events?since=2020-01-01T00:00:00Z&limit=1000")
    assert len(page["events"]) > 250, "each page is an event of the log, so it is large"
    narrow = ("     SEQ  TIME                           ", "          RESOURCE  ")
    searched = on_a_terminal(80, "audit", "search", host, "--prefix", "main", "-n", "900", "--oldest-first")
    exposed = on_a_terminal(80, "audit", "exposure", host, name, "--from", "1d", "--purpose", "a test")
    for lines, ends in ((searched, 1), (exposed, 1)):
        assert lines[0].startswith(narrow[0]) and lines[1].startswith(narrow[1]), lines[:2]
        rows = lines[2:-ends]
        assert len(rows) > 600 and all(line[:8].strip().isdigit() for line in rows[0::2]), rows[:4]
        assert all(line.startswith(" " * 10) and not line.startswith(" " * 11) for line in rows[1::2]), rows[:4]
    assert not any("searched to" in line for line in searched + exposed), "the progress is left between events"
    assert searched[-1].startswith("There are more events") and " read, " in exposed[-1], (searched[-1], exposed[-1])
    wide = on_a_terminal(240, "audit", "exposure", host, name, "--from", "1d", "--purpose", "a test")
    assert len(wide) == (len(exposed) - 1) // 2 + 1 and "RESOURCE" in wide[0], (len(wide), len(exposed))
    tail = on_a_terminal(80, "audit", "tail", host, "-n", "3")
    assert len(tail) == 6 and all(line.startswith(" " * 8) for line in tail[1::2]), tail


def nothing_is_said_to_be_nothing():
    host = f"127.0.0.1:{server.port}"
    for words in (["--rule", "sys-scope"], ["--actor", "alise", "--purpose", "a test"], ["--since", "1h", "--until", "2h"]):
        assert "No event meets these conditions." in program("audit", "search", host, *words).stderr, words
    assert "audit actors" in program("audit", "search", host, "--actor", "alise", "--purpose", "a test").stderr, "where names are"
    assert sijil("audit", "search", host, "--rule", "sys-scope", "--csv").split("\n")[0].startswith("seq,time,outcome")
    assert sijil("audit", "exposure", host, "robot$main+raeder", "--from", "1d", "--purpose", "a test", "--csv") == "seq,time,what,outcome,action,resource,address,actor,made_by\n"
    answer = program("audit", "exposure", host, "robot$main+raeder", "--from", "1d", "--purpose", "a test").stderr
    assert "The log has no event of robot$main+raeder in this time." in answer and "sijil audit actors" in answer, answer
    today = datetime.datetime.now(datetime.timezone(datetime.timedelta(hours=4))).strftime("%Y-%m-%d")
    assert sijil("audit", "search", host, "--since", today, "-n", "1", "--csv").count("\n") == 2, "the day where the reader is"
    for wrong in ("yesterday", "2026-13-01", "7w"):
        assert "7d, 12h, 30m ago" in program("audit", "search", host, "--since", wrong, code=2).stderr, wrong
        assert "7d, 12h, 30m ago" in program("audit", "exposure", host, "alice", "--from", wrong, "--purpose", "a test", code=2).stderr, wrong
        assert "7d, 12h, 30m ago" in program("audit", "checkpoints", host, "--to", wrong, code=2).stderr, wrong
        assert "7d, 12h, 30m ago" in program("audit", "export", host, "--key", "out:denied", "--from", wrong, "-o", server.root + "/none", code=2).stderr, wrong
    event = state["events"][0]["seq"]
    assert f"give {event}, if" in program("audit", "show", host, f"registry.example/audit/{event}", code=2).stderr


def an_answer_that_is_not_complete_says_so():
    """The index of searches stands still here. It is behind after an upgrade, a re-wrap, and whenever it is made again."""
    host, login = f"127.0.0.1:{server.port}", state["logins"]["auditor"]
    words = ["--until", time_text(state["events"][-1]["entry"]["ts"])]
    questions = [(["search", host, "--outcome", "denied"], 5), (["stats", host, "--since", "1d", "--csv"], 5), (["actors", host, "--since", "1d"], 5),
                 (["timeline", host, "--since", "1d"], 5), (["exposure", host, state["logins"]["reader"][0], "--from", "1d", "--purpose", "a test"], 5),
                 (["search", host, "--outcome", "denied", *words], 0), (["search", host, "--outcome", "denied", "--oldest-first", "-n", "3"], 0)]
    index = Psql(server.sql("SHOW unix_socket_directories"), "sijil")
    index.ask("BEGIN")
    index.ask("SELECT indexed FROM audit_search FOR UPDATE")
    try:
        with concurrent.futures.ThreadPoolExecutor(len(questions)) as threads:
            answers = list(threads.map(lambda question: program("audit", *question[0], code=question[1]), questions))
        page = Client(server, login).api("GET", "/audit/events?outcome=denied&limit=1")
    finally:
        index.ask("ROLLBACK")
        index.close()
    for (asked, code), answer in zip(questions, answers):
        assert ("this answer is not complete" in answer.stderr) == (code == 5), (asked, answer.stderr)
    assert page["known_to"] < page["wanted_to"], (page["known_to"], page["wanted_to"])
    wait_until(lambda: int(server.sql("SELECT indexed FROM audit_search")) >= page["wanted_to"], 60, "the index does not go on")
    assert pages(login, {"outcome": "denied"})[1]["known_to"] >= page["wanted_to"]


def a_false_index_shows_no_false_event():
    """The database's role of the gateways may write any row of the index. The leaves decide."""
    server.sql("UPDATE audit_post SET list = decode(repeat('ff', 512), 'hex'); UPDATE audit_blind SET list = decode(repeat('ff', 512), 'hex')")
    compare(state["logins"]["auditor"], state["events"], FILTERS // 12)
    server.sql("TRUNCATE audit_post, audit_blind; UPDATE audit_search SET indexed = 0")
    wait_until(lambda: int(server.sql("SELECT indexed FROM audit_search")) > state["events"][-1]["seq"], 60, "the index is not made again")
    compare(state["logins"]["auditor"], state["events"], FILTERS // 12)


def an_address_of_many_subjects_is_searched():
    """More rows of a blind key in a block than one answer of the database has, and a country beside them."""
    server.sql("INSERT INTO audit_subject (subject, key_version, wrapped_key) SELECT sha256(n::text::bytea), 1, '\\x00' FROM generate_series(1, 600) n;"
               " INSERT INTO audit_blind (key, block, subject, list) SELECT k.key, k.block, s.id, '\\x0fff'"
               " FROM (SELECT DISTINCT key, block FROM audit_blind) k, audit_subject s WHERE s.wrapped_key = '\\x00'")
    until, countries = state["events"][-1]["seq"] + 1, sorted({value for event in state["events"] for field, value in event["said"] if field == "country"})
    for query in ({"address": ADDRESSES[0]}, *({"network": "127.0.0.0/24", "country": country} for country in countries)):
        for order in ("ascending", "descending"):
            found = [event["seq"] for event in pages(state["logins"]["auditor"], query, order=order, before=until)[0]]
            wanted = [event["seq"] for event in state["events"] if meets(event, query)]
            assert found == (wanted if order == "ascending" else wanted[::-1]) and (wanted or len(query) > 1), (query, order)
    server.sql("DELETE FROM audit_subject WHERE wrapped_key = '\\x00'")


def an_old_database_gets_its_index():
    """The migration, in a database that has events already."""
    server.stop()
    server.start()
    migrations = ""
    for name in ("0058_audit_search.sql", "0164_lists_in_the_index.sql"):
        with open(os.path.join(ROOT, "migrations", name), encoding="utf-8") as file:
            migrations += file.read()
    server.sql("DROP TABLE audit_post, audit_blind, audit_search CASCADE; DROP DOMAIN posting_list; ALTER TABLE audit_subject DROP COLUMN id CASCADE;" + migrations)
    server.stop()
    server.start()
    wait_until(lambda: int(server.sql("SELECT indexed FROM audit_search")) > state["events"][-1]["seq"], 60, "the old log is not indexed")
    text = server.client().call("GET", "/metrics").body.decode() if server.client().call("GET", "/metrics").status == 200 else ""
    assert not text or "sijil_audit_indexed_size" in text
    compare(state["logins"]["auditor"], state["events"], FILTERS // 12)


def an_erasure_empties_the_blind_keys():
    subject = next(event for event in reversed(state["events"]) if (event.get("who") or {}).get("subject") == "alice")
    row = server.sql(f"SELECT encode(subject, 'hex') FROM audit_payload WHERE seq = {subject['seq']}")
    identity = server.sql(f"SELECT id FROM audit_subject WHERE subject = decode('{row}', 'hex')")
    assert int(server.sql(f"SELECT count(*) FROM audit_blind WHERE subject = {identity}")) > 0
    server.sql(f"DELETE FROM audit_subject WHERE subject = decode('{row}', 'hex')")
    assert int(server.sql(f"SELECT count(*) FROM audit_blind WHERE subject = {identity}")) == 0
    gone = {event["seq"] for event in state["events"] if event["entry"]["actor"] == subject["entry"]["actor"]}
    for query in ({"address": ADDRESSES[0]}, {"network": "127.0.0.0/24"}, {"country": "FR"}):
        found = {event["seq"] for event in pages(state["logins"]["auditor"], query)[0]}
        wanted = {event["seq"] for event in state["events"] if tuple(query.items())[0] in event["said"]}
        assert not found & gone and wanted & gone, query
        assert {seq for seq in found if seq <= state["events"][-1]["seq"]} == wanted - gone, query
    assert pages(state["logins"]["auditor"], {"actor": "alice"})[0] == []
    still = pages(state["logins"]["auditor"], {"actor": subject["entry"]["actor"], "before": state["events"][-1]["seq"] + 1})[0]
    assert {event["seq"] for event in still} == gone and all(event["who"] == {"missing": "key"} for event in still), len(still)


prepare()
sijil_test.run(many_kinds_of_events_are_recorded, searches_equal_a_scan, also_while_events_come_and_the_gateway_is_killed,
               both_directions_give_each_event_once, auditors_of_a_part_see_their_part_alone, counts_equal_a_scan, a_name_is_found_and_only_its_pseudonym_is_in_the_log,
               questions_without_an_answer_are_refused, personal_data_needs_a_purpose, an_auditor_has_the_log_and_nothing_else,
               the_command_line_searches, a_terminal_shows_each_event_on_lines_of_its_own, nothing_is_said_to_be_nothing,
               an_answer_that_is_not_complete_says_so, a_false_index_shows_no_false_event, an_address_of_many_subjects_is_searched, an_old_database_gets_its_index,
               an_erasure_empties_the_blind_keys, server=server)
