// What a trial is checked against, block_times, and expectation: all of it pure.
// Covers: expectation.cpp.
#include <gtest/gtest.h>

#include <numeric>

#include "harness/base/clock.h"
#include "harness/base/errors.h"
#include "harness/measure/step_recorder.h"
#include "harness/run/expectation.h"

namespace gradsync::run {
namespace {

int sum(const std::vector<int>& values) {
  return std::accumulate(values.begin(), values.end(), 0);
}

TEST(WindowRule, HonestWindowsAreEqual) {
  EXPECT_EQ(window_micro_batches(3, 4, false, false), (std::vector<int>{4, 4, 4}));
}

TEST(WindowRule, AsPublishedCountsLikeTheGuidesScripts) {
  const auto loop = window_micro_batches(29, 4, true, false);
  EXPECT_EQ(loop.front(), 1);
  EXPECT_EQ(sum(loop), 113);  // 1 + 28 x 4
  const auto accumulate = window_micro_batches(29, 4, true, true);
  EXPECT_EQ(accumulate.back(), 3);
  EXPECT_EQ(sum(accumulate), 115);  // 28 x 4 + 3
}

// The ledger of one step: `reductions[i]` bucket sizes of micro-batch i, broadcasts before it.
std::vector<comm::CommEvent> events_of(const std::vector<std::vector<std::int64_t>>& reductions,
                                       const std::vector<int>& broadcasts) {
  std::vector<comm::CommEvent> events;
  for (std::size_t i = 0; i < reductions.size(); ++i) {
    const auto micro_batch = static_cast<std::int32_t>(i);
    for (int b = 0; b < broadcasts[i]; ++b) {
      events.push_back({"broadcast", 16, 0, micro_batch, -1, 1, 2});
    }
    for (const std::int64_t bytes : reductions[i]) {
      events.push_back({"all_reduce", bytes, 0, micro_batch, 0, 1, 2});
    }
  }
  return events;
}

const sync::DdpTraffic kTraffic{{100, 200}, {16}, 0, {}};

std::vector<sync::Collectives> declared(const std::vector<bool>& syncs) {
  return sync::declared_collectives(kTraffic, syncs);
}

TEST(WindowRule, ABackwardIsFoundByItsNumber) {
  const std::vector<int> warmup{2, 2};
  const std::vector<int> windows{1, 4, 4};
  const auto place = [&](int index) { return place_of_backward(index, warmup, windows); };
  EXPECT_EQ(place(0), "warm-up step 1, micro-batch 1");
  EXPECT_EQ(place(3), "warm-up step 2, micro-batch 2");
  EXPECT_EQ(place(4), "step 1, micro-batch 1");
  EXPECT_EQ(place(5), "step 2, micro-batch 1");
  EXPECT_EQ(place(12), "step 3, micro-batch 4");
  EXPECT_THROW(place(13), InternalError);
}

TEST(Expectation, CountsOfOneStep) {
  const auto counts = expected_of_step(declared({false, false, true}));
  EXPECT_EQ(counts.at("all_reduce"), (results::OpCount{2, 300}));
  EXPECT_EQ(counts.at("broadcast"), (results::OpCount{1, 16}));  // before the first only
  EXPECT_EQ(expected_of_step(declared({true, true})).at("broadcast").count, 2);
}

TEST(Expectation, AnExactStepHasNoMismatch) {
  const auto events = events_of({{}, {100, 200}}, {1, 0});
  EXPECT_EQ(first_mismatch(declared({false, true}), events, 0), "");
  EXPECT_EQ(counts_of_step(events, 0), expected_of_step(declared({false, true})));
}

TEST(Expectation, NamesTheFirstDifference) {
  const auto wanted = declared({false, true});
  EXPECT_EQ(first_mismatch(wanted, events_of({{100, 200}, {100, 200}}, {1, 0}), 0),
            "step 1, micro-batch 1: 2 all_reduces, declared 0");
  EXPECT_EQ(first_mismatch(wanted, events_of({{}, {100, 201}}, {1, 0}), 0),
            "step 1, micro-batch 2: all_reduce 1 has 201 bytes, declared 200");
  EXPECT_NE(first_mismatch(wanted, events_of({{}, {100, 200}}, {0, 0}), 0), "");
}

TEST(Expectation, ReductionsAreOfAllGradients) {
  EXPECT_EQ(missing_gradients({100, 200}, 300), "");
  EXPECT_EQ(missing_gradients({100, 200}, std::nullopt), "");
  EXPECT_EQ(missing_gradients({100, 200}, 304),
            "2 reductions of 300 bytes in all, of gradients of 304 bytes");
  EXPECT_NE(missing_gradients({}, 4), "");
}

measure::RecordedStep step_of(double start_s, double end_s) {
  return {nanoseconds(start_s), nanoseconds(end_s), {}};
}

TEST(BlockTimes, StepsTouchAndFitIntoTheirBlock) {
  EXPECT_EQ(first_mistiming({step_of(1, 2), step_of(2, 4)}, 2, 3), "");
  EXPECT_EQ(first_mistiming({step_of(1, 2), step_of(2, 4)}, 3, 3), "2 steps have times, of 3");
  EXPECT_EQ(first_mistiming({step_of(1, 2), step_of(2.5, 4)}, 2, 3),
            "step 2 begins 500000000 ns after the end of the one before it");
  EXPECT_EQ(first_mistiming({step_of(1, 2), step_of(2, 4)}, 2, 2.9),
            "steps sum to 3.000000 s, the block took 2.900000 s");
}

// A recorder, and the ways in which one could be broken.
class BrokenRecorder {
 public:
  enum class Fault { None, LosesAStep, BeginsAStepLate, RunsFast };

