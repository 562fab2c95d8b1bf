// What the caching allocator would reserve: streams of allocations worked by hand.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "harness/base/errors.h"
#include "harness/measure/caching_allocator_model.h"

namespace gradsync::measure {
namespace {

constexpr std::int64_t kMiB = 1 << 20;

// Names the allocations of a test 0, 1, 2, ...
class Gpu {
 public:
  explicit Gpu(std::optional<std::int64_t> limit_bytes = std::nullopt) : model(limit_bytes) {}

  std::uint64_t allocate(std::int64_t bytes) {
    EXPECT_TRUE(model.allocate(next_, bytes)) << bytes << " bytes";
    return next_++;
  }

  CachingAllocatorModel model;

 private:
  std::uint64_t next_ = 0;
};

struct Held {
  std::int64_t allocated_bytes;
  std::int64_t reserved_bytes;
  bool operator==(const Held&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Held& held) {
  return out << held.allocated_bytes << " of " << held.reserved_bytes << " bytes";
}
Held held(const Gpu& gpu) {
  return {gpu.model.allocated_bytes(), gpu.model.reserved_bytes()};
}

// Returns what one allocation on an empty GPU holds.
Held held_by(std::int64_t bytes) {
  Gpu gpu;
  gpu.allocate(bytes);
  return held(gpu);
}

TEST(CachingAllocatorModel, OneAllocationIsRoundedAndGetsItsKindOfSegment) {
  EXPECT_EQ(held_by(1), (Held{512, 2 * kMiB}));
  EXPECT_EQ(held_by(512), (Held{512, 2 * kMiB}));
  EXPECT_EQ(held_by(513), (Held{1024, 2 * kMiB}));
  EXPECT_EQ(held_by(kMiB), (Held{kMiB, 2 * kMiB}));             // the largest small one
  EXPECT_EQ(held_by(kMiB + 1), (Held{kMiB + 512, 20 * kMiB}));  // the smallest large one
  EXPECT_EQ(held_by(10 * kMiB - 512), (Held{10 * kMiB - 512, 20 * kMiB}));
  EXPECT_EQ(held_by(10 * kMiB), (Held{10 * kMiB, 10 * kMiB}));  // from here a segment of its own
  EXPECT_EQ(held_by(433 * kMiB), (Held{434 * kMiB, 434 * kMiB}));
}

TEST(CachingAllocatorModel, RemainderOfALargeBlockIsSplitOnlyAboveOneMebibyte) {
  // 12 MiB segments: 1 MiB + 512 bytes remain and are split off; exactly 1 MiB is not.
  EXPECT_EQ(held_by(11 * kMiB - 512), (Held{11 * kMiB - 512, 12 * kMiB}));
  EXPECT_EQ(held_by(11 * kMiB), (Held{12 * kMiB, 12 * kMiB}));
}

TEST(CachingAllocatorModel, SmallOnesShareASegmentToTheLastBlock) {
  Gpu gpu;
  for (int i = 0; i < 4096; ++i) gpu.allocate(100);  // 4096 x 512 bytes = 2 MiB
  EXPECT_EQ(held(gpu), (Held{2 * kMiB, 2 * kMiB}));
  gpu.allocate(100);
  EXPECT_EQ(held(gpu), (Held{2 * kMiB + 512, 4 * kMiB}));
}

TEST(CachingAllocatorModel, ASegmentIsAtTheLowestAddressThatIsFree) {
  Gpu gpu(24 * kMiB);
  const std::uint64_t first = gpu.allocate(10 * kMiB);
  gpu.allocate(10 * kMiB);
  gpu.model.free(first);
  gpu.allocate(12 * kMiB);  // has the first segment given back, and no room in its place
  EXPECT_GT(gpu.model.blocks().begin()->first, 0);
  gpu.allocate(1);
  EXPECT_EQ(gpu.model.blocks().begin()->first, 0);
}

TEST(CachingAllocatorModel, MiddleSizesShareTwentyMebibytes) {
  Gpu gpu;
  for (int i = 0; i < 4; ++i) gpu.allocate(5 * kMiB);
  EXPECT_EQ(held(gpu), (Held{20 * kMiB, 20 * kMiB}));
  gpu.allocate(5 * kMiB);
  EXPECT_EQ(held(gpu), (Held{25 * kMiB, 40 * kMiB}));
}

TEST(CachingAllocatorModel, FreedSegmentsAreKeptAndUsedAgain) {
  Gpu gpu;
  gpu.model.free(gpu.allocate(30 * kMiB));
  EXPECT_EQ(held(gpu), (Held{0, 30 * kMiB}));
  gpu.allocate(12 * kMiB);  // cut from it
  EXPECT_EQ(held(gpu), (Held{12 * kMiB, 30 * kMiB}));
  gpu.allocate(18 * kMiB);  // and the rest of it
  EXPECT_EQ(held(gpu), (Held{30 * kMiB, 30 * kMiB}));
  gpu.allocate(2 * kMiB);
  EXPECT_EQ(held(gpu), (Held{32 * kMiB, 50 * kMiB}));
}

TEST(CachingAllocatorModel, SmallestBlockThatFitsIsTaken) {
  Gpu gpu;
  const auto large = gpu.allocate(40 * kMiB);
  const auto medium = gpu.allocate(14 * kMiB);
  gpu.model.free(large);
  gpu.model.free(medium);
  gpu.allocate(13 * kMiB);  // the 14 MiB one, and all of it
  EXPECT_EQ(held(gpu), (Held{14 * kMiB, 54 * kMiB}));
  gpu.allocate(40 * kMiB);  // so the other is still whole
  EXPECT_EQ(held(gpu), (Held{54 * kMiB, 54 * kMiB}));
}

TEST(CachingAllocatorModel, NeighboursAreJoinedWhenFreed) {
  // Each order in which three blocks of one segment (and its unused end) can be freed.
  for (const std::vector<std::uint64_t>& order : std::vector<std::vector<std::uint64_t>>{
           {0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}) {
    Gpu gpu;
    for (int i = 0; i < 3; ++i) gpu.allocate(4 * kMiB);
    for (const std::uint64_t id : order) gpu.model.free(id);
    gpu.allocate(20 * kMiB);
    EXPECT_EQ(held(gpu), (Held{20 * kMiB, 20 * kMiB})) << order[0] << order[1] << order[2];
  }
}

TEST(CachingAllocatorModel, BlocksOfTwoSegmentsAreNeverJoined) {
  Gpu gpu;
  const auto first = gpu.allocate(10 * kMiB);
  const auto second = gpu.allocate(10 * kMiB);
  gpu.model.free(first);
  gpu.model.free(second);
  gpu.allocate(20 * kMiB);
  EXPECT_EQ(held(gpu), (Held{20 * kMiB, 40 * kMiB}));
}

TEST(CachingAllocatorModel, HolesThatDoNotFitAreReservedInVain) {
  Gpu gpu;
  std::vector<std::uint64_t> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(gpu.allocate(5 * kMiB));
  gpu.model.free(blocks[0]);
  gpu.model.free(blocks[2]);  // two holes of 5 MiB
  gpu.allocate(6 * kMiB);
  EXPECT_EQ(held(gpu), (Held{16 * kMiB, 40 * kMiB}));
}

TEST(CachingAllocatorModel, SmallAndLargeDoNotShareSegments) {
  Gpu gpu;
  gpu.model.free(gpu.allocate(15 * kMiB));
  gpu.allocate(512);
  EXPECT_EQ(held(gpu), (Held{512, 18 * kMiB}));
}

TEST(CachingAllocatorModel, PeaksAreTheHighestOfEach) {
  Gpu gpu;
  gpu.model.free(gpu.allocate(30 * kMiB));
  gpu.allocate(10 * kMiB);
  EXPECT_EQ(gpu.model.peak_allocated_bytes(), 30 * kMiB);
  EXPECT_EQ(gpu.model.peak_reserved_bytes(), 30 * kMiB);
  gpu.model.reset_peak();
  EXPECT_EQ(gpu.model.peak_allocated_bytes(), 10 * kMiB);
  EXPECT_EQ(gpu.model.peak_reserved_bytes(), 30 * kMiB);  // still held
}

TEST(CachingAllocatorModel, UnusedSegmentsAreGivenBackBeforeTheLimit) {
  Gpu gpu(60 * kMiB);
  gpu.model.free(gpu.allocate(30 * kMiB));
  gpu.model.free(gpu.allocate(512));
  gpu.allocate(40 * kMiB);  // 30 and 2 go
  EXPECT_EQ(held(gpu), (Held{40 * kMiB, 40 * kMiB}));
  gpu.allocate(20 * kMiB);
  EXPECT_EQ(held(gpu), (Held{60 * kMiB, 60 * kMiB}));
}

TEST(CachingAllocatorModel, SegmentInPartialUseStaysAndMemoryRunsOut) {
  Gpu gpu(60 * kMiB);
  const auto whole = gpu.allocate(30 * kMiB);
  gpu.model.free(whole);
  const auto part = gpu.allocate(2 * kMiB);  // holds all 30
  EXPECT_FALSE(gpu.model.allocate(100, 32 * kMiB));
  EXPECT_EQ(held(gpu), (Held{2 * kMiB, 30 * kMiB}));
  gpu.model.free(part);
  gpu.allocate(60 * kMiB);
  EXPECT_EQ(held(gpu), (Held{60 * kMiB, 60 * kMiB}));
}

TEST(CachingAllocatorModel, NothingIsLostOverAnyStreamOfAllocations) {
  std::mt19937 random(1);
  CachingAllocatorModel model(std::int64_t{4} << 30);
  std::vector<std::uint64_t> live;
  for (std::uint64_t id = 0; id < 3000; ++id) {
    if (live.size() > 20 && random() % 2 == 0) {
      std::swap(live[random() % live.size()], live.back());
      model.free(live.back());
      live.pop_back();
    }
    const std::int64_t bytes = 1 + (std::int64_t{1} << (random() % 25)) + random() % 1000;
    ASSERT_TRUE(model.allocate(id, bytes));
    live.push_back(id);
    ASSERT_LE(model.allocated_bytes(), model.reserved_bytes());
  }
  for (const std::uint64_t id : live) model.free(id);
  EXPECT_EQ(model.allocated_bytes(), 0);
  // Every segment is whole again, or the limit could not be had in one block.
  EXPECT_TRUE(model.allocate(0, std::int64_t{4} << 30));
  EXPECT_EQ(model.reserved_bytes(), std::int64_t{4} << 30);
}

TEST(CachingAllocatorModel, UnknownAndRepeatedNamesAreRefused) {
  CachingAllocatorModel model;
  EXPECT_THROW(model.free(1), InternalError);
  EXPECT_TRUE(model.allocate(1, 10));
  EXPECT_THROW(static_cast<void>(model.allocate(1, 10)), InternalError);
  EXPECT_THROW(static_cast<void>(model.allocate(2, 0)), InternalError);
}

}  // namespace
}  // namespace gradsync::measure
