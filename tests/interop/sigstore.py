#!/usr/bin/env python3
"""Outsiders verify a run that this product made: its result's provenance and its admission's verification summary, as an oras client finds them beside the
output. A result is verified with the key of its attempt, after the certificate by the runner's key. INTEROP_PROGRAMS has cosign; INTEROP_SIGSTORE a folder of npm with @sigstore/verify. What is missing is named and left out."""
import atexit
import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../scenario"))
import sijil_test
from real_runner import RealRunner
from run_fleet import RunFleet
from run_world import PROJECT, Person, Runner, World, spec
from sijil_test import make_robot, sha256

COSIGN, MODULES = os.path.join(os.environ["INTEROP_PROGRAMS"], "cosign"), os.environ.get("INTEROP_SIGSTORE", "")
PROVENANCE, SUMMARY = "https://slsa.dev/provenance/v1", "https://slsa.dev/verification_summary/v1"
MODEL, TRAINED = "application/vnd.cncf.model.manifest.v1+json", PROJECT + "/trained"
TRAIN = b"set -e\nmkdir /out/model\ncat /in/digits/a.txt > /out/model/w.bin\necho trained\n"
work = tempfile.mkdtemp(prefix="sijil-sigstore-", dir="/var/tmp")
atexit.register(shutil.rmtree, work, ignore_errors=True)
state = {}


def write(name, content):
    path = os.path.join(work, name)
    with open(path, "wb") as file:
        file.write(content)
    return path


def pem_of(point):
    """SubjectPublicKeyInfo of a P-256 point."""
    der = bytes.fromhex("3059301306072a8648ce3d020106082a8648ce3d030107034200") + point
    return b"-----BEGIN PUBLIC KEY-----\n" + base64.encodebytes(der) + b"-----END PUBLIC KEY-----\n"


def push(place, title, content):
    layer = {"mediaType": "application/octet-stream", "digest": place.push_blob(content), "size": len(content),
             "annotations": {"org.opencontainers.image.title": title}}
    text = place.manifest(layers=[layer])
    assert place.put_manifest("latest", text).status == 201
    return {"repository": place.name, "digest": sha256(text)}


def train(server):
    """A run by the real runner, from the request to the admission: its output's digest, and the keys that signed."""
    world = World(server, server.path("approver.pem"), f"host={server.database_at} dbname=sijil_template user=sijil_app", server.path("socket"))
    alice, runner = Person(world, "alice"), Runner(world)
    pusher = server.client(make_robot(server, "pusher", "publisher", PROJECT))
    code, data = (push(pusher.repository(f"{PROJECT}/{name}"), title, content)
                  for name, title, content in (("code", "train.sh", TRAIN), ("data", "a.txt", b"some digits\n")))
    with RealRunner(server, runner):
        asked = alice.request(spec=spec(code=code, inputs=[{"name": "digits", **data}], argv=["/bin/sh", "/code/train.sh"],
                                        outputs=[{"name": "model", "repository": TRAINED, "type": MODEL}]))
        alice.wait(asked, "succeeded", 120)
    shown = alice.run(asked)
    signer = server.client(server.admin).api("GET", "/audit/key")["documents"].encode()
    return shown["outputs"][0]["digest"], pem_of(runner.key.point), signer


def fetch(server, digest):
    """The output's manifest and the two envelopes, by the referrers API alone."""
    there = server.client(make_robot(server, "reader", "consumer", PROJECT)).repository(TRAINED)
    scope = {"scope": f"repository:{TRAINED}:pull"}
    found = {one["artifactType"]: one["digest"] for one in there.call("GET", "referrers/" + digest, **scope).json["manifests"]}
    state["manifest"] = write("manifest.json", there.call("GET", "manifests/" + digest, **scope).body)
    for name in ("provenance", "admission"):
        referrer = there.call("GET", "manifests/" + found[f"application/vnd.sijil.run-{name}.v1"], **scope).json
        for layer in referrer["layers"]:
            title = layer["annotations"]["org.opencontainers.image.title"].removesuffix(".json")
            envelope = there.call("GET", "blobs/" + layer["digest"], **scope).body
            state[title] = write(f"{title}.json", envelope)
            state[f"changed {title}"] = write(f"changed-{title}.json", changed(envelope))


def changed(envelope):
    """One bit of one byte of the payload is another; the payload is still JSON: a digit of a digest."""
    value = json.loads(envelope)
    payload = bytearray(base64.b64decode(value["payload"]))
    head = b'"sha256":"' if b'"sha256":"' in payload else b'"sha256:'
    at = payload.index(head) + len(head)
    payload[at] = ord("1") if payload[at] == ord("0") else ord("0")
    return json.dumps({**value, "payload": base64.b64encode(bytes(payload)).decode()}).encode()


