#!/usr/bin/env python3
"""Organisations, projects and repositories are deleted exactly as a plan shows them, and nothing of them comes back (docs/deletion.md).

Two gateways: the other one must not answer from memory after one has deleted."""
import base64
import json
import os
import re
import shlex
import subprocess
import time
import urllib.parse

import sijil_test
from fleet import Fleet, Judge
from sijil_test import Client, sha256, wait_until

LEASE_S = 36_000
WAIT_S = 60
server = Fleet(2, blob_lease=LEASE_S, collect_interval=0)
state = {"epoch": 1}


def sql(text):
    return Judge.sql_at(server, text).split("\n", 1)[0]


def admin(number=0):
    return Client(server, server.admin, server.ports[number])


def make_project(name, **more):
    organisation, project = name.split("/")
    return admin().api("POST", "/projects", {"organisation": organisation, "name": project, **more})


def robot(name, role, scope):
    return sijil_test.make_robot(server, name, role, scope, organisation=scope.split("/")[0])


def places(login, repository):
    """One repository through each gateway."""
    return [client.repository(repository) for client in server.clients(login)]


def push(place, tag, *blobs):
    for blob in blobs:
        place.push_blob(blob)
    manifest = place.manifest(*blobs)
    answer = place.put_manifest(tag, manifest)
    assert answer.status == 201, (answer.status, answer.body)
    return manifest


def delete(path, plan=None, client=None, expect=(204,)):
    answer = (client or admin()).call("DELETE", f"/api/v1/{path}" + (f"?plan={plan}" if plan else ""), scope="registry:admin:*")
    assert answer.status in expect, (path, answer.status, answer.body)
    return answer


def plan_of(path, client=None):
    return (client or admin()).api("GET", f"/{path}/deletion")


def status(call):
    """The status of an answer, or of the refusal of its token."""
    try:
        return call().status
    except sijil_test.NoToken as refused:
        return refused.answer.status


def time_passes():
    """Ends the leases, and makes the rows old enough that no running request can have found a repository by its name."""
    passed = f"interval '{LEASE_S + 1} seconds'"
    sql(f"UPDATE blob SET lease_until = lease_until - {passed}; UPDATE manifest SET renewed_at = renewed_at - {passed};"
        f" UPDATE repository SET deleted_at = deleted_at - {passed} WHERE deleted_at IS NOT NULL")


def collect(**more):
    begun = admin().api("POST", "/collections", more)
    return sijil_test.follow(admin(), begun["id"])["report"]


def prepare():
    server.start()
    for name in ("acme", "globex"):
        admin().api("POST", "/organisations", {"name": name})


def an_empty_project_is_the_way_out_of_a_wrong_label():
    first = make_project("acme/wrong", label={"class": "confidential"})
    admin().api("PUT", "/projects/acme/wrong/label", {"class": "open"}, expect=(409,))
    delete("projects/acme/wrong")
    for number in (0, 1):
        wait_until(lambda: admin(number).call("GET", "/api/v1/projects/acme/wrong", scope="registry:admin:*").status == 404, WAIT_S,
                   "a gateway still has it")
    assert "acme/wrong" not in [each["name"] for each in admin().api("GET", "/projects?limit=1000")["projects"]]
    delete("projects/acme/wrong", expect=(404,))
    again = make_project("acme/wrong")
    assert again["id"] != first["id"], again
    assert admin().api("GET", "/projects/acme/wrong")["label"] == {}


def what_is_deleted_is_what_was_seen():
    make_project("acme/seen")
    here = places(robot("seen", "publisher", "acme/seen"), "acme/seen/digits")[0]
    kept, data = here.client.repository("acme/seen/other"), os.urandom(5000)
    push(here, "v1", data)
    push(kept, "v1", os.urandom(3000))
    refused = delete("projects/acme/seen", expect=(409,)).json
    plan = refused["plan"]
    counts = {name: plan[name] for name in ("repositories", "tags", "manifests", "blobs", "bindings", "robots", "uploads")}
    assert counts == {"repositories": 2, "tags": 2, "manifests": 2, "blobs": 3, "bindings": 1, "robots": 0, "uploads": 0}, plan
    assert plan == plan_of("projects/acme/seen") and plan["kind"] == "project" and plan["kept_count"] == 0
    assert plan["bytes"] > 8000
    # The counts are the same but the content differs, so it is not the planned content.
    for name, change in (("a tag moves", lambda: here.put_manifest("v1", here.manifest(annotations={"other": "1"}))),
                         ("a role is given", lambda: robot("seen2", "consumer", "acme/seen")),
                         ("an upload begins", here.begin)):
        before = plan_of("projects/acme/seen")["plan"]
        change()
        answer = delete("projects/acme/seen", before, expect=(409,))
        assert answer.json["plan"]["plan"] not in (before, None), name
    assert here.call("GET", "manifests/v1").status == 200
    delete("projects/acme/seen", "sha256:" + "0" * 64, expect=(409,))
    delete("projects/acme/seen", plan_of("projects/acme/seen")["plan"])
    assert sql("SELECT count(*) FROM upload") == "0", "its sessions ended"


