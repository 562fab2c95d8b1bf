#include "harness/predict/setting.h"

#include <gmock/gmock.h>

#include "harness/launch/link_shape.h"

namespace gradsync::predict {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

launch::Topology two_nodes() {
  launch::Topology topology;
  topology.name = "two";
  topology.nodes = 2;
  topology.ranks_per_node = 1;
  topology.inter_node_bits_per_s = 1e9;
  return topology;
}

TEST(Setting, ALineCarriesItsPayloadInBytes) {
  const Network network = network_of(two_nodes(), {.latency_s = 1e-4});
  EXPECT_DOUBLE_EQ(network.inter->bytes_per_s, 1e9 / 8 * 1448 / 1514);
  EXPECT_DOUBLE_EQ(network.inter->latency_s, 1e-4);
  EXPECT_FALSE(network.intra);
}

TEST(Setting, StrategiesSynchronizeAsTheirTableSays) {
  plan::Cell cell;
  cell.accumulation_steps = 3;
  cell.strategy = "no_sync_improper";
  EXPECT_THAT(options_of(cell).syncs, ElementsAre(true, true, true));
  cell.wrapper = "fsdp";
  EXPECT_THAT(options_of(cell).syncs, ElementsAre(false, false, true));
}

TEST(Setting, SizesOnTheWireAreTheCells) {
  plan::Cell cell;
  EXPECT_EQ(options_of(cell).gradient_bytes, 4);
  EXPECT_TRUE(options_of(cell).copies_back);
  cell.gradient_as_bucket_view = true;
  EXPECT_FALSE(options_of(cell).copies_back);
  cell.compression = "bf16";
  cell.scale = 10;
  cell.bucket_cap_bytes = 1000;
  EXPECT_EQ(options_of(cell).gradient_bytes, 2);
  EXPECT_EQ(options_of(cell).buckets.first_bytes, 100);
  EXPECT_EQ(options_of(cell).buckets.bytes, 100);
  cell.bucket_cap_bytes = 0;
  EXPECT_EQ(options_of(cell).buckets.first_bytes, (1 << 20) / 10);
  cell.wrapper = "fsdp";
  cell.param_dtype = "bfloat16";
  EXPECT_EQ(options_of(cell).parameter_bytes, 2);
  EXPECT_EQ(options_of(cell).gradient_bytes, 4);
}

TEST(Setting, WhatAProfileDoesNotHaveIsNotPredicted) {
  plan::Cell cell;
  EXPECT_EQ(why_not_predicted(cell, two_nodes()), "");
  launch::Topology unshaped = two_nodes();
  unshaped.inter_node_bits_per_s.reset();
  EXPECT_THAT(why_not_predicted(cell, unshaped), HasSubstr("topology two has no rate"));
  cell.wrapper = "local";
  EXPECT_EQ(why_not_predicted(cell, unshaped), "");
  cell.wrapper = "pipeline";
  EXPECT_THAT(why_not_predicted(cell, two_nodes()), HasSubstr("pipeline"));
  cell.wrapper = "fsdp";
  cell.hybrid_shard = true;
  EXPECT_EQ(why_not_predicted(cell, two_nodes()), "");  // one rank of a node shards alone
  launch::Topology wide = two_nodes();
  wide.ranks_per_node = 2;
  EXPECT_THAT(why_not_predicted(cell, wide), HasSubstr("inside a node"));
  cell.hybrid_shard = false;
  EXPECT_EQ(why_not_predicted(cell, wide), "");
  cell.activation_checkpointing = 1;
  EXPECT_THAT(why_not_predicted(cell, wide), HasSubstr("again"));
  plan::Cell searching;
  searching.find_unused_parameters = true;
  EXPECT_THAT(why_not_predicted(searching, two_nodes()), HasSubstr("find_unused_parameters true"));
}

TEST(Network, AShapedLinkCarriesAcknowledgementsToo) {
  launch::Topology topology = two_nodes();
  topology.inter_node_bits_per_s = 150e6;
  const Network other = network_of(topology, {});
  const Network shaped = network_of(topology, {.is_shaped = true});
  EXPECT_DOUBLE_EQ(shaped.inter->bytes_per_s / other.inter->bytes_per_s,
                   launch::share_beside_acknowledgements(launch::shape_link(150e6)));
  EXPECT_EQ(other.inter->burst_bytes, 0);
  EXPECT_EQ(shaped.inter->burst_bytes, launch::shape_link(150e6).burst_bytes);
}

}  // namespace
}  // namespace gradsync::predict
