// Strategies and wrappers by name: which go together, and which micro-batches of a step
// synchronize.
//
// The one list of each. The steps of the strategies are in sync/strategies, one file each. Code
// that only needs a strategy's name, label or what it should communicate finds them here, without
// torch.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace gradsync::plan {

// Where a wrapper looks at the flag that no_sync clears.
enum class FlagRead { InForward, InBackward };

struct WrapperEntry {
  std::string name;  // as in a plan
  FlagRead flag_read;
  bool on_the_road = false;  // a step on the road to DDP
};

// Every wrapper, in the order messages name them.
const std::vector<WrapperEntry>& wrappers();

// Errors: ConfigError naming the wrappers there are.
const WrapperEntry& find_wrapper(const std::string& name);

struct StrategyEntry {
  std::string name;   // as in a plan
  std::string label;  // as in the guide's table
  // Declares, for each micro-batch of a step, whether its gradients are reduced. Every trial is
  // checked against it.
  std::function<std::vector<bool>(int micro_batches, FlagRead flag)> declared_syncs;
  // Whether the guide's script for it ends its epoch on a short window, instead of beginning it
  // with a step of one micro-batch. Used by the as_published window rule.
  bool short_window_last = false;
  std::vector<std::string> wrappers;  // those it runs under
  std::string about;
};

// Every strategy, in the order tables show them.
const std::vector<StrategyEntry>& strategies();

// Errors: ConfigError naming the strategies there are.
const StrategyEntry& find_strategy(const std::string& name);

// The names of those that run under `wrapper`, in the order of strategies().
std::vector<std::string> strategies_under(const std::string& wrapper);

// Returns whether each micro-batch of a step reduces gradients. Errors: ConfigError for the names.
std::vector<bool> declared_syncs(const std::string& wrapper, const std::string& strategy,
                                 int micro_batches);

// Returns whether a step reduces gradients in each of its micro-batches, as against the last alone;
// false for names that this version does not know: results outlive plans.
bool syncs_every_micro_batch(const std::string& wrapper, const std::string& strategy);

}  // namespace gradsync::plan
