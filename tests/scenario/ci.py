#!/usr/bin/env python3
"""Trust rules of CI systems on a whole server: signed by two approvers, used at /token by tokens shaped like the real ones, and ended (docs/ci.md)."""
import base64
import concurrent.futures
import hashlib
import json
import os
import subprocess
import tempfile
import time

import signing_keys
import sijil_test
from ci_systems import SHAPES, actions, commands_of, filled_in
from fleet import Fleet
from psql import Psql
from signing_keys import Key
from sijil_test import Issuer, Server, make_person, run, wait_until

server = Server().start()
folder = tempfile.TemporaryDirectory()
root_key = os.path.join(server.folder, "officer", "approver.pem")
at = f"127.0.0.1:{server.port}"
audience = f"https://{at}"
admin = server.client(server.admin)
people, issuers = {}, {}
TYPE = "application/vnd.sijil.trust-rule.v1+json"


def person(who):
    """An administrator with a key that approves."""
    login = make_person(server, who, "registry-admin", "")
    me = server.client(login).api("GET", "/self")
    key = Key("ext:" + hashlib.sha256(f"{me['issuer']}\n{me['name']}".encode()).hexdigest(), "approve")
    document = key.document()
    drafted = signing_keys.sign(document, key.path)
    server.client(login).api("POST", "/keys/signing", drafted)
    admin.api("POST", f"/keys/signing/{key.name}/approval", {"envelopes": [drafted, signing_keys.sign(document, root_key)]})
    people[who] = {"login": login, "key": key.path, "client": server.client(login)}
    sijil(who, "login", at, "--username", login[0], "--ca-file", server.ca_file, given=login[1])


def environment_of(who):
    home = os.path.join(folder.name, "home-" + who)
    os.makedirs(home, exist_ok=True)
    return {**os.environ, "HOME": home, "XDG_CONFIG_HOME": home, "SIJIL_CA_FILE": server.ca_file}


def sijil(who, *words, code=0, given=""):
    """Runs the command with the login of `who`. With --json its answer, else all that it prints."""
    done = subprocess.run([sijil_test.program("sijil"), *words], input=given + "\n", text=True, capture_output=True, env=environment_of(who), timeout=120)
    assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
    return json.loads(done.stdout) if "--json" in words and done.stdout else done.stdout + done.stderr


def trust(system):
    url, _ = SHAPES[system]
    issuers[system] = Issuer(url, audience)
    admin.api("POST", "/issuers", {"url": url, "algorithms": ["ES256"], "jwks": issuers[system].jwks, "lifetime_max": 900})


def token(system, **more):
    return issuers[system].token(**{**SHAPES[system][1], **more})


def rule(name="gh-main", system="github", **more):
    match = {"github": {"/repository_id": {"eq": "260064828"}, "/ref": {"eq": "refs/heads/main"}, "/event_name": {"in": ["push", "workflow_dispatch"]}}}
    return {"id": name, "scope": "main", "system": system, "issuer": SHAPES[system][0], "audience": audience, "match": match.get(system, {}),
            "grant": [{"role": "publisher", "on": "main/models"}], "priority": 100, "max_ttl": 120, "single_use": False, **more}


def written(document):
    path = os.path.join(folder.name, f"rule-{time.monotonic_ns()}.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(document, file)
    return path


def by_root(document):
    """A rule that the root has signed is in force at once."""
    return sijil("ann", "ci", "rule", "draft", at, written(document), "--key", root_key, "--json")


def revoke(name):
    return sijil("ann", "ci", "rule", "revoke", at, name, "--scope", "main", "--key", people["ann"]["key"], "--reason", "a test", "--json")


def exchange(text, scope="repository:main/models/digits:pull,push"):
    return admin.exchange(text, scope)


def refused(answer, says):
    assert answer.status == 400 and answer.json["error"] == "invalid_grant", (answer.status, answer.body)
    assert says in answer.json["error_description"], answer.json


def bearer(answer):
    assert answer.status == 200, (answer.status, answer.body)
    return {"Authorization": "Bearer " + answer.json["access_token"]}


def claims(answer):
    part = answer.json["access_token"].split(".")[1]
    return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))


def may_upload(headers, repository="main/models/digits"):
    return admin.call("POST", f"/v2/{repository}/blobs/uploads/", headers=headers).status


