"""Policy sets that several persons sign (docs/policies.md): cases of the scenario `policies`, on its server. The last ones there, because the root's key alone loads nothing
any more after the first of them."""
import base64
import hashlib
import json
import os
import signal
import subprocess
import tempfile
import threading
import time

import signing_keys
import sijil_test
from signing_keys import Key, canonical, utc
from sijil_test import make_person, wait_until

SET = "application/vnd.sijil.policy-set.v1+json"
HOLDS = "SELECT count(*) FROM pg_locks WHERE relation = 'audit_checkpoint'::regclass AND mode = 'AccessExclusiveLock' AND granted"
folder = tempfile.TemporaryDirectory()
world = {}
people, keys = {}, {}


def principal_of(name):
    return "ext:" + hashlib.sha256(f"{world['server'].people.url}\n{name}".encode()).hexdigest()


def root_key():
    return os.path.join(world["server"].folder, "officer", "approver.pem")


def call(who, method, path, body=None):
    text = body if isinstance(body, (bytes, str)) or body is None else json.dumps(body)
    return world["server"].client(people.get(who, world["server"].admin)).call(method, "/api/v1" + path, text, {"Content-Type": "application/json"} if body else {},
                                                                                scope="registry:admin:*")


def sijil(who, *words, code=0):
    """Runs the command as this person; each has a folder of its own for logins."""
    home = os.path.join(folder.name, who)
    environment = {**os.environ, "HOME": home, "XDG_CONFIG_HOME": home, "SIJIL_CA_FILE": world["server"].ca_file}
    at = f"127.0.0.1:{world['server'].port}"
    if not os.path.exists(home):
        os.makedirs(home)
        subprocess.run([sijil_test.program("sijil"), "login", at, "--username", people[who][0], "--ca-file", world["server"].ca_file], input=people[who][1] + "\n",
                       text=True, check=True, capture_output=True, env=environment, timeout=60)
    done = subprocess.run([sijil_test.program("sijil"), *[at if word == "HOST" else word for word in words]], text=True, capture_output=True, env=environment,
                          timeout=120, check=False)
    assert done.returncode == code or (code is None and done.returncode != 0), (words, done.returncode, done.stdout, done.stderr)
    return json.loads(done.stdout) if "--json" in words and code == 0 else done.stdout + done.stderr


def refused(answer, status, says):
    assert answer.status == status and says in answer.body.decode(), (answer.status, answer.body)


def active():
    return world["server"].client(world["server"].admin).api("GET", "/policies?envelope=true")


def payload(seconds=3600, base=None, root=None, regions=None, policies=None, exceptions=None, **approval):
    """The active set again, as a draft, from docs/policies.md alone."""
    now = active()
    found = json.loads(base64.b64decode(json.loads(now["envelope"])["payload"]))
    for member in ("digest", "approval", "root"):
        found.pop(member, None)
    found.update({"epoch": now["epoch"] + 1, "regions": {**found["regions"], **(regions or {})}, "policies": found["policies"] if policies is None else policies,
                  "exceptions": found["exceptions"] if exceptions is None else exceptions, **({"root": root} if root else {})})
    found["digest"] = "sha256:" + hashlib.sha256(canonical(found)).hexdigest()
    found["approval"] = {"expires": utc(time.time() + seconds), "replaces": base or {"digest": now["digest"], "epoch": now["epoch"]}, **approval}
    return canonical(found)


def name_of(document):
    return hashlib.sha256(document).hexdigest()[:16]


def draft(document, who="bob"):
    answer = call(who, "POST", "/policies/drafts", document)
    assert answer.status == 201 and answer.json["name"] == name_of(document), answer.body
    return answer.json


def approve(who, document, key=None):
    path = key if isinstance(key, str) else (key or keys[who]).path
    return call(who, "POST", f"/policies/drafts/{name_of(document)}/approval", signing_keys.sign(document, path, SET))


