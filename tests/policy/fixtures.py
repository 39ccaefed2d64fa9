"""The parts of the cases: the examples of policy/examples, and short functions to change them and to ask. Each question is also written to
RECORD, so that the evaluator in C gets the same questions.
"""
import copy
import json
import pathlib

import jsonschema

import oracle
from oracle import OPS, Refused, canon, make_label, sha


class Record:
    """One JSON document on each line: documents first, then the questions about them.

    {"policy": document}      the next policy, counted from 0
    {"groups": groups}        the next groups, counted from 0
    {"check": document, "valid": bool}
    {"decide": [policy], "groups": n, "facts": .., "decision": .. or null if refused}
    {"label": [policy], "scope", "own", "stored", "now", "is": label or null}
    """

    def __init__(self):
        self.file, self.known, self.asked = None, {}, 0

    def write(self, line):
        if self.file is not None:
            self.file.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")

    def number(self, kind, document):
        names = self.known.setdefault(kind, {})
        key = canon(document)
        if key not in names:
            names[key] = len(names)
            self.write({kind: document})
        return names[key]

    def numbers(self, policies):
        return [self.number("policy", getattr(one, "policy", one)) for one in policies]

    def ask(self, line):
        self.asked += 1
        self.write(line)


RECORD = Record()


def decide(policies, facts, world):
    try:
        found = oracle.decide(policies, facts, world)
    except Refused:
        found = None
    RECORD.ask({"decide": RECORD.numbers(policies), "groups": RECORD.number("groups", world["groups"]),
                "facts": facts, "decision": found})
    if found is None:
        raise Refused("refused")
    return found


def effective_label(policies, scope, own, now):
    found = oracle.effective_label(policies, scope, own, now)
    RECORD.ask({"label": RECORD.numbers(policies), "scope": scope, "own": own, "stored": None,
                "now": now, "is": found})
    return found


def stored_label_floor(stored, policies, scope, own, now):
    found = oracle.stored_label_floor(stored, policies, scope, own, now)
    RECORD.ask({"label": RECORD.numbers(policies), "scope": scope, "own": own, "stored": stored,
                "now": now, "is": found})
    return found


def check_policy(document):
    try:
        oracle.check_policy(document)
    except Refused:
        RECORD.ask({"check": document, "valid": False})
        raise
    RECORD.ask({"check": document, "valid": True})


FOLDER = pathlib.Path(__file__).resolve().parents[2] / "policy"


def read(name):
    return json.loads((FOLDER / name).read_text(encoding="utf-8"))


WORLD = read("examples/regions.json")
POLICY_SCHEMA = jsonschema.Draft202012Validator(read("schema/residency-policy.schema.json"))
EXCEPTION_SCHEMA = jsonschema.Draft202012Validator(
    read("schema/residency-exception.schema.json"))
FLOOR, HEALTH, DIFC, PUBLIC = ALL = [read(f"examples/{name}.json") for name in (
    "org-floor", "health-ae", "difc-bank-models", "public-models")]
NOW = "2026-12-15T00:00:00+00:00"
PROJECT = "5f0c8f0e-93a1-4c1a-8a4e-0d8f6d1f2b30"
OTHER_PROJECT = "9d1b7c55-2f43-4f0e-b7a9-6c4e8a7d0a11"
D1, D2 = sha("one"), sha("two")


def policy(name, scope, rules, **members):
    """A policy in force at NOW."""
    meta = {"id": name, "version": 1, "scope": scope,
            "effective_from": "2026-01-01T00:00:00Z", "review_by": "2027-12-31"}
    meta.update(members.pop("metadata", {}))
    return {"apiVersion": "sijil.policy/v1", "kind": "ResidencyPolicy",
            "metadata": meta, "rules": rules, **members}


def permit(name="PERMIT", ops=OPS, when=None):
    rule = {"id": name, "effect": "permit", "ops": list(ops)}
    return {**rule, "when": when} if when else rule


def require(target, name="REQUIRE", effect="require", **members):
    return {"id": name, "effect": effect, "ops": list(OPS), "target": target, **members}


def changed(document, *path, to):
    """A copy of document with the member at path replaced."""
    result = copy.deepcopy(document)
    place = result
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = to
    return result


RESEARCH = policy("research", ["research/**"], [permit()])
BANK = policy("bank", ["bank/**"], [permit()])
WITH_RESEARCH = ALL + [RESEARCH]
OWN = make_label(lineage="declared")


def label_in(scope, policies=ALL, own=OWN):
    return effective_label(policies, scope, own, NOW)


def facts(op, scope, target_id, label=None, policies=ALL, exceptions=(), **client):
    """Facts for a region of the catalogue, or for a client described by keywords."""
    target = client
    if target_id in WORLD["regions"]:
        target = {**WORLD["regions"][target_id], "assurance": 4,
                  "recipient": "same-controller", **client}
    return {"op": op, "scope": scope, "project": PROJECT, "policy_epoch": 7,
            "label": label or label_in(scope, policies), "digest": D1,
            "target_id": target_id, "target": target, "now": NOW,
            "exceptions": list(exceptions)}


def judged(policies, *args, world=WORLD, **members):
    return decide(policies, facts(*args, policies=policies, **members), world)


def rules(decision):
    return [one["rule"] for one in decision["denies"]]


def regions(policies, scope, label, op="ingest"):
    return [name for name in sorted(WORLD["regions"]) if decide(policies, oracle.region_facts(
        WORLD, name, op, scope, label, D1, PROJECT, NOW), WORLD)["allow"]]


def probe(rule, target, world=WORLD):
    """Decision of one rule beside an unconditional permit."""
    return judged([policy("probe", ["**"], [permit(), rule])], "ingest", "a", "x",
                  label=OWN, world=world, **target)


def refused_by_both(document):
    """Both the publisher and the evaluator refuse it, the evaluator also when it decides."""
    try:
        check_policy(document)
        return False
    except Refused:
        pass
    try:
        decide([document], facts("ingest", "a", "x", label=OWN), WORLD)
        return False
    except Refused:
        return not POLICY_SCHEMA.is_valid(document)
