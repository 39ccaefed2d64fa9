"""Cases: tokens, and the requests of docker, oras and skopeo. Each makes a Try of its own, with its own names."""
import base64
import json
import os
import urllib.parse

from attempt import Try, plain, reading
from sijil_test import bytes_kept, sha256


def upload_begin(world):
    return Try(lambda: world.repository.call("POST", "blobs/uploads/"), 202, lambda answer: answer["Location"] is not None)


def is_whole(world, data):
    answer = world.repository.call("GET", "blobs/" + sha256(data))
    return answer.status == 404 or (answer.status == 200 and answer.body == data)


def must_be_there(world, data):
    def after(done):
        answer = world.repository.call("GET", "blobs/" + sha256(data))
        if done or answer.status != 404:
            assert answer.status == 200 and answer.body == data, ("the blob", answer.status, len(answer.body))
    return after


def push_at_once(length):
    def case(world):
        data = world.bytes(length)
        return Try(lambda: world.repository.call("POST", "blobs/uploads/?digest=" + sha256(data), data,
                                                 {"Content-Type": "application/octet-stream"}), 201,
                   after=must_be_there(world, data))
    return case


def push_chunked(world):
    """Sends one chunked PATCH from the upload's present offset, and ends the upload if that succeeded."""
    data = world.bytes(300_000)
    location = world.repository.begin()

    def offset():
        answer = world.repository.call("GET", location)
        assert answer.status == 204, ("the upload", answer.status, answer.body)
        return bytes_kept(answer)

    def call():
        start = state["start"]
        pieces = (data[at:at + 40_000] for at in range(start, len(data), 40_000))
        return world.repository.call("PATCH", location, pieces if start == 0 else data[start:],
                                     {"Content-Type": "application/octet-stream",
                                      **({"Content-Range": f"{start}-{len(data) - 1}"} if start else {})},
                                     encode_chunked=start == 0)

    def after(done):
        state["start"] = offset()
        assert not done or state["start"] == len(data), (done, state["start"])
        if state["start"] == len(data):  # all bytes arrived, even if the answer was lost: nothing is left to send
            answer = world.repository.close(location, sha256(data))
            assert answer.status == 201, ("the end", answer.status, answer.body)
            must_be_there(world, data)(True)
            state["ended"] = True
    state = {"start": 0, "ended": False}
    attempt = Try(call, 202, after=after)
    attempt.is_over = lambda: state["ended"]
    return attempt


def push_end(world):
    data = world.bytes(150_000)
    location = world.repository.begin()
    answer = world.repository.patch(location, data[:100_000], 0)
    assert answer.status == 202, answer.status
    location = answer["Location"]

    def after(done):
        must_be_there(world, data)(done)
        if is_pushed(world, data):
            return
        answer = world.repository.call("GET", location)
        assert answer.status == 204, ("the upload", answer.status, answer.body)
        state["rest"] = data[bytes_kept(answer):]
    state = {"rest": data[100_000:]}
    attempt = Try(lambda: world.repository.close(location, sha256(data), state["rest"]), 201, after=after)
    attempt.is_over = lambda: is_pushed(world, data)
    return attempt


def is_pushed(world, data):
    return world.repository.call("HEAD", "blobs/" + sha256(data)).status == 200


def upload_status(world):
    location = world.repository.begin()
    return Try(lambda: world.repository.call("GET", location), 204)


def upload_cancel(world):
    location = world.repository.begin()
    return Try(lambda: world.repository.call("DELETE", location), 204, repeated=(404,))


def blob_mount(world):
    data = world.bytes(1000)
    world.repository.push_blob(data)
    other = world.ci.repository("main/models/other")
    scope = "repository:main/models/other:pull,push repository:main/models/there:pull"
    query = "blobs/uploads/?mount=" + urllib.parse.quote(sha256(data)) + "&from=main%2Fmodels%2Fthere"

    def after(done):
        answer = other.call("GET", "blobs/" + sha256(data))
        assert answer.body == data if done else answer.status in (200, 404), (done, answer.status)
    return Try(lambda: other.call("POST", query, scope=scope), 201, after=after, instead=(202,))  # then it is uploaded


def blob_of_a_cold_key(world):
    """sijil-keyd must open the key, because the gateway that had it after the push has ended."""
    world.machine.restart_gateway()
    world.wait_ready()
    return CASES["blob-get"](world)


