#include <map>

#include "harness/base/errors.h"
#include "harness/plan/strategies.h"
#include "harness/sync/strategies/strategy.h"

namespace gradsync::sync {
namespace {

// Filled before main by static objects of any file, hence made by the first of them.
std::map<std::string, MakeStrategy>& registered() {
  static std::map<std::string, MakeStrategy> makers;
  return makers;
}

}  // namespace

StrategyRegistration::StrategyRegistration(const std::string& name, MakeStrategy make) {
  registered().emplace(name, make);
}

std::unique_ptr<Strategy> make_strategy(const std::string& name) {
  const plan::StrategyEntry& entry = plan::find_strategy(name);
  GRADSYNC_CHECK(registered().count(entry.name), ==, 1U);
  return registered().at(entry.name)();
}

}  // namespace gradsync::sync
