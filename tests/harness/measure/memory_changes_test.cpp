// Whether a micro-batch repeats another one, to the byte and in the same places.
#include "harness/measure/memory_changes.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace gradsync::measure {
namespace {

MemoryChange change(std::int64_t activation_bytes, int micro_batch, const std::string& phase,
                    const std::string& unit = "") {
  MemoryChange made;
  bytes_of(made.bytes, MemoryCategory::Activation) = activation_bytes;
  made.place = std::make_shared<const MemoryPlace>(MemoryPlace{0, micro_batch, phase, unit});
  return made;
}

MemoryChanges micro_batch(int number) {
  return {{change(0, -1, ""), change(400, number, "forward", "layer0"),
           change(0, number, "backward", "layer0")},
          {{0, {.bytes = 512, .used = true, .small = true}}}};
}

TEST(MemoryChanges, RepeatWhateverTheNumberOfTheMicroBatch) {
  EXPECT_TRUE(repeats(micro_batch(2), micro_batch(1)));
}

TEST(MemoryChanges, OneByteMoreIsNoRepetition) {
  MemoryChanges more = micro_batch(2);
  bytes_of(more.changes[1].bytes, MemoryCategory::Activation) += 1;
  EXPECT_FALSE(repeats(more, micro_batch(1)));
}

TEST(MemoryChanges, TheSameBytesOfAnotherCategoryAreNoRepetition) {
  MemoryChanges other = micro_batch(2);
  std::swap(bytes_of(other.changes[1].bytes, MemoryCategory::Activation),
            bytes_of(other.changes[1].bytes, MemoryCategory::Communication));
  EXPECT_FALSE(repeats(other, micro_batch(1)));
}

TEST(MemoryChanges, ElsewhereIsNoRepetition) {
  MemoryChanges in_other_phase = micro_batch(2);
  in_other_phase.changes[1] = change(400, 2, "backward", "layer0");
  EXPECT_FALSE(repeats(in_other_phase, micro_batch(1)));
  MemoryChanges in_other_unit = micro_batch(2);
  in_other_unit.changes[1] = change(400, 2, "forward", "layer1");
  EXPECT_FALSE(repeats(in_other_unit, micro_batch(1)));
}

TEST(MemoryChanges, OneChangeMoreIsNoRepetition) {
  MemoryChanges longer = micro_batch(2);
  longer.changes.push_back(change(0, 2, "backward", "layer0"));
  EXPECT_FALSE(repeats(longer, micro_batch(1)));
}

// The next requests would find other blocks, and might need another segment.
TEST(MemoryChanges, OtherBlocksAtTheEndAreNoRepetition) {
  MemoryChanges elsewhere = micro_batch(2);
  elsewhere.reserved_like = {{512, {.bytes = 512, .used = true, .small = true}}};
  EXPECT_FALSE(repeats(elsewhere, micro_batch(1)));
}

}  // namespace
}  // namespace gradsync::measure