def a_rule_needs_two_approvers():
    wanted = rule(single_use=True)
    assert exchange(token("github")).json["scope"] == ""  # a subject of a trusted issuer without a role
    drafted = sijil("ann", "ci", "rule", "draft", at, written(wanted), "--key", people["ann"]["key"], "--json")
    assert (drafted["state"], drafted["version"]) == ("draft", 1), drafted
    assert exchange(token("github")).json["scope"] == ""  # a draft has no effect
    shown = sijil("ben", "ci", "rule", "list", at, "--scope", "main", "--json")
    assert [(row["name"], row["state"], row["missing"]) for row in shown] == [("gh-main", "draft", 1)], shown
    again = sijil("ann", "ci", "rule", "approve", at, "gh-main", "--scope", "main", "--key", people["ann"]["key"], code=1)
    assert "one person has signed twice" in again, again
    other = sijil("ben", "ci", "rule", "approve", at, "gh-main", "--scope", "main", "--key", people["ann"]["key"], code=4)
    assert "another person" in other, other
    approved = sijil("ben", "ci", "rule", "approve", at, "gh-main", "--scope", "main", "--key", people["ben"]["key"], "--json")
    assert approved["state"] == "in force", approved
    answer = exchange(token("github"))
    assert answer.json["scope"] == "repository:main/models/digits:pull,push" and answer.json["expires_in"] <= 120, answer.json
    digest = hashlib.sha256(b"sijil:rule").hexdigest()[:32]
    assert claims(answer)["sub"] == f"ext:{digest}:main:gh-main" and may_upload(bearer(answer)) == 202
    whole = sijil("ann", "ci", "rule", "show", at, "gh-main", "--scope", "main", "--json")
    assert len(whole["envelopes"]) == 2 and whole["envelopes"][0]["payloadType"] == TYPE


def rules_that_are_open_are_refused():
    for change, says in (({"match": {"/repository": {"eq": "acme/train"}, "/ref": {"eq": "refs/heads/main"}}}, "/repository_id with eq or in is missing"),
                         ({"match": {"/repository_id": {"eq": "260064828"}, "/environment": {"eq": "prod"}}}, "any branch"),
                         ({"grant": [{"role": "org-admin", "on": "main"}]}, "makes no officer"),
                         ({"grant": [{"role": "consumer", "on": "other/models"}]}, "outside the rule's scope")):
        assert says in sijil("ann", "ci", "rule", "draft", at, written(rule("open", **change)), "--key", root_key, code=1), change
        now = time.time()
        body = {name: value for name, value in rule("open", **change).items() if name not in ("id", "scope")}
        document = signing_keys.canonical({"schema": "sijil.document/v1", "kind": "trust-rule", "scope": "main", "name": "open", "version": 1,
                                           "effective_from": signing_keys.utc(now), "expires": signing_keys.utc(now + 86400), "body": body})
        answer = people["ann"]["client"].call("POST", "/api/v1/trust-rules", json.dumps(sign(document, root_key)), {"Content-Type": "application/json"},
                                              scope="registry:admin:*")
        assert answer.status == 400 and says in answer.json["detail"], (answer.status, answer.body)


def sign(document, key):
    signed = b"DSSEv1 %d %s %d %s" % (len(TYPE), TYPE.encode(), len(document), document)
    made = subprocess.run(["openssl", "dgst", "-sha256", "-sign", key], input=signed, capture_output=True, check=True)
    return {"payloadType": TYPE, "payload": base64.b64encode(document).decode(), "signatures": [{"sig": base64.b64encode(made.stdout).decode()}]}


def only_what_the_rule_says():
    before = token("github", jti="twice")
    bearer(exchange(before))
    refused(exchange(before), "used before")
    refused(exchange(token("github", jti="twice", run_id="90211")), "used before")  # another token of the same jti
    basic = base64.b64encode(f"oidc:{token('github')}".encode()).decode()
    answer = admin.call("GET", "/token?scope=repository:main/models/digits:pull", headers={"Authorization": "Basic " + basic})
    assert answer.json["scope"] == "repository:main/models/digits:pull"
    for path in ("/v2/", "/api/v1/self"):
        answer = admin.call("GET", path, headers={"Authorization": "Bearer " + token("github")})
        assert answer.status == 401 and "only /token" in answer["WWW-Authenticate"], (path, answer.status)
    for more in ({"ref": "refs/heads/other"}, {"repository_id": "1"}, {"event_name": "pull_request"}, {"repository_id": 260064828}):
        assert exchange(token("github", **more)).json["scope"] == "", more
    assert exchange(token("github"), "repository:other/models/x:pull").json["scope"] == ""
    # A row that somebody else wrote gives the rule's subject nothing more.
    server.sql("INSERT INTO binding (binding_id, issuer, subject, role, organisation_id, granted_by) SELECT gen_random_uuid(), 'sijil:rule', 'main:gh-main',"
               " 'org-admin', organisation_id, 'system' FROM organisation WHERE name = 'main'; SELECT raise_authorization_epoch()")
    headers = bearer(exchange(token("github"), "registry:admin:*"))
    seen = admin.call("GET", "/api/v1/self", headers=headers).json
    assert (seen["kind"], seen["name"], seen["person"]) == ("rule", "main:gh-main", None), seen
    assert [(role["role"], role["scope"]) for role in seen["roles"]] == [("publisher", "main/models")], seen
    assert admin.call("GET", "/api/v1/robots", headers=headers).status in (403, 404)


