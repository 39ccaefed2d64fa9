"""Gateways of regions (docs/replication.md): cases of the scenario `buckets`, after those of copy_cases.py. One gateway has the region onprem/dc9 and its sijil-keyd
alone, the other one has all other regions and no key of that one. They give each other copies over mutual TLS."""
import concurrent.futures
import glob
import http.client
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import threading

import region_keyd_cases
import sijil_test
from copy_cases import FOLDER, HOME, KEYED, ME, MIB, PROJECT, REPOSITORY, SMALL, ask, by_root, copies, hold_ends, is_current, let_end, push, put, rows_of, soon, with_policy
from copy_cases import found as found_of
from copy_cases import state as copied
from region_cases import REGION, approve, sijil, world
from sijil_test import sha256, wait_until

MAIN, REGIONAL = 0, 1  # the two gateways
OTHERS = (REGION, HOME, FOLDER)
mesh = {}


def path(name):
    return world["fleet"].path(os.path.join("mesh", name))


def authority(name):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30", "-subj", "/CN=" + name, "-keyout",
                    path(name + ".key"), "-out", path(name + ".pem")], check=True, capture_output=True)


def certify(name, regions, by="peers"):
    names = ",".join(["IP:127.0.0.1", *[f"URI:sijil:region:{region}" for region in regions]])
    subprocess.run(["openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=" + name, "-addext", "subjectAltName=" + names,
                    "-keyout", path(name + ".key"), "-out", path(name + ".csr")], check=True, capture_output=True)
    subprocess.run(["openssl", "x509", "-req", "-in", path(name + ".csr"), "-CA", path(by + ".pem"), "-CAkey", path(by + ".key"), "-CAcreateserial", "-days", "30",
                    "-copy_extensions", "copy", "-out", path(name + ".pem")], check=True, capture_output=True)


def logged():
    with open(world["fleet"].path("log"), encoding="utf-8", errors="replace") as file:
        return file.read()


def mesh_lines(number, peers):
    name = ("main", "regional")[number]
    lines = {"region_peers": peers, "peer_certificate": path(name + ".pem"), "peer_key": path(name + ".key"), "peer_ca": path("peers.pem"), "peer_networks": "127.0.0.0/8"}
    return "".join(f'{key} = "{value}"\n' for key, value in lines.items()) + f"peer_listen_port = {mesh['ports'][number]}\n"


def without(text, *names):
    return "".join(line for line in text.splitlines(True) if line.split(" ")[0] not in names)


def of_main(text):
    return mesh_lines(MAIN, f"{KEYED}=https://127.0.0.1:{mesh['ports'][REGIONAL]}") + without(text, "region_keyd_folder")


def of_region(text):
    head = without(text, "region_folder", "region_key_folder", "region_networks", "region_ca_file").split('\nregion "')[0]
    peers = ", ".join(f"{region}=https://127.0.0.1:{mesh['ports'][MAIN]}" for region in OTHERS)
    place = world["fleet"].path("recorded/" + KEYED.replace("/", "-"))
    return mesh_lines(REGIONAL, peers) + head + f'\nregion "{KEYED}" {{\n driver = "fs"\n location = "{place}"\n}}\n'


def restart(numbers, edits):
    fleet = world["fleet"]
    for number in numbers:
        fleet.stop_gateway(number)
        fleet.edits[number] = edits[number]
    start(numbers)


def start(numbers):
    fleet = world["fleet"]
    for number in numbers:
        fleet.start_gateway(number)
    for number in numbers:
        fleet.wait_for_gateway(number)
    copied["place"] = fleet.clients(copied["login"])[MAIN].repository(REPOSITORY)


def entries(action, digest, region=KEYED, limit=100):
    found = world["fleet"].client(world["fleet"].admin).api("GET", f"/audit/events?action={action}&order=descending&limit={limit}")["events"]
    kept = [event["entry"] for event in found]
    return [entry for entry in kept if entry["act"] == action and digest in json.dumps(entry) and f'"{region}"' in json.dumps(entry)]


def pull(number, digest, repository=REPOSITORY, login=None):
    return world["fleet"].clients(login or copied["login"])[number].repository(repository).call("GET", "blobs/" + digest)


def nothing_is_asked_of_a_gateway_whose_certificate_is_of_other_regions():
    os.makedirs(path(""))
    mesh["ports"] = [sijil_test.free_port() for _ in (MAIN, REGIONAL)]
    authority("peers")
    authority("strangers")
    certify("main", [REGION, FOLDER])
    certify("regional", [KEYED])
    certify("stranger", [KEYED], by="strangers")
    certify("nobody", [])
    restart((MAIN, REGIONAL), {MAIN: of_main, REGIONAL: of_region})
    sijil("admin", "project", "replicate", "HOST", PROJECT, KEYED)
    wait_until(lambda: copies()[KEYED]["state"] == "unreachable" and "its certificate is of somebody else" in logged(), 30, f"it is asked: {copies()}")
    assert entries("copy.read", copied["small"]) == [], "it has lent something"