def a_project_made_again_has_nothing_of_the_old_one():
    make_project("acme/again", label={"class": "confidential"})
    login = robot("again", "publisher", "acme/again")
    here, there = places(login, "acme/again/digits")
    data = os.urandom(4000)
    manifest = push(here, "v1", data)
    for place in (here, there):  # both gateways have it in memory
        assert place.call("GET", "manifests/v1").body == manifest
    location = there.begin()
    admin().api("PUT", "/projects/acme/again/quota", {"bytes": 10_000_000})
    admin().api("PUT", "/projects/acme/again/rules", {"untagged_days": 3})
    delete("projects/acme/again", plan_of("projects/acme/again")["plan"])
    # With the old tokens, at once, on the gateway that deleted. The other gateway learns of it before it records anything.
    for place in (here, there):
        for method, path in (("GET", "manifests/v1"), ("GET", "blobs/" + sha256(data)), ("GET", "tags/list"), ("POST", "blobs/uploads/")):
            assert place.call(method, path).status in (401, 404), (method, path)
    make_project("acme/again")
    assert admin().api("GET", "/bindings?scope=acme/again")["bindings"] == []
    for place in (here, there):
        assert place.call("GET", "manifests/v1").status in (401, 404), "a token names what it was made for"
    shown = admin().api("GET", "/projects/acme/again/quota")
    assert shown["bytes"] is None and shown["bytes_used"] == 0, shown
    assert admin().api("GET", "/projects/acme/again/rules") == {}
    assert admin().api("GET", "/projects/acme/again")["label"] == {}
    admin().api("POST", "/bindings", {"robot": login[0], "role": "publisher", "scope": "acme/again"})
    for place in places(login, "acme/again/digits"):
        wait_until(lambda: status(lambda: place.call("GET", "tags/list")) == 404, WAIT_S, "the role is not known")
        for method, path in (("GET", "manifests/v1"), ("GET", "manifests/" + sha256(manifest)), ("HEAD", "blobs/" + sha256(data))):
            assert place.call(method, path).status == 404, (method, path)
        assert place.patch(location, b"more").status == 404, "a session of before"
        other = place.client.repository("acme/again/other")
        mount = other.call("POST", f"blobs/uploads/?mount={urllib.parse.quote(sha256(data))}&from={place.name}",
                           scope=f"{other.scope} repository:{place.name}:pull")
        assert mount.status == 202, mount.status
    catalog = Client(server, login).call("GET", "/v2/_catalog", scope="registry:catalog:*").json["repositories"]
    assert catalog == ["acme/again/other"], catalog


def its_history_stays_with_those_who_had_it():
    """The log has the deletion and its plan. An auditor of the new project sees nothing of the old one."""
    make_project("acme/history")
    push(places(robot("history", "publisher", "acme/history"), "acme/history/digits")[0], "v1", b"x" * 1000)
    plan = plan_of("projects/acme/history")["plan"]
    delete("projects/acme/history", plan)
    make_project("acme/history")
    above, inside = (Client(server, robot(name, "auditor", scope)) for name, scope in (("above", "acme"), ("inside", "acme/history")))
    events = above.api("GET", "/audit/events?within=acme&key=prj:acme/history&limit=1000")["events"]
    actions = [(event["entry"]["act"], event["entry"]["out"]) for event in events]
    assert ("project.delete", "completed") in actions and ("manifest.push", "allowed") in actions, actions
    done = next(event for event in events if (event["entry"]["act"], event["entry"]["out"]) == ("project.delete", "completed"))
    assert plan in json.dumps(done["entry"]), done
    own = inside.api("GET", "/audit/events?within=acme/history&limit=1000")["events"]
    assert own and min(event["seq"] for event in own) > done["seq"], "events of another project"
    inside.api("GET", f"/audit/events/{done['seq']}?within=acme/history", expect=(404,))
    inside.api("GET", f"/audit/events/{own[-1]['seq']}?within=acme/history")


def a_repository_goes_alone():
    make_project("acme/alone")
    login = robot("alone", "publisher", "acme/alone")
    reader = robot("one", "consumer", "acme/alone/gone")
    here, there = places(login, "acme/alone/gone")
    beside = here.client.repository("acme/alone/beside")
    shared, own = os.urandom(2000), os.urandom(3000)
    manifest = push(here, "v1", shared, own)
    push(beside, "v1", shared)
    assert there.call("GET", "manifests/v1").body == manifest
    plan = plan_of("repositories/acme/alone/gone")
    assert (plan["blobs"], plan["blobs_shared"], plan["bindings"], plan["tags"]) == (1, 2, 1, 1), plan
    delete("repositories/acme/alone/gone", plan["plan"], client=Client(server, robot("alone-admin", "project-admin", "acme/alone")))
    for place in (here, there):
        answer = place.call("GET", "manifests/v1")
        assert answer.status in (401, 404), answer.status
        assert place.client.call("GET", "/v2/_catalog", scope="registry:catalog:*").json["repositories"] == ["acme/alone/beside"]
    again = push(Client(server, login).repository("acme/alone/gone"), "v2", b"new")
    for place in places(login, "acme/alone/gone"):
        assert place.call("GET", "manifests/v2").body == again
        assert place.call("GET", "manifests/v1").status == 404
        assert place.call("GET", "tags/list").json["tags"] == ["v2"]
        assert place.call("HEAD", "blobs/" + sha256(shared)).status == 404
    assert status(lambda: Client(server, reader).repository("acme/alone/gone").call("GET", "manifests/v2")) in (401, 404)
    assert beside.call("GET", "blobs/" + sha256(shared)).body == shared
    delete("repositories/acme/alone/none", expect=(404,))


