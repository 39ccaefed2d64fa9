#!/usr/bin/env python3
"""From a signed result to an admitted artifact, on two gateways: what is stored with it, results that are refused, late or repeated, labels, policies of
the day, withdrawn runners, reserved types, and gateways and sijil-keyd that are killed in between."""
import http.client
import json
import os
import random
import secrets
import signal
import struct
import subprocess
import threading
import time
import uuid

import sijil_test
from real_runner import RealRunner
from run_fleet import TRAINING, RunFleet
from run_sender import LOG, METRICS, Sender, contents, digests, manifest, produced, result
from run_world import FOLDER, PROJECT, Key, Person, Runner, World, artifact, canonical, opened, prefixed, spec, stated, utc
from sijil_test import make_robot, program, run, sha256

server = RunFleet(2).start()
state = {}
ROUNDS = int(os.environ.get("SIJIL_RUN_KILLS", "1"))  # script/soak kills more often
TRAINED = PROJECT + "/trained"
PROVENANCE, ADMISSION = "application/vnd.sijil.run-provenance.v1", "application/vnd.sijil.run-admission.v1"


sql, load = server.sql, server.load


def usual():
    """Another set with the same rules."""
    load(at_most="sensitive", policies=[health(server.epoch + 10, TRAINING)])


def prepare():
    conninfo = f"host={server.database_at} dbname=sijil_template user=sijil_app"
    world = state["world"] = World(server, server.path("approver.pem"), conninfo, server.path("socket"))
    state["alice"] = Person(world, "alice")
    state["runner"], state["other"] = Sender(world), Sender(world, pool="leaving")
    state["pusher"] = server.client(make_robot(server, "pusher", "publisher", PROJECT))
    state["reader"] = server.client(make_robot(server, "reader", "consumer", PROJECT))


def place(name=TRAINED):
    return state["pusher"].repository(name)


def leased(runner=None, **more):
    """A run that this runner has started: the request and its bundle."""
    runner = runner or state["runner"]
    asked = state["alice"].request(**more)
    bundle = runner.lease()
    assert opened(bundle["lease"])[0]["run"] == asked["run"]
    assert runner.start(asked["run"], attempt=opened(bundle["lease"])[0]["attempt"]).status == 204
    return asked, bundle


def finished(runner=None, made=None, **more):
    """A run whose result the registry has taken."""
    runner, made = runner or state["runner"], made or produced()
    asked, bundle = leased(runner, **more)
    text = result(runner, bundle, made)
    answer = runner.finish(bundle, text, made)
    assert answer.status == 200 and answer.json["state"] in ("finishing", "succeeded"), answer.body
    return asked, bundle, text, made


def keep_away(asked):
    """No gateway works on the run until let_go()."""
    sql(f"UPDATE run SET claimed_by = 'nobody', claimed_until = 'infinity' WHERE run_id = '{asked['run']}'")


def let_go(asked):
    sql(f"UPDATE run SET claimed_until = 'epoch' WHERE run_id = '{asked['run']}' AND ended_at IS NULL; SELECT pg_notify('sijil_run_result', '')")


def ended(asked, wanted, seconds=60):
    state["alice"].wait(asked, wanted, seconds)
    return state["alice"].run(asked)


def referrers(digest, where=TRAINED):
    answer = state["reader"].repository(where).call("GET", "referrers/" + digest, scope=f"repository:{where}:pull")
    assert answer.status == 200, answer.body
    return {one["artifactType"]: one for one in answer.json["manifests"]}


def layer_of(descriptor, where=TRAINED):
    """The content of a referrer's first layer, and the referrer. Beside a result is the certificate of its key."""
    there = state["reader"].repository(where)
    scope = f"repository:{where}:pull"
    manifest_json = there.call("GET", "manifests/" + descriptor["digest"], scope=scope).json
    contents_of = [there.call("GET", "blobs/" + layer["digest"], scope=scope).body for layer in manifest_json["layers"]]
    if manifest_json["artifactType"] == PROVENANCE:
        (result_of, _), (certificate, digest_of_it) = (opened(one) for one in contents_of)
        assert result_of["predicate"]["buildDefinition"]["externalParameters"]["certificate"] == digest_of_it and certificate["schema"] == "sijil.run-certificate/v1"
    assert len(contents_of) == (2 if manifest_json["artifactType"] == PROVENANCE else 1)
    return contents_of[0], manifest_json


def blobs_of(made, name="model"):
    value = json.loads(made[name])
    return [one["digest"] for one in [value["config"], *value["layers"]] if one["digest"] != sha256(b"{}")]


def check_held(made, where=TRAINED, names=("model", "log")):
    """Nobody gets what a run has uploaded: not its blobs, not with a manifest of one's own, and the answers are those of what is nowhere."""
    pull, absent = f"repository:{where}:pull", "sha256:" + secrets.token_hex(32)
    pushing = f"repository:{where}:pull,push"
    for name in [one for one in names if one in made]:
        (blob,) = blobs_of(made, name)
        for client in (state["reader"], state["pusher"]):
            for method, path in (("GET", "blobs/"), ("HEAD", "blobs/"), ("GET", "manifests/")):
                answers = [client.repository(where).call(method, path + one, scope=pull) for one in (blob if path == "blobs/" else sha256(made[name].encode()), absent)]
                assert [one.status for one in answers] == [404, 404] and answers[0].body == answers[1].body, (method, path, answers[0].body, answers[1].body)
        for method, path in (("POST", f"blobs/uploads/?mount={{}}&from={where}"), ("POST", "blobs/uploads/?mount={}"), ("DELETE", "blobs/{}")):
            statuses = [place(where).call(method, path.format(one), b"" if method == "POST" else None, scope=pushing).status for one in (blob, absent)]
            assert statuses[0] == statuses[1] != 201, (method, path, statuses)
        place(where).push_blob(b"{}")
        answer = place(where).put_manifest("prod", made[name].encode())
        assert answer.status in (403, 400, 404), (answer.status, answer.body)
        assert "log" in name or blob in answer.body.decode(), answer.body
    assert state["reader"].repository(where).call("GET", "manifests/prod", scope=pull).status == 404


def check_shown(made, where=TRAINED):
    (blob,) = blobs_of(made)
    answer = state["reader"].repository(where).call("GET", "blobs/" + blob, scope=f"repository:{where}:pull")
    assert answer.status == 200 and sha256(answer.body) == blob, (answer.status, answer.body[:100])


# ---- admission ----

def a_result_becomes_an_admitted_artifact():
    runner, made = state["runner"], produced()
    asked, bundle = leased()
    runner.upload(bundle, made)
    check_held(made)
    keep_away(asked)
    text = result(runner, bundle, made)
    assert runner.finish(bundle, text, made).json == {"state": "finishing"}
    check_held(made)
    let_go(asked)
    state["first"] = asked, bundle, text, made
    shown = ended(asked, "succeeded")
    check_shown(made)
    digest = digests(made)["model"]
    assert shown["outputs"] == [{"name": "model", "repository": TRAINED, "digest": digest}], shown["outputs"]
    kinds = [one["kind"] for one in shown["envelopes"]]
    assert kinds == ["request", "order", "result", "admission"], kinds
    assert place().call("GET", "manifests/" + digest).body == made["model"].encode()
    found = referrers(digest)
    assert sorted(found) == sorted([PROVENANCE, ADMISSION, LOG, METRICS]), found
    for kind, wanted in ((PROVENANCE, text.encode()), (METRICS, b'{"loss": 1}\n')):
        content, kept = layer_of(found[kind])
        assert content == wanted and kept["subject"]["digest"] == digest and kept["annotations"] == {"sijil.run": asked["run"], **stated()}, kept
    assert layer_of(found[LOG])[0].startswith(b"epoch 1\n")
    admission = layer_of(found[ADMISSION])[0].decode()
    assert admission == next(one["envelope"] for one in shown["envelopes"] if one["kind"] == "admission")
    statement = opened(admission)[0]
    assert statement["subject"] == [{"name": "model", "digest": {"sha256": digest[7:]}}]
    assert statement["predicate"]["inputAttestations"][-1]["digest"]["sha256"] == opened(text)[1][7:]