def copies_are_fetched_from_the_gateway_of_the_home_region():
    fleet = world["fleet"]
    certify("main", OTHERS)
    fleet.gateways[MAIN].send_signal(signal.SIGHUP)
    soon(lambda: set(rows_of(copied["small"])) == {HOME, FOLDER, KEYED}, f"no copy is made: {copies()}")
    is_current(KEYED)
    assert len(set(rows_of(copied["small"]).values())) == 3, "two regions have the same wrapped key"
    wait_until(lambda: entries("copy.read", copied["small"]), 30, "no event says that it was lent")
    lent, written = entries("copy.read", copied["small"]), entries("copy.write", copied["small"])
    assert [entry["out"] for entry in lent] == ["allowed"] and all(HOME in json.dumps(entry) for entry in lent), lent
    assert [entry["out"] for entry in written][:2] == ["completed", "allowed"], written
    answer = pull(REGIONAL, copied["small"])
    assert answer.status == 200 and answer.body == SMALL, (answer.status, answer.body[:300])
    newest = fleet.client(fleet.admin).api("GET", "/audit/events?action=blob.read&order=descending&limit=1")["events"][0]["entry"]
    assert f'"{KEYED}"' in json.dumps(newest), newest


def at(number):
    """The project whose home is the region with keys of its own, at one of the gateways."""
    return world["fleet"].clients(region_keyd_cases.state["login"])[number].repository("main/dc9/x")


def counted(number, metric):
    text = sijil_test.Client(world["fleet"], None, world["fleet"].ports[number]).call("GET", "/metrics").body.decode()
    return int(re.findall(rf"^{metric} (\d+)", text, re.MULTILINE)[0])


def content_elsewhere_is_read_through_the_gateway_that_has_it():
    """A client may call any gateway: manifests, blobs and ranges, decided and recorded at both ends."""
    lonely, content = sha256(b"no manifest refers to this"), os.urandom(9 * MIB + 5)
    assert pull(REGIONAL, lonely).body == b"no manifest refers to this", "a blob at home elsewhere that has no copy here"
    assert pull(MAIN, lonely).status == 200
    digest = at(REGIONAL).push_blob(content)
    manifest = at(REGIONAL).manifest(content)
    assert at(REGIONAL).put_manifest("v1", manifest).status == 201
    before, passed = len(entries("blob.read", digest)), counted(MAIN, "sijil_passed_total")
    answer = at(MAIN).call("GET", "blobs/" + digest)
    assert answer.status == 200 and answer.body == content and answer["Docker-Content-Digest"] == digest, (answer.status, answer.body[:300])
    part = at(MAIN).call("GET", "blobs/" + digest, headers={"Range": f"bytes={5 * MIB}-"})
    assert part.status == 206 and part.body == content[5 * MIB:] and part["Content-Range"] == f"bytes {5 * MIB}-{len(content) - 1}/{len(content)}", part.status
    part = at(MAIN).call("GET", "blobs/" + digest, headers={"Range": "bytes=0-0"})
    assert part.status == 206 and part.body == content[:1], part.status
    link = world["fleet"].clients(region_keyd_cases.state["login"])[MAIN].connection()
    link.request("GET", f"https://elsewhere.example/v2/main/dc9/x/blobs/{digest}", headers={"Authorization": "Bearer " + region_token(), "Range": "bytes=1-2"})
    whole = link.getresponse()  # a target with an authority, as a proxy gets it (RFC 9112, 3.2.2)
    assert (whole.status, whole.read()) == (206, content[1:3]), whole.status
    link.close()
    assert at(MAIN).call("GET", "blobs/" + digest, headers={"If-None-Match": answer["ETag"]}).status == 304
    head = at(MAIN).call("HEAD", "blobs/" + digest)
    assert head.status == 200 and head["Content-Length"] == str(len(content)), head.status
    wait_until(lambda: len(entries("blob.read", digest)) >= before + 9, 30, "not two events of each read that was passed on, and one of the condition")
    found = entries("blob.read", digest)
    assert len(found) == before + 9, found
    assert {entry["out"] for entry in found} == {"allowed"} and len({entry["actor"] for entry in found}) == 1, found
    for reference in ("v1", sha256(manifest)):
        answer = at(MAIN).call("GET", "manifests/" + reference)
        assert answer.status == 200 and answer.body == manifest and answer["Docker-Content-Digest"] == sha256(manifest), (answer.status, answer.body[:300])
        assert answer["Content-Type"] == "application/vnd.oci.image.manifest.v1+json", answer["Content-Type"]
    assert at(MAIN).call("HEAD", "manifests/v1")["Content-Length"] == str(len(manifest))
    assert counted(MAIN, "sijil_passed_total") == passed + 6 and counted(REGIONAL, "sijil_passed_here_total") >= 5
    mesh.update(content=content, digest=digest)


