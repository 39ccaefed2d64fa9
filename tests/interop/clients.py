#!/usr/bin/env python3
"""Foreign clients against a fresh registry, once by each of two names for it. INTEROP_PROGRAMS is their folder; missing programs are named
and left out. An argument is the only name to try."""
import base64
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../scenario"))
import sijil_test
from production import Production
from sijil_test import Server, sha256

PROGRAMS = os.environ["INTEROP_PROGRAMS"]
NAMES = ("localhost", "127.0.0.1")  # the name in the README, and its own name for itself
if len(sys.argv) == 1:
    sys.exit(max(subprocess.run([sys.executable, __file__, name], check=False).returncode for name in NAMES))
NAME = sys.argv[1]
server = Server()
work = tempfile.mkdtemp(prefix="sijil-interop-", dir="/var/tmp")
state = {}


def host():
    return f"{NAME}:{server.port}"


def environment_of(registry, home="home", **more):
    os.makedirs(f"{work}/{home}/.docker", exist_ok=True)
    return {**os.environ, "HOME": f"{work}/{home}", "DOCKER_CONFIG": f"{work}/{home}/.docker", "SSL_CERT_FILE": registry.ca_file,
            "COSIGN_PASSWORD": "", "COSIGN_EXPERIMENTAL": "0", "REGCTL_CONFIG": f"{work}/{home}/regctl.json", **more}


def over_tls(name, words):
    """oras uses plain HTTP for any host called localhost, unless an option forbids it."""
    if name != "oras":
        return list(words)
    return [*words, *(["--from-plain-http=false", "--to-plain-http=false"] if words[0] == "cp" else ["--plain-http=false"])]


def run(name, *words, code=0, text=None, folder=None, stream="stdout", **more):
    environment = environment_of(server, **more)
    done = subprocess.run([os.path.join(PROGRAMS, name), *over_tls(name, words)], input=text, text=True, capture_output=True, timeout=300,
                          env=environment, cwd=folder or work)
    assert done.returncode == code, (name, words, done.returncode, done.stdout[-2000:], done.stderr[-2000:])
    return getattr(done, stream)


def same(one, other):
    with open(one, "rb") as left, open(other, "rb") as right:
        assert left.read() == right.read(), (one, other)


def mounts():
    """The number of blobs that were mounted from another repository so far, by the answers to POST."""
    with open(os.path.join(server.root, "log"), encoding="utf-8", errors="replace") as log:
        return sum('"route":"upload_begin' in line and '"status":"201"' in line and '"in":"0"' in line for line in log)


def large_file(name, size=150 << 20):
    path = os.path.join(work, name)
    with open(path, "wb") as file:
        for _ in range(size >> 20):
            file.write(os.urandom(1 << 20))
        file.write(b"and a bit")
    return path


def digest_of_file(path):
    said = subprocess.run(["sha256sum", path], check=True, capture_output=True, text=True).stdout
    return "sha256:" + said.split()[0]


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
    before = mounts()
    run("oras", "cp", reference, host() + "/main/models/oras-copy:v1")
    assert mounts() > before, "oras cp moved the bytes although both repositories are here"
    run("oras", "tag", reference, "stable", "v1.0")
    assert run("oras", "repo", "tags", host() + "/main/models/oras").split() == ["stable", "v1", "v1.0"]
    assert "oras-copy" in run("oras", "repo", "ls", host() + "/main/models")
    large = large_file("large-oras.bin")
    run("oras", "blob", "push", host() + "/main/models/oras", large)
    run("oras", "blob", "fetch", "--output", work + "/large-back", host() + "/main/models/oras@" + digest_of_file(large))
    same(large, work + "/large-back")
    run("oras", "blob", "delete", "-f", host() + "/main/models/oras@" + digest_of_file(large))
    run("oras", "blob", "fetch", "--descriptor", host() + "/main/models/oras@" + digest_of_file(large), code=1)
    assert run("oras", "manifest", "fetch", reference) == run("oras", "manifest", "fetch", host() + "/main/models/oras-copy:v1")
    run("oras", "blob", "fetch", "--output", work + "/blob", host() + "/main/models/oras@" + state["digest"])
    same(work + "/model/model.onnx", work + "/blob")
    run("oras", "manifest", "delete", "-f", host() + "/main/models/oras-copy:v1")
    run("oras", "manifest", "fetch", host() + "/main/models/oras-copy:v1", code=1)


    shows_warnings("oras", "manifest", "fetch", reference, "-u", state["soon"][0], "-p", state["soon"][1])