def what_rules_make_immutable_stays():
    make_project("acme/fixed")
    push(places(robot("fixed", "publisher", "acme/fixed"), "acme/fixed/digits")[0], "v1", b"y" * 100)
    admin().api("PUT", "/projects/acme/fixed/rules", {"immutable": [{"repositories": "*", "tags": "v*"}]})
    for path in ("repositories/acme/fixed/digits", "projects/acme/fixed"):
        plan = plan_of(path)
        assert plan["tags_immutable"] == 1
        refused = delete(path, plan["plan"], expect=(403,)).json
        assert "acme/fixed/digits:v1" in refused["detail"], refused
    admin().api("PUT", "/projects/acme/fixed/rules", {})
    delete("projects/acme/fixed", plan_of("projects/acme/fixed")["plan"])


def load_policies(*more, declassified=None):
    state["epoch"] += 1
    with open(server.path("set.json"), encoding="utf-8") as file:
        document = json.load(file)
    document["policies"] = [document["policies"][0], *more]
    document.pop("declassified", None)
    if declassified:
        document["declassified"] = declassified
    with open(server.path("set.json"), "w", encoding="utf-8") as file:
        json.dump(document, file)
    server.run(sijil_test.program("sijil"), "policy", "sign", "--key", server.path("approver.pem"), "--epoch", str(state["epoch"]),
               "--output", server.path("set.dsse"), server.path("set.json"))
    with open(server.path("set.dsse"), "rb") as file:
        answer = admin().call("POST", "/api/v1/policies", file.read(), {"Content-Type": "application/json"}, scope="registry:admin:*")
    assert answer.status == 201, (answer.status, answer.body)


def archive(scope):
    return {"apiVersion": "sijil.policy/v1", "kind": "ResidencyPolicy",
            "metadata": {"id": "archive", "version": 1, "scope": [scope], "effective_from": "2020-01-01T00:00:00Z",
                         "review_by": "2099-01-01"},
            "labels": {"class": "confidential"},
            "rules": [{"id": "A-RETAIN", "effect": "oblige", "ops": ["ingest"], "oblige": {"retain_min_days": 30}},
                      {"id": "A-PERMIT", "effect": "permit", "ops": ["ingest", "mount", "read", "metadata", "log"],
                       "when": {"class_at_most": "confidential"}}]}


def what_policies_keep_stays():
    load_policies(archive("globex/kept/**"))
    make_project("globex/kept")
    make_project("globex/free")
    login = robot("kept", "publisher", "globex")
    push(places(login, "globex/free/digits")[0], "v1", b"z" * 100)
    push(places(login, "globex/kept/digits")[0], "v1", b"y" * 101)
    for path in ("repositories/globex/kept/digits", "projects/globex/kept", "organisations/globex"):
        plan = plan_of(path)
        assert plan["kept_count"] == 1 and plan["kept"][0]["repository"] == "globex/kept/digits", plan
        refused = delete(path, plan["plan"], expect=(403,)).json
        assert (refused["rule"], refused["policy"]) == ("A-RETAIN", "archive@1") and refused["until"] == plan["kept"][0]["until"], refused
    delete("projects/globex/free", plan_of("projects/globex/free")["plan"])  # content beside it may be deleted
    sql("UPDATE manifest SET created_at = created_at - interval '31 days'; UPDATE repository_blob SET linked_at = linked_at - interval '31 days'")
    before = plan_of("projects/globex/kept")
    assert before["kept_count"] == 0
    load_policies()  # without the policy the period is unknown, so the content stays pinned
    assert delete("projects/globex/kept", before["plan"], expect=(403,)).json["rule"] == "SYS-PIN-MISSING"
    load_policies(declassified=[{"policy": "archive", "scope": ["globex/kept/**"], "reason": "the licence has ended", "evidence": sha256(b"a letter")}])
    delete("projects/globex/kept", plan_of("projects/globex/kept")["plan"])


