"""The semantics of residency policies, in the plainest form.

policy/evaluate.c must agree with this in everything: cases.py runs both.  Every
function is pure: no clock, network, file or database.  Documents are plain JSON
values.  Shapes used below:

label    {"class", "subjects": [..], "attached": [..], "pins": [policy id],
          "lineage"}; higher class, larger sets, weaker lineage = stricter
target   what is known of a region or a client; an absent key is unknown
world    {"groups": {name: {"kind": "geo"|"regime", "members": [..]}},
          "regions": {target id: target}}
facts    see FACTS; the whole of it enters the decision id
truth    True, False or None (unknown), paired with the set of names of the
         facts that made it so: (truth, {"geo", "group:GCC", ..})
"""
import datetime
import hashlib
import json
import re
from collections import namedtuple

VERSION = "sijil-2"
CLASSES = ["open", "confidential", "sensitive", "secret"]
LINEAGES = ["unknown", "declared", "attested"]
OPS = ["ingest", "mount", "replicate", "migrate", "cache", "backup", "restore",
       "read", "train", "promote", "metadata", "log", "key-wrap", "export"]
LOOKS = ["stat", "list"]  # operations that "read" means, too, in sijil.policy/v1
SUBJECTS = ["personal", "special", "health", "biometric", "genetic", "child",
            "financial-customer", "government", "critical-infra"]
KEY_CONTROL = ["customer-hsm", "customer-soft", "provider-kms"]
RECIPIENTS = ["same-controller", "processor", "third-party", "authority"]


class Refused(ValueError):
    """A document has an unknown, misplaced, missing or ill-typed member."""


def utf16(name):
    return name.encode("utf-16-be", "surrogatepass")


def ordered(value):
    """The same value, its members in the order of RFC 8785, 3.2.3."""
    if isinstance(value, dict):
        return {name: ordered(value[name]) for name in sorted(value, key=utf16)}
    return [ordered(one) for one in value] if isinstance(value, (list, tuple)) else value


def canon(value):
    """Canonical JSON text (RFC 8785 for the value types used here)."""
    return json.dumps(ordered(value), separators=(",", ":"), ensure_ascii=False)


def sha(value):
    """"sha256:<hex>" of the canonical JSON of value."""
    return "sha256:" + hashlib.sha256(canon(value).encode()).hexdigest()


TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}"
                  r"([.][0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})")


def parse_time(text):
    """RFC 3339 timestamp with an offset -> aware datetime, in microseconds."""
    if not TIME.fullmatch(text):
        raise Refused(f"not a timestamp with an offset: {text}")
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


# --- shapes: nothing is ever ignored -------------------------------------
# The first problem counts: names first, then members in the order of their
# names, so that the text of a warning is the same from every evaluator.
Scalar = namedtuple("Scalar", "holds what")
Object = namedtuple("Object", "required optional")
ListOf = namedtuple("ListOf", "shape least")
MapOf = namedtuple("MapOf", "shape key_holds", defaults=[None])
PLAIN = re.compile("[A-Za-z0-9_.-]{1,40}")


def check_object(shape, value, where):
    if not isinstance(value, dict):
        raise Refused(f"{where}: an object expected")
    known = {**shape.required, **shape.optional}
    for name in sorted(set(value) - set(known))[:1]:
        name = name if PLAIN.fullmatch(name) else "(its name has other letters)"
        raise Refused(f"{where}: a member that is not known: {name}")
    for name in sorted(set(shape.required) - set(value))[:1]:
        raise Refused(f"{where}.{name}: is missing")
    for name in sorted(value):
        check(known[name], value[name], f"{where}.{name}")


def check(shape, value, where):
    """Raise Refused unless value has exactly the given shape."""
    if isinstance(shape, Object):
        check_object(shape, value, where)
    elif isinstance(shape, ListOf):
        if not isinstance(value, list) or len(value) < shape.least:
            raise Refused(f"{where}: a list of at least {shape.least} expected")
        for member in value:
            check(shape.shape, member, where)
    elif isinstance(shape, MapOf):
        if not isinstance(value, dict):
            raise Refused(f"{where}: an object expected")
        if shape.key_holds and not all(map(shape.key_holds, value)):
            raise Refused(f"{where}: a name that is not of the form that is wanted")
        for member in value.values():
            check(shape.shape, member, f"{where}.*")
    elif not shape.holds(value):
        raise Refused(f"{where}: {shape.what} expected")