def waiting(document):
    answer = call("bob", "GET", f"/policies/drafts/{name_of(document)}")
    assert answer.status == 200, answer.body
    return answer.json["persons"], answer.json["needed"]


def enrol(who, key, before=None):
    """With the signature of the key that the person had before, or the new one would wait a day."""
    document = key.document(replaces=before)
    drafted = signing_keys.sign_twice(document, key, *([before] if before else []))
    assert call(who, "POST", "/keys/signing", drafted).status == 201
    return call("", "POST", f"/keys/signing/{key.name}/approval", {"envelopes": [drafted, signing_keys.sign(document, root_key())]}), document, drafted


def prepare():
    server = world["server"]
    for name in ("alice", "bob", "carol", "dana"):
        people[name] = make_person(server, name, "registry-admin", "")
        if name != "alice":
            keys[name] = Key(principal_of(name), "approve")
            answer = enrol(name, keys[name])[0]
            assert answer.status == 201, answer.body
    keys["bob again"] = Key(principal_of("bob"), "approve")
    assert enrol("bob", keys["bob again"], keys["bob"])[0].status == 201


def the_root_becomes_three_persons():
    """Raised by the old number, which is the root's key, and by the new one."""
    prepare()
    assert "one person is enough, the root's key alone" in " ".join(sijil("bob", "policy", "show", "HOST").split())
    content = os.path.join(folder.name, "set.json")
    with open(content, "w", encoding="utf-8") as file:
        file.write(sijil("bob", "policy", "show", "HOST", "--document"))
    terms = ["--root", "3", "--policies", "2", "--officers", "3", "--holder", principal_of("alice")]
    name = sijil("bob", "policy", "draft", "HOST", content, "--comment", "three persons", *terms, "--json")["name"]
    before = active()
    for who, key, persons in (("bob", keys["bob"].path, 1), ("alice", root_key(), 2)):
        waits = sijil(who, "policy", "approve", "HOST", name, "--key", key, "--json")
        assert (waits["state"], waits["needed"], waits["changes_root"]) == ("waits", 3, True), waits
        assert active()["epoch"] == before["epoch"]
    assert "bob again" not in sijil("bob", "policy", "drafts", "HOST")
    done = sijil("carol", "policy", "approve", "HOST", name, "--key", keys["carol"].path, "--json")
    assert done["state"] == "in-force" and active()["epoch"] == before["epoch"] + 1, done
    assert active()["signers"] == {"policies": 2, "root": 3, "officers": 3, "one_person": False}
    assert "2 persons must sign, 3 to change that" in " ".join(sijil("bob", "policy", "show", "HOST").split())


def the_root_alone_brings_nothing_more():
    found = json.loads(payload())
    del found["approval"]
    refused(call("", "POST", "/policies", signing_keys.sign(canonical(found), root_key(), SET)), 403, "needs 2 persons")
    document = payload(root={"officers": 1, "policies": 1, "root": 1})
    draft(document)
    answer = approve("alice", document, root_key())
    assert answer.status == 200 and waiting(document)[1] == 3, answer.body
    refused(approve("carol", document, root_key()), 403, "another person")  # alice has the root's key
    assert approve("bob", document).status == 200 and active()["signers"]["root"] == 3  # two, and it takes three
    assert call("bob", "DELETE", f"/policies/drafts/{name_of(document)}").status == 204


def two_persons_sign_and_two_keys_of_one_do_not():
    document = payload(comment="by two")
    draft(document)
    assert approve("bob", document).status == 200 and waiting(document) == (1, 2)
    refused(approve("bob", document), 409, "signed this draft already")
    refused(approve("bob", document, keys["bob again"]), 409, "one person has signed twice")
    refused(approve("dana", document, keys["carol"]), 403, "another person")  # a stolen key file
    stranger = Key(principal_of("dana"), "approve")
    refused(approve("dana", document, stranger), 403, "neither by the root nor by an approver")
    answer = approve("carol", document)
    assert answer.status == 201 and answer.json["state"] == "in-force", answer.body
    assert active()["digest"] == json.loads(document)["digest"]
    refused(call("bob", "GET", f"/policies/drafts/{name_of(document)}"), 404, "")
    events = world["server"].client(world["server"].admin).api("GET", "/audit/events?order=descending&limit=100")["events"]
    acts = [event["entry"]["act"] for event in events if event["entry"]["act"].startswith("policy.") and event["entry"]["out"] == "allowed"]
    assert acts.index("policy.load") < acts.index("policy.approve") < acts.index("policy.draft"), acts


