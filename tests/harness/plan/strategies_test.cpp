// The list of strategies and wrappers, and what strategies declare.
#include "harness/plan/strategies.h"

#include <gmock/gmock.h>

#include "harness/base/errors.h"
#include "tests/models/temporary_folder.h"

namespace gradsync::plan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using Syncs = std::vector<bool>;

TEST(Strategies, DeclareWhichMicroBatchesReduce) {
  EXPECT_EQ(declared_syncs("ddp", "baseline", 3), (Syncs{true, true, true}));
  EXPECT_EQ(declared_syncs("ddp", "no_sync", 3), (Syncs{false, false, true}));
  EXPECT_EQ(declared_syncs("fsdp", "accumulate", 3), (Syncs{false, false, true}));
  EXPECT_EQ(declared_syncs("fsdp", "sync_each_batch", 3), (Syncs{true, true, true}));
  EXPECT_EQ(declared_syncs("pipeline", "pipelined", 3), (Syncs{false, false, false}));
  EXPECT_EQ(declared_syncs("ddp", "no_sync", 1), (Syncs{true}));
}

TEST(Strategies, AMisplacedNoSyncSavesReductionsWhereTheFlagIsReadInBackward) {
  EXPECT_EQ(declared_syncs("ddp", "no_sync_improper", 2), (Syncs{true, true}));
  for (const char* wrapper : {"fsdp", "by_hand", "by_hand_coalesced"}) {
    EXPECT_EQ(declared_syncs(wrapper, "no_sync_improper", 2), (Syncs{false, true})) << wrapper;
  }
}

TEST(Strategies, SynchronizeEveryMicroBatchOrNot) {
  EXPECT_TRUE(syncs_every_micro_batch("ddp", "no_sync_improper"));
  EXPECT_FALSE(syncs_every_micro_batch("fsdp", "no_sync_improper"));
  EXPECT_TRUE(syncs_every_micro_batch("fsdp", "sync_each_batch"));
  EXPECT_FALSE(syncs_every_micro_batch("ddp", "one of a later version"));
  EXPECT_FALSE(syncs_every_micro_batch("a wrapper of a later version", "baseline"));
}

TEST(Strategies, RunUnderTheirWrappers) {
  EXPECT_THAT(strategies_under("ddp"),
              ElementsAre("baseline", "no_sync_improper", "no_sync", "accumulate"));
  EXPECT_THAT(strategies_under("local"), ElementsAre("baseline"));
  EXPECT_THAT(strategies_under("pipeline"), ElementsAre("baseline", "pipelined"));
  for (const StrategyEntry& entry : strategies()) {
    for (const std::string& wrapper : entry.wrappers) EXPECT_NO_THROW(find_wrapper(wrapper));
  }
}

TEST(Strategies, AnUnknownNameIsAnsweredByThoseThereAre) {
  EXPECT_THAT(test::message_of<ConfigError>([] { find_strategy("nosync"); }),
              HasSubstr("unknown strategy 'nosync', expected one of baseline, sync_each_batch"));
  EXPECT_THAT(test::message_of<ConfigError>([] { find_wrapper("dpp"); }), HasSubstr("ddp, fsdp"));
}

}  // namespace
}  // namespace gradsync::plan
