#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/base/errors.h"
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
  std::vector<std::string> names;
  for (const StrategyEntry& entry : strategies()) {
    if (entry.name == name) return entry;
    names.push_back(entry.name);
  }
  throw ConfigError(
      fmt::format("unknown strategy '{}', expected one of {}", name, fmt::join(names, ", ")));
}

}  // namespace gradsync::sync
