#!/usr/bin/env python3
"""The command line while its n-th allocation, file call, socket call or thread fails. Each command reports the failure, or its result is
correct. Nothing incomplete is left, and the same command works afterwards.

usage: client.py [COMMAND...]   a sample; all failures with SIJIL_FAULTS_ALL=1. COMMAND:KIND:N is one failure,
COMMAND:KIND:N- all from the n-th on."""
import filecmp
import json
import os
import subprocess
import sys
import time

from plan import WITHOUT_END, Bad, Plan, faulty, in_order, no_findings, numbers, one_of, real, run_cases, series
from machine import Machine
from sijil_test import Client, follow

KINDS = ("memory", "file", "socket", "thread")
DONE, FAILED, UNAVAILABLE, LIMIT = 0, 1, 5, 7
BAD_MAX = 10  # of one command: more are not needed
# Exit statuses for a lack of something. It is never reported as a wrong command line, a missing thing, a denial, or a proof that proves
# nothing.
SAID = {"sijil": (FAILED, UNAVAILABLE), "sijil-verify": (2,)}


class World:
    def __init__(self, machine):
        self.machine, self.number = machine, 0
        self.job = self.deleted = ""  # made when they are first needed
        self.proofs = {}
        self.plan = Plan(machine.path("plan-sijil"))
        self.host = f"localhost:{machine.port}".replace("localhost", "127.0.0.1")
        admin = self.admin = Client(machine, machine.admin)
        until = time.monotonic() + 60
        while admin.call("GET", "/readyz").status != 200:
            assert time.monotonic() < until, "not ready"
            time.sleep(0.1)
        self.home = machine.path("home")
        os.mkdir(self.home)
        self.model = self.file("model.onnx", 300_000)
        self.models = [self.model, *(self.file(f"part-{number}.onnx", 100_000) for number in (1, 2))]
        self.place = f"{self.host}/main/models/cli"
        robot = admin.api("POST", "/robots", {"organisation": "main", "name": "cli"})
        for role, scope in (("publisher", "main/models"), ("org-admin", "main"), ("auditor", "")):
            if scope:
                admin.api("POST", "/bindings", {"robot": robot["id"], "role": role, "scope": scope})
        self.login = robot["name"], robot["secret"]
        self.log_in(real("sijil"), self.home, machine.admin)
        self.ci_home = machine.path("ci-home")
        os.mkdir(self.ci_home)
        self.log_in(real("sijil"), self.ci_home, self.login)
        self.run(["push", self.model, self.place + ":v1"], home=self.ci_home)
        self.run(["push", *self.models, self.place + ":several"], home=self.ci_home)

    def file(self, name, length):
        path = self.machine.path(name)
        with open(path, "wb") as file:
            file.write(os.urandom(length))
        return path

    def log_in(self, program, home, login):
        return subprocess.run([program, "login", self.host, "--ca-file", self.machine.ca_file, "--username", login[0]],
                              input=login[1] + "\n", text=True, capture_output=True, env=self.environment(home), check=True)

    def environment(self, home):
        kept = {name: os.environ[name] for name in ("PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS", "SIJIL_FAULT_TRACE") if name in os.environ}
        return {**kept, "HOME": home, "XDG_CONFIG_HOME": home + "/config", "XDG_STATE_HOME": home + "/state",
                "XDG_CACHE_HOME": home + "/cache"}

    def run(self, words, home=None, failing=False, text=None, program="sijil", good=DONE):
        environment = self.environment(home or self.home)
        if failing:
            environment["SIJIL_FAULT_PLAN"] = self.plan.path
        done = subprocess.run([faulty(program) if failing else real(program), *words], env=environment, input=text,
                              text=True, capture_output=True, timeout=120, check=False)
        no_findings(done.stderr)
        if not failing and done.returncode != good:
            raise Bad(f"{words} without a failure: {done.returncode} {done.stderr[-1500:]}")
        return done

    def fresh(self):
        self.number += 1
        return self.number


class Try:
    def __init__(self, words, home=None, text=None, after=None, again=True):
        self.words, self.home, self.text, self.after, self.again = words, home, text, after, again
        self.right = ""  # the output of a good one
        self.program, self.good = "sijil", DONE

    def run(self, world, failing):
        return world.run(self.words, self.home, failing, self.text, self.program, self.good)