def matching(pattern, what):
    return Scalar(lambda value: isinstance(value, str) and bool(
        re.fullmatch(pattern, value)), what)


def choice(values, what):
    return Scalar(lambda value: isinstance(value, str) and value in values, what)


def whole(low, high=2**53):
    return Scalar(lambda value: type(value) is int and low <= value <= high,
                  "a whole number in its range")


def readable(parse):
    def holds(value):
        try:
            return isinstance(value, str) and bool(parse(value))
        except ValueError:
            return False
    return holds


def parse_day(text):
    return re.fullmatch("[0-9]{4}-[0-9]{2}-[0-9]{2}", text) and (
        datetime.date.fromisoformat(text))


SEGMENT = r"(\*\*?|[a-z0-9][a-z0-9._-]*)"
boolean = Scalar(lambda value: type(value) is bool, "true or false")
anything = Scalar(lambda value: True, "anything")
text = matching(r"(?s).+", "a text")
identifier = matching(r"[A-Za-z0-9][A-Za-z0-9._-]{1,63}", "an identifier")
pattern = matching(SEGMENT + "(/" + SEGMENT + ")*", "a scope pattern")
content_digest = matching(r"sha256:[0-9a-f]{64}", "a digest sha256:...")
uuid = matching(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "a UUID")
timestamp = Scalar(readable(parse_time), "a timestamp with an offset")
day = Scalar(readable(parse_day), "a day")
geo = matching(r"[A-Z]{2}(/[A-Z]{2,3})?", "a place such as AE/DU")
regime = matching(r"[A-Z0-9-]{2,24}", "the name of a regime")
classes, subject = choice(CLASSES, "a class"), choice(SUBJECTS, "a subject")
lineages, operation = choice(LINEAGES, "a lineage"), choice(OPS + LOOKS, "an operation")
recipient = choice(RECIPIENTS, "a kind of recipient")
key_control = choice(KEY_CONTROL, "a kind of key control")
some_text, some_ids, places = ListOf(text, 1), ListOf(identifier, 1), ListOf(geo, 1)
ops, some_subjects, some_regimes = ListOf(operation, 1), ListOf(subject, 1), ListOf(regime, 1)
V2 = "sijil.policy/v2"
version_word = choice(["sijil.policy/v1", V2], '"sijil.policy/v1" or "sijil.policy/v2"')

BASIS = ListOf(Object({"instrument": text}, {
    "article": text, "source": text, "verified": text}), 0)
TIGHTEN = Object({}, {"subjects_any": some_subjects, "attached_any": some_regimes,
                      "class_at_least": classes})
LOOSEN = Object({}, {"subjects_none": some_subjects, "class_at_most": classes})
DEMAND = Object({}, {**LOOSEN.optional, "lineage_at_least": lineages})
# test in a rule: (fact, form of the fact, form of the test, what holds, samples for random cases)
COMPARED = {
    "regime_any": ("regimes", ListOf(regime, 0), some_regimes, lambda have, wanted: bool(set(have) & set(wanted)),
                   ["AE-FED", "DIFC", "ADGM", "AE-CBUAE"]),
    "attrs_all": ("attrs", ListOf(text, 0), some_text, lambda have, wanted: set(wanted) <= set(have),
                  ["iso27001", "sovereign", "x", "ثلاثة", 'quo"te\\', "\u007f\t"]),
    "min_assurance": ("assurance", whole(0, 4), whole(0, 4), lambda have, wanted: have >= wanted, [0, 1, 2, 3, 4]),
    "recipient_in": ("recipient", recipient, ListOf(recipient, 1), lambda have, wanted: have in wanted, RECIPIENTS),
}
TARGET = Object({}, {
    "geo_within": places, "geo_in_group": some_ids, "regime_in_group": some_ids,
    "operator_not_controlled_from": places,
    "key_geo_within": places, "key_control_in": ListOf(key_control, 1),
    **{test: wanted for test, (_, _, wanted, _, _) in COMPARED.items()}})
