#!/usr/bin/python3
"""Checks a proof of the audit log with code that shares nothing with ours (docs/formats/audit-log.md).

usage: audit_log.py VKEY ENTRY-FILE PROOF-FILE    exit status 0: verified; 1: not; 77: no Ed25519 here
       audit_log.py --vectors FILE                recomputes the trees and notes of the vectors from their definition, and
                                                  makes their decisions again
       audit_log.py --replay EXPORT SET-FILE...   makes the decisions of an export again, with policy sets as documents
Standard library, and python3-cryptography for Ed25519. Policies are asked of tests/policy/oracle.py.
"""
import base64
import datetime
import hashlib
import json
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "policy"))
sys.dont_write_bytecode = True
import oracle  # noqa: E402

try:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
except ImportError:
    sys.exit(77)


def leaf_hash(data):
    return hashlib.sha256(b"\x00" + data).digest()


def node_hash(left, right):
    return hashlib.sha256(b"\x01" + left + right).digest()


def split(count):
    k = 1
    while 2 * k < count:
        k *= 2
    return k


def tree_hash(leaves):
    """RFC 6962 2.1, word for word."""
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return leaves[0]
    k = split(len(leaves))
    return node_hash(tree_hash(leaves[:k]), tree_hash(leaves[k:]))


def root_from(path, index, size, leaf):
    """The root that an inclusion path leads to, from the definition of the path (RFC 6962 2.1.1), from the top."""
    if size == 1:
        if path:
            raise ValueError("the path is too long")
        return leaf
    if not path:
        raise ValueError("the path is too short")
    k = split(size)
    if index < k:
        return node_hash(root_from(path[:-1], index, k, leaf), path[-1])
    return node_hash(path[-1], root_from(path[:-1], index - k, size - k, leaf))


def read_vkey(vkey):
    name, key_id, material = vkey.split("+", 2)
    raw = base64.b64decode(material, validate=True)
    if len(raw) != 33 or raw[0] != 1:
        raise ValueError("not an Ed25519 key")
    if hashlib.sha256(name.encode() + b"\n" + raw).digest()[:4].hex() != key_id:
        raise ValueError("the key id is not that of the key")
    return name, bytes.fromhex(key_id), Ed25519PublicKey.from_public_bytes(raw[1:])


def open_note(note, vkey):
    """The text of a note that this key has signed."""
    name, key_id, public = read_vkey(vkey)
    text, signatures = note.rsplit("\n\n", 1)
    text += "\n"
    for line in signatures.splitlines():
        dash, signer, encoded = line.split(" ")
        raw = base64.b64decode(encoded, validate=True)
        if dash == "\u2014" and signer == name and raw[:4] == key_id:
            public.verify(raw[4:], text.encode())
            return text
    raise ValueError("the note is not signed by this key")


def check(vkey, entry, proof):
    head, note = proof.split("\n\n", 1)
    lines = head.split("\n")
    if lines.pop(0) != "c2sp.org/tlog-proof@v1":
        raise ValueError("not a tlog-proof")
    if lines[0].startswith("extra "):
        lines.pop(0)
    index = int(lines.pop(0).removeprefix("index "))
    path = [base64.b64decode(line, validate=True) for line in lines]
    origin, size, root = open_note(note, vkey).split("\n")[:3]
    if origin != vkey.split("+", 1)[0]:
        raise ValueError("another log")
    if not 0 <= index < int(size):
        raise ValueError("the index is outside the log")
    if root_from(path, index, int(size), leaf_hash(entry)) != base64.b64decode(root, validate=True):
        raise ValueError("the path does not lead to the root")
    return index


class Differs(ValueError):
    """The facts do not lead to the outcome of the entry."""


def utc(milliseconds):
    moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(milliseconds=milliseconds)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{milliseconds % 1000:03d}Z"


OPERATIONS = ("ingest", "mount", "replicate", "migrate", "cache", "backup", "restore", "read", "train", "promote", "metadata", "log", "key-wrap",
              "export", "stat", "list")
REFUSALS = (("SYS-NO-CREDENTIAL", "SYS-NOT-LIVE", "SYS-SCOPE", "SYS-NO-BINDING", "SYS-GRANT", "SYS-SELF-GRANT", "SYS-BOTH-OFFICERS"),
            ("SYS-STALE", "SYS-NOT-FOUND", "SYS-QUARANTINE", "SYS-DRAINING", "SYS-RETIRED", "SYS-NOT-CURRENT", "SYS-MISPLACED"), ("SYS-NO-POLICY",), ("SYS-LIMIT",))