def a_push_goes_through_any_gateway_into_its_region():
    """In pieces, the upload goes on at the other gateway; at once; a manifest; a deletion."""
    content, begun = os.urandom(7 * MIB + 3), entries("upload.begin", "main/dc9", limit=200)
    location = at(MAIN).begin()
    answer = at(MAIN).patch(location, content[:3 * MIB], 0)
    assert answer.status == 202 and answer["Range"] == f"0-{3 * MIB - 1}", (answer.status, answer.body)
    answer = at(REGIONAL).patch(answer["Location"], content[3 * MIB:5 * MIB], 3 * MIB)
    assert answer.status == 202, (answer.status, answer.body)
    asked = at(MAIN).call("GET", answer["Location"])
    assert asked.status == 204 and sijil_test.bytes_kept(asked) == 5 * MIB, asked.status
    answer = at(MAIN).patch(answer["Location"], content[5 * MIB:], 5 * MIB)
    wrong = at(MAIN).close(answer["Location"], sha256(b"of something else"))
    assert wrong.status == 400 and b"DIGEST_INVALID" in wrong.body, (wrong.status, wrong.body)
    digest = at(MAIN).push_blob(content)
    manifest = at(MAIN).manifest(content)
    answer = at(MAIN).put_manifest("pushed", manifest)
    assert answer.status == 201 and answer["Docker-Content-Digest"] == sha256(manifest) and answer["Location"].endswith(sha256(manifest)), (answer.status, answer.body)
    refused = at(MAIN).put_manifest("pushed", b"{")
    assert refused.status == 400 and b"MANIFEST_INVALID" in refused.body, (refused.status, refused.body)
    for number in (MAIN, REGIONAL):
        assert at(number).call("GET", "blobs/" + digest).body == content and at(number).call("GET", "manifests/pushed").body == manifest
    found = at(MAIN).call("GET", "referrers/" + sha256(manifest))
    assert found.status == 200 and found.json["manifests"] == [] and "json" in found["Content-Type"], (found.status, found.body)
    referring = json.dumps({**json.loads(manifest), "subject": {"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": sha256(manifest), "size": len(manifest)}}).encode()
    assert at(MAIN).put_manifest(sha256(referring), referring)["OCI-Subject"] == sha256(manifest)
    assert [one["digest"] for one in at(MAIN).call("GET", "referrers/" + sha256(manifest)).json["manifests"]] == [sha256(referring)]
    listed, head = at(MAIN).call("GET", "referrers/" + sha256(manifest)), at(MAIN).call("HEAD", "referrers/" + sha256(manifest))
    assert (head.status, head.body) == (200, b"") and [head[name] == listed[name] for name in ("Content-Length", "Content-Type")] == [True, True], (head["Content-Length"], head["Content-Type"])
    untyped = at(MAIN).call("PUT", "manifests/untyped", manifest)  # as curl -T
    assert untyped.status == 201, (untyped.status, untyped.body)
    tag = "SELECT DISTINCT region_id FROM blob JOIN project USING (project_id) WHERE name = 'dc9'"
    assert ask(tag) == KEYED, "a blob lies elsewhere: " + ask(tag)
    wait_until(lambda: len(entries("upload.begin", "main/dc9", limit=200)) >= len(begun) + 6, 30, "not both gateways have recorded what was begun")
    assert at(MAIN).call("DELETE", "manifests/pushed").status == 202 and at(REGIONAL).call("GET", "manifests/pushed").status == 404


