#!/usr/bin/env python3
"""Two readers, one artifact: Go's encoding/json and a case-sensitive reader read the same in each manifest that this registry accepts.
INTEROP_PROGRAMS is the folder with tests/interop/readers/main.go, built."""
import base64
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../scenario"))
import sijil_test
from sijil_test import Server, sha256

READERS = os.path.join(os.environ["INTEROP_PROGRAMS"], "readers")
server = Server()
FOLDED = {"s": "\u017f", "k": "\u212a"}
DESCRIPTOR = ("mediaType", "digest", "size", "urls", "annotations", "data", "artifactType", "platform")
TOP = ("schemaVersion", "mediaType", "artifactType", "config", "layers", "manifests", "subject", "annotations")
# containers/image (skopeo, podman, CRI-O) refuses a document with a member of another kind of document as ambiguous; fsLayers, history and
# signatures are of Docker's schema 1.
AMBIGUOUS = ("fsLayers", "history", "signatures")
PLATFORM = ("architecture", "os", "os.version", "os.features", "variant")


def spellings(name):
    """The name itself, each spelling that some reader may fold to it, and some that no reader folds."""
    found = {name, name.upper(), name.capitalize(), name + "s", "x-" + name, name.replace("i", "\u0131"), name.replace("i", "\u0130")}
    found |= {name[:at] + letter.swapcase() + name[at + 1:] for at, letter in enumerate(name)}
    found |= {name[:at] + FOLDED[letter] + name[at + 1:] for at, letter in enumerate(name) if letter in FOLDED}
    return sorted(found)


def value_of(name, other):
    """A value that changes the artifact for a client that reads it."""
    descriptor = {"mediaType": "application/x.other", "digest": other, "size": 5}
    return {"config": descriptor, "subject": descriptor, "layers": [descriptor], "manifests": [descriptor], "schemaVersion": 2, "size": 5,
            "mediaType": "application/x.other", "artifactType": "application/x.other", "digest": other, "urls": ["https://a.example"],
            "annotations": {"a": "b"}, "data": "aGVsbG8=", "platform": {"os": "other", "architecture": "other"}, "os.features": ["a"]}.get(name, "other")


def documents(first, other):
    """Image manifests and indexes with one further member, at each level."""
    layer = {"mediaType": "application/x.one", "digest": first, "size": 2}
    image = {"schemaVersion": 2, "config": layer, "layers": [layer]}
    for names, place in ((TOP, lambda more: {**image, **more}), (DESCRIPTOR, lambda more: {**image, "layers": [{**layer, **more}]}),
                         (DESCRIPTOR, lambda more: {**image, "config": {**layer, **more}}),
                         (DESCRIPTOR, lambda more: {**image, "subject": {**layer, **more}}),
                         (PLATFORM, lambda more: {**image, "layers": [{**layer, "platform": {"os": "one", "architecture": "one", **more}}]})):
        for name in names:
            for spelled in spellings(name):
                yield place({spelled: value_of(name, other)})
            for value in ("x", 5, {}, {"os": 1}, {"os": "x"}, [], ["x"], [5], None):
                yield place({name: value})
    for name in AMBIGUOUS:
        for value in ([], {}, "x", None):
            yield {**image, name: value}
            yield {"schemaVersion": 2, "manifests": [], name: value}
    yield {**image, "x": {"Layers": 1, "n": 2**64}, "annotations": {"Layers": "a", "layers": "b"}}


def said(document):
    """The output of tests/interop/readers/main.go, by a reader that folds nothing."""
    found = [str(document["schemaVersion"]), document.get("mediaType") or "", document.get("artifactType") or ""]
    singles = [document[key] for key in ("config", "subject") if document.get(key) is not None]
    for one in [*(document.get("layers") or []), *(document.get("manifests") or []), *singles]:
        found += [one.get("mediaType") or "", one["digest"], str(one["size"]), str(len(one.get("urls") or []))]
        if one.get("platform") is not None:
            found += [one["platform"].get(key) or "" for key in ("architecture", "os", "os.version", "variant")]
    return found


def what_is_accepted_is_read_in_one_way():
    server.start()
    login = sijil_test.make_robot(server, "readers", "publisher", "main/models")
    place = server.client(login).repository("main/models/readers")
    first, other = place.push_blob(b"{}"), place.push_blob(b"other")
    accepted, refused = [], 0
    for document in documents(first, other):
        body = json.dumps(document).encode()
        answer = place.put_manifest(sha256(body), body)
        assert answer.status in (201, 400), (answer.status, answer.body, body)
        refused += answer.status == 400
        assert answer.status == 400 or all(document.get(name) is None for name in AMBIGUOUS), document
        if answer.status == 201:
            accepted.append(body)
    lines = b"\n".join(base64.b64encode(body) for body in accepted)
    done = subprocess.run([READERS], input=lines, capture_output=True, check=True, timeout=60)
    read = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(read) == len(accepted) > 100 and refused > 300, (len(read), len(accepted), refused)
    for body, by_go in zip(accepted, read):
        assert by_go == said(json.loads(body)), (body, by_go)
    print(f"{len(accepted)} accepted and read alike, {refused} refused")


sijil_test.run(what_is_accepted_is_read_in_one_way, server=server)
