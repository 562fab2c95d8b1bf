// The builds of a gate, resident side by side: baseline, candidate, and the baseline once more as
// the control.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/arms/arm_process.h"
#include "harness/arms/resident_arms.h"
#include "harness/session/run_options.h"

namespace gradsync::arms {

struct GateBuilds {
  std::string baseline;
  std::string candidate;
};

class GateArms : public ResidentArms {
 public:
  // Starts baseline and candidate with the plan of `options`; the control only with
  // start_control(). `interrupted` is polled by everything here that blocks.
  // Errors: as ArmProcess; ConfigError where the candidate has other rows than the baseline.
  GateArms(const session::RunOptions& options, const GateBuilds& builds,
           const std::atomic<bool>* interrupted);

  void start_control() override;
  void exchange_baselines(bool exchanged) override;

  // Ends the candidate, and starts it once more with this share of extra work; before, it has none.
  void restart_candidate(double extra_work);

  ArmProcess& of(gate::Arm arm) { return *arms_[static_cast<std::size_t>(arm)]; }
  const ArmProcess& of(gate::Arm arm) const { return *arms_[static_cast<std::size_t>(arm)]; }
  bool same_program() const;

  // The rows of the plan that any of `filters` picks, as the baseline says them; without filters
  // all. Errors: ConfigError where one picks none.
  std::vector<GateRow> rows(const std::vector<gate::RowFilter>& filters) const;

  Block run(gate::Arm arm, const GateRow& row, int warmup_steps, int steps) override;
  void close() override;

 private:
  std::unique_ptr<ArmProcess> start(const std::string& build, double extra_work) const;

  session::RunOptions options_;
  GateBuilds builds_;
  const std::atomic<bool>* interrupted_;
  std::array<std::unique_ptr<ArmProcess>, gate::kArms.size()> arms_;
  bool are_exchanged_ = false;
};

}  // namespace gradsync::arms
