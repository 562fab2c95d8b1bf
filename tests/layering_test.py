"""The architecture's rules that a compiler does not check, read off the sources.

1. harness/ is layered: a folder includes only itself and those below it. The wings of
   harness/watch/ include only what WINGS says.
2. models/ knows nothing of synchronization: it includes only harness/base.
3. Torch stays out of the folders that can do without it, and so out of their compile times.
4. Only harness/base/clock.cpp reads a clock; all other code is handed one and can be tested.

Each rule is a pure function from a path and its text to complaints, and is itself tested on a
text that breaks it.
"""

import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# From the bottom up, as in harness/CMakeLists.txt.
LAYERS = [
    "base",
    "stats",
    "account",
    "plan",
    "results",
    "launch",
    "paper",
    "measure",
    "memory",
    "comm",
    "sync",
    "coordinate",
    "run",
    "text",
    "summary",
    "report",
    "gate",
    "watch",
    "fit",
    "predict",
    "session",
    "arms",
]
# What each wing of harness/watch/ may include of it beside itself, and that all of it lies in one.
# The longest name that fits a file counts.
WINGS = {
    "inject/preload": (),
    "inject": ("inject/preload",),
    "read": ("inject/preload",),
    "judge": ("read",),
    "tell": ("judge", "read"),
    "hold": ("inject", "inject/preload", "read", "judge"),
}
TORCH_FREE = set(LAYERS) - {"measure", "comm", "sync", "run"}
# The program itself, whose ranks are another one; micro-benchmarks are programs of their own.
TORCH_FREE_FILES = re.compile(r"benchmarks/(commands/)?[^/]+$")
ROOTS = ("harness/", "models/", "benchmarks/", "tests/")

CLOCK_READER = "harness/base/clock.cpp"
# Path -> why this file may read a clock of its own.
CLOCK_EXCEPTIONS: dict[str, str] = {
    "harness/watch/inject/preload/inside.h": "runs inside somebody else's job",
    "harness/paper/standins/stream_state.cpp": "runs inside somebody else's job",
    "harness/fit/recorder/record_file.cpp": "runs inside somebody else's job",
}
# What is preloaded into a watched job is compiled against the job's torch, not with the suite.
PRELOADED = ("harness/watch/inject/preload/", "harness/fit/recorder/")

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.MULTILINE)
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
CLOCK_READ = re.compile(
    r"\b(?:steady|system|high_resolution|utc|file)_clock\s*::\s*now\b"
    r"|\b(?:clock_gettime|gettimeofday|timespec_get|ftime|__rdtsc)\s*\("
    r"|\b(?:std\s*::\s*|(?<!::))time\s*\(\s*(?:nullptr|NULL|0|&\w+)\s*\)"
    r"|\bstd\s*::\s*clock\s*\(\s*\)"
)


def without_comments(text):
    return COMMENT.sub(" ", text)


def includes(text):
    """Returns (is_quoted, path) of every include."""
    return [(quote == '"', path) for quote, path in INCLUDE.findall(without_comments(text))]


def layer_of(path):
    """Returns the folder of harness/ that a path is in, or None."""
    parts = path.split("/")
    return parts[1] if parts[0] == "harness" and len(parts) > 2 else None


def layering_complaints(path, text):
    layer = layer_of(path)
    if layer is not None and layer not in LAYERS:
        return [f"{path}: folder harness/{layer} has no place in the layers {' < '.join(LAYERS)}"]
    complaints = []
    for is_quoted, included in includes(text):
        other = layer_of(included)
        if is_quoted and not included.startswith(ROOTS):
            complaints.append(f"{path}: includes {included!r}, not written from the root")
        elif layer and other and LAYERS.index(other) > LAYERS.index(layer):
            complaints.append(f"{path}: layer {layer} includes {included} of the higher {other}")
        elif layer and included.startswith(("benchmarks/", "tests/")):
            complaints.append(f"{path}: a library includes {included}")
        elif path.startswith("models/") and not (
            included.startswith(("models/", "harness/base/")) or not included.startswith(ROOTS)
        ):
            complaints.append(f"{path}: a model may include only harness/base, not {included}")
    return complaints


def wing_of(path):
    """Returns the wing of harness/watch/ that a source is in, None for one outside of it."""
    room, _, rest = path.partition("harness/watch/")
    if room or not rest:
        return None
    return max((wing for wing in WINGS if rest.startswith(f"{wing}/")), key=len, default="")


