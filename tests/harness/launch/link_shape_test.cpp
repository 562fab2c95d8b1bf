#include "harness/launch/link_shape.h"

#include <gtest/gtest.h>

namespace gradsync::launch {
namespace {

TEST(LinkShape, HoldsWholeBatchesAndTheLineUntilALateTimer) {
  for (const double rate : {1e6, 20e6, 200e6, 1e9, 4e9, 40e9}) {
    const LinkShape shape = shape_link(rate);
    EXPECT_GE(shape.burst_bytes, 2 * shape.gso_max_bytes) << rate;
    EXPECT_GE(shape.burst_bytes, static_cast<int>(rate / 8 * 400e-6)) << rate;
    EXPECT_LE(shape.gso_max_bytes, 65536) << rate;
  }
}

TEST(LinkShape, GivesLittleForFreeUpToAGigabit) {
  for (const double rate : {1e6, 20e6, 200e6, 1e9}) {
    EXPECT_LE(shape_link(rate).burst_bytes, 64 * 1024) << rate;
  }
}

TEST(LinkShape, PayloadIsWhatFullFramesCarry) {
  EXPECT_NEAR(payload_bits_per_s(1e9), 956.4e6, 0.01e6);
}

TEST(LinkShape, AcknowledgementsTakeAFrameOfHeadersForEachBatch) {
  const LinkShape slow = shape_link(150e6);  // batches of 8192 bytes, of which segments fill five
  EXPECT_DOUBLE_EQ(share_beside_acknowledgements(slow), 5 * 1514.0 / (5 * 1514.0 + 66));
  EXPECT_GT(share_beside_acknowledgements(shape_link(4e9)), 0.998);
  EXPECT_GT(share_beside_acknowledgements({1e6, 0, 0}), 0.95);  // one segment at a time
}

TEST(LinkShape, CommandNamesRateInBitsAndBurstInBytes) {
  EXPECT_EQ(tbf_command("eth0", {200e6, 16384, 8192}),
            "qdisc add dev eth0 root tbf rate 200000000bit burst 16384b latency 100ms\n");
}

}  // namespace
}  // namespace gradsync::launch