def a_loosening_takes_one_person_more():
    facts = next(iter(active()["set"]["regions"].values()))
    document = payload(comment="another region", regions={"local/second": facts})
    drafted = draft(document)
    assert (drafted["change"], drafted["needed"]) == ("loosens", 3) and "newly-allowed" in drafted["why"], drafted
    assert approve("bob", document).status == 200
    said = sijil("carol", "policy", "approve", "HOST", name_of(document), "--key", keys["carol"].path)
    assert "LOOSENS" in said and "1 of 3 persons, one more because it loosens: newly-allowed" in said, said
    assert waiting(document) == (2, 3)
    refused(approve("bob", document, keys["bob again"]), 409, "one person has signed twice")
    refused(call("bob", "POST", f"/policies/drafts/{name_of(document)}/activation"), 403, "of 3 persons, because it loosens")
    server = world["server"]  # whoever writes into the table says that it changes nothing
    server.sql(f"UPDATE policy_draft SET change = 0, why = '' WHERE name = '{name_of(document)}'")
    refused(call("bob", "POST", f"/policies/drafts/{name_of(document)}/activation"), 403, "of 3 persons, because it loosens")
    answer = approve("dana", document)
    assert answer.status == 201 and "local/second" in active()["set"]["regions"], answer.body
    found = server.client(server.admin).api("GET", f"/policies?epoch={active()['epoch']}&envelope=true")  # a set of the past with its signatures, too
    assert found["envelope"] == active()["envelope"] and found["digest"] == active()["digest"]


def verify(path, root, code=0, *more):
    key = sijil("admin", "audit", "key", "HOST").strip()
    done = subprocess.run([sijil_test.program("sijil-verify"), "policy", "--key", key, "--root", root, path, *more], text=True, capture_output=True, timeout=120, check=False)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return " ".join((done.stdout + done.stderr).split())


