// The measurements of a gate on made-up arms.
#include "harness/arms/gate_measurement.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "harness/base/clock.h"

namespace gradsync::arms {
namespace {

using gate::Arm;
using ::testing::DoubleEq;
using ::testing::DoubleNear;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StrEq;
using ::testing::UnorderedElementsAre;

constexpr double kStartS = 0.05;
constexpr double kStepS = 0.001;

// Starts an arm at its first block, which takes kStartS, and says what it was asked.
class MadeUpArms : public ResidentArms {
 public:
  void start_control() override {}
  void exchange_baselines(bool exchanged) override {
    EXPECT_TRUE(is_open_.empty()) << "before anything is closed";
    exchanges_.push_back(exchanged);
  }

  Block run(Arm arm, const GateRow& row, int warmup_steps, int steps) override {
    if (!std::exchange(is_open_[arm], true)) {
      started_.push_back(arm);
      steady_clock().sleep_until_ns(steady_clock().now_ns() + nanoseconds(kStartS));
    }
    const int block = blocks(arm);
    asked_.push_back(arm);
    warmup_steps_.push_back(warmup_steps);
    results::TrialRecord record;
    record.part = row.row.part;
    record.cell = row.row.cell;
    record.warmup_step_s.assign(static_cast<std::size_t>(warmup_steps), kStepS);
    record.step_s.assign(static_cast<std::size_t>(steps), kStepS);
    record.ledger.per_step["all_reduce"] = {all_reduces_[arm], 0};
    for (const double share : {0.2, 0.4}) {
      record.ranks.emplace_back().phase_s["forward"].assign(record.step_s.size(), share * kStepS);
    }
    if (arm == fails_ && block >= first_failure_ && block < first_failure_ + failures_) {
      record.status = results::Status::Failed;
      record.reason = "made 0 of 5 steps";
    }
    // Ranks take turns in being the slowest: the maxima add up to more than the time that passed.
    return {record, 0.9 * kStepS * steps, mean_phases(record.ranks, record.step_s.size())};
  }

  void close() override { is_open_.clear(); }

  const std::vector<Arm>& asked() const { return asked_; }
  // The warm-up steps of each block.
  const std::vector<int>& warmup_steps() const { return warmup_steps_; }
  // The arms in the order in which they came up, and before each start whether they were exchanged.
  const std::vector<Arm>& started() const { return started_; }
  const std::vector<bool>& exchanges() const { return exchanges_; }

  void set_all_reduces(Arm arm, int count) { all_reduces_[arm] = count; }
  // The blocks of this arm from the `first` on, counted from 0.
  void let_fail(Arm arm, int first = 0, int times = 1000) {
    fails_ = arm;
    first_failure_ = first;
    failures_ = times;
  }
  int blocks(Arm arm) const {
    return static_cast<int>(std::count(asked_.begin(), asked_.end(), arm));
  }