def actions():
    """{action: its operations, in the order of their list} of audit/actions.def."""
    text = (pathlib.Path(__file__).resolve().parents[2] / "audit/actions.def").read_text(encoding="utf-8")
    rows = re.findall(r'^X\(\w+, "([a-z.]+)", \d+, ([A-Z_ |]+), ', text, re.MULTILINE)
    named = {f"OP_{name.upper().replace('-', '_')}": name for name in OPERATIONS}
    return {name: sorted((named[one] for one in ops.split(" | ") if one != "OP_NONE"), key=OPERATIONS.index) for name, ops in rows}


ACTIONS = actions()


def demand(holds, problem):
    if not holds:
        raise Differs(problem)


def check_refused(refused, event):
    ranks = [[number for number, rules in enumerate(REFUSALS) if rule in rules] for rule in refused]
    demand(all(ranks) and ranks == sorted(ranks) and len({str(rank) for rank in ranks}) == len(ranks), f"no decision is refused by {refused}")
    demand("SYS-NO-POLICY" not in refused or "policy" not in event["why"], "a set was in force")


def check_name(name, place, labels):
    """The name that was evaluated follows from the event."""
    scope = place.get("scope")
    if labels and name and "/" not in name:
        demand(scope is not None and re.fullmatch(re.escape(name) + "/[^/]+", scope), f"{scope} is no project of {name}")
    elif scope is not None:
        written = "".join(chr(byte) if 0x20 <= byte < 0x7f and chr(byte) not in '#"\\' else "?" for byte in scope.encode())
        demand(written == name != scope, f"{scope} is not the name of the event")


def check_facts(action, resource, facts, event):
    """Checks of the facts that do not depend on policies."""
    name, found, detail = resource.partition("#")
    wanted, labels = ACTIONS.get(action), action in ("project.label", "repository.label")
    demand(wanted is not None, f"there is no action {action}")
    check_refused(facts["refused"], event)
    for place in facts["judged"]:
        have = [asked["op"] for asked in place["operations"]]
        demand(have == [op for op in wanted if op in have], f"{have} are not operations of {action}")
        demand(("before" in place) == labels, "a label before, or none")
        check_name(name, place, labels)
    known = re.fullmatch("sha256:[0-9a-f]{64}", detail.split(" ")[0])
    demand(known or not facts["digest"] or (resource != event["res"] and not found), "the event has no digest")
    whole = [[asked["op"] for asked in place["operations"]] for place in facts["judged"]]
    if facts["refused"] or (labels and (event["out"] not in ("allowed", "completed") or "policy" not in event["why"])):
        return
    is_many = labels and "/" not in name
    demand(whole == [wanted] * (len(whole) if is_many else bool(wanted)), f"policies were not asked for all of {action}")


def is_of_no_project(action, resource, facts, event):
    """The event of an organisation's label does not show that the organisation had no project."""
    is_many = action in ("project.label", "repository.label") and "/" not in resource.partition("#")[0]
    return is_many and facts["judged"] == [] and not facts["refused"] and event["out"] != "denied" and "policy" in event["why"]


def ask(place, asked, label, event, policy_set):
    """The denials of one operation by policies, as (rule, policy), in the order of docs/formats/audit-log.md section 18."""
    networks = {entry.get("cidr") or ":".join(next(pair for pair in entry.items() if pair[0] != "facts")): entry["facts"] for entry in policy_set["networks"]}
    known = networks if asked["op"] in ("read", "stat", "list") else policy_set["regions"]
    if asked["op"] == "train":  # where the runner is
        known = {**networks, **known, **{"attested:" + name: {**facts, "assurance": 4} for name, facts in known.items()}}
    if known.get(asked["target_id"], {}) != asked["target"]:
        raise Differs(f"the set says something else of {asked['target_id']}")
    facts = {"op": asked["op"], "scope": place["scope"], "project": place["project"], "policy_epoch": policy_set["epoch"],
             "label": label, "digest": place["digest"], "target_id": asked["target_id"], "target": asked["target"],
             "now": utc(event["why"]["at"]),
             "exceptions": [one for one in policy_set["exceptions"] if one["project"] == place["project"] and exception_key(one) not in place.get("spent", [])]}
    answer = oracle.decide(policy_set["policies"], facts, {"groups": policy_set["groups"], "regions": policy_set["regions"]})
    if "before" not in place:
        place["lifting"] += [one["exception"] for one in answer["lifted"]]
        place["telling"] |= set(answer["obligations"].get("notify", []))
    return [(denial["rule"], denial["policy"]) for denial in answer["denies"]]


def exception_key(exception):
    return "sha256:" + hashlib.sha256(oracle.canon(exception).encode()).hexdigest()


