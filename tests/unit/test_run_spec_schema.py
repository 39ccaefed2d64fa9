"""usage: test_run_spec_schema.py SOURCE-FOLDER   The JSON Schema of specifications, with the files that the command accepts and refuses."""
import json
import pathlib
import re
import sys

import jsonschema
import yaml

ROOT = pathlib.Path(sys.argv[1])
DEFAULTS = {"environment": {}, "inputs": [], "nodes": 1, "tasks": 1, "network": "none", "assurance": 1, "pool": "default"}


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
