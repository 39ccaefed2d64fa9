#!/usr/bin/env python3
"""usage: served_runs.py BUILD-FOLDER [TEST]...   `sijil-runner serve` against a registry's routes (tests/support/runner_peer.py): a run with its result, a
signed refusal for each check, hostile code, answers that are lost."""
import json
import os

from runner_world import BUILD, HOUR, Image, made, policy_set, run_tests, sha256, spec

TRAIN = """set -e
echo training on $(cat /in/digits/a/one.txt) with seed $SEED
if (echo x > /in/digits/a/one.txt) 2> /dev/null; then exit 9; fi
echo 'epoch 3/10' > $SIJIL_HEARTBEAT
mkdir -p /out/model/deep
echo weights > /out/model/w.bin
echo more > /out/model/deep/m.json
echo '{"loss": 1}' > /out/metrics.jsonl
sleep 1.5
"""


def a_run_comes_back_with_its_result(world):
    data = world.peer.push("digits", {"a/one.txt": b"digits\n", "empty": b""})
    run, lease = world.run(TRAIN, inputs=[("digits", data)])
    assert run.refusal is None and run.has_started, open(world.log, encoding="utf-8").read()
    outcome, manifests = world.ended(run)
    assert outcome == {"status": "succeeded", "exit": 0, "signal": 0, "reason": ""}, outcome
    assert sorted(manifests) == ["log", "metrics", "model"] and manifests["log"]["artifactType"] == "application/vnd.sijil.run-log.v1"
    assert world.files(manifests["model"]) == {"w.bin": b"weights\n", "deep/m.json": b"more\n"}, manifests["model"]
    assert world.files(manifests["metrics"]) == {"metrics.jsonl": b'{"loss": 1}\n'}
    assert run.log == b"training on digits with seed 7\n" and world.files(manifests["log"]) == {"log.txt": run.log}, run.log
    assert any(beat.get("progress") == 30 for beat in run.heartbeats) and {beat["phase"] for beat in run.heartbeats} >= {"running"}
    done = world.registry.verify(os.path.join(BUILD, "cmd/sijil-verify"), world.folder, {**lease.bundle, **{name: run.result[name] for name in ("certificate", "result")}})
    assert done.returncode == 0 and "succeeded" in done.stdout, (done.stdout, done.stderr)
    world.peer.wait(lambda: os.listdir(os.path.join(world.state, "leases")) == [], "its files are left")


def refused(world, wanted, check, says, text=None, **more):
    lease = world.registry.lease(wanted, **more)
    before = len(world.peer.uploaded)
    run = world.peer.give(lease, None if text is None else text(lease))
    world.peer.wait(lambda: run.refusal or run.result, f"no refusal: {check} {says}")
    assert run.refusal is not None and not run.has_started, (check, says, run.result)
    value = world.registry.opened(run.refusal)
    assert value["run"] == lease.run and value["check"] == check and says in value["reason"], (check, value)
    assert value["lease"] == made.digest(json.loads((text(lease) if text else lease.text()))["lease"])
    assert len(world.peer.uploaded) == before
    return lease


def each_check_has_a_signed_refusal(world):
    code = world.peer.push("code", {"train.sh": b"true\n"})
    plain = spec(code)
    for name in ("request", "order", "lease"):
        refused(world, plain, "proof", "", text=lambda lease, name=name: lease.changed(name).text())
    refused(world, plain, "form", "surprise", text=lambda lease: json.dumps({**lease.bundle, "surprise": 1}).encode())
    refused(world, plain, "time", "was over", lives_s=30)
    refused(world, plain, "time", "begins at", begins_s=HOUR)
    refused(world, {**plain, "pool": "other"}, "proof", "another pool")
    refused(world, {**plain, "jurisdictions": ["DIFC"]}, "proof", "where the order does not allow it", jurisdictions=("DIFC",))
    refused(world, {**plain, "devices": {"count": 1, "type": "H200", "memory_bytes": 0}}, "devices", "")
    refused(world, spec(code, cpus=4096), "limits", "cpus")
    refused(world, {**plain, "nodes": 2}, "limits", "2 nodes")
    refused(world, plain, "policy", "without the policy set", sets=[])
    hard, digest = policy_with(world, {"id": "T-TWO", "effect": "oblige", "ops": ["train"], "oblige": {"approvals": 2}})
    refused(world, plain, "policy", "2 approvals", sets=[hard], policy=digest)


