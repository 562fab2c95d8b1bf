// The pages of a watched job as people see them, to the letter. GRADSYNC_ACCEPT_GOLDEN=1 rewrites
// the files: read the difference before you commit it.
// Covers: comparison.cpp, equal_report.cpp, page.cpp.
#include <gmock/gmock.h>

#include <fstream>
#include <iterator>
#include <map>
#include <sstream>

#include "harness/text/text_width.h"
#include "harness/watch/judge/watched.h"
#include "harness/watch/tell/equal_report.h"
#include "harness/watch/tell/pages.h"
#include "tests/harness/report/golden.h"
#include "tests/harness/watch/sample_jobs.h"
#include "tests/paths.h"

namespace gradsync::watch {
namespace {

constexpr std::size_t kTerminalWidth = 80;

void expect_page(const std::string& name, const std::string& page) {
  gradsync::test::expect_golden(
      test::path_of("source") + "/tests/harness/watch/tell/golden/" + name + ".txt", page);
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(text::display_width(line), kTerminalWidth) << name << ": " << line;
  }
}

TEST(GoldenWatch, PagesOfAllKindsOfJobs) {
  for (const auto& [name, processes] : gradsync::test::sample_jobs()) {
    expect_page(name, watch_page(summarize(processes)));
  }
}

TEST(GoldenWatch, TwoJobsSideBySide) {
  std::map<std::string, NamedJob> jobs;
  for (const auto& [name, processes] : gradsync::test::sample_jobs()) {
    jobs[name] = {name + ".json", summarize(processes)};
  }
  expect_page("compared_before_and_after",
              watch_comparison(jobs.at("improper"), jobs.at("proper")));
  expect_page("compared_alike", watch_comparison(jobs.at("proper"), jobs.at("proper")));
  expect_page("compared_nothing", watch_comparison(jobs.at("never"), jobs.at("nothing")));
}

std::string text_of(const std::string& file) {
  std::ifstream in(test::path_of("source") + "/" + file);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Pages leave lines out of it.
void expect_in(const std::string& page, const std::string& job, int least_lines) {
  const std::string golden = "tests/harness/watch/tell/golden/" + job + ".txt";
  const std::string whole = "\n" + text_of(golden);
  const std::string text = text_of("harness/watch/" + page);
  const std::size_t start = text.find("<!-- of " + golden + " -->\n\n```\n");
  ASSERT_NE(start, std::string::npos) << page << " does not show " << golden;
  std::istringstream shown(text.substr(start));
  std::string line;
  for (int i = 0; i < 3; ++i) std::getline(shown, line);
  int lines = 0;
  for (; std::getline(shown, line) && line != "```"; ++lines) {
    EXPECT_NE(whole.find("\n" + line + "\n"), std::string::npos) << line;
  }
  EXPECT_GE(lines, least_lines);
}

TEST(GoldenWatch, ExamplesOnPagesAreThoseOfJobs) {
  expect_in("README.md", "improper", 11);
  expect_in("verdicts.md", "hybrid", 11);
  expect_in("verdicts.md", "each_by_hand", 4);
  expect_in("wastes.md", "by_hand", 11);
  expect_in("wastes.md", "chattering", 14);
}

EqualReport equal_report(const std::vector<EqualVerdict>& verdicts) {
  EqualReport report{{"train.py", "{ranks}"}, {1, 1, 16}, {}};
  Split split{2, 4, 2};
  for (const EqualVerdict& verdict : verdicts) {
    report.others.push_back({split, verdict});
    split = {4, 2, 2};
  }
  return report;
}

const EqualVerdict kEqual{EqualKind::Equal, "equal within 0.0001 %", "",
                          GradientDifference{1, 1e-6, 1e-6, "weight"}};
const EqualVerdict kFactor{EqualKind::Factor, "2 times the right gradient",
                           "summed over micro-batches, not averaged",
                           GradientDifference{2, 1, 1e-6, "bias"}};
const EqualVerdict kOtherStart{EqualKind::OtherStart,
                               "weight is not the same before the first step",
                               "runs are to begin with the same parameters: is each rank seeded?"};

TEST(GoldenWatch, TheSameJobSplitThreeTimes) {
  expect_page("equal", equal_page(equal_report({kEqual, kEqual})));
  expect_page("equal_not", equal_page(equal_report({kEqual, kFactor})));
  expect_page("equal_unknown", equal_page(equal_report({kFactor, kOtherStart})));
}

TEST(GoldenWatch, AnUnknownSplitOutweighsAWrongOne) {
  EXPECT_EQ(equality_of(equal_report({kEqual, kEqual})), Equality::Equal);
  EXPECT_EQ(equality_of(equal_report({kEqual, kFactor})), Equality::NotEqual);
  EXPECT_EQ(equality_of(equal_report({kFactor, kOtherStart})), Equality::Unknown);
}

TEST(GoldenWatch, TheFileOfASplitJob) {
  gradsync::test::expect_golden(
      test::path_of("source") + "/tests/harness/watch/tell/golden/equal.json",
      equal_json(equal_report({kFactor, kOtherStart})));
}

}  // namespace
}  // namespace gradsync::watch