def what_policies_keep_goes_in_no_other_way():
    """A manifest that had to stay for 30 days was deleted by its digest, and collected when its tag had gone."""
    load_policies(archive("globex/held/**"))
    make_project("globex/held")
    place = places(robot("held", "project-admin", "globex"), "globex/held/digits")[0]
    pusher = places(robot("held-pusher", "publisher", "globex/held"), "globex/held/digits")[0]
    digests = [sha256(push(pusher, tag, tag.encode() * 100)) for tag in ("v1", "v2")]
    admin().api("PUT", "/projects/globex/held/rules", {"untagged_days": 1})
    answer = place.call("DELETE", f"manifests/{digests[0]}")
    assert answer.status == 403 and b"A-RETAIN of policy archive@1 keeps it until" in answer.body, (answer.status, answer.body)
    assert place.call("DELETE", "manifests/v1").status == 202  # a name, no content
    days = "UPDATE manifest SET created_at = created_at - interval '{0} days', renewed_at = renewed_at - interval '{0} days'"
    sql(days.format(15))
    assert collect(project="globex/held")["manifests"] == 0
    assert sql(f"SELECT count(*) FROM manifest WHERE digest = '{digests[0]}'") == "1"
    load_policies()  # the period is not known any more
    answer = place.call("DELETE", f"manifests/{digests[1]}")
    assert answer.status == 403 and b"SYS-PIN-MISSING" in answer.body, (answer.status, answer.body)
    sql(days.format(16))
    assert collect(project="globex/held")["manifests"] == 0
    load_policies(archive("globex/held/**"))
    assert collect(project="globex/held")["manifests"] == 1  # the one without a tag
    assert place.call("DELETE", f"manifests/{digests[1]}").status == 202
    sql("UPDATE repository_blob SET linked_at = linked_at - interval '31 days'")
    delete("projects/globex/held", plan_of("projects/globex/held")["plan"])


def policy_that_ends(scope, days, minimum=None):
    """It gives no label, so nothing is pinned to it."""
    rules = [{"id": "S-END", "effect": "oblige", "ops": ["ingest"], "oblige": {"retain_max_days": days}},
             {"id": "S-PERMIT", "effect": "permit", "ops": ["ingest", "mount", "read", "metadata", "log"], "when": {"class_at_most": "sensitive"}}]
    if minimum:
        rules.append({"id": "S-KEEP", "effect": "oblige", "ops": ["metadata"], "oblige": {"retain_min_days": minimum}})
    return {"apiVersion": "sijil.policy/v1", "kind": "ResidencyPolicy",
            "metadata": {"id": "short", "version": 1, "scope": [scope], "effective_from": "2020-01-01T00:00:00Z", "review_by": "2099-01-01"}, "rules": rules}


def texts(action, repository):
    """The events of one action about a repository, as text."""
    if "auditor" not in state:
        state["auditor"] = sijil_test.make_robot(server, "all-auditor", "auditor", "")
    found = Client(server, state["auditor"]).api("GET", f"/audit/events?limit=1000&key=res:{repository}")["events"]
    return [json.dumps(event["entry"]) for event in found if event["entry"]["act"] == action]


def metric(name):
    return max(int(line.split()[-1]) for number in (0, 1)
               for line in Client(server, None, server.ports[number]).call("GET", "/metrics").body.decode().splitlines() if line.startswith(name + " "))


