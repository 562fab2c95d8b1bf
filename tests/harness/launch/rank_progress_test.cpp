#include "harness/launch/rank_progress.h"

#include <gtest/gtest.h>

#include "harness/base/errors.h"

namespace gradsync::launch {
namespace {

TEST(RankProgress, SaysNothingOfStepsBeforeTheFirst) {
  RankProgress progress{};
  EXPECT_EQ(describe(progress), "starting");
}

TEST(RankProgress, CountsFromOneForPeople) {
  RankProgress progress{};
  progress.step = 2;
  progress.micro_batch = 1;
  progress.activity = Activity::Backward;
  EXPECT_EQ(describe(progress), "step 3, micro-batch 2, backward");
}

TEST(RankProgress, NamesTheOldestCollectiveInFlight) {
  RankProgress progress{};
  progress.activity = Activity::Wait;
  progress.collective = 9;
  progress.completed = 6;
  EXPECT_EQ(describe(progress),
            "step 1, micro-batch 1, waiting for communication, in collective #7");
  progress.completed = 9;
  EXPECT_EQ(describe(progress), "step 1, micro-batch 1, waiting for communication");
}

TEST(RankProgress, RefusesWhatIsNoMemory) {
  EXPECT_THROW(map_rank_progress(-1), EnvironmentError);
}

}  // namespace
}  // namespace gradsync::launch
