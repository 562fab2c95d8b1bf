// This machine: what is stamped into every result, and what about it would spoil a number.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace gradsync::launch {

// Returns the machine's part of a result's context. Never throws; what cannot be read is null.
//   "host", "kernel", "cpu_model"; "cpus" (usable by this process), "cores" (that these
//   are threads of), "governor" (of the first cpu)
//   "cpu_quota", in cores, and "memory_limit_bytes": of its control groups; null: none
//   "load_1min"; "steal_share" (0 to 1, over `sample_s`), "steal_share_since_boot"
//   "memory_total_bytes", "memory_available_bytes" (to this process: what the limit leaves, where
//   that is less than what the machine has), "swap_used_bytes", "transparent_hugepages"
//   "on_battery", "congestion_control", "other_gradsync" (process ids of other runs)
//   "namespaces": {"available", "reason", "user_namespace"}, "tools": {"ip", "tc"} (paths),
//   "link_shaping": {"available", "reason"}
// Blocks for `sample_s`. Cost: a few processes are started to see whether namespaces work.
nlohmann::json probe_host(double sample_s = 0.1);

// Returns the memory in bytes that processes here can still take: what the machine has, or what the
// limits of this one's control groups leave, whichever is less. Nothing where it cannot be read.
std::optional<std::int64_t> memory_available_bytes();

// Returns the load average of the last minute; null where it cannot be read.
nlohmann::json load_1min();

// How much of this machine's CPU time its host gave to others while the meter lived. Neighbours of
// a virtual machine are the noise that nothing here can quiet: a result must say how loud they
// were.
class StealMeter {
 public:
  StealMeter();
  // 0 to 1; null where the kernel does not tell.
  nlohmann::json share() const;

 private:
  double steal_ticks_ = 0;
  double total_ticks_ = 0;
};
// Above this share, times are visibly longer.
inline constexpr double kNoticeableSteal = 0.01;

struct Finding {
  enum class Severity { Ok, Warn, Fail };
  Severity severity = Severity::Ok;
  std::string what;
  std::string remedy;  // "" where nothing is wrong
};

// Returns what is good and bad about a machine as probe_host() describes it, one finding per
// subject. Fail: something cannot be measured here; Warn: numbers will be noisier. What is null in
// `host` is passed over. Pure.
std::vector<Finding> examine_host(const nlohmann::json& host);

}  // namespace gradsync::launch