def what_a_policy_ends_goes_unless_it_is_held():
    """retain_max_days ends content whatever the project's rules keep; a hold that two persons must release keeps it, and nothing goes round the hold."""
    name = "globex/short/digits"
    load_policies(policy_that_ends("globex/short/**", 10))
    make_project("globex/short")
    place = places(robot("short", "publisher", "globex/short"), "globex/short/digits")[0]
    remover = places(robot("short-admin", "project-admin", "globex"), "globex/short/digits")[0]
    data = os.urandom(3000)
    old, young = sha256(push(place, "v1", data)), sha256(push(place, "v2", b"young"))
    admin().api("PUT", "/projects/globex/short/rules", {"immutable": [{"repositories": "*", "tags": "*"}]})
    sql(f"UPDATE manifest SET created_at = created_at - interval '11 days' WHERE digest = '{old}'")
    time_passes()
    assert [(one["digest"], one["why"], one["tags"]) for one in collect(project="globex/short", dry_run=True)["removed"]] == [(old, "expired", 1)]

    host, carol = log_in(), Client(server, sijil_test.make_person(server, "carol", "security-officer", "globex"))
    dave = sijil_test.make_person(server, "dave", "org-admin", "globex")
    shown = json.loads(sijil("admin", "content-hold", "add", host, "globex/short/digits", "--reason", "a court asks", "--json").stdout)
    path = f"/content-holds/{shown['id']}"
    assert collect(project="globex/short")["manifests"] == 0
    assert "1 LEGAL-HOLD" in texts("retention.overdue", name)[0]
    collect()
    assert metric("sijil_retention_overdue") == 1
    for digest in (old, young):
        answer = remover.call("DELETE", f"manifests/{digest}")
        assert answer.status == 403 and b"LEGAL-HOLD keeps it until two persons release the hold" in answer.body, (answer.status, answer.body)
    admin().api("PUT", "/projects/globex/short/rules", {"untagged_days": 0, "retention": [{"repositories": "*", "tags": "*", "keep_last": 0}]})
    time_passes()
    assert collect(project="globex/short")["manifests"] == 0, "rules of the project go round the hold"
    for where in ("repositories/globex/short/digits", "projects/globex/short", "organisations/globex"):
        plan = plan_of(where)
        assert [one for one in plan["kept"] if one["rule"] == "LEGAL-HOLD"], plan
        assert delete(where, plan["plan"], expect=(403,)).json["rule"] == "LEGAL-HOLD"
    assert metric('sijil_removals_refused_total{why="hold"}') >= 1
    admin().api("PUT", "/projects/globex/short/rules", {})

    scope = {"scope": "globex/short/digits"}
    asked = admin().api("GET", "/content-holds?scope=globex/short")["holds"][0]
    assert (asked["state"], asked["scope"], asked["reason"]) == ("held", "globex/short/digits", "a court asks"), asked
    admin().api("POST", path + "/release", {**scope, "reason": "x"}, expect=(403,))  # nobody knows who is behind the first robot
    carol.api("POST", path + "/release", {**scope, "reason": "too soon"})
    first, erin = carol.api("GET", "/content-holds?scope=globex")["holds"][0]["asked_by"], sijil_test.make_person(server, "erin", "org-admin", "globex")
    host = log_in(dave)
    sijil("admin", "content-hold", "release", host, name, shown["id"], "--reason", "the case is over")
    refused = sijil("admin", "content-hold", "approve", host, name, shown["id"], expect=None)
    assert refused.returncode != 0 and "another person than the one who has asked" in refused.stderr, refused
    asked = carol.api("GET", "/content-holds?scope=globex")["holds"][0]
    assert (asked["state"], asked["release_reason"]) == ("releasing", "the case is over"), asked
    assert collect(project="globex/short")["manifests"] == 0, "one person alone has released it"
    Client(server, erin).api("POST", path + "/release/approval", {**scope, "asked_by": first}, expect=(409,))  # another request stands there now
    carol.api("POST", path + "/release/approval", {"scope": "globex/short", "asked_by": asked["asked_by"]}, expect=(404,))
    carol.api("POST", path + "/release/approval", {**scope, "asked_by": asked["asked_by"]})
    assert carol.api("GET", "/content-holds?scope=globex")["holds"][0]["state"] == "released"
    Client(server, robot("short-reader", "publisher", "globex")).api("POST", "/content-holds", {**scope, "reason": "x"}, expect=(403,))

    admin().api("PUT", "/projects/globex/short/rules", {"immutable": [{"repositories": "*", "tags": "*"}]})
    time_passes()
    report = collect(project="globex/short")
    assert (report["manifests"], report["tags"]) == (1, 1) and report["blobs"] >= 1, report
    assert place.call("GET", "manifests/v1").status == 404 and place.call("GET", "manifests/v2").status == 200
    assert place.call("GET", "blobs/" + sha256(data)).status == 404
    assert old in texts("manifest.expire", name)[0], texts("manifest.expire", name)
    wait_until(lambda: admin().call("GET", f"/api/v1/projects/globex/short/deletions/{sha256(data)}", scope="registry:admin:*").status == 200, WAIT_S,
               "its key is not shredded")
    assert metric("sijil_retention_ended_total") >= 1
    # A repository that was deleted before the hold, and not yet collected.
    admin().api("PUT", "/projects/globex/short/rules", {})
    push(places(robot("short-gone", "publisher", "globex/short"), "globex/short/gone")[0], "v1", b"gone")
    delete("repositories/globex/short/gone", plan_of("repositories/globex/short/gone")["plan"])
    late = {"scope": "globex/short/gone"}
    path = "/content-holds/" + admin().api("POST", "/content-holds", {**late, "reason": "it came late"})["id"]
    time_passes()
    assert collect(project="globex/short")["manifests"] == 0, "a hold comes too late for what is still there"
    carol.api("POST", path + "/release", {**late, "reason": "over"})
    Client(server, erin).api("POST", path + "/release/approval", {**late, "asked_by": first})
    assert collect(project="globex/short")["manifests"] == 1
    # A minimum that is longer than the maximum: nothing new comes, and what is there stays for the minimum.
    load_policies(policy_that_ends("globex/short/**", 10, minimum=30))
    sql(f"UPDATE manifest SET created_at = created_at - interval '11 days' WHERE digest = '{young}'")
    assert collect(project="globex/short")["manifests"] == 0
    assert "1 S-KEEP" in texts("retention.overdue", name)[0]
    load_policies(policy_that_ends("globex/short/**", 10))
    assert collect(project="globex/short")["manifests"] == 1
    load_policies()
    admin().api("PUT", "/projects/globex/short/rules", {})
    delete("projects/globex/short", plan_of("projects/globex/short")["plan"])