def shows_warnings(name, *words):
    """Uses the robot whose secret ends soon; the client shows the answer's Warning on standard error."""
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
    before = mounts()
    run("crane", "copy", reference, host() + "/main/models/crane-copy:v1")
    assert mounts() > before, "crane copy moved the bytes although both repositories are here"
    assert "main/models/crane-copy" in run("crane", "catalog", host()).split()
    config = json.loads(run("crane", "manifest", reference))["config"]["digest"]
    assert sha256(run("crane", "blob", f"{host()}/main/models/crane@{config}").encode()) == config
    large = large_file("large-crane.bin")
    with tarfile.open(work + "/large.tar", "w") as archive:
        archive.add(large, "large.bin")
    run("crane", "append", "--base", reference, "--new_layer", work + "/large.tar", "--new_tag", host() + "/main/models/crane:large")
    run("crane", "validate", "--remote", host() + "/main/models/crane:large")
    run("crane", "export", host() + "/main/models/crane:large", work + "/large-export.tar")
    with tarfile.open(work + "/large-export.tar") as archive:
        archive.extract("large.bin", work + "/exported")
    same(large, work + "/exported/large.bin")
    run("crane", "delete", host() + "/main/models/crane@" + run("crane", "digest", host() + "/main/models/crane:large").strip())
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
    assert "application/vnd.example.note" in run("regctl", "artifact", "tree", reference)
    before = mounts()
    run("regctl", "image", "copy", "--referrers", reference, host() + "/main/models/regctl-copy:v1")
    assert mounts() > before, "regctl image copy moved the bytes although both repositories are here"
    assert "application/vnd.example.note" in run("regctl", "artifact", "list", host() + "/main/models/regctl-copy:v1")
    assert "main/models/regctl-copy" in run("regctl", "repo", "ls", host()).split()
    large = large_file("large-regctl.bin", 40 << 20)
    for chunks in ("0", "1000003"):  # in one request, and in pieces of no round size
        run("regctl", "registry", "set", host(), "--blob-chunk", chunks, "--blob-max", "-1" if chunks == "0" else "1000003")
        with open(large, "rb") as file:
            put = subprocess.run([os.path.join(PROGRAMS, "regctl"), "blob", "put", host() + "/main/models/regctl-large" + chunks],
                                 stdin=file, capture_output=True, text=True, timeout=300, env=environment_of(server))
        assert put.returncode == 0 and put.stdout.strip() == digest_of_file(large), (put.stdout, put.stderr)
        run("regctl", "blob", "head", host() + "/main/models/regctl-large" + chunks, digest_of_file(large))
        with open(work + "/regctl-back", "wb") as file:
            got = subprocess.run([os.path.join(PROGRAMS, "regctl"), "blob", "get", host() + "/main/models/regctl-large" + chunks,
                                  digest_of_file(large)], stdout=file, timeout=300, env=environment_of(server))
        assert got.returncode == 0
        same(large, work + "/regctl-back")
    run("regctl", "image", "export", reference, work + "/regctl.tar")
    run("regctl", "image", "import", host() + "/main/models/regctl-import:v1", work + "/regctl.tar")
    digest = run("regctl", "image", "digest", reference)
    assert run("regctl", "image", "digest", host() + "/main/models/regctl-import:v1") == digest
    run("regctl", "manifest", "delete", host() + "/main/models/regctl-import@" + digest.strip())
    run("regctl", "manifest", "head", host() + "/main/models/regctl-import:v1", code=1)
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
    assert place.put_manifest("unsigned", place.manifest(blob, annotations={"signed": "no"})).status == 201
    reference = f"{host()}/main/models/signed@{sha256(manifest)}"
    run("cosign", "generate-key-pair", folder=work)
    run("cosign", "sign", "--yes", "--tlog-upload=false", "--key", "cosign.key", reference, folder=work)
    run("cosign", "verify", "--insecure-ignore-tlog=true", "--key", "cosign.pub", reference, folder=work)
    run("cosign", "verify", "--insecure-ignore-tlog=true", "--key", "cosign.pub",
        f"{host()}/main/models/signed:unsigned", folder=work, code=10)
    with open(work + "/predicate.json", "w", encoding="ascii") as file:
        json.dump({"trained": "here"}, file)
    run("cosign", "attest", "--yes", "--tlog-upload=false", "--key", "cosign.key", "--predicate", "predicate.json", reference, folder=work)
    run("cosign", "verify-attestation", "--insecure-ignore-tlog=true", "--key", "cosign.pub", reference, folder=work)
    run("cosign", "attach", "sbom", "--sbom", "predicate.json", reference, folder=work)
    tree = run("cosign", "tree", reference, folder=work)
    assert "Signatures" in tree and "Attestations" in tree and "SBOM" in tree, tree
    copied = f"{host()}/main/models/signed-copy:v1"
    run("cosign", "copy", f"{host()}/main/models/signed:v1", copied, folder=work)
    run("cosign", "verify", "--insecure-ignore-tlog=true", "--key", "cosign.pub", copied, folder=work)
    run("cosign", "clean", "-f", "--type", "signature", copied, folder=work)
    run("cosign", "verify", "--insecure-ignore-tlog=true", "--key", "cosign.pub", copied, folder=work, code=10)
    by_referrers(place)


