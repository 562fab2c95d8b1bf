#include "harness/launch/host.h"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include "harness/base/clock.h"
#include "harness/base/errors.h"
#include "harness/base/optional_json.h"
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

json line_or_null(const std::string& path) {
  const auto line = first_line(path);
  return line ? json(*line) : json(nullptr);
}

json cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return nullptr;
}

void add_processors(json& host) {
  const std::vector<Processor> processors = usable_processors();
  const bool known = !processors.empty();
  host["cpus"] = known ? json(processors.size()) : json(nullptr);
  host["cores"] = known ? json(core_count(processors)) : json(nullptr);
}

// "[always] madvise never" means always.
json chosen_option(const std::string& path) {
  const std::string line = first_line(path).value_or("");
  const std::size_t open = line.find('[');
  const std::size_t close = line.find(']');
  if (open == std::string::npos || close == std::string::npos) return nullptr;
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

void add_memory(json& host) {
  auto bytes = memory_of_the_machine();
  host["memory_total_bytes"] =
      bytes.contains("MemTotal:") ? json(bytes["MemTotal:"]) : json(nullptr);
  host["memory_limit_bytes"] = optional_to_json(Cgroups().memory_limit_bytes());
  host["memory_available_bytes"] = optional_to_json(memory_available_bytes());
  const bool has_swap = bytes.contains("SwapTotal:") && bytes.contains("SwapFree:");
  host["swap_used_bytes"] =
      has_swap ? json(bytes["SwapTotal:"] - bytes["SwapFree:"]) : json(nullptr);
}

json on_battery() {
  std::error_code error;
  json result;
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
json other_gradsync() {
  std::set<pid_t> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    if (first_line(entry.path() / "comm") == "gradsync") found.insert(std::stoi(name));
  }
  std::set<pid_t> family;
  for (pid_t pid = ::getpid(); pid > 1; pid = parent_of(pid)) family.insert(pid);
  json others = json::array();
  for (const pid_t pid : found) {
    // A rank is a child of its launcher: the launcher alone stands for the run.
    const pid_t parent = parent_of(pid);
    if (!family.contains(pid) && parent != ::getpid() && !found.contains(parent)) {
      others.push_back(pid);
    }
  }
  return others;
}

json answer(bool available, const json& reason) {
  return {{"available", available}, {"reason", reason}};
}

// Sees what works by doing it, in namespaces that are gone again when this returns.
void add_network(json& host) {
  host["tools"] = {{"ip", nullptr}, {"tc", nullptr}};
  for (const char* tool : {"ip", "tc"}) {
    if (const std::string path = find_program(tool); !path.empty()) host["tools"][tool] = path;
  }
  try {
    const NamespaceSet namespaces(1);
    host["namespaces"] = answer(true, nullptr);
    host["namespaces"]["user_namespace"] = namespaces.through_user_namespace();
    try {
      namespaces.run_batch(
          0, "ip", "link add br0 type bridge\nlink add name eth0 type veth peer name eth1\n");
      namespaces.run_batch(0, "tc", tbf_command("eth0", shape_link(1e9)));
      host["link_shaping"] = answer(true, nullptr);
    } catch (const EnvironmentError& error) {
      host["link_shaping"] = answer(false, error.what());
    }
  } catch (const EnvironmentError& error) {
    host["namespaces"] = answer(false, error.what());
    host["namespaces"]["user_namespace"] = nullptr;
    host["link_shaping"] = answer(false, "there are no network namespaces");
  }
}

}  // namespace

std::optional<std::int64_t> memory_available_bytes() {
  const auto bytes = memory_of_the_machine();
  const auto machine = bytes.find("MemAvailable:");
  if (machine == bytes.end()) return std::nullopt;
  return std::min(machine->second, Cgroups().memory_left_bytes().value_or(machine->second));
}

json load_1min() {
  std::ifstream file("/proc/loadavg");
  double load = 0;
  return file >> load ? json(load) : json(nullptr);
}

StealMeter::StealMeter() {
  const CpuTicks ticks = cpu_ticks().value_or(CpuTicks{});
  steal_ticks_ = ticks.steal;
  total_ticks_ = ticks.total;
}

json StealMeter::share() const {
  const auto now = cpu_ticks();
  if (!now || now->total <= total_ticks_) return nullptr;
  return (now->steal - steal_ticks_) / (now->total - total_ticks_);
}

json probe_host(double sample_s) {
  const StealMeter meter;
  steady_clock().sleep_until_ns(steady_clock().now_ns() + nanoseconds(sample_s));

  json host;
  utsname names{};
  const bool named = ::uname(&names) == 0;
  host["host"] = named ? json(names.nodename) : json(nullptr);
  host["kernel"] = named ? json(names.release) : json(nullptr);
  host["cpu_model"] = cpu_model();
  add_processors(host);
  host["cpu_quota"] = optional_to_json(Cgroups().cpu_quota());
  host["governor"] = line_or_null("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  host["load_1min"] = load_1min();
  host["steal_share"] = meter.share();
  const CpuTicks ticks = cpu_ticks().value_or(CpuTicks{});
  host["steal_share_since_boot"] =
      ticks.total > 0 ? json(ticks.steal / ticks.total) : json(nullptr);
  add_memory(host);
  host["transparent_hugepages"] = chosen_option("/sys/kernel/mm/transparent_hugepage/enabled");
  host["on_battery"] = on_battery();
  host["congestion_control"] = line_or_null("/proc/sys/net/ipv4/tcp_congestion_control");
  host["other_gradsync"] = other_gradsync();
  add_network(host);
  return host;
}

}  // namespace gradsync::launch