def policy_with(world, rule):
    return policy_set(world.registry.keys["root"], "local/dxb", [rule])


def stated(**more):
    """The annotations of a manifest that states a label."""
    label = {"attached": [], "class": "open", "lineage": "attested", "pins": [], "subjects": [], **more}
    return {"sijil.label": made.canonical(label).decode()}


def what_is_made_states_the_label_of_all_that_was_read(world):
    """Also a log and metrics, and also of a program that fails. The labels come from the signed set and from bytes of signed digests, so no registry can leave one out."""
    data = world.peer.push("digits", {"a/one.txt": b"digits\n"}, annotations=stated(subjects=["health"], attached=["AE-FED"]))
    for text in (TRAIN, "echo '{}' > /out/metrics.jsonl; exit 3"):
        run, _ = world.run(text, inputs=[("digits", data)])
        _, manifests = world.ended(run)
        assert "log" in manifests and "metrics" in manifests
        for name, manifest in manifests.items():
            want = stated(**{"class": "confidential", "pins": ["tests"], "subjects": ["health"], "attached": ["AE-FED"]})
            assert manifest["annotations"] == want, (name, manifest["annotations"])
    run, _ = world.run("exit 3", inputs=[("digits", world.peer.push("digits", {"x": b"plain"}))])
    assert world.ended(run)[1]["log"]["annotations"] == stated(**{"class": "confidential", "pins": ["tests"]})


def labels_that_manifests_state_count_before_anything_is_fetched(world):
    """An order that a gateway made as if it did not know them. Duties, places and the class count; the content does not move."""
    code = world.peer.push("code", {"train.sh": b"true\n"})
    health = world.peer.push("patients", {"a": b"a patient"}, annotations=stated(subjects=["health"]))
    secret = world.peer.push("patients", {"a": b"a patient"}, annotations=stated(**{"class": "secret"}))
    rules = {"place": {"id": "H-PLACE", "effect": "require", "ops": ["train"], "when": {"subjects_any": ["health"]}, "target": {"geo_within": ["SA"]}, "message": "there"},
             "persons": {"id": "H-TWO", "effect": "oblige", "ops": ["train"], "when": {"subjects_any": ["health"]}, "oblige": {"approvals": 2}}}
    for rule, wanted, says in (("place", spec(code, inputs=[("patients", health)]), "rule H-PLACE"), ("place", spec(health), "rule H-PLACE"),
                               ("place", {**spec(code), "resume": health}, "rule H-PLACE"), ("place", {**spec(code), "image": health}, "rule H-PLACE"),
                               ("persons", spec(code, inputs=[("patients", health)]), "2 approvals"), ("place", spec(code, inputs=[("patients", secret)]), "rule SYS-CLOSED")):
        text, digest = policy_with(world, rules[rule])
        before = len(world.peer.fetched)
        refused(world, wanted, "policy", says, sets=[text], policy=digest)
        assert not {sha256(b"a patient"), sha256(b"true\n")} & set(world.peer.fetched[before:]), "content was fetched"
    broken = world.peer.push("patients", {"a": b"a patient"}, annotations={"sijil.label": "health"})
    refused(world, spec(code, inputs=[("patients", broken)]), "digest", "is no label")


