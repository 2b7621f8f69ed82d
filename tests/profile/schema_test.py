#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Written profiles are what docs/profile.schema.json says, and the schema notices other things.

usage: schema_test.py SCHEMA WRITE_SAMPLE
"""
import copy
import json
import subprocess
import sys

import profile_file

try:
    import jsonschema
except ImportError:
    print("skipped: python3-jsonschema is not installed")
    sys.exit(77)


def undescribed(node, where):
    """Paths of fields that have no description."""
    if not isinstance(node, dict):
        return []
    found = []
    for name, field in node.get("properties", {}).items():
        if "description" not in field:
            found.append(f"{where}.{name}")
        found += undescribed(field, f"{where}.{name}")
    for key in ("items", "additionalProperties"):
        found += undescribed(node.get(key), f"{where}[]")
    for name, definition in node.get("$defs", {}).items():
        found += undescribed(definition, name)
    return found


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        schema = json.load(file)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    assert undescribed(schema, "") == [], undescribed(schema, "")

    sample = None
    for which in ("empty", "merged", "sampled", "partial", "full"):
        text = subprocess.run([sys.argv[2], which], check=True, capture_output=True).stdout
        profile = json.loads(text)
        errors = [f"{list(e.path)}: {e.message}" for e in validator.iter_errors(profile)]
        assert errors == [], errors
        assert profile_file.errors_of(profile) == []
        sample = profile
    columns = sample["tables"]
    for name, table in columns.items():
        lengths = {len(column) for key, column in table.items() if key != "kinds"}
        assert len(lengths) == 1, (name, lengths)

    def refused(change):
        changed = copy.deepcopy(sample)
        change(changed)
        assert not validator.is_valid(changed), "the schema accepts a bad profile"

    long = copy.deepcopy(sample)
    for column in long["tables"]["blocks"].values():
        column *= 100
    assert profile_file.errors_of(long) == []
    long["tables"]["blocks"]["count"][150] = -1
    assert profile_file.errors_of(long) != [], "a long column's element was not looked at"

    refused(lambda p: p.pop("tables"))
    refused(lambda p: p.update(extra=1))
    refused(lambda p: p.update(version=2))
    refused(lambda p: p["coverage"].update(samples=-1))
    refused(lambda p: p["tables"]["blocks"].pop("count"))
    refused(lambda p: p["hotlists"]["edges"][0].update(kind="sideways"))
    refused(lambda p: p["run"].update(exit={"status": 0, "signal": 1}))
    print("5 profiles are valid, 7 bad ones are not")


main()
