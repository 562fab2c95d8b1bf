// Covers: race_page.cpp.
#include "harness/summary/race.h"

#include <gmock/gmock.h>

#include "harness/report/search_page.h"
#include "tests/harness/report/golden.h"
#include "tests/harness/results/sample_run.h"

namespace gradsync::summary {
namespace {

using nlohmann::json;
using results::TrialRecord;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<std::string> kLevers{"none", "every_2", "full"};

json lever_cell(const std::string& lever) {
  json cell = test::sample_cell("2x1_1gbit", "no_sync");
  cell["activation_checkpointing"] = lever;
  return cell;
}

Race race_of_three() {
  Race race;
  race.plan = "levers";
  race.launches = 4;
  for (const std::string& lever : kLevers) {
    Contender one;
    one.cell = lever_cell(lever);
    race.contenders.push_back(one);
  }
  return race;
}

// A launch: seconds of each way that runs, by its lever.
using LaunchTimes = std::vector<std::pair<std::string, double>>;

std::vector<TrialRecord> trials_in(const std::vector<LaunchTimes>& launches) {
  std::vector<TrialRecord> trials;
  for (std::size_t launch = 0; launch < launches.size(); ++launch) {
    for (const auto& [lever, step_s] : launches[launch]) {
      trials.push_back(
          test::sample_trial("", lever_cell(lever), static_cast<int>(launch), {step_s, step_s}));
    }
  }
  return trials;
}

void judge_all(Race& race, const std::vector<TrialRecord>& trials) {
  judge(race, test::sample_context(), json::object(), trials);
}

std::vector<Standing> standings(const Race& race) {
  std::vector<Standing> list;
  for (const Contender& one : race.contenders) list.push_back(one.standing);
  return list;
}

TEST(Race, AfterOneLaunchOnlyAWideMarginPutsOut) {
  Race race = race_of_three();
  judge_all(race, trials_in({{{"none", 1.0}, {"every_2", 1.49}, {"full", 1.51}}}));
  EXPECT_THAT(standings(race), ElementsAre(Standing::Racing, Standing::Racing, Standing::Slower));
  EXPECT_NEAR(race.contenders[2].vs_fastest->ratio, 1.51, 1e-9);
  EXPECT_EQ(starters(race, "", false).size(), 2U);
}

TEST(Race, AfterTwoASmallerOne) {
  Race race = race_of_three();
  judge_all(race, trials_in({{{"none", 1.0}, {"every_2", 1.24}, {"full", 1.26}},
                             {{"none", 2.0}, {"every_2", 2.48}, {"full", 2.52}}}));
  EXPECT_THAT(standings(race), ElementsAre(Standing::Racing, Standing::Racing, Standing::Slower));
}

TEST(Race, FromThreeOnAnIntervalAboveOne) {
  Race race = race_of_three();
  judge_all(race, trials_in({{{"none", 1.00}, {"every_2", 1.05}, {"full", 1.0}},
                             {{"none", 1.10}, {"every_2", 1.155}, {"full", 1.3}},
                             {{"none", 1.20}, {"every_2", 1.262}, {"full", 1.1}}}));
  EXPECT_THAT(standings(race), ElementsAre(Standing::Racing, Standing::Slower, Standing::Racing))
      << "5 % in every launch is a clear difference, more or less of it in each is not";
  end_race(race);
  EXPECT_THAT(standings(race), ElementsAre(Standing::Fastest, Standing::Slower, Standing::Close));
}

TEST(Race, WhoIsOutStaysOutWhateverComesLater) {
  Race race = race_of_three();
  judge_all(race, trials_in({{{"none", 1.0}, {"every_2", 1.0}, {"full", 9.0}}}));
  judge_all(race, trials_in({{{"none", 5.0}, {"every_2", 5.0}, {"full", 0.1}},
                             {{"none", 5.0}, {"every_2", 5.0}}}));
  EXPECT_EQ(race.contenders[2].standing, Standing::Slower);
  EXPECT_EQ(race.contenders[2].launches, 1U);
}

TEST(Race, WhatRunsOutOrFailsIsOutWithItsReason) {
  Race race = race_of_three();
  auto trials = trials_in({{{"none", 1.0}, {"every_2", 1.0}, {"full", 1.0}}});
  trials[0].status = results::Status::Oom;
  trials[0].reason = "micro-batch 2, backward";
  trials[1].status = results::Status::Failed;
  trials[1].reason = "rank 1 ended";
  judge_all(race, trials);
  EXPECT_TRUE(starters(race, "", false).empty());
  end_race(race);
  EXPECT_THAT(standings(race),
              ElementsAre(Standing::OutOfMemory, Standing::Failed, Standing::Fastest));
  EXPECT_EQ(race.contenders[0].reason, "micro-batch 2, backward");
}

TEST(Race, WithoutTimesThatCountNothingIsTheFastest) {
  Race race = race_of_three();
  results::Context context = test::sample_context();
  json written = context.written;
  written["timing_valid"] = false;
  written["timing_reason"] = "a debug build";
  judge(race, results::Context(written), json::object(),
        trials_in({{{"none", 1.0}, {"every_2", 9.0}, {"full", 2.0}}}));
  EXPECT_EQ(starters(race, "", false).size(), 3U);
  end_race(race);
  EXPECT_THAT(standings(race),
              ElementsAre(Standing::Untimed, Standing::Untimed, Standing::Untimed));
  EXPECT_THAT(race.contenders[0].reason, HasSubstr("a debug build"));
}

TEST(Race, OtherWorkHasARaceOfItsOwn) {
  Race race = race_of_three();
  race.contenders[2].cell = race.contenders[2].cell.with("accumulation_steps", 1);
  EXPECT_EQ(works_of(race.contenders).size(), 2U);
  end_race(race);
  EXPECT_TRUE(starters(race, "", false).empty()) << "no way races any more";
}

TEST(Race, ThePageSaysHowItEndedForEach) {
  Race race = race_of_three();
  race.contenders[0].standing = Standing::TooLarge;
  race.contenders[0].predicted_peak_bytes = 300 << 20;
  race.contenders[0].reason = "by the formula it holds 300.0 MiB, of a budget of 200.0 MiB";
  for (Contender& one : race.contenders) {
    one.cell = one.cell.with("memory_budget_bytes", 200 << 20);
  }
  auto trials = trials_in({{{"every_2", 1.0}, {"full", 2.0}}});
  for (TrialRecord& trial : trials) {
    trial.cell = trial.cell.with("memory_budget_bytes", 200 << 20);
  }
  judge_all(race, trials);
  end_race(race);
  const std::string page = report::race_markdown(race, "out/");
  test::expect_phrases("summary", {page});
}

}  // namespace
}  // namespace gradsync::summary
