#!/usr/bin/env python3
"""Garbage collection, quotas, retention and immutable tags of a whole registry, by its API and by `sijil admin`.

Leases are long, and the test ends them. So the result does not depend on the speed of the machine."""
import json
import os
import subprocess
import tempfile
import time
import urllib.parse

import sijil_test
from sijil_test import Client, Server, sha256

LEASE_S = 36_000
KNOWN_S = 30  # seconds until a gateway must know a changed quota; it reads the quotas every two seconds
INDEX = "application/vnd.oci.image.index.v1+json"
IMAGE = "application/vnd.oci.image.manifest.v1+json"


class World:
    """A separate project, and a login for each role."""

    def __init__(self, server, project="models"):
        self.server, self.project = server, f"main/{project}"
        self.admin = server.client(server.admin)
        if project != "models":
            self.admin.api("POST", "/projects", {"organisation": "main", "name": project, "label": {"class": "confidential"}})
        self.login = sijil_test.make_robot(server, "ci-" + project, "publisher", self.project)
        self.ci = Client(server, self.login)

    def repository(self, name):
        return self.ci.repository(f"{self.project}/{name}")

    def collect(self, project=True, **more):
        begun = self.admin.api("POST", "/collections", {**({"project": self.project} if project else {}), **more})
        return sijil_test.follow(self.admin, begun["id"], f"?project={self.project}" if project else "")["report"]

    def quota(self, **limits):
        return self.admin.api("PUT", f"/projects/{self.project}/quota", limits)

    def used(self):
        return self.admin.api("GET", f"/projects/{self.project}/quota")

    def rules(self, **document):
        return self.admin.api("PUT", f"/projects/{self.project}/rules", document)


def leases_end():
    """Changes the rows as if that time had passed."""
    passed = f"interval '{LEASE_S + 1} seconds'"
    server.sql(f"UPDATE blob SET lease_until = lease_until - {passed}; UPDATE manifest SET renewed_at = renewed_at - {passed};"
               f" UPDATE manifest_use SET used_at = used_at - {passed}")


def sijil(server, *words, expect=0, **more):
    """Runs the command line, logged in as the administrator, and returns its output."""
    home = os.path.join(server.root, "home")
    os.makedirs(home, exist_ok=True)
    environment = {**os.environ, "HOME": home, "XDG_CONFIG_HOME": home}
    host = f"127.0.0.1:{server.port}"
    if not os.path.exists(os.path.join(home, "logged-in")):
        user, password = server.admin
        subprocess.run([sijil_test.program("sijil"), "login", host, "--username", user, "--ca-file", server.ca_file],
                       input=password + "\n", text=True, check=True, env=environment, capture_output=True)
        open(os.path.join(home, "logged-in"), "w").close()
    done = subprocess.run([sijil_test.program("sijil"), *[word.replace("HOST", host) for word in words]], text=True,
                          capture_output=True, env=environment, timeout=120, **more)
    assert done.returncode == expect, (words, done.returncode, done.stdout, done.stderr)
    return done.stdout


def events(world, action, outcome="allowed"):
    found = world.admin_auditor.api("GET", f"/audit/events?limit=1000&key=act:{action}")["events"]
    return [event for event in found if event["entry"]["outcome"] == outcome]


server = Server(["--blob-lease", str(LEASE_S), "--collect-interval", "0"])


def what_nothing_needs_goes_and_all_else_stays():
    world = World(server, "garbage")
    here, beside = world.repository("here"), world.repository("beside")
    kept, loose, shared = os.urandom(70_000), os.urandom(50_000), os.urandom(30_000)
    manifest = here.manifest(kept_blob := kept)
    here.push_blob(kept_blob)
    assert here.put_manifest("v1", manifest).status == 201
    here.push_blob(loose)
    beside.push_blob(shared)
    mounted = here.call("POST", f"blobs/uploads/?mount={urllib.parse.quote(sha256(shared))}&from={beside.name}",
                        scope=f"{here.scope} repository:{beside.name}:pull")
    assert mounted.status == 201, mounted.status
    assert beside.put_manifest("v1", beside.manifest(shared)).status == 201
    assert world.collect()["blobs"] == 0, "leases hold"
    leases_end()
    dry = world.collect(dry_run=True)
    assert (dry["blobs"], dry["bytes"]) == (1, len(loose)), dry
    assert here.call("HEAD", "blobs/" + sha256(loose)).status == 200  # which renews its lease
    assert world.collect()["blobs"] == 0, "who is told of a blob may count on it"
    leases_end()
    report = world.collect()
    assert (report["blobs"], report["bytes"]) == (1, len(loose)), report
    assert report["projects"][0]["name"] == world.project
    assert here.call("HEAD", "blobs/" + sha256(loose)).status == 404
    for repository in (here, beside):
        assert repository.call("GET", "blobs/" + sha256(shared)).body == shared
    assert here.call("GET", "blobs/" + sha256(kept)).body == kept
    here.push_blob(loose)  # again is fine
    assert here.call("GET", "blobs/" + sha256(loose)).body == loose