def login(world):
    home = world.machine.path(f"login-{world.fresh()}")
    os.mkdir(home)
    hosts = os.path.join(home, "config/sijil/hosts.json")
    world.log_in(real("sijil"), home, world.machine.admin)

    def after(done):
        """After a failed login the file has the previous login or the new one."""
        with open(hosts, encoding="utf-8") as file:
            kept = json.load(file)[world.host]
        assert (kept["username"], kept["password"]) in ((world.login,) if done else (world.login, world.machine.admin))
        assert os.stat(hosts).st_mode & 0o77 == 0
    return Try(["login", world.host, "--ca-file", world.machine.ca_file, "--username", world.login[0]], home,
               world.login[1] + "\n", after)


def logout(world):
    """The other logins stay after any failure. This login is removed once the command says so."""
    home = world.machine.path(f"logout-{world.fresh()}")
    os.mkdir(home)
    hosts = os.path.join(home, "config/sijil/hosts.json")
    world.log_in(real("sijil"), home, world.login)
    with open(hosts, encoding="utf-8") as file:
        kept = json.load(file)
    with open(hosts, "w", encoding="utf-8") as file:
        json.dump({**kept, "other.example": {"username": "x", "password": "y"}}, file)

    def after(done):
        with open(hosts, encoding="utf-8") as file:
            left = json.load(file)
        assert left["other.example"]["password"] == "y"
        assert world.host not in left or (not done and left[world.host] == kept[world.host]), left
    return Try(["logout", world.host], home, None, after, again=False)  # at the second try it is not logged in


def pushing(count):
    """Pushes several files at a time, by threads."""
    def case(world):
        number = world.fresh()
        models = [world.file(f"model-{number}-{part}.onnx", 150_000) for part in range(count)]
        place, out = f"{world.place}:t{number}", world.machine.path(f"check-{number}")

        def after(done):
            if done:
                world.run(["pull", "--output", out, place], home=world.ci_home)
                assert all(filecmp.cmp(model, pulled(out, model), shallow=False) for model in models)
        return Try(["push", *models, place], world.ci_home, None, after)
    return case


def pulled(out, model):
    return os.path.join(out, os.path.basename(model))


def pulling(tag, models):
    def case(world):
        out = world.machine.path(f"out-{world.fresh()}")

        def after(done):
            for model in models(world):
                there = pulled(out, model)
                assert os.path.exists(there) or not done
                assert not os.path.exists(there) or filecmp.cmp(model, there, shallow=False), "half a file under its name"
        return Try(["pull", "--output", out, f"{world.place}:{tag}"], world.ci_home, None, after)
    return case


def delete(world):
    place = f"{world.place}:d{world.fresh()}"
    world.run(["push", world.model, place], home=world.ci_home)
    return Try(["delete", place], world.ci_home, again=False)


def sign(world):
    out = world.machine.path(f"signed-{world.fresh()}")

    def after(done):
        assert done or not os.path.exists(out) or os.path.getsize(out) > 300, "half a set"
        if os.path.exists(out):
            with open(out, encoding="utf-8") as file:
                assert json.load(file)["signatures"]
            os.unlink(out)
    return Try(["policy", "sign", "--key", world.machine.path("approver.pem"), "--epoch", "7", "--output", out,
                world.machine.path("set.json")], after=after)


def load(world):
    """The next set is in force, or the previous one. At the second try the registry answers that it has the set."""
    epoch = world.admin.api("GET", "/policies")["epoch"] + 1
    path = world.machine.path(f"set-{epoch}.dsse")
    with open(path, "wb") as file:
        file.write(world.machine.policy_set(epoch))

    def after(done):
        now = world.admin.api("GET", "/policies")["epoch"]
        assert now in ((epoch,) if done else (epoch - 1, epoch)), (epoch, now)
    return Try(["policy", "load", world.host, path], after=after, again=False)


def revoking(kind):
    """A robot or a binding for this try. If the command says that it is revoked, it is."""
    def case(world):
        robot = world.admin.api("POST", "/robots", {"organisation": "main", "name": f"gone{world.fresh()}"})
        made = robot
        if kind == "binding":
            made = world.admin.api("POST", "/bindings", {"robot": robot["id"], "role": "consumer", "scope": "main/models"})

        def after(done):
            if kind == "robot":
                there = [each["id"] for each in world.admin.api("GET", "/robots?organisation=main")["robots"] if each["enabled"]]
            else:
                there = [each["id"] for each in world.admin.api("GET", "/bindings?scope=main/models")["bindings"]]
            assert not done or made["id"] not in there, "it is still there"
        return Try(["admin", kind, "revoke", world.host, made["id"]], after=after, again=False)
    return case


