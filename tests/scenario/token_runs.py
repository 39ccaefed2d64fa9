#!/usr/bin/env python3
"""Training runs that are asked for by a token of the registry (docs/runs.md): a CI job by its trust rule, and a robot. What keyd, policies, approvers,
the real runner and `sijil-verify` make of it, and what a compromised gateway gets from sijil-keyd."""
import base64
import json
import os
import re
import struct
import subprocess
import time
import uuid

from real_runner import RealRunner
from run_fleet import RunFleet
from run_world import FOLDER, KEY_TYPE, PROJECT, Key, Person, Runner, World, canonical, opened, prefixed, prefixed, seal, spec, url64
from sijil_test import Issuer, make_person, make_robot, program, run, sha256, wait_until

GITHUB = "https://token.actions.githubusercontent.com"
CLAIMS = {"sub": "repo:acme/train:ref:refs/heads/main", "repository": "acme/train", "repository_id": "260064828", "repository_owner_id": "1342004",
          "ref": "refs/heads/main", "ref_type": "branch", "event_name": "push", "actor": "ann", "run_id": "90210", "sha": "9c1f" * 10}
RULE_TYPE = "application/vnd.sijil.trust-rule.v1+json"
TRAIN = b"set -e\nmkdir -p /out/model\ncat /in/digits/a.txt > /out/model/w.bin\n"
server = RunFleet(1).start()
state = {"versions": {}}
at = f"127.0.0.1:{server.port}"
audience = f"https://{at}"


def push(name, files):
    """An artifact with these files, as a spec names it."""
    where = f"{PROJECT}/{name}"
    there = state["pusher"].repository(where)
    layers = [{"mediaType": "application/octet-stream", "digest": there.push_blob(content), "size": len(content),
               "annotations": {"org.opencontainers.image.title": title}} for title, content in files.items()]
    text = there.manifest(layers=layers)
    assert there.put_manifest("v1", text).status == 201
    return {"repository": where, "digest": sha256(text)}


def rule_document(name, withdrawn=None, grants=(("trainer", PROJECT), ("consumer", PROJECT))):
    """The next version of a rule, or its withdrawal."""
    version = state["versions"][name] = state["versions"].get(name, 0) + 1
    now = time.time()
    body = {"issuer": GITHUB, "audience": audience, "system": "github", "match": {"/repository_id": {"eq": "260064828"}, "/ref": {"eq": "refs/heads/main"}},
            "grant": [{"role": role, "on": on} for role, on in grants], "priority": 100 + len(state["versions"]), "max_ttl": 300, "single_use": False}
    return {"schema": "sijil.document/v1", "kind": "trust-rule", "scope": PROJECT, "name": name, "version": version, "effective_from": stamp(now - 1),
            "expires": stamp(now + 86400), "body": {} if withdrawn else body, **({"withdrawn": withdrawn} if withdrawn else {})}


def rule(name="gh-train", withdrawn=None, **more):
    """A version of a rule, or its withdrawal, signed by the root; in force at once."""
    envelope = seal(RULE_TYPE, rule_document(name, withdrawn, **more), state["world"].root)
    path = f"/trust-rules/{name}/withdrawal" if withdrawn else "/trust-rules"
    server.client(state["world"].officer).api("POST", path, envelope)


def persons(name, issuer, **more):
    """From which issuer persons come, signed by the root."""
    now = time.time()
    document = {"schema": "sijil.document/v1", "kind": "persons", "scope": "", "name": name, "version": 1, "effective_from": stamp(now - 1),
                "expires": stamp(now + 86400), "body": {"issuer": issuer, **more}}
    server.client(state["alice"].login).api("POST", "/persons", seal("application/vnd.sijil.persons.v1+json", document, state["world"].root))


