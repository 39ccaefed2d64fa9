#!/usr/bin/python3
"""A second implementation of docs/formats/documents.md, from the page alone.

Checks docs/formats/documents-vectors.json: payloads are canonical, signatures are good and from the demanded keys; digests, details of
events and pins are the same. `--write FILE` makes the file with fresh keys (test_documents checks the C code with it). Exit status 77:
python3-cryptography is not installed.
"""
import base64
import datetime
import hashlib
import json
import re
import sys

try:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
except ImportError:
    print("python3-cryptography is not installed: skipped")
    sys.exit(77)

SIGNING_KEY = "application/vnd.sijil.signing-key.v1+json"
TRUST_RULE = "application/vnd.sijil.trust-rule.v1+json"
AUDIT_SINK = "application/vnd.sijil.audit-sink.v1+json"
DETECTION_RULE = "application/vnd.sijil.detection-rule.v1+json"
GROUP_ROLES = "application/vnd.sijil.group-roles.v1+json"
PERSONS = "application/vnd.sijil.persons.v1+json"
OFFICERS_TYPE = "application/vnd.sijil.officers.v1+json"
SCIM_SERVICE = "application/vnd.sijil.scim-service.v1+json"
OWN_ROLE = "application/vnd.sijil.role.v1+json"
BREAK_GLASS = "application/vnd.sijil.break-glass.v1+json"
REVIEW = "application/vnd.sijil.break-glass-review.v1+json"
POLICY_SET = "application/vnd.sijil.policy-set.v1+json"


def url64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def canonical(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def point_of(key):
    return key.public_bytes(serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint)


def thumbprint(point):
    return url64(hashlib.sha256(canonical({"crv": "P-256", "kty": "EC", "x": url64(point[1:33]), "y": url64(point[33:])})).digest())


def to_be_signed(kind, payload):
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind.encode(), len(payload), payload)


def envelope(kind, payload, key):
    signature = key.sign(to_be_signed(kind, payload), ec.ECDSA(hashes.SHA256()))
    return canonical({"payload": base64.b64encode(payload).decode(), "payloadType": kind,
                      "signatures": [{"keyid": thumbprint(point_of(key.public_key())), "sig": base64.b64encode(signature).decode()}]})


def digest_of_envelopes(envelopes):
    each = [hashlib.sha256(one).digest() for one in envelopes]
    return each[0] if len(each) == 1 else hashlib.sha256(b"".join(each)).digest()


def is_signed_by(one, point):
    parsed = json.loads(one)
    payload = base64.b64decode(parsed["payload"], validate=True)
    key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point)
    for signature in parsed["signatures"]:
        try:
            key.verify(base64.b64decode(signature["sig"]), to_be_signed(parsed["payloadType"], payload), ec.ECDSA(hashes.SHA256()))
            return True
        except InvalidSignature:
            pass
    return False


def derive(case, pin):
    """The values that the page derives from these envelopes, the event's number and the previous pin."""
    envelopes = [one.encode() for one in case["envelopes"]]
    payload = base64.b64decode(json.loads(envelopes[0])["payload"])
    document = json.loads(payload)
    assert canonical(document) == payload, "not canonical"
    assert all(base64.b64decode(json.loads(one)["payload"]) == payload for one in envelopes)
    is_set = json.loads(envelopes[0])["payloadType"] == POLICY_SET
    digest = document["digest"][7:] if is_set else hashlib.sha256(payload).hexdigest()
    version = document["epoch"] if is_set else document["version"]
    outer = digest_of_envelopes(envelopes)
    after = digest if is_set else hashlib.sha256(bytes.fromhex(pin) + case["sequence"].to_bytes(8, "big") + outer).hexdigest()
    return {"detail": f"sha256:{outer.hex()} {version} sha256:{digest}", "digest": digest,
            "epoch": version if is_set else case["sequence"], "pin": after}


def key_of(case):
    """The key that a document of this kind names, and whether it is withdrawn."""
    document = json.loads(base64.b64decode(json.loads(case["envelopes"][0])["payload"]))
    return document, (document["body"]["principal"], document["body"]["purpose"])


