#include "harness/predict/measured_collectives.h"

#include <gmock/gmock.h>

#include "harness/base/errors.h"
#include "tests/harness/report/golden.h"
#include "tests/models/temporary_folder.h"

namespace gradsync::predict {
namespace {

constexpr const char* kNccl = R"(# nThread 1 nGpus 1 minBytes 8 maxBytes 134217728 step: 2(factor)
#
# Using devices
#  Rank  0 Group  0 Pid   4242 on     host-a device  0 [0x10] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid   4243 on     host-a device  1 [0x20] NVIDIA H100 80GB HBM3
#  Rank  2 Group  0 Pid    977 on     host-b device  0 [0x10] NVIDIA H100 80GB HBM3
#  Rank  3 Group  0 Pid    978 on     host-b device  1 [0x20] NVIDIA H100 80GB HBM3
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
           8             2     float     sum      -1    25.00    0.00    0.00      0    24.00    0.00    0.00      0
   134217728      33554432     float     sum      -1   6710.9   20.00   30.00      0   6711.0   20.00   30.00      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 15.0
)";

constexpr const char* kGloo =
    R"(Device:      tcp, pci=0000:00:05.0, iface=eth0, speed=10000, addr=[10.0.0.1]
Algorithm:   allgather_ring
Options:     processes=4, inputs=1, threads=1

   elements   min (us)   p50 (us)   p99 (us)   max (us)  avg (GB/s)    samples
        100         90        120        190        310        0.003       5000
    1000000       3100       3200       4100       5200        1.164        500
)";

constexpr const char* kGoogle = R"(text before it
{"context": {"date": "2026-11-25", "nodes": "2", "ranks_per_node": "3"},
 "benchmarks": [
  {"name": "all_reduce/65536/iterations:100/manual_time", "run_type": "iteration",
   "real_time": 2.5, "time_unit": "ms"},
  {"name": "all_reduce/65536/iterations:100/manual_time_mean", "run_type": "aggregate",
   "real_time": 2.5, "time_unit": "ms"},
  {"name": "something_else/1", "run_type": "iteration", "real_time": 1, "time_unit": "ms"}]})";

class MeasuredCollectives : public ::testing::Test {
 protected:
  std::vector<MeasuredCollective> read(const std::string& text, const NotInFile& more = {}) {
    return read_collectives(folder_.write("times.txt", text), more);
  }
  std::string complaint(const std::string& text, const NotInFile& more = {}) {
    try {
      read(text, more);
    } catch (const ConfigError& error) {
      const std::string sentence = error.what();
      return sentence.substr(sentence.find(':') + 2);
    }
    return "";
  }
  gradsync::test::TemporaryFolder folder_;
};

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

TEST_F(MeasuredCollectives, OfNcclTestsAreThoseOutOfPlace) {
  const auto rows = read(kNccl, {.operation = Operation::AllReduce});
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[1].operation, Operation::AllReduce);
  EXPECT_EQ(rows[1].nodes, 2);
  EXPECT_EQ(rows[1].ranks_per_node, 2);
  EXPECT_DOUBLE_EQ(rows[1].bytes, 134217728);
  EXPECT_DOUBLE_EQ(rows[1].seconds, 6710.9e-6);
  EXPECT_DOUBLE_EQ(rows[0].seconds, 25e-6);
}

TEST_F(MeasuredCollectives, OfNcclTestsThatNameTheirOwn) {
  const std::string named = std::string("# Collective test starting: all_reduce_perf\n") + kNccl;
  EXPECT_EQ(read(named, {.operation = Operation::Broadcast}).size(), 2U);
  test::expect_phrases("predict", {complaint(replaced(named, "all_reduce_perf", "sendrecv_perf")),
                                   complaint(kNccl)});
}

TEST_F(MeasuredCollectives, OfNcclTestsAgreeWithTheirOwnBusBandwidth) {
  test::expect_phrases("predict", {complaint(kNccl, {.operation = Operation::AllGather})});
}

TEST_F(MeasuredCollectives, OfNcclTestsOnNodesOfOneSize) {
  test::expect_phrases("predict", {complaint(replaced(kNccl, "on     host-b", "on     host-a"),
                                             {.operation = Operation::AllReduce})});
}

TEST_F(MeasuredCollectives, OfGlooAreMediansOfFloats) {
  const auto rows = read(kGloo, {.ranks_per_node = 2});
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[1].operation, Operation::AllGather);
  EXPECT_EQ(rows[1].nodes, 2);
  EXPECT_DOUBLE_EQ(rows[1].bytes, 4 * 4e6);  // of the whole
  EXPECT_DOUBLE_EQ(rows[1].seconds, 3200e-6);
  EXPECT_DOUBLE_EQ(read(replaced(kGloo, "allgather_ring", "new_allreduce_bcube"))[1].bytes, 4e6);
  test::expect_phrases("predict",
                       {complaint(kGloo, {.ranks_per_node = 3}),
                        complaint(replaced(kGloo, "allgather_ring", "pairwise_exchange")),
                        complaint(replaced(kGloo, "inputs=1", "inputs=2"))});
}

TEST_F(MeasuredCollectives, OfGoogleBenchmarkAreWholeMessages) {
  const auto rows = read(kGoogle);
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].nodes, 2);
  EXPECT_EQ(rows[0].ranks_per_node, 3);
  EXPECT_DOUBLE_EQ(rows[0].bytes, 65532);  // what six ranks share evenly
  EXPECT_DOUBLE_EQ(rows[0].seconds, 2.5e-3);
  test::expect_phrases("predict", {complaint(replaced(kGoogle, R"("nodes": "2", )", ""))});
}

TEST_F(MeasuredCollectives, AreRefusedWhereThereAreNone) {
  test::expect_phrases(
      "predict",
      {complaint("hello"),
       complaint(R"({"context": {"nodes": "1", "ranks_per_node": "2"}, "benchmarks": []})"),
       complaint(replaced(kGloo, "processes=4", "processes=1"))});
}

}  // namespace
}  // namespace gradsync::predict
