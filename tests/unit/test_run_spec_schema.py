"""usage: test_run_spec_schema.py SOURCE-FOLDER   The JSON Schema of specifications, with the files that the command accepts and refuses."""
import json
import pathlib
import re
import sys

import jsonschema
import yaml

ROOT = pathlib.Path(sys.argv[1])
DEFAULTS = {"environment": {}, "inputs": [], "nodes": 1, "tasks": 1, "network": "none", "assurance": 1, "pool": "default"}


LIMIT = re.compile(r'^X\((\w+), (\d+), (\d+), (\d+), "([^"]+)"\)$', re.M)
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def number(text):
    """A number as a page writes it."""
    if text == "2^53 - 1":
        return (1 << 53) - 1
    value, unit = (text.replace(",", "").split() + [""])[:2]
    return int(value) * UNITS.get(unit, 1)


def bounds(text, least, most):
    """What docs/formats/run.md says in brackets after a name: "1 to 5", "from 1 MiB", or nothing for 0 and more."""
    largest = (1 << 53) - 1
    if not text:
        return least == 0 and most == largest
    first, _, last = text.removeprefix("from ").partition(" to ")
    return number(first) == least and (number(last) if last else largest) == most and (bool(last) or text.startswith("from "))


def check_limits(schema):
    """The table of limits has copies for readers: the schema, and two pages."""
    limits = LIMIT.findall((ROOT / "training/format/limits.def").read_text(encoding="utf-8"))
    assert len(limits) >= 8 and len(limits) == (ROOT / "training/format/limits.def").read_text(encoding="utf-8").count("\nX("), limits
    runner = (ROOT / "docs/runner.md").read_text(encoding="utf-8")
    table = runner.partition("| limit | least | most | default | |\n|---|---|---|---|---|\n")[2].partition("\n\n")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    assert [[name.strip("`"), *map(number, numbers), what] for name, *numbers, what in rows] == [
        [name, int(least), int(most), int(default), what] for name, least, most, default, what in limits], "docs/runner.md has other limits"
    members = schema["properties"]["limits"]["properties"]
    assert members == {name: {"description": what, "type": "integer", "minimum": int(least), "maximum": int(most)}
                       for name, least, most, _, what in limits}, "docs/formats/run-spec.schema.json has other limits"
    line = re.search(r"^\| `limits` \| object \| (.*) \|$", (ROOT / "docs/formats/run.md").read_text(encoding="utf-8"), re.M).group(1)
    shown = re.findall(r"`(\w+)`(?: \(([^)]*)\))?", line)
    assert [name for name, _ in shown] == [row[0] for row in limits], "docs/formats/run.md has other limits"
    for (name, text), row in zip(shown, limits):
        assert bounds(text, int(row[1]), int(row[2])), f"docs/formats/run.md: {name} ({text}) is not {row[1]} to {row[2]}"


# Patterns that every validator reads alike (JSON Schema, core, 6.4): those of RE2 know no look-ahead and no \\u.
TOKENS = re.compile(r"(\^|\$|[A-Za-z0-9/:@_-]|\[[^\]\[\\]+\]|\((?!\?)|\)|\||[*+?]|\{[0-9]+(,[0-9]*)?\})+")


def patterns(value):
    if isinstance(value, dict):
        if isinstance(value.get("pattern"), str):
            yield value["pattern"]
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from patterns(each)


def main():
    schema = json.loads((ROOT / "docs/formats/run-spec.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    check_limits(schema)
    found = list(patterns(schema))
    assert len(found) >= 8 and all(TOKENS.fullmatch(pattern) for pattern in found), found
    validator = jsonschema.Draft202012Validator(schema)
    found = {name: member["default"] for name, member in schema["properties"].items() if "default" in member}
    assert found == DEFAULTS, found
    counts = {"# accepted": 0, "# refused": 0, "# refused by the command alone": 0}
    for path in sorted((ROOT / "tests/vectors/specs").glob("*.yaml")) + [ROOT / "examples/digits" / name for name in ("spec.yaml", "spec_nodes.yaml")]:
        text = path.read_text(encoding="utf-8")
        kind = text.split("\n", 1)[0].split(":", 1)[0]
        kind = "# accepted" if path.parent.name == "digits" else kind
        counts[kind] += 1
        if kind == "# refused by the command alone":
            continue
        errors = [error.message for error in validator.iter_errors(yaml.safe_load(text))]
        assert bool(errors) == (kind == "# refused"), (path.name, errors)
    assert min(counts.values()) >= 3, counts
    print(counts)


main()
