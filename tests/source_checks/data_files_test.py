"""Every JSON file of the suite is valid, and valid against the JSON Schema of its kind.

A data file says what it is in its "schema" field, "gradsync.plan/1"; its JSON Schema is then the
file plan.schema.json, beside it or elsewhere in the tree.
"""

import copy
import json
import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDERS = (
    "benchmarks",
    "models",
    "results/evidence",
    "results/gate",
    "results/reference",
    "results/schema",
    "tests/source_checks",
)
KIND = re.compile(r"gradsync\.([a-z_]+)/(\d+)")

try:
    import jsonschema
except ImportError:
    jsonschema = None


def refuse_duplicates(pairs):
    names = [name for name, _ in pairs]
    if duplicates := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"field written twice: {', '.join(sorted(duplicates))}")
    return dict(pairs)


def refuse_constant(name):
    raise ValueError(f"{name} is no JSON")


def parse(text):
    """Returns the JSON value. Stricter than json.loads: no NaN, and no field twice."""
    return json.loads(text, object_pairs_hook=refuse_duplicates, parse_constant=refuse_constant)


def json_files():
    """Yields the paths, without packed files and the planner's constants, which have no schema."""
    for folder in FOLDERS:
        files = sorted((ROOT / folder).rglob("*.json"))
        yield from (file for file in files if file.name != "links.json")


def schema_files():
    return {
        path.name.removesuffix(".schema.json"): path
        for path in json_files()
        if path.name.endswith(".schema.json")
    }


def data_files():
    """Yields (path, value, kind) of the files that say what they are."""
    for path in json_files():
        if not path.name.endswith(".schema.json"):
            value = parse(path.read_text())
            if isinstance(value, dict) and "schema" in value:
                match = KIND.fullmatch(str(value["schema"]))
                yield path, value, match.group(1) if match else None


class ParseTest(unittest.TestCase):
    def test_all_files_parse(self):
        for path in json_files():
            with self.subTest(path=path.relative_to(ROOT).as_posix()):
                parse(path.read_text())

    def test_sloppy_json_is_refused(self):
        for text in ('{"a": 1, "a": 2}', '{"a": NaN}', '{"a": 1,}', '{"a": Infinity}'):
            with self.subTest(text=text), self.assertRaises(ValueError):
                parse(text)

    def test_plans_and_topologies_are_named_after_their_file(self):
        for path, value, kind in data_files():
            if kind == "plan" and path.parent.name == "plans":
                with self.subTest(path=path.name):
                    self.assertEqual(value.get("name"), path.stem)


@unittest.skipIf(jsonschema is None, "jsonschema is not installed; harness/setup --oracles has it")
class SchemaTest(unittest.TestCase):
    def setUp(self):
        self.schemas = {kind: parse(path.read_text()) for kind, path in schema_files().items()}

    def validator(self, kind):
        self.assertIn(kind, sorted(self.schemas), f"there is no {kind}.schema.json")
        return jsonschema.Draft202012Validator(self.schemas[kind])

    def test_schemas_are_themselves_valid(self):
        for kind, schema in self.schemas.items():
            with self.subTest(schema=kind):
                jsonschema.Draft202012Validator.check_schema(schema)

    def test_data_files_obey_their_schema(self):
        for path, value, kind in data_files():
            with self.subTest(path=path.relative_to(ROOT).as_posix()):
                errors = [
                    f"{error.json_path}: {error.message}"
                    for error in self.validator(kind).iter_errors(value)
                ]
                self.assertEqual(errors, [])

    def test_schemas_refuse_what_is_wrong(self):
        for path, value, kind in data_files():
            with self.subTest(path=path.relative_to(ROOT).as_posix()):
                unknown = copy.deepcopy(value) | {"no_such_field": 1}
                self.assertFalse(self.validator(kind).is_valid(unknown), "unknown field accepted")
                foreign = copy.deepcopy(value) | {"schema": "another.tool/1"}
                self.assertFalse(self.validator(kind).is_valid(foreign), "foreign file accepted")


if __name__ == "__main__":
    unittest.main(verbosity=2)
