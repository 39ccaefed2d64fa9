#!/usr/bin/env python3
"""OCI Distribution, clause by clause, from outside: status, headers and bodies of each endpoint against a real server.

One case is one clause of the specification (1.1.1 and what its main branch adds) or of docs/registry.md."""
import concurrent.futures
import hashlib
import json
import os
import re
import socket
import ssl
import sys
import time
import urllib.parse

import sijil_test
from sijil_test import Server, sha256

server = Server()
state = {}
INDEX = "application/vnd.oci.image.index.v1+json"
IMAGE = "application/vnd.oci.image.manifest.v1+json"
DOCKER = "application/vnd.docker.distribution.manifest.v2+json"
EMPTY = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
UNKNOWN = "sha256:" + "1" * 64


def place(name):
    return server.client(state["login"]).repository("main/models/" + name)


def expect(answer, status, code=None):
    assert answer.status == status, (answer.status, answer.body[:400])
    if code is not None:
        assert code in answer.codes, answer.body
    return answer


# ---- Blobs, pulled ----

def a_blob_has_its_headers():
    there, data = place("pull"), os.urandom(200000)
    digest = there.push_blob(data)
    for method in ("GET", "HEAD"):
        answer = expect(there.call(method, f"blobs/{digest}"), 200)
        assert answer["Docker-Content-Digest"] == digest and answer["Content-Length"] == "200000"
        assert answer["Accept-Ranges"] == "bytes" and answer["ETag"] == f'"{digest}"'
        assert answer["Content-Type"] == "application/octet-stream"
        assert answer.body == (data if method == "GET" else b"")


def a_range_is_exact():
    there, data = place("pull"), os.urandom(150000)
    digest = there.push_blob(data)
    for first, last in ((0, 0), (0, 65519), (65519, 65520), (65520, 149999), (149999, 149999), (10, 140000)):
        answer = expect(there.call("GET", f"blobs/{digest}", headers={"Range": f"bytes={first}-{last}"}), 206)
        assert answer.body == data[first:last + 1], (first, last)
        assert answer["Content-Range"] == f"bytes {first}-{last}/150000"
    answer = expect(there.call("GET", f"blobs/{digest}", headers={"Range": "bytes=-5"}), 206)
    assert answer.body == data[-5:]
    answer = expect(there.call("GET", f"blobs/{digest}", headers={"Range": "bytes=149990-999999"}), 206)
    assert answer.body == data[149990:]
    answer = expect(there.call("GET", f"blobs/{digest}", headers={"Range": "bytes=150000-"}), 416)
    assert answer["Content-Range"] == "bytes */150000"
    for backwards in ("bytes=500-0", "bytes=7-6"):
        answer = expect(there.call("GET", f"blobs/{digest}", headers={"Range": backwards}), 416)
        assert answer["Content-Range"] == "bytes */150000"
    answer = expect(there.call("GET", f"blobs/{digest}", headers={"Range": "bytes=0-1,5-6"}), 200)
    assert answer.body == data


def a_pull_asks_the_database_with_its_record():
    there, data = place("pull"), os.urandom(600000)
    digest = there.push_blob(data)
    for _ in range(20):
        assert expect(there.call("GET", f"blobs/{digest}"), 200).body == data
        expect(there.call("HEAD", f"blobs/{digest}"), 200)
    # A reader's connection would show that as its last statement; the connection of the log continues with COMMIT.
    asked = server.sql("SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%repository_blob r JOIN LATERAL%' AND pid <> pg_backend_pid()")
    assert asked == "0", asked


def what_is_known_is_not_sent_again():
    there = place("pull")
    digest = there.push_blob(b"etag")
    answer = expect(there.call("GET", f"blobs/{digest}", headers={"If-None-Match": f'"{digest}"'}), 304)
    assert answer.body == b"" and answer["Docker-Content-Digest"] == digest
    assert answer["Content-Length"] == "4", answer["Content-Length"]  # the length of the 200's body; 0 would be that of another object
    there.put_manifest("etag", there.manifest(b"etag"))
    known, link = there.call("HEAD", "manifests/etag"), server.client(None).connection()
    for method in ("GET", "HEAD", "GET"):  # on one connection, so that no client takes the next answer for a body
        answer = expect(there.call(method, "manifests/etag", headers={"If-None-Match": known["ETag"]}, connection=link), 304)
        assert answer.body == b"" and answer["Content-Length"] == known["Content-Length"], answer["Content-Length"]
    assert sha256(there.call("GET", "manifests/etag", connection=link).body) == known["Docker-Content-Digest"]
    link.close()
    expect(there.call("GET", f"blobs/{digest}", headers={"If-None-Match": f'"{UNKNOWN}"'}), 200)


def a_ping_needs_no_slash():
    client = server.client(state["login"])
    answer = expect(client.call("GET", "/v2"), 401, "UNAUTHORIZED")
    assert answer["WWW-Authenticate"] == client.call("GET", "/v2/")["WWW-Authenticate"]
    for path in ("/v2", "/v2/"):
        assert expect(client.call("GET", path, scope="registry:catalog:*"), 200)["Docker-Distribution-Api-Version"] == "registry/2.0"


