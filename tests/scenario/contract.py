"""Checks each answer of /api/v1 and /token in a scenario against the OpenAPI description of the server.

The description is fetched once in a process. If the server can't give it now, or has none (an old version in a test of
upgrades), it is fetched again with the next answer. description.py tests that these checks find errors."""
import copy
import http.client
import json
import re
import threading
import urllib.parse

from quick_schema import Quick

PATH = "/api/v1/openapi.json"
WHOLE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
SIGNED = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
lock = threading.Lock()
known = {"document": None, "checked": 0}
LAST_RESORT = b"the answer could not be made\n"  # without memory the server can't describe its own failure


class Contract:
    def __init__(self, document):
        self.document = strict(document)
        self.paths = sorted(((template, expression(template), item) for template, item in document["paths"].items()),
                            key=lambda row: (row[0].count("{"), row[0].count("{repository}")))
        self.validators, self.quick, self.accepts = {}, Quick(self.document, {"date-time": WHOLE, "as-signed": SIGNED}), {}

    def find(self, method, path):
        """The operation of the description, or None: there is no such route."""
        for _, pattern, item in self.paths:
            if pattern.fullmatch(path) and method.lower() in item:
                return item[method.lower()]
        return None

    def is_right(self, schema, value):
        """Whether it is right at a quick look; else validator() says what is wrong."""
        if id(schema) not in self.accepts:  # schemas live as long as the document
            self.accepts[id(schema)] = self.quick.of(schema)
        return self.accepts[id(schema)](value)

    def validator(self, schema):
        import jsonschema
        text = json.dumps(schema, sort_keys=True)
        if text not in self.validators:
            formats = jsonschema.FormatChecker()
            formats.checks("date-time")(lambda value: not isinstance(value, str) or WHOLE.fullmatch(value) is not None)
            formats.checks("as-signed")(lambda value: not isinstance(value, str) or SIGNED.fullmatch(value) is not None)
            self.validators[text] = jsonschema.Draft202012Validator(schema, resolver=jsonschema.RefResolver("", self.document),
                                                                    format_checker=formats)
        return self.validators[text]

    def response(self, operation, status):
        """The description of this status: {} if it has no body, None if it does not exist."""
        responses = operation["responses"]
        found = responses.get(str(status), responses["default"] if status >= 400 else None)
        if found and "$ref" in found:
            found = self.document["components"]["responses"][found["$ref"].rsplit("/", 1)[1]]
        return found

    def problem(self, method, path, answer):
        """The difference between the answer and the description; None if they agree."""
        operation = self.find(method, urllib.parse.urlsplit(path).path)
        if operation is None:
            return None if answer.status in (400, 404, 405, 413, 414, 429, 431, 503) else "a route that is not in the description"
        response = self.response(operation, answer.status)
        if response is None:
            return f"status {answer.status} is not in the description"
        content = response.get("content", {})
        if not answer.body:
            may_be_empty = method == "HEAD" or "application/octet-stream" in content  # bytes may be none
            return None if not content or may_be_empty else "there is no body"
        kind = (answer["Content-Type"] or "").split(";")[0]
        media = {name.split(";")[0]: value for name, value in content.items()}
        if answer.status == 500 and kind == "text/plain" and answer.body == LAST_RESORT:
            return None
        if kind not in media:
            return f"content type {kind!r} is not in the description: {sorted(media)}"
        if not kind.endswith("json") or "schema" not in media[kind]:
            return None
        document, schema = json.loads(answer.body), media[kind]["schema"]
        wrong = None if self.is_right(schema, document) else next(iter(self.validator(schema).iter_errors(document)), None)
        if wrong:
            return f"{'/'.join(map(str, wrong.absolute_path))}: {wrong.message}"
        return wrong_link(path, document.get("next"), answer["Link"], response.get("headers", {})) if answer.status == 200 else None


def wrong_link(path, following, link, headers):
    """The difference between a list's `next` and its Link (RFC 8288): the same path and query, with the cursor as `after`."""
    if following is None:
        return link and "a Link, but no next"
    if "Link" not in headers:
        return "a Link that is not in the description"
    match = re.fullmatch('<([^<>" ]+)>; rel="next"', link or "")
    asked, linked = urllib.parse.urlsplit(path), urllib.parse.urlsplit(match[1]) if match else None
    wanted = {**dict(urllib.parse.parse_qsl(asked.query, keep_blank_values=True)), "after": following}
    if linked is None or linked.path != asked.path or dict(urllib.parse.parse_qsl(linked.query, keep_blank_values=True)) != wanted:
        return f"the Link {link!r} is not that of the next page, {following!r}"
    return None


def expression(template):
    return re.compile("".join(".+" if part == "{repository}" else "[^/]+" if part.startswith("{") else re.escape(part)
                              for part in re.split(r"(\{\w+\})", template)))


def strict(document):
    """Clients must take members that they don't know. In a test, a member that is not in the description is a mistake. Times are in UTC, except
    in a signed document."""
    document = copy.deepcopy(document)
    for schema in document["components"]["schemas"].values():
        schema.setdefault("additionalProperties", False)
        for member in schema["properties"].values():
            if member.get("x-sijil-as-signed"):
                member["format"] = "as-signed"
    return document


def load(client):
    """None: the server can't give it now."""
    with lock:
        if known["document"] is None:
            try:
                link = client.connection(timeout=10)
                link.request("GET", PATH)
                response = link.getresponse()
                if response.status == 200:
                    known["document"] = Contract(json.loads(response.read()))
                link.close()
            except (OSError, http.client.HTTPException, ValueError):
                pass
        return known["document"]


def check(client, method, path, answer):
    if not path.startswith(("/api/v1/", "/token")):
        return
    contract = load(client)
    if contract is None:
        return
    problem = contract.problem(method, path, answer)
    assert problem is None, f"{method} {path} {answer.status}: {problem}: {answer.body[:1000]}"
    with lock:
        known["checked"] += 1