def wing_complaints(path, text):
    wing = wing_of(path)
    if wing is None:
        return []
    if not wing:
        return [f"{path}: lies in none of the wings of harness/watch/: {', '.join(WINGS)}"]
    return [
        f"{path}: wing {wing} includes {included}, not of {', '.join((wing, *WINGS[wing]))}"
        for _, included in includes(text)
        if wing_of(included) not in (None, wing, *WINGS[wing])
    ]


def torch_complaints(path, text):
    if layer_of(path) not in TORCH_FREE and not TORCH_FREE_FILES.match(path):
        return []
    if path.startswith(PRELOADED):
        return []
    return [
        f"{path}: includes {included}, but {path.rsplit('/', 1)[0]} does without torch"
        for _, included in includes(text)
        if re.match(r"(torch|ATen|c10|caffe2)/", included)
    ]


def clock_complaints(path, text):
    if path == CLOCK_READER or path in CLOCK_EXCEPTIONS:
        return []
    return [
        f"{path}: reads a clock ({match.group(0)}); take a gradsync::Clock instead"
        for match in CLOCK_READ.finditer(without_comments(text))
    ]


def sources():
    """Yields (path from the root, text) of the suite's C++ files."""
    for folder in ("harness", "models", "benchmarks"):
        for file in sorted((ROOT / folder).rglob("*")):
            if file.suffix in {".h", ".hpp", ".cpp", ".cc", ".cu", ".in"} and file.is_file():
                yield file.relative_to(ROOT).as_posix(), file.read_text()


class SourceTest(unittest.TestCase):
    def check_all(self, rule):
        files = list(sources())
        self.assertGreater(len(files), 10, "found hardly any source: is the root right?")
        complaints = [line for path, text in files for line in rule(path, text)]
        self.assertFalse(complaints, "\n" + "\n".join(complaints))

    def test_layers_include_only_downwards(self):
        self.check_all(layering_complaints)

    def test_wings_of_watch_include_what_they_may(self):
        self.check_all(wing_complaints)

    def test_wings_are_those_of_the_page(self):
        page = (ROOT / "harness" / "README.md").read_text()
        table = page[page.index("| wing of watch |") :].split("\n\n")[0]
        rows = re.findall(r"^\| `harness/watch/([\w/]+)/` \|[^|]*\| (.*) \|$", table, re.MULTILINE)
        said = {wing: tuple(re.findall(r"[\w/]+", others)) for wing, others in rows}
        self.assertEqual(said, {wing: others or ("nothing",) for wing, others in WINGS.items()})

    def test_torch_stays_where_it_is_needed(self):
        self.check_all(torch_complaints)

    def test_only_the_clock_reads_a_clock(self):
        self.check_all(clock_complaints)

    def test_every_folder_of_the_harness_has_a_layer(self):
        folders = {path.parent.name for path in (ROOT / "harness").glob("*/*.cpp")}
        self.assertLessEqual(folders, set(LAYERS))

    def test_layers_are_those_of_the_build(self):
        text = (ROOT / "harness" / "CMakeLists.txt").read_text()
        listed = re.search(r"foreach\(folder ([^)]*)\)", text).group(1).split()
        self.assertEqual(listed, LAYERS)

    def test_layers_are_those_of_the_page(self):
        page = (ROOT / "harness" / "README.md").read_text()
        table = page[page.index("| room |") : page.index("The command line is")]
        self.assertEqual(re.findall(r"^\| `harness/(\w+)/` \|", table, re.MULTILINE), LAYERS)

    def test_exceptions_are_still_needed(self):
        for path, reason in CLOCK_EXCEPTIONS.items():
            self.assertTrue(reason)
            text = without_comments((ROOT / path).read_text())
            self.assertRegex(text, CLOCK_READ, f"{path} no longer reads a clock")


