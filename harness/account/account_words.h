// The account's sentences beside those on weights (weight_words.h): which calls the job made on
// gradients, and how common a kind of steps is.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "harness/account/account.h"

namespace gradsync::account {

// "ignite, engine/__init__.py line 133", of a file below where libraries are installed.
std::string library_text(const std::string& inside, int line);

// ": they were cleared at train.py line 48 before an optimizer read them", of the first `lost`
// micro-batches; "" where no call was seen behind them.
std::string cleared_text(const std::vector<GradientCall>& calls, int lost);

// "clipped in every micro-batch, at train.py line 61", or by value behind the last; "" where
// nothing was seen to be.
std::string clipping_text(const StepAccount& account);

// ": they were clipped at train.py line 61"; "" where no call was seen.
std::string clipped_text(const std::vector<GradientCall>& calls);

// "shards of one gradient were clipped apart, by factors 10.3 to 1: rank 0's weighs 10.3 x rank
// 1's"
std::string shards_text(const std::vector<ShardFactor>& shards, bool are_clipped);
std::string shards_clipped_text(const std::vector<GradientCall>& calls);

// "ranks 0 and 1 left no account that can be read"
std::string lost_text(const std::vector<int>& ranks);

// Why a rank may count for nothing in a job that sends activations.
inline constexpr const char* kOtherParts = "ranks may have other parts of one model";

// Why parameters that one rank has may weigh more in a job whose ranks exchange no activations.
inline constexpr const char* kOwnParameters =
    "each rank has its own, which other ranks' micro-batches do not reach";

// "2 x what the loss says: its 2 micro-batches weigh as much as the usual 4"
std::string made_up_text(double factor, int micro_batches, int usual);

// "in 3 of 9 steps losses are divided by 4 micro-batches, and there are 2: these steps weigh 0.5 x
// the others"
std::string windows_text(int count, int steps, int divisor, const std::set<int>& lengths);

// "in 5 of 12 steps micro-batches 1 and 2 of 6 weigh 0", "in 6 of 18 steps, of 2 micro-batches
// each, all 4 weigh the same"; micro_batches 0: the sentence has them.
std::string in_steps_text(int count, int steps, int micro_batches, const std::string& sentence);

}  // namespace gradsync::account