def everybody_counts_the_signatures_again():
    """Three persons have signed the set in force, without the root's key. Neither the registry's word nor a changed file stands for a signature."""
    server, root, path = world["server"], os.path.join(folder.name, "root.pub"), os.path.join(folder.name, "exported.json")
    people["admin"] = server.admin
    subprocess.run(["openssl", "ec", "-in", root_key(), "-pubout", "-out", root], check=True, capture_output=True)
    sijil("admin", "policy", "export", "HOST", "-o", path)
    said = verify(path, root)
    assert "3 persons have signed this set, and at most 3 must. From it on 2 sign a set, and 3 change that." in said, said
    assert json.loads(verify(path, root, 0, "--json"))["signers"]["persons"] == 3
    for where in ("HOST", path):
        shown = " ".join(sijil("bob", "policy", "show", where, "--root", root).split())
        assert "Checked from the root's key on: 3 persons have signed this set" in shown, shown
    history = sijil("bob", "policy", "history", "HOST", "--root", root, "--json")
    assert history[-1]["in_force"] and history[-1]["signed"] == "3 of 3" and any(one.get("signed") == "2 of 2" for one in history), history
    assert [one["signed"] for one in history if one.get("comment") == "three persons"] == ["3 of 3"], history  # one had to, and three after it: the set says so
    events = os.path.join(folder.name, "events")
    with open(events, "w", encoding="utf-8") as file:
        last = server.client(server.admin).api("GET", "/audit/events?order=descending&limit=1&action=policy.read")["events"][0]["seq"]
        json.dump(sijil("admin", "audit", "show", "HOST", str(last), "--json"), file)
    replayed = subprocess.run([sijil_test.program("sijil-verify"), "replay", "--set", path, "--signer", root, events], text=True, capture_output=True, timeout=60, check=False)
    assert replayed.returncode == 0 and "1 decisions agree" in replayed.stdout, replayed

    with open(path, encoding="utf-8") as file:
        whole = json.load(file)
    sets = [at for at, link in enumerate(whole["chain"]) if json.loads(link["envelopes"][0])["payloadType"] == SET]
    for wrong in ([link for at, link in enumerate(whole["chain"]) if at != sets[-1]], [link for at, link in enumerate(whole["chain"]) if at in sets],
                  whole["chain"][:-2] + whole["chain"][-1:] + whole["chain"][-2:-1], [{**link, "more": 1} for link in whole["chain"]]):
        with open(path + ".wrong", "w", encoding="utf-8") as file:
            json.dump({**whole, "chain": wrong}, file)
        verify(path + ".wrong", root, 1)
        sijil("bob", "policy", "show", path + ".wrong", "--root", root, code=None)
    with open(path + ".wrong", "w", encoding="utf-8") as file:
        json.dump({member: value for member, value in whole.items() if member != "chain"}, file)
    verify(path + ".wrong", root, 1)  # the root has not signed it

    row = f"kind = 1 AND version = {active()['epoch'] - 1}"
    for change, back in (("recorded_at = recorded_at + interval '9 days'", "recorded_at = recorded_at - interval '9 days'"),
                         ("envelopes = ARRAY[envelopes[1] || ' '::bytea]", "envelopes = ARRAY[substr(envelopes[1], 1, length(envelopes[1]) - 1)]")):
        server.sql(f"UPDATE document SET {change} WHERE {row}")
        for command in ("show", "history"):
            said = sijil("bob", "policy", command, "HOST", "--root", root, code=None)
            assert "expired" in said or "does not show the set" in said, said
        server.sql(f"UPDATE document SET {back} WHERE {row}")
    sijil("bob", "policy", "history", "HOST", "--root", root)


def one_person_adds_what_only_restricts():
    before = active()["set"]["policies"]
    added = {"apiVersion": "sijil.policy/v1", "kind": "ResidencyPolicy", "closed": False,
             "metadata": {"id": "no-exports", "version": 1, "scope": ["nowhere/**"], "effective_from": "2026-01-01T00:00:00Z", "review_by": "2030-01-01"},
             "rules": [{"id": "X-1", "effect": "deny", "ops": ["export"], "target": {"geo_within": ["SA"]}}]}
    document = payload(comment="no exports", policies=[*before, added])
    drafted = draft(document)
    assert (drafted["change"], drafted["needed"]) == ("restricts", 1), drafted
    assert approve("carol", document).status == 201 and len(active()["set"]["policies"]) == len(before) + 1
    document = payload(comment="exports again", policies=before)  # to withdraw it loosens
    assert (draft(document)["change"], waiting(document)) == ("loosens", (0, 3))
    for who, status in (("bob", 200), ("carol", 200), ("dana", 201)):
        assert approve(who, document).status == status
    document = payload(comment="an old id", policies=[*before, added])
    assert draft(document)["change"] == "loosens"  # content may be pinned to the id
    assert call("bob", "DELETE", f"/policies/drafts/{name_of(document)}").status == 204


def a_draft_replaces_the_set_in_force_and_no_other():
    first, second = payload(comment="first"), payload(comment="second", regions={"local/second": {"geo": "AE"}})
    draft(first)
    draft(second)
    for who in ("bob", "carol"):
        last = approve(who, first)
    assert last.status == 201
    refused(approve("bob", second), 409, "draft it anew")
    refused(call("bob", "POST", f"/policies/drafts/{name_of(second)}/activation"), 403, "nobody has signed")
    refused(call("bob", "POST", "/policies/drafts", payload(base={"digest": "sha256:" + "a" * 64, "epoch": 1})), 403, "draft it anew")
    refused(call("bob", "POST", "/policies/drafts", payload(regions={"local/typo": {"geo": "ZZ"}})), 400, "no country")  # not after the last signature
    sijil("carol", "policy", "approve", "HOST", name_of(second), "--key", keys["carol"].path, code=1)
    assert call("bob", "DELETE", f"/policies/drafts/{name_of(second)}").status == 204


