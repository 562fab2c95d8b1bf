// Says on stderr how far a gate is: on a terminal in one line that is rewritten, elsewhere a line
// for each stage.
#pragma once

#include <cstdint>
#include <string>

#include "harness/arms/gate_measurement.h"

namespace gradsync::arms {

class GateProgressLine {
 public:
  explicit GateProgressLine(bool quiet);
  // Clears the line it may have left.
  ~GateProgressLine();
  GateProgressLine(const GateProgressLine&) = delete;
  GateProgressLine& operator=(const GateProgressLine&) = delete;

  // From now on `budget_s`, of the whole gate, is shown beside what is spent.
  void set_budget(double budget_s) { budget_s_ = budget_s; }
  void show(const GateProgress& progress);
  double elapsed_s() const;

 private:
  bool quiet_;
  bool terminal_;
  double budget_s_ = 0;  // 0: not known
  std::int64_t begin_ns_;
  std::int64_t shown_ns_ = 0;
  std::string stage_;
};

}  // namespace gradsync::arms
