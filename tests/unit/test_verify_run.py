#!/usr/bin/python3
"""usage: test_verify_run.py SIJIL-VERIFY VECTORS   `sijil-verify run` as a program: what it says, and its exit status (0, 1, 2)."""
import base64
import copy
import json
import pathlib
import subprocess
import sys
import tempfile

PROGRAM, VECTORS = sys.argv[1], json.loads(pathlib.Path(sys.argv[2]).read_text(encoding="utf-8"))
HEAD = bytes.fromhex("3059301306072a8648ce3d020106082a8648ce3d030107034200")  # SubjectPublicKeyInfo of P-256, before the point


def pem(name, folder):
    text = base64.encodebytes(HEAD + bytes.fromhex(VECTORS["points"][name])).decode()
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
    verifier.refuses("{}", 2, "schema is missing")
    verifier.refuses("x", 2, "")
    verifier.refuses(changed(), 2, "--root", options=verifier.options[:4])
    verifier.refuses(changed(), 2, "no --entry", "--entry", "/dev/null")
    verifier.refuses(changed(), 2, "--set is for replays", "--set", "/dev/null")
    strange = [*verifier.options[:4], "--root", pem("runner", verifier.folder)]
    verifier.refuses(changed(), 1, "document 1: ", options=strange)
    done = subprocess.run([PROGRAM, "proof", *verifier.options, "/dev/null"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "--root is for runs" in done.stderr


def check_decisions(verifier):
    """Sets that the root has not signed, and decisions that are not the order's, prove nothing."""
    verifier.refuses(changed(policy_sets=[VECTORS["bundles"][0]["bundle"]["order"]]), 2, "policy set 1: ")
    entry = json.loads(VECTORS["bundles"][0]["bundle"]["documents"][0]["entry"])
    verifier.refuses(changed(decisions=[json.dumps({"entry": entry, "facts": []})]), 1, "is not that of the order's event")
    verifier.refuses(changed(decisions=["{}"]), 2, 'no member "entry"')
    own = json.loads(VECTORS["bundles"][0]["bundle"]["event"]["entry"])
    verifier.refuses(changed(decisions=[json.dumps({"entry": own, "facts": []})]), 1, "lacks its facts")


def main():
    with tempfile.TemporaryDirectory() as name:
        verifier = Verifier(pathlib.Path(name))
        check_answers(verifier)
        check_refusals(verifier)
        check_decisions(verifier)
    print("sijil-verify run says what holds, and what does not")


main()
