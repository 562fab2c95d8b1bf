#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "harness/base/units.h"
#include "harness/launch/host.h"

namespace gradsync::launch {

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

void examine_cores(const Host& host, Findings& findings) {
  if (host.cpus) {
    add(findings, *host.cpus >= kFewCpus, Severity::Warn,
        fmt::format("{} usable CPU(s)", *host.cpus),
        "two ranks need two CPUs of their own: real-compute times are not printed with fewer");
  }
  if (host.cpus && host.load_1min) {
    const auto cpus = static_cast<double>(std::max<std::int64_t>(*host.cpus, 1));
    add(findings, *host.load_1min / cpus <= kBusyLoadPerCpu, Severity::Warn,
        fmt::format("load average {:.2f} on {} CPU(s)", *host.load_1min, *host.cpus),
        "stop other work, or wait until it is done");
  }
  if (host.cpus && host.cores) {
    const bool alone = *host.cores >= *host.cpus;
    add(findings, alone, Severity::Warn,
        alone ? "every CPU is a core of its own"
              : fmt::format("{} CPUs are hardware threads of {} core(s)", *host.cpus, *host.cores),
        "ranks take a core each first: with more ranks than cores, two share one and are slower");
  }
  if (host.cpu_quota) {
    const bool whole = host.cpus && *host.cpu_quota >= static_cast<double>(*host.cpus);
    add(findings, whole, Severity::Warn,
        fmt::format("a quota of {:.3g} cores (control group)", *host.cpu_quota),
        "give the container as many cores as ranks, or no quota: times of a rank that it holds are "
        "not printed");
  }
}

// What changes how fast a core is.
void examine_speed(const Host& host, Findings& findings) {
  if (host.governor) {
    add(findings, *host.governor == "performance", Severity::Warn,
        fmt::format("CPU governor is '{}'", *host.governor),
        "set it: cpupower frequency-set -g performance");
  }
  if (host.steal_share) {
    add(findings, *host.steal_share <= kNoticeableSteal, Severity::Warn,
        fmt::format("{:.1f} % of CPU time is stolen by the host", 100 * *host.steal_share),
        "use a machine with CPUs of its own, or run when its neighbours are idle");
  }
  if (host.on_battery.value_or(false)) {
    add(findings, false, Severity::Warn, "running on battery", "plug in the power supply");
  }
}

std::string bytes_text(std::int64_t bytes) {
  return format_bytes(static_cast<double>(bytes));
}

void examine_memory(const Host& host, Findings& findings) {
  if (const auto available = host.memory_available_bytes) {
    const std::string limit = host.memory_limit_bytes
                                  ? fmt::format(", of a limit of {} (control group)",
                                                bytes_text(*host.memory_limit_bytes))
                                  : "";
    add(findings, static_cast<double>(*available) >= kLittleMemoryBytes, Severity::Warn,
        fmt::format("{} of memory available{}", bytes_text(*available), limit),
        "the default plan needs 2 GiB: stop what holds memory, or choose a smaller model");
  }
  if (const auto swap = host.swap_used_bytes) {
    add(findings, static_cast<double>(*swap) <= kUsedSwapBytes, Severity::Warn,
        fmt::format("{} of swap in use", bytes_text(*swap)), "free memory, then swapoff -a");
  }
}

void examine_others(const Host& host, Findings& findings) {
  if (!host.other_gradsync) return;
  add(findings, host.other_gradsync->empty(), Severity::Warn,
      host.other_gradsync->empty() ? "no other gradsync runs"
                                   : fmt::format("another gradsync runs (process {})",
                                                 fmt::join(*host.other_gradsync, ", ")),
      "wait for it: two runs at once spoil each other's times");
}

void examine_ability(const Ability& ability, const std::string& name, const std::string& remedy,
                     Findings& findings) {
  add(findings, ability.available, Severity::Fail,
      ability.available
          ? fmt::format("{} work", name)
          : fmt::format("{} do not work: {}", name, ability.reason.value_or("unknown reason")),
      remedy);
}

void examine_tool(const std::optional<std::string>& path, const char* tool, Findings& findings) {
  add(findings, path.has_value(), Severity::Fail,
      path ? fmt::format("'{}' is installed", tool) : fmt::format("'{}' is missing", tool),
      "install iproute2: without it multi-node topologies are skipped");
}

void examine_network(const Host& host, Findings& findings) {
  if (host.tools) {
    examine_tool(host.tools->ip, "ip", findings);
    examine_tool(host.tools->tc, "tc", findings);
  }
  if (host.namespaces) {
    examine_ability(*host.namespaces, "network namespaces",
                    "run as root, or allow unprivileged user namespaces; until then multi-node "
                    "topologies are skipped",
                    findings);
  }
  if (host.link_shaping) {
    examine_ability(*host.link_shaping, "shaped links",
                    "install iproute2 and load the modules veth, bridge and sch_tbf; until then "
                    "topologies with rates are skipped",
                    findings);
  }
}

}  // namespace

std::optional<Finding> examine_shared_memory(const Host& host) {
  if (!host.shared_memory_bytes) return std::nullopt;
  Findings findings;
  add(findings, *host.shared_memory_bytes >= kLittleSharedMemoryBytes, Severity::Warn,
      fmt::format("/dev/shm may hold {}", bytes_text(*host.shared_memory_bytes)),
      "NCCL and torch's data loaders need more: start the container with --ipc=host or "
      "--shm-size=8g; in Kubernetes, mount an emptyDir of medium Memory at /dev/shm");
  return findings.front();
}

std::vector<Finding> examine_host(const Host& host) {
  Findings findings;
  examine_cores(host, findings);
  examine_speed(host, findings);
  examine_memory(host, findings);
  examine_others(host, findings);
  examine_network(host, findings);
  return findings;
}

}  // namespace gradsync::launch