def breaks_a_rule(case, enrolled):
    """The rules of the page about the scope of approvers, and about a withdrawal and its enrolment."""
    document = json.loads(base64.b64decode(json.loads(case["envelopes"][0])["payload"]))
    if document["kind"] == "trust-rule":
        return document["body"] != {} if "withdrawn" in document else rule_is_open(document)
    if document["kind"] == "group-roles":
        return document["scope"] != "" or any(grant["role"] not in CONTENT_ROLES for grant in document["body"]["grant"])
    if document["kind"] == "role":
        return "." not in document["name"] or any(action in NEVER_OWN for action in document["body"]["actions"])
    if document["kind"] == "persons":
        return not is_organisation(document["name"]) or not all(map(is_subject, document["body"].get("separate", [])))
    if document["kind"] == "officers":
        return officer_is_wrong(document)
    if document["kind"] == "break-glass":
        return glass_is_wrong(document)
    if document["kind"] == "break-glass-review":
        return document["body"]["finding"] not in ("justified", "not-justified")
    if document["kind"] == "scim-service":
        return document["scope"] != "" or document["body"]["claim"] not in ("/sub", "/oid", "/uid")
    if document["kind"] in ("audit-sink", "detection-rule"):
        return document["scope"] != "" or log_document_is_wrong(document["kind"], document["name"], document["body"])
    document, named = key_of(case)
    if named[1] == "approve" and document["scope"] != "":
        return True
    return "withdrawn" in document and enrolled.get(document["name"], named) != named


def check_refused(vectors):
    enrolled = {}
    for case in vectors["cases"]:
        if json.loads(case["envelopes"][0])["payloadType"] == SIGNING_KEY:
            assert not breaks_a_rule(case, enrolled), case["name"]
            enrolled[key_of(case)[0]["name"]] = key_of(case)[1]
        elif json.loads(case["envelopes"][0])["payloadType"] in (TRUST_RULE, AUDIT_SINK, DETECTION_RULE, GROUP_ROLES, PERSONS, SCIM_SERVICE, BREAK_GLASS, REVIEW, OWN_ROLE, OFFICERS_TYPE):
            assert not breaks_a_rule(case, enrolled), case["name"]
    for case in vectors["refused"]:
        assert breaks_a_rule(case, enrolled), case["name"]
        assert all(is_signed_by(one.encode(), bytes.fromhex(vectors["keys"][signer]))
                   for one, signer in zip(case["envelopes"], case["signers"], strict=True)), case["name"]


def check(vectors):
    pins = {}
    for case in vectors["cases"]:
        kind = json.loads(case["envelopes"][0])["payloadType"]
        for member, value in derive(case, pins.get(kind, "00" * 32)).items():
            assert case[member] == value, f"{case['name']}: {member} is {case[member]}, not {value}"
        pins[kind] = case["pin"]
        for one, signer in zip(case["envelopes"], case["signers"], strict=True):
            assert is_signed_by(one.encode(), bytes.fromhex(vectors["keys"][signer])), f"{case['name']}: not by {signer}"
            others = [name for name in vectors["keys"] if name != signer]
            assert not any(is_signed_by(one.encode(), bytes.fromhex(vectors["keys"][name])) for name in others)
        if kind == SIGNING_KEY:
            document = json.loads(base64.b64decode(json.loads(case["envelopes"][0])["payload"]))
            point = base64.urlsafe_b64decode(document["body"]["public_key"] + "=")
            assert thumbprint(point) == document["name"], case["name"]
    check_refused(vectors)
    print(f"{len(vectors['cases'])} documents are as docs/formats/documents.md has them, and {len(vectors['refused'])} are refused")


def key_document(key, purpose, principal, **more):
    point = point_of(key.public_key())
    return canonical({"schema": "sijil.document/v1", "kind": "signing-key", "scope": "", "name": thumbprint(point), "version": 1,
                      "effective_from": "2026-11-23T09:00:00.000Z", "expires": "2027-11-23T09:00:00.000Z",
                      "body": {"principal": principal, "public_key": url64(point), "purpose": purpose}, **more})


def rule_document(body, **more):
    return canonical({"schema": "sijil.document/v1", "kind": "trust-rule", "scope": "acme", "name": "gh-acme-train", "version": 1,
                      "effective_from": "2026-11-23T09:00:00.000Z", "expires": "2027-03-01T00:00:00.000Z", "body": body, **more})


