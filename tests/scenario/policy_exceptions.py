"""Exceptions of the policies (docs/policies.md): cases of the scenario `policies`, on its server, after the root has become three persons."""
import json
import os
import time

import policy_drafts
import sijil_test
from policy_drafts import active, approve, call, draft, keys, name_of, payload, principal_of, refused, root_key, sijil, waiting, world
from signing_keys import utc
from sijil_test import sha256

HOUSE = {"apiVersion": "sijil.policy/v1", "kind": "ResidencyPolicy", "closed": False,
         "metadata": {"id": "house", "version": 1, "scope": ["main/leave/**"], "effective_from": "2026-01-01T00:00:00Z", "review_by": "2030-01-01"},
         "exception_types": {"visit": {"lifts": ["HOUSE"], "approvals": 2, "max_days": 30, "required_evidence": ["letter"],
                                       "adds": {"notify": ["the dpo", "ciso"]}}},
         "rules": [{"id": "HOUSE", "effect": "require", "ops": ["read"], "target": {"geo_within": ["QA"]}}]}
SIZE = 40_000_000
state = {}


def person(name):
    return {"iss": world["server"].people.url, "sub": name}


def target():
    return next((each["cidr"] for each in active()["set"]["networks"] if each["cidr"].startswith("127.")), "client")


def leave(name, digest, seconds=3600, **more):
    house = next(each for each in active()["policies"] if each["id"] == "house")
    return {"apiVersion": "sijil.policy/v1", "kind": "ResidencyException", "id": name, "type": "visit", "project": state["project"],
            "policy": {"id": "house", "version": 1, "digest": house["digest"]}, "lifts": ["HOUSE"], "ops": ["read"], "targets": [target()], "digests": [digest],
            "not_before": utc(time.time() - 60), "not_after": utc(time.time() + seconds), "requested_by": person("bob"),
            "approvals": [person("carol"), person("dana")], "evidence": {"letter": sha256(b"a letter")}, **more}


def read(digest, **headers):
    return state["place"].call("GET", "blobs/" + digest, headers=headers).status


def by_tag(tag="v1"):
    """An exception is for a digest; the tag stands for one."""
    answer = state["place"].call("GET", "manifests/" + tag)
    return answer.status, answer["Docker-Content-Digest"]


def bring(document):
    """With all signatures that it needs; the last one brings it into force."""
    for who, key, status in (("carol", None, 200), ("alice", root_key(), 200), ("dana", None, 201)):
        answer = approve(who, document, key)
        assert answer.status == status, (who, answer.body)


def a_house_that_nobody_may_read_in():
    server = world["server"]
    state["before"] = active()["set"]["policies"]
    document = payload(comment="a house", policies=[*active()["set"]["policies"], HOUSE])
    assert draft(document)["change"] == "loosens"  # it has a type of exceptions
    for who, status in (("bob", 200), ("carol", 200), ("dana", 201)):
        assert approve(who, document).status == status
    state["project"] = server.client(server.admin).api("POST", "/projects", {"organisation": "main", "name": "leave"})["id"]
    state["place"] = server.client(sijil_test.make_robot(server, "visitor", "publisher", "main/leave")).repository("main/leave/scans")
    state["large"], state["small"] = state["place"].push_blob(bytes(SIZE)), state["place"].push_blob(b"a scan")
    answer = state["place"].put_manifest("v1", state["place"].manifest(b"a scan"))
    state["manifest"] = answer["Docker-Content-Digest"]
    assert answer.status == 201 and (read(state["small"]), read(state["large"]), by_tag()) == (403, 403, (403, None))


