"""Cases: sequences of HTTP requests, made out of the grammar of gateway/routes.def and then damaged.

A case is plain JSON, so that a finding is a file that can be read and replayed. `${name}` in it stands for a value that only the running
server knows: a token, the last Location, an id. All random choices come from the given random.Random.

    {"together": the streams run at the same time, "streams": [{"requests": [REQUEST...], "splits": [POSITION...], "end": "wait" | "close" | "half" | "reset"}]}
    REQUEST = {"method", "target", "version", "headers": [[name, value]...], "credential", "framing": "none" | "length" |
               "chunked", "body": text of Latin-1, "chunks": [size...], "edits": [[position, kind, text]...],
               "wait": read its answer before the next is sent}
"""
import copy
import json
import os
import re

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
METHODS = {"GET": ["GET"], "READ": ["GET", "HEAD"], "POST": ["POST"], "PUT": ["PUT"], "PATCH": ["PATCH"], "DELETE": ["DELETE"]}
CREDENTIALS = ["push", "pull", "admin", "auditor", "foreign", "none", "forged", "revoked", "garbage", "basic_push", "basic_wrong"]
INVALID = {"none", "forged", "revoked", "garbage", "basic_wrong"}
NAMES = ["main/models/fuzz", "main/models/fuzz2", "main/models/blobs", "main/models/a/manifests/b", "main/models/none",
         "other/models/fuzz", "main/models", "main", "other", "fuzzed", "fuzzed/p", "MAIN/Models/x", "main/models/" + "x" * 250,
         "main/models/uploads/tags", "..", "%2e%2e/x/y", "main/models/a%00b", "main//models", "main/models/%c3%a4", "-/-/-"]
TILES = ["0/000.p/1", "0/000", "000.p/1", "000", "1/000.p/1", "0/x001/000", "0/000.p/0", "0/000.p/256", "63/000", "0/x999/x999/x999/x999/x999/x999/999"]
REFERENCES = ["${digest}", "${manifest}", "${empty}", "${location_id}", "latest", "v1", "none", "sha256:" + "0" * 64, "sha256:abc",
              "sha512:" + "0" * 128, "md5:d41d8cd98f00b204e9800998ecf8427e", "${robot}", "${binding}", "${event}", "0", "-1",
              "18446744073709551616", "01234567-89ab-cdef-0123-456789abcdef", "x" * 129, "a:b", "list", "%00", "..", ""]
QUERIES = ["digest=${digest}", "digest=${empty}", "digest=sha256:" + "0" * 64, "mount=${digest}&from=main/models/fuzz",
           "mount=${digest}&from=other/models/fuzz", "n=0", "n=1", "n=1000000", "n=-1", "last=zzz", "last=${digest}", "limit=1",
           "limit=1001", "limit=0", "after=-1", "after=1", "after=${robot}", "project=main/models", "project=other/models", "project=main", "before=5", "order=ascending", "order=sideways",
           "key=res:main/models/fuzz", "key=out:denied", "within=main", "within=main/models", "within=other", "within=",
           "organisation=main", "scope=main", "scope=repository:main/models/fuzz:pull,push", "scope=registry:admin:*",
           "scope=repository:other/models/fuzz:pull", "service=127.0.0.1", "artifactType=application/vnd.example%2Bjson",
           "tag=v1&tag=v2", "_state=abc", "digest-algorithm=sha512", "digest-algorithm=md5", "x=%", "x=%00", "=&=&", "a" * 5000]
HEADERS = [["Accept", "*/*"], ["Accept", "application/vnd.oci.image.manifest.v1+json"], ["Content-Type", "application/json"],
           ["Content-Type", "application/octet-stream"], ["Content-Type", "application/x-www-form-urlencoded"],
           ["Content-Type", "application/vnd.oci.image.manifest.v1+json"], ["Content-Type", "text/plain; charset=\"x"],
           ["Content-Range", "0-4"], ["Content-Range", "5-9"], ["Content-Range", "bytes 0-4/*"], ["Content-Range", "9-5"],
           ["Content-Range", "0-18446744073709551615"], ["Range", "bytes=0-3"], ["Range", "bytes=-1"], ["Range", "bytes=3-"],
           ["Range", "bytes=0-0,2-3"], ["Range", "bytes=99999999-"], ["If-Range", "\"${digest}\""], ["If-None-Match", "\"${digest}\""],
           ["If-None-Match", "*"], ["If-Match", "\"x\""], ["Digest", "sha-256=AAAA"], ["Want-Digest", "sha-256"],
           ["OCI-Subject", "x"], ["Docker-Content-Digest", "${digest}"], ["Expect", "100-continue"], ["Expect", "wonders"],
           ["Connection", "close"], ["Connection", "keep-alive"], ["Connection", "upgrade"], ["Upgrade", "h2c"],
           ["traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"], ["traceparent", "garbage"],
           ["X-Forwarded-For", "8.8.8.8"], ["User-Agent", "fuzz/1"], ["User-Agent", "x" * 2000], ["Cookie", "a=b"],
           ["X-Large", "y" * 20000], ["Content-Encoding", "gzip"], ["TE", "trailers"], ["Trailer", "Digest"], ["X-Empty", ""]]
