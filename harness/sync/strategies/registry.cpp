#include "harness/base/named.h"
#include "harness/sync/strategies/factories.h"

namespace gradsync::sync {

const std::vector<StrategyEntry>& strategies() {
  static const std::vector<StrategyEntry> entries{
      {"baseline",
       "baseline",
       {"ddp", "fsdp"},
       "every micro-batch reduces its gradients",
       make_baseline},
      {"no_sync_improper",
       "no_sync improperly",
       {"ddp", "fsdp"},
       "no_sync around backward only: has no effect under ddp",
       make_no_sync_improper},
      {"no_sync",
       "no_sync",
       {"ddp", "fsdp"},
       "no_sync around forward and backward but for the last",
       make_no_sync},
      {"accumulate",
       "accumulate",
       {"ddp", "fsdp"},
       "Accelerate's accumulate() decides",
       make_accumulate},
      {"sync_each_batch",
       "sync_each_batch",
       {"fsdp"},
       "accumulate() with sync_each_batch: every micro-batch reduces",
       make_sync_each_batch},
  };
  return entries;
}

const StrategyEntry& find_strategy(const std::string& name) {
  return find_named(strategies(), "strategy", name);
}

}  // namespace gradsync::sync
