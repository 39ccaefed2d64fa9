"""A registry as a runner knows it: keys, documents with their log, a policy set, and orders with their leases. For tests of sijil-runner, made
from docs/formats/run.md with tests/vectors/run.py.
"""
import base64
import copy
import datetime
import hashlib
import json
import os
import secrets
import subprocess
import sys
import time
import uuid

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../vectors"))
import run as made  # noqa: E402

from cryptography import x509  # noqa: E402
from cryptography.hazmat.primitives import hashes, serialization  # noqa: E402
from cryptography.hazmat.primitives.asymmetric import ec  # noqa: E402
from cryptography.x509.oid import NameOID  # noqa: E402

PROJECT = made.PROJECT
HOUR = 3600
SET_TYPE = "application/vnd.sijil.policy-set.v1+json"
MODEL_TYPE = "application/vnd.cncf.model.manifest.v1+json"


def utc(seconds):
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def sha256(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def spec(code, inputs=(), **more):
    """A specification that any machine can run; `more` replaces members, and members of limits."""
    limits = {"time_s": 60, "grace_s": 1, "cpus": 1, "memory_bytes": 256 << 20, "output_bytes": 16 << 20, "output_files": 20, "log_bytes": 100000,
              "processes": 30}
    limits.update({name: more.pop(name) for name in list(more) if name in limits})
    return {"code": code, "inputs": [{"name": name, **one} for name, one in sorted(inputs)],
            "outputs": [{"name": "model", "repository": f"{PROJECT}/trained", "type": MODEL_TYPE}], "argv": ["/bin/sh", "/code/train.sh"],
            "environment": {"SEED": "7"}, "limits": limits, "nodes": 1, "tasks": 1, "network": "none", "pool": "uae-gpu",
            "jurisdictions": ["AE", "AE-FED"], "isolation": "rlimits", "assurance": 2, **more}


def policy_set(key, region, rules=(), others=()):
    policy = {"apiVersion": "sijil.policy/v1", "kind": "ResidencyPolicy", "closed": True, "labels": {"class": "confidential"},
              "metadata": {"id": "tests", "version": 1, "scope": ["**"], "title": "Tests", "disclaimer": "Not legal advice.",
                           "effective_from": utc(time.time() - 24 * HOUR), "review_by": utc(time.time() + 99 * 24 * HOUR)[:10]},
              "rules": [{"id": "R-PERMIT", "effect": "permit", "ops": ["train"], "when": {"class_at_most": "sensitive"}}, *rules]}
    facts = {"attrs": [], "geo": "AE/DU", "key": {"control": "customer-soft", "geo": "AE/DU", "ring": "local"}, "location_evidence": "statement",
             "operator": {"name": "operator"}, "regimes": ["AE-FED"], "site": "main"}
    found = {"apiVersion": "sijil.policy/v1", "kind": "PolicySet", "epoch": 7, "policies": [policy], "regions": {name: facts for name in (region, *others)}, "groups": {},
             "networks": [], "exceptions": []}
    found["digest"] = sha256(made.canonical(found))
    return made.seal(SET_TYPE, found, key), found["digest"]


class Registry:
    """Keys and log of one registry, and its enrolled runners. `own`: what the document of "runner" says besides. `more` are runners besides the one called "runner": what their documents say of each."""

    def __init__(self, floor="rlimits", more=None, own=None):
        more = more or {}
        self.keys = {name: ec.generate_private_key(ec.SECP256R1())
                     for name in ("root", "officer", "second", "requester", "approver", "runner", "keyd", "authority", *more)}
        self.ids = {"runner": made.RUNNER, **{name: str(uuid.uuid4()) for name in more}}
        made.START_MS = int((time.time() - 2 * HOUR) * 1000)
        self.log, self.floor, self.own = made.Log(), floor, own or {}
        officers = ["ext:" + made.hex_of(name) for name in ("officer", "second")]
        plan = [(made.person(self.keys["officer"], officers[0], "approve"), ["officer", "root"]),
                (made.person(self.keys["second"], officers[1], "approve"), ["second", "root"]),
                (made.person(self.keys["requester"], made.REQUESTER, "sign"), ["requester", "officer"]),
                (made.person(self.keys["approver"], made.APPROVER, "sign"), ["approver", "officer"]),
                (self.enrolment(), ["runner", "officer", "second"])]
        plan += [(self.enrolment_of(name, **place), [name, "officer", "second"]) for name, place in more.items()]
        self.documents = made.enrol(self.log, self.keys, [(self.dated(one), signers) for one, signers in plan])
        self.own_documents = {"runner": self.documents[4], **dict(zip(more, self.documents[5:]))}
        self.set, self.set_digest = policy_set(self.keys["root"], "local/dxb", others=sorted({place["region"] for place in more.values()}))

    def dated(self, document):
        kind, scope, value = document
        return kind, scope, {**value, "effective_from": utc(time.time() - 24 * HOUR), "expires": utc(time.time() + 99 * 24 * HOUR)}

    def enrolment(self, **more):
        kind, scope, value = made.runner(self.keys["runner"])
        value = {**value, "body": {**value["body"], "isolation": self.floor, "devices": 4, **self.own}, **more}
        return kind, scope, value

    def enrolment_of(self, name, **place):
        kind, scope, value = made.runner(self.keys[name])
        return kind, scope, {**value, "body": {**value["body"], "runner": self.ids[name], "isolation": self.floor, "devices": 4, **place}}

    def withdraw(self):
        """The runner's key is revoked: the second version of its document."""
        _, _, value = self.dated(self.enrolment(version=2, withdrawn="it was stolen"))
        value["body"]["since"] = utc(time.time() - HOUR)
        self.documents += made.enrol(self.log, self.keys, [(("runner", "acme", value), ["officer"])])

    def thumbprint(self, name="runner"):
        return made.thumbprint(made.point_of(self.keys[name].public_key()))

    # ---- the runner's folder ----

    def certificate(self, days=30, age_days=0.1, name="runner"):
        """What sijil-keyd makes for a runner: docs/runner.md."""
        now = datetime.datetime.now(datetime.timezone.utc)
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, self.ids[name])])
        issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "sijil runners")])
        built = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(self.keys[name].public_key())
        built = built.serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(days=age_days))
        built = built.not_valid_after(now + datetime.timedelta(days=days))
        return built.sign(self.keys["authority"], hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def authority(self):
        """The certificate of sijil-keyd's authority, for a server that asks for certificates."""
        now = datetime.datetime.now(datetime.timezone.utc)
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "sijil runners")])
        built = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(self.keys["authority"].public_key())
        built = built.serial_number(1).not_valid_before(now - datetime.timedelta(hours=1)).not_valid_after(now + datetime.timedelta(days=99))
        built = built.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        return built.sign(self.keys["authority"], hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def enroll(self, folder, port, ca, days=30, name="runner"):
        """Makes the state folder of the runner, as the enrolment leaves it."""
        os.makedirs(folder, mode=0o700)
        point = made.point_of
        pins = {"schema": "sijil.runner-registry/v1", "url": f"https://127.0.0.1:{port}", "audience": made.ORIGIN, "log_key": self.log.vkey,
                "signer": made.url64(point(self.keys["keyd"].public_key())), "root": made.url64(point(self.keys["root"].public_key())),
                "ca_file": "ca.pem"}
        key = self.keys[name].private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        files = {"registry.json": made.canonical(pins), "key.pem": key, "ca.pem": ca, "certificate.pem": self.certificate(days, name=name),
                 "document.json": self.own_documents[name][0][0].encode()}
        for file_name, content in files.items():
            with open(os.path.join(folder, file_name), "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
                file.write(content)

    # ---- orders ----

    def lease(self, wanted, *, attempt=1, lives_s=HOUR, begins_s=-60, jurisdictions=("AE",), sets=None, policy=None):
        """The bundle of a new run, up to its lease."""
        return self.lease_of(self.order(wanted, jurisdictions=jurisdictions, sets=sets, policy=policy), attempt=attempt, lives_s=lives_s, begins_s=begins_s)

    def order(self, wanted, *, jurisdictions=("AE",), sets=None, policy=None):
        """A new run: its id, and its bundle up to the order."""
        now, run = time.time(), str(uuid.uuid4())
        common = {"run": run, "audience": made.ORIGIN}
        life = {"issued_at": utc(now - HOUR), "expires": utc(now + 24 * HOUR)}
        request = made.seal(made.TYPES["request"], {"schema": "sijil.run-request/v1", **common, "project": PROJECT, "requester": made.REQUESTER, **life,
                                                    "nonce": secrets.token_hex(16), "spec": wanted}, self.keys["requester"])
        approval = made.seal(made.TYPES["approval"], {"schema": "sijil.run-approval/v1", **common, "request": made.digest(request),
                                                      "approver": made.APPROVER, **life, "nonce": secrets.token_hex(16)}, self.keys["approver"])
        decision, digest = "sha256:" + made.hex_of("decision"), policy or self.set_digest
        number = self.log.append("run.order", f"{PROJECT}#{made.digest(request)} {run}", int(now * 1000) - 100000, {"id": decision, "policy": digest})
        order = {"schema": "sijil.run-order/v1", **common, "project": PROJECT, "requester": made.REQUESTER, "spec": wanted,
                 "request": made.digest(request), "approvals": [made.digest(approval)], "jurisdictions": list(jurisdictions),
                 "obligations": {"approvals": 1, "signed_request": True}, "policy": {"epoch": 7, "digest": digest, "decision": decision},
                 "event": {"number": number, "size": len(self.log.entries), "root": self.log.root().hex()}, "attempts": 3,
                 "nonce": secrets.token_hex(16), "not_before": utc(now - 1000), "expires": utc(now + 20 * HOUR)}
        ordered = made.seal(made.TYPES["order"], order, self.keys["keyd"])
        proofs = [{"envelopes": envelopes, "entry": self.log.entries[at].decode(), "proof": self.log.prove(at)} for envelopes, at in self.documents]
        return run, {"schema": "sijil.run-bundle/v1", "documents": proofs, "request": request, "approvals": [approval], "order": ordered,
                     "event": {"entry": self.log.entries[number].decode(), "proof": self.log.prove(number)},
                     "policy_sets": [self.set] if sets is None else sets}

    def lease_of(self, ordered, *, attempt=1, lives_s=HOUR, begins_s=-60, name="runner", node=0):
        """The bundle of an ordered run, up to the lease of a node for this runner."""
        now, (run, bundle) = time.time(), ordered
        leased = {"schema": "sijil.run-lease/v1", "run": run, "audience": made.ORIGIN, "order": made.digest(bundle["order"]), "attempt": attempt, "node": node,
                  "runner": {"id": self.ids[name], "key": self.thumbprint(name)}, "nonce": secrets.token_hex(16), "not_before": utc(now + begins_s),
                  "expires": utc(now + begins_s + lives_s)}
        return Lease(run, {**bundle, "lease": made.seal(made.TYPES["lease"], leased, self.keys["keyd"])})

    def opened(self, envelope, name="runner"):
        """The payload of an envelope that the runner has signed."""
        signed, value, keyid, signature = made.opened(envelope)
        assert keyid == self.thumbprint(name)
        self.keys[name].public_key().verify(signature, signed, ec.ECDSA(hashes.SHA256()))
        return value

    def statement(self, body, name="runner"):
        """The result in the body of a request: by the key of the attempt, which this runner has certified."""
        certified = self.opened(body["certificate"], name)
        signed, value, keyid, signature = made.opened(body["result"])
        point = made.point_in(certified["attempt_key"])
        assert keyid == made.thumbprint(point) != self.thumbprint(name)
        ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point).verify(signature, signed, ec.ECDSA(hashes.SHA256()))
        assert value["predicate"]["buildDefinition"]["externalParameters"]["certificate"] == made.digest(body["certificate"])
        assert (certified["attempt"], certified["node"]) == (body["attempt"], body["node"])
        return value

    def verify(self, program, folder, bundle):
        """What `sijil-verify run` says."""
        paths = {"bundle": json.dumps(bundle).encode()}
        for name in ("keyd", "root"):
            paths[name] = self.keys[name].public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        for name, content in paths.items():
            with open(os.path.join(folder, name), "wb") as file:
                file.write(content)
        return subprocess.run([program, "run", "--key", self.log.vkey, "--signer", os.path.join(folder, "keyd"), "--root",
                               os.path.join(folder, "root"), os.path.join(folder, "bundle")], capture_output=True, text=True, timeout=60, check=False)


class Lease:
    """A bundle, and changes of it that a runner must notice."""

    def __init__(self, run, bundle):
        self.run, self.bundle = run, bundle

    def text(self):
        return json.dumps(self.bundle).encode()

    def changed(self, name):
        """One byte of the payload of an envelope is another; the envelope still has its form."""
        other = Lease(self.run, copy.deepcopy(self.bundle))
        outer = json.loads(other.bundle[name])
        payload = json.loads(base64.b64decode(outer["payload"]))
        payload["nonce"] = ("0" if payload["nonce"][0] != "0" else "1") + payload["nonce"][1:]
        outer["payload"] = base64.b64encode(made.canonical(payload)).decode()
        other.bundle[name] = made.canonical(outer).decode()
        return other
