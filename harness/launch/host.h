// This machine: what is stamped into every result, and what about it would spoil a number.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace gradsync::launch {

// Whether something can be done here; where it cannot, why.
struct Ability {
  bool available = false;
  std::optional<std::string> reason;
};

struct NamespaceAbility : Ability {
  std::optional<bool> user_namespace;  // made through one, without being root
};

// Paths of programs.
struct Tools {
  std::optional<std::string> ip;
  std::optional<std::string> tc;
};

// What cannot be read is unset. Shares are 0 to 1.
struct Host {
  std::optional<std::string> host;
  std::optional<std::string> kernel;
  std::optional<std::string> cpu_model;
  std::optional<std::int64_t> cpus;     // usable by this process
  std::optional<std::int64_t> cores;    // that these are threads of
  std::optional<double> cpu_quota;      // of its control groups, in cores; unset: none
  std::optional<std::string> governor;  // of the first cpu
  std::optional<double> load_1min;
  std::optional<double> steal_share;  // over the time of the probe
  std::optional<double> steal_share_since_boot;
  std::optional<std::int64_t> memory_total_bytes;
  std::optional<std::int64_t> memory_limit_bytes;      // of its control groups; unset: none
  std::optional<std::int64_t> memory_available_bytes;  // to this process: what the limit leaves,
                                                       // where that is less than the machine has
  std::optional<std::int64_t> swap_used_bytes;
  std::optional<std::int64_t> shared_memory_bytes;  // that /dev/shm may hold
  std::optional<std::string> transparent_hugepages;
  std::optional<bool> on_battery;
  std::optional<std::string> congestion_control;
  std::optional<std::vector<int>> other_gradsync;  // process ids of other runs
  std::optional<Tools> tools;
  std::optional<NamespaceAbility> namespaces;
  std::optional<Ability> link_shaping;
};

// The machine's part of a result's context, under these names; what is unset is null.
void to_json(nlohmann::json& out, const Host& host);

// Returns what this machine is. Never throws. Blocks for `sample_s`. Cost: a few processes are
// started to see whether namespaces work.
Host probe_host(double sample_s = 0.1);

// Returns the memory in bytes that processes here can have all together, and that which they can
// still take: by the machine, or by the limits of this one's control groups, whichever is less.
// Nothing where it cannot be read.
std::optional<std::int64_t> memory_total_bytes();
std::optional<std::int64_t> memory_available_bytes();

// Returns the load average of the last minute; nothing where it cannot be read.
std::optional<double> load_1min();

// How much of this machine's CPU time its host gave to others while the meter lived. Neighbours of
// a virtual machine are the noise that nothing here can quiet: a result must say how loud they
// were.
class StealMeter {
 public:
  StealMeter();
  // 0 to 1; nothing where the kernel does not tell.
  std::optional<double> share() const;

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

// NCCL keeps some 10 MB in /dev/shm for each pair of ranks of a host, torch's data loaders their
// batches. A container has 64 MiB unless told otherwise. Smaller: it passes, and a job fails later.
inline constexpr std::int64_t kLittleSharedMemoryBytes = std::int64_t{1} << 30;

// Returns whether /dev/shm is large enough for ranks on GPUs; nothing where it cannot be read.
// Pure.
std::optional<Finding> examine_shared_memory(const Host& host);

// Returns what is good and bad about a machine, one finding per subject. Fail: something cannot be
// measured here; Warn: numbers will be noisier. What is unset is passed over. Pure.
std::vector<Finding> examine_host(const Host& host);

}  // namespace gradsync::launch
