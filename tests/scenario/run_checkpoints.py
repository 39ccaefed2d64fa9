#!/usr/bin/env python3
"""Checkpoints of training runs, on two gateways: kept for their run's successor alone, bounded, labelled, removed when nobody continues from them; and a
real training that is killed with its runner and comes to the same bytes as an undisturbed one."""
import http.client
import json
import os
import secrets
import struct
import subprocess
import threading
import time

import sijil_test
import run_world
from real_runner import RealRunner
from run_fleet import TRAINING, RunFleet
from run_world import FOLDER, PROJECT, Person, Runner, World, artifact, opened, spec, stated
from sijil_test import Client, make_robot, program, run, sha256

TYPE, MANIFEST = "application/vnd.sijil.run-checkpoint.v1", "application/vnd.oci.image.manifest.v1+json"
EMPTY = "application/vnd.oci.empty.v1+json"
TRAINED = PROJECT + "/trained"
server = RunFleet(2).start()
state = {}
sql, load = server.sql, server.load


def prepare():
    conninfo = f"host={server.database_at} dbname=sijil_template user=sijil_app"
    world = state["world"] = World(server, server.path("approver.pem"), conninfo, server.path("socket"))
    load()
    threading.Thread(target=beat_all, daemon=True).start()
    state["alice"] = Person(world, "alice")
    state["runner"], state["other"], state["leaving"] = Runner(world), Runner(world), Runner(world)
    state["pusher"] = server.client(make_robot(server, "pusher", "publisher", PROJECT))
    state["reader"] = server.client(make_robot(server, "reader", "consumer", PROJECT))
    state["code"] = push("code", {"train.py": TRAIN.encode()})


def push(name, files):
    """An artifact with these files; its place, as a spec names it."""
    place = state["pusher"].repository(f"{PROJECT}/{name}")
    for content in files.values():
        place.push_blob(content)
    manifest = json.loads(place.manifest(*files.values()))
    for layer, title in zip(manifest["layers"], files):
        layer["annotations"] = {"org.opencontainers.image.title": title}
    answer = place.put_manifest("latest", json.dumps(manifest).encode())
    assert answer.status == 201, answer.body
    return {"repository": f"{PROJECT}/{name}", "digest": answer["Docker-Content-Digest"]}


def beat_all():
    """A runner that is silent for 40 s loses its runs."""
    while True:
        time.sleep(8)
        for lease in list(Lease.live):
            try:
                lease.runner.beat(lease.run, lease.attempt)
            except (OSError, http.client.HTTPException):
                pass  # the server has ended


class Lease:
    """A run that a runner has started, and what it uploads."""
    live = []
    label = stated()  # of what it makes

    def __init__(self, runner=None, limits=None, **more):
        self.runner = runner or state["runner"]
        wanted = spec(limits={**spec()["limits"], **(limits or {})}, **more)
        self.asked = state["alice"].request(spec=wanted)
        self.where = wanted["outputs"][0]["repository"]
        self.bundle = self.runner.lease()
        lease = opened(self.bundle["lease"])[0]
        self.run, self.attempt = self.asked["run"], lease["attempt"]
        assert lease["run"] == self.run and self.runner.start(self.run, self.attempt).status == 204
        self.live.append(self)

    def token(self):
        answer = self.runner.call(f"runs/{self.run}/token", {"attempt": self.attempt, "node": 0})
        assert answer.status == 200, (answer.status, answer.body)
        return answer.json["access_token"]

    def v2(self, method, path, body=None, token=None, **headers):
        link = self.runner.connection()
        try:
            return Client(server).call(method, "/v2/" + path, body, {"Authorization": "Bearer " + (token or self.token()), **headers}, connection=link)
        finally:
            link.close()

    def blob(self, data):
        answer = self.v2("POST", f"{self.where}/blobs/uploads/?digest={sha256(data)}", data, **{"Content-Type": "application/octet-stream"})
        assert answer.status == 201, (answer.status, answer.body)
        return {"mediaType": "application/octet-stream", "digest": sha256(data), "size": len(data)}

    def manifest(self, *contents, layers=None, **members):
        self.blob(b"{}")
        layers = layers if layers is not None else [{**self.blob(data), "annotations": {"org.opencontainers.image.title": f"file{number}"}} for number, data in enumerate(contents)]
        return json.dumps({"schemaVersion": 2, "mediaType": MANIFEST, "artifactType": TYPE,
                           "config": {"mediaType": EMPTY, "digest": sha256(b"{}"), "size": 2}, "layers": layers, "annotations": self.label,
                           **members}).encode()

    def send(self, text, runner=None, port=None, attempt=None):
        link = (runner or self.runner).connection(port)
        try:
            return Client(server, None, port).call("POST", f"/api/v1/runner/runs/{self.run}/checkpoint?attempt={attempt or self.attempt}", text,
                                                   {"Content-Type": MANIFEST, **(runner or self.runner).named()}, connection=link)
        finally:
            link.close()

    def keep(self, *contents, port=None):
        text = self.manifest(*contents)
        answer = self.send(text, port=port)
        assert answer.status == 204, (answer.status, answer.body)
        return sha256(text)

    def kept(self):
        return [one["digest"] for one in state["alice"].run(self.asked).get("checkpoints", [])]

    def cancel(self):
        self.live.remove(self)
        answer = state["alice"].call("DELETE", "/" + self.run)
        assert answer.status == 204, answer.body
        return self

    def uploaded(self):
        return int(sql(f"SELECT uploaded_bytes FROM run_attempt WHERE run_id = '{self.run}'"))


