#!/usr/bin/env python3
"""A dump of a real registry is sound after all kinds of changes; tags and bindings that were edited in the database are found; and the programs say what
they must: sijil-audit-dump and sijil-verify fsck, replay-keys."""
import json
import os
import subprocess
import sys

import sijil_test
from sijil_test import Client, Server, make_robot, sha256, wait_until

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "vectors"))
sys.dont_write_bytecode = True
import audit_dump  # noqa: E402

server = Server()
state = {}


def prepare():
    server.start()
    admin = server.client(server.admin)
    state["publisher"] = make_robot(server, "publisher", "publisher", "main/models")
    state["deleter"] = make_robot(server, "deleter", "project-admin", "main/models")
    state["auditor"] = make_robot(server, "auditor", "auditor", "")
    state["vkey"] = Client(server, state["auditor"]).api("GET", "/audit/key")["vkey"]
    with open(f"/proc/{min(server.processes('postgres'))}/cmdline", "rb") as file:
        words = [word.decode() for word in file.read().split(b"\0")]
    folder = next(word.split("=", 1)[1] for word in words if word.startswith("--unix_socket_directories="))
    state["database"] = os.path.join(server.root, "dump-database")
    with open(os.path.join(server.root, "dump-database"), "w", encoding="ascii", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
        file.write(f"host={folder} user=postgres dbname=sijil\n")
    admin.api("POST", "/projects", {"organisation": "main", "name": "short"})


def push(name, reference, content, login="publisher"):
    place = server.client(state[login]).repository(name)
    manifest = place.manifest(place.push_blob(content) and content)
    assert place.put_manifest(reference, manifest).status == 201
    return place, sha256(manifest)


def robots_and_bindings():
    admin = server.client(server.admin)
    made = {}
    for name in ("short", "long", "gone"):
        robot = admin.api("POST", "/robots", {"organisation": "main", "name": name})
        binding = admin.api("POST", "/bindings", {"robot": robot["id"], "role": "consumer", "scope": "main/models"})
        made[name] = robot["id"], binding["id"]
    admin.api("DELETE", "/bindings/" + made["short"][1])
    admin.api("DELETE", "/robots/" + made["gone"][0])
    state["made"] = made


def tags_of_all_kinds():
    _, first = push("main/models/digits", "v1", b"one")
    place, _ = push("main/models/digits", "latest", b"two")
    push("main/models/digits", "latest", b"three")
    push("main/models/digits", "old", b"four")
    eraser = server.client(state["deleter"]).repository("main/models/digits")
    assert place.call("DELETE", "manifests/old").status in (202, 403)
    _, gone = push("main/models/digits", "gone", b"five")
    state["tags"] = first, gone
    for reference in ("old", gone):
        answer = eraser.call("DELETE", "manifests/" + reference)
        assert answer.status in (202, 403, 404), answer.status


def places_are_deleted_and_made_again():
    admin = server.client(server.admin)
    login = state["short"] = make_robot(server, "short-publisher", "publisher", "main/short")
    del login
    push("main/short/thing", "v1", b"before", "short")
    plan = admin.api("GET", "/repositories/main/short/thing/deletion")
    admin.api("DELETE", f"/repositories/main/short/thing?plan={plan['plan']}")
    push("main/short/thing", "v1", b"after", "short")
    push("main/short/thing", "v2", b"after", "short")


def dump(*more):
    path = os.path.join(server.root, "log.dump")
    done = subprocess.run([sijil_test.program("sijil-audit-dump"), "--database=" + state["database"], "--output=" + path, *more],
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert not os.path.exists(path + ".part") and os.stat(path).st_mode & 0o777 == 0o600
    return path


def verify(command, path, *more, **kinds):
    done = subprocess.run([sijil_test.program("sijil-verify"), command, "--key", state["vkey"], *more, path], capture_output=True, timeout=120, **kinds)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def settle():
    """The index of searches has all entries, and the newest checkpoint is stored."""
    wait_until(lambda: server.sql("SELECT s.indexed = l.size AND EXISTS (SELECT FROM audit_checkpoint c WHERE c.size = l.size) FROM audit_log l, audit_search s")
               == "t", 60, "the log does not come to rest")


def a_dump_of_a_registry_is_sound():
    settle()
    path = dump("--progress")
    code, said, why = verify("fsck", path)
    assert code == 0 and said.startswith("Sound: "), said + why
    code, said, why = verify("fsck", path, "--json", "--memory=64M", "--threads=1")
    answer = json.loads(said)
    assert code == 0 and answer["verified"] and answer["tags"] >= 4 and answer["bindings"] >= 7 and answer["found"] == {}, answer
    with open(path, "rb") as file:
        seen = audit_dump.check(file.read())
    assert (seen.origin, seen.size, len(seen.keys)) == (answer["origin"], answer["size"], answer["keys"])
    code, said, why = verify("replay-keys", path)
    assert code == 0 and said == seen.statement(), (said, seen.statement(), why)


def a_dump_goes_through_a_pipe():
    done = subprocess.run(f"{sijil_test.program('sijil-audit-dump')} --database={state['database']} | {sijil_test.program('sijil-verify')} fsck --key '{state['vkey']}' -",
                          shell=True, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and done.stdout.startswith("Sound: "), done


ADMIN = "registry:admin:*"
SEEDS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "fuzz/corpus/fork_evidence")


def compare(*words):
    done = subprocess.run([sijil_test.program("sijil-verify"), "compare", *words], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


def checkpoints_are_compared():
    """Two of one log, by the registry's own proof and by a dump; and evidence of a fork, as a third party meets it."""
    auditor, key = Client(server, state["auditor"]), "--key=" + state["vkey"]
    old, new = os.path.join(server.root, "old"), os.path.join(server.root, "new")
    rows = auditor.api("GET", "/audit/checkpoints?limit=30&order=ascending")["checkpoints"]
    sizes = [row["size"] for row in rows if row["size"] & (row["size"] - 1)]
    with open(old, "w", encoding="utf-8") as file:
        file.write(next(row["note"] for row in rows if row["size"] == sizes[0]))
    answer = auditor.call("GET", f"/api/v1/audit/consistency?old={sizes[0]}&size={sizes[-1]}", scope=ADMIN)
    assert answer.status == 200, answer.body
    with open(new, "wb") as file:
        file.write(answer.body)
    code, said, why = compare(key, old, new)
    assert code == 0 and said.startswith("One log: "), said + why
    code, said, why = compare(key, old, old)
    assert code == 0 and said.startswith("The same: "), said + why
    with open(new, "wb") as file:
        file.write(b'{"title":"A credential is needed","status":401}')  # as curl leaves it
    code, said, why = compare(key, old, new)
    assert code == 1 and f"{new} is no checkpoint" in why, why
    with open(new, "wb") as file:
        file.write(answer.body.split(b"\n\n", 1)[1])  # the checkpoint alone
    code, said, why = compare(key, new, old)
    assert code == 1 and "NOT verified" in why and f"old={sizes[0]}" in why, why
    code, said, why = compare(key, "--dump=" + dump(), new, old)
    assert code == 0 and said.startswith("One log: "), said + why
    with open(os.path.join(os.path.dirname(os.path.dirname(SEEDS)), "fuzz_fork_evidence.c"), encoding="ascii") as file:
        made = "--key=" + file.read().split('#define VKEY "', 1)[1].split('"', 1)[0]
    for name, wanted in (("equal_sizes", 0), ("a_longer_log", 0), ("another_prefix", 1), ("no_proof", 1), ("cut", 1)):
        code, said, why = compare(made, "--evidence=" + os.path.join(SEEDS, name))
        assert code == wanted and (code == 1 or said.startswith("FORKED: ")), (name, said, why)
    assert compare(key, "--evidence=" + os.path.join(SEEDS, "equal_sizes"))[0] == 1  # of another log
    for name in ("equal_sizes", "a_longer_log"):
        a_fork_is_found_and_shown(made, name)


def a_fork_is_found_and_shown(key, name):
    """From what two auditors have: one the smaller checkpoint, the other the larger one, with the registry's proof if the sizes differ."""
    kept, met, evidence = (os.path.join(server.root, file) for file in ("kept", "met", "fork.evidence"))
    with open(os.path.join(SEEDS, name), "rb") as file:
        wanted = file.read()
    head, notes = wanted.split(b"\n\n", 1)
    _, lengths, *prefix = head.split(b"\n")
    first, second = notes[:int(lengths.split()[0])], notes[int(lengths.split()[0]):]
    proof = b"".join(line + b"\n" for line in [b"old " + first.split(b"\n")[1], *prefix[1:], b""]) if prefix else b""
    for path, content in ((kept, first), (met, proof + second)):
        with open(path, "wb") as file:
            file.write(content)
    code, said, why = compare(key, "--output=" + evidence, kept, met)
    assert code == 1 and said.startswith("FORKED: "), (name, code, said, why)
    with open(evidence, "rb") as file:
        assert file.read() == wanted, name
    assert compare(key, "--evidence=" + evidence) == (0, said, "")
    os.remove(evidence)
    code, again, why = compare(key, met, kept)
    assert (code, again) == (1, said) and not os.path.exists(evidence), (name, code, again, why)


EDITS = (
    ("a tag moved", "UPDATE tag SET manifest_digest = (SELECT manifest_digest FROM tag WHERE name = 'v1' LIMIT 1) WHERE name = 'latest'",
     "tag", "another manifest"),
    ("a tag made", "INSERT INTO tag SELECT repository_id, 'forged', manifest_digest FROM tag WHERE name = 'latest'", "tag", "by the events there is none"),
    ("a tag dropped", "DELETE FROM tag WHERE name = 'v1'", "tag", "no event has removed it"),
    ("a binding revived", "UPDATE binding SET revoked_at = NULL WHERE binding_id = '{short}'", "binding", "it was revoked"),
    ("a robot revived", "UPDATE robot SET revoked_at = NULL WHERE robot_id = '{gone_robot}'; UPDATE binding SET revoked_at = NULL WHERE binding_id = '{gone}'",
     "binding", "its robot was revoked"),
    ("a role raised", "UPDATE binding SET role = 'publisher' WHERE binding_id = '{long}'", "binding", "another role"),
    ("a binding made", "INSERT INTO binding (binding_id, robot_id, role, granted_by) SELECT gen_random_uuid(), '{long_robot}', 'auditor', 'system'", "binding",
     "no event has granted it"),
    ("a binding dropped", "DELETE FROM binding WHERE binding_id = '{long}'", "binding", "no event has ended it"),
)


def each_edit_of_a_right_or_a_tag_is_found():
    made = state["made"]
    ids = {"short": made["short"][1], "long": made["long"][1], "gone": made["gone"][1], "gone_robot": made["gone"][0], "long_robot": made["long"][0]}
    server.sql("CREATE TABLE old_tag AS TABLE tag; CREATE TABLE old_binding AS TABLE binding; CREATE TABLE old_robot AS SELECT robot_id, revoked_at FROM robot")
    free = "SET session_replication_role = replica; "
    for name, sql, kind, says in EDITS:
        server.sql(free + sql.format(**ids))
        code, said, why = verify("fsck", dump(), "--json")
        found = json.loads(said)
        assert code == 1 and any(each["kind"] == kind and says in each["what"] for each in found["first"]), (name, found, why)
        server.sql(free + "DELETE FROM tag; INSERT INTO tag TABLE old_tag; DELETE FROM binding; INSERT INTO binding TABLE old_binding;"
                   " UPDATE robot r SET revoked_at = o.revoked_at FROM old_robot o WHERE o.robot_id = r.robot_id")
    code, said, why = verify("fsck", dump())
    assert code == 0, said + why


def logged(words):
    with open(os.path.join(server.root, "log"), encoding="utf-8", errors="replace") as file:
        return words in file.read()


def metric(name):
    text = server.client().call("GET", "/metrics").body.decode()
    return float(next(line.split()[1] for line in text.splitlines() if line.startswith(name + " ")))


def the_running_service_finds_them_too():
    """Within its first round after a start, which takes seconds with a small log."""
    free = "SET session_replication_role = replica; "
    made = state["made"]
    assert not logged("is not what the audit log says")
    server.sql(free + "UPDATE tag SET manifest_digest = (SELECT manifest_digest FROM tag WHERE name = 'v1' LIMIT 1) WHERE name = 'latest'")
    server.stop()
    server.start()
    wait_until(lambda: logged("main/models/digits:latest: the last push has another manifest under it"), 120, "nobody notices the edited tag")
    server.sql(free + "DELETE FROM tag; INSERT INTO tag TABLE old_tag")
    doubted = f"SELECT count(*) FROM doubted_row WHERE id = '{made['short'][1]}'"
    assert server.sql(doubted) == "0"
    server.sql(free + f"UPDATE binding SET revoked_at = NULL WHERE binding_id = '{made['short'][1]}'")
    server.sql(free + f"DELETE FROM tag WHERE name = 'v1'; DELETE FROM binding WHERE binding_id = '{made['long'][1]}'")
    server.stop()
    server.start()
    wait_until(lambda: server.sql(doubted) == "1" and metric("sijil_audit_rows_wrong") >= 3, 120, "nobody notices the edited binding, and what was removed")
    texts = [": it is not stored, and no event has removed it", ": it is not stored, and no event has ended it"]  # the first of the round, which begins anywhere
    assert any(logged(text) for text in texts) and logged(": by entry "), "the log of the program does not say what was removed"
    server.sql(free + "DELETE FROM tag; INSERT INTO tag TABLE old_tag; DELETE FROM binding; INSERT INTO binding TABLE old_binding")


def what_is_no_dump_is_refused():
    path = dump()
    with open(path, "rb") as file:
        whole = file.read()
    for content in (b"", whole[:-1], whole[: len(whole) // 2], whole + b"x", whole[:100] + b"\0" + whole[101:]):
        code, _, why = verify("fsck", "-", input=content)
        assert code == 1 and "NOT verified" in why, why
    code, _, why = verify("fsck", path, "--memory=1M")
    assert code == 2 and "64M" in why, why
    done = subprocess.run([sijil_test.program("sijil-audit-dump"), "--database=/nonexistent"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "/nonexistent" in done.stderr, done
    assert subprocess.run([sijil_test.program("sijil-audit-dump")], capture_output=True, timeout=60).returncode == 2


prepare()
sijil_test.run(robots_and_bindings, tags_of_all_kinds, places_are_deleted_and_made_again, a_dump_of_a_registry_is_sound, a_dump_goes_through_a_pipe,
               checkpoints_are_compared, each_edit_of_a_right_or_a_tag_is_found, the_running_service_finds_them_too, what_is_no_dump_is_refused, server=server)
