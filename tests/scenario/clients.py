#!/usr/bin/env python3
"""Stock clients and our own, against a real server: skopeo and `sijil` push and pull a real ONNX model unchanged."""
import contextlib
import fcntl
import filecmp
import hashlib
import http.client
import http.server
import json
import os
import re
import select
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
import urllib.parse

import sijil_test
from sijil_test import Server, program, sha256

server = Server()
work = tempfile.mkdtemp(prefix="sijil-clients-", dir=sijil_test.work_folder())
state = {}
environment = {**os.environ, "XDG_CONFIG_HOME": work + "/config", "XDG_CACHE_HOME": work + "/cache"}


def host():
    return f"127.0.0.1:{server.port}"


def sijil(*words, code=0, text=None, folder=None):
    done = subprocess.run([program("sijil"), *words], input=text, text=True, capture_output=True, env=environment,
                          cwd=folder or work, timeout=300)
    assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
    return done


def skopeo(*words):
    done = subprocess.run(["skopeo", *words], text=True, capture_output=True, timeout=300)
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout


def model():
    return work + "/model/model.onnx"


def logging_in_checks_the_secret():
    name, secret = state["login"]
    refused = sijil("login", host(), "--username", name, "--ca-file", server.ca_file, text="wrong\n", code=4)
    assert f"{host()}: 401" in refused.stderr and name in refused.stderr and "sijil login " + host() in refused.stderr, refused.stderr
    untrusted = sijil("login", host(), "--username", name, text=secret + "\n", code=4)
    assert "certificate" in untrusted.stderr, untrusted.stderr
    sijil("login", host(), "--username", name, "--ca-file", server.ca_file, text=secret + "\n")
    hosts = work + "/config/sijil/hosts.json"
    assert os.stat(hosts).st_mode & 0o777 == 0o600


def sijil_pushes_and_pulls_unchanged():
    pushed = sijil("push", "model.onnx", "metrics.json", host() + "/main/models/digits:v1", "--json", folder=work + "/model")
    state["digest"] = json.loads(pushed.stdout)["digest"]
    pulled = sijil("pull", host() + "/main/models/digits:v1", "-o", work + "/pulled")
    assert pulled.stdout.strip() == state["digest"]
    for name in ("model.onnx", "metrics.json"):
        assert filecmp.cmp(f"{work}/model/{name}", f"{work}/pulled/{name}", shallow=False), name
    told = json.loads(sijil("pull", host() + "/main/models/digits:v1", "-o", work + "/pulled", "--json").stdout)
    assert (told["reference"], told["digest"], told["output"]) == (host() + "/main/models/digits:v1", state["digest"], work + "/pulled"), told
    assert [each["name"] for each in told["layers"]] == ["model.onnx", "metrics.json"], told
    assert told["bytes"] == sum(os.path.getsize(f"{work}/model/{name}") for name in ("model.onnx", "metrics.json")), told
    again = sijil("push", "model.onnx", "metrics.json", host() + "/main/models/digits:v1", folder=work + "/model")
    assert again.stderr.count("there already") == 2, again.stderr


def the_manifest_is_a_modelpack():
    repository = server.client(state["login"]).repository("main/models/digits")
    manifest = repository.call("GET", "manifests/v1").json
    assert manifest["artifactType"] == "application/vnd.cncf.model.manifest.v1+json"
    layer = manifest["layers"][0]
    assert layer["annotations"]["org.cncf.model.filepath"] == layer["annotations"]["org.opencontainers.image.title"] \
        == "model.onnx"
    kinds = [layer["mediaType"] for layer in manifest["layers"]]
    assert kinds == ["application/vnd.cncf.model.weight.v1.raw", "application/vnd.cncf.model.weight.config.v1.raw"], kinds
    assert manifest["config"]["mediaType"] == "application/vnd.cncf.model.config.v1+json"
    config = repository.call("GET", "blobs/" + manifest["config"]["digest"]).json
    assert config["config"]["format"] == "onnx", config
    assert config["modelfs"] == {"type": "layers", "diffIds": [layer["digest"] for layer in manifest["layers"]]}, config


def a_dataset_is_one():
    sijil("push", "--dataset", "metrics.json", host() + "/main/models/numbers:v1", folder=work + "/model")
    repository = server.client(state["login"]).repository("main/models/numbers")
    manifest = repository.call("GET", "manifests/v1").json
    assert [layer["mediaType"] for layer in manifest["layers"]] == ["application/vnd.cncf.model.dataset.v1.raw"], manifest
    assert "format" not in repository.call("GET", "blobs/" + manifest["config"]["digest"]).json["config"]
    sijil("pull", host() + "/main/models/numbers:v1", "-o", work + "/numbers")
    assert filecmp.cmp(work + "/model/metrics.json", work + "/numbers/metrics.json", shallow=False)


def links_do_not_lead_out_of_a_folder(folder):
    """A folder of another person must not publish files that only the user can read, and a pull must not write through a link."""
    target, secret, link = host() + "/main/models/linked:v1", work + "/secret", folder + "/weights/stray"
    with open(secret, "w", encoding="utf-8") as file:
        file.write("a secret")
    for place in ("../../secret", secret, folder + "/config.json"):
        os.symlink(place, link)
        refused = sijil("push", "folder", target, code=1).stderr
        assert "folder/weights/stray" in refused and "--follow-links" in refused, refused
        sijil("tags", host() + "/main/models/linked", code=3)
        os.unlink(link)
    os.symlink("../../secret", link)
    sijil("push", "--follow-links", "folder", target)
    os.unlink(link)
    out, outside = work + "/linked-out", work + "/outside"
    os.makedirs(outside)
    os.makedirs(out)
    os.symlink(outside, out + "/weights")
    os.symlink(secret, out + "/config.json")
    refused = sijil("pull", target, "-o", out, code=1).stderr
    assert "weights" in refused and not os.listdir(outside), refused
    os.unlink(out + "/weights")
    sijil("pull", target, "-o", out)
    with open(secret, encoding="utf-8") as file:
        assert file.read() == "a secret" and not os.path.islink(out + "/config.json")


def a_folder_is_pushed_with_what_is_below_it():
    folder = work + "/folder"
    for name in ("config.json", "weights/part-1.bin", "weights/part-2.bin", "docs/en/README.md", ".git/HEAD"):
        os.makedirs(os.path.dirname(f"{folder}/{name}"), exist_ok=True)
        with open(f"{folder}/{name}", "w", encoding="utf-8") as file:
            file.write(name * 3)
    os.symlink("part-1.bin", folder + "/weights/linked.bin")
    pushed = sijil("push", "folder/", host() + "/main/models/folder:v1")
    assert "left out: folder/.git" in pushed.stderr, pushed.stderr
    sijil("pull", host() + "/main/models/folder:v1", "-o", work + "/folder-back")
    there = sorted(os.path.relpath(os.path.join(place, name), work + "/folder-back")
                   for place, _, names in os.walk(work + "/folder-back") for name in names)
    assert there == ["config.json", "docs/en/README.md", "weights/linked.bin", "weights/part-1.bin", "weights/part-2.bin"], there
    links_do_not_lead_out_of_a_folder(folder)
    os.symlink("weights", folder + "/again")
    for words, say in ((("folder",), "folder/again"), ((work + "/folder/docs/en/..", ), None)):
        done = sijil("push", *words, host() + "/main/models/folder:v2", code=1 if say else 0)
        assert say is None or say in done.stderr, done.stderr
    os.mkdir(work + "/empty")
    assert "no file in the folder empty" in sijil("push", "empty", host() + "/main/models/folder:v3", code=1).stderr
    os.mkfifo(folder + "/docs/pipe")
    os.unlink(folder + "/again")
    assert "folder/docs/pipe" in sijil("push", "folder", host() + "/main/models/folder:v3", code=1).stderr


