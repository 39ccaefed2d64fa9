#!/usr/bin/python3
"""A second implementation of docs/formats/run.md, from the page alone.

usage: run.py FILE            checks the bundles of docs/formats/run-vectors.json, with openssl and jq for the envelopes if they are installed
       run.py --write FILE    makes the file with fresh keys (test_run_format checks the C code with it)
       run.py --add FILE      adds the bundles that the file lacks, each in a log of its own; those that it has stay byte for byte
Exit status 77: python3-cryptography is not installed.
"""
import base64
import datetime
import hashlib
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import audit_log  # noqa: E402  ends with 77 without python3-cryptography

from cryptography.hazmat.primitives import hashes, serialization  # noqa: E402
from cryptography.hazmat.primitives.asymmetric import ec  # noqa: E402
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: E402

ORIGIN = "sijil.example/audit"
PROJECT = "acme/models"
RUN = "3d0c2f1a-9b1e-4a57-8a43-0d6f5f0c7a11"
RUNNER = "7b5a1b9e-55a0-4f0e-9d55-0f4d3c1e2b22"
OTHER_RUNNER = "5e8c2d40-11f7-4c7b-8f0e-6b8a90d1c333"
REQUESTER = "ext:" + hashlib.sha256(b"https://id.example\nalice").hexdigest()
APPROVER = "ext:" + hashlib.sha256(b"https://id.example\nbob").hexdigest()
STATEMENT = "application/vnd.in-toto+json"
TYPES = {"request": "application/vnd.sijil.run-request.v1+json", "approval": "application/vnd.sijil.run-approval.v1+json",
         "order": "application/vnd.sijil.run-order.v1+json", "lease": "application/vnd.sijil.run-lease.v1+json",
         "certificate": "application/vnd.sijil.run-certificate.v1+json",
         "result": STATEMENT, "admission": STATEMENT, "refusal": "application/vnd.sijil.run-refusal.v1+json"}


def canonical(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def url64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def point_of(key):
    return key.public_bytes(serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint)


def info_of(key):
    """A key as a certificate names it."""
    return base64.b64encode(key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)).decode()


def point_in(info):
    """Its point; openssl reads the same bytes."""
    key = serialization.load_der_public_key(base64.b64decode(info, validate=True))
    assert isinstance(key.curve, ec.SECP256R1) and info_of(key) == info
    return point_of(key)


def thumbprint(point):
    return url64(hashlib.sha256(canonical({"crv": "P-256", "kty": "EC", "x": url64(point[1:33]), "y": url64(point[33:])})).digest())


def pae(kind, payload):
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind.encode(), len(payload), payload)


def seal(kind, value, key):
    payload = canonical(value)
    signature = key.sign(pae(kind, payload), ec.ECDSA(hashes.SHA256()))
    return canonical({"payload": base64.b64encode(payload).decode(), "payloadType": kind,
                      "signatures": [{"keyid": thumbprint(point_of(key.public_key())),
                                      "sig": base64.b64encode(signature).decode()}]}).decode()


def opened(envelope):
    """(PAE, payload, key id, signature) of an envelope."""
    outer = json.loads(envelope)
    assert set(outer) == {"payload", "payloadType", "signatures"} and len(outer["signatures"]) == 1
    payload = base64.b64decode(outer["payload"], validate=True)
    value = json.loads(payload)
    assert canonical(value) == payload, "not canonical"
    return pae(outer["payloadType"], payload), value, outer["signatures"][0]["keyid"], base64.b64decode(outer["signatures"][0]["sig"])


def digest(envelope):
    return "sha256:" + hashlib.sha256(opened(envelope)[0]).hexdigest()


# ---- checking ----

def check_with_openssl(envelope, point, folder):
    """The signature by openssl, the canonical payload by jq: neither knows of this project."""
    encoding, _, _, signature = opened(envelope)
    key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point)
    pem = folder / "key.pem"
    pem.write_bytes(key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo))
    (folder / "signed").write_bytes(encoding)
    (folder / "signature").write_bytes(signature)
    subprocess.run(["openssl", "dgst", "-sha256", "-verify", pem, "-signature", folder / "signature", folder / "signed"], check=True,
                   stdout=subprocess.DEVNULL)
    listed = subprocess.run(["jq", "-jcS", ".payload | @base64d | fromjson"], input=envelope.encode(), capture_output=True, check=True)
    assert listed.stdout == base64.b64decode(json.loads(envelope)["payload"]), "jq spells the payload otherwise"


def check_signers(bundle, points):
    signers = [(bundle["request"], "keyd" if "claims" in opened(bundle["request"])[1] else "requester")]
    named = {thumbprint(point): who for who, point in points.items()}
    signers += [(one, named[opened(one)[2]]) for one in bundle["approvals"]]
    signers += [(bundle[name], who) for name, who in (("order", "keyd"), ("lease", "keyd"), ("certificate", "runner"), ("admission", "keyd"),
                                                        ("refusal", "runner")) if name in bundle]
    for peer in bundle.get("peers", []):
        signers += [(peer["lease"], "keyd"), (peer["certificate"], named[opened(peer["lease"])[1]["runner"]["key"]])]
    signers = [(envelope, points[who]) for envelope, who in signers]
    for node in [bundle, *bundle.get("peers", [])]:
        if "result" in node:
            signers.append((node["result"], point_in(opened(node["certificate"])[1]["attempt_key"])))
    has_tools = shutil.which("openssl") and shutil.which("jq")
    with tempfile.TemporaryDirectory() as name:
        for envelope, point in signers:
            encoding, _, keyid, signature = opened(envelope)
            ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point).verify(signature, encoding, ec.ECDSA(hashes.SHA256()))
            assert keyid == thumbprint(point)
            if has_tools:
                check_with_openssl(envelope, point, pathlib.Path(name))
    return len(signers) if has_tools else 0


