#!/usr/bin/env python3
"""Hostile input for a real server. Each input gets its status and a clear message, and leaves an event or is counted; the
server survives. The table is in docs/http.md."""
import glob
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time

import sijil_test
from sijil_test import LeftOut, Server, sha256

server = Server()
state = {}


def repository(name="main/models/bad"):
    return server.client(state["login"]).repository(name)


def raw(request, limit=65536, timeout=20):
    """Sends the bytes unchanged over TLS, and returns all bytes that arrive until the server closes."""
    context = ssl.create_default_context(cafile=server.ca_file)
    with socket.create_connection(("127.0.0.1", server.port), timeout=timeout) as plain:
        with context.wrap_socket(plain, server_hostname="127.0.0.1") as link:
            try:
                link.sendall(request)
            except OSError:
                pass
            received = b""
            try:
                while len(received) < limit:
                    piece = link.recv(65536)
                    if not piece:
                        break
                    received += piece
            except OSError:
                pass
            return received


def status_of(answer):
    assert answer.startswith(b"HTTP/1.1 "), answer[:80]
    return int(answer[9:12])


def alive():
    assert server.client().call("GET", "/healthz").status == 200
    assert server.process.poll() is None


def counter(name):
    text = server.client().call("GET", "/metrics").body.decode()
    return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name))


def newest_events(count=50):
    return server.client(server.admin_auditor).api("GET", f"/audit/events?order=descending&limit={count}")["events"]


def expect_event(action, outcome, since):
    """The outcome of a request may be recorded a moment after its answer."""
    until = time.monotonic() + 15
    while not (found := [event for event in newest_events() if event["seq"] > since and event["entry"]["act"] == action
                         and event["entry"]["out"] == outcome]):
        assert time.monotonic() < until, f"no event {action} {outcome} after {since}: " + \
            str([(event["seq"], event["entry"]["act"], event["entry"]["out"]) for event in newest_events(8)])
        time.sleep(0.2)
    return found[0]


def newest():
    return newest_events(1)[0]["seq"]


# --- credentials ---------------------------------------------------------------------------------------------------
def tokens_that_break_parsers_are_refused():
    head = "eyJhbGciOiJFUzI1NiJ9"
    for token in (head + ".AAAAA===.AAAA", head + "..", "a.b.c", "." * 20000, head + ".e30." + "A" * 86,
                  "eyJhbGciOiJub25lIn0.e30.", "e" * 17000, head + ".eyJhIjp7fQ." + "A" * 86 + "=="):
        answer = server.client().call("GET", "/v2/", headers={"Authorization": "Bearer " + token})
        assert answer.status in (400, 401), (token[:40], answer.status)
        if answer.status == 401:
            assert 'error="invalid_token"' in answer["WWW-Authenticate"], answer["WWW-Authenticate"]
    alive()


def wrong_secrets_and_unknown_robots_look_the_same():
    seen = set()
    for user, password in ((state["login"][0], "wrong"), ("robot$main+nobody", state["login"][1])):
        link = server.client((user, password))
        try:
            link.token("repository:main/models/bad:pull")
            raise RuntimeError("a token for nobody")
        except AssertionError as refused:
            status, body = refused.args[0]
            seen.add((status, json.loads(body).get("error") or json.loads(body)["errors"][0]["code"]))
    assert len(seen) == 1 and seen.pop()[0] == 401


def a_short_token_is_told_what_it_lacks():
    pull_only = server.client(state["login"])
    answer = pull_only.call("POST", "/v2/main/models/bad/blobs/uploads/", scope="repository:main/models/bad:pull")
    assert answer.status == 401 and 'error="insufficient_scope"' in answer["WWW-Authenticate"], answer.status


# --- framing ------------------------------------------------------------------------------------------------------
def a_header_of_a_mebibyte_is_refused_and_counted():
    since = newest()
    answer = raw(b"GET /v2/ HTTP/1.1\r\nHost: x\r\nX: " + b"a" * (1 << 20) + b"\r\n\r\n")
    assert status_of(answer) == 431, answer[:60]
    alive()
    until = time.monotonic() + 15
    while time.monotonic() < until:
        if any(event["seq"] > since and event["entry"]["act"] == "http.refused" for event in newest_events()):
            return
        time.sleep(0.5)
    raise AssertionError("the refusal never became an event")


