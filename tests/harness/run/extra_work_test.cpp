// Work that is added to a step: how much of it, that it is done, and that no peak shows it.
#include <gtest/gtest.h>

#include "harness/measure/memory.h"
#include "harness/run/extra_work.h"

namespace gradsync::run {
namespace {

TEST(ExtraWork, TheCountIsTheNearestThatTakesTheShare) {
  EXPECT_EQ(operations_for(0.03, 10e-3, 1e-6), 300);
  EXPECT_EQ(operations_for(0.10, 10e-3, 1e-6), 1000);
  EXPECT_EQ(operations_for(0.03, 10e-3, 0.8e-6), 375);
  EXPECT_EQ(operations_for(10, 10e-3, 1e-6), 100'000);
}

TEST(ExtraWork, OfAShortStepOneOperationRemains) {
  EXPECT_EQ(operations_for(0.01, 20e-6, 1e-6), 1);
}

TEST(ExtraWork, EveryRunDoesTheWholeCount) {
  ExtraWork work(70, at::kCPU);
  EXPECT_EQ(work.done(), 0);
  for (int step = 1; step <= 3; ++step) {
    work.run();
    EXPECT_EQ(work.done(), 70 * step);
  }
}

TEST(ExtraWork, KnowsWhatAnOperationCosts) {
  ExtraWork work(1000, at::kCPU);
  EXPECT_EQ(work.mean_operation_s(), 0);
  work.run();
  const double one_s = work.mean_operation_s();
  EXPECT_GT(one_s, 50e-9);  // 2048 additions
  EXPECT_LT(one_s, 10e-3);
  for (int i = 0; i < 4; ++i) work.run();
  EXPECT_LT(work.mean_operation_s(), 5 * one_s) << "a sum, not a mean";
}

TEST(ExtraWork, SurvivesBeingMoved) {
  ExtraWork work(5, at::kCPU);
  work.run();
  ExtraWork moved = std::move(work);
  moved.run();
  EXPECT_EQ(moved.done(), 10);
}

TEST(ExtraWork, TakesNoMemoryThatIsCounted) {
  if (!measure::meter().installed()) measure::meter().install();
  measure::meter().reset_peak();
  const std::int64_t found_bytes = measure::meter().peak_bytes();
  ExtraWork work(100, at::kCPU);
  work.run();
  EXPECT_EQ(measure::meter().peak_bytes(), found_bytes);
}

}  // namespace
}  // namespace gradsync::run
