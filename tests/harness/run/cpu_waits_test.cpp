// For how long other processes had the core, from what the kernel counts of each thread.
#include "harness/run/cpu_waits.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace gradsync::run {
namespace {

constexpr int kMain = 1;
constexpr int kPolling = 2;

TEST(CpuWaits, OwnThreadsThatShareACoreKeepEachOtherWaiting) {
  // Four seconds of one core: three for the main thread and one for the other, which waits for it.
  EXPECT_DOUBLE_EQ(shortest_wait_for_others_s({}, {{kMain, {3, 1}}, {kPolling, {1, 3}}}), 0);
}

TEST(CpuWaits, WhatAThreadWaitedBeyondItsProcessWasForOthers) {
  EXPECT_DOUBLE_EQ(shortest_wait_for_others_s({}, {{kMain, {2, 2}}}), 2);
  EXPECT_DOUBLE_EQ(shortest_wait_for_others_s({}, {{kMain, {2, 2}}, {kPolling, {0.5, 0}}}), 1.5);
}

TEST(CpuWaits, AThreadThatPollsTellsWhatTheMainThreadCannot) {
  // The main thread sleeps in a wait for most of the time; the one that polls could run in all of
  // ten seconds, of which the process had three.
  EXPECT_DOUBLE_EQ(shortest_wait_for_others_s({}, {{kMain, {1, 1}}, {kPolling, {2, 8}}}), 7);
}

TEST(CpuWaits, CountFromTheFirstReadingAndOfNewThreadsFromNothing) {
  const Threads before = {{kMain, {100, 50}}, {kPolling, {20, 10}}};
  const Threads after = {{kMain, {101, 53}}, {kPolling, {20, 10}}, {3, {0.5, 0}}};
  EXPECT_DOUBLE_EQ(shortest_wait_for_others_s(before, after), 2.5);
}

TEST(CpuWaits, AreKnownWhereTheKernelCounts) {
  const auto wait_s = CpuWaitMeter().since_start().queue_wait_s;
  EXPECT_EQ(wait_s.has_value(), std::filesystem::exists("/proc/self/schedstat"));
  EXPECT_GE(wait_s.value_or(0), 0);
}

}  // namespace
}  // namespace gradsync::run
