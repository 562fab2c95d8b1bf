#include "harness/predict/collective_time.h"

#include <gmock/gmock.h>

namespace gradsync::predict {
namespace {

// Bytes per second and seconds that give round numbers.
constexpr Link kInter{100, 0.5};
constexpr Link kIntra{1000, 0.25};

Network network(int nodes, int ranks_per_node, Algorithm algorithm = Algorithm::Ring) {
  Network made;
  made.nodes = nodes;
  made.ranks_per_node = ranks_per_node;
  made.inter = kInter;
  made.intra = kIntra;
  made.algorithm = algorithm;
  return made;
}

CollectiveTime all_reduce(const Network& of, double bytes) {
  return collective_time(of, Group::World, Operation::AllReduce, bytes);
}

TEST(Ring, SendsTwoTimesNMinusOneNthsInAsManySteps) {
  const CollectiveTime four = all_reduce(network(4, 1), 1000);
  EXPECT_DOUBLE_EQ(four.wire_s, 2 * 3.0 / 4 * 1000 / 100);  // 2 (n - 1) / n of the bytes: 15 s
  EXPECT_DOUBLE_EQ(four.latency_s, 6 * 0.5);                // 2 (n - 1) messages
  const Network of = network(4, 1);
  const auto gather = collective_time(of, Group::World, Operation::AllGather, 1000);
  EXPECT_DOUBLE_EQ(gather.wire_s, 7.5);
  EXPECT_DOUBLE_EQ(gather.latency_s, 1.5);
}

TEST(Ring, OfOneRankTakesNothing) {
  EXPECT_DOUBLE_EQ(all_reduce(network(1, 1), 1000).total_s(), 0);
}

TEST(Ring, InsideANodeHasThatLinkAndAcrossNodesTheSlowerOne) {
  EXPECT_DOUBLE_EQ(all_reduce(network(1, 2), 1000).wire_s, 1);    // 2 (1/2) 1000 / 1000
  EXPECT_DOUBLE_EQ(all_reduce(network(2, 2), 1000).wire_s, 15);   // four ranks at 100
  EXPECT_DOUBLE_EQ(all_reduce(network(2, 2), 0).latency_s, 3.0);  // six messages at the slower
}

TEST(Ring, AsManyAcrossNodesAsANodeHasRanksShareItsLink) {
  const auto shared =
      collective_time(network(2, 4), Group::AcrossNodes, Operation::AllReduce, 1000);
  EXPECT_DOUBLE_EQ(shared.wire_s, 1000 / (100.0 / 4));
}

TEST(Ring, OnGlooAReduceScatterMovesWhatAnAllReduceDoes) {
  Network of = network(2, 1);
  const auto nccl = collective_time(of, Group::World, Operation::ReduceScatter, 1000);
  of.scatters_by_all_reduce = true;
  const auto gloo = collective_time(of, Group::World, Operation::ReduceScatter, 1000);
  EXPECT_DOUBLE_EQ(nccl.wire_s, 5);
  EXPECT_DOUBLE_EQ(gloo.wire_s, 10);
}

TEST(Ring, OnGlooAnAllGatherPausesForHalfAShareButForABurst) {
  Network of = network(2, 1);
  const auto gather = [&](int nodes, int ranks_per_node, Group group) {
    of.nodes = nodes;
    of.ranks_per_node = ranks_per_node;
    return collective_time(of, group, Operation::AllGather, 1000).wire_s;
  };
  EXPECT_DOUBLE_EQ(gather(2, 1, Group::World), 5);
  of.gather_pause = kGlooPause;
  EXPECT_DOUBLE_EQ(gather(2, 1, Group::World), 5 + 2.5);
  EXPECT_DOUBLE_EQ(gather(4, 1, Group::World), 7.5 + 1.25);
  of.inter->burst_bytes = 50;
  EXPECT_DOUBLE_EQ(gather(2, 1, Group::World), 5 + 2);
  of.inter->burst_bytes = 5000;
  EXPECT_DOUBLE_EQ(gather(2, 1, Group::World), 5);
}

TEST(Ring, OnGlooAnAllGatherThatSkipsLinksPausesForAWholeShare) {
  Network of = network(2, 2);
  of.gather_pause = kGlooPause;
  const auto gather = [&] {
    return collective_time(of, Group::World, Operation::AllGather, 1000).wire_s;
  };
  EXPECT_DOUBLE_EQ(gather(), 7.5 + 1.25);  // each rank has a link inside of the node
  of.intra.reset();
  EXPECT_DOUBLE_EQ(gather(), 7.5 + 2.5);
}

TEST(Host, AddsToEachCollectiveAndToEachByteSent) {
  Network of = network(4, 1);
  of.host.collective_s = 2;
  of.host.per_byte_s = 0.01;
  EXPECT_DOUBLE_EQ(all_reduce(of, 1000).host_s, 2 + 1500 * 0.01);
}

TEST(Tree, IsAsDeepAsTheLogarithmOfItsNodesAndHasTheRingsBytes) {
  const CollectiveTime eight = all_reduce(network(8, 1, Algorithm::Tree), 1000);
  EXPECT_DOUBLE_EQ(eight.latency_s, 2 * 3 * 0.5);
  EXPECT_DOUBLE_EQ(eight.wire_s, all_reduce(network(8, 1), 1000).wire_s);
  const CollectiveTime wide = all_reduce(network(2, 4, Algorithm::Tree), 1000);
  EXPECT_DOUBLE_EQ(wide.latency_s, 2 * (0.5 + 3 * 0.25));
  EXPECT_DOUBLE_EQ(wide.wire_s, 10);  // across two nodes: more than 2 (3/4) 1000 / 1000 inside
}

// Inside a node 3/4 of the bytes, across two nodes each rank's quarter over a quarter of the link,
// and inside again.
TEST(TwoLevel, ReducesInsideThenAcrossThenSpreads) {
  const CollectiveTime time = all_reduce(network(2, 4, Algorithm::TwoLevel), 1000);
  EXPECT_DOUBLE_EQ(time.wire_s, 0.75 + 250 / 25.0 + 0.75);
  EXPECT_DOUBLE_EQ(time.latency_s, 3 * 0.25 + 2 * 0.5 + 3 * 0.25);
  EXPECT_DOUBLE_EQ(all_reduce(network(4, 1, Algorithm::TwoLevel), 1000).wire_s, 15);  // a ring
}

TEST(Broadcast, SendsAllBytesOnceDownATree) {
  const auto time = collective_time(network(4, 1), Group::World, Operation::Broadcast, 1000);
  EXPECT_DOUBLE_EQ(time.wire_s, 10);
  EXPECT_DOUBLE_EQ(time.latency_s, 1);
}

}  // namespace
}  // namespace gradsync::predict
