"""The OpenAPI description of a server: anyone can read it, without an event, and it is correct. The checks against it find errors.

The cases run on the server of another scenario, which calls cases()."""
import copy
import json
import os
import random
import re

import contract
import sijil_test
from sijil_test import BUILD

state = {}
PATH = contract.PATH


def size_of_log(admin):
    return state["auditor"].api("GET", "/audit/events?limit=1")["events"][0]["seq"]


def anybody_gets_it_without_an_event():
    stranger = state["server"].client()
    before = size_of_log(state["admin"])
    answer = stranger.call("GET", PATH)
    assert answer.status == 200 and answer["Content-Type"] == "application/json", answer.status
    assert stranger.call("HEAD", PATH).status == 200
    assert stranger.call("POST", PATH, "{}").status in (400, 405)
    assert stranger.call("GET", PATH + "?x=1").status == 400
    assert stranger.call("GET", PATH, headers={"Authorization": "Bearer nonsense"}).body == answer.body
    state["document"] = answer.json
    after = size_of_log(state["admin"])
    assert answer["Sijil-Audit"] is None and after - before <= 3, (before, after)  # the requests for the description itself, and one for a token


def it_is_what_the_build_made():
    with open(os.path.join(BUILD, "cmd/manual/api/openapi.json"), encoding="utf-8") as file:
        assert json.load(file) == state["document"]


def every_reading_route_answers_as_described():
    before, paths = contract.known["checked"], 0
    admin, login = state["admin"], {"organisation": "main", "project": "models"}
    admin.api("POST", "/collections", {"dry_run": True})
    job = admin.api("GET", "/jobs")["jobs"][0]["id"]
    for path, item in state["document"]["paths"].items():
        if not path.startswith("/api/v1/") or "get" not in item:
            continue
        names = {**login, "repository": "none", "job": job, "run": job, "key": "A" * 43, "rule": "none", "issuer": "none", "reference": "none", "sequence": "1", "digest": "sha256:" + "0" * 64}
        for who in (admin, state["auditor"]):
            answer = who.call("GET", path.format(**names), scope="registry:admin:*")
            assert answer.status < 500, (path, answer.status)
            paths += 1
    assert paths > 40 and contract.known["checked"] >= before + paths, (paths, before, contract.known)


def bad_bodies_are_refused_by_the_member():
    cases = ({"name": 1}, '"name"'), ({}, '"name" is missing'), ({"name": "x", "expires_days": 91}, '"expires_days"'), \
            ({"name": "x", "expires_days": 1.0}, '"expires_days"'), ({"name": "x", "colour": "red"}, '"colour"'), \
            ({"name": "x", "organisation": None}, '"organisation"'), ({"name": "x" * 64}, '"name"')
    for body, named in cases:
        answer = state["admin"].call("POST", "/api/v1/robots", json.dumps(body), scope="registry:admin:*")
        assert answer.status == 400 and named in answer.json["detail"], (body, answer.body)
    for body in ("[]", "{", '{"name":"x","name":"y"}', ""):
        answer = state["admin"].call("POST", "/api/v1/robots", body, scope="registry:admin:*")
        assert answer.status == 400, (body, answer.status, answer.body)
    answer = state["admin"].call("POST", "/api/v1/rewraps", '{"fast":true}', scope="registry:admin:*")
    assert answer.status == 400 and '"fast"' in answer.json["detail"], answer.body


def a_generated_client_may_encode_the_slashes_of_a_repository():
    """It encodes each parameter of a path as one segment. What is decoded is not decoded again, and other slashes stay as they are."""
    admin, body = state["admin"], json.dumps({"class": "sensitive"})
    for path, status in (("main/models/a%2Fb/label", 404), ("main/models/a/b/label", 404), ("main%2Fmodels%2Fa%2Fb/label", 404),
                         ("main/models/a%252Fb/label", 400), ("main/models/a%2F%2e%2e%2Fb/label", 400), ("main/models/a%2F%2Fb/label", 400),
                         ("main/models/%2Fa/label", 400), ("main/models/a%2F/label", 400), ("main/models/a%2Flabel", 405)):
        answer = admin.call("PUT", "/api/v1/repositories/" + path, body, scope="registry:admin:*")
        assert answer.status == status, (path, answer.status, answer.body)
    for path in ("projects/main%2Fmodels", "organisations/main%2Fmodels/uploads", "keys/signing/a%2Fb"):
        assert admin.call("GET", "/api/v1/" + path, scope="registry:admin:*").status == 400, path
    assert admin.call("GET", "/v2/main/models%2Fa/tags/list", scope="registry:admin:*").status == 400


class Twisted:
    """An invented answer."""

    def __init__(self, status, body, kind="application/json", link=None):
        self.status, self.body, self.headers = status, json.dumps(body).encode(), {"Content-Type": kind, "Link": link}

    def __getitem__(self, name):
        return self.headers.get(name)