def what_was_deleted_has_a_certificate():
    """A certificate of deletion exists only after a client deleted the content, it was collected, and its key was forgotten."""
    world = World(server, "certified")
    here, data = world.repository("digits"), os.urandom(5000)
    path = f"/api/v1/projects/{world.project}/deletions/{here.push_blob(data)}"

    def certificate():
        return world.admin.call("GET", path, scope="registry:admin:*")
    assert here.call("DELETE", "blobs/" + sha256(data)).status == 202
    assert certificate().status == 409, "it is stored still"
    assert world.collect()["blobs"] == 0 and certificate().status == 409, "its lease is not over"
    leases_end()
    assert world.collect()["blobs"] == 1
    until = time.monotonic() + KNOWN_S
    while (answer := certificate()).status != 200:
        assert answer.status in (409, 503) and time.monotonic() < until, (answer.status, answer.body)
        time.sleep(0.1)
    assert answer.json.keys() == {"certificate", "entry", "proof"}, answer.json


def the_rules_say_which_manifests_go():
    world = World(server, "retained")
    here = world.repository("digits")
    digests = []
    for number in range(5):
        manifest = here.manifest(blob := os.urandom(1000 + number))
        here.push_blob(blob)
        answer = here.put_manifest(f"v{number}", manifest)
        assert answer.status == 201, answer.body
        digests.append(answer["Docker-Content-Digest"])
        time.sleep(0.01)
    assert here.put_manifest("stable", here.call("GET", "manifests/v0").body).status == 201
    signature = here.manifest(b"", subject={"mediaType": IMAGE, "digest": digests[1], "size": 1})
    here.push_blob(b"")
    assert here.put_manifest(sha256(signature), signature).status == 201
    child = here.manifest(annotations={"child": "1"})
    assert here.put_manifest(sha256(child), child).status == 201
    index = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": [
        {"mediaType": IMAGE, "digest": sha256(child), "size": len(child)}]}).encode()
    assert here.put_manifest("v9", index, INDEX).status == 201
    loose = here.manifest(annotations={"loose": "1"})
    assert here.put_manifest(sha256(loose), loose).status == 201
    leases_end()
    assert world.collect()["manifests"] == 0, "without rules all is kept"

    rules = {"retention": [{"repositories": "*", "tags": "v*", "keep_last": 2}, {"repositories": "*", "tags": "stable"}],
             "untagged_days": 0, "immutable": [{"repositories": "dig*", "tags": "v3"}]}
    dry = world.collect(dry_run=True, rules=rules)
    # v1, v2 and unreferenced manifests are removed; then the signature of v1. v0 is stable, v3 immutable, v4 and v9 are the last.
    doomed = {digests[1], digests[2], sha256(loose), sha256(signature)}
    assert {row["digest"] for row in dry["removed"]} == doomed, dry
    assert here.call("GET", "manifests/v1").status == 200
    world.rules(**rules)
    assert world.admin.api("GET", f"/projects/{world.project}/rules") == rules
    leases_end()
    report = world.collect()
    assert (report["manifests"], report["tags"], report["blobs"]) == (dry["manifests"], dry["tags"], dry["blobs"]), (dry, report)
    assert report["manifests"] == 4 and report["tags"] == 2, report
    there = here.call("GET", "tags/list").json["tags"]
    assert there == ["stable", "v0", "v3", "v4", "v9"], there
    for digest in doomed:
        assert here.call("GET", "manifests/" + digest).status == 404
    assert here.call("GET", "manifests/" + sha256(child)).status == 200
    assert world.collect()["manifests"] == 0


