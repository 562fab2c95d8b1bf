#include "harness/gate/gate_file.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "harness/base/errors.h"
#include "harness/base/program_files.h"
#include "harness/plan/plan.h"
#include "tests/paths.h"

namespace gradsync::gate {
namespace {

using nlohmann::json;

const std::string kGates = test::path_of("source") + "/benchmarks/gates";
const std::string kPlans = test::path_of("source") + "/benchmarks/plans";

json sample() {
  return json::parse(R"({
    "schema": "gradsync.gates/1", "plan": "smoke", "about": "for tests", "set": ["launches=4"],
    "rows": ["strategy=no_sync", "topology=1x2"], "margin": "2%", "smallest_effect": "5%",
    "alpha": "0.5%",
    "claims": [
      {"about": "syncing costs", "ratio": [{"strategy": "baseline"}, {"strategy": "no_sync"}],
       "where": {"topology": "2x1_1gbit"}, "at_least": 1.5},
      {"about": "the same", "ratio": [{"strategy": "accumulate"}, {"strategy": "no_sync"}],
       "within": "2%"},
      {"about": "saves little", "ratio": [{"strategy": "baseline"}, {"strategy": "no_sync"}],
       "at_most": 1.05}]})");
}

json with(const std::string& pointer, const json& value) {
  json source = sample();
  source[json::json_pointer(pointer)] = value;
  return source;
}

std::string complaint(const json& source) {
  try {
    parse_gate_file(source, "g.json");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(GateFile, SaysWhatItSays) {
  const GateFile gate = parse_gate_file(sample(), "g.json");
  EXPECT_EQ(gate.plan, "smoke");
  EXPECT_EQ(gate.overrides, std::vector<std::string>{"launches=4"});
  ASSERT_EQ(gate.rows.size(), 2U);
  EXPECT_EQ(gate.rows[1].text(), "topology=1x2");
  EXPECT_EQ(gate.margin, 0.02);
  EXPECT_EQ(gate.smallest_effect, 0.05);
  EXPECT_EQ(gate.alpha, 0.005);
  ASSERT_EQ(gate.claims.size(), 3U);
  EXPECT_EQ(gate.claims[0].above, json({{"strategy", "baseline"}}));
  EXPECT_EQ(gate.claims[0].below, json({{"strategy", "no_sync"}}));
  EXPECT_EQ(gate.claims[0].need(), ">= 1.50x");
  EXPECT_EQ(gate.claims[1].need(), "0.98x to 1.02x");
  EXPECT_EQ(gate.claims[2].need(), "<= 1.05x");
}

TEST(GateFile, LeavesDefaultsToOthers) {
  const GateFile gate = parse_gate_file({{"schema", kGateFileSchema}, {"plan", "smoke"}}, "g.json");
  EXPECT_FALSE(gate.margin);
  EXPECT_FALSE(gate.alpha);
  EXPECT_TRUE(gate.rows.empty());
  EXPECT_TRUE(gate.claims.empty());
}

TEST(GateFile, NamesFileFieldGotAndExpected) {
  EXPECT_THAT(complaint(with("/schema", "gradsync.gates/2")),
              "g.json: field 'schema': got \"gradsync.gates/2\", expected \"gradsync.gates/1\"");
  EXPECT_EQ(complaint(with("/margin", 0.01)),
            "g.json: field 'margin': got 0.01, expected a string");
  EXPECT_EQ(complaint(with("/alpha", "1")),
            "g.json: field 'alpha': got \"1\", expected a percentage above 0% and below 100%, such "
            "as \"1%\"");
  EXPECT_EQ(complaint(with("/alpha", "100%")),
            "g.json: field 'alpha': got \"100%\", expected a percentage above 0% and below 100%, "
            "such as \"1%\"");
  EXPECT_EQ(complaint(with("/rows/1", "topology")),
            "g.json: rows[1]: got 'topology', expected PARAMETER=VALUE, as in "
            "strategy=no_sync,topology=2x1_1gbit");
  EXPECT_THAT(complaint(with("/claims/0/where", {{"topologie", "1x2"}})),
              ::testing::StartsWith(
                  "g.json: claims[0].where: field 'topologie': got an unknown parameter, expec"));
  EXPECT_THAT(
      complaint(with("/claims/0/ratio/1", {{"strategy", "nosync"}})),
      ::testing::StartsWith("g.json: claims[0].ratio: field 'strategy': got \"nosync\", expect"));
  EXPECT_THAT(complaint(with("/claims/1/within", 0.02)),
              "g.json: field 'claims[1].within': got 0.02, expected a string");
  EXPECT_EQ(complaint(with("/claims/0/at_least", 0)),
            "g.json: field 'claims[0].at_least': got 0, expected a ratio above 0");
  EXPECT_EQ(complaint(with("/claims/0/at_most", 2)),
            "g.json: field 'claims[0].at_least': got 2 of them, expected exactly one of at_least, "
            "at_most and within");
  EXPECT_THAT(
      complaint(with("/claims/0/atleast", 2)),
      ::testing::StartsWith("g.json: field 'claims[0].atleast': got an unknown field, expe"));
  EXPECT_EQ(complaint(with("/claims", json::array())),
            "g.json: field 'claims': got [], expected a list with at least one entry");
}

TEST(GateFile, ARatioIsOfTwoRowsThatDifferInTheSameParameters) {
  const char* same_parameters = "expected the same parameters in both rows";
  for (const json& wrong :
       {json({{"accumulation_steps", 1}}), json({{"strategy", "no_sync"}, {"scale", 1}})}) {
    EXPECT_THAT(complaint(with("/claims/0/ratio/1", wrong)), ::testing::HasSubstr(same_parameters));
  }
  EXPECT_THAT(complaint(with("/claims/0/ratio/1", {{"strategy", "baseline"}})),
              ::testing::HasSubstr("expected two rows that differ"));
  for (const json& wrong : {json("baseline"), json::array(), json({{"strategy", "no_sync"}})}) {
    EXPECT_THAT(complaint(with("/claims/0/ratio", wrong)),
                ::testing::HasSubstr("expected two objects of parameters"));
  }
}

// The gates that come with the suite: their plans exist and have the rows they speak of.
TEST(ShippedGates, SpeakOfRowsThatTheirPlansHave) {
  const auto names = list_json_files(kGates);
  EXPECT_THAT(names, ::testing::IsSupersetOf({"slowdown_table", "smoke"}));
  for (const std::string& name : names) {
    const GateFile gate = read_gate_file(find_json_file("gate", name, kGates));
    EXPECT_FALSE(gate.about.empty()) << name;
    const plan::Plan plan = plan::read_plan(plan::resolve_plan(gate.plan, kPlans), gate.overrides);
    std::vector<Row> rows;
    for (const plan::Part& part : plan.parts) {
      for (const plan::Cell& cell : part.cells) rows.push_back({part.name, json(cell)});
    }
    EXPECT_FALSE(select_rows(rows, gate.rows).empty()) << name;
    for (const Claim& claim : gate.claims) {
      const auto holds_of = [&](const json& parameters) {
        const RowFilter filter = RowFilter::of(parameters, name);
        return std::any_of(rows.begin(), rows.end(), [&](const Row& row) {
          return claim.where.matches(row) && filter.matches(row);
        });
      };
      EXPECT_TRUE(holds_of(claim.above) && holds_of(claim.below)) << name << ": " << claim.about;
    }
  }
}

}  // namespace
}  // namespace gradsync::gate
