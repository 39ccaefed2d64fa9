#!/usr/bin/env python3
"""`sijil run ...` as a data scientist uses it, on a whole server: a specification in YAML with references, its mistakes with their lines, waiting, the
bundle and its verification, and the same run again."""
import base64
import json
import os
import signal
import subprocess
import types
import urllib.parse

import sijil_test
from run_fleet import RunFleet
from run_sender import LOG, Sender, contents, digests
from run_world import FOLDER, PROJECT, Person, World, opened, stated
from sijil_test import Client, LeftOut, make_robot, program, run, sha256

SPEC = f"""# what to run
code: {{reference: "{PROJECT}/code:v1"}}
inputs:
  - name: zebra
    reference: {PROJECT}/data:v1
  - name: apple
    reference: {PROJECT}/data:v1
outputs:
  - {{name: model, repository: {PROJECT}/trained, type: application/vnd.example+json}}
argv: [/usr/bin/python3, train.py]
environment:
  LR: "0.1"
limits: {{time_s: 600, grace_s: 5, cpus: 1, memory_bytes: 268435456, output_bytes: 16777216, output_files: 10, log_bytes: 1048576, processes: 64}}
jurisdictions: [AE]
isolation: rlimits
"""
server = RunFleet(1).start()
state = {}


def path_of(name):
    return os.path.join(FOLDER.name, name)


def write(name, text):
    with open(path_of(name), "w", encoding="utf-8") as file:
        file.write(text)
    return path_of(name)


def start_process(who, *words):
    environment = {**os.environ, "HOME": path_of(who), "XDG_CONFIG_HOME": path_of(who)}
    os.makedirs(path_of(who), exist_ok=True)
    return subprocess.Popen([program("sijil"), *map(str, words)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env=environment)


def sijil(who, *words, code=0):
    process = start_process(who, *words)
    out, err = process.communicate(state[who].login[1] + "\n", timeout=120)
    assert process.returncode == code, (words, process.returncode, out, err)
    return out, err


def command(name, *words, who="alice", code=0):
    return sijil(who, "run", name, f"127.0.0.1:{server.port}", PROJECT, *words, code=code)


def prepare():
    conninfo = f"host={server.database_at} dbname=sijil_template user=sijil_app"
    world = state["world"] = World(server, server.path("approver.pem"), conninfo, server.path("socket"))
    state["alice"], state["runner"] = Person(world, "alice"), Sender(world)
    pusher = server.client(make_robot(server, "pusher", "publisher", PROJECT))
    for name, content in (("code", b"print()"), ("data", b"1,2,3")):
        repository = pusher.repository(f"{PROJECT}/{name}")
        repository.push_blob(content)
        text = repository.manifest(content)
        state[name] = repository.put_manifest("v1", text)["Docker-Content-Digest"]
        index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [
            {"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": state[name], "size": len(text)}]}
        assert repository.put_manifest("several", json.dumps(index).encode(), index["mediaType"]).status == 201
    sijil("alice", "login", f"127.0.0.1:{server.port}", "--username", state["alice"].login[0], "--ca-file", server.ca_file)
    keys = server.client(server.admin).api("GET", "/audit/key")
    state["keys"] = ["--key", keys["vkey"], "--signer", write("signer.pem", keys["documents"]), "--root", server.path("approver.pub.pem")]
    state["key"] = ["--key", state["alice"].key.path]


def started(text=SPEC, *words):
    out, _ = command("start", "--json", write("spec.yaml", text), *state["key"], *words)
    return json.loads(out)


def a_specification_in_yaml_becomes_a_signed_request():
    made = started()
    state["alice"].wait({"run": made["id"]}, "ordered")
    asked = opened(state["alice"].run({"run": made["id"]})["envelopes"][0]["envelope"])[0]
    assert [one["name"] for one in asked["spec"]["inputs"]] == ["apple", "zebra"], asked
    assert asked["spec"]["code"] == {"repository": PROJECT + "/code", "digest": state["code"]} and asked["spec"]["environment"] == {"LR": "0.1"}
    assert all(one["digest"] == state["data"] and "reference" not in one for one in asked["spec"]["inputs"]), asked
    shown, _ = command("show", made["id"])
    assert "ordered (waits for a runner of the pool default: none asks for work)" in shown and "sijil run show --follow" in shown, shown
    listed, _ = command("list")
    assert made["id"] in listed and "REASON" in listed and "/usr/bin/python3 train.py" in listed and "DOUBTS" in listed, listed
    (row,) = [one for one in json.loads(command("list", "--json")[0]) if one["id"] == made["id"]]
    assert row["command"] == "/usr/bin/python3 train.py" and "doubts" not in row, row
    state["made"] = made["id"]