  explicit BrokenRecorder(Fault fault) : fault_(fault), recorder_(fast_) {}

  // Records steps of 1, 2 and 3 s. Returns what first_mistiming says of them.
  std::string block() {
    const std::int64_t begin_ns = clock_.now_ns();
    recorder_.begin_block();
    for (const int length_s : {1, 2, 3}) {
      recorder_.enter(measure::Phase::Forward);
      pass(length_s);
      recorder_.end_step();
    }
    auto steps = recorder_.steps();
    if (fault_ == Fault::LosesAStep) steps.erase(steps.begin() + 1);
    if (fault_ == Fault::BeginsAStepLate) steps[1].start_ns += 1000;
    return first_mistiming(steps, 3, seconds(clock_.now_ns() - begin_ns));
  }

 private:
  void pass(int length_s) {
    clock_.advance_ns(nanoseconds(length_s));
    fast_.advance_ns(nanoseconds(fault_ == Fault::RunsFast ? 1.01 * length_s : length_s));
  }

  Fault fault_;
  FakeClock clock_;  // of the block
  FakeClock fast_;   // of the steps
  measure::StepRecorder recorder_;
};

TEST(BlockTimes, ABrokenRecorderMakesATrialInvalid) {
  using Fault = BrokenRecorder::Fault;
  EXPECT_EQ(BrokenRecorder(Fault::None).block(), "");
  EXPECT_EQ(BrokenRecorder(Fault::LosesAStep).block(), "2 steps have times, of 3");
  EXPECT_EQ(BrokenRecorder(Fault::BeginsAStepLate).block(),
            "step 2 begins 1000 ns after the end of the one before it");
  EXPECT_EQ(BrokenRecorder(Fault::RunsFast).block(),
            "steps sum to 6.060000 s, the block took 6.000000 s");
}

TEST(BlockTimes, WhatTheSchedulerTakesBesideThemIsNoFaultOfSteps) {
  EXPECT_EQ(first_mistiming({step_of(1, 1.001)}, 1, 30), "");
}

TEST(BlockTimes, ADevicesClockMayDifferALittle) {
  EXPECT_EQ(first_mistiming({step_of(0, 0.5)}, 1, 0.491), "");
  EXPECT_NE(first_mistiming({step_of(0, 0.5)}, 1, 0.489), "");
}

// Micro-batches 1 and 2 of 4 were not run.
TEST(PassedOver, MicroBatchesHaveWhatIsDeclared) {
  const auto of_step = declared({false, false, false, true});
  const auto events = events_of({{}, {}, {}, {100, 200}}, {1, 0, 0, 0});
  const PassedOver passed_over{1, 3};
  EXPECT_EQ(first_mismatch(of_step, events, 0, passed_over), "");
  EXPECT_EQ(counts_of_step(events, 0, of_step, passed_over), expected_of_step(of_step));
  const auto each = declared({true, true, true, true});
  const auto seen = events_of({{100, 200}, {}, {}, {100, 200}}, {1, 0, 0, 1});
  EXPECT_NE(first_mismatch(each, seen, 0), "") << "not run, and nothing says so";
  EXPECT_EQ(first_mismatch(each, seen, 0, passed_over), "");
  EXPECT_EQ(counts_of_step(seen, 0, each, passed_over), expected_of_step(each));
}

// Then it did run.
TEST(PassedOver, AMicroBatchMustHaveNothingInTheLedger) {
  const auto each = declared({true, true, true, true});
  const auto seen = events_of({{100, 200}, {100}, {}, {100, 200}}, {1, 0, 0, 1});
  EXPECT_NE(first_mismatch(each, seen, 0, PassedOver{1, 3}), "");
}

}  // namespace
}  // namespace gradsync::run