def check_claims(request):
    """The requester of a token's claims follows from them."""
    issuer, subject = request["claims"]["issuer"], request["claims"]["subject"]
    assert issuer in ("sijil:registry", "sijil:rule") or re.fullmatch("https://[!-~]+", issuer)
    named = f"robot:{subject}" if issuer == "sijil:registry" else "ext:" + hashlib.sha256(f"{issuer}\n{subject}".encode()).hexdigest()
    is_person = issuer.startswith("https://") and subject.startswith("ext:")
    assert request["requester"] == named or (is_person and request["requester"] == subject)


def more_approvals(request):
    """A request by a trust rule or a robot's token needs one approval more than the policies ask for, if these ask for any."""
    return 1 if request.get("claims", {}).get("issuer") in ("sijil:rule", "sijil:registry") else 0


def covers(on, name):
    return name.startswith(on[:-1]) and name != on[:-1] if on.endswith("/*") else name == on or name.startswith(f"{on}/")


def check_rule(bundle):
    """The rule that asked: of its documents before the order's event, the first one with the highest version was in force then, and lets it train with all repositories."""
    request, event, found = opened(bundle["request"])[1], json.loads(bundle["event"]["entry"]), None
    for one in bundle["documents"]:
        value = opened(one["envelopes"][0])[1]
        if value["kind"] == "trust-rule" and f"{value['scope']}:{value['name']}" == request["claims"]["subject"] and json.loads(one["entry"])["seq"] < event["seq"]:
            found = value if found is None or value["version"] > found["version"] else found
    assert found and "withdrawn" not in found and ms(found, "effective_from") <= event["ts"] < ms(found, "expires")
    assert covers(found["scope"], request["project"]) or found["scope"] == ""
    spec = request["spec"]
    names = [request["project"], *(spec[each]["repository"] for each in ("code", "image", "resume") if each in spec)]
    names += [one["repository"] for one in (*spec["inputs"], *spec["outputs"])]
    grants = [one["on"] for one in found["body"]["grant"] if one["role"] == "trainer"]
    assert all(any(covers(on, name) for on in grants) for name in names)


def check_statements(bundle, order, node=0):
    """Checks devices, outcome and policy set in the result and the admission."""
    details, wanted = opened(bundle["result"])[1]["predicate"]["runDetails"], order["spec"].get("devices", {"count": 0})
    subjects = [one["name"] for one in opened(bundle["result"])[1]["subject"]]
    assert subjects[-1] == "log" and (node == 0 or (subjects == ["log"] and "byproducts" not in details)), "only node 0 has outputs and metrics"
    assert node > 0 or details["sijil_outcome"]["status"] != "succeeded" or subjects[:-1] == [one["name"] for one in order["spec"]["outputs"]]
    seen, ended = details["sijil_devices"], details["sijil_outcome"]
    assert len({one["uuid"] for one in seen}) == len(seen)
    assert all(one["type"].partition(" MIG ")[2] == wanted.get("mig", "") for one in seen)
    assert all(f" {wanted['type']} " in f" {one['type']} " and one["memory_bytes"] >= wanted["memory_bytes"] for one in seen)
    assert ended["status"] != "succeeded" or (ended["exit"], ended["signal"], len(seen)) == (0, 0, wanted["count"])
    if "admission" in bundle:
        policy = opened(bundle["admission"])[1]["predicate"]["policy"]
        epoch = int(policy["uri"].removeprefix("urn:sijil:policy-set:"))
        assert epoch > order["policy"]["epoch"] or (epoch, f"sha256:{policy['digest']['sha256']}") == (order["policy"]["epoch"], order["policy"]["digest"])


SKEW_MS = 60000  # between the clocks of sijil-keyd and of other signers


def ms(payload, path):
    for step in path.split("."):
        payload = payload[step]
    found = datetime.datetime.fromisoformat(payload.replace("Z", "+00:00"))
    assert found.strftime("%Y-%m-%dT%H:%M:%S.") + f"{found.microsecond // 1000:03}Z" == payload
    return int(found.timestamp() * 1000 + 0.5)


def check_times(bundle):
    """Section "The order of checks", its last paragraph: a begin may be missed by SKEW_MS, the end of a request or an approval by nothing."""
    parts = {name: opened(bundle[name])[1] for name in ("request", "order", "lease", "result", "admission", "refusal") if name in bundle}
    request, order, lease, approvals = parts["request"], parts["order"], parts.get("lease"), [opened(one)[1] for one in bundle["approvals"]]

    def lies_within(at, life):
        return ms(life, "issued_at") - SKEW_MS <= at < ms(life, "expires")

    assert all(lies_within(ms(one, "issued_at"), request) for one in approvals)
    assert all(lies_within(ms(order, "not_before"), one) for one in (request, *approvals))
    if lease:
        assert ms(order, "not_before") <= ms(lease, "not_before") < ms(lease, "expires") <= ms(order, "expires")
    if "result" in parts:
        begun, ended = (ms(parts["result"], f"predicate.runDetails.metadata.{name}") for name in ("startedOn", "finishedOn"))
        assert ms(lease, "not_before") - SKEW_MS <= begun <= ended <= ms(lease, "expires") + SKEW_MS
        assert "admission" not in parts or ms(parts["admission"], "predicate.timeVerified") >= ended - SKEW_MS
    if "refusal" in parts:
        assert ms(lease, "not_before") - SKEW_MS <= ms(parts["refusal"], "at") <= ms(lease, "expires") + SKEW_MS


