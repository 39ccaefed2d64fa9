"""`script/bench policies`: decisions over 1,000 and 10,000 rules in force, beside Cedar's and OPA's own libraries, with the same rules and questions.

A rule refuses some operations on content about one subject, in places that it does not list. Sijil gets it as JSON, Cedar as a forbid, OPA as data that its
module looks up by operation and subject. One process decides at a time; each reports its CPU time, and all must give the same answers."""
import json
import os
import random
import statistics
import subprocess

from registries import BUILD

OPERATIONS = ("ingest", "mount", "replicate", "backup", "restore", "promote", "metadata", "log")
SUBJECTS = ("personal", "special", "health", "biometric", "genetic", "child", "financial-customer", "government")
PLACES = [f"{country}/{part}" for country in ("AE", "SA", "OM", "KW", "DE") for part in ("DU", "AZ", "SH", "AJ", "UQ", "RK", "FU", "RI", "BE", "BY")]
HOME = "AE/DU"  # in the list of each rule, so there nothing is refused
QUESTIONS, SECONDS, TURNS = 200, 2, 3
NOW = "2026-12-15T00:00:00Z"
MODULE = """package sijil

deny contains rule.id if {
    some subject in input.subjects
    some rule in data.rules[input.op][subject]
    not rule.places[input.geo]
}

allow if count(deny) == 0
"""


def make_rules(chance, count):
    return [{"id": f"R-{number}", "ops": sorted(chance.sample(OPERATIONS, 3)), "subject": chance.choice(SUBJECTS),
             "places": sorted({HOME, *chance.sample(PLACES, chance.randint(1, 5))})} for number in range(count)]


def make_questions(chance, is_allowed):
    return [{"op": chance.choice(OPERATIONS), "subjects": sorted(chance.sample(SUBJECTS, 2)),
             "geo": HOME if is_allowed else chance.choice(PLACES[1:])} for _ in range(QUESTIONS)]


def sijil_policy(number, rules):
    return {"apiVersion": "sijil.policy/v1", "kind": "ResidencyPolicy", "closed": False,
            "metadata": {"id": f"policy-{number}", "version": 1, "scope": ["health/**"], "effective_from": "2026-01-01T00:00:00Z", "review_by": "2027-12-31"},
            "rules": rules}


def sijil_set(rules):
    """At most 250 rules a policy; the last one permits."""
    each = [{"id": rule["id"], "effect": "require", "ops": rule["ops"], "when": {"subjects_any": [rule["subject"]]},
             "target": {"geo_within": rule["places"]}} for rule in rules]
    size = min(250, max(1, len(each) // 20))
    policies = [sijil_policy(number, each[at:at + size]) for number, at in enumerate(range(0, len(each), size))]
    return policies + [sijil_policy(len(policies), [{"id": "R-PERMIT", "effect": "permit", "ops": list(OPERATIONS)}])]


def sijil_facts(question):
    return {"op": question["op"], "scope": "health/ct", "project": "5f0c8f0e-93a1-4c1a-8a4e-0d8f6d1f2b30", "policy_epoch": 1, "digest": None, "now": NOW,
            "label": {"class": "confidential", "subjects": question["subjects"], "attached": [], "pins": [], "lineage": "declared"},
            "target_id": "region", "target": {"geo": question["geo"]}, "exceptions": []}


def cedar_policies(rules):
    texts = ["permit(principal, action, resource);"]
    for rule in rules:
        actions = ", ".join(f'Action::"{operation}"' for operation in rule["ops"])
        texts.append(f'@id("{rule["id"]}")\nforbid(principal, action in [{actions}], resource) when '
                     f'{{ context.subjects.contains("{rule["subject"]}") && !{json.dumps(rule["places"])}.contains(context.geo) }};')
    return "\n".join(texts)


def opa_data(rules):
    found = {operation: {subject: [] for subject in SUBJECTS} for operation in OPERATIONS}
    for rule in rules:
        for operation in rule["ops"]:
            found[operation][rule["subject"]].append({"id": rule["id"], "places": dict.fromkeys(rule["places"], True)})
    return {"rules": found}


def write(folder, name, content):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="ascii") as file:
        file.write(content if isinstance(content, str) else json.dumps(content))
    return path


def engines(folder, rules, questions):
    """Name -> command, of those that could be built."""
    programs, asked = os.environ.get("PEERS_FOLDER", ""), write(folder, "questions.json", questions)
    facts = write(folder, "facts.json", [sijil_facts(question) for question in questions])
    found = {"Sijil": [os.path.join(BUILD, "bench/policy_bench"), "ask", write(folder, "set.json", sijil_set(rules)), facts]}
    if os.access(os.path.join(programs, "cedar"), os.X_OK):
        found["Cedar"] = [os.path.join(programs, "cedar"), write(folder, "rules.cedar", cedar_policies(rules)), asked]
    if os.access(os.path.join(programs, "opa"), os.X_OK):
        found["OPA"] = [os.path.join(programs, "opa"), write(folder, "sijil.rego", MODULE), write(folder, "data.json", opa_data(rules)), asked]
    return found


def ask(command, seconds):
    """Nanoseconds of CPU time a decision, and the answers."""
    nanoseconds, answers = subprocess.run([*command, str(seconds)], check=True, stdout=subprocess.PIPE, text=True).stdout.split()
    return int(nanoseconds), answers


def compare(folder, count, is_allowed, seconds):
    chance = random.Random(7 * count + is_allowed)
    commands = engines(folder, make_rules(chance, count), make_questions(chance, is_allowed))
    spent, answers = {name: [] for name in commands}, {}
    for _ in range(TURNS):
        for name, command in commands.items():
            nanoseconds, answers[name] = ask(command, seconds)
            spent[name].append(nanoseconds)
    assert len(set(answers.values())) == 1, f"the answers differ: {answers}"
    assert ("0" not in answers["Sijil"]) == is_allowed
    return {name: {"ns": round(statistics.median(each)), "all": each} for name, each in spent.items()}


def measure(folder, quick, record, tell):
    """Writes the figures, prints the table."""
    rows, names = [], []
    for count in (1000, 10000):
        for is_allowed in (True, False):
            found = compare(folder, count, is_allowed, 1 if quick else SECONDS)
            kind = "allowed" if is_allowed else "refused, mostly"
            tell(f"{count} rules, {kind}: {found}")
            record.put("decisions", f"{count} rules, {kind}", value=found)
            names = list(found)
            rows.append(f"| {count:,} rules, {kind} | " + " | ".join(f"{each['ns'] / 1000:,.1f} us" for each in found.values()) + " |")
    print("| CPU time of a decision | " + " | ".join(names) + " |", "|---|" + "---|" * len(names), *rows, sep="\n")
    for peer in ("Cedar", "OPA"):
        if peer not in names:
            print(f"left out: {peer}, which could not be had")