def log_document(kind, name, body, **more):
    return canonical({"schema": "sijil.document/v1", "kind": kind, "scope": "", "name": name, "version": 1,
                      "effective_from": "2026-11-23T09:00:00.000Z", "expires": "2027-03-01T00:00:00.000Z", "body": body, **more})


SINK = {"transport": "webhook", "region": "ae-dxb/siem", "address": "https://siem.example/hook", "signature": "v1a",
        "classes": {"api-activity": ["detail"], "detection-finding": []}, "names": {"purpose": "case 4711"}, "networks": ["10.1.0.0/16"]}
BURST = {"detector": "denial-burst", "threshold": 50, "window": 600, "severity": 2}
DETECTORS = {"denial-burst", "mass-pull", "mass-pull-bytes", "new-country", "new-network", "break-glass", "self-dealing", "log-gap", "clock-step", "sink-stopped", "laxer-copy", "region-quarantined",
             "exception-use", "policy-notify", "content-misplaced"}


def log_document_is_wrong(kind, name, body):
    """The rules of the page that these vectors break: a webhook signs, and a detector's name is for its own rules."""
    if kind == "audit-sink":
        return body["transport"] == "webhook" and body.get("signature") not in ("v1", "v1a")
    return name in DETECTORS and name != body["detector"]


CONTENT_ROLES = {"publisher", "promoter", "consumer", "trainer"}
GROUPS = {"issuer": "https://id.bank.example", "claim": "/groups", "grant": [{"group": "data-scientists", "role": "publisher", "on": "acme/models"}]}
SCIM = {"issuer": "https://id.bank.example", "claim": "/oid", "client": "robot:00000000-0000-0000-0000-000000000001", "deactivations": 20, "others": "admit"}
OFFICERS = {**GROUPS, "grant": [{"group": "data-scientists", "role": "security-officer", "on": "acme"}]}
NEVER_OWN = {"binding.create", "key.approve", "policy.load", "issuer.trust"}
CURATOR = {"meaning": "reads, and deletes what is old", "organisation": "acme", "actions": ["blob.read", "manifest.read", "manifest.delete", "tag.list"]}
ADMINISTRATOR = {"principal": "ext:" + hashlib.sha256(b"https://id.bank.example\nalice").hexdigest(), "key": "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs",
                 "role": "registry-admin", "on": ""}
GLASS = {"on": "acme/models", "reason": "case 4711: the scoring is down"}
ONE_ISSUER = {"issuer": "https://id.bank.example", "separate": ["ext:" + hashlib.sha256(b"https://other.example\nauditor").hexdigest()]}
RULE = {"system": "github", "issuer": "https://token.actions.githubusercontent.com", "audience": "https://reg.acme.ae",
        "match": {"/repository_id": {"eq": "260064828"}, "/event_name": {"in": ["push", "workflow_dispatch"]}, "/ref": {"eq": "refs/heads/main"}},
        "grant": [{"role": "publisher", "on": "acme/prod/*"}], "priority": 100, "max_ttl": 300, "single_use": True}
OPEN_RULE = {**RULE, "match": {"/repository": {"eq": "acme/model"}, "/ref": {"eq": "refs/heads/main"}}}
WIDE_RULE = {**RULE, "grant": [{"role": "publisher", "on": "beta/prod/*"}]}


def glass(key, body, **more):
    person = "ext:" + hashlib.sha256(b"https://id.example\nalice").hexdigest()
    return log_document("break-glass", "bg-1", {"principal": person, "public_key": url64(point_of(key.public_key())), **body},
                        **{"effective_from": "2026-11-23T09:20:00.000Z", "expires": "2026-11-23T10:20:00.000Z", **more})


def is_organisation(name):
    return name == "_registry" or re.fullmatch("[a-z0-9][a-z0-9._-]*", name)


def is_subject(key):
    return re.fullmatch("ext:[0-9a-f]{64}", key)


def officer_is_wrong(document):
    """The name begins with the role, and each role is of the registry, of an organisation, or of either."""
    body = document["body"]
    places = {"registry-admin": "", "org-admin": "[a-z0-9._-]+", "security-officer": "[a-z0-9._-]*"}
    return not document["name"].startswith(body["role"] + ".") or not re.fullmatch(places[body["role"]], body["on"])


