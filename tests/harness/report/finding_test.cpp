#include "harness/report/findings.h"

#include <gmock/gmock.h>

#include "harness/summary/build_result.h"
#include "harness/text/blocks.h"
#include "tests/harness/results/sample_run.h"

namespace gradsync::report {

using text::Sentences;

namespace {

using nlohmann::json;
using results::TrialRecord;
using test::sample_cell;
using test::sample_trial;
using ::testing::HasSubstr;
using ::testing::Not;

std::string sentences(const results::Result& result) {
  return text::to_markdown({Sentences{findings(summary::parts_of(result).front())}});
}

// Four launches whose steps differ a little; each strategy takes `factor` times as long as no_sync.
std::string finding_of(const std::map<std::string, double>& factors) {
  std::vector<TrialRecord> trials;
  for (int launch = 0; launch < 4; ++launch) {
    for (const auto& [strategy, factor] : factors) {
      const double wobble = strategy == "no_sync" ? 1 : 1 + 0.01 * (launch - 1.5);
      trials.push_back(
          sample_trial("", sample_cell("2x1_1gbit", strategy), launch, {factor * wobble}));
    }
  }
  const auto result = summary::build_result(test::sample_context(), json::object(), trials);
  return sentences(result);
}

TEST(Finding, SaysTheFactorAndThatAMisplacedNoSyncSavesNothing) {
  const std::string text = finding_of(
      {{"baseline", 2.2}, {"no_sync_improper", 2.2}, {"no_sync", 1.0}, {"accumulate", 1.0}});
  EXPECT_THAT(text, HasSubstr("On 2 nodes, syncing every micro-batch costs 2.20x [2.15, 2.25]"));
  EXPECT_THAT(text, HasSubstr("a no_sync that misses forward saves nothing"));
  EXPECT_THAT(text, HasSubstr("accumulate does as well as no_sync"));
}

TEST(Finding, DoesNotSayItSavesNothingWhereItDoesSave) {
  const std::string text =
      finding_of({{"baseline", 2.2}, {"no_sync_improper", 1.5}, {"no_sync", 1.0}});
  EXPECT_THAT(text, Not(HasSubstr("saves nothing")));
  EXPECT_THAT(text, HasSubstr("takes 0.68x"));
}

TEST(Finding, ADifferenceThatCannotBeToldIsNotClaimed) {
  EXPECT_THAT(finding_of({{"baseline", 1.001}, {"no_sync", 1.0}}),
              HasSubstr("costs no measurable time (1.00x [0.98, 1.02])"));
}

TEST(Finding, OfOneLaunchIsSaidToBeThatAndNoMore) {
  std::vector<TrialRecord> trials;
  for (const auto& [strategy, step] :
       std::map<std::string, double>{{"baseline", 2.0}, {"no_sync", 1.0}, {"accumulate", 0.93}}) {
    trials.push_back(sample_trial("", sample_cell("2x1_1gbit", strategy), 0, {step}));
  }
  const auto result = summary::build_result(test::sample_context(), json::object(), trials);
  EXPECT_EQ(sentences(result),
            "On 2 nodes, syncing every micro-batch cost 2.00x in the one launch that ran; "
            "accumulate took "
            "0.93x of no_sync.\n");
}

// The interval of either reaches beyond 3 %: neither that they are the same nor that they differ.
TEST(Finding, SamenessIsNotClaimedWhereTheIntervalIsWide) {
  std::vector<TrialRecord> trials;
  for (int launch = 0; launch < 4; ++launch) {
    for (const char* strategy : {"baseline", "no_sync_improper", "no_sync", "accumulate"}) {
      const double wobble = launch % 2 == 0 ? 1 : 1.06;
      const bool moves =
          std::string(strategy) == "accumulate" || std::string(strategy) == "no_sync_improper";
      trials.push_back(
          sample_trial("", sample_cell("2x1_1gbit", strategy), launch, {moves ? wobble : 1.03}));
    }
  }
  const auto result = summary::build_result(test::sample_context(), json::object(), trials);
  const std::string text = sentences(result);
  EXPECT_THAT(text, HasSubstr("a no_sync that misses forward shows no clear difference: 1.00x ["));
  EXPECT_THAT(text, HasSubstr("accumulate shows no clear difference: 1.00x ["));
}

TEST(Finding, WithoutAPairThereIsNoSentence) {
  EXPECT_EQ(finding_of({{"baseline", 2.0}}), "");
  EXPECT_EQ(finding_of({{"no_sync", 1.0}, {"accumulate", 1.0}}), "");
}

TEST(Finding, OnlyWhatWaitedIsCalledPaced) {
  std::vector<results::TrialRecord> trials;
  for (const char* model : {"bert_mini", "recorded.json"}) {
    for (const auto& [strategy, step_s] : {std::pair{"baseline", 2.0}, std::pair{"no_sync", 1.0}}) {
      trials.push_back(sample_trial("", sample_cell("2x1_1gbit", strategy, model), 0, {step_s}));
      trials.back().model_info->paced = std::string(model) == "recorded.json";
    }
  }
  const auto result = summary::build_result(test::sample_context(), {}, trials);
  const std::string text = sentences(result);
  EXPECT_THAT(text, HasSubstr("model recorded.json (paced compute)"));
  EXPECT_THAT(text, Not(HasSubstr("model bert_mini (paced compute)")));
}

}  // namespace
}  // namespace gradsync::report
