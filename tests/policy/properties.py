"""Random cases with a fixed seed: the properties that the language promises, wide
inputs that only two evaluators can agree on, and documents with one thing wrong.
"""
import copy
import itertools
import random

import oracle
from fixtures import (
    ALL, D1, D2, HEALTH, NOW, OTHER_PROJECT, POLICY_SCHEMA, PROJECT, RECORD, RESEARCH,
    WITH_RESEARCH, WORLD, check_policy, decide, facts, permit, policy, sha)
from oracle import CLASSES, COMPARED, KEY_CONTROL, LINEAGES, LOOKS, ListOf, OPS, V2, RECIPIENTS, Refused, join, load, make_label

RANDOM = random.Random(7)
SUBJECTS = ["personal", "health", "financial-customer", "government"]
REGIMES = ["AE-FED", "DIFC", "ADGM", "AE-CBUAE"]
GEOS = ["AE", "AE/DU", "AE/AZ", "SA", "US", "DE"]
SCOPES = ["health/a", "difcbank/a", "public/a", "research/a"]
SOME_OPS = ["ingest", "read", "train"]
ASKED_OPS = SOME_OPS + LOOKS


def some(values, most, least=0):
    return RANDOM.sample(values, RANDOM.randint(least, most))


def random_target():
    makers = {
        "geo_within": lambda: some(GEOS, 3, 1), "regime_any": lambda: some(REGIMES, 3, 1),
        "geo_in_group": lambda: some(["GCC", "EEA", "NOWHERE"], 2, 1),
        "operator_not_controlled_from": lambda: some(GEOS, 2, 1),
        "min_assurance": lambda: RANDOM.randint(0, 3)}
    return {name: makers[name]() for name in some(sorted(makers), 2, 1)}


def random_when(loosen):
    makers = {"class_at_most": lambda: RANDOM.choice(CLASSES[1:]),
              "subjects_none": lambda: some(SUBJECTS, 1, 1)} if loosen else {
              "class_at_least": lambda: RANDOM.choice(CLASSES),
              "subjects_any": lambda: some(SUBJECTS, 2, 1),
              "attached_any": lambda: some(REGIMES, 2, 1)}
    return {name: makers[name]() for name in some(sorted(makers), 2)}


def random_rule(index):
    effect = RANDOM.choice(["require", "deny", "permit", "permit", "oblige"])
    rule = {"id": f"R{index}", "effect": effect, "ops": some(SOME_OPS, 3, 1),
            "when": random_when(effect == "permit")}
    if effect == "oblige":
        rule["oblige"] = RANDOM.choice([{"min_sites": 2}, {"retain_min_days": 9},
                                        {"retain_max_days": 5}, {"notify": ["x"]}])
    elif effect == "require" and RANDOM.random() < .3:
        rule["label"] = {"lineage_at_least": RANDOM.choice(LINEAGES)}
    elif effect != "permit":
        rule.update(RANDOM.choice([{"target": random_target()},
                                   {"any_of": [random_target(), random_target()]}]))
    return rule


def random_policy(index):
    meta = {"effective_from": RANDOM.choice(
        ["2026-01-01T00:00:00Z"] * 5 + ["2027-01-01T00:00:00Z"])}
    reach = random_when(False)
    if reach and RANDOM.random() < .5:
        meta["applies_to_labels"] = reach
    scope = some(["**", "health/**", "public/*", "research/a", "*/a", "none"], 2, 1)
    found = policy(f"random-{index}", scope, [random_rule(n) for n in range(RANDOM.randint(1, 3))],
                   metadata=meta, closed=RANDOM.random() < .3)
    found = sometimes_v2(found)
    POLICY_SCHEMA.validate(found)
    return found


def as_v2(document):
    """The same policy, every operation by its name."""
    found = copy.deepcopy(document)
    found["apiVersion"] = V2
    for rule in found["rules"]:
        rule["ops"] = rule["ops"] + LOOKS * ("read" in rule["ops"])
    return found


def sometimes_v2(document):
    """A third of them in the second version, with operations that only it can name."""
    if RANDOM.random() < .67:
        return document
    found = {**copy.deepcopy(document), "apiVersion": V2}
    for rule in found["rules"]:
        rule["ops"] = some(ASKED_OPS, 4, 1)
        add_train(rule)
    return found


