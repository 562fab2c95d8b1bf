"""Results, plans and messages are types inside the program: JSON is read by key at the doors alone.

A key is a text in quotes by which a value is taken out of JSON: object["key"], .value("key", ...),
.at("key"), .contains("key") or .find("key"); or of a JsonFields: .string("key"), .raw("key", ...)
and the like. Two look-alikes are no keys: the search in a text, whose result is
compared with npos, and the maps of NO_JSON. Files are read into types by lists of fields
(harness/base/fields.h), which name each field once.
"""

import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDERS = ("harness", "models", "benchmarks")
SUFFIXES = {".h", ".cpp", ".cu", ".in"}

# Path -> why this file may name keys.
DOORS = {
    "harness/base/fields_inline.h": "null_reasons of every object, by the lists of fields",
    "harness/base/fields.cpp": "null_reasons of every object, and JSON Schema's own words",
    "harness/base/readable_json.cpp": "a patch, as nlohmann's library writes it",
    "harness/gate/turns.cpp": "the file of turns: read strictly and written, each field once",
    "harness/plan/overrides.cpp": "--set changes the text of a plan before it is read",
    "harness/report/benchmark_json.cpp": "writes Google Benchmark's format",
    "harness/report/trace_events.cpp": "writes the trace format of Perfetto",
    "harness/watch/tell/trace.cpp": "writes the trace format of Perfetto",
    # What people write and nothing of ours does: read strictly, each field once.
    "harness/gate/gate_file.cpp": "a gate",
    "harness/launch/topology.cpp": "a topology",
    "harness/plan/cell.cpp": "the cells of a plan, words of JSON Schema, cells of older files",
    "harness/plan/plan.cpp": "a plan",
    "models/checkpoint.cpp": "the index of a checkpoint, as Hugging Face writes it",
    "models/data_file.cpp": "examples, as a tokenizer writes them",
    "models/memory_profile.cpp": "a recorded model, as memory_recorder.py writes it",
    "models/profile.cpp": "a profile, as Python writes it",
    "models/safetensors_file.cpp": "the header of a safetensors file",
}
# What is indexed by a name and is no JSON, and where -> what it is.
NO_JSON = {
    ("harness/sync/", "saved_data"): "what torch keeps from forward to backward",
    ("harness/sync/collectives.cpp", "step[i]"): "collectives by operation",
    ("harness/sync/collectives.cpp", "done"): "collectives by operation",
    ("harness/sync/collectives.cpp", "one"): "collectives by operation",
    ("harness/watch/judge/verdicts/verdict.cpp", "excess"): "collectives by operation",
    ("benchmarks/commands/manual_commands.cpp", "names"): "names by what help calls their value",
    ("harness/launch/host.cpp", "bytes"): "lines of /proc/meminfo by name",
    ("harness/report/notes.cpp", "trials"): "counts of trials by status",
    ("harness/launch/task_place.cpp", "reader"): "variables of the environment",
    ("harness/summary/", "cell"): "axes of a cell",
    ("harness/summary/", "phase_s"): "seconds by phase",
    ("models/mixtral.cpp", "named"): "parameters by name",
    ("benchmarks/micro/", "counters"): "Google Benchmark's counters",
}

COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
TEXT = r'"(?:[^"\\\n]|\\.)*"'
KEY = re.compile(
    rf"\b(?P<of>\w+(?:\[\w+\])*)\s*(?:\[\s*{TEXT}\s*\]"
    rf"|(?:\.|->)(?P<how>value|at|contains|find|string|boolean|number|integer|positive_int|raw|has)"
    rf"\(\s*{TEXT}\s*(?P<after>[,)][^;{{}}]*))"
)
# A macro of harness/base/fields.h or messages.h that makes a list.
SHORT_LIST = re.compile(r"^GRADSYNC_(?:FIELDS_OF|MESSAGE)\(([\w:]+),", re.MULTILINE)
PLACE = re.compile(r"(\w+)\s*=\s*[\w.>()-]+$")


def without_comments(text):
    return COMMENT.sub(lambda found: "\n" * found.group().count("\n"), text)


def is_search_in_text(found, text):
    """Whether a find() is one of a text: it, or the variable that it fills, meets npos."""
    if found["how"] != "find":
        return False
    if "npos" in found["after"]:
        return True
    place = PLACE.search(text[: found.start("how") - 1])
    return place is not None and bool(re.search(rf"\b{place[1]}\b[^;]*npos", text))