def the_command_line_sends_nothing_twice_that_is_not_the_same_twice():
    """It repeats a POST whose answer was lost. Under a key that is safe; a route without keys must be in the list of client/commands/api.c, or do nothing but look."""
    looks = {"/api/v1/authz/explain", "/api/v1/issuers/{issuer}/check", "/api/v1/erasures/plan", "/api/v1/audit/subjects", "/api/v1/regions/check"}
    others = ("/api/v1/runner/",)  # of runners, which the command line never calls
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../client/commands/api.c"), encoding="utf-8") as file:
        text = file.read()
    body = text[text.index("static bool may_be_repeated("):]
    excepted = {"/api/v1" + path for path in re.findall(r'strcmp\(path, "([^"]+)"\) != 0', body[:body.index("\n}")])}
    excepted |= {"/api/v1" + path for path in ("/content-holds/{reference}/release", "/content-holds/{reference}/release/approval")
                 if '"/content-holds/", 15' in body}
    excepted |= {f"/api/v1/projects/{{organisation}}/{{project}}/{end}" for end in ("copies", "move") if f'"/{end}"' in body}
    keyless = set()
    for path, item in state["document"]["paths"].items():
        takes = any("header-Idempotency-Key" in one.get("$ref", "") for one in item.get("post", {}).get("parameters", []))
        if "post" in item and path.startswith("/api/v1/") and not path.startswith(others) and not takes:
            keyless.add(path)
    assert excepted and excepted <= keyless, excepted - keyless  # they take keys: they may be sent again
    assert keyless == excepted | looks, (keyless - excepted - looks, looks - keyless)


def lies_are_noticed():
    robot = {"id": "01234567-89ab-cdef-0123-456789abcdef", "name": "robot$x", "enabled": True, "expires": "2030-01-01T00:00:00Z"}
    held = contract.load(state["admin"])

    def problem(path, answer):
        return held.problem("GET", path, answer)

    assert problem("/api/v1/robots", Twisted(200, {"robots": [robot]})) is None
    for twist in ({"enabled": "yes"}, {"colour": "red"}, {"expires": "tomorrow"}, {"id": "1"}):
        assert problem("/api/v1/robots", Twisted(200, {"robots": [{**robot, **twist}]})), twist
    assert problem("/api/v1/robots", Twisted(200, {"robots": [{"id": robot["id"]}]}))
    assert problem("/api/v1/robots", Twisted(201, {"robots": []}))
    assert problem("/api/v1/robots", Twisted(200, {"robots": []}, "text/plain"))
    assert problem("/api/v1/nothing", Twisted(200, {}))
    page, good = {"robots": [robot], "next": "robot$x"}, '</api/v1/robots?limit=1&after=robot%24x>; rel="next"'
    assert problem("/api/v1/robots?after=robot$a&limit=1", Twisted(200, page, link=good)) is None
    for link in (None, good.replace("%24x", "%24y"), good.replace("limit=1&", ""), good.replace("robots", "issuers"), good[1:]):
        assert problem("/api/v1/robots?limit=1", Twisted(200, page, link=link)), link
    assert problem("/api/v1/robots?limit=1", Twisted(200, {"robots": [robot]}, link=good))
    assert problem("/api/v1/robots", Twisted(404, {"title": "x"}, "application/problem+json"))


ODD = (None, True, -1, 1 << 70, 1.5, "", "x", "x" * 5000, "2026-01-01T00:00:00Z", [], [None], {}, {"x": 1})
TEXTS = {"uuid": "01234567-89ab-cdef-0123-456789abcdef", "date-time": "2026-01-01T00:00:00Z", "as-signed": "2026-01-01T00:00:00+04:00"}


def example(schemas, schema, depth=0):
    """A value that the schema mostly allows."""
    if "$ref" in schema:
        return example(schemas, schemas[schema["$ref"].rsplit("/", 1)[1]], depth + 1)
    kinds = schema.get("type", "string")
    kind = kinds if isinstance(kinds, str) else random.choice(kinds)
    if kind == "object":
        chosen = {name: member for name, member in schema.get("properties", {}).items() if name in schema.get("required", ()) or depth < 4 and random.random() < 0.5}
        return {name: example(schemas, member, depth + 1) for name, member in chosen.items()}
    if kind == "array":
        return [example(schemas, schema["items"], depth + 1) for _ in range(max(schema.get("minItems", 0), random.randrange(2) if depth < 4 else 0))]
    if kind == "string":
        return random.choice(schema.get("enum") or [TEXTS.get(schema.get("format")) or "a" * schema.get("minLength", 1)])
    return {"null": None, "boolean": random.random() < 0.5, "integer": schema.get("minimum", 0)}[kind]


def places(value, path=()):
    yield path
    for key, member in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(member, path + (key,))


def changed(value):
    """With another value at one place, or with a member more or less."""
    path = random.choice(list(places(value)))
    if not path:
        return random.choice(ODD)
    whole = inner = copy.deepcopy(value)
    for key in path[:-1]:
        inner = inner[key]
    inner[random.choice((path[-1], "odd")) if isinstance(inner, dict) else path[-1]] = random.choice(ODD)
    if isinstance(inner, dict) and random.random() < 0.2:
        del inner[path[-1]]
    return whole


def the_quick_check_allows_only_what_the_slow_one_allows():
    held, allowed, refused = contract.load(state["admin"]), 0, 0
    schemas = held.document["components"]["schemas"]
    random.seed(7)
    for schema in schemas.values():
        value = example(schemas, schema)
        for each in (value, changed(value), changed(value)):
            slow = held.validator(schema).is_valid(each)
            assert held.is_right(schema, each) == slow, (schema, each, slow)
            allowed, refused = allowed + slow, refused + (not slow)
    assert allowed > 150 and refused > 400, (allowed, refused)


def cases(server):
    state["server"], state["admin"] = server, server.client(server.admin)
    state["auditor"] = server.client(sijil_test.make_robot(server, "describer", "auditor", ""))
    return (anybody_gets_it_without_an_event, it_is_what_the_build_made, every_reading_route_answers_as_described,
            bad_bodies_are_refused_by_the_member, a_generated_client_may_encode_the_slashes_of_a_repository,
            the_command_line_sends_nothing_twice_that_is_not_the_same_twice, lies_are_noticed, the_quick_check_allows_only_what_the_slow_one_allows)
