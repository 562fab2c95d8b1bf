"""plan.schema.json has the options of cells as `gradsync list options --json` prints them.

usage: plan_schema_test.py --write     writes them into the file
"""

import json
import re
import sys
import unittest

from program import ROOT, ProgramTest

FILE = ROOT / "benchmarks" / "plans" / "plan.schema.json"
# Everything between the properties of the cells and the braces that end the file.
PART = re.compile(
    r'("cells": \{\n.*\n.*\n +"properties": )\{\n.*?\n +\}(?=\n +\}\n  \}\n\}\n$)', re.S
)


class PlanSchemaTest(ProgramTest):
    def test_options_are_those_of_the_program(self):
        printed = self.call("list", "options", "--json").out
        options = printed.rstrip().replace("\n", "\n      ")
        text = FILE.read_text()
        now, places = PART.subn(lambda found: found[1] + options, text)
        self.assertEqual(places, 1)
        self.assertEqual(json.loads(now)["$defs"]["cells"]["properties"], json.loads(printed))
        if "--write" in sys.argv:
            FILE.write_text(now)
        else:
            self.assertEqual(text, now, "plan_schema_test.py --write mends it")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