def a_draft_ends_with_its_time_and_begins_with_it():
    document = payload(seconds=2)
    draft(document)
    assert approve("bob", document).status == 200
    wait_until(lambda: call("bob", "GET", f"/policies/drafts/{name_of(document)}").status == 404, 20, "the draft has not expired")
    refused(approve("carol", document), 404, "expired")
    refused(call("bob", "POST", "/policies/drafts", payload(seconds=8 * 86400)), 403, "at most 7 days")
    begins = time.time() + 62  # the clocks of persons' machines may differ by 60 s
    document = payload(effective_from=utc(begins))
    draft(document)
    for who in ("bob", "carol"):
        answer = approve(who, document)
    assert answer.status == 200 and answer.json["persons"] == answer.json["needed"] == 2, answer.body
    refused(call("dana", "POST", f"/policies/drafts/{name_of(document)}/activation"), 403, "not to be in force yet")
    wait_until(lambda: call("dana", "POST", f"/policies/drafts/{name_of(document)}/activation").status == 201, 30, "its time does not come")
    assert active()["digest"] == json.loads(document)["digest"]


def rows_of_the_databases_owner_count_for_nothing():
    document = payload(comment="forged")
    draft(document)
    stranger = Key(principal_of("dana"), "approve")
    forged = signing_keys.sign(document, root_key(), SET)
    forged["signatures"] += signing_keys.sign(document, stranger.path, SET)["signatures"] * 3
    server, before = world["server"], active()
    server.sql(f"UPDATE policy_draft SET envelope = '\\x{json.dumps(forged).encode().hex()}', drafted_by = 'ext:nobody' WHERE name = '{name_of(document)}'")
    assert waiting(document) == (1, 2)
    refused(call("bob", "POST", f"/policies/drafts/{name_of(document)}/activation"), 403, "2 persons, and has those of 1")
    other = payload(comment="another")
    server.sql(f"UPDATE policy_draft SET payload = '\\x{other.hex()}', envelope = '' WHERE name = '{name_of(document)}'")
    said = sijil("carol", "policy", "approve", "HOST", name_of(document), "--key", keys["carol"].path, code=6)
    assert "another draft" in said, said
    bare = json.loads(other)
    bare["declassified"] = [{"policy": bare["policies"][0]["metadata"]["id"], "reason": "it is free", "scope": ["**"]}]
    bare["digest"] = "sha256:" + hashlib.sha256(canonical({key: value for key, value in bare.items() if key not in ("approval", "digest")})).hexdigest()
    bare = canonical(bare)
    server.sql(f"UPDATE policy_draft SET payload = '\\x{bare.hex()}', name = '{name_of(bare)}' WHERE name = '{name_of(document)}'")
    said = sijil("carol", "policy", "approve", "HOST", name_of(bare), "--key", keys["carol"].path, code=1)
    assert "evidence" in said and waiting(bare) == (0, 2), said
    server.sql(f"DELETE FROM policy_draft WHERE name = '{name_of(bare)}'")
    row = json.dumps(signing_keys.sign(other, root_key(), SET)).encode()
    server.sql("INSERT INTO document (kind, scope, name, version, digest, envelopes, recorded_by) VALUES"
               f" (1, '', 'policies', {before['epoch'] + 1}, decode('{json.loads(other)['digest'][7:]}', 'hex'), ARRAY['\\x{row.hex()}'::bytea], 'mallory')")
    server.sql("SELECT raise_authorization_epoch()")
    document = payload(comment="not by that")
    draft(document)
    for who in ("bob", "carol"):
        last = approve(who, document)
    assert last.status == 201 and active()["digest"] == json.loads(document)["digest"], last.body


