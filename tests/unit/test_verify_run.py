#!/usr/bin/python3
"""usage: test_verify_run.py SIJIL-VERIFY VECTORS   `sijil-verify run` as a program: what it says, and its exit status (0, 1, 2)."""
import base64
import copy
import json
import pathlib
import subprocess
import sys
import tempfile

from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "vectors"))
import run as made  # noqa: E402
from cryptography.hazmat.primitives.asymmetric import ec  # noqa: E402

PROGRAM, VECTORS = sys.argv[1], json.loads(pathlib.Path(sys.argv[2]).read_text(encoding="utf-8"))
HEAD = bytes.fromhex("3059301306072a8648ce3d020106082a8648ce3d030107034200")  # SubjectPublicKeyInfo of P-256, before the point


def pem(name, folder, point=None):
    text = base64.encodebytes(HEAD + bytes.fromhex(point or VECTORS["points"][name])).decode()
    path = folder / f"{name}.pem"
    path.write_text(f"-----BEGIN PUBLIC KEY-----\n{text}-----END PUBLIC KEY-----\n", encoding="ascii")
    return path


class Verifier:
    def __init__(self, folder):
        self.folder = folder
        self.options = ["--key", VECTORS["vkey"], "--signer", pem("keyd", folder), "--root", pem("root", folder)]

    def run(self, bundle, *more, options=None):
        path = self.folder / "bundle.json"
        path.write_text(bundle if isinstance(bundle, str) else json.dumps(bundle), encoding="utf-8")
        return subprocess.run([PROGRAM, "run", *(self.options if options is None else options), *more, path], capture_output=True, text=True,
                              timeout=60)

    def refuses(self, bundle, status, says, *more, **options):
        done = self.run(bundle, *more, **options)
        assert done.returncode == status and says in done.stderr, f"{done.returncode}: {done.stdout}{done.stderr}"


def changed(**members):
    return {**copy.deepcopy(VECTORS["bundles"][0]["bundle"]), **members}