def events(action, outcome="allowed"):
    return [one for one in state["world"].events(action) if one["out"] == outcome]


def resume_of(lease, digest):
    return {"repository": lease.where, "digest": digest}


def read(lease, resume, *blobs):
    """The statuses with which a run gets the manifest and the blobs of an artifact."""
    token, place = lease.token(), resume["repository"]
    paths = [f"manifests/{resume['digest']}", *(f"blobs/{sha256(data)}" for data in blobs)]
    return [lease.v2("GET", f"{place}/{path}", token=token).status for path in paths]


# ---- keeping ----

def a_checkpoint_is_kept_for_a_successor_alone():
    lease = state["lease"] = Lease()
    before = len(events("run.checkpoint"))
    data = b"these weights stand nowhere in the clear"
    digest = lease.keep(data)
    shown = state["alice"].run(lease.asked)["checkpoints"]
    assert [(one["repository"], one["digest"], one["attempt"], one["bytes"]) for one in shown] == [(TRAINED, digest, 1, len(data) + 2)], shown
    assert "until" not in shown[0] and "kept" in shown[0]
    (event,) = events("run.checkpoint")[before:]
    assert f"{lease.run} 1 0 {digest}" in json.dumps(event), event
    text = lease.manifest(data)
    assert lease.send(text, port=server.ports[1]).status == 204 and lease.kept() == [digest], "the same again"
    for client in (state["reader"], state["pusher"]):
        answer = client.repository(TRAINED).call("GET", "manifests/" + digest, scope=f"repository:{TRAINED}:pull")
        assert answer.status == 404, (answer.status, answer.body)
        for method, path in (("GET", "blobs/"), ("HEAD", "blobs/"), ("HEAD", "manifests/")):
            answer = client.repository(TRAINED).call(method, path + (sha256(data) if path == "blobs/" else digest), scope=f"repository:{TRAINED}:pull")
            assert answer.status == 404, (method, path, answer.status)
    assert read(lease, resume_of(lease, digest), data) == [403, 403], "the run that wrote it reads it"
    answer = state["pusher"].repository(TRAINED).put_manifest("forged", text)
    assert answer.status == 403, answer.body
    assert subprocess.run(["grep", "-rlF", "stand nowhere in the clear", server.folder], capture_output=True, check=False).stdout == b""


def the_newest_are_kept_and_the_others_are_given_back():
    lease = Lease(limits={"output_bytes": 4096})
    digests, contents = [], []
    for number in range(12):  # more than the limit of an attempt if none were given back
        contents.append(secrets.token_bytes(3 << 20 if number == 0 else 1 << 19))
        if number == 0:
            text = lease.manifest(contents[0])
            refused = lease.send(text)
            assert refused.status == 403 and b"output_bytes" in refused.body, (refused.status, refused.body)
            continue
        digests.append(lease.keep(contents[-1], b"the same in all", port=server.ports[number % 2]))
        assert lease.kept() == digests[:-3:-1], (number, lease.kept(), digests)
        assert lease.uploaded() == sum(len(one) for one in contents[-2 if number > 1 else -1:]) + 15 + 2, (number, lease.uploaded())
    counted = int(sql(f"SELECT bytes FROM project_runs JOIN run USING (project_id) WHERE run_id = '{lease.run}'"))
    lease.keep(b"small", b"the same in all")
    assert int(sql(f"SELECT bytes FROM project_runs JOIN run USING (project_id) WHERE run_id = '{lease.run}'")) < counted + 100
    lease.cancel()