def what_is_fetched_has_its_digest(world):
    peer = world.peer
    code = peer.push("code", {"train.sh": b"true\n"})
    data = peer.push("data", {"a": b"one", "b": b"two"})
    wanted = spec(code, inputs=[("digits", data)])
    peer.blobs[sha256(b"two")] = b"twO"
    refused(world, wanted, "digest", "digits: b does not match its digest")
    peer.blobs[sha256(b"two")] = b"two and more"
    refused(world, wanted, "digest", "sent more than 3 bytes")
    del peer.blobs[sha256(b"two")]
    refused(world, wanted, "digest", "404")
    peer.manifests[data["digest"]] += b" "
    refused(world, wanted, "digest", "does not match its digest")
    del peer.manifests[data["digest"]]
    refused(world, wanted, "digest", "404")
    for title in ("../x", "/etc/passwd", "a/../../x", "x\x1b[1m", ".x.sijil-part"):
        odd = peer.push("odd", {"a": b"one"}, titles={"a": title})
        refused(world, spec(code, inputs=[("digits", odd)]), "digest", "would leave the target folder")
    twice = peer.push("odd", {"a": b"one", "b": b"two"}, titles={"b": "a"})
    refused(world, spec(code, inputs=[("digits", twice)]), "digest", "two layers")
    below = peer.push("odd", {"a": b"one", "b": b"two"}, titles={"b": "a/b"})
    refused(world, spec(code, inputs=[("digits", below)]), "digest", "")
    nothing = peer.push("odd", {})
    refused(world, spec(code, inputs=[("digits", nothing)]), "digest", "no file")


def image_with(*layers):
    made = Image("")
    made.add_layer({"bin/program": Image.file_of(os.path.join(BUILD, "tests/runner/image_program")), "etc/name": Image.file(b"of the image\n")})
    for layer in layers:
        made.add_layer(layer)
    return made


def in_image(world, made, *words, **more):
    code = world.peer.push("code", {"train.sh": b"true\n"})
    return {**spec(code, **more), "image": world.peer.push_image(made), "argv": ["/bin/program", *words]}


def a_run_in_an_image(world):
    """Its result names the image among what was fetched; a lost answer or a broken connection changes nothing."""
    for route in (None, "manifests", "blob"):
        if route:
            world.peer.fail(route, "lose")
        run, lease = world.give(in_image(world, image_with(), "cat", "/etc/name", "/usr/bin/env", environment={}))
        world.peer.wait(lambda: run.result or run.refusal, "no result")
        assert run.refusal is None and run.log.startswith(b"of the image\nnone"), (run.log, run.refusal and world.registry.opened(run.refusal))
        statement = world.statement(run)
        assert [one["name"] for one in statement["predicate"]["buildDefinition"]["resolvedDependencies"]] == ["code", "image"]
        assert statement["predicate"]["runDetails"]["sijil_outcome"]["reason"].startswith("the output model is missing")
        done = world.registry.verify(os.path.join(BUILD, "cmd/sijil-verify"), world.folder, {**lease.bundle, **{name: run.result[name] for name in ("certificate", "result")}})
        assert done.returncode == 0, (done.stdout, done.stderr)
    code = world.peer.push("code", {"train.sh": b"true\n"})
    run, _ = world.give({**spec(code), "image": world.peer.push_image(image_with()), "argv": ["/bin/program", "keep", "/out/model", "weights"]})
    assert world.peer.wait(lambda: run.result, "no result") is None and world.ended(run)[0]["status"] == "succeeded"


def an_image_is_kept_for_its_project(world):
    """The second run fetches no blob of it again; but it fetches the manifest, so the registry decides."""
    made = image_with({"etc/once": Image.file(b"fetched once\n")})
    wanted = in_image(world, made, "cat", "/etc/once")
    for fetched in (True, False):
        before = len(world.peer.fetched)
        run, _ = world.give(wanted)
        world.peer.wait(lambda: run.result or run.refusal, "no result")
        assert run.log == b"fetched once\n", (run.log, run.refusal and world.registry.opened(run.refusal))
        now = world.peer.fetched[before:]
        assert (made.layers[1]["digest"] in now) == fetched and wanted["image"]["digest"] in now, (fetched, now)
    kept = os.path.join(world.work, "images")
    assert os.stat(kept).st_mode & 0o777 == 0o700 and os.listdir(kept) != []
    for name in os.listdir(kept):
        with open(os.path.join(kept, name), "rb") as file:
            content = file.read()
            assert b"fetched once" not in content and content[:2] != b"\x1f\x8b"
    text = world.peer.manifests.pop(wanted["image"]["digest"])
    refused(world, wanted, "digest", "404")
    world.peer.manifests[wanted["image"]["digest"]] = text


