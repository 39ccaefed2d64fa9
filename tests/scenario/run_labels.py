#!/usr/bin/env python3
"""Labels that travel with content: a real runner trains on health data, the model's manifest states the label, and no row that is left out, no copy and no other
spelling takes it off. docs/formats/run.md, "Labels"; docs/policies.md, "A manifest's own label"."""
import base64
import json
import os
import subprocess

from real_runner import RealRunner
from run_fleet import TRAINING, RunFleet
from run_world import FOLDER, PROJECT, Person, Runner, World, spec, stated
from sijil_test import make_robot, program, run, sha256

server = RunFleet(1).start()
state = {}
sql = server.sql
PATIENTS, TRAINED = PROJECT + "/patients", PROJECT + "/trained"
MODEL = "application/vnd.cncf.model.manifest.v1+json"
HEALTH = {"class": "sensitive", "pins": ["all", "health"], "subjects": ["health"]}
TRAIN = b"mkdir -p /out/model; cat /in/*/* > /out/model/weights.bin; echo trained\n"


def health():
    """Labels the repository with the patients; whatever is labelled so stays and is used in the State."""
    here = {"effect": "require", "when": {"subjects_any": ["health"]}, "target": {"geo_within": ["AE"]}, "message": "Health data stays in the State."}
    return {"apiVersion": "sijil.policy/v1", "kind": "ResidencyPolicy", "labels": {"class": "sensitive", "subjects": ["health"]},
            "metadata": {"id": "health", "version": server.epoch + 1, "scope": [PATIENTS], "effective_from": "2020-01-01T00:00:00Z", "review_by": "2099-01-01"},
            "rules": [{"id": "H-PERMIT", "effect": "permit", "ops": list(TRAINING), "when": {"class_at_most": "sensitive"}},
                      {"id": "H-TRAIN-AE", "ops": ["train"], **here}]}


def load(**more):
    server.load(at_most="sensitive", policies=[health()], **more)


def prepare():
    server.epoch = getattr(server, "epoch", 1)
    conninfo = f"host={server.database_at} dbname=sijil_template user=sijil_app"
    world = state["world"] = World(server, server.path("approver.pem"), conninfo, server.path("socket"))
    load()
    state["alice"] = Person(world, "alice")
    state["pusher"] = server.client(make_robot(server, "pusher", "publisher", PROJECT))
    state["reader"] = server.client(make_robot(server, "reader", "consumer", PROJECT))


def place(name, who="pusher"):
    return state[who].repository(name)


def push(name, files, **members):
    """An artifact; its place, as a spec names it."""
    there = place(name)
    for content in files.values():
        there.push_blob(content)
    manifest = json.loads(there.manifest(*files.values(), **members))
    for layer, title in zip(manifest["layers"], files):
        layer["annotations"] = {"org.opencontainers.image.title": title}
    text = json.dumps(manifest).encode()
    answer = there.put_manifest("latest", text)
    assert answer.status == 201, (answer.status, answer.body)
    return {"repository": name, "digest": sha256(text)}


def ended(asked, wanted, seconds=90):
    state["alice"].wait(asked, wanted, seconds)
    return state["alice"].run(asked)


def label_of(text):
    return text["annotations"].get("sijil.label")


def labels(name):
    """What content has brought to a repository."""
    return sql(f"SELECT string_agg(label, ' ' ORDER BY stored_at) FROM run_label WHERE repository = '{name.split('/', 2)[2]}'")


def wanted(data, output, **more):
    """A run that copies one input into a model."""
    return spec(code=state["code"], argv=["/bin/sh", "/code/train.sh"], inputs=[{"name": "data", **data}],
                outputs=[{"name": "model", "repository": output, "type": MODEL}], **more)


def a_model_states_the_label_of_its_data():
    """In a repository that no policy labels so: each manifest of the run, and each referrer."""
    state["code"] = push(PROJECT + "/code", {"train.sh": TRAIN})
    data = push(PATIENTS, {"patients.csv": b"a patient\n"})
    with RealRunner(server, Runner(state["world"])):
        asked = state["alice"].request(spec=wanted(data, TRAINED))
        shown = ended(asked, "succeeded")
    state["run"], state["model"] = asked, {"repository": TRAINED, "digest": shown["outputs"][0]["digest"]}
    kept = place(TRAINED).call("GET", "manifests/" + state["model"]["digest"])
    state["text"] = kept.body
    want = stated(**HEALTH)["sijil.label"]
    assert kept.status == 200 and label_of(kept.json) == want, kept.body
    found = place(TRAINED).call("GET", "referrers/" + state["model"]["digest"]).json["manifests"]
    assert len(found) == 3 and all(label_of(one) == want for one in found), found
    assert json.loads(labels(TRAINED))["subjects"] == ["health"]


