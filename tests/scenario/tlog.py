#!/usr/bin/env python3
"""The log as foreign programs walk it (C2SP tlog-tiles): checkpoints, tiles and bundles over HTTPS, checked by a second implementation of the
tree, and who gets which of them."""
import hashlib
import os
import struct
import sys
import threading

from sijil_test import Server, make_robot, run, wait_until

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../vectors"))
import audit_log  # a second implementation of notes and hashes

server = Server().start()
login = {name: make_robot(server, name, role, scope) for name, role, scope in
         (("watcher", "witness", ""), ("auditor", "auditor", ""), ("part", "auditor", "main"), ("pusher", "publisher", "main/models"))}
ADMIN = "registry:admin:*"
KEPT = "private, max-age=31536000, immutable"


clients = {**{name: server.client(who) for name, who in login.items()}, "nobody": server.client()}


def get(who, path, method="GET", status=200):
    answer = clients[who].call(method, path, scope=None if who == "nobody" else ADMIN)
    assert answer.status == status, (who, path, answer.status, answer.body[:300])
    return answer


VKEY = clients["auditor"].api("GET", "/audit/key")["vkey"]


def checkpoint(who="watcher"):
    """Size and root, after the signature was verified."""
    answer = get(who, "/audit/checkpoint")
    assert answer["Content-Type"] == "text/plain; charset=utf-8" and answer["Cache-Control"] == "no-cache", answer.headers
    return parse(answer.body.decode())


def parse(note):
    origin, size, root = audit_log.open_note(note, VKEY).split("\n")[:3]
    assert origin.endswith("/audit"), origin
    return int(size), root


def groups(index):
    text = f"{index % 1000:03}"
    while index >= 1000:
        index //= 1000
        text = f"x{index % 1000:03}/{text}"
    return text


def leaf_hash(data):
    return hashlib.sha256(b"\0" + data).digest()


def node(left, right):
    return hashlib.sha256(b"\1" + left + right).digest()


def tree(hashes):
    """RFC 6962, 2.1."""
    if len(hashes) <= 1:
        return hashes[0] if hashes else hashlib.sha256(b"").digest()
    k = 1 << (len(hashes) - 1).bit_length() - 1
    return node(tree(hashes[:k]), tree(hashes[k:]))


def path_of(kind, index, width):
    return f"/audit/tile/{kind}/{groups(index)}" + ("" if width == 256 else f".p/{width}")