def an_exception_is_signed_by_those_that_it_names():
    """And ends in the middle of a download, that had its last use: the other cases go on meanwhile."""
    document = payload(comment="a visit", exceptions=[leave("short", state["large"], seconds=14, uses_left=2)])
    drafted = draft(document)
    assert (drafted["change"], drafted["needed"]) == ("loosens", 3) and sorted(drafted["missing"]) == sorted(principal_of(name) for name in ("carol", "dana")), drafted
    for key in (keys["bob"], keys["bob again"]):
        refused(approve("bob", document, key), 403, "you ask for the exception short")
    assert approve("carol", document).status == 200 and approve("alice", document, root_key()).status == 200
    assert waiting(document) == (2, 3) and call("bob", "GET", f"/policies/drafts/{name_of(document)}").json["missing"] == [principal_of("dana")]
    refused(call("bob", "POST", f"/policies/drafts/{name_of(document)}/activation"), 403, "")
    assert read(state["large"]) == 403
    assert approve("dana", document).status == 201
    assert read(state["large"], Range="bytes=0-9") == 206 and read(state["small"]) == 403
    place = state["place"]
    state["stream"] = world["Stream"](place, "GET", f"/v2/{place.name}/blobs/{state['large']}", SIZE, 0.05)
    sijil_test.wait_until(lambda: state["stream"].moved > 65536, 20, "the download does not begin")
    assert read(state["large"], Range="bytes=0-9") == 403  # used up
    (shown,) = call("bob", "GET", "/policies/exceptions").json["exceptions"]
    assert (shown["id"], shown["state"], shown["used"], shown["uses"]) == ("short", "used-up", 2, 2), shown


def who_asks_can_not_help_himself():
    known = active()["set"]["exceptions"]
    for more, says in (({"requested_by": person("carol")}, "somebody else asks for it"), ({"approvals": [person("bob"), person("carol")]}, "needs other persons"),
                       ({"approvals": [person("carol"), person("mallory")]}, "without a key that approves: mallory"), ({"evidence": {"letter": "it is fine"}}, "no evidence"),
                       ({"uses_left": -1}, "uses_left"), ({"approvals": [person("carol")]}, "approvals")):
        refused(call("bob", "POST", "/policies/drafts", payload(exceptions=[*known, leave("mine", state["small"], **more)])), 400, says)
    document = payload(exceptions=[*known, leave("two-keys", state["small"])])
    draft(document)
    assert approve("carol", document).status == 200
    refused(approve("carol", document), 409, "signed this draft already")
    assert call("bob", "DELETE", f"/policies/drafts/{name_of(document)}").status == 204


def a_person_asks_lists_and_revokes():
    letter = os.path.join(policy_drafts.folder.name, "visit.txt")
    with open(letter, "w", encoding="utf-8") as file:
        file.write("please")
    words = ["policy", "exception", "request", "HOST", "main/leave", "house", "--op", "read", "--target", target(), "--digest", state["small"], "--digest", state["manifest"], "--uses", "4",
             "--until", utc(time.time() + 86400), "--evidence", "letter=" + letter, "--approver", "carol", "--id", "visit-1"]
    said = sijil("bob", *words, "--approver", "bob", code=2)
    assert "lift nothing: its type lifts HOUSE for at most 30 days, with 2 approvers other than you and the evidence letter" in said, said
    name = sijil("bob", *words, "--approver", f"{world['server'].people.url} dana", "--json")["name"]
    said = sijil("carol", "policy", "exception", "approve", "HOST", name, "--key", keys["carol"].path)
    assert "+ exception" in said and "LOOSENS" in said and '"sub":"dana"' in said, said
    document = call("bob", "GET", f"/policies/drafts/{name}").json["payload"].encode()
    assert approve("alice", document, root_key()).status == 200 and approve("dana", document).status == 201
    assert (read(state["small"]), read(state["small"])) == (200, 200)
    assert by_tag() == (200, state["manifest"]) and by_tag("v2") == (403, None)
    newest = world["server"].client(world["server"].admin).api("GET", "/audit/events?action=manifest.read&order=descending&limit=2")["events"]
    assert [(one["entry"]["out"], state["manifest"] in one["entry"]["res"]) for one in newest] == [("denied", False), ("allowed", True)], newest
    assert newest[1]["entry"]["why"]["note"] == "use 3 of visit-1", newest
    rows = {row["id"]: row for row in sijil("bob", "policy", "exception", "list", "HOST", "--json")}
    assert (rows["visit-1"]["state"], rows["visit-1"]["used"], rows["visit-1"]["uses"]) == ("in-force", 3, 4), rows
    assert sha256(b"please") in sijil("bob", "policy", "exception", "show", "HOST", "visit-1")
    shown = " ".join(sijil("bob", "policy", "show", "HOST", "--root", os.path.join(policy_drafts.folder.name, "root.pub")).split())
    assert "visit-1" in shown and "4 uses" in shown and "Checked from the root's key on: 3 persons have signed this set" in shown, shown
    other = state["place"].put_manifest("v1", state["place"].manifest(b"a scan", annotations={"a": "b"}))  # the tag stands for another manifest now
    assert other.status == 201 and by_tag() == (403, None), other.body
    before = active()["epoch"]
    done = sijil("carol", "policy", "exception", "revoke", "HOST", "visit-1", "--key", keys["carol"].path, "--comment", "the visit is over", "--json")
    assert (done["state"], done["change"], active()["epoch"]) == ("in-force", "restricts", before + 1), done
    assert read(state["small"]) == 403
    again = payload(exceptions=[*active()["set"]["exceptions"], rows["visit-1"]["exception"]])  # what was signed once is not signed for ever
    assert call("bob", "POST", "/policies/drafts", again).json["missing"], again
    assert call("bob", "DELETE", f"/policies/drafts/{name_of(again)}").status == 204
    sijil("carol", "policy", "exception", "revoke", "HOST", "visit-1", "--key", keys["carol"].path, code=3)


