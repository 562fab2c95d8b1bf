// Tests of how communicators of paper are opened, divided and stood in for.
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "harness/comm/gpu_placement.h"
#include "tests/harness/paper/nccl_ranks.h"

namespace gradsync::paper::test {
namespace {

// Returns how many entries the folder has.
std::ptrdiff_t entries(const char* folder) {
  return std::distance(std::filesystem::directory_iterator(folder), {});
}

std::string content_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Returns how many meetings this process has in memory.
int mapped() {
  std::istringstream lines(content_of("/proc/self/maps"));
  int found = 0;
  for (std::string line; std::getline(lines, line);) found += line.find("paper_nccl") < line.size();
  return found;
}

TEST(OpeningNcclOfPaper, SplitsByColorAndOrdersByKey) {
  expect_ranks(4, [](int rank, const ncclUniqueId& id) {
    ncclComm_t comm = open(4, id, rank), half = nullptr, none = comm;
    for (int round = 0; round < 3; ++round) {
      ASSERT_EQ(ncclCommSplit(comm, rank % 2, -rank, &half, nullptr), ncclSuccess);
      int new_rank = -1, count = 0;
      ncclCommUserRank(half, &new_rank);
      ncclCommCount(half, &count);
      EXPECT_EQ(count, 2);
      EXPECT_EQ(new_rank, rank < 2 ? 1 : 0);
      int sum = rank;
      ncclAllReduce(&sum, &sum, 1, ncclInt32, ncclSum, half, nullptr);
      EXPECT_EQ(sum, rank % 2 == 0 ? 2 : 4);
      EXPECT_EQ(ncclCommDestroy(half), ncclSuccess);
    }
    ASSERT_EQ(ncclCommSplit(comm, rank == 3 ? NCCL_SPLIT_NOCOLOR : 0, rank, &none, nullptr),
              ncclSuccess);
    EXPECT_EQ(none == nullptr, rank == 3);
  });
}

#if NCCL_VERSION_CODE >= 22700
TEST(OpeningNcclOfPaper, ShrinksToTheRanksThatAreLeft) {
  const auto ends = run_ranks(4, [](int rank, const ncclUniqueId& id) {
    ncclComm_t comm = open(4, id, rank), smaller = nullptr;
    if (rank == 1) ::raise(SIGKILL);
    EXPECT_EQ(sum_ones(comm), ncclRemoteError);
    int gone[] = {1}, new_rank = -1;
    ASSERT_EQ(ncclCommShrink(comm, gone, 1, &smaller, nullptr, NCCL_SHRINK_ABORT), ncclSuccess);
    ncclCommUserRank(smaller, &new_rank);
    EXPECT_EQ(new_rank, rank == 0 ? 0 : rank - 1);
    float sum = 0;
    EXPECT_EQ(sum_ones(smaller, &sum), ncclSuccess);
    EXPECT_EQ(sum, 3);
  });
  EXPECT_EQ(ends, (std::vector<int>{0, kKilled, 0, 0}));
}
#endif

TEST(OpeningNcclOfPaper, MeetsAcrossNetworkNamespaces) {
  if (::getuid() != 0) GTEST_SKIP() << "only root makes network namespaces";
  expect_ranks(2, [](int rank, const ncclUniqueId& id) {
    EXPECT_EQ(rank == 1 ? ::unshare(CLONE_NEWNET) : 0, 0);
    ncclComm_t comm = open(2, id, rank);
    EXPECT_EQ(sum_ones(comm), ncclSuccess);
  });
}

// Runs `life` in a child whose process namespace is its own, and expects it to end well.
void in_own_processes(const std::function<void()>& life) {
  ASSERT_EQ(::unshare(CLONE_NEWPID | CLONE_NEWNS), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    EXPECT_EQ(::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr), 0);
    EXPECT_EQ(::mount("proc", "/proc", "proc", 0, nullptr), 0);
    ::setenv("GRADSYNC_PAPER_DEADLINE_S", "20",
             1);  // no alarm ends the first process of a namespace
    life();
    std::fflush(nullptr);
    ::_exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(OpeningNcclOfPaper, MeetsInAFolderAcrossProcessNamespaces) {
  if (::getuid() != 0) GTEST_SKIP() << "only root makes process namespaces";
  const std::string folder = ::testing::TempDir() + "nccl_of_paper_folder";
  std::filesystem::create_directory(folder);
  ::setenv("GRADSYNC_PAPER_FOLDER", folder.c_str(), 1);
  const auto meet = [](int rank, const ncclUniqueId& id) {
    ncclComm_t comm = open(2, id, rank), again = nullptr;
    EXPECT_EQ(sum_ones(comm), ncclSuccess);
    if (rank == 1) ::usleep(100'000);  // the other looks meanwhile whether this one is there
    ASSERT_EQ(ncclCommSplit(comm, 0, rank, &again, nullptr), ncclSuccess);
    EXPECT_EQ(sum_ones(again), ncclSuccess);
  };
  expect_ranks(2, [&](int rank, const ncclUniqueId& id) {
    if (rank == 0) return meet(rank, id);
    in_own_processes([&] { meet(rank, id); });
  });
  EXPECT_EQ(entries(folder.c_str()), 1) << "of this process, which made the id and opened nothing";
  std::filesystem::remove_all(folder);
  ncclUniqueId id;
  EXPECT_EQ(ncclGetUniqueId(&id), ncclSystemError);
  EXPECT_EQ(last_error().find("no memory to meet in, " + folder), 0U) << last_error();
  ::unsetenv("GRADSYNC_PAPER_FOLDER");
}

TEST(OpeningNcclOfPaper, RefusesAnIdOfAnotherProcessNamespace) {
  if (::getuid() != 0) GTEST_SKIP() << "only root makes process namespaces";
  expect_ranks(1, [](int, const ncclUniqueId& id) {
    in_own_processes([&] {
      ncclComm_t comm = nullptr;
      EXPECT_EQ(ncclCommInitRank(&comm, 2, id, 1), ncclSystemError);
      EXPECT_NE(last_error().find("set GRADSYNC_PAPER_FOLDER for every rank"), std::string::npos)
          << last_error();
    });
  });
}

TEST(OpeningNcclOfPaper, LeavesNothingBehind) {
  const auto shared = entries("/dev/shm");
  const auto ends = run_ranks(2, [](int rank, const ncclUniqueId& id) {
    const auto descriptors = entries("/proc/self/fd");
    const int before = mapped();
    for (int i = 0; i < 20; ++i) {
      ncclUniqueId mine;
      ncclGetUniqueId(&mine);
      ncclComm_t alone = open(1, mine, 0);
      EXPECT_EQ(entries("/proc/self/fd"), descriptors);
      EXPECT_EQ(ncclCommDestroy(alone), ncclSuccess);
    }
    ncclComm_t comm = open(2, id, rank);
    EXPECT_EQ(entries("/proc/self/fd"), descriptors);
    EXPECT_EQ(mapped(), before + 1);
    sum_ones(comm);
    if (!HasFailure()) ::raise(SIGKILL);
  });
  EXPECT_EQ(ends, (std::vector<int>{kKilled, kKilled}));
  EXPECT_EQ(entries("/dev/shm"), shared);
}

TEST(OpeningNcclOfPaper, RefusesWhatIsNoId) {
  ncclUniqueId id{};
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitRank(&comm, 2, id, 0), ncclInvalidArgument);
  ncclGetUniqueId(&id);
  EXPECT_EQ(ncclCommInitRank(&comm, 2, id, 2), ncclInvalidArgument);
  EXPECT_EQ(last_error(), "rank 2 of 2 ranks is not possible");
  EXPECT_EQ(ncclCommInitRank(&comm, 1, id, 0), ncclSuccess);
  ncclUniqueId used = id;
  ncclGetUniqueId(&id);
  ncclComm_t other = open(1, id, 0);
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  EXPECT_EQ(ncclCommDestroy(comm), ncclInvalidArgument);
  EXPECT_EQ(ncclCommInitRank(&comm, 2, used, 0), ncclSystemError) << "its meeting is closed";
  EXPECT_EQ(ncclCommDestroy(other), ncclSuccess);
  ncclGetUniqueId(&id);
  id.internal[32] ^= 1;  // its random number: that memory is another meeting's
  EXPECT_EQ(ncclCommInitRank(&comm, 2, id, 0), ncclSystemError);
  EXPECT_EQ(last_error(), "the communicator of that unique id is closed");
}

TEST(OpeningNcclOfPaper, RanksAgreeOnTheNumberOfRanks) {
  expect_ranks(2, [](int rank, const ncclUniqueId& id) {
    ncclComm_t comm = nullptr;
    EXPECT_EQ(ncclCommInitRank(&comm, 2 + rank, id, rank), ncclInvalidUsage);
    EXPECT_NE(last_error().find("rank 1 says 3"), std::string::npos) << last_error();
  });
}

void open_on_one_gpu(ncclResult_t result, const std::function<void(int rank)>& set_up) {
  expect_ranks(2, [&](int rank, const ncclUniqueId& id) {
    gpu = 0;
    set_up(rank);
    ncclComm_t comm = nullptr;
    EXPECT_EQ(ncclCommInitRank(&comm, 2, id, rank), result);
    if (result == ncclSuccess) return;
    EXPECT_EQ(last_error(), "Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 1000");
  });
}

TEST(OpeningNcclOfPaper, TwoRanksOfAHostNeedTwoGpus) {
  open_on_one_gpu(ncclInvalidUsage, [](int) {});
  open_on_one_gpu(ncclSuccess,
                  [](int rank) { ::setenv("NCCL_HOSTID", std::to_string(rank).c_str(), 1); });
  open_on_one_gpu(ncclSuccess, [](int) { ::setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1); });
}

TEST(OpeningNcclOfPaper, TellsTransportsInTheFormOfNccl) {
  const std::string folder = ::testing::TempDir();
  ncclUniqueId second;
  ncclGetUniqueId(&second);
  expect_ranks(2, [&](int rank, const ncclUniqueId& id) {
    const std::string path = folder + "nccl_of_paper_" + std::to_string(::getpid());
    ::setenv("NCCL_DEBUG", "INFO", 1);
    ::setenv("NCCL_DEBUG_FILE", (folder + "nccl_of_paper_%p").c_str(), 1);
    open(2, id, rank);
    EXPECT_EQ(comm::nccl_transports(content_of(path)), "P2P/CUMEM");
    ::setenv("NCCL_HOSTID", std::to_string(rank).c_str(), 1);
    open(2, second, rank);
    const std::string log = content_of(path);
    EXPECT_EQ(comm::nccl_transports(log), "NET/Socket, P2P/CUMEM");
    EXPECT_NE(log.find(" NCCL INFO NCCL version 2."), std::string::npos);
    std::istringstream lines(log);
    for (std::string line; std::getline(lines, line);) EXPECT_TRUE(line.ends_with(" (paper)"));
    std::filesystem::remove(path);
  });
}

// One real rank of 1024 stands for all.
TEST(AbsentRanks, OneRankMeetsNobody) {
  ::setenv("GRADSYNC_PAPER_WORLD", "1024", 1);
  ::setenv("GRADSYNC_PAPER_REAL", "1", 1);
  expect_ranks(1, [](int, const ncclUniqueId&) {
    const ncclUniqueId nobodys{};
    ncclComm_t world = open(1024, nobodys, 0), group = open(64, nobodys, 17);
    float sum = 0;
    EXPECT_EQ(sum_ones(world, &sum), ncclSuccess);
    EXPECT_EQ(sum, 1024);
    int mine = 3, all[64] = {}, root = 9, got = 9;
    ncclAllGather(&mine, all, 1, ncclInt32, group, nullptr);
    EXPECT_EQ(std::count(all, all + 64, 3), 64);
    ncclBroadcast(&root, &root, 1, ncclInt32, 5, group, nullptr);
    EXPECT_EQ(root, 9);
    EXPECT_EQ(ncclSend(&mine, 1, ncclInt32, 18, group, nullptr), ncclSuccess);
    EXPECT_EQ(ncclRecv(&got, 1, ncclInt32, 18, group, nullptr), ncclSuccess);
    EXPECT_EQ(got, 0);
    float mean = 4;
    ncclAllReduce(&mean, &mean, 1, ncclFloat32, ncclAvg, group, nullptr);
    EXPECT_EQ(mean, 4);
  });
}

TEST(AbsentRanks, DoAsTheRealOnes) {
  ::setenv("GRADSYNC_PAPER_WORLD", "5", 1);
  ::setenv("GRADSYNC_PAPER_REAL", "2", 1);
  expect_ranks(2, [](int rank, const ncclUniqueId& id) {
    ncclComm_t world = open(5, id, rank), group = nullptr;
    int mine = 10 + rank, sum = 0, all[5] = {};
    ncclAllGather(&mine, all, 1, ncclInt32, world, nullptr);
    EXPECT_EQ(std::vector<int>(all, all + 5), (std::vector<int>{10, 11, 10, 11, 10}));
    ncclAllReduce(&mine, &sum, 1, ncclInt32, ncclSum, world, nullptr);
    EXPECT_EQ(sum, 3 * 10 + 2 * 11);
    ncclReduceScatter(all, &sum, 1, ncclInt32, ncclProd, world, nullptr);
    EXPECT_EQ(sum, rank == 0 ? 100000 : 161051);
#if NCCL_VERSION_CODE >= 22800
    int each[5], back[5];
    for (int i = 0; i < 5; ++i) each[i] = 100 * rank + i;
    ncclAlltoAll(each, back, 1, ncclInt32, world, nullptr);
    for (int i = 0; i < 5; ++i) EXPECT_EQ(back[i], 100 * (i % 2) + rank);
#endif
    EXPECT_EQ(ncclCommSplit(world, NCCL_SPLIT_NOCOLOR, 0, &group, nullptr), ncclSuccess);
    EXPECT_EQ(ncclCommSplit(world, 0, rank, &group, nullptr), ncclInvalidUsage);
    EXPECT_NE(last_error().find("without device_id"), std::string::npos);
    ncclComm_t absent = nullptr;
    EXPECT_EQ(ncclCommInitRank(&absent, 5, id, 3), ncclInvalidArgument);
#if NCCL_VERSION_CODE >= 22700
    int gone[] = {1, 4}, count = 0;
    if (rank == 1) return;
    ASSERT_EQ(ncclCommShrink(world, gone, 2, &group, nullptr, 0), ncclSuccess);
    ncclCommCount(group, &count);
    ncclAllReduce(&mine, &sum, 1, ncclInt32, ncclSum, group, nullptr);
    EXPECT_EQ((std::vector<int>{count, sum}), (std::vector<int>{3, 30}));
#endif
  });
  ::unsetenv("GRADSYNC_PAPER_WORLD");
  ::unsetenv("GRADSYNC_PAPER_REAL");
}

}  // namespace
}  // namespace gradsync::paper::test
