#include "harness/launch/host.h"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "harness/base/clock.h"
#include "harness/base/errors.h"
#include "harness/base/fields.h"
#include "harness/launch/cgroup.h"
#include "harness/launch/cores.h"
#include "harness/launch/link_shape.h"
#include "harness/launch/namespaces.h"

namespace gradsync::launch {

using nlohmann::json;
namespace fs = std::filesystem;

namespace {

std::optional<std::string> first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  return line;
}

std::optional<std::string> cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return std::nullopt;
}

void add_processors(Host& host) {
  const std::vector<Processor> processors = usable_processors();
  if (processors.empty()) return;
  host.cpus = static_cast<std::int64_t>(processors.size());
  host.cores = static_cast<std::int64_t>(core_count(processors));
}

// "[always] madvise never" means always.
std::optional<std::string> chosen_option(const std::string& path) {
  const std::string line = first_line(path).value_or("");
  const std::size_t open = line.find('[');
  const std::size_t close = line.find(']');
  if (open == std::string::npos || close == std::string::npos) return std::nullopt;
  return line.substr(open + 1, close - open - 1);
}

struct CpuTicks {
  double steal = 0;
  double total = 0;
};

// The machine's ticks since boot: user nice system idle iowait irq softirq steal (guest is in
// user).
std::optional<CpuTicks> cpu_ticks() {
  std::ifstream file("/proc/stat");
  std::string name;
  std::array<double, 8> ticks{};
  file >> name;
  for (double& value : ticks) file >> value;
  if (!file || name != "cpu") return std::nullopt;
  CpuTicks result;
  for (const double value : ticks) result.total += value;
  result.steal = ticks[7];
  return result;
}

// By name, in bytes: "MemTotal:".
std::map<std::string, std::int64_t> memory_of_the_machine() {
  std::ifstream file("/proc/meminfo");
  std::map<std::string, std::int64_t> bytes;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    std::int64_t kib = 0;
    if (words >> name >> kib) bytes[name] = kib * 1024;
  }
  return bytes;
}

void add_memory(Host& host) {
  const auto bytes = memory_of_the_machine();
  const auto total = bytes.find("MemTotal:");
  if (total != bytes.end()) host.memory_total_bytes = total->second;
  host.memory_limit_bytes = Cgroups().memory_limit_bytes();
  host.memory_available_bytes = memory_available_bytes();
  const auto swap = bytes.find("SwapTotal:");
  const auto free_swap = bytes.find("SwapFree:");
  if (swap != bytes.end() && free_swap != bytes.end()) {
    host.swap_used_bytes = swap->second - free_swap->second;
  }
  std::error_code error;
  const fs::space_info shared = fs::space("/dev/shm", error);
  if (!error) host.shared_memory_bytes = static_cast<std::int64_t>(shared.capacity);
}

std::optional<bool> on_battery() {
  std::error_code error;
  std::optional<bool> result;
  for (const auto& supply : fs::directory_iterator("/sys/class/power_supply", error)) {
    if (first_line(supply.path() / "type") != "Mains") continue;
    result = first_line(supply.path() / "online") == "0";
  }
  return result;
}

// Parent of process `pid`; 0 where it is gone.
pid_t parent_of(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(file, text);
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream words(text.substr(name_end + 1));
  char state = 0;
  pid_t parent = 0;
  words >> state >> parent;
  return parent;
}

// Runs of the program besides this one; its own ranks and ancestors are not others.
std::vector<int> other_gradsync() {
  std::set<pid_t> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    if (first_line(entry.path() / "comm") == "gradsync") found.insert(std::stoi(name));
  }
  std::set<pid_t> family;
  for (pid_t pid = ::getpid(); pid > 1; pid = parent_of(pid)) family.insert(pid);
  std::vector<int> others;
  for (const pid_t pid : found) {
    // A rank is a child of its launcher: the launcher alone stands for the run.
    const pid_t parent = parent_of(pid);
    if (!family.contains(pid) && parent != ::getpid() && !found.contains(parent)) {
      others.push_back(pid);
    }
  }
  return others;
}