def check_used(place, event, policy_set):
    """The exceptions that have lifted a rule, each once. Older facts do not name them, and older events do not count their use."""
    known = {exception_key(one): one for one in policy_set["exceptions"] if one["project"] == place["project"]}
    demand(all("uses_left" in known.get(key, {}) for key in place.get("spent", [])), "used up, and not in the set")
    if "used" not in place and not event["why"].get("note", "").startswith("use"):
        return
    demand([one["id"] for one in place.get("used", [])] == list(dict.fromkeys(place["lifting"])), "other exceptions have lifted rules")
    for one in place.get("used", []):
        demand(known[one["exception"]]["id"] == one["id"] and known[one["exception"]]["evidence"] == one["evidence"], "another exception")


def judge_place(place, event, policy_set):
    floor = oracle.effective_label(policy_set["policies"], place["scope"], None, utc(event["why"]["at"]))
    if floor is not None:
        floor["lineage"] = "attested"
        if place["label"] is None or oracle.join(place["label"], floor) != oracle.join(place["label"]):
            raise Differs("the label is below that of the policies")
    noted = []
    for asked in place["operations"]:
        denied = ask(place, asked, place["label"], event, policy_set)
        if "before" not in place:
            noted += denied
            continue
        before = ask(place, asked, place["before"], event, policy_set)
        own = [one for one in denied if not one[0].startswith("SYS-") and one[1] != "sys" and one not in before]
        noted += own[:1]
    check_used(place, event, policy_set)
    demand("told" not in place or place["told"] == sorted(place["telling"]), "others are told than the duties say")
    return noted


def judge_target(resource, facts, event, sets):
    """The rules that deny one target."""
    name, _, detail = resource.partition("#")
    digest = detail.split(" ")[0]
    noted = [(rule, "sys") for rule in facts["refused"] if rule != "SYS-LIMIT"]
    for place in facts["judged"]:
        known = facts["digest"] and re.fullmatch("sha256:[0-9a-f]{64}", digest)
        whole = {"scope": name, **place, "digest": digest if known else None, "lifting": [], "telling": set()}
        noted += judge_place(whole, event, sets[event["why"]["policy"]])
    return noted + [(rule, "sys") for rule in facts["refused"] if rule == "SYS-LIMIT"]


def replay(entry, texts, sets):
    """Makes the decision of an entry (bytes) again; False if it is not replayable; raises Differs."""
    event = json.loads(entry)
    if event["v"] == 1 or "id" not in event["why"]:
        return False
    if "facts" not in event:
        demand(len(event.get("also", [])) == 3, "the event lacks its facts")
        return False
    targets = [(event["act"], event["res"])] + [(act, res) for act, res, _ in event.get("also", [])]
    if [hashlib.sha256(text).hexdigest() for text in texts] != event["facts"]:
        raise Differs("these are not the facts that the entry commits to")
    noted = []
    for (action, resource), text in zip(targets, texts, strict=True):
        facts = json.loads(text)
        if facts["action"] != action:
            raise Differs("facts of another action")
        if "omitted" in facts:
            demand(facts["omitted"] is True and facts["judged"] == [], "left out and not left out")
            return False
        check_facts(action, resource, facts, event)
        if is_of_no_project(action, resource, facts, event):
            return False
        noted += judge_target(resource, facts, event, sets)
    rules = [rule for rule, _ in list(dict.fromkeys(noted))[:8]]
    said = event["why"].get("rules", [])
    if (event["out"] == "denied") != bool(rules) or (said != rules[:4] and said != rules[:1]):
        raise Differs(f"the facts lead to {rules}, the entry says {event['out']} by {said}")
    return True


def lies(event, facts):
    """(description, false facts that a gateway could commit to): each must be found."""
    first = facts[0]
    place = first["judged"][0] if first["judged"] else None
    yield "a refusal that there is not", {**first, "refused": ["SYS-MADE-UP"]}
    yield "left out and not left out", {**first, "omitted": False}
    yield "another action", {**first, "action": "blob.reap"}
    if place is None:
        return
    yield "nothing judged", {**first, "judged": []}
    yield "judged twice", {**first, "judged": [place, place]}
    yield "another name", {**first, "judged": [{**place, "scope": "acme/other/name"}]}
    yield "an operation twice", {**first, "judged": [{**place, "operations": place["operations"] * 2}]}
    yield "a label from before", {**first, "judged": [{**place, "before": place["label"]}]}
    if not re.search("#sha256:[0-9a-f]{64}", event["res"]):
        yield "a digest that the event lacks", {**first, "digest": True}