def a_name_in_another_alphabet_is_no_name():
    client = server.client(state["login"])
    for name in ("main/models/%D8%B3%D8%AC%D9%84", "m%C3%A4in/models/x", "main/models/a%20b", "main/models/A", "main/models/.."):
        for method, rest in (("GET", "manifests/v1"), ("HEAD", "blobs/" + UNKNOWN), ("POST", "blobs/uploads/"), ("GET", "tags/list")):
            answer = client.call(method, f"/v2/{name}/{rest}", scope="repository:main/models/x:pull,push")
            assert answer.status == 400 and (method == "HEAD" or answer.codes == ["NAME_INVALID"]), (name, answer.status, answer.body)
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as plain:  # not escaped, as curl sends it
        context = ssl.create_default_context(cafile=server.ca_file)
        with context.wrap_socket(plain, server_hostname="127.0.0.1") as link:
            link.sendall("GET /v2/main/models/سجل/tags/list HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            said = b""
            while piece := link.recv(4096):
                said += piece
    assert b" 400 " in said.split(b"\r\n", 1)[0] and b"NAME_INVALID" in said, said


def what_is_not_there_is_404_and_what_is_no_digest_400():
    there = place("pull")
    expect(there.call("GET", f"blobs/{UNKNOWN}"), 404, "BLOB_UNKNOWN")
    expect(there.call("HEAD", f"blobs/{UNKNOWN}"), 404)
    for wrong in ("sha256:abc", "md5:d41d8cd98f00b204e9800998ecf8427e", "sha256:" + "A" * 64, "latest"):
        expect(there.call("GET", f"blobs/{wrong}"), 400, "DIGEST_INVALID")


# ---- Blobs, pushed ----

def a_session_begins_with_a_location():
    answer = expect(place("push").call("POST", "blobs/uploads/"), 202)
    assert answer["Location"].startswith("/v2/main/models/push/blobs/uploads/"), answer["Location"]
    assert answer["Range"] == "0-0" and answer["Docker-Upload-UUID"] in answer["Location"]
    assert int(answer["OCI-Chunk-Min-Length"]) > 0


def a_location_names_no_host():
    """Location is relative, so it works under each name of the registry, and repeats nothing of the request's Host."""
    for names in ({}, {"Host": f"localhost:{server.port}"}, {"Host": "other.example", "X-Forwarded-Host": "other.example",
                                                            "Forwarded": "host=other.example;proto=http"}):
        answer = expect(place("push").call("POST", "blobs/uploads/", headers=names), 202)
        assert answer["Location"].startswith("/v2/main/models/push/blobs/uploads/"), answer["Location"]


def one_put_brings_all():
    there, data = place("push"), os.urandom(3000)
    answer = expect(there.close(there.begin(), sha256(data), data), 201)
    assert answer["Location"].endswith("/blobs/" + sha256(data)) and answer["Docker-Content-Digest"] == sha256(data)
    assert there.call("GET", answer["Location"]).body == data


def one_post_brings_all():
    there, data = place("push"), os.urandom(100000)
    answer = expect(there.call("POST", "blobs/uploads/?digest=" + sha256(data), data,
                               {"Content-Type": "application/octet-stream"}), 201)
    assert there.call("GET", answer["Location"]).body == data
    expect(there.call("POST", "blobs/uploads/?digest=" + sha256(b"other"), data,
                      {"Content-Type": "application/octet-stream"}), 400, "DIGEST_INVALID")
    expect(there.call("GET", "blobs/" + sha256(b"other")), 404)
    expect(there.call("POST", "blobs/uploads/?digest=sha256:abc", data), 400, "DIGEST_INVALID")


def pieces_come_in_order():
    there, data = place("push"), os.urandom(70000)
    location = there.begin()
    answer = expect(there.patch(location, data[:30000], 0), 202)
    assert answer["Range"] == "0-29999", answer["Range"]
    status = expect(there.call("GET", answer["Location"]), 204)
    assert status["Range"] == "0-29999" and status["Location"] and status["Docker-Upload-UUID"]
    for start in (0, 29999, 30001):
        wrong = expect(there.patch(answer["Location"], data[start:start + 10], start), 416)
        assert wrong["Range"] == "0-29999" and wrong["Location"]
    answer = expect(there.patch(answer["Location"], data[30000:], 30000), 202)
    assert answer["Range"] == "0-69999"
    expect(there.close(answer["Location"], sha256(data)), 201)
    assert there.call("GET", "blobs/" + sha256(data)).body == data


def the_last_piece_may_come_with_the_put():
    there, data = place("push"), os.urandom(1000)
    answer = expect(there.patch(there.begin(), data[:400]), 202)
    mark = "&" if "?" in answer["Location"] else "?"
    target = answer["Location"] + mark + "digest=" + sha256(data)
    expect(there.call("PUT", target, data[300:], {"Content-Range": "300-999"}), 416)
    expect(there.call("PUT", target, data[400:], {"Content-Range": "400-999"}), 201)


def a_piece_may_come_without_a_length():
    there, data = place("push"), os.urandom(300000)
    location = there.begin()
    pieces = (data[at:at + 7777] for at in range(0, len(data), 7777))
    answer = expect(there.call("PATCH", location, pieces, {"Content-Type": "application/octet-stream",
                                                          "Transfer-Encoding": "chunked"}, encode_chunked=True), 202)
    assert answer["Range"] == "0-299999"
    expect(there.close(answer["Location"], sha256(data)), 201)


def a_piece_shorter_than_its_range_does_not_count():
    there, data = place("push"), os.urandom(1000)
    location = expect(there.patch(there.begin(), data[:100], 0), 202)["Location"]
    more = {"Content-Type": "application/octet-stream", "Content-Range": "100-999", "Transfer-Encoding": "chunked"}
    expect(there.call("PATCH", location, iter([data[100:600]]), more, encode_chunked=True), 400, "SIZE_INVALID")
    assert expect(there.call("GET", location), 204)["Range"] == "0-99"
    target = location + "?digest=" + sha256(data[:600])
    expect(there.call("PUT", target, iter([data[100:600]]), more, encode_chunked=True), 400, "SIZE_INVALID")
    expect(there.call("GET", "blobs/" + sha256(data[:600])), 404)
    location = expect(there.patch(location, data[100:], 100), 202)["Location"]
    expect(there.close(location, sha256(data)), 201)


def a_session_without_bytes_says_so():
    """docs/decisions/0015-range-of-nothing.md"""
    there, data = place("push"), os.urandom(3000)
    location = there.begin()
    status = expect(there.call("GET", location), 204)
    assert status["Range"] == "0-0" and status["Location"], status["Range"]
    wrong = expect(there.patch(location, data, 1), 416, "RANGE_INVALID")
    assert wrong["Range"] is None and wrong["Location"], wrong["Range"]
    target = location + "?digest=" + sha256(data)
    wrong = expect(there.call("PUT", target, data[1:], {"Content-Range": "1-2999"}), 416, "RANGE_INVALID")
    assert wrong["Range"] is None and wrong["Location"], wrong["Range"]
    assert expect(there.patch(location, b""), 202)["Range"] == "0-0"
    assert expect(there.patch(location, data[:1], 0), 202)["Range"] == "0-0"
    assert expect(there.patch(location, data[:1], 0), 416)["Range"] == "0-0"
    assert expect(there.patch(location, data[1:], 1), 202)["Range"] == "0-2999"
    expect(there.close(location, sha256(data)), 201)


def nothing_is_a_blob():
    there = place("push")
    location = there.begin()
    assert expect(there.call("GET", location), 204)["Range"] == "0-0"
    expect(there.close(location, EMPTY), 201)
    assert expect(there.call("GET", "blobs/" + EMPTY), 200).body == b""


def another_digest_is_refused():
    there = place("push")
    location = there.begin()
    expect(there.patch(location, b"these bytes"), 202)
    expect(there.close(location, sha256(b"other bytes")), 400, "DIGEST_INVALID")
    expect(there.call("PUT", location), 400, "DIGEST_INVALID")
    expect(there.close(location, sha256(b"these bytes")), 201)


def another_digest_is_refused_however_it_comes():
    there, data = place("push"), os.urandom(9000)
    for digest in (sha256(b"another"), "sha512:" + hashlib.sha512(b"another").hexdigest()):
        expect(there.call("POST", "blobs/uploads/?digest=" + digest, data), 400, "DIGEST_INVALID")
        expect(there.close(there.begin(), digest, data), 400, "DIGEST_INVALID")
        location = there.begin()
        for start in (0, 3000, 6000):
            expect(there.patch(location, data[start:start + 3000], start), 202)
        expect(there.close(location, digest), 400, "DIGEST_INVALID")
        location = there.begin()
        expect(there.patch(location, data[:3000], 0), 202)
        expect(there.call("PUT", f"{location}?digest={digest}", data[3000:], {"Content-Range": "3000-8999"}), 400,
               "DIGEST_INVALID")
        expect(there.patch(location, data[3000:], 3000), 202)  # bytes with the wrong digest were not kept
        location = there.begin()
        expect(there.call("PATCH", location, iter([data]), {"Transfer-Encoding": "chunked"}, encode_chunked=True), 202)
        expect(there.close(location, digest), 400, "DIGEST_INVALID")
        expect(there.call("HEAD", "blobs/" + digest), 404)


def a_cancelled_session_is_gone():
    there = place("push")
    location = there.begin()
    expect(there.patch(location, b"x" * 1000), 202)
    expect(there.call("DELETE", location), 204)
    expect(there.call("DELETE", location), 404, "BLOB_UPLOAD_UNKNOWN")
    expect(there.call("GET", location), 404, "BLOB_UPLOAD_UNKNOWN")
    expect(there.patch(location, b"y"), 404, "BLOB_UPLOAD_UNKNOWN")
    expect(there.close(location, sha256(b"x" * 1000)), 404, "BLOB_UPLOAD_UNKNOWN")


def a_session_is_nobody_elses():
    there = place("push")
    location = there.begin()
    other = server.client(state["other"]).repository("main/models/push")
    expect(other.patch(location, b"stolen"), 404, "BLOB_UPLOAD_UNKNOWN")
    head, secret = location.rsplit(".", 1)
    guessed = head + "." + ("A" if secret[0] != "A" else "B") + secret[1:]
    expect(there.patch(guessed, b"guessed"), 404, "BLOB_UPLOAD_UNKNOWN")
    moved = location.replace("/push/", "/pull/")
    expect(place("pull").patch(moved, b"moved"), 404, "BLOB_UPLOAD_UNKNOWN")
    expect(there.patch(location, b"mine"), 202)


def a_second_writer_is_refused_while_one_writes():
    there, until, answer = place("push"), time.monotonic() + 120, None
    while answer is None:
        location = there.begin()
        parts = urllib.parse.urlsplit(location)
        link = there.client.connection()
        link.putrequest("PATCH", parts.path + ("?" + parts.query if parts.query else ""))
        link.putheader("Authorization", "Bearer " + there.client.token(there.scope))
        link.putheader("Content-Length", "400000")
        link.endheaders()
        link.send(b"a" * 200000)
        left = 200000
        while left > 190000:  # it never pauses, because another writer could take over the session
            seen = there.patch(location, b"b", 400000)
            if seen.status != 416:  # out of order, while there is no writer
                answer = seen
                break
            time.sleep(0.05)
            link.send(b"a" * 100)
            left -= 100
        if answer is None:  # the two met, and the first one was refused; or it is very slow
            link.send(b"a" * left)
            assert link.getresponse().status in (202, 409)
            link.close()
            assert time.monotonic() < until, "the first request never began to write"
    expect(answer, 409, "BLOB_UPLOAD_INVALID")
    link.send(b"a" * left)
    assert link.getresponse().status == 202
    link.close()
    expect(there.close(location, sha256(b"a" * 400000)), 201)


def of_many_writers_each_byte_is_written_once():
    """Sixteen clients send the same piece at the same time, then each the next one; the blob is the same as from one client."""
    there, data = place("push"), os.urandom(8 * 40000)
    location = there.begin()
    there.client.token(there.scope)
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        for start in range(0, len(data), 40000):
            answers = list(pool.map(lambda _, at=start: there.patch(location, data[at:at + 40000], at), range(16)))
            taken = [answer for answer in answers if answer.status == 202]
            assert len(taken) == 1, [answer.status for answer in answers]
            for answer in answers:
                assert answer.status in (202, 409, 416), answer.status
                if answer.status == 416:
                    assert answer["Location"] and answer["Range"] == f"0-{start + 39999}", answer["Range"]
            assert taken[0]["Range"] == f"0-{start + 39999}"
        closed = list(pool.map(lambda _: there.close(location, sha256(data)), range(4)))
    assert sorted(answer.status for answer in closed)[0] == 201
    assert {answer.status for answer in closed} <= {201, 404, 409}, [answer.status for answer in closed]
    assert there.call("GET", "blobs/" + sha256(data)).body == data


def pieces_that_overlap_are_refused_and_change_nothing():
    there, data = place("push"), os.urandom(9000)
    location = there.begin()
    expect(there.patch(location, data[:5000], 0), 202)
    target = location + "?digest=" + sha256(data)
    for method, where in (("PATCH", location), ("PUT", target)):
        for first, last in ((0, 8999), (4999, 8999), (5001, 8999), (8999, 8999), (0, 4999)):
            wrong = expect(there.call(method, where, data[first:last + 1], {"Content-Range": f"{first}-{last}"}), 416)
            assert wrong["Range"] == "0-4999" and wrong["Location"], (method, first, last, wrong["Range"])
    expect(there.call("PATCH", location, data[5000:], {"Content-Range": "5000-9999"}), 400, "SIZE_INVALID")
    for nonsense in ("bytes=5000-8999", "5000", "8999-5000", "-5", "a-b"):
        expect(there.call("PATCH", location, data[5000:], {"Content-Range": nonsense}), 416)
    assert expect(there.call("GET", location), 204)["Range"] == "0-4999"
    expect(there.call("PUT", target, data[5000:], {"Content-Range": "5000-8999"}), 201)
    assert there.call("GET", "blobs/" + sha256(data)).body == data


def a_cut_connection_keeps_what_came():
    there, location = place("push"), place("push").begin()
    data = os.urandom(1 << 20)
    parts = urllib.parse.urlsplit(location)
    link = there.client.connection()
    link.putrequest("PATCH", parts.path)
    link.putheader("Authorization", "Bearer " + there.client.token(there.scope))
    link.putheader("Content-Length", str(len(data)))
    link.endheaders()
    link.send(data[:700000])
    time.sleep(0.5)
    link.close()
    offset, until = 0, time.monotonic() + 20
    while offset == 0 or (answer := there.patch(location, data[offset:], offset)).status in (409, 416):  # the first request still writes
        assert time.monotonic() < until, f"{offset} bytes are kept of an upload that was cut"
        time.sleep(0.1)
        offset = sijil_test.bytes_kept(expect(there.call("GET", location), 204))
        assert offset <= 700000, offset
    expect(answer, 202)
    expect(there.close(location, sha256(data)), 201)


def a_sha512_is_a_digest():
    there, data = place("push"), os.urandom(5000)
    digest = "sha512:" + hashlib.sha512(data).hexdigest()
    expect(there.close(expect(there.call("POST", "blobs/uploads/?digest-algorithm=sha512"), 202)["Location"], digest,
                       data), 201)
    answer = expect(there.call("GET", "blobs/" + digest), 200)
    assert answer.body == data and answer["Docker-Content-Digest"] == digest
    expect(there.call("POST", "blobs/uploads/?digest-algorithm=md5"), 400)
    late = os.urandom(100000)  # the POST did not name the algorithm
    digest = "sha512:" + hashlib.sha512(late).hexdigest()
    expect(there.close(there.begin(), digest, late), 201)
    assert expect(there.call("GET", "blobs/" + digest), 200).body == late


# ---- Mount ----

def a_mount_is_201_or_202_and_never_403():
    source, target = place("mount-source"), place("mount-target")
    digest = source.push_blob(b"mounted")
    both = "repository:main/models/mount-target:pull,push repository:main/models/mount-source:pull"
    query = "blobs/uploads/?mount=" + urllib.parse.quote(digest)
    answer = expect(target.call("POST", query + "&from=main%2Fmodels%2Fmount-source", scope=both), 201)
    assert answer["Location"].endswith("/blobs/" + digest) and answer["Docker-Content-Digest"] == digest
    assert expect(target.call("GET", "blobs/" + digest), 200).body == b"mounted"
    expect(target.call("POST", query, scope=both), 201)  # the repository has the blob already
    for wrong in ("mount=" + UNKNOWN + "&from=main/models/mount-source", "mount=" + UNKNOWN,
                  "mount=" + digest + "&from=main/secret/nothing", "mount=nonsense&from=main/models/mount-source",
                  "mount=" + digest + "&from=../../etc"):
        answer = expect(place("mount-new").call("POST", "blobs/uploads/?" + wrong), 202)
        assert answer["Location"] and answer["Docker-Upload-UUID"]
    # Only inside one project, even if the caller may read both: projects share nothing.
    apart = server.client(state["login"]).repository("main/both/source")
    foreign = apart.push_blob(b"of another project")
    both = "repository:main/models/mount-new:pull,push repository:main/both/source:pull"
    expect(place("mount-new").call("POST", f"blobs/uploads/?mount={foreign}&from=main/both/source", scope=both), 202)
    expect(place("mount-new").call("HEAD", "blobs/" + foreign), 404)
    # Without the right to pull from the source.
    expect(place("mount-other").call("POST", query + "&from=main/models/mount-source"), 202)


def a_mount_tells_nothing_of_its_source():
    """A hidden source that existed cost one more event, and the time of one more commit, than a source that did not exist."""
    admin = server.client(server.admin)
    admin.api("POST", "/projects", {"organisation": "main", "name": "hidden"})
    login = sijil_test.make_robot(server, "hider", "publisher", "main/hidden")
    digest = server.client(login).repository("main/hidden/there").push_blob(b"hidden")
    target = place("mount-blind")

    def events(source):
        """How many events one request adds: the least of some tries, because the log has other events too."""
        counts = []
        for _ in range(5):
            ends = [int(expect(target.call("POST", f"blobs/uploads/?mount={digest}&from={source}"), 202)
                        ["Sijil-Audit"].rsplit("/", 1)[1]) for _ in range(2)]
            counts.append(ends[1] - ends[0])
        return min(counts)

    assert events("main/hidden/there") == events("main/hidden/gone") == events("main/nothing/gone")


def a_mount_shows_nobody_another_organisation():
    """A denied mount from another organisation was one event of both organisations, with the ordinals of both. So each auditor learned
    whether a name of the other organisation exists, and how often it is used."""
    admin = server.client(server.admin)
    admin.api("POST", "/organisations", {"name": "beyond"})
    admin.api("POST", "/projects", {"organisation": "beyond", "name": "models"})
    theirs = sijil_test.make_robot(server, "theirs", "publisher", "beyond/models", organisation="beyond")
    digest = server.client(theirs).repository("beyond/models/there").push_blob(b"of another organisation")
    roamer = admin.api("POST", "/robots", {"name": "roamer"})
    for scope in ("main/models", "beyond/models"):
        admin.api("POST", "/bindings", {"robot": roamer["id"], "role": "publisher", "scope": scope})
    first = int(server.sql("SELECT max(seq) FROM audit_entry"))
    target, path = place("mount-apart"), f"blobs/uploads/?mount={digest}&from="
    for source in ("beyond/models/there", "beyond/models/gone", "nowhere/at/all"):
        expect(target.call("POST", path + source), 202)
        expect(server.client(state["promoter"]).repository(target.name).call("POST", path + source, scope=target.scope), 403, "DENIED")
        answer = server.client().call("POST", f"/v2/{target.name}/{path}{source}")
        assert answer.status == 401 and source not in answer["WWW-Authenticate"], answer["WWW-Authenticate"]
    # A caller that may read the source reads nothing from it by this.
    both = server.client((roamer["name"], roamer["secret"])).repository(target.name)
    expect(both.call("POST", path + "beyond/models/there", scope=target.scope + " repository:beyond/models/there:pull"), 202)
    leaves = json.loads(server.sql("SELECT replace(json_agg(convert_from(leaf, 'UTF8')::json ORDER BY seq)::text, E'\\n', '') FROM audit_entry"))
    for leaf in leaves:
        for kind in ("org:", "prj:"):
            assert sum(key.startswith(kind) for key in leaf["k"]) <= 1, leaf
    late = [leaf for leaf in leaves if leaf["seq"] > first]
    foreign = [leaf for leaf in late if leaf["res"].startswith(("beyond/", "nowhere/"))]
    assert [(leaf["act"], leaf["res"], leaf["out"]) for leaf in foreign] == [
        ("blob.read", f"{source}#{digest}", "denied") for source in ("beyond/models/there", "beyond/models/gone", "nowhere/at/all")], foreign
    assert len({leaf["actor"] for leaf in foreign}) == 1 and "main/" not in json.dumps(foreign), foreign
    own = [leaf for leaf in late if leaf["res"].startswith(target.name)]
    assert len(own) >= 10 and not re.search("beyond|nowhere|also", json.dumps(own)), own


def a_promoter_mounts_and_uploads_nothing():
    source = place("mount-source")
    digest = source.push_blob(b"promoted")
    config = source.push_blob(b"{}")
    target = server.client(state["promoter"]).repository("main/models/promoted")
    both = "repository:main/models/promoted:pull,push repository:main/models/mount-source:pull"
    for one in (digest, config):
        expect(target.call("POST", f"blobs/uploads/?mount={one}&from=main/models/mount-source", scope=both), 201)
    expect(target.call("POST", "blobs/uploads/", scope=both), 403, "DENIED")
    # A mount that is not possible is denied: the caller may not upload instead, and 404 would mean that the repository does not exist.
    for what in (f"mount={UNKNOWN}&from=main/models/mount-source", f"mount={digest}&from=main/models/nothing-there",
                 f"mount={digest}&from=main/both/source", f"mount={UNKNOWN}", "mount=sha256:x&from=main/models/mount-source"):
        expect(target.call("POST", "blobs/uploads/?" + what, scope=both), 403, "DENIED")
    manifest = json.dumps({"schemaVersion": 2, "mediaType": IMAGE, "layers": [],
                           "config": {"mediaType": "application/vnd.oci.empty.v1+json", "digest": config, "size": 2}})
    expect(target.put_manifest("v1", manifest.encode()), 201)


# ---- Manifests ----

def a_manifest_comes_back_byte_for_byte():
    there = place("manifest")
    body = there.manifest(b"layer")
    there.push_blob(b"layer")
    body = body[:-1] + b', "x-unknown" :  [1.50, null] }'
    answer = expect(there.put_manifest("v1", body), 201)
    assert answer["Docker-Content-Digest"] == sha256(body) and answer["Location"].endswith(sha256(body))
    for method in ("GET", "HEAD"):
        for reference in ("v1", sha256(body)):
            answer = expect(there.call(method, "manifests/" + reference), 200)
            assert answer.body == (body if method == "GET" else b"")
            assert answer["Content-Type"] == IMAGE and answer["Docker-Content-Digest"] == sha256(body)
            assert answer["Content-Length"] == str(len(body))


def the_bytes_say_which_type_a_manifest_has():
    """Bytes without a mediaType are OCI's. Docker's clients can't read them under one of Docker's types, so that is refused."""
    there, listed = place("typed"), DOCKER.replace("manifest.v2", "manifest.list.v2")
    body = without_a_type(there)
    for untyped in (body, typed_as(body, ""), typed_as(body, None)):
        expect(there.put_manifest("v1", untyped, IMAGE), 201)
        for kind in (DOCKER, INDEX):
            expect(there.put_manifest("v1", untyped, kind), 400, "MANIFEST_INVALID")
        refused = expect(there.put_manifest(sha256(untyped), untyped, DOCKER), 400, "MANIFEST_INVALID")
        assert DOCKER in refused.json["errors"][0]["message"] and "mediaType" in refused.json["errors"][0]["message"], refused.body
        for reference in ("v1", sha256(untyped), "v1"):
            for method in ("GET", "HEAD"):
                answer = expect(there.call(method, "manifests/" + reference), 200)
                assert answer["Content-Type"] == IMAGE and answer["ETag"] == f'"{sha256(untyped)}"', answer["Content-Type"]
    expect(there.put_manifest("list", json.dumps({"schemaVersion": 2, "manifests": []}).encode(), listed), 400, "MANIFEST_INVALID")
    dockers = typed_as(body, DOCKER)
    expect(there.put_manifest("docker", dockers, IMAGE), 400, "MANIFEST_INVALID")
    answer = expect(there.put_manifest("docker", dockers, DOCKER), 201)
    assert answer["ETag"] == f'"{sha256(dockers)}.docker"', answer["ETag"]
    known = expect(there.call("GET", "manifests/docker", headers={"If-None-Match": answer["ETag"]}), 304)
    assert known["ETag"] == answer["ETag"], known["ETag"]


def what_is_of_dockers_schema_1_is_refused():
    """containers/image (skopeo, podman, CRI-O) refuses a manifest with such a member as ambiguous."""
    there = place("ambiguous")
    body = there.manifest()
    index = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": []}).encode()
    for kind, document in ((IMAGE, body), (INDEX, index)):
        for name in ("fsLayers", "history", "signatures"):
            for value in ([], [{}], {}, "x", 0):
                more = json.dumps({**json.loads(document), name: value}).encode()
                refused = expect(there.put_manifest("v1", more, kind), 400, "MANIFEST_INVALID")
                assert f'"{name}" is ambiguous' in refused.json["errors"][0]["message"], refused.body


def typed_as(body, kind):
    return json.dumps({**json.loads(body), "mediaType": kind}).encode()


def without_a_type(there, **more):
    return json.dumps({name: value for name, value in json.loads(there.manifest(**more)).items() if name != "mediaType"}).encode()


def index_of(*entries):
    return json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": [
        {"mediaType": kind, "digest": sha256(body), "size": size} for kind, body, size in entries]}).encode()