def copies_that_a_policy_demands_are_reported():
    """min_sites and anchor_copy were computed, and nobody was told that there is one site and no copy."""
    name, duty = "globex/copies/digits", {"min_sites": 2, "anchor_copy": {"geo_within": ["FR"], "max_staleness_s": 86400}}
    policy = policy_that_ends("globex/copies/**", 10000)
    policy["rules"][0] = {"id": "S-COPIES", "effect": "oblige", "ops": ["ingest"], "oblige": duty}
    load_policies(policy)
    make_project("globex/copies")
    place = places(robot("copies", "publisher", "globex/copies"), name)[0]
    place.push_blob(b"c" * 100)
    assert collect(project="globex/copies", dry_run=True)["unmet"] == [], "nothing is there yet"
    push(place, "v1", b"c" * 100)
    wanted = [{"repository": name, "duty": "min_sites", "why": "min_sites 2: 1"}, {"repository": name, "duty": "anchor_copy", "why": "anchor_copy 1: 0"}]
    assert collect(project="globex/copies", dry_run=True)["unmet"] == wanted and texts("duty.unmet", name) == []
    assert "unmet: globex/copies/digits  min_sites 2: 1" in sijil("admin", "gc", log_in(), "globex/copies", "--dry-run").stdout
    collect()
    assert metric("sijil_copies_lacking") == 1
    said = texts("duty.unmet", name)
    assert len(said) == 2 and "min_sites 2: 1" in said[0] + said[1] and "anchor_copy 1: 0" in said[0] + said[1], said
    load_policies()
    delete("projects/globex/copies", plan_of("projects/globex/copies")["plan"])


def only_those_delete_who_may():
    make_project("acme/rights")
    push(places(robot("rights", "publisher", "acme/rights"), "acme/rights/digits")[0], "v1", b"r")
    paths = ("repositories/acme/rights/digits", "projects/acme/rights", "organisations/acme")
    may = {("registry-admin", ""): 3, ("org-admin", "acme"): 2, ("project-admin", "acme/rights"): 1, ("publisher", "acme/rights"): 0,
           ("security-officer", "acme"): 0, ("auditor", "acme"): 0, ("org-admin", "globex"): 0}
    for (role, scope), count in may.items():
        login = server.admin if scope == "" else robot("r-" + role, role, scope)
        for at, path in enumerate(paths):
            expect = (409,) if at < count else (403, 404)
            delete(path, client=Client(server, login), expect=expect)
            hidden = role == "auditor" or scope == "globex"
            if at >= count:
                assert delete(path, client=Client(server, login), expect=expect).status == (404 if hidden else 403), (role, path)
                plan = Client(server, login).call("GET", f"/api/v1/{path}/deletion", scope="registry:admin:*").status
                assert plan in ((404,) if hidden else (200, 403)), (role, path, plan)
    for path in paths:
        assert Client(server).call("DELETE", "/api/v1/" + path).status == 401
    # Absent and forbidden get the same answer.
    stranger = Client(server, robot("stranger", "org-admin", "globex"))
    for there, absent in zip(paths, ("repositories/acme/rights/none", "projects/acme/none", "organisations/none")):
        one, other = (delete(path, client=stranger, expect=(404,)) for path in (there, absent))
        assert {**one.json, "instance": 0} == {**other.json, "instance": 0}


def bytes_are_freed_and_certified_after_a_kill():
    """The collection is killed while it removes, and another gateway continues it. In the end only the name's history is left."""
    make_project("acme/freed")
    login = robot("freed", "publisher", "acme/freed")
    place = places(login, "acme/freed/many")[0]
    blobs = [os.urandom(1000 + number) for number in range(3)]
    for blob in blobs:
        place.push_blob(blob)
    connection = place.client.connection()
    for number in range(400):
        answer = place.call("PUT", f"manifests/t{number}", place_manifest(blobs, number),
                            {"Content-Type": "application/vnd.oci.image.manifest.v1+json"}, connection=connection)
        assert answer.status == 201, answer.body
    project = admin().api("GET", "/projects/acme/freed")["id"]
    delete("projects/acme/freed", plan_of("projects/acme/freed")["plan"])
    time_passes()
    dry = collect(dry_run=True)
    assert dry["manifests"] >= 400 and dry["blobs"] >= 3, dry
    begun = admin().api("POST", "/collections", {})
    left = f"SELECT count(*) FROM manifest m JOIN project_key k USING (key_id) WHERE k.project_id = '{project}'"
    wait_until(lambda: int(sql(left)) < 400, WAIT_S, "nothing is removed")
    runner = int(admin().api("GET", f"/jobs/{begun['id']}")["runner"].rsplit("gateway", 1)[1][0])
    server.kill(runner)
    assert int(sql(left)) > 0, "killed too late to show anything"
    server.start_gateway(runner)
    server.wait_for_gateway(runner)
    sijil_test.follow(admin(1 - runner), begun["id"])
    assert sql(left) == "0"
    time_passes()
    collect()
    for table in ("blob", "repository", "upload", "project_key", "project_quota", "project_rules"):
        assert sql(f"SELECT count(*) FROM {table} WHERE project_id = '{project}'") == "0", table
    assert sql(f"SELECT deleted_name || ' ' || (emptied_at IS NOT NULL) FROM project WHERE project_id = '{project}'") == "acme/freed true"
    path = f"/api/v1/projects/acme/freed/deletions/{sha256(blobs[0])}"
    wait_until(lambda: admin().call("GET", path, scope="registry:admin:*").status == 200, WAIT_S, "no certificate")
    assert Client(server, robot("cert", "org-admin", "globex")).call("GET", path, scope="registry:admin:*").status == 404


