// Says on stderr how far a gate is: on a terminal in one line that is rewritten, elsewhere a line
// for each stage.
#pragma once

#include <cstdint>
#include <string>

#include "benchmarks/gate_measurement.h"

namespace gradsync::cli {

class GateProgressLine {
 public:
  // `budget_s`: of the whole gate, shown beside what is spent; 0: it has none.
  GateProgressLine(bool quiet, double budget_s);
  // Clears the line it may have left.
  ~GateProgressLine();
  GateProgressLine(const GateProgressLine&) = delete;
  GateProgressLine& operator=(const GateProgressLine&) = delete;

  void show(const GateProgress& progress);
  double elapsed_s() const;

 private:
  bool quiet_;
  bool terminal_;
  double budget_s_;
  std::int64_t begin_ns_;
  std::int64_t shown_ns_ = 0;
  std::string stage_;
};

}  // namespace gradsync::cli
