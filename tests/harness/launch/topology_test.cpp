#include "harness/launch/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "harness/base/errors.h"
#include "tests/models/temporary_folder.h"
#include "tests/paths.h"

namespace gradsync::launch {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const std::string kShipped = test::path_of("source") + "/benchmarks/topologies";

class TopologyFile : public testing::Test {
 protected:
  // The topology of a file with this text, or the complaint about it.
  Topology parse(const std::string& text, int scale = 1) {
    return read_topology(folder_.write("mine.json", text), kShipped, scale);
  }
  std::string complaint(const std::string& text) {
    try {
      parse(text);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "accepted";
  }
  // A good file with one field's value exchanged, or a field added.
  static std::string with(const std::string& name, const std::string& value) {
    std::string text = R"({"schema": "gradsync.topology/1", "nodes": 2, "ranks_per_node": 1, )";
    const std::size_t at = text.find("\"" + name + "\"");
    if (at == std::string::npos) return text + "\"" + name + "\": " + value + "}";
    const std::size_t end = text.find(',', at);
    text.replace(at, end - at, "\"" + name + "\": " + value);
    return text + R"("intra_node": null})";
  }

  test::TemporaryFolder folder_;
};

TEST_F(TopologyFile, ReadsRatesAndScalesThem) {
  const std::string text =
      R"({"schema": "gradsync.topology/1", "about": "a pair", "nodes": 2, "ranks_per_node": 3,
          "inter_node": {"rate": "1Gbps"}, "intra_node": {"rate": "20Gbps"}})";
  const Topology topology = parse(text, 10);
  EXPECT_EQ(topology.name, "mine");
  EXPECT_EQ(topology.about, "a pair");
  EXPECT_EQ(topology.world_size(), 6);
  EXPECT_EQ(topology.node_of(4), 1);
  EXPECT_EQ(topology.local_rank_of(4), 1);
  EXPECT_DOUBLE_EQ(topology.inter_node_bits_per_s.value(), 1e8);
  EXPECT_DOUBLE_EQ(topology.intra_node_bits_per_s.value(), 2e9);
  EXPECT_TRUE(topology.needs_namespaces());
}

TEST_F(TopologyFile, RefusesARateWithoutUnit) {
  EXPECT_THAT(complaint(with("inter_node", R"({"rate": "100"})")),
              AllOf(HasSubstr("mine.json"), HasSubstr("inter_node.rate"), HasSubstr("\"100\""),
                    HasSubstr("with its unit")));
  EXPECT_THAT(complaint(with("inter_node", R"({"rate": 100})")), HasSubstr("inter_node.rate"));
  EXPECT_THAT(complaint(with("inter_node", R"({"rate": "0Gbps"})")), HasSubstr("positive"));
  EXPECT_THAT(complaint(with("inter_node", R"("1Gbps")")), HasSubstr("inter_node"));
  EXPECT_THAT(complaint(with("intra_node", R"({"rate": "1Gbps", "delay": "1ms"})")),
              HasSubstr("intra_node.delay"));
}

TEST_F(TopologyFile, RefusesCountsThatAreNone) {
  for (const char* count : {"0", "-1", "1.5", "\"2\"", "100000", "null"}) {
    EXPECT_THAT(complaint(with("nodes", count)), AllOf(HasSubstr("'nodes'"), HasSubstr("integer")))
        << count;
    EXPECT_THAT(complaint(with("ranks_per_node", count)), HasSubstr("'ranks_per_node'")) << count;
  }
}

TEST_F(TopologyFile, RefusesWhatItDoesNotKnow) {
  EXPECT_THAT(complaint(with("ndoes", "2")), AllOf(HasSubstr("ndoes"), HasSubstr("unknown field")));
  EXPECT_THAT(complaint(with("schema", R"("gradsync.plan/1")")),
              AllOf(HasSubstr("schema"), HasSubstr("gradsync.topology/1")));
  EXPECT_THAT(complaint("{\"nodes\": 2"), HasSubstr("not valid JSON"));
}

TEST_F(TopologyFile, RefusesALinkBetweenNodesWhereThereIsOne) {
  EXPECT_THAT(complaint(R"({"schema": "gradsync.topology/1", "nodes": 1, "ranks_per_node": 2,
                            "inter_node": {"rate": "1Gbps"}})"),
              HasSubstr("'inter_node'"));
}

TEST(Topology, UnknownNameSaysTheNearest) {
  try {
    read_topology("2x1_10gbit", kShipped);
    FAIL() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("2x1_10gbit"), HasSubstr("(did you mean 2x1_1")));
  }
  EXPECT_THROW(read_topology("no/such/file.json", kShipped), ConfigError);
}

TEST(Topology, BareCountsNeedNoFile) {
  const Topology topology = read_topology("3x4", kShipped);
  EXPECT_EQ(topology.name, "3x4");
  EXPECT_EQ(topology.nodes, 3);
  EXPECT_EQ(topology.ranks_per_node, 4);
  EXPECT_FALSE(topology.inter_node_bits_per_s.has_value());
  EXPECT_TRUE(topology.needs_namespaces());
  EXPECT_FALSE(read_topology("1x7", kShipped).needs_namespaces());
  for (const char* name : {"0x2", "2x0", "-1x2", "2x", "x2", "2x1x1", "2x1_", "300x1", "1x300"}) {
    EXPECT_THROW(read_topology(name, kShipped), ConfigError) << name;
  }
}

TEST(Topology, EveryShippedOneIsReadableAndMeansItsName) {
  const std::vector<std::string> names = list_topologies(kShipped);
  EXPECT_THAT(names, testing::IsSupersetOf(
                         {"1x1", "1x2", "2x1_1gbit", "2x1_200mbit", "2x2_200mbit", "4x1_200mbit"}));
  for (const std::string& name : names) {
    const Topology topology = read_topology(name, kShipped);
    EXPECT_EQ(topology.name, name);
    EXPECT_FALSE(topology.about.empty()) << name;
    const std::string counts =
        std::to_string(topology.nodes) + "x" + std::to_string(topology.ranks_per_node);
    EXPECT_THAT(name, HasSubstr(counts));
  }
  EXPECT_DOUBLE_EQ(read_topology("2x1_200mbit", kShipped).inter_node_bits_per_s.value(), 200e6);
}

}  // namespace
}  // namespace gradsync::launch
