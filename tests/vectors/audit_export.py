#!/usr/bin/python3
"""Checks an export of the audit log, with code that shares nothing with the server's (docs/formats/audit-export.md).

usage: audit_export.py VKEY FILE [NONCE]    exit status 0: complete, if the writer was honest; 1: not; 77: no Ed25519 here
       audit_export.py --vectors FILE       the vectors: those that hold, and those that must be refused
"""
import base64
import csv
import datetime
import hashlib
import io
import json
import re
import sys

import audit_log

END, LINE_MAX = (1 << 53) - 1, 262144
PLACES = ["left", "event", "right", "closing"]
TITLES = b"place,seq,time,outcome,action,resource,region,actor,subject,address,rules,decision,payload,salt,proof,leaf\r\n"
UNDEFINED = {3002: ("api", "resources"), 6002: ("actor", "api", "http_request", "resources", "src_endpoint"), 2004: ("actor", "api", "http_request", "src_endpoint")}
PRODUCT = {"name": "Sijil", "vendor_name": "Sijil"}
TERMS = re.compile(r"(number|time) (0|[1-9][0-9]*) (0|[1-9][0-9]*) ([0-9a-f]{32,64}) (sealed|opened) (.+)")


class Refused(ValueError):
    """The file is no complete export."""


def demand(condition, why):
    if not condition:
        raise Refused(why)


