#include "harness/text/varying_names.h"

#include <algorithm>
#include <set>

#include "harness/base/named.h"
#include "harness/plan/cell.h"

namespace gradsync::text {

using results::Parameters;

namespace {

// Those that can have the parameter.
std::vector<const Parameters*> that_can_have(const std::string& name,
                                             const std::vector<const Parameters*>& cells) {
  const plan::Axis* axis = entry_named(plan::axes(), name);
  const std::string wrapper = axis == nullptr ? "" : axis->wrapper;
  std::vector<const Parameters*> own;
  std::ranges::copy_if(cells, std::back_inserter(own), [&](const Parameters* cell) {
    return wrapper.empty() || cell->wrapper() == wrapper;
  });
  return own;
}

bool differs(const std::string& name, const std::vector<const Parameters*>& cells) {
  return std::ranges::any_of(cells, [&](const Parameters* cell) {
    return cell->value(name) != cells.front()->value(name);
  });
}

}  // namespace

std::vector<std::string> varying_names(const std::vector<const Parameters*>& cells) {
  std::set<std::string> names;
  for (const Parameters* cell : cells) {
    for (std::string& name : cell->names()) names.insert(std::move(name));
  }
  for (const char* told_apart : {"topology", "strategy"}) names.erase(told_apart);
  std::vector<std::string> varying;
  std::ranges::copy_if(names, std::back_inserter(varying), [&](const std::string& name) {
    return differs(name, that_can_have(name, cells));
  });
  return varying;
}

}  // namespace gradsync::text
