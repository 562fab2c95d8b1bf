#include "harness/predict/link_fit.h"

#include <gmock/gmock.h>

#include "harness/base/errors.h"

namespace gradsync::predict {
namespace {

constexpr FittedLink kTruth{.bytes_per_s = 1.2e9,
                            .latency_s = 15e-6,
                            .collective_s = 80e-6,
                            .is_latency_apart = true,
                            .scatters_by_all_reduce = true,
                            .gathers_half_late = true};

void add_rows(std::vector<MeasuredCollective>& rows, Operation operation, int nodes,
              int ranks_per_node = 1, const FittedLink& truth = kTruth) {
  for (const double bytes : {65536.0, 1048576.0, 16777216.0, 67108864.0}) {
    rows.push_back({operation, nodes, ranks_per_node, bytes, 0});
    rows.back().seconds = predicted_s(truth, rows.back());
  }
}

TEST(LinkFit, FindsWhatTheTimesWereMadeOf) {
  std::vector<MeasuredCollective> rows;
  for (const int nodes : {2, 4}) {
    for (const auto operation : {Operation::AllReduce, Operation::ReduceScatter,
                                 Operation::AllGather, Operation::Broadcast}) {
      add_rows(rows, operation, nodes);
    }
  }
  const FittedLink link = fit_link(rows);
  EXPECT_NEAR(link.bytes_per_s / kTruth.bytes_per_s, 1, 1e-9);
  EXPECT_NEAR(link.latency_s / kTruth.latency_s, 1, 1e-6);
  EXPECT_NEAR(link.collective_s / kTruth.collective_s, 1, 1e-6);
  EXPECT_TRUE(link.is_latency_apart);
  EXPECT_EQ(link.scatters_by_all_reduce, true);
  EXPECT_EQ(link.gathers_half_late, true);
  EXPECT_NEAR(link.error_rms, 0, 1e-9);
  EXPECT_NEAR(*link.rate_doubt, 0, 1e-9);
  EXPECT_NEAR(*link.host_doubt, 0, 1e-6);
}

TEST(LinkFit, SeesALibraryThatMovesNoMoreThanItMust) {
  FittedLink truth = kTruth;
  truth.scatters_by_all_reduce = false;
  truth.gathers_half_late = false;
  std::vector<MeasuredCollective> rows;
  add_rows(rows, Operation::AllReduce, 4, 1, truth);
  add_rows(rows, Operation::ReduceScatter, 4, 1, truth);
  add_rows(rows, Operation::AllGather, 4, 1, truth);
  EXPECT_EQ(fit_link(rows).scatters_by_all_reduce, false);
  EXPECT_EQ(fit_link(rows).gathers_half_late, false);
}

TEST(LinkFit, OfOneOperationAndNumberOfRanksHasNoLatencyOfItsOwn) {
  std::vector<MeasuredCollective> rows;
  add_rows(rows, Operation::AllReduce, 2, 8);
  const FittedLink link = fit_link(rows);
  EXPECT_FALSE(link.is_latency_apart);
  EXPECT_EQ(link.latency_s, 0);
  EXPECT_NEAR(link.collective_s, kTruth.collective_s + 2 * 15 * kTruth.latency_s, 1e-12);
  EXPECT_NEAR(link.bytes_per_s / kTruth.bytes_per_s, 1, 1e-9);
  EXPECT_FALSE(link.scatters_by_all_reduce.has_value());
}

TEST(LinkFit, DoubtsWhatItMisses) {
  std::vector<MeasuredCollective> rows;
  add_rows(rows, Operation::AllReduce, 2);
  add_rows(rows, Operation::AllReduce, 2);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i].seconds *= i < 4 ? 1.1 : 1 / 1.1;
  const FittedLink link = fit_link(rows);
  EXPECT_NEAR(link.error_rms, 0.1, 0.01);
  EXPECT_NEAR(*link.rate_doubt, 0.1, 0.02);
  EXPECT_FALSE(link.host_doubt.has_value());  // of two rows alone
}

TEST(LinkFit, NothingIsBelowZero) {
  std::vector<MeasuredCollective> rows;
  add_rows(rows, Operation::AllReduce, 2);
  rows[0].seconds /= 4;  // a little message faster than any host allows
  const FittedLink link = fit_link(rows);
  EXPECT_GE(link.collective_s, 0);
  EXPECT_GE(link.latency_s, 0);
  EXPECT_GT(link.bytes_per_s, 0);
}

TEST(LinkFit, RefusesTimesThatDoNotDependOnSize) {
  std::vector<MeasuredCollective> rows;
  add_rows(rows, Operation::AllReduce, 2);
  for (MeasuredCollective& row : rows) row.seconds = row.bytes > 1e6 ? 1e-4 : 2e-4;
  EXPECT_THROW(fit_link(rows), ConfigError);
}

}  // namespace
}  // namespace gradsync::predict