def glass_is_wrong(document):
    """A person, for at most an hour, on an organisation or a project."""
    body, (begins, ends) = document["body"], (datetime.datetime.fromisoformat(document[name].rstrip("Z")) for name in ("effective_from", "expires"))
    if not is_subject(body["principal"]):
        return True
    return "withdrawn" not in document and (ends - begins > datetime.timedelta(hours=1) or not re.fullmatch("[a-z0-9._-]+(/[a-z0-9._-]+)?", body["on"]))


def rule_is_open(document):
    """The rules of the page about trust rules for GitHub: an exact immutable id, a ref, and grants inside the scope."""
    match, scope = document["body"].get("match", {}), document["scope"]
    is_bound = {"eq", "in"} & set(match.get("/repository_id", {})) and "/ref" in match
    return not is_bound or not all(grant["on"].startswith(scope + "/") for grant in document["body"]["grant"])


def write(path):
    keys = {name: ec.generate_private_key(ec.SECP256R1()) for name in ("root", "officer", "holder")}
    officer, holder = "ext:" + hashlib.sha256(b"https://id.example\nofficer").hexdigest(), "robot:00000000-0000-0000-0000-000000000001"
    rules = {"epoch": 7, "kind": "PolicySet"}
    policy = canonical({"digest": "sha256:" + hashlib.sha256(canonical(rules)).hexdigest(), **rules})
    plan = [("a policy set", POLICY_SET, policy, ["root"], 4),
            ("an approver's key, approved by the root", SIGNING_KEY, key_document(keys["officer"], "approve", officer),
             ["officer", "root"], 9),
            ("a key of an organisation, approved by the approver", SIGNING_KEY,
             key_document(keys["holder"], "sign", holder, scope="acme"), ["holder", "officer"], 12),
            ("the same key, withdrawn by its holder", SIGNING_KEY,
             key_document(keys["holder"], "sign", holder, scope="acme", version=2, withdrawn="the card was lost"), ["holder"], 15),
            ("a trust rule of an organisation, signed by the approver and the root", TRUST_RULE, rule_document(RULE),
             ["officer", "root"], 18),
            ("the same rule, withdrawn by the approver", TRUST_RULE, rule_document({}, version=2, withdrawn="the repository was sold"),
             ["officer"], 21),
            ("a sink of the log, signed by the approver and the root", AUDIT_SINK, log_document("audit-sink", "siem", SINK), ["officer", "root"], 24),
            ("a detection rule, signed by the root", DETECTION_RULE, log_document("detection-rule", "denial-burst", BURST), ["root"], 27),
            ("roles of groups, signed by the approver and the root", GROUP_ROLES, log_document("group-roles", "bank", GROUPS), ["officer", "root"], 30),
            ("persons of an organisation, signed by the approver and the root", PERSONS, log_document("persons", "acme", ONE_ISSUER), ["officer", "root"], 33),
            ("a SCIM service, signed by the approver and the root", SCIM_SERVICE, log_document("scim-service", "bank", SCIM), ["officer", "root"], 36),
            ("a broken glass, signed by its holder and the approver", BREAK_GLASS, glass(keys["holder"], GLASS), ["holder", "officer"], 39),
            ("its end, signed by its holder", BREAK_GLASS,
             glass(keys["holder"], {"approved_by": officer}, version=2, withdrawn="it is over", expires="2026-11-24T10:00:00.000Z"), ["holder"], 42),
            ("its review, signed by the approver", REVIEW,
             log_document("break-glass-review", "bg-1", {"finding": "justified", "note": "as case 4711 says"}, expires="2026-11-24T10:00:00.000Z"), ["officer"], 45),
            ("a role of an organisation, signed by the approver and the root", OWN_ROLE, log_document("role", "acme.curator", CURATOR), ["officer", "root"], 48),
            ("an administrator, signed by the root", OFFICERS_TYPE, log_document("officers", "registry-admin.alice", ADMINISTRATOR), ["root"], 51)]
    cases, pins = [], {}
    for name, kind, payload, signers, sequence in plan:
        case = {"name": name, "sequence": sequence, "signers": signers,
                "envelopes": [envelope(kind, payload, keys[signer]).decode() for signer in signers]}
        case.update(derive(case, pins.get(kind, "00" * 32)))
        pins[kind] = case["pin"]
        cases.append(case)
    other = "ext:" + hashlib.sha256(b"https://id.example\nanother").hexdigest()
    refused = [("an approver's key, withdrawn as a key that only signs",
                key_document(keys["officer"], "sign", officer, version=2, withdrawn="the card was lost"), ["officer"]),
               ("an approver's key, withdrawn as that of another principal",
                key_document(keys["officer"], "approve", other, version=2, withdrawn="the card was lost"), ["root"]),
               ("an approver's key of an organisation", key_document(keys["holder"], "approve", holder, scope="acme"), ["holder", "root"]),
               ("a trust rule without an immutable id", rule_document(OPEN_RULE), ["root"]),
               ("a trust rule for another organisation than its own", rule_document(WIDE_RULE), ["root"]),
               ("a sink of an organisation", log_document("audit-sink", "siem", SINK, scope="acme"), ["root"]),
               ("a webhook that signs nothing",
                log_document("audit-sink", "siem", {name: value for name, value in SINK.items() if name != "signature"}), ["root"]),
               ("a detection rule with the name of another detector", log_document("detection-rule", "log-gap", BURST), ["root"]),
               ("a group of officers", log_document("group-roles", "bank", OFFICERS), ["root"]),
               ("roles of groups of an organisation", log_document("group-roles", "bank", GROUPS, scope="acme"), ["root"]),
               ("a separate person by its name", log_document("persons", "acme", {**ONE_ISSUER, "separate": ["auditor@bank.example"]}), ["root"]),
               ("persons of no organisation", log_document("persons", "Acme", ONE_ISSUER), ["root"]),
               ("a SCIM service that joins persons by mail", log_document("scim-service", "bank", {**SCIM, "claim": "/email"}), ["root"]),
               ("a broken glass of more than an hour", glass(keys["holder"], GLASS, expires="2026-11-23T10:30:00.000Z"), ["holder", "officer"]),
               ("a broken glass of a robot", glass(keys["holder"], {**GLASS, "principal": holder}), ["holder", "officer"]),
               ("a broken glass of a repository", glass(keys["holder"], {**GLASS, "on": "acme/models/x"}), ["holder", "officer"]),
               ("a review without a finding", log_document("break-glass-review", "bg-1", {"finding": "perhaps", "note": "n"}, expires="2026-11-24T10:00:00.000Z"), ["officer"]),
               ("a role that grants", log_document("role", "acme.curator", {**CURATOR, "actions": ["binding.create"]}), ["root"]),
               ("a role with the name of a built-in one", log_document("role", "publisher", CURATOR), ["root"]),
               ("an officer whose name has another role", log_document("officers", "org-admin.alice", ADMINISTRATOR), ["root"]),
               ("an administrator of an organisation", log_document("officers", "registry-admin.alice", {**ADMINISTRATOR, "on": "acme"}), ["root"]),
               ("a SCIM service of an organisation", log_document("scim-service", "bank", SCIM, scope="acme"), ["root"]),
               ("a withdrawal of a trust rule that has a body", rule_document(RULE, version=2, withdrawn="sold"), ["root"])]
    types = {"signing-key": SIGNING_KEY, "trust-rule": TRUST_RULE, "audit-sink": AUDIT_SINK, "detection-rule": DETECTION_RULE, "group-roles": GROUP_ROLES, "persons": PERSONS,
             "scim-service": SCIM_SERVICE, "break-glass": BREAK_GLASS, "break-glass-review": REVIEW, "role": OWN_ROLE, "officers": OFFICERS_TYPE}
    rejected = [{"name": name, "signers": signers,
                 "envelopes": [envelope(types[json.loads(payload)["kind"]], payload, keys[signer]).decode() for signer in signers]}
                for name, payload, signers in refused]
    vectors = {"now": "2026-11-23T10:00:00.000Z", "keys": {name: point_of(key.public_key()).hex() for name, key in keys.items()},
               "cases": cases, "refused": rejected}
    with open(path, "w", encoding="utf-8") as file:
        json.dump(vectors, file, indent=1)
        file.write("\n")


if sys.argv[1] == "--write":
    write(sys.argv[2])
else:
    with open(sys.argv[1], encoding="utf-8") as file:
        check(json.load(file))