def random_label(names):
    return make_label(RANDOM.choice(CLASSES), some(SUBJECTS, 2), some(REGIMES, 1),
                      some(names, 1), RANDOM.choice(LINEAGES))


def with_refusal(policies):
    """The same policies, one of them with one more rule that can only refuse."""
    found = copy.deepcopy(policies)
    rule = random_rule(9)
    while rule["effect"] not in ("require", "deny"):
        rule = random_rule(9)
    RANDOM.choice(found)["rules"].append(rule)
    return found


def slow_case_properties(share):
    """For random sets S, facts x and one more policy p:
    1. decide(S, x with a raised label) allows only if decide(S, x) allows;
    2. decide(S + p, x) allows only if decide(S, x) allows, or all that denied x was
       the lack of something p brings: the first policy in scope, the first
       permit in scope, or a pinned policy that was missing;
    3. decide(S, x) does not depend on the order of S;
    4. a policy of v1 has the same meaning in v2 with stat and list beside read: only the digests differ;
    5. a further rule of `require` or `deny` in a policy of S allows nothing that decide(S, x) denies, and takes no denial away.
    """
    trials = 40000 // share
    pool = WITH_RESEARCH + [random_policy(index) for index in range(40)]
    names = [one["metadata"]["id"] for one in pool[1:3] + pool[5:8]]
    raised = added = first = orders = rewritten = stricter = 0
    for _ in range(trials):
        chosen = some(pool, 4, 1) + [RESEARCH] * (RANDOM.random() < .5)
        extra = RANDOM.choice([one for one in pool if one not in chosen])
        low = random_label(names)
        if RANDOM.random() < .5:
            low = make_label(lineage="attested")
        asked = facts(RANDOM.choice(ASKED_OPS), RANDOM.choice(SCOPES),
                      RANDOM.choice(sorted(WORLD["regions"])), label=low,
                      assurance=RANDOM.choice([0, 1, 2, 4]))
        if RANDOM.random() < .2:
            del asked["target"]["geo"]
        small = load(chosen)
        here = decide(small, asked, WORLD)  # this one is recorded; the others are for the oracle alone
        higher = {**asked, "label": join(low, random_label(names))}
        if oracle.decide(small, higher, WORLD)["allow"]:
            raised += 1
            assert here["allow"], (chosen, asked, higher)
        if oracle.decide(load(chosen + [extra]), asked, WORLD)["allow"]:
            added += 1
            lacks = [(one["rule"], one["policy"]) for one in here["denies"]]
            first += bool(lacks)
            assert set(lacks) <= {("SYS-NO-POLICY", "sys"), ("SYS-CLOSED", "sys"),
                                  ("SYS-PIN-MISSING", extra["metadata"]["id"])}, lacks
        if RANDOM.random() < .5:
            found = oracle.decide(load(with_refusal(chosen)), asked, WORLD)
            stricter += here["allow"] and not found["allow"]
            assert here["allow"] or not found["allow"], (chosen, asked)
            assert {(one["rule"], one["policy"]) for one in here["denies"]} <= {(one["rule"], one["policy"]) for one in found["denies"]}, (chosen, asked)
        if len(small) > 1:
            orders += 1
            RANDOM.shuffle(chosen)
            assert oracle.decide(chosen, asked, WORLD) == here
        if any(one["apiVersion"] != V2 for one in chosen):
            rewritten += here["allow"]
            again = decide([one if one["apiVersion"] == V2 else as_v2(one) for one in chosen], asked, WORLD)
            said = ("allow", "denies", "obligations", "lifted", "warnings")
            assert all(again[name] == here[name] for name in said), (chosen, asked)
    print(f"   {trials} trials: {raised} raised, {added} added ({first} first), {orders} orders, {rewritten} rewritten, {stricter} stricter")
    assert min(raised, added - first, first, orders, rewritten, 5 * stricter) > 1500 // share


