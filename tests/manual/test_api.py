"""The description of the API: it is well formed, it has each route once, its references lead somewhere, and docs/api.md says the same."""
import json
import os
import re
import sys

import jsonschema

BUILD = os.path.abspath(sys.argv[1])
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MARK = "<!-- The build makes what follows: cmake --build --preset debug --target docs -->\n"
VERBS = ("get", "head", "post", "put", "patch", "delete")


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def rows():
    """[(name, methods, pattern)] of gateway/routes.def."""
    found = re.findall(r'^ROUTE\((\w+), (\w+), "([^"]+)"', read(ROOT, "gateway/routes.def"), re.M)
    assert len(found) > 60, len(found)
    return found


def operations(document):
    return [(path, verb, item[verb]) for path, item in document["paths"].items() for verb in item]


def each_route_stands_once(document):
    wanted = []
    for name, methods, _ in rows():
        wanted += [name, name + "_head"] if methods == "READ" else [name]
    found = [operation["operationId"] for _, _, operation in operations(document)]
    assert sorted(found) == sorted(wanted), set(found) ^ set(wanted)
    assert all(verb in VERBS for _, verb, _ in operations(document))


def inside(value, path=""):
    yield path, value
    if isinstance(value, (dict, list)):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from inside(each, f"{path}/{key}")


def references_resolve(document):
    used = set()
    for path, value in inside(document):
        if not isinstance(value, dict) or not isinstance(value.get("$ref"), str):
            continue
        target = document
        for part in value["$ref"].removeprefix("#/").split("/"):
            assert part in target, (path, value["$ref"])
            target = target[part]
        used.add(value["$ref"])
    made = {f"#/components/{kind}/{name}" for kind in ("schemas", "responses", "parameters") for name in document["components"][kind]}
    assert made == used, made ^ used


BODILESS = ["/api/v1/audit/sinks/{reference}/secret",  # the registry makes the key: the client has nothing to say
            "/api/v1/policies/drafts/{reference}/activation", "/api/v1/issuers/{issuer}/check"]  # the path says it all


def operations_are_whole(document):
    for path, verb, operation in operations(document):
        where = (path, verb)
        assert operation["summary"].endswith(".") and operation["tags"], where
        given = [parameter["name"] for parameter in operation["parameters"] if parameter.get("in") == "path"]
        assert sorted(given) == sorted(re.findall(r"\{(\w+)\}", path)), where
        statuses = set(operation["responses"])
        assert {"default", "400"} <= set(statuses) and any(status < "400" for status in statuses), where  # an unknown parameter is a 400
        is_open = operation["security"] == []
        assert is_open == (operation["x-sijil-actions"] == []), where
        assert is_open or {"401", "403", "503"} <= statuses, where
        assert verb in ("get", "head", "delete") or is_open or "requestBody" in operation or path in BODILESS, where


def schemas_are_schemas(document):
    for name, schema in document["components"]["schemas"].items():
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema["description"] and set(schema.get("required", [])) <= set(schema["properties"]), name
        assert all("description" in member for member in schema["properties"].values()), name


def parameters_are_known(document):
    """What a row ABOUT() names and the table of parameters does not have would be left out silently."""
    named = set()
    for text in re.findall(r'^ABOUT\(\w+, "([^"]*)"', read(ROOT, "gateway/routes.def"), re.M):
        named |= set(text.split())
    made = {member["name"] for member in document["components"]["parameters"].values() if member["in"] == "query"}
    assert named == made, named ^ made
    headers = {member["name"] for member in document["components"]["parameters"].values() if member["in"] == "header"}
    assert headers == {"Idempotency-Key", "If-Match", "If-None-Match"}, headers


def camel(name):
    return "".join(part[:1].upper() + part[1:] for part in re.split(r"[^A-Za-z0-9]+", name))


def components_make_distinct_types(document):
    """oapi-codegen makes one Go type of each component, whatever its kind, and a constant of each scheme of security: the parameter and
    the schema `envelope` were one name."""
    made = [camel(name) for kind in ("schemas", "responses", "parameters") for name in document["components"][kind]]
    made += [camel(name) + "Scopes" for name in document["components"]["securitySchemes"]]  # the schema token_scopes was one of these
    assert len(made) == len(set(made)) > 100, sorted(name for name in made if made.count(name) > 1)


def each_body_has_a_schema(document):
    """openapi-python-client leaves out an operation with a body that has no schema."""
    bodies = [(path, content) for path, value in inside(document) if path.endswith("/content") for content in value.items() if "/" in content[0]]
    assert len(bodies) > 100 and all(content[1].get("schema") for _, content in bodies), bodies
    kinds = {(kind, json.dumps(media["schema"])) for path, (kind, media) in bodies if "$ref" not in media["schema"]}
    assert ("application/octet-stream", '{"type": "string", "format": "binary"}') in kinds and ("application/json", '{"type": "object"}') in kinds, kinds
    form = document["paths"]["/token"]["post"]["requestBody"]["content"]["application/x-www-form-urlencoded"]
    assert form == {"schema": {"$ref": "#/components/schemas/token_form"}}, form
    assert not any("OCI" in answer["description"] for path in ("/api/v1/openapi.json", "/api/v1/audit/events/{sequence}/entry")
                   for answer in document["paths"][path]["get"]["responses"].values() if "description" in answer)


def errors_of_oauth_stand_first(document):
    """Some generators read only the first kind of an answer, and most errors of /token are those of OAuth 2.0."""
    for name in ("token-400", "token-401", "token-default"):
        content = document["components"]["responses"][name]["content"]
        assert list(content) == ["application/json", "application/problem+json"], (name, list(content))
        assert content["application/json"]["schema"]["$ref"].endswith("/oauth_error"), content


def what_schemas_say_is_exact(document):
    metrics = document["paths"]["/metrics"]["get"]["responses"]["200"]["content"]
    assert list(metrics) == ["text/plain; version=0.0.4; charset=utf-8"], metrics
    assert document["components"]["schemas"]["signing_key_approval"]["properties"]["envelopes"]["minItems"] == 1


def the_page_is_fresh():
    page, made = read(ROOT, "docs/api.md"), read(BUILD, "cmd/manual/api/tables.md")
    assert page.count(MARK) == 1 and page.split(MARK)[1] == made, "docs/api.md is stale: cmake --build --preset asan --target docs"
    anchors = set(re.findall(r"^### (\w+)$", page, re.M))
    assert set(re.findall(r"\]\(#(\w+)\)", page)) <= anchors


def main():
    document = json.loads(read(BUILD, "cmd/manual/api/openapi.json"))
    assert document["openapi"].startswith("3.1."), document["openapi"]
    for check in (each_route_stands_once, references_resolve, operations_are_whole, schemas_are_schemas, parameters_are_known,
                  components_make_distinct_types, each_body_has_a_schema, errors_of_oauth_stand_first, what_schemas_say_is_exact):
        check(document)
        print("ok", check.__name__)
    the_page_is_fresh()
    print("ok the_page_is_fresh")


main()
