// Tests of NCCL of paper where all ranks exist and nothing goes wrong.
//
// Covers: nccl/collectives.cpp, nccl/communicator.cpp, nccl/communicators.cpp, nccl/groups.cpp,
// nccl/log.cpp, nccl/meeting.cpp, nccl/open.cpp, nccl/operations.cpp, nccl/reduce.cpp,
// nccl/settings.cpp.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cmath>
#include <cstdint>
#include <numeric>
#include <type_traits>

#include "tests/harness/paper/nccl_ranks.h"

namespace gradsync::paper::test {
namespace {

constexpr int kRanks = 3;
constexpr int kCount = 8;

// Small enough for float8, different for each rank and element, negative where there are such.
template <typename T>
double value(int rank, int index) {
  const double amount = (2 * rank + index) % 4 + 1;
  return !std::is_unsigned_v<T> && index % 2 == 1 ? -amount : amount;
}

template <typename T>
double read(T element) {
  if constexpr (std::is_arithmetic_v<T>) return static_cast<double>(element);
  return static_cast<double>(static_cast<float>(element));
}

template <typename T>
T rounded(double number) {
  if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<std::int64_t>(number));
  if constexpr (std::is_same_v<T, double>) return number;
  return static_cast<T>(static_cast<float>(number));
}

template <typename T>
double expected(ncclRedOp_t op, int index) {
  double total = op == ncclProd ? 1 : op == ncclSum || op == ncclAvg ? 0 : value<T>(0, index);
  for (int rank = 0; rank < kRanks; ++rank) {
    const double one = value<T>(rank, index);
    if (op == ncclSum || op == ncclAvg) total += one;
    if (op == ncclProd) total *= one;
    if (op == ncclMin) total = std::min(total, one);
    if (op == ncclMax) total = std::max(total, one);
  }
  return read(rounded<T>(op == ncclAvg ? total / kRanks : total));
}

template <typename T>
std::vector<T> values(int rank) {
  std::vector<T> all;
  for (int i = 0; i < kCount * kRanks; ++i) all.push_back(rounded<T>(value<T>(rank, i)));
  return all;
}

template <typename T>
void check_op(ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm, int rank) {
  auto data = values<T>(rank), out = data;
  ASSERT_EQ(ncclAllReduce(data.data(), out.data(), kCount, type, op, comm, nullptr), ncclSuccess);
  for (int i = 0; i < kCount; ++i) EXPECT_EQ(read(out[i]), expected<T>(op, i)) << type << op;
  ASSERT_EQ(ncclReduceScatter(data.data(), out.data(), kCount, type, op, comm, nullptr),
            ncclSuccess);
  for (int i = 0; i < kCount; ++i) {
    EXPECT_EQ(read(out[i]), expected<T>(op, rank * kCount + i)) << type << op;
  }
  ASSERT_EQ(ncclReduce(data.data(), data.data(), kCount, type, op, 1, comm, nullptr), ncclSuccess);
  for (int i = 0; i < kCount; ++i) {
    EXPECT_EQ(read(data[i]), rank == 1 ? expected<T>(op, i) : read(rounded<T>(value<T>(rank, i))));
  }
}

template <typename T>
void check_scaled_sum(ncclDataType_t type, ncclScalarResidence_t where, ncclComm_t comm, int rank) {
  T scalar = rounded<T>(2);
  ncclRedOp_t op;
  ASSERT_EQ(ncclRedOpCreatePreMulSum(&op, &scalar, type, where, comm), ncclSuccess);
  if (where == ncclScalarDevice) scalar = rounded<T>(4);
  auto data = values<T>(rank);
  ASSERT_EQ(ncclAllReduce(data.data(), data.data(), 1, type, op, comm, nullptr), ncclSuccess);
  double sum = 0;
  for (int i = 0; i < kRanks; ++i) sum += value<T>(i, 0) * read(scalar);
  EXPECT_EQ(read(data[0]), read(rounded<T>(sum)));
  EXPECT_EQ(ncclRedOpDestroy(op, comm), ncclSuccess);
  EXPECT_EQ(ncclAllReduce(data.data(), data.data(), 1, type, op, comm, nullptr),
            ncclInvalidArgument);
}

template <typename T>
void check_type(ncclDataType_t type, ncclComm_t comm, int rank) {
  for (const ncclRedOp_t op : {ncclSum, ncclProd, ncclMin, ncclMax, ncclAvg}) {
    check_op<T>(type, op, comm, rank);
  }
  check_scaled_sum<T>(type, ncclScalarHostImmediate, comm, rank);
  check_scaled_sum<T>(type, ncclScalarDevice, comm, rank);
}

TEST(NcclOfPaper, ReducesEveryTypeByEveryOperator) {
  expect_ranks(kRanks, [](int rank, const ncclUniqueId& id) {
    ncclComm_t comm = open(kRanks, id, rank);
    check_type<std::int8_t>(ncclInt8, comm, rank);
    check_type<std::uint8_t>(ncclUint8, comm, rank);
    check_type<std::int32_t>(ncclInt32, comm, rank);
    check_type<std::uint32_t>(ncclUint32, comm, rank);
    check_type<std::int64_t>(ncclInt64, comm, rank);
    check_type<std::uint64_t>(ncclUint64, comm, rank);
    check_type<__half>(ncclFloat16, comm, rank);
    check_type<float>(ncclFloat32, comm, rank);
    check_type<double>(ncclFloat64, comm, rank);
    check_type<__nv_bfloat16>(ncclBfloat16, comm, rank);
#if NCCL_VERSION_CODE >= 22400
    check_type<__nv_fp8_e4m3>(ncclFloat8e4m3, comm, rank);
    check_type<__nv_fp8_e5m2>(ncclFloat8e5m2, comm, rank);
#endif
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  });
}

TEST(NcclOfPaper, WrapsIntegersAround) {
  expect_ranks(2, [](int rank, const ncclUniqueId& id) {
    ncclComm_t comm = open(2, id, rank);
    std::uint8_t byte = 200;
    ncclAllReduce(&byte, &byte, 1, ncclUint8, ncclSum, comm, nullptr);
    EXPECT_EQ(byte, 144);
    std::int64_t large = (std::int64_t{1} << 62) + 1;
    ncclAllReduce(&large, &large, 1, ncclInt64, ncclSum, comm, nullptr);
    EXPECT_EQ(large, INT64_MIN + 2);
  });
}

TEST(NcclOfPaper, MovesWhatEachRankGives) {
  expect_ranks(kRanks, [](int rank, const ncclUniqueId& id) {
    ncclComm_t comm = open(kRanks, id, rank);
    int mine = 10 + rank, all[kRanks] = {}, each[kRanks] = {};
    ncclAllGather(&mine, all, 1, ncclInt32, comm, nullptr);
    EXPECT_EQ(std::vector<int>(all, all + kRanks), (std::vector<int>{10, 11, 12}));
    int shared = rank;
    ncclBroadcast(&shared, &shared, 1, ncclInt32, 2, comm, nullptr);
    EXPECT_EQ(shared, 2);
    ncclBcast(&(shared = rank), 1, ncclInt32, 1, comm, nullptr);
    EXPECT_EQ(shared, 1);
#if NCCL_VERSION_CODE >= 22800
    for (int i = 0; i < kRanks; ++i) each[i] = 100 * rank + i;
    ncclAlltoAll(each, each, 1, ncclInt32, comm, nullptr);
    for (int i = 0; i < kRanks; ++i) EXPECT_EQ(each[i], 100 * i + rank);
    int gathered[kRanks] = {-1, -1, -1};
    ncclGather(&mine, gathered, 1, ncclInt32, 1, comm, nullptr);
    EXPECT_EQ(gathered[2], rank == 1 ? 12 : -1);
    int scattered = 0;
    ncclScatter(all, &scattered, 1, ncclInt32, 2, comm, nullptr);
    EXPECT_EQ(scattered, 10 + rank);
#else
    (void)each;
#endif
  });
}

// Wrong where a rank reads a buffer while another already gives to a later collective.
TEST(NcclOfPaper, KeepsManyCollectivesApart) {
  constexpr int kMany = 4, kLarge = 16384;
  expect_ranks(kMany, [](int rank, const ncclUniqueId& id) {
    ncclComm_t comm = open(kMany, id, rank);
    std::vector<std::int32_t> data(kLarge);
    for (int round = 0; round < 500; ++round) {
      if (round % 50 == rank) ::usleep(1000);
      const std::size_t count = round % 3 == 0 ? kLarge : 1 + round % 7;
      std::fill(data.begin(), data.end(), round + rank);
      ncclAllReduce(data.data(), data.data(), count, ncclInt32, ncclSum, comm, nullptr);
      ASSERT_EQ(data[count - 1], kMany * round + 6);
      ASSERT_EQ(data[0], kMany * round + 6);
    }
  });
}

TEST(NcclOfPaper, OneThreadIsSeveralRanksInAGroup) {
  ncclComm_t comms[2];
  ASSERT_EQ(ncclCommInitAll(comms, 2, nullptr), ncclSuccess);
  int device = 0, count = 0, rank = 0;
  ncclCommCuDevice(comms[1], &device);
  ncclCommCount(comms[1], &count);
  ncclCommUserRank(comms[1], &rank);
  EXPECT_EQ((std::vector<int>{device, count, rank}), (std::vector<int>{1, 2, 1}));
  float sums[2] = {1, 2}, seconds[2] = {10, 20};
  ncclGroupStart();
  for (int i = 0; i < 2; ++i) {
    ncclAllReduce(&sums[i], &sums[i], 1, ncclFloat32, ncclSum, comms[i], nullptr);
    ncclAllReduce(&seconds[i], &seconds[i], 1, ncclFloat32, ncclMax, comms[i], nullptr);
    EXPECT_EQ(sums[i], i + 1) << "it ran before the group's end";
  }
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
  EXPECT_EQ((std::vector<float>{sums[0], sums[1], seconds[0], seconds[1]}),
            (std::vector<float>{3, 3, 20, 20}));
  for (ncclComm_t comm : comms) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}

TEST(NcclOfPaper, GroupsCompleteInAnyOrderAndKeepThatOfEachPair) {
  expect_ranks(2, [](int rank, const ncclUniqueId& id) {
    ncclComm_t comm = open(2, id, rank);
    // More than a channel holds, received before they are sent, and twice around this rank itself.
    std::vector<int> sent(100), got(100, -1);
    std::iota(sent.begin(), sent.end(), 1000 * rank);
    int self = 5, echoed = 0;
    ncclGroupStart();
    for (int& one : got) ncclRecv(&one, 1, ncclInt32, 1 - rank, comm, nullptr);
    ncclRecv(&echoed, 1, ncclInt32, rank, comm, nullptr);
    for (int& one : sent) ncclSend(&one, 1, ncclInt32, 1 - rank, comm, nullptr);
    ncclGroupStart();
    ncclSend(&self, 1, ncclInt32, rank, comm, nullptr);
    ncclGroupEnd();
    EXPECT_EQ(got[0], -1);
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
    for (int i = 0; i < 100; ++i) EXPECT_EQ(got[i], 1000 * (1 - rank) + i);
    EXPECT_EQ(echoed, 5);
  });
}

TEST(NcclOfPaper, ASendDoesNotWait) {
  expect_ranks(2, [](int rank, const ncclUniqueId& id) {
    ncclComm_t comm = open(2, id, rank);
    int number = 7 + rank, got = 0;
    void* large = untouchable(1 << 20);
    EXPECT_EQ(ncclSend(&number, 1, ncclInt32, 1 - rank, comm, nullptr), ncclSuccess);
    EXPECT_EQ(ncclSend(large, 1 << 20, ncclInt8, 1 - rank, comm, nullptr), ncclSuccess);
    EXPECT_EQ(ncclRecv(&got, 1, ncclInt32, 1 - rank, comm, nullptr), ncclSuccess);
    EXPECT_EQ(ncclRecv(large, 1 << 20, ncclInt8, 1 - rank, comm, nullptr), ncclSuccess);
    EXPECT_EQ(got, 8 - rank);
  });
}

TEST(NcclOfPaper, LargeMessagesAreNotTouched) {
  expect_ranks(2, [](int rank, const ncclUniqueId& id) {
    ncclComm_t comm = open(2, id, rank);
    const std::size_t count = std::size_t{1} << 34;
    void* huge = untouchable(count * 8);
    EXPECT_EQ(ncclAllReduce(huge, huge, count, ncclFloat32, ncclSum, comm, nullptr), ncclSuccess);
    EXPECT_EQ(ncclAllGather(huge, huge, count, ncclBfloat16, comm, nullptr), ncclSuccess);
    EXPECT_EQ(ncclReduceScatter(huge, huge, count, ncclFloat32, ncclAvg, comm, nullptr),
              ncclSuccess);
    EXPECT_EQ(ncclBroadcast(huge, huge, count, ncclInt8, 0, comm, nullptr), ncclSuccess);
    EXPECT_EQ(ncclAllReduce(huge, huge, 16385, ncclFloat32, ncclSum, comm, nullptr), ncclSuccess);
    std::vector<float> small(16384, 1);
    ncclAllReduce(small.data(), small.data(), small.size(), ncclFloat32, ncclSum, comm, nullptr);
    EXPECT_EQ(small.back(), 2) << "64 KiB are moved";
  });
}

// A later read of it differs from a read of what a kernel should have written.
TEST(NcclOfPaper, ResultsOfWrittenMemoryAreWritten) {
  expect_ranks(2, [](int rank, const ncclUniqueId& id) {
    ncclComm_t comm = open(2, id, rank);
    int copied = 1, computed = 1, sum = 0, garbage = 0, all[2] = {}, message = 0;
    written[&copied] = sizeof(copied);
    ncclAllReduce(&copied, &sum, 1, ncclInt32, ncclSum, comm, nullptr);
    ncclAllReduce(&computed, &garbage, 1, ncclInt32, ncclSum, comm, nullptr);
    ncclAllGather(&copied, all, 1, ncclInt32, comm, nullptr);
    EXPECT_EQ(written[&sum], sizeof(int));
    EXPECT_EQ(written[&garbage], 0U);
    EXPECT_EQ(written[&all[1]], sizeof(int));
    ncclBroadcast(&computed, &computed, 1, ncclInt32, 0, comm, nullptr);
    EXPECT_EQ(written[&computed], rank == 0 ? 0 : sizeof(int));
    ncclSend(&copied, 1, ncclInt32, rank, comm, nullptr);
    ncclRecv(&message, 1, ncclInt32, rank, comm, nullptr);
    EXPECT_EQ(written[&message], sizeof(int));
  });
}

TEST(NcclOfPaper, CapturedCollectivesRunWithEachLaunch) {
  expect_ranks(2, [](int rank, const ncclUniqueId& id) {
    ncclComm_t comm = open(2, id, rank);
    float sum = 1;
    std::vector<std::function<void()>> graph;
    captured = &graph;
    EXPECT_EQ(ncclAllReduce(&sum, &sum, 1, ncclFloat32, ncclSum, comm, nullptr), ncclSuccess);
    captured = nullptr;
    EXPECT_EQ(sum, 1);
    for (int launch = 0; launch < 2; ++launch) {
      for (const auto& work : graph) work();
    }
    EXPECT_EQ(sum, 4);
    float once = 0;
    EXPECT_EQ(sum_ones(comm, &once), ncclSuccess);
    EXPECT_EQ(once, 2);
  });
}

}  // namespace
}  // namespace gradsync::paper::test
