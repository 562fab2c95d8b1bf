#include "harness/report/host_clocks.h"

namespace gradsync::report {

using nlohmann::json;

namespace {

const json& member(const json& object, const char* name) {
  static const json kNothing;
  const auto found = object.find(name);
  return found == object.end() ? kNothing : *found;
}

}  // namespace

HostClocks::HostClocks(const json& context) {
  if (!context.is_object() || member(context, "launcher").is_null()) return;
  one_clock_ = false;
  if (member(context, "resumed") == true) return;
  const json& clocks = member(context, "clocks");
  if (!clocks.is_array()) return;
  for (const json& clock : clocks) {
    if (member(clock, "offset_s").is_null()) continue;
    by_node_[clock.at("node").get<int>()] = {clock.at("offset_s").get<double>(),
                                             clock.at("error_s").get<double>()};
  }
}

std::optional<HostClocks::Offset> HostClocks::of(int node) const {
  if (one_clock_) return Offset{};
  const auto found = by_node_.find(node);
  if (found == by_node_.end()) return std::nullopt;
  return found->second;
}

}  // namespace gradsync::report