def a_gateway_that_leaves_rows_out_gains_nothing():
    """It makes an order for a place that the label forbids: the runner there has read the manifest, and refuses before any content has moved."""
    abroad = Runner(state["world"], pool="abroad", region="local/elsewhere", jurisdictions=["SA"])
    asking = wanted(state["model"], PROJECT + "/abroad", pool="abroad", jurisdictions=["SA"])
    asked = state["alice"].request(spec=asking)
    assert "do not allow a run with" in ended(asked, "failed")["reason"], "the registry itself refuses"
    sql("DELETE FROM run_label; UPDATE manifest SET label = NULL; SELECT raise_authorization_epoch()")
    with RealRunner(server, abroad):
        asked = state["alice"].request(spec=asking)
        shown = ended(asked, "refused")
    assert "rule H-TRAIN-AE" in shown["reason"], shown
    refusal = next(one["envelope"] for one in shown["envelopes"] if one["kind"] == "refusal")
    assert json.loads(base64.b64decode(json.loads(refusal)["payload"]))["check"] == "policy"
    layer = json.loads(state["text"])["layers"][0]["digest"]
    assert not [one for one in state["world"].events("run.fetch") if asked["run"] in json.dumps(one) and layer in json.dumps(one)], "content has moved"


def a_copy_keeps_its_label():
    """Pulled, and pushed to a repository of another name: as oras or skopeo do it, byte for byte."""
    there = place(PROJECT + "/copied")
    manifest = json.loads(state["text"])
    for one in [manifest["config"], *manifest["layers"]]:
        there.push_blob(place(TRAINED).call("GET", "blobs/" + one["digest"]).body)
    answer = there.put_manifest("v1", state["text"])
    assert answer.status == 201 and answer["Docker-Content-Digest"] == state["model"]["digest"]
    label = json.loads(labels(PROJECT + "/copied"))
    assert label["subjects"] == ["health"] and "health" in label["pins"] and label["class"] == "sensitive", label
    asked = state["alice"].request(spec=wanted({"repository": PROJECT + "/copied", "digest": state["model"]["digest"]}, PROJECT + "/again", jurisdictions=["SA"], pool="abroad"))
    assert "do not allow a run with" in ended(asked, "failed")["reason"]
    events = [one for one in state["world"].events("manifest.push") if PROJECT + "/copied" in json.dumps(one)]
    assert len(events) == 1 and state["model"]["digest"] in json.dumps(events), events


def a_copy_does_not_go_where_it_may_not_be():
    """A label that breaks the place is refused, as any other is; nothing is left of the push."""
    rule = {"id": "X-STORE-SA", "effect": "require", "ops": ["ingest"], "when": {"subjects_any": ["genetic"]}, "target": {"geo_within": ["SA"]}, "message": "there"}
    load(rules=[rule])
    for name, more, says in (("genes", {"subjects": ["genetic"]}, b"rule X-STORE-SA"), ("pinned", {"pins": ["all", "of-another-registry"]}, b"rule SYS-PIN-MISSING"),
                             ("secret", {"class": "secret"}, b"rule SYS-CLOSED")):
        there = place(PROJECT + "/" + name)
        there.push_blob(b"bytes")
        answer = there.put_manifest("v1", there.manifest(b"bytes", annotations=stated(**more)))
        assert answer.status == 403 and says in answer.body, (name, answer.status, answer.body)
        assert labels(PROJECT + "/" + name) == "" and there.call("GET", "manifests/v1").status == 404
    for text, says in (("{}", b"is no label"), ("health", b"is no label"), (stated()["sijil.label"] + " ", b"is not canonical; write {")):
        answer = there.put_manifest("v1", there.manifest(b"bytes", annotations={"sijil.label": text}))
        assert answer.status == 400 and says in answer.body, (text, answer.body)
    load()


def a_publisher_locks_no_content_away():
    """Whoever may push could else take from readers what others have pushed."""
    name = PROJECT + "/shared"
    push(name, {"a.bin": b"of others"})
    there = place(name)
    text = there.manifest(b"of others", annotations=stated(**HEALTH))
    answer = there.put_manifest("v2", text)
    assert answer.status == 403 and b"has content" in answer.body, (answer.status, answer.body)
    assert labels(name) == "" and there.call("GET", "manifests/v2").status == 404
    both = make_robot(server, "labeller", "publisher", PROJECT)
    robot = next(one for one in server.client(server.admin).api("GET", "/robots?organisation=main")["robots"] if one["name"] == both[0])
    server.client(server.admin).api("POST", "/bindings", {"robot": robot["id"], "role": "security-officer", "scope": "main"})
    answer = server.client(both).repository(name).put_manifest("v2", text)
    assert answer.status == 201, (answer.status, answer.body)
    assert json.loads(labels(name))["subjects"] == ["health"]
    assert there.put_manifest("v3", text).status == 201 and labels(name).count("health") == 2, "it has the label already"