def real_clients_pull_and_push_through_any_gateway():
    fleet, login = world["fleet"], ":".join(region_keyd_cases.state["login"])
    host, folder = f"127.0.0.1:{fleet.ports[MAIN]}", path("clients")
    os.makedirs(folder + "/certs")
    with open(folder + "/certs/ca.crt", "w", encoding="ascii") as trust, open(fleet.ca_file, encoding="ascii") as file:
        trust.write(file.read())
    done = subprocess.run(["skopeo", "copy", "--src-cert-dir", folder + "/certs", "--src-creds", login, f"docker://{host}/main/dc9/x:v1", f"dir:{folder}/copy"],
                          capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    with open(f"{folder}/copy/{mesh['digest'][7:]}", "rb") as file:
        assert file.read() == mesh["content"]
    part = subprocess.run(["curl", "-sf", "-m", "60", "--cacert", fleet.ca_file, "-u", login, "-r", "1048576-", f"https://{host}/v2/main/dc9/x/blobs/{mesh['digest']}"],
                          capture_output=True, timeout=120, check=False)
    assert part.returncode == 0 and part.stdout == mesh["content"][MIB:], (part.returncode, len(part.stdout))
    home = {**os.environ, "HOME": folder, "XDG_CONFIG_HOME": folder}
    for words, said in ((("login", host, "--username", login.partition(":")[0], "--ca-file", fleet.ca_file), login.partition(":")[2] + "\n"),
                        (("pull", f"{host}/main/dc9/x:v1", "-o", folder + "/own"), ""), (("push", "own.txt", f"{host}/main/dc9/own:v1"), "")):  # with proofs of a key (DPoP)
        with open(folder + "/own.txt", "w", encoding="ascii") as file:
            file.write("pushed by sijil\n")
        done = subprocess.run([sijil_test.program("sijil"), *words], input=said, text=True, capture_output=True, env=home, cwd=folder, timeout=120, check=False)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
    location = at(MAIN).begin()
    sent = subprocess.run(["curl", "-sf", "-m", "60", "--cacert", fleet.ca_file, "-u", login, "-X", "PATCH", "-H", "Content-Type: application/octet-stream", "-H",
                           "Transfer-Encoding: chunked", "--data-binary", "@-", f"https://{host}{location}"], input=b"of no known length", capture_output=True, timeout=120, check=False)
    assert sent.returncode == 0 and at(REGIONAL).close(location, sha256(b"of no known length")).status == 201, sent
    done = subprocess.run(["skopeo", "copy", "--dest-cert-dir", folder + "/certs", "--dest-creds", login, "--preserve-digests", f"dir:{folder}/copy",
                           f"docker://{host}/main/dc9/again:v1"], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    with open(f"{folder}/copy/manifest.json", "rb") as file:
        assert world["fleet"].clients(region_keyd_cases.state["login"])[REGIONAL].repository("main/dc9/again").call("GET", "manifests/v1").body == file.read()


def a_gateway_gets_nothing_that_may_not_be_read_at_its_place():
    """The client is at 127.0.0.2, where it may read; the gateway that it calls is not. What is on its way when the set says so ends at either gateway."""
    fleet, name = world["fleet"], "main/placed/x"
    admin = fleet.clients(fleet.admin)[REGIONAL]  # the project gets a key of the region
    admin.api("POST", "/projects", {"organisation": "main", "name": "placed", "region": KEYED})
    login = sijil_test.make_robot(fleet, "placed", "publisher", "main/placed")
    fleet.wait_known(login, name)
    clients = fleet.clients(login)
    content = os.urandom(48 * MIB)
    digest = clients[MAIN].repository(name).push_blob(content)

    def read(number, address):
        return clients[number].repository(name).call("GET", "blobs/" + digest, connection=clients[number].connection(address=address))
    moving = []
    for address in ("127.0.0.1", "127.0.0.2"):
        link = clients[MAIN].connection(address=address)
        link.request("GET", f"/v2/{name}/blobs/{digest}", headers={"Authorization": "Bearer " + clients[MAIN].token(f"repository:{name}:pull,push,delete")})
        answer = link.getresponse()
        assert answer.status == 200 and answer.read(1000) == content[:1000], answer.status
        moving.append(answer)
    document = json.loads(sijil("policy", "show", "HOST", "--document"))
    document["networks"] = [*document.get("networks", []), {"cidr": "127.0.0.2/32", "facts": {"geo": "AE/DU", "assurance": 2}}]
    document["policies"].append({"apiVersion": "sijil.policy/v1", "kind": "ResidencyPolicy", "closed": False,
                                 "rules": [{"id": "P-PLACE", "effect": "require", "ops": ["read"], "target": {"geo_within": ["AE"], "min_assurance": 1}}],
                                 "metadata": {"id": "placed", "version": 1, "scope": ["main/placed/**"], "effective_from": "2020-01-01T00:00:00Z", "review_by": "2099-01-01"}})
    by_root("placed", document)
    for number, address, status in ((MAIN, "127.0.0.1", 403), (REGIONAL, "127.0.0.1", 403), (REGIONAL, "127.0.0.2", 200), (MAIN, "127.0.0.2", 403)):
        answer = read(number, address)
        assert answer.status == status and (status == 200 or b"P-PLACE" in answer.body), (number, address, answer.status, answer.body)
    for answer in moving:
        taken = 1000
        try:
            while piece := answer.read(MIB):
                taken += len(piece)
        except (OSError, http.client.HTTPException):
            pass  # it is cut
        assert taken < len(content), "all of it came"
    wait_until(lambda: [entry["out"] for entry in entries("blob.read", digest) if entry["out"] != "failed"][:2] == ["denied", "allowed"], 30,
               f"not both gateways have recorded the last read: {[entry['out'] for entry in entries('blob.read', digest)]}")


def a_region_that_is_cut_off_gives_and_takes_nothing_through_any_gateway():
    """It is not told which set is in force: pulls, pushes and copies."""
    dc9 = region_keyd_cases.state

    def look():
        """At once; else it looks every five seconds."""
        world["fleet"].clients(world["fleet"].admin)[REGIONAL].api("POST", "/regions/check", {"region": KEYED})
    region_keyd_cases.end()
    region_keyd_cases.act("onprem-dc9", "--main-key", world["fleet"].path("approver.pem"))
    region_keyd_cases.begin()
    look()
    wait_until(lambda: (lambda answer: answer.status == 403 and b"SYS-NOT-CURRENT" in answer.body)(pull(MAIN, dc9["first"], "main/dc9/x", dc9["login"])), 60,
               "a region that is cut off is read through the other gateway")
    for number in (REGIONAL, MAIN):
        said = at(number).call("POST", "blobs/uploads/")
        assert said.status == 403 and b"SYS-NOT-CURRENT" in said.body, (said.status, said.body)
    sijil("admin", "project", "replicate", "HOST", "main/dc9", FOLDER)
    wait_until(lambda: fetch("main", target_of(mesh["digest"], FOLDER, project="dc9"), port=REGIONAL)[1].startswith(b"SYS-NOT-CURRENT"), 30,
               "a region that is cut off gives copies away")
    sijil("admin", "project", "replicate", "HOST", "main/dc9", FOLDER, "--end")
    region_keyd_cases.end()
    region_keyd_cases.act("onprem-dc9", "--main-key", region_keyd_cases.path("main.pem"))
    region_keyd_cases.begin()
    look()
    wait_until(lambda: at(MAIN).call("GET", "blobs/" + dc9["first"]).body == b"under a key of its own", 60, "it is not read again")


def link_of(name, port=MAIN):
    """As the gateway with this certificate. "": without one."""
    context = ssl.create_default_context(cafile=path("peers.pem"))
    if name:
        context.load_cert_chain(path(name + ".pem"), path(name + ".key"))
    return http.client.HTTPSConnection("127.0.0.1", mesh["ports"][port], context=context, timeout=30)


def fetch(name, target, offset=0, port=MAIN):
    """(status, text); (0, why) if there is no connection."""
    link = link_of(name, port)
    try:
        link.request("GET", target, headers={"Range": f"bytes={offset}-"} if offset else {})
        answer = link.getresponse()
        return answer.status, answer.read()
    except (OSError, http.client.HTTPException) as error:
        return 0, str(error).encode()
    finally:
        link.close()


def target_of(digest, region=KEYED, epoch=0, policies=None, project="copied"):
    now = world["fleet"].client(world["fleet"].admin).api("GET", "/policies")
    return f"/v1/copies/{ask('SELECT project_id FROM project WHERE name = ' + repr(project))}/{digest}/{now['epoch'] + epoch}/{policies or now['digest']}/{region}"


def damage_is_marked_where_it_is_lent(digest, mark):
    """Nobody has read it here: the gateway of the other region asks for it."""
    name = ask(f"SELECT replace(blob_id::text, '-', '') FROM blob WHERE project_id = {ME} AND region_id = '{HOME}' AND digest = '{digest}'")
    (path,) = [found for found in glob.glob(world["fleet"].path("recorded/on-prem-a/**/*"), recursive=True) if os.path.basename(found).startswith(name)]
    with open(path, "r+b") as file:
        file.seek(100000)
        sound = file.read(64)
        file.seek(100000)
        file.write(b"\0" * 64)
        file.flush()
        assert fetch("regional", target_of(digest))[1] != SMALL
        wait_until(lambda: ask(f"SELECT count(*) FROM blob WHERE blob_id::text = '{name[:8]}-{name[8:12]}-{name[12:16]}-{name[16:20]}-{name[20:]}' AND damaged_at IS NOT NULL") == "1", 30,
                   "damage that was lent is not marked")
        file.seek(100000)
        file.write(sound)
    ask(mark % "NULL")


def region_token():
    """Of a client that may read there."""
    return world["fleet"].clients(region_keyd_cases.state["login"])[REGIONAL].token(at(REGIONAL).scope)


def only_the_gateway_of_the_region_gets_bytes():
    """Each is refused, and leaves no event of an allowed read."""
    digest, count = copied["small"], "SELECT count(*) FROM audit_entry WHERE action = 'copy.read'"
    refused = "SELECT coalesce(max(seq), 0) FROM audit_entry WHERE action = 'http.refused'"
    before, turned_away = int(ask(count)), int(ask(refused))
    for name in ("", "stranger"):
        status, said = fetch(name, target_of(digest))
        assert status in (0, 400) and SMALL[:20] not in said, (name, status, said)
    for name, target, status, rule in (
            ("main", target_of(digest), 403, "SYS-NOT-THE-REGION"),  # a gateway of other regions
            ("regional", target_of(digest, FOLDER), 403, "SYS-NOT-THE-REGION"),
            ("regional", target_of(digest, epoch=-1), 409, "SYS-OTHER-SET"),
            ("regional", target_of(digest, epoch=1), 409, "SYS-OTHER-SET"),
            ("regional", target_of(digest, policies=digest), 409, "SYS-OTHER-SET"),
            ("regional", target_of(sha256(b"no manifest refers to this")), 404, "SYS-NOT-FOUND"),
            ("regional", target_of(digest).replace("/v1/", "/v3/"), 400, "SYS-REQUEST"),
            ("regional", target_of(digest) + "?x=1", 400, "SYS-REQUEST"),
            ("regional", "/" + "x" * 600, 414, "SYS-REQUEST")):
        found, said = fetch(name, target)
        assert found == status and said.decode().startswith(rule + ":"), (target, found, said)
    mark = f"UPDATE blob SET damaged_at = %s WHERE project_id = {ME} AND region_id = '{HOME}' AND digest = '{digest}' RETURNING 1"
    ask(mark % "now()")
    assert fetch("regional", target_of(digest)) == (422, b"SYS-DAMAGED: what is stored of the blob does not verify\n")
    ask(mark % "NULL")
    def allowed():
        return [entry for entry in entries("blob.read", mesh["digest"]) if entry["out"] == "allowed"]
    reads = len(allowed())
    bearer = {"Authorization": "Bearer " + region_token()}
    for name, target, headers, status in (("stranger", f"/v2/main/dc9/x/blobs/{mesh['digest']}", bearer, (0, 400)), ("nobody", f"/v2/main/dc9/x/blobs/{mesh['digest']}", bearer, (403,)),
                                          ("main", f"/v2/main/dc9/x/blobs/{mesh['digest']}", {}, (401,)), ("main", "/v2/_catalog", bearer, (404,)), ("main", "/api/v1/self", bearer, (400,))):
        link = link_of(name, REGIONAL)
        try:
            link.request("GET", target, headers=headers)
            found, said = (lambda answer: (answer.status, answer.read()))(link.getresponse())
        except (OSError, http.client.HTTPException) as error:
            found, said = 0, str(error).encode()
        link.close()
        assert found in status and mesh["content"][:20] not in said, (name, target, found, said)
    assert len(allowed()) == reads, "something was recorded as read"
    assert int(ask(count)) == before, "something was recorded as read"
    damage_is_marked_where_it_is_lent(digest, mark)
    before = int(ask(count))
    wait_until(lambda: int(ask(refused)) > turned_away, 30, "no event counts what was turned away")
    assert fetch("regional", target_of(digest)) == (200, SMALL)
    assert fetch("regional", target_of(digest), 299990) == (206, SMALL[299990:])
    assert int(ask(count)) == before + 2
    link, target, found = link_of("regional"), target_of(digest, epoch=-1), 409
    while found == 409:  # 2,000 at once, and 200 a second
        link.request("GET", target)
        answer = link.getresponse()
        found, said = answer.status, answer.read()
    link.close()
    assert found == 429 and said.startswith(b"SYS-TOO-FAST:"), (found, said)


def a_set_that_tightens_cuts_a_transfer_at_the_home_end():
    """The other end, which is this test, goes on reading."""
    fleet = world["fleet"]
    fleet.client(fleet.admin).api("POST", "/projects", {"organisation": "main", "name": "tight", "region": HOME})
    login = sijil_test.make_robot(fleet, "tight", "publisher", "main/tight")
    fleet.wait_known(login, "main/tight/model")
    content, tight = os.urandom(48 * MIB), "(SELECT project_id FROM project WHERE name = 'tight')"
    digest = put(fleet.clients(login)[MAIN].repository("main/tight/model"), content, "v1")
    sijil("admin", "project", "replicate", "HOST", "main/tight", KEYED)
    draft = with_policy("tight", {"id": "T-STAY", "effect": "deny", "ops": ["replicate"], "target": {"geo_within": ["AE"]}, "message": "no copies"}, "main/tight/**")
    link, taken = link_of("regional"), 0
    link.request("GET", target_of(digest, project="tight"))
    answer = link.getresponse()
    assert answer.status == 200 and answer.read(1000) == content[:1000], answer.status
    approve(draft)
    wait_until(lambda: "failed" in {entry["out"] for entry in entries("copy.read", digest)}, 30, "the home end does not cut it")
    try:
        while piece := answer.read(MIB):
            taken += len(piece)
    except (OSError, http.client.HTTPException):
        pass  # it is cut
    link.close()
    assert taken < len(content) - 1000, "all of it came"
    said = [json.dumps(entry) for entry in entries("copy.read", digest) if entry["out"] == "failed"]
    assert said and all("SYS-OTHER-SET" in entry or "T-STAY" in entry for entry in said), said
    soon(lambda: set(rows_of(digest, tight)) == {HOME} and found_of("tight") == {KEYED: "denied"}, f"a copy stays: {rows_of(digest, tight)}")
    assert fetch("regional", target_of(digest, project="tight"))[1].startswith(b"T-STAY:")


class Impostor:
    """Has the key of the regional gateway: it takes what it is asked, and says what it wants; None: nothing."""

    def __init__(self, says):
        self.says, self.asked, self.over = says, 0, threading.Event()
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=path("peers.pem"))
        self.context.load_cert_chain(path("regional.pem"), path("regional.key"))
        self.socket = socket.create_server(("127.0.0.1", mesh["ports"][REGIONAL]), backlog=64)
        self.thread = threading.Thread(target=self.accept)

    def accept(self):
        while True:
            try:
                link = self.socket.accept()[0]
            except OSError:
                return
            threading.Thread(target=self.serve, args=(link,), daemon=True).start()

    def serve(self, link):
        try:
            with self.context.wrap_socket(link, server_side=True) as secured:
                if secured.recv(65536).split(b" ")[1].startswith(b"/v2/"):
                    self.asked += 1
                if self.says is None:
                    self.over.wait(120)
                else:
                    secured.sendall(self.says.replace("\n", "\r\n").encode())
        except (OSError, IndexError):
            pass  # somebody who wants no answer

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self.thread.join()
        self.over.set()


def nobody_else_waits_for_a_gateway_that_is_silent():
    """More reads, steps of pushes and bodies than the gateway has workers of each kind."""
    content, there = os.urandom(3 * MIB), copied["place"]
    calls = [*[("GET", "blobs/" + mesh["digest"], None)] * 20, *[("POST", "blobs/uploads/", b"")] * 8, *[("POST", "blobs/uploads/?digest=" + sha256(content), content)] * 8]
    assert there.call("GET", "blobs/" + copied["small"]).status == 200 and at(MAIN).call("HEAD", "blobs/" + mesh["digest"]).status == 200  # with tokens
    with concurrent.futures.ThreadPoolExecutor(len(calls)) as many:
        with Impostor(None) as impostor:
            waiting = [many.submit(at(MAIN).call, method, of, body) for method, of, body in calls]
            wait_until(lambda: impostor.asked == len(calls), 30, "not all of them wait for it")
            for _ in range(8):
                link = there.client.connection()
                link.timeout = 20
                assert there.call("GET", "blobs/" + copied["small"], connection=link).body == SMALL
            there.push_blob(content)
            refused = [at(MAIN).call(method, of).status for method, of in (("GET", "blobs/" + mesh["digest"]), ("POST", "blobs/uploads/"))]
            assert refused == [429, 503] and impostor.asked == len(calls), f"one region gets all: {refused}"
            assert not any(one.done() for one in waiting), "they do not wait"
        assert {one.result().status for one in waiting} == {503}


def what_sends_a_client_to_another_host_is_refused():
    for says in ("HTTP/1.1 202 Accepted\nLocation: https://evil.example/v2/x\nContent-Length: 0\n\n", "HTTP/1.1 307 Elsewhere\nLocation: /v2/x\nContent-Length: 0\n\n",
                 "HTTP/1.1 403 No\nContent-Length: 5000\n\n" + "x" * 5000):
        with Impostor(says):
            for method, of in (("POST", "blobs/uploads/"), ("GET", "blobs/" + mesh["digest"])):
                answer = at(MAIN).call(method, of)
                assert (answer.status == 503 or (method, says[9:12]) == ("POST", "403")) and b"evil" not in answer.body and answer["Location"] is None, (says[:80], method, answer.status, answer.body)


def a_fetched_copy_goes_on_after_either_end_was_killed():
    fleet = world["fleet"]
    big = push(os.urandom(112 * MIB), "fetched")
    hold_ends(KEYED)
    row = f"SELECT coalesce(max(blob_id::text || ' ' || offset_bytes), '') FROM copying WHERE digest = '{big}' AND region_id = '{KEYED}' AND sequence > 0"
    there = f"SELECT coalesce(max(blob_id::text), '') FROM blob WHERE project_id = {ME} AND region_id = '{KEYED}' AND digest = '{big}'"
    soon(lambda: ask(row), "the copy has no checkpoint")
    fleet.kill(MAIN)
    blob = ask(row).split(" ")[0]
    assert ask(there) == "", "it was there before the kill"
    fleet.kill(REGIONAL)
    for number in (MAIN, REGIONAL):
        fleet.wait_settled(number)
    let_end()
    start((MAIN,))
    for method, of in (("GET", "blobs/" + mesh["digest"]), ("POST", "blobs/uploads/")):  # nobody can be asked: the gateway that has it is named
        answer = at(MAIN).call(method, of)
        assert answer.status == 503 and f"region {KEYED} is served by another gateway, 127.0.0.1" in answer.body.decode(), (answer.status, answer.body)
    nobody_else_waits_for_a_gateway_that_is_silent()
    what_sends_a_client_to_another_host_is_refused()
    sijil("admin", "rewrap", "HOST", "--detach")
    handed = f"SELECT coalesce(max(runner), 'none') FROM job WHERE kind = 'rewrap' AND region_id = '{KEYED}'"
    wait_until(lambda: ask(handed) == "", 30, "the keys of a region that is not served here are passed over")
    start((REGIONAL,))
    wait_until(lambda: ask(handed) == "gateway1", 30, "the gateway of the region does not wrap its keys again")
    soon(lambda: ask(there), f"nobody goes on with the copy: {copies()}")
    assert ask(there) == blob, "it began anew"
    text = sijil_test.Client(fleet, None, fleet.ports[MAIN]).call("GET", "/metrics").body.decode()
    assert re.findall(r"^sijil_lent_total (\d+)", text, re.MULTILINE)[0] != "0"


def a_project_moves_only_where_one_gateway_has_both_regions():
    """To fetch it would be decided as `replicate` at the other end, and nobody could seal the manifests anew."""
    fleet = world["fleet"]
    fleet.client(fleet.admin).api("POST", "/projects", {"organisation": "main", "name": "apart", "region": HOME})
    sijil("admin", "project", "migrate", "HOST", "main/apart", KEYED)
    row = "FROM project_copy JOIN project USING (project_id) WHERE name = 'apart'"
    ask("WITH due AS (UPDATE project_copy SET due_at = now() - interval '2 minutes' WHERE region_id = '%s' RETURNING 1) SELECT count(*) FROM due" % KEYED)
    wait_until(lambda: ask(f"SELECT count(*) {row} AND state = 'unreachable' AND why LIKE '%both regions%'") == "1", 30,
               "nobody says so: " + ask(f"SELECT string_agg(state || ' ' || why, ',') {row}"))
    assert ask("SELECT home_region FROM project WHERE name = 'apart'") == HOME
    sijil("admin", "project", "migrate", "HOST", "main/apart", KEYED, "--end")
    wait_until(lambda: ask("SELECT count(*) " + row) == "0", 60, "the move does not end")


def both_gateways_have_all_regions_again():
    sijil("admin", "project", "replicate", "HOST", PROJECT, KEYED, "--end")
    soon(lambda: KEYED not in copies(), "the copies stay")
    restart((MAIN, REGIONAL), {number: lambda text: text for number in (MAIN, REGIONAL)})


def a_damaged_blob_is_read_from_its_copy_which_stays_as_the_last_sound_one():
    fleet = world["fleet"]
    fleet.client(fleet.admin).api("POST", "/projects", {"organisation": "main", "name": "rescued", "region": HOME})
    login = sijil_test.make_robot(fleet, "rescued", "publisher", "main/rescued")
    fleet.wait_known(login, "main/rescued/model")
    there, content = fleet.clients(login)[MAIN].repository("main/rescued/model"), os.urandom(300000)
    there.push_blob(content)
    answer = there.put_manifest("v1", there.manifest(content))
    assert answer.status == 201, (answer.status, answer.body)
    sijil("admin", "project", "replicate", "HOST", "main/rescued", FOLDER)
    rows = "FROM blob JOIN project USING (project_id) WHERE name = 'rescued' AND digest = '%s' AND region_id = '%s'"

    def count(region):
        return ask("SELECT count(*) " + rows % (sha256(content), region))
    soon(lambda: count(FOLDER) == "1", "no copy is made")
    name = ask("SELECT replace(blob_id::text, '-', '') " + rows % (sha256(content), HOME))
    files = [found for found in glob.glob(fleet.path("recorded/on-prem-a/**/*"), recursive=True) if os.path.basename(found).startswith(name)]
    for found in files:
        with open(found, "r+b") as file:
            file.seek(100000)
            file.write(b"\0" * 64)
    assert files, "the blob at home has no file"
    wait_until(lambda: pull(MAIN, sha256(content), there.name, login).body == content, 30, "no copy is read")
    newest = fleet.client(fleet.admin).api("GET", "/audit/events?action=blob.read&order=descending&limit=1")["events"][0]["entry"]
    assert f'"{FOLDER}"' in json.dumps(newest), newest
    assert there.call("HEAD", "blobs/" + sha256(content)).status == 404, "a push repairs nothing"
    sijil("admin", "project", "replicate", "HOST", "main/rescued", FOLDER, "--end")
    kept = "SELECT count(*) FROM project_copy JOIN project USING (project_id) WHERE name = 'rescued' AND withdrawn_at IS NOT NULL AND why LIKE '%last sound copy%'"
    soon(lambda: ask(kept) == "1", "nobody says that it stays")
    assert count(FOLDER) == "1", "the last sound copy is gone"
    there.push_blob(content)
    soon(lambda: count(FOLDER) == "0", "it stays though the home is repaired")
    assert pull(MAIN, sha256(content), there.name, login).body == content


CASES = (nothing_is_asked_of_a_gateway_whose_certificate_is_of_other_regions, copies_are_fetched_from_the_gateway_of_the_home_region,
         content_elsewhere_is_read_through_the_gateway_that_has_it, a_push_goes_through_any_gateway_into_its_region,
         real_clients_pull_and_push_through_any_gateway, a_gateway_gets_nothing_that_may_not_be_read_at_its_place,
         a_region_that_is_cut_off_gives_and_takes_nothing_through_any_gateway, only_the_gateway_of_the_region_gets_bytes,
         a_set_that_tightens_cuts_a_transfer_at_the_home_end, a_fetched_copy_goes_on_after_either_end_was_killed,
         a_project_moves_only_where_one_gateway_has_both_regions, both_gateways_have_all_regions_again,
         a_damaged_blob_is_read_from_its_copy_which_stays_as_the_last_sound_one)