def verify(bundle):
    """What `sijil-verify run` says."""
    keys = server.client(server.admin).api("GET", "/audit/key")
    path, signer = os.path.join(FOLDER.name, "bundle"), os.path.join(FOLDER.name, "signer.pem")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(bundle, file)
    with open(signer, "w", encoding="ascii") as file:
        file.write(keys["documents"])
    return subprocess.run([program("sijil-verify"), "run", "--key", keys["vkey"], "--signer", signer, "--root", server.path("approver.pub.pem"), path],
                          capture_output=True, text=True, timeout=60)


def an_outsider_verifies_the_bundle_with_its_admission():
    asked = state["first"][0]
    answer = state["alice"].call("GET", f"/{asked['run']}/bundle")
    assert answer.status == 200 and "admission" in answer.json, answer.body[:300]
    verified = verify(answer.json)
    assert verified.returncode == 0 and "admi" in verified.stdout, (verified.stdout, verified.stderr)
    for says in (f"root of the machine of the runner {state['runner'].id}", "the region local/main and the jurisdictions AE;",
                 "with the assurance 1 nobody vouches"):  # whom the verifier must trust in addition
        assert says in verified.stdout, verified.stdout


def lineage_goes_from_the_dataset_to_the_artifact():
    asked, _, _, made = state["first"]
    rows = sql(f"SELECT role || ' ' || name || ' ' || repository || ' ' || digest FROM run_lineage WHERE run_id = '{asked['run']}' ORDER BY role").split("\n")
    code, data = artifact(PROJECT + "/code"), artifact(PROJECT + "/digits")
    assert rows == [f"code code {code['repository']} {code['digest']}", f"input digits {data['repository']} {data['digest']}",
                    f"output model {TRAINED} {digests(made)['model']}"], rows
    made_from = f"SELECT o.digest FROM run_lineage i JOIN run_lineage o USING (run_id) WHERE i.digest = '{data['digest']}' AND o.role = 'output'"
    assert digests(made)["model"] in sql(made_from).split("\n")


def the_very_same_result_again_answers_the_same():
    asked, bundle, text, made = state["first"]
    for port in server.ports:
        answer = state["runner"].finish(bundle, text, made, port)
        assert answer.status == 200 and answer.json == {"state": "succeeded"}, answer.body
    assert sql(f"SELECT count(*) FROM run_envelope WHERE run_id = '{asked['run']}' AND kind IN ('result', 'late')") == "1"
    admits = [one for one in state["world"].events("run.admit") if asked["run"] in json.dumps(one)]
    assert sorted(one["out"] for one in admits) == ["allowed", "completed"], admits


def outputs_of_several_repositories_have_all_referrers():
    outputs = [{"name": name, "repository": where, "type": "application/vnd.example+json"} for name, where in (("a", TRAINED), ("b", PROJECT + "/second"))]
    made = produced(outputs=[one["name"] for one in outputs])
    asked, _, _, _ = finished(made=made, spec=spec(outputs=outputs))
    ended(asked, "succeeded")
    for one in outputs:
        found = referrers(digests(made)[one["name"]], one["repository"])
        assert sorted(found) == sorted([PROVENANCE, ADMISSION, LOG, METRICS]), found
        assert layer_of(found[LOG], one["repository"])[0].startswith(b"epoch 1\n")


# ---- the real runner ----

TRAIN = b"""set -e
echo training on $(cat /in/digits/a.txt)
mkdir -p /out/model/deep
cat /in/digits/a.txt > /out/model/w.bin
echo more > /out/model/deep/m.json
echo '{"loss": 1}' > /out/metrics.jsonl
"""


def push(name, files):
    """An artifact with these files, as a spec names it."""
    where = f"{PROJECT}/{name}"
    there = place(where)
    layers = [{"mediaType": "application/octet-stream", "digest": there.push_blob(content), "size": len(content),
               "annotations": {"org.opencontainers.image.title": title}} for title, content in files.items()]
    text = there.manifest(layers=layers)
    assert there.put_manifest("latest", text).status == 201
    return {"repository": where, "digest": sha256(text)}


def the_real_runner_goes_from_the_request_to_the_artifact():
    """Twice with the same seed: the same digest. Then a program that fails, and a runner that is killed while it trains."""
    described = server.client().call("GET", "/api/v1/openapi.json")
    if "/runner/runs/{run}/token" not in described.body.decode():
        raise sijil_test.LeftOut("this gateway gives runs no tokens, so a runner can't fetch")
    runner = Runner(state["world"], pool="real")
    data = {"name": "digits", **push("real-digits", {"a.txt": b"some digits\n"})}
    wanted = {"pool": "real", "inputs": [data], "argv": ["/bin/sh", "/code/train.sh"],
              "outputs": [{"name": "model", "repository": PROJECT + "/real", "type": "application/vnd.cncf.model.manifest.v1+json"}]}
    code, failing = push("real-code", {"train.sh": TRAIN}), push("real-failing", {"train.sh": b"echo oh; exit 3\n"})
    slow = push("real-slow", {"train.sh": b"sleep 4\n" + TRAIN})
    with RealRunner(server, runner) as real:
        runs = []
        for _ in range(2):
            asked = state["alice"].request(spec=spec(code=code, **wanted))
            runs.append(ended(asked, "succeeded", 90))
        digests_of = {one["outputs"][0]["digest"] for one in runs}
        assert len(digests_of) == 1, "the same run gives another model"
        digest = digests_of.pop()
        text = state["reader"].repository(PROJECT + "/real").call("GET", "manifests/" + digest, scope=f"repository:{PROJECT}/real:pull")
        assert text.status == 200 and {one["annotations"]["org.opencontainers.image.title"] for one in text.json["layers"]} == {"w.bin", "deep/m.json"}
        found = [one["artifactType"] for one in
                 state["reader"].repository(PROJECT + "/real").call("GET", "referrers/" + digest, scope=f"repository:{PROJECT}/real:pull").json["manifests"]]
        assert sorted(set(found)) == sorted([PROVENANCE, ADMISSION, LOG, METRICS]), found
        asked = state["alice"].request(spec=spec(code=failing, **wanted))
        assert ended(asked, "failed", 90)["reason"] == "the program ended with the status 3"
        assert sql(f"SELECT string_agg(name, ' ') FROM held_manifest WHERE run_id = '{asked['run']}'") == "log"
        asked = state["alice"].request(spec=spec(code=slow, **wanted))
        state["alice"].wait(asked, "running", 60)
        real.kill()
        sql(f"UPDATE run_attempt SET deadline = now() WHERE run_id = '{asked['run']}' AND ended_at IS NULL")  # it is silent from now on
        real.start()
        shown = ended(asked, "succeeded", 120)
        assert shown["attempt"] == 2 and shown["outputs"][0]["digest"] == digest, shown


# ---- bad results ----

def unclear_layers(layer):
    """Layers of which clients make different files, and what the registry says."""
    def titled(title, **more):
        return {**layer, "annotations": {"org.opencontainers.image.title": title, **more}}
    unpack = {"io.deis.oras.content.unpack": "true"}
    yield from (([titled(title)], "model: the title of layer 1 is no path") for title in ("../x", "/etc/x", "", "a\nb", "."))
    yield [titled("a", **unpack)], "layer 1 has an annotation"
    yield [titled("a", **{"org.cncf.model.filepath": "b"})], "layer 1 has two titles"
    yield [titled("a"), titled("b"), titled("a")], "two layers are called 'a'"
    yield [titled("x/y"), titled("x")], "'x/y' needs a folder of that name"
    yield [{name: value for name, value in layer.items() if name != "annotations"}], "layer 1 has none"


