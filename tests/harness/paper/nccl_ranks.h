// Ranks as forked processes over NCCL of paper. For tests.
#pragma once

#include <gtest/gtest.h>
#include <nccl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace gradsync::paper::test {

// The GPU of this thread, whose bus id is its number. Set before a communicator is opened.
inline thread_local int gpu = 0;

// While set, work on any stream is kept and not run.
inline std::vector<std::function<void()>>* captured = nullptr;

// How many bytes at an address a copy or a collective has written, as far as was noted.
inline std::map<const void*, std::size_t> written;

// What a forked rank does. It fails by gtest's expectations.
using Life = std::function<void(int rank, const ncclUniqueId& id)>;

inline constexpr int kKilled = -1;
inline constexpr unsigned kWatchdogSeconds = 60;

// Runs `life` in processes of ranks 0 to `ranks` - 1, whose GPUs are their ranks, and returns what
// each ended with: 0, 1 where an expectation failed, or kKilled. This process makes the id.
inline std::vector<int> run_ranks(int ranks, const Life& life) {
  ncclUniqueId id;
  EXPECT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  std::vector<pid_t> children;
  std::fflush(nullptr);
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(kWatchdogSeconds);
      gpu = rank;
      life(rank, id);
      std::fflush(nullptr);
      ::_exit(::testing::Test::HasFailure() ? 1 : 0);
    }
    children.push_back(child);
  }
  std::vector<int> ends;
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    ends.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : kKilled);
  }
  return ends;
}

// Expects that all ranks end well.
inline void expect_ranks(int ranks, const Life& life) {
  EXPECT_EQ(run_ranks(ranks, life), std::vector<int>(static_cast<std::size_t>(ranks), 0));
}

// Opens the communicator of `ranks`.
inline ncclComm_t open(int ranks, const ncclUniqueId& id, int rank) {
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitRank(&comm, ranks, id, rank), ncclSuccess) << ncclGetLastError(nullptr);
  return comm;
}

// Sums 1.0f over the ranks; returns what the call returned.
inline ncclResult_t sum_ones(ncclComm_t comm, float* sum = nullptr) {
  float one = 1;
  return ncclAllReduce(&one, sum == nullptr ? &one : sum, 1, ncclFloat32, ncclSum, comm, nullptr);
}

inline std::string last_error() {
  return ncclGetLastError(nullptr);
}

inline ncclResult_t async_error(ncclComm_t comm) {
  ncclResult_t error = ncclSuccess;
  EXPECT_EQ(ncclCommGetAsyncError(comm, &error), ncclSuccess);
  return error;
}

// Memory that ends the process when it is touched.
inline void* untouchable(std::size_t bytes) {
  return ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

}  // namespace gradsync::paper::test
