// Puts together the operations of c10d and the calls of NCCL: where both saw the same, where c10d
// calls NCCL otherwise than it is called itself, and where they do not agree.
// Covers: op_sums.cpp.
#include "harness/watch/read/nccl_events.h"

#include <gmock/gmock.h>

#include "harness/watch/inject/preload/event_file.h"
#include "harness/watch/read/op_sums.h"

namespace gradsync::watch {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::int64_t kNotReturned = 0;

// A process written down call by call. Each operation of c10d's takes from 10 to 90 ns of its
// hundred; NCCL is called at 50.
class Process {
 public:
  explicit Process(std::int64_t thread = 7) : thread_(thread) {
    c10d_.pid = 100;
    c10d_.rank = 0;
    c10d_.world_size = 2;
    nccl_.pid = 100;
    nccl_.rank = 1;
    nccl_.world_size = 8;
  }

  Process& c10d(const std::string& name, std::int64_t bytes, std::int64_t group = 1) {
    now_ns_ += 100;
    Event event = made(now_ns_ + 10, name, bytes);
    event.object = group;
    event.issued_ns = now_ns_ + 90;
    event.detail = "group";
    c10d_.events.push_back(event);
    return *this;
  }

  Process& of_one() {
    c10d_.world_size = 1;
    nccl_.world_size = 1;
    return *this;
  }

  Process& last_never_returns() {
    c10d_.events.back().issued_ns = kNotReturned;
    return *this;
  }

  Process& last_is_complete() {
    c10d_.events.back().end_ns = now_ns_ + 95;
    return *this;
  }

  Process& nccl(const std::string& name, std::int64_t bytes, const char* detail = kNcclCall) {
    nccl_.events.push_back(made(now_ns_ + 50, name, bytes, detail));
    return *this;
  }

  // Between two operations.
  Process& nccl_alone(const std::string& name, std::int64_t bytes, const char* detail = kNcclCall) {
    now_ns_ += 100;
    return nccl(name, bytes, detail);
  }

  Process& other_thread() {
    ++thread_;
    return *this;
  }

  RankEvents merged() const {
    RankEvents process = c10d_;
    merge_nccl(process, nccl_);
    return process;
  }

  const RankEvents& only_c10d() const { return c10d_; }
  const RankEvents& only_nccl() const { return nccl_; }

 private:
  Event made(std::int64_t at_ns, const std::string& name, std::int64_t bytes,
             const char* detail = "") const {
    Event event;
    event.start_ns = at_ns;
    event.end_ns = at_ns;
    event.name = name;
    event.bytes = bytes;
    event.thread = thread_;
    event.detail = detail;
    event.is_captured = event.detail == kNcclCaptured;
    return event;
  }

