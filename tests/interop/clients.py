#!/usr/bin/env python3
"""Foreign clients against a fresh registry. INTEROP_PROGRAMS is the folder that they are in; what is not there is named
and left out."""
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../scenario"))
import sijil_test
from sijil_test import Server, sha256

PROGRAMS = os.environ["INTEROP_PROGRAMS"]
server = Server()
work = tempfile.mkdtemp(prefix="sijil-interop-", dir="/var/tmp")
state = {}


def host():
    return f"127.0.0.1:{server.port}"


def run(name, *words, code=0, text=None, folder=None, stream="stdout"):
    environment = {**os.environ, "HOME": work + "/home", "DOCKER_CONFIG": work + "/home/.docker",
                   "SSL_CERT_FILE": server.ca_file, "COSIGN_PASSWORD": "", "COSIGN_EXPERIMENTAL": "0",
                   "REGCTL_CONFIG": work + "/home/regctl.json"}
    done = subprocess.run([os.path.join(PROGRAMS, name), *words], input=text, text=True, capture_output=True, timeout=300,
                          env=environment, cwd=folder or work)
    assert done.returncode == code, (name, words, done.returncode, done.stdout[-2000:], done.stderr[-2000:])
    return getattr(done, stream)


def same(one, other):
    with open(one, "rb") as left, open(other, "rb") as right:
        assert left.read() == right.read(), (one, other)


# --- oras ------------------------------------------------------------------------------------------------------------
def oras_pushes_pulls_and_refers():
    name, secret = state["login"]
    run("oras", "login", host(), "-u", name, "--password-stdin", text=secret)
    reference = host() + "/main/models/oras:v1"
    run("oras", "push", reference, "--artifact-type", "application/vnd.example.model", "model.onnx:application/octet-stream",
        folder=work + "/model")
    run("oras", "pull", reference, "-o", work + "/from-oras")
    same(work + "/model/model.onnx", work + "/from-oras/model.onnx")
    assert run("oras", "repo", "tags", host() + "/main/models/oras").split() == ["v1"]
    run("oras", "attach", reference, "--artifact-type", "application/vnd.example.metrics", "metrics.json:application/json",
        folder=work + "/model")
    found = run("oras", "discover", "-o", "json", reference)
    assert "application/vnd.example.metrics" in found, found
    run("oras", "cp", reference, host() + "/main/models/oras-copy:v1")
    assert run("oras", "manifest", "fetch", reference) == run("oras", "manifest", "fetch", host() + "/main/models/oras-copy:v1")
    run("oras", "blob", "fetch", "--output", work + "/blob", host() + "/main/models/oras@" + state["digest"])
    same(work + "/model/model.onnx", work + "/blob")
    run("oras", "manifest", "delete", "-f", host() + "/main/models/oras-copy:v1")
    run("oras", "manifest", "fetch", host() + "/main/models/oras-copy:v1", code=1)


    shows_warnings("oras", "manifest", "fetch", reference, "-u", state["soon"][0], "-p", state["soon"][1])


def shows_warnings(name, *words):
    """Of the robot whose secret ends soon; the answer's Warning comes out on standard error."""
    said = run(name, *words, stream="stderr")
    assert "the secret of " + state["soon"][0] + " ends at" in said, said


# --- crane -----------------------------------------------------------------------------------------------------------
def crane_pushes_pulls_and_deletes():
    name, secret = state["login"]
    run("crane", "auth", "login", host(), "-u", name, "--password-stdin", text=secret)
    layer = work + "/layer.tar"
    with tarfile.open(layer, "w") as archive:
        archive.add(work + "/model/model.onnx", "model.onnx")
    reference = host() + "/main/models/crane:v1"
    run("crane", "append", "--oci-empty-base", "--new_layer", layer, "--new_tag", reference)
    digest = run("crane", "digest", reference).strip()
    assert sha256(run("crane", "manifest", reference).encode()) == digest
    run("crane", "validate", "--remote", reference)
    run("crane", "pull", "--format", "oci", reference, work + "/from-crane")
    run("crane", "push", work + "/from-crane", host() + "/main/models/crane:again")
    assert run("crane", "ls", host() + "/main/models/crane").split() == ["again", "v1"]
    run("crane", "copy", reference, host() + "/main/models/crane-copy:v1")
    run("crane", "tag", reference, "stable")
    run("crane", "delete", host() + "/main/models/crane-copy@" + digest)
    run("crane", "digest", host() + "/main/models/crane-copy:v1", code=1)


