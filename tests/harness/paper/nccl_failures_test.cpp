// Tests of NCCL of paper where ranks die, disagree, abort or never come.
#include <chrono>
#include <csignal>
#include <thread>

#include "tests/harness/paper/nccl_ranks.h"

namespace gradsync::paper::test {
namespace {

using Clock = std::chrono::steady_clock;

void expect_error_has(const std::string& part) {
  EXPECT_NE(last_error().find(part), std::string::npos) << last_error();
}

TEST(FailingNcclOfPaper, AbortEndsAWaitAtOnce) {
  const auto ends = run_ranks(2, [](int rank, const ncclUniqueId& id) {
    ncclComm_t comm = open(2, id, rank);
    if (rank == 1) {
      // This rank waits for rank 0's end: no rank comes to the collective before.
      EXPECT_EQ(sum_ones(comm), ncclSuccess);
      EXPECT_EQ(sum_ones(comm), ncclRemoteError);
      expect_error_has(
          "rank 0 aborted the communicator and never came to collective 2 "
          "(AllReduce of 1 float32, sum)");
      return;
    }
    EXPECT_EQ(sum_ones(comm), ncclSuccess);
    std::thread other([comm] {
      ::usleep(100000);
      EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
    });
    int got = 0;
    const auto since = Clock::now();
    EXPECT_EQ(ncclRecv(&got, 1, ncclInt32, 1, comm, nullptr), ncclSystemError);
    EXPECT_LT(Clock::now() - since, std::chrono::seconds(5));
    expect_error_has("rank 0 aborted the communicator; rank 1 had not come to Send of message 1");
    other.join();
    EXPECT_EQ(sum_ones(comm), ncclInvalidArgument);
  });
  EXPECT_EQ(ends, (std::vector<int>{0, 0}));
}

TEST(FailingNcclOfPaper, APeerThatDiesEndsTheWait) {
  const auto ends = run_ranks(3, [](int rank, const ncclUniqueId& id) {
    ncclComm_t comm = open(3, id, rank);
    EXPECT_EQ(sum_ones(comm), ncclSuccess);
    if (rank == 2) {
      ::usleep(50000);
      ::raise(SIGKILL);
    }
    const auto since = Clock::now();
    EXPECT_EQ(sum_ones(comm), ncclRemoteError);
    EXPECT_LT(Clock::now() - since, std::chrono::seconds(5));
    expect_error_has(") ended and never came to collective 2 (AllReduce of 1 float32, sum)");
    EXPECT_EQ(last_error().find("rank 2 (process "), 0U);
    EXPECT_EQ(async_error(comm), ncclRemoteError);
    EXPECT_EQ(sum_ones(comm), ncclRemoteError) << "a communicator that failed stays so";
    int number = 0;
    EXPECT_EQ(ncclSend(&number, 1, ncclInt32, 1 - rank, comm, nullptr), ncclRemoteError);
  });
  EXPECT_EQ(ends, (std::vector<int>{0, 0, kKilled}));
}

TEST(FailingNcclOfPaper, WhatADeadPeerSentIsReceived) {
  const auto ends = run_ranks(2, [](int rank, const ncclUniqueId& id) {
    ncclComm_t comm = open(2, id, rank);
    int number = 7;
    if (rank == 1) {
      ncclSend(&number, 1, ncclInt32, 0, comm, nullptr);
      ::raise(SIGKILL);
    }
    ::usleep(50000);
    number = 0;
    EXPECT_EQ(ncclRecv(&number, 1, ncclInt32, 1, comm, nullptr), ncclSuccess);
    EXPECT_EQ(number, 7);
    EXPECT_EQ(ncclRecv(&number, 1, ncclInt32, 1, comm, nullptr), ncclRemoteError);
  });
  EXPECT_EQ(ends, (std::vector<int>{0, kKilled}));
}

TEST(FailingNcclOfPaper, EveryWaitHasADeadline) {
  ::setenv("GRADSYNC_PAPER_DEADLINE_S", "0.2", 1);
  expect_ranks(2, [](int rank, const ncclUniqueId& id) {
    ncclComm_t comm = open(2, id, rank);
    if (rank == 1) {
      ::usleep(1000000);
      return;
    }
    EXPECT_EQ(sum_ones(comm), ncclSystemError);
    EXPECT_EQ(last_error(),
              "rank 1 never came to collective 1 (AllReduce of 1 float32, sum) within 0.2 s "
              "(GRADSYNC_PAPER_DEADLINE_S)");
    EXPECT_EQ(async_error(comm), ncclSystemError);
    ncclUniqueId alone;
    ncclGetUniqueId(&alone);
    EXPECT_EQ(ncclCommInitRank(&comm, 2, alone, 0), ncclSystemError);
    expect_error_has("rank 1 never came to the opening of the communicator");
  });
  ::unsetenv("GRADSYNC_PAPER_DEADLINE_S");
}

TEST(FailingNcclOfPaper, NamesBothRanksThatDisagree) {
  expect_ranks(3, [](int rank, const ncclUniqueId& id) {
    ncclComm_t comm = open(3, id, rank);
    float data[6] = {};
    // The third never comes; the others need not wait for it to see that they differ.
    if (rank == 2) {
      ::usleep(300000);
      return;
    }
    EXPECT_EQ(rank == 0 ? ncclAllReduce(data, data, 2, ncclFloat32, ncclSum, comm, nullptr)
                        : ncclAllGather(data, data, 2, ncclFloat32, comm, nullptr),
              ncclInvalidUsage);
    expect_error_has("the ranks disagree in collective 1: ");
    expect_error_has("rank 0 called AllReduce of 2 float32, sum");
    expect_error_has("rank 1 called AllGather of 2 float32");
  });
  expect_ranks(2, [](int rank, const ncclUniqueId& id) {
    float data[4] = {};
    ncclComm_t comm = open(2, id, rank);
    EXPECT_EQ(ncclBroadcast(data, data, 2, rank == 0 ? ncclFloat32 : ncclInt32, 0, comm, nullptr),
              ncclInvalidUsage);
    expect_error_has("rank 1 called Broadcast of 2 int32, root 0");
  });
  expect_ranks(2, [](int rank, const ncclUniqueId& id) {
    float data[4] = {};
    ncclComm_t comm = open(2, id, rank);
    if (rank == 0) {
      EXPECT_EQ(ncclSend(data, 3, ncclFloat32, 1, comm, nullptr), ncclSuccess);
      return;
    }
    EXPECT_EQ(ncclRecv(data, 4, ncclFloat32, 0, comm, nullptr), ncclInvalidUsage);
    expect_error_has("rank 1 called Recv of 4 float32; rank 0 called Send of 3 float32");
  });
}

TEST(FailingNcclOfPaper, AGroupWithACallThatIsRefusedRunsNothing) {
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  ncclComm_t comm = open(1, id, 0);
  float one = 1, sum = 0;
  ncclGroupStart();
  EXPECT_EQ(ncclAllReduce(&one, &sum, 1, ncclFloat32, ncclSum, comm, nullptr), ncclSuccess);
  EXPECT_EQ(ncclSend(&one, 1, ncclFloat32, 1, comm, nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
  EXPECT_EQ(sum, 0);
  expect_error_has("rank 1 is not of this communicator of 1 ranks");
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
}

TEST(InjectedErrors, ARankNeverComes) {
  ::setenv("GRADSYNC_PAPER_NCCL", "never:rank=1,call=3", 1);
  ::setenv("GRADSYNC_PAPER_DEADLINE_S", "0.3", 1);
  expect_ranks(2, [](int rank, const ncclUniqueId& id) {
    ncclComm_t comm = open(2, id, rank);
    EXPECT_EQ(sum_ones(comm), ncclSuccess);
    EXPECT_EQ(sum_ones(comm), ncclSuccess);
    EXPECT_EQ(sum_ones(comm), rank == 1 ? ncclSuccess : ncclSystemError);
    if (rank == 0) return expect_error_has("rank 1 never came to collective 3");
    ::usleep(600000);
    EXPECT_EQ(sum_ones(comm), ncclRemoteError);
    expect_error_has("rank 0 (process ");
    expect_error_has("collective 4");
  });
  ::unsetenv("GRADSYNC_PAPER_DEADLINE_S");
  ::unsetenv("GRADSYNC_PAPER_NCCL");
}

TEST(InjectedErrors, ACommunicatorHasAnAsynchronousError) {
  ::setenv("GRADSYNC_PAPER_NCCL", "async_error:rank=1,call=2", 1);
  expect_ranks(2, [](int rank, const ncclUniqueId& id) {
    ncclComm_t comm = open(2, id, rank);
    EXPECT_EQ(sum_ones(comm), ncclSuccess);
    EXPECT_EQ(async_error(comm), ncclSuccess);
    EXPECT_EQ(sum_ones(comm), rank == 1 ? ncclSuccess : ncclRemoteError);
    EXPECT_EQ(async_error(comm), ncclRemoteError);
    if (rank == 0) return;
    EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
  });
  ::unsetenv("GRADSYNC_PAPER_NCCL");
}

TEST(InjectedErrors, DuplicateGpus) {
  ::setenv("GRADSYNC_PAPER_NCCL", "duplicate_gpu", 1);
  expect_ranks(2, [](int rank, const ncclUniqueId& id) {
    ncclComm_t comm = nullptr;
    EXPECT_EQ(ncclCommInitRank(&comm, 2, id, rank), ncclInvalidUsage);
    expect_error_has("Duplicate GPU detected : rank 0 and rank 1 both on CUDA device ");
  });
  ::unsetenv("GRADSYNC_PAPER_NCCL");
}

TEST(InjectedErrors, RefusesWhatItDoesNotKnow) {
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  const auto refused = [&](const char* variable, const char* value, const char* why) {
    ::setenv(variable, value, 1);
    ncclComm_t comm = nullptr;
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(ncclCommInitRank(&comm, 1, id, 0), ncclInvalidArgument) << value;
    EXPECT_NE(::testing::internal::GetCapturedStderr().find(why), std::string::npos) << value;
    ::unsetenv(variable);
  };
  refused("GRADSYNC_PAPER_NCCL", "sometimes:rank=1", "'sometimes:rank=1' is none of never:rank");
  refused("GRADSYNC_PAPER_NCCL", "never:rank=1,step=2", "never has no field 'step=2'");
  refused("GRADSYNC_PAPER_NCCL", "never:rank=1", "never needs rank=R,call=N");
  refused("GRADSYNC_PAPER_NCCL", "never:rank=x,call=2", "'x' is not a number");
  refused("GRADSYNC_PAPER_NCCL", "never:rank=,call=2", "'' is not a number");
  refused("GRADSYNC_PAPER_NCCL", "duplicate_gpu:rank=1", "is none of");
  refused("GRADSYNC_PAPER_DEADLINE_S", "-1", "'-1' is not a number");
  refused("GRADSYNC_PAPER_WORLD", "8", "it goes with GRADSYNC_PAPER_REAL");
}

}  // namespace
}  // namespace gradsync::paper::test
