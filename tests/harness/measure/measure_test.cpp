// Phases on a clock that stands still, and exposed communication on hand-worked spans.
#include <gtest/gtest.h>

#include "harness/measure/exposed.h"
#include "harness/measure/step_recorder.h"

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
  const StepTimes& step = recorder.steps()[1];
  EXPECT_DOUBLE_EQ(step.phase_s(Phase::Forward), 3e-3);
  EXPECT_DOUBLE_EQ(step.phase_s(Phase::Backward), 5e-3);
  EXPECT_DOUBLE_EQ(step.phase_s(Phase::Wait), 2e-3);
  EXPECT_DOUBLE_EQ(step.phase_s(Phase::Optimizer), 0);
  EXPECT_DOUBLE_EQ(step.total_s(), 10e-3);
  EXPECT_EQ(recorder.steps()[0].end_ns, step.start_ns);
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
