// The account in words. The rule of the verdicts on synchronization holds here too: no job is
// accused on a guess. An account is off where it has no innocent reason: a contribution that was
// never used and counts for nothing; one that counts more than its like, unless it has as many more
// tokens; shards of one gradient with other factors; ranks that train one model and read their own
// gradients alone. The words report, without an accusation, a common factor (clipping; a sum where
// others average), gradients that are no sum (noise, compression), and gradients that were read, or
// used to change parameters, before they were cleared.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/account/account.h"

namespace gradsync::account {

enum class AccountKind {
  Equal,         // all weigh the same: good
  Dropped,       // micro-batches weigh 0
  RankLost,      // all of a rank's do
  Unequal,       // some weigh more than beside
  ByTokens,      // as they have tokens
  GroupsDiffer,  // some parameters' gradients have another factor than the rest
  Separate,      // ranks read different gradients
  ShardsApart,   // ranks' shards of one gradient have factors of their own
  NotASum,       // something else is in the gradient
  Rounded,       // as far from equal as 16 bits make it
  NotToldApart,  // no more than that can be said
  Drifted,       // beside another: ranks that had the same parameters have not any more
  Factor,        // beside another: one that all have in common
  Windows,       // beside another: steps of other numbers of micro-batches have other factors
  Zero,          // the gradient is
  Unknown,
};

struct AccountVerdict {
  AccountKind kind = AccountKind::Unknown;
  std::string sentence;  // without a full stop
  std::string why;       // "" where there is nothing to add
  bool is_off = false;
  int steps = 0;  // that were accounted and have it
  int lost = 0;   // of a step's micro-batches the first so many weigh 0, and no beside
};

// What was seen of all steps of a job, beside its gradients.
struct SeenBeside {
  // Steps that cleared gradients of their first micro-batches unread, by how many these were.
  std::map<int, std::size_t> cleared;
  bool has_activations = false;  // of a model that is divided over ranks
  // Whether gradients of other ranks' micro-batches may reach what one rank alone has.
  bool exchanges_activations = false;
  std::int64_t between_bytes = 0;     // the most in a step, in neither forward nor backward
  std::vector<std::string> own = {};  // parameters that the job marks as each rank's
  std::vector<int> stepped = {};      // ranks whose optimizers stepped
};

// Returns whether two factors of gradients count as the same: within 0.5 %.
bool are_same_factor(double value, double other);

// Returns whether nothing is to be said against steps of this kind.
bool is_good(AccountKind kind);

// Returns what the group's micro-batches weigh, times what the loss says.
double factor_of(const StepAccount& account, const WeightGroup& group);

// Returns the verdicts on one step; the first is on the weights.
std::vector<AccountVerdict> judge_account(const StepAccount& account);

// The account of a job.
struct GradientAccount {
  int steps = 0;  // that were accounted
  int alike = 0;  // of these, those with the same verdict as the one shown
  StepAccount shown;
  std::vector<AccountVerdict> verdicts;  // on that step, one at least; then on other kinds of steps
  std::vector<std::string> faults;       // what could not be recorded
  std::vector<int> lost;                 // ranks that stepped, and left no account that can be read
};

// Returns it: the step that is shown is the first of those with the commonest verdict. Steps of
// other kinds have a verdict for each kind, the commonest first. It is off where more than half of
// the steps are, or a kind of steps is that cannot be meant (job_account.cpp).
GradientAccount account_of(const std::vector<AccountRecords>& ranks, const SeenBeside& beside = {});

// Returns the first verdict that is off; null: none is.
const AccountVerdict* first_off(const GradientAccount& account);
bool is_off(const GradientAccount& account);

}  // namespace gradsync::account