def the_event_names_the_rule():
    login = sijil_test.make_robot(server, "auditor", "auditor", "")
    auditor = server.client(login)
    digest = hashlib.sha256(base64.b64decode(sijil("ann", "ci", "rule", "show", at, "gh-main", "--scope", "main", "--json")["envelopes"][0]["payload"])).hexdigest()
    minted = [event["entry"] for event in auditor.api("GET", "/audit/events?limit=200")["events"] if event["entry"]["act"] == "token.mint"]
    named = [entry for entry in minted if f"rule main:gh-main sha256:{digest}" in json.dumps(entry)]
    assert named, minted[:3]
    assert any(entry["out"] == "failed" for entry in named), "the second use of a token has no event that says that it failed"


def a_used_token_stays_used():
    """Also for whoever has the gateways' role in the database."""
    by_root(rule("once", single_use=True, match={"/repository_id": {"eq": "66"}, "/ref": {"eq": "refs/heads/main"}}))
    made = token("github", repository_id="66", jti="stolen-1")
    assert exchange(made).status == 200
    try:
        server.sql("SET ROLE sijil_app; DELETE FROM spent_token")
    except subprocess.CalledProcessError as error:
        assert "a spent token is kept until" in error.stderr, error.stderr
    else:
        raise AssertionError("the database forgot it")
    refused(exchange(made), "used before")
    server.sql("UPDATE spent_token SET expires_at = now() - interval '1 second'")
    assert exchange(token("github", repository_id="66", jti="another")).status == 200
    assert server.sql("SELECT count(*) FROM spent_token WHERE expires_at < now()") == "0", "what has expired is swept"
    revoke("once")


def one_rule_wins():
    by_root(rule("low", priority=5, match={"/repository_id": {"eq": "77"}, "/ref": {"eq": "refs/heads/main"}}, grant=[{"role": "publisher", "on": "main/low"}]))
    by_root(rule("high", priority=6, match={"/repository_id": {"eq": "77"}, "/ref": {"eq": "refs/heads/main"}}, grant=[{"role": "consumer", "on": "main/high"}]))
    both = "repository:main/low/x:pull,push repository:main/high/x:pull,push"
    admin.api("POST", "/projects", {"organisation": "main", "name": "low"})
    admin.api("POST", "/projects", {"organisation": "main", "name": "high"})
    assert exchange(token("github", repository_id="77"), both).json["scope"] == ""  # both projects are younger than the rules, which meant others
    for name, priority, role in (("low", 5, "publisher"), ("high", 6, "consumer")):
        again = by_root(rule(name, priority=priority, match={"/repository_id": {"eq": "77"}, "/ref": {"eq": "refs/heads/main"}},
                             grant=[{"role": role, "on": f"main/{name}"}]))
        assert (again["state"], again["version"]) == ("in force", 2), again
    assert exchange(token("github", repository_id="77"), both).json["scope"] == "repository:main/high/x:pull"
    by_root(rule("low", priority=6, match={"/repository_id": {"eq": "77"}, "/ref": {"eq": "refs/heads/main"}}, grant=[{"role": "publisher", "on": "main/low"}]))
    refused(exchange(token("github", repository_id="77"), both), "both match, with one priority")
    revoke("high")
    assert exchange(token("github", repository_id="77"), both).json["scope"] == "repository:main/low/x:pull,push"


