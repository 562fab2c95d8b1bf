#include "harness/gate/rows.h"

#include <gmock/gmock.h>

#include "harness/base/errors.h"
#include "tests/harness/results/sample_run.h"

namespace gradsync::gate {
namespace {

using nlohmann::json;
using test::sample_cell;
using ::testing::ElementsAre;

// Two topologies by three strategies, in one part.
std::vector<Row> sample_rows(const std::string& part = "") {
  std::vector<Row> rows;
  for (const char* topology : {"1x2", "2x1_1gbit"}) {
    for (const char* strategy : {"baseline", "no_sync", "accumulate"}) {
      rows.push_back({part, sample_cell(topology, strategy)});
    }
  }
  return rows;
}

std::vector<std::string> selected(const std::vector<Row>& rows,
                                  const std::vector<std::string>& filters) {
  std::vector<RowFilter> parsed;
  for (const std::string& filter : filters) parsed.emplace_back(filter);
  return row_names(select_rows(rows, parsed));
}

std::string complaint_about(const std::string& filter) {
  try {
    select_rows(sample_rows(), {RowFilter(filter)});
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted " + filter;
}

TEST(RowFilter, AllOfItsParametersMustFit) {
  EXPECT_THAT(selected(sample_rows(), {"strategy=no_sync,topology=2x1_1gbit"}),
              ElementsAre("2x1_1gbit, no_sync"));
}

TEST(RowFilter, AParameterMayHaveSeveralValues) {
  EXPECT_THAT(selected(sample_rows(), {"strategy=no_sync,accumulate,topology=1x2"}),
              ElementsAre("1x2, no_sync", "1x2, accumulate"));
}

TEST(RowFilter, OfSeveralFiltersAnyMayFitAndTheOrderIsThatOfTheRows) {
  EXPECT_THAT(
      selected(sample_rows(), {"topology=2x1_1gbit,strategy=accumulate", "topology=1x2"}),
      ElementsAre("1x2, baseline", "1x2, no_sync", "1x2, accumulate", "2x1_1gbit, accumulate"));
  EXPECT_EQ(selected(sample_rows(), {}).size(), 6U);
}

TEST(RowFilter, PicksPartsAndWhatTheCellLeavesToItsDefault) {
  std::vector<Row> rows = sample_rows("one");
  for (Row& row : sample_rows("two")) rows.push_back(std::move(row));
  EXPECT_EQ(select_rows(rows, {RowFilter("part=two")}).size(), 6U);
  EXPECT_EQ(select_rows(rows, {RowFilter("dtype=float32,accumulation_steps=4")}).size(), 12U);
  EXPECT_TRUE(RowFilter("prefetch=true").matches(rows.front()));
  EXPECT_FALSE(RowFilter("scale=50").matches(rows.front()));
  EXPECT_TRUE(RowFilter().matches(rows.front()));
}

TEST(RowFilter, IsReadFromAnObjectToo) {
  const json parameters = {{"strategy", json::array({"no_sync", "accumulate"})},
                           {"topology", "1x2"}};
  const RowFilter filter = RowFilter::of(parameters, "a file");
  EXPECT_THAT(row_names(select_rows(sample_rows(), {filter})),
              ElementsAre("1x2, no_sync", "1x2, accumulate"));
}

TEST(RowFilter, SaysWhatIsWrong) {
  EXPECT_EQ(complaint_about("no_sync"),
            "--rows: got 'no_sync', expected PARAMETER=VALUE, as in "
            "strategy=no_sync,topology=2x1_1gbit");
  EXPECT_EQ(complaint_about("=no_sync").substr(0, 22), "--rows: got '=no_sync'");
  EXPECT_THAT(complaint_about("stategy=no_sync"),
              ::testing::StartsWith("--rows: field 'stategy': got an unknown parameter, expected "
                                    "one of accumulation_steps, "));
  EXPECT_EQ(complaint_about("strategy=nosync"),
            "--rows: field 'strategy': got \"nosync\", expected one of baseline, sync_each_batch, "
            "no_sync_improper, no_sync, accumulate, pipelined (did you mean no_sync?)");
  EXPECT_EQ(complaint_about("topology=4x4"),
            "rows 'topology=4x4': no row is selected, expected one of: 1x2, baseline; 1x2, "
            "no_sync; 1x2, accumulate; 2x1_1gbit, baseline; 2x1_1gbit, no_sync; 2x1_1gbit, "
            "accumulate");
}

TEST(RowNames, SayWhatTellsRowsOfAPartApart) {
  std::vector<Row> rows = {{"fast", sample_cell("1x2", "no_sync_improper")},
                           {"slow", sample_cell("1x2", "no_sync", "mlp", 50)},
                           {"slow", sample_cell("1x2", "no_sync", "mlp", 50)}};
  rows[2].cell = rows[2].cell.with("accumulation_steps", 8);
  EXPECT_THAT(row_names(rows), ElementsAre("fast, 1x2, no_sync improperly",
                                           "slow, 1x2, accumulation_steps 4, no_sync",
                                           "slow, 1x2, accumulation_steps 8, no_sync"));
  EXPECT_THAT(place_names({rows[1]}), ElementsAre("1x2"));
}

TEST(RowNames, OfTrainingCommandsSayWhatIsCompared) {
  const std::vector<Row> rows = {Row{"", json{{"job", "optimizer step"}}}};
  EXPECT_THAT(row_names(rows), ElementsAre("optimizer step"));
}

TEST(RowsThatStandForAll, HaveEachValueAndPairsOnce) {
  std::vector<Row> rows;
  for (const int size : {16, 64}) {
    for (const int cap : {0, 1 << 18}) {
      for (const char* strategy : {"baseline", "no_sync_improper", "no_sync", "accumulate"}) {
        const results::Parameters cell = sample_cell("2x1_1gbit", strategy);
        rows.push_back({"", cell.with("micro_batch_size", size).with("bucket_cap_bytes", cap)});
      }
    }
  }
  EXPECT_THAT(rows_that_stand_for(rows, 4), ElementsAre(0, 6, 11, 13));
  EXPECT_EQ(rows_that_stand_for(rows, 100).size(), rows.size());
  EXPECT_THAT(rows_that_stand_for({rows[3]}, 4), ElementsAre(0));
}

TEST(CellWith, ChangesParametersAndKeepsTheOthers) {
  const json cell = sample_cell("1x2", "baseline");
  const plan::Cell changed = cell_with(cell, {{"strategy", "no_sync"}}, "ratio");
  EXPECT_EQ(changed, cell_with(sample_cell("1x2", "no_sync"), json::object(), "ratio"));
  EXPECT_THROW(cell_with(cell, {{"strategy", 1}}, "ratio"), ConfigError);
}

}  // namespace
}  // namespace gradsync::gate
