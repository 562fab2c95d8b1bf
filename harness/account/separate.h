// Ranks that read different gradients of one parameter.
#pragma once

#include <optional>
#include <vector>

#include "harness/account/account_verdict.h"

namespace gradsync::account {

// Returns the verdict on a step in which some do. That each reads the gradient of its own
// micro-batches alone is not off there: they may average parameters later.
std::optional<AccountVerdict> judge_separate(const StepAccount& account);

// Returns whether ranks that train one model under a wrapper read their own gradients alone, of all
// parameters or of some beside others that are averaged, and so drift apart for good. `steps`: all
// that were accounted from the first such one on.
bool are_apart_for_good(const std::vector<const StepAccount*>& steps, const OtherExchanges& others);

}  // namespace gradsync::account