def an_index_says_what_its_manifests_are():
    there = place("said-by-index")
    body = without_a_type(there)
    expect(there.put_manifest("child", body, IMAGE), 201)
    for kind in (DOCKER, INDEX):
        refused = expect(there.put_manifest("wrong", index_of((kind, body, len(body))), INDEX), 400, "MANIFEST_INVALID")
        message = refused.json["errors"][0]["message"]
        assert kind in message and IMAGE in message and sha256(body) in message, message
    refused = expect(there.put_manifest("wrong", index_of(("application/vnd.x", body, len(body))), INDEX), 400, "MANIFEST_INVALID")
    assert "application/vnd.x" in refused.json["errors"][0]["message"], refused.body
    refused = expect(there.put_manifest("wrong", index_of((IMAGE, body, len(body) - 1)), INDEX), 400, "MANIFEST_INVALID")
    assert f"{len(body)} bytes, not {len(body) - 1}" in refused.json["errors"][0]["message"], refused.body
    expect(there.put_manifest("right", index_of((IMAGE, body, len(body))), INDEX), 201)


def with_(there, reference, body, **headers):
    return there.call("PUT", "manifests/" + reference, body, {
        "Content-Type": IMAGE, **{name.replace("_", "-"): value for name, value in headers.items()}})


def a_tag_is_moved_by_who_knows_it():
    """RFC 9110, 13.1: if a condition does not hold, nothing is done. It is checked in the transaction of the change."""
    there = place("conditions")
    one, two = there.manifest(annotations={"a": "1"}), there.manifest(annotations={"a": "2"})
    etag = {body: f'"{sha256(body)}"' for body in (one, two)}
    for reference in ("v1", sha256(one)):
        expect(with_(there, reference, one, If_Match="*"), 412, "PRECONDITION_FAILED")
    expect(with_(there, "v1", one, If_Match=etag[one]), 412)
    expect(there.call("GET", "manifests/" + sha256(one)), 404)
    assert expect(with_(there, "v1", one, If_None_Match="*"), 201)["ETag"] == etag[one]
    refused = expect(with_(there, "v1", two, If_None_Match="*"), 412, "PRECONDITION_FAILED")
    assert sha256(one) in refused.json["errors"][0]["message"], refused.body
    for wrong in ('"x"', etag[two], f"W/{etag[one]}"):
        expect(with_(there, "v1", two, If_Match=wrong), 412)
        expect(there.call("DELETE", "manifests/v1", headers={"If-Match": wrong}), 412, "PRECONDITION_FAILED")
        expect(there.call("DELETE", "manifests/" + sha256(one), headers={"If-Match": wrong}), 412)
        expect(there.call("GET", "manifests/v1", headers={"If-Match": wrong}), 412)
    expect(with_(there, sha256(one), one, If_None_Match="*"), 412)
    expect(there.call("HEAD", "manifests/" + sha256(two)), 404)
    assert there.call("GET", "manifests/v1").body == one
    expect(with_(there, "v1", two, If_Match=f'"x", {etag[one]}'), 201)
    expect(there.call("DELETE", "manifests/v1", headers={"If-None-Match": "*"}), 412)
    expect(there.call("DELETE", "manifests/never", headers={"If-Match": '"x"'}), 404, "MANIFEST_UNKNOWN")
    expect(there.call("DELETE", "manifests/v1", headers={"If-Match": etag[two]}), 202)
    expect(there.call("DELETE", "manifests/" + sha256(two), headers={"If-Match": etag[two]}), 202)
    missing = there.manifest(b"never pushed")
    expect(with_(there, "v2", missing, If_Match='"x"'), 400, "MANIFEST_BLOB_UNKNOWN")  # a request that would fail anyway gets its own reason