  std::int64_t thread_;
  std::int64_t now_ns_ = 1000;
  RankEvents c10d_;
  RankEvents nccl_;
};

OpSums sums_of(const RankEvents& process) {
  OpSums sums;
  for (const Event& event : process.events) {
    if (has_communicated(event)) add(sums, event);
  }
  return sums;
}

TEST(MergeNccl, WhatBothSawIsOneEvent) {
  const RankEvents merged = Process()
                                .c10d("all_reduce", 4096)
                                .nccl("all_reduce", 4096)
                                .c10d("reduce_scatter", 800)
                                .nccl("reduce_scatter", 800)
                                .merged();
  EXPECT_EQ(sums_of(merged), (OpSums{{"all_reduce", {1, 4096}}, {"reduce_scatter", {1, 800}}}));
  EXPECT_THAT(merged.faults, IsEmpty());
  EXPECT_EQ(merged.events[0].detail, "group") << "c10d's event is the one that stays";
}

// One operation each, as torch's ProcessGroupNCCL carries it out.
TEST(MergeNccl, OperationsThatCallNcclOtherwiseAgreeWithIt) {
  Process process;
  process.c10d("all_reduce", 30).nccl("all_reduce", 10).nccl("all_reduce", 20);  // coalesced
  process.c10d("barrier", 0).nccl("all_reduce", 4);
  process.c10d("all_gather", 30).nccl("broadcast", 10).nccl("broadcast", 20);  // unequal parts
  process.c10d("reduce_scatter", 30).nccl("reduce", 10).nccl("reduce", 20);
  process.c10d("all_to_all", 30).nccl("send", 10).nccl("recv", 15).nccl("send", 20).nccl("recv", 1);
  process.c10d("all_to_all", 40).nccl("all_to_all", 40);
  process.c10d("gather", 10).nccl("send", 10);
  process.c10d("gather", 10).nccl("recv", 10).nccl("recv", 10);  // the root
  process.c10d("scatter", 10).nccl("recv", 10);
  process.c10d("scatter", 10).nccl("send", 10).nccl("send", 10);  // the root
  process.c10d("all_to_all", 0);                                  // nothing to send
  const RankEvents merged = process.merged();
  EXPECT_THAT(merged.faults, IsEmpty());
  EXPECT_EQ(merged.events.size(), process.only_c10d().events.size());
}

TEST(MergeNccl, SizesThatDifferAreToldByName) {
  const RankEvents merged = Process()
                                .c10d("all_reduce", 4096)
                                .nccl("all_reduce", 4096)
                                .c10d("all_reduce", 4096)
                                .nccl("all_reduce", 8192)
                                .c10d("gather", 10)
                                .nccl("send", 11)
                                .merged();
  EXPECT_THAT(
      merged.faults,
      ElementsAre("1 of 2 all_reduce are 8192 bytes by what NCCL was called for, and 4096 by c10d",
                  "1 of 1 gather are 11 bytes by what NCCL was called for, and 10 by c10d"));
}

TEST(MergeNccl, ASizeThatC10dDoesNotTellIsNccls) {
  const RankEvents merged =
      Process().c10d("all_reduce", -1).nccl("all_reduce", 10).nccl("all_reduce", 20).merged();
  EXPECT_EQ(sums_of(merged), (OpSums{{"all_reduce", {1, 30}}}));
  EXPECT_THAT(merged.faults, IsEmpty());
}

TEST(MergeNccl, ASizeThatNcclDoesNotTellIsNotCompared) {
  const RankEvents merged = Process().c10d("all_gather", 30).nccl("all_gather", -1).merged();
  EXPECT_EQ(sums_of(merged), (OpSums{{"all_gather", {1, 30}}}));
  EXPECT_THAT(merged.faults, IsEmpty());
}

TEST(MergeNccl, CallsPastC10dAreCollectivesOfTheirOwn) {
  const RankEvents merged = Process()
                                .c10d("broadcast", 8)
                                .nccl("broadcast", 8)
                                .nccl_alone("all_reduce", 100)
                                .other_thread()
                                .nccl("all_reduce", 200)
                                .merged();
  EXPECT_EQ(sums_of(merged), (OpSums{{"all_reduce", {2, 300}}, {"broadcast", {1, 8}}}));
  EXPECT_THAT(merged.faults,
              ElementsAre("NCCL was called for 2 all_reduce that no operation of c10d is known to "
                          "have made: they count as well"));
}

TEST(MergeNccl, AnOperationThatNeverReturnedMadeWhatFollowsOnItsThread) {
  const RankEvents merged =
      Process().c10d("all_reduce", 10).last_never_returns().nccl_alone("all_reduce", 10).merged();
  EXPECT_EQ(sums_of(merged), (OpSums{{"all_reduce", {1, 10}}}));
  EXPECT_THAT(merged.faults, IsEmpty());
}

TEST(MergeNccl, AnOperationThatCalledNothingIsTold) {
  const RankEvents merged = Process()
                                .c10d("broadcast", 8)
                                .nccl("broadcast", 8)
                                .c10d("broadcast", 16)  // lost
                                .c10d("broadcast", 24)
                                .last_is_complete()        // gloo's
                                .c10d("broadcast", 32, 2)  // of a group that never calls NCCL
                                .c10d("all_reduce", 8)
                                .nccl("all_reduce", 8)
                                .c10d("all_reduce", 16)  // its call may be too late to be read
                                .merged();
  EXPECT_THAT(merged.faults, ElementsAre("1 of 2 broadcast called nothing of NCCL, though their "
                                         "group does"));
}

// torch copies what it need not send.
TEST(MergeNccl, AProcessAloneNeedNotCallNccl) {
  const RankEvents merged = Process()
                                .of_one()
                                .c10d("all_reduce", 8)
                                .nccl("all_reduce", 8)
                                .c10d("reduce_scatter", 16)
                                .c10d("all_reduce", 8)
                                .nccl("all_reduce", 8)
                                .merged();
  EXPECT_EQ(sums_of(merged), (OpSums{{"all_reduce", {2, 16}}, {"reduce_scatter", {1, 16}}}));
  EXPECT_THAT(merged.faults, IsEmpty());
}

TEST(MergeNccl, OnlyTheLaunchesOfAGraphRunItsCalls) {
  const RankEvents merged = Process()
                                .c10d("all_reduce", 64)
                                .nccl("all_reduce", 64, kNcclCaptured)
                                .nccl_alone("all_reduce", 64, kNcclReplayed)
                                .nccl_alone("all_reduce", 64, kNcclReplayed)
                                .c10d("broadcast", 8)
                                .nccl("broadcast", 8)
                                .nccl("all_reduce", 64, kNcclReplayed)  // never an operation's
                                .merged();
  EXPECT_EQ(sums_of(merged), (OpSums{{"all_reduce", {3, 192}}, {"broadcast", {1, 8}}}));
  EXPECT_THAT(merged.events, SizeIs(5)) << "the step that was captured still says what it has";
  EXPECT_THAT(merged.faults, IsEmpty());
}

TEST(MergeNccl, EventsStayInOrderAndThePlaceIsC10ds) {
  const RankEvents merged = Process()
                                .nccl_alone("send", 1)
                                .c10d("all_reduce", 2)
                                .nccl("all_reduce", 2)
                                .nccl_alone("recv", 3)
                                .merged();
  ASSERT_THAT(merged.events, SizeIs(3));
  EXPECT_EQ(merged.events[0].name, "send");
  EXPECT_EQ(merged.events[2].name, "recv");
  EXPECT_EQ(merged.rank, 0);
  EXPECT_EQ(merged.world_size, 2);
}

TEST(AddNcclCalls, AProcessWithoutTorchIsAProcess) {
  const Process process = Process().c10d("send", 1).nccl("send", 1);
  RankEvents other = process.only_nccl();
  other.pid = 200;
  std::vector<RankEvents> processes{process.only_c10d()};
  add_nccl_calls({process.only_nccl(), other}, processes);
  ASSERT_THAT(processes, SizeIs(2));
  EXPECT_THAT(processes[0].events, SizeIs(1));
  EXPECT_EQ(processes[1].pid, 200);
  EXPECT_EQ(processes[1].rank, 1);
  EXPECT_EQ(processes[1].world_size, 8);
  EXPECT_THAT(processes[1].events, SizeIs(1));
}

}  // namespace
}  // namespace gradsync::watch
