// What a shaped link carries, to per cents, and iperf3 on the same link.
//
// What holds a program up makes a link look slower and never faster, so of many attempts in turns
// the best counts. A machine on which not even iperf3 fills the link once cannot tell: it skips.
#include <gtest/gtest.h>

#include <algorithm>

#include "harness/launch/fabric.h"
#include "harness/launch/link_shape.h"
#include "harness/launch/namespaces.h"
#include "in_child.h"
#include "kernel_links.h"

namespace gradsync::launch {
namespace {

constexpr int kAttempts = 20;
constexpr double kWithin = 0.02;

class LinkRate : public testing::TestWithParam<double> {
 protected:
  void SetUp() override {
    if (const std::string reason = why_no_namespaces(); !reason.empty()) GTEST_SKIP() << reason;
    if (find_program("iperf3").empty()) GTEST_SKIP() << "iperf3 is not installed";
  }
};

TEST_P(LinkRate, IsThatOfTheTopologyAndIperf3SaysSo) {
  Topology topology;
  topology.nodes = 2;
  topology.ranks_per_node = 1;
  topology.inter_node_bits_per_s = GetParam();
  const auto fabric = make_fabric(topology);
  const double payload = payload_bits_per_s(GetParam());
  double ours = 0;
  double theirs = 0;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    theirs = std::max(theirs, iperf3_bits_per_s(*fabric) / payload);
    const auto measured = fabric->self_test(1);
    ours = std::max(ours, measured->measured_payload_bits_per_s / payload);
    if (std::min(ours, theirs) > 1 - kWithin) break;
  }
  EXPECT_LT(ours, 1 + kWithin);
  if (theirs < 1 - kWithin) {
    GTEST_SKIP() << "too busy a machine: iperf3 carried " << theirs << " of the rate at best";
  }
  EXPECT_NEAR(ours, 1, kWithin);
  EXPECT_NEAR(ours / theirs, 1, kWithin);
}

INSTANTIATE_TEST_SUITE_P(Rates, LinkRate, testing::Values(20e6, 200e6, 1e9));

}  // namespace
}  // namespace gradsync::launch
