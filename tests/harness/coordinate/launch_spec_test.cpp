// What a launcher tells its ranks, as it comes out of the channel.
#include "harness/coordinate/launch_spec.h"

#include <gtest/gtest.h>

namespace gradsync::coordinate {
namespace {

TEST(LaunchSpecJson, SurvivesTheChannel) {
  LaunchSpec spec;
  plan::Trial trial;
  trial.order = 7;
  trial.cell.strategy = "no_sync";
  trial.cell.scale = 50;
  trial.steps = 5;
  trial.distance_steps = 6;
  spec.trials = {trial};
  spec.seed = 9;
  spec.as_published = true;
  spec.resident = true;
  spec.extra_work = 0.03;
  const LaunchSpec back = launch_spec_from_json(nlohmann::json::parse(to_json(spec).dump()));
  EXPECT_EQ(back.trials.at(0).order, 7);
  EXPECT_EQ(back.trials.at(0).cell, trial.cell);
  EXPECT_EQ(back.trials.at(0).distance_steps, 6);
  EXPECT_EQ(back.seed, 9U);
  EXPECT_TRUE(back.as_published);
  EXPECT_TRUE(back.resident);
  EXPECT_EQ(back.extra_work, 0.03);
}

}  // namespace
}  // namespace gradsync::coordinate