def what_fits_as_checkpoints_is_no_larger_output():
    lease = Lease(limits={"output_bytes": 4096})
    made = {"model": lease.manifest(secrets.token_bytes(3 << 20), artifactType="application/vnd.example+json").decode(),
            "log": lease.manifest(layers=[{**lease.blob(b"log"), "annotations": {"org.opencontainers.image.title": "log.txt"}}],
                                  artifactType="application/vnd.sijil.run-log.v1").decode()}
    text = lease.runner.result(lease.bundle, {name: sha256(one.encode()) for name, one in made.items()})
    answer = lease.runner.finish(lease.bundle, text, made)
    assert answer.status == 400 and b"4096 bytes of outputs" in answer.body, (answer.status, answer.body)
    lease.cancel()


def what_is_no_checkpoint_is_refused_with_the_rule():
    lease = Lease()
    good = lease.manifest(b"good")
    unclear = [{**lease.blob(b"here"), "annotations": {"org.opencontainers.image.title": title}} for title in ("../x", "x\ny", "x", "x/y")]
    unpacked = [{**lease.blob(b"here"), "annotations": {"org.opencontainers.image.title": "x", "io.deis.oras.content.unpack": "true"}}]
    title, none = {"annotations": {"org.opencontainers.image.title": "file0"}}, []
    absent = [{"mediaType": "application/octet-stream", "digest": sha256(b"absent"), "size": 6, **title}]
    elsewhere = [{**lease.blob(b"here"), "urls": ["https://elsewhere.example/x"], **title}]
    state["pusher"].repository(lease.where).push_blob(b"somebody else's")
    others = [{"mediaType": "application/octet-stream", "digest": sha256(b"somebody else's"), "size": 15, **title}]
    wrong_size = [{**lease.blob(b"here"), "size": 5, **title}]
    subject = {"mediaType": MANIFEST, "digest": sha256(good), "size": len(good)}
    for text, status, says in ((lease.manifest(b"x", artifactType="application/vnd.example+json"), 400, b"artifactType"),
                               (lease.manifest(b"x", subject=subject), 400, b"no subject"), (lease.manifest(layers=absent), 400, b"upload it"),
                               (lease.manifest(layers=wrong_size), 400, b"has not uploaded it with 5 bytes"), (lease.manifest(layers=others), 400, b"has not uploaded it"), (lease.manifest(layers=elsewhere), 400, b"kept elsewhere"),
                               (lease.manifest(layers=none), 400, b"one layer for each file"), (lease.manifest(layers=[lease.blob(b"here")]), 400, b"layer 1 has none"),
                               (lease.manifest(layers=unclear[:1]), 400, b"layer 1 is no path"), (lease.manifest(layers=unclear[1:2]), 400, b"layer 1 is no path"),
                               (lease.manifest(layers=unclear[2:]), 400, b"'x/y' needs a folder"), (lease.manifest(layers=unclear[2:3] * 2), 400, b"called 'x'"),
                               (lease.manifest(layers=unpacked), 400, b"layer 1 has an annotation"),
                               (lease.manifest(b"x", config={**lease.blob(b"{}"), "mediaType": "application/x"}), 400, b"empty config"),
                               (lease.manifest(b"x", config={**lease.blob(b"here"), "mediaType": EMPTY}), 400, b"empty config"),
                               (b"{}", 400, b""), (b"[" * 5000, 413, b"levels"), (b"", 400, b""), (good[:-1], 400, b"")):
        answer = lease.send(text)
        assert answer.status == status and says in answer.body, (text[:200], answer.status, answer.body)
    many = lease.send(lease.manifest(layers=[{"mediaType": "x/y", "digest": sha256(b"%d" % number), "size": 1, **title} for number in range(4097)]))
    assert many.status == 400 and b"at most 4096 files" in many.body, (many.status, many.body)
    assert lease.send(good, runner=state["other"]).status == 404 and lease.send(good, attempt=2).status == 404
    plain = Client(server).call("POST", f"/api/v1/runner/runs/{lease.run}/checkpoint?attempt=1", good, {"Content-Type": MANIFEST})
    assert plain.status == 401 and lease.kept() == []
    assert lease.send(good).status == 204
    lease.cancel()
    assert lease.send(good).status == 409
    assert len(lease.kept()) == 1


