#include "harness/base/named.h"
#include "harness/sync/strategies/factories.h"

namespace gradsync::sync {

const std::vector<StrategyEntry>& strategies() {
  static const std::vector<StrategyEntry> entries{
      {"baseline", "baseline", "ddp", "every micro-batch all-reduces", make_baseline},
      {"no_sync_improper", "no_sync improperly", "ddp",
       "no_sync around backward only: has no effect", make_no_sync_improper},
      {"no_sync", "no_sync", "ddp", "no_sync around forward and backward but for the last",
       make_no_sync},
      {"accumulate", "accumulate", "ddp", "Accelerate's accumulate() decides", make_accumulate},
  };
  return entries;
}

const StrategyEntry& find_strategy(const std::string& name) {
  return find_named(strategies(), "strategy", name);
}

}  // namespace gradsync::sync