OBLIGE = Object({}, {
    "anchor_copy": Object({"geo_within": places}, {"max_staleness_s": whole(0)}),
    "approvals": whole(1, 8), "signed_request": boolean,
    "min_sites": whole(1), "retain_min_days": whole(0), "retain_max_days": whole(0),
    "audit_retain_min_days": whole(0), "receipt": boolean,
    "notify": ListOf(text, 0), "evidence": ListOf(text, 0)})
RULE_TEXT = {"message": text, "basis": BASIS}
RULES = {  # effect -> shape of the whole rule
    effect: Object({"id": identifier, "effect": text, "ops": ops, **needs},
                   {"when": when, **takes, **RULE_TEXT})
    for effect, needs, when, takes in [
        ("require", {}, TIGHTEN,
         {"target": TARGET, "any_of": ListOf(TARGET, 1), "label": DEMAND}),
        ("deny", {}, TIGHTEN, {"target": TARGET, "any_of": ListOf(TARGET, 1)}),
        ("oblige", {"oblige": OBLIGE}, TIGHTEN, {}),
        ("permit", {}, LOOSEN, {})]}
POLICY = Object({
    "apiVersion": version_word, "kind": choice(["ResidencyPolicy"], '"ResidencyPolicy"'),
    "metadata": Object(
        {"id": identifier, "version": whole(1), "scope": ListOf(pattern, 1),
         "effective_from": timestamp, "review_by": day},
        {"applies_to_labels": TIGHTEN, "organisation": text, "supersedes": content_digest,
         "title": text, "disclaimer": text, "template": text}),
    "rules": ListOf(anything, 1)}, {
    "closed": boolean,
    "labels": Object({}, {"class": classes, "subjects": ListOf(subject, 0),
                          "attached": ListOf(regime, 0)}),
    "exception_types": MapOf(Object(
        {"lifts": some_ids, "required_evidence": ListOf(text, 0),
         "max_days": whole(1, 366), "approvals": whole(2)},
        {"adds": OBLIGE, "basis": BASIS}))})
PERSON = Object({"iss": text, "sub": text}, {})
EXCEPTION = Object({
    "apiVersion": version_word,
    "kind": choice(["ResidencyException"], '"ResidencyException"'), "id": identifier,
    "type": text, "project": uuid,
    "policy": Object({"id": identifier, "version": whole(1),
                      "digest": content_digest}, {}),
    "lifts": some_ids, "ops": ops, "targets": some_text,
    "digests": ListOf(content_digest, 1), "not_before": timestamp,
    "not_after": timestamp, "requested_by": PERSON,
    "approvals": ListOf(PERSON, 2), "evidence": MapOf(text)},
    {"revoked": boolean, "uses_left": whole(0)})
LABEL = Object({"class": classes, "subjects": ListOf(subject, 0),
                "attached": ListOf(regime, 0), "pins": ListOf(identifier, 0),
                "lineage": lineages}, {})
KNOWN = Object({}, {
    "geo": geo, **{fact: form for fact, form, _, _, _ in COMPARED.values()},
    "operator": Object({}, {"name": text, "controlled_from": ListOf(geo, 0)}),
    "key": Object({}, {"ring": text, "geo": geo, "control": key_control}),
    "location_evidence": text, "site": text})
GROUP = {kind: Object({"kind": anything, "members": ListOf(member, 0)},
                      {"as_of": text, "note": text, "review_by": text})
         for kind, member in (("geo", geo), ("regime", regime))}
FACTS = Object({
    "op": operation, "scope": matching(r"(?s).{1,255}", "a scope"), "project": uuid,
    "policy_epoch": whole(0), "label": anything, "digest": anything,
    "target_id": matching(r"(?s).{1,255}", "the name of a target"),
    "target": KNOWN, "now": timestamp, "exceptions": ListOf(anything, 0)}, {})


def check_ops(document, ops, where):
    """Raise Refused where a document names what its version has no name for."""
    if document["apiVersion"] != V2 and set(ops) & set(LOOKS):
        raise Refused(f'{where}.ops: stat and list are operations of "{V2}"')


def means(document, ops, op):
    """Is op among the operations that ops of this document means?"""
    return op in ops or (document["apiVersion"] != V2 and op in LOOKS and "read" in ops)


def check_exception(exception):
    check(EXCEPTION, exception, "exception")
    check_ops(exception, exception["ops"], "exception")


