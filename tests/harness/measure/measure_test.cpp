// Phases on a clock that stands still, and on a device's marks; exposed communication on
// hand-worked spans.
// Covers: step_recorder.cpp.
#include <gtest/gtest.h>

#include "harness/base/errors.h"
#include "harness/measure/step_recorder.h"
#include "harness/measure/timeline.h"
#include "tests/harness/measure/fake_timeline.h"

namespace gradsync::measure {
namespace {

constexpr std::int64_t kMs = 1'000'000;

TEST(StepRecorder, PhasesFillTheStepAndStepsTouch) {
  FakeClock clock;
  StepRecorder recorder(clock);
  recorder.begin_block();
  for (int step = 0; step < 2; ++step) {
    recorder.begin_micro_batch(0);
    {
      const PhaseScope scope(&recorder, Phase::Forward);
      clock.advance_ns(3 * kMs);
    }
    {
      const PhaseScope scope(&recorder, Phase::Backward);
      clock.advance_ns(5 * kMs);
      recorder.enter(Phase::Wait);  // as backward() does when computation ends
      clock.advance_ns(2 * kMs);
    }
    recorder.end_step();
  }
  ASSERT_EQ(recorder.steps().size(), 2U);
  const RecordedStep& step = recorder.steps()[1];
  EXPECT_DOUBLE_EQ(step.phase_s(Phase::Forward), 3e-3);
  EXPECT_DOUBLE_EQ(step.phase_s(Phase::Backward), 5e-3);
  EXPECT_DOUBLE_EQ(step.phase_s(Phase::Wait), 2e-3);
  EXPECT_DOUBLE_EQ(step.phase_s(Phase::Optimizer), 0);
  EXPECT_DOUBLE_EQ(step.total_s(), 10e-3);
  EXPECT_EQ(recorder.steps()[0].end_ns, step.start_ns);
}

// Two buckets, the first with three gradients; the second arrives while the first is copied, the
// third not.
TEST(StepRecorder, CopiesWithNoWaitBetweenThemAreOne) {
  FakeClock clock;
  StepRecorder recorder(clock);
  recorder.begin_block();
  for (const std::int64_t wait_ns : {7 * kMs, kShortestWaitNs - 1, std::int64_t{0}, kMs}) {
    recorder.enter(Phase::Wait);
    clock.advance_ns(wait_ns);
    recorder.enter(Phase::Copy);
    clock.advance_ns(2 * kMs);
  }
  recorder.enter(Phase::Wait);
  clock.advance_ns(kShortestWaitNs - 1);
  recorder.enter(Phase::Backward);
  recorder.end_step();
  recorder.end_block();
  const RecordedStep& step = recorder.steps().front();
  std::vector<Phase> phases;
  for (const PhaseInterval& interval : step.intervals) phases.push_back(interval.phase);
  EXPECT_EQ(phases, (std::vector{Phase::Wait, Phase::Copy, Phase::Wait, Phase::Copy, Phase::Wait,
                                 Phase::Backward}));
  double sum_s = 0;
  for (const Phase phase : kPhases) sum_s += step.phase_s(phase);
  EXPECT_DOUBLE_EQ(sum_s, step.total_s());
  EXPECT_DOUBLE_EQ(step.phase_s(Phase::Copy), 8e-3 + 1e-9 * (kShortestWaitNs - 1));
}

TEST(StepRecorder, AnInnerPhaseReturnsToTheOneAroundIt) {
  FakeClock clock;
  StepRecorder recorder(clock);
  recorder.begin_block();
  {
    const InnerPhaseScope alone(&recorder, Phase::Offload);
    clock.advance_ns(kMs);
  }
  clock.advance_ns(16 * kMs);  // of no phase
  recorder.enter(Phase::Backward);
  clock.advance_ns(2 * kMs);
  {
    const InnerPhaseScope inner(&recorder, Phase::Offload);
    clock.advance_ns(4 * kMs);
  }
  clock.advance_ns(8 * kMs);
  recorder.end_step();
  { const InnerPhaseScope nothing(nullptr, Phase::Offload); }
  const RecordedStep& step = recorder.steps().front();
  EXPECT_DOUBLE_EQ(step.phase_s(Phase::Offload), 5e-3);
  EXPECT_DOUBLE_EQ(step.phase_s(Phase::Backward), 10e-3);
  EXPECT_DOUBLE_EQ(step.total_s(), 31e-3);
}

TEST(StepRecorder, OnADevicePhasesAreWhereItsQueueCameToThem) {
  FakeClock clock;
  test::FakeTimeline timeline;
  StepRecorder recorder(clock, nullptr, &timeline);
  recorder.begin_block();
  recorder.enter(Phase::Forward);
  recorder.enter(Phase::Backward);
  recorder.leave();
  recorder.end_step();
  recorder.enter(Phase::Optimizer);
  recorder.leave();
  recorder.end_step();
  EXPECT_EQ(timeline.marks, 8);
  // The host's clock stands still: it only queues.
  timeline.moments_ns = {1 * kMs,  2 * kMs,  5 * kMs,  9 * kMs,
                         10 * kMs, 11 * kMs, 17 * kMs, 20 * kMs};
  recorder.end_block();
  ASSERT_EQ(recorder.steps().size(), 2U);
  EXPECT_DOUBLE_EQ(recorder.steps()[0].phase_s(Phase::Forward), 3e-3);
  EXPECT_DOUBLE_EQ(recorder.steps()[0].phase_s(Phase::Backward), 4e-3);
  EXPECT_DOUBLE_EQ(recorder.steps()[0].total_s(), 9e-3);
  EXPECT_DOUBLE_EQ(recorder.steps()[1].phase_s(Phase::Optimizer), 6e-3);
  EXPECT_DOUBLE_EQ(recorder.steps()[1].total_s(), 10e-3);
  EXPECT_EQ(recorder.steps()[0].end_ns, recorder.steps()[1].start_ns);
}

TEST(Timeline, MomentsAddUpGapsFromTheReference) {
  // A collective's end (2) is measured from the mark before it in the stream that computes (1), and
  // so is the next mark of that stream (3).
  EXPECT_EQ(moments(1000, {{-1, 0.001}, {0, 0.002}, {1, 5}, {1, 0.0005}}),
            (std::vector<std::int64_t>{2000, 4000, 5'004'000, 4500}));
  EXPECT_TRUE(moments(7, {}).empty());
  EXPECT_THROW(moments(0, {{0, 1}}), InternalError);
}

TEST(StepRecorder, ScopeWithoutRecorderDoesNothing) {
  const PhaseScope scope(nullptr, Phase::Forward);
  SUCCEED();
}

TEST(Exposed, IsTheWaitThatCommunicationFills) {
  EXPECT_EQ(exposed_ns({{0, 10}}, {{5, 20}}), 5);
  EXPECT_EQ(exposed_ns({{0, 10}}, {{10, 20}}), 0);
  EXPECT_EQ(exposed_ns({}, {{0, 5}}), 0);
}

TEST(Exposed, CountsOverlappingCollectivesOnce) {
  EXPECT_EQ(exposed_ns({{0, 10}, {5, 15}, {20, 30}}, {{8, 25}}), 7 + 5);
  EXPECT_EQ(exposed_ns({{20, 30}, {0, 10}}, {{0, 4}, {2, 6}, {29, 40}}), 6 + 1);
}

}  // namespace
}  // namespace gradsync::measure
