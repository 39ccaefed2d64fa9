#!/usr/bin/env python3
"""Labels that travel with content: a real runner trains on health data, the model's manifest states the label, and no row that is left out, no copy and no other
spelling takes it off. docs/formats/run.md, "Labels"; docs/policies.md, "A manifest's own label"."""
import base64
import json
import os
import random
import subprocess
import time

from real_runner import RealRunner
from run_fleet import TRAINING, RunFleet
from run_world import FOLDER, HOUR, PROJECT, Person, Runner, World, seal, spec, stated, utc
from sijil_test import make_robot, program, run, sha256, wait_until

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
            "rules": [{"id": "H-PERMIT", "effect": "permit", "ops": [*TRAINING, "promote"], "when": {"class_at_most": "sensitive"}},
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


def restrict():
    """The organisation's own officer forbids training in a third country: sijil-keyd signs no lease and no admission without that document, and the bundle carries it."""
    admin, alice, root, now = server.client(server.admin), state["alice"], state["world"].root, time.time()
    head = {"schema": "sijil.document/v1", "version": 1, "effective_from": utc(now - 1)}
    officer = {**head, "kind": "officers", "scope": "", "name": "security-officer.alice", "expires": utc(now + HOUR),
               "body": {"principal": alice.principal, "key": alice.key.name, "role": "security-officer", "on": "main"}}
    policy = {"apiVersion": "sijil.policy/v1", "kind": "ResidencyPolicy", "closed": False, "rules": [{"id": "M-ABROAD", "effect": "deny", "ops": ["train"], "target": {"geo_within": ["US"]}}],
              "metadata": {"id": "main.runs", "organisation": "main", "version": 1, "scope": [TRAINED], "effective_from": "2020-01-01T00:00:00Z", "review_by": "2099-01-01"}}
    restriction = {**head, "kind": "restriction", "scope": "main", "name": "main.runs", "body": {"policy": policy}}
    binding = admin.api("POST", "/bindings", {"issuer": server.people.url, "subject": alice.name, "role": "security-officer", "scope": "main"})
    admin.api("POST", "/officers", seal("application/vnd.sijil.officers.v1+json", officer, root))
    server.client(alice.login).api("POST", "/restrictions", seal("application/vnd.sijil.restriction.v1+json", restriction, alice.key))
    admin.api("DELETE", "/bindings/" + binding["id"])  # another person must appoint a second officer, and one is enough here


def a_model_states_the_label_of_its_data():
    """In a repository that no policy labels so: each manifest of the run, and each referrer."""
    restrict()
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


def a_model_of_a_model_and_a_mount_of_it_keep_the_label():
    """Neither repository is labelled by a policy, and neither run has seen the patients' repository."""
    second, mounted = PROJECT + "/second", PROJECT + "/second-mounted"
    with RealRunner(server, Runner(state["world"])):
        shown = ended(state["alice"].request(spec=wanted(state["model"], second)), "succeeded")
    made = place(second).call("GET", "manifests/" + shown["outputs"][0]["digest"])
    assert label_of(made.json) == stated(**HEALTH)["sijil.label"], made.body
    layer = made.json["layers"][0]["digest"]
    answer = place(mounted).call("POST", f"blobs/uploads/?mount={layer}&from={second}", scope=f"repository:{mounted}:pull,push repository:{second}:pull")
    assert answer.status == 201, (answer.status, answer.body)
    for name in (second, mounted):
        label = json.loads(labels(name))
        assert label["subjects"] == ["health"] and "health" in label["pins"] and label["class"] == "sensitive", (name, label)
    asked = state["alice"].request(spec=wanted({"repository": second, "digest": shown["outputs"][0]["digest"]}, PROJECT + "/third", jurisdictions=["SA"], pool="abroad"))
    assert "do not allow a run with" in ended(asked, "failed")["reason"]


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
        assert there.call("HEAD", "blobs/" + sha256(b"bytes")).status == 404
        assert sql(f"SELECT count(*) FROM blob WHERE digest = '{sha256(b'bytes')}'") == "0", "the row and its wrapped key are left"
    assert sql("SELECT count(*) FROM abandoned_object WHERE abandoned_at > now()") != "0", "nobody removes the bytes"
    wait_until(lambda: [one for one in state["world"].events("key.forgotten") if sha256(b"bytes") in json.dumps(one)], 60, "no event tells of the key")
    failed = [one for one in state["world"].events("manifest.push") if one["out"] == "failed" and "/genes" in one["res"]]
    assert len(failed) == 1 and "shredded" in failed[0]["why"]["note"], failed
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
    there.push_blob(b"only of this push")
    both_blobs = there.put_manifest("v2", there.manifest(b"of others", b"only of this push", annotations=stated(**HEALTH)))
    assert answer.status == both_blobs.status == 403 and b"has content" in answer.body, (answer.status, answer.body)
    assert labels(name) == "" and there.call("GET", "manifests/v2").status == 404
    assert there.call("GET", "blobs/" + sha256(b"of others")).body == b"of others", "what a manifest needs stays"
    assert there.call("HEAD", "blobs/" + sha256(b"only of this push")).status == 404
    server.client(server.admin).api("PUT", f"/projects/{PROJECT}/rules", {"immutable": [{"repositories": "shared", "tags": "kept-*"}]})
    load(rules=[{"id": "X-PROMOTE", "effect": "permit", "ops": ["promote"]}])
    there.push_blob(b"only of this push")
    promoted = there.put_manifest("kept-1", there.manifest(b"of others", b"only of this push", annotations=stated(**HEALTH)))
    assert promoted.status == 403 and b"has content" in promoted.body, ("a promotion that its label refuses ends the gateway", promoted.status, promoted.body)
    assert there.call("HEAD", "blobs/" + sha256(b"only of this push")).status == 404
    noted = [one["why"].get("note", "") for one in state["world"].events("manifest.promote") if one["out"] == "failed"]
    assert len([note for note in noted if "shredded" in note]) == 1, noted
    load()
    both = state["labeller"] = make_robot(server, "labeller", "publisher", PROJECT)
    robot = next(one for one in server.client(server.admin).api("GET", "/robots?organisation=main")["robots"] if one["name"] == both[0])
    server.client(server.admin).api("POST", "/bindings", {"robot": robot["id"], "role": "security-officer", "scope": "main"})
    answer = server.client(both).repository(name).put_manifest("v2", text)
    assert answer.status == 201, (answer.status, answer.body)
    assert json.loads(labels(name))["subjects"] == ["health"]
    assert there.put_manifest("v3", text).status == 201 and labels(name).count("health") == 2, "it has the label already"


def labels_travel_along_the_lineage():
    """What was made from the patients has their label, however the manifest says so; and nobody learns of what it may not see."""
    base, host = push(PATIENTS, {"more.csv": b"more patients\n"}), f"127.0.0.1:{server.ports[0]}"
    kept = place(PATIENTS).call("GET", "manifests/" + base["digest"])
    subject = {"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": base["digest"], "size": len(kept.body)}
    oci = "org.opencontainers.image.base.name"
    for name, members in (("name", {"annotations": {"sijil.base": PATIENTS}}), ("digest", {"annotations": {"sijil.base": f"{PROJECT}/code {PATIENTS}@{base['digest']}"}}),
                          ("oci", {"annotations": {oci: f"{host}/{PATIENTS}:latest"}}), ("subject", {"subject": subject})):
        push(f"{PROJECT}/made/{name}", {"weights.bin": b"made from it, " + name.encode()}, **members)
        label = json.loads(labels(f"{PROJECT}/made/{name}"))
        assert label["subjects"] == ["health"] and "health" in label["pins"] and label["class"] == "sensitive", (name, label)
    for name, members in (("elsewhere", {"annotations": {oci: f"docker.io/{PATIENTS}"}}), ("nobody", {"subject": {**subject, "digest": sha256(b"of nobody")}}),
                          ("own", {"annotations": {"sijil.base": f"{PROJECT}/made/own"}})):
        push(f"{PROJECT}/made/{name}", {"weights.bin": b"made of something else"}, **members)
        assert labels(f"{PROJECT}/made/{name}") == "", name
    there = place(f"{PROJECT}/made/alias")
    there.push_blob(b"through another name of the registry")
    answer = there.call("PUT", "manifests/v1", there.manifest(b"through another name of the registry", annotations={oci: f"{host}/{PATIENTS}:latest"}),
                        {"Content-Type": subject["mediaType"], "Host": "alias.example"})
    assert answer.status == 201 and json.loads(labels(f"{PROJECT}/made/alias"))["subjects"] == ["health"], (answer.status, answer.body)
    server.client(server.admin).api("POST", "/projects", {"organisation": "main", "name": "hidden", "label": {"subjects": ["health"]}})
    hidden = server.client(make_robot(server, "hider", "publisher", "main/hidden")).repository("main/hidden/real")
    hidden.push_blob(b"bytes")
    assert hidden.put_manifest("v1", hidden.manifest(b"bytes")).status == 201
    there, answers = place(PROJECT + "/made/curious"), []
    there.push_blob(b"curious")
    for name in ("main/hidden/real", "main/hidden/none", PATIENTS + "s"):
        answer = there.put_manifest("v1", there.manifest(b"curious", annotations={"sijil.base": name}))
        answers.append((answer.status, answer.body.replace(name.encode(), b"")))
    assert answers[0] == answers[1] == answers[2] and answers[0][0] == 400, answers


def a_mount_carries_the_label():
    """Into a repository without content. Into one with content of others nothing is mounted, and the client may upload what it has."""
    layer = sha256(b"more patients\n")
    for name, status, subjects in (("mounted", 201, ["health"]), ("shared-mount", 202, None)):
        if subjects is None:
            push(f"{PROJECT}/{name}", {"a.bin": b"of others"})
        answer = place(f"{PROJECT}/{name}").call("POST", f"blobs/uploads/?mount={layer}&from={PATIENTS}", scope=f"repository:{PROJECT}/{name}:pull,push repository:{PATIENTS}:pull")
        text = labels(f"{PROJECT}/{name}")
        assert answer.status == status and (json.loads(text)["subjects"] if text else None) == subjects, (name, answer.status, text)
    assert place(f"{PROJECT}/mounted").call("GET", "blobs/" + layer).body == b"more patients\n"
    assert place(f"{PROJECT}/shared-mount").call("HEAD", "blobs/" + layer).status == 404
    answer = place(f"{PROJECT}/shared-mount").call("POST", f"blobs/uploads/?mount={sha256(b'of others')}&from={PROJECT}/shared-mount")
    assert answer.status == 201, "what has the same label is mounted as before"


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
    load(declassified=[{"policy": "sijil-run", "scope": [name], "reason": "it was made anonymous", "evidence": sha256(b"a report")}])
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
        bundle = json.load(file)
    assert len(bundle["manifests"]) == 2, "of the code and of the input"
    assert [json.loads(one)["name"] for one in bundle["restrictions"]] == ["main.runs"], "the one that the decision names"
    done = subprocess.run([program("sijil-verify"), "run", "--key", keys["vkey"], "--signer", signer, "--root", server.path("approver.pub.pem"), path],
                          capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0 and "with the labels that 2 of the 2 artifacts' manifests state" in done.stdout, (done.stdout, done.stderr)


# --- any sequence ---------------------------------------------------------------------------------------------------------------
CLASSES = ["open", "confidential", "sensitive", "secret"]


class Labels:
    """A small model: what each of four repositories has been given at any time. Nothing is ever taken away."""

    def __init__(self, seed):
        self.chance, self.number, self.policy = random.Random(seed), 0, None
        server.client(server.admin).api("POST", "/projects", {"organisation": "main", "name": "rand"})
        login = state["labeller"]  # may label what it pushes to, so nothing that others have pushed is in its way
        robot = next(one for one in server.client(server.admin).api("GET", "/robots?organisation=main")["robots"] if one["name"] == login[0])
        server.client(server.admin).api("POST", "/bindings", {"robot": robot["id"], "role": "publisher", "scope": "main/rand"})
        self.login, self.pusher = login, server.client(login)
        self.names = [f"main/rand/{letter}" for letter in "abcd"]
        self.given = {name: (1, frozenset()) for name in self.names}  # "confidential": the policy of everything
        for name in self.names:
            assert self.push(name, {}).status == 201

    def there(self, name):
        return self.pusher.repository(name)

    def raise_to(self, name, class_index, subjects):
        had = self.given[name]
        self.given[name] = (max(had[0], class_index), had[1] | subjects)

    def push(self, name, annotations):
        self.number += 1
        data = f"content {self.number % 9}".encode()
        answer = self.there(name).call("POST", f"blobs/uploads/?digest={sha256(data)}", data, {"Content-Type": "application/octet-stream"})
        if answer.status != 201:  # the pin of a policy that is gone
            return answer
        return self.there(name).put_manifest(f"v{self.number % 3}", self.there(name).manifest(data, annotations=annotations or {"n": str(self.number)}))

    def step_stated(self, name):
        label = (self.chance.choice([1, 2]), frozenset(self.chance.sample(["genetic", "child"], self.chance.randint(0, 2))))
        if self.push(name, stated(**{"class": CLASSES[label[0]], "subjects": sorted(label[1])})).status == 201:
            self.raise_to(name, *label)

    def step_based(self, name):
        base = self.chance.choice(self.names)
        label = self.given[base]
        if self.push(name, {"sijil.base": base}).status == 201:
            self.raise_to(name, *label)

    def step_mounted(self, name):
        source = self.chance.choice(self.names)
        answer = self.there(name).call("POST", f"blobs/uploads/?mount={sha256(b'{}')}&from={source}", scope=f"repository:{name}:pull,push repository:{source}:pull")
        if answer.status == 201:
            self.raise_to(name, *self.given[source])

    def step_plain(self, name):
        self.push(name, {})

    def step_deleted(self, name):
        for tag in self.there(name).call("GET", "tags/list").json.get("tags") or []:
            digest = self.there(name).call("HEAD", "manifests/" + tag)["Docker-Content-Digest"]
            assert self.there(name).call("DELETE", "manifests/" + digest).status in (202, 403, 405)
            return

    def step_tag(self, name):
        assert self.there(name).call("DELETE", f"manifests/v{self.chance.randint(0, 2)}").status in (202, 404)

    def step_set(self, name):
        """A policy labels one of them; the one before is gone, and what it has labelled keeps its label."""
        self.policy = None if self.chance.random() < 0.3 else name
        more = [] if self.policy is None else [{
            "apiVersion": "sijil.policy/v1", "kind": "ResidencyPolicy", "labels": {"class": "sensitive", "subjects": ["biometric"]},
            "metadata": {"id": "rand", "version": server.epoch + 1, "scope": [name], "effective_from": "2020-01-01T00:00:00Z", "review_by": "2099-01-01"},
            "rules": [{"id": "R-PERMIT", "effect": "permit", "ops": list(TRAINING)}]}]
        server.load(at_most="sensitive", policies=[health(), *more])
        wait_until(lambda: server.client(server.admin).api("GET", "/policies")["epoch"] == server.epoch, 30, "the set is not in force")
        if self.policy is not None:
            self.raise_to(name, 2, frozenset(["biometric"]))

    def seen(self, name):
        asked = {"robot": self.login[0], "action": "manifest.push", "resource": name}
        label = server.client(server.admin).api("POST", "/authz/explain", asked)["operations"][0]["label"]
        return CLASSES.index(label["class"]), frozenset(label["subjects"])

    def check(self, what):
        for name in self.names:
            assert self.seen(name) == self.given[name], (what, name, self.seen(name), self.given[name])


def a_label_never_falls():
    """Random pushes, bases, mounts, tags, deletions and sets: each repository has exactly what it was ever given. Only what is signed lifts it."""
    seed = int(os.environ.get("SIJIL_SEED", random.randrange(1 << 32)))
    print(f"     seed {seed}", flush=True)
    model = Labels(seed)
    steps = [model.step_stated, model.step_based, model.step_mounted, model.step_plain, model.step_deleted, model.step_tag, model.step_set]
    lifted = model.names[0]
    assert model.push(lifted, stated(subjects=["genetic"], **{"class": "confidential"})).status == 201
    model.raise_to(lifted, 1, frozenset(["genetic"]))
    for number in range(25):
        step, name = model.chance.choice(steps), model.chance.choice(model.names)
        step(name)
        model.check((seed, number, step.__name__, name))
    entries = [{"policy": which, "scope": [lifted], "reason": "it was made anonymous", "evidence": sha256(b"a report")} for which in ("rand", "sijil-run")]
    for named in (entries[:1], entries):
        load(declassified=named)
        wait_until(lambda: server.client(server.admin).api("GET", "/policies")["epoch"] == server.epoch, 30, "the set is not in force")
        assert ("genetic" in model.seen(lifted)[1]) == (named != entries), "what lineage has brought falls only if the set names it"
    assert model.seen(lifted) == (1, frozenset()), "what a signed set declassifies has the label of the policies in force"


if __name__ == "__main__":
    run(prepare, a_model_states_the_label_of_its_data, a_model_of_a_model_and_a_mount_of_it_keep_the_label, a_gateway_that_leaves_rows_out_gains_nothing, a_copy_keeps_its_label,
        a_copy_does_not_go_where_it_may_not_be, a_publisher_locks_no_content_away, labels_travel_along_the_lineage, a_mount_carries_the_label, a_publisher_takes_no_places_of_others, a_manifest_without_its_label_is_another_one, a_signed_set_lifts_it,
        an_outsider_sees_what_the_manifests_state, a_label_never_falls, server=server)
