#!/usr/bin/env python3
"""Residency policies on a whole server: an officer signs sets with openssl, and the registry obeys only signed sets."""
import base64
import hashlib
import json
import os
import shutil
import subprocess
import threading
import time
import urllib.parse

import policy_drafts
import policy_exceptions
import sijil_test
from sijil_test import Server, sha256

INDEX = "application/vnd.oci.image.index.v1+json"

TYPE = "application/vnd.sijil.policy-set.v1+json"
server = Server()
state = {"epoch": 1}


def canonical(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def officer(name="approver.pem"):
    return os.path.join(server.folder, "officer", name)


def payload(**members):
    """The first set with other members and the next epoch, as in docs/policies.md."""
    with open(officer("policy-set.json"), encoding="utf-8") as file:
        found = json.loads(base64.b64decode(json.load(file)["payload"]))
    state["epoch"] += 1
    found.update({"epoch": state["epoch"], **members})
    del found["digest"]
    found["digest"] = "sha256:" + hashlib.sha256(canonical(found)).hexdigest()
    return canonical(found)


def sign(document, key=None):
    signed = b"DSSEv1 %d %s %d %s" % (len(TYPE), TYPE.encode(), len(document), document)
    made = subprocess.run(["openssl", "dgst", "-sha256", "-sign", key or officer()], input=signed, capture_output=True,
                          check=True)
    return json.dumps({"payloadType": TYPE, "payload": base64.b64encode(document).decode(),
                       "signatures": [{"sig": base64.b64encode(made.stdout).decode()}]})


def load(envelope, login=None):
    client = server.client(login or server.admin)
    return client.call("POST", "/api/v1/policies", envelope, {"Content-Type": "application/json"},
                       scope="registry:admin:*")


def active():
    return server.client(server.admin).api("GET", "/policies")


def health():
    return server.client(state["login"]).repository("main/health/scans")


def read(digest):
    return health().call("GET", "blobs/" + digest)


def prepare():
    server.start()
    admin = server.client(server.admin)
    admin.api("POST", "/projects", {"organisation": "main", "name": "health", "label": {"subjects": ["health"]}})
    state["login"] = sijil_test.make_robot(server, "clinic", "publisher", "main/health")
    state["other"] = sijil_test.make_robot(server, "other", "publisher", "main/models")


def health_data_is_stored_but_not_read_from_nowhere():
    state["blob"] = health().push_blob(b"a scan")
    refused = read(state["blob"])
    assert refused.status == 403 and refused.codes == ["DENIED"], refused.body
    detail = refused.json["errors"][0]["detail"]
    assert detail["rule"] == "H-READ-AE" and detail["policy"] == "registry-default@1", detail
    assert detail["missing"] == "assurance, geo" and detail["decision"].startswith("sha256:"), detail


def names_are_as_secret_as_content():
    """A client without known facts gets no size, digest, tag or name of health data, but its push goes on."""
    here = health()
    there = server.client(sijil_test.make_robot(server, "nurse", "consumer", "main/health")).repository("main/health/scans")
    manifest = here.manifest(b"a scan")
    assert here.put_manifest("patient-x", manifest).status == 201
    digest = sha256(manifest)
    catalog = "registry:catalog:*"
    for path in ("manifests/patient-x", "manifests/" + digest, "blobs/" + state["blob"]):
        for place, expected in ((here, 404), (there, 403)):  # a publisher gets "not there", so that it pushes; a reader is denied
            answer = place.call("HEAD", path)
            assert answer.status == expected and answer["Docker-Content-Digest"] is None, (path, answer.status)
            assert place.call("GET", path).status == 403
        assert here.call("HEAD", path.replace("patient-x", "none").replace(state["blob"], sha256(b"none"))).status == 404
    said = here.put_manifest("patient-x", here.manifest(layers=[{"mediaType": "application/octet-stream", "digest": state["blob"], "size": 9999}]))
    assert said.status == 400 and b"has 6 bytes" not in said.body and b"a stated size or media type is wrong" in said.body, said.body
    for path in ("tags/list", "referrers/" + digest):
        for place in (here, there):
            assert place.call("GET", path).status == 403, path
    assert here.push_blob(b"a scan") == state["blob"]
    assert here.put_manifest("patient-y", manifest).status == 201

    def catalog_of(place, query=""):
        return place.client.call("GET", "/v2/_catalog" + query, scope=catalog)

    admin = server.client(sijil_test.make_robot(server, "all", "publisher", "main"))
    for name in ("main/adult/a", "main/models/a", "main/models/b"):
        if name == "main/adult/a":
            server.client(server.admin).api("POST", "/projects", {"organisation": "main", "name": "adult"})
        place = admin.repository(name)
        place.push_blob(b"open to all")
    assert catalog_of(here).json["repositories"] == catalog_of(there).json["repositories"] == []
    seen, query = [], "?n=1"
    while query:
        answer = catalog_of(place, query)
        seen += answer.json["repositories"]
        assert "health" not in (answer["Link"] or ""), answer["Link"]
        query = answer["Link"] and "?" + answer["Link"].split("?")[1].split(">")[0]
    assert seen == ["main/adult/a", "main/models/a", "main/models/b"], seen


def a_stock_client_pushes_what_it_may_not_look_at():
    folder, certificates = os.path.join(server.root, "image"), os.path.join(server.root, "certificates")
    for each in (folder, certificates):
        os.makedirs(each)
    shutil.copy(server.ca_file, os.path.join(certificates, "ca.crt"))
    layer, config = b"a scan", b"{}"
    files = {"version": b"Directory Transport Version: 1.1\n", "manifest.json": health().manifest(layer),
             sha256(layer)[7:]: layer, sha256(config)[7:]: config}
    for name, content in files.items():
        with open(os.path.join(folder, name), "wb") as file:
            file.write(content)

    def skopeo(*words):
        return subprocess.run(["skopeo", *words], text=True, capture_output=True, timeout=120, check=False)

    target, login = f"docker://127.0.0.1:{server.port}/main/health/scans", ":".join(state["login"])
    for tag in ("patient-z", "patient-z", "again"):
        done = skopeo("copy", "--dest-cert-dir", certificates, "--dest-creds", login, "dir:" + folder, f"{target}:{tag}")
        assert done.returncode == 0, done.stderr
    for words in (("inspect", "--raw", "--cert-dir", certificates, "--creds", login, target + ":patient-z"),
                  ("list-tags", "--cert-dir", certificates, "--creds", login, target)):
        assert skopeo(*words).returncode != 0, words


def who_may_not_see_it_learns_no_rule():
    repository = server.client(state["other"]).repository("main/health/scans")
    other = server.client(state["other"]).repository("main/nothing/scans")
    answers = [one.call("GET", "blobs/" + state["blob"]) for one in (repository, other)]
    assert [one.status for one in answers] in ([401, 401], [404, 404]), [one.body for one in answers]
    assert answers[0].body == answers[1].body and b"H-READ" not in answers[0].body


def a_signed_network_proves_where_a_client_is():
    answer = load(sign(payload(networks=[{"cidr": "127.0.0.0/8", "facts": {"geo": "AE/DU", "assurance": 2}}])))
    assert answer.status == 201, answer.body
    assert answer.json["epoch"] == active()["epoch"] == state["epoch"]
    assert read(state["blob"]).body == b"a scan"
    assert health().call("HEAD", "manifests/patient-x").status == 200
    assert health().call("GET", "tags/list").json["tags"] == ["again", "patient-x", "patient-y", "patient-z"]
    assert "main/health/scans" in server.client(state["login"]).call("GET", "/v2/_catalog", scope="registry:catalog:*").json["repositories"]


def a_region_outside_takes_nothing():
    with open(officer("policy-set.json"), encoding="utf-8") as file:
        regions = json.loads(base64.b64decode(json.load(file)["payload"]))["regions"]
    regions["local/main"]["geo"] = "DE"
    assert load(sign(payload(regions=regions))).status == 201
    refused = health().call("POST", "blobs/uploads/")
    assert refused.status == 403, refused.body
    rules = [one["rule"] for one in refused.json["errors"][0]["detail"]["denials"]]
    assert "H-STORE-AE" in rules, rules
    for one in refused.json["errors"][0]["detail"]["denials"]:  # the region is known, but it is not allowed
        if one["rule"] == "H-STORE-AE":
            assert one["failed"] == "geo" and "missing" not in one, one
    assert load(sign(payload())).status == 201
    health().push_blob(b"another scan")


def nothing_is_placed_where_its_policy_forbids_it():
    """A region outside the State, under rules that require the State only for health data."""
    with open(officer("policy-set.json"), encoding="utf-8") as file:
        first = json.loads(base64.b64decode(json.load(file)["payload"]))
    first["regions"]["local/main"]["geo"] = "DE"
    policy = first["policies"][0]
    policy["rules"] = [rule for rule in policy["rules"] if rule["id"] != "R-STORE-HOME"]
    admin = server.client(server.admin)

    def rules(method, path, document):
        answer = admin.call(method, "/api/v1" + path, json.dumps(document), {"Content-Type": "application/json"},
                            scope="registry:admin:*")
        assert answer.status in (200, 201, 403), answer.body
        return [one["rule"] for one in answer.json["denials"]] if answer.status == 403 else answer.status

    def project(name, **more):
        return rules("POST", "/projects", {"organisation": "main", "name": name, **more})

    assert load(sign(payload(regions=first["regions"]))).status == 201
    assert project("anywhere") == ["R-STORE-HOME"]
    assert load(sign(payload(regions=first["regions"], policies=[policy]))).status == 201
    health = {"subjects": ["health"]}
    assert project("clinic", label=health) == ["H-STORE-AE"]
    assert project("clinic") == 201
    assert rules("PUT", "/projects/main/clinic/label", health) == ["H-STORE-AE"]
    assert rules("PUT", "/projects/main/clinic/label", {"class": "sensitive"}) == 200
    assert rules("PUT", "/organisations/main/label", health) == ["H-STORE-AE"]
    clinic = server.client(sijil_test.make_robot(server, "doctor", "publisher", "main/clinic"))
    clinic.repository("main/clinic/a").push_blob(b"not a scan")
    assert rules("PUT", "/repositories/main/clinic/a/label", health) == ["H-STORE-AE"]
    assert rules("PUT", "/projects/main/health/label", {"subjects": ["health", "genetic"]}) == 200  # was forbidden before
    assert rules("PUT", "/repositories/main/clinic/a/label", {"class": "secret"}) == 200  # locks the content, and moves nothing
    assert load(sign(payload())).status == 201


def only_the_officer_signs():
    before = active()
    stranger = os.path.join(server.root, "stranger.pem")
    subprocess.run(["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", stranger], check=True)
    assert load(sign(payload(), stranger)).status == 403
    state["epoch"] -= 1
    changed = json.loads(sign(payload()))
    changed["payload"] = base64.b64encode(payload()).decode()
    assert load(json.dumps(changed)).status == 403
    assert load("{}").status == 400
    assert load(sign(payload(policies=[{}]))).status == 400
    assert active() == before


def an_old_epoch_does_not_come_back():
    before = active()
    state["epoch"] = before["epoch"] - 1
    again = load(sign(payload()))
    assert again.status == 409 and active() == before, again.body


def only_who_may_load_loads():
    assert load(sign(payload()), state["login"]).status == 403
    state["epoch"] -= 1


def adgm_only(**members):
    """The officers' set with one more policy: content below main/adgm is for ADGM only."""
    with open(officer("policy-set.json"), encoding="utf-8") as file:
        policies = json.loads(base64.b64decode(json.load(file)["payload"]))["policies"]
    places = {"effect": "require", "id": "A-READ", "ops": ["read"], "target": {"geo_within": ["AE/AZ"]}}
    return policies + [{
        "apiVersion": "sijil.policy/v1", "kind": "ResidencyPolicy", "labels": {"attached": ["ADGM"]}, "closed": False,
        "metadata": {"id": "adgm", "version": 1, "scope": ["main/adgm/**"], "effective_from": "2026-01-01T00:00:00Z",
                     "review_by": "2030-01-01"}, "rules": [places], **members}]


def a_policy_that_is_removed_leaves_its_pin():
    server.client(server.admin).api("POST", "/projects", {"organisation": "main", "name": "adgm"})
    bank = server.client(sijil_test.make_robot(server, "bank", "publisher", "main/adgm")).repository("main/adgm/model")
    assert load(sign(payload(policies=adgm_only()))).status == 201
    blob = bank.push_blob(b"for ADGM alone")

    def rule():
        answer = bank.call("GET", "blobs/" + blob)
        return answer.json["errors"][0]["detail"]["denials"][0]["rule"] if answer.status == 403 else answer.status

    assert rule() == "A-READ"
    assert load(sign(payload())).status == 201
    assert rule() == "SYS-PIN-MISSING"
    assert bank.call("POST", "blobs/uploads/").status == 403
    assert load(sign(payload(policies=adgm_only(labels={})))).status == 201
    assert rule() == "A-READ"
    retired = [{"policy": "adgm", "scope": ["main/adgm/**"], "reason": "the licence has ended"}]
    refused = load(sign(payload(declassified=retired)))
    assert refused.status == 400 and b"evidence" in refused.body, (refused.status, refused.body)
    assert rule() == "A-READ", "nothing was lifted"
    retired[0]["evidence"] = sha256(b"the letter that ends the licence")
    assert load(sign(payload(declassified=retired))).status == 201
    assert load(sign(payload(declassified=retired))).status == 201, "the same again"
    assert rule() == 200
    assert load(sign(payload())).status == 201  # no longer declassified: the stored content is there
    assert rule() == "SYS-PIN-MISSING"


def a_set_from_answers_reaches_an_outsider():
    """The set in force and one policy more, without JSON written by hand; then what an outsider with two keys learns."""
    host, folder = f"127.0.0.1:{server.port}", os.path.join(server.root, "answers")
    os.makedirs(folder)
    environment = {**os.environ, "HOME": folder, "SIJIL_CA_FILE": server.ca_file, "SIJIL_USERNAME": server.admin[0], "SIJIL_PASSWORD": server.admin[1]}

    def run(program, *words, code=0, **more):
        done = subprocess.run([os.path.abspath(sijil_test.program(program)), *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=folder, timeout=60,
                              env={**environment, **more}, check=False)
        assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
        return done

    before = active()["set"]
    state["epoch"] += 1
    told = run("sijil", "policy", "init", host, "--regime", "health", "--organisation", "main/clinic", "--network", "10.4.0.0/16", "-o", "next.json")
    assert "main/clinic/** may be stored in local/main" in told.stderr and "Clients in 10.4.0.0/16 may read it" in told.stderr, told.stderr
    with open(os.path.join(folder, "next.json"), encoding="utf-8") as file:
        made = json.load(file)
    assert made["policies"][:-1] == before["policies"] and made["networks"][:-1] == before["networks"] and made["regions"] == before["regions"]
    run("sijil", "policy", "sign", "--key", officer(), "--epoch", str(state["epoch"]), "-o", "next.dsse", "next.json")
    assert "ae-health-main.clinic" in run("sijil", "policy", "load", host, "next.dsse").stdout
    assert "already" in run("sijil", "policy", "init", host, "--regime", "health", "--organisation", "main/clinic", code=1).stderr

    subprocess.run(["openssl", "ec", "-in", officer(), "-pubout", "-out", os.path.join(folder, "root.pub")], check=True, capture_output=True)
    shown = run("sijil", "policy", "show", "--root", "root.pub", host).stdout
    for words in (f"Policy set of epoch {state['epoch']}", "main/clinic/**", "[H-STORE-AE]", "[R-PERMIT]", "  local/main: AE", "  10.4.0.0/16: AE"):
        assert words in shown, (words, shown)

    log_key = run("sijil", "audit", "key", host).stdout.strip()
    run("sijil", "policy", "export", host, "-o", "set.json")
    proven = run("sijil-verify", "policy", "--key", log_key, "--root", "root.pub", "set.json")
    assert f"Verified: the policy set of epoch {state['epoch']}" in proven.stdout and "main/clinic/**" in proven.stdout, proven.stdout
    answer = json.loads(run("sijil-verify", "policy", "--json", "--key", log_key, "--root", "root.pub", "set.json").stdout)
    assert answer["verified"] and answer["set"]["digest"] == active()["digest"], answer
    with open(os.path.join(folder, "set.json"), encoding="utf-8") as file:
        text = file.read()
    with open(os.path.join(folder, "false.json"), "w", encoding="utf-8") as file:
        file.write(text.replace("policy.load", "policy.lost"))
    run("sijil-verify", "policy", "--key", log_key, "--root", "root.pub", "false.json", code=1)
    subprocess.run(["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", os.path.join(folder, "other.pem")], check=True)
    run("sijil-verify", "policy", "--key", log_key, "--root", "other.pem", "set.json", code=1)
    refused = run("sijil", "policy", "export", host, code=4, SIJIL_USERNAME=state["login"][0], SIJIL_PASSWORD=state["login"][1])
    assert "SYS-NO-BINDING" in refused.stderr or "not" in refused.stderr, refused.stderr


def a_set_with_unknown_words_is_not_loaded():
    """A deny for a misspelt place denies nothing: the registry refuses it, too, because sets can be signed without our programs."""
    before = active()
    for member, value, said in (("regions", {"local/main": {"geo": "AE/XX"}}, "regions local/main: geo: AE/XX"),
                                ("groups", {"OURS": {"kind": "regime", "members": ["DIFK"]}}, "groups OURS: members: DIFK")):
        refused = load(sign(payload(**{member: value})))
        assert refused.status == 400 and said in refused.body.decode(), refused.body
    assert active() == before
    admin = server.client(server.admin)
    for regime, status in (("DIFK", 400), ("X-OURS", 200)):
        answer = admin.call("PUT", "/api/v1/repositories/main/adult/a/label", json.dumps({"attached": [regime]}), {"Content-Type": "application/json"},
                            scope="registry:admin:*")
        assert answer.status == status and (status == 200 or "label.attached: DIFK is no known regime" in answer.body.decode()), answer.body


def a_restart_keeps_the_set():
    before = active()
    assert f"sijil_policy_epoch {before['epoch']}\n" in server.client().call("GET", "/metrics").body.decode()
    server.stop()
    server.start()
    assert active() == before


def a_set_that_nobody_loaded_never_comes_into_force():
    """The officers signed a set, and an attacker wrote it into the database: the next refresh pinned it without an event."""
    before, document = active(), payload(regions={})
    digest = json.loads(document)["digest"]
    envelope = sign(document)
    server.sql("INSERT INTO document (kind, scope, name, version, digest, envelopes, recorded_by) VALUES"
               f" (1, '', 'policies', {state['epoch']}, decode('{digest[7:]}', 'hex'),"
               f" ARRAY[decode('{envelope.encode().hex()}', 'hex')], 'mallory'); SELECT raise_authorization_epoch()")
    for again in range(2):
        sijil_test.wait_until(lambda: metric("sijil_policy_sets_strange") == 1, 20, "nobody noticed the row")
        assert active() == before and metric("sijil_policy_epoch") == before["epoch"]
        assert health().push_blob(b"still a scan")
        if not again:
            server.stop()
            server.start()
    with open(os.path.join(server.root, "log"), encoding="utf-8") as file:
        assert f"up to epoch {state['epoch']}, and no event policy.load" in file.read()
    assert load(envelope).status == 201 and active()["digest"] == digest  # a caller with the right may load it
    assert load(sign(payload())).status == 201
    sijil_test.wait_until(lambda: metric("sijil_policy_sets_strange") == 0, 20, "the row is strange although it was loaded")
    events = server.client(server.admin).api("GET", "/audit/events?order=descending&limit=100")["events"]
    loads = [one["entry"]["res"] for one in events if one["entry"]["act"] == "policy.load" and one["entry"]["out"] == "allowed"]
    assert f"#sha256:{hashlib.sha256(envelope.encode()).hexdigest()} {state['epoch'] - 1} {digest}" in loads, loads


class Stream(threading.Thread):
    """A body that moves slowly over one connection, in or out, and how far it came."""

    def __init__(self, place, method, path, size, pause):
        super().__init__(daemon=True)
        self.size, self.pause, self.moved, self.whole, self.pushes = size, pause, 0, False, method != "GET"
        link = place.client.connection(timeout=40)
        link.connect()
        self.socket = link.sock
        self.socket.sendall("\r\n".join([f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {size if self.pushes else 0}",
                                         "Authorization: Bearer " + place.client.token(place.scope), "", ""]).encode())
        self.start()

    def run(self):
        try:
            while self.moved < self.size:
                if self.pushes:
                    self.moved += self.socket.send(b"x" * min(65536, self.size - self.moved))
                else:
                    got = self.socket.recv(65536)
                    if not got:
                        return
                    self.moved += len(got)
                time.sleep(self.pause)
            self.whole = True
        except OSError:
            pass


def last_words():
    """The events of bodies that were cut off: the action, and how many bytes had moved."""
    found = server.client(server.admin).api("GET", "/audit/events?order=descending&limit=200&key=out:failed")["events"]
    return [(one["entry"]["act"], note) for one in found if "bytes had gone" in (note := one["entry"].get("why", {}).get("note", ""))]


def tight(scope):
    """Nothing may be stored there any more. It gives no label, so nothing is pinned to it."""
    return {"apiVersion": "sijil.policy/v1", "kind": "ResidencyPolicy",
            "metadata": {"id": "tight", "version": 1, "scope": [scope], "effective_from": "2020-01-01T00:00:00Z", "review_by": "2099-01-01"},
            "closed": False,
            "rules": [{"id": "T-STOP", "effect": "deny", "ops": ["ingest"], "target": {"geo_within": ["AE"]}, "message": "moved away"}]}


def a_stream_ends_with_its_right():
    """A robot that was revoked after 64 KiB received all of 150 MB, over 25 s. A set that tightens ends a download and an upload as well."""
    size = 150_000_000
    assert load(sign(payload(networks=[{"cidr": "127.0.0.0/8", "facts": {"geo": "AE/DU", "assurance": 2}}]))).status == 201
    models = server.client(state["other"]).repository("main/models/large")
    blob, unaffected = health().push_blob(bytes(size)), models.push_blob(bytes(size))
    leavers = [sijil_test.make_robot(server, name, "publisher", "main/health") for name in ("leaver", "writer")]
    leaver, writer = (server.client(login).repository("main/health/scans") for login in leavers)
    before = metric('sijil_stream_leases_total{came="renewed"}')
    server.client(server.admin).api("POST", "/projects", {"organisation": "main", "name": "tight"})
    tightened = server.client(sijil_test.make_robot(server, "tight", "publisher", "main/tight")).repository("main/tight/model")
    policies = json.loads(payload())["policies"] + [tight("main/tight/**")]

    stays = Stream(models, "GET", f"/v2/{models.name}/blobs/{unaffected}", size, 0.001)
    ends = {("blob.read", "SYS-NOT-LIVE"): Stream(leaver, "GET", f"/v2/{leaver.name}/blobs/{blob}", size, 0.02),
            ("blob.read", "H-READ-AE"): Stream(health(), "GET", f"/v2/{leaver.name}/blobs/{blob}", size, 0.02),
            ("upload.write", "T-STOP"): Stream(tightened, "PATCH", urllib.parse.urlsplit(tightened.begin()).path, size, 0.02),
            ("upload.write", "SYS-NOT-LIVE"): Stream(writer, "PATCH", urllib.parse.urlsplit(writer.begin()).path, size, 0.02)}
    sijil_test.wait_until(lambda: all(one.moved > 65536 for one in ends.values()), 30, "the streams do not begin")
    admin = server.client(server.admin)
    for robot in admin.api("GET", "/robots?organisation=main&limit=1000")["robots"]:
        if robot["name"] in [login[0] for login in leavers]:
            admin.api("DELETE", "/robots/" + robot["id"])
    assert load(sign(payload(policies=policies))).status == 201
    begun = time.monotonic()
    for one in ends.values():
        one.join(40)
    seconds = time.monotonic() - begun
    assert seconds < 10 + 8, f"cut off after {seconds:.0f} s; a lease lasts 10 s"
    for end, one in ends.items():
        assert not one.whole and one.moved < size / 2, (end, one.moved)
    sijil_test.wait_until(lambda: len(last_words()) == len(ends), 20, "an end is not in the log")
    said = {(act, note.rsplit(": ", 1)[1]): int(note.split()[0]) for act, note in last_words()}
    assert said.keys() == ends.keys(), said
    for end, one in ends.items():
        assert abs(said[end] - one.moved) < 8 << 20, (end, said[end], one.moved)  # bytes in buffers between the ends
    answer = tightened.call("POST", "blobs/uploads/")
    assert answer.status == 403 and answer.json["errors"][0]["detail"]["rule"] == "T-STOP", answer.body
    stays.join(60)
    assert stays.whole, f"who keeps the right came to {stays.moved} of {size} bytes"
    sijil_test.wait_until(lambda: metric('sijil_stream_leases_total{came="renewed"}') >= before + size // (64 << 20), 20,
                          "its right was not decided again")


def gate(scope):
    """What is there is promoted nowhere, and nothing is promoted to there."""
    return {"apiVersion": "sijil.policy/v1", "kind": "ResidencyPolicy",
            "metadata": {"id": "gate", "version": 1, "scope": [scope], "effective_from": "2020-01-01T00:00:00Z", "review_by": "2099-01-01"},
            "closed": False,
            "rules": [{"id": "P-GATE", "effect": "deny", "ops": ["promote"], "target": {"geo_within": ["AE"]}, "message": "by the release board"}]}


def newest_push(repository):
    found = server.client(server.admin).api("GET", f"/audit/events?order=descending&limit=50&key=res:{repository}")["events"]
    return next((one["entry"]["act"], one["entry"]["out"]) for one in found if one["entry"]["act"].startswith("manifest.p"))


def a_copy_is_promoted_however_it_is_made():
    """promote had no mover behind it: a copy into another project was decided as any push."""
    admin = server.client(server.admin)
    for name in ("lab", "prod"):
        admin.api("POST", "/projects", {"organisation": "main", "name": name})
    both = server.client(sijil_test.make_robot(server, "both", "publisher", "main"))
    blind = server.client(sijil_test.make_robot(server, "blind", "publisher", "main/prod")).repository("main/prod/model")
    lab, prod, data = both.repository("main/lab/model"), both.repository("main/prod/model"), b"weights" * 100
    lab.push_blob(data)
    manifest = lab.manifest(data)
    assert lab.put_manifest("v1", manifest).status == 201
    own = json.loads(payload())["policies"]

    assert load(sign(payload(policies=[*own, gate("main/prod/**")]))).status == 201
    mounted = prod.call("POST", f"blobs/uploads/?mount={urllib.parse.quote(sha256(data))}&from={lab.name}", scope=f"{prod.scope} repository:{lab.name}:pull")
    assert mounted.status == 202, mounted.status  # nothing is mounted from another project: the bytes are sent again
    prod.push_blob(data)
    other = prod.manifest(data, annotations={"another": "manifest"})
    copies = (("v1", manifest), (sha256(manifest), manifest), ("v2", other), ("sha256-0.sig", other))
    for reference, copy in copies:
        refused = prod.put_manifest(reference, copy)
        assert refused.status == 403 and refused.json["errors"][0]["detail"]["rule"] == "P-GATE", (reference, refused.body)
    assert newest_push("main/prod/model") == ("manifest.promote", "denied")
    assert prod.call("GET", "tags/list").json["tags"] in ([], None)
    for place, content in ((prod, b"made here" * 100), (blind, data)):  # a client that may not read the lab learns nothing of it
        place.push_blob(content)
        assert place.put_manifest("own", place.manifest(content)).status == 201
        assert newest_push("main/prod/model") == ("manifest.push", "allowed")

    admin.api("PUT", "/projects/main/prod/rules", {"immutable": [{"repositories": "*", "tags": "release-*"}]})
    fresh = prod.manifest(b"made here" * 100)
    for reference in ("release-1", "plain?tag=release-1"):
        refused = prod.put_manifest(reference, fresh)
        assert refused.status == 403 and refused.json["errors"][0]["detail"]["rule"] == "P-GATE", (reference, refused.body)
    assert prod.put_manifest("plain", fresh).status == 201

    assert load(sign(payload(policies=[*own, gate("main/lab/**")]))).status == 201  # what is in the lab stays there
    refused = prod.put_manifest("v3", manifest)
    assert refused.status == 403 and b"main/lab/model, whose policies let it not be promoted to here: rule P-GATE" in refused.body, refused.body
    only = b"of the lab alone" * 10
    lab.push_blob(only), prod.push_blob(only)
    refused = prod.put_manifest("v4", prod.manifest(only, data))
    assert refused.status == 403 and b"rule P-GATE; what only this push" in refused.body, refused.body
    assert [prod.call("HEAD", "blobs/" + sha256(blob)).status for blob in (only, data)] == [404, 200]
    assert lab.put_manifest("v2", manifest).status == 201
    assert load(sign(payload())).status == 201
    for reference, copy in (*copies, ("release-1", fresh)):
        assert prod.put_manifest(reference, copy).status == 201, reference
        assert newest_push("main/prod/model") == ("manifest.promote", "allowed"), reference


def evidence_is_a_file_that_is_there():
    """A policy could demand evidence, and pushes went through without any."""
    server.client(server.admin).api("POST", "/projects", {"organisation": "main", "name": "proven"})
    prover = server.client(sijil_test.make_robot(server, "prover", "publisher", "main/proven"))
    place = prover.repository("main/proven/data")
    policy = gate("main/proven/**")
    policy["rules"] = [{"id": "E-ETHICS", "effect": "oblige", "ops": ["ingest"], "when": {"subjects_any": ["genetic"]}, "oblige": {"evidence": ["ethics"]}},
                       {"id": "P-GENES", "effect": "deny", "ops": ["promote"], "when": {"subjects_any": ["genetic"]}, "target": {"geo_within": ["AE"]}, "message": "never"},
                       {"id": "E-DPIA", "effect": "oblige", "ops": ["ingest"], "oblige": {"evidence": ["dpia", "source"]}},
                       {"id": "E-BOARD", "effect": "oblige", "ops": ["promote"], "oblige": {"evidence": ["board"]}}]
    own = json.loads(payload())["policies"]
    assert load(sign(payload(policies=[*own, policy]))).status == 201
    data, dpia = b"rows" * 100, b"an assessment" * 10
    for blob in (data, dpia):
        place.push_blob(blob)
    before = metric("sijil_evidence_lacking_total")
    named = {"sijil.evidence.dpia": sha256(dpia), "sijil.evidence.source": sha256(data)}
    for annotations, lacks in (({}, b"dpia"), ({"sijil.evidence.dpia": sha256(dpia)}, b"source"), ({**named, "sijil.evidence.dpia": sha256(b"elsewhere")}, b"dpia"),
                               ({**named, "sijil.evidence.dpia": "a promise"}, b"dpia")):
        refused = place.put_manifest("v1", place.manifest(data, dpia, annotations=annotations))
        assert refused.status == 403 and b"the evidence " in refused.body and lacks in refused.body, refused.body
    assert place.put_manifest("v1", place.manifest(data, annotations=named)).status == 403  # the file is no blob of this manifest
    assert metric("sijil_evidence_lacking_total") == before + 5 and newest_push("main/proven/data") == ("manifest.push", "failed")
    proven = place.manifest(data, dpia, annotations=named)
    assert place.put_manifest("v1", proven).status == 201
    server.client(server.admin).api("PUT", "/projects/main/proven/rules", {"immutable": [{"repositories": "*", "tags": "release-*"}]})
    refused = place.put_manifest("release-1", proven)
    assert refused.status == 403 and b"board" in refused.body, refused.body
    genes = prover.repository("main/proven/genes")
    for blob in (data, dpia):
        genes.push_blob(blob)
    stated = {**named, "sijil.evidence.board": sha256(dpia),
              "sijil.label": json.dumps({"attached": [], "class": "sensitive", "lineage": "attested", "pins": [], "subjects": ["genetic"]}, separators=(",", ":"))}
    for reference, more, says in (("v1", {}, b"ethics"), ("release-1", {"sijil.evidence.ethics": sha256(dpia)}, b"takes no promotion: rule P-GENES"), ("v1", {"sijil.evidence.ethics": sha256(dpia)}, None)):
        answer = genes.put_manifest(reference, genes.manifest(data, dpia, annotations={**stated, **more}))
        assert (answer.status, says is None or says in answer.body) == (201 if says is None else 403, True), ("the label that a push brings counts for itself", reference, answer.body)
    index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": [{"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": sha256(proven), "size": len(proven)}]}
    for annotations, status in (({}, 403), ({f"sijil.evidence.{name}": sha256(dpia) for name in ("dpia", "source", "board")}, 403),
                                ({f"sijil.evidence.{name}": sha256(proven) for name in ("dpia", "source", "board")}, 201)):
        text = json.dumps({**index, "annotations": annotations}).encode()
        assert place.put_manifest("plain", text, INDEX).status == 201
        answer = place.put_manifest("release-2", text, INDEX)
        assert answer.status == status, ("an index under a protected tag goes around the evidence", annotations, answer.body)
    assert place.put_manifest("release-1", place.manifest(data, dpia, annotations={**named, "sijil.evidence.board": sha256(dpia)})).status == 201
    assert load(sign(payload())).status == 201
    assert place.put_manifest("v2", place.manifest(data)).status == 201


def metric(name):
    for line in server.client().call("GET", "/metrics").body.decode().splitlines():
        if line.startswith(name + " "):
            return int(line.split()[-1])
    raise AssertionError("no metric " + name)


prepare()
policy_drafts.world.update({"server": server, "Stream": Stream})
sijil_test.run(
    health_data_is_stored_but_not_read_from_nowhere, names_are_as_secret_as_content,
    a_stock_client_pushes_what_it_may_not_look_at, who_may_not_see_it_learns_no_rule,
    a_signed_network_proves_where_a_client_is, a_region_outside_takes_nothing,
    nothing_is_placed_where_its_policy_forbids_it, only_the_officer_signs,
    an_old_epoch_does_not_come_back, only_who_may_load_loads, a_stream_ends_with_its_right, a_copy_is_promoted_however_it_is_made, evidence_is_a_file_that_is_there,
    a_set_with_unknown_words_is_not_loaded, a_set_from_answers_reaches_an_outsider,
    a_policy_that_is_removed_leaves_its_pin, a_restart_keeps_the_set,
    a_set_that_nobody_loaded_never_comes_into_force, *policy_drafts.CASES[:5], *policy_exceptions.CASES, *policy_drafts.CASES[5:], server=server)
