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
    assert "this runner certified the key " in done.stdout and answer["certificate"] == VECTORS["bundles"][0]["digests"]["certificate"]
    assert answer["verified"] is True and answer["admission"] == VECTORS["bundles"][0]["digests"]["admission"]
    text = json.dumps(VECTORS["bundles"][1]["bundle"])
    done = subprocess.run([PROGRAM, "run", *verifier.options, "-"], input=text, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "the bundle ends with the lease" in done.stdout


def check_outcomes(verifier):
    """A bundle that holds is not yet a run that was admitted."""
    whole, leased = (VECTORS["bundles"][at]["bundle"] for at in (0, 1))
    assert verifier.run(whole).stdout.startswith("Verified, and admitted: the run ") and verifier.run(whole, "--admitted").returncode == 0
    assert json.loads(verifier.run(whole, "--json").stdout)["outcome"] == "admitted"
    done = verifier.run(leased)
    assert done.returncode == 0 and done.stdout.startswith("Verified, but NOT ADMITTED (leased): the run "), done.stdout
    assert json.loads(verifier.run(leased, "--json").stdout)["outcome"] == "leased"
    verifier.refuses(leased, 1, "NOT verified: the run was not admitted (leased)", "--admitted")
    cut = {name: value for name, value in whole.items() if name != "admission"}
    assert "NOT ADMITTED (succeeded)" in verifier.run(cut).stdout
    verifier.refuses(cut, 1, "the run was not admitted (succeeded)", "--admitted")
    assert verifier.run(whole, "--run", made.RUN, "--admitted").returncode == 0
    verifier.refuses(whole, 1, "NOT verified: it is the bundle of another run, " + made.RUN, "--run", "5e8c2d40-11f7-4c7b-8f0e-6b8a90d1c999")
    assert "NOT ADMITTED (ordered)" in verifier.run({name: value for name, value in cut.items() if name not in ("result", "certificate", "lease")}).stdout
    assert "NOT ADMITTED (leased)" in verifier.run({name: value for name, value in cut.items() if name != "result"}).stdout


def named(title, **more):
    return {"digest": "sha256:" + "0" * 64, "annotations": {"org.opencontainers.image.title": title, **more}}


def check_unclear_files(verifier):
    """An admitted manifest of which clients make different files: its digest vouches for none of them."""
    content, name = verifier.folder / "model.onnx", verifier.folder / "unclear.json"
    content.write_bytes(b"weights")
    layer = {"digest": "sha256:" + made.hashlib.sha256(b"weights").hexdigest(), "annotations": {"org.opencontainers.image.title": "model.onnx"}}
    for other, says in ((named(".", **{"io.deis.oras.content.unpack": "true"}), "the title of layer 2 is no path"),
                        (named("a", **{"io.deis.oras.content.unpack": "true"}), "layer 2 has an annotation"),
                        (named("model.onnx"), "two layers are called 'model.onnx'"), (named("model.onnx/x"), "needs a folder"), ({"digest": "x"}, "layer 2 has none")):
        name.write_text(json.dumps({"layers": [layer, other]}), encoding="utf-8")
        subject = {"name": "model", "digest": {"sha256": made.hashlib.sha256(name.read_bytes()).hexdigest()}}
        log = {"name": "log", "digest": {"sha256": made.hex_of("log")}}
        with lying("result", ("subject", [subject, log])), lying("admission", ("subject", [subject])):
            registry = Registry(verifier)
            done = registry.verify(registry.bundle(), "--manifest", name, "--file", content)
            assert done.returncode == 1 and "clients may make different files of it" in done.stderr and says in done.stderr, done


def check_files(verifier):
    """From a file to its run: the admission names the manifest, and the manifest names the file."""
    content, name, real = verifier.folder / "digits.onnx", verifier.folder / "manifest.json", made.hex_of
    content.write_bytes(b"weights" * 10000)
    layer = {"digest": "sha256:" + made.hashlib.sha256(content.read_bytes()).hexdigest(), "size": 70000,
             "annotations": {"org.opencontainers.image.title": "digits.onnx"}}
    name.write_text(json.dumps({"layers": [named("config.json"), layer]}), encoding="utf-8")
    subject = {"name": "model", "digest": {"sha256": made.hashlib.sha256(name.read_bytes()).hexdigest()}}
    log = {"name": "log", "digest": {"sha256": real("log")}}
    with lying("result", ("subject", [subject, log])), lying("admission", ("subject", [subject])):
        registry = Registry(verifier)
        bundle = registry.bundle()

        def ask(*more):
            return registry.verify(bundle, *more)
        done = ask("--manifest", name, "--file", content)
        assert done.returncode == 0 and "is that of the admitted output model: sha256:" in done.stdout, done
        assert f"is digits.onnx of this output: {layer['digest']}." in done.stdout, done.stdout
        assert json.loads(ask("--manifest", name, "--file", content, "--json").stdout)["found"] == {
            "output": "model", "manifest": "sha256:" + subject["digest"]["sha256"], "file": "digits.onnx", "digest": layer["digest"]}
        assert "file" not in json.loads(ask("--manifest", name, "--json").stdout)["found"]
        content.write_bytes(b"other")
        done = ask("--manifest", name, "--file", content)
        assert done.returncode == 1 and "is not in the output model: its digest is sha256:" in done.stderr, done
        done = ask("--manifest", content)
        assert done.returncode == 1 and "is the manifest of no output that was admitted" in done.stderr, done
        assert ask("--file", content).returncode == 2
        bundle.pop("admission")
        done = ask("--manifest", name)
        assert done.returncode == 1 and "the run was not admitted (succeeded)" in done.stderr, done


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
    verifier.refuses(changed(), 2, "/dev/null", "--set", "/dev/null")
    (verifier.folder / "other.json").write_text("{}", encoding="utf-8")
    verifier.refuses(changed(), 2, "no restriction of an organisation", "--set", verifier.folder / "other.json")
    strange = [*verifier.options[:4], "--root", pem("runner", verifier.folder)]
    verifier.refuses(changed(), 1, "document 1: ", options=strange)
    done = subprocess.run([PROGRAM, "proof", *verifier.options, "/dev/null"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "--root is for runs" in done.stderr


def check_certificates(verifier):
    """The chain from the runner's document over the certificate to the result: each break of it is refused, with its reason."""
    whole, keys = VECTORS["bundles"][0]["bundle"], {name: ec.derive_private_key(int(scalar, 16), ec.SECP256R1()) for name, scalar in VECTORS["scalars"].items()}
    two = next(row["bundle"] for row in VECTORS["bundles"] if row["name"] == "a run of two nodes")

    def with_certificate(certified, signer="attempt", **more):
        """The run under this certificate, whose result a key signs; it ends with the result."""
        result = made.seal(made.TYPES["result"], made.result(whole["order"], whole["lease"], certified), keys[signer])
        return {**{name: value for name, value in whole.items() if name != "admission"}, "certificate": certified, "result": result, **more}

    def certificate(signer="runner", key="attempt", runner="runner", **more):
        return made.seal(made.TYPES["certificate"], made.certificate(whole["order"], whole["lease"], keys[runner], keys[key], **more), keys[signer])
    assert verifier.run(with_certificate(certificate())).returncode == 0
    zeros = "sha256:" + "0" * 64
    for certified, says in ((certificate(order=zeros), "names another order"), (certificate(lease=zeros), "names another lease"),
                            (certificate(attempt=2), "attempt is not that of the lease"), (certificate(node=1), "node is not that of the lease"),
                            (certificate(signer="keyd"), "the certificate is signed by the key"), (certificate(signer="attempt"), "the certificate is signed by the key"),
                            (certificate(signer="other_runner", runner="other_runner"), "the certificate is signed by the key"),
                            (certificate(key="runner"), "for the runner's own key"), (certificate(key="keyd"), "the result is signed by the key"),
                            (certificate(expires="2026-11-23T10:10:00.000Z"), "within the life of its certificate"),
                            (certificate(not_before="2026-11-23T11:10:00.000Z"), "within the life of its certificate"),
                            (two["peers"][0]["certificate"], "the certificate is signed by the key"), (two["certificate"], "names another order")):
        verifier.refuses(with_certificate(certified), 1, says)
    verifier.refuses(with_certificate(certificate(), signer="runner"), 1, "the runner's own key has signed it")
    verifier.refuses({**with_certificate(certificate()), "certificate": certificate(expires="2026-11-23T11:00:00.000Z")}, 1, "names another certificate")
    verifier.refuses({name: value for name, value in whole.items() if name != "certificate"}, 1, "lacks an envelope before its last one")
    verifier.refuses({name: value for name, value in whole.items() if name not in ("lease", "result", "admission")}, 1, "lacks an envelope before its last one")


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
        names = ("root", "officer", "second", "requester", "approver", "runner", "attempt", "keyd")
        self.verifier, self.log = verifier, made.Log()
        self.keys = {name: ec.generate_private_key(ec.SECP256R1()) for name in names}

    def enrol(self, scope, body, **more):
        officers = ["ext:" + made.hex_of(name) for name in ("officer", "second")]
        kind, _, value = made.runner(self.keys["runner"])
        value = {**value, "scope": scope, "body": {**value["body"], **body}, **more}
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

    def run(self, sets=(), **what):
        """What sijil-verify says of a run whose bundle has these policy sets, signed by the root."""
        bundle = self.bundle(**what)
        if sets:
            bundle["policy_sets"] = [made.seal("application/vnd.sijil.policy-set.v1+json", one, self.keys["root"]) for one in sets]
        return self.verify(bundle)

    def verify(self, bundle, *more):
        options = ["--key", self.log.vkey]
        for option, name in (("--signer", "keyd"), ("--root", "root")):
            options += [option, pem(f"own-{name}", self.verifier.folder, made.point_of(self.keys[name].public_key()).hex())]
        return self.verifier.run(bundle, *more, options=options)

    def bundle(self, scope="acme", body=None, since=None, until="admission", **more):
        documents, runner = self.enrol(scope, body or {}, **more)
        if since:
            documents.append(self.withdraw(runner, since))
        asked = made.seal(made.TYPES["request"], made.request(), self.keys["requester"])
        approvals = [made.seal(made.TYPES["approval"], made.approval(asked), self.keys["approver"])]
        return made.bundle_of(self.log, self.keys, documents, asked, approvals, until)[0]


def expect(verifier, says, is_verified=None, **what):
    """A text is expected of a refusal, unless `is_verified` says otherwise."""
    done = Registry(verifier).run(**what)
    status = 0 if (not says if is_verified is None else is_verified) else 1
    assert (done.returncode, says in done.stdout + done.stderr) == (status, True), f"{what}: {done.returncode} {done.stdout}{done.stderr}"


def lying(name, *changes):
    """The payload of one type, changed before it is signed: pairs of the path of a member, and its value."""
    whole = getattr(made, name)

    def one(*parts, **more):
        payload = whole(*parts, **more)
        for path, value in changes:
            holder = payload
            *way, last = path.split(".")
            for step in way:
                holder = holder[step]
            holder[last] = value
        return payload
    return mock.patch.object(made, name, one)


def at_level(level):
    return lying("admission", ("predicate.verifiedLevels", [f"SIJIL_ASSURANCE_{level}"]))


def policy_set(*rules, regimes=("AE-FED",), epoch=7, permits=True):
    policy = {"apiVersion": "sijil.policy/v1", "kind": "ResidencyPolicy", "closed": True, "labels": {"class": "open"},
              "metadata": {"id": "tests", "version": 1, "scope": ["**"], "effective_from": "2026-01-01T00:00:00Z", "review_by": "2027-12-31"},
              "rules": [{"id": "T-PERMIT", "effect": "permit", "ops": ["train"] if permits else ["read"]}, *rules]}
    found = {"apiVersion": "sijil.policy/v1", "kind": "PolicySet", "epoch": epoch, "policies": [policy], "groups": {}, "networks": [], "exceptions": [],
             "regions": {"local/dxb": {"geo": "AE/DU", "regimes": list(regimes)}}}
    return {**found, "digest": "sha256:" + made.hashlib.sha256(made.canonical(found)).hexdigest()}


def check_terms(verifier):
    """An order that asks for less than the signed set does is not one, though sijil-keyd has signed it and all else is as the order says."""
    def judge(says, found, *changes, sets=None, **more):
        """Of a run under the set `found`, whose order has these changes."""
        policy = {"epoch": 7, "digest": found["digest"], "decision": "sha256:" + made.hex_of("decision")}
        real = made.hex_of
        with lying("order", ("policy", policy), *changes), mock.patch.object(made, "hex_of", lambda text: found["digest"][7:] if text == "policy"
                                                                             else real(text)):
            expect(verifier, says, sets=[found] if sets is None else sets, **more)

    duty = {"id": "T-DUTY", "effect": "oblige", "ops": ["train"]}
    two, signed = {**duty, "oblige": {"approvals": 2}}, {**duty, "oblige": {"signed_request": True}}
    here = {"id": "T-HERE", "effect": "require", "ops": ["train"], "target": {"geo_within": ["AE"]}, "message": "here"}
    judge("", policy_set({**duty, "oblige": {"approvals": 1, "signed_request": True}}, here))
    judge("the policies ask for 2 approvals", policy_set(two))
    judge("the policies ask for 2 approvals", policy_set(two), ("obligations", {"approvals": 0, "signed_request": False}))
    judge("that its requester has signed", policy_set(signed), ("obligations", {"approvals": 1, "signed_request": False}))
    judge("in no region of AE-FED", policy_set(here, regimes=[]))
    judge("in no region of DIFC", policy_set(here), ("jurisdictions", ["AE", "DIFC"]))
    judge("not the one that the order names", policy_set(two), sets=[policy_set(signed)])
    judge("another epoch", policy_set(), ("policy.epoch", 6))
    judge("that the policies asked for no more approvals: the bundle has no policy sets", policy_set(two), sets=[],
          is_verified=True)


def check_last_terms(verifier):
    """A set that came into force between the order and the admission, and asks for more than was done, or forbids the run where its runner is."""
    first, real = policy_set(), made.hex_of
    duty = {"id": "T-DUTY", "effect": "oblige", "ops": ["train"]}
    elsewhere = {"id": "T-ELSEWHERE", "effect": "require", "ops": ["train"], "target": {"geo_within": ["SA"]}, "message": "there"}
    here = {**elsewhere, "id": "T-HERE", "target": {"geo_within": ["AE"]}}
    said, unsaid = "nor did the policy set of the admission ask for more", "that the policies allowed the run at the admission"
    for rule, has_set, says, is_verified in (({**duty, "oblige": {"approvals": 1, "signed_request": True}}, True, said, True), ({**duty, "oblige": {"approvals": 1}}, False, unsaid, True),
                                             ({**duty, "oblige": {"approvals": 2}}, True, "the policy set of the admission: the policies ask for 2 approvals", False),
                                             ({**duty, "oblige": {"approvals": 2}}, False, unsaid, True),
                                             (here, True, said, True), (elsewhere, True, "may not be used in local/dxb: rule T-ELSEWHERE", False),
                                             (None, True, "may not be used in local/dxb: rule SYS-CLOSED", False), (elsewhere, False, unsaid, True)):
        later = policy_set(*([rule] if rule else []), epoch=8, permits=rule is not None)
        named = {"uri": "urn:sijil:policy-set:8", "digest": {"sha256": later["digest"][7:]}}
        with lying("order", ("policy", {"epoch": 7, "digest": first["digest"], "decision": "sha256:" + made.hex_of("decision")})), \
                lying("admission", ("predicate.policy", named)), \
                mock.patch.object(made, "hex_of", lambda text: first["digest"][7:] if text == "policy" else real(text)):
            expect(verifier, says, sets=[first, later] if has_set else [first], is_verified=is_verified)


def check_manifests(verifier):
    """The labels that manifests state count, if the bundle has the manifests."""
    def text(**annotations):
        return json.dumps({"schemaVersion": 2, "layers": [], "annotations": annotations})
    texts = {"code": text(), "data": text(**{"sijil.label": made.label(subjects=["health"])}), "image": text(**{"sijil.label": "health"})}
    real, real_hex = made.artifact, made.hex_of
    health = {"ops": ["train"], "when": {"subjects_any": ["health"]}}
    found = policy_set({"id": "T-DUTY", "effect": "oblige", **health, "oblige": {"approvals": 2}},
                       {"id": "T-HERE", "effect": "require", **health, "target": {"geo_within": ["SA"]}, "message": "there"})
    policy = {"epoch": 7, "digest": found["digest"], "decision": "sha256:" + made.hex_of("decision")}
    for names, says, is_verified in (((), "the bundle has 0\n    of 3 manifests", True), (("code",), "of the 3 artifacts' manifests state", True),
                                     (("code", "data"), "the policies ask for 2 approvals", False), (("image",), "the manifest of image: the annotation sijil.label is no label", False),
                                     (("code", "code"), "manifest 2: the bundle has it twice", False), (("other",), "manifest 1: the order names no artifact of its digest", False)):
        with mock.patch.object(made, "artifact", lambda name: {**real(name), "digest": "sha256:" + real_hex(texts[name])} if name in texts else real(name)), \
                lying("order", ("policy", policy)), \
                mock.patch.object(made, "hex_of", lambda text: found["digest"][7:] if text == "policy" else real_hex(text)):
            registry = Registry(verifier)
            bundle = registry.bundle()
            bundle["policy_sets"] = [made.seal("application/vnd.sijil.policy-set.v1+json", found, registry.keys["root"])]
            bundle["manifests"] = [texts.get(name, text(name="x")) for name in names]
            done = registry.verify(bundle)
            assert (done.returncode == 0) == is_verified and says in done.stdout + done.stderr, (names, done.stdout, done.stderr)
            if is_verified:
                assert json.loads(registry.verify(bundle, "--json").stdout)["manifests"] == len(names)


def check_runners(verifier):
    """What was signed of a runner limits what its key can prove."""
    expect(verifier, "")
    expect(verifier, "", scope="")
    expect(verifier, "and not for the project", scope="globex")
    expect(verifier, "and not for the project", scope="acm")
    expect(verifier, "", body={"jurisdictions": ["AE", "AE-FED"]})
    expect(verifier, "the runner is in DIFC, where the order does not allow it", body={"jurisdictions": ["AE", "DIFC"]})
    expect(verifier, "fewer devices", body={"devices": 0})
    with at_level(4):
        expect(verifier, "not the assurance of the runner, 3")
    expect(verifier, "not the assurance of the runner, 2", body={"assurance": 2})
    expect(verifier, "", since="2026-11-23T10:21:00.001Z")
    # The result says 10:20:00, but only keyd's time of 10:21:00 is sure; without it, the lease's end.
    expect(verifier, "withdrawn since", since="2026-11-23T10:20:30.000Z")
    expect(verifier, "withdrawn since", since="2026-11-23T11:00:00.000Z", until="result")
    expect(verifier, "withdrawn since", since="2026-11-23T11:00:00.000Z", until="lease")
    expect(verifier, "withdrawn since", since="2026-11-23T12:00:00.000Z", until="lease")
    expect(verifier, "", since="2026-11-23T12:00:00.001Z", until="lease")
    expect(verifier, "ends before its lease", expires="2026-11-23T12:00:00.000Z", until="lease")
    expect(verifier, "", expires="2026-11-23T12:00:00.001Z", until="lease")
    expect(verifier, "", expires="2026-11-23T10:21:00.001Z")


def check_times(verifier):
    """The program and tests/vectors/run.py agree on each border of a life, to the millisecond."""
    def at(name, path, time, *more):
        """A change of one time; `more` are further ones of the same envelope."""
        return name, [(path, f"2026-11-23T{time}Z"), *more]

    metadata = "predicate.runDetails.metadata."
    for until, good, bad in (
            ("order", at("approval", "issued_at", "08:59:00.000"), at("approval", "issued_at", "08:58:59.999")),
            ("order", at("approval", "issued_at", "10:01:00.000"), at("approval", "issued_at", "10:01:00.001")),
            ("order", at("request", "expires", "10:00:00.001"), at("request", "expires", "10:00:00.000")),
            ("order", at("approval", "expires", "10:00:00.001"), at("approval", "expires", "10:00:00.000")),
            ("lease", at("lease", "not_before", "10:00:00.000"), at("lease", "not_before", "09:59:59.999")),
            ("certificate", at("certificate", "not_before", "10:01:00.000"), at("certificate", "not_before", "10:00:59.999")),
            ("certificate", at("certificate", "expires", "12:00:00.000"), at("certificate", "expires", "12:00:00.001")),
            ("result", at("certificate", "not_before", "10:03:00.000"), at("certificate", "not_before", "10:03:00.001")),
            ("result", at("certificate", "expires", "10:19:00.000"), at("certificate", "expires", "10:18:59.999")),
            ("result", at("result", metadata + "startedOn", "10:00:00.000"), at("result", metadata + "startedOn", "09:59:59.999")),
            ("result", at("result", metadata + "finishedOn", "12:01:00.000"), at("result", metadata + "finishedOn", "12:01:00.001")),
            ("result", at("result", metadata + "finishedOn", "10:02:00.000"), at("result", metadata + "finishedOn", "10:01:59.999")),
            ("admission", at("admission", "predicate.timeVerified", "10:19:00.000"), at("admission", "predicate.timeVerified", "10:18:59.999")),
            ("refusal", at("refusal", "at", "10:00:00.000"), at("refusal", "at", "09:59:59.999")),
            ("refusal", at("refusal", "at", "12:01:00.000"), at("refusal", "at", "12:01:00.001"))):
        for (name, changes), holds in ((good, True), (bad, False)):
            registry = Registry(verifier)
            with lying(name, *changes):
                bundle = registry.bundle(until=until)
            done = registry.verify(bundle)
            assert done.returncode == (0 if holds else 1), f"{name} {changes}: {done.stdout}{done.stderr}"
            try:
                made.check_chain(bundle)
                agrees = holds
            except AssertionError:
                agrees = not holds
            assert agrees, f"tests/vectors/run.py says otherwise: {name} {changes}"


def main():
    with tempfile.TemporaryDirectory() as name:
        verifier = Verifier(pathlib.Path(name))
        check_answers(verifier)
        check_outcomes(verifier)
        check_files(verifier)
        check_unclear_files(verifier)
        check_refusals(verifier)
        check_certificates(verifier)
        check_decisions(verifier)
        check_terms(verifier)
        check_last_terms(verifier)
        check_manifests(verifier)
        check_runners(verifier)
        check_times(verifier)
    print("sijil-verify run says what holds, and what does not")


main()