def check_certificate(bundle):
    """The key that signs the result: certified by the lease's runner, for this order, lease, attempt and node, within the lease."""
    certified, leased = opened(bundle["certificate"])[1], opened(bundle["lease"])[1]
    assert all(certified[name] == leased[name] for name in ("run", "audience", "order", "attempt", "node")) and certified["lease"] == digest(bundle["lease"])
    assert thumbprint(point_in(certified["runner_key"])) == leased["runner"]["key"] == opened(bundle["certificate"])[2]
    assert thumbprint(point_in(certified["attempt_key"])) != leased["runner"]["key"]
    assert ms(leased, "not_before") <= ms(certified, "not_before") < ms(certified, "expires") <= ms(leased, "expires")
    if "result" in bundle:
        value = opened(bundle["result"])[1]["predicate"]
        assert value["buildDefinition"]["externalParameters"]["certificate"] == digest(bundle["certificate"])
        assert opened(bundle["result"])[2] == thumbprint(point_in(certified["attempt_key"]))
        begun, ended = (ms(value, f"runDetails.metadata.{name}") for name in ("startedOn", "finishedOn"))
        assert ms(certified, "not_before") - SKEW_MS <= begun and ended <= ms(certified, "expires") + SKEW_MS


def check_peers(bundle):
    """The other nodes: each with a lease of the same attempt, and a result of its own; all of them, if there is an admission."""
    order, first = opened(bundle["order"])[1], opened(bundle["lease"])[1]
    assert first["node"] == 0 and len(bundle["peers"]) + 1 == order["spec"]["nodes"]
    for node, peer in enumerate(bundle["peers"], 1):
        one = {name: bundle[name] for name in ("request", "approvals", "order")} | peer
        (leased, result), inside = (opened(peer[name])[1] for name in ("lease", "result")), opened(peer["result"])[1]["predicate"]["buildDefinition"]
        assert (leased["node"], leased["attempt"], leased["order"]) == (node, first["attempt"], digest(bundle["order"]))
        assert inside["externalParameters"]["order"] == leased["order"] and inside["externalParameters"]["lease"] == digest(peer["lease"])
        assert inside["internalParameters"] == {"attempt": leased["attempt"], "node": node}
        assert result["predicate"]["runDetails"]["builder"]["id"] == f"urn:sijil:runner:{leased['runner']['id']}"
        check_certificate(one)
        check_times(one | ({"admission": bundle["admission"]} if "admission" in bundle else {}))
        check_statements(one, order, node)
        assert "admission" not in bundle or result["predicate"]["runDetails"]["sijil_outcome"]["status"] == "succeeded"


def check_chain(bundle):
    check_times(bundle)
    request, order = opened(bundle["request"])[1], opened(bundle["order"])[1]
    if "claims" in request:
        check_claims(request)
        if request["claims"]["issuer"] == "sijil:rule":
            check_rule(bundle)
    if "result" in bundle:
        check_statements(bundle, order)
    for one in bundle["approvals"]:
        approval = opened(one)[1]
        assert approval["request"] == digest(bundle["request"]) and approval["approver"] != request["requester"]
    assert order["request"] == digest(bundle["request"]) and order["approvals"] == [digest(one) for one in bundle["approvals"]]
    assert all(order[name] == request[name] for name in ("run", "audience", "project", "requester", "spec"))
    assert set(order["jurisdictions"]) <= set(request["spec"]["jurisdictions"])
    asked = order["obligations"]["approvals"]
    assert len(order["approvals"]) >= asked + (more_approvals(request) if asked > 0 else 0)
    if "lease" in bundle:
        assert opened(bundle["lease"])[1]["order"] == digest(bundle["order"])
    if "certificate" in bundle:
        check_certificate(bundle)
    if "result" in bundle:
        outside = opened(bundle["result"])[1]["predicate"]["buildDefinition"]["externalParameters"]
        assert outside["order"] == digest(bundle["order"]) and outside["lease"] == digest(bundle["lease"])
    if "refusal" in bundle:
        refused, leased = opened(bundle["refusal"])[1], opened(bundle["lease"])[1]
        assert "result" not in bundle and refused["lease"] == digest(bundle["lease"])
        assert all(refused[name] == leased[name] for name in ("run", "audience"))
        assert opened(bundle["refusal"])[2] == leased["runner"]["key"]
    if "peers" in bundle:
        check_peers(bundle)
    if "manifests" in bundle:
        check_manifests(bundle)
    if "admission" in bundle:
        assert len(bundle.get("peers", [])) + 1 == order["spec"]["nodes"]
        named = [(one["uri"], one["digest"]["sha256"]) for one in opened(bundle["admission"])[1]["predicate"]["inputAttestations"]]
        below = [("request", bundle["request"]), *(("approval", one) for one in bundle["approvals"]), ("order", bundle["order"]),
                 ("lease", bundle["lease"]), ("result", bundle["result"]),
                 *((name, peer[name]) for peer in bundle.get("peers", []) for name in ("lease", "result"))]
        assert named == [(f"urn:sijil:run-{name}", digest(one)[7:]) for name, one in below]


def is_chain(bundle):
    try:
        check_chain(bundle)
    except AssertionError:
        return False
    return True