def what_is_there_can_be_listed_inspected_tagged_and_copied():
    listed = sijil("ls", host()).stdout.split()
    assert listed[0] == "REPOSITORY" and "main/models/digits" in listed and "main/models/folder" in listed, listed
    assert json.loads(sijil("ls", host() + "/main/models/folder/", "--json").stdout) == [{"host": host(), "repository": "main/models/folder"}]
    assert "main/mod" in sijil("ls", host() + "/main/mod", code=3).stderr
    assert not any(line.endswith(" ") for line in sijil("ls", host()).stdout.splitlines())
    source, other = host() + "/main/models/digits:v1", host() + "/main/models/twin"

    shown = sijil("inspect", source).stdout
    for part in (state["digest"], "model.onnx", "metrics.json", "application/vnd.cncf.model.manifest.v1+json", "KiB"):
        assert part in shown, (part, shown)
    raw = subprocess.run([program("sijil"), "inspect", "--raw", source], capture_output=True, env=environment, check=True).stdout
    assert sha256(raw) == state["digest"]
    inspected = json.loads(sijil("inspect", source, "--json").stdout)
    assert inspected["digest"] == state["digest"] and inspected["manifest"] == json.loads(raw), inspected

    assert sijil("tag", source, "best", "v1.0").stdout.strip() == state["digest"]
    assert {"best", "v1", "v1.0"} <= set(sijil("tags", host() + "/main/models/digits").stdout.split())
    assert "is no tag" in sijil("tag", source, "not a tag", code=2).stderr
    nothing = sijil("tag", host() + "/main/models/digits:nothing", "x", code=3).stderr
    assert host() + "/main/models/digits:nothing: 404" in nothing and "sijil tags " + host() in nothing, nothing
    tagged = json.loads(sijil("tag", source, "best", "--json").stdout)
    assert tagged == {"reference": source, "digest": state["digest"], "tags": ["best"]}, tagged
    many = [f"m{number}" for number in range(1100)]
    assert "digits:nothing: 404" in sijil("tag", host() + "/main/models/digits:nothing", *many, code=3).stderr

    copied = sijil("copy", source, other + ":v1", "--verbose")
    assert copied.stdout.strip() == state["digest"], copied.stderr
    assert copied.stderr.count("> POST") == 3 and "PATCH" not in copied.stderr, copied.stderr
    assert "> GET /v2/main/models/digits/blobs/" not in copied.stderr, "blobs were fetched though they could be mounted"
    sijil("pull", other + "@" + state["digest"], "-o", work + "/twin")
    assert filecmp.cmp(model(), work + "/twin/model.onnx", shallow=False)
    sijil("copy", host() + "/main/models/digits@" + state["digest"], other)
    assert sijil("tags", other).stdout.split() == ["v1"]

    client = server.client(state["login"]).repository("main/models/digits")
    index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [
        {"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": state["digest"], "size": len(raw),
         "platform": {"os": "linux", "architecture": "arm64"}}]}
    assert client.put_manifest("all", json.dumps(index).encode(), "application/vnd.oci.image.index.v1+json").status == 201
    assert "linux/arm64" in sijil("inspect", host() + "/main/models/digits:all").stdout
    done = json.loads(sijil("copy", host() + "/main/models/digits:all", host() + "/main/models/third", "--json").stdout)
    assert done["manifests"] == 2 and done["blobs"] == 3, done
    assert done["source"] == host() + "/main/models/digits:all" and done["reference"] == host() + "/main/models/third:all", done
    for words in ((source + "x", other), (host() + "/main/models/none:v1", other)):
        assert words[0] + ": 404" in sijil("copy", *words, code=3).stderr
    assert sijil("tags", host() + "/main/models/third").stdout.split() == ["all"]


def it_is_copied_to_another_registry():
    """The other registry has no blob of it, so every blob passes through this machine."""
    with Server() as elsewhere:
        login = sijil_test.make_robot(elsewhere, "ci", "publisher", "main/models")
        there = f"127.0.0.1:{elsewhere.port}"
        sijil("login", there, "--username", login[0], "--ca-file", elsewhere.ca_file, text=login[1] + "\n")
        assert sijil("copy", host() + "/main/models/digits:v1", there + "/main/models/moved").stdout.strip() == state["digest"]
        sijil("pull", there + "/main/models/moved:v1", "-o", work + "/moved")
        assert filecmp.cmp(model(), work + "/moved/model.onnx", shallow=False)
        sijil("logout", there)
        sijil("copy", host() + "/main/models/digits:v1", there + "/main/models/moved", code=4)


def on_a_terminal(columns, *words):
    """The bytes for a terminal of so many columns, and the exit status."""
    leader, follower = os.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen([program("sijil"), *words], stdin=follower, stdout=follower, stderr=follower, cwd=work, env=environment)
    os.close(follower)
    shown = b""
    while True:
        try:
            piece = os.read(leader, 65536)
        except OSError:
            break
        shown += piece
    os.close(leader)
    return shown.decode(), process.wait(timeout=60)


def a_bar_is_as_wide_as_the_terminal():
    """A line that is longer than the terminal begins a new one each time it is drawn."""
    with open(work + "/a-file-with-a-rather-long-name-for-a-terminal.bin", "wb") as file:
        file.write(os.urandom(96 << 20))
    for columns in (80, 40):
        shown, code = on_a_terminal(columns, "push", "a-file-with-a-rather-long-name-for-a-terminal.bin",
                                    f"{host()}/main/models/wide:v{columns}")
        assert code == 0, shown
        drawn = [each.split("\r", 1)[0].rstrip("\n") for each in shown.split("\r\x1b[K") if "% " in each]
        assert columns == 40 or drawn, repr(shown)
        assert all(len(each) < columns for each in drawn), (columns, drawn)
        assert "0 B/s" not in re.findall(r"[\d.]+ \w+/s", shown), shown


def skopeo_copies_it_out_and_in_unchanged():
    certificates = work + "/certificates"
    os.makedirs(certificates)
    shutil.copy(server.ca_file, certificates + "/ca.crt")
    login = ":".join(state["login"])
    source = f"docker://{host()}/main/models/digits"
    skopeo("copy", "--src-cert-dir", certificates, "--src-creds", login, source + ":v1", f"dir:{work}/copy")
    skopeo("copy", "--dest-cert-dir", certificates, "--dest-creds", login, "--preserve-digests", f"dir:{work}/copy",
           f"docker://{host()}/main/models/copied:v1")
    seen = json.loads(skopeo("inspect", "--raw", "--cert-dir", certificates, "--creds", login,
                             f"docker://{host()}/main/models/copied:v1"))
    assert seen["artifactType"] == "application/vnd.cncf.model.manifest.v1+json"
    sijil("pull", f"{host()}/main/models/copied@{state['digest']}", "-o", work + "/from-skopeo")
    assert filecmp.cmp(model(), work + "/from-skopeo/model.onnx", shallow=False)
    skopeo("delete", "--cert-dir", certificates, "--creds", login, f"docker://{host()}/main/models/copied:v1")
    copied = server.client(state["login"]).repository("main/models/copied")
    assert copied.call("GET", "manifests/v1").status == copied.call("GET", "manifests/" + state["digest"]).status == 404