def check_restriction(policy):
    """What an organisation adds for itself only restricts, below its own name."""
    owner = policy["metadata"].get("organisation")
    if owner is None:
        return
    if not re.fullmatch(r"[a-z0-9._-]+", owner):
        raise Refused("policy.metadata.organisation: not a name")
    if not all(scope.startswith(owner + "/") and len(scope) > len(owner) + 1 for scope in policy["metadata"]["scope"]):
        raise Refused("policy.metadata.scope: not below the organisation")
    if not policy["metadata"]["id"].startswith(owner + ".") or len(policy["metadata"]["id"]) == len(owner) + 1:
        raise Refused("policy.metadata.id: does not begin with the organisation")
    effects = [rule.get("effect") if isinstance(rule, dict) else None for rule in policy["rules"]]
    if policy.get("closed") is not False or not all(effect in ("require", "deny") for effect in effects):
        raise Refused("a policy of an organisation only restricts")
    if {"labels", "exception_types"} & set(policy) or "applies_to_labels" in policy["metadata"]:
        raise Refused("a policy of an organisation only restricts")


def check_policy(policy):
    """Raise Refused unless the evaluator understands every member."""
    check(POLICY, policy, "policy")
    applies_to = policy["metadata"].get("applies_to_labels")
    if applies_to == {}:
        raise Refused("policy.metadata.applies_to_labels: empty")
    check_restriction(policy)
    names = set()
    for rule in policy["rules"]:
        effect = rule.get("effect") if isinstance(rule, dict) else None
        where = f"rule {rule.get('id') if effect else rule!r}"
        if not isinstance(effect, str) or effect not in RULES:
            raise Refused(f"{where}: unknown effect {effect!r}")
        check(RULES[effect], rule, where)
        check_ops(policy, rule["ops"], where)
        tests = [rule[name] for name in ("target", "any_of", "label") if name in rule]
        if len(tests) != (effect in ("require", "deny")):
            raise Refused(f"{where}: exactly one of target, any_of, label")
        for alternative in rule.get("any_of", tests):
            if not alternative:
                raise Refused(f"{where}: empty condition")
        if {"approvals", "signed_request"} & set(rule.get("oblige", {})) and "train" not in rule["ops"]:
            raise Refused(f"{where}: a duty of train in a rule that is not about it")
        if rule["id"] in names:
            raise Refused(f"{where}: duplicate rule id")
        names.add(rule["id"])


def check_groups(groups):
    """Raise Refused unless every member of a group could match something."""
    check(MapOf(anything, identifier.holds), groups, "groups")
    for group in groups.values():
        if not isinstance(group, dict) or group.get("kind") not in GROUP:
            raise Refused("groups: kind")
        check(GROUP[group["kind"]], group, "groups")


# --- labels ---------------------------------------------------------------
def make_label(klass="open", subjects=(), attached=(), pins=(), lineage="unknown"):
    return {"class": klass, "subjects": sorted(set(subjects)),
            "attached": sorted(set(attached)), "pins": sorted(set(pins)),
            "lineage": lineage}


def join(*labels):
    """The least strict label that is at least as strict as each; None is ignored."""
    labels = [label for label in labels if label is not None]

    def union(name):
        return set().union(*(label[name] for label in labels))
    return make_label(
        max((label["class"] for label in labels), key=CLASSES.index),
        union("subjects"), union("attached"), union("pins"),
        min((label["lineage"] for label in labels), key=LINEAGES.index))


def floor_of(policy):
    """The label that a policy imposes on its scope; it always pins itself."""
    floor = policy["labels"]
    return make_label(floor.get("class", "open"), floor.get("subjects", ()),
                      floor.get("attached", ()), [policy["metadata"]["id"]],
                      "attested")


def effective_label(policies, scope, own, now):
    """Floors of the policies in force in scope, joined with the artifact's own
    label.  Without an own label the lineage is unknown; without both: None."""
    floors = [floor_of(policy) for policy in policies if "labels" in policy
              and in_force(policy, now) and in_scope(policy, scope)]
    if own is None and not floors:
        return None
    return join(own or make_label(), *floors)


def stored_label_floor(stored, policies, scope, own, now):
    """The label of a stored artifact: never below its former label."""
    labels = [stored, effective_label(policies, scope, own, now)]
    return join(*labels) if any(labels) else None


