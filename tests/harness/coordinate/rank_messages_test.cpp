// What launcher and ranks tell each other, as it comes out of the channel.
#include "harness/coordinate/rank_messages.h"

#include <gmock/gmock.h>

#include "harness/base/errors.h"

namespace gradsync::coordinate {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

nlohmann::json passed_on(const LauncherMessage& message) {
  return nlohmann::json::parse(to_json(message).dump());
}

TEST(RankMessages, TheWorkOfALaunchSurvivesTheChannel) {
  LaunchSpec spec;
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
  const LaunchSpec back = begin_launch(passed_on(BeginLaunch{spec})).launch;
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
