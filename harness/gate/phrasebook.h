// The phrasebook of a gate's verdicts: one sentence, without a full stop, for each reason. Tests
// assert the reason; tests/harness/gate/golden/phrases.txt has every sentence.
#pragma once

#include <string>

#include "harness/gate/claims.h"
#include "harness/gate/verdict.h"

namespace gradsync::gate {

// Returns the sentence for `row.grounds` and the numbers beside them.
std::string sentence(const RowDecision& row, const Settings& settings);

// Returns the sentence for `claim.grounds`; empty where the claim holds.
std::string sentence(const ClaimOutcome& claim);

}  // namespace gradsync::gate
