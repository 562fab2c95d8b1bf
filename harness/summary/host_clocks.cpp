#include "harness/summary/host_clocks.h"

namespace gradsync::summary {

HostClocks::HostClocks(const results::Context& context) {
  if (!context.launcher) return;
  one_clock_ = false;
  if (context.resumed.value_or(false) || !context.clocks) return;
  for (const results::HostClockOffset& clock : *context.clocks) {
    if (clock.offset_s) by_node_[clock.node] = {*clock.offset_s, clock.error_s.value_or(0)};
  }
}

std::optional<HostClocks::Offset> HostClocks::of(int node) const {
  if (one_clock_) return Offset{};
  const auto found = by_node_.find(node);
  if (found == by_node_.end()) return std::nullopt;
  return found->second;
}

}  // namespace gradsync::summary