def a_mistake_has_its_line_and_nothing_is_sent():
    events = len(state["world"].events("run.request"))
    for old, new, says in (("time_s: 600", "time_s: 600s", "spec.yaml:13: limits.time_s: a whole number from 1 to 2592000, and this is a text"),
                           ("argv:", "argvs:", "spec.yaml:10: the member argvs is not known"),
                           ('"0.1"', "0.1", "spec.yaml:12: '0.1' has another meaning"),
                           ("isolation: rlimits\n", "", "spec.yaml:2: isolation is missing"),
                           ("name: apple", "name: zebra", "'zebra' is there twice")):
        text = SPEC.replace(old, new)
        assert text != SPEC
        _, err = command("start", write("spec.yaml", text), *state["key"], code=1)
        assert says in err, err
    _, err = command("start", write("spec.yaml", SPEC.replace("code:v1", "code:unheard")), *state["key"], code=3)
    assert f"{PROJECT}/code:unheard: the registry has no such tag" in err and f"sijil tags 127.0.0.1:{server.port}/{PROJECT}/code" in err, err
    _, err = command("start", write("spec.yaml", "\ufeff" + SPEC.replace("argv:", "argvs:")), *state["key"], code=1)
    assert "spec.yaml:10: the member argvs is not known" in err, err
    with open(path_of("spec16.yaml"), "w", encoding="utf-16") as file:
        file.write(SPEC)
    assert "it is UTF-16: save it as UTF-8" in command("start", path_of("spec16.yaml"), *state["key"], code=1)[1]
    for words in (("start", "main", write("spec.yaml", SPEC), *state["key"]), ("list", "main"), ("show", "acme/models/x", "3d0c2f1a-9b1e-4a57-8a43-0d6f5f0c7a11")):
        _, err = sijil("alice", "run", words[0], f"127.0.0.1:{server.port}", *words[1:], code=2)
        assert "is not the name of a project: that is ORGANISATION/PROJECT" in err and "sijil admin project list" in err, err
    _, err = sijil("alice", "admin", "project", "quota", f"127.0.0.1:{server.port}", PROJECT, "--cpu-seconds", "1K", code=2)
    assert "--cpu-seconds 1K: a whole number of seconds" in err, err
    _, err = command("start", write("spec.yaml", SPEC + f"image: {{reference: '{PROJECT}/data:several'}}\n"), *state["key"], code=1)
    assert f"image: {PROJECT}/data:several is an index of 1 images" in err and state["data"] in err, err
    assert len(state["world"].events("run.request")) == events


def waiting_shows_the_states_and_ends_with_the_run():
    runner, asked = state["runner"], {"run": state["made"]}
    following = start_process("alice", "run", "show", f"127.0.0.1:{server.port}", PROJECT, asked["run"], "--follow")
    assert "ordered (waits for a runner" in following.stderr.readline()
    assert opened(runner.lease()["lease"])[0]["run"] == asked["run"]
    assert runner.beat(asked["run"], phase="fetching").status == 200
    sijil_test.wait_until(lambda: "leased (fetching)" in following.stderr.readline(), 30, "it does not show that the runner fetches")
    assert runner.start(asked["run"]).status == 204
    assert runner.beat(asked["run"], progress=40).status == 200
    sijil_test.wait_until(lambda: "running 40%" in following.stderr.readline(), 30, "it does not show the progress")
    command("cancel", asked["run"])
    out, err = following.communicate(timeout=60)
    assert following.returncode == 7 and "the run has ended: cancelled" in err and "cancelled" in out, (following.returncode, out, err)


def waiting_goes_on_while_the_gateway_starts_again():
    made = started()
    following = start_process("alice", "run", "show", f"127.0.0.1:{server.port}", PROJECT, made["id"], "--follow", "--json")
    state["alice"].wait({"run": made["id"]}, "ordered")
    kill_and_start_again()
    command("cancel", made["id"])
    out, err = following.communicate(timeout=120)
    assert following.returncode == 7 and json.loads(out)["state"] == "cancelled", (following.returncode, out, err)


def kill_and_start_again():
    server.gateways[0].send_signal(signal.SIGKILL)
    server.gateways[0].wait()
    server.start_gateway(0)
    server.wait_for_gateway(0)


def send_log(asked, offset, text):
    link = state["runner"].connection()
    answer = Client(server).call("POST", f"/api/v1/runner/runs/{asked['run']}/log?attempt=1&node=0&offset={offset}", text,
                                 {"Content-Type": "application/octet-stream", **state["runner"].named()}, connection=link)
    link.close()
    if answer.status == 404:
        raise LeftOut("this registry takes no logs of runs")
    assert answer.status == 204, (answer.status, answer.body)