def immutable_tags_stay_where_they_are():
    world = World(server, "firm")
    here = world.repository("digits")
    first, second = here.manifest(annotations={"n": "1"}), here.manifest(annotations={"n": "2"})
    world.rules(immutable=[{"repositories": "digits", "tags": "v*"}])
    assert here.put_manifest("v1", first).status == 201
    assert here.put_manifest("v1", first).status == 201, "the same again is no move"
    assert here.put_manifest("other", first).status == 201
    moved = here.put_manifest("v1", second)
    assert (moved.status, moved.codes) == (403, ["DENIED"]) and "v1" in moved.json["errors"][0]["message"], moved.body
    moved = here.call("PUT", f"manifests/{sha256(second)}?tag=new&tag=v1", second, {"Content-Type": IMAGE})
    assert moved.status == 403, moved.body
    assert here.call("GET", "tags/list").json["tags"] == ["other", "v1"]
    for reference in ("v1", sha256(first)):  # clients delete a tag by the digest of its manifest
        answer = here.call("DELETE", "manifests/" + reference)
        assert (answer.status, answer.codes) == (403, ["DENIED"]), (reference, answer.body)
    assert here.call("DELETE", "manifests/other").status == 202
    assert here.call("GET", "manifests/v1").body == first
    world.rules()
    assert here.call("DELETE", "manifests/" + sha256(first)).status == 202


def nothing_is_left_of_a_whole_blob_that_is_refused(world, here):
    """A blob in a POST: no client knows the session, so a session that stayed open would count for a day."""
    large, small = os.urandom(200_001), os.urandom(1000)
    target, octets = f"blobs/uploads/?digest={sha256(large)}", {"Content-Type": "application/octet-stream"}
    pieces = (large[i:i + 7000] for i in range(0, len(large), 7000))
    seen = [here.call("POST", target, large, octets).status, here.call("POST", target, small, octets).status,
            here.call("POST", target, pieces, {**octets, "Transfer-Encoding": "chunked"}, encode_chunked=True).status]
    assert seen == [403, 400, 403], seen
    used = world.used()
    assert (used["bytes_used"], used["bytes_reserved"], used["sessions_open"]) == (100_000, 0, 0), used


def quotas_are_exact_and_say_so():
    world = World(server, "counted")
    here = world.repository("digits")
    first = os.urandom(100_000)
    here.push_blob(first)
    assert world.used()["bytes_used"] == 100_000
    world.quota(sessions_per_client=2)
    opened = [here.begin() for _ in range(2)]
    answer = here.call("POST", "blobs/uploads/")
    assert answer.status == 429 and "as one client may, 2" in answer.json["errors"][0]["message"], answer.body
    assert {here.call("DELETE", each).status for each in opened} == {204}
    world.quota(bytes=300_000, sessions=3)
    assert world.used()["bytes_used"] == 100_000
    here.push_blob(first)
    assert world.used()["bytes_used"] == 100_000, "the same again costs nothing"
    nothing_is_left_of_a_whole_blob_that_is_refused(world, here)
    location = here.begin()
    refused = here.patch(location, os.urandom(200_001))
    assert (refused.status, refused.codes) == (403, ["DENIED"]), refused.body
    assert "200001" in refused.json["errors"][0]["message"], refused.body
    answer = here.patch(location, os.urandom(150_000))
    assert answer.status == 202, answer.body
    assert world.used()["bytes_reserved"] == 150_000 and world.used()["bytes_used"] == 250_000
    other = here.begin()
    assert here.patch(other, os.urandom(50_001)).status == 403, "what others have reserved is not there"
    def pieces():
        yield from (os.urandom(10_000) for _ in range(6))
    refused = here.client.call("PATCH", other, pieces(), {"Transfer-Encoding": "chunked"}, scope=here.scope, encode_chunked=True)
    assert refused.status == 403, (refused.status, refused.body)
    assert here.call("DELETE", answer["Location"]).status == 204
    assert world.used()["bytes_used"] - world.used()["bytes_reserved"] == 100_000
    data = os.urandom(60_000)
    third = here.begin()
    answer = here.client.call("PATCH", third, (data[i:i + 7000] for i in range(0, 60_000, 7000)),
                              {"Transfer-Encoding": "chunked"}, scope=here.scope, encode_chunked=True)
    assert answer.status == 202, answer.body
    here.begin()
    assert (refused := here.call("POST", "blobs/uploads/")).status == 429 and refused.codes == ["TOOMANYREQUESTS"], refused.body
    assert int(refused["Retry-After"]) >= 1
    assert here.close(answer["Location"], sha256(data)).status == 201
    assert here.call("DELETE", other).status == 204
    assert world.used()["bytes_used"] == 160_000, world.used()
    manifest = here.manifest(data)
    assert here.put_manifest("v1", manifest).status == 201
    assert world.used()["bytes_used"] == 160_002 + len(manifest)
    world.quota(bytes=160_000)
    assert (refused := here.call("POST", "blobs/uploads/")).status == 403 and refused.codes == ["DENIED"], refused.body
    refused = here.put_manifest("v2", here_manifest := manifest + b" ")
    assert (refused.status, refused.codes) == (403, ["DENIED"]), refused.body
    assert here.put_manifest("v2", manifest).status == 201, "what is there costs nothing"
    assert here.call("DELETE", "manifests/" + sha256(manifest)).status == 202
    leases_end()
    assert world.collect()["bytes"] == 160_002
    assert world.used()["bytes_used"] == world.used()["bytes_reserved"] == 0, world.used()
    world.quota()
    assert world.used()["bytes"] is None
    assert here_manifest