def tiles_of(size, level=0):
    """Index and width of each tile of a level."""
    count = size >> 8 * level
    return [(index, min(256, count - 256 * index)) for index in range((count + 255) // 256)]


def fetch(who, kind, index, width):
    answer = get(who, path_of(kind, index, width))
    assert answer["Content-Type"] == "application/octet-stream" and answer["Cache-Control"] == KEPT, answer.headers
    return answer.body


def cut(data):
    return [data[at:at + 32] for at in range(0, len(data), 32)]


def entries(bundle):
    found = []
    while bundle:
        length = struct.unpack(">H", bundle[:2])[0]
        assert len(bundle) >= 2 + length
        found.append(bundle[2:2 + length])
        bundle = bundle[2 + length:]
    return found


def grow(count):
    """Many events, cheaply: pings."""
    def some():
        client = server.client(login["pusher"])
        for _ in range(count // 8 + 1):
            assert client.call("GET", "/v2/", scope="repository:main/models/x:pull").status == 200
    threads = [threading.Thread(target=some) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def the_whole_log_is_walked():
    grow(700)
    wait_until(lambda: checkpoint()[0] > 700, 20, "the log is not signed")
    size, root = checkpoint()
    hashes = []
    for index, width in tiles_of(size):
        data = cut(fetch("watcher", 0, index, width))
        assert len(data) == width
        hashes += data
    assert tree(hashes) == audit_log.base64.b64decode(root)
    for level in (1, 2):
        above = [hash for index, width in tiles_of(size, level) for hash in cut(fetch("watcher", level, index, width))]
        assert above == [tree(hashes[i << 8 * level:i + 1 << 8 * level]) for i in range(size >> 8 * level)], level
    found = [entry for index, width in tiles_of(size) for entry in entries(fetch("auditor", "entries", index, width))]
    assert [leaf_hash(entry) for entry in found] == hashes
    assert b'"act":"registry.ping"' in b"".join(found)


def each_width_up_to_the_signed_size_is_there():
    size, _ = checkpoint()
    first = 256 * (size // 256)
    whole = b"".join(fetch("watcher", 0, size // 256, size - first) for _ in range(1) if size > first)
    for width in range(1, size - first + 1):
        assert fetch("watcher", 0, size // 256, width) == whole[:32 * width]
    full = fetch("watcher", 0, 0, 256)
    for width in (1, 2, 128, 255):
        assert fetch("watcher", 0, 0, width) == full[:32 * width]
        assert entries(fetch("auditor", "entries", 0, width)) == entries(fetch("auditor", "entries", 0, 256))[:width]
    head = get("watcher", path_of(0, 0, 256), method="HEAD")
    assert head.body == b"" and head["Content-Length"] == "8192"
    head = get("auditor", path_of("entries", 0, 256), method="HEAD")
    assert head.body == b"" and int(head["Content-Length"]) > 256 * 100


def what_is_absent_is_404():
    size, _ = checkpoint()
    # The walk itself adds events, so what is asked for must be far beyond them.
    for path in (path_of(0, size // 256 + 40, 256), path_of(0, size // 256 + 40, 1), path_of(1, 1, 1), path_of(1, 0, 256), path_of(2, 0, 1),
                 path_of(7, 0, 1), path_of(63, 0, 256), path_of(0, 2 ** 50, 3), path_of(0, 2 ** 63, 256), "/audit/tile/0/000.p/0",
                 "/audit/tile/0/000.p/256", "/audit/tile/0/0", "/audit/tile/00/000", "/audit/tile/64/000", "/audit/tile/0/x000/001",
                 "/audit/tile/8/0/000", "/audit/tile/data/000", "/audit/tile/0", "/audit/tile/", "/audit/tile", "/audit/", "/audit/checkpoint/"):
        get("watcher", path, status=404)
    for path in (path_of("entries", size // 256 + 40, 1), path_of("entries", 2 ** 62, 256), "/audit/tile/entries/0", "/audit/tile/entries/000.p/0"):
        get("auditor", path, status=404)


def a_witness_gets_no_names_and_a_part_gets_nothing():
    """Decided and recorded like every other request."""
    for path in ("/api/v1/audit/checkpoints", "/api/v1/audit/consistency?old=1", "/audit/checkpoint", path_of(0, 0, 256)):
        get("part", path, status=403)
        get("pusher", path, status=403)
        get("nobody", path, status=401)
    get("watcher", path_of("entries", 0, 256), status=403)
    get("part", path_of("entries", 0, 256), status=403)
    for path in ("/api/v1/audit/events", "/api/v1/audit/events/0", "/api/v1/audit/events/0/entry", "/api/v1/audit/events/0/proof",
                 "/api/v1/audit/checkpoint"):
        get("watcher", path, status=403)
    events = clients["auditor"].api("GET", "/audit/events?limit=200")["events"]
    seen = {(event["entry"]["act"], event["entry"]["res"], event["entry"]["out"]) for event in events}
    assert ("entries.read", "#entries/000", "denied") in seen and ("tile.read", "#0/000", "denied") in seen, seen
    assert ("tile.read", "#0/000", "allowed") in {(event["entry"]["act"], event["entry"]["res"], event["entry"]["out"]) for event in
                                                  clients["auditor"].api("GET", "/audit/events?limit=1000")["events"]}


def the_role_exists_for_the_whole_registry_only():
    admin = server.client(server.admin)
    robot = admin.api("POST", "/robots", {"name": "half", "organisation": "main"})
    refused = admin.api("POST", "/bindings", {"robot": robot["id"], "role": "witness", "scope": "main"}, expect=(403,))
    assert "can't be given on a scope of this kind" in str(refused), refused


def the_history_is_paged():
    client, found, after = clients["watcher"], [], ""
    while True:
        page = client.api("GET", f"/audit/checkpoints?limit=3&order=ascending{after}")
        found += page["checkpoints"]
        if "next" not in page or len(found) > 60:
            break
        after = "&after=" + page["next"]
    sizes = [row["size"] for row in found]
    assert sizes == sorted(set(sizes)) and len(sizes) > 3, sizes
    assert [parse(row["note"])[0] for row in found] == sizes
    newest = client.api("GET", "/audit/checkpoints?limit=1")["checkpoints"][0]
    assert newest["size"] >= sizes[-1] or len(found) > 60
    for query in ("order=up", "limit=0", "after=x", "size=3"):
        client.api("GET", "/audit/checkpoints?" + query, expect=(400,))
    return sizes


def check_consistency(old, old_root, new, new_root, proof):
    """RFC 9162, 2.1.4.2."""
    if old == new:
        return not proof and old_root == new_root
    if old & (old - 1) == 0:
        proof = [old_root, *proof]
    fn, sn = old - 1, new - 1
    while fn & 1:
        fn, sn = fn >> 1, sn >> 1
    fr = sr = proof[0]
    for hash in proof[1:]:
        if sn == 0:
            return False
        if fn & 1 or fn == sn:
            fr, sr = node(hash, fr), node(hash, sr)
            while not fn & 1 and fn:
                fn, sn = fn >> 1, sn >> 1
        else:
            sr = node(sr, hash)
        fn, sn = fn >> 1, sn >> 1
    return sn == 0 and fr == old_root and sr == new_root


def published_sizes_are_proven_from_each_other():
    client = clients["watcher"]
    rows = client.api("GET", "/audit/checkpoints?limit=30&order=ascending")["checkpoints"]
    notes = {row["size"]: parse(row["note"]) for row in rows}
    sizes, root = sorted(notes), lambda size: audit_log.base64.b64decode(notes[size][1])
    pairs = [(old, new) for old in sizes for new in (sizes[-1], old) if old > 0]
    for old, new in pairs:
        body = get("watcher", f"/api/v1/audit/consistency?old={old}&size={new}").body.decode()
        head, note = body.split("\n\n", 1)
        first, *proof = head.split("\n")
        assert first == f"old {old}" and parse(note) == notes[new]
        assert check_consistency(old, root(old), new, root(new), [audit_log.base64.b64decode(line) for line in proof]), (old, new)
    newest = get("watcher", f"/api/v1/audit/consistency?old={sizes[0]}").body.decode()
    assert parse(newest.split("\n\n", 1)[1])[0] >= sizes[-1]
    for query, status in (("", 400), (f"?old={sizes[-1]}&size={sizes[0]}", 400), ("?old=x", 400), (f"?old={sizes[-1] + 10 ** 6}", 404),
                          (f"?old={sizes[0]}&size=99999999", 404)):
        get("watcher", "/api/v1/audit/consistency" + query, status=status)
    entry = get("auditor", f"/api/v1/audit/events/{sizes[1] - 1}/entry").body
    proof = get("auditor", f"/api/v1/audit/events/{sizes[1] - 1}/proof?size={sizes[-1]}").body.decode()
    assert audit_log.check(VKEY, entry, proof) == sizes[1] - 1 and f"\n{sizes[-1]}\n" in proof
    get("auditor", f"/api/v1/audit/events/{sizes[1]}/proof?size={sizes[0]}", status=404)


def an_edited_tile_stops_the_service_instead_of_leaving():
    """Also without the verifier, which comes to it later: what doesn't lead to the signed root is given to nobody."""
    server.sql("UPDATE audit_tile SET hashes = overlay(hashes PLACING '\\x00000000' FROM 8001) WHERE level = 0 AND idx = 1")
    answer = clients["watcher"].call("GET", path_of(0, 1, 256), scope=ADMIN)
    assert answer.status == 503 and b"not the one that was signed" in answer.body, (answer.status, answer.body)
    wait_until(lambda: server.client().call("GET", "/readyz").status == 503, 20, "the service goes on")


run(the_whole_log_is_walked, each_width_up_to_the_signed_size_is_there, what_is_absent_is_404,
    a_witness_gets_no_names_and_a_part_gets_nothing, the_role_exists_for_the_whole_registry_only, the_history_is_paged,
    published_sizes_are_proven_from_each_other, an_edited_tile_stops_the_service_instead_of_leaving, server=server)