def check_log(bundle, vkey):
    for one in [*bundle["documents"], bundle["event"]]:
        audit_log.check(vkey, one["entry"].encode(), one["proof"])
    event, order = json.loads(bundle["event"]["entry"]), opened(bundle["order"])[1]
    assert event["act"] == "run.order" and event["res"] == f"{order['project']}#{order['request']} {order['run']}"
    assert event["seq"] == order["event"]["number"]
    assert (event["why"]["id"], event["why"]["policy"]) == (order["policy"]["decision"], order["policy"]["digest"])


def check(path):
    vectors = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    points = {name: bytes.fromhex(point) for name, point in vectors["points"].items()}
    asked = 0
    for row in vectors["bundles"]:
        check_signers_of = check_signers(row["bundle"], points)
        asked += check_signers_of
        check_chain(row["bundle"])
        check_log(row["bundle"], row.get("vkey", vectors["vkey"]))
        for name, value in row["digests"].items():
            assert digest(row["bundle"][name]) == value, name
    for row in vectors["accepted"]:
        check_signers(row["bundle"], points)
        check_chain(row["bundle"])
        check_log(row["bundle"], row["vkey"])
    for row in vectors["refused"]:
        check_log(row["bundle"], row["vkey"])
        assert not is_chain(row["bundle"]), f"{row['name']}: is to be refused"
    check_labels(vectors["labels"])
    print(f"{len(vectors['bundles'])} bundles are as docs/formats/run.md has them; openssl and jq agreed on {asked} envelopes")


# ---- labels ----

CLASSES, LINEAGES = ("open", "confidential", "sensitive", "secret"), ("unknown", "declared", "attested")
SUBJECTS = {"biometric", "child", "critical-infra", "financial-customer", "genetic", "government", "health", "personal", "special"}


def label_of(text):
    """The label that a text is; None: it is none."""
    try:
        value = json.loads(text)
    except ValueError:
        return None
    if not isinstance(value, dict) or sorted(value) != ["attached", "class", "lineage", "pins", "subjects"] or len(text.encode()) > 16384:
        return None
    lists = [value[name] for name in ("attached", "pins", "subjects")]
    if any(not isinstance(one, list) or not all(isinstance(text, str) for text in one) or one != sorted(set(one)) for one in lists):
        return None
    if value["class"] not in CLASSES or value["lineage"] not in LINEAGES or not SUBJECTS >= set(value["subjects"]):
        return None
    if not all(re.fullmatch("[A-Z0-9-]{2,24}", one) for one in value["attached"]) or not all(re.fullmatch("[A-Za-z0-9][A-Za-z0-9._-]{1,63}", one) for one in value["pins"]):
        return None
    if len(value["attached"]) > 32 or len(value["pins"]) > 64 or canonical(value) != text.encode():
        return None
    return value


def join(labels):
    return {"class": max((one["class"] for one in labels), key=CLASSES.index), "lineage": min((one["lineage"] for one in labels), key=LINEAGES.index),
            **{name: sorted({text for one in labels for text in one[name]}) for name in ("attached", "pins", "subjects")}}


def check_labels(rows):
    for row in rows:
        read = [label_of(one) for one in row["labels"]]
        assert (None in read) == ("joined" not in row), row["name"]
        assert None in read or canonical(join(read)).decode() == row["joined"], row["name"]


def check_manifests(bundle):
    spec = opened(bundle["order"])[1]["spec"]
    named = {one["digest"] for one in (spec["code"], spec.get("image"), spec.get("resume"), *spec["inputs"]) if one}
    found = ["sha256:" + hashlib.sha256(one.encode()).hexdigest() for one in bundle["manifests"]]
    assert set(found) <= named and len(set(found)) == len(found)
    for one in bundle["manifests"]:
        text = json.loads(one).get("annotations", {}).get("sijil.label")
        assert text is None or label_of(text), text


# ---- making the file ----

def hex_of(text):
    return hashlib.sha256(text.encode()).hexdigest()


def artifact(name):
    return {"repository": f"{PROJECT}/{name}", "digest": "sha256:" + hex_of(name)}


def spec(**more):
    return {"code": artifact("code"), "image": artifact("image"), "inputs": [{"name": "digits", **artifact("data")}],
            "outputs": [{"name": "model", "repository": f"{PROJECT}/digits", "type": "application/vnd.sijil.onnx"}],
            "argv": ["python3", "train.py", "--epochs", "3"], "environment": {"PYTHONHASHSEED": "0", "SEED": "7"},
            "limits": {"time_s": 600, "grace_s": 10, "cpus": 2, "memory_bytes": 1 << 30, "output_bytes": 1 << 28, "output_files": 100,
                       "log_bytes": 1 << 20, "processes": 64},
            "devices": {"count": 1, "type": "gpu", "memory_bytes": 1 << 33}, "nodes": 1, "tasks": 1, "network": "none", "pool": "uae-gpu",
            "jurisdictions": ["AE", "AE-FED", "DIFC"], "isolation": "cgroup-v1", "assurance": 2, **more}


def request(**more):
    return {"schema": "sijil.run-request/v1", "run": RUN, "audience": ORIGIN, "project": PROJECT, "requester": REQUESTER,
            "issued_at": "2026-11-23T09:00:00.000Z", "expires": "2026-11-30T09:00:00.000Z", "nonce": hex_of("request")[:32],
            "spec": spec(), **more}


def approval(below, **more):
    return {"schema": "sijil.run-approval/v1", "run": RUN, "audience": ORIGIN, "request": digest(below), "approver": APPROVER,
            "issued_at": "2026-11-23T09:30:00.000Z", "expires": "2026-11-30T09:00:00.000Z", "nonce": hex_of("approval")[:32], **more}


