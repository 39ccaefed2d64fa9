#!/usr/bin/env python3
"""A new key of the log on a whole server: made by sijil-keyd, ordered by the root of approvers, signed by both keys in the overlap; all verifiers
follow from the old key, and refuse a key that no handover leads to. sijil-keyd and the gateway are killed at each step."""
import base64
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

from sijil_test import Server, make_robot, program, run, wait_until
from witness_kit import Log, Witness, finish

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../vectors"))
import audit_log  # a second implementation of notes

OVERLAP = 25  # seconds: long enough for two starts
server = Server()
folder = tempfile.TemporaryDirectory()
state = {}
root_key = os.path.join(server.folder, "officer", "approver.pem")


def at():
    return f"127.0.0.1:{server.port}"


def path(name):
    return os.path.join(folder.name, name)


def write(name, text):
    with open(path(name), "w", encoding="utf-8") as file:
        file.write(text)
    return path(name)


def read(name):
    with open(path(name), encoding="utf-8") as file:
        return file.read()


def sijil(*words, expect=0, who="auditor"):
    home = path(who)
    environment = {**os.environ, "XDG_CONFIG_HOME": home, "SIJIL_CONFIG_HOME": home, "XDG_CACHE_HOME": home}
    done = subprocess.run([program("sijil"), *words], capture_output=True, text=True, env=environment, timeout=120, check=False,
                          input=state[who][1] + "\n" if words[0] == "login" else None)
    assert done.returncode == expect, (words, done.returncode, done.stdout, done.stderr)
    return done.stdout if expect == 0 else done.stderr