std::optional<std::string> path_of(const char* tool) {
  const std::string path = find_program(tool);
  return path.empty() ? std::nullopt : std::optional(path);
}

Ability cannot(const std::string& reason) {
  return {false, reason};
}

// Sees what works by doing it, in namespaces that are gone again when this returns.
void add_network(Host& host) {
  host.tools = Tools{path_of("ip"), path_of("tc")};
  try {
    const NamespaceSet namespaces(1);
    host.namespaces = NamespaceAbility{{true, std::nullopt}, namespaces.through_user_namespace()};
    try {
      namespaces.run_batch(
          0, "ip", "link add br0 type bridge\nlink add name eth0 type veth peer name eth1\n");
      namespaces.run_batch(0, "tc", tbf_command("eth0", shape_link(1e9)));
      host.link_shaping = Ability{true, std::nullopt};
    } catch (const EnvironmentError& error) {
      host.link_shaping = cannot(error.what());
    }
  } catch (const EnvironmentError& error) {
    host.namespaces = NamespaceAbility{cannot(error.what()), std::nullopt};
    host.link_shaping = cannot("there are no network namespaces");
  }
}

}  // namespace

std::optional<std::int64_t> memory_total_bytes() {
  const auto bytes = memory_of_the_machine();
  const auto machine = bytes.find("MemTotal:");
  if (machine == bytes.end()) return std::nullopt;
  return std::min(machine->second, Cgroups().memory_limit_bytes().value_or(machine->second));
}

std::optional<std::int64_t> memory_available_bytes() {
  const auto bytes = memory_of_the_machine();
  const auto machine = bytes.find("MemAvailable:");
  if (machine == bytes.end()) return std::nullopt;
  return std::min(machine->second, Cgroups().memory_left_bytes().value_or(machine->second));
}

std::optional<double> load_1min() {
  std::ifstream file("/proc/loadavg");
  double load = 0;
  return file >> load ? std::optional(load) : std::nullopt;
}

StealMeter::StealMeter() {
  const CpuTicks ticks = cpu_ticks().value_or(CpuTicks{});
  steal_ticks_ = ticks.steal;
  total_ticks_ = ticks.total;
}

std::optional<double> StealMeter::share() const {
  const auto now = cpu_ticks();
  if (!now || now->total <= total_ticks_) return std::nullopt;
  return (now->steal - steal_ticks_) / (now->total - total_ticks_);
}

GRADSYNC_FIELDS_OF(Ability, available, reason)
GRADSYNC_FIELDS_OF(NamespaceAbility, available, reason, user_namespace)
GRADSYNC_FIELDS_OF(Tools, ip, tc)
GRADSYNC_FIELDS_OF(Host, host, kernel, cpu_model, cpus, cores, cpu_quota, governor, load_1min,
                   steal_share, steal_share_since_boot, memory_total_bytes, memory_limit_bytes,
                   memory_available_bytes, swap_used_bytes, shared_memory_bytes,
                   transparent_hugepages, on_battery, congestion_control, other_gradsync, tools,
                   namespaces, link_shaping)

void to_json(json& out, const Host& host) {
  out = write_fields(host);
}

Host probe_host(double sample_s) {
  const StealMeter meter;
  steady_clock().sleep_until_ns(steady_clock().now_ns() + nanoseconds(sample_s));

  Host host;
  utsname names{};
  if (::uname(&names) == 0) {
    host.host = names.nodename;
    host.kernel = names.release;
  }
  host.cpu_model = cpu_model();
  add_processors(host);
  host.cpu_quota = Cgroups().cpu_quota();
  host.governor = first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  host.load_1min = load_1min();
  host.steal_share = meter.share();
  const CpuTicks ticks = cpu_ticks().value_or(CpuTicks{});
  if (ticks.total > 0) host.steal_share_since_boot = ticks.steal / ticks.total;
  add_memory(host);
  host.transparent_hugepages = chosen_option("/sys/kernel/mm/transparent_hugepage/enabled");
  host.on_battery = on_battery();
  host.congestion_control = first_line("/proc/sys/net/ipv4/tcp_congestion_control");
  host.other_gradsync = other_gradsync();
  add_network(host);
  return host;
}

}  // namespace gradsync::launch