def a_kill_between_event_and_pin_loses_nothing():
    server, document = world["server"], payload(comment="killed")
    draft(document)
    assert approve("bob", document).status == 200
    before = active()["epoch"]
    holding = threading.Thread(target=lambda: swallow(lambda: server.sql("BEGIN; LOCK TABLE audit_checkpoint; SELECT pg_sleep(2); COMMIT")))
    holding.start()
    wait_until(lambda: server.sql(HOLDS) == "1", 30, "the table is not locked")
    sent = threading.Thread(target=lambda: swallow(lambda: approve("carol", document)), daemon=True)
    sent.start()
    loaded = f"SELECT count(*) FROM document WHERE kind = 1 AND version = {before + 1} AND digest = decode('{json.loads(document)['digest'][7:]}', 'hex')"
    wait_until(lambda: server.sql(loaded) == "1", 30, "the set is not recorded")
    server.stop(signal.SIGKILL)
    holding.join()
    server.start()
    wait_until(lambda: active()["epoch"] == before + 1, 30, "the recorded set is not in force")
    assert active()["digest"] == json.loads(document)["digest"]
    refused(call("bob", "GET", f"/policies/drafts/{name_of(document)}"), 404, "")


def swallow(work):
    try:
        work()
    except Exception:  # the server was killed
        pass


def an_approver_takes_the_root_and_others():
    key = Key(principal_of("alice"), "approve")  # who has the root's key: her own signature does not count
    answer, document, drafted = enrol_by("alice", key)
    refused(answer, 403, "")
    key = Key(principal_of("dana"), "approve")
    answer, document, drafted = enrol_by("dana", key, keys["dana"])
    assert answer.status == 200, answer.body
    listed = [one for one in call("bob", "GET", "/keys/signing").json["drafts"] if one["name"] == key.name]
    assert listed[0]["missing"] == 2, listed
    for who, status in (("bob", 200), ("carol", 201)):
        drafts = [one for one in call("bob", "GET", "/keys/signing").json["drafts"] if one["name"] == key.name]
        envelopes = drafts[0]["envelopes"] + [signing_keys.sign(document, keys[who].path)]
        answer = call(who, "POST", f"/keys/signing/{key.name}/approval", {"envelopes": envelopes})
        assert answer.status == status, answer.body


def enrol_by(who, key, before=None):
    """The root's signature, sent by alice, who has its key."""
    document = key.document(replaces=before)
    drafted = signing_keys.sign_twice(document, key, *([before] if before else []))
    assert call(who, "POST", "/keys/signing", drafted).status == 201
    return call("alice", "POST", f"/keys/signing/{key.name}/approval", {"envelopes": [drafted, signing_keys.sign(document, root_key())]}), document, drafted


def an_earlier_set_comes_back_as_a_new_one():
    history = sijil("bob", "policy", "history", "HOST", "--json")
    assert [one["epoch"] for one in history if one["in_force"]] == [active()["epoch"]], history
    comments = [one.get("comment") for one in history]
    assert "three persons" in comments and "by two" in comments and "forged" not in comments, comments
    old = next(one for one in history if one.get("comment") == "by two")
    name = sijil("bob", "policy", "revert", "HOST", str(old["epoch"]), "--comment", "back", "--json")["name"]
    for who in ("bob", "carol"):
        done = sijil(who, "policy", "approve", "HOST", name, "--key", keys[who].path, "--json")
    assert done["state"] == "in-force" and active()["epoch"] > old["epoch"], done
    sijil("bob", "policy", "revert", "HOST", "99999", code=3)