def images_are_refused(world):
    refused(world, in_image(world, image_with({"etc": Image.link("/tmp")})), "digest", "/etc of the image is no folder")
    refused(world, in_image(world, image_with({"opt/fifo": {"type": b"6", "mode": 0o644}})), "digest", "can't be unpacked")
    refused(world, in_image(world, image_with({"opt/zeros": Image.file(bytes(80 << 20))})), "limits", "more than 67108864 bytes")
    large = image_with()
    large.layers.append({"mediaType": large.layers[0]["mediaType"], "digest": "sha256:" + "0" * 64, "size": 1 << 30})
    refused(world, in_image(world, large), "limits", "takes at most 67108864")
    changed = image_with({"etc/other": Image.file(b"one")})
    wanted = in_image(world, changed)
    world.peer.blobs[changed.layers[1]["digest"]] = b"x" * changed.layers[1]["size"]
    refused(world, wanted, "digest", "does not match its digest")
    del world.peer.blobs[changed.layers[1]["digest"]]
    refused(world, wanted, "digest", "404")
    plain = spec(world.peer.push("code", {"train.sh": b"true\n"}))
    refused(world, {**plain, "image": plain["code"]}, "digest", "no container image")


def tasks_of_a_run(world):
    text = "echo rank $RANK of $WORLD_SIZE; if [ $RANK = 0 ]; then mkdir /out/model; echo 1 > /out/model/1; fi"
    run, _ = world.run(text, tasks=3, network="tasks")
    assert world.ended(run)[0]["status"] == "succeeded" and sorted(run.log.split(b"\n")) == [b""] + [b"[%d] rank %d of 3" % (at, at) for at in range(3)], run.log
    run, _ = world.run("if [ $RANK = 1 ]; then exit 5; fi; sleep 60; : MARK", tasks=2)
    outcome = world.ended(run)[0]
    assert (outcome["status"], outcome["exit"]) == ("failed", 5) and b"[sijil] task 1 ended with status 5" in run.log, (outcome, run.log)
    world.nothing_runs()


def a_lease_is_taken_once(world):
    run, lease = world.run("mkdir /out/model; echo 1 > /out/model/1")
    assert world.ended(run)[0]["status"] == "succeeded"
    world.peer.wait(lambda: not os.listdir(os.path.join(world.state, "leases")), "the lease has not ended")
    world.peer.give(lease)
    world.peer.wait(lambda: run.refusal, "a replay is not refused")
    assert world.registry.opened(run.refusal)["check"] == "nonce" and run.results == 1
    other = world.registry.lease(world.script("true"))
    other.bundle["lease"] = lease.bundle["lease"]  # of another order
    run.refusal = None
    world.peer.give(other)
    world.peer.wait(lambda: run.refusal, "the lease of another order is not refused")
    assert world.registry.opened(run.refusal)["check"] == "proof"
    answers = len(world.peer.asked)
    world.peer.leases.append(b"{}")
    world.peer.leases.append(b"[" * 1000)
    world.peer.wait(lambda: world.said("no lease for this runner") and len(world.peer.asked) > answers, "it does not go on")


def a_withdrawn_key_runs_nothing(world):
    before = list(world.registry.documents)
    world.registry.withdraw()
    refused(world, world.script("true"), "proof", "")
    world.registry.documents = before


HOSTILE = {
    "it fails": ("exit 3", {}, "failed", 3, "status 3"),
    "a signal": ("kill -9 $$", {}, "failed", -1, "signal 9"),
    "no output": ("true", {}, "failed", 0, "the output model is missing"),
    "another output": ("mkdir /out/model; echo 1 > /out/model/1; echo 2 > /out/x", {}, "failed", 0, "/out/x: it belongs to no output"),
    "a link": ("mkdir /out/model; ln -s /etc/passwd /out/model/1", {}, "failed", 0, "symbolic link"),
    "a hard link": ("mkdir /out/model; echo 1 > /out/model/1; ln /out/model/1 /out/model/2", {}, "failed", 0, "hard link"),
    "too many": ("mkdir /out/model; for i in $(seq 30); do echo > /out/model/$i; done", {}, "failed", 0, "more files"),
    "holes": ("mkdir /out/model; truncate -s 1M /out/model/1", {}, "failed", 0, "sparse"),
    "a full output": ("mkdir /out/model; if dd if=/dev/zero of=/out/model/1 bs=1M count=64 2> /dev/null; then exit 0; else exit 5; fi", {}, "failed", 5,
                      "status 5, and /out was full: output_bytes is its limit"),
    "a full log": ("mkdir /out/model; echo 1 > /out/model/1; yes | head -c 5000000", {"log_bytes": 5000}, "succeeded", 0, ""),
    "too long": ("trap '' TERM; echo MARK; sleep 50 & wait; sleep 50", {"time_s": 1}, "timeout", -1, "time_s"),
    "no program": ("", {"argv": ["/no/such"]}, "failed", 127, "can't begin"),
}