# --- which policies apply ---------------------------------------------------
def scope_match(patterns, scope):
    """"*" is one segment, "**" is any number of them, also none."""
    def match(want, have):
        if not want:
            return not have
        if want[0] == "**":
            return any(match(want[1:], have[skip:]) for skip in range(len(have) + 1))
        if not have or (want[0] == "*" and have[0] == "**"):
            return False
        return want[0] in ("*", have[0]) and match(want[1:], have[1:])
    return any(match(one.split("/"), scope.split("/")) for one in patterns)


def in_force(policy, now):
    return parse_time(policy["metadata"]["effective_from"]) <= parse_time(now)


def in_scope(policy, scope):
    return scope_match(policy["metadata"]["scope"], scope)


def applies(policy, scope, label):
    """Whether the policy applies: by scope, by pin, or by the label."""
    meta = policy["metadata"]
    if in_scope(policy, scope) or meta["id"] in label["pins"]:
        return True
    wanted = meta.get("applies_to_labels")
    return wanted is not None and label_meets(wanted, label)[0] is True


# --- three-valued predicates ------------------------------------------------
def all_of(results):
    """Conjunction of [(truth, names)]: false beats unknown beats true."""
    for worst in (False, None):
        names = [who for truth, who in results if truth is worst]
        if names:
            return worst, set().union(*names)
    return True, set()


def any_of(results):
    """Disjunction of [(truth, names)]: true beats unknown beats false."""
    for best in (True, None):
        names = [who for truth, who in results if truth is best]
        if names:
            return best, set().union(*names)
    return False, set().union(*(who for _, who in results))


def geo_within(place, roots):
    """Path containment. If the root is more precise than the known place, the result is unknown."""
    if not place:
        return None
    if any(place == root or place.startswith(root + "/") for root in roots):
        return True
    if any(root.startswith(place + "/") for root in roots):
        return None
    return False


def free_of_control(controllers, roots):
    """Whether no controller is within the roots; unknown if none is named."""
    inside = [geo_within(place, roots) for place in controllers or [None]]
    if True in inside:
        return False
    return None if None in inside else True


def shares(have, wanted):
    return None if have is None else bool(set(have) & set(wanted))


def in_groups(kind, names, groups, fact, holds):
    """holds(members) -> True/False/None for each named group of that kind."""
    results = []
    for name in names:
        group = groups.get(name)
        if group is None or group["kind"] != kind:
            results.append((None, {"group:" + name}))
        else:
            results.append((holds(group["members"]), {fact}))
    return any_of(results)


def target_fact(name, wanted, target, groups):
    """One target predicate -> (truth, names)."""
    place, regimes = target.get("geo"), target.get("regimes")
    key, operator = target.get("key") or {}, target.get("operator") or {}
    if name in COMPARED:
        fact, _, _, holds, _ = COMPARED[name]
        return (None if target.get(fact) is None else holds(target[fact], wanted)), {fact}
    if name == "geo_within":
        return geo_within(place, wanted), {"geo"}
    if name == "geo_in_group":
        return in_groups("geo", wanted, groups, "geo",
                         lambda members: geo_within(place, members))
    if name == "regime_in_group":
        return in_groups("regime", wanted, groups, "regimes",
                         lambda members: shares(regimes, members))
    if name == "operator_not_controlled_from":
        return free_of_control(operator.get("controlled_from"), wanted), {"operator"}
    if name == "key_geo_within":
        return geo_within(key.get("geo"), wanted), {"key.geo"}
    if name == "key_control_in":
        control = key.get("control")
        return (None if not control else control in wanted), {"key.control"}
    raise Refused(f"unknown predicate {name}")


def target_meets(wanted, target, groups):
    return all_of([target_fact(name, value, target, groups)
                   for name, value in wanted.items()])


def label_fact(name, wanted, label):
    """One label condition -> (True or False, names)."""
    if name == "subjects_any":
        return shares(label["subjects"], wanted), {"label.subjects"}
    if name == "subjects_none":
        return not shares(label["subjects"], wanted), {"label.subjects"}
    if name == "attached_any":
        return shares(label["attached"], wanted), {"label.attached"}
    rank = CLASSES.index(label["class"])
    if name == "class_at_least":
        return rank >= CLASSES.index(wanted), {"label.class"}
    if name == "class_at_most":
        return rank <= CLASSES.index(wanted), {"label.class"}
    if name == "lineage_at_least":
        known = LINEAGES.index(label["lineage"])
        return known >= LINEAGES.index(wanted), {"label.lineage"}
    raise Refused(f"unknown label condition {name}")


