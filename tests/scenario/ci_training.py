#!/usr/bin/env python3
"""The pipelines that `sijil ci init --train` prints, on a whole server with a real runner: each job asks for a run by the token of its CI system, waits
longer than a token of the registry lives, and pulls what was made (docs/ci.md)."""
import concurrent.futures
import json
import os
import subprocess
import tempfile
import time

from ci_systems import SHAPES, actions, commands_of, filled_in
from real_runner import RealRunner
from run_fleet import RunFleet
from run_world import FOLDER, PROJECT, Person, Runner, World, canonical, opened, seal, spec
from sijil_test import Issuer, make_robot, program, run, sha256, wait_until

RULE_TYPE = "application/vnd.sijil.trust-rule.v1+json"
TOKEN_S = 60  # the shortest life that a rule can give
TRAIN = b"set -e\nmkdir -p /out/model\ncat /in/digits/a.txt > /out/model/w.bin\n"
REPOSITORIES = [f"{PROJECT}/{name}" for name in ("trained", "code", "data")]
server = RunFleet(1).start()
at = f"127.0.0.1:{server.port}"
audience = f"https://{at}"
state = {"issuers": {}}


def stamp(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + ".000Z"


def sijil(*words):
    return subprocess.run([program("sijil"), *words], capture_output=True, text=True, timeout=60, check=True).stdout


def push(name, files):
    there = state["pusher"].repository(f"{PROJECT}/{name}")
    layers = [{"mediaType": "application/octet-stream", "digest": there.push_blob(content), "size": len(content),
               "annotations": {"org.opencontainers.image.title": title}} for title, content in files.items()]
    text = there.manifest(layers=layers)
    assert there.put_manifest("v1", text).status == 201, name
    return sha256(text)


def trust(system):
    """The rule that the command prints, with a shorter life, signed by the root."""
    url = SHAPES[system][0]
    issuer = state["issuers"][system] = Issuer(url, audience)
    server.client(server.admin).api("POST", "/issuers", {"url": url, "algorithms": ["ES256"], "jwks": issuer.jwks, "lifetime_max": 900})
    printed = filled_in(sijil("ci", "init", system, at, *REPOSITORIES, "--train", "--rule"))
    assert printed["single_use"] is (system == "github") and printed["scope"] == PROJECT, printed
    body = {name: value for name, value in printed.items() if name not in ("id", "scope")}
    if "immutable" in body:
        body["immutable"] = sorted(body["immutable"])
    now = time.time()
    document = {"schema": "sijil.document/v1", "kind": "trust-rule", "scope": PROJECT, "name": printed["id"], "version": 1, "effective_from": stamp(now - 1),
                "expires": stamp(now + 86400), "body": {**body, "max_ttl": TOKEN_S}}
    server.client(state["world"].officer).api("POST", "/trust-rules", json.loads(canonical(seal(RULE_TYPE, document, state["world"].root))))


def prepare():
    conninfo = f"host={server.database_at} dbname=sijil_template user=sijil_app"
    world = state["world"] = World(server, server.path("approver.pem"), conninfo, server.path("socket"))
    state["pusher"] = server.client(make_robot(server, "pusher", "publisher", PROJECT))
    state["bob"], state["carol"] = Person(world, "bob"), Person(world, "carol")
    state["code"], state["data"] = push("code", {"train.sh": TRAIN}), push("data", {"a.txt": b"some digits\n"})
    for system in SHAPES:
        trust(system)
    server.load(approvals=1)


def token(system):
    claims = dict(SHAPES[system][1])
    if system in ("jenkins", "kubernetes"):
        claims["sub"] = claims["sub"].replace("job/model", "job/train").replace(":model", ":train")
    return state["issuers"][system].token(**claims)


class Job:
    """One run of a pipeline: its commands as the system would run them, each in a shell of its own."""

    def __init__(self, system, wish):
        self.system, self.work = system, tempfile.mkdtemp(prefix=f"work-{system}-", dir=FOLDER.name)
        with open(os.path.join(self.work, "spec.yaml"), "w", encoding="utf-8") as file:
            json.dump(wish, file)
        with open(os.path.join(self.work, "token"), "w", encoding="ascii") as file:
            file.write(token(system))
        self.environment = {**os.environ, "HOME": self.work, "XDG_CONFIG_HOME": self.work, "SIJIL_CA_FILE": server.ca_file, "SIJIL_ID_TOKEN": token(system),
                            "PATH": os.path.dirname(program("sijil")) + ":" + os.environ["PATH"],
                            **(actions(self.work, audience, lambda: token(system)) if system == "github" else {})}
        text = sijil("ci", "init", system, at, *REPOSITORIES, "--train")
        self.commands = commands_of(system, text, self.work, "train")
        assert len(self.commands) == 5, self.commands

    def one(self, command):
        shell = ["sh", "-ec"] if self.system in ("kubernetes", "jenkins") else ["bash", "-eo", "pipefail", "-c"]
        return subprocess.run([*shell, command], cwd=self.work, env=self.environment, capture_output=True, text=True, timeout=280, check=False)

    def run(self):
        """The exit status of the first command that fails, or 0; and what all have said."""
        said = []
        for command in self.commands:
            done = self.one(command)
            said.append(done.stdout + done.stderr)
            if done.returncode != 0:
                return done.returncode, said
        return 0, said

    def asked(self):
        path = os.path.join(self.work, "asked.json")
        wait_until(lambda: os.path.exists(path) and os.path.getsize(path) > 0, 60, f"the job of {self.system} has asked for nothing")
        wait_until(lambda: self.is_whole(path), 10, "half an answer")
        with open(path, encoding="utf-8") as file:
            return json.load(file)["id"]

    @staticmethod
    def is_whole(path):
        with open(path, encoding="utf-8") as file:
            return file.read().rstrip().endswith("}")


def wish(**more):
    """With references, which the job resolves by its token."""
    named = {**spec(argv=["/bin/sh", "/code/train.sh"], pool="real", **more)}
    return {**named, "code": {"reference": f"{PROJECT}/code:v1"}, "inputs": [{"name": "digits", "reference": f"{PROJECT}/data:v1"}]}


def approve(run_id):
    """Two persons: nobody knows who has started the job."""
    asked = opened(state["bob"].run({"run": run_id})["envelopes"][0]["envelope"])[0]
    for who in ("bob", "carol"):
        answer = state[who].call("POST", f"/{run_id}/approvals", state[who].approval(asked)[0])
        assert answer.status == 201, answer.body


def each_system_trains_and_pulls():
    """The runs wait for their approval until the first tokens of the registry have ended."""
    jobs = [Job(system, wish()) for system in SHAPES]
    with concurrent.futures.ThreadPoolExecutor(len(jobs)) as pool:
        running = [pool.submit(job.run) for job in jobs]
        try:
            asked = [job.asked() for job in jobs]
        except AssertionError:
            print([one.result() for one in running if one.done()])
            raise
        time.sleep(TOKEN_S + 10)
        assert not any(one.done() for one in running), [one.result() for one in running if one.done()]
        for run_id in asked:
            approve(run_id)
        with RealRunner(server, Runner(state["world"], pool="real"), words=["--parallel=2"]):
            ended = [one.result() for one in running]
    for job, (code, said) in zip(jobs, ended):
        assert code == 0, (job.system, code, said)
        assert said[2].count("logged in at") >= 2, (job.system, said[2])  # once at the start, and again when the first token had ended
        with open(os.path.join(job.work, "pulled-model", "w.bin"), "rb") as file:
            assert file.read() == b"some digits\n", job.system
        with open(os.path.join(job.work, "run.json"), "w", encoding="ascii") as file:
            file.write("{}")  # an answer without outputs, which nothing can be pulled by
        assert job.one(job.commands[-1]).returncode != 0, job.system


def a_job_fails_with_its_run():
    """7: the run has ended, and has not succeeded; nothing is pulled."""
    job = Job("gitlab", wish())
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        running = pool.submit(job.run)
        assert state["bob"].call("DELETE", "/" + job.asked()).status == 204
        code, said = running.result()
    assert code == 7 and "the run has ended: cancelled" in said[-1] and len(said) == 3, (code, said)
    assert not os.path.exists(os.path.join(job.work, "pulled-model"))


def a_withdrawn_rule_ends_the_job():
    """The next login is refused, so the job does not wait for ever."""
    job = Job("kubernetes", wish())
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        running = pool.submit(job.run)
        job.asked()
        now = time.time()
        document = {"schema": "sijil.document/v1", "kind": "trust-rule", "scope": PROJECT, "name": "kubernetes-train", "version": 2, "effective_from": stamp(now - 1),
                    "expires": stamp(now + 86400), "body": {}, "withdrawn": "a test"}
        server.client(state["world"].officer).api("POST", "/trust-rules/kubernetes-train/withdrawal", seal(RULE_TYPE, document, state["world"].root))
        code, said = running.result()
    assert code == 4 and len(said) <= 3, (code, said)


if __name__ == "__main__":
    run(prepare, each_system_trains_and_pulls, a_job_fails_with_its_run, a_withdrawn_rule_ends_the_job, server=server)