def skopeo_sends_a_ci_systems_token_as_it_is():
    """Nothing is exchanged: the token that the issuer signed is the credential of each request."""
    admin, issuer = server.client(server.admin), sijil_test.Issuer("https://token.actions.example", f"https://127.0.0.1:{server.port}")
    admin.api("POST", "/issuers", {"url": issuer.url, "algorithms": ["ES256"], "jwks": issuer.jwks, "lifetime_max": 900})
    admin.api("POST", "/bindings", {"issuer": issuer.url, "subject": "repo:acme/train:ref:refs/heads/main", "role": "publisher",
                                    "scope": "main/models/ci"})
    token, target, tls = issuer.token(), f"docker://{host()}/main/models/ci:v1", work + "/certificates"
    bearer = {"Authorization": "Bearer " + token}
    sijil_test.wait_until(lambda: admin.call("POST", "/v2/main/models/ci/blobs/uploads/", headers=bearer).status == 202, 30,
                          "the issuer's token is not taken")
    skopeo("copy", "--dest-cert-dir", tls, "--dest-registry-token", token, "--preserve-digests", f"dir:{work}/copy", target)
    skopeo("copy", "--src-cert-dir", tls, "--src-registry-token", token, target, f"dir:{work}/from-ci")
    assert filecmp.cmp(work + "/copy/manifest.json", work + "/from-ci/manifest.json", shallow=False)
    done = subprocess.run(["skopeo", "copy", "--dest-cert-dir", tls, "--dest-registry-token", token, f"dir:{work}/copy",
                           f"docker://{host()}/main/models/other:v1"], text=True, capture_output=True, timeout=300)
    assert done.returncode != 0, done.stdout


def curl_pushes_and_pulls_unchanged():
    def curl(*words):
        done = subprocess.run(["curl", "-fsS", "--cacert", server.ca_file, *words], capture_output=True, timeout=120)
        assert done.returncode == 0, (words[:3], done.stderr)
        return done.stdout
    base = f"https://{host()}/v2/main/models/curled"
    token = json.loads(curl("-u", ":".join(state["login"]),
                            f"https://{host()}/token?scope=repository:main/models/curled:pull,push"))["token"]
    bearer = ["-H", "Authorization: Bearer " + token]
    headers = curl(*bearer, "-X", "POST", "-D", "-", "-o", "/dev/null", base + "/blobs/uploads/").decode()
    location = next(line.split(":", 1)[1].strip() for line in headers.splitlines() if line.lower().startswith("location:"))
    with open(model(), "rb") as file:
        digest = sha256(file.read())
    mark = "&" if "?" in location else "?"
    curl(*bearer, "-T", model(), "-H", "Content-Type: application/octet-stream", f"{urllib.parse.urljoin(base, location)}{mark}digest={digest}")
    curl(*bearer, "-o", work + "/by-curl", f"{base}/blobs/{digest}")
    assert filecmp.cmp(model(), work + "/by-curl", shallow=False)