def proof(world):
    out = world.machine.path(f"proof-{world.fresh()}")
    os.mkdir(out)

    def after(done):
        if done:
            key = world.run(["audit", "key", world.host]).stdout.strip().split()[-1]
            subprocess.run([real("sijil-verify"), "proof", "--key", key, "--entry", out + "/entry.json",
                            out + "/entry.tlog-proof"], check=True, capture_output=True)
    return Try(["audit", "proof", "--output", out, world.host, "3"], after=after)


def asking(*words):
    """The output is that of a run without failures, or can't be taken for it."""
    def case(world):
        return Try([word.format(host=world.host, place=world.place) for word in words])
    return case


def making(*words):
    def case(world):
        number = world.fresh()
        return Try([word.format(host=world.host, n=number) for word in words], again=False)
    return case


def end_jobs(world):
    """Ends the jobs of an earlier try, except the one that other cases read."""
    world.machine.sql(f"DELETE FROM job WHERE job_id::text <> '{world.job}'")


def following(*words, right):
    """Begins and follows a job. The output is correct once it says that all is done. Only one job may run."""
    def case(world):
        end_jobs(world)
        attempt = Try([word.format(host=world.host) for word in words], again=False)
        attempt.right = right
        return attempt
    return case


def of_a_job(*words):
    """A job that has ended, and one that waits."""
    def case(world):
        if not world.job:
            world.job = world.admin.api("POST", "/scrubs", {})["id"]
            follow(world.admin, world.job)
        end_jobs(world)
        waiting = world.admin.api("POST", "/rewraps", {})["id"]
        return Try([word.format(host=world.host, done=world.job, waiting=waiting) for word in words], again="stop" not in words)
    return case