def by_referrers(place):
    """The same with OCI 1.1: the signature is in the list of referrers, and has no tag."""
    assert place.put_manifest("v2", place.manifest(b"what is signed", annotations={"by": "referrers"})).status == 201
    reference = f"{host()}/main/models/signed@{place.call('GET', 'manifests/v2')['Docker-Content-Digest']}"
    tags = place.call("GET", "tags/list").json["tags"]
    words = ("--key", "cosign.key", "--tlog-upload=false", "--yes")
    run("cosign", "sign", *words, "--registry-referrers-mode=oci-1-1", reference, folder=work, COSIGN_EXPERIMENTAL="1")
    assert place.call("GET", "tags/list").json["tags"] == tags, "cosign fell back to a tag"
    run("cosign", "verify", "--key", "cosign.pub", "--insecure-ignore-tlog=true", "--experimental-oci11", reference, folder=work)


# --- tokens ------------------------------------------------------------------------------------------------------------
class Ageing(Production):
    """A registry whose clock can step by ten minutes while a client pushes: then tokens of five minutes have expired."""

    def age(self, seconds):
        for faults in self.faults.values():
            faults.set(clock_ms=seconds * 1000)

    def statuses(self, route):
        with open(self.path("log"), encoding="utf-8", errors="replace") as log:
            return re.findall(rf'"route":"{route}[^"]*","status":"(\d+)"', log.read())


LAYERS = 30
# Without regctl: it uses its own clock, which does not step here, and a 401 for a token that it believes valid is final for it.
PUSHES = {
    "oras": lambda at, files: ["push", "--concurrency", "1", f"{at}/main/models/oras-old:v1", *files],
    "crane": lambda at, files: ["push", "layout", f"{at}/main/models/crane-old:v1"],
}


