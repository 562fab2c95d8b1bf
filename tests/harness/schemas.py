"""What tests of results/schema/ share. Ends the test as skipped where jsonschema is missing."""

import functools
import json
import sys
from pathlib import Path

SCHEMAS = Path(__file__).resolve().parents[2] / "results" / "schema"
SKIPPED = 77  # as SKIP_RETURN_CODE in CMakeLists.txt

try:
    import jsonschema
except ImportError:
    print("skipped: jsonschema is not installed; harness/setup --oracles has it")
    sys.exit(SKIPPED)


def refuse_constant(name):
    raise ValueError(f"{name} is no JSON")


def load(text):
    """Reads JSON strictly: NaN and its like are an error."""
    return json.loads(text, parse_constant=refuse_constant)


@functools.cache
def validator(kind):
    """`kind`: "trial" for trial.schema.json."""
    schema = load((SCHEMAS / f"{kind}.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def complaints(kind, value):
    return [f"{error.json_path}: {error.message}" for error in validator(kind).iter_errors(value)]


def place_in(value, path):
    return functools.reduce(lambda inner, step: inner[step], path, value)
