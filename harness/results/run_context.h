// Where, when and by what a run was made: "context" of its result.
//
// A context has all facts about the machine and the build, some sixty fields, and more may be added
// at any time. It is kept as it was written; fields that the program itself reads are members.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace gradsync::results {

// A topology of the plan. Unset: the file does not say; of a rate: no link is shaped.
struct TopologyShape {
  std::optional<int> nodes;
  std::optional<int> ranks_per_node;
  std::optional<double> inter_node_bits_per_s;
  std::optional<double> intra_node_bits_per_s;
};

// What a link was measured to carry before the run.
struct MeasuredLink {
  std::optional<double> measured_payload_bits_per_s;
  std::optional<double> free_burst_bytes;  // let through at once after idle time; unset: none
};

// A host's clock minus that of the leading host, true within +- error_s. Unset: not compared.
struct HostClockOffset {
  int node = 0;
  std::optional<double> offset_s;
  std::optional<double> error_s;
};

// The fields of a context that the program itself reads.
struct ContextFields {
  std::optional<std::string> gradsync;  // its version
  std::optional<std::string> commit;
  std::optional<std::string> build_type;
  std::optional<std::string> torch;
  std::optional<std::string> backend;
  std::optional<std::string> device;  // "cpu", "cuda" or "paper"
  std::optional<std::string> host;
  std::optional<std::string> start_time;
  std::optional<std::uint64_t> seed;
  std::optional<std::size_t> world_size;  // of a training command
  int cpus_usable = 0;                    // 0: not known
  bool timing_valid = true;  // false: a build whose times mean nothing, `timing_reason` says why
  std::string timing_reason = "this build is not fit for timing";
  std::string peak_memory_reason = "not measured";  // where peaks of memory are not known
  std::vector<std::string> warnings;
  std::map<std::string, TopologyShape> topologies;
  std::map<std::string, MeasuredLink> links;  // "2x1_1gbit / 50": a topology and its scale
  std::optional<std::string> launcher;        // unset: this program started the ranks itself
  std::optional<bool> resumed;                // earlier trials were made under another start
  std::optional<std::vector<HostClockOffset>> clocks;  // of the hosts of a launcher, compared
};

struct Context : ContextFields {
  Context() = default;
  // Errors: ConfigError where a field that the program asks for is not of its type.
  Context(nlohmann::json as_written);

  nlohmann::json written;  // all of it, as in the file; null: there is none
};

void to_json(nlohmann::json& out, const Context& context);

}  // namespace gradsync::results