def prepare():
    server = RunFleet(1).start()
    try:
        digest, runner, keyd = train(server)
        state["runner"], state["keyd"] = write("runner.pem", runner), write("keyd.pem", keyd)
        fetch(server, digest)
    except BaseException:
        server.finish(True)
        raise
    server.finish(False)  # what follows needs no registry


# ---- the key of the attempt ----

def check_certificate(envelope, folder):
    """The recipe of docs/formats/run.md, with openssl and jq alone: whether the runner's key has signed the certificate; then the key of the attempt."""
    script = r"""
set -eu
payload=$(jq -r .payload "$1" | base64 -d); type=$(jq -r .payloadType "$1")
printf 'DSSEv1 %d %s %d %s' "${#type}" "$type" "$(printf %s "$payload" | wc -c)" "$payload" > "$3/signed"
jq -r '.signatures[0].sig' "$1" | base64 -d > "$3/signature"
openssl dgst -sha256 -verify "$2" -signature "$3/signature" "$3/signed" >&2
printf %s "$payload" | jq -r .attempt_key | base64 -d | openssl pkey -pubin -inform DER
"""
    return subprocess.run(["sh", "-c", script, "sh", state[envelope], state["runner"], folder], capture_output=True, text=True, timeout=60, check=False)


def the_runner_has_certified_the_key_of_the_attempt():
    assert check_certificate("changed certificate", work).returncode != 0
    done = check_certificate("certificate", work)
    assert done.returncode == 0 and "BEGIN PUBLIC KEY" in done.stdout, done.stderr
    state["attempt"] = write("attempt.pem", done.stdout.encode())
    (named,) = (json.loads(base64.b64decode(json.load(open(state[name], encoding="ascii"))["payload"])) for name in ("provenance",))
    envelope = json.load(open(state["certificate"], encoding="ascii"))
    kind, payload = envelope["payloadType"].encode(), base64.b64decode(envelope["payload"])
    digest = sha256(b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload))
    assert named["predicate"]["buildDefinition"]["externalParameters"]["certificate"] == digest, "the result names this certificate"


# ---- npm ----

def npm(envelope, key):
    return subprocess.run(["node", os.path.join(HERE, "sigstore/verify.js"), state[envelope], state[key]], capture_output=True, text=True, timeout=60,
                          check=False, env={**os.environ, "NODE_PATH": MODULES + "/node_modules"})


def sigstore_verify_takes_the_envelopes_as_they_are():
    if not os.path.isdir(MODULES + "/node_modules"):
        raise sijil_test.LeftOut("@sigstore/verify could not be had")
    for name, key, other, kind in (("provenance", "attempt", "runner", PROVENANCE), ("admission", "keyd", "runner", SUMMARY)):
        done = npm(name, key)
        assert done.returncode == 0 and done.stdout.strip() == kind, (name, done.stdout, done.stderr)
        for envelope, signer in ((f"changed {name}", key), (name, other)):
            done = npm(envelope, signer)
            assert done.returncode != 0 and "signature verification failed" in done.stderr, (envelope, done.stdout, done.stderr)


# ---- cosign ----

def cosign(envelope, key, kind, blob=None):
    words = [COSIGN, "verify-blob-attestation", "--key", state[key], "--type", kind, "--signature", state[envelope], "--insecure-ignore-tlog",
             blob or state["manifest"]]
    return subprocess.run(words, capture_output=True, text=True, timeout=120, check=False, env={**os.environ, "HOME": work})


def cosign_verifies_what_the_output_is():
    """The blob is the output's manifest: the statement's subject is its digest."""
    if not os.access(COSIGN, os.X_OK):
        raise sijil_test.LeftOut("cosign could not be had")
    another = write("another.json", b"{}")
    for name, key, other, kind in (("provenance", "attempt", "runner", "slsaprovenance1"), ("admission", "keyd", "runner", SUMMARY)):
        done = cosign(name, key, kind)
        assert done.returncode == 0 and "Verified OK" in done.stderr, (name, done.stdout, done.stderr)
        for what, refused in (("a changed byte", cosign(f"changed {name}", key, kind)), ("another key", cosign(name, other, kind)),
                              ("another output", cosign(name, key, kind, another)), ("another kind", cosign(name, key, "cyclonedx"))):
            assert refused.returncode != 0 and "Verified OK" not in refused.stderr, (name, what, refused.stderr)


if __name__ == "__main__":
    sijil_test.run(prepare, the_runner_has_certified_the_key_of_the_attempt, sigstore_verify_takes_the_envelopes_as_they_are, cosign_verifies_what_the_output_is)