def whoever_signs_sees_all_of_it():
    content, path = active()["set"], os.path.join(folder.name, "two.json")
    content["declassified"] = [{"policy": content["policies"][0]["metadata"]["id"], "reason": "the licence has ended " * 5, "scope": [scope]}
                               for scope in ("acme/one/**", "acme/two/**")]
    with open(path, "w", encoding="utf-8") as file:
        json.dump(content, file)
    assert "evidence" in sijil("bob", "policy", "draft", "HOST", path, code=1)
    grounds, first = os.path.join(folder.name, "letter"), content["declassified"][0]
    with open(grounds, "w", encoding="utf-8") as file:
        file.write("a letter")
    sijil("bob", "policy", "declassify", "HOST", first["policy"], "acme/one/**", "--reason", first["reason"], "--evidence", grounds, "-o", path + ".1")
    sijil("bob", "policy", "declassify", path + ".1", first["policy"], "acme/two/**", "--reason", first["reason"], "--evidence", grounds, "-o", path + ".2")
    sijil("bob", "policy", "declassify", path + ".2", first["policy"], "acme/two/**", "--reason", first["reason"], "--evidence", "/dev/null", code=1)
    known, unknown, runs = (sijil("bob", "policy", "declassify", "HOST", one, "acme/one/**", "--reason", "free", "--evidence", grounds, "-o", path + ".3")
                            for one in (first["policy"], "misspelt", "sijil-run"))
    assert "The set has no policy misspelt: " in unknown and "has no policy" not in known + runs, (known, unknown, runs)
    with open(path + ".2", encoding="utf-8") as file:
        made = json.load(file)
    assert made["declassified"] == [{**each, "evidence": sijil_test.sha256(b"a letter")} for each in content["declassified"]], made["declassified"]
    with open(path, "w", encoding="utf-8") as file:
        json.dump({**content, "declassified": made["declassified"]}, file)
    said = sijil("bob", "policy", "draft", "HOST", path)
    assert '"acme/one/**"' in said and '"acme/two/**"' in said, said  # equal beginnings, and the end of each
    region, rule = next(iter(content["regions"])), content["policies"][0]["rules"][0]
    was, content["regions"][region]["site"], rule["message"] = content["regions"][region].get("site"), "the-other-hall", "Another reason."
    with open(path, "w", encoding="utf-8") as file:
        json.dump({member: value for member, value in content.items() if member != "declassified"}, file)
    said = sijil("bob", "policy", "draft", "HOST", path, "--comment", "another hall")
    assert f"~ region {region}\n" in said and f'~ site: {json.dumps(was) if was else "(none)"} -> "the-other-hall"' in said, said
    assert f"~ rule {rule['id']}: " in said and '"Another reason."' in said and "labels: " not in said, said
    name = next(each["name"] for each in call("carol", "GET", "/policies/drafts").json["drafts"] if each.get("comment") == "another hall")
    shown = sijil("carol", "policy", "show", "HOST", "--draft", name)  # before carol signs it
    assert "NOT SIGNED: a draft." in shown and f"  {region}: " in shown, shown
    whole = json.loads(sijil("carol", "policy", "show", "HOST", "--draft", name, "--document"))
    assert whole["regions"] == content["regions"] and whole["policies"] == content["policies"], whole
    sijil("carol", "policy", "show", "HOST", "--draft", "0" * 16, code=3)
    assert "16 hex digits" in sijil("carol", "policy", "show", "HOST", "--draft", "next", code=2)
    assert "goes with HOST" in sijil("carol", "policy", "show", path, "--draft", name, code=2)
    for one in call("bob", "GET", "/policies/drafts").json["drafts"]:
        assert call("bob", "DELETE", f"/policies/drafts/{one['name']}").status == 204


CASES = (the_root_becomes_three_persons, the_root_alone_brings_nothing_more, two_persons_sign_and_two_keys_of_one_do_not,
         a_loosening_takes_one_person_more, everybody_counts_the_signatures_again, one_person_adds_what_only_restricts,
         a_draft_replaces_the_set_in_force_and_no_other, a_draft_ends_with_its_time_and_begins_with_it, rows_of_the_databases_owner_count_for_nothing,
         a_kill_between_event_and_pin_loses_nothing, an_approver_takes_the_root_and_others, an_earlier_set_comes_back_as_a_new_one,
         whoever_signs_sees_all_of_it)
