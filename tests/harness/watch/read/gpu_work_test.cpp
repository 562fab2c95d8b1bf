// Times of what a GPU ran, worked out by hand.
#include "harness/watch/read/gpu_work.h"

#include <gmock/gmock.h>

namespace gradsync::watch {
namespace {

// Two collectives, the second of which runs beside two kernels that touch; a copy in between.
GpuWork made_work() {
  return gpu_work({{100, 200}, {10, 50}}, {{150, 170}, {170, 300}},
                  {{10, 50}, {60, 70}, {100, 200}, {150, 170}, {170, 300}});
}

TEST(GpuWork, TimesAreMergedHoweverTheyLie) {
  const GpuSpans all = merged({{5, 9}, {0, 3}, {2, 4}, {4, 5}, {20, 20}, {12, 15}, {13, 14}});
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].start_ns, 0);
  EXPECT_EQ(all[0].end_ns, 9);
  EXPECT_EQ(all[1].start_ns, 12);
  EXPECT_EQ(all[1].end_ns, 15);
}

TEST(GpuWork, CommunicationIsExposedWhereNothingComputes) {
  const GpuTimes times = times_of(made_work());
  EXPECT_DOUBLE_EQ(times.span_s, 290e-9);
  EXPECT_DOUBLE_EQ(times.communication_s, 140e-9);
  EXPECT_DOUBLE_EQ(times.computation_s, 150e-9);
  EXPECT_DOUBLE_EQ(times.overlapped_s, 50e-9);
  EXPECT_DOUBLE_EQ(times.exposed_s, 90e-9);
  EXPECT_DOUBLE_EQ(times.idle_s, 40e-9);  // 50 to 60 and 70 to 100: a copy is work
}

TEST(GpuWork, OfAStepItsOwnPartsCountAlone) {
  const GpuTimes times = times_within(made_work(), {40, 160});
  EXPECT_DOUBLE_EQ(times.span_s, 120e-9);
  EXPECT_DOUBLE_EQ(times.communication_s, 70e-9);
  EXPECT_DOUBLE_EQ(times.overlapped_s, 10e-9);
  EXPECT_DOUBLE_EQ(times.idle_s, 40e-9);
}

TEST(GpuWork, WhatWasLaunchedIsDoneWhenTheLastOfItIs) {
  GpuWork work = made_work();
  work.progress = {{0, 50}, {5, 200}, {7, 200}};
  EXPECT_EQ(done_ns(work, -1), std::nullopt);
  EXPECT_EQ(done_ns(work, 4), 50);
  EXPECT_EQ(done_ns(work, 5), 200);
  shift(work, 1000);
  EXPECT_EQ(done_ns(work, 1004), 1050);
  EXPECT_DOUBLE_EQ(times_of(work).exposed_s, 90e-9);
}

TEST(GpuWork, OneThatRanNothingHasNoTimes) {
  EXPECT_DOUBLE_EQ(times_of(GpuWork()).span_s, 0);
}

}  // namespace
}  // namespace gradsync::watch