# ---- continuing ----

def a_run_continues_from_a_checkpoint():
    lease = state["lease"]
    files = (b"weights of step 7", b"optimizer")
    digest = lease.keep(*files)
    resume = resume_of(lease, digest)
    successor = Lease(runner=state["other"], resume=resume)
    assert read(successor, resume, *files, b"{}") == [200] * 4
    assert successor.v2("HEAD", f"{TRAINED}/manifests/{digest}").status == 200
    older = resume_of(lease, [one for one in lease.kept() if one != digest][0])
    assert read(successor, older) == [403], "a checkpoint that the order does not name"
    for number in range(3):  # newer ones come, and it stays, because a run is to continue from it
        lease.keep(b"newer %d" % number)
    assert digest in lease.kept() and len(lease.kept()) == 3, lease.kept()
    assert read(successor, resume, *files) == [200] * 3
    successor.cancel()
    lease.keep(b"newest")
    assert {state["reader"].repository(TRAINED).call("GET", "blobs/" + sha256(one), scope=f"repository:{TRAINED}:pull").status for one in files} == {404}
    assert digest not in lease.kept() and len(lease.kept()) == 2, lease.kept()
    state["gone"] = resume


def rows_give_a_successor_no_other_blob():
    """With the database role: another blob of the repository as one of the checkpoint's. The checkpoint itself is asked."""
    lease, secret = state["lease"], b"the weights of somebody else " + secrets.token_bytes(8)
    state["pusher"].repository(TRAINED).push_blob(secret)
    held = b"what another run has uploaded " + secrets.token_bytes(8)
    other = Lease(runner=state["other"])
    other.blob(held)
    other.cancel()
    resume = resume_of(lease, lease.keep(b"weights of step 8"))
    successor = Lease(runner=state["other"], resume=resume)
    for data in (secret, held):
        assert read(successor, resume, data) == [200, 403]
        sql("INSERT INTO run_checkpoint_blob (run_id, checkpoint, digest, repository_id) SELECT run_id, digest, "
            f"'{sha256(data)}', repository_id FROM run_checkpoint WHERE digest = '{resume['digest']}'")
        assert read(successor, resume, data, b"weights of step 8") == [200, 404, 200]
    successor.cancel()


def a_row_makes_it_no_checkpoint_of_another_run():
    """With the database role: a copy under an honest run, older than the original. What continues from it would not count as its maker's any more."""
    maker, honest = Lease(runner=state["leaving"]), Lease(runner=state["other"])
    digest = maker.keep(b"made by one that leaves")
    maker.cancel()
    honest.cancel()
    resume, members = resume_of(maker, digest), "repository_id, content_bytes, size_bytes, key_id, sealed"
    before = Lease(runner=state["other"], resume=resume)
    sql(f"SET ROLE sijil_app; INSERT INTO run_checkpoint (run_id, digest, attempt, key, {members}, kept_at) SELECT '{honest.run}', digest, 1,"
        f" '{honest.runner.key.name}', {members}, now() - interval '2 hours' FROM run_checkpoint WHERE run_id = '{maker.run}';"
        f" INSERT INTO run_checkpoint_blob SELECT '{honest.run}', checkpoint, digest, repository_id FROM run_checkpoint_blob WHERE run_id = '{maker.run}';"
        " RESET ROLE")
    assert read(before, resume, b"made by one that leaves") == [200, 200], "that of the run that was noted"
    before.cancel()
    after = Lease(runner=state["other"], resume=resume)
    assert sql(f"SELECT source FROM run_resume WHERE run_id = '{after.run}'") == honest.run
    assert read(after, resume, b"made by one that leaves") == [500, 500]
    sql(f"DELETE FROM run_checkpoint WHERE run_id = '{maker.run}'")
    assert read(after, resume, b"made by one that leaves") == [500, 500], "also if it is the only one"
    after.cancel()
    sql(f"DELETE FROM run_checkpoint WHERE run_id = '{honest.run}'")