def check_lies(row, sets):
    """Commits to each lie: neither outcome may follow from it."""
    event, facts = json.loads(row["entry"]), [json.loads(text) for text in row["facts"]]
    if not facts or event["out"] == "denied":
        return
    for name, lie in lies(event, facts):
        texts = [canonical(one) for one in (lie, *facts[1:])]
        claimed = {**event, "act": lie["action"], "facts": [hashlib.sha256(text).hexdigest() for text in texts]}
        try:
            believed = replay(canonical(claimed), texts, sets)
        except Differs:
            continue
        raise AssertionError(f"{row['name']}: {name}: {believed}")


def canonical(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def check_decisions(decisions):
    for digest, document in decisions["sets"].items():
        rest = {name: value for name, value in document.items() if name != "digest"}
        assert digest == document["digest"] == oracle.sha(rest)
    for row in decisions["events"]:
        entry, texts = row["entry"].encode(), [text.encode() for text in row["facts"]]
        assert leaf_hash(entry).hex() == row["leaf_hash"] and canonical(json.loads(entry)) == entry, row["name"]
        assert all(canonical(json.loads(text)) == text for text in texts), row["name"]
        assert replay(entry, texts, decisions["sets"]) == (row["name"] != "version_1"), row["name"]
        check_lies(row, decisions["sets"])
        for place in range(len(texts)):
            changed = texts[:place] + [texts[place].replace(b'"v":1', b'"v":2')] + texts[place + 1:]
            try:
                replay(entry, changed, decisions["sets"])
                raise AssertionError(f"{row['name']}: changed facts were believed")
            except Differs:
                pass


def replay_export(path, set_files):
    """Prints the results, and returns whether nothing differs."""
    sets, counts = {}, {True: 0, False: 0}
    for name in set_files:
        document = json.loads(pathlib.Path(name).read_text(encoding="utf-8"))
        sets[document["digest"]] = document
    loaded = (0, 0)  # the newest epoch that an event has loaded, and its number
    for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        event = row["entry"]
        try:
            counts[replay(canonical(event), [canonical(one) for one in row["facts"]], sets)] += 1
            epoch = sets.get(event["why"].get("policy"), {"epoch": loaded[0]})["epoch"]
            demand(epoch >= loaded[0] or event["seq"] <= loaded[1] or event["out"] not in ("allowed", "denied"),
                   f"event {loaded[1]} had loaded a newer policy set")
        except Differs as problem:
            print(f"event {event['seq']}: {problem}", file=sys.stderr)
            return False
        detail = event["res"].split(" ")
        if event["act"] == "policy.load" and event["out"] == "allowed" and len(detail) == 3:
            loaded = max(loaded, (int(detail[1]), event["seq"]))
    if not sum(counts.values()):
        print("the export has no event", file=sys.stderr)
        return False
    print(f"{counts[True]} decisions agree, {counts[False]} events are not replayable")
    return True


def check_vectors(path):
    with open(path, encoding="utf-8") as file:
        vectors = json.load(file)
    tree = vectors["tree8"]
    leaves = [leaf_hash(bytes.fromhex(text)) for text in tree["leaves_hex"]]
    for size, root in enumerate(tree["roots_0_to_8"]):
        assert tree_hash(leaves[:size]).hex() == root, size
    for row in tree["inclusion"]:
        path = [bytes.fromhex(text) for text in row["proof"]]
        assert root_from(path, row["index"], row["size"], leaves[row["index"]]).hex() == tree["roots_0_to_8"][row["size"]]
    large = [leaf_hash(f"sijil-{i}".encode()) for i in range(70000)]
    assert tree_hash(large).hex() == vectors["size_70000"]["root"]
    for note in vectors["checkpoints"].values():
        open_note(note, vectors["log_key"]["vkey"])
    check_decisions(vectors["decisions"])
    entry = bytes.fromhex(tree["leaves_hex"][5])
    assert check(vectors["log_key"]["vkey"], entry, vectors["tlog_proof_index_5_size_8"]) == 5


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "--vectors":
        check_vectors(sys.argv[2])
        return 0
    if len(sys.argv) >= 3 and sys.argv[1] == "--replay":
        return 0 if replay_export(sys.argv[2], sys.argv[3:]) else 1
    if len(sys.argv) != 4:
        print(__doc__, file=sys.stderr)
        return 2
    with open(sys.argv[2], "rb") as file:
        entry = file.read()
    with open(sys.argv[3], encoding="utf-8", newline="") as file:
        proof = file.read()
    try:
        print(f"verified: entry {check(sys.argv[1], entry, proof)}")
    except (ValueError, InvalidSignature) as problem:
        print(f"not verified: {problem!r}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