# --- wide inputs: every predicate, obligation and exception -----------------------
NAMES = ["Aa", "b-1", "c.d", "zz_9"]
TEXTS = ["iso27001", "sovereign", "x", "ثلاثة", 'quo"te\\', "\u007f\t"]


def often(value, chance=.7):
    return [value] * (RANDOM.random() < chance)


def present(**makers):
    """An object with some of these members."""
    return {name: make() for name, make in makers.items() if RANDOM.random() < .6}


def sampled(form, samples, least=0):
    """A maker of values of a fact, or of its test."""
    return (lambda: some(samples, 3, least)) if isinstance(form, ListOf) else (lambda: RANDOM.choice(samples))


def wide_target_test():
    makers = {
        "geo_within": lambda: some(GEOS, 3, 1), "geo_in_group": lambda: some(["GCC", "EEA", "NOWHERE", "DIFC-ADEQUATE"], 3, 1),
        "regime_in_group": lambda: some(["DIFC-ADEQUATE", "GCC", "LOST"], 3, 1),
        "operator_not_controlled_from": lambda: some(GEOS + ["US/CA"], 2, 1),
        "key_geo_within": lambda: some(GEOS, 2, 1), "key_control_in": lambda: some(KEY_CONTROL, 2, 1),
        **{test: sampled(form, samples, 1) for test, (_, _, form, _, samples) in COMPARED.items()}}
    return {name: makers[name]() for name in some(sorted(makers), 3, 1)}


def wide_oblige():
    return present(
        anchor_copy=lambda: {"geo_within": some(GEOS, 2, 1), **present(max_staleness_s=lambda: RANDOM.randint(0, 9))},
        min_sites=lambda: RANDOM.randint(1, 4), retain_min_days=lambda: RANDOM.randint(0, 40),
        retain_max_days=lambda: RANDOM.randint(0, 99), audit_retain_min_days=lambda: RANDOM.randint(0, 9),
        approvals=lambda: RANDOM.randint(1, 8), signed_request=lambda: RANDOM.random() < .5,
        receipt=lambda: RANDOM.random() < .5, notify=lambda: some(TEXTS, 2), evidence=lambda: some(TEXTS, 3))


def add_train(rule):
    """Adds the operation train, because duties of a run belong to rules about it."""
    if {"approvals", "signed_request"} & set(rule.get("oblige", {})) and "train" not in rule["ops"]:
        rule["ops"].append("train")


def wide_rule(index):
    effect = RANDOM.choice(["require", "require", "deny", "permit", "permit", "oblige"])
    rule = {"id": f"R{index}", "effect": effect, "ops": some(SOME_OPS, 3, 1), **present(
        when=lambda: random_when(effect == "permit"), message=lambda: RANDOM.choice(TEXTS),
        basis=lambda: [{"instrument": RANDOM.choice(TEXTS), **present(article=lambda: "13")}])}
    if effect == "oblige":
        rule["oblige"] = wide_oblige()
        add_train(rule)
    elif effect == "require" and RANDOM.random() < .3:
        rule["label"] = RANDOM.choice([
            {"lineage_at_least": RANDOM.choice(LINEAGES)}, {"class_at_most": RANDOM.choice(CLASSES)},
            {"subjects_none": some(SUBJECTS, 2, 1), "class_at_most": RANDOM.choice(CLASSES)}])
    elif effect != "permit":
        rule.update(RANDOM.choice([{"target": wide_target_test()},
                                   {"any_of": [wide_target_test() for _ in range(RANDOM.randint(1, 3))]}]))
    return rule


def with_repeats(rules):
    """Rules of the same tests, effects and operations, between others."""
    repeated = [dict(RANDOM.choice(rules)) for _ in range(RANDOM.choice([0, 0, 2, 4]))]
    mixed = rules + repeated
    RANDOM.shuffle(mixed)
    return [{**rule, "id": f"R{n}"} for n, rule in enumerate(mixed)]