def stamp(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + ".000Z"


def prepare():
    conninfo = f"host={server.database_at} dbname=sijil_template user=sijil_app"
    world = state["world"] = World(server, server.path("approver.pem"), conninfo, server.path("socket"))
    state["pusher"] = server.client(make_robot(server, "pusher", "publisher", PROJECT))
    for who in ("alice", "bob", "carol"):
        state[who] = Person(world, who)
    issuer = state["issuer"] = Issuer(GITHUB, audience)
    server.client(server.admin).api("POST", "/issuers", {"url": GITHUB, "algorithms": ["ES256"], "jwks": issuer.jwks, "lifetime_max": 900})
    rule()
    state["code"], state["data"] = push("code", {"train.sh": TRAIN}), push("data", {"a.txt": b"some digits\n"})
    keys = server.client(server.admin).api("GET", "/audit/key")
    signer = os.path.join(FOLDER.name, "signer.pem")
    with open(signer, "w", encoding="ascii") as file:
        file.write(keys["documents"])
    state["pins"] = ["--key", keys["vkey"], "--signer", signer, "--root", server.path("approver.pub.pem")]
    server.load(approvals=1)


def wanted(**more):
    return spec(code=state["code"], inputs=[{"name": "digits", **state["data"]}], argv=["/bin/sh", "/code/train.sh"], pool="real", **more)


def exchanged(scope="registry:admin:*", **more):
    """A token of the registry for one of GitHub."""
    answer = server.client().exchange(state["issuer"].token(**{**CLAIMS, **more}), scope)
    assert answer.status == 200, answer.body
    return answer.json["access_token"]


def ask(token, run_id=None, project=PROJECT, scheme="Bearer", **more):
    body = {"run": run_id or str(uuid.uuid4()), "lifetime_s": 3600, "spec": wanted(), **more}
    return server.client().call("POST", f"/api/v1/projects/{project}/run-requests", json.dumps(body),
                                {"Content-Type": "application/json", "Authorization": f"{scheme} {token}"})


def refused(answer, status, says):
    assert answer.status == status and says in answer.body.decode(), (answer.status, answer.body)


def request_of(shown):
    return opened(shown["envelopes"][0]["envelope"])[0]


def approve(asked, *people):
    """`people`: who approves, in this order; `asked`: the run's answer."""
    for who in people:
        person = state[who]
        answer = person.call("POST", f"/{asked['id']}/approvals", person.approval(request_of(asked))[0])
        assert answer.status == 201, answer.body


def shown(run_id):
    return state["bob"].run({"run": run_id})


def wait(run_id, wished, seconds=60):
    wait_until(lambda: shown(run_id)["state"] == wished, seconds, f"the run is not {wished}: {shown(run_id)}")
    return shown(run_id)


def environment(who):
    home = os.path.join(FOLDER.name, "home-" + who)
    os.makedirs(home, exist_ok=True)
    return {**os.environ, "HOME": home, "XDG_CONFIG_HOME": home, "SIJIL_CA_FILE": server.ca_file, "HOST": at,
            "PATH": os.path.dirname(program("sijil")) + ":" + os.environ["PATH"]}


# ---- a CI job ----

def commands_of_the_page():
    """The commands of docs/ci.md that start a run."""
    page = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "ci.md")
    with open(page, encoding="utf-8") as file:
        (lines,) = re.findall(r"in `\$ID_TOKEN`:\n\n((?:    .*\n)+)", file.read())
    return [line.strip().replace("HOST", at).replace("acme/models/code acme/models/data", f"{PROJECT}/code {PROJECT}/data").replace("acme/models", PROJECT)
            for line in lines.splitlines()]