def a_log_is_followed_also_past_a_killed_gateway():
    asked, runner = {"run": started()["id"]}, state["runner"]
    state["alice"].wait(asked, "ordered")
    assert opened(runner.lease()["lease"])[0]["run"] == asked["run"] and runner.start(asked["run"]).status == 204
    send_log(asked, 0, b"epoch 1\n")
    following = start_process("alice", "run", "logs", f"127.0.0.1:{server.port}", PROJECT, asked["run"], "--follow")
    assert following.stdout.readline() == "epoch 1\n"
    kill_and_start_again()
    send_log(asked, 8, b"epoch 2\n")
    assert following.stdout.readline() == "epoch 2\n"
    command("cancel", asked["run"])
    out, err = following.communicate(timeout=60)
    assert following.returncode == 0 and out == "", (following.returncode, out, err)
    assert command("logs", asked["run"])[0] == "epoch 1\nepoch 2\n"


def manifest_of_log(text):
    """As the runner writes it (docs/formats/run.md)."""
    contents.update({sha256(blob): blob for blob in (b"{}", text)})
    config = {"mediaType": "application/vnd.oci.empty.v1+json", "digest": sha256(b"{}"), "size": 2}
    layer = {"mediaType": "text/plain", "digest": sha256(text), "size": len(text),
             "annotations": {"org.opencontainers.image.title": "log.txt", "org.cncf.model.filepath": "log.txt"}}
    return json.dumps({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "artifactType": LOG, "config": config,
                       "layers": [layer], "annotations": stated()}, separators=(",", ":"))


def failed(text, kept=None):
    """A run that has failed, with this log; `kept`: what the registry has of it."""
    asked, runner = {"run": started()["id"]}, state["runner"]
    state["alice"].wait(asked, "ordered")
    bundle = runner.lease()
    assert opened(bundle["lease"])[0]["run"] == asked["run"] and runner.start(asked["run"]).status == 204
    path = path_of("log.txt")
    assert "the run is running, and its runner signs the log at the end" in command("logs", asked["run"], "--output", path, code=3)[1] and not os.path.exists(path)
    kept = text if kept is None else kept
    for offset in range(0, len(kept), 200000):
        send_log(asked, offset, kept[offset:offset + 200000])
    made = {"log": manifest_of_log(text)}
    usage = {"wall_ms": 5, "cpu_ms": 5, "memory_bytes": 1, "output_bytes": 0, "log_bytes": len(text), "device_ms": 0}
    result = runner.result(bundle, digests(made), status="failed", exit_status=3, reason="it ended with 3", sijil_usage=usage)
    assert runner.finish(bundle, result, made).json["state"] == "failed"
    return asked["run"]


def the_log_of_a_failed_run_is_saved_whole():
    path, text = path_of("log.txt"), b"epoch 1\x1b[2J\n" + os.urandom(300000) + b"."
    command("logs", failed(text), "--output", path)
    with open(path, "rb") as file:
        assert file.read() == text
    os.unlink(path)
    assert "the log is cut" in command("logs", failed(text, text[:-1]), "--output", path, code=6)[1]
    assert "another log than the runner has signed" in command("logs", failed(text, text[:-1] + b"!"), "--output", path, code=6)[1]
    assert [name for name in os.listdir(os.path.dirname(path)) if name.startswith("log.txt")] == [], "something is left"
    assert "--output writes a whole log" in command("logs", state["made"], "--output", path, "--follow", code=2)[1]


def a_log_replaces_plain_files_alone():
    """A folder, a link and a device stay what they are; standard output gets the log that was checked, or nothing."""
    text = b"epoch 1\n" + os.urandom(100000) + b"."
    run_id, path, link = failed(text), path_of("replaced.txt"), path_of("link.txt")
    with open(path, "wb") as file:
        file.write(b"older")
    os.symlink(path, link)
    for refused, said in ((link, "no plain file"), (os.path.dirname(path), "is a folder"), ("/dev/full", "no plain file"), ("/dev/stdout", "no plain file")):
        was = os.lstat(refused).st_ino
        assert said in command("logs", run_id, "--output", refused, code=1)[1] and os.lstat(refused).st_ino == was, refused
    with open(path, "rb") as file:
        assert file.read() == b"older"
    command("logs", run_id, "--output", path)
    words = [program("sijil"), "run", "logs", f"127.0.0.1:{server.port}", PROJECT]
    environment = {**os.environ, "HOME": path_of("alice"), "XDG_CONFIG_HOME": path_of("alice")}
    shown = subprocess.run([*words, run_id, "--output", "-"], capture_output=True, env=environment, timeout=60)
    with open(path, "rb") as file:
        assert file.read() == text == shown.stdout, shown.stderr
    false = subprocess.run([*words, failed(text, text[:-1] + b"!"), "--output", "-"], capture_output=True, env=environment, timeout=60)
    assert false.returncode == 6 and false.stdout == b"", false
    with open("/dev/full", "wb") as full:
        cut = subprocess.run([*words, run_id, "--output", "-"], stdout=full, stderr=subprocess.PIPE, env=environment, timeout=60)
    assert cut.returncode != 0 and b"No space left" in cut.stderr, cut


