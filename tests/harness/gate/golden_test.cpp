// The pages of a gate as people see them, to the letter. GRADSYNC_ACCEPT_GOLDEN=1 rewrites the
// files: read the difference before you commit it.
// Covers: page.cpp, page_parts.cpp.
#include <gmock/gmock.h>

#include <sstream>

#include "harness/gate/page.h"
#include "harness/text/text_width.h"
#include "tests/harness/gate/sample_gate.h"
#include "tests/harness/report/golden.h"
#include "tests/paths.h"

namespace gradsync::gate {
namespace {

const std::string kGoldenDirectory = test::path_of("source") + "/tests/harness/gate/golden/";

void expect_golden(const std::string& name, const std::string& text) {
  test::expect_golden(kGoldenDirectory + name, text);
}

std::size_t widest_line(const std::string& text) {
  std::size_t widest = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    widest = std::max(widest, text::display_width(line));
  }
  return widest;
}

TEST(GoldenGate, EveryVerdictInATerminal) {
  const std::string text = gate_text(test::sample_gate());
  expect_golden("every_verdict.txt", text);
  EXPECT_EQ(widest_line(text), kTerminalWidth) << "the exit status stands at the end of its line";
}

TEST(GoldenGate, EveryVerdictInASummary) {
  expect_golden("every_verdict.md", gate_markdown(test::sample_gate()));
}

TEST(GoldenGate, CountsAlone) {
  const GateReport gate = test::sample_counts_gate();
  expect_golden("counts.txt", gate_text(gate));
  expect_golden("counts.md", gate_markdown(gate));
}

TEST(GoldenGate, TrainingCommands) {
  const GateReport gate = test::sample_jobs_gate();
  expect_golden("jobs.txt", gate_text(gate));
  expect_golden("jobs.md", gate_markdown(gate));
}

TEST(GoldenGate, LongNamesHaveALineOfTheirOwn) {
  const std::string text = gate_text(test::sample_gate_with_long_names());
  expect_golden("long_names.txt", text);
  EXPECT_LE(widest_line(text), kTerminalWidth);
}

TEST(GoldenGate, AWiderTerminalIsUsed) {
  const GateReport gate = test::sample_gate_with_long_names();
  EXPECT_GT(widest_line(gate_text(gate, 120)), kTerminalWidth);
  EXPECT_LE(widest_line(gate_text(gate, 120)), 120U);
}

}  // namespace
}  // namespace gradsync::gate