def blob_delete(world):
    data = world.bytes(1000)
    world.deleted.add(world.repository.push_blob(data))

    def after(done):
        assert not done or not is_pushed(world, data)
        assert is_whole(world, data)
    return Try(lambda: world.repository.call("DELETE", "blobs/" + sha256(data)), 202, after=after, repeated=(404,))


# ---- manifests ----

def manifest_of(world, number):
    document = json.loads(world.manifest)
    document["annotations"] = {"number": str(number)}
    return json.dumps(document).encode()


def manifest_put(world):
    number = world.fresh()
    manifest, tag = manifest_of(world, number), f"t{number}"

    def after(done):
        by_tag = world.repository.call("GET", "manifests/" + tag)
        by_digest = world.repository.call("GET", "manifests/" + sha256(manifest))
        assert by_tag.status == by_digest.status, ("half a push", by_tag.status, by_digest.status)
        assert not done or by_tag.status == 200
        assert by_tag.status == 404 or by_tag.body == manifest == by_digest.body
    return Try(lambda: world.repository.put_manifest(tag, manifest), 201, after=after)


def manifest_gone(what):
    def case(world):
        number = world.fresh()
        manifest, tag = manifest_of(world, number), f"t{number}"
        assert world.repository.put_manifest(tag, manifest).status == 201
        target = tag if what == "tag" else sha256(manifest)

        def after(done):
            there = world.repository.call("GET", "manifests/" + tag)
            assert there.status == (404 if done else there.status) and there.status in (200, 404)
            assert there.status == 404 or there.body == manifest
            if what == "tag":
                assert world.repository.call("GET", "manifests/" + sha256(manifest)).body == manifest
        return Try(lambda: world.repository.call("DELETE", "manifests/" + target), 202, after=after, repeated=(404,))
    return case


# ---- tokens ----

def token_by(method):
    def case(world):
        query = urllib.parse.urlencode({"service": "sijil", "scope": world.repository.scope})

        def call():
            if method == "GET":
                return world.ci.call("GET", "/token?" + query, headers=world.basic())
            user, password = world.ci.login
            form = urllib.parse.urlencode({"grant_type": "password", "service": "sijil", "username": user,
                                           "password": password, "scope": world.repository.scope})
            return world.ci.call("POST", "/token", form, {"Content-Type": "application/x-www-form-urlencoded"})

        def right(answer):
            token = answer.json.get("token") or answer.json["access_token"]
            claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
            assert sorted(claims["access"][0]["actions"]) == ["delete", "pull", "push"], claims
            return True
        return Try(call, 200, right)
    return case


CASES = {
    "alive": plain("/healthz"),
    "metrics": plain("/metrics"),
    "ready": plain("/readyz"),
    "ping": reading(lambda world: "/v2/"),
    "token": token_by("GET"),
    "token-post": token_by("POST"),
    "catalog": lambda world: Try(lambda: world.ci.call("GET", "/v2/_catalog", scope="registry:catalog:*"), 200,
                                 lambda answer: "main/models/there" in answer.json["repositories"]),
    "upload-begin": upload_begin,
    "push-small": push_at_once(3_000),
    "push-large": push_at_once(400_000),
    "push-chunked": push_chunked,
    "push-end": push_end,
    "upload-status": upload_status,
    "upload-cancel": upload_cancel,
    "blob-mount": blob_mount,
    "blob-get": reading(lambda world: "blobs/" + world.digest, lambda world, answer: answer.body == world.data),
    "blob-range": reading(lambda world: "blobs/" + world.digest,
                          lambda world, answer: answer.body == world.data[70_000:200_001], 206,
                          headers={"Range": "bytes=70000-200000"}),
    "blob-get-cold": blob_of_a_cold_key,
    "blob-head": reading(lambda world: "blobs/" + world.digest, method="HEAD",
                         right=lambda world, answer: answer["Content-Length"] == "300000"),
    "blob-delete": blob_delete,
    "manifest-put": manifest_put,
    "manifest-get": reading(lambda world: "manifests/v1", lambda world, answer: answer.body == world.manifest),
    "manifest-head": reading(lambda world: "manifests/" + sha256(world.manifest), method="HEAD"),
    "tag-delete": manifest_gone("tag"),
    "manifest-delete": manifest_gone("manifest"),
    "tag-list": reading(lambda world: "tags/list", lambda world, answer: "v1" in answer.json["tags"]),
    "referrers": reading(lambda world: "referrers/" + world.digest, lambda world, answer: answer.json["manifests"] == []),
}