def wide_policy(index):
    scopes = ["**", "health/**", "public/*", "research/a", "*/a", "none", "**/a", "health/**/a", "**/**", "a.b_c-d"]
    meta = {"review_by": RANDOM.choice(["2026-12-14", "2026-12-15", "2027-12-31"]), "effective_from": RANDOM.choice(
        ["2026-01-01T00:00:00Z"] * 4 + ["2026-12-15T04:00:00.0+04:00", "2026-12-15T00:00:00.000001Z"])}
    reach = random_when(False)
    if reach and RANDOM.random() < .5:
        meta["applies_to_labels"] = reach
    types = {kind: {"lifts": some([f"R{n}" for n in range(4)], 4, 2), "required_evidence": some(["a", "b"], 1),
                    "max_days": RANDOM.choice([1, 40, 41, 366]), "approvals": RANDOM.choice([2, 2, 3]),
                    **present(adds=wide_oblige)} for kind in some(["one", "two"], 2, 1)}
    found = policy(f"wide-{index}", some(scopes, 2, 1), with_repeats([wide_rule(n) for n in range(RANDOM.randint(1, 4))]),
                   metadata=meta, exception_types=types, **present(
                       closed=lambda: RANDOM.random() < .3, labels=lambda: present(
                           **{"class": lambda: RANDOM.choice(CLASSES)}, subjects=lambda: some(SUBJECTS, 2),
                           attached=lambda: some(REGIMES, 2))))
    found = sometimes_v2(sometimes_of_organisation(found, index))
    POLICY_SCHEMA.validate(found)
    return found


def sometimes_of_organisation(found, index):
    """What an organisation adds for itself: it restricts there, and satisfies no pin, also if a label holds its id."""
    rules = [rule for rule in found["rules"] if rule["effect"] in ("require", "deny")]
    if not rules or RANDOM.random() < .8:
        return found
    scope = some(["health/**", "health/a", "health/*", "health/**/a"], 2, 1)
    return policy(f"health.wide-{index}", scope, rules, closed=False, metadata={
        "organisation": "health", "effective_from": found["metadata"]["effective_from"], "review_by": found["metadata"]["review_by"]})


def wide_known():
    known = dict(RANDOM.choice([{}, *WORLD["regions"].values()]))
    known.update(present(geo=lambda: RANDOM.choice(GEOS), **{fact: sampled(form, samples) for fact, form, _, _, samples in COMPARED.values()})
                 if RANDOM.random() < .5 else {})
    for name in ("geo", "regimes", "key", "operator", "attrs"):
        if RANDOM.random() < .15:
            known.pop(name, None)
    if "operator" in known and RANDOM.random() < .3:
        known["operator"] = present(name=lambda: "x", controlled_from=lambda: some(GEOS + ["US/CA"], 2))
    if "key" in known and RANDOM.random() < .3:
        known["key"] = present(geo=lambda: RANDOM.choice(GEOS), control=lambda: RANDOM.choice(KEY_CONTROL))
    return known


def person():
    return {"iss": RANDOM.choice(["https://a.example", "https://b.example"]), "sub": RANDOM.choice("uvw")}


def wide_exception(policies):
    bound = RANDOM.choice(policies)
    meta = bound["metadata"]
    found = {
        "apiVersion": "sijil.policy/v1", "kind": "ResidencyException", "id": f"exc-{RANDOM.randint(1, 5)}",
        "type": RANDOM.choice(["one", "two", "one"]), "project": RANDOM.choice([PROJECT] * 9 + [OTHER_PROJECT]),
        "policy": {"id": meta["id"], "version": 1, "digest": sha(bound) if RANDOM.random() < .95 else D2},
        "lifts": some([f"R{n}" for n in range(4)], 4, 3), "ops": some(SOME_OPS, 3, 2), "targets": some(["t1", "t2"], 2, 1),
        "digests": [D1] if RANDOM.random() < .9 else [D2],
        "not_before": RANDOM.choice(["2026-12-01T00:00:00Z", "2026-12-15T00:00:00Z"]),
        "not_after": RANDOM.choice(["2026-12-15T00:00:01Z", "2027-01-10T00:00:00+04:00", "2027-01-10T00:00:00Z"]),
        "requested_by": person(), "approvals": [person() for _ in range(RANDOM.randint(3, 7))],
        "evidence": {name: "1" for name in "ab" if RANDOM.random() < .9},
        **(present(revoked=lambda: RANDOM.random() < .2, uses_left=lambda: RANDOM.randint(0, 9)))}
    if RANDOM.random() < .3:
        found.update(apiVersion=V2, ops=some(ASKED_OPS, 5, 2))
    return broken(found) if RANDOM.random() < .15 else found