def no_rule_takes_the_tokens_of_another_organisation():
    """Two approvers of the registry sign what an organisation asks them for, and do not know all rules."""
    match = {"/repository_id": {"eq": "99"}, "/ref": {"eq": "refs/heads/main"}}
    admin.api("POST", "/organisations", {"name": "rival"})
    admin.api("POST", "/projects", {"organisation": "rival", "name": "models"})
    by_root(rule("victim", match=match))
    before = exchange(token("github", repository_id="99")).json["scope"]
    assert before == "repository:main/models/digits:pull,push", before
    rival = rule("taker", scope="rival", grant=[{"role": "consumer", "on": "rival/models"}], priority=1000,
                 match={"/repository_id": {"in": ["98", "99"]}, "/job_workflow_ref": {"eq": "x/y/z.yml@refs/heads/main"}})
    sijil("ann", "ci", "rule", "draft", at, written(rival), "--key", people["ann"]["key"], code=4)
    assert exchange(token("github", repository_id="99")).json["scope"] == before
    other = {**rival, "match": {**rival["match"], "/repository_id": {"eq": "97"}}}
    sijil("ann", "ci", "rule", "draft", at, written(other), "--key", people["ann"]["key"])
    by_root(rule("later", match={**match, "/repository_id": {"eq": "97"}}))  # between draft and approval
    sijil("ben", "ci", "rule", "approve", at, "taker", "--scope", "rival", "--key", people["ben"]["key"], code=4)
    assert by_root(rival)["state"] == "in force"
    for name in ("victim", "later"):
        revoke(name)


def a_rule_for_a_network():
    by_root(rule("inside", match={"/repository_id": {"eq": "88"}, "/ref": {"eq": "refs/heads/main"}}, networks=["127.0.0.1/32"]))
    body = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange&subject_token_type=urn%3Aietf%3Aparams%3Aoauth%3Atoken-type%3Ajwt&scope=repository:main/models/digits:pull,push&subject_token="
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    refused(admin.call("POST", "/token", body + token("github", repository_id="88"), form, connection=admin.connection(address="127.0.0.2")), "other networks")
    headers = bearer(admin.call("POST", "/token", body + token("github", repository_id="88"), form))
    assert may_upload(headers) == 202
    moved = admin.call("POST", "/v2/main/models/digits/blobs/uploads/", headers=headers, connection=admin.connection(address="127.0.0.2"))
    assert moved.status == 401, moved.status  # a token that was carried off


def rules_end():
    headers = bearer(exchange(token("github")))
    location = admin.call("POST", "/v2/main/models/digits/blobs/uploads/", headers=headers)["Location"]
    assert revoke("gh-main")["state"] == "withdrawn"
    assert may_upload(headers) == 401 and admin.call("PATCH", location, b"x", headers).status == 401
    assert exchange(token("github")).json["scope"] == ""
    soon = signing_keys.utc(time.time() + 6)
    by_root(rule("short", not_after=soon, match={"/repository_id": {"eq": "99"}, "/ref": {"eq": "refs/heads/main"}}))
    answer = exchange(token("github", repository_id="99"))
    headers = bearer(answer)
    assert answer.json["expires_in"] <= 6 and may_upload(headers) == 202
    wait_until(lambda: may_upload(headers) == 401, 20, "the rule has ended, and its token goes on")
    wait_until(lambda: exchange(token("github", repository_id="99")).json.get("scope") == "", 20, "the rule has ended, and makes tokens")
    by_root(rule())  # a further version counts again
    assert may_upload(bearer(exchange(token("github")))) == 202
    trusted = next(each for each in admin.api("GET", "/issuers")["issuers"] if each["url"] == SHAPES["github"][0])
    headers = bearer(exchange(token("github")))
    admin.api("DELETE", "/issuers/" + trusted["id"])
    assert may_upload(headers) == 401
    trust("github")


