// What the guide "Gradient Synchronization" says, compared with one run: each claim with a verdict,
// the settings it rests on, and in each of them the effect with its interval.
//
// Nothing is computed here: ratios, intervals and peaks are those of the result, as its tables have
// them. How a setting is decided:
//   it costs             the interval of the slowdown lies above 1; it does not where the interval
//                        ends within the margin (sameness.h)
//   it saves nothing     the interval leaves no saving beyond the margin; it saves where the whole
//                        interval lies beyond, or where fewer bytes were moved, which is exact
//   it does as well      the whole interval is within the margin; it does not where all of it is
//   more between nodes   the intervals of the two slowdowns do not touch
//   runs out of memory   exact: one ended out of memory and the other did not
// Everything else is undecided, and so are times without an interval: below three launches.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/summary/part_view.h"

namespace gradsync::summary {

enum class GuideVerdict { Holds, DoesNotHold, Undecided, NotMeasured };

// "holds here", "does not hold here", "undecided", "not measured here"
std::string to_string(GuideVerdict verdict);

// The evidence of one setting of the run (all but the strategy) for a claim.
struct GuideEvidence {
  std::string part;                      // "" where the plan has no parts
  std::string place;                     // "2 nodes x 1 rank, 1 Gbit/s"
  GuideVerdict verdict;                  // never NotMeasured
  std::string sentence;                  // effect, interval and why; without a full stop
  std::optional<results::Ratio> effect;  // of times; absent: of memory, or not known
};

enum class GuideStatement {
  EveryMicroBatchCosts,
  ImproperSavesNothing,
  AccumulateDoesAsWell,
  CostsMoreBetweenNodes,
  NoSyncRunsOutOfMemory,
};

struct GuideClaim {
  GuideStatement statement = GuideStatement::EveryMicroBatchCosts;
  std::string text;  // the claim, as a sentence
  GuideVerdict verdict = GuideVerdict::NotMeasured;
  std::string summary;                   // what the verdict rests on, as a sentence
  std::vector<GuideEvidence> evidence;   // in the order of the run; empty: not measured
  std::vector<std::string> measured_by;  // plans that measure it
};

// Returns the five claims in the guide's order, whatever the run measured. A claim about times does
// not hold where one setting says so, and holds where all do. The claim about memory says that such
// a budget exists: it holds if one setting says so.
std::vector<GuideClaim> guide_claims(const std::vector<PartView>& parts);

}  // namespace gradsync::summary
