#!/usr/bin/env python3
"""The ceremony of docs/recovery.md on one machine: one administrator signs, and every report says that it was one. First an old copy of the database comes back, then none."""
import json
import os
import shutil
import subprocess

from sijil_test import Server, make_robot, program, run, wait_until

server = Server()
state = {}


def once(*words, code=0):
    """sijild as it is started, for one job."""
    with open(server.passphrase, "rb") as secret:
        done = subprocess.run([program("sijild"), "--embedded", server.folder, *words, "--passphrase-fd", str(secret.fileno()), "--secrets-dir", server.secrets],
                              pass_fds=[secret.fileno()], capture_output=True, text=True, timeout=120)
    assert done.returncode == code, (words, done.returncode, done.stdout + done.stderr)
    return done.stdout + done.stderr


def call(*words, code=0):
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == code, (words, done.returncode, done.stdout + done.stderr)
    return done.stdout + done.stderr


def path(name):
    return os.path.join(server.root, name)


def root_key():
    return server.folder + "/officer/approver.pem"


def data():
    return server.folder + "/postgres/data"


def said_since(mark):
    with open(path("log"), encoding="utf-8", errors="replace") as log:
        log.seek(mark)
        return log.read()


def vkey():
    return server.client(state["auditor"]).api("GET", "/audit/key")["vkey"]


def get(name):
    answer = server.client(state["auditor"]).call("GET", f"/api/v1/audit/events/{name}", scope="registry:admin:*")
    assert answer.status == 200, (name, answer.status, answer.body)
    return answer.body


def plan(name):
    said = once("--recover-plan", path(name), "--recover-reason", "the disk is lost")
    return said, call(program("sijil"), "admin", "recover", "show", path(name))


def sign(name):
    call(program("sijil"), "admin", "recover", "sign", "--key", root_key(), "--output", path(name + ".signed"), path(name))
    return path(name + ".signed")


def a_registry_loses_its_newest_entries():
    server.start()
    state["auditor"] = make_robot(server, "auditor", "auditor", "")
    state["publisher"] = make_robot(server, "publisher", "publisher", "main/models")
    state["old key"] = vkey()
    state["registry"] = state["old key"].split("+")[0]
    server.client(state["publisher"]).repository("main/models/digits").push_blob(b"kept" * 100)
    server.stop()
    said = once("--recover-plan", path("needless"), "--recover-reason", "none", code=1)
    assert "nothing is lost" in said and not os.path.exists(path("needless")), said
    subprocess.run(["cp", "-a", data(), path("older")], check=True)
    server.start()
    server.client(state["publisher"]).repository("main/models/digits").push_blob(b"lost" * 100)
    server.stop()
    shutil.rmtree(data())
    os.rename(path("older"), data())
    mark = os.path.getsize(path("log"))
    server.start(wait=False)
    assert server.process.wait(60) != 0
    assert "docs/recovery.md" in said_since(mark), said_since(mark)[-2000:]


def the_plan_says_that_one_signs():
    said, shown = plan("plan")
    assert "sijil admin recover sign" in said, said
    assert f"begins    {state['registry']}/2, with the first" in shown and "officers  1: the root of approvers ALONE signs" in shown, shown
    with open(path("plan.keys"), encoding="utf-8") as file:
        assert file.read() == state["old key"] + "\n"
    state["left"] = int(shown.split("with the first ")[1].split()[0])


def nobody_else_signs_and_no_two_are_made_of_one():
    call("openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", path("stranger.pem"))
    call(program("sijil"), "admin", "recover", "sign", "--key", path("stranger.pem"), "--output", path("by-stranger"), path("plan"))
    assert "0 of 1 officers have signed" in once("--recover", path("by-stranger"), code=1)
    with open(path("plan"), "rb") as file, open(path("two"), "wb") as two:
        two.write(file.read().replace(b"officers 1", b"officers 2"))
    signed = sign("two")
    with open(signed, "rb") as file:
        line = file.read()
    with open(signed, "wb") as file:
        file.write(line * 2)
    assert "1 of 2 officers have signed the statement" in once("--recover", signed, code=1)


def the_log_goes_on():
    signed = sign("plan")
    assert "goes on under a new origin" in once("--recover", signed)
    once("--recover", signed)  # once more: nothing happens
    server.start()
    assert vkey().startswith(state["registry"] + "/2+")
    server.client(state["publisher"]).repository("main/models/digits").push_blob(b"again" * 100)
    entry = json.loads(get(f"{state['left']}/entry"))
    assert entry["act"] == "log.succeed" and entry["res"].endswith(" 1"), entry


def every_report_says_that_it_was_one():
    for name in ("entry", "proof"):
        with open(path("first." + name), "wb") as file:
            file.write(get(f"{state['left']}/{name}"))
    call("openssl", "ec", "-in", root_key(), "-pubout", "-out", path("root.pub.pem"))
    call("openssl", "ec", "-in", path("stranger.pem"), "-pubout", "-out", path("stranger.pub.pem"))
    verify = [program("sijil-verify"), "succession", "--key", state["old key"], "--root", path("root.pub.pem")]
    said = call(*verify, "--entry", path("first.entry"), path("plan.signed"), path("first.proof"))
    assert said.startswith("Verified: the root of approvers ALONE has signed") and "no second person" in said and vkey() in said, said
    assert json.loads(call(*verify, "--json", path("plan.signed")))["officers"] == 1
    said = call(*verify, "--signer", path("stranger.pub.pem"), path("plan.signed"), code=1)
    assert "the root of approvers alone has signed" in said, said


def a_dump_says_it_too():
    wait_until(lambda: server.sql("SELECT EXISTS (SELECT FROM audit_checkpoint c JOIN audit_log l USING (size))") == "t", 60, "the log is not signed")
    with open(path("database"), "w", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write("host=" + server.sql("SHOW unix_socket_directories") + " user=postgres dbname=sijil\n")
    call(program("sijil-audit-dump"), "--database", path("database"), "--output", path("dump"))
    said = call(program("sijil-verify"), "fsck", "--key", vkey(), path("dump"))
    assert said.startswith("Sound") and "ONE officer" in said, said
    assert json.loads(call(program("sijil-verify"), "fsck", "--json", "--key", vkey(), path("dump")))["one_officer"]


def everything_of_the_database_is_lost():
    server.stop()
    shutil.rmtree(data())
    _, shown = plan("all")
    assert f"begins    {state['registry']}/3, with the first 0 entries" in shown, shown
    once("--recover", sign("all"))
    server.start()
    state["auditor"] = make_robot(server, "auditor", "auditor", "")  # by the new administrator
    assert vkey().startswith(state["registry"] + "/3+")
    assert json.loads(get("0/entry"))["act"] == "log.succeed"
    server.stop()
    server.start()  # a start after it finds nothing


run(a_registry_loses_its_newest_entries, the_plan_says_that_one_signs, nobody_else_signs_and_no_two_are_made_of_one, the_log_goes_on, every_report_says_that_it_was_one,
    a_dump_says_it_too, everything_of_the_database_is_lost, server=server)