def a_rule_is_tested_offline():
    path, claims_path = written(rule()), os.path.join(folder.name, "token")
    with open(claims_path, "w", encoding="ascii") as file:
        file.write(token("github") + "\n")
    said = sijil("nobody", "ci", "test-rule", path, claims_path)
    assert "matches   /repository_id" in said and "gives     publisher on main/models" in said, said
    shown = sijil("nobody", "ci", "test-rule", path, "-", "--json", given=token("github", ref="refs/heads/x", repository_id=260064828), code=4)
    verdicts = {line["claim"]: line["verdict"] for line in shown["claims"]}
    assert (shown["matches"], verdicts["/ref"], verdicts["/repository_id"], verdicts["/aud"]) == (False, "differs", "type", "matches"), shown
    said = sijil("nobody", "ci", "test-rule", path, "-", given=json.dumps({"iss": SHAPES["github"][0], "aud": "x"}), code=4)
    assert "absent    /ref  wanted: eq refs/heads/main, found: nothing" in said and "differs   /aud" in said, said
    assert "neither a JWT" in sijil("nobody", "ci", "test-rule", path, "-", given="a.b.c", code=1)
    said = sijil("nobody", "ci", "test-rule", path, "-", given=token("github", repository_id=260064828), code=4)
    assert "wanted: eq 260064828, found: 260064828, which is a number" in said, said
    for system in SHAPES:
        blank = written(json.loads(sijil("nobody", "ci", "init", system, at, "main/models/x", "--rule")))
        assert "fill in what is in capitals" in sijil("ann", "ci", "rule", "draft", at, blank, "--key", people["ann"]["key"], code=1)
    assert "(--scope names" in sijil("ann", "ci", "rule", "approve", at, "gh-main", "--key", people["ann"]["key"], code=3)
    whole = sijil("ann", "ci", "rule", "show", at, "gh-main", "--scope", "main", "--json")
    assert "gives" in sijil("nobody", "ci", "test-rule", written(whole), claims_path)


