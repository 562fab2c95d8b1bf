#include "harness/plan/strategies.h"

#include <algorithm>

#include "harness/base/named.h"

namespace gradsync::plan {
namespace {

std::vector<bool> all(int micro_batches, FlagRead) {
  return std::vector<bool>(static_cast<std::size_t>(micro_batches), true);
}

std::vector<bool> none(int micro_batches, FlagRead) {
  return std::vector<bool>(static_cast<std::size_t>(micro_batches), false);
}

std::vector<bool> last(int micro_batches, FlagRead) {
  std::vector<bool> syncs(static_cast<std::size_t>(micro_batches), false);
  syncs.back() = true;
  return syncs;
}

// What is around backward alone comes too late for who has read the flag in forward.
std::vector<bool> last_if_read_in_backward(int micro_batches, FlagRead flag) {
  return flag == FlagRead::InForward ? all(micro_batches, flag) : last(micro_batches, flag);
}

// Those whose ranks all have gradients of the same parameters to reduce.
const std::vector<std::string> kReducing{"ddp", "fsdp", "by_hand", "by_hand_coalesced"};

}  // namespace

const std::vector<WrapperEntry>& wrappers() {
  static const std::vector<WrapperEntry> entries{
      {"ddp", FlagRead::InForward},
      {"fsdp", FlagRead::InBackward},
      {"local", FlagRead::InBackward, true},
      {"by_hand", FlagRead::InBackward, true},
      {"by_hand_coalesced", FlagRead::InBackward, true},
      {"pipeline", FlagRead::InBackward, true},
  };
  return entries;
}

const WrapperEntry& find_wrapper(const std::string& name) {
  return find_named(wrappers(), "wrapper", name);
}

const std::vector<StrategyEntry>& strategies() {
  static const std::vector<StrategyEntry> entries{
      {.name = "baseline",
       .label = "baseline",
       .declared_syncs = all,
       .wrappers = {"ddp", "fsdp", "local", "by_hand", "by_hand_coalesced", "pipeline"},
       .about =
           "every micro-batch reduces its gradients; under pipeline: one micro-batch after the "
           "other"},
      {.name = "sync_each_batch",
       .label = "sync_each_batch",
       .declared_syncs = all,
       .short_window_last = true,
       .wrappers = {"fsdp"},
       .about = "accumulate() with sync_each_batch: every micro-batch reduces"},
      {.name = "no_sync_improper",
       .label = "no_sync improperly",
       .declared_syncs = last_if_read_in_backward,
       .wrappers = kReducing,
       .about = "no_sync around backward only: has no effect under ddp"},
      {.name = "no_sync",
       .label = "no_sync",
       .declared_syncs = last,
       .wrappers = kReducing,
       .about = "no_sync around forward and backward of all but the last"},
      {.name = "accumulate",
       .label = "accumulate",
       .declared_syncs = last,
       .short_window_last = true,
       .wrappers = kReducing,
       .about = "Accelerate's accumulate() decides"},
      {.name = "pipelined",  // no stage shares a parameter with another
       .label = "pipelined",
       .declared_syncs = none,
       .wrappers = {"pipeline"},
       .about = "every forward before the first backward, so that stages overlap"},
  };
  return entries;
}

const StrategyEntry& find_strategy(const std::string& name) {
  return find_named(strategies(), "strategy", name);
}

std::vector<std::string> strategies_under(const std::string& wrapper) {
  std::vector<std::string> names;
  for (const StrategyEntry& entry : strategies()) {
    if (std::ranges::find(entry.wrappers, wrapper) != entry.wrappers.end()) {
      names.push_back(entry.name);
    }
  }
  return names;
}

std::vector<bool> declared_syncs(const std::string& wrapper, const std::string& strategy,
                                 int micro_batches) {
  return find_strategy(strategy).declared_syncs(micro_batches, find_wrapper(wrapper).flag_read);
}

bool syncs_every_micro_batch(const std::string& wrapper, const std::string& strategy) {
  constexpr int kSeveral = 2;
  const bool known = entry_named(wrappers(), wrapper) && entry_named(strategies(), strategy);
  return known && declared_syncs(wrapper, strategy, kSeveral).front();
}

}  // namespace gradsync::plan
