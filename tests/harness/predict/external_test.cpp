#include "harness/predict/external.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "harness/base/errors.h"

namespace gradsync::predict {
namespace {

using ::testing::HasSubstr;

ExternalRow published(const std::string& label, Role role, double value, int nodes, int ranks) {
  ExternalRow row;
  row.label = label;
  row.role = role;
  row.value = value;
  row.nodes = nodes;
  row.ranks_per_node = ranks;
  return row;
}

// One layer of 1000 floats, so that nothing overlaps: a step of one rank takes 2 s; of two, 3 s.
// What an all_reduce adds is 2 (n - 1) / n s: 1.5 s for four ranks.
External one_layer() {
  External external;
  external.unit = PublishedUnit::SecondsPerStep;
  external.parameters = 1000;
  external.layers = 1;
  external.rows = {published("1", Role::GivesCompute, 2, 1, 1),
                   published("2", Role::GivesIntraRate, 3, 1, 2),
                   published("4", Role::Predicted, 3.4, 1, 4)};
  return external;
}

TEST(External, PredictsWhatIsNotGiven) {
  const auto rows = predict_external(one_layer(), {});
  ASSERT_EQ(rows.size(), 1);
  EXPECT_NEAR(rows[0].predicted, 3.5, 1e-6);
  EXPECT_NEAR(rows[0].error(), 3.5 / 3.4 - 1, 1e-6);
}

TEST(External, APredictionNeverUsesTheNumberThatItPredicts) {
  External other = one_layer();
  other.rows[2].value = 77;
  EXPECT_DOUBLE_EQ(predict_external(other, {})[0].predicted,
                   predict_external(one_layer(), {})[0].predicted);
}

TEST(External, RatesOfSamplesAreOfAllRanksOrOfOne) {
  External external = one_layer();
  external.micro_batch_size = 6;
  external.unit = PublishedUnit::SamplesPerSecondAndRank;
  external.rows[0].value = 3;  // 6 samples in 2 s
  external.rows[1].value = 2;
  EXPECT_NEAR(predict_external(external, {})[0].predicted, 6 / 3.5, 1e-6);
  external.unit = PublishedUnit::SamplesPerSecond;
  external.rows[1].value = 4;
  EXPECT_NEAR(predict_external(external, {})[0].predicted, 4 * 6 / 3.5, 1e-6);
}

TEST(External, AStatedRateIsThatOfTheLine) {
  External external = one_layer();
  external.rows = {published("1", Role::GivesCompute, 2, 1, 1),
                   published("2", Role::Predicted, 3, 2, 1)};
  external.inter_rate = "32Kbps";  // 4000 bytes take 1 s, and longer by what is no payload
  EXPECT_NEAR(predict_external(external, {})[0].predicted, 2 + 1514.0 / 1448, 1e-6);
}

// The embeddings' half of the bytes is ready when everything is computed; the layer's too, whose
// backward is the only one. Both are in one bucket, or not: they take as long.
TEST(External, EmbeddingsAreReadyLast) {
  External external = one_layer();
  external.layers = 100;  // their gradients hide in the layers behind them
  external.parameters = 100'000'000;
  external.embedding_share = 0.25;
  external.inter_rate = "1000Gbps";
  external.rows = {published("1", Role::GivesCompute, 2, 1, 1),
                   published("2", Role::Predicted, 3, 2, 1)};
  const double embeddings_s = 25e6 * 4 * 8 / 1e12 * 1514 / 1448;
  EXPECT_NEAR(predict_external(external, {})[0].predicted, 2 + embeddings_s, 0.3 * embeddings_s);
  external.embedding_share = 0;
  EXPECT_LT(predict_external(external, {})[0].predicted, 2 + embeddings_s / 2);
}

TEST(External, TheIntervalIsThatOfTheDoubt) {
  const auto row = predict_external(one_layer(), {.compute = 0.01})[0];
  EXPECT_NEAR(row.interval90.hi - row.predicted, 1.6449 * 2 * 0.01, 2e-4);
  EXPECT_NEAR(row.predicted - row.interval90.lo, 1.6449 * 2 * 0.01, 2e-4);
}

std::string complaint_of_rows(const std::string& rows) {
  const auto path = std::filesystem::temp_directory_path() / "gradsync_external_test.json";
  std::ofstream(path) << R"({"schema": "gradsync.external/1", "name": "", "address": "",
      "about": "", "wrapper": "ddp", "unit": "s/step", "micro_batch_size": 1, "parameters": 10,
      "layers": 1, "bytes_per_element": 4, "assumed": [], "rows": [)"
                      << rows << "]}";
  try {
    read_external(path.string());
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(External, IsRefusedWhereNothingFollows) {
  const std::string given =
      R"({"label": "", "role": "gives compute", "value": 1, "nodes": 1, "ranks_per_node": 1})";
  EXPECT_EQ(complaint_of_rows(given), "");
  EXPECT_THAT(complaint_of_rows(""), HasSubstr("gives compute"));
  EXPECT_THAT(
      complaint_of_rows(
          R"({"label": "", "role": "gives compute", "value": 0, "nodes": 1, "ranks_per_node": 1})"),
      HasSubstr("field 'rows': got 0"));
  EXPECT_THAT(complaint_of_rows(
                  R"({"label": "", "role": "given", "value": 1, "nodes": 1, "ranks_per_node": 1})"),
              HasSubstr("role"));
}

}  // namespace
}  // namespace gradsync::predict