def is_no_json(path, of):
    return any(path.startswith(where) and of == name for where, name in NO_JSON)


def keys_in(path, text):
    """Returns the lines of `text` in which JSON is read or written by a key."""
    text = without_comments(text)
    return [
        f"{path}:{text.count(chr(10), 0, found.start()) + 1}: {found.group()[:60]}"
        for found in KEY.finditer(text)
        if not is_search_in_text(found, text) and not is_no_json(path, found["of"])
    ]


def sources():
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in SUFFIXES and path.is_file():
                yield str(path.relative_to(ROOT)), path.read_text()


class JsonKeysTest(unittest.TestCase):
    def test_keys_are_named_at_the_doors_alone(self):
        found = [
            place for path, text in sources() if path not in DOORS for place in keys_in(path, text)
        ]
        self.assertEqual(found, [])

    def test_every_door_is_one(self):
        texts = dict(sources())
        for path in DOORS:
            with self.subTest(path):
                self.assertTrue(keys_in(path, texts.get(path, "")))

    def test_every_other_map_is_there(self):
        for where, name in NO_JSON:
            with self.subTest(name):
                self.assertTrue(
                    any(
                        path.startswith(where) and found["of"] == name
                        for path, text in sources()
                        for found in KEY.finditer(without_comments(text))
                    )
                )

    def test_a_key_is_seen(self):
        for text in (
            'const json name = part["name"];',
            'part[ "name" ] = 1;',
            'if (message.find("event") != message.end()) return;',
            'return trial.model_info.value("paced", false);',
            'answer->at("status")',
            'if (object.contains("null_reasons"))',
            'const std::string name = fields.string("name");',
            'if (fields.has("name") && inner->integer("rank", 0) > 0) return;',
            'const auto found = object.find(\n    "event");\nif (found == object.end()) return;',
        ):
            with self.subTest(text):
                self.assertEqual(len(keys_in("harness/run/block.cpp", text)), 1)

    def test_what_is_no_key_is_passed_over(self):
        for text in (
            '// part["name"]',
            'return line.find("error") != std::string::npos;',
            'const std::size_t dash = line.find(" - ");\nif (dash == std::string::npos) return;',
            'char text[] = {"name"};',
        ):
            with self.subTest(text):
                self.assertEqual(keys_in("harness/run/block.cpp", text), [])


def listed_types(function, texts):
    """Returns each type that `function` (fields_of or names_of) lists, as often as it does."""
    type_name = r"(?:[a-z]\w*::)*((?:[A-Z]\w*::)*\w+)"
    lists = re.compile(rf"\b{function}\(const {type_name}\s?\*\w*\)\s*\{{(?! *\\)")  # no macro's
    texts = [SHORT_LIST.sub(r"fields_of(const \1*) {", text) for text in texts]
    # A line of a file is a type of that file alone, in a namespace without a name.
    return [name for text in texts for name in lists.findall(text) if not name.endswith("Line")]


class FieldListsTest(unittest.TestCase):
    """Two lists for one type break the rule of one definition, and readers with it."""

    def test_a_type_has_one_list_of_fields_and_an_enum_one_of_names(self):
        texts = [without_comments(text) for _, text in sources()]
        for function, fewest in (("fields_of", 50), ("names_of", 15)):
            with self.subTest(function):
                names = listed_types(function, texts)
                self.assertGreater(len(names), fewest)
                self.assertEqual({name for name in names if names.count(name) > 1}, set())

    def test_a_second_list_is_seen(self):
        first = "constexpr auto names_of(const Edge::Outcome*) {\n"
        second = "constexpr auto names_of(const plan::Edge::Outcome*) {\n"
        self.assertEqual(listed_types("names_of", [first, second]), ["Edge::Outcome"] * 2)
        self.assertEqual(listed_types("fields_of", [first]), [])

    def test_a_list_in_one_line_is_seen(self):
        message = 'struct Ready {};\nGRADSYNC_MESSAGE(Ready, "event", "ready")\n'
        self.assertEqual(
            listed_types("fields_of", ["GRADSYNC_FIELDS_OF(Span, start_s)\n", message]),
            ["Span", "Ready"],
        )


if __name__ == "__main__":
    unittest.main()