def order(asked, approvals, event):
    named = opened(asked)[1]
    return {"schema": "sijil.run-order/v1", **{name: named[name] for name in ("run", "audience", "project", "requester", "spec")},
            "request": digest(asked), "approvals": [digest(one) for one in approvals], "jurisdictions": ["AE", "AE-FED"],
            "obligations": {"approvals": len(approvals) - more_approvals(named), "signed_request": "claims" not in named},
            "policy": {"epoch": 7, "digest": "sha256:" + hex_of("policy"), "decision": "sha256:" + hex_of("decision")},
            "event": event, "attempts": 3, "nonce": hex_of("order")[:32], "not_before": "2026-11-23T10:00:00.000Z",
            "expires": "2026-11-24T10:00:00.000Z"}


def lease(ordered, keyid, node=0, runner_id=RUNNER):
    return {"schema": "sijil.run-lease/v1", "run": RUN, "audience": ORIGIN, "order": digest(ordered), "attempt": 1, "node": node,
            "runner": {"id": runner_id, "key": keyid}, "nonce": hex_of("lease" + (str(node) if node else ""))[:32], "not_before": "2026-11-23T10:01:00.000Z",
            "expires": "2026-11-23T12:00:00.000Z"}


def certificate(ordered, leased, runner_key, attempt_key, **more):
    held = opened(leased)[1]
    return {"schema": "sijil.run-certificate/v1", "run": held["run"], "audience": held["audience"], "order": digest(ordered), "lease": digest(leased),
            "attempt": held["attempt"], "node": held["node"], "runner_key": info_of(runner_key.public_key()),
            "attempt_key": info_of(attempt_key.public_key()), "not_before": held["not_before"], "expires": held["expires"], **more}


def fetched(name, one):
    return {"name": name, "uri": f"urn:sijil:{one['repository']}", "digest": {"sha256": one["digest"][7:]}}


def result(ordered, leased, certified):
    wanted, held = opened(ordered)[1]["spec"], opened(leased)[1]
    node = held["node"]
    inside = [fetched("code", wanted["code"]), fetched("image", wanted["image"])]
    inside += [fetched(f"input/{one['name']}", one) for one in wanted["inputs"]]
    return {"_type": "https://in-toto.io/Statement/v1", "predicateType": "https://slsa.dev/provenance/v1",
            "subject": [*([{"name": "model", "digest": {"sha256": hex_of("model")}}] if node == 0 else []),
                        {"name": "log", "digest": {"sha256": hex_of("log" + (str(node) if node else ""))}}],
            "predicate": {
                "buildDefinition": {"buildType": "urn:sijil:run:v1", "resolvedDependencies": inside,
                                    "externalParameters": {"run": RUN, "audience": ORIGIN, "order": digest(ordered), "lease": digest(leased),
                                                           "certificate": digest(certified)},
                                    "internalParameters": {"attempt": 1, "node": node}},
                "runDetails": {"builder": {"id": f"urn:sijil:runner:{held['runner']['id']}"},
                               "metadata": {"invocationId": f"urn:uuid:{RUN}", "startedOn": "2026-11-23T10:02:00.000Z",
                                            "finishedOn": "2026-11-23T10:20:00.000Z"},
                               **({"byproducts": [{"name": "metrics", "digest": {"sha256": hex_of("metrics")}}]} if node == 0 else {}),
                               "sijil_outcome": {"status": "succeeded", "exit": 0, "signal": 0, "reason": ""},
                               "sijil_usage": {"wall_ms": 1080000, "cpu_ms": 900000, "memory_bytes": 1 << 29, "output_bytes": 4096,
                                               "log_bytes": 2048, "device_ms": 700000},
                               "sijil_isolation": "cgroup-v2",
                               "sijil_devices": [{"uuid": f"GPU-{node + 1:04}", "type": "gpu", "driver": "535.1", "memory_bytes": 1 << 34,
                                                  "utilisation_percent": 64}]}}}


def refusal(leased):
    return {"schema": "sijil.run-refusal/v1", "run": RUN, "audience": ORIGIN, "lease": digest(leased), "check": "devices",
            "reason": "the order asks for 1 gpu, and this machine has none", "at": "2026-11-23T10:02:00.000Z"}


def admission(below, results, level=3):
    made = opened(results)[1]["subject"][:-1]
    return {"_type": "https://in-toto.io/Statement/v1", "predicateType": "https://slsa.dev/verification_summary/v1", "subject": made,
            "predicate": {"verifier": {"id": f"urn:sijil:keyd:{ORIGIN}"}, "timeVerified": "2026-11-23T10:21:00.000Z",
                          "resourceUri": f"urn:uuid:{RUN}",
                          "policy": {"uri": "urn:sijil:policy-set:7", "digest": {"sha256": hex_of("policy")}},
                          "inputAttestations": [{"uri": f"urn:sijil:run-{name}", "digest": {"sha256": digest(one)[7:]}} for name, one in below],
                          "verificationResult": "PASSED", "verifiedLevels": [f"SIJIL_ASSURANCE_{level}"]}}


def document(kind, key, scope, body, **more):
    return {"schema": "sijil.document/v1", "kind": kind, "scope": scope, "name": thumbprint(point_of(key.public_key())), "version": 1,
            "effective_from": "2026-11-20T09:00:00.000Z", "expires": "2027-11-20T09:00:00.000Z", "body": body, **more}


def person(key, principal, purpose):
    body = {"principal": principal, "public_key": url64(point_of(key.public_key())), "purpose": purpose}
    return "signing-key", "", document("signing-key", key, "", body)