def its_end_ends_what_it_had_let_begin():
    stream = state["stream"]
    stream.join(40)
    assert not stream.whole and stream.moved < SIZE, stream.moved
    seen = world["server"].client(world["server"].admin).api("GET", "/audit/events?order=descending&limit=200&key=out:failed")["events"]
    notes = [one["entry"]["why"].get("note", "") for one in seen if one["entry"]["act"] == "blob.read" and "main/leave/" in one["entry"]["res"]]
    assert notes and notes[0].endswith("bytes had gone: HOUSE"), notes


def a_report_counts_the_uses():
    server = world["server"]
    policy_drafts.people["reporter"] = sijil_test.make_robot(server, "reporter", "auditor", "")
    path = os.path.join(policy_drafts.folder.name, "leave")
    sijil("reporter", "report", "residency", "HOST", "main/leave", "-o", path)
    with open(path + ".json", encoding="utf-8") as file:
        found = json.load(file)
    rows = {row["id"]: (row["used"], row["uses"], row["state"]) for row in found["exceptions"]}
    assert rows == {"short": (2, 2, "ended"), "visit-1": (3, 4, "its set was replaced")}, rows
    assert found["decisions"]["differ"] == found["decisions"]["lacking"] == 0, found["decisions"]
    notes = server.sql("SELECT string_agg(convert_from(leaf, 'UTF8')::json->'why'->>'note', ',' ORDER BY seq) FROM audit_entry"
                       " WHERE convert_from(leaf, 'UTF8')::json->'why'->>'note' LIKE 'use %'")
    assert notes == "use 1 of short,use 2 of short,use 1 of visit-1,use 2 of visit-1,use 3 of visit-1", notes
    def raised():
        found = server.sql("SELECT coalesce(string_agg(convert_from(leaf, 'UTF8')::json->>'res', ',' ORDER BY seq), '') FROM audit_entry WHERE action = 'alarm.raise'")
        return [found.count(text) for text in (" exception=short ", " exception=visit-1 ", " told=ciso,the_dpo ")]

    sijil_test.wait_until(lambda: all(raised()), 30, "no alarm of a use")
    assert raised() == [1, 1, 1], raised()  # of each one, however often it was used
    for text in ("UPDATE exception_use SET used = 1", "DELETE FROM exception_use"):  # as a gateway
        assert "permission denied" in refusal(text) or "counted one by one" in refusal(text), refusal(text)


def the_house_is_given_up():
    document = payload(comment="no house", policies=state["before"], exceptions=[])
    assert draft(document)["missing"] == []
    for who, status in (("bob", 200), ("carol", 200), ("dana", 201)):
        assert approve(who, document).status == status
    assert read(state["small"]) == 200


def refusal(text):
    try:
        world["server"].sql("BEGIN; SET ROLE sijil_app; " + text + "; ROLLBACK")
    except Exception as error:  # what psql says
        return str(error) + str(getattr(error, "stderr", ""))
    return "nothing"


CASES = (a_house_that_nobody_may_read_in, an_exception_is_signed_by_those_that_it_names, who_asks_can_not_help_himself, a_person_asks_lists_and_revokes,
         its_end_ends_what_it_had_let_begin, a_report_counts_the_uses, the_house_is_given_up)