def a_row_makes_no_run_a_successor():
    """With the database role: a thief's run as the one that an admitted run and a kept checkpoint come from. The withdrawal of its key would count for both."""
    made, honest = Lease(), Lease()
    digest = made.keep(b"made by a thief")
    honest.keep(b"honest work of a week")
    made.cancel()
    honest.cancel()
    for run_id in (honest.run, state["lease"].run):
        said = sql(f"SET ROLE sijil_app; INSERT INTO run_resume (run_id, repository, digest, source) VALUES ('{run_id}', '{TRAINED}', '{digest}', '{made.run}');"
                   " RESET ROLE")
        assert "was asked for without this checkpoint" in said, said
    said = sql("SET ROLE sijil_app; INSERT INTO run_attempt (run_id, attempt, node, runner, key, session, deadline, ends_at)"
               f" SELECT '{honest.run}', 99, 0, runner, key, session, now(), now() FROM run_attempt WHERE run_id = '{made.run}'; RESET ROLE")
    assert "has ended, and gets no attempt" in said, said
    assert sql(f"SELECT count(*) FROM run_resume WHERE source = '{made.run}'") == "0"


def requests_name_what_is_there():
    lease, alice = state["lease"], state["alice"]
    kept = lease.kept()[0]

    def refused(resume, status):
        try:
            alice.request(spec=spec(resume=resume))
            raise AssertionError(f"it was taken: {resume}")
        except AssertionError as why:
            assert status in str(why), (resume, str(why)[:500])

    before = sql("SELECT count(*) FROM run")
    refused(state["gone"], "keeps no such checkpoint")
    refused(resume_of(lease, sha256(b"never")), "keeps no such checkpoint")
    refused({"repository": PROJECT + "/code", "digest": kept}, "keeps no such checkpoint")
    refused({"repository": PROJECT + "/nothing", "digest": kept}, "keeps no such checkpoint")
    refused({"repository": "main/elsewhere/trained", "digest": kept}, "roles or policies do not allow")
    assert sql("SELECT count(*) FROM run") == before
    state["none"] = Lease().cancel()
    pushed = push("pushed", {"weights": b"a checkpoint that somebody pushed"})
    Lease(resume=pushed).cancel()


def a_checkpoint_stays_in_its_project():
    """A person with rights in both projects can't take it to the other one."""
    lease, other = state["lease"], "main/elsewhere"
    kept = resume_of(lease, lease.kept()[0])
    server.client(server.admin).api("POST", "/projects", {"organisation": "main", "name": "elsewhere"})
    run_world.PROJECT = other
    try:
        eve = Person(state["world"], "eve")
        server.client(server.admin).api("POST", "/bindings", {"issuer": server.people.url, "subject": "eve", "role": "trainer", "scope": PROJECT})
        outputs = [{"name": "model", "repository": other + "/trained", "type": "application/vnd.example+json"}]
        code = {"repository": PROJECT + "/code", "digest": state["code"]["digest"]}

        def ask(resume):
            try:
                return eve.request(spec=spec(code=code, inputs=[], outputs=outputs, resume=resume, pool="nobody"))
            except AssertionError as why:
                return str(why)
        sijil_test.wait_until(lambda: "roles or policies" not in ask(kept), 20, "eve's rights are not known")
        assert "of a run of this project" in ask(kept)
        asked = ask(code)  # an artifact of the repository may go along, if rights and policies allow it
        assert isinstance(asked, dict), asked
    finally:
        run_world.PROJECT = PROJECT


# ---- labels ----

