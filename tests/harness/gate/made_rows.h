// Rows whose numbers are written down, for tests of what is decided on them.
#pragma once

#include <cmath>
#include <vector>

#include "harness/gate/row_decision.h"

namespace gradsync::gate {

struct MadeRow {
  double effect = 0;      // of the candidate, as a share
  double control = 0;     // of the control
  double turn = 0.004;    // largest distance of a turn from its start's shift
  double start = 0.0005;  // distance of a start's shift from the effect, up and down in turn
  int starts = 33;
  int start_turns = 10;
};

// Returns the same for both measures: the turns of a start lie evenly about its shift, which so is
// their mean and their Hodges-Lehmann estimate.
inline RowDifferences made_row(const MadeRow& row) {
  Differences of;
  for (int start = 0; start < row.starts; ++start) {
    const double shift = start % 2 == 0 ? row.start : -row.start;
    for (int turn = 0; turn < row.start_turns; ++turn) {
      const double place = 2.0 * turn / (row.start_turns - 1) - 1;  // -1 to 1
      of.start.push_back(start);
      of.candidate.push_back(std::log1p(row.effect) + shift + row.turn * place);
      of.control.push_back(std::log1p(row.control) - shift + row.turn * place);
    }
  }
  RowDifferences both{{of, of}};
  both[Measure::Mean].measure = Measure::Mean;
  return both;
}

}  // namespace gradsync::gate