def what_a_tag_names_is_told_to_who_may_look():
    """A refused condition revealed the digest to callers that may delete or push but not read. Nothing was deleted, so they could repeat it."""
    there = place("conditions")
    body = there.manifest(annotations={"a": "looked"})
    expect(there.put_manifest("looked", body), 201)
    tidy = server.client(sijil_test.make_robot(server, "tidy", "project-admin", "main/models")).repository(there.name)
    for client, scope, method, headers in ((tidy, "delete", "DELETE", {"If-Match": '"x"'}), (tidy, "delete", "DELETE", {"If-None-Match": "*"}),
                                           (there, "push", "PUT", {"If-Match": '"x"'}), (there, "push", "PUT", {"If-None-Match": "*"}),
                                           (there, "delete", "DELETE", {"If-Match": '"x"'})):
        answer = client.call(method, "manifests/looked", body if method == "PUT" else None, {"Content-Type": IMAGE, **headers},
                             scope=f"repository:{there.name}:{scope}")
        refused = expect(answer, 412, "PRECONDITION_FAILED").body
        assert b"sha256" not in refused and b"looked" not in refused, refused
    answer = with_(there, "looked", body, If_None_Match="*")
    assert sha256(body) in expect(answer, 412).json["errors"][0]["message"], answer.body


def of_many_who_make_a_tag_one_does():
    there = place("raced")
    bodies = [there.manifest(annotations={"a": str(number)}) for number in range(12)]
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda body: with_(there, "only", body, If_None_Match="*").status, bodies))
    assert sorted(answers) == [201] + [412] * 11, answers
    held = there.call("HEAD", "manifests/only")
    assert held["Docker-Content-Digest"] == sha256(bodies[answers.index(201)])
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda body: with_(there, "only", body + b" ", If_Match=held["ETag"]).status, bodies))
    assert sorted(answers) == [201] + [412] * 11, answers


def a_blob_goes_and_comes_by_its_tag():
    there = place("conditions")
    digest = there.push_blob(b"of conditions")
    for method in ("GET", "HEAD", "DELETE"):
        answer = expect(there.call(method, "blobs/" + digest, headers={"If-Match": '"x"'}), 412)
        assert answer["Cache-Control"] != "private, max-age=31536000, immutable"
    expect(there.call("DELETE", "blobs/" + digest, headers={"If-None-Match": "*"}), 412, "PRECONDITION_FAILED")
    for match in ("*", f'"{digest}"'):
        expect(there.call("GET", "blobs/" + digest, headers={"If-Match": match}), 200)
    expect(there.call("DELETE", "blobs/" + digest, headers={"If-Match": f'"{digest}"'}), 202)
    expect(there.call("GET", "blobs/" + digest, headers={"If-Match": '"x"'}), 404)