def a_full_disk_is_not_another_log():
    text, folder = b"epoch 1\n" + os.urandom(300000), path_of("small")
    run_id = failed(text)
    os.mkdir(folder)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "small", folder], capture_output=True).returncode != 0:
        raise sijil_test.LeftOut("no file system can be mounted here")
    try:
        said = command("logs", run_id, "--output", folder + "/log.txt", code=1)[1]
        assert "No space left" in said and os.listdir(folder) == [], said
    finally:
        subprocess.run(["umount", folder], check=True)


def a_log_that_is_broken_off_leaves_no_file():
    """The registry does not answer, and the person gives up. A program that runs under nohup goes on."""
    path, text = path_of("broken-off.txt"), b"epoch 1\n" + os.urandom(3000)
    run_id = failed(text)

    def files():
        return [name for name in os.listdir(os.path.dirname(path)) if name.startswith("broken-off.txt")]

    def pause(number):
        for gateway in server.gateways:
            gateway.send_signal(number)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        pause(signal.SIGSTOP)
        try:
            process = start_process("alice", "run", "logs", f"127.0.0.1:{server.port}", PROJECT, run_id, "--output", path)
            sijil_test.wait_until(lambda: len(files()) == 1 and files()[0].endswith(".part"), 20, f"no file was begun: {files()}")
            process.send_signal(number)
            assert process.wait(20) == -number and files() == [], (process.returncode, files())
        finally:
            pause(signal.SIGCONT)
        process.communicate()
    pause(signal.SIGSTOP)
    try:
        process = subprocess.Popen(["nohup", program("sijil"), "run", "logs", f"127.0.0.1:{server.port}", PROJECT, run_id, "--output", path], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "HOME": path_of("alice"), "XDG_CONFIG_HOME": path_of("alice")})
        sijil_test.wait_until(lambda: len(files()) == 1, 20, f"no file was begun: {files()}")
        process.send_signal(signal.SIGHUP)
    finally:
        pause(signal.SIGCONT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 0 and files() == ["broken-off.txt"], (process.returncode, said, files())
    with open(path, "rb") as file:
        assert file.read() == text


def the_manifest_of_a_log_is_for_its_readers():
    run_id = failed(b"all of it")
    place = f"/{run_id}/log/manifest"
    answer = state["alice"].call("GET", place + "?attempt=1")
    assert answer.status == 200 and answer.body.decode() == manifest_of_log(b"all of it"), answer.body
    assert state["alice"].call("GET", place).body == answer.body, "the newest attempt is not meant without one"
    assert [state["alice"].call("GET", place + more).status for more in ("?attempt=2", "?attempt=1&node=1")] == [404, 404]
    stranger = server.client(make_robot(server, "stranger", "auditor", ""))
    asked = f"/api/v1/projects/{PROJECT}/runs"
    assert stranger.call("GET", f"{asked}/{run_id}", scope="registry:admin:*").status in (403, 404)
    assert stranger.call("GET", asked + place + "?attempt=1", scope="registry:admin:*").status in (403, 404)


def a_bundle_is_verified_with_own_keys():
    path = path_of("bundle.json")
    command("bundle", state["made"], "-o", path)
    verified = subprocess.run([program("sijil-verify"), "run", *state["keys"], path], capture_output=True, text=True, timeout=60)
    assert verified.returncode == 0, verified.stderr
    shown, _ = command("verify", state["made"], *state["keys"])
    assert shown == verified.stdout and "the order's recorded decision follows" in shown, shown
    verified = json.loads(command("verify", "--json", state["made"], *state["keys"])[0])
    assert verified["verified"] is True and verified["runner"]["trusted"] == ["root of the machine", "users of the machine and of its cluster"], verified
    wrong = [*state["keys"][:4], "--root", state["keys"][3]]
    assert "NOT verified: " in command("verify", state["made"], *wrong, code=6)[1]
    command("bundle", "3d0c2f1a-9b1e-4a57-8a43-0d6f5f0c7a11", "-o", path, code=3)


def a_rerun_is_a_new_request_that_names_the_old_order():
    _, err = command("rerun", state["made"], *state["key"])
    old = state["alice"].run({"run": state["made"]})["envelopes"]
    before, order = opened(old[0]["envelope"])[0], next(one for one in old if one["kind"] == "order")
    new = state["alice"].call("GET", "?limit=1").json["runs"]
    assert new[0]["id"] != state["made"] and f"request {opened(old[0]['envelope'])[1]}" in err, (new, err)
    state["alice"].wait({"run": new[0]["id"]}, "ordered")  # sijil-keyd takes the request, too
    asked = opened(state["alice"].run({"run": new[0]["id"]})["envelopes"][0]["envelope"])[0]
    assert asked["rerun"] == {"run": state["made"], "order": order["digest"]} and asked["spec"] == before["spec"], asked
    bundle = state["runner"].lease()
    assert opened(bundle["request"])[0]["rerun"]["run"] == state["made"]
    assert "no outputs to compare" in command("rerun", state["made"], "--compare", *state["key"], code=1)[1]
    command("cancel", new[0]["id"])
    assert base64.b64decode(json.loads(bundle["order"])["payload"]) != base64.b64decode(json.loads(order["envelope"])["payload"])


def an_exposure_follows_runs_and_certificates():
    """What Alice's stolen credential has had made: her runs, and what they did. And what the certificate of the runner did, compared with all events."""
    state["examiner"] = types.SimpleNamespace(login=make_robot(server, "examiner", "auditor", ""))
    client, at = server.client(state["examiner"].login), f"127.0.0.1:{server.port}"

    def pages(path, **asked):
        found, page = [], {"next": None}
        while "next" in page:
            page = client.api("GET", path + "?" + urllib.parse.urlencode({**asked, "limit": 1000, **({"after": page["next"]} if page["next"] else {})}))
            found += page["events"]
        return found
    log = pages("/audit/events", order="ascending")
    (asked,) = [event for event in log if event["entry"]["act"] == "run.request" and state["made"] in event["entry"]["res"]]
    of_run = {event["seq"]: event["entry"]["act"] for event in pages("/audit/events", order="ascending", run=state["made"])}
    assert set(of_run.values()) >= {"run.lease", "run.start", "run.cancel"}, of_run
    rows = pages("/audit/exposure", credential=asked["who"]["subject"], purpose="incident 9")
    assert [(row["what"], row["next"]) for row in rows if row["seq"] == asked["seq"]] == [("made", {"kind": "run", "name": state["made"]})], rows
    assert {row["seq"] for row in pages("/audit/exposure", run=state["made"], purpose="incident 9")} == set(of_run)
    sijil("examiner", "login", at, "--username", state["examiner"].login[0], "--ca-file", server.ca_file)
    shown = [json.loads(line) for line in sijil("examiner", "audit", "exposure", at, asked["who"]["subject"], "--purpose", "incident 9", "--json")[0].splitlines()]
    theirs = {(row["seq"], row.get("made_by")) for row in shown}
    assert all((number, f"run.request {asked['seq']}") in theirs for number, action in of_run.items() if action in ("run.lease", "run.start")), theirs
    lease = next(number for number, action in of_run.items() if action == "run.lease")
    thumbprint = next(event["who"]["certificate"] for event in log if event["seq"] == lease)
    own = {event["seq"] for event in log if (event.get("who") or {}).get("certificate") == thumbprint}
    for name in (thumbprint, "x5t#S256:" + thumbprint):
        rows = pages("/audit/exposure", credential=name, purpose="incident 9")
        assert {row["seq"] for row in rows if row["seq"] <= log[-1]["seq"]} == own and lease in own and len(own) > 5, (own, rows)


if __name__ == "__main__":
    run(prepare, a_specification_in_yaml_becomes_a_signed_request, a_mistake_has_its_line_and_nothing_is_sent,
        waiting_shows_the_states_and_ends_with_the_run, waiting_goes_on_while_the_gateway_starts_again,
        a_log_is_followed_also_past_a_killed_gateway, the_log_of_a_failed_run_is_saved_whole, a_log_replaces_plain_files_alone, a_full_disk_is_not_another_log, a_log_that_is_broken_off_leaves_no_file, the_manifest_of_a_log_is_for_its_readers,
        a_bundle_is_verified_with_own_keys,
        a_rerun_is_a_new_request_that_names_the_old_order, an_exposure_follows_runs_and_certificates, server=server)