def canonical(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def once(pairs):
    demand(len({name for name, _ in pairs}) == len(pairs), "a member twice")
    return dict(pairs)


def parse(text):
    return json.loads(text, object_pairs_hook=once)


# ---- keys (audit-log.md section 13, audit-export.md section 1) ----

def possible(key):
    kind, name = key[:4], key[4:]
    if not 1 <= len(name) <= 255:
        return False
    if kind == "act:":
        return name in ("anonymous", "system") or re.fullmatch("[0-9a-f]{64}", name) is not None
    if kind == "out:":
        return name in ("denied", "failed")
    return kind in ("org:", "prj:", "res:") and "#" not in name


def keys_of_name(name):
    parts = name.split("/")
    found = [("org:", parts[0]), ("res:", name)] + ([("prj:", "/".join(parts[:2]))] if len(parts) > 1 else [])
    return {kind + text for kind, text in found if 1 <= len(text) <= 255}


def terms_of(leaf):
    if leaf["act"] != "audit.export" or leaf["out"] != "allowed" or "also" in leaf:
        return None
    found = TERMS.fullmatch(leaf["res"].partition("#")[2])
    if not found or not int(found[2]) <= int(found[3]) <= END or not possible(found[6]):
        return None
    return {"unit": found[1], "from": int(found[2]), "until": int(found[3]), "nonce": found[4], "opened": found[5] == "opened", "key": found[6]}


def keys_of(leaf):
    keys = {"act:" + leaf["actor"]}
    for name in [leaf["res"]] + [target[1] for target in leaf.get("also", [])]:
        keys |= keys_of_name(name.partition("#")[0])
    if leaf["out"] in ("denied", "failed"):
        keys.add("out:" + leaf["out"])
    terms = terms_of(leaf)
    if terms:
        keys |= {terms["key"]} | (keys_of_name(terms["key"][4:]) if terms["key"][:4] in ("org:", "prj:", "res:") else set())
    return keys


# ---- what a line shows ----

def text_of(payload, name):
    value = (payload or {}).get(name)
    return value if isinstance(value, str) else ""


def cell(text):
    raw = text.encode()
    raw = bytes(63 if byte < 32 else byte for byte in raw)
    return b'"' + (b"'" if raw[:1] in (b"=", b"+", b"-", b"@") else b"") + raw.replace(b'"', b'""') + b'"'


def csv_line(cells):
    return b",".join(cell(text) for text in cells) + b"\r\n"


def ocsf(text, leaf, payload):
    failed, kind = leaf["out"] in ("denied", "failed"), leaf["cls"] // 100
    user = {"uid": leaf["actor"]}
    user.update({name: payload[member] for name, member in (("name", "subject"), ("domain", "issuer"))
                 if payload and isinstance(payload.get(member), str)})
    targets = [(leaf["act"], leaf["res"], leaf["rgn"])] + [tuple(target) for target in leaf.get("also", [])]
    shown = {"activity_id": leaf["cls"] % 100, "category_uid": kind // 1000, "class_uid": kind, "type_uid": leaf["cls"], "time": leaf["ts"],
             "metadata": {"product": PRODUCT, "sequence": leaf["seq"], "version": "1.3.0"}, "raw_data": text, "actor": {"user": user},
             "api": {"operation": leaf["act"], "request": {"uid": leaf["req"]}}, "severity_id": 2 if failed else 1,
             "src_endpoint": {"ip": payload["address"]} if text_of(payload, "address") or (payload and payload.get("address") == "") else {"name": "sealed"},
             "status": "Failure" if failed else "Success", "status_id": 2 if failed else 1, "status_code": leaf["out"],
             "resources": [{"name": res, "type": act, **({"data": {"region": region}} if region else {})} for act, res, region in targets]}
    if leaf["why"].get("rules"):
        shown["status_detail"] = " ".join(leaf["why"]["rules"])
    if kind == 3002:
        shown.update({"user": user, "service": {"name": "sijild"}})
    if kind == 2004:
        shown["finding_info"] = {"uid": str(leaf["seq"]), "title": leaf["res"].lstrip("#")}
    if kind == 6002:
        shown["app"] = {"name": "sijild", "vendor_name": "Sijil"}
    if payload and isinstance(payload.get("agent"), str):
        shown["http_request"] = {"user_agent": payload["agent"]}
    return shown


def utc(milliseconds):
    moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(milliseconds=milliseconds)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{milliseconds % 1000:03d}Z"


def render(form, line):
    leaf, payload = line["leaf"], line["payload"]
    evidence = {"place": line["place"], "proof": line["proof"], **({"payload": payload, "salt": line["salt"]} if payload is not None else {})}
    if form == "ndjson":
        return canonical({"entry": leaf, **evidence}) + b"\n"
    if form == "ocsf":
        shown, undefined = ocsf(line["text"].decode(), leaf, payload), UNDEFINED.get(leaf["cls"] // 100, ())
        unmapped = {**evidence, **{name: shown.pop(name) for name in undefined if name in shown}}
        return canonical({**shown, "unmapped": unmapped}) + b"\n"
    return csv_line([line["place"], str(leaf["seq"]), utc(leaf["ts"]), leaf["out"], leaf["act"], leaf["res"], leaf["rgn"], leaf["actor"],
                     text_of(payload, "subject"), text_of(payload, "address"), " ".join(leaf["why"].get("rules", [])), leaf["why"].get("id", ""),
                     canonical(payload).decode() if payload is not None else "", line["salt"] if payload is not None else "", line["proof"],
                     line["text"].decode()])


def render_head(head):
    text = canonical(head)
    if head["format"] == "ndjson":
        return canonical({"export": head}) + b"\n"
    if head["format"] == "csv":
        return csv_line(["head"] + [""] * 14 + [text.decode()])
    return canonical({"activity_id": 99, "category_uid": 0, "class_uid": 0, "metadata": {"product": PRODUCT, "version": "1.3.0"},
                      "raw_data": text.decode(), "severity_id": 1, "time": 0, "type_uid": 99}) + b"\n"


# ---- reading ----

def cells_of(raw):
    rows = list(csv.reader(io.StringIO(raw.decode(), newline=""), strict=True))
    demand(len(rows) == 1 and len(rows[0]) == 16, "not a line of CSV with 16 cells")
    return rows[0]


def read_head(raw):
    if raw.startswith(b'"'):
        text = cells_of(raw)[15]
    else:
        found = parse(raw)
        text = json.dumps(found["export"]) if "export" in found else found["raw_data"]
    head = parse(text)
    demand(set(head) == {"checkpoint", "closing", "format", "from", "key", "nonce", "opened", "origin", "unit", "until", "v"}, "the head has other members")
    demand(head["v"] == 1 and head["format"] in ("ndjson", "csv", "ocsf") and isinstance(head["opened"], bool), "a head of another form")
    demand(render_head(head) == raw, "the head has another spelling")
    return head


def read_line(form, raw):
    if form == "csv":
        cells = cells_of(raw)
        text, line = cells[15].encode(), {"place": cells[0], "proof": cells[14], "salt": cells[13], "payload": parse(cells[12]) if cells[12] else None}
    else:
        found = parse(raw)
        line = dict(found if form == "ndjson" else found["unmapped"])
        text = canonical(found["entry"]) if form == "ndjson" else found["raw_data"].encode()
        line.setdefault("payload", None)
    line.update({"text": text, "leaf": parse(text)})
    demand(canonical(line["leaf"]) == text and len(text) <= 4096, "an entry in another spelling")
    demand(render(form, line) == raw, "the line shows something else than its entry says")
    return line


# ---- checking (section 6) ----

def check_entry(line, head, size, root):
    leaf = line["leaf"]
    demand(line["place"] in PLACES and re.fullmatch("([0-9a-f]{64}){0,63}", line["proof"]) is not None, "a line of another form")
    path = [bytes.fromhex(line["proof"][i:i + 64]) for i in range(0, len(line["proof"]), 64)]
    demand(0 <= leaf["seq"] < size and audit_log.root_from(path, leaf["seq"], size, audit_log.leaf_hash(line["text"])) == root,
           "the entry is not in the log under the checkpoint")
    demand(set(leaf["k"]) == keys_of(leaf), "the keys do not follow from the entry")
    if line["payload"] is not None:
        salted = b"sijil-pay-v1\0" + bytes.fromhex(line["salt"]) + canonical(line["payload"])
        demand(head["opened"] and line["place"] == "event" and hashlib.sha256(salted).hexdigest() == leaf.get("pay"), "another sealed part")


def check_place(line, head):
    leaf, place = line["leaf"], line["place"]
    at = leaf["seq"] if head["unit"] == "number" else leaf["ts"]
    if place == "closing":
        names = ("from", "key", "nonce", "opened", "unit", "until")
        demand(leaf["seq"] == head["closing"] and terms_of(leaf) == {name: head[name] for name in names}, "the closing entry is of another export")
        return
    demand(leaf["seq"] < head["closing"], "an entry from after the closing entry")
    demand({"left": at < head["from"], "event": head["from"] <= at < head["until"], "right": head["until"] <= at}[place], "a wrong place for the entry")


def is_beginning(leaf, key):
    action = {"org:": "organisation.create", "prj:": "project.create"}.get(key[:4])
    return leaf["out"] == "allowed" and leaf["act"] == action and leaf["res"].partition("#")[0] == key[4:]


def check_order(before, line, key):
    leaf = line["leaf"]
    demand(key in leaf["k"], "an event that is not under the key")
    if before is None:
        demand(line["place"] == "left" or leaf["k"][key] == 1 or is_beginning(leaf, key), "the left edge is cut off")
        return
    order = PLACES.index(line["place"]) - PLACES.index(before["place"])
    demand(before["place"] != "closing" and (order > 0 or (order == 0 and line["place"] == "event")), "a line in a wrong place")
    demand(leaf["seq"] > before["leaf"]["seq"] and leaf["ts"] >= before["leaf"]["ts"], "an entry in the wrong order")
    step = leaf["k"][key] - before["leaf"]["k"][key]
    demand(step == 1 or (step > 1 and before["place"] == "right"), "an event is missing: the numbers have a gap")


def check(vkey, content, nonce=None):
    """The number of events of a complete export."""
    lines = content.split(b"\n")
    demand(lines.pop() == b"", "the last line has no end")
    lines = [line + b"\n" for line in lines]
    demand(all(len(line) <= LINE_MAX for line in lines), "a line is too long")
    has_titles = lines[:1] == [TITLES]
    head = read_head(lines[has_titles])
    demand(has_titles == (head["format"] == "csv"), "titles are in CSV only")
    origin, size, root = audit_log.open_note(head["checkpoint"], vkey).split("\n")[:3]
    demand(origin == head["origin"] == vkey.split("+", 1)[0] and head["closing"] < int(size), "another log, or a checkpoint before the closing entry")
    before, events = None, 0
    for raw in lines[has_titles + 1:]:
        line = read_line(head["format"], raw)
        check_entry(line, head, int(size), base64.b64decode(root, validate=True))
        check_place(line, head)
        check_order(before, line, head["key"])
        before, events = line, events + (line["place"] == "event")
    demand(before is not None and before["place"] == "closing", "the file ends before its closing entry")
    demand(nonce in (None, head["nonce"]), "the answer to another question")
    return events


REFUSALS = (ValueError, KeyError, TypeError, AttributeError, IndexError, csv.Error, audit_log.InvalidSignature)


def check_vectors(path):
    with open(path, encoding="utf-8", newline="") as file:
        vectors = json.load(file)
    for row in vectors["complete"]:
        assert check(vectors["vkey"], row["file"].encode(), row["nonce"]) == row["events"], row["name"]
    for row in vectors["refused"]:
        try:
            events = check(vectors["vkey"], row["file"].encode())
        except REFUSALS:
            continue
        raise AssertionError(f"{row['name']}: taken, with {events} events")
    print(f"{len(vectors['complete'])} exports are complete, {len(vectors['refused'])} are refused")


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "--vectors":
        check_vectors(sys.argv[2])
        return 0
    if len(sys.argv) not in (3, 4):
        print(__doc__, file=sys.stderr)
        return 2
    with open(sys.argv[2], "rb") as file:
        content = file.read()
    try:
        print(f"complete if the writer was honest: {check(sys.argv[1], content, *sys.argv[3:])} events")
    except REFUSALS as problem:
        print(f"not verified: {problem!r}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