def a_printed_pipeline(system):
    """The commands of the pipeline run as the system would run them, with the rule that `sijil ci init --rule` prints."""
    repository, work = f"main/models/{system}", os.path.join(folder.name, "work-" + system)
    wanted = {**filled_in(sijil("nobody", "ci", "init", system, at, repository, "--rule")), "priority": 900}
    assert by_root(wanted)["state"] == "in force"
    text = sijil("nobody", "ci", "init", system, at, repository, "--file", "weights.onnx")
    commands = commands_of(system, text, folder.name)
    assert len(commands) == 3 and "ci login" in commands[0], commands
    os.makedirs(work)
    content = os.urandom(100000)
    with open(os.path.join(work, "weights.onnx"), "wb") as file:
        file.write(content)
    with open(os.path.join(folder.name, "token"), "w", encoding="ascii") as file:
        file.write(token(system))
    environment = {**environment_of("ci-" + system), "PATH": os.path.dirname(sijil_test.program("sijil")) + ":" + os.environ["PATH"], "SIJIL_ID_TOKEN": token(system),
                   "CI_COMMIT_SHA": "7149" * 10, "BUILD_NUMBER": "12", "POD_NAME": "model-x", **(actions(folder.name, audience, lambda: token("github")) if system == "github" else {})}
    if system == "jenkins":
        environment["SIJIL_ID_TOKEN"] = token(system, jti="jenkins-model-13")
    for command in commands:
        done = subprocess.run(["bash", "-eo", "pipefail", "-c", command], cwd=work, env=environment, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
    with open(os.path.join(work, "pulled", "weights.onnx"), "rb") as file:
        assert file.read() == content


def a_login_without_a_right_fails():
    """A token that no rule matches, and a repository that the rule does not name, are noticed at the login, also beside --administration."""
    by_root(rule("gh-login", match={"/repository_id": {"eq": "260064828"}, "/ref": {"eq": "refs/heads/main"}}, grant=[{"role": "trainer", "on": "main/models"}], priority=950, single_use=True))
    for words, shaped, says in ((["main/models/x", "--administration"], {"ref": "refs/heads/dev"}, "a right on main/models/x"),
                                (["--administration"], {"ref": "refs/heads/dev"}, "REST interface (--administration)"),
                                (["main/models/x", "main/data/x", "--administration"], {}, "a right on main/data/x")):
        said = sijil("nobody", "ci", "login", at, *words, "--ca-file", server.ca_file, code=4, given=token("github", **shaped))
        assert says in said and "sijil ci test-rule" in said, said
        assert not os.path.exists(os.path.join(environment_of("nobody")["HOME"], "sijil", "hosts.json"))
    good = token("github")
    for wrong in ("main/models", f"{at}/main/models/x"):  # refused here, so the token is not used up
        assert f"{wrong}: " in sijil("nobody", "ci", "login", at, wrong, "--administration", "--ca-file", server.ca_file, code=2, given=good)
    sijil("job", "ci", "login", at, "main/models/x", "--administration", "--ca-file", server.ca_file, given=good)
    revoke("gh-login")


def a_rule_of_another_audience_is_refused():
    """localhost instead of 127.0.0.1: such a rule would never match."""
    said = sijil("ann", "ci", "rule", "draft", at, written(rule("gh-local", audience="https://localhost:1")), "--key", people["ann"]["key"], code=1)
    assert f"accepted for {audience} alone" in said, said


def a_run_may_read_from_other_projects():
    """The rule that is printed has the organisation as scope, and a right on each project."""
    printed = json.loads(sijil("nobody", "ci", "init", "github", at, "main/models/x", "main/data/digits", "main/data/more", "--train", "--rule"))
    assert printed["scope"] == "main" and printed["grant"] == [{"role": "trainer", "on": "main/models"}, {"role": "consumer", "on": "main/models"},
                                                               {"role": "trainer", "on": "main/data"}], printed
    printed = json.loads(sijil("nobody", "ci", "init", "github", at, "main/models/x", "main/models/y", "--train", "--rule"))
    assert printed["scope"] == "main/models" and len(printed["grant"]) == 2, printed
    assert "of another organisation" in sijil("nobody", "ci", "init", "github", at, "main/models/x", "other/data/digits", "--train", "--rule", code=2)
    many = [f"main/p{number}/x" for number in range(8)]
    assert "at most 7 projects" in sijil("nobody", "ci", "init", "github", at, *many, "--train", "--rule", code=2)


def a_github_pipeline_pushes_and_pulls():
    a_printed_pipeline("github")


def a_gitlab_pipeline_pushes_and_pulls():
    a_printed_pipeline("gitlab")


def a_jenkins_pipeline_pushes_and_pulls():
    a_printed_pipeline("jenkins")


def a_kubernetes_job_pushes_and_pulls():
    a_printed_pipeline("kubernetes")


def a_token_counts_once_at_all_gateways():
    """The first gateway spends it, and the second one knows; a rule that is withdrawn at one ends at the other within a second."""
    with Fleet(2) as fleet:
        first, second = fleet.clients(fleet.admin)
        home = Issuer(SHAPES["github"][0], f"https://127.0.0.1:{fleet.port}")
        first.api("POST", "/issuers", {"url": home.url, "algorithms": ["ES256"], "jwks": home.jwks, "lifetime_max": 900})
        now = time.time()
        body = {name: value for name, value in rule(single_use=True, audience=home.audience).items() if name not in ("id", "scope")}
        head = {"schema": "sijil.document/v1", "kind": "trust-rule", "scope": "main", "name": "gh", "effective_from": signing_keys.utc(now), "expires": signing_keys.utc(now + 86400)}
        key = fleet.path("approver.pem")
        first.api("POST", "/trust-rules", sign(signing_keys.canonical({**head, "version": 1, "body": body}), key))
        made = home.token(**SHAPES["github"][1])
        wait_until(lambda: second.exchange(home.token(**SHAPES["github"][1]), "repository:main/models/x:pull").json["scope"] != "", 10, "the rule is not known at the second gateway")
        assert first.exchange(made, "repository:main/models/x:pull,push").status == 200
        refused(second.exchange(made, "repository:main/models/x:pull,push"), "used before")
        headers = bearer(second.exchange(home.token(**SHAPES["github"][1]), "repository:main/models/x:pull,push"))
        shown = second.call("GET", "/api/v1/trust-rules/gh?scope=main", scope="registry:admin:*")
        end = json.dumps(sign(signing_keys.canonical({**head, "version": 2, "withdrawn": "a test", "body": {}}), key))
        for tag, status in (('"other"', 412), ("W/" + shown["ETag"], 412), (shown["ETag"], 201)):
            assert first.call("POST", "/api/v1/trust-rules/gh/withdrawal", end, {"If-Match": tag}, scope="registry:admin:*").status == status, tag
        began = time.monotonic()
        wait_until(lambda: second.call("POST", "/v2/main/models/x/blobs/uploads/", headers=headers).status == 401, 5, "the token goes on")
        assert time.monotonic() - began < 1.5, "the withdrawal took longer than a second at the other gateway"


def approver_at(fleet, who, boss):
    """A person of the fleet with a key that approves; `boss`, another person, has let it in."""
    login = make_person(fleet, who, "registry-admin", "")
    client = fleet.clients(login)[0]
    me = client.api("GET", "/self")
    key = Key("ext:" + hashlib.sha256(f"{me['issuer']}\n{me['name']}".encode()).hexdigest(), "approve")
    document = key.document()
    drafted = signing_keys.sign(document, key.path)
    client.api("POST", "/keys/signing", drafted)
    fleet.clients(boss)[0].api("POST", f"/keys/signing/{key.name}/approval", {"envelopes": [drafted, signing_keys.sign(document, fleet.path("approver.pem"))]})
    return login, key.path


def of_two_rules_at_two_gateways_one_comes_into_force():
    """Both could match one token, and each gateway has not yet read the other's rule when it checks its own."""
    with Fleet(2) as fleet, concurrent.futures.ThreadPoolExecutor(2) as pool:
        first = fleet.clients(fleet.admin)[0]
        first.api("POST", "/issuers", {"url": SHAPES["github"][0], "algorithms": ["ES256"], "jwks": Issuer(SHAPES["github"][0], audience).jwks, "lifetime_max": 900})
        first.api("POST", "/organisations", {"name": "rival"})
        first.api("POST", "/projects", {"organisation": "rival", "name": "models"})
        boss = make_person(fleet, "boss", "registry-admin", "")
        (ann, key), (ben, other) = approver_at(fleet, "ann", boss), approver_at(fleet, "ben", boss)

        def draft(scope, number):
            now = time.time()
            wanted = rule(scope=scope, grant=[{"role": "publisher", "on": scope + "/models"}], match={"/repository_id": {"eq": str(number)}, "/ref": {"eq": "refs/heads/main"}})
            body = {name: value for name, value in {**wanted, "audience": f"https://127.0.0.1:{fleet.port}"}.items() if name not in ("id", "scope")}
            document = signing_keys.canonical({"schema": "sijil.document/v1", "kind": "trust-rule", "scope": scope, "name": f"gh-{number}", "version": 1,
                                               "effective_from": signing_keys.utc(now), "expires": signing_keys.utc(now + 86400), "body": body})
            envelopes = [sign(document, key), sign(document, other)]
            fleet.clients(ann)[0].api("POST", "/trust-rules", envelopes[0])
            return {"envelopes": envelopes}

        def approve(gateway, number, body):
            return takers[gateway].call("POST", f"/api/v1/trust-rules/gh-{number}/approval", json.dumps(body), {"Content-Type": "application/json"},
                                                    scope="registry:admin:*")
        def waiting():
            """Which gateways wait to record something: one for the log's lock, and the other one for the lock that comes before."""
            return fleet.psql.ask("SELECT DISTINCT application_name FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE locktype = 'advisory' AND classid = 7307"
                                  " AND objid IN (1, 2) AND NOT granted ORDER BY 1").split()

        def race(number, drafts):
            """Both approvals are checked before either is recorded, because nothing can be recorded meanwhile."""
            for taker in takers:  # each reads what there is, which has to be signed; and it has its token
                taker.api("GET", "/trust-rules")
            wait_until(lambda: fleet.psql.ask("SELECT max(c.size) = max(l.size) FROM audit_checkpoint c, audit_log l") == "t", 20, "the log is not signed")
            lock.ask("SELECT pg_advisory_lock(7307, 2)")
            sent = [pool.submit(approve, gateway, number, drafts[gateway]) for gateway in range(2)]
            try:
                wait_until(lambda: waiting() == ["gateway0", "gateway1"], 4, "the gateways do not record both approvals")
            finally:
                lock.ask("SELECT pg_advisory_unlock(7307, 2)")
            return [one.result() for one in sent]
        lock, numbers = Psql(fleet.database_at, "sijil_template"), iter(range(500, 508))
        takers = fleet.clients(ben)
        refused_late = False
        while not refused_late:  # what else a gateway records may have waited in an approval's place
            number = next(numbers)
            drafts = [draft("main", number), draft("rival", number)]
            answers = race(number, drafts)
            statuses = [answer.status for answer in answers]
            assert sum(status < 300 for status in statuses) == 1 and set(statuses) <= {200, 201, 403, 409}, [(answer.status, answer.body) for answer in answers]
            loser = statuses.index(max(statuses))
            refused_late = statuses[loser] == 409
            wait_until(lambda: approve(loser, number, drafts[loser]).status == 403, 10, "the rule that came second is not refused")
        assert b"has recorded another document" in answers[loser].body, answers[loser].body
        lock.close()


def an_approver_sees_all_of_a_rule():
    """However long: a part that is cut would be signed unseen. And no character of it steers the terminal."""
    refs = [f"refs/heads/release-{number:03}" for number in range(30)] + ["refs/heads/\u202exnno"]
    wanted = rule(name="long", match={"/repository_id": {"eq": "4711"}, "/ref": {"in": refs}}, single_use=True, networks=[f"2001:db8:{number:x}{number:x}{number:x}::/48" for number in range(1, 9)],
                  grant=[{"role": "publisher", "on": f"main/models/{'x' * 60}{number}"} for number in range(5)])
    sijil("ann", "ci", "rule", "draft", at, written(wanted), "--key", people["ann"]["key"])
    approved = sijil("ben", "ci", "rule", "approve", at, "long", "--scope", "main", "--key", people["ben"]["key"])
    lines = [line.split(None, 1) for line in approved.splitlines() if line.startswith("  ")]

    def shown(value):
        return value if isinstance(value, str) else signing_keys.canonical(value).decode()
    for name, value in [(name, value) for name, value in wanted.items() if name not in ("id", "match", "scope")] + list(wanted["match"].items()):
        assert [name, shown(value).replace("\u202e", "???")] in lines, (name, approved)
    assert ["scope", "main"] in lines and "expires" in [line[0] for line in lines] and "\u202e" not in approved
    revoke("long")


def sinks_and_detection_rules_need_two_approvers():
    """The commands of docs/delivery.md and docs/detection.md."""
    sink = {"name": "siem", "transport": "file", "region": "local/main", "address": "siem.ndjson", "names": {"purpose": "p" * 250},
            "classes": {name: ["actor", "resource", "detail", "region", "rules", "request", "raw"]
                        for name in ("authentication", "api-activity", "application-lifecycle", "detection-finding")}}
    rule_of = {"name": "denial-burst", "detector": "denial-burst", "threshold": 50, "window": 600, "severity": 2}
    for noun, document in (("sink", sink), ("detection", rule_of)):
        name, path = document["name"], os.path.join(folder.name, noun + ".json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(document, file)
        drafted = sijil("ann", "admin", noun, "draft", at, path, "--key", people["ann"]["key"], "--json")
        assert (drafted["state"], drafted["version"]) == ("draft", 1), drafted
        assert "one person has signed twice" in sijil("ann", "admin", noun, "approve", at, name, "--key", people["ann"]["key"], code=1)
        assert "another person" in sijil("ben", "admin", noun, "approve", at, name, "--key", people["ann"]["key"], code=4)
        approved = sijil("ben", "admin", noun, "approve", at, name, "--key", people["ben"]["key"])
        for member in set(document) - {"name"}:  # all of it is shown before it is signed
            value = document[member] if isinstance(document[member], str) else signing_keys.canonical(document[member]).decode()
            assert any(line.split() == [member, value] for line in approved.splitlines()), (member, approved)
        assert "expires" in approved and "in force" in approved, approved
        assert len(sijil("ann", "admin", noun, "show", at, name, "--json")["envelopes"]) == 2
        assert any(row["name"] == name for row in sijil("ann", "admin", noun, "list", at, "--json"))
    login = make_person(server, "eve", "auditor", "")
    sijil("eve", "login", at, "--username", login[0], "--ca-file", server.ca_file, given=login[1])
    sijil("ann", "admin", "detection", "test", at, "denial-burst", "--since", "7d", code=4)  # it reads the log
    assert "alarms" in sijil("eve", "admin", "detection", "test", at, "denial-burst", "--since", "7d", "--json")
    sijil("ann", "admin", "sink", "secret", at, "siem", code=1)  # only what a webhook gets is signed
    for noun, name in (("sink", "siem"), ("detection", "denial-burst")):
        sijil("ben", "admin", noun, "revoke", at, name, "--key", people["ben"]["key"], "--reason", "a test")
        assert sijil("ann", "admin", noun, "show", at, name, "--json")["state"] == "withdrawn"


for shape in SHAPES:
    trust(shape)
person("ann")
person("ben")
run(a_rule_needs_two_approvers, an_approver_sees_all_of_a_rule, sinks_and_detection_rules_need_two_approvers, rules_that_are_open_are_refused, only_what_the_rule_says, the_event_names_the_rule, a_used_token_stays_used, one_rule_wins, no_rule_takes_the_tokens_of_another_organisation, a_rule_for_a_network, rules_end,
    a_rule_is_tested_offline, a_login_without_a_right_fails, a_rule_of_another_audience_is_refused, a_run_may_read_from_other_projects, a_github_pipeline_pushes_and_pulls, a_gitlab_pipeline_pushes_and_pulls, a_jenkins_pipeline_pushes_and_pulls,
    a_kubernetes_job_pushes_and_pulls, a_token_counts_once_at_all_gateways, of_two_rules_at_two_gateways_one_comes_into_force, server=server)
