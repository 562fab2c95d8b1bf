#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "harness/base/units.h"
#include "harness/launch/host.h"

namespace gradsync::launch {

using nlohmann::json;

namespace {

// A second busy process doubles a step of a rank it shares a core with; below half a process per
// core there is room left for it to be elsewhere.
constexpr double kBusyLoadPerCpu = 0.5;
constexpr std::int64_t kFewCpus = 2;
constexpr double kLittleMemoryBytes = 2.0 * (1 << 30);
constexpr double kUsedSwapBytes = 64.0 * (1 << 20);

using Severity = Finding::Severity;
using Findings = std::vector<Finding>;

void add(Findings& findings, bool good, Severity otherwise, const std::string& what,
         const std::string& remedy) {
  findings.push_back({good ? Severity::Ok : otherwise, what, good ? "" : remedy});
}

const json& get(const json& host, const char* name) {
  static const json absent;
  const auto found = host.find(name);
  return found == host.end() ? absent : *found;
}

void examine_cpu(const json& host, Findings& findings) {
  const json& cpus = get(host, "cpus");
  const json& load = get(host, "load_1min");
  if (cpus.is_number()) {
    const auto count = cpus.get<std::int64_t>();
    add(findings, count >= kFewCpus, Severity::Warn, fmt::format("{} usable CPU(s)", count),
        "two ranks need two CPUs of their own: real-compute times are not printed with fewer");
    if (load.is_number()) {
      const double per_cpu =
          load.get<double>() / static_cast<double>(std::max<std::int64_t>(count, 1));
      add(findings, per_cpu <= kBusyLoadPerCpu, Severity::Warn,
          fmt::format("load average {:.2f} on {} CPU(s)", load.get<double>(), count),
          "stop other work, or wait until it is done");
    }
  }
  if (const json& cores = get(host, "cores"); cpus.is_number() && cores.is_number()) {
    const bool alone = cores.get<int>() >= cpus.get<int>();
    add(findings, alone, Severity::Warn,
        alone ? "every CPU is a core of its own"
              : fmt::format("{} CPUs are hardware threads of {} core(s)", cpus.get<int>(),
                            cores.get<int>()),
        "ranks take a core each first: with more ranks than cores, two share one and are slower");
  }
  if (const json& quota = get(host, "cpu_quota"); quota.is_number()) {
    const bool whole = cpus.is_number() && quota.get<double>() >= cpus.get<double>();
    add(findings, whole, Severity::Warn,
        fmt::format("a quota of {:.3g} cores (control group)", quota.get<double>()),
        "give the container as many cores as ranks, or no quota: times of a rank that it holds are "
        "not printed");
  }
  if (const json& governor = get(host, "governor"); governor.is_string()) {
    add(findings, governor == "performance", Severity::Warn,
        fmt::format("CPU governor is '{}'", governor.get<std::string>()),
        "set it: cpupower frequency-set -g performance");
  }
  if (const json& steal = get(host, "steal_share"); steal.is_number()) {
    add(findings, steal.get<double>() <= kNoticeableSteal, Severity::Warn,
        fmt::format("{:.1f} % of CPU time is stolen by the host", 100 * steal.get<double>()),
        "use a machine with CPUs of its own, or run when its neighbours are idle");
  }
  if (get(host, "on_battery") == true) {
    add(findings, false, Severity::Warn, "running on battery", "plug in the power supply");
  }
}

void examine_memory(const json& host, Findings& findings) {
  if (const json& available = get(host, "memory_available_bytes"); available.is_number()) {
    const json& limit = get(host, "memory_limit_bytes");
    add(findings, available.get<double>() >= kLittleMemoryBytes, Severity::Warn,
        fmt::format("{} of memory available{}", format_bytes(available.get<double>()),
                    limit.is_number() ? fmt::format(", of a limit of {} (control group)",
                                                    format_bytes(limit.get<double>()))
                                      : ""),
        "the default plan needs 2 GiB: stop what holds memory, or choose a smaller model");
  }
  if (const json& swap = get(host, "swap_used_bytes"); swap.is_number()) {
    add(findings, swap.get<double>() <= kUsedSwapBytes, Severity::Warn,
        fmt::format("{} of swap in use", format_bytes(swap.get<double>())),
        "free memory, then swapoff -a");
  }
}

void examine_others(const json& host, Findings& findings) {
  const json& others = get(host, "other_gradsync");
  if (!others.is_array()) return;
  add(findings, others.empty(), Severity::Warn,
      others.empty() ? "no other gradsync runs"
                     : fmt::format("another gradsync runs (process {})",
                                   fmt::join(others.get<std::vector<int>>(), ", ")),
      "wait for it: two runs at once spoil each other's times");
}

// The finding of a {"available", "reason"} object.
void examine_ability(const json& ability, const std::string& name, const std::string& remedy,
                     Findings& findings) {
  if (!ability.is_object() || !ability.contains("available")) return;
  const bool available = ability.at("available") == true;
  const json& reason = get(ability, "reason");
  add(findings, available, Severity::Fail,
      available ? fmt::format("{} work", name)
                : fmt::format("{} do not work: {}", name,
                              reason.is_string() ? reason.get<std::string>() : "unknown reason"),
      remedy);
}

void examine_network(const json& host, Findings& findings) {
  const json& tools = get(host, "tools");
  for (const char* tool : {"ip", "tc"}) {
    if (!tools.is_object() || !tools.contains(tool)) continue;
    const bool present = tools.at(tool).is_string();
    add(findings, present, Severity::Fail,
        present ? fmt::format("'{}' is installed", tool) : fmt::format("'{}' is missing", tool),
        "install iproute2: without it multi-node topologies are skipped");
  }
  examine_ability(get(host, "namespaces"), "network namespaces",
                  "run as root, or allow unprivileged user namespaces; until then multi-node "
                  "topologies are skipped",
                  findings);
  examine_ability(get(host, "link_shaping"), "shaped links",
                  "install iproute2 and load the modules veth, bridge and sch_tbf; until then "
                  "topologies with rates are skipped",
                  findings);
}

}  // namespace

std::vector<Finding> examine_host(const json& host) {
  Findings findings;
  examine_cpu(host, findings);
  examine_memory(host, findings);
  examine_others(host, findings);
  examine_network(host, findings);
  return findings;
}

}  // namespace gradsync::launch