def a_token_that_expires_during_a_push_is_renewed():
    old = Ageing(allowed_hosts="localhost:*")
    with old:
        at = f"{NAME}:{old.port}"
        name, secret = sijil_test.make_robot(old, "old", "publisher", "main/models")
        files = [f"layer-{number}" for number in range(LAYERS)]
        folder = work + "/layers"
        os.makedirs(folder)
        for each in files:
            with open(f"{folder}/{each}", "wb") as file:
                file.write(os.urandom(3 << 20))
        if "crane" in state["there"]:
            layout(folder, files)
        ages = 0
        for client, words in PUSHES.items():
            if client not in state["there"]:
                continue
            environment = environment_of(old, home="home-" + client)
            log_in(client, at, name, secret, environment)
            before, told = len(old.statuses("upload_commit")), len(old.statuses("token"))
            push = subprocess.Popen([os.path.join(PROGRAMS, client), *over_tls(client, words(at, files))], cwd=folder, env=environment,
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            until = time.monotonic() + 60
            while len(old.statuses("upload_commit")) < before + 3:
                assert push.poll() is None and time.monotonic() < until, (client, push.communicate())
                time.sleep(0.01)
            ages += 600
            old.age(ages)
            out, said = push.communicate(timeout=120)
            assert push.returncode == 0, (client, out[-1000:], said[-2000:])
            assert len(old.statuses("token")) > told + 1, f"{client} never asked for another token: too quick to tell"
        old.age(ages)


def what_a_promoter_can_not_mount_is_denied_to_all():
    """From one project to another whose promoter may mount but not upload: each client reports that, and ends with an error."""
    admin = server.client(server.admin)
    admin.api("POST", "/projects", {"organisation": "main", "name": "staging"})
    robot = admin.api("POST", "/robots", {"organisation": "main", "name": "promoter"})
    for scope in ("main/models", "main/staging"):
        admin.api("POST", "/bindings", {"robot": robot["id"], "role": "promoter", "scope": scope})
    place = server.client(sijil_test.make_robot(server, "stager", "publisher", "main/staging")).repository("main/staging/ready")
    assert place.put_manifest("v1", place.manifest(place.push_blob(b"staged") and b"staged")).status == 201
    os.makedirs(f"{work}/promoter/.docker", exist_ok=True)
    with open(f"{work}/promoter/.docker/config.json", "w", encoding="ascii") as file:
        word = base64.b64encode(f"{robot['name']}:{robot['secret']}".encode()).decode()
        json.dump({"auths": {host(): {"auth": word}}}, file)
    source, target = f"{host()}/main/staging/ready:v1", f"{host()}/main/models/promoted:v1"
    commands = {"oras": ["cp", source, target], "crane": ["copy", source, target], "regctl": ["image", "copy", source, target],
                "skopeo": ["copy", "--authfile", f"{work}/promoter/.docker/config.json", "docker://" + source, "docker://" + target]}
    for name, words in commands.items():
        program = shutil.which("skopeo") if name == "skopeo" else os.path.join(PROGRAMS, name)
        if program is None or not os.path.exists(program):
            continue
        done = subprocess.run([program, *(over_tls(name, words) if name != "skopeo" else words)], text=True, capture_output=True,
                              timeout=60, env=environment_of(server, home="promoter"))
        said = (done.stdout + done.stderr).lower()
        assert done.returncode != 0 and "denied" in said and "panic" not in said and "goroutine" not in said, (name, said[-2000:])


def log_in(client, at, name, secret, environment):
    words = (["auth"] if client == "crane" else []) + ["login", at, "-u", name, "--password-stdin"]
    done = subprocess.run([os.path.join(PROGRAMS, client), *over_tls(client, words)], input=secret, text=True, env=environment, capture_output=True,
                          timeout=60, check=False)
    assert done.returncode == 0, (client, done.stdout, done.stderr)


def layout(folder, files):
    """An OCI layout of these layers, for crane."""
    blobs = folder + "/layout/blobs/sha256"
    os.makedirs(blobs)

    def keep(data):
        with open(f"{blobs}/{sha256(data)[7:]}", "wb") as file:
            file.write(data)
        return {"digest": sha256(data), "size": len(data)}
    layers = []
    for name in files:
        with open(f"{folder}/{name}", "rb") as file:
            layers.append({"mediaType": "application/vnd.oci.image.layer.v1.tar", **keep(file.read())})
    config = keep(json.dumps({"architecture": "amd64", "os": "linux", "rootfs": {
        "type": "layers", "diff_ids": [layer["digest"] for layer in layers]}}).encode())
    manifest = keep(json.dumps({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": {
        "mediaType": "application/vnd.oci.image.config.v1+json", **config}, "layers": layers}).encode())
    with open(folder + "/layout/index.json", "w", encoding="ascii") as file:
        json.dump({"schemaVersion": 2, "manifests": [{"mediaType": "application/vnd.oci.image.manifest.v1+json", **manifest}]}, file)
    with open(folder + "/layout/oci-layout", "w", encoding="ascii") as file:
        json.dump({"imageLayoutVersion": "1.0.0"}, file)


def main():
    cases = {"oras": oras_pushes_pulls_and_refers, "crane": crane_pushes_pulls_and_deletes,
             "regctl": regctl_pushes_pulls_and_refers, "cosign": cosign_signs_and_verifies}
    there = {name: case for name, case in cases.items() if os.access(os.path.join(PROGRAMS, name), os.X_OK)}
    state["there"] = set(there)
    for name in cases:
        if name not in there:
            print(f"left out: {name}, which could not be had")
    if not there:
        print("none of them could be had, so nothing ran")
        shutil.rmtree(work)
        shutil.rmtree(server.root)
        return
    trainer = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../script/demo.d/train.py")
    subprocess.run(["/usr/bin/python3", trainer, work + "/model"], check=True, stdout=subprocess.DEVNULL)
    with open(work + "/model/model.onnx", "rb") as file:
        state["digest"] = sha256(file.read())
    print(f"-- by the name {NAME}", flush=True)
    server.start()
    state["login"] = sijil_test.make_robot(server, "interop", "publisher", "main/models")
    state["soon"] = sijil_test.make_robot(server, "soon", "consumer", "main/models", expires_days=2)
    try:
        sijil_test.run(*there.values(), what_a_promoter_can_not_mount_is_denied_to_all, *([a_token_that_expires_during_a_push_is_renewed] if set(PUSHES) & set(there) else []),
                       server=server)
    finally:
        shutil.rmtree(work, ignore_errors=True)


main()