def runner(key, runner_id=RUNNER, assurance=3):
    body = {"runner": runner_id, "public_key": url64(point_of(key.public_key())), "pool": "uae-gpu", "region": "local/dxb", "devices": 1,
            "jurisdictions": ["AE"], "isolation": "cgroup-v2", "assurance": assurance}
    return "runner", "acme", document("runner", key, "acme", body)


class Log:
    """A log that grows by one entry at a time, and is signed at the end."""

    def __init__(self):
        self.key, self.entries = Ed25519PrivateKey.generate(), []
        raw = b"\x01" + self.key.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
        self.key_id = hashlib.sha256(ORIGIN.encode() + b"\n" + raw).digest()[:4]
        self.vkey = f"{ORIGIN}+{self.key_id.hex()}+{base64.b64encode(raw).decode()}"
        self.counts = {}

    def append(self, action, resource, milliseconds, why):
        name, actor = resource.partition("#")[0], "system"
        parts = name.split("/")
        keys = [f"act:{actor}", f"res:{name}"] if name else [f"act:{actor}"]
        keys += [f"org:{parts[0]}"] if name else []
        keys += [f"prj:{'/'.join(parts[:2])}"] if len(parts) > 1 else []
        for each in keys:
            self.counts[each] = self.counts.get(each, 0) + 1
        entry = {"act": action, "actor": actor, "cls": 600301, "k": {each: self.counts[each] for each in keys}, "out": "allowed", "req": "",
                 "res": resource, "rgn": "", "seq": len(self.entries), "src": ["gw1", 1, len(self.entries) + 1], "ts": milliseconds, "v": 2,
                 "why": why}
        self.entries.append(canonical(entry))
        return len(self.entries) - 1

    def root(self):
        return audit_log.tree_hash([audit_log.leaf_hash(one) for one in self.entries])

    def prove(self, index):
        leaves = [audit_log.leaf_hash(one) for one in self.entries]

        def path(low, high):
            if high - low == 1:
                return []
            middle = low + audit_log.split(high - low)
            if index < middle:
                return [*path(low, middle), audit_log.tree_hash(leaves[middle:high])]
            return [*path(middle, high), audit_log.tree_hash(leaves[low:middle])]

        text = f"{ORIGIN}\n{len(leaves)}\n{base64.b64encode(self.root()).decode()}\n"
        signature = base64.b64encode(self.key_id + self.key.sign(text.encode())).decode()
        lines = "".join(base64.b64encode(one).decode() + "\n" for one in path(0, len(leaves)))
        return f"c2sp.org/tlog-proof@v1\nindex {index}\n{lines}\n{text}\n\u2014 {ORIGIN} {signature}\n"


START_MS = 1795338000000  # 2026-11-22T09:00:00Z


def enrol(log, keys, plan):
    """Documents with their events; their proofs follow when the log is complete."""
    made = []
    for number, ((kind, scope, value), signers) in enumerate(plan):
        envelopes = [seal(f"application/vnd.sijil.{kind}.v1+json", value, keys[one]) for one in signers]
        each = [hashlib.sha256(one.encode()).digest() for one in envelopes]
        outer = each[0] if len(each) == 1 else hashlib.sha256(b"".join(each)).digest()
        detail = f"sha256:{outer.hex()} {value['version']} sha256:{hashlib.sha256(canonical(value)).hexdigest()}"
        action = {"signing-key": "key.approve", "runner": "runner.approve", "trust-rule": "rule.revoke" if "withdrawn" in value else "rule.approve"}[kind]
        made.append((envelopes, log.append(action, f"{scope}#{detail}", START_MS + number, {})))
    return made


def bundle_of(log, keys, made, asked, approvals, until):
    """The bundle of one run, up to the envelope `until`."""
    why = {"id": "sha256:" + hex_of("decision"), "policy": "sha256:" + hex_of("policy")}
    number = log.append("run.order", f"{PROJECT}#{digest(asked)} {RUN}", 1795428000000, why)
    ordered = seal(TYPES["order"], order(asked, approvals, {"number": number, "size": len(log.entries), "root": log.root().hex()}), keys["keyd"])
    leased = seal(TYPES["lease"], lease(ordered, thumbprint(point_of(keys["runner"].public_key()))), keys["keyd"])
    certified = seal(TYPES["certificate"], certificate(ordered, leased, keys["runner"], keys["attempt"]), keys["runner"])
    results = seal(TYPES["result"], result(ordered, leased, certified), keys["attempt"])
    below = [("request", asked), *(("approval", one) for one in approvals), ("order", ordered), ("lease", leased), ("result", results)]
    whole = {"order": ordered, "lease": leased, "certificate": certified, "result": results, "admission": seal(TYPES["admission"], admission(below, results), keys["keyd"])}
    names = [name for name in whole if until != "refusal" or name in ("order", "lease")]
    whole["refusal"] = seal(TYPES["refusal"], refusal(leased), keys["runner"])
    names += ["refusal"] if until == "refusal" else []
    bundle = {"schema": "sijil.run-bundle/v1", "request": asked, "approvals": approvals,
              "documents": [{"envelopes": envelopes, "entry": log.entries[at].decode(), "proof": log.prove(at)} for envelopes, at in made],
              "event": {"entry": log.entries[number].decode(), "proof": log.prove(number)},
              **{name: whole[name] for name in names[:names.index(until) + 1]}}
    return bundle, {name: digest(bundle[name]) for name in ("request", *names) if name in bundle}


