#include "harness/base/named.h"
#include "harness/sync/strategies/factories.h"

namespace gradsync::sync {

const std::vector<StrategyEntry>& strategies() {
  static const std::vector<StrategyEntry> entries{
      {"baseline",
       "baseline",
       {"ddp", "fsdp", "local", "by_hand", "by_hand_coalesced", "pipeline"},
       "every micro-batch reduces its gradients; under pipeline: one micro-batch after the other",
       make_baseline},
      {"no_sync_improper",
       "no_sync improperly",
       {"ddp", "fsdp", "by_hand", "by_hand_coalesced"},
       "no_sync around backward only: has no effect under ddp",
       make_no_sync_improper},
      {"no_sync",
       "no_sync",
       {"ddp", "fsdp", "by_hand", "by_hand_coalesced"},
       "no_sync around forward and backward but for the last",
       make_no_sync},
      {"accumulate",
       "accumulate",
       {"ddp", "fsdp", "by_hand", "by_hand_coalesced"},
       "Accelerate's accumulate() decides",
       make_accumulate},
      {"sync_each_batch",
       "sync_each_batch",
       {"fsdp"},
       "accumulate() with sync_each_batch: every micro-batch reduces",
       make_sync_each_batch},
      {"pipelined",
       "pipelined",
       {"pipeline"},
       "every forward before the first backward, so that stages overlap",
       make_pipelined},
  };
  return entries;
}

const StrategyEntry& find_strategy(const std::string& name) {
  return find_named(strategies(), "strategy", name);
}

}  // namespace gradsync::sync
