// What differs between the contexts of two runs, and what that does to a comparison of their times.
//
// Counts and bytes can be compared between any machines. Times can be compared only if everything
// else that makes a step longer or shorter is the same: other versions of torch or of this program
// are no obstacle, another processor is.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/results/parameters.h"

namespace gradsync::summary {

// ForbidsTimes: a ratio of times would measure this difference. Warns: it may be part of a ratio,
// or is what the ratio is to show. None: times do not depend on it.
enum class EffectOnTimes { ForbidsTimes, Warns, None };

std::string to_string(EffectOnTimes effect);  // "forbids_times", "warns", "none"

// Two self-tests of a link that are within this of each other found the same link. Larger: a link
// that another process slows down counts as unchanged.
inline constexpr double kSameRateWithin = 0.02;
// Larger differences, up to this, warn: a self-test is short, and on a busy host the self-tests of
// one link found between 0.82 and 1.00 of its rate. Larger: a link that does not carry its set rate
// counts as a busy host.
inline constexpr double kBusyRateWithin = 0.25;
// Shares of stolen CPU time, and load averages per CPU, further apart than this are a difference.
inline constexpr double kSameStealWithin = 0.01;
inline constexpr double kSameLoadWithin = 0.5;

struct ContextDifference {
  std::string field;  // "cpu_model", "topologies.2x1.nodes", "variables.NCCL_ALGO"
  nlohmann::json a;   // null: not known
  nlohmann::json b;
  EffectOnTimes effect = EffectOnTimes::None;
  std::optional<std::string> topology;  // of the cells concerned; unset: of all
  std::optional<int> scale;             // and their scale; unset: any

  bool concerns(const results::Parameters& cell) const;
};

// Returns the differences between the contexts of two results as they were written: those that
// forbid a comparison of times first, then by field. A different setting of a topology or a link
// forbids; a different measurement of a link forbids only if it is far off. A variable of the
// environment that only one of them had, or that had another value, forbids; if an older file does
// not say, it warns. Topologies and links are compared if both runs have them. A field that would
// forbid a comparison but is unknown (null or absent) in one run only warns, and so does a field
// that is not known here. "timing_valid" false is listed even where both runs have it.
std::vector<ContextDifference> context_differences(const nlohmann::json& a,
                                                   const nlohmann::json& b);

}  // namespace gradsync::summary