def what_others_make_is_kept_as_it_is():
    """Models of KitOps and of Docker, an image of Docker, and unknown future kinds: types, members and bytes."""
    there = place("foreign")
    there.push_blob(b"{}")
    there.push_blob(b"layer")

    def made(media_type, config, layer, **more):
        return json.dumps({"schemaVersion": 2, "mediaType": media_type, **more, "config": {
            "mediaType": config, "digest": sha256(b"{}"), "size": 2}, "layers": [{
                "mediaType": layer, "digest": sha256(b"layer"), "size": 5, "annotations": {"org.example.path": "model/w\u00e9ights"}}]}, indent=3)
    docker = "application/vnd.docker.distribution.manifest.v2+json"
    for tag, media_type, text in (
            ("kit", IMAGE, made(IMAGE, "application/vnd.kitops.modelkit.config.v1+json", "application/vnd.kitops.modelkit.model.v1.tar+gzip")),
            ("ai", IMAGE, made(IMAGE, "application/vnd.docker.ai.model.config.v0.1+json", "application/vnd.docker.ai.gguf.v3")),
            ("docker", docker, made(docker, "application/vnd.docker.container.image.v1+json",
                                    "application/vnd.docker.image.rootfs.diff.tar.gzip")),
            ("next", IMAGE, made(IMAGE, "application/vnd.nobody.knows+json", "text/x-unheard-of", artifactType="application/x-new",
                                 annotations={"a": "\u0001 \ud83d\ude00"}, unknown=[1, -2.5e3, {"deep": [[[]]]}, None, True]))):
        body = text.encode()
        expect(there.put_manifest(tag, body, media_type), 201)
        answer = expect(there.call("GET", "manifests/" + tag), 200)
        assert answer.body == body and answer["Content-Type"] == media_type, tag
        assert answer["Docker-Content-Digest"] == sha256(body)
    listed = "application/vnd.docker.distribution.manifest.list.v2+json"
    child = expect(there.call("HEAD", "manifests/docker"), 200)
    body = json.dumps({"schemaVersion": 2, "mediaType": listed, "manifests": [{
        "mediaType": docker, "digest": child["Docker-Content-Digest"], "size": int(child["Content-Length"]),
        "platform": {"architecture": "arm64", "os": "linux", "features": ["sse4"]}}]}).encode()
    expect(there.put_manifest("list", body, listed), 201)
    answer = expect(there.call("GET", "manifests/list"), 200)
    assert answer.body == body and answer["Content-Type"] == listed


def accept_never_makes_a_406():
    """skopeo sends one Accept line for each type, other clients one line with all; the stored type is always served."""
    there = place("manifest")
    expect(there.call("GET", "manifests/v1", headers={"Accept": "text/html"}), 200)
    body = expect(there.call("GET", "manifests/v1"), 200).body
    docker = "application/vnd.docker.distribution.manifest"
    kinds = [docker + ".v1+prettyjws", docker + ".v2+json", docker + ".list.v2+json", docker + ".v1+json", INDEX, IMAGE]
    for lines in (kinds, kinds[:4], [", ".join(kinds)], [""], ["*/*;q=0.1", "application/json"]):
        link = there.client.connection()
        link.putrequest("GET", f"/v2/{there.name}/manifests/v1")
        link.putheader("Authorization", "Bearer " + there.client.token(there.scope))
        for line in lines:
            link.putheader("Accept", line)
        link.endheaders()
        response = link.getresponse()
        assert response.status == 200 and response.headers["Content-Type"] == IMAGE, (lines, response.status)
        assert response.read() == body
        link.close()


def a_manifest_needs_its_blobs():
    there = place("manifest")
    missing = there.manifest(b"never pushed")
    answer = expect(there.put_manifest("missing", missing), 400, "MANIFEST_BLOB_UNKNOWN")
    assert answer.json["errors"][0]["detail"]["digest"] == sha256(b"never pushed")
    expect(there.call("GET", "manifests/missing"), 404, "MANIFEST_UNKNOWN")
    elsewhere = json.loads(missing)
    elsewhere["layers"][0]["mediaType"] = "application/vnd.oci.image.layer.nondistributable.v1.tar"
    expect(there.put_manifest("elsewhere", json.dumps(elsewhere).encode()), 201)


def a_bad_manifest_is_refused():
    there = place("manifest")
    good = there.manifest()
    expect(there.put_manifest("bad", b"{"), 400, "MANIFEST_INVALID")
    expect(there.put_manifest("bad", b"[" * 300000), 400, "MANIFEST_INVALID")
    expect(there.put_manifest("bad", good, INDEX), 400, "MANIFEST_INVALID")
    expect(there.put_manifest("bad", good, "text/plain"), 400, "MANIFEST_INVALID")
    wrong = json.loads(good)
    wrong["config"]["size"] += 1
    expect(there.put_manifest("bad", json.dumps(wrong).encode()), 400, "MANIFEST_INVALID")
    there.push_blob(b"")
    nothing = json.dumps({**json.loads(good), "layers": [{"mediaType": IMAGE, "digest": sha256(b""), "size": 0}]}).encode()
    expect(there.put_manifest("no-bytes", nothing), 201)
    expect(there.put_manifest("bad", nothing.replace(b'"size": 0', b'"size": -0')), 400, "MANIFEST_INVALID")  # Rust's clients read no -0
    refused = expect(there.put_manifest("bad", b""), 400, "MANIFEST_INVALID")
    assert "empty" in refused.json["errors"][0]["message"], refused.body
    expect(there.put_manifest("capitals", good, IMAGE.upper()), 201)
    assert expect(there.call("HEAD", "manifests/capitals"), 200)["Content-Type"] == IMAGE
    expect(there.put_manifest("bad", b" " * ((4 << 20) + 1)), 413)
    expect(there.put_manifest(".bad", good), 400, "TAG_INVALID")
    expect(there.put_manifest("t" * 129, good), 400, "TAG_INVALID")
    expect(there.put_manifest(sha256(b"other"), good), 400, "DIGEST_INVALID")
    expect(there.put_manifest("sha256:abc", good), 400, "DIGEST_INVALID")


def a_manifest_of_4_mib_is_taken():
    there = place("manifest")
    body = there.manifest(annotations={"a": ""})
    body = there.manifest(annotations={"a": "x" * ((4 << 20) - len(body))})
    assert len(body) == 4 << 20
    expect(there.put_manifest("large", body), 201)
    assert expect(there.call("GET", "manifests/large"), 200).body == body


def a_manifest_by_digest_takes_tags():
    there = place("tagged")
    body = there.manifest()
    tags = [f"t{number}" for number in range(10)]
    answer = expect(there.put_manifest(sha256(body) + "?" + "&".join("tag=" + tag for tag in tags), body), 201)
    assert answer.headers.get_all("OCI-Tag") == tags
    for tag in tags:
        assert expect(there.call("HEAD", "manifests/" + tag), 200)["Docker-Content-Digest"] == sha256(body)
    many = "&".join(f"tag=m{number}" for number in range(50))
    expect(there.put_manifest(sha256(body) + "?" + many, body), 414)
    expect(there.put_manifest(sha256(body) + "?tag=.no", body), 400)
    for refused in ("m0", ".no"):
        expect(there.call("HEAD", "manifests/" + refused), 404)
    other = there.manifest(annotations={"a": "other"})
    digest = "sha512:" + hashlib.sha512(other).hexdigest()
    answer = expect(there.put_manifest(digest + "?tag=t0&tag=t0&tag=new", other), 201)
    assert answer["Docker-Content-Digest"] == digest and answer["Location"].endswith("/manifests/" + digest)
    for tag in ("t0", "new"):
        assert expect(there.call("HEAD", "manifests/" + tag), 200)["Docker-Content-Digest"] == digest
    assert expect(there.call("HEAD", "manifests/t1"), 200)["Docker-Content-Digest"] == sha256(body)
    assert there.call("GET", "tags/list").json["tags"] == sorted([*tags, "new"])


def digest_of(algorithm, data):
    return algorithm + ":" + getattr(hashlib, algorithm)(data).hexdigest()


def kinds_of_manifests(there, algorithm):
    """Name, media type, document; children first. All blobs are pushed, with digests of the algorithm."""
    def pushed(blob, kind, **more):
        expect(there.close(there.begin(f"?digest-algorithm={algorithm}"), digest_of(algorithm, blob), blob), 201)
        return {"mediaType": kind, "digest": digest_of(algorithm, blob), "size": len(blob), **more}

    def image(**more):
        return {"schemaVersion": 2, "mediaType": IMAGE, "config": config, "layers": [layer], **more}

    def child(document, kind=IMAGE):
        data = json.dumps(document).encode()
        return {"mediaType": kind, "digest": digest_of(algorithm, data), "size": len(data)}
    config = pushed(b'{"architecture":"amd64"}', "application/vnd.oci.image.config.v1+json")
    empty = pushed(b"{}", "application/vnd.oci.empty.v1+json", data="e30=")
    layer = pushed(os.urandom(500), "application/vnd.oci.image.layer.v1.tar+gzip")
    foreign = {**layer, "mediaType": "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip",
               "digest": digest_of(algorithm, os.urandom(9)), "urls": ["https://store.example/layer"]}
    index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": [child(image())]}
    nested = {**index, "manifests": [child(index, INDEX)]}
    gone = {"mediaType": IMAGE, "digest": UNKNOWN, "size": 3}
    return [("image", IMAGE, image()), ("untyped", IMAGE, {k: v for k, v in image().items() if k != "mediaType"}),
            ("no-layers", IMAGE, image(layers=[])), ("artifact", IMAGE, image(artifactType="a/b", config=empty, layers=[empty])),
            ("elsewhere", IMAGE, image(layers=[foreign, layer])), ("subject", IMAGE, image(subject=gone, artifactType="a/c")),
            ("fields", IMAGE, image(**{"org.example.field": [1, 2.50, {"x": None}], "annotations": {"k": "v \u00e9"}})),
            ("index", INDEX, index), ("empty-index", INDEX, {**index, "manifests": []}), ("nested-index", INDEX, nested),
            ("artifact-index", INDEX, {**index, "artifactType": "a/d", "subject": gone})]


