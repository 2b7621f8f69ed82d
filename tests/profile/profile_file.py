# SPDX-License-Identifier: MIT
"""Reads a profile for a test, which fails where the file is not what docs/profile.schema.json says.

A test that reads profiles in another folder begins with
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "profile"))
Without python3-jsonschema profiles are read without that check: profile_schema says that it is missing.
"""
import functools
import json
import pathlib

SCHEMA = pathlib.Path(__file__).resolve().parents[2] / "docs" / "profile.schema.json"
LONG = 64  # elements: the validator needs 10 us for each number


@functools.lru_cache(maxsize=1)
def validator():
    """The schema's, read once; None where there is no library for it."""
    try:
        import jsonschema  # pylint: disable=import-outside-toplevel
    except ImportError:
        return None
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def thinned(node):
    """The same with fewer elements in long columns: of each type the least and the greatest."""
    if isinstance(node, dict):
        return {key: thinned(value) for key, value in node.items()}
    if not isinstance(node, list):
        return node
    if len(node) <= LONG:
        return [thinned(value) for value in node]
    by_type = {}
    for value in node:
        by_type.setdefault(type(value), []).append(value)
    kept = []
    for kind, values in by_type.items():
        if kind in (int, float, str, bool):
            kept += [min(values), max(values)]
        else:
            kept += [thinned(value) for value in values[:LONG]]
    return kept


def errors_of(profile):
    """What is wrong with a profile, a sentence each."""
    if validator() is None:
        return []
    small = {**profile, "tables": thinned(profile["tables"])} if "tables" in profile else profile
    return ["/".join(map(str, e.path)) + ": " + e.message[:300]
            for e in validator().iter_errors(small)]


def checked(profile):
    """`profile`, if it is valid."""
    errors = errors_of(profile)
    assert not errors, f"the profile is not what its schema says: {errors[:5]}"
    return profile


def read_profile(path):
    """What is in the file at `path`, if it is a valid profile."""
    return checked(json.loads(pathlib.Path(path).read_text(encoding="utf-8")))