def length_and_chunking_together_are_refused():
    for headers in (b"Content-Length: 4\r\nTransfer-Encoding: chunked", b"Content-Length: 5\r\nContent-Length: 0",
                    b"Content-Length: +5", b"Transfer-Encoding: xchunked", b"Transfer-Encoding : chunked"):
        answer = raw(b"POST /v2/main/models/bad/blobs/uploads/ HTTP/1.1\r\nHost: x\r\n" + headers +
                     b"\r\n\r\n5\r\nhello\r\n0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        statuses = {line.split()[1] for line in answer.splitlines() if line.startswith(b"HTTP/1.1 ")}
        assert statuses == {b"400"}, (headers, answer[:200])
    alive()


def paths_with_tricks_are_refused():
    for path in ("/v2/main/models/a%00b/tags/list", "/v2/main/models/%2e%2e/tags/list", "/v2/main/models/..%2f/tags/list",
                 "/v2/main%2fmodels/x/tags/list", "/v2/../etc/passwd", "/v2//main/models/x/tags/list"):
        answer = raw(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        assert status_of(answer) in (400, 404), (path, answer[:60])
    alive()


# --- bodies -------------------------------------------------------------------------------------------------------
def three_hundred_thousand_brackets_are_refused():
    since = newest()
    for kind in ("[", "{\"a\":"):
        answer = repository().put_manifest("deep", (kind * 300000).encode())
        assert answer.status == 400 and answer.codes == ["MANIFEST_INVALID"], (answer.status, answer.body[:200])
    expect_event("manifest.push", "failed", since)
    alive()


def a_manifest_of_five_mebibytes_is_too_large():
    answer = repository().put_manifest("large", b" " * (5 << 20))
    assert answer.status == 413, answer.status


def a_manifest_whose_blobs_are_missing_names_them():
    ghost = sha256(b"never pushed")
    manifest = json.dumps({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
                           "config": {"mediaType": "application/vnd.oci.empty.v1+json", "digest": ghost, "size": 2},
                           "layers": []}).encode()
    answer = repository().put_manifest("ghost", manifest)
    assert answer.status in (400, 404) and answer.codes == ["MANIFEST_BLOB_UNKNOWN"], answer.body
    assert ghost in answer.body.decode()


def a_wrong_digest_is_refused_and_loses_nothing_else():
    since, place = newest(), repository()
    location = place.begin()
    location = place.patch(location, b"x" * 100000)["Location"]
    answer = place.close(location, sha256(b"something else"))
    assert answer.status == 400 and answer.codes == ["DIGEST_INVALID"], (answer.status, answer.body)
    expect_event("upload.commit", "failed", since)
    assert place.call("GET", "blobs/" + sha256(b"something else")).status == 404
    place.push_blob(b"x" * 100000)


def digests_that_are_none_are_refused():
    for digest in ("sha256:abc", "md5:d41d8cd98f00b204e9800998ecf8427e", "sha256:" + "G" * 64, "sha256:" + "A" * 64):
        answer = repository().call("GET", "blobs/" + digest)
        assert answer.status in (400, 404) and answer.codes in (["DIGEST_INVALID"], ["BLOB_UNKNOWN"]), (digest, answer.body)


# --- parts behind the gateway -------------------------------------------------------------------------------------------
def object_files(size):
    found = [path for path in glob.glob(server.folder + "/**", recursive=True) if os.path.isfile(path)
             and os.path.getsize(path) > size and open(path, "rb").read(4) == b"SJB1"]
    return sorted(found, key=os.path.getmtime)


def damage(change, size=300_000):
    """Pushes a blob, calls `change` on its file, and returns the answer to a pull."""
    place, data = repository(), os.urandom(size)
    digest = place.push_blob(data)
    path = object_files(size)[-1]
    change(path)
    try:
        answer = place.call("GET", "blobs/" + digest)
        return answer, data
    except Exception as broken:  # it is cut off in the middle, so the answer is never complete
        return broken, data


def expect_no_wrong_byte(outcome, data):
    if isinstance(outcome, Exception):
        return
    assert outcome.status >= 500 or not data.startswith(outcome.body) or len(outcome.body) < len(data), outcome.status
    assert outcome.status != 200, "a damaged object was served as if it were whole"


def a_truncated_object_is_never_served():
    since = newest()
    outcome, data = damage(lambda path: os.truncate(path, os.path.getsize(path) - 70_000))
    expect_no_wrong_byte(outcome, data)
    expect_event("blob.damaged", "completed", since)
    alive()


def a_flipped_bit_is_never_served():
    def flip(path):
        with open(path, "r+b") as file:
            file.seek(200_000)
            byte = file.read(1)[0]
            file.seek(200_000)
            file.write(bytes([byte ^ 4]))
    outcome, data = damage(flip)
    expect_no_wrong_byte(outcome, data)


def an_empty_blob_is_verified_as_others_are():
    def flip(path):
        with open(path, "r+b") as file:
            file.write(b"X")
    outcome, _ = damage(flip, size=0)
    assert outcome.status == 500, outcome.status


def a_moved_object_is_never_served():
    other = os.urandom(300_000)
    repository().push_blob(other)
    source = object_files(300_000)[-1]
    outcome, data = damage(lambda path: shutil.copyfile(source, path))
    expect_no_wrong_byte(outcome, data)
    alive()


def a_stopped_database_is_a_503_and_then_it_is_over():
    place = repository()
    digest = place.push_blob(b"still here")
    link = place.client.connection()
    postmaster = min(server.processes("postgres"))
    children = [int(entry) for entry in os.listdir("/proc") if entry.isdigit() and parent_of(entry) == postmaster]
    for process in [postmaster, *children]:
        os.kill(process, signal.SIGSTOP)
    try:
        answer = place.call("GET", "blobs/" + digest, connection=link)
        assert answer.status == 503, answer.status
        assert server.client().call("GET", "/healthz").status == 200
        assert server.client().call("GET", "/readyz").status == 503
    finally:
        for process in [*children, postmaster]:
            try:
                os.kill(process, signal.SIGCONT)
            except ProcessLookupError:
                pass
    server.wait_ready()
    assert repository().call("GET", "blobs/" + digest).body == b"still here"
    # The commit was sent and its answer lost. Either the event exists, or it is counted as one that could not be recorded.
    until = time.monotonic() + 20
    while not any(event["entry"]["act"] == "log.unrecorded" or event["entry"]["req"] == answer.headers["X-Request-Id"]
                  for event in newest_events(200)):
        assert time.monotonic() < until, "what could not be recorded was never counted in the log"
        time.sleep(0.5)


def parent_of(process):
    try:
        with open(f"/proc/{process}/stat", encoding="ascii", errors="replace") as file:
            return int(file.read().rsplit(")", 1)[1].split()[1])
    except OSError:
        return -1


def a_dead_key_process_is_a_503_and_then_it_is_over():
    place, data = repository(), os.urandom(100_000)
    digest = place.push_blob(data)
    token = place.client.token(place.scope)
    assert token
    os.kill(server.processes("sijil-keyd")[0], signal.SIGKILL)
    answers = set()
    until = time.monotonic() + 30
    while time.monotonic() < until:
        answer = place.call("POST", "blobs/uploads/")
        answers.add(answer.status)
        if answer.status == 202 and place.call("GET", "blobs/" + digest).status == 200:
            break
        time.sleep(0.2)
    else:
        raise AssertionError(f"the key process did not come back: {answers}")
    assert answers <= {202, 503}, answers


def mounted_small(folder, mebibytes):
    """Moves the folder to a separate small file system, which is soon full."""
    owner = os.stat(folder)
    kept = folder + ".kept"
    os.rename(folder, kept)
    os.mkdir(folder)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "tmpfs", folder], check=True)
    subprocess.run(["cp", "-a", kept + "/.", folder], check=True)
    os.chown(folder, owner.st_uid, owner.st_gid)
    os.chmod(folder, owner.st_mode & 0o777)
    shutil.rmtree(kept)