def rules(world):
    path = world.machine.path("rules.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"immutable": [{"repositories": "none", "tags": f"v{world.fresh()}"}]}, file)
    number = world.number

    def after(done):
        now = world.admin.api("GET", "/projects/main/models/rules")
        assert not done or now["immutable"][0]["tags"] == f"v{number}", now
    return Try(["admin", "project", "rules", world.host, "main/models", path], after=after)


def quota(world):
    number = world.fresh()

    def after(done):
        now = world.admin.api("GET", "/projects/main/models/quota")
        assert not done or (now["sessions"], now["bytes"]) == (500 + number % 400, 1 << 50), now
    return Try(["admin", "project", "quota", world.host, "main/models", "--sessions", str(500 + number % 400), "--bytes", "1024T"],
               after=after)


def forgotten(world):
    """The digest of a blob that is deleted with its key; the event is recorded."""
    digest = Client(world.machine, world.login).repository("main/models/gone").push_blob(os.urandom(500))
    world.machine.sql(f"DELETE FROM repository_blob WHERE digest = '{digest}'; DELETE FROM blob WHERE digest = '{digest}'")
    until = time.monotonic() + 30
    while world.admin.call("GET", "/api/v1/projects/main/models/deletions/" + digest, scope="registry:admin:*").status != 200:
        assert time.monotonic() < until, "that its key was forgotten is not recorded"
        time.sleep(0.05)
    return digest


def certificate(world):
    """The file is complete, or does not exist under its name."""
    path = world.machine.path("certificate")
    if not world.deleted:
        world.deleted = forgotten(world)

    def after(done):
        assert os.path.exists(path) or not done
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                assert {"certificate", "entry", "proof"} <= json.load(file).keys()
            os.unlink(path)
    return Try(["admin", "deletion-certificate", "--output", path, world.host, "main/models", world.deleted], after=after)


def proofs(world):
    """An entry with its proof, and a certificate; each unchanged, and with one letter changed."""
    if not world.proofs:
        folder = world.machine.path("proofs")
        world.deleted = world.deleted or forgotten(world)
        world.run(["audit", "proof", "--output", folder, world.host, "3"])
        world.run(["admin", "deletion-certificate", "--output", folder + "/certificate", world.host, "main/models", world.deleted])
        for name, was, now in (("entry.json", '"allowed"', '"Allowed"'), ("certificate", '"payload":"ey', '"payload":"fy')):
            with open(f"{folder}/{name}", encoding="utf-8") as file:
                text = file.read()
            assert was in text, text
            with open(f"{folder}/other-{name}", "w", encoding="utf-8") as file:
                file.write(text.replace(was, now))
        keys = world.admin.api("GET", "/audit/key")
        with open(folder + "/documents.pem", "w", encoding="ascii") as file:
            file.write(keys["documents"])
        with open(folder + "/replay-set.json", "w", encoding="utf-8") as file:
            json.dump(world.admin.api("GET", "/policies")["set"], file)
        # New events, because an earlier case may have loaded another set than that of the first events.
        Client(world.machine, world.login).repository("main/models/replayed").begin()
        events = world.admin.api("GET", "/audit/events?limit=100&facts=true")["events"]
        pushed = next(event for event in events if event["entry"]["act"] == "upload.begin" and event["facts"])
        with open(folder + "/export.ndjson", "w", encoding="utf-8") as file:
            file.write(json.dumps(pushed, ensure_ascii=False) + "\n")
        pushed["facts"][0]["digest"] = not pushed["facts"][0]["digest"]
        with open(folder + "/other-export.ndjson", "w", encoding="utf-8") as file:
            file.write(json.dumps(pushed, ensure_ascii=False) + "\n")
        world.proofs = {"folder": folder, "key": keys["vkey"]}
    return world.proofs


def verifying(*words, good=DONE, right="erified"):
    """A good file is verified, or there is no verdict. A changed file is never accepted, and a good one is never refused."""
    def case(world):
        attempt = Try([word.format(**proofs(world)) for word in words])
        attempt.program, attempt.good, attempt.right = "sijil-verify", good, right
        return attempt
    return case


def binding(world):
    """The command looks up the robot by its name. The scope is new each time, because a role can be given only once."""
    number = world.fresh()
    world.run(["admin", "project", "create", world.host, f"main/b{number}"])
    return Try(["admin", "binding", "create", world.host, "robot$main+cli", "consumer", f"main/b{number}"], again=False)


CASES = {
    "login": login,
    "logout": logout,
    "push": pushing(1),
    "push-several": pushing(3),
    "pull": pulling("v1", lambda world: [world.model]),
    "pull-several": pulling("several", lambda world: world.models),
    "tags": lambda world: Try(["tags", world.place], world.ci_home),
    "delete": delete,
    "audit-tail": asking("audit", "tail", "{host}", "--lines", "5"),
    "audit-key": asking("audit", "key", "{host}"),
    "audit-proof": proof,
    "organisation-create": making("admin", "organisation", "create", "{host}", "o{n}"),
    "project-create": making("admin", "project", "create", "{host}", "main/p{n}", "--region", "local/main", "--label",
                             '{{"class":"confidential"}}'),
    "project-list": asking("admin", "project", "list", "{host}"),
    "project-label": asking("admin", "project", "label", "{host}", "main/models", '{{"class":"confidential"}}'),
    "robot-create": making("admin", "robot", "create", "{host}", "main/r{n}", "--expires", "3"),
    "robot-revoke": revoking("robot"),
    "robot-list": asking("admin", "robot", "list", "{host}"),
    "binding-create": binding,
    "binding-revoke": revoking("binding"),
    "binding-list": asking("admin", "binding", "list", "{host}"),
    "quota": asking("admin", "project", "quota", "{host}", "main/models"),
    "quota-set": quota,
    "rules": asking("admin", "project", "rules", "{host}", "main/models"),
    "rules-set": rules,
    "gc": following("admin", "gc", "{host}", right="removed: 0 manifests with 0 tags, 0 of "),
    "gc-dry-run": following("admin", "gc", "{host}", "main/models", "--dry-run", right="would be removed: 0 manifests"),
    "gc-json": following("admin", "gc", "{host}", "main/models", "--json", right='"state":"completed"'),
    "gc-detach": following("admin", "gc", "{host}", "main/models", "--detach", right="collection"),
    "scrub": following("admin", "scrub", "{host}", "--digest", "--json", right='"state":"completed"'),
    "rewrap-detach": following("admin", "rewrap", "{host}", "--detach", right="rewrap"),
    "job-list": of_a_job("admin", "job", "list", "{host}"),
    "job-show": of_a_job("admin", "job", "show", "{host}", "{waiting}"),
    "job-follow": of_a_job("admin", "job", "show", "{host}", "{done}", "--follow"),
    "job-findings": of_a_job("admin", "job", "findings", "{host}", "{done}"),
    "job-stop": of_a_job("admin", "job", "stop", "{host}", "{waiting}"),
    "keys": asking("admin", "keys", "{host}"),
    "region-list": asking("region", "list", "{host}"),
    "deletion-certificate": certificate,
    "policy-show": asking("policy", "show", "{host}"),
    "policy-init": asking("policy", "init", "{host}", "--regime", "adgm", "--organisation", "main/models", "--json"),
    "policy-export": asking("policy", "export", "{host}"),
    "policy-sign": sign,
    "policy-load": load,
    "verify-proof": verifying("proof", "--key", "{key}", "--entry", "{folder}/entry.json", "{folder}/entry.tlog-proof"),
    "verify-proof-changed": verifying("proof", "--key", "{key}", "--json", "--entry", "{folder}/other-entry.json",
                                      "{folder}/entry.tlog-proof", good=1, right='"verified":false'),
    "verify-replay": verifying("replay", "--set", "{folder}/replay-set.json", "{folder}/export.ndjson", right="1 decisions agree, 0 differ"),
    "verify-replay-changed": verifying("replay", "--json", "--set", "{folder}/replay-set.json", "{folder}/other-export.ndjson", good=1,
                                       right='"differ":1'),
    "verify-certificate": verifying("certificate", "--key", "{key}", "--json", "--signer", "{folder}/documents.pem",
                                    "{folder}/certificate", right='"verified":true'),
    "verify-certificate-changed": verifying("certificate", "--key", "{key}", "--signer", "{folder}/documents.pem",
                                            "{folder}/other-certificate", good=1,
                                            right="NOT verified: the document carries no valid signature of the trusted key"),
}


def is_told_in_json(text):
    try:
        return json.loads(text)["error"] != ""
    except ValueError:
        return False


def try_with(world, case, kinds, nth, count):
    attempt = case(world)
    world.plan.arm(kinds, nth, count)
    done = attempt.run(world, True)
    world.plan.disarm()
    fired = world.plan.fired > 0
    if "SIJIL_FAULT_TRACE" in os.environ:
        print(done.stderr)
    if done.returncode == attempt.good:
        said = done.stdout if attempt.good == DONE else done.stdout + done.stderr
        if attempt.right not in said:
            raise Bad(f"it says that it was done, and not what: {said[-500:]!r}")
    elif done.returncode not in SAID[attempt.program]:
        raise Bad(f"exit status {done.returncode}: {done.stderr[-1500:]}")
    elif not fired:
        raise Bad(f"without a failure: {done.returncode} {done.stderr[-1500:]}")
    elif not (is_told_in_json(done.stderr) if "--json" in attempt.words and attempt.program == "sijil" else "sijil" in done.stderr):
        raise Bad(f"nothing is said: {done.stderr!r}")
    if attempt.after:
        attempt.after(done.returncode == attempt.good)
    if done.returncode != attempt.good and attempt.again:
        attempt.run(world, False)
        if attempt.after:
            attempt.after(True)
    return fired


def count(world, case):
    """One run without failures."""
    attempt = case(world)
    world.plan.count()
    done = attempt.run(world, True)
    world.plan.disarm()
    if done.returncode != attempt.good:
        raise Bad(f"without a failure: {done.returncode} {done.stderr[-1500:]}")
    return {kind: world.plan.counted(kind) for kind in KINDS}


def run_case(world, name):
    name, only = one_of(name)
    tried, asked, bad = 0, count(world, CASES[name]), []
    for kinds, lasting in series(name, only, KINDS):
        total = asked[kinds[0]]
        for nth in numbers(total, only):
            try:
                tried += try_with(world, CASES[name], kinds, nth, WITHOUT_END if lasting else 1)
            except (Bad, AssertionError, LookupError, ValueError, OSError, subprocess.SubprocessError) as why:
                bad.append(f"{kinds[0]} {nth}{'-' if lasting else ''} of {total}: {why!r}")
                if len(bad) >= BAD_MAX:
                    break
    if bad:
        raise Bad("\n     ".join(bad))
    print(f"ok   {name:20} {' '.join(f'{n:5}' for n in asked.values())}   {tried:4} failures", flush=True)
    return tried


def main():
    with Machine(failing=(), record_timeout=10_000) as machine:
        world = World(machine)
        return run_cases(sys.argv[1:] or in_order(CASES), lambda name: run_case(world, name), "command", KINDS)


sys.exit(main())