def a_project_can_have_so_many_requests_a_minute():
    world = World(server, "busy")
    here = world.repository("digits")
    manifest = here.manifest()
    assert here.put_manifest("v1", manifest).status == 201
    calm = World(server, "calm").repository("x")
    for tries in range(3):
        if (served := served_of_130(world, here)) is not None:
            break
        minute = time.time() // 60  # some of them are served already
        while time.time() // 60 == minute:
            time.sleep(0.5)
    assert served == 100, f"{served} of 100 requests were served: {tries + 1} tries"
    assert calm.push_blob(b"others go on")
    world.quota()
    answered(here, 200)


def answered(here, status):
    """Waits until the gateway knows the changed quota."""
    until = time.monotonic() + KNOWN_S
    while (answer := here.call("GET", "manifests/v1")).status != status:
        assert time.monotonic() < until, f"{KNOWN_S} s after the quota changed it is still {answer.status}"
        time.sleep(0.05)
    return answer


def served_of_130(world, here):
    """How many of the requests in one minute were served, with a quota of 100; None if the machine was too slow for one minute."""
    while time.time() % 60 > 35:
        time.sleep(1)
    minute = time.time() // 60
    world.quota(events_per_minute=1)
    answered(here, 429)  # the one of this minute was served
    world.quota(events_per_minute=100)
    answered(here, 200)  # and this is the second
    link = here.client.connection()
    statuses = [here.call("GET", "manifests/v1", connection=link).status for _ in range(128)]
    link.close()
    refused = here.call("GET", "manifests/v1")
    if time.time() // 60 != minute:
        return None
    assert refused.codes == ["TOOMANYREQUESTS"] and 1 <= int(refused["Retry-After"]) <= 60
    assert statuses == [200] * 98 + [429] * 30, (statuses.count(200), statuses.count(429))
    return 2 + statuses.count(200)


