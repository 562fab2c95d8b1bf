// What a gate measures, of arms that are made up.
#include "benchmarks/gate_measurement.h"

#include <gmock/gmock.h>

#include <map>
#include <optional>
#include <utility>

#include "harness/base/clock.h"

namespace gradsync::cli {
namespace {

using gate::Arm;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StrEq;

constexpr double kStartS = 0.05;
constexpr double kStepS = 0.001;

// Starts an arm at its first block, which takes kStartS, and says what it was asked.
class MadeUpArms : public ResidentArms {
 public:
  void start_control() override {}

  results::TrialRecord run(Arm arm, const GateRow& row, int warmup_steps, int steps) override {
    if (!std::exchange(is_open_[arm], true)) {
      ++starts_;
      steady_clock().sleep_until_ns(steady_clock().now_ns() + nanoseconds(kStartS));
    }
    asked_.push_back(arm);
    results::TrialRecord record;
    record.part = row.row.part;
    record.cell = row.row.cell;
    record.warmup_step_s.assign(static_cast<std::size_t>(warmup_steps), kStepS);
    record.step_s.assign(static_cast<std::size_t>(steps), kStepS);
    record.ledger.per_step["all_reduce"] = {all_reduces_[arm], 0};
    record.ranks.emplace_back();
    if (arm == fails_) {
      record.status = results::Status::Failed;
      record.reason = "made 0 of 5 steps";
    }
    return record;
  }

  void close() override { is_open_.clear(); }

  const std::vector<Arm>& asked() const { return asked_; }
  int starts() const { return starts_; }

  void set_all_reduces(Arm arm, int count) { all_reduces_[arm] = count; }
  void let_fail(Arm arm) { fails_ = arm; }

 private:
  std::map<Arm, int> all_reduces_ = {{Arm::Baseline, 4}, {Arm::Candidate, 4}, {Arm::Control, 4}};
  std::optional<Arm> fails_;
  std::map<Arm, bool> is_open_;
  std::vector<Arm> asked_;
  int starts_ = 0;
};

GateMeasurement measurement_of(MadeUpArms& arms) {
  const GateRow row{.row = {"", {{"job", "optimizer step"}}}, .warmup_steps = 2};
  return {arms, {row}, gate::Settings{}, 42, [](const GateProgress&) {}};
}

TEST(GateMeasurement, StartingAnArmIsNoSwitchOfItsTurn) {
  MadeUpArms arms;
  GateMeasurement measurement = measurement_of(arms);
  measurement.count();
  EXPECT_THAT(arms.asked(), ElementsAre(Arm::Baseline, Arm::Candidate));
  ASSERT_THAT(measurement.costs(), SizeIs(1));
  const gate::LaunchCost cost = measurement.costs().front();
  EXPECT_GE(cost.start_s, 3 * kStartS);
  EXPECT_EQ(cost.switch_s, 0) << "no arm ran two rows";
  EXPECT_THAT(cost.step_s, ElementsAre(kStepS));
}

TEST(GateMeasurement, WhatDiffersFromASteadyBaselineStaysDifferent) {
  MadeUpArms arms;
  arms.set_all_reduces(Arm::Candidate, 5);
  GateMeasurement measurement = measurement_of(arms);
  measurement.count();
  EXPECT_THAT(measurement.counts(0).differences, SizeIs(1));
  measurement.count_control();
  EXPECT_THAT(arms.asked(), ElementsAre(Arm::Baseline, Arm::Candidate, Arm::Control));
  EXPECT_THAT(measurement.counts(0).differences, SizeIs(1));
  EXPECT_THAT(measurement.counts(0).unfit_because, IsEmpty());
}

TEST(GateMeasurement, WhatTheBaselineItselfCountsOtherwiseIsNoDifference) {
  MadeUpArms arms;
  arms.set_all_reduces(Arm::Candidate, 5);
  arms.set_all_reduces(Arm::Control, 3);
  GateMeasurement measurement = measurement_of(arms);
  measurement.count();
  measurement.count_control();
  EXPECT_THAT(measurement.counts(0).differences, IsEmpty());
  EXPECT_THAT(measurement.counts(0).unfit_because,
              HasSubstr("the baseline's own trials differ: per step: all_reduce 3"));
}

TEST(GateMeasurement, WithoutCountsOfTheControlNothingIsKnown) {
  MadeUpArms arms;
  arms.set_all_reduces(Arm::Candidate, 5);
  arms.let_fail(Arm::Control);
  GateMeasurement measurement = measurement_of(arms);
  measurement.count();
  measurement.count_control();
  EXPECT_THAT(measurement.counts(0).differences, IsEmpty());
  EXPECT_THAT(measurement.counts(0).unfit_because,
              StrEq("failed of the control: made 0 of 5 steps"));
}

TEST(GateMeasurement, AStartOpensEveryArmOnceAndTakesItsTurns) {
  MadeUpArms arms;
  GateMeasurement measurement = measurement_of(arms);
  measurement.start("start", {0}, 4);
  EXPECT_EQ(arms.starts(), 3);
  const MeasuredRow& row = measurement.rows().front();
  ASSERT_THAT(row.turns, SizeIs(4));
  const gate::Settings settings;
  const auto steps = static_cast<std::size_t>(settings.passes * row.pass_steps);
  EXPECT_THAT(row.turns[0].of(Arm::Control), SizeIs(steps));
  EXPECT_THAT(arms.asked(), SizeIs(3 + 4 * 3 * static_cast<std::size_t>(settings.passes)));
}

}  // namespace
}  // namespace gradsync::cli