def people(log, keys, *more):
    """The documents of the persons and of the runner."""
    officer = ["ext:" + hex_of(name) for name in ("officer", "second")]
    return enrol(log, keys, [(person(keys["officer"], officer[0], "approve"), ["officer", "root"]),
                             (person(keys["second"], officer[1], "approve"), ["second", "root"]),
                             (person(keys["requester"], REQUESTER, "sign"), ["requester", "officer"]),
                             (person(keys["approver"], APPROVER, "sign"), ["approver", "officer"]),
                             (runner(keys["runner"]), ["runner", "officer", "second"]), *more])


def two_nodes(keys):
    """A run of two nodes, each on a runner of its own, in a log of its own. The lower assurance counts."""
    log = Log()
    made = people(log, keys, (runner(keys["other_runner"], OTHER_RUNNER, 2), ["other_runner", "officer", "second"]))
    asked = seal(TYPES["request"], request(spec=spec(nodes=2, network="tasks")), keys["requester"])
    approved = [seal(TYPES["approval"], approval(asked), keys["approver"])]
    bundle, digests = bundle_of(log, keys, made, asked, approved, "result")
    leased = seal(TYPES["lease"], lease(bundle["order"], thumbprint(point_of(keys["other_runner"].public_key())), 1, OTHER_RUNNER), keys["keyd"])
    certified = seal(TYPES["certificate"], certificate(bundle["order"], leased, keys["other_runner"], keys["other_attempt"]), keys["other_runner"])
    peer = {"lease": leased, "certificate": certified, "result": seal(TYPES["result"], result(bundle["order"], leased, certified), keys["other_attempt"])}
    below = [("request", asked), ("approval", approved[0]), ("order", bundle["order"]), ("lease", bundle["lease"]), ("result", bundle["result"]),
             ("lease", peer["lease"]), ("result", peer["result"])]
    bundle |= {"peers": [peer], "admission": seal(TYPES["admission"], admission(below, bundle["result"], 2), keys["keyd"])}
    return {"name": "a run of two nodes", "vkey": log.vkey, "bundle": bundle, "digests": digests | {"admission": digest(bundle["admission"])}}


def label(**more):
    return canonical({"attached": [], "class": "open", "lineage": "attested", "pins": [], "subjects": [], **more}).decode()


def labels():
    """Texts that are labels, with their join; and texts that are none."""
    health = label(**{"class": "sensitive", "subjects": ["health", "personal"], "pins": ["health-ae"], "attached": ["AE-FED"]})
    money = label(**{"class": "confidential", "lineage": "declared", "subjects": ["financial-customer"], "attached": ["DIFC"]})
    rows = [("the least strict one", [label()]), ("one with all members", [health]), ("a join", [health, money]), ("a join with the least strict one", [label(), money]),
            ("the strictest lineage", [health, label(lineage="unknown")])]
    none = [("no JSON", "health"), ("members in another order", json.dumps(dict(reversed(json.loads(label()).items())), separators=(",", ":"))), ("a blank", label() + " "),
            ("a member is missing", '{"class":"open"}'), ("an unknown member", label(more=1)), ("an unknown class", label(**{"class": "public"})),
            ("an unknown subject", label(subjects=["cats"])), ("a regime in lower case", label(attached=["ae-fed"])), ("a pin of one letter", label(pins=["a"])), ("an unsorted list", label(subjects=["personal", "health"])), ("a text twice", label(pins=["all", "all"])),
            ("33 regimes", label(attached=[f"R{number:02d}" for number in range(33)])), ("65 pins", label(pins=[f"p{number:02d}" for number in range(65)])),
            ("an escape", label().replace("open", "op\\u0065n"))]
    return [{"name": name, "labels": texts, "joined": canonical(join([label_of(one) for one in texts])).decode()} for name, texts in rows] + \
        [{"name": name, "labels": [text]} for name, text in none]


def labelled(keys):
    """A run with the manifests of its code and its input, in a log of its own. The image's is not there."""
    def manifest(**annotations):
        return json.dumps({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "layers": [], "annotations": annotations,
                           "config": {"mediaType": "application/vnd.oci.empty.v1+json", "digest": "sha256:" + hex_of("{}"), "size": 2}})
    texts = [manifest(), manifest(**{"sijil.label": label(**{"class": "sensitive", "subjects": ["health"]})})]
    code, data = ({"repository": f"{PROJECT}/{name}", "digest": "sha256:" + hex_of(text)} for name, text in zip(("code", "data"), texts))
    log = Log()
    made = people(log, keys)
    asked = seal(TYPES["request"], request(spec=spec(code=code, inputs=[{"name": "digits", **data}])), keys["requester"])
    bundle, digests = bundle_of(log, keys, made, asked, [seal(TYPES["approval"], approval(asked), keys["approver"])], "lease")
    return {"name": "a run with manifests", "vkey": log.vkey, "bundle": bundle | {"manifests": texts}, "digests": digests}


def rule(version=1, on=PROJECT, **more):
    body = {"issuer": "https://token.actions.githubusercontent.com", "audience": "https://registry.example", "system": "github",
            "match": {"/repository_id": {"eq": "260064828"}, "/ref": {"eq": "refs/heads/main"}}, "grant": [{"role": "trainer", "on": on}],
            "priority": 100, "max_ttl": 300, "single_use": True}
    return "trust-rule", "acme", {"schema": "sijil.document/v1", "kind": "trust-rule", "scope": "acme", "name": "gh-train", "version": version,
                                  "effective_from": "2026-11-20T09:00:00.000Z", "expires": "2027-02-20T09:00:00.000Z", "body": body, **more}