class RuleTest(unittest.TestCase):
    """Every rule finds what it is there for, and nothing else."""

    def test_layering(self):
        def complaints(path, included):
            return layering_complaints(path, f'#include "{included}"\n')

        self.assertTrue(complaints("harness/plan/plan.cpp", "harness/sync/ddp.h"))
        self.assertTrue(complaints("harness/base/log.h", "harness/stats/sample.h"))
        self.assertTrue(complaints("harness/run/a.cpp", "benchmarks/gradsync.h"))
        self.assertTrue(complaints("harness/nowhere/a.cpp", "harness/base/log.h"))
        self.assertTrue(complaints("harness/run/a.cpp", "a.h"))
        self.assertTrue(complaints("models/mlp.cpp", "harness/sync/ddp.h"))
        self.assertFalse(complaints("harness/sync/ddp.cpp", "harness/sync/no_sync.h"))
        self.assertFalse(complaints("harness/sync/ddp.cpp", "harness/base/log.h"))
        self.assertFalse(complaints("harness/run/rank.cpp", "models/model.h"))
        self.assertFalse(complaints("models/mlp.cpp", "harness/base/clock.h"))
        self.assertFalse(complaints("benchmarks/run_command.cpp", "harness/report/table.h"))
        self.assertFalse(layering_complaints("models/mlp.cpp", "#include <vector>\n"))

    def test_wings(self):
        def complaints(path, included):
            return wing_complaints(
                f"harness/watch/{path}", f'#include "harness/watch/{included}"\n'
            )

        self.assertTrue(complaints("read/event.h", "judge/watched.h"))
        self.assertTrue(complaints("judge/watched.cpp", "tell/pages.h"))
        self.assertTrue(complaints("judge/steps/counts.cpp", "inject/preload/event_file.h"))
        self.assertTrue(complaints("tell/pages.h", "hold/held_job.h"))
        self.assertTrue(complaints("inject/preload/recorder.cpp", "inject/environment.h"))
        self.assertTrue(complaints("loose.cpp", "read/event.h"))
        self.assertTrue(complaints("judge/axes.cpp", "loose.h"))
        self.assertFalse(complaints("judge/steps/counts.cpp", "read/event.h"))
        self.assertFalse(complaints("judge/steps/counts.cpp", "judge/wastes/wastes.h"))
        self.assertFalse(complaints("inject/environment.cpp", "inject/preload/event_file.h"))
        self.assertFalse(
            wing_complaints("harness/arms/arm.h", '#include "harness/watch/read/event.h"\n')
        )
        self.assertFalse(
            wing_complaints("harness/watch/read/event.h", '#include "harness/base/known.h"\n')
        )

    def test_commented_includes_do_not_count(self):
        text = '// #include "harness/sync/ddp.h"\n/*\n#include "harness/run/a.h"\n*/\n'
        self.assertFalse(layering_complaints("harness/base/log.h", text))

    def test_torch(self):
        for header in ("torch/torch.h", "ATen/ATen.h", "c10/core/Device.h"):
            self.assertTrue(torch_complaints("harness/plan/plan.h", f"#include <{header}>\n"))
            self.assertTrue(torch_complaints("benchmarks/list.cpp", f"#include <{header}>\n"))
            self.assertFalse(torch_complaints("benchmarks/micro/a.cpp", f"#include <{header}>\n"))
            self.assertFalse(torch_complaints("harness/sync/ddp.h", f"#include <{header}>\n"))
            preloaded = PRELOADED[0] + "watcher.cpp"
            self.assertFalse(torch_complaints(preloaded, f"#include <{header}>\n"))
            self.assertTrue(
                torch_complaints("harness/watch/judge/steps/steps.cpp", f"#include <{header}>\n")
            )

    def test_clock(self):
        for read in (
            "auto t = std::chrono::steady_clock::now();",
            "auto t = system_clock :: now();",
            "clock_gettime(CLOCK_REALTIME, &t);",
            "gettimeofday(&t, nullptr);",
            "std::time(nullptr)",
            "time(&now)",
            "const auto t = std::clock();",
        ):
            self.assertTrue(clock_complaints("harness/run/rank.cpp", read), read)
            self.assertFalse(clock_complaints(CLOCK_READER, read))
        for other in (
            "// std::chrono::steady_clock::now() would jump",
            "clock.now_ns();",
            "steady_clock().now_ns();",
            "const Clock& clock() const;",
            "step_time(0);",
            "std::chrono::steady_clock::time_point deadline;",
        ):
            self.assertFalse(clock_complaints("harness/run/rank.cpp", other), other)


if __name__ == "__main__":
    unittest.main(verbosity=2)