def a_checkpoint_has_the_label_of_all_that_was_read():
    """It lies where the label already is, and what is made from it gets the same label."""
    patients = {"apiVersion": "sijil.policy/v1", "kind": "ResidencyPolicy", "labels": {"class": "sensitive", "subjects": ["health"]},
                "metadata": {"id": "health", "version": 1, "scope": [PROJECT + "/patients"], "effective_from": "2020-01-01T00:00:00Z", "review_by": "2099-01-01"},
                "rules": [{"id": "H-PERMIT", "effect": "permit", "ops": list(TRAINING), "when": {"class_at_most": "sensitive"}}]}
    load(at_most="sensitive", policies=[patients])
    outputs = [[{"name": "model", "repository": PROJECT + "/" + name, "type": "application/vnd.example+json"}] for name in ("labelled", "made-of-it")]
    lease = Lease(inputs=[{"name": "digits", **artifact(PROJECT + "/patients")}], outputs=outputs[0])
    label = f"SELECT label FROM run_label WHERE repository = '%s' ORDER BY stored_at DESC LIMIT 1"
    assert json.loads(sql(label % "labelled"))["subjects"] == ["health"], "before the first byte"
    for members, says in (({"annotations": {}}, b"no annotation sijil.label"), ({}, b"lacks a part"), ({"annotations": {"sijil.label": "{}"}}, b"is no label")):
        answer = lease.send(lease.manifest(b"x", **members))
        assert answer.status == 400 and says in answer.body, (answer.status, answer.body)
    lease.label = stated(**{"class": "sensitive", "pins": ["all", "health"], "subjects": ["health"]})
    digest = lease.keep(b"what it learned of patients")
    assert resume_of(lease, digest)["repository"] == PROJECT + "/labelled"
    successor = Lease(runner=state["other"], inputs=[], resume=resume_of(lease, digest), outputs=outputs[1])
    made = json.loads(sql(label % "made-of-it"))
    assert made["subjects"] == ["health"] and made["class"] == "sensitive", made
    assert read(successor, resume_of(lease, digest), b"what it learned of patients") == [200, 200]
    successor.cancel()
    # A place that may not have such content gets no run that continues from it.
    closed = {**patients, "metadata": {**patients["metadata"], "version": 2}, "rules": [{**patients["rules"][0], "ops": ["read", "train", "metadata", "log"]}]}
    load(at_most="sensitive", policies=[closed])
    asked = state["alice"].request(spec=spec(inputs=[], resume=resume_of(lease, digest), outputs=[{**outputs[1][0], "repository": PROJECT + "/third"}]))
    state["alice"].wait(asked, "failed", 60)
    assert "can't take the label" in state["alice"].run(asked)["reason"], state["alice"].run(asked)
    load(at_most="sensitive", policies=[patients])
    lease.cancel()


# ---- the end ----

def produced(lease):
    """The manifests of a successful run."""
    made = {}
    for name, kind, title in (("model", "application/vnd.example+json", "m"), ("log", "application/vnd.sijil.run-log.v1", "log.txt")):
        layer = {**lease.blob(secrets.token_bytes(9)), "annotations": {"org.opencontainers.image.title": title}}
        made[name] = lease.manifest(layers=[layer], artifactType=kind).decode()
    return made


def finish(lease, **more):
    """`more`: why it failed."""
    made = {name: text for name, text in produced(lease).items() if name == "log" or not more}
    text = lease.runner.result(lease.bundle, {name: sha256(one.encode()) for name, one in made.items()}, **more)
    answer = lease.runner.finish(lease.bundle, text, made)
    assert answer.status == 200, answer.body


def they_go_when_nobody_continues_from_them():
    succeeded, continued, failed, quarantined, withdrawn = Lease(), Lease(), Lease(), Lease(), Lease(runner=state["leaving"])
    kept = {lease.run: lease.keep(secrets.token_bytes(10)) for lease in (succeeded, continued, failed, quarantined, withdrawn)}
    before = len(events("run.forget"))
    successor = Lease(runner=state["other"], resume=resume_of(continued, kept[continued.run]))
    finish(continued)
    finish(succeeded)
    finish(failed, status="failed", exit_status=3, reason="it failed")
    state["alice"].wait(succeeded.asked, "succeeded", 60)
    shown = state["alice"].run(failed.asked)
    assert shown["state"] == "failed" and shown["checkpoints"][0]["until"][:4] >= "2026", shown
    days = sql(f"SELECT extract(epoch FROM '{shown['checkpoints'][0]['until']}'::timestamptz - expires_at) / 86400 FROM run WHERE run_id = '{failed.run}'")
    assert float(days) == 30 and opened(failed.bundle["order"])[0]["expires"][:19] == sql(
        f"SELECT to_char(expires_at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS') FROM run WHERE run_id = '{failed.run}'"), (days, shown)
    # Rows end runs long ago, of which sijil-keyd has admitted none, and whose orders go on.
    forged = [failed, quarantined, *(Lease() for _ in range(2))]
    kept.update((lease.run, lease.keep(secrets.token_bytes(10))) for lease in forged[2:])
    for lease, name in zip(forged, ("failed", "quarantined", "succeeded", "expired")):
        sql(f"ALTER TABLE run DISABLE TRIGGER USER; UPDATE run SET state = '{name}', ended_at = now() - interval '31 days', expires_at = ended_at"
            f" WHERE run_id = '{lease.run}'; ALTER TABLE run ENABLE TRIGGER USER")
    withdrawn.runner.withdraw()
    for lease in (succeeded, withdrawn):
        sijil_test.wait_until(lambda lease=lease: lease.kept() == [], 90, f"it stays: {state['alice'].run(lease.asked)}")
    assert continued.kept() == [kept[continued.run]] and len(events("run.forget")) == before + 2, "an open run is to continue from it"
    successor.cancel()
    sijil_test.wait_until(lambda: continued.kept() == [], 90, "it stays after its successor")
    assert [lease.kept() for lease in forged] == [[kept[lease.run]] for lease in forged], "what only a row says has removed a checkpoint"
    assert len(events("run.forget")) == before + 3
    withdrawn.cancel()  # or the next runner that asks gets it, once its attempt was silent long enough
    assert sql("SELECT count(*) FROM run_checkpoint_blob b LEFT JOIN run_checkpoint c ON c.run_id = b.run_id AND c.digest = b.checkpoint WHERE c.run_id IS NULL") == "0"