def a_result_counts_under_the_certified_key_alone():
    """Each certificate and signer that is not that of this lease is refused with its reason, and the right result counts afterwards."""
    runner, made = state["runner"], produced()
    asked, bundle = leased()
    key, certificate = runner.certify(bundle)
    lease, _ = opened(bundle["lease"])
    zeros = "sha256:" + "0" * 64

    def refused(status, says, text=None, certified=certificate):
        answer = runner.call(f"runs/{asked['run']}/result", {"attempt": 1, "node": 0, "certificate": certified,
                                                             "result": text or result(runner, bundle, made), "manifests": made})
        assert answer.status == status and says in answer.body.decode(), (status, says, answer.status, answer.body)
    refused(403, "the runner's own key has signed it", result(runner, bundle, made, key=runner.key))
    refused(403, "is signed by the key", result(runner, bundle, made, key=Key()))
    refused(400, "the certificate", certified="{}")
    refused(403, "another runner's key", certified=state["other"].make_certificate(bundle, key))
    for changes, says in (({"signer": Key()}, "is signed by the key"), ({"order": zeros}, "another order"), ({"lease": zeros}, "another lease"),
                          ({"attempt": 2}, "attempt is not that of the lease"), ({"node": 1}, "node is not that of the lease"),
                          ({"run": str(uuid.uuid4())}, "run is not that of the lease"), ({"audience": "elsewhere"}, "audience is not"),
                          ({"expires": lease["not_before"]}, "expires must be after"), ({"expires": utc(time.time() + 4 * 86400)}, "not within the lease's")):
        certified = runner.make_certificate(bundle, key, **changes)
        refused(403, says, result(runner, bundle, made, certificate=certified), certified)
    certified = runner.make_certificate(bundle, runner.key)
    refused(403, "the runner's own key has signed it", result(runner, bundle, made, certificate=certified, key=runner.key), certified)
    for more, says in ((certified, "it is for the runner's own key"), (runner.make_certificate(bundle, key, attempt=2), "attempt is not that of the lease"),
                       (runner.make_certificate(bundle, key, lease=zeros), "another lease"), (runner.make_certificate(bundle, key, signer=Key()), "is signed by the key")):
        answer = runner.call(f"runs/{asked['run']}/start", {"attempt": 1, "node": 0, "certificate": more})
        assert answer.status == 403 and says in answer.body.decode(), (says, answer.body)
    assert runner.call(f"runs/{asked['run']}/start", {"attempt": 1, "node": 0}).status == 400
    assert runner.ask().status == 204, "nothing of that suspends the key"
    runner.upload(bundle, made)
    answer = runner.call(f"runs/{asked['run']}/result", {"attempt": 1, "node": 0, "certificate": certificate, "result": result(runner, bundle, made), "manifests": made})
    assert answer.status == 200, answer.body
    ended(asked, "succeeded")


def the_same_certificate_may_be_signed_anew():
    """The digest of an envelope does not depend on the signature's bytes. That of the start stays."""
    runner, made = state["runner"], produced()
    asked, bundle = leased()
    key, first = runner.certified[bundle["lease"]]
    anew = runner.make_certificate(bundle, key)
    assert anew != first and opened(anew)[1] == opened(first)[1]
    runner.certified[bundle["lease"]] = key, anew
    answer = runner.finish(bundle, result(runner, bundle, made), made)
    assert answer.status == 200, answer.body
    ended(asked, "succeeded")
    value = state["alice"].call("GET", f"/{asked['run']}/bundle").json
    assert value["certificate"] == first and verify(value).returncode == 0


def a_second_key_of_one_lease_suspends():
    """A thief of the runner's key has certified a key of its own for the lease that the runner has, and is faster with a result."""
    runner, made = Sender(state["world"], pool="certified-twice"), produced()
    asked, bundle = leased(runner, spec=spec(pool="certified-twice"))
    thief = Key()
    second = runner.make_certificate(bundle, thief)
    answer = runner.call(f"runs/{asked['run']}/start", {"attempt": 1, "node": 0, "certificate": second})
    assert answer.status == 409 and "another certificate" in answer.body.decode(), answer.body
    runner.upload(bundle, made)
    text = result(runner, bundle, made, certificate=second, key=thief)
    answer = runner.call(f"runs/{asked['run']}/result", {"attempt": 1, "node": 0, "certificate": second, "result": text, "manifests": made})
    assert answer.status == 409 and "two different results of one lease" in answer.body.decode(), answer.body
    assert runner.ask().json["type"] == "runner-suspended"
    assert "outputs" not in state["alice"].run(asked) and sql(f"SELECT count(*) FROM run_envelope WHERE run_id = '{asked['run']}' AND kind = 'result'") == "0"


def a_certificate_in_a_row_stays():
    runner, made = state["runner"], produced()
    asked, bundle = leased()
    try:
        said = sql(f"UPDATE run_attempt SET certificate = '{{}}' WHERE run_id = '{asked['run']}'")
    except (AssertionError, subprocess.CalledProcessError, RuntimeError) as refused:
        said = str(refused)
    assert "has a certified key already" in said, said
    assert runner.finish(bundle, result(runner, bundle, made), made).status == 200
    ended(asked, "succeeded")


def a_bad_result_is_refused_with_the_rule():
    runner, made = state["runner"], produced()
    asked, bundle = leased()
    good = result(runner, bundle, made)

    def refused(status, says, text=good, manifests=None, who=runner):
        answer = who.finish(bundle, text, made if manifests is None else manifests)
        assert answer.status == status and says in answer.body.decode(), (status, says, answer.status, answer.body)
    refused(404, "", who=state["other"])
    refused(403, "", text=result(runner, bundle, made, key=Key()))
    refused(400, "", text="{}")
    refused(403, "its runner is not that of the lease", text=result(runner, bundle, made, builder={"id": "urn:sijil:runner:" + state["other"].id}))
    refused(403, "without all outputs", text=runner.result(bundle, {"log": digests(made)["log"]}, sha256(made["metrics"].encode())))
    refused(400, "exactly one text", manifests={name: made[name] for name in ("log", "model")})
    refused(400, "exactly one text", manifests={**made, "more": made["model"]})
    refused(400, "no text for model", manifests={**made, "model": 1})
    refused(400, "not the one that the result names", manifests={**made, "model": made["log"]})
    for name, text, says in (("model", manifest("application/vnd.other", "m", b"m"), "has the type"),
                             ("log", manifest("application/vnd.example+json", "m", b"m"), "has the type"),
                             ("model", manifest("application/vnd.example+json", "m", b"m", subject={
                                 "mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": digests(made)["model"], "size": len(made["model"])}),
                              "has a subject"),
                             ("model", made["model"].replace(sha256(b"{}"), sha256(b"nothing")), "upload it"),
                             ("model", made["model"].replace('"size": 2', '"size": 3'), "has not uploaded it with 3 bytes")):
        changed = {**made, name: text}
        refused(400, says, text=result(runner, bundle, changed), manifests=changed)
    for layers, says in unclear_layers(json.loads(made["model"])["layers"][0]):
        changed = {**made, "model": json.dumps({**json.loads(made["model"]), "layers": layers})}
        refused(400, says, text=result(runner, bundle, changed), manifests=changed)
    large = {**made, "model": made["model"] + " " * (4 << 20)}
    answer = runner.finish(bundle, good, large)
    assert answer.status == 413, (answer.status, answer.body)
    assert state["alice"].run(asked)["state"] == "running"
    assert runner.finish(bundle, good, made).status == 200
    ended(asked, "succeeded")


def elsewhere(text, content, **layer):
    """The manifest with another layer, which nobody uploads for it."""
    value = json.loads(text)
    value["layers"][0].update(digest=sha256(content), size=len(content), **layer)
    return json.dumps(value)