def label_meets(wanted, label):
    return all_of([label_fact(name, value, label)
                   for name, value in wanted.items()])


def alternatives(rule):
    return rule["any_of"] if "any_of" in rule else [rule["target"]]


def judge(rule, label, target, groups):
    """A require or deny rule -> None if it holds, or {"unknown": [fact], "failed": [fact]}."""
    if "label" in rule:
        results = [label_meets(rule["label"], label)]
    else:
        results = [target_meets(one, target, groups) for one in alternatives(rule)]
    harmless = True if rule["effect"] == "require" else False
    if any_of(results)[0] is harmless:
        return None
    return {name: sorted(set().union(*(who for found, who in results if found is truth)))
            for name, truth in (("unknown", None), ("failed", False))}


# --- obligations and exceptions -----------------------------------------------
def merge(total, added):
    """Add obligations: largest minimum, smallest maximum, true over false, union of the lists."""
    for name, value in added.items():
        if name in ("approvals", "min_sites", "retain_min_days", "audit_retain_min_days"):
            total[name] = max(total.get(name, 0), value)
        elif name == "retain_max_days":
            total[name] = min(total.get(name, value), value)
        elif name == "anchor_copy":
            copies = total.get(name, [])
            total[name] = sorted(copies + [value] * (value not in copies), key=canon)
        elif name in ("notify", "evidence"):
            total[name] = sorted(set(total.get(name, [])) | set(value))
        elif name in ("receipt", "signed_request"):
            total[name] = total.get(name, False) or value
        else:
            raise Refused(f"unknown obligation {name}")
    return total


def lifts(exception, kind, rule, entry, facts):
    """Does this well-formed exception of this type lift this rule here, now?"""
    meta = entry.policy["metadata"]
    bound = {"id": meta["id"], "version": meta["version"], "digest": entry.digest}
    now = parse_time(facts["now"])
    starts = parse_time(exception["not_before"])
    ends = parse_time(exception["not_after"])
    asked = exception["requested_by"]
    approvers = {(who["iss"], who["sub"]) for who in exception["approvals"]}
    approvers.discard((asked["iss"], asked["sub"]))
    return (
        exception["policy"] == bound
        and exception["project"] == facts["project"]
        and rule["id"] in kind["lifts"] and rule["id"] in exception["lifts"]
        and means(exception, exception["ops"], facts["op"])
        and facts["target_id"] in exception["targets"]
        and facts["digest"] in exception["digests"]
        and starts <= now < ends
        and ends - starts <= datetime.timedelta(days=kind["max_days"])
        and len(approvers) >= kind["approvals"]
        and all(name in exception["evidence"] for name in kind["required_evidence"])
        and not exception.get("revoked", False)
        and exception.get("uses_left", 1) > 0)


# --- the decision ---------------------------------------------------------------
Entry = namedtuple("Entry", "name digest policy")


class PolicySet(tuple):
    """Checked policies as (id@version, digest, policy), sorted, without repeats."""


def load(policies):
    """[policy] -> PolicySet; raises Refused at the first invalid one."""
    if isinstance(policies, PolicySet):
        return policies
    entries = {}
    for policy in policies:
        check_policy(policy)
        meta = policy["metadata"]
        entry = Entry(f"{meta['id']}@{meta['version']}", sha(policy), policy)
        entries[entry.digest] = entry
    return PolicySet(sorted(entries.values(), key=lambda entry: entry[:2]))


def denial(rule, policy, message, unknown=(), failed=(), basis=()):
    return {"rule": rule, "policy": policy, "message": message,
            "unknown": list(unknown), "failed": list(failed), "basis": list(basis)}