def a_ci_job_trains_by_its_rule():
    """With the commands of the page. The policies ask for one approval, so two persons approve; a real runner trains, and the bundle is verified."""
    login, start = commands_of_the_page()
    work = os.path.join(FOLDER.name, "job")
    os.makedirs(work)
    described = {**wanted(), "code": {"reference": f"{PROJECT}/code:v1"}, "inputs": [{"name": "digits", "reference": f"{PROJECT}/data:v1"}]}
    with open(os.path.join(work, "spec.yaml"), "w", encoding="utf-8") as file:
        json.dump(described, file)
    job = {**environment("job"), "ID_TOKEN": state["issuer"].token(**CLAIMS)}
    done = subprocess.run(["bash", "-eo", "pipefail", "-c", login], cwd=work, env=job, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    done = subprocess.run(["bash", "-eo", "pipefail", "-c", start.replace(" --wait", " --json")], cwd=work, env=job, capture_output=True, text=True, timeout=60,
                          check=False)
    assert done.returncode == 0, done.stderr
    asked = shown(json.loads(done.stdout)["id"])
    assert (asked["state"], asked["approvals_wanted"]) == ("awaiting approval", 2), asked
    claims = request_of(asked)["claims"]
    assert (claims["issuer"], claims["subject"]) == ("sijil:rule", f"{PROJECT}:gh-train"), claims
    state["of_rule"] = asked
    approve(asked, "bob")
    assert shown(asked["id"])["state"] == "awaiting approval"
    again = state["bob"].call("POST", f"/{asked['id']}/approvals", state["bob"].approval(request_of(asked))[0])
    assert again.status == 409, again.body
    said = subprocess.run([program("sijil"), "run", "show", at, PROJECT, asked["id"]], env=job, capture_output=True, text=True, timeout=60, check=False)
    assert "asked for by the trust rule" in said.stdout and "one approval more than the policies ask for" in said.stdout, (said.stdout, said.stderr)
    approve(asked, "carol")
    with RealRunner(server, Runner(state["world"], pool="real")):
        wait(asked["id"], "succeeded", 90)
    bundle = server.client(state["alice"].login).api("GET", f"/projects/{PROJECT}/runs/{asked['id']}/bundle")
    state["bundle"] = os.path.join(FOLDER.name, "run.json")
    with open(state["bundle"], "w", encoding="utf-8") as file:
        json.dump(bundle, file)
    code, said = verify(state["bundle"])
    assert code == 0 and f"this is the trust rule {PROJECT}:gh-train" in said and "who asked for it: no key of the requester has signed" in said, said


def verify(path):
    done = subprocess.run([program("sijil-verify"), "run", *state["pins"], path], capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout + done.stderr


def a_bundle_without_the_rule_or_an_approval_is_refused():
    for spoil, says in ((lambda bundle: bundle["documents"].remove(next(one for one in bundle["documents"] if "rule.approve" in one["entry"])),
                         "no document of the bundle is the trust rule"),
                        (lambda bundle: bundle["approvals"].pop(), "names 2 approvals, and there are 1")):
        with open(state["bundle"], encoding="utf-8") as file:
            bundle = json.load(file)
        spoil(bundle)
        path = os.path.join(FOLDER.name, "spoilt.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(bundle, file)
        code, said = verify(path)
        assert code != 0 and says in said, said


def a_token_is_no_row_and_no_line_of_a_log():
    """The token's text is stored nowhere; its digest is."""
    token = exchanged()
    answer = ask(token)
    assert answer.status == 201 and request_of(answer.json)["claims"]["token"] == sha256(token.encode()), answer.body
    signature = token.rsplit(".", maxsplit=1)[1]
    rows = server.sql("SET xmlbinary = 'hex'; SELECT database_to_xml(true, false, '')")
    assert answer.json["id"] in rows, "these are not the rows of this registry"
    with open(server.path("log"), encoding="utf-8", errors="replace") as file:
        logged = file.read()
    assert "run_ask" in logged
    for held in (signature, token.split(".")[1]):
        assert held not in rows and held not in logged and held.encode().hex() not in rows.lower()
    again = ask(token, answer.json["id"])
    assert again.status == 201 and again.json["request"] == answer.json["request"], again.body
    refused(ask(exchanged(), answer.json["id"]), 409, "another request was signed for this already")


# ---- refusals ----

def approver(who):
    """An approver's key of a person, by the root's signature."""
    person, key, now = state[who], Key(), time.time()
    for each in (who, "alice"):
        server.client(server.admin).api("POST", "/bindings", {"issuer": server.people.url, "subject": each, "role": "registry-admin", "scope": ""})
    document = {"schema": "sijil.document/v1", "kind": "signing-key", "scope": "", "name": key.name, "version": 1, "effective_from": stamp(now - 1),
                "expires": stamp(now + 86400), "body": {"principal": person.principal, "public_key": url64(key.point), "purpose": "approve"}}
    drafted = seal(KEY_TYPE, document, key)
    server.client(person.login).api("POST", "/keys/signing", drafted)
    server.client(state["alice"].login).api("POST", f"/keys/signing/{key.name}/approval", {"envelopes": [drafted, seal(KEY_TYPE, document, state["world"].root)]})
    return key


def who_has_signed_the_rule_approves_none_of_its_runs():
    """A job's act counts as done by everybody who has signed its rule, and by somebody unknown."""
    document, key = rule_document("gh-bobs"), approver("bob")
    drafted = seal(RULE_TYPE, document, key)
    server.client(state["bob"].login).api("POST", "/trust-rules", drafted)
    server.client(state["world"].officer).api("POST", "/trust-rules/gh-bobs/approval", {"envelopes": [drafted, seal(RULE_TYPE, document, state["world"].root)]})
    asked = ask(exchanged()).json
    assert request_of(asked)["claims"]["subject"] == f"{PROJECT}:gh-bobs" and asked["approvals_wanted"] == 2, asked
    own = state["bob"].call("POST", f"/{asked['id']}/approvals", state["bob"].approval(request_of(asked))[0])
    refused(own, 403, "another person")
    approve(asked, "alice", "carol")
    wait(asked["id"], "ordered")
    rule("gh-bobs", withdrawn="a test")


def what_does_not_count_is_named():
    token = exchanged()
    refused(ask(state["issuer"].token(**CLAIMS)), 401, "only /token takes it")  # GitHub's own: a rule matches, so it is accepted at /token only
    refused(ask(base64.b64encode(":".join(server.admin).encode()).decode(), scheme="Basic"), 401, "")
    person = state["alice"].login[1]  # the issuer's token of a person, as it is
    refused(ask(person), 403, "exchange it at /token first")
    refused(ask(token[:-4] + ("AAAA" if token[-4:] != "AAAA" else "BBBB")), 401, "")
    refused(ask(exchanged(f"repository:{PROJECT}/code:pull")), 401, "")
    refused(ask(token, project="main/other"), 404, "")
    refused(ask(token, spec=wanted(environment={f"A{number}": "x" * 4000 for number in range(12)})), 413, "a larger one needs a request that its requester has signed")
    refused(ask(token, spec={"argv": ["true"]}), 400, "")
    refused(ask(token, lifetime_s=31 * 86400), 400, "lifetime_s")
    outside = {**wanted(), "outputs": [{"name": "model", "repository": "main/other/x", "type": "application/vnd.example+json"}]}
    refused(ask(token, spec=outside), 403, "main/other/x")


def a_policy_that_demands_a_signature_is_obeyed():
    server.load(rules=[{"id": "SIGNED", "effect": "oblige", "ops": ["train"], "oblige": {"signed_request": True}}])
    refused(ask(exchanged()), 403, "the policies ask for a signed request")
    assert state["alice"].request()["run"]  # with a key it goes
    server.load(approvals=8)
    refused(ask(exchanged()), 403, "a request by a trust rule, or by a robot's or a job's token, needs one more")
    server.load(approvals=1)


def nobody_must_approve_where_nobody_is_asked():
    server.load()
    answer = ask(exchanged())
    assert answer.status == 201 and answer.json["approvals_wanted"] == 0, answer.body
    wait(answer.json["id"], "ordered")
    server.load(approvals=1)


def a_policy_of_today_counts_at_the_order():
    asked = ask(exchanged()).json
    server.load(approvals=2)
    approve(asked, "bob", "carol")
    assert "the policies of today ask for 2 approvals (and this run needs one more), and the run has 2" in wait(asked["id"], "failed")["reason"]
    server.load(rules=[{"id": "SIGNED", "effect": "oblige", "ops": ["train"], "oblige": {"signed_request": True}}], approvals=1)
    server.load(approvals=1)


def a_rule_that_ends_before_the_order_stops_the_run():
    rule("gh-short")
    asked = ask(exchanged()).json
    assert request_of(asked)["claims"]["subject"] == f"{PROJECT}:gh-short"
    approve(asked, "bob")
    rule("gh-short", withdrawn="a test")
    approve(asked, "carol")
    reason = wait(asked["id"], "failed")["reason"]
    assert "no role" in reason or "may not" in reason or "withdrawn" in reason, reason
    assert request_of(ask(exchanged()).json)["claims"]["subject"] == f"{PROJECT}:gh-train"


def record_again(name, version):
    """A gateway that somebody has taken over records a version once more, with the signatures that it has."""
    path = os.path.join(FOLDER.name, f"{name}.{version}")
    with open(path, "wb") as file:
        file.write(bytes.fromhex(server.sql(f"SELECT encode(envelopes[1], 'hex') FROM document WHERE kind = 4 AND name = '{name}' AND version = {version}").strip()))
    return subprocess.run([os.environ["SIJIL_ENROL_TOOL"], *state["world"].enrolment_words(), path], capture_output=True, text=True, timeout=60, check=False)


def is_refused(done, why):
    """For good. Whoever follows the log may have asked sijil-keyd first, and has got the reason then."""
    assert done.returncode == 1 and (why in done.stderr or "was refused before" in done.stderr), done.stderr


def what_was_withdrawn_or_narrowed_does_not_come_back():
    rule("gh-back")
    rule("gh-back", grants=(("consumer", PROJECT),))
    pinned = "SELECT max(sequence) FROM document_pin WHERE kind = 4"
    before = server.sql(pinned)
    is_refused(record_again("gh-back", 1), "version 2 of the trust-rule gh-back was pinned already, and this is version 1")
    rule("gh-back", withdrawn="stolen")
    withdrawn = server.sql(pinned)
    for version in (1, 2):
        is_refused(record_again("gh-back", version), "version 3 of the trust-rule gh-back was pinned already")
    assert before != withdrawn == server.sql(pinned)
    assert record_again("gh-back", 3).returncode == 0  # a withdrawal takes nothing more away, and may be lost with its event
    assert record_again("gh-back", 1).returncode == 1
    assert request_of(ask(exchanged()).json)["claims"]["subject"] == f"{PROJECT}:gh-train"  # gateways go on
    rule("gh-back")
    assert request_of(ask(exchanged()).json)["claims"]["subject"] == f"{PROJECT}:gh-back"
    rule("gh-back", withdrawn="a test")


def a_rule_that_ends_after_the_order_stops_the_run():
    rule("gh-stolen")
    asked = ask(exchanged()).json
    assert request_of(asked)["claims"]["subject"] == f"{PROJECT}:gh-stolen"
    approve(asked, "bob", "carol")
    wait(asked["id"], "ordered")
    rule("gh-stolen", withdrawn="stolen")
    runner = Runner(state["world"], pool="real")
    wait_until(lambda: runner.ask().status == 204 and shown(asked["id"])["state"] == "failed", 60, f"it is still offered: {shown(asked['id'])}")
    assert "the trust rule that asked was withdrawn" in shown(asked["id"])["reason"], shown(asked["id"])


def a_newer_version_of_the_rule_counts_for_what_it_asked_before():
    """sijil-keyd signs the lease: the gateway shows it the newest version. A version without the grant ends the run."""
    rule("gh-newer")
    asked = ask(exchanged(), spec={**wanted(), "pool": "newer"}).json
    approve(asked, "bob", "carol")
    wait(asked["id"], "ordered")
    rule("gh-newer")
    runner = Runner(state["world"], pool="newer")
    bundle = runner.lease()
    assert opened(bundle["lease"])[0]["run"] == asked["id"] and runner.start(asked["id"]).status == 204 and not runner.beat(asked["id"]).json["stop"]
    rule("gh-newer", grants=(("consumer", PROJECT),))
    wait_until(lambda: runner.beat(asked["id"]).json["stop"], 30, "the run does not stop")
    assert "the requester has lost the right to train" in shown(asked["id"])["reason"], shown(asked["id"])
    rule("gh-newer", withdrawn="a test")


def a_job_with_a_binding_needs_one_approval_more():
    """Of an issuer that has trust rules: its subject may be a job, which somebody has started."""
    subject = "repo:acme/direct:ref:refs/heads/main"
    for role in ("trainer", "consumer"):
        server.client(server.admin).api("POST", "/bindings", {"issuer": GITHUB, "subject": subject, "role": role, "scope": PROJECT})
    token = exchanged(sub=subject, repository="acme/direct", repository_id="77", ref="refs/heads/other")
    answer = ask(token)
    assert answer.status == 201 and answer.json["approvals_wanted"] == 2, answer.body
    assert request_of(answer.json)["requester"].startswith("ext:")
    own = state["bob"].call("POST", f"/{answer.json['id']}/approvals", state["bob"].approval(request_of(answer.json))[0])
    refused(own, 403, "another person")  # bob may be the subject of the other issuer, as long as nobody has signed where persons come from
    persons("main", server.people.url)
    approve(answer.json, "bob")
    time.sleep(1)
    assert shown(answer.json["id"])["state"] == "awaiting approval"
    approve(answer.json, "carol")
    wait(answer.json["id"], "ordered")
    server.load(approvals=2)
    runner = Runner(state["world"], pool="real")
    wait_until(lambda: runner.ask().status == 204 and shown(answer.json["id"])["state"] == "failed", 60, "it is still offered")
    assert "ask for 2 approvals (and this run needs one more), and the run has 2" in shown(answer.json["id"])["reason"], shown(answer.json["id"])
    server.load(approvals=8)
    refused(ask(token), 403, "needs one more")
    server.load(approvals=1)


def a_rule_without_the_grant_asks_for_nothing():
    rule("gh-narrow", grants=(("consumer", PROJECT),))
    refused(ask(exchanged()), 403, "")
    rule("gh-narrow", withdrawn="a test")


def what_is_not_stored_takes_no_place():
    """A refusal comes before sijil-keyd has signed: the same run can be asked for again, and no place of its ledger is taken."""
    token = exchanged()
    taken, nobody = {"run": state["of_rule"]["id"], "order": "sha256:" + "1" * 64}, {"repository": f"{PROJECT}/code", "digest": "sha256:" + "2" * 64}
    for more, says in (({"rerun": taken}, "rerun: this project has no such run with this order"), ({"spec": {**wanted(), "resume": nobody}}, "resume: ")):
        run_id = str(uuid.uuid4())
        for _ in range(2):
            refused(ask(token, run_id, **more), 400, says)
        assert server.sql(f"SELECT count(*) FROM run WHERE run_id = '{run_id}'").strip() == "0"
        answer = ask(token, run_id)
        assert answer.status == 201 and ask(token, run_id).status == 201, answer.body
    refused(ask(server.client(state["alice"].login).token("registry:admin:*"), run_id), 409, "another request has this run's id")
    server.load(approvals=8)
    run_id = str(uuid.uuid4())
    refused(ask(token, run_id), 403, "needs one more")
    server.load(approvals=1)
    assert ask(token, run_id).status == 201


def a_robot_asks_and_two_persons_approve():
    """A robot of nobody needs one approval more, of known persons."""
    login = make_robot(server, "trainer", "trainer", PROJECT)
    client = server.client(login)
    answer = ask(client.token("registry:admin:*"))
    assert answer.status == 201 and answer.json["approvals_wanted"] == 2, answer.body
    claims = request_of(answer.json)["claims"]
    (named,) = [one for one in shown(answer.json["id"])["people"] if one["principal"] == answer.json["requester"]]
    assert named["robot"] == login[0], (named, login)
    assert claims["issuer"] == "sijil:registry" and answer.json["requester"] == "robot:" + claims["subject"], claims
    approve(answer.json, "bob", "carol")
    wait(answer.json["id"], "ordered")


def a_stolen_secret_that_is_replaced_ends_what_it_asked_for():
    """A run that goes on, one that is ordered, and one that still waits for an approval. A rotation with a grace period says that nothing was stolen."""
    admin = server.client(server.admin)
    made = admin.api("POST", "/robots", {"organisation": "main", "name": "stolen"})
    for role in ("trainer", "consumer"):
        admin.api("POST", "/bindings", {"robot": made["id"], "role": role, "scope": PROJECT})

    def asked(secret, *people):
        answer = ask(server.client((made["name"], secret)).token("registry:admin:*"), spec={**wanted(), "pool": "stolen"})
        assert answer.status == 201, answer.body
        approve(answer.json, *people)
        if len(people) == 2:
            wait(answer.json["id"], "ordered")
        return answer.json

    runner = Runner(state["world"], pool="stolen")
    running = asked(made["secret"], "bob", "carol")
    assert opened(runner.lease()["lease"])[0]["run"] == running["id"] and runner.start(running["id"]).status == 204
    ordered, wished = asked(made["secret"], "bob", "carol"), asked(made["secret"], "bob")
    second = admin.api("POST", f"/robots/{made['id']}/secret", {"grace_seconds": 1})["secret"]
    wait_until(lambda: server.sql(f"SELECT previous_until < now() FROM robot WHERE robot_id = '{made['id']}'") == "t", 30, "the old secret does not end")
    assert not runner.beat(running["id"]).json["stop"] and shown(ordered["id"])["state"] == "ordered"
    third = admin.api("POST", f"/robots/{made['id']}/secret", {})["secret"]
    wait_until(lambda: runner.beat(running["id"]).json["stop"], 30, "the run does not stop")
    assert runner.ask().status == 204, "what was ordered is still offered"
    admin.api("POST", f"/robots/{made['id']}/secret", {"grace_seconds": 600})  # takes nothing of it back
    approve(wished, "carol")
    for run_id in (running["id"], ordered["id"], wished["id"]):
        assert "asked for with a secret of the robot that was replaced since" in wait(run_id, "failed")["reason"], shown(run_id)
    assert second != third
    wait(asked(third, "bob", "carol")["id"], "ordered")
    assert runner.lease()["lease"]


def the_command_line_asks_by_a_token_or_with_a_key():
    """Without a key only if the login is a token of the registry, or with --by-token."""
    login = make_robot(server, "commands", "trainer", PROJECT)
    described = os.path.join(FOLDER.name, "spec.json")
    with open(described, "w", encoding="utf-8") as file:
        json.dump(wanted(), file)

    def sijil(*words, code=0):
        done = subprocess.run([program("sijil"), *words], input=login[1] + "\n", env=environment("robot"), capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
        return done.stdout, done.stderr

    sijil("login", at, "--username", login[0], "--ca-file", server.ca_file)
    start = ("run", "start", at, PROJECT, described)
    sijil(*start, code=2)  # a robot's secret: nothing says that it shall ask by a token
    _, said = sijil(*start, "--by-token", "--key", state["alice"].key.path, code=2)
    assert "leave out --key" in said, said
    out, said = sijil(*start, "--by-token")
    assert "asking by the token of the login" in said and "awaiting approval" in out, (out, said)
    first = json.loads(sijil(*start, "--by-token", "--json")[0])
    approve(shown(first["id"]), "bob", "carol")
    wait(first["id"], "ordered")
    again = json.loads(sijil("run", "rerun", at, PROJECT, first["id"], "--by-token", "--json")[0])
    assert request_of(shown(again["id"]))["rerun"]["run"] == first["id"], again


def a_person_with_a_token_needs_no_more_than_with_a_key():
    answer = ask(server.client(state["alice"].login).token("registry:admin:*"))
    assert answer.status == 201 and answer.json["approvals_wanted"] == 1, answer.body
    own = state["alice"].call("POST", f"/{answer.json['id']}/approvals", state["alice"].approval(request_of(answer.json))[0])
    refused(own, 403, "person")
    approve(answer.json, "bob")
    wait(answer.json["id"], "ordered")
    state["of_alice"] = answer.json["id"]


def what_another_organisation_demands_of_tokens_counts_for_its_data():
    """Somebody with the token of a person could else take its data through a run of an organisation that demands nothing."""
    person, admin = make_person(server, "both", "trainer", PROJECT), server.client(server.admin)
    admin.api("POST", "/organisations", {"name": "bank"})
    admin.api("POST", "/projects", {"organisation": "bank", "name": "data"})
    admin.api("POST", "/bindings", {"issuer": server.people.url, "subject": "both", "role": "trainer", "scope": "bank/data"})
    token = server.client().exchange(person[1], "registry:admin:*").json["access_token"]

    def asked(name):
        return ask(token, spec={**wanted(), "inputs": [{"name": "digits", "repository": name, "digest": sha256(b"stored nowhere")}]})
    wait_until(lambda: "roles or policies" not in asked("bank/data/digits").body.decode(), 10, "the role is not known")
    assert "must be bound" not in asked("bank/data/digits").body.decode(), asked("bank/data/digits").body
    persons("bank", server.people.url, tokens={"bound_to": "any"})
    wait_until(lambda: "must be bound" in asked("bank/data/digits").body.decode(), 10, "the document does not count")
    refused(asked("bank/data/digits"), 403, "bank/data/digits: tokens must be bound")
    assert "must be bound" not in asked(PROJECT + "/data").body.decode()
    refused(asked("bank/other/digits"), 403, "roles or policies")  # nobody without the right learns what is demanded


def runs_in_the_plan(who):
    """What the plan of an erasure says about the runs of a person."""
    plan = server.client(server.admin).api("POST", "/erasures/plan", {"subject": who, "issuer": server.people.url})
    return {part["what"].split(",")[0]: part["count"] for part in plan["stays"] if " runs " in part["what"] or "requests by a token" in part["what"]}


def a_person_that_asks_by_a_token_is_named_nowhere():
    """Envelopes are kept for ever, so they have a digest. The plan of an erasure counts the runs, and requests from before that have the name."""
    envelopes, request = "SELECT envelope FROM run_envelope WHERE run_id = '%s'" % state["of_alice"], request_of(shown(state["of_alice"]))
    assert request["claims"]["issuer"] == server.people.url and request["claims"]["subject"] == request["requester"], request
    assert request["requester"] == "ext:" + sha256(f"{server.people.url}\nalice".encode())[7:]
    bundle = server.client(state["alice"].login).api("GET", f"/projects/{PROJECT}/runs/{state['of_alice']}/bundle")
    payloads = [base64.b64decode(json.loads(text)["payload"]) for text in (bundle["request"], *bundle["approvals"], bundle["order"])]
    assert len(server.sql(envelopes).split()) >= 3 and not any(b"alice" in payload for payload in payloads)
    counted = runs_in_the_plan("alice")
    assert list(counted) == ["training runs that the person asked for or approved"] and list(counted.values())[0] >= 1, counted
    named = base64.b64encode(canonical({**request, "claims": {**request["claims"], "subject": "alice"}})).decode()
    server.sql(f"UPDATE run_envelope SET envelope = jsonb_set(envelope::jsonb, '{{payload}}', '\"{named}\"')::text WHERE run_id = '{state['of_alice']}' AND kind = 'request'")
    assert runs_in_the_plan("alice")["of these"] == 1 and "of these" not in runs_in_the_plan("bob")


# ---- a compromised gateway ----

def ask_keyd(token, issuer=b"sijil:rule", run_id=None, project=PROJECT, **more):
    """The answer of sijil-keyd to a message of type 23, without a gateway: an envelope, or why not."""
    described = canonical({**wanted(), **more})
    fields = prefixed(token.encode()) + prefixed(audience.encode()) + prefixed(state["service"]) + prefixed(issuer) + uuid.UUID(run_id or str(uuid.uuid4())).bytes
    return state["world"].ask_keyd(23, fields + prefixed(project.encode()) + prefixed(described) + b"\0" + struct.pack(">I", 3600))


def a_compromised_gateway_names_no_other_subject():
    """With the token of one job it gets a request of this rule alone, in one project, once for a run."""
    token = exchanged()
    claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    state["service"] = claims["aud"].encode()
    signed, envelope = ask_keyd(token)
    assert signed and opened(envelope)[0]["claims"]["subject"] == f"{PROJECT}:gh-train", envelope
    for answer, says in ((ask_keyd(token, issuer=GITHUB.encode()), "not one of a subject of the issuer"), (ask_keyd(token, issuer=b""), "not one of a subject of the issuer"),
                         (ask_keyd(token, project="main/other"), "is not in the project"), (ask_keyd(token + "A"), "not one that this sijil-keyd has signed"),
                         (ask_keyd(state["issuer"].token(**CLAIMS)), "not one that this sijil-keyd has signed")):
        assert not answer[0] and says in answer[1], answer
    taken = state["of_rule"]["id"]  # of a run that there is
    signed, why = ask_keyd(token, run_id=taken)
    assert not signed and "another request was signed for this already" in why, why


if __name__ == "__main__":
    run(prepare, a_ci_job_trains_by_its_rule, a_bundle_without_the_rule_or_an_approval_is_refused, a_token_is_no_row_and_no_line_of_a_log,
        what_does_not_count_is_named, who_has_signed_the_rule_approves_none_of_its_runs, a_policy_that_demands_a_signature_is_obeyed, nobody_must_approve_where_nobody_is_asked,
        a_policy_of_today_counts_at_the_order, a_rule_that_ends_before_the_order_stops_the_run, what_was_withdrawn_or_narrowed_does_not_come_back,
        a_rule_that_ends_after_the_order_stops_the_run, a_newer_version_of_the_rule_counts_for_what_it_asked_before, a_job_with_a_binding_needs_one_approval_more, a_rule_without_the_grant_asks_for_nothing, what_is_not_stored_takes_no_place,
        a_robot_asks_and_two_persons_approve, a_stolen_secret_that_is_replaced_ends_what_it_asked_for, the_command_line_asks_by_a_token_or_with_a_key, a_person_with_a_token_needs_no_more_than_with_a_key, what_another_organisation_demands_of_tokens_counts_for_its_data,
        a_person_that_asks_by_a_token_is_named_nowhere, a_compromised_gateway_names_no_other_subject,
        server=server)