def place_manifest(blobs, number):
    layers = [{"mediaType": "application/octet-stream", "digest": sha256(blob), "size": len(blob)} for blob in blobs]
    return json.dumps({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
                       "artifactType": "application/vnd.example+json", "config": layers[0], "layers": layers,
                       "annotations": {"number": str(number)}}).encode()


def an_organisation_goes_with_robots_and_roles():
    make_project("globex/last")
    login = robot("last", "publisher", "globex/last")
    boss = robot("boss", "org-admin", "globex")
    place = places(login, "globex/last/digits")[0]
    push(place, "v1", b"q")
    delete("organisations/globex", client=Client(server, boss), expect=(403,))
    plan = plan_of("organisations/globex")
    assert plan["projects"] == 1 and plan["robots"] >= 2 and plan["bindings"] >= 2, plan
    delete("organisations/globex", plan["plan"])
    for number in (0, 1):
        for who in (login, boss):
            wait_until(lambda: status(lambda: Client(server, who, server.ports[number]).call("GET", "/v2/", scope="")) == 401, WAIT_S,
                       "its robots live")
    assert place.call("GET", "manifests/v1").status == 401, "its tokens live"
    admin().api("POST", "/organisations", {"name": "globex"})
    assert admin().api("GET", "/robots?organisation=globex")["robots"] == []
    assert admin().api("GET", "/bindings?scope=globex")["bindings"] == []
    make_project("globex/last")
    fresh = robot("last", "publisher", "globex/last")
    assert Client(server, fresh).repository("globex/last/digits").call("GET", "manifests/v1").status == 404
    assert status(lambda: Client(server, login).call("GET", "/v2/", scope="")) == 401
    assert admin().api("GET", "/organisations")["organisations"], "the administrator is not of any organisation"


def sijil(*words, expect=0, entered=None):
    home = os.path.join(server.root, "home")
    os.makedirs(home, exist_ok=True)
    done = subprocess.run([sijil_test.program("sijil"), *words], input=entered, text=True, capture_output=True, cwd=home,
                          env={**os.environ, "HOME": home, "XDG_CONFIG_HOME": home}, timeout=120, check=False)
    assert expect is None or done.returncode == expect, (words, done.returncode, done.stdout, done.stderr)
    return done


def log_in(login=None):
    user, password = login or server.admin
    host = f"127.0.0.1:{server.port}"
    sijil("login", host, "--username", user, "--ca-file", server.ca_file, entered=password + "\n")
    return host


def the_page_leads_to_a_certificate():
    """Runs the page's commands in their order. A command that comes too early is refused with the reason. Running work ends as the page says."""
    with open(os.path.join(os.path.dirname(__file__), "../../docs/deletion.md"), encoding="utf-8") as file:
        commands = [shlex.split(line, comments=True)[1:] for line in re.search(r"How do you delete one model.*?\n\n((?:    sijil [^\n]*\n)+)",
                                                                                file.read(), re.S)[1].splitlines()]
    make_project("acme/shown")
    publisher = robot("shown", "publisher", "acme/shown")
    place = places(publisher, "acme/shown/fraud")[0]
    data = os.urandom(40 << 20)
    manifest, host = sha256(push(place, "v1", data)), log_in(publisher)
    names = {"registry.example": host, "acme/models": "acme/shown"}
    inspect, delete_it, collect_it, certify = [
        [word.replace("registry.example", host).replace("acme/models", names["acme/models"]) for word in words] for words in commands]
    delete_it[-1] = delete_it[-1].replace("sha256:...", manifest)
    certify[certify.index("sha256:...")] = sha256(data)
    shown = sijil(*inspect).stdout
    assert manifest in shown and sha256(data) in shown, shown
    log_in(robot("shown-admin", "project-admin", "acme/shown"))
    assert "a manifest refers to it" in sijil(*certify, expect=1).stderr
    sijil("delete", f"{host}/acme/shown/fraud:v1")
    assert "a manifest refers to it" in sijil(*certify, expect=1).stderr, "the tag alone is gone"
    sijil(*delete_it)
    until = sql(f"SELECT to_char(max(lease_until) AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI') FROM blob WHERE digest = '{sha256(data)}'")
    sijil(*collect_it)
    assert f"safe until {until}" in sijil(*certify, expect=1).stderr
    time_passes()
    assert "nothing needs it" in sijil(*certify, expect=1).stderr

    download, location = place.client.connection(), place.begin()
    location = place.patch(location, data[:100_000])["Location"]
    download.request("GET", f"/v2/acme/shown/fraud/blobs/{sha256(data)}",
                     headers={"Authorization": "Bearer " + place.client.token("repository:acme/shown/fraud:pull")})
    response = download.getresponse()
    received = response.read(65536)
    sijil(*collect_it)
    wait_until(lambda: status(lambda: admin().call("GET", f"/api/v1/projects/acme/shown/deletions/{sha256(data)}",
                                                   scope="registry:admin:*")) == 200, WAIT_S, "no certificate")
    sijil(*certify)
    assert place.call("GET", f"blobs/{sha256(data)}").status == 404
    assert received + response.read() == data, "a download that had begun"
    place.close(location, sha256(data), data[100_000:])
    assert stored_again(certify), "an upload that had begun"