def a_result_has_only_what_its_lease_has_uploaded():
    """A blob of a publisher would else become readable where the log goes; and the answer would tell that it is there."""
    runner, made, secret = state["runner"], produced(), b"the weights of somebody else " + secrets.token_bytes(8)
    place().push_blob(secret)
    asked, bundle = leased()
    runner.upload(bundle, made)
    answers = []
    for content in (secret, b"nobody has this " + secrets.token_bytes(21)):
        for name in ("log", "model", "metrics"):
            changed = {**made, name: elsewhere(made[name], content)}
            answer = runner.finish(bundle, result(runner, bundle, changed), changed)
            assert answer.status == 400 and "this lease has not uploaded it" in answer.body.decode(), answer.body
            answers.append(answer.json["detail"].replace(sha256(content), "DIGEST"))
    assert answers[:3] == answers[3:], "the answer tells whether somebody has the blob"
    token = runner.token(bundle).json["access_token"]
    claimed = runner.send(token, TRAINED, bytes(len(secret)), sha256(secret))
    assert claimed.status == 400, (claimed.status, claimed.body)
    changed = {**made, "log": elsewhere(made["log"], secret)}
    answer = runner.finish(bundle, result(runner, bundle, changed), changed)
    assert answer.status == 400 and "this lease has not uploaded it" in answer.body.decode(), "who names a digest has no blob"
    failed = {"log": changed["log"]}
    answer = runner.finish(bundle, result(runner, bundle, failed, status="failed", exit_status=1), failed)
    assert answer.status == 400 and place().call("DELETE", "blobs/" + sha256(secret)).status == 202, "a result keeps a blob of somebody else"
    assert runner.finish(bundle, result(runner, bundle, made), made).status == 200
    ended(asked, "succeeded")


def a_log_is_one_layer_and_a_config_is_empty():
    runner, made = state["runner"], produced()
    _, bundle = leased()
    twice, named, configured = (json.loads(made[name]) for name in ("log", "metrics", "model"))
    twice["layers"] *= 2
    named["layers"][0]["annotations"]["org.opencontainers.image.title"] = "log.txt"
    configured["config"]["mediaType"] = ADMISSION
    for name, value, says in (("log", twice, "exactly one layer, with the title log.txt"),
                              ("metrics", named, "exactly one layer, with the title metrics.jsonl"),
                              ("model", configured, "has a config of the type " + ADMISSION)):
        changed = {**made, name: json.dumps(value)}
        answer = runner.finish(bundle, result(runner, bundle, changed), changed)
        assert answer.status == 400 and says in answer.body.decode(), answer.body
    assert runner.finish(bundle, result(runner, bundle, made), made).status == 200


def what_was_never_started_has_not_succeeded():
    """Else a model would be admitted, and the log would never say that its program ran."""
    runner, made = state["runner"], produced()
    asked = state["alice"].request()
    bundle = runner.lease()
    assert opened(bundle["lease"])[0]["run"] == asked["run"]
    text = result(runner, bundle, made)
    answer = runner.finish(bundle, text, made)
    assert answer.status == 409 and "never started" in answer.json["detail"], (answer.status, answer.body)
    assert state["alice"].run(asked)["state"] == "leased" and sql(f"SELECT count(*) FROM run_envelope WHERE run_id = '{asked['run']}' AND kind IN ('late', 'result')") == "0"
    assert runner.start(asked["run"]).status == 204
    assert runner.finish(bundle, text, made).status == 200
    ended(asked, "succeeded")


def rows_of_others_are_no_outputs():
    """With the database role: lineage that no admission has, for a run that was admitted and for one that never was; and a foreign admission."""
    good, _, _, made = state["first"]
    other = state["alice"].request(spec=spec(pool="nobody"))
    state["alice"].call("DELETE", "/" + other["run"])
    for asked in (good, other):
        sql(f"INSERT INTO run_lineage VALUES ('{asked['run']}', 'output', 'invented', '{TRAINED}', 'sha256:{'d' * 64}')")
    sql("INSERT INTO run_envelope (run_id, kind, digest, principal, envelope) SELECT '" + other["run"] + "', kind, digest, principal, envelope"
        f" FROM run_envelope WHERE run_id = '{good['run']}' AND kind = 'admission'")
    assert state["alice"].run(good)["outputs"] == [{"name": "model", "repository": TRAINED, "digest": digests(made)["model"]}]
    assert "outputs" not in state["alice"].run(other), state["alice"].run(other)


def a_program_that_failed_leaves_its_log():
    for status, wanted in (("failed", "failed"), ("timeout", "failed"), ("cancelled", "cancelled")):
        asked, bundle = leased()
        whole = produced()
        state["runner"].upload(bundle, whole)
        made = {name: text for name, text in whole.items() if name != "model"}
        text = result(state["runner"], bundle, made, status=status, exit_status=9, reason="out of ideas" if status == "failed" else "")
        answer = state["runner"].finish(bundle, text, made)
        assert answer.status == 200 and answer.json == {"state": wanted}, answer.body
        assert state["runner"].finish(bundle, text, made).json == {"state": wanted}
        shown = state["alice"].run(asked)
        assert shown["reason"] == ("out of ideas" if status == "failed" else f"the runner says {status}, with the status 9"), shown
        assert "outputs" not in shown
        held = sql(f"SELECT string_agg(name, ' ' ORDER BY name) FROM held_manifest WHERE run_id = '{asked['run']}'")
        assert held == "log metrics", held
        assert place().call("GET", "manifests/" + digests(made)["log"]).status == 404, "it is no manifest of the repository"
        check_held(whole)


def late_and_second_results_are_kept_and_do_not_count():
    runner, made = state["runner"], produced()
    asked, bundle = leased()
    runner.upload(bundle, made)
    assert state["alice"].call("DELETE", "/" + asked["run"]).status == 204
    text = result(runner, bundle, made)
    for _ in range(2):
        answer = runner.finish(bundle, text, made)
        assert answer.status == 409 and "does not count" in answer.body.decode(), answer.body
    assert state["alice"].run(asked)["state"] == "cancelled"
    assert sql(f"SELECT string_agg(name, ' ' ORDER BY name) FROM held_manifest WHERE run_id = '{asked['run']}'") == "log metrics"
    cancelled, made = asked, produced()
    asked, bundle = leased()
    sql(f"UPDATE run_attempt SET ended_at = now(), outcome = 'lost' WHERE run_id = '{asked['run']}';"
        f"UPDATE run SET state = 'ordered' WHERE run_id = '{asked['run']}'")  # as after a silence
    sql("INSERT INTO run_envelope (run_id, kind, digest, principal, envelope) SELECT '%s', 'late', sha256(n::text::bytea), principal, envelope"
        " FROM run_envelope, generate_series(1, 8) AS n WHERE run_id = '%s' AND kind = 'late'" % (asked["run"], cancelled["run"]))
    answer = runner.finish(bundle, result(runner, bundle, made), made)  # runners can't fill the database with them
    assert answer.status in (413, 429, 409) and "keeps no more" in answer.body.decode(), (answer.status, answer.body)
    again = runner.lease()
    assert opened(again["lease"])[0]["attempt"] == 2 and runner.start(asked["run"], attempt=2).status == 204
    assert runner.finish(again, result(runner, again, made), made).status == 200
    ended(asked, "succeeded")


def a_rerun_names_a_run_of_the_project_and_its_order():
    first = state["first"][0]
    order = next(one["digest"] for one in state["alice"].run(first)["envelopes"] if one["kind"] == "order")
    for run_id, digest in ((str(uuid.uuid4()), order), (first["run"], "sha256:" + "e" * 64)):
        try:
            state["alice"].request(rerun={"run": run_id, "order": digest}, spec=spec(pool="none"))
        except AssertionError as refused:
            assert "this project has no such run with this order" in str(refused), refused
            continue
        raise RuntimeError("a run that never was can be repeated")
    asked = state["alice"].request(rerun={"run": first["run"], "order": order}, spec=spec(pool="none"))
    assert state["alice"].call("DELETE", "/" + asked["run"]).status == 204


# ---- copies of a runner ----

