#include "harness/comm/ledger.h"

#include <gtest/gtest.h>

#include <thread>

#include "harness/base/errors.h"

namespace gradsync::comm {
namespace {

TEST(Ledger, KnowsPlaceBucketAndTimes) {
  FakeClock clock;
  Ledger ledger(clock);
  ledger.start("broadcast", 8);
  ledger.set_place(3, 1);
  const auto first = ledger.start("all_reduce", 100);
  const auto second = ledger.start("all_reduce", 200);
  clock.advance_ns(50);
  ledger.complete(second);
  clock.advance_ns(50);
  ledger.complete(first);
  const auto events = ledger.events();
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[0].step, -1);
  EXPECT_EQ(events[0].bucket, -1);
  EXPECT_EQ(events[1].step, 3);
  EXPECT_EQ(events[1].micro_batch, 1);
  EXPECT_EQ(events[1].bucket, 0);
  EXPECT_EQ(events[2].bucket, 1);
  EXPECT_EQ(events[2].bytes, 200);
  EXPECT_EQ(events[1].end_ns - events[1].start_ns, 100);
  EXPECT_EQ(events[2].end_ns - events[2].start_ns, 50);
  EXPECT_EQ(events[0].end_ns, 0);
}

TEST(Ledger, BucketsCountAnewInEachMicroBatch) {
  FakeClock clock;
  Ledger ledger(clock);
  for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
    ledger.set_place(0, micro_batch);
    ledger.start("all_reduce", 1);
  }
  EXPECT_EQ(ledger.events()[1].bucket, 0);
}

TEST(Ledger, SettleWaitsForCompletionAndNamesWhatIsMissing) {
  Ledger ledger(steady_clock());
  const auto index = ledger.start("all_reduce", 1);
  EXPECT_THROW(ledger.settle(0.01), CommError);
  std::thread other([&] { ledger.complete(index); });
  ledger.settle(5);
  other.join();
  EXPECT_GT(ledger.events()[0].end_ns, 0);
}

}  // namespace
}  // namespace gradsync::comm