# --- regctl ------------------------------------------------------------------------------------------------------------
def regctl_pushes_pulls_and_refers():
    name, secret = state["login"]
    with open(server.ca_file, encoding="ascii") as file:
        run("regctl", "registry", "set", host(), "--cacert", file.read())
    run("regctl", "registry", "login", host(), "-u", name, "--pass-stdin", text=secret)
    reference = host() + "/main/models/regctl:v1"
    run("regctl", "artifact", "put", "--artifact-type", "application/vnd.example.model", "--file-title", "-f", "model.onnx", reference,
        folder=work + "/model")
    os.makedirs(work + "/from-regctl")
    run("regctl", "artifact", "get", "-o", work + "/from-regctl", reference)
    same(work + "/model/model.onnx", work + "/from-regctl/model.onnx")
    run("regctl", "artifact", "put", "--artifact-type", "application/vnd.example.note", "--subject", reference, text="a note")
    assert "application/vnd.example.note" in run("regctl", "artifact", "list", reference)
    run("regctl", "image", "copy", reference, host() + "/main/models/regctl-copy:v1")
    assert run("regctl", "tag", "ls", host() + "/main/models/regctl-copy").split() == ["v1"]
    run("regctl", "tag", "delete", host() + "/main/models/regctl-copy:v1")
    assert run("regctl", "tag", "ls", host() + "/main/models/regctl-copy").split() == []
    run("regctl", "registry", "login", host(), "-u", state["soon"][0], "--pass-stdin", text=state["soon"][1])
    shows_warnings("regctl", "manifest", "get", reference)


# --- cosign ------------------------------------------------------------------------------------------------------------
def cosign_signs_and_verifies():
    name, secret = state["login"]
    run("cosign", "login", host(), "-u", name, "-p", secret)
    place = server.client(state["login"]).repository("main/models/signed")
    blob = b"what is signed"
    place.push_blob(blob)
    manifest = place.manifest(blob)
    assert place.put_manifest("v1", manifest).status == 201
    reference = f"{host()}/main/models/signed@{sha256(manifest)}"
    run("cosign", "generate-key-pair", folder=work)
    run("cosign", "sign", "--yes", "--tlog-upload=false", "--key", "cosign.key", reference, folder=work)
    run("cosign", "verify", "--insecure-ignore-tlog=true", "--key", "cosign.pub", reference, folder=work)
    run("cosign", "verify", "--insecure-ignore-tlog=true", "--key", "cosign.pub",
        f"{host()}/main/models/oras:v1", folder=work, code=10)


def main():
    cases = {"oras": oras_pushes_pulls_and_refers, "crane": crane_pushes_pulls_and_deletes,
             "regctl": regctl_pushes_pulls_and_refers, "cosign": cosign_signs_and_verifies}
    there = {name: case for name, case in cases.items() if os.access(os.path.join(PROGRAMS, name), os.X_OK)}
    for name in cases:
        if name not in there:
            print(f"left out: {name}, which could not be had")
    if not there:
        print("none of them could be had, so nothing ran")
        shutil.rmtree(work)
        shutil.rmtree(server.root)
        return
    os.makedirs(work + "/home/.docker")
    trainer = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../script/demo.d/train.py")
    subprocess.run(["/usr/bin/python3", trainer, work + "/model"], check=True, stdout=subprocess.DEVNULL)
    with open(work + "/model/model.onnx", "rb") as file:
        state["digest"] = sha256(file.read())
    server.start()
    state["login"] = sijil_test.make_robot(server, "interop", "publisher", "main/models")
    state["soon"] = sijil_test.make_robot(server, "soon", "consumer", "main/models", expires_days=2)
    try:
        sijil_test.run(*there.values(), server=server)
    finally:
        shutil.rmtree(work, ignore_errors=True)


main()
