#!/usr/bin/env python3
"""Reads events of OCSF, one a line, and compares each with the schema of its class in OCSF 1.3.0. Prints how many events of each class there were."""
import json
import sys

import jsonschema
from ocsf_json_schema import OcsfJsonSchemaEmbedded, get_ocsf_schema

CLASSES = {0: "base_event", 2004: "detection_finding", 3002: "authentication", 6002: "application_lifecycle", 6003: "api_activity"}


def main():
    schema, validators, counts, wrong = OcsfJsonSchemaEmbedded(get_ocsf_schema("1.3.0")), {}, {}, []
    for line in sys.stdin:
        event = json.loads(line)
        name = CLASSES[event["class_uid"]]
        if name not in validators:
            validators[name] = jsonschema.Draft202012Validator(schema.get_class_schema(name))
        wrong += [f"{name}: {list(error.absolute_path)}: {error.message[:500]}" for error in validators[name].iter_errors(event)]
        counts[name] = counts.get(name, 0) + 1
    print("\n".join(wrong) if wrong else json.dumps({"classes": counts}))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