def by_rule(keys, *later):
    """A run that a CI job asked for by its trust rule, in a log of its own. The policies ask for one approval, so it needs two. `later`: further versions of the rule."""
    log = Log()
    made = people(log, keys, *((one, ["officer", "second"]) for one in (rule(), *later)))
    claims = {"issuer": "sijil:rule", "subject": "acme:gh-train", "token": "sha256:" + hex_of("token")}
    requester = "ext:" + hashlib.sha256(b"sijil:rule\nacme:gh-train").hexdigest()
    asked = seal(TYPES["request"], request(claims=claims, requester=requester), keys["keyd"])
    approved = [seal(TYPES["approval"], approval(asked), keys["approver"]),
                seal(TYPES["approval"], approval(asked, approver="ext:" + hex_of("officer")), keys["officer"])]
    bundle, digests = bundle_of(log, keys, made, asked, sorted(approved, key=digest), "admission")
    return {"name": "a run by a trust rule", "vkey": log.vkey, "bundle": bundle, "digests": digests}


def by_person(keys, issuer="https://id.example"):
    """An order for a person's token: the claims have its hash, and no name."""
    log = Log()
    made = people(log, keys)
    asked = seal(TYPES["request"], request(claims={"issuer": issuer, "subject": REQUESTER, "token": "sha256:" + hex_of("token")}), keys["keyd"])
    bundle, _ = bundle_of(log, keys, made, asked, [seal(TYPES["approval"], approval(asked), keys["approver"])], "order")
    return {"name": "an order for a person's token", "vkey": log.vkey, "bundle": bundle}


def refused_claims(keys):
    """Issuers that are none, or of another kind of requester."""
    rows = [("an issuer like that of trust rules", "sijil:Rule", "issuer: sijil:registry"), ("an issuer with a blank", "sijil:rule ", "issuer: sijil:registry"),
            ("an issuer that is no URL", "x", "issuer: sijil:registry"), ("a person as a robot", "sijil:registry", "claims are of another person"),
            ("a person as a trust rule", "sijil:rule", "no document of the bundle is the trust rule")]
    return [{**by_person(keys, issuer), "name": name, "says": says} for name, issuer, says in rows]


def refused_rules(keys):
    """Whoever may add to the log adds version 1 again, which its approvers have signed once. What replaced it counts."""
    rows = [("the old version of a withdrawn rule, again", "was withdrawn before", rule(2, withdrawn="stolen", body={})),
            ("the old version of a narrowed rule, again", "has no grant", rule(2, f"{PROJECT}/other"))]
    return [{**{name: value for name, value in by_rule(keys, replaced, rule()).items() if name in ("vkey", "bundle")}, "name": name, "says": says}
            for name, says, replaced in rows]


def save(path, vectors):
    text = json.dumps(vectors, indent=1, ensure_ascii=True)
    pathlib.Path(path).write_text(re.sub(r"[ \t]+\n", "\n", text) + "\n", encoding="utf-8")


def add(path):
    vectors = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    keys = {name: ec.derive_private_key(int(scalar, 16), ec.SECP256R1()) for name, scalar in vectors["scalars"].items()}
    for name in {"other_runner", "other_attempt"} - set(keys):
        keys[name] = key = ec.generate_private_key(ec.SECP256R1())
        vectors["points"][name] = point_of(key.public_key()).hex()
        vectors["scalars"][name] = f"{key.private_numbers().private_value:064x}"
    if not any(row["name"] == "a run of two nodes" for row in vectors["bundles"]):
        vectors["bundles"].append(two_nodes(keys))
    if not any(row["name"] == "a run with manifests" for row in vectors["bundles"]):
        vectors["bundles"].append(labelled(keys))
    vectors["labels"] = labels()
    if not any(row["name"] == "a run by a trust rule" for row in vectors["bundles"]):
        vectors["bundles"].append(by_rule(keys))
    if "refused" not in vectors:
        vectors["refused"] = refused_rules(keys)
    if "accepted" not in vectors:
        vectors["accepted"] = [by_person(keys)]
        vectors["refused"] += refused_claims(keys)
    save(path, vectors)


def write(path):
    keys = {name: ec.generate_private_key(ec.SECP256R1()) for name in ("root", "officer", "second", "requester", "approver", "runner", "attempt", "keyd")}
    log = Log()
    made = people(log, keys)
    asked = seal(TYPES["request"], request(), keys["requester"])
    approved = [seal(TYPES["approval"], approval(asked), keys["approver"])]
    claims = {"issuer": "https://id.example", "subject": "alice", "token": "sha256:" + hex_of("token")}
    by_token = seal(TYPES["request"], request(claims=claims, rerun={"run": RUNNER, "order": "sha256:" + hex_of("old")}), keys["keyd"])
    rows = []
    for name, one, approvals, until in (("a whole run", asked, approved, "admission"), ("a run that goes on", asked, approved, "lease"),
                                        ("an order for a token's claims", by_token, [], "order"),
                                        ("a run that its runner refused", asked, approved, "refusal")):
        bundle, digests = bundle_of(log, keys, made, one, approvals, until)
        rows.append({"name": name, "bundle": bundle, "digests": digests})
    vectors = {"about": "Vectors of docs/formats/run.md. The private keys are public, and for tests only.", "vkey": log.vkey,
               "points": {name: point_of(key.public_key()).hex() for name, key in keys.items()},
               "scalars": {name: f"{key.private_numbers().private_value:064x}" for name, key in keys.items()}, "bundles": rows}
    save(path, vectors)
    add(path)


if __name__ == "__main__":
    if sys.argv[1] == "--write":
        write(sys.argv[2])
    elif sys.argv[1] == "--add":
        add(sys.argv[2])
    else:
        check(sys.argv[1])