DANGEROUS = [["Content-Length", "5"], ["Content-Length", "0"], ["Content-Length", "+5"], ["Content-Length", "99999999999999999999"],
             ["Content-Length", "4000000000"], ["Transfer-Encoding", "chunked"], ["Transfer-Encoding", "identity"],
             ["Transfer-Encoding", "chunked, chunked"], ["Host", "other"], ["Authorization", "Bearer x"], ["X:Y", "z"],
             ["X Y", "z"], ["", "z"], ["X", "a\r\n b"], ["X", "a\nContent-Length: 3"], ["X", "\x00"], ["X", "\xff\xfe"],
             ["Range", "bytes=0-1"], ["X", "y" * 70000]]
BODIES = ["", "hello", "{}", "[]", "null", "x" * 70000, "\x00\xff", "{\"a\":" * 200 + "1" + "}" * 200, "a=b&c=d"]
DOCUMENTS = {
    "organisation_create": [{"name": "fuzzed"}, {"name": "f${unique}"}],
    "project_create": [{"organisation": "main", "name": "p${unique}"}, {"organisation": "fuzzed", "name": "p", "region": "local/main",
                                                                      "label": {"class": "internal"}}],
    "label": [{"class": "sensitive", "subjects": ["health"]}, {"class": "internal", "attached": ["DIFC"], "pins": []}],
    "robot_create": [{"organisation": "main", "name": "r${unique}", "expires_days": 1}, {"name": "g${unique}"}],
    "binding_create": [{"robot": "${robot}", "role": "consumer", "scope": "main/models", "expires_days": 1},
                       {"issuer": "https://issuer.example", "subject": "s", "role": "publisher", "scope": "main/models/fuzz/*"}],
    "issuer_trust": [{"url": "https://issuer${unique}.example", "algorithms": ["RS256"], "jwks": {"keys": []}},
                     {"url": "https://issuer.example", "algorithms": ["ES256"], "lifetime_max": 600, "audience": "x", "jwks": {"keys": [
                         {"kty": "EC", "crv": "P-256", "alg": "ES256", "kid": "k", "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
                          "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}}],
    "project_quota": [{"bytes": 1000000000000, "sessions": 900, "events_per_minute": 1000000000}, {"bytes": None}],
    "project_rules": [{"retention": [{"repositories": "*", "tags": "v*", "keep_last": 3, "pushed_days": 1, "pulled_days": 2}],
                       "untagged_days": 9000, "immutable": [{"repositories": "none", "tags": "x?"}]}, {}],
    "collection_start": [{"project": "main/models", "dry_run": True}, {"dry_run": True},
                         {"project": "main/models", "dry_run": True, "rules": {"untagged_days": 0}}],
    "scrub_start": [{"region": "local/main", "digest": True, "bytes_per_second": 1073741824}, {}],
    "rewrap_start": [{}],
    "policy_plan": [{"set": {"epoch": 9, "policies": [], "regions": {}}, "days": 1}, {"set": {}}, {"set": [], "days": 3661}],
    "policy_load": [{"payloadType": "application/vnd.sijil.policy-set.v1+json", "payload": "e30=", "signatures": [{"sig": "AAAA"}]}],
    "manifest_push": [
        {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "artifactType": "application/vnd.example+json",
         "config": {"mediaType": "application/vnd.oci.empty.v1+json", "digest": "${empty}", "size": 2},
         "layers": [{"mediaType": "application/octet-stream", "digest": "${digest}", "size": 5}]},
        {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
         "config": {"mediaType": "application/vnd.oci.empty.v1+json", "digest": "${empty}", "size": 2}, "layers": [],
         "subject": {"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": "${manifest}", "size": 10},
         "annotations": {"org.opencontainers.image.title": "x"}},
        {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json",
         "manifests": [{"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": "${manifest}", "size": 10}]}],
    "token_post": [{"grant_type": "password", "service": "127.0.0.1", "scope": "repository:main/models/fuzz:pull"}],
}
VALUES = [None, True, 0, -1, 1, 2**31, 2**63 - 1, 2**63, 1e308, 0.5, "", "x", "x" * 300, "\u0000", "\ud83d\ude00", "../..", "*", [], {}, [[]],
          ["a"] * 300, "sha256:" + "f" * 64, "main", "main/models", "9999-12-31T23:59:59Z"]
# What is answered without a record (RECORD_NONE in gateway/routes.def).
PROBES = ("/healthz", "/readyz", "/metrics", "/api/v1/openapi.json", "/.well-known/oauth-authorization-server", "/.well-known/jwks.json",
          "/scim/v2/ServiceProviderConfig", "/scim/v2/ResourceTypes", "/scim/v2/Schemas")


def routes():
    """[(name, [method...], pattern)] of gateway/routes.def."""
    with open(os.path.join(ROOT, "gateway/routes.def"), encoding="utf-8") as file:
        text = file.read()
    found = re.findall(r'^ROUTE\((\w+), (\w+), "([^"]+)"', text, re.MULTILINE)
    assert len(found) > 20, "gateway/routes.def is not as it was"
    return [(name, METHODS[methods], pattern) for name, methods, pattern in found]


ROUTES = routes()


def json_damage(random, value, depth=0):
    """A JSON value with one place changed."""
    if isinstance(value, dict) and value and depth < 4 and random.random() < 0.8:
        key = random.choice(sorted(value))
        roll = random.random()
        if roll < 0.15:
            del value[key]
        elif roll < 0.25:
            value[random.choice(["x", "", "name", "x" * 300, "\u0000"])] = copy.deepcopy(random.choice(VALUES))
        else:
            value[key] = json_damage(random, value[key], depth + 1)
        return value
    if isinstance(value, list) and value and depth < 4 and random.random() < 0.8:
        at = random.randrange(len(value))
        if random.random() < 0.2:
            value.append(copy.deepcopy(value[at]))
        else:
            value[at] = json_damage(random, value[at], depth + 1)
        return value
    return copy.deepcopy(random.choice(VALUES))


def document(random, name):
    kind = "label" if name.endswith("_label") else name
    if kind not in DOCUMENTS:
        return random.choice(BODIES)
    value = copy.deepcopy(random.choice(DOCUMENTS[kind]))
    for _ in range(random.choice([0, 0, 0, 1, 1, 2])):
        value = json_damage(random, value)
    if name == "token_post" and isinstance(value, dict):
        return "&".join(f"{key}={word}" for key, word in value.items())
    return json.dumps(value, ensure_ascii=True)


def content_type(name):
    if name == "token_post":
        return "application/x-www-form-urlencoded"
    if name == "manifest_push":
        return "application/vnd.oci.image.manifest.v1+json"
    return "application/octet-stream" if name.startswith("upload") else "application/json"


def joint(target):
    """The character that begins a query. Only the server knows whether a Location has a query already."""
    return "${and}" if target == "${location}" else "&" if "?" in target or "${and}" in target else "?"


def target_of(random, name, pattern):
    target = pattern
    if name.startswith("upload_") and "{reference}" in pattern and random.random() < 0.8:
        target = "${location}"
    likely = random.random() < 0.75
    place = random.choice(NAMES[:2] if likely and pattern.startswith("/v2") else ["main/models", "main", "fuzzed/p"] if likely else NAMES)
    if pattern.startswith("/audit/tile/"):
        place = random.choice(TILES)
    target = target.replace("{name}", place).replace("{reference}", random.choice(REFERENCES[:3] if likely else REFERENCES))
    if name == "upload_commit":
        target += joint(target) + random.choice(QUERIES[:3])
    if random.random() < 0.3:
        target += joint(target) + random.choice(QUERIES)
    return target


def request(random, route=None):
    name, methods, pattern = route or random.choice(ROUTES)
    made = {"method": random.choice(methods), "target": target_of(random, name, pattern), "version": "HTTP/1.1",
            "headers": [["Host", "127.0.0.1"]], "framing": "none", "body": "", "chunks": [], "edits": [],
            "wait": random.random() < 0.8}
    api = pattern.startswith("/api/")
    made["credential"] = random.choice((["auditor"] if "/audit/" in pattern else ["admin"]) * 2 + CREDENTIALS if api else
                                       ["basic_push"] * 4 + CREDENTIALS if name.startswith("token") else ["push"] * 6 + CREDENTIALS)
    if made["method"] in ("POST", "PUT", "PATCH") or random.random() < 0.05:
        made["body"] = random.choice(["hello", "", "hello", "x" * 70000]) if name.startswith("upload") else document(random, name)
        made["framing"] = random.choice(["length", "length", "chunked"])
        made["chunks"] = [random.choice([1, 2, 3, 100, 70000]) for _ in range(random.choice([0, 1, 3]))]
        made["headers"].append(["Content-Type", content_type(name)])
    for _ in range(random.choice([0, 0, 0, 1, 2])):
        made["headers"].append(list(random.choice(HEADERS)))
    return made


def push_of_a_blob(random):
    """A complete, correct upload, so that damaged requests meet existing states."""
    by_name = {name: (name, methods, pattern) for name, methods, pattern in ROUTES}
    begin, write, commit = (request(random, by_name[name]) for name in ("upload_begin", "upload_write", "upload_commit"))
    for one in (begin, write, commit):
        one.update(credential="push", wait=True, headers=[["Host", "127.0.0.1"]], framing="length", body="")
    begin["target"] = "/v2/main/models/fuzz/blobs/uploads/"
    write.update(target="${location}", body="hello", framing=random.choice(["length", "chunked"]),
                 headers=[["Host", "127.0.0.1"], ["Content-Type", "application/octet-stream"]])
    commit["target"] = "${location}${and}digest=${digest}"
    return [begin, write, commit]


def splits(random, count):
    """The ends of pieces that are sent one by one: mostly in heads, sometimes in bodies."""
    return sorted(random.randrange(1, random.choice([100, 700, 2000, 80000])) for _ in range(count))


def stream(random):
    if random.random() < 0.25:
        requests = push_of_a_blob(random)
    else:
        requests = [request(random) for _ in range(random.choice([1, 1, 1, 2, 3, 5]))]
    made = {"requests": requests, "splits": [], "end": random.choice(["wait"] * 8 + ["close", "half", "reset"])}
    if random.random() < 0.3:
        made["splits"] = splits(random, random.choice([1, 1, 2, 5]))
    return made


def case(random):
    streams = [stream(random) for _ in range(random.choice([1, 1, 2, 3]))]
    return {"together": random.random() < 0.3, "streams": streams}


def damage_request(random, one):
    kind = random.randrange(12)
    if kind == 0:
        one["method"] = random.choice(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "get", "BREW", "", "P\tT"])
    elif kind == 1:
        name, _, pattern = random.choice(ROUTES)
        one["target"] = target_of(random, name, pattern)
    elif kind == 2:
        one["credential"] = random.choice(CREDENTIALS)
    elif kind == 3:
        one["headers"].append(list(random.choice(HEADERS)))
    elif kind == 4:
        one["headers"].insert(random.randrange(len(one["headers"]) + 1), list(random.choice(DANGEROUS)))
    elif kind == 5 and one["headers"]:
        del one["headers"][random.randrange(len(one["headers"]))]
    elif kind == 6:
        one["framing"] = random.choice(["none", "length", "chunked"])
        one["chunks"] = [random.choice([1, 2, 7, 300]) for _ in range(random.randrange(4))]
    elif kind == 7:
        one["body"] = random.choice(BODIES)
    elif kind == 8 and one["body"].startswith(("{", "[")):
        try:
            one["body"] = json.dumps(json_damage(random, json.loads(one["body"])), ensure_ascii=True)
        except ValueError:
            one["body"] = one["body"][:random.randrange(len(one["body"]))]
    elif kind == 9:
        one["version"] = random.choice(["HTTP/1.0", "HTTP/1.1", "HTTP/2.0", "HTTP/0.9", "http/1.1", "HTTP/1.1 x", ""])
    elif kind == 10:
        at = random.randrange(len(one["target"]) + 1)
        one["target"] = one["target"][:at] + random.choice(["/", "//", "%", "%2f", "%00", "..", "?", "&", " ", "\t", "#", "\xff", "%25", ";"]) + one["target"][at:]
    else:
        one["edits"].append([random.randrange(0, 400), random.choice(["insert", "replace", "delete"]),
                             random.choice(["\r\n", "\n", "\r", "\x00", " ", ":", "\xff", "0", "chunked", "\r\n\r\n", "GET / HTTP/1.1\r\n"])])
    return one


def damage(random, old, others):
    """A copy of the case with one to four changes; `others` are cases to take pieces from."""
    made = copy.deepcopy(old)
    for _ in range(random.choice([1, 1, 2, 4])):
        streams = made["streams"]
        chosen = random.choice(streams)
        requests = chosen["requests"]
        roll = random.random()
        if roll < 0.6 and requests:
            damage_request(random, random.choice(requests))
        elif roll < 0.68:
            requests.insert(random.randrange(len(requests) + 1), request(random))
        elif roll < 0.74 and requests:
            requests.insert(0, copy.deepcopy(random.choice(requests)))
        elif roll < 0.8 and len(requests) > 1:
            del requests[random.randrange(len(requests))]
        elif roll < 0.86:
            chosen["splits"] = splits(random, random.choice([0, 1, 3, 20]))
        elif roll < 0.9:
            chosen["end"] = random.choice(["wait", "close", "half", "reset"])
        elif roll < 0.92:
            made["together"] = not made.get("together", False)
        elif roll < 0.95 and requests:
            one = random.choice(requests)
            one["wait"] = not one["wait"]
        elif others:
            streams.append(copy.deepcopy(random.choice(random.choice(others)["streams"])))
    for one in made["streams"]:
        del one["requests"][12:]
    del made["streams"][6:]
    return made


SAFE = re.compile(r"[!-~]+(?:[ \t]+[!-~]+)*|")
ONCE = {"authorization", "content-length", "content-range", "content-type", "expect", "host", "if-range", "range", "transfer-encoding", "traceparent"}


def is_clean(one):
    """Whether every reader of RFC 9112 sees one complete request here, with the same end."""
    names = [name.lower() for name, _ in one["headers"]]
    if one["edits"] or one["version"] != "HTTP/1.1" or not re.fullmatch(r"[A-Z]+", one["method"]) or one["method"] == "CONNECT":
        return False
    if any(names.count(name) > 1 for name in ONCE) or names.count("host") != 1:
        return False
    if {"content-length", "transfer-encoding", "upgrade", "expect", "connection"} & set(names):
        return False
    if one["credential"] not in ("none",) and "authorization" in names:
        return False
    if any(not re.fullmatch(r"[A-Za-z0-9-]+", name) or not SAFE.fullmatch(value) for name, value in one["headers"]):
        return False
    return re.fullmatch(r"[!-~]+", one["target"]) is not None and sum(len(value) for _, value in one["headers"]) < 30000


def ends_the_game(one):
    """Whether the request raises a label of main. A label never falls, so soon all requests there would be refused."""
    return one["credential"] == "admin" and re.match(r"/api/v1/\w+/main(/.*)?/label", one["target"]) is not None


def render(one, resolve):
    """The request's bytes. `resolve` turns text with ${names} into text."""
    headers = list(one["headers"])
    body = resolve(one["body"]).encode("latin-1", "replace")
    credential = resolve("${credential:" + ("pull" if ends_the_game(one) else one["credential"]) + "}")
    if credential:
        headers.append(["Authorization", credential])
    if one["framing"] == "length":
        headers.append(["Content-Length", str(len(body))])
    elif one["framing"] == "chunked":
        headers.append(["Transfer-Encoding", "chunked"])
    head = f"{one['method']} {resolve(one['target'])} {one['version']}\r\n" + "".join(f"{name}: {resolve(value)}\r\n" for name, value in headers)
    data = head.encode("latin-1", "replace") + b"\r\n"
    if one["framing"] == "length":
        data += body
    elif one["framing"] == "chunked":
        data += chunked(body, one["chunks"])
    for position, kind, text in one["edits"]:
        at, new = min(position, len(data)), text.encode("latin-1")
        data = data[:at] + (b"" if kind == "delete" else new) + data[at + (len(new) if kind != "insert" else 0):]
    return data


def chunked(body, sizes):
    data, at = b"", 0
    for size in [*sizes, max(len(body), 1)]:
        piece = body[at:at + size]
        if piece:
            data += b"%x\r\n%s\r\n" % (len(piece), piece)
        at += size
    return data + b"0\r\n\r\n"
