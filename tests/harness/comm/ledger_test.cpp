#include "harness/comm/ledger.h"

#include <gtest/gtest.h>

#include <array>
#include <thread>

#include "harness/base/errors.h"
#include "tests/harness/measure/fake_timeline.h"

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

TEST(Ledger, ACollectiveOfAnotherNameIsNoBucket) {
  FakeClock clock;
  Ledger ledger(clock);
  ledger.set_place(0, 0);
  ledger.start("all_reduce", 1);
  {
    const RecordedAs outer("outer");
    {
      const RecordedAs inner("inner");
      ledger.start("all_reduce", 2);
    }
    ledger.start("all_gather", 3);
    // Another thread's collectives keep their names.
    std::thread([&] { ledger.start("broadcast", 4); }).join();
  }
  ledger.start("all_reduce", 5);
  const auto events = ledger.events();
  ASSERT_EQ(events.size(), 5U);
  const std::array names{"all_reduce", "inner", "outer", "broadcast", "all_reduce"};
  const std::array buckets{0, -1, -1, -1, 1};
  for (std::size_t i = 0; i < names.size(); ++i) {
    EXPECT_STREQ(events[i].op, names[i]) << i;
    EXPECT_EQ(events[i].bucket, buckets[i]) << i;
  }
}

TEST(Ledger, SettleWaitsForCompletionAndNamesWhatIsMissing) {
  Ledger ledger(steady_clock());
  const auto index = ledger.start("all_reduce", 1);
  EXPECT_THROW(ledger.settle(0.01), CommError);
  std::thread other([&] { ledger.complete(index); });
  ledger.settle(60);
  other.join();
  EXPECT_GT(ledger.events()[0].end_ns, 0);
}

// Two all_reduces queued at once: the second one is ready before the first has ended, and NCCL does
// them in turn.
TEST(Ledger, OnADeviceACollectiveBeginsWhenReadyAndItsTurnHasCome) {
  FakeClock clock;
  test::FakeTimeline timeline;
  Ledger ledger(clock, nullptr, &timeline);
  ledger.set_place(0, 0);
  for (const char* op : {"all_reduce", "all_reduce", "broadcast"}) {
    const auto index = ledger.start(op, 1);
    ledger.complete_on_device(index, timeline.mark(), 0);
  }
  timeline.moments_ns = {100, 500, 200, 900, 1000, 1300};
  ledger.settle(1);
  const auto events = ledger.events();
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[0].start_ns, 100);
  EXPECT_EQ(events[0].end_ns, 500);
  EXPECT_EQ(events[1].start_ns, 500);
  EXPECT_EQ(events[1].end_ns, 900);
  EXPECT_EQ(events[2].start_ns, 1000);
  EXPECT_EQ(events[2].end_ns, 1300);
}

// Hybrid sharding has three communicators: what one does is no reason for another to begin later.
TEST(Ledger, OnADeviceOnlyTheSameCommunicatorsCollectivesAreInEachOthersWay) {
  FakeClock clock;
  test::FakeTimeline timeline;
  Ledger ledger(clock, nullptr, &timeline);
  for (const int queue : {1, 2, 1}) {
    const auto index = ledger.start("all_reduce", 1);
    ledger.complete_on_device(index, timeline.mark(), queue);
  }
  timeline.moments_ns = {100, 900, 200, 500, 300, 1000};
  ledger.settle(1);
  const auto events = ledger.events();
  EXPECT_EQ(events[1].start_ns, 200);
  EXPECT_EQ(events[1].end_ns, 500);
  EXPECT_EQ(events[2].start_ns, 900);
  EXPECT_EQ(events[2].end_ns, 1000);
}

// gloo with a GPU's tensors: ready by the device's queue, complete by the host's clock.
TEST(Ledger, OnADeviceTheHostMayCompleteWhatTheDeviceBegan) {
  FakeClock clock;
  test::FakeTimeline timeline;
  Ledger ledger(clock, nullptr, &timeline);
  const auto index = ledger.start("all_reduce", 1);
  clock.advance_ns(1000);
  ledger.complete(index);
  timeline.moments_ns = {clock.now_ns() - 400};
  ledger.settle(1);
  EXPECT_EQ(ledger.events()[0].end_ns - ledger.events()[0].start_ns, 400);
}

}  // namespace
}  // namespace gradsync::comm