def a_runner_that_was_started_again_sends_its_result_and_nothing_else():
    runner, made = Sender(state["world"], pool="again"), produced()
    asked, bundle = leased(runner, spec=spec(pool="again"))
    runner.upload(bundle, made)
    runner.restart()
    text = result(runner, bundle, made)
    answer = runner.finish(bundle, text, made)
    assert answer.status == 409 and "ask for work first" in answer.body.decode(), answer.body
    assert runner.ask().status == 204
    assert runner.beat(asked["run"]).status == 409 and runner.token(bundle).status == 409
    assert runner.finish(bundle, text, made).status == 200
    ended(asked, "succeeded")


def a_suspended_key_gets_nothing_admitted():
    runner, made = Sender(state["world"], pool="suspended"), produced()
    asked, bundle = leased(runner, spec=spec(pool="suspended"))
    keep_away(asked)
    assert runner.finish(bundle, result(runner, bundle, made), made).status == 200
    runner.session = secrets.token_hex(16)  # a copy of it asks
    assert runner.ask().json["type"] == "runner-suspended"
    let_go(asked)
    shown = ended(asked, "quarantined")
    assert "the key of its runner is suspended" in shown["reason"], shown
    assert place().call("GET", "manifests/" + digests(made)["model"]).status == 404


def two_results_of_one_lease_suspend_the_key():
    """The copy was faster. Nobody can tell which of them is the runner, but both are known to be there."""
    runner = Sender(state["world"], pool="twice")
    asked, bundle, text, made = finished(runner, spec=spec(pool="twice"))
    ended(asked, "succeeded")
    second = produced()
    answer = runner.finish(bundle, result(runner, bundle, second), second)
    assert answer.status == 409 and "two different results of one lease" in answer.body.decode(), answer.body
    assert runner.ask().json["type"] == "runner-suspended" and runner.finish(bundle, text, made).status == 409
    shown = state["alice"].run(asked)
    assert shown["outputs"][0]["digest"] == digests(made)["model"] and [one["kind"] for one in shown["envelopes"]].count("result") == 1
    assert "two different results" in shown["doubts"][0]["reason"] and shown["doubts"][0]["key"] == runner.key.name, shown["doubts"]
    assert sql(f"SELECT count(*) FROM run_envelope WHERE run_id = '{asked['run']}' AND kind = 'late'") == "1"
    for kind, about in (("run.doubt", asked["run"]), ("runner.suspend", runner.key.name)):
        assert len([one for one in state["world"].events(kind) if about in json.dumps(one)]) == 1, kind


# ---- labels and policies of the day ----

def health(version, operations):
    """A policy of the repository with the patients."""
    return {"apiVersion": "sijil.policy/v1", "kind": "ResidencyPolicy", "labels": {"class": "sensitive", "subjects": ["health"]},
            "metadata": {"id": "health", "version": version, "scope": [PROJECT + "/patients"], "effective_from": "2020-01-01T00:00:00Z",
                         "review_by": "2099-01-01"},
            "rules": [{"id": "H-PERMIT", "effect": "permit", "ops": list(operations), "when": {"class_at_most": "sensitive"}}]}


HEALTH = stated(**{"class": "sensitive", "pins": ["all", "health"], "subjects": ["health"]})


def outputs_get_the_join_of_all_labels():
    load(at_most="sensitive", policies=[health(1, TRAINING)])
    data, second = PROJECT + "/patients", PROJECT + "/labelled"
    place(data).push_blob(b"a patient")
    server.client(server.admin).api("PUT", f"/repositories/{data}/label", {"attached": ["AE-FED"]})
    wanted = spec(inputs=[{"name": "digits", **artifact(data)}], outputs=[{"name": "model", "repository": second, "type": "application/vnd.example+json"}])
    asked, bundle = leased(spec=wanted)
    for members in ({}, {"annotations": {}}, {"annotations": stated(pins=["all", "health"], subjects=["health"])}):
        made = produced(**members)
        answer = state["runner"].finish(bundle, result(state["runner"], bundle, made), made)
        assert answer.status == 400 and (b"lacks a part" if members != {"annotations": {}} else b"no annotation sijil.label") in answer.body, answer.body
    made = produced(annotations=HEALTH)
    assert state["runner"].finish(bundle, result(state["runner"], bundle, made), made).status == 200
    ended(asked, "succeeded")
    label = json.loads(sql(f"SELECT label FROM run_label WHERE repository = '{second.split('/')[2]}'"))
    assert label["class"] == "sensitive" and label["subjects"] == ["health"] and label["attached"] == ["AE-FED"] and "health" in label["pins"], label
    digest = digests(made)["model"]
    pull = {"scope": f"repository:{second}:pull"}
    assert state["reader"].repository(second).call("GET", "manifests/" + digest, **pull).status == 200
    load(at_most="sensitive", policies=[health(2, [one for one in TRAINING if one != "read"])])
    answer = state["reader"].repository(second).call("GET", "manifests/" + digest, **pull)
    assert answer.status == 403, "the policy of the patients does not count for what was made of them"
    load(at_most="sensitive", policies=[health(3, TRAINING)])


def a_label_that_its_repository_lacks_quarantines():
    """A runner may state more than it must; but no manifest is admitted into a repository that is labelled less than the manifest says."""
    asked, bundle = leased()
    made = produced(annotations=stated(subjects=["child"]))
    assert state["runner"].finish(bundle, result(state["runner"], bundle, made), made).status == 200
    shown = ended(asked, "quarantined")
    assert "states a label that main/models/trained does not have" in shown["reason"], shown
    assert place().call("GET", "manifests/" + digests(made)["model"]).status == 404
    output = {"name": "model", "repository": PROJECT + "/labelled", "type": "application/vnd.example+json"}  # it has AE-FED, and no label has 33 regimes
    asked, bundle = leased(spec=spec(outputs=[output]))
    made = produced(annotations=stated(attached=[f"R{number:02}" for number in range(32)]))
    assert state["runner"].finish(bundle, result(state["runner"], bundle, made), made).status == 200
    shown = ended(asked, "quarantined")
    assert "states a label that main/models/labelled does not have" in shown["reason"], shown


def an_input_that_is_labelled_anew_before_the_admission_quarantines():
    data = PROJECT + "/relabelled"
    place(data).push_blob(b"a person")
    asked, bundle = leased(spec=spec(inputs=[{"name": "digits", **artifact(data)}]))
    made = produced()
    keep_away(asked)
    assert state["runner"].finish(bundle, result(state["runner"], bundle, made), made).status == 200
    server.client(server.admin).api("PUT", f"/repositories/{data}/label", {"attached": ["AE-FED"]})
    let_go(asked)
    shown = ended(asked, "quarantined")
    assert "has a stricter label than" in shown["reason"], shown
    assert place().call("GET", "manifests/" + digests(made)["model"]).status == 404
    check_held(made)


def the_policies_of_the_admission_count():
    """The gateways can't decide before keyd goes on; then another set is in force."""
    for more, says in (({"operations": [one for one in TRAINING if one != "train"]}, "do not allow a run with"),
                       ({"operations": [one for one in TRAINING if one != "ingest"]}, "be stored"),
                       ({"approvals": 1}, "the policies of today ask for 1 approvals")):
        asked, bundle = leased()
        made = produced()
        keep_away(asked)
        assert state["runner"].finish(bundle, result(state["runner"], bundle, made), made).status == 200
        load(at_most="sensitive", policies=[health(3, TRAINING)], **more)
        let_go(asked)
        shown = ended(asked, "quarantined")
        assert says in shown["reason"], shown
        assert place().call("GET", "manifests/" + digests(made)["model"]).status in (403, 404)
        usual()
        assert place().call("GET", "manifests/" + digests(made)["model"]).status == 404
        assert [one for one in state["world"].events("run.quarantine") if asked["run"] in json.dumps(one)]