def delete(name):
    admin = server.client(server.admin)
    plan = admin.api("GET", f"/repositories/{name}/deletion")
    admin.api("DELETE", f"/repositories/{name}?plan={plan['plan']}")


def a_publisher_takes_no_places_of_others():
    """Half of a project's labels are for runs; and whoever deletes repositories gets their places back."""
    def bring(number):
        there = place(f"{PROJECT}/many/z{number}")
        there.push_blob(b"bytes")
        return there.put_manifest("v1", there.manifest(b"bytes", annotations=stated(attached=[f"R{number:02}"])))

    names = "SELECT count(DISTINCT digest) FROM run_label WHERE manifest IS NOT NULL"
    had, answers = int(sql(names)), [bring(number) for number in range(34)]
    taken = [number for number, answer in enumerate(answers) if answer.status == 201]
    refused = [answer for answer in answers if answer.status != 201]
    assert len(taken) == 32 - had and sql(names) == "32", (had, taken)
    assert all(one.status == 403 and b"manifests may bring 32 different labels to this project" in one.body for one in refused), refused[0].body
    data = f"{PROJECT}/officers"
    labelled = push(data, {"a.bin": b"labelled by an officer"})
    server.client(server.admin).api("PUT", f"/repositories/{data}/label", {"attached": ["X-OF-1"]})
    asked = state["alice"].request(spec=wanted(labelled, f"{PROJECT}/of-officers", pool="nobody"))
    ended(asked, "ordered")
    assert "X-OF-1" in labels(f"{PROJECT}/of-officers")
    for number in taken[:3]:
        delete(f"{PROJECT}/many/z{number}")
    assert bring(40).status == 201 and bring(41).status == 201
    assert sql(names) == str(32 - 3 + 2) and labels(f"{PROJECT}/many/z{taken[0]}") == "", sql(names)
    assert "R%02d" % taken[-1] in labels(f"{PROJECT}/many/z{taken[-1]}"), "a repository that is there keeps its label"
    state["alice"].call("DELETE", "/" + asked["run"])


def a_manifest_without_its_label_is_another_one():
    bare = json.loads(state["text"])
    del bare["annotations"]["sijil.label"]
    text = json.dumps(bare).encode()
    assert sha256(text) != state["model"]["digest"]
    assert place(TRAINED).put_manifest(state["model"]["digest"], text).status == 400, "not under the digest that was admitted"
    assert place(TRAINED).call("GET", "manifests/" + sha256(text)).status == 404


def a_signed_set_lifts_it():
    """What approvers have declassified counts no more, for the registry and for what is pushed."""
    name = PROJECT + "/lifted"
    load(declassified=[{"policy": "sijil-run", "scope": [name], "reason": "it was made anonymous"}])
    there = place(name)
    there.push_blob(b"bytes")
    answer = there.put_manifest("v1", there.manifest(b"bytes", annotations=stated(**{"class": "secret"})))
    assert answer.status == 201 and labels(name) == "", (answer.status, answer.body)
    load()


def an_outsider_sees_what_the_manifests_state():
    """`sijil run bundle` adds those that its user may pull."""
    keys, host = server.client(server.admin).api("GET", "/audit/key"), f"127.0.0.1:{server.ports[0]}"
    signer, path = FOLDER.name + "/signer.pem", FOLDER.name + "/labelled.json"
    with open(signer, "w", encoding="ascii") as file:
        file.write(keys["documents"])
    environment = {**os.environ, "HOME": FOLDER.name, "XDG_CONFIG_HOME": FOLDER.name}
    for words in (("login", host, "--username", state["alice"].login[0], "--ca-file", server.ca_file), ("run", "bundle", host, PROJECT, state["run"]["run"], "-o", path)):
        subprocess.run([program("sijil"), *words], input=state["alice"].login[1] + "\n", text=True, env=environment, check=True, timeout=60)
    with open(path, encoding="utf-8") as file:
        assert len(json.load(file)["manifests"]) == 2, "of the code and of the input"
    done = subprocess.run([program("sijil-verify"), "run", "--key", keys["vkey"], "--signer", signer, "--root", server.path("approver.pub.pem"), path],
                          capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0 and "with the labels that 2 of the 2 artifacts' manifests state" in done.stdout, (done.stdout, done.stderr)


if __name__ == "__main__":
    run(prepare, a_model_states_the_label_of_its_data, a_gateway_that_leaves_rows_out_gains_nothing, a_copy_keeps_its_label,
        a_copy_does_not_go_where_it_may_not_be, a_publisher_locks_no_content_away, a_publisher_takes_no_places_of_others, a_manifest_without_its_label_is_another_one, a_signed_set_lifts_it,
        an_outsider_sees_what_the_manifests_state, server=server)