def what_continues_from_a_withdrawn_runner_counts_as_its():
    """Over two steps, admitted before or not, also if the checkpoint is gone. What its row says of its runner is not believed."""
    thief, honest = Runner(state["world"]), state["other"]
    first, hidden, own = Lease(runner=thief), Lease(runner=thief), Lease(runner=honest)
    kept, hidden_one, own_one = (lease.keep(secrets.token_bytes(10)) for lease in (first, hidden, own))
    first.cancel()
    hidden.cancel()
    admitted = Lease(runner=honest, resume=resume_of(first, kept))
    finish(admitted)
    state["alice"].wait(admitted.asked, "succeeded", 60)
    between = Lease(runner=honest, resume=resume_of(first, kept))
    second = between.keep(secrets.token_bytes(10))
    between.cancel()
    waits = Lease(runner=honest, resume=resume_of(between, second))
    sql(f"SET ROLE sijil_app; UPDATE run_checkpoint SET key = '{honest.key.name}', kept_at = now() - interval '9 days' WHERE run_id = '{hidden.run}'")
    thief.withdraw()
    finish(waits)
    state["alice"].wait(waits.asked, "quarantined", 90)
    finish(own)
    state["alice"].wait(own.asked, "succeeded", 60)
    sijil_test.wait_until(lambda: state["alice"].run(admitted.asked).get("doubts"), 90, "the admitted run has no doubt")
    assert state["alice"].run(admitted.asked)["doubts"][0]["key"] == thief.key.name
    for lease in (first, hidden, between):
        sijil_test.wait_until(lambda lease=lease: lease.kept() == [], 90, "a checkpoint of the withdrawn runner stays")
    assert not state["alice"].run(own.asked).get("doubts") and hidden_one and own_one


def blobs_of_a_kept_one_are_not_collected():
    lease, data = Lease(), secrets.token_bytes(100)
    digest = lease.keep(data)
    lease.cancel()
    resume, admin = resume_of(lease, digest), server.client(server.admin)

    def collect():
        sql("UPDATE blob SET lease_until = now() - interval '1 hour'")
        job = admin.api("POST", "/collections", {"project": PROJECT})
        sijil_test.follow(admin, job["id"], f"?project={PROJECT}")
        return sql(f"SELECT count(*) FROM blob WHERE digest = '{sha256(data)}'")
    assert collect() == "1"
    successor = Lease(runner=state["other"], resume=resume)
    assert read(successor, resume, data) == [200, 200]
    successor.cancel()
    sql(f"DELETE FROM run_checkpoint WHERE run_id = '{lease.run}'")
    assert collect() == "0"


# ---- a real training ----

TRAIN = """
import os, time
import numpy as np
data = np.frombuffer(open("/in/digits/rows.bin", "rb").read(), np.float32).reshape(-1, 9)
weights, momentum, first = np.zeros(8, np.float32), np.zeros(8, np.float32), 0
if os.path.exists("/in/resume/state.npz"):
    kept = np.load("/in/resume/state.npz")
    weights, momentum, first = kept["weights"].copy(), kept["momentum"].copy(), int(kept["step"]) + 1
    print("continues at", first, flush=True)
for step in range(first, 60):
    rows = data[step % 7::7]
    slope = rows[:, :8].T @ (np.tanh(rows[:, :8] @ weights) - rows[:, 8]) / np.float32(len(rows))
    momentum = np.float32(0.9) * momentum + slope
    weights = weights - np.float32(0.1) * momentum
    if step % 4 == 3:
        os.mkdir("/checkpoints/.next")
        np.savez("/checkpoints/.next/state.npz", weights=weights, momentum=momentum, step=step)
        os.rename("/checkpoints/.next", f"/checkpoints/step-{step}")
    time.sleep(float(os.environ["PAUSE"]))
os.mkdir("/out/model")
open("/out/model/w.bin", "wb").write(weights.tobytes())
print("done", flush=True)
"""