def who_has_lost_the_right_to_train_gets_nothing_admitted():
    for number, (loses, says) in enumerate(((Person.lose_role, "the requester has lost all roles"), (Person.withdraw_key, "was withdrawn"))):
        thief = Person(state["world"], f"thief{number}")
        asked = thief.request()
        bundle, made = state["runner"].lease(), produced()
        assert opened(bundle["lease"])[0]["run"] == asked["run"] and state["runner"].start(asked["run"]).status == 204
        keep_away(asked)
        assert state["runner"].finish(bundle, result(state["runner"], bundle, made), made).status == 200
        loses(thief)
        let_go(asked)
        assert says in ended(asked, "quarantined")["reason"], state["alice"].run(asked)
        check_held(made)


def a_bundle_has_the_set_of_its_admission():
    """Another set came into force between the order and the admission: the bundle has both."""
    asked, bundle = leased()
    made = produced()
    keep_away(asked)
    assert state["runner"].finish(bundle, result(state["runner"], bundle, made), made).status == 200
    usual()
    let_go(asked)
    ended(asked, "succeeded")
    value = state["alice"].call("GET", f"/{asked['run']}/bundle").json
    order, admission = opened(value["order"])[0], opened(value["admission"])[0]["predicate"]
    assert admission["policy"]["uri"] == f"urn:sijil:policy-set:{order['policy']['epoch'] + 1}", admission
    assert len(value["policy_sets"]) == 2, len(value["policy_sets"])
    held = "  - nor did the policy set of the admission ask for more"
    lacks = "  - that the policies allowed the run at the admission"
    for sets, says, says_not in ((value["policy_sets"], held, lacks), (value["policy_sets"][:1], lacks, held)):
        verified = verify({**value, "policy_sets": sets})
        assert verified.returncode == 0 and says in verified.stdout and says_not not in verified.stdout, (verified.stdout, verified.stderr)
    verified = verify({**value, "policy_sets": value["policy_sets"][1:], "decisions": []})
    assert verified.returncode == 1 and "not the one that the order names" in verified.stderr, (verified.stdout, verified.stderr)


def keyd_signs_nothing_that_the_policies_in_force_forbid():
    """A compromised gateway has the socket of sijil-keyd, and an order, a lease and a result from before the set that forbids them."""
    asked, bundle = leased()
    made, key = produced(), state["runner"].key.name.encode()
    keep_away(asked)
    assert state["runner"].finish(bundle, result(state["runner"], bundle, made), made).status == 200
    whole = state["alice"].call("GET", f"/{asked['run']}/bundle").json
    ordered = {name: whole[name] for name in ("schema", "request", "approvals", "event", "order", "documents")}
    done = {**ordered, **{name: whole[name] for name in ("lease", "certificate", "result")}}

    def newest():
        with open(server.path("set.dsse"), encoding="utf-8") as file:
            return [file.read()]

    def wish(sets):
        """What it says to the same lease, to the next one, and to an admission."""
        for attempt in (1, 2):
            yield state["world"].ask_keyd(20, prefixed(canonical({**ordered, "policy_sets": sets})) + struct.pack(">I", 600) + key + bytes([attempt, 0]))
        yield state["world"].ask_keyd(21, prefixed(canonical({**done, "policy_sets": sets})) + bytes(40))
    load(at_most="sensitive", policies=[health(server.epoch + 10, [one for one in TRAINING if one != "train"])], operations=[one for one in TRAINING if one != "train"])
    sijil_test.wait_until(lambda: "rule SYS-" in next(wish(newest()))[1], 30, "the set is not in force")
    for sets, says in ((newest(), "the policy set in force: "), (whole["policy_sets"], "does not have the policy set in force"), ([], "does not have the policy set in force"),
                       ([bundle["order"]], "a policy set expected")):
        for signed, why in wish(sets):
            assert not signed and says in why, (says, signed, why)
    usual()
    sijil_test.wait_until(lambda: next(wish(newest()))[0], 30, "the set is not in force")
    answers = list(wish(newest()))
    assert all(signed for signed, _ in answers), answers
    assert opened(answers[2][1])[0]["predicate"]["policy"]["uri"] == f"urn:sijil:policy-set:{server.epoch}"
    let_go(asked)
    check_admitted_once(asked, made)
    value = state["alice"].call("GET", f"/{asked['run']}/bundle").json
    assert value["admission"] and verify(value).returncode == 0


def a_result_of_a_withdrawn_runner_does_not_count():
    runner = Sender(state["world"], pool="gone")
    asked, bundle = leased(runner, spec=spec(pool="gone"))
    made = produced()
    keep_away(asked)
    assert runner.finish(bundle, result(runner, bundle, made), made).status == 200
    runner.withdraw()
    let_go(asked)
    shown = ended(asked, "quarantined", 90)
    assert "withdrawn" in shown["reason"], shown
    assert runner.finish(bundle, result(runner, bundle, made), made).status == 401
    assert place().call("GET", "manifests/" + digests(made)["model"]).status == 404
    check_held(made)


def a_cancelled_run_leaves_its_blobs_to_nobody():
    runner, made = state["runner"], produced()
    asked, bundle = leased()
    runner.upload(bundle, made)
    assert state["alice"].call("DELETE", "/" + asked["run"]).status == 204
    check_held(made)
    again, other = finished(made=made)[0], produced()  # another run makes the same, and is admitted
    ended(again, "succeeded")
    check_shown(made)
    asked, bundle = leased()
    (blob,) = blobs_of(other)
    place().push_blob(contents[blob])  # the repository has it already, from somebody who may push
    runner.upload(bundle, other)
    assert state["alice"].call("DELETE", "/" + asked["run"]).status == 204
    check_shown(other)
    check_held(other, names=("log",))
    assert place().call("DELETE", "blobs/" + blob).status == 202
    check_held(other)


def a_repository_shows_from_its_first_upload_and_is_empty():
    """What docs/runs.md says of a run that was cancelled: its repository is there, and nothing in it."""
    where, wanted = PROJECT + "/never-admitted", spec()["outputs"][0]

    def listed():
        return place(where).call("GET", "tags/list", scope=f"repository:{where}:pull")
    assert listed().status == 404
    asked, bundle = leased(spec=spec(outputs=[{**wanted, "repository": where}]))
    answer = state["runner"].send(state["runner"].token(bundle).json["access_token"], where, b"never admitted")
    assert answer.status == 201, answer.body
    assert state["alice"].call("DELETE", "/" + asked["run"]).status == 204
    answer = listed()
    assert answer.status == 200 and answer.json["tags"] == [], (answer.status, answer.body)
    assert place(where).call("GET", "blobs/" + sha256(b"never admitted"), scope=f"repository:{where}:pull").status == 404


def nothing_can_be_read_through_a_layer_that_is_kept_elsewhere():
    """A manifest may name a layer that no registry has. If a run has uploaded those bytes, the manifest is no way to them."""
    runner, made, where = state["runner"], produced(), PROJECT + "/trained"
    asked, bundle = leased()
    runner.upload(bundle, made)
    assert state["alice"].call("DELETE", "/" + asked["run"]).status == 204
    (blob,) = blobs_of(made)
    place(where).push_blob(b"{}")
    foreign = json.loads(manifest("application/vnd.example+json", "x", b"{}"))
    foreign["layers"] = [{"mediaType": "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip", "digest": blob, "size": len(contents[blob]),
                          "urls": ["https://elsewhere.example/x"]}]
    text = json.dumps(foreign).encode()
    assert place(where).put_manifest("foreign", text).status == 201
    check_held(made)
    reading, other = leased(spec=spec(inputs=[{"name": "digits", "repository": where, "digest": sha256(text)}]))
    token, link = runner.token(other).json["access_token"], runner.connection()
    try:
        answers = [sijil_test.Client(server).call("GET", f"/v2/{where}/blobs/{one}", headers={"Authorization": "Bearer " + token}, connection=link).status
                   for one in (sha256(b"{}"), blob)]
    finally:
        link.close()
    assert answers[0] == 200 and answers[1] in (403, 404), answers
    assert state["alice"].call("DELETE", "/" + reading["run"]).status == 204
    assert place(where).call("DELETE", "manifests/foreign").status == 202


# ---- reserved types ----

