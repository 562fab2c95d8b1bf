// Where parameters lie in a flat tensor, by hand.
#include "harness/memory/flat_layout.h"

#include <gtest/gtest.h>

#include <utility>

namespace gradsync::test {
namespace {

using Sizes = std::vector<std::int64_t>;
using Pairs = std::vector<std::pair<std::int64_t, std::int64_t>>;

Pairs padding_of(const memory::FlatLayout& layout) {
  Pairs pairs;
  for (const memory::Stretch& stretch : layout.padding) {
    pairs.emplace_back(stretch.begin, stretch.length);
  }
  return pairs;
}

TEST(FlatLayout, BeginsEveryParameterAtSixteenBytes) {
  const memory::FlatLayout floats = memory::flat_layout({5, 8, 3}, 4, 2);
  EXPECT_EQ(floats.offsets, (Sizes{0, 8, 16}));
  EXPECT_EQ(padding_of(floats), (Pairs{{5, 3}, {19, 1}}));
  EXPECT_EQ(floats.padded, 20);
  const memory::FlatLayout halves = memory::flat_layout({5, 8, 3}, 2, 2);
  EXPECT_EQ(halves.offsets, (Sizes{0, 8, 16}));
  EXPECT_EQ(memory::flat_layout({4, 4}, 2, 1).offsets, (Sizes{0, 8}));
}

TEST(FlatLayout, EndsInEqualPartsAndHasNoOtherPadding) {
  EXPECT_EQ(memory::flat_layout({64, 8, 8}, 4, 3).padded, 81);
  EXPECT_EQ(padding_of(memory::flat_layout({64, 8, 8}, 4, 3)), (Pairs{{80, 1}}));
  EXPECT_TRUE(memory::flat_layout({64, 8, 8}, 4, 4).padding.empty());
  EXPECT_EQ(memory::flat_layout({7}, 4, 7).padded, 7);
  EXPECT_EQ(memory::flat_layout({}, 4, 7).padded, 0);
}

}  // namespace
}  // namespace gradsync::test