def hostile_code_has_one_end(world):
    for name, (text, more, status, code, says) in HOSTILE.items():
        run, _ = world.run(text, **more)
        assert run.refusal is None, (name, world.registry.opened(run.refusal))
        outcome, manifests = world.ended(run)
        assert (outcome["status"], outcome["exit"]) == (status, code) and says in outcome["reason"], (name, outcome)
        assert ("model" in manifests) == (status == "succeeded"), name
        world.nothing_runs()
        if name == "a full log":
            assert len(run.log) == 5000 and len(world.files(manifests["log"])["log.txt"]) == 5000


def metrics_of_a_failed_run_are_kept(world):
    run, _ = world.run("echo '{}' > /out/metrics.jsonl; exit 1")
    assert sorted(world.ended(run)[1]) == ["log", "metrics"]


STAY = "trap '' TERM; echo ready; sh -c 'trap \"\" TERM; sleep 60; : MARK' & sh -c 'sleep 60; : MARK'; sleep 60"


def the_registry_stops_a_run(world):
    run, _ = world.give(world.script(STAY))
    world.peer.wait(lambda: run.log, "no log")
    run.stop = "a policy forbids it today"
    world.peer.wait(lambda: world.said("the registry stops the run"), "it goes on")
    world.nothing_runs()
    world.peer.wait(lambda: not os.listdir(os.path.join(world.state, "leases")), "the lease has not ended")
    assert run.result is None and run.refusal is None


def lost_answers_change_nothing(world):
    for route in ("leases", "start", "token", "log", "heartbeat", "result", "blob", "upload", "manifests"):
        world.peer.fail(route, "lose")
        run, _ = world.run("echo hello; mkdir /out/model; echo 1 > /out/model/1")
        assert run.refusal is None and world.ended(run)[0]["status"] == "succeeded", route
        assert run.log == b"hello\n", (route, run.log)
        world.peer.wait(lambda: not os.listdir(os.path.join(world.state, "leases")), f"{route}: the lease has not ended")
    for route in ("leases", "start", "result", "refusal"):
        world.peer.fail(route, "close", 503)
    refused(world, spec(world.peer.push("code", {"train.sh": b""}), pool="other"), "proof", "another pool")
    run, _ = world.run("mkdir /out/model; echo 1 > /out/model/1")
    assert world.ended(run)[0]["status"] == "succeeded"


def the_attempt_has_ended_elsewhere(world):
    for route in ("start", "result"):
        world.peer.fail(route, 409)
        run, _ = world.give(world.script("mkdir /out/model; echo 1 > /out/model/1"))
        world.peer.wait(lambda: not world.peer.faults[route], f"{route} was not called")
        world.peer.wait(lambda: not os.listdir(os.path.join(world.state, "leases")), "the lease has not ended")
        assert run.result is None and run.refusal is None
    world.nothing_is_left()


SERVED = (a_run_comes_back_with_its_result, each_check_has_a_signed_refusal, what_is_made_states_the_label_of_all_that_was_read,
          labels_that_manifests_state_count_before_anything_is_fetched, what_is_fetched_has_its_digest, a_run_in_an_image, an_image_is_kept_for_its_project,
          images_are_refused,
          tasks_of_a_run, a_lease_is_taken_once,
          a_withdrawn_key_runs_nothing, hostile_code_has_one_end, metrics_of_a_failed_run_are_kept, the_registry_stops_a_run, lost_answers_change_nothing,
          the_attempt_has_ended_elsewhere)


run_tests(SERVED, starts=True, options=("--image-bytes=67108864", "--image-cache=33554432"))
