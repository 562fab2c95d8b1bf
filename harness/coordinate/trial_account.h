// The account of a trial's gradients, solved from what its ranks recorded, and held against what
// the suite's own loss and wrappers are to do. That is stricter than with a job of others, of which
// it is not known what its weights should be (account/account_verdict.h): here every micro-batch of
// every rank weighs the same, and as much as its loss says.
#pragma once

#include <string>
#include <vector>

#include "harness/account/records.h"
#include "harness/base/known.h"
#include "harness/results/records.h"

namespace gradsync::coordinate {

struct JudgedAccount {
  Known<results::TrialAccount> account;
  std::string off;  // what is wrong; "": nothing is
};

// Returns the account of the one step that all of `ranks` recorded. `is_separate`: nothing is
// synchronized, and every rank must read the gradients of its own micro-batches alone.
// Cost: grows with the cube of the contributions; 128 take a fraction of a second.
JudgedAccount judge_trial_account(const std::vector<account::AccountRecords>& ranks,
                                  bool is_separate);

}  // namespace gradsync::coordinate