def administrators_see_uploads_and_end_them():
    world, other = World(server, "ending"), World(server, "foreign")
    here, name = world.repository("digits"), world.project
    owner = Client(server, sijil_test.make_robot(server, "ender", "project-admin", name))
    foreign = Client(server, sijil_test.make_robot(server, "stranger", "project-admin", other.project))
    world.quota(bytes=500_000_000)
    before, abandoned = set(server.objects()), int(server.sql("SELECT count(*) FROM abandoned_object"))
    written, running, idle = here.begin(), here.begin(), here.begin()
    written = here.patch(written, os.urandom(200_000))["Location"]
    body = sijil_test.send_slowly(here, running, 100_000_000)
    sijil_test.wait_until(lambda: world.used()["bytes_reserved"] > 100_000_000, 20, "nothing is reserved for what comes")

    listed = owner.api("GET", f"/projects/{name}/uploads")["uploads"]
    assert [one["repository"] for one in listed] == [here.name] * 3 and {one["robot"] for one in listed} == {world.login[0]}, listed
    assert sorted(one["bytes"] for one in listed) == [0, 0, 200_000], listed
    assert all(one["begun"] <= one["idle_since"] < one["expires"] for one in listed), listed
    paged, after = [], ""
    while after is not None:
        page = owner.api("GET", f"/projects/{name}/uploads?limit=2" + after)
        paged, after = paged + page["uploads"], "&after=" + page["next"] if "next" in page else None
    assert paged == listed
    whole = world.admin.api("GET", "/organisations/main/uploads?limit=1000")["uploads"]
    assert all(one in whole for one in listed), whole
    shown = sijil(server, "admin", "uploads", "list", "HOST", "main")
    assert all(one["id"] in shown for one in listed), shown

    ids = {what: urllib.parse.urlsplit(location).path.rsplit("/", 1)[1].split(".")[0]
           for what, location in (("written", written), ("running", running), ("idle", idle))}
    admin_path = "/api/v1/projects/{}/uploads"

    def refused(client, method, project, upload=""):
        return client.call(method, admin_path.format(project) + upload, scope="registry:admin:*").status

    nothing = "/00000000-0000-4000-8000-000000000000"
    assert refused(foreign, "GET", name) == refused(foreign, "GET", "main/absent") == 404
    assert refused(foreign, "DELETE", name, "/" + ids["idle"]) == refused(foreign, "DELETE", "main/absent", nothing) == 404
    assert foreign.call("GET", "/api/v1/organisations/main/uploads", scope="registry:admin:*").status == 403
    assert refused(foreign, "DELETE", other.project, "/" + ids["idle"]) == 404  # not of this project
    publisher = world.ci.call("GET", admin_path.format(name), scope="registry:admin:*")
    assert publisher.status == 403, publisher.status
    assert here.call("GET", idle).status == 204, "who may not has ended it"

    sijil(server, "admin", "uploads", "cancel", "HOST", name, ids["written"], ids["running"])
    used = world.used()
    assert (used["bytes_used"], used["bytes_reserved"], used["sessions_open"]) == (0, 0, 1), used
    again = here.patch(written, b"more", 200_000)
    assert (again.status, again.codes) == (404, ["BLOB_UPLOAD_UNKNOWN"]), (again.status, again.body)
    assert b"BLOB_UPLOAD_UNKNOWN" in sijil_test.answer_while_sending(body, b"HTTP/1.1 404")
    sijil(server, "admin", "uploads", "cancel", "HOST", name, ids["running"], expect=3)
    owner.api("DELETE", f"/projects/{name}/uploads/{ids['idle']}")
    assert owner.api("GET", f"/projects/{name}/uploads")["uploads"] == []
    assert int(server.sql("SELECT count(*) FROM abandoned_object")) <= abandoned
    assert set(server.objects()) <= before, "bytes of ended uploads are on the disk"
    auditor = Client(server, sijil_test.make_robot(server, "looker", "auditor", ""))
    found = auditor.api("GET", f"/audit/events?limit=1000&key=prj:{name}")["events"]
    ended = {(one["entry"]["res"].split("#")[1], one["entry"]["out"]) for one in found if one["entry"]["act"] == "upload.end"}
    assert {(each, "allowed") for each in ids.values()} <= ended, ended
    assert (ids["idle"], "denied") in ended and (ids["running"], "failed") in ended, ended
    assert any(one["entry"]["act"] == "upload.list" for one in found)


def a_quota_from_above_is_not_raised():
    world = World(server, "capped")
    owner = Client(server, sijil_test.make_robot(server, "owner", "org-admin", "main"))
    path = f"/projects/{world.project}/quota"
    world.quota(bytes=100_000)
    owner.api("PUT", path, {"bytes": 200_000}, expect=(403,))
    owner.api("PUT", path, {"bytes": None})
    assert world.used()["bytes"] == 100_000
    owner.api("PUT", path, {"bytes": 50_000, "sessions": 5})
    found = owner.api("GET", path)
    assert (found["bytes"], found["sessions"], found["ceiling"]["bytes"]) == (50_000, 5, 100_000), found
    assert world.repository("a").call("POST", "blobs/uploads/?digest=" + sha256(bytes(60_000)), bytes(60_000)).status == 403
    world.quota()
    assert owner.api("GET", path)["bytes"] == 50_000
    owner.api("PUT", path, {})