def check_answers(verifier):
    done = verifier.run(VECTORS["bundles"][0]["bundle"])
    assert done.returncode == 0 and "sijil-keyd admitted" in done.stdout and "Not proven:" in done.stdout, done.stderr
    answer = json.loads(verifier.run(VECTORS["bundles"][0]["bundle"], "--json").stdout)
    assert answer["verified"] is True and answer["admission"] == VECTORS["bundles"][0]["digests"]["admission"]
    text = json.dumps(VECTORS["bundles"][1]["bundle"])
    done = subprocess.run([PROGRAM, "run", *verifier.options, "-"], input=text, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "the bundle ends with the lease" in done.stdout


def check_refusals(verifier):
    verifier.refuses(changed(approvals=[]), 1, "NOT verified: ")
    done = verifier.run(changed(approvals=[]), "--json")
    assert done.returncode == 1 and json.loads(done.stdout)["verified"] is False
    verifier.refuses("{}", 1, "schema is missing")
    verifier.refuses("x", 1, "")
    verifier.refuses(changed(), 2, "", options=["--key", "x", *verifier.options[2:]])
    verifier.refuses({**changed(), "lease": "x"}, 1, "NOT verified: ")
    done = subprocess.run([PROGRAM, "proof", "--key", VECTORS["vkey"], "--entry", "/dev/null", "/dev/null"], capture_output=True, text=True,
                          timeout=60)
    assert done.returncode == 1 and "NOT verified: " in done.stderr
    done = subprocess.run([PROGRAM, "replay", "/dev/null"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "the export has no event" in done.stderr
    verifier.refuses(changed(), 2, "--root", options=verifier.options[:4])
    verifier.refuses(changed(), 2, "no --entry", "--entry", "/dev/null")
    verifier.refuses(changed(), 2, "--set is for replays", "--set", "/dev/null")
    strange = [*verifier.options[:4], "--root", pem("runner", verifier.folder)]
    verifier.refuses(changed(), 1, "document 1: ", options=strange)
    done = subprocess.run([PROGRAM, "proof", *verifier.options, "/dev/null"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "--root is for runs" in done.stderr


def check_decisions(verifier):
    """Sets that the root has not signed, and decisions that are not the order's, prove nothing."""
    verifier.refuses(changed(policy_sets=[VECTORS["bundles"][0]["bundle"]["order"]]), 1, "policy set 1: ")
    entry = json.loads(VECTORS["bundles"][0]["bundle"]["documents"][0]["entry"])
    verifier.refuses(changed(decisions=[json.dumps({"entry": entry, "facts": []})]), 1, "is not that of the order's event")
    verifier.refuses(changed(decisions=["{}"]), 1, 'no member "entry"')
    own = json.loads(VECTORS["bundles"][0]["bundle"]["event"]["entry"])
    verifier.refuses(changed(decisions=[json.dumps({"entry": own, "facts": []})]), 1, "lacks its facts")


class Registry:
    """A registry of our own, so that what its keys sign can lie: documents, then one whole run."""

    def __init__(self, verifier):
        names = ("root", "officer", "second", "requester", "approver", "runner", "keyd")
        self.verifier, self.log = verifier, made.Log()
        self.keys = {name: ec.generate_private_key(ec.SECP256R1()) for name in names}

    def enrol(self, scope, body):
        officers = ["ext:" + made.hex_of(name) for name in ("officer", "second")]
        kind, _, value = made.runner(self.keys["runner"])
        value = {**value, "scope": scope, "body": {**value["body"], **body}}
        return made.enrol(self.log, self.keys, [(made.person(self.keys["officer"], officers[0], "approve"), ["officer", "root"]),
                                                (made.person(self.keys["second"], officers[1], "approve"), ["second", "root"]),
                                                (made.person(self.keys["requester"], made.REQUESTER, "sign"), ["requester", "officer"]),
                                                (made.person(self.keys["approver"], made.APPROVER, "sign"), ["approver", "officer"]),
                                                ((kind, scope, value), ["runner", "officer", "second"])]), value

    def withdraw(self, document, since):
        value = {**document, "version": 2, "withdrawn": "stolen", "body": {**document["body"], "since": since}}
        envelope = made.seal("application/vnd.sijil.runner.v1+json", value, self.keys["officer"])
        outer, inner = (made.hashlib.sha256(one).hexdigest() for one in (envelope.encode(), made.canonical(value)))
        at = self.log.append("runner.revoke", f"{value['scope']}#sha256:{outer} 2 sha256:{inner}", made.START_MS + 100, {})
        return [envelope], at

    def run(self, scope="acme", body=None, since=None, until="admission"):
        documents, runner = self.enrol(scope, body or {})
        if since:
            documents.append(self.withdraw(runner, since))
        asked = made.seal(made.TYPES["request"], made.request(), self.keys["requester"])
        approvals = [made.seal(made.TYPES["approval"], made.approval(asked), self.keys["approver"])]
        bundle, _ = made.bundle_of(self.log, self.keys, documents, asked, approvals, until)
        options = ["--key", self.log.vkey]
        for option, name in (("--signer", "keyd"), ("--root", "root")):
            options += [option, pem(f"own-{name}", self.verifier.folder, made.point_of(self.keys[name].public_key()).hex())]
        return self.verifier.run(bundle, options=options)


def expect(verifier, says, **what):
    done = Registry(verifier).run(**what)
    assert (done.returncode, says in done.stdout + done.stderr) == (1 if says else 0, True), f"{what}: {done.returncode} {done.stdout}{done.stderr}"


def at_level(level):
    whole = made.admission

    def admission(*parts):
        statement = whole(*parts)
        statement["predicate"]["verifiedLevels"] = [f"SIJIL_ASSURANCE_{level}"]
        return statement
    return mock.patch.object(made, "admission", admission)


def check_runners(verifier):
    """What was signed of a runner limits what its key can prove."""
    expect(verifier, "")
    expect(verifier, "", scope="")
    expect(verifier, "and not for the project", scope="globex")
    expect(verifier, "and not for the project", scope="acm")
    expect(verifier, "fewer devices", body={"devices": 0})
    with at_level(4):
        expect(verifier, "not the assurance of the runner, 3")
    expect(verifier, "not the assurance of the runner, 2", body={"assurance": 2})
    expect(verifier, "", since="2026-11-23T10:21:00.001Z")
    # The result says 10:20:00, but only keyd's time of 10:21:00 is sure; without it, the lease's end.
    expect(verifier, "withdrawn since", since="2026-11-23T10:20:30.000Z")
    expect(verifier, "withdrawn since", since="2026-11-23T11:00:00.000Z", until="result")
    expect(verifier, "", since="2026-11-23T11:00:00.000Z", until="lease")


def main():
    with tempfile.TemporaryDirectory() as name:
        verifier = Verifier(pathlib.Path(name))
        check_answers(verifier)
        check_refusals(verifier)
        check_decisions(verifier)
        check_runners(verifier)
    print("sijil-verify run says what holds, and what does not")


main()