def a_full_disk_is_said_and_loses_nothing():
    if os.geteuid() != 0:
        raise LeftOut("mounting a small file system needs root")
    small = Server().start()
    small.stop()
    region = os.path.dirname(glob.glob(small.folder + "/regions/**/00", recursive=True)[0])
    mounted_small(region, 12)
    try:
        small.start()
        login = sijil_test.make_robot(small, "full", "publisher", "main/models")
        place = small.client(login).repository("main/models/full")
        kept = place.push_blob(os.urandom(1 << 20))
        location = place.begin()
        answer = place.patch(location, os.urandom(24 << 20))
        assert answer.status == 507, (answer.status, answer.body)
        assert "room" in answer.body.decode(), answer.body
        assert place.call("GET", "blobs/" + kept).status == 200
        assert place.call("DELETE", location).status == 204
        place.push_blob(os.urandom(1 << 20))
        small.stop()
    finally:
        subprocess.run(["umount", "-l", region], check=False)
        small.finish(False)


def parameters_that_a_route_does_not_take_are_refused():
    """An answer that ignored a filter would look complete."""
    auditor, admin = server.client(server.admin_auditor), server.client(server.admin)
    pseudonym = "0" * 64
    for client, path in ((auditor, "/audit/events?author=ci"), (auditor, "/audit/events?key=out:denied&key=out:failed"),
                         (auditor, "/audit/events?limit=1&limit=2"), (auditor, "/audit/events/1?order=ascending"),
                         (auditor, "/audit/checkpoint?size=3"), (auditor, "/audit/events?key=act:blob.read"),
                         (auditor, "/audit/events?key=out:allowed"), (auditor, "/audit/events?key=denied"),
                         (auditor, "/audit/events?key=res:main/models%23v1"), (admin, "/robots?organization=main"),
                         (admin, "/projects?region=local/main"), (admin, "/keys?limit=5"),
                         (admin, "/policies?version=1"), (admin, "/bindings?scope=main&scope=")):
        answer = client.call("GET", "/api/v1" + path, scope="registry:admin:*")
        assert answer.status == 400, (path, answer.status, answer.body)
        assert any(word in answer.json["detail"] for word in ("query parameter", "key")), (path, answer.body)
    for path in ("/audit/events?limit=1&order=ascending&key=out:denied&before=100", "/audit/events?key=act:" + pseudonym,
                 "/audit/events?key=act:anonymous", "/audit/events?key=org:main&after=5"):
        assert auditor.call("GET", "/api/v1" + path, scope="registry:admin:*").status == 200, path
    created = admin.call("POST", "/api/v1/organisations?dry_run=true", json.dumps({"name": "dry"}), scope="registry:admin:*")
    assert created.status == 400, created.body
    assert "dry" not in [one["name"] for one in admin.api("GET", "/organisations")["organisations"]]


def prepare():
    server.start()
    state["login"] = sijil_test.make_robot(server, "bad", "publisher", "main/models")
    server.admin_auditor = sijil_test.make_robot(server, "auditor", "auditor", "")
    repository().push_blob(b"makes the repository")


prepare()
sijil_test.run(
    tokens_that_break_parsers_are_refused, wrong_secrets_and_unknown_robots_look_the_same,
    a_short_token_is_told_what_it_lacks, a_header_of_a_mebibyte_is_refused_and_counted,
    length_and_chunking_together_are_refused, paths_with_tricks_are_refused,
    three_hundred_thousand_brackets_are_refused, a_manifest_of_five_mebibytes_is_too_large,
    a_manifest_whose_blobs_are_missing_names_them, a_wrong_digest_is_refused_and_loses_nothing_else,
    digests_that_are_none_are_refused, a_truncated_object_is_never_served, a_flipped_bit_is_never_served,
    an_empty_blob_is_verified_as_others_are, parameters_that_a_route_does_not_take_are_refused,
    a_moved_object_is_never_served, a_stopped_database_is_a_503_and_then_it_is_over,
    a_dead_key_process_is_a_503_and_then_it_is_over, a_full_disk_is_said_and_loses_nothing, server=server)