def curl_follows_what_it_is_told(at, file, digest):
    """Follows Location and realm unchanged, as a client does that knows only the name it was given."""
    def curl(*words):
        done = subprocess.run(["curl", "-fsS", "--cacert", server.ca_file, *words], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout
    base, login = f"https://{at}/v2/main/models/by-name", ":".join(state["login"])
    said = subprocess.run(["curl", "-sS", "-I", "--cacert", server.ca_file, base + "/manifests/v1"], capture_output=True, text=True, timeout=60).stdout
    realm = re.search(r'realm="(https://[^"]+)"', said).group(1)
    assert realm == f"https://{at}/token", realm
    token = json.loads(curl("-u", login, f"{realm}?service=sijil&scope=repository:main/models/by-name:pull,push"))["token"]
    bearer = ["-H", "Authorization: Bearer " + token]
    begun = curl(*bearer, "-X", "POST", "-D", "-", "-o", work + "/nothing", "-w", "%{redirect_url}", base + "/blobs/uploads/")
    location = urllib.parse.urljoin(base, re.search(r"(?im)^location: (\S+)", begun).group(1))
    assert location.startswith(f"https://{at}/"), location
    curl(*bearer, "-T", file, "-H", "Content-Type: application/octet-stream", f"{location}?digest={digest}")
    curl(*bearer, "-o", work + "/by-name", f"{base}/blobs/{digest}")
    assert filecmp.cmp(file, work + "/by-name", shallow=False)


def clients_work_by_every_name():
    """More than `sijil` sends with one POST, so that each has to follow a Location, and the certificate has to fit."""
    for name in ("localhost", "127.0.0.1"):
        at, file = f"{name}:{server.port}", f"{work}/of-{name}"
        with open(file, "wb") as out:
            out.write(os.urandom((5 << 20) + 7))
        with open(file, "rb") as content:
            digest = sha256(content.read())
        sijil("login", at, "--username", state["login"][0], "--ca-file", server.ca_file, text=state["login"][1] + "\n")
        sijil("push", file, f"{at}/main/models/by-{name}:v1")
        sijil("pull", f"{at}/main/models/by-{name}:v1", "-o", f"{work}/from-{name}")
        assert filecmp.cmp(file, f"{work}/from-{name}/of-{name}", shallow=False)
        login, tls = ":".join(state["login"]), work + "/certificates"
        skopeo("copy", "--src-cert-dir", tls, "--src-creds", login, f"docker://{at}/main/models/by-{name}:v1", f"dir:{work}/dir-{name}")
        skopeo("copy", "--dest-cert-dir", tls, "--dest-creds", login, f"dir:{work}/dir-{name}", f"docker://{at}/main/models/again-{name}:v1")
        assert json.loads(skopeo("list-tags", "--cert-dir", tls, "--creds", login, f"docker://{at}/main/models/again-{name}"))["Tags"] == ["v1"]
        curl_follows_what_it_is_told(at, file, digest)


def a_name_that_leaves_the_folder_is_refused():
    place = server.client(state["login"]).repository("main/models/evil")
    for title in ("../escaped", "/tmp/escaped", "a/../../escaped", "a\\..\\b", "model\u202exnno.exe", "a\u2067/b", "a\u2028b"):
        blob = b"evil"
        manifest = json.loads(place.manifest(blob))
        place.push_blob(blob)
        manifest["layers"][0]["annotations"] = {"org.opencontainers.image.title": title}
        assert place.put_manifest("v1", json.dumps(manifest).encode()).status == 201
        refused = sijil("pull", host() + "/main/models/evil:v1", "-o", work + "/target/inner", code=1) \
            if os.path.isdir(work + "/target") else None
        if refused is None:
            os.makedirs(work + "/target/inner")
            refused = sijil("pull", host() + "/main/models/evil:v1", "-o", work + "/target/inner", code=1)
        assert "leave the target folder" in refused.stderr, refused.stderr
        shown, told = sijil("inspect", host() + "/main/models/evil:v1").stdout, sijil("inspect", "--json", host() + "/main/models/evil:v1").stdout
        assert not set("\u202e\u2067\u2028") & set(shown + told + refused.stderr), (shown, told)
        assert json.loads(told)["manifest"]["layers"][0]["annotations"]["org.opencontainers.image.title"] == title, told
    assert not os.path.exists(work + "/target/escaped") and not os.listdir(work + "/target/inner")


def bytes_read(process):
    """Bytes that the process has read so far: hashing reads the file once, sending reads it again."""
    with open(f"/proc/{process.pid}/io", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("rchar"))


def run_until(process, reached):
    """Runs the process in short slices, so that it can't pass the moment unnoticed."""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        process.send_signal(signal.SIGCONT)
        time.sleep(0.005)
        process.send_signal(signal.SIGSTOP)
        assert process.poll() is None, "the push was over before it could be killed"
        if reached():
            return
    raise AssertionError("the moment never came")


def a_broken_upload_is_resumed_by_another_run():
    """The first run is killed in the middle of a large file; the second continues from the registry's offset."""
    large, size = work + "/large.bin", 192 << 20
    with open(large, "wb") as file:
        for _ in range(size >> 22):
            file.write(os.urandom(4 << 20))
    target = host() + "/main/models/large:v1"
    first = subprocess.Popen([program("sijil"), "push", large, target], env=environment, stderr=subprocess.DEVNULL)
    run_until(first, lambda: bytes_read(first) > size + (32 << 20))
    first.kill()
    first.wait()
    time.sleep(0.5)
    second = sijil("push", large, target)
    assert "pushed (resumed)" in second.stderr, second.stderr
    sijil("pull", target, "-o", work + "/large-pulled")
    assert filecmp.cmp(large, work + "/large-pulled/large.bin", shallow=False)


def an_upload_without_bytes_is_begun_anew():
    """The range "0-0" means one byte or none; docs/decisions/0015-range-of-nothing.md."""
    place = server.client(state["login"]).repository("main/models/barely")
    for size, kept in ((3000, 0), (3001, 1), (1, 0), (1, 1)):
        data = os.urandom(size)
        with open(work + "/barely.bin", "wb") as file:
            file.write(data)
        location = place.begin()
        if kept > 0:
            location = place.patch(location, data[:kept], 0)["Location"]
        assert place.call("GET", location)["Range"] == "0-0"
        name = sha256(f"{host()}\nmain/models/barely\n{sha256(data)}".encode()).split(":")[1]
        with open(f"{work}/cache/sijil/upload-{name}", "w", encoding="ascii") as file:
            file.write(location)
        pushed = sijil("push", work + "/barely.bin", host() + "/main/models/barely:v1")
        assert "resumed" not in pushed.stderr, pushed.stderr
        assert place.call("GET", "blobs/" + sha256(data)).body == data
        answer = place.call("GET", location)
        assert answer.status == 404, (answer.status, answer.body, pushed.stderr)


def who_still_writes_is_waited_for():
    """A connection that broke without the server's knowledge holds the session for five seconds."""
    place = server.client(state["login"]).repository("main/models/held")
    data = os.urandom(3_000_000)
    with open(work + "/held.bin", "wb") as file:
        file.write(data)
    location = place.patch(place.begin(), data[:1_000_000], 0)["Location"]
    link = place.client.connection()
    link.putrequest("PATCH", urllib.parse.urlsplit(location).path)
    for name, value in {"Authorization": "Bearer " + place.client.token(place.scope), "Content-Type": "application/octet-stream",
                        "Content-Length": "2000000", "Content-Range": "1000000-2999999"}.items():
        link.putheader(name, value)
    link.endheaders()
    link.send(data[1_000_000:1_500_000])  # and then nothing
    until = time.monotonic() + 4  # shorter than the time after which a stalled writer loses the session
    while (answer := place.patch(location, data[1_000_000:1_000_001], 0)).status == 416:  # out of order, while there is no writer
        assert time.monotonic() < until, "the first request never began to write"
        time.sleep(0.05)
    assert answer.status == 409, (answer.status, answer.body)
    name = sha256(f"{host()}\nmain/models/held\n{sha256(data)}".encode()).split(":")[1]
    with open(f"{work}/cache/sijil/upload-{name}", "w", encoding="ascii") as file:
        file.write(location)
    pushed = sijil("push", work + "/held.bin", host() + "/main/models/held:v1")
    link.close()
    assert "pushed (resumed)" in pushed.stderr, pushed.stderr
    assert re.search(r"409 .*; trying again in 1 s$", pushed.stderr, re.MULTILINE), pushed.stderr
    assert place.call("GET", "blobs/" + sha256(data)).body == data


def uploads_asked_for(verbose):
    """Methods of the requests of a push that begin, fill and close uploads, from its --verbose."""
    return [line.split()[1] for line in verbose.splitlines() if line.startswith("> ") and "/blobs/uploads/" in line]


def pieces_that_are_small_go_in_one_request():
    small, large = work + "/small.bin", work + "/larger.bin"
    for path, size in ((small, 4 << 20), (large, (4 << 20) + 1)):
        with open(path, "wb") as file:
            file.write(os.urandom(size))
    pushed = sijil("push", "--verbose", "--jobs", "1", small, large, host() + "/main/models/pieces:v1")
    assert uploads_asked_for(pushed.stderr) == ["POST", "POST", "PATCH", "PUT", "POST"], pushed.stderr  # the last is the config
    sijil("pull", host() + "/main/models/pieces:v1", "-o", work + "/pieces")
    assert filecmp.cmp(small, work + "/pieces/small.bin", shallow=False)


class OlderRegistry(http.server.BaseHTTPRequestHandler):
    """The same registry, but it accepts no blob in a POST: it answers with a session, which the specification allows."""
    protocol_version = "HTTP/1.1"

    def forward(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.path
        if self.command == "POST" and "/blobs/uploads/?digest=" in path:
            path, body = path.partition("?")[0], b""
        link = http.client.HTTPSConnection("127.0.0.1", server.port, context=ssl.create_default_context(cafile=server.ca_file))
        kept = {name: value for name, value in self.headers.items() if name.lower() not in ("content-length", "host")}
        link.request(self.command, path, body, {**kept, "Content-Length": str(len(body))})
        answer = link.getresponse()
        said = answer.read()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("content-length", "connection", "transfer-encoding", "date", "server"):
                self.send_header(name, value)
        length = answer.getheader("Content-Length") if self.command == "HEAD" else None
        self.send_header("Content-Length", length or str(len(said)))
        self.end_headers()
        self.wfile.write(said)
        link.close()

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = forward

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def older_registry():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server.folder + "/tls/server.pem", server.folder + "/tls/server.key")
    relay = http.server.ThreadingHTTPServer(("127.0.0.1", 0), OlderRegistry)
    relay.socket = context.wrap_socket(relay.socket, server_side=True)
    threading.Thread(target=relay.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{relay.server_address[1]}"
    finally:
        relay.shutdown()
        relay.server_close()


def a_registry_that_wants_sessions_gets_them():
    """The client tries once and remembers the answer, so the second file and the config are not sent in vain."""
    names = ("first.bin", "second.bin")
    for name in names:
        with open(f"{work}/{name}", "wb") as file:
            file.write(os.urandom(300_000))
    with older_registry() as older:
        sijil("login", older, "--username", state["login"][0], "--ca-file", server.ca_file, text=state["login"][1] + "\n")
        pushed = sijil("push", "--verbose", "--jobs", "1", *names, older + "/main/models/older:v1")
        assert uploads_asked_for(pushed.stderr) == ["POST", "PATCH", "PUT"] * 3, pushed.stderr
        sijil("logout", older)
    sijil("pull", host() + "/main/models/older:v1", "-o", work + "/older")
    assert all(filecmp.cmp(f"{work}/{name}", f"{work}/older/{name}", shallow=False) for name in names)


def tags_are_listed_and_deleted():
    sijil("push", "model.onnx", host() + "/main/models/tagged:b", folder=work + "/model")
    sijil("push", "model.onnx", host() + "/main/models/tagged:a", folder=work + "/model")
    assert sijil("tags", host() + "/main/models/tagged").stdout.split() == ["a", "b"]
    told = json.loads(sijil("delete", host() + "/main/models/tagged:a", "--json").stdout)
    assert told["reference"] == host() + "/main/models/tagged:a" and told["deleted"] == "a" and told["audit"], told
    assert json.loads(sijil("tags", host() + "/main/models/tagged", "--json").stdout) == {"host": host(), "name": "main/models/tagged", "tags": ["b"]}
    assert host() + "/main/models/tagged:a" in sijil("delete", host() + "/main/models/tagged:a", code=3).stderr
    assert sijil("tags", host() + "/main/models/tagged").stdout.split() == ["b"]
    gone = sijil("pull", host() + "/main/models/tagged:a", code=3)
    assert "MANIFEST_UNKNOWN" in gone.stderr, gone.stderr


def warnings_are_shown_once():
    soon = sijil_test.make_robot(server, "soon", "publisher", "main/models", expires_days=3)
    sijil("login", host(), "--username", soon[0], "--ca-file", server.ca_file, text=soon[1] + "\n")
    pushed = sijil("push", "model.onnx", host() + "/main/models/warned:v1", folder=work + "/model")
    assert pushed.stderr.count("warning from the registry: the secret of robot$main+soon ends at 20") == 1, pushed.stderr
    pulled = sijil("pull", host() + "/main/models/warned:v1", "-o", work + "/warned", "--json")
    said = [json.loads(line) for line in pulled.stderr.splitlines() if line.startswith("{")]
    assert [list(each) for each in said] == [["warning"]] and "robot$main+soon" in said[0]["warning"], pulled.stderr
    sijil("login", host(), "--username", state["login"][0], "--ca-file", server.ca_file, text=state["login"][1] + "\n")
    assert "warning" not in sijil("pull", host() + "/main/models/warned:v1", "-o", work + "/warned-not").stderr


def refusals_name_the_rule_and_what_is_missing():
    admin = server.client(server.admin)
    admin.api("POST", "/projects", {"organisation": "main", "name": "health",
                                    "label": {"class": "sensitive", "subjects": ["health"]}})
    robot = admin.api("GET", "/robots?limit=1000")["robots"]
    mine = next(one["id"] for one in robot if one["name"] == state["login"][0])
    admin.api("POST", "/bindings", {"robot": mine, "role": "publisher", "scope": "main/health"})
    sijil("push", "model.onnx", host() + "/main/health/scans:v1", folder=work + "/model")
    refused = sijil("pull", host() + "/main/health/scans:v1", "-o", work + "/none", code=4)
    for word in ("403", "DENIED", "H-READ-AE", "geo"):
        assert word in refused.stderr, refused.stderr
    told = json.loads(sijil("pull", host() + "/main/health/scans:v1", "-o", work + "/none", "--json", code=4).stderr)
    assert told["error"] == "denied" and told["rule"] == "H-READ-AE" and told["missing"], told
    assert told["policy"] and told["request"] and told["audit"] and told["reference"] == host() + "/main/health/scans:v1", told
    hidden = sijil("pull", host() + "/other/secret/scans:v1", "-o", work + "/none", code=4)
    unknown = sijil("pull", host() + "/main/models/never-pushed:v1", "-o", work + "/none", code=3)
    assert "there is no such thing" in hidden.stderr and "404" in unknown.stderr


def the_log_is_shown_and_proven_offline():
    auditor = state["auditor"] = sijil_test.make_robot(server, "auditor", "auditor", "")
    sijil("login", host(), "--username", auditor[0], "--ca-file", server.ca_file, text=auditor[1] + "\n")
    tail = sijil("audit", "tail", host(), "--lines", "50").stdout
    assert "manifest.push" in tail and "denied" in tail, tail
    denials = [line for line in tail.splitlines() if "  denied  " in line]
    assert denials and all(re.search(r"  [A-Z]+-[A-Z-]+( [A-Z]+-[A-Z-]+)*$", line) for line in denials), denials
    denied = json.loads(sijil("audit", "tail", host(), "--key", "out:denied", "--lines", "1", "--json").stdout)
    key = sijil("audit", "key", host()).stdout.strip()
    sijil("audit", "proof", host(), str(denied["seq"]), "-o", work + "/proof")
    def verify(entry, code):
        done = subprocess.run([program("sijil-verify"), "proof", "--key", key, "--entry", entry,
                               work + "/proof/entry.tlog-proof"], capture_output=True, text=True, timeout=30)
        assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    verify(work + "/proof/entry.json", 0)
    with open(work + "/proof/entry.json", encoding="utf-8") as file:
        forged = file.read().replace('"denied"', '"allowed"')
    with open(work + "/proof/forged.json", "w", encoding="utf-8") as file:
        file.write(forged)
    verify(work + "/proof/forged.json", 1)


def a_second_login_needs_the_secret_alone():
    """`sijil login HOST` is what `sijil` advises when a secret has expired. User name and CA file are those of the stored login."""
    told = sijil("login", host(), text=state["auditor"][1] + "\n").stderr
    assert "logged in at" in told and state["auditor"][0] in told, told
    assert state["auditor"][0] in sijil("whoami", host()).stdout


def an_auditor_of_a_part_is_told_how_to_ask():
    part = sijil_test.make_robot(server, "part", "auditor", "main")
    sijil("login", host(), "--username", part[0], "--ca-file", server.ca_file, text=part[1] + "\n")
    for words in (("tail", host()), ("key", host()), ("proof", host(), "1")):
        refused = sijil("audit", *words, code=4).stderr
        assert "--within main" in refused, refused
    assert "manifest.push" in sijil("audit", "tail", host(), "--within", "main", "-n", "1000").stdout
    sijil("login", host(), "--username", state["auditor"][0], "--ca-file", server.ca_file, text=state["auditor"][1] + "\n")


def a_long_tail_has_as_many_lines_as_were_asked():
    """More events than one page of the API has, oldest first, without a gap or a repetition."""
    client, link = server.client(state["login"]), server.client().connection()
    for _ in range(600):
        assert client.call("HEAD", "/v2/main/models/digits/manifests/v1", connection=link,
                           scope="repository:main/models/digits:pull").status == 200
    link.close()
    page = server.client(state["auditor"]).api("GET", "/audit/events?limit=1000")
    assert len(page["events"]) < 500 and "next" in page, len(page["events"])
    shown = sijil("audit", "tail", host(), "--lines", "500", "--json").stdout.splitlines()
    numbers = [json.loads(line)["seq"] for line in shown]
    assert len(numbers) == 500 and numbers == list(range(numbers[0], numbers[0] + 500)), (len(numbers), numbers[:3])


def documented_queries_of_the_log_answer():
    """Each GET of events in docs/audit.md, with the names of this registry. tests/scenario/exports.py has those of exports."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/audit.md"), encoding="utf-8") as file:
        examples = re.findall(r"^    GET /api/v1(/audit/events\S*)", file.read(), re.MULTILINE)
    assert len(examples) >= 5, examples
    client = server.client(state["auditor"])
    pusher = client.api("GET", "/audit/events?key=res:main/models/digits&order=ascending&limit=1")["events"][0]
    for example in examples:
        path = example.replace("acme", "main").replace("PSEUDONYM", pusher["entry"]["actor"])
        events = client.api("GET", path)["events"]
        assert events, path
        for event in events:
            entry = event["entry"]
            if "key=res:" in path:
                assert "res:main/models/digits" in entry["k"], (path, entry)
            if "key=act:" in path:
                assert entry["actor"] == pusher["entry"]["actor"], (path, entry)
            if "key=out:" in path:
                assert entry["out"] == "denied", (path, entry)


def an_administrator_works_by_command():
    name, secret = server.admin
    done = sijil("login", host(), "--username", name, "--ca-file", server.ca_file, "--json", text=secret + "\n")
    assert json.loads(done.stdout) == {"host": host(), "username": name, "name": name}
    shown = sijil("whoami", host()).stdout
    assert name in shown and re.search(r"registry-admin +on the registry, by binding [0-9a-f-]{36} of system\n", shown) and "secret ends" in shown, shown
    assert re.search(r"person +the administrator: one person, who runs the machine, whatever it does\n", shown), shown
    told = json.loads(sijil("whoami", host(), "--json").stdout)
    assert told["person"] == "administrator" and told["name"] == name, told
    assert [(role["scope"], role["origin"]) for role in told["roles"] if role["role"] == "registry-admin"] == [("", "binding")], told

    def admin(*words, code=0):
        """The result of `sijil admin` as JSON; for a refusal, its message."""
        done = sijil("admin", *words[:2], *(["--json"] if code == 0 else []), host(), *words[2:], code=code)
        return (json.loads(done.stdout) if done.stdout.strip() else None) if code == 0 else done.stderr

    admin("organisation", "create", "wadi")
    admin("organisation", "create", "wadi", code=1)
    admin("project", "create", "wadi/models", "--label", '{"class":"confidential"}')
    assert "ORGANISATION/PROJECT" in admin("project", "create", "wadi", code=2)
    admin("project", "create", "wadi/broken", "--label", "{", code=2)
    admin("project", "create", "wadi/nowhere", "--region", "no/where", code=3)
    raised = admin("project", "label", "wadi/models", '{"class":"sensitive"}')
    assert raised["label"]["class"] == "sensitive", raised
    assert "open confidential sensitive secret" in admin("project", "label", "wadi/models", '{"class":"top"}', code=1)
    assert "open confidential sensitive secret" in sijil("admin", "project", "label", "--help").stdout
    listed = sijil("admin", "project", "list", host()).stdout
    assert "wadi/models" in listed and "PROJECT" in listed, listed

    robot = admin("robot", "create", "wadi/pusher", "--expires", "7")
    assert robot["secret"] and robot["name"].startswith("robot$wadi+"), robot
    assert "a number of days" in admin("robot", "create", "wadi/late", "--expires", "soon", code=2)
    binding = admin("binding", "create", robot["name"], "publisher", "wadi/models", "--expires", "3")
    other = admin("binding", "create", robot["id"], "consumer", "wadi/models")
    outside = admin("binding", "create", "repo:wadi/ci", "consumer", "wadi/models", "--issuer", "https://issuer.example")
    assert "there is no robot" in admin("binding", "create", "robot$nobody", "publisher", "wadi/models", code=3)
    assert "consumer" in admin("binding", "create", robot["id"], "emperor", "wadi/models", code=1)
    assert admin("binding", "create", robot["id"], "emperor", "wadi/models", code=1).count("registry-admin") == 1
    assert "registry-admin" in sijil("admin", "binding", "create", "--help").stdout
    assert sijil("admin", "project", "show", host(), "wadi/none", code=3).stderr.startswith("sijil: wadi/none: 404 ")
    assert admin("robot", "rotate", "wadi/pusher")["id"] == robot["id"]  # as it was made
    assert "binding list" in admin("binding", "revoke", robot["name"], code=2)
    assert sijil("admin", "project", "quota", host(), "wadi/none", code=3).stderr.startswith("sijil: wadi/none: 404 ")
    rotated = admin("robot", "rotate", robot["name"], "--expires", "9")
    assert rotated["id"] == robot["id"] and rotated["secret"] != robot["secret"] and rotated["name"] == robot["name"], rotated
    rows = sijil("admin", "robot", "rotate", host(), robot["id"], "--grace", "15m").stdout.splitlines()
    assert any(re.match("secret +sijil_", row) for row in rows) and len({re.match(r"\w+ +", row).end() for row in rows}) == 1, rows
    assert "--grace 1w" in admin("robot", "rotate", robot["name"], "--grace", "1w", code=2)
    assert "SYS-SELF-GRANT" in admin("robot", "rotate", name, code=4)
    shown = sijil("admin", "binding", "list", host()).stdout
    assert binding["id"] in shown and "repo:wadi/ci" in shown, shown
    for each in (binding, other, outside):
        admin("binding", "revoke", each["id"])
    assert "revoked" in sijil("admin", "robot", "revoke", host(), robot["name"]).stderr
    assert "there is no robot" in admin("robot", "revoke", robot["name"], code=3)
    admin("robot", "revoke", "00000000-0000-4000-8000-000000000000", code=3)
    assert robot["id"] not in [each["id"] for each in admin("robot", "list") if each["enabled"]]
    officer = os.path.join(server.folder, "officer")
    with open(work + "/set.json", "w", encoding="utf-8") as file:
        json.dump({"policies": [], "regions": {}}, file)
    signed = sijil("policy", "sign", "--key", officer + "/approver.pem", "--epoch", "2", "--output", "set.dsse", "set.json", "--json")
    assert json.loads(signed.stdout) == {"output": "set.dsse"} and os.path.exists(work + "/set.dsse")
    sets_that_say_something_else_are_not_signed(officer)
    a_set_is_compared_with_the_one_in_force()
    assert json.loads(sijil("logout", host(), "--json").stdout) == {"host": host()}
    sijil("admin", "robot", "list", host(), code=4)
    sijil("whoami", host(), code=4)


def sets_that_say_something_else_are_not_signed(officer):
    """An unknown member would be signed unnoticed, and a set without policies denies everything."""
    os.remove(work + "/set.dsse")
    for document, said in (({"polices": [], "regions": {}}, "polices"), ({"policies": []}, '"regions"'), ({"regions": {}}, '"policies"'),
                           ([], '"policies"'), (json.load(open(officer + "/policy-set.json", encoding="utf-8")), "this set is signed already")):
        with open(work + "/odd.json", "w", encoding="utf-8") as file:
            json.dump(document, file)
        refused = sijil("policy", "sign", "--key", officer + "/approver.pem", "--epoch", "3", "--output", "set.dsse", "odd.json", code=1)
        assert said in refused.stderr and not os.path.exists(work + "/set.dsse"), (document, refused.stderr)
    key = subprocess.run(["openssl", "ec", "-in", officer + "/approver.pem", "-pubout"], check=True, capture_output=True).stdout
    with open(work + "/public.pem", "wb") as file:
        file.write(key)
    refused = sijil("policy", "sign", "--key", "public.pem", "--epoch", "3", "--output", "set.dsse", "set.json", code=1)
    assert "public key" in refused.stderr, refused.stderr


def a_set_is_compared_with_the_one_in_force():
    """The registry stands in the place of a file; a scope without a project is found only there."""
    document = json.loads(sijil("policy", "show", "--document", host()).stdout)
    for name, scope in (("same.json", []), ("looser.json", ["nobody/**"])):
        document["policies"][0]["metadata"]["scope"] += scope
        if scope:
            document["policies"][0]["rules"] = [rule for rule in document["policies"][0]["rules"] if rule["id"] != "H-READ-AE"]
        with open(work + "/" + name, "w", encoding="utf-8") as file:
            json.dump(document, file)
    assert "the same" in sijil("policy", "diff", host(), "same.json").stdout
    loosens = sijil("policy", "diff", host(), "looser.json", code=1).stdout
    assert "LOOSENS" in loosens and "denied until now by H-READ-AE of registry-default@1" in loosens, loosens
    found = json.loads(sijil("policy", "lint", "--json", host(), code=1).stdout)
    assert [one["rule"] for one in found if one["code"] == "shadowed"] == ["H-STORE-AE"], found  # R-STORE-HOME says the same of all content
    assert not [one for one in found if one["code"] == "no-project" or one["level"] == "error"], found


def what_this_machine_lacks_is_not_the_registrys_fault():
    """Exit status 1 and the file's name, at once; 5 is for a registry that can't be reached."""
    read_only = work + "/read-only"
    os.mkdir(read_only)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "none", read_only], check=True)
    try:
        began = time.monotonic()
        refused = sijil("pull", host() + "/main/models/digits:v1", "-o", read_only, code=1)
        assert "read-only" in refused.stderr.lower() and ("model.onnx" in refused.stderr or "metrics.json" in refused.stderr), refused.stderr  # they come side by side
        assert time.monotonic() - began < 20
    finally:
        subprocess.run(["umount", "-l", read_only], check=True)
    full = work + "/full"
    os.mkdir(full)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", full], check=True)
    try:
        refused = sijil("pull", host() + "/main/models/wide:v80", "-o", full, code=1)
        assert "No space left" in refused.stderr and "a-file-with-a-rather-long-name" in refused.stderr, refused.stderr
        assert "trying again" not in refused.stderr, refused.stderr
        assert full in refused.stderr and "make room and repeat" in refused.stderr, refused.stderr
    finally:
        subprocess.run(["umount", "-l", full], check=True)
    for target, said in ((work + "/model/model.onnx", "is no folder"), ("/proc/no/such/folder", "/proc/no")):
        refused = sijil("pull", host() + "/main/models/digits:v1", "-o", target, code=1).stderr
        assert target in refused and said in refused, refused
    sijil("pull", host() + "/main/models/digits:v1", "-o", work + "/three/folders/deep/")
    os.makedirs(work + "/in-the-way/model.onnx")
    refused = sijil("pull", host() + "/main/models/digits:v1", "-o", work + "/in-the-way", code=1).stderr
    assert "model.onnx is there already" in refused and os.listdir(work + "/in-the-way") == ["model.onnx"], refused
    assert "nothing.onnx" in sijil("push", "nothing.onnx", host() + "/main/models/digits:v2", code=3).stderr
    with open(work + "/broken.json", "w", encoding="utf-8") as file:
        file.write("{")
    assert "broken.json" in sijil("admin", "project", "rules", host(), "main/models", "broken.json", code=1).stderr
    name, secret = state["login"]
    gone = f"127.0.0.1:{sijil_test.free_port()}"
    unreachable = sijil("login", gone, "--username", name, "--ca-file", server.ca_file, text=secret + "\n", code=5)
    assert gone in unreachable.stderr, unreachable.stderr


def secrets_in_the_line_are_not_repeated():
    """The error of `sijil pull u:SECRET@host/...` repeated the secret, which then was in the log of the CI job."""
    at, long = "u:SECRET@127.0.0.1:1", "u:" + 200 * "SECRET" + "@127.0.0.1:1"
    for address in (at, "https://" + at, "https://SECRET@127.0.0.1:1", "u:SEC/SECRET@127.0.0.1:1", long):
        name = address + "/main/models/x:v1"
        for words in (("pull", name), ("push", "model.onnx", name), ("push", name), ("push", name, "model.onnx"), ("inspect", name),
                      ("tag", name, "v2"), ("tag", "127.0.0.1:1/main/models/x:v1", name), ("copy", name, "127.0.0.1:1/main/models/x:v1"),
                      ("copy", "127.0.0.1:1/main/models/x:v1", name), ("tags", name), ("delete", name), ("ls", address), ("login", address, "-u", "u"),
                      ("logout", address), ("whoami", address), ("audit", "key", address), ("admin", "project", "show", address, "main/models"),
                      ("admin", "robot", "revoke", "127.0.0.1:1", name), ("policy", "sign", name), (address,), ("pul", name)):
            for json_too in ((), ("--json",)):
                done = sijil(*words, *json_too, code=2)
                assert "SECRET" not in done.stdout + done.stderr and "sijil login" in done.stderr, (words, done)
    for words in (("login", "127.0.0.1:1", "--password=SECRET"), ("login", "127.0.0.1:1", "-u", "u:SECRET"), ("pull", "--json=SECRET", "x"),
                  ("admin", "issuer", "trust", "127.0.0.1:1", "https://u:SECRET@idp", "x"),
                  ("admin", "binding", "create", "127.0.0.1:1", "s", "consumer", "main", "--issuer", "https://u:SECRET@idp")):
        done = sijil(*words, code=2)
        assert "SECRET" not in done.stdout + done.stderr, (words, done)
    for variables in ({"SIJIL_USERNAME": "u:SECRET", "SIJIL_PASSWORD": "SECRET"},
                      {"SIJIL_USERNAME": "u", "SIJIL_PASSWORD": "SECRET", "https_proxy": "odd://u:SECRET@127.0.0.1:1"},
                      {"SIJIL_USERNAME": "u", "SIJIL_PASSWORD": "SECRET", "SIJIL_PROXY": "odd://u:SECRET@127.0.0.1:1"},
                      {"SIJIL_USERNAME": "u", "SIJIL_PASSWORD": "SECRET", "SIJIL_PROXY": "http://u:SECRET@127.0.0.1:1"}):
        done = subprocess.run([program("sijil"), "pull", "--verbose", "127.0.0.1:1/main/models/x:v1"], env={**environment, **variables}, text=True,
                              capture_output=True, cwd=work, timeout=60, check=False)
        assert done.returncode != 0 and "SECRET" not in done.stdout + done.stderr, done


class Tunnel(http.server.BaseHTTPRequestHandler):
    """A proxy that connects every request to the registry."""
    asked = []

    def do_CONNECT(self):  # pylint: disable=invalid-name
        self.asked.append(self.path)
        self.send_response(200)
        self.end_headers()
        with socket.create_connection(("127.0.0.1", server.port)) as far:
            ends = {self.connection: far, far: self.connection}
            while True:
                for end in select.select(list(ends), [], [])[0]:
                    piece = end.recv(65536)
                    if not piece:
                        self.close_connection = True
                        return
                    ends[end].sendall(piece)

    def log_message(self, *_):  # pylint: disable=arguments-differ
        pass


def a_proxy_is_used_only_if_sijil_proxy_names_it():
    """https_proxy in the environment silently sent all calls, with their tokens, to another machine."""
    proxy = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Tunnel)
    proxy.daemon_threads = True
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{proxy.server_port}"
    nowhere = f"127.0.0.1:{sijil_test.free_port()}"

    login = {"SIJIL_USERNAME": state["login"][0], "SIJIL_PASSWORD": state["login"][1], "SIJIL_CA_FILE": server.ca_file}

    def run(*words, **variables):
        return subprocess.run([program("sijil"), *words], env={**environment, **login, **variables}, text=True, capture_output=True, cwd=work,
                              timeout=60, check=False)
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        done = run("whoami", host(), **{name: address})
        assert done.returncode == 0 and not Tunnel.asked, (name, done, Tunnel.asked)
    done = run("whoami", host(), SIJIL_PROXY=address, NO_PROXY="*", no_proxy="*")
    assert done.returncode == 0 and set(Tunnel.asked) == {host()}, (done, Tunnel.asked)
    hinted = run("whoami", nowhere, HTTPS_PROXY=address)
    assert hinted.returncode == 5 and "SIJIL_PROXY" in hinted.stderr, hinted
    assert "SIJIL_PROXY" not in run("whoami", nowhere).stderr
    for wrong in ("socks5://127.0.0.1:1", "https://127.0.0.1:1", "127.0.0.1:3128", "http://", "http:///x", "http://a b", "http://" + 600 * "x"):
        refused = run("whoami", host(), SIJIL_PROXY=wrong)
        assert refused.returncode == 1 and "SIJIL_PROXY: http://HOST:PORT" in refused.stderr, (wrong, refused)
    assert run("whoami", host(), SIJIL_PROXY="").returncode == 0
    refused = subprocess.run([program("sijil"), "login", host(), "-u", "u"], input="p\n", env={**environment, "SIJIL_PROXY": "odd"},
                             text=True, capture_output=True, timeout=60, check=False)
    assert refused.returncode == 1 and "SIJIL_PROXY: http://HOST:PORT" in refused.stderr, refused
    proxy.shutdown()


def usage_errors_say_what_is_wrong():
    assert "there is no command 'pusch'; did you mean 'push'?" in sijil("pusch", code=2).stderr
    for words, said in ((("psuh", "x", "y"), "there is no command 'psuh'; did you mean 'push'?"), (("list",), "did you mean 'ls'?"),
                        (("version",), "did you mean '--version'?"), (("push", "x"), "REFERENCE: both are needed, only 'x' came"),
                        (("admin", "binding", "create", "h"), "PRINCIPAL is missing"), (("ls", "a", "b"), "1 more came"),
                        (("login", "h", "-u"), "-u wants a value"), (("push", "h/a/b/c:v1", "model.onnx"), "the reference comes last"),
                        (("pull", "https://h/a/b/c:v1"), "leave out https://")):
        assert said in sijil(*words, code=2).stderr, words
        if words[-1] == "-u":
            continue
        told = json.loads(sijil(*words, "--json", code=2).stderr)
        assert told["error"] == "invalid" and said in told["message"], told
    assert json.loads(sijil("ls", "--json", code=2).stderr)["usage"].startswith("sijil ls ")
    with open("/dev/full", "w", encoding="ascii") as full:
        for words in (("--help",), ("pull", "--help"), ("--version",)):
            done = subprocess.run([program("sijil"), *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
            assert done.returncode == 1 and "can't write to standard output" in done.stderr, (words, done)  # why: if the last write failed
    absent = {**environment, "XDG_CONFIG_HOME": work + "/absent"}
    subprocess.run([program("sijil"), "ls", "127.0.0.1:1"], env=absent, capture_output=True, check=False)
    assert not os.path.exists(work + "/absent"), "reading made a folder"
    assert "options stand behind the command: sijil COMMAND --json" in sijil("--json", "whoami", "127.0.0.1:1", code=2).stderr
    assert "did you mean '--help'?" in sijil("--hepl", code=2).stderr
    assert "--facts needs --json" in sijil("audit", "tail", "--facts", "127.0.0.1:1", code=2).stderr
    assert "--expires 91: a number of days from 1 to 90" in sijil("admin", "robot", "create", "-e", "91", "127.0.0.1:1", "a/b", code=2).stderr
    assert "--grace 8d: at most 7d" in sijil("admin", "robot", "rotate", "-g", "8d", "127.0.0.1:1", "a/b", code=2).stderr
    assert "network, 1 node" in " ".join(sijil("run", "start", "--help").stdout.split())
    for name, typed, meant in (("sijil-verify", "prof", "proof"), ("sijil-runner", "chek", "check"), ("sijil-runner", "enrol", "enroll")):
        done = subprocess.run([program(name), typed], capture_output=True, text=True, check=False)
        assert done.returncode == 2 and f"there is no command '{typed}'; did you mean '{meant}'?" in done.stderr, done
    assert "did you mean 'admin robot list'" in sijil("admin", "robto", "list", "x", code=2).stderr
    assert "did you mean" not in sijil("quetzalcoatl", code=2).stderr
    a_key = ("key", "approve", "127.0.0.1:1", "-IDKJtMEMG-cvKAvCwMA1BQmHa3S-XROzlZ2kqTHCZs", "--key", work + "/no-key")
    assert "can't open" in sijil(*a_key, code=3).stderr, "one key of 64 has a name that begins with '-'; it is no option"
    assert "did you mean '--annotation'?" in sijil("push", "--annotatoin", "a=b", "x", "y", code=2).stderr
    listed = sijil("admin", "robot", code=2).stderr
    assert "admin robot create" in listed and "admin project" not in listed, listed
    assert "admin robot create" in sijil("admin", "robot", "--help").stdout
    assert "audit tail" in sijil("help", "audit").stdout and "--output" in sijil("help", "pull").stdout
    assert "usage" in sijil("push", "x", code=2).stderr
    reference = "127.0.0.1:1/main/models/x:v1"
    for words in (("push", "-J", "0", "x", reference), ("pull", "-J", "0", reference), ("push", "-a", "b", "x", reference),
                  ("push", "x", "127.0.0.1:1/main/models/x:-"), ("audit", "tail", "-n", "0", "127.0.0.1:1"),
                  ("audit", "proof", "127.0.0.1:1", "abc"), ("login", "127.0.0.1:1"), ("login", "https://h", "-u", "a"),
                  ("tags", reference), ("delete", "127.0.0.1:1/main/models/x"), ("admin", "scrub", "127.0.0.1:1", "--rate", "x"),
                  ("audit", "key", "127.0.0.1:1/acme"), ("admin", "project", "quota", "127.0.0.1:1", "acme/models", "--bytes", "many"),
                  ("policy", "sign", "x"), ("policy", "sign", "-k", "x", "-e", "x", "x")):
        sijil(*words, code=2)
    assert "HOST/ORGANISATION/PROJECT/REPOSITORY" in sijil("pull", "digits", code=2).stderr
    assert "sijil login" in sijil("pull", "127.0.0.1:1/main/models/x:v1", code=4).stderr
    assert sijil("--help").stdout == sijil("-h").stdout and sijil("-h").stdout.startswith("usage: sijil")
    assert "--output" in sijil("pull", "--help").stdout


def what_a_head_refused_is_explained():
    """An answer to HEAD has no body. A set of no policy locks the registry, so this comes last."""
    sijil("policy", "sign", "--key", server.folder + "/officer/approver.pem", "--epoch", "4", "--output", "none.dsse", "set.json")
    for login, words in ((server.admin, ("policy", "load", host(), "none.dsse")), (state["login"], ())):
        sijil("login", host(), "--username", login[0], "--ca-file", server.ca_file, text=login[1] + "\n")
        if words:
            sijil(*words)
    with open(work + "/never-seen.bin", "wb") as file:
        file.write(os.urandom(1000))
    refused = sijil("push", "never-seen.bin", host() + "/main/models/digits:v9", "--verbose", code=4).stderr
    assert "403 DENIED" in refused and re.search(r"rule +SYS-", refused) and "not JSON" not in refused, refused
    elsewhere = sijil("push", "never-seen.bin", host() + "/main/modles/digits:v9", code=4).stderr
    assert "no role" in elsewhere and "not JSON" not in elsewhere, elsewhere


def train(folder):
    """The same program makes the same bytes (script/demo.d/train.py), so they are kept in the build folder; three seconds of the processor."""
    trainer = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../script/demo.d/train.py")
    with open(trainer, "rb") as file:
        kept = os.path.join(sijil_test.BUILD, "model-" + hashlib.sha256(file.read()).hexdigest()[:16])
    if not os.path.isdir(kept):
        subprocess.run(["/usr/bin/python3", trainer, folder], check=True, stdout=subprocess.DEVNULL)
        shutil.copytree(folder, kept + f".{os.getpid()}")
        os.rename(kept + f".{os.getpid()}", kept)
        return
    shutil.copytree(kept, folder)


train(work + "/model")
server.start()
state["login"] = sijil_test.make_robot(server, "ci", "publisher", "main/models")
try:
    sijil_test.run(
        logging_in_checks_the_secret, sijil_pushes_and_pulls_unchanged, the_manifest_is_a_modelpack, a_dataset_is_one,
        a_folder_is_pushed_with_what_is_below_it, what_is_there_can_be_listed_inspected_tagged_and_copied,
        it_is_copied_to_another_registry, a_bar_is_as_wide_as_the_terminal, what_this_machine_lacks_is_not_the_registrys_fault,
        skopeo_copies_it_out_and_in_unchanged, skopeo_sends_a_ci_systems_token_as_it_is, curl_pushes_and_pulls_unchanged,
        clients_work_by_every_name, a_name_that_leaves_the_folder_is_refused,
        a_broken_upload_is_resumed_by_another_run, an_upload_without_bytes_is_begun_anew,
        pieces_that_are_small_go_in_one_request, a_registry_that_wants_sessions_gets_them, who_still_writes_is_waited_for,
        tags_are_listed_and_deleted, warnings_are_shown_once, refusals_name_the_rule_and_what_is_missing, the_log_is_shown_and_proven_offline, a_second_login_needs_the_secret_alone,
        an_auditor_of_a_part_is_told_how_to_ask, a_long_tail_has_as_many_lines_as_were_asked, documented_queries_of_the_log_answer, an_administrator_works_by_command,
        secrets_in_the_line_are_not_repeated, a_proxy_is_used_only_if_sijil_proxy_names_it, usage_errors_say_what_is_wrong, what_a_head_refused_is_explained,
        server=server)
finally:
    shutil.rmtree(work, ignore_errors=True)