def nobody_else_pushes_what_an_admission_stores():
    first = digests(state["first"][3])["model"]
    subject = {"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": first, "size": len(state["first"][3]["model"])}
    for kind in (PROVENANCE, ADMISSION, LOG, METRICS, PROVENANCE.upper(), "application/vnd.sijil.run-anything; a=b"):
        for members in ({"artifactType": kind}, {"artifactType": kind, "subject": subject}):
            answer = place().put_manifest("forged", place().manifest(**members))
            assert answer.status == 403 and "another artifactType" in answer.body.decode(), answer.body
        value = json.loads(place().manifest())
        value["config"]["mediaType"] = kind
        assert place().put_manifest("forged", json.dumps(value).encode()).status == 403
        del value["artifactType"]
        assert place().put_manifest("forged", json.dumps(value).encode()).status == 403
    index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "artifactType": ADMISSION, "manifests": []}
    assert place().put_manifest("forged", json.dumps(index).encode(), index["mediaType"]).status == 403
    plain = place().manifest()
    listed = {"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": sha256(plain), "size": len(plain), "annotations": {"sijil.run": state["first"][0]["run"]}}
    assert place().put_manifest("plain", plain).status == 201
    fallback = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [listed, {**listed, "artifactType": ADMISSION.upper()}]}
    answer = place().put_manifest(first.replace(":", "-"), json.dumps(fallback).encode(), fallback["mediaType"])
    assert answer.status == 403 and "without -r" in answer.body.decode(), answer.body  # clients without the referrers API would show it
    fallback["manifests"].pop()
    assert place().put_manifest(first.replace(":", "-"), json.dumps(fallback).encode(), fallback["mediaType"]).status == 201
    real = referrers(first)[ADMISSION]
    kept = place().call("GET", "manifests/" + real["digest"])
    assert kept.status == 200 and place().put_manifest(real["digest"], kept.body).status == 403
    wanted = spec(outputs=[{"name": "model", "repository": TRAINED, "type": ADMISSION}])
    try:
        state["alice"].request(spec=wanted)
    except AssertionError as refused:
        assert "none of application/vnd.sijil.run-" in str(refused), refused
        return
    raise RuntimeError("an output may have a reserved type")


# ---- crashes ----

def restart_gateways():
    for gateway in range(2):
        server.start_gateway(gateway)
    for gateway in range(2):
        server.wait_for_gateway(gateway)


def kill_gateways():
    for gateway in range(2):
        server.kill(gateway)
    for gateway in range(2):
        server.wait_settled(gateway)
    sql("UPDATE run SET claimed_until = 'epoch' WHERE state = 'finishing'")  # the claim of a killed gateway runs out


def lock_table(table, mode):
    """Another session holds this lock until its input ends."""
    lock = subprocess.Popen(["psql", "-XAtq", "-h", server.database_at, "-U", "postgres", "-d", "sijil_template"], stdin=subprocess.PIPE, text=True)
    lock.stdin.write(f"BEGIN; LOCK TABLE {table} IN {mode} MODE;\n")
    lock.stdin.flush()
    name = mode.title().replace(" ", "") + "Lock"
    sijil_test.wait_until(lambda: sql(f"SELECT count(*) FROM pg_locks WHERE relation = '{table}'::regclass AND granted AND mode = '{name}'") == "1", 20,
                          "the table is not locked")
    return lock


def kill_gateways_at(lock, table):
    """Both, when one waits for the lock; then nobody holds it. What the database has got already, with the COMMIT, is not done, either."""
    waiting = f"FROM pg_locks WHERE relation = '{table}'::regclass AND NOT granted"
    sijil_test.wait_until(lambda: sql(f"SELECT count(*) {waiting}") != "0", 60, "no gateway has come as far as the transaction")
    for gateway in range(2):
        server.kill(gateway)
    sql(f"SELECT pg_terminate_backend(pid) {waiting}")
    lock.stdin.write("ROLLBACK;\n")
    lock.stdin.close()
    lock.wait(30)
    for gateway in range(2):
        server.wait_settled(gateway)


def check_admitted_once(asked, made):
    """Whoever was killed when: the blobs are shown with the admission."""
    shown = ended(asked, "succeeded")
    assert [one["kind"] for one in shown["envelopes"]].count("admission") == 1
    assert sorted(referrers(digests(made)["model"])) == sorted([PROVENANCE, ADMISSION, LOG, METRICS])
    check_shown(made)
    answer = state["alice"].call("GET", f"/{asked['run']}/bundle")
    assert answer.status == 200 and "admission" in answer.json


def gateways_that_are_killed_before_the_signature_admit_once():
    made = produced()
    asked, bundle = leased()
    text = result(state["runner"], bundle, made)
    keep_away(asked)
    assert state["runner"].finish(bundle, text, made).status == 200
    server.keyd.send_signal(signal.SIGSTOP)
    try:
        let_go(asked)
        sijil_test.wait_until(lambda: sql(f"SELECT tries FROM run WHERE run_id = '{asked['run']}'") != "0", 30, "no gateway works on it")
        time.sleep(1)  # it waits for sijil-keyd
        kill_gateways()
        assert sql(f"SELECT count(*) FROM repository_blob WHERE digest = '{blobs_of(made)[0]}' AND is_pushed") == "0", "shown before the admission"
    finally:
        server.keyd.send_signal(signal.SIGCONT)
    restart_gateways()
    check_admitted_once(asked, made)
    assert state["runner"].finish(bundle, text, made).json == {"state": "succeeded"}


def gateways_that_are_killed_after_the_signature_admit_once_under_the_set_of_then():
    """The transaction can't get on, because another session has locked the lineage. Meanwhile other policies come into force."""
    made = produced()
    asked, bundle = leased()
    text = result(state["runner"], bundle, made)
    lock = lock_table("run_lineage", "ACCESS EXCLUSIVE")
    assert state["runner"].finish(bundle, text, made).status == 200
    kill_gateways_at(lock, "run_lineage")
    epoch = sql(f"SELECT epoch FROM run_admission WHERE run_id = '{asked['run']}'")
    keep_away(asked)
    restart_gateways()
    usual()
    let_go(asked)
    check_admitted_once(asked, made)
    admission = opened(next(one["envelope"] for one in state["alice"].run(asked)["envelopes"] if one["kind"] == "admission"))[0]
    assert admission["predicate"]["policy"]["uri"] == "urn:sijil:policy-set:" + epoch, admission["predicate"]["policy"]


def open_sessions():
    """Those of pushers in other cases, too."""
    return int(sql("SELECT count(*) FROM upload WHERE expires_at > now()"))


def gateways_that_are_killed_while_they_store_leave_no_session():
    """An upload of the admission has begun, and its commit can't get on."""
    made, before = produced(), open_sessions()
    asked, bundle = leased()
    text = result(state["runner"], bundle, made)
    keep_away(asked)
    assert state["runner"].finish(bundle, text, made).status == 200
    lock = lock_table("blob", "SHARE")
    let_go(asked)
    kill_gateways_at(lock, "blob")
    keep_away(asked)
    assert open_sessions() == before + 1, "no upload was begun"
    restart_gateways()
    let_go(asked)
    check_admitted_once(asked, made)
    assert open_sessions() == before, "an upload session outlives its run"


def an_admission_that_can_not_store_drops_its_session():
    """Its disk is full, or the like: each try is an upload of its own."""
    made, before = produced(), open_sessions()
    asked, bundle = leased()
    text = result(state["runner"], bundle, made)
    keep_away(asked)
    assert state["runner"].finish(bundle, text, made).status == 200
    failed = "SELECT count(*) FROM audit_entry WHERE action = 'upload.begin' AND convert_from(leaf, 'UTF8') LIKE '%\"out\":\"failed\"%'"
    failures = int(sql(failed))
    sql("ALTER TABLE blob ADD CONSTRAINT full_disk CHECK (false) NOT VALID")
    try:
        let_go(asked)
        sijil_test.wait_until(lambda: int(sql(failed)) > failures, 30, "nobody has tried to store it")
        sijil_test.wait_until(lambda: open_sessions() == before, 15, "a try that failed leaves its session")
        assert state["alice"].run(asked)["state"] == "finishing"
    finally:
        sql("ALTER TABLE blob DROP CONSTRAINT full_disk")
    admit_soon(asked)
    check_admitted_once(asked, made)