def decide(policies, facts, world):
    """-> {"allow", "denies": [denial], "obligations", "lifted", "warnings",
    "evaluator", "policies": [digest], "groups": digest, "decision_id"}."""
    check(FACTS, facts, "facts")
    if facts["digest"] is not None:  # None: the content is not known yet
        check(content_digest, facts["digest"], "facts.digest")
    policies, groups = load(policies), world["groups"]
    check_groups(groups)
    label, now = facts["label"], parse_time(facts["now"])
    denies, lifted, warnings, obligations, exceptions = [], [], [], {}, []
    for exception in sorted(facts["exceptions"], key=canon):
        try:
            check_exception(exception)
            exceptions.append(exception)
        except Refused as problem:
            warnings.append({"code": "EXCEPTION-MALFORMED", "policy": "sys",
                             "detail": str(problem)})

    live = [entry for entry in policies if in_force(entry.policy, facts["now"])]
    if label is None:
        denies.append(denial("SYS-UNLABELLED", "sys", "no effective label",
                             unknown=["label"]))
        live = []
    else:
        check(LABEL, label, "facts.label")
        if not any(in_scope(entry.policy, facts["scope"]) for entry in live):
            denies.append(denial("SYS-NO-POLICY", "sys", "no policy in scope"))
        present = {entry.policy["metadata"]["id"] for entry in live
                   if "organisation" not in entry.policy["metadata"]}
        for pin in sorted(set(label["pins"]) - present):
            denies.append(denial("SYS-PIN-MISSING", pin, "inherited policy not in "
                                 "force here", unknown=["policy:" + pin]))

    granted = False  # by a permit of a policy in scope; pins and labels only restrict
    for entry in live:
        policy = entry.policy
        if not applies(policy, facts["scope"], label):
            continue
        if now.astimezone(datetime.timezone.utc).date() > \
                datetime.date.fromisoformat(policy["metadata"]["review_by"]):
            warnings.append({"code": "REVIEW-OVERDUE", "policy": entry.name,
                             "detail": policy["metadata"]["review_by"]})
        permitted = False
        for rule in policy["rules"]:
            if not means(policy, rule["ops"], facts["op"]) or \
                    label_meets(rule.get("when", {}), label)[0] is not True:
                continue
            if rule["effect"] == "permit":
                permitted = True
                continue
            if rule["effect"] == "oblige":
                merge(obligations, rule["oblige"])
                continue
            lack = judge(rule, label, facts["target"], groups)
            if lack is None:
                continue
            types = policy.get("exception_types", {})
            for exception in exceptions:
                kind = types.get(exception["type"])
                if kind and lifts(exception, kind, rule, entry, facts):
                    lifted.append({"rule": rule["id"], "policy": entry.name,
                                   "exception": exception["id"]})
                    merge(obligations, {**kind.get("adds", {}), "receipt": True})
                    break
            else:
                denies.append(denial(rule["id"], entry.name, rule.get("message", ""),
                                     basis=rule.get("basis", ()), **lack))
        if policy.get("closed", True) and not permitted:
            denies.append(denial("SYS-CLOSED", entry.name, "no permit rule of this "
                                 "policy matches the label and op"))
        granted = granted or (permitted and in_scope(policy, facts["scope"]))
    if label is not None and not granted:
        denies.append(denial("SYS-CLOSED", "sys", "no policy in scope permits this"))
    if obligations.get("retain_max_days", 2**53) < obligations.get("retain_min_days", 0):
        denies.append(denial("RETENTION-CONFLICT", "sys",
                             "minimum and maximum retention cannot both hold"))

    digests = sorted(entry.digest for entry in policies)
    inputs = {"facts": facts, "policies": digests, "groups": sha(groups),
              "evaluator": VERSION}
    return {"allow": not denies, "denies": denies, "obligations": obligations,
            "lifted": lifted, "warnings": warnings, "evaluator": VERSION,
            "policies": digests, "groups": inputs["groups"],
            "decision_id": sha(inputs)}


def region_facts(world, target_id, op, scope, label, digest, project, now, epoch=0):
    """Facts for the strongest client inside a region of the catalogue."""
    region = world["regions"].get(target_id, {})
    return {"op": op, "scope": scope, "project": project, "policy_epoch": epoch,
            "label": label, "digest": digest, "target_id": target_id,
            "target": {**region, "assurance": 4, "recipient": "same-controller"},
            "now": now, "exceptions": []}


def allowed_regions(policies, world, scope, label, digest, project, now, op="ingest"):
    policies = load(policies)
    return [name for name in sorted(world["regions"]) if decide(
        policies, region_facts(world, name, op, scope, label, digest, project, now),
        world)["allow"]]
