// Covers: run_answer.cpp, run_pictures.cpp, part_page.cpp.
#include "harness/report/html/run_page.h"

#include <gmock/gmock.h>

#include "harness/summary/build_result.h"
#include "tests/harness/results/sample_run.h"
#include "tests/paths.h"

namespace gradsync::html {
namespace {

using results::Result;
using results::Status;
using test::SampleRun;
using ::testing::HasSubstr;
using ::testing::Not;

Result result_of(const SampleRun& run) {
  return summary::build_result(run.context, run.plan, run.trials);
}

std::string page_of(const Result& result) {
  return run_page(result, report::read_references(test::path_of("source") + "/results/reference"),
                  "results/runs/sample/");
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(RunPage, TheAnswerStandsFirstThenNumbersClaimsAndHow) {
  const std::string text = page_of(result_of(test::sample_run()));
  const auto answer = text.find("<h1>Synchronizing in every micro-batch makes a step");
  const auto numbers = text.find("<section id=\"numbers\">");
  const auto claims = text.find("<section id=\"claims\">");
  const auto how = text.find("<section id=\"how\">");
  ASSERT_NE(how, std::string::npos);
  EXPECT_LT(answer, numbers);
  EXPECT_LT(numbers, claims);
  EXPECT_LT(claims, how);
  EXPECT_THAT(text, HasSubstr("as long on 2 nodes x 1 rank"));
}

TEST(RunPage, HasTheTablesOfTheMarkdownPageAndItsPictures) {
  const std::string text = page_of(result_of(test::sample_run()));
  EXPECT_THAT(text, HasSubstr("<td class=\"l\">no_sync (reference)</td>"));
  EXPECT_THAT(text, HasSubstr("Seconds per step, with 95 % intervals."));
  EXPECT_THAT(text, HasSubstr("aria-label=\"2 nodes x 1 rank"));
  EXPECT_EQ(count_of(text, "<div class=\"claim\">"), 5U);
  EXPECT_THAT(text, HasSubstr("holds here"));
  EXPECT_THAT(text, HasSubstr("memory_sweep measures it"));
  EXPECT_THAT(text, HasSubstr("<dt>torch</dt>"));
  EXPECT_THAT(text, HasSubstr("results/runs/sample/"));
}

TEST(RunPage, OfMemoryBeginsWithWhoRanOut) {
  const std::string text = page_of(result_of(test::sample_memory_run()));
  EXPECT_THAT(text, HasSubstr("<h1>no_sync runs out of"));
  EXPECT_THAT(text, HasSubstr("the dashed line is the budget"));
  EXPECT_THAT(text, HasSubstr("class=\"out\""));
}

TEST(RunPage, OfOneLaunchDecidesNothing) {
  SampleRun run = test::sample_run();
  std::erase_if(run.trials, [](const auto& trial) { return trial.launch > 0; });
  const std::string text = page_of(result_of(run));
  EXPECT_THAT(text, HasSubstr("<h1>Not decided yet: on"));
  EXPECT_THAT(text, HasSubstr("too few launches for intervals"));
  EXPECT_THAT(text, Not(HasSubstr("badge good")));
}

TEST(RunPage, OfRowsThatBearOnNothingSaysSo) {
  SampleRun run = test::sample_run();
  std::erase_if(run.trials, [](const auto& trial) { return trial.cell.strategy() != "no_sync"; });
  EXPECT_THAT(page_of(result_of(run)), HasSubstr("none of them bears on what"));
}

TEST(RunPage, NothingOfARunIsMarkup) {
  SampleRun run = test::sample_run();
  const std::string evil = "<img src=x onerror=alert(1)>\"'";
  run.context["cpu_model"] = evil;
  run.context["warnings"] = {evil};
  run.plan["name"] = evil;
  for (auto& trial : run.trials) {
    trial.cell = trial.cell.with("model", evil);
    trial.part = evil;
  }
  Result result = result_of(run);
  result.cells.front().status = Status::Failed;
  result.cells.front().reason = evil;
  const std::string text = page_of(result);
  EXPECT_THAT(text, Not(HasSubstr("<img")));
  EXPECT_GT(count_of(text, "&lt;img"), 5U);
}

}  // namespace
}  // namespace gradsync::html
