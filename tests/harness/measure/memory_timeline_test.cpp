// A timeline's points while there is room, and what remains when there is none.
#include <gtest/gtest.h>

#include "harness/measure/memory_timeline.h"

namespace gradsync::measure {
namespace {

MemoryPoint point(std::int64_t time_ns, std::int64_t activation_bytes,
                  std::int64_t communication_bytes = 0) {
  MemoryPoint result;
  result.time_ns = time_ns;
  bytes_of(result.bytes, MemoryCategory::Activation) = activation_bytes;
  bytes_of(result.bytes, MemoryCategory::Communication) = communication_bytes;
  return result;
}

// {time, bytes} of each point.
std::vector<std::pair<std::int64_t, std::int64_t>> summary(MemoryTimeline& timeline) {
  std::vector<std::pair<std::int64_t, std::int64_t>> points;
  for (const MemoryPoint& point : timeline.take()) {
    points.emplace_back(point.time_ns, total_bytes(point.bytes));
  }
  return points;
}

TEST(MemoryTimeline, KeepsEveryChangeWhileThereIsRoom) {
  MemoryTimeline timeline(4);
  for (const std::int64_t bytes : {10, 30, 20, 5}) timeline.add(point(100 + bytes, bytes));
  const std::vector<std::pair<std::int64_t, std::int64_t>> expected{
      {110, 10}, {130, 30}, {120, 20}, {105, 5}};
  EXPECT_EQ(summary(timeline), expected);
}

TEST(MemoryTimeline, MergesNeighboursIntoTheHigherOne) {
  MemoryTimeline timeline(4);
  // Pairs (10, 30) and (20, 5) become 30 and 20; from then on a point stands for two changes.
  for (const std::int64_t bytes : {10, 30, 20, 5, 7, 9, 8}) timeline.add(point(bytes, bytes));
  const std::vector<std::pair<std::int64_t, std::int64_t>> expected{
      {30, 30}, {20, 20}, {9, 9}, {8, 8}};
  EXPECT_EQ(summary(timeline), expected);
}

TEST(MemoryTimeline, KeepsThePeakWithItsCompositionHoweverLongItRuns) {
  constexpr std::size_t kMaxPoints = 7;
  MemoryTimeline timeline(kMaxPoints);
  for (std::int64_t i = 0; i < 1000; ++i) timeline.add(point(i, i % 13, i == 613 ? 50 : 0));
  const auto points = timeline.take();
  EXPECT_LE(points.size(), kMaxPoints);
  std::int64_t last_ns = -1;
  int peaks = 0;
  for (const MemoryPoint& kept : points) {
    EXPECT_GT(kept.time_ns, last_ns);
    last_ns = kept.time_ns;
    if (kept.time_ns != 613) continue;
    ++peaks;
    EXPECT_EQ(bytes_of(kept.bytes, MemoryCategory::Activation), 613 % 13);
    EXPECT_EQ(bytes_of(kept.bytes, MemoryCategory::Communication), 50);
  }
  EXPECT_EQ(peaks, 1);
}

}  // namespace
}  // namespace gradsync::measure
