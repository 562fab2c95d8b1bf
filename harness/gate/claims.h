// Whether the claims of a gate file hold of a result: fixed ratios of step times.
//
// Both rows of a claim ran in the same rounds of the same launches, so that their ratio is free of
// whatever disturbed both (summary/comparison.h). It is printed with its 95 % interval over
// launches, and judged by the interval at level 1 - alpha / n, for n pairs of rows that claims are
// about: wholly inside of what is claimed it passes, wholly outside it is a regression, and across
// the limit it is undecided, as it is with fewer launches than kFewestLaunchesToDecide.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "harness/gate/gate_file.h"
#include "harness/gate/verdict.h"
#include "harness/summary/run_comparison.h"

namespace gradsync::gate {

// Why a claim has its verdict.
enum class ClaimReason {
  Holds,
  NotMeasured,    // the run does not have both rows
  NotOk,          // a trial of a row ended otherwise
  NoTimes,        // those of a row do not count: `given` says why
  NoSharedRound,  // in which both rows ran
  TooFewLaunches,
  Outside,  // the whole interval is
  Across,   // the interval crosses the limit
};

struct ClaimGrounds {
  ClaimReason reason = ClaimReason::NotMeasured;
  std::string strategy = "";  // of a row that is not ok; may be unknown
  results::Status status = results::Status::Ok;
  std::string given = "";                                  // that trial's reason
  std::optional<stats::Interval> at_level = std::nullopt;  // of the ratio: the one that decides
  double level = 0;                                        // its
  // That would decide what is undecided; unset: the ratio is too near the limit.
  std::optional<std::size_t> launches_needed = std::nullopt;
};

// A claim about one pair of rows.
struct ClaimOutcome {
  std::string about;
  std::string name;  // "baseline / no_sync, 2x1_1gbit"; of a claim without rows its `about`
  Row row;           // above in the ratio; without cell where no row fits the claim
  Row over;          // below
  std::string need;
  Allowed allowed;
  std::optional<results::StepRatio> ratio;  // at 95 %, `name` says of what; unset: not measured
  Verdict verdict = Verdict::Unfit;
  ClaimGrounds grounds;
  std::string reason;  // their sentence
};

void to_json(nlohmann::json& out, const ClaimOutcome& outcome);

// Returns the sentence for `claim.grounds` (phrasebook.cpp); empty where the claim holds.
std::string sentence(const ClaimOutcome& claim);

// Returns an outcome for each pair of rows of the run that a claim is about, in the order of the
// claims; for a claim that is about none of its rows, one that says so. Unfit: not measured, or
// measured where times mean nothing. `alpha`: the chance that any verdict but "undecided" is wrong.
std::vector<ClaimOutcome> evaluate_claims(const std::vector<Claim>& claims,
                                          const summary::FinishedRun& run, double alpha);

}  // namespace gradsync::gate