def a_session_that_is_recorded_after_the_end_of_its_run_ends_at_once():
    (asked, _), before = leased(), open_sessions()
    assert state["alice"].call("DELETE", "/" + asked["run"]).status == 204
    session = ("INSERT INTO upload (upload_id, repository_id, project_id, region_id, blob_id, digest_algorithm, key_version, wrapped_key, commitment, bound_to,"
               " secret_hash, writer_epoch, organisation_id, issuer, subject) SELECT gen_random_uuid(), repository_id, r.project_id, b.region_id,"
               " gen_random_uuid(), 'sha256', b.key_version, b.wrapped_key, b.commitment, sha256(''), sha256(''), 1, p.organisation_id, '', 'run:%s'"
               " FROM repository r JOIN project p USING (project_id) JOIN blob b USING (project_id) LIMIT 1 RETURNING expires_at > now()")
    assert sql(session % asked["run"]) == "f"
    other, _ = leased()
    assert sql(session % other["run"]) == "t", "the run goes on"
    assert state["alice"].call("DELETE", "/" + other["run"]).status == 204 and open_sessions() == before


def a_schema_that_does_not_fit_quarantines_nothing():
    """As if the migration of a state were missing: the run waits until the schema fits."""
    sql("ALTER TABLE run ADD CONSTRAINT no_migration CHECK (state <> 'succeeded') NOT VALID")
    try:
        asked, _, _, made = finished()
        sijil_test.wait_until(lambda: int(sql(f"SELECT tries FROM run WHERE run_id = '{asked['run']}'")) > 0, 30, "nobody has tried to admit it")
        time.sleep(3)
        assert state["alice"].run(asked)["state"] == "finishing", state["alice"].run(asked)
    finally:
        sql("ALTER TABLE run DROP CONSTRAINT no_migration")
    admit_soon(asked)
    check_admitted_once(asked, made)


def two_gateways_admit_each_run_once():
    several = [finished() for _ in range(3)]
    for asked, _, _, made in several:
        check_admitted_once(asked, made)


def while_keyd_dies(work, again):
    """Kills sijil-keyd at some moment of `work`, which `again` repeats until it succeeds."""
    thread = threading.Thread(target=attempt, args=(work,))
    thread.start()
    time.sleep(random.uniform(0, 0.06))
    server.kill_keyd()
    server.start_keyd()
    thread.join(120)
    assert not thread.is_alive(), "a request hangs after sijil-keyd was killed"
    return sijil_test.insist(again, 90)


def attempt(work):
    try:
        work()
    except (AssertionError, OSError, http.client.HTTPException):
        pass  # it is repeated


def admit_soon(asked):
    """Each try that fails makes the next one later, up to five minutes: the test does not wait so long."""
    def waits(since, seconds):
        return time.monotonic() < since + seconds and state["alice"].run(asked)["state"] == "finishing"

    began = time.monotonic()
    while waits(began, 120):
        let_go(asked)
        tried = time.monotonic()
        while waits(tried, 5):
            time.sleep(0.2)


def sijil_keyd_that_is_killed_at_an_order_a_lease_and_an_admission_loses_nothing():
    alice, runner = state["alice"], state["runner"]
    for _ in range(ROUNDS):
        asked = alice.request()
        time.sleep(random.uniform(0, 0.08))  # its order follows at once
        server.kill_keyd()
        server.start_keyd()
        sql("UPDATE run SET claimed_until = 'epoch' WHERE state = 'requested'")
        alice.wait(asked, "ordered", 90)
        given = while_keyd_dies(lambda: runner.ask(0), lambda: runner.ask(5))
        bundle = given.json if given.status == 200 else sijil_test.insist(lambda: runner.ask(20), 90).json
        assert opened(bundle["lease"])[0]["run"] == asked["run"]
        assert sijil_test.insist(lambda: runner.start(asked["run"]), 60).status == 204
        made = produced()
        runner.upload(bundle, made)
        text = result(runner, bundle, made)
        answer = while_keyd_dies(lambda: runner.finish(bundle, text, made), lambda: runner.finish(bundle, text, made))
        assert answer.status == 200, answer.body
        admit_soon(asked)
        check_admitted_once(asked, made)


def a_gateway_killed_while_it_takes_a_result_loses_no_acknowledged_one():
    runner = state["runner"]
    for _ in range(ROUNDS):
        made = produced()
        asked, bundle = leased()
        runner.upload(bundle, made)
        text = result(runner, bundle, made)
        answers = []

        def send():
            try:
                answers.append(runner.finish(bundle, text, made).status)
            except OSError:
                answers.append(None)
            except Exception:  # the connection broke in the middle of an answer
                answers.append(None)
        thread = threading.Thread(target=send)
        thread.start()
        time.sleep(0.02)
        server.kill(0)
        thread.join(60)
        server.wait_settled(0)
        if answers == [200]:
            assert state["alice"].call("GET", "/" + asked["run"], port=server.ports[1]).json["state"] in ("finishing", "succeeded")
        answer = runner.finish(bundle, text, made, server.ports[1])
        assert answer.status == 200, answer.body
        server.start_gateway(0)
        server.wait_for_gateway(0)
        let_go(asked)
        check_admitted_once(asked, made)


if __name__ == "__main__":
    run(prepare, a_result_becomes_an_admitted_artifact, an_outsider_verifies_the_bundle_with_its_admission,
        lineage_goes_from_the_dataset_to_the_artifact, the_very_same_result_again_answers_the_same,
        outputs_of_several_repositories_have_all_referrers,
        the_real_runner_goes_from_the_request_to_the_artifact, a_bad_result_is_refused_with_the_rule, a_result_counts_under_the_certified_key_alone,
        the_same_certificate_may_be_signed_anew, a_second_key_of_one_lease_suspends, a_certificate_in_a_row_stays, what_was_never_started_has_not_succeeded, rows_of_others_are_no_outputs,
        a_result_has_only_what_its_lease_has_uploaded, a_log_is_one_layer_and_a_config_is_empty, a_program_that_failed_leaves_its_log,
        late_and_second_results_are_kept_and_do_not_count, a_rerun_names_a_run_of_the_project_and_its_order, a_runner_that_was_started_again_sends_its_result_and_nothing_else,
        a_suspended_key_gets_nothing_admitted, two_results_of_one_lease_suspend_the_key, outputs_get_the_join_of_all_labels,
        a_label_that_its_repository_lacks_quarantines, an_input_that_is_labelled_anew_before_the_admission_quarantines, the_policies_of_the_admission_count,
        who_has_lost_the_right_to_train_gets_nothing_admitted, a_bundle_has_the_set_of_its_admission, keyd_signs_nothing_that_the_policies_in_force_forbid,
        a_result_of_a_withdrawn_runner_does_not_count, a_cancelled_run_leaves_its_blobs_to_nobody, a_repository_shows_from_its_first_upload_and_is_empty, nothing_can_be_read_through_a_layer_that_is_kept_elsewhere,
        nobody_else_pushes_what_an_admission_stores,
        gateways_that_are_killed_before_the_signature_admit_once,
        gateways_that_are_killed_after_the_signature_admit_once_under_the_set_of_then, gateways_that_are_killed_while_they_store_leave_no_session,
        an_admission_that_can_not_store_drops_its_session, a_session_that_is_recorded_after_the_end_of_its_run_ends_at_once, a_schema_that_does_not_fit_quarantines_nothing, two_gateways_admit_each_run_once,
        sijil_keyd_that_is_killed_at_an_order_a_lease_and_an_admission_loses_nothing,
        a_gateway_killed_while_it_takes_a_result_loses_no_acknowledged_one, server=server)