def train(pause, **more):
    return spec(code=state["code"], inputs=[{"name": "digits", **state["digits"]}], argv=["/usr/bin/python3", "train.py"], pool="real",
                environment={"PAUSE": pause, "OPENBLAS_NUM_THREADS": "1"}, **more)


def output_of(asked, seconds=90):
    state["alice"].wait(asked, "succeeded", seconds)
    return state["alice"].run(asked)["outputs"][0]["digest"]


def command(name, *words):
    environment = {**os.environ, "HOME": FOLDER.name, "XDG_CONFIG_HOME": FOLDER.name}
    address = f"127.0.0.1:{server.ports[0]}"
    words = ["login", address, "--username", state["alice"].login[0], "--ca-file", server.ca_file] if name == "login" else ["run", name, address, PROJECT, *words]
    done = subprocess.run([program("sijil"), *words], input=state["alice"].login[1] + "\n", capture_output=True, text=True, check=False, timeout=120,
                          env=environment)
    return done


def a_killed_training_continues_to_the_same_bytes():
    rows = b"".join(struct.pack("<f", ((number * 7919) % 1000) / 1000 - 0.5) for number in range(9 * 700))
    state["digits"] = push("digits", {"rows.bin": rows})
    runner = Runner(state["world"], pool="real")
    real = RealRunner(server, runner)
    with real:
        undisturbed = output_of(state["alice"].request(spec=train("0")))
        killed = state["alice"].request(spec=train("0.4"))
        sijil_test.wait_until(lambda: len(state["alice"].run(killed).get("checkpoints", [])) >= 2, 60, "no checkpoint is kept")
        real.kill()
        assert state["alice"].call("DELETE", "/" + killed["run"]).status == 204
        newest = state["alice"].run(killed)["checkpoints"][0]
        assert "until" in newest, newest
        assert command("login").returncode == 0
        shown = command("show", killed["run"])
        assert f"checkpoints      {TRAINED}@{newest['digest']}" in shown.stdout, (shown.stdout, shown.stderr)
        real.start()
        path = os.path.join(FOLDER.name, "spec.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(train("0"), file)
        key = ["--key", state["alice"].key.path]
        assert command("start", path, *key, "--resume", "no-run").returncode == 2
        nothing = command("start", path, *key, "--resume", state["none"].run)
        assert nothing.returncode != 0 and "keeps no checkpoint" in nothing.stderr, nothing
        started = command("start", path, *key, "--resume", killed["run"])
        assert started.returncode == 0 and f"continues from the checkpoint {newest['digest']}" in started.stderr, (started.stdout, started.stderr)
        successor = {"run": started.stdout.split()[1]}
        assert output_of(successor) == undisturbed, "other bytes"
        asked = opened(state["alice"].run(successor)["envelopes"][0]["envelope"])[0]
        assert asked["spec"]["resume"] == {"repository": TRAINED, "digest": newest["digest"]}
        lineage = sql(f"SELECT digest FROM run_lineage WHERE run_id = '{successor['run']}' AND role = 'resume'")
        assert lineage == newest["digest"], lineage
        log = Client(server, state["alice"].login).call("GET", f"/api/v1/projects/{PROJECT}/runs/{successor['run']}/log", scope="registry:admin:*").body
        assert b"continues at " in log and int(log.split(b"continues at ")[1].split()[0]) >= 4, log


if __name__ == "__main__":
    run(prepare, a_checkpoint_is_kept_for_a_successor_alone, the_newest_are_kept_and_the_others_are_given_back,
        what_fits_as_checkpoints_is_no_larger_output, what_is_no_checkpoint_is_refused_with_the_rule, a_run_continues_from_a_checkpoint, rows_give_a_successor_no_other_blob, a_row_makes_it_no_checkpoint_of_another_run, a_row_makes_no_run_a_successor, requests_name_what_is_there,
        a_checkpoint_stays_in_its_project, a_checkpoint_has_the_label_of_all_that_was_read, blobs_of_a_kept_one_are_not_collected,
        a_killed_training_continues_to_the_same_bytes, they_go_when_nobody_continues_from_them, what_continues_from_a_withdrawn_runner_counts_as_its, server=server)