def every_kind_of_manifest_goes_in_out_and_away():
    for algorithm in ("sha256", "sha512"):
        there = place("kinds-" + algorithm)
        kinds = [(name, kind, json.dumps(document).encode()) for name, kind, document in kinds_of_manifests(there, algorithm)]
        for name, kind, body in kinds:
            digest = digest_of(algorithm, body)
            answer = expect(there.put_manifest(f"{digest}?tag={name}", body, kind), 201)
            assert answer["Docker-Content-Digest"] == digest and answer["OCI-Tag"] == name, name
            assert answer["OCI-Subject"] == (UNKNOWN if b'"subject"' in body else None), name
            for reference in (digest, name):
                for method in ("HEAD", "GET"):
                    answer = expect(there.call(method, "manifests/" + reference), 200)
                    assert answer["Content-Type"] == kind and answer["Docker-Content-Digest"] == digest, name
                    assert answer["Content-Length"] == str(len(body)), name
                    assert answer.body == (body if method == "GET" else b""), name
        assert there.call("GET", "tags/list").json["tags"] == sorted(name for name, _, _ in kinds)
        assert len(digests_of(there.call("GET", "referrers/" + UNKNOWN))) == 2
        for name, _, body in reversed(kinds):
            expect(there.call("DELETE", "manifests/" + name), 202)
            expect(there.call("DELETE", "manifests/" + digest_of(algorithm, body)), 202)
            expect(there.call("HEAD", "manifests/" + digest_of(algorithm, body)), 404)
        assert there.call("GET", "tags/list").json["tags"] == []
        assert digests_of(there.call("GET", "referrers/" + UNKNOWN)) == []


def the_registry_says_what_it_is():
    client = server.client(state["login"])
    answer = expect(client.call("GET", "/v2/", scope=place("push").scope), 200)
    assert answer["Docker-Distribution-Api-Version"] == "registry/2.0", answer.headers
    expect(client.call("HEAD", "/v2/", scope=place("push").scope), 200)
    never = place("never")
    expect(never.call("GET", "tags/list"), 404, "NAME_UNKNOWN")
    expect(never.call("GET", "manifests/v1"), 404)
    assert expect(never.call("GET", "referrers/" + UNKNOWN), 200).json["manifests"] == []


def an_index_and_its_subject():
    there = place("index")
    child = there.manifest()
    expect(there.put_manifest(sha256(child), child), 201)
    index = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": [
        {"mediaType": IMAGE, "digest": sha256(child), "size": len(child)}],
        "subject": {"mediaType": IMAGE, "digest": UNKNOWN, "size": 7}}).encode()
    answer = expect(there.put_manifest("all", index, INDEX), 201)
    assert answer["OCI-Subject"] == UNKNOWN
    assert expect(there.call("GET", "manifests/all"), 200)["Content-Type"] == INDEX
    refused = expect(there.call("DELETE", "manifests/" + sha256(child)), 405, "UNSUPPORTED")
    assert sha256(index) in refused.json["errors"][0]["message"], refused.body  # which of them must be deleted first
    expect(there.call("DELETE", "manifests/all"), 202)
    expect(there.call("DELETE", "manifests/" + sha256(child)), 405, "UNSUPPORTED")
    expect(there.call("DELETE", "manifests/" + sha256(index)), 202)
    expect(there.call("DELETE", "manifests/" + sha256(child)), 202)


def unknown_manifests_are_404():
    there = place("manifest")
    for reference in ("nothing", ".INVALID_MANIFEST_NAME", UNKNOWN):
        expect(there.call("GET", "manifests/" + reference), 404, "MANIFEST_UNKNOWN")


# ---- Lists ----

def tags_are_listed_in_byte_order_and_in_pages():
    there = place("tags")
    body = there.manifest()
    for tag in ("b", "a", "Z", "10", "9", "_x"):
        expect(there.put_manifest(tag, body), 201)
    answer = expect(there.call("GET", "tags/list"), 200)
    assert answer.json == {"name": "main/models/tags", "tags": ["10", "9", "Z", "_x", "a", "b"]}, answer.body
    assert answer["Link"] is None
    seen, path = [], "tags/list?n=4"
    while path:
        answer = expect(there.call("GET", path), 200)
        seen += answer.json["tags"]
        link = answer["Link"]
        assert link is None or link.endswith('; rel="next"')
        path = link.split(">")[0][1:] if link else None
    assert seen == ["10", "9", "Z", "_x", "a", "b"]
    assert expect(there.call("GET", "tags/list?last=Z"), 200).json["tags"] == ["_x", "a", "b"]
    assert expect(there.call("GET", "tags/list?n=0"), 200).json["tags"] == []
    expect(there.call("GET", "tags/list?n=-1"), 400, "PAGINATION_NUMBER_INVALID")
    expect(place("never").call("GET", "tags/list"), 404, "NAME_UNKNOWN")


def referrers_are_listed():
    there = place("referrers")
    subject = there.manifest()
    expect(there.put_manifest("v1", subject), 201)
    empty = expect(there.call("GET", "referrers/" + sha256(subject)), 200)
    assert empty.json["manifests"] == [] and empty["Content-Type"] == INDEX
    pointer = {"mediaType": IMAGE, "digest": sha256(subject), "size": len(subject)}
    signature = there.manifest(subject=pointer, annotations={"who": "signer"})
    answer = expect(there.put_manifest(sha256(signature), signature), 201)
    assert answer["OCI-Subject"] == sha256(subject)
    untyped = json.loads(there.manifest(subject=pointer))
    del untyped["artifactType"]
    untyped = json.dumps(untyped).encode()
    expect(there.put_manifest(sha256(untyped), untyped), 201)
    found = {one["digest"]: one for one in expect(there.call("GET", "referrers/" + sha256(subject)), 200).json["manifests"]}
    assert set(found) == {sha256(signature), sha256(untyped)}
    assert found[sha256(signature)]["annotations"] == {"who": "signer"}
    assert found[sha256(signature)]["artifactType"] == "application/vnd.example+json"
    assert found[sha256(untyped)]["artifactType"] == "application/vnd.oci.empty.v1+json"
    filtered = expect(there.call("GET", f"referrers/{sha256(subject)}?artifactType=application/vnd.example%2Bjson"), 200)
    assert [one["digest"] for one in filtered.json["manifests"]] == [sha256(signature)]
    assert filtered["OCI-Filters-Applied"] == "artifactType"
    assert expect(there.call("GET", "referrers/" + UNKNOWN), 200).json["manifests"] == []


def follow(there, path):
    """The answers of a list, page by page."""
    answers = []
    while path:
        answers.append(expect(there.call("GET", path), 200))
        link = answers[-1]["Link"]
        assert link is None or re.fullmatch(r'</v2/[^<>" ]+>; rel="next"', link), link
        path = link.split(">")[0][1:] if link else None
    return answers


def digests_of(answer):
    return [one["digest"] for one in answer.json["manifests"]]


def referrers_come_in_pages():
    """More descriptors than clients read in one answer; some have a type that must be escaped in a Link."""
    there, kind = place("many-referrers"), "application/vnd.example.large+json"
    subject = {"mediaType": IMAGE, "digest": sha256(b"many"), "size": 4}
    large = set()
    for number in range(5):
        body = there.manifest(subject=subject, artifactType=kind, annotations={"a": str(number) * 600000})
        expect(there.put_manifest(sha256(body), body), 201)
        large.add(sha256(body))
    small = there.manifest(subject=subject)
    expect(there.put_manifest(sha256(small), small), 201)
    path = "referrers/" + subject["digest"]
    for query, wanted in (("", large | {sha256(small)}), ("?artifactType=" + urllib.parse.quote(kind), large)):
        answers = follow(there, path + query)
        found = [digest for answer in answers for digest in digests_of(answer)]
        assert len(answers) > 1 and sorted(found) == sorted(wanted), (len(answers), found)
        assert all(len(answer.body) < 4 << 20 and answer["Content-Type"] == INDEX for answer in answers)
        assert {answer["OCI-Filters-Applied"] for answer in answers} == {"artifactType" if query else None}
    largest = there.manifest(subject=subject, annotations={"a": "5" * (3 << 20)})
    expect(there.put_manifest("largest", largest), 400, "MANIFEST_INVALID")
    for number in range(3):  # each fills one page, and hides none of the others
        body = there.manifest(subject={**subject, "digest": sha256(b"few")}, annotations={"a": str(number) * 2000000})
        expect(there.put_manifest(sha256(body), body), 201)
    assert [len(digests_of(answer)) for answer in follow(there, "referrers/" + sha256(b"few"))] == [1, 1, 1]
    filtered = expect(there.call("GET", path + "?artifactType=application/vnd.example.no"), 200)
    assert filtered.json["manifests"] == [] and filtered["OCI-Filters-Applied"] == "artifactType"
    expect(there.call("GET", "referrers/sha256:abc"), 400, "DIGEST_INVALID")
    expect(there.call("GET", "referrers/latest"), 400, "DIGEST_INVALID")


def an_index_refers_without_a_type():
    there = place("referrers")
    pointer = {"mediaType": IMAGE, "digest": sha256(b"by an index"), "size": 1}
    index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": [], "subject": pointer}
    typed = {**index, "artifactType": "application/vnd.example.list", "annotations": {"who": "indexer"}}
    for document in (index, typed):
        body = json.dumps(document).encode()
        expect(there.put_manifest(sha256(body), body, INDEX), 201)
    found = {one["digest"]: one for one in expect(there.call("GET", "referrers/" + pointer["digest"]), 200).json["manifests"]}
    plain, other = (found[sha256(json.dumps(document).encode())] for document in (index, typed))
    assert plain["mediaType"] == INDEX and "artifactType" not in plain and "annotations" not in plain, plain
    assert other["artifactType"] == "application/vnd.example.list" and other["annotations"] == {"who": "indexer"}


