#include "harness/launch/rank_page.h"

#include <gtest/gtest.h>

#include "harness/base/errors.h"

namespace gradsync::launch {
namespace {

TEST(RankPage, SaysNothingOfStepsBeforeTheFirst) {
  RankPage page{};
  EXPECT_EQ(describe(page), "starting");
}

TEST(RankPage, CountsFromOneForPeople) {
  RankPage page{};
  page.step = 2;
  page.micro_batch = 1;
  page.activity = Activity::Backward;
  EXPECT_EQ(describe(page), "step 3, micro-batch 2, backward");
}

TEST(RankPage, NamesTheOldestCollectiveInFlight) {
  RankPage page{};
  page.activity = Activity::Wait;
  page.collective = 9;
  page.completed = 6;
  EXPECT_EQ(describe(page), "step 1, micro-batch 1, waiting for communication, in collective #7");
  page.completed = 9;
  EXPECT_EQ(describe(page), "step 1, micro-batch 1, waiting for communication");
}

TEST(RankPage, RefusesWhatIsNoPage) {
  EXPECT_THROW(map_rank_page(-1), EnvironmentError);
}

}  // namespace
}  // namespace gradsync::launch