def stored_again(certify):
    os.remove(os.path.join(server.root, "home", "deleted.json"))
    sijil(*certify)
    with open(os.path.join(server.root, "home", "deleted.json"), encoding="utf-8") as file:
        envelope = json.load(file)["certificate"]
    return json.loads(base64.b64decode(envelope["payload"]))["stored_again"]


def who_acts_has_a_receipt():
    """The event of an answer, and the proof that the signed log has it, for the client that acted and for no other that may not read the log."""
    make_project("acme/receipts")
    pusher, other = (robot(name, "publisher", "acme/receipts") for name in ("receipts", "receipts2"))
    place = places(pusher, "acme/receipts/digits")[0]
    place.push_blob(b"r" * 100)
    manifest = place.manifest(b"r" * 100)
    sequence = place.put_manifest("v1", manifest)["Sijil-Audit"].rsplit("/", 1)[1]
    key = json.loads(sijil("audit", "key", log_in(), "--json").stdout)["vkey"]
    host = log_in(pusher)
    sijil("audit", "proof", "--mine", host, sequence, "--output", "receipt")
    folder = os.path.join(server.root, "home", "receipt")
    subprocess.run([sijil_test.program("sijil-verify"), "proof", "--key", key, "--entry", folder + "/entry.json", folder + "/entry.tlog-proof"],
                   check=True, capture_output=True, timeout=60)
    with open(folder + "/entry.json", encoding="utf-8") as file:
        entry = file.read()
    assert sha256(manifest) in entry and "manifest.push" in entry, entry
    for login in (other, server.admin):
        for part in ("entry", "proof"):
            answer = Client(server, login).call("GET", f"/api/v1/self/events/{sequence}/{part}", scope="registry:admin:*")
            assert answer.status == 404, (part, answer.status, answer.body)
    stranger = Client(server, robot("receipts3", "publisher", "globex"))
    place = stranger.repository("acme/receipts/digits")
    refused = place.call("HEAD", "manifests/v1")
    assert refused.status in (401, 404), refused.status
    number = refused["Sijil-Audit"].rsplit("/", 1)[1]
    answer = stranger.call("GET", f"/api/v1/self/events/{number}/entry", scope="registry:admin:*")
    assert answer.status == 404 and b"others" in answer.body, ("its keys count the events of others", answer.status, answer.body)
    entries = [one["entry"] for one in stranger.api("GET", "/self/events")["events"]]
    assert number in [str(one["seq"]) for one in entries] and not [one for one in entries if "k" in one], entries
    for number in ("x", "99999999", "-1"):
        assert Client(server, pusher).call("GET", f"/api/v1/self/events/{number}/proof", scope="registry:admin:*").status == 404, number


def the_command_line_shows_the_plan_first():
    make_project("acme/words")
    push(places(robot("words", "publisher", "acme/words"), "acme/words/digits")[0], "v1", b"w" * 10)
    host = log_in()
    shown = sijil("admin", "project", "delete", host, "acme/words", "--dry-run").stdout
    assert "repositories   1" in shown and "sha256:" in shown, shown
    refused = sijil("admin", "project", "delete", host, "acme/words", expect=1)
    assert refused.stdout == shown and "--plan" not in refused.stdout and "409" in refused.stderr, refused
    assert "--plan sha256:" in refused.stderr and "?plan=" not in refused.stderr.splitlines()[0], refused
    plan = json.loads(sijil("admin", "repository", "delete", host, "acme/words/digits", "--dry-run", "--json").stdout)["plan"]
    assert "deleted acme/words/digits" in sijil("admin", "repository", "delete", host, "acme/words/digits", "--plan", plan).stderr
    plan = json.loads(sijil("admin", "project", "delete", host, "acme/words", "--dry-run", "--json").stdout)
    done = sijil("admin", "project", "delete", host, "acme/words", "--plan", plan["plan"], "--json")
    assert json.loads(done.stdout) == {"deleted": "acme/words"}
    sijil("admin", "organisation", "delete", host, "nowhere", expect=3)


CASES = (prepare, an_empty_project_is_the_way_out_of_a_wrong_label, what_is_deleted_is_what_was_seen,
         a_project_made_again_has_nothing_of_the_old_one, its_history_stays_with_those_who_had_it, a_repository_goes_alone,
         what_rules_make_immutable_stays, what_policies_keep_stays, what_policies_keep_goes_in_no_other_way,
         what_a_policy_ends_goes_unless_it_is_held, copies_that_a_policy_demands_are_reported, only_those_delete_who_may,
         bytes_are_freed_and_certified_after_a_kill, the_page_leads_to_a_certificate, who_acts_has_a_receipt, the_command_line_shows_the_plan_first,
         an_organisation_goes_with_robots_and_roles)
sijil_test.run(*CASES, server=server)