def a_referrers_tag_is_merged():
    """For registries without the referrers API, clients keep an index under a tag made from the subject's digest."""
    there = place("fallback")
    for subject, tag in ((sha256(b"there before"), "sha256-" + sha256(b"there before")[7:]),
                         ("sha512:" + "5" * 128, "sha512-" + "5" * 64)):
        pointer = {"mediaType": IMAGE, "digest": subject, "size": 1}
        stated = there.manifest(subject=pointer, annotations={"mark": tag})
        listed = there.manifest(annotations={"mark": tag}, artifactType="application/vnd.example.listed")
        apart = there.manifest(subject={**pointer, "digest": sha256(b"apart")}, annotations={"mark": tag})
        for body in (stated, listed, apart):
            expect(there.put_manifest(sha256(body), body), 201)
        assert digests_of(there.call("GET", "referrers/" + subject)) == [sha256(stated)]
        index = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": [
            {"mediaType": IMAGE, "digest": sha256(body), "size": len(body)} for body in (listed, stated, apart)]}).encode()
        expect(there.put_manifest(tag, index, INDEX), 201)
        found = expect(there.call("GET", "referrers/" + subject), 200).json["manifests"]
        assert [one["digest"] for one in found] == sorted([sha256(stated), sha256(listed)]), found
        mine = next(one for one in found if one["digest"] == sha256(listed))
        assert mine == {"mediaType": IMAGE, "digest": sha256(listed), "size": len(listed),
                        "artifactType": "application/vnd.example.listed", "annotations": {"mark": tag}}, mine
        filtered = there.call("GET", f"referrers/{subject}?artifactType=application/vnd.example.listed")
        assert digests_of(filtered) == [sha256(listed)]
        expect(there.call("DELETE", "manifests/" + tag), 202)
        assert digests_of(there.call("GET", "referrers/" + subject)) == [sha256(stated)]


def the_catalog_shows_what_may_be_pulled():
    place("catalog/b").push_blob(b"b")
    place("catalog/a").push_blob(b"a")
    place("catalog-a").push_blob(b"before catalog/a, by bytes")
    server.client(state["stranger"]).repository("main/apart/own").push_blob(b"own")

    def names(login, query=""):
        answer = expect(server.client(login).call("GET", "/v2/_catalog" + query, scope="registry:catalog:*"), 200)
        return answer.json["repositories"], answer["Link"]

    def pages(login, size):
        seen, query = [], f"?n={size}"
        while query:
            page, link = names(login, query)
            assert len(page) == size or (page and link is None), (page, link)
            seen += page
            query = "?" + link.split(">")[0].split("?")[1] if link else None
        return seen
    assert names(state["stranger"]) == (["main/apart/own"], None)
    everything, link = names(state["login"], "?n=1000")
    assert link is None and everything == sorted(everything) and "main/apart/own" not in everything
    assert {"main/models/catalog/a", "main/models/catalog/b", "main/models/catalog-a"} <= set(everything)
    for size in (1, 3, len(everything) - 1, len(everything), len(everything) + 1):
        assert pages(state["login"], size) == everything, size
    assert names(state["login"], "?last=main/models/catalog-a&n=2")[0] == ["main/models/catalog/a", "main/models/catalog/b"]
    assert names(state["login"], "?last=zzz") == ([], None)
    assert names(state["login"], "?n=0") == ([], None)
    one = sijil_test.make_robot(server, "narrow", "consumer", "main/models/catalog/*")
    admin.api("POST", "/bindings", {"robot": next(each["id"] for each in admin.api("GET", "/robots?limit=1000")["robots"]
                                                  if each["name"] == one[0]),
                                    "role": "consumer", "scope": "main/apart/own"})
    assert names(one) == (["main/apart/own", "main/models/catalog/a", "main/models/catalog/b"], None)
    assert pages(one, 1) == names(one)[0]
    auditor = sijil_test.make_robot(server, "auditor", "auditor", "main/models")
    assert names(auditor) == ([], None)
    answer = server.client().call("GET", "/v2/_catalog")
    assert answer.status == 401 and 'scope="registry:catalog:*"' in answer["WWW-Authenticate"], answer["WWW-Authenticate"]


def tags_by(events):
    """The state that an auditor computes from the events of one repository, in order: tag -> digest."""
    tags = {}
    for event in (each["entry"] for each in events):
        detail = event["res"].partition("#")[2].split(" ")
        if event["out"] != "allowed":
            continue
        if event["act"] == "manifest.push":
            tags.update({tag: detail[0] for tag in detail[1:]})
        elif event["act"] == "tag.delete":
            tags.pop(detail[0], None)
        elif event["act"] in ("manifest.delete", "manifest.collect"):
            tags = {tag: digest for tag, digest in tags.items() if digest != detail[0]}
    return tags


def the_log_says_which_bytes_a_tag_named():
    """The event of a push had only its reference: not the tags that a push by digest moved, nor the digest that a tag got."""
    there = place("history")
    first, second = there.manifest(), there.manifest(annotations={"n": "2"})
    asked = []  # number of the event of each pull by tag, and what was served

    def ask(tag, status=200):
        answer = expect(there.call("GET", "manifests/" + tag), status)
        asked.append((int(answer["Sijil-Audit"].rsplit("/", 1)[1]), tag, answer["Docker-Content-Digest"]))

    def pushed(answer):
        event = admin.api("GET", "/audit/events/" + expect(answer, 201)["Sijil-Audit"].rsplit("/", 1)[1])["entry"]
        assert (event["act"], event["out"]) == ("manifest.push", "allowed"), event
        return event["res"].partition("#")[2]

    def log():
        return admin.api("GET", "/audit/events?order=ascending&limit=1000&key=res:main/models/history")["events"]

    assert pushed(there.put_manifest(sha256(first), first)) == sha256(first)
    assert pushed(there.put_manifest(sha256(first) + "?tag=v1&tag=latest", first)) == sha256(first) + " v1 latest"
    ask("v1")
    assert pushed(there.put_manifest("v1", second)) == sha256(second) + " v1"
    ask("v1")
    ask("latest")
    expect(there.put_manifest("v1?tag=latest", b"{"), 400)  # an event of a push that moved nothing
    expect(there.put_manifest(sha256(second) + "?tag=latest", there.manifest(b"never pushed")), 400)
    failed = there.put_manifest("v1?tag=latest", there.manifest(b"never pushed"))
    assert expect(failed, 400, "MANIFEST_BLOB_UNKNOWN")["Sijil-Audit"]
    assert log()[-1]["entry"]["out"] == "failed" and log()[-1]["entry"]["res"].endswith(" v1 latest")
    ask("latest")
    expect(there.call("DELETE", "manifests/latest"), 202)
    ask("latest", 404)
    expect(there.call("DELETE", "manifests/" + sha256(second)), 202)
    ask("v1", 404)
    assert [digest for _, _, digest in asked] == [sha256(first), sha256(second), sha256(first), sha256(first), None, None]
    events = log()
    for sequence, tag, digest in asked:
        assert tags_by(each for each in events if each["seq"] < sequence).get(tag) == digest, (sequence, tag, digest)


def the_longest_push_is_in_its_event():
    name = "h" * 60 + "/" + "h" * 60 + "/" + "h" * 60
    there = place(name)
    manifest, digest = there.manifest(), None
    tags = [f"{i:x}" * 128 for i in range(12)]
    digest = "sha512:" + hashlib.sha512(manifest).hexdigest()
    answer = expect(there.put_manifest(digest + "?" + "&".join("tag=" + tag for tag in tags), manifest), 201)
    event = admin.api("GET", "/audit/events/" + answer["Sijil-Audit"].rsplit("/", 1)[1])["entry"]
    assert event["res"] == f"main/models/{name}#{digest} " + " ".join(tags), event


# ---- Deletion ----

def a_tag_goes_alone_and_a_digest_with_its_tags():
    there = place("deleted")
    body = there.manifest()
    for tag in ("a", "b"):
        expect(there.put_manifest(tag, body), 201)
    expect(there.call("DELETE", "manifests/a"), 202)
    expect(there.call("GET", "manifests/a"), 404)
    expect(there.call("GET", "manifests/b"), 200)
    expect(there.call("DELETE", "manifests/" + sha256(body)), 202)
    expect(there.call("GET", "manifests/b"), 404)
    expect(there.call("GET", "manifests/" + sha256(body)), 404)
    expect(there.call("DELETE", "manifests/" + sha256(body)), 404)
    expect(there.call("DELETE", "manifests/a"), 404)


def a_blob_goes_when_no_manifest_needs_it():
    there, other = place("deleted"), place("deleted-not")
    manifests = [there.manifest(annotations={"which": one}) for one in ("first", "second")]
    for manifest in manifests:
        expect(there.put_manifest(sha256(manifest), manifest), 201)
    digest = there.push_blob(b"free")
    other.push_blob(b"free")
    expect(there.call("DELETE", "blobs/" + digest), 202)
    expect(there.call("GET", "blobs/" + digest), 404)
    expect(there.call("DELETE", "blobs/" + digest), 404)
    assert expect(other.call("GET", "blobs/" + digest), 200).body == b"free"
    for manifest in manifests:
        expect(there.call("DELETE", "blobs/" + sha256(b"{}")), 405, "UNSUPPORTED")
        expect(there.call("DELETE", "manifests/" + sha256(manifest)), 202)
    expect(there.call("DELETE", "blobs/" + sha256(b"{}")), 202)
    expect(there.call("DELETE", "blobs/sha256:abc"), 400, "DIGEST_INVALID")