 private:
  std::map<Arm, int> all_reduces_ = {{Arm::Baseline, 4}, {Arm::Candidate, 4}, {Arm::Control, 4}};
  std::optional<Arm> fails_;
  int first_failure_ = 0;
  int failures_ = 0;
  std::map<Arm, bool> is_open_;
  std::vector<Arm> asked_;
  std::vector<int> warmup_steps_;
  std::vector<Arm> started_;
  std::vector<bool> exchanges_;
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
  ASSERT_THAT(measurement.costs({0}), SizeIs(1));
  const gate::LaunchCost cost = measurement.costs({0}).front();
  EXPECT_GE(cost.start_s, 3 * kStartS);
  EXPECT_EQ(cost.switch_s, 0) << "no arm ran two rows";
  EXPECT_THAT(cost.step_s, ElementsAre(DoubleEq(0.9 * kStepS))) << "elapsed time";
}

TEST(GateMeasurement, WhatDiffersFromASteadyBaselineStaysDifferent) {
  MadeUpArms arms;
  arms.set_all_reduces(Arm::Candidate, 5);
  GateMeasurement measurement = measurement_of(arms);
  measurement.count();
  EXPECT_THAT(measurement.counts(0).differences, SizeIs(1));
  measurement.count_control({0});
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
  measurement.count_control({0});
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
  measurement.count_control({0});
  EXPECT_THAT(measurement.counts(0).differences, IsEmpty());
  EXPECT_THAT(measurement.counts(0).unfit_because,
              StrEq("failed of the control: made 0 of 5 steps"));
}

TEST(GateMeasurement, ACandidateThatFailsOnceIsCountedAtItsSecondTry) {
  MadeUpArms arms;
  arms.let_fail(Arm::Candidate, 0, 1);
  GateMeasurement measurement = measurement_of(arms);
  measurement.count();
  EXPECT_THAT(arms.asked(), ElementsAre(Arm::Baseline, Arm::Candidate, Arm::Candidate));
  EXPECT_THAT(measurement.counts(0).differences, IsEmpty());
  EXPECT_THAT(measurement.rows()[0].unfit_because, IsEmpty());
}

TEST(GateMeasurement, ACandidateThatFailsTwiceDiffers) {
  MadeUpArms arms;
  arms.let_fail(Arm::Candidate);
  GateMeasurement measurement = measurement_of(arms);
  measurement.count();
  EXPECT_THAT(arms.asked(), ElementsAre(Arm::Baseline, Arm::Candidate, Arm::Candidate));
  EXPECT_THAT(measurement.counts(0).differences.back().what, StrEq("status"));
}

TEST(GateMeasurement, ACandidateThatFailsInItsTurnDiffersOnlyIfItFailsAgain) {
  for (const int failures : {1, 2}) {
    MadeUpArms arms;
    GateMeasurement measurement = measurement_of(arms);
    measurement.count();
    arms.let_fail(Arm::Candidate, 5, failures);
    measurement.start("start", {0}, 4);
    EXPECT_EQ(arms.blocks(Arm::Candidate), 7) << "the row takes no more turns";
    EXPECT_THAT(measurement.counts(0).differences, SizeIs(failures - 1));
    EXPECT_THAT(measurement.rows()[0].unfit_because, HasSubstr("failed of the candidate"));
  }
}

TEST(GateMeasurement, AStartOpensEveryArmOnceAndTakesItsTurns) {
  MadeUpArms arms;
  GateMeasurement measurement = measurement_of(arms);
  measurement.start("start", {0}, 4);
  EXPECT_THAT(arms.started(), UnorderedElementsAre(Arm::Baseline, Arm::Candidate, Arm::Control));
  const MeasuredRow& row = measurement.rows().front();
  ASSERT_THAT(row.turns, SizeIs(4));
  const gate::Settings settings;
  const auto steps = static_cast<std::size_t>(settings.passes * row.pass_steps);
  EXPECT_THAT(row.turns[0].of(Arm::Control), SizeIs(steps));
  EXPECT_NEAR(row.turns[0].mean_step_s(Arm::Control), 0.9 * kStepS, 1e-12);
  EXPECT_THAT(row.turns[0].phase_s.at("forward"),
              Each(DoubleNear(0.3 * kStepS * static_cast<double>(steps), 1e-12)))
      << "the mean over ranks";
  EXPECT_THAT(arms.asked(), SizeIs(3 + 4 * 3 * static_cast<std::size_t>(settings.passes)));
}

TEST(GateMeasurement, EveryStartBeginsAtAPhaseOfItsOwnInAllArmsAlike) {
  MadeUpArms arms;
  GateMeasurement measurement = measurement_of(arms);
  const gate::Settings settings;
  std::set<int> phases;
  for (std::size_t start = 0; start < 40; ++start) {
    const std::size_t before = arms.warmup_steps().size();
    measurement.start("start", {0}, 2);
    const auto first = std::next(arms.warmup_steps().begin(), static_cast<int>(before));
    EXPECT_THAT(std::vector<int>(first, std::next(first, 3)), testing::Each(*first));
    phases.insert(*first - 2);  // the row's own warm-up
  }
  EXPECT_EQ(phases.size(), static_cast<std::size_t>(settings.phase_steps));
  EXPECT_EQ(*phases.begin(), 0);
}

TEST(GateMeasurement, InEveryThreeStartsEveryArmComesUpInEveryPlaceAsTheTurnsSay) {
  MadeUpArms arms;
  GateMeasurement measurement = measurement_of(arms);
  for (int start = 0; start < 4; ++start) measurement.start("start", {0}, 2);
  for (int start = 0; start < 2; ++start) measurement.confirm("confirmation", {0}, 2);
  const gate::TurnFamily family = measurement.family({0});
  ASSERT_THAT(family.starts, SizeIs(6));
  for (std::size_t start = 0; start < family.starts.size(); ++start) {
    const auto first = std::next(arms.started().begin(), static_cast<int>(3 * start));
    const gate::ArmOrder& order = family.starts[start].order;
    EXPECT_TRUE(std::equal(order.begin(), order.end(), first)) << start;
    EXPECT_EQ(family.starts[start].exchanges_baselines, arms.exchanges()[start]) << start;
  }
  for (std::size_t place = 0; place < 3; ++place) {
    std::set<Arm> arms_there;
    for (std::size_t start = 3; start < 6; ++start) {
      arms_there.insert(family.starts[start].order[place]);
    }
    EXPECT_THAT(arms_there, SizeIs(3)) << "across the confirmation's beginning, too";
  }
}

}  // namespace
}  // namespace gradsync::arms