def places_of(value, path=()):
    yield path
    if isinstance(value, (dict, list)):
        for name in (value if isinstance(value, dict) else range(len(value))):
            yield from places_of(value[name], (*path, name))


WRONG = [None, True, False, 0, -1, 1, 3, 2**53, 2**53 + 1, "", "x", "AE", "ae", "*", "**", "a/b", "2026-02-30", "open",
         "2026-12-15T00:00:00Z", "2026-12-15T00:00:00", "2026-13-15T00:00:00Z", "sha256:" + "0" * 64, [], {}, ["x"],
         [["x"]], {"x": 1}, "\u0600", "require", 1.5]


def broken(document):
    """A copy with one member changed, removed or added."""
    found = copy.deepcopy(document)
    path = RANDOM.choice([one for one in places_of(found) if one])
    place = found
    for step in path[:-1]:
        place = place[step]
    change = RANDOM.randint(0, 3)
    if change == 0:
        del place[path[-1]]
    elif change == 1 and isinstance(place, dict):
        place[RANDOM.choice(["x", "note", "id", "target", "b\u00e9", "9" * 41, "label", "zz top"])] = RANDOM.choice(WRONG)
    elif change == 2 and isinstance(place, list):
        place.append(copy.deepcopy(RANDOM.choice(place + WRONG)))
    else:
        place[path[-1]] = copy.deepcopy(RANDOM.choice(WRONG))
    return found


def no_fraction(value):
    """Floats have no canonical text; both evaluators refuse them, but at different steps."""
    return not any(isinstance(one, float) for one in leaves(value))


def leaves(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from leaves(one)
    else:
        yield value


def slow_case_wide(share):
    pool = [wide_policy(index) for index in range(60)] + ALL
    allowed = lifted = malformed = 0
    for _ in range(60000 // share):
        chosen = some(pool, 5, 1)
        pins = [one["metadata"]["id"] for one in chosen] + ["lost-1", "lost-2"]
        label = make_label(RANDOM.choice(CLASSES[:3]), some(SUBJECTS, 2), some(REGIMES, 2), some(pins, 1), RANDOM.choice(LINEAGES))
        exceptions = [one for one in (wide_exception(chosen) for _ in range(RANDOM.randint(0, 3))) if no_fraction(one)]
        asked = {
            "op": RANDOM.choice(ASKED_OPS), "scope": RANDOM.choice(SCOPES + ["public", "a.b_c-d", "x/y/a", "health/x/y/a", "/", "**"]),
            "project": PROJECT, "policy_epoch": RANDOM.randint(0, 2**53), "label": RANDOM.choice([label] * 20 + [None]),
            "digest": RANDOM.choice([D1] * 9 + [None]), "target_id": RANDOM.choice(["t1", "t2"]), "target": wide_known(),
            "now": RANDOM.choice(["2026-12-15T00:00:00Z", NOW, "2026-12-15T03:59:59.999999+04:00", "2026-12-16T00:00:00Z"]),
            "exceptions": exceptions}
        found = decide(chosen, asked, WORLD)
        allowed += found["allow"]
        lifted += bool(found["lifted"])
        malformed += any(one["code"] == "EXCEPTION-MALFORMED" for one in found["warnings"])
    print(f"   {60000 // share} wide: {allowed} allowed, {lifted} lifted, {malformed} with malformed exceptions")
    assert min(allowed, lifted, malformed) > 400 // share


def slow_case_documents(share):
    """Both evaluators refuse the same documents."""
    pool = [wide_policy(index) for index in range(20)] + ALL
    count = {True: 0, False: 0}
    for _ in range(20000 // share):
        document = broken(RANDOM.choice(pool))
        if not no_fraction(document):
            continue
        try:
            check_policy(document)
            count[True] += 1
        except Refused:
            count[False] += 1
    print(f"   {count[True]} documents taken, {count[False]} refused")
    assert min(count.values()) > 1000 // share