def a_deleted_manifest_leaves_what_refers_to_it():
    there = place("deleted-subject")
    subject = there.manifest()
    expect(there.put_manifest("v1", subject), 201)
    pointer = {"mediaType": IMAGE, "digest": sha256(subject), "size": len(subject)}
    signature = there.manifest(subject=pointer)
    expect(there.put_manifest(sha256(signature), signature), 201)
    expect(there.call("DELETE", "manifests/" + sha256(subject)), 202)
    expect(there.call("GET", "manifests/v1"), 404, "MANIFEST_UNKNOWN")
    assert expect(there.call("GET", "tags/list"), 200).json["tags"] == []
    assert digests_of(there.call("GET", "referrers/" + sha256(subject))) == [sha256(signature)]
    expect(there.call("DELETE", "manifests/" + sha256(signature)), 202)
    assert digests_of(there.call("GET", "referrers/" + sha256(subject))) == []


def a_digest_that_is_none_is_400_everywhere():
    there = place("push")
    location = there.begin()
    for wrong in ("sha256:abc", "md5:d41d8cd98f00b204e9800998ecf8427e", "sha256:" + "A" * 64, "sha512:" + "1" * 64,
                  "sha384:" + "1" * 96, "sha256:" + "1" * 65):
        for method, path in (("GET", "blobs/"), ("HEAD", "blobs/"), ("DELETE", "blobs/"), ("GET", "manifests/"),
                             ("HEAD", "manifests/"), ("DELETE", "manifests/"), ("GET", "referrers/"),
                             ("POST", "blobs/uploads/?digest="), ("PUT", location + "?digest=")):
            answer = expect(there.call(method, path + wrong), 400)
            assert method == "HEAD" or answer.codes == ["DIGEST_INVALID"], (method, path, answer.body)
        expect(there.put_manifest(wrong, there.manifest()), 400, "DIGEST_INVALID")
    expect(there.call("PUT", location), 400, "DIGEST_INVALID")
    expect(there.close(location, EMPTY), 201)


# ---- Warnings ----

def a_warning_reaches_who_should_know():
    """Warning: 299 - "...": for a secret that ends soon, and for layers that the registry may not have."""
    soon = sijil_test.make_robot(server, "soon", "publisher", "main/models", expires_days=5)
    there, later = server.client(soon).repository("main/models/warned"), place("warned")
    body = there.manifest()
    form = r'299 - "the secret of robot\$main\+soon ends at 20\d\d-\d\d-\d\dT[0-9:.]+Z: ask an administrator [a-z ]+"'
    for answer in (there.put_manifest("v1", body), there.call("GET", "manifests/v1"), there.call("HEAD", "manifests/v1"),
                   there.call("GET", "manifests/v1", headers={"If-None-Match": f'"{sha256(body)}"'})):
        assert answer.status in (200, 201, 304) and re.fullmatch(form, answer["Warning"] or ""), answer["Warning"]
    assert expect(later.call("GET", "manifests/v1"), 200)["Warning"] is None
    document = json.loads(later.manifest())
    document["layers"] = [{"mediaType": "application/octet-stream", "digest": sha256(one.encode()), "size": 3,
                           "urls": ["https://elsewhere.example/" + one]} for one in ("one", "two")]
    answer = expect(later.put_manifest("v2", json.dumps(document).encode()), 201)
    assert answer["Warning"].startswith('299 - "2 of the layers may be kept elsewhere'), answer["Warning"]
    tags = "&".join(f"tag=w{number}" for number in range(12))
    document["subject"] = {"mediaType": IMAGE, "digest": UNKNOWN, "size": 1}
    body = json.dumps(document).encode()
    answer = expect(there.put_manifest(sha256(body) + "?" + tags, body), 201)
    assert len(answer.headers.get_all("Warning")) == 2 and len(answer.headers.get_all("OCI-Tag")) == 12
    assert answer["OCI-Subject"] == UNKNOWN and answer["Sijil-Audit"]


# ---- Names and rights ----

def a_repository_may_be_called_blobs():
    there = place("blobs/uploads/manifests/tags/list")
    digest = there.push_blob(b"odd")
    assert expect(there.call("GET", "blobs/" + digest), 200).body == b"odd"


def a_bad_name_is_400():
    for name in ("models", "main/models", "main/models/UPPER", "main/models/a..b"):
        answer = server.client(state["login"]).call("GET", f"/v2/{name}/tags/list",
                                                    scope="repository:main/models/push:pull")
        assert answer.status in (400, 404), (name, answer.status)


def who_asks_for_nothing_is_challenged():
    anonymous = server.client()
    for method, path in (("GET", "/v2/"), ("GET", f"/v2/main/models/push/blobs/{UNKNOWN}"),
                         ("GET", "/v2/no/such/thing/manifests/x"), ("POST", "/v2/main/models/push/blobs/uploads/"),
                         ("GET", "/v2/main/models/push/tags/list")):
        answer = anonymous.call(method, path)
        assert answer.status == 401 and answer["WWW-Authenticate"].startswith("Bearer realm="), (path, answer.status)
    for source in ("main/models/no/such/source", "main/both/source", "no/such/source"):
        mount = anonymous.call("POST", f"/v2/main/models/push/blobs/uploads/?mount={UNKNOWN}&from={source}")
        assert "repository:main/models/push:" in mount["WWW-Authenticate"], mount["WWW-Authenticate"]
        is_asked_for = f"repository:{source}:pull" in mount["WWW-Authenticate"]  # a blob of another project can't be mounted
        assert is_asked_for == source.startswith("main/models/"), mount["WWW-Authenticate"]


def who_may_only_pull_can_not_push():
    reader = server.client(state["reader"]).repository("main/models/push")
    assert reader.call("POST", "blobs/uploads/").status in (401, 403)
    digest = place("push").push_blob(b"for readers")
    assert expect(reader.call("GET", "blobs/" + digest, scope="repository:main/models/push:pull"), 200).body == b"for readers"


def another_project_is_as_if_it_were_not():
    stranger = server.client(state["stranger"]).repository("main/models/push")
    unknown = server.client(state["stranger"]).repository("main/never/push")
    there, nowhere = stranger.call("GET", "tags/list"), unknown.call("GET", "tags/list")
    assert there.status == nowhere.status and there.body.replace(b"models", b"never") == nowhere.body.replace(b"models", b"never")


server.start()
state["login"] = sijil_test.make_robot(server, "ci", "publisher", "main/models")
state["other"] = sijil_test.make_robot(server, "ci2", "publisher", "main/models")
state["reader"] = sijil_test.make_robot(server, "reader", "consumer", "main/models")
state["promoter"] = sijil_test.make_robot(server, "promoter", "promoter", "main/models")
admin = server.client(server.admin)
admin.api("POST", "/projects", {"organisation": "main", "name": "apart"})
admin.api("POST", "/projects", {"organisation": "main", "name": "both"})
admin.api("POST", "/bindings", {"robot": next(one["id"] for one in admin.api("GET", "/robots")["robots"]
                                              if one["name"] == state["login"][0]),
                                "role": "publisher", "scope": "main/both"})
state["stranger"] = sijil_test.make_robot(server, "stranger", "publisher", "main/apart")
wanted = sys.argv[1:]
cases = [
    a_pull_asks_the_database_with_its_record, # first: nobody else has asked it before
    a_blob_has_its_headers, a_range_is_exact, what_is_known_is_not_sent_again,
    what_is_not_there_is_404_and_what_is_no_digest_400, a_ping_needs_no_slash, a_name_in_another_alphabet_is_no_name,
    a_session_begins_with_a_location,
    a_location_names_no_host, one_put_brings_all,
    one_post_brings_all, pieces_come_in_order, the_last_piece_may_come_with_the_put, a_piece_may_come_without_a_length,
    a_piece_shorter_than_its_range_does_not_count, a_session_without_bytes_says_so, nothing_is_a_blob, another_digest_is_refused,
    another_digest_is_refused_however_it_comes,
    a_cancelled_session_is_gone, a_session_is_nobody_elses,
    a_second_writer_is_refused_while_one_writes, of_many_writers_each_byte_is_written_once,
    pieces_that_overlap_are_refused_and_change_nothing, a_cut_connection_keeps_what_came, a_sha512_is_a_digest,
    a_mount_is_201_or_202_and_never_403, a_mount_tells_nothing_of_its_source,
    a_mount_shows_nobody_another_organisation, a_promoter_mounts_and_uploads_nothing,
    a_manifest_comes_back_byte_for_byte, the_bytes_say_which_type_a_manifest_has, what_is_of_dockers_schema_1_is_refused,
    a_tag_is_moved_by_who_knows_it, what_a_tag_names_is_told_to_who_may_look,
    of_many_who_make_a_tag_one_does, a_blob_goes_and_comes_by_its_tag,
    an_index_says_what_its_manifests_are, what_others_make_is_kept_as_it_is, accept_never_makes_a_406,
    a_manifest_needs_its_blobs, a_bad_manifest_is_refused, a_manifest_of_4_mib_is_taken,
    a_manifest_by_digest_takes_tags, every_kind_of_manifest_goes_in_out_and_away, the_registry_says_what_it_is,
    an_index_and_its_subject, unknown_manifests_are_404,
    tags_are_listed_in_byte_order_and_in_pages, referrers_are_listed,
    referrers_come_in_pages, an_index_refers_without_a_type, a_referrers_tag_is_merged, the_catalog_shows_what_may_be_pulled,
    the_log_says_which_bytes_a_tag_named, the_longest_push_is_in_its_event, a_tag_goes_alone_and_a_digest_with_its_tags,
    a_blob_goes_when_no_manifest_needs_it, a_deleted_manifest_leaves_what_refers_to_it,
    a_digest_that_is_none_is_400_everywhere, a_warning_reaches_who_should_know, a_repository_may_be_called_blobs, a_bad_name_is_400,
    who_asks_for_nothing_is_challenged, who_may_only_pull_can_not_push, another_project_is_as_if_it_were_not,
]
sijil_test.run(*[case for case in cases if not wanted or case.__name__ in wanted], server=server)
