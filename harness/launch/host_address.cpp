#include "harness/launch/host_address.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

#include "harness/base/errors.h"
#include "harness/base/words.h"

namespace gradsync::launch {
namespace {

using Matches = std::function<bool(const std::string& interface, const std::string& wanted)>;

bool is_named(const std::string& interface, const std::string& wanted) {
  return interface == wanted;
}
bool begins(const std::string& interface, const std::string& wanted) {
  return interface.starts_with(wanted);
}

// The first interface that matches the first wanted one that any does.
std::string first_match(const std::string& who, const std::string& wanted, const Matches& matches,
                        const std::vector<std::string>& interfaces) {
  for (const std::string& one : split_at_commas(wanted)) {
    if (one.empty()) continue;
    const auto found = std::ranges::find_if(
        interfaces, [&](const std::string& interface) { return matches(interface, one); });
    if (found != interfaces.end()) return *found;
  }
  throw ConfigError(fmt::format("{}: got '{}', expected a network interface of this host: {}", who,
                                wanted, fmt::join(interfaces, ", ")));
}

std::string text_of(const Environment& environment, const char* name) {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

}  // namespace

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

std::string leader_address(const std::vector<Reach>& reaches) {
  const Reach& own = reaches.at(0);
  if (!own.chosen.empty()) return own.chosen;
  const auto from_elsewhere =
      std::ranges::find_if(reaches, [](const Reach& reach) { return !is_loopback(reach.to); });
  return from_elsewhere == reaches.end() ? own.from : from_elsewhere->to;
}

std::string ranks_address(const Reach& reach, const std::string& leader) {
  if (!reach.chosen.empty()) return reach.chosen;
  return is_loopback(reach.from) ? leader : reach.from;  // a loopback ends on the leader's host
}

std::string chosen_interface(const std::string& option, const Environment& environment,
                             const std::vector<std::string>& interfaces) {
  if (!option.empty()) return first_match("--interface", option, is_named, interfaces);
  if (const std::string gloo = text_of(environment, "GLOO_SOCKET_IFNAME"); !gloo.empty()) {
    return first_match("GLOO_SOCKET_IFNAME", gloo, is_named, interfaces);
  }
  const std::string nccl = text_of(environment, "NCCL_SOCKET_IFNAME");
  if (nccl.empty() || nccl.starts_with('^')) return "";
  if (nccl.starts_with('=')) {
    return first_match("NCCL_SOCKET_IFNAME", nccl.substr(1), is_named, interfaces);
  }
  return first_match("NCCL_SOCKET_IFNAME", nccl, begins, interfaces);
}

}  // namespace gradsync::launch
