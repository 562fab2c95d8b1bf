// The sentences that a gate's verdicts are printed with.
#pragma once

#include <string>

#include "harness/gate/verdict.h"

namespace gradsync::gate {

// What a row's verdict rests on, beside the decision itself.
struct Grounds {
  Measure measure = Measure::Low;  // that was found slower, is off in the control, or is undecided
  bool in_confirmation = false;    // the control is off there
};

// Each returns one sentence without a full stop, as the verdict's reason.
std::string regression_reason(const RowDecision& row, const Grounds& grounds,
                              const Settings& settings);
std::string unconfirmed_reason(const RowDecision& row, const Grounds& grounds,
                               const Settings& settings);
std::string control_reason(const RowDecision& row, const Grounds& grounds);
std::string pass_reason(const RowDecision& row, const Settings& settings);
std::string undecided_reason(const RowDecision& row, const Grounds& grounds,
                             const Settings& settings);

}  // namespace gradsync::gate
