// What launcher and ranks tell each other, as it comes out of the channel.
#include "harness/coordinate/rank_messages.h"

#include <gmock/gmock.h>

#include "harness/base/errors.h"
#include "tests/harness/account/made_account.h"

namespace gradsync::coordinate {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

nlohmann::json passed_on(const LauncherMessage& message) {
  return nlohmann::json::parse(to_json(message).dump());
}

TEST(RankMessages, TheWorkOfALaunchSurvivesTheChannel) {
  launch::LaunchSpec spec;
  plan::Trial trial;
  trial.order = 7;
  trial.cell.strategy = "no_sync";
  trial.cell.scale = 50;
  trial.steps = 5;
  trial.distance_steps = 6;
  trial.timed = false;
  spec.trials = {trial};
  spec.seed = 9;
  spec.as_published = true;
  spec.every_micro_batch = true;
  spec.resident = true;
  spec.extra_work = 0.03;
  const launch::LaunchSpec back = begin_launch(passed_on(BeginLaunch{spec})).launch;
  EXPECT_EQ(back.trials.at(0).order, 7);
  EXPECT_EQ(back.trials.at(0).cell, trial.cell);
  EXPECT_EQ(back.trials.at(0).distance_steps, 6);
  EXPECT_FALSE(back.trials.at(0).timed);
  EXPECT_TRUE(back.every_micro_batch);
  EXPECT_EQ(back.seed, 9U);
  EXPECT_TRUE(back.as_published);
  EXPECT_TRUE(back.resident);
  EXPECT_EQ(back.extra_work, 0.03);
}

TEST(RankMessages, OneMessageIsNotTakenForAnother) {
  plan::Trial trial;
  trial.order = 4;
  EXPECT_EQ(run_trial(passed_on(RunTrial{trial})).trial.order, 4);
  EXPECT_THROW(begin_launch(passed_on(RunTrial{})), InternalError);
  EXPECT_TRUE(std::holds_alternative<RankReady>(rank_message(to_json(RankReady{}), "rank 1")));
  EXPECT_TRUE(std::holds_alternative<RankDone>(rank_message(to_json(RankDone{}), "rank 1")));
}

TrialDone passed_back(const TrialDone& done) {
  return std::get<TrialDone>(
      rank_message(nlohmann::json::parse(to_json(RankMessage(done)).dump()), "rank 1"));
}

TEST(RankMessages, AnAccountArrivesAsItWasRecorded) {
  TrialDone done;
  done.account = gradsync::test::MadeAccount{.is_sharded = true}.records()[1];
  const auto back = passed_back(done);
  ASSERT_TRUE(back.account);
  EXPECT_EQ(back.account->rank, 1);
  EXPECT_EQ(back.account->steps.at(0).micro_batches, 4);
  const account::ParameterRecord& sent = done.account->parameters.at(1);
  const account::ParameterRecord& got = back.account->parameters.at(1);
  EXPECT_EQ(got.name, sent.name);
  EXPECT_EQ(std::tuple(got.index, got.elements, got.offset, got.length),
            std::tuple(sent.index, sent.elements, sent.offset, sent.length));
  EXPECT_EQ(got.gradient, sent.gradient);
  EXPECT_EQ(got.contributions.at(3).sketch, sent.contributions.at(3).sketch);
  done.account.reset();
  done.account_why_not = "folded";
  EXPECT_EQ(passed_back(done).account_why_not, "folded");
}

TEST(RankMessages, WhatIsNoMessageIsSaidWithItsSender) {
  const auto read = [](const char* text) { rank_message(nlohmann::json::parse(text), "rank 1"); };
  EXPECT_THAT([&] { read(R"({"event": "dnoe"})"); },
              ThrowsMessage<InternalError>(HasSubstr("rank 1 said what is no message: {")));
  EXPECT_THAT([&] { read(R"({"event": "store", "port": 65536})"); },
              ThrowsMessage<InternalError>(HasSubstr("field 'port': got 65536")));
  EXPECT_THROW(read("7"), InternalError);
}

}  // namespace
}  // namespace gradsync::coordinate