def the_command_line_does_it_all():
    world = World(server, "typed")
    here = world.repository("digits")
    here.push_blob(os.urandom(4096))
    name = world.project
    shown = json.loads(sijil(server, "admin", "project", "quota", "HOST", name, "--bytes", "2M", "--sessions", "7", "--json"))
    assert shown == {"bytes": 2 << 20, "sessions": 7, "events_per_minute": None, "sessions_per_client": None, "cpu_seconds": None,
                     "gpu_seconds": None}, shown
    shown = json.loads(sijil(server, "admin", "project", "quota", "HOST", name, "--sessions-per-client", "2", "--json"))
    assert (shown["sessions"], shown["sessions_per_client"]) == (7, 2), shown
    shown = json.loads(sijil(server, "admin", "project", "quota", "HOST", name, "--sessions", "none", "--json"))
    assert shown["bytes"] == 2 << 20 and shown["sessions"] is None
    shown = json.loads(sijil(server, "admin", "project", "quota", "HOST", name, "--cpu-seconds", "900", "--gpu-seconds", "0", "--json"))
    assert (shown["bytes"], shown["cpu_seconds"], shown["gpu_seconds"]) == (2 << 20, 900, 0), shown
    assert "4096" in sijil(server, "admin", "project", "quota", "HOST", name)
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump({"untagged_days": 3}, file)
        file.flush()
        sijil(server, "admin", "project", "rules", "HOST", name, file.name)
        assert json.loads(sijil(server, "admin", "project", "rules", "HOST", name)) == {"untagged_days": 3}
        file.write("x")
        file.flush()
        sijil(server, "admin", "project", "rules", "HOST", name, file.name, expect=1)
    leases_end()
    assert "would be removed" in sijil(server, "admin", "gc", "HOST", name, "--dry-run")
    run = json.loads(sijil(server, "admin", "gc", "HOST", name, "--json"))
    assert run["report"]["blobs"] == 1 and run["report"]["bytes"] == 4096 and run["state"] == "completed", run
    assert "removed: 0 manifests" in sijil(server, "admin", "gc", "HOST")
    begun = json.loads(sijil(server, "admin", "gc", "HOST", name, "--detach", "--json"))
    assert begun["kind"] == "collection" and begun["project"] == name and begun["id"] != run["id"], begun
    assert "removed: 0 manifests" in sijil(server, "admin", "job", "show", "HOST", begun["id"], "--follow", "--project", name)
    listed = json.loads(sijil(server, "admin", "job", "list", "HOST", "--project", name, "--json"))
    assert [job["id"] for job in listed][:2] == [begun["id"], run["id"]] and {job["project"] for job in listed} == {name}, listed
    assert len(json.loads(sijil(server, "admin", "job", "list", "HOST", "--json"))) > len(listed)
    assert "0 manifests" in sijil(server, "admin", "job", "show", "HOST", begun["id"], "--follow")
    sijil(server, "admin", "job", "show", "HOST", begun["id"], "--project", "main/garbage", expect=3)
    sijil(server, "admin", "job", "stop", "HOST", begun["id"], "--project", name, expect=3)  # it is over