def keyd(*options):
    where = os.path.join(server.folder, "keyd")
    with open(server.passphrase, "rb") as secret:
        done = subprocess.run([program("sijil-keyd"), "--directory", where, "--passphrase-fd", str(secret.fileno()), *options], pass_fds=[secret.fileno()],
                              user=os.stat(where).st_uid, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def verify(key, *words, expect=0):
    done = subprocess.run([program("sijil-verify"), *words[:1], "--key", key, *words[1:]], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == expect, (words, done.returncode, done.stdout, done.stderr)
    return done.stdout + done.stderr


def auditor():
    return server.client(state["auditor"])


def checkpoint():
    return auditor().call("GET", "/api/v1/audit/checkpoint", scope="registry:admin:*").body.decode()


def size_of(note):
    return int(note.split("\n")[1])


def signers(note):
    """Which of the keys have signed a note, by code of our own."""
    good = []
    for name in ("old", "new"):
        try:
            audit_log.open_note(note, state[name])
            good.append(name)
        except Exception:  # pylint: disable=broad-exception-caught
            pass
    return good


def grow():
    """One more event, and a checkpoint that has it."""
    seq = auditor().api("GET", "/audit/events?limit=1")["events"][0]["entry"]["seq"]
    wait_until(lambda: size_of(checkpoint()) > seq, 30, "the log is not signed")


def events(action):
    return [event["entry"] for event in auditor().api("GET", f"/audit/events?action={action}&limit=100")["events"]]


def evidence(name):
    """A proof, an export and a checkpoint of now."""
    grow()
    number = auditor().api("GET", "/audit/events?limit=1")["events"][0]["entry"]["seq"]
    os.mkdir(path(name))
    sijil("audit", "proof", at(), str(number), "-o", path(name))
    sijil("audit", "export", at(), "--key", "org:main", "-o", path(name) + "/export")
    write(name + "/checkpoint", checkpoint())


def holds(key, name, expect=0):
    verify(key, "proof", "--entry", path(name) + "/entry.json", path(name) + "/entry.tlog-proof", expect=expect)
    verify(key, "export", path(name) + "/export", expect=expect)


def kill(name):
    for process in server.processes(name):
        os.kill(process, signal.SIGKILL)


def login():
    for who in ("auditor", "operator"):
        os.makedirs(path(who), exist_ok=True)
        sijil("login", at(), "--username", state[who][0], "--ca-file", server.ca_file, who=who)


def before():
    server.start()
    for who, role in (("auditor", "auditor"), ("operator", "registry-admin"), ("watcher", "witness")):
        state[who] = make_robot(server, who, role, "")
    login()
    answer = auditor().api("GET", "/audit/key")
    state["old"] = answer["vkey"]
    assert answer["keys"] == answer["vkey"] + "\n", answer
    write("log.keys", state["old"] + "\n")
    assert sijil("audit", "key", at()).strip() == state["old"]
    assert sijil("audit", "key", at(), "--follow", path("log.keys")).strip() == state["old"]
    assert read("log.keys") == state["old"] + "\n"
    assert "next       -" in sijil("admin", "log-key", "status", at(), who="operator")
    evidence("before")
    holds(state["old"], "before")
    state["witness"] = Witness(state["old"], name="witness.test/w1")
    state["witness"].accept(answer["origin"])
    state["witness"].start()
    assert witnessed() == 200


def witnessed():
    """A checkpoint of now is carried to the witness by hand."""
    seen = state.get("seen", 0)
    body = ("old 0\n\n" + checkpoint()).encode()
    if seen:
        body = server.client(state["watcher"]).call("GET", f"/api/v1/audit/consistency?old={seen}", scope="registry:admin:*").body
    status, _, _ = state["witness"].add(body)
    if status == 200:
        state["seen"] = size_of(body.decode().split("\n\n", 1)[1])
    return status


def a_key_is_made_and_changes_nothing():
    assert server.stop() == 0
    state["new"] = keyd("--add-log-key")
    assert keyd("--add-log-key") == state["new"]  # it is there already
    assert state["new"].split("+")[0] == state["old"].split("+")[0] != state["new"]
    server.start()
    grow()
    assert signers(checkpoint()) == ["old"]
    status = json.loads(sijil("admin", "log-key", "status", at(), "--json", who="operator"))
    assert status["vkey"] == state["old"] and status["next"] == state["new"] and "retires_at" not in status, status
    sijil("admin", "log-key", "status", at(), expect=4)  # an auditor may not


def order(name, *more, key=None):
    sijil("admin", "log-key", "sign", "--key", key or root_key, "--old", state["old"], "--new", state["new"], "-o", path(name), *more)
    return path(name)


def only_the_root_orders_it():
    subprocess.run(["openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", path("stranger.pem")], check=True,
                   capture_output=True)
    os.chmod(path("stranger.pem"), 0o600)
    sijil("admin", "log-key", "rotate", at(), order("stranger", key=path("stranger.pem")), who="operator", expect=4)
    sijil("admin", "log-key", "rotate", at(), order("good", "--overlap", f"{OVERLAP}s"), who="auditor", expect=4)
    for words in (("--overlap", "401d"), ("--overlap", "1"), ("--overlap", "x")):
        sijil("admin", "log-key", "sign", "--key", root_key, "--old", state["old"], "--new", state["new"], *words, expect=2)
    sijil("admin", "log-key", "sign", "--key", root_key, "--old", state["old"], expect=2)
    grow()
    assert signers(checkpoint()) == ["old"] and len(events("logkey.follow")) == 0


def both_keys_sign_in_the_overlap():
    state["until"] = time.monotonic() + OVERLAP
    sijil("admin", "log-key", "rotate", at(), path("good"), who="operator")
    kill("sijil-keyd")  # right after its answer
    wait_until(server.is_ready, 60, "sijil-keyd does not come back")
    sijil("admin", "log-key", "rotate", at(), path("good"), who="operator")  # the same again
    grow()
    assert signers(checkpoint()) == ["old", "new"], checkpoint()
    state["doubly"] = checkpoint()
    evidence("overlap")
    holds(state["old"], "overlap")  # whoever does not know the new key yet
    assert witnessed() == 200
    kill("sijild")
    server.process.wait(60)
    server.start()
    wait_until(lambda: len(events("logkey.follow")) == 1, 60, "no event names the keys")
    event = events("logkey.follow")[0]
    keys = [base64.urlsafe_b64encode(base64.b64decode(state[name].split("+", 2)[2])[1:]).decode().rstrip("=") for name in ("old", "new")]
    named = event["res"].split("#", 1)[1].split(" ")
    assert named[:2] == keys, (event, keys)
    state["from"] = int(named[2])
    assert size_of(state["doubly"]) >= state["from"] > size_of(read("before/checkpoint")), (named, state["doubly"])


def an_old_key_leads_to_the_new_one():
    assert sijil("audit", "key", at(), "--follow", path("log.keys")).strip() == state["new"]
    followed = read("log.keys")
    assert followed.startswith(state["old"] + "\nsijil-log-key/v1\n") and followed.count("\u2014") == 2, followed
    assert f"\n{state['from'] - 1}\n" in followed
    for name in ("before", "overlap"):
        holds(followed, name)
    write("new.keys", state["new"] + "\n")  # whoever came later knows the new key alone, and it leads back
    sijil("audit", "key", at(), "--follow", path("new.keys"))
    holds(read("new.keys"), "before")
    holds(state["new"], "before", expect=1)


def after_the_overlap_the_new_key_signs_alone():
    time.sleep(max(0, state["until"] + 1 - time.monotonic()))
    kill("sijil-keyd")
    wait_until(server.is_ready, 60, "sijil-keyd does not come back")
    grow()
    assert signers(checkpoint()) == ["new"], checkpoint()
    evidence("after")
    holds(state["old"], "after", expect=1)
    for keys in (read("log.keys"), read("new.keys"), state["new"]):
        holds(keys, "after")
    assert server.stop() == 0
    server.start()  # the log in the database has checkpoints by both keys
    grow()
    assert signers(checkpoint()) == ["new"]
    rows = server.client(state["watcher"]).api("GET", "/audit/checkpoints?limit=1000")["checkpoints"]
    assert {tuple(signers(row["note"])) for row in rows} == {("old",), ("old", "new"), ("new",)}, rows
    assert len(events("logkey.follow")) == 1, events("logkey.follow")


def the_old_key_alone_is_refused_behind_the_change():
    """Somebody stole the old key, and signs with it. Who knows the handover is not deceived."""
    lines = read("after/checkpoint").split("\n")
    stolen = "\n".join(lines[:3]) + "\n\n" + [line for line in state["doubly"].split("\n") if line.startswith("\u2014")][0] + "\n"
    write("stolen", stolen)
    verify(read("log.keys"), "compare", path("before/checkpoint"), path("stolen"), expect=1)
    text = verify(read("log.keys"), "compare", path("after/checkpoint"), path("after/checkpoint"))
    assert "The same" in text, text


def a_key_without_a_handover_is_refused():
    other = Log(state["old"].split("+")[0])
    write("other.keys", other.vkey + "\n")
    assert "no handover leads there" in sijil("audit", "key", at(), "--follow", path("other.keys"), expect=4)
    assert read("other.keys") == other.vkey + "\n"
    followed = read("log.keys")
    forged = followed.replace(state["new"], other.vkey)
    holds(forged, "after", expect=1)


def a_dump_is_sound():
    with open(f"/proc/{min(server.processes('postgres'))}/cmdline", "rb") as file:
        words = [word.decode() for word in file.read().split(b"\0")]
    place = next(word.split("=", 1)[1] for word in words if word.startswith("--unix_socket_directories="))
    with open(path("database"), "w", encoding="ascii", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(f"host={place} user=postgres dbname=sijil\n")
    done = subprocess.run([program("sijil-audit-dump"), "--database=" + path("database"), "--output=" + path("dump")], capture_output=True,
                          text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    text = json.loads(verify(read("log.keys"), "fsck", "--json", path("dump")))
    assert text["foreign"] == 0 and text["checkpoints"] > 3, text
    text = json.loads(verify(state["old"], "fsck", "--json", path("dump"), expect=1))
    assert text["foreign"] > 0 and text["found"].keys() == {"checkpoint"}, text


def the_history_is_listed():
    """Each checkpoint, by number and by time; and a proof between any two."""
    rows = json.loads(sijil("audit", "checkpoints", at(), "--lines", "all", "--json"))
    sizes = [row["size"] for row in rows]
    assert len(rows) > 3 and sizes == sorted(sizes, reverse=True) and all(row["cosignatures"] == [] for row in rows), rows
    first = json.loads(sijil("audit", "checkpoints", at(), "--entry", str(state["from"]), "--oldest-first", "--lines", "1", "--json"))
    assert len(first) == 1 and first[0]["size"] == min(size for size in sizes if size > state["from"]), (first, sizes)
    assert json.loads(sijil("audit", "checkpoints", at(), "--entry", "99999999", "--json")) == []
    middle = rows[len(rows) // 2]
    since = json.loads(sijil("audit", "checkpoints", at(), "--from", middle["stored_at"], "--lines", "all", "--json"))
    until = json.loads(sijil("audit", "checkpoints", at(), "--to", middle["stored_at"], "--lines", "all", "--json"))
    assert middle["size"] in [row["size"] for row in since] and all(row["stored_at"] >= middle["stored_at"] for row in since), since
    assert until and all(row["stored_at"] < middle["stored_at"] for row in until), until
    table = sijil("audit", "checkpoints", at(), "--lines", "3")
    assert "ENTRIES" in table and "COSIGNED" in table and len(table.strip().split("\n")) == 4, table
    old, new = sizes[-1] or sizes[-2], sizes[0]
    write("old", next(row["note"] for row in rows if row["size"] == old))
    sijil("audit", "consistency", at(), str(old), str(new), "-o", path("proof"))
    assert "One log" in verify(read("log.keys"), "compare", path("old"), path("proof"))
    sijil("audit", "consistency", at(), "x", expect=2)
    sijil("audit", "checkpoints", at(), "--lines", "0", expect=2)
    for query in ("since=yesterday", "entry=x", "until=0", "from=1"):
        assert auditor().call("GET", f"/api/v1/audit/checkpoints?{query}", scope="registry:admin:*").status == 400, query


def an_auditor_vouches_for_an_export():
    """An auditor has replayed the whole log, and signs that with the key of its witness: then the writer need not be honest."""
    witness, keys = state["witness"], read("log.keys")
    statement = verify(keys, "replay-keys", path("dump"))
    signed = witness.call("--cosign-heads", write("statement", statement), code=0).stdout
    assert signed.startswith(statement + "\n\u2014 witness.test/w1 "), signed
    write("heads", signed)
    witness.call("--cosign-heads", path("old"), code=2)  # a checkpoint is no statement
    export = path("after") + "/export"
    with open(export, encoding="utf-8") as file:
        size = size_of(json.loads(file.readline())["export"]["checkpoint"])
    replayed = int(statement.split("\n")[2])
    words = ("export", "--heads", path("heads"), "--heads-key", witness.vkey)
    assert replayed > size and "give the proof between them" in verify(keys, *words, export, expect=1)
    third = json.loads(sijil("audit", "checkpoints", at(), "--entry", str(replayed), "--oldest-first", "--lines", "1", "--json"))[0]["size"]
    for name, old in (("first", size), ("second", replayed)):
        sijil("audit", "consistency", at(), str(old), str(third), "-o", path(name))
    words = (*words, "--heads-proof", path("first"), "--heads-proof")
    told = verify(keys, *words, path("second"), export)
    assert "witness.test/w1 stated" in told and "only if the writer was honest" not in told, told
    told = json.loads(verify(keys, *words, path("second"), "--json", export))
    assert told["replayed_by"] == "witness.test/w1" and told["complete"] == "if the auditor who replayed the log was honest", told
    verify(keys, *words, path("first"), export, expect=1)
    assert "only if the writer was honest" in verify(keys, "export", export)
    verify(keys, "export", "--heads", path("heads"), export, expect=2)


def a_witness_needs_to_be_told():
    assert witnessed() == 403  # the operator of the witness lists the new key, as docs/witness.md says
    witness = state["witness"]
    witness.stop()
    witness.write("logs", f"log {state['old']}\nlog {state['new']}\n")
    witness.start()
    assert witnessed() == 200
    finish(witness)


def a_second_change_waits_for_a_third_key():
    assert "is not the next one" in sijil("admin", "log-key", "rotate", at(), order_of(state["new"], state["old"]), who="operator", expect=4)


def order_of(old, new):
    sijil("admin", "log-key", "sign", "--key", root_key, "--old", old, "--new", new, "-o", path("back"))
    return path("back")


run(before, a_key_is_made_and_changes_nothing, only_the_root_orders_it, both_keys_sign_in_the_overlap, an_old_key_leads_to_the_new_one,
    after_the_overlap_the_new_key_signs_alone, the_old_key_alone_is_refused_behind_the_change, a_key_without_a_handover_is_refused, a_dump_is_sound, the_history_is_listed,
    an_auditor_vouches_for_an_export, a_witness_needs_to_be_told, a_second_change_waits_for_a_third_key, server=server)
