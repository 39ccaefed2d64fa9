"""JSON Schema, as far as the OpenAPI description of the server uses it, compiled to functions: jsonschema takes up to a hundred times as long, which was a
tenth of what some scenarios cost. What is refused here is judged by jsonschema; description.py compares both. Standard library only."""
import re

IGNORED = {"description", "x-sijil-as-signed", "title", "example", "deprecated"}
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
UNCHECKED = {"int64", "uri", "binary"}  # jsonschema does not check them without further libraries
TYPES = {"string": lambda value: isinstance(value, str), "object": lambda value: isinstance(value, dict), "array": lambda value: isinstance(value, list),
         "integer": lambda value: type(value) is int, "boolean": lambda value: isinstance(value, bool), "null": lambda value: value is None}
BOUNDS = {"minLength": (str, lambda bound: lambda value: len(value) >= bound), "maxLength": (str, lambda bound: lambda value: len(value) <= bound),
          "minimum": (int, lambda bound: lambda value: value >= bound), "maximum": (int, lambda bound: lambda value: value <= bound),
          "minItems": (list, lambda bound: lambda value: len(value) >= bound), "maxItems": (list, lambda bound: lambda value: len(value) <= bound),
          "pattern": (str, lambda text: re.compile(text).search)}


class Quick:
    def __init__(self, document, formats):
        """`formats`: name -> pattern of the whole text."""
        self.document, self.formats, self.made = document, {"uuid": UUID, **formats}, {}

    def of(self, schema):
        """A function that is true only of values that the schema allows. An unknown keyword raises."""
        checks = [check for keyword, given in schema.items() if keyword not in IGNORED for check in self.checks(schema, keyword, given)]
        return checks[0] if len(checks) == 1 else lambda value: all(check(value) for check in checks)

    def checks(self, schema, keyword, given):
        if keyword == "$ref":
            return [self.named(given)]
        if keyword == "type":
            kinds = [TYPES[name] for name in ([given] if isinstance(given, str) else given)]
            return kinds if len(kinds) == 1 else [lambda value: any(kind(value) for kind in kinds)]
        if keyword == "format":
            return [] if given in UNCHECKED else [only(str, self.formats[given].fullmatch)]
        if keyword == "enum":
            assert all(isinstance(word, str) for word in given), given
            return [lambda value, words=frozenset(given): isinstance(value, str) and value in words]
        if keyword == "items":
            each = self.of(given)
            return [only(list, lambda value: all(map(each, value)))]
        if keyword in ("properties", "required", "additionalProperties"):
            return [self.members(schema)] if keyword == next(word for word in schema if word in ("properties", "required", "additionalProperties")) else []
        kind, make = BOUNDS[keyword]
        return [only(kind, make(given))]

    def members(self, schema):
        known = {name: self.of(member) for name, member in schema.get("properties", {}).items()}
        wanted, more = frozenset(schema.get("required", ())), schema.get("additionalProperties", True)
        other = (lambda value: more) if isinstance(more, bool) else self.of(more)
        return only(dict, lambda value: wanted <= value.keys() and all(known.get(name, other)(member) for name, member in value.items()))

    def named(self, reference):
        """A schema may refer to itself, so it is compiled when a value is met."""
        def check(value):
            if reference not in self.made:
                found = self.document
                for part in reference.removeprefix("#/").split("/"):
                    found = found[part]
                self.made[reference] = self.of(found)
            return self.made[reference](value)
        return check


def only(kind, check):
    """Keywords say nothing about values of other kinds."""
    return lambda value: not isinstance(value, kind) or check(value)