def only_those_may_who_may():
    world = World(server, "guarded")
    other = Client(server, sijil_test.make_robot(server, "warden", "project-admin", "main/garbage"))
    mine = Client(server, sijil_test.make_robot(server, "keeper", "project-admin", world.project))
    for method, path, body, expect in (
            ("PUT", f"/projects/{world.project}/quota", {"bytes": None}, 403),  # not an event of a project
            ("PUT", f"/projects/{world.project}/rules", {}, 200),
            ("GET", f"/projects/{world.project}/quota", None, 200),
            ("POST", "/collections", {}, 403),
            ("POST", "/collections", {"project": world.project}, 201)):
        answer = mine.call(method, "/api/v1" + path, json.dumps(body) if body is not None else None,
                           {"Content-Type": "application/json"} if body is not None else {}, scope="registry:admin:*")
        assert answer.status in ((expect,) if expect != 403 else (403, 404)), (method, path, answer.status, answer.body)
    run = answer.json["id"]
    for client, query in ((other, f"?project={world.project}"), (other, "?project=main/garbage"), (other, ""), (mine, "")):
        for method in ("GET", "DELETE"):
            answer = client.call(method, f"/api/v1/jobs/{run}{query}", scope="registry:admin:*")
            assert answer.status in (403, 404), (method, query, answer.status)
    assert sijil_test.follow(mine, run, f"?project={world.project}")["report"]["is_whole"]
    for path in ("/jobs", "/keys", "/keys?project=" + world.project, f"/jobs/{run}/findings"):
        answer = mine.call("GET", "/api/v1" + path, scope="registry:admin:*")
        assert answer.status in ((400,) if "/keys?" in path else (403, 404)), (path, answer.status)
    assert mine.api("GET", f"/jobs/{run}/findings?project={world.project}") == {"findings": []}
    for path in ("/jobs?project=x", "/jobs?project=a/b/c"):
        world.admin.api("GET", path, expect=(400,))
    ci = world.ci.call("PUT", f"/api/v1/projects/{world.project}/rules", "{}", {"Content-Type": "application/json"},
                       scope="registry:admin:*")
    assert ci.status == 403, ci.status
    for bad in ({"bytes": -1}, {"bytes": "1"}, {"sessions": 100001}, {"sessions_per_client": 100001}, {"sessions_per_client": "2"}, {"events_per_minute": 0}, {"size": 1}):
        world.admin.api("PUT", f"/projects/{world.project}/quota", bad, expect=(400,))
    for bad in ({"untagged_days": -1}, {"retention": [{}]}, {"immutable": [{"repositories": "%", "tags": "x"}]}, {"x": 1}):
        world.admin.api("PUT", f"/projects/{world.project}/rules", bad, expect=(400,))
    world.admin.api("POST", "/collections", {"project": "main/none"}, expect=(403, 404))
    world.admin.api("POST", "/collections", {"rules": {}, "dry_run": True}, expect=(400,))


def pulls_are_written_while_keys_are_recorded():
    """A large collection leaves many forgotten keys. A gateway that recorded all of them first did not store pulls in that time."""
    world = World(server, "pulls")
    place, data = world.repository("pulled"), os.urandom(1000)
    place.push_blob(data)
    assert place.put_manifest("v1", place.manifest(data)).status == 201
    server.sql("INSERT INTO forgotten_key (blob_id, project_id, region_id, digest, size_bytes, key_version) SELECT gen_random_uuid(),"
               " project_id, home_region, 'sha256:' || n, 1, 1 FROM project, generate_series(1, 50000) n WHERE name = 'pulls'")
    until = time.monotonic() + 50
    while server.sql("SELECT count(*) FROM forgotten_key WHERE sequence IS NOT NULL AND size_bytes = 1") == "0":
        assert time.monotonic() < until, "no key is recorded"
        time.sleep(0.05)
    assert place.call("GET", "manifests/v1").status == 200
    until = time.monotonic() + 50
    while server.sql("SELECT count(*) FROM manifest_use JOIN repository USING (repository_id) WHERE name = 'pulled'") == "0":
        assert time.monotonic() < until, "nothing is written"
        time.sleep(0.2)
    recorded, left = (int(server.sql(f"SELECT count(*) FROM forgotten_key WHERE sequence IS {which} AND size_bytes = 1"))
                      for which in ("NOT NULL", "NULL"))
    assert recorded > 0 and left > 0, (recorded, left)
    time.sleep(1)
    more = int(server.sql("SELECT count(*) FROM forgotten_key WHERE sequence IS NOT NULL AND size_bytes = 1")) - recorded
    assert more > 100, f"{more} in a second: the next batch does not follow at once"
    server.sql("DELETE FROM forgotten_key WHERE sequence IS NULL")


CASES = (what_nothing_needs_goes_and_all_else_stays, what_was_deleted_has_a_certificate, the_rules_say_which_manifests_go,
         immutable_tags_stay_where_they_are, quotas_are_exact_and_say_so, administrators_see_uploads_and_end_them, a_quota_from_above_is_not_raised,
         a_project_can_have_so_many_requests_a_minute,
         the_command_line_does_it_all, only_those_may_who_may, pulls_are_written_while_keys_are_recorded)
server.start()
sijil_test.run(*CASES, server=server)
