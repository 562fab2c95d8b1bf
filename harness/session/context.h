// The `context` of a result: everything about machine, build and run that a number depends on.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/launch/clock_offset.h"
#include "harness/launch/gpus.h"
#include "harness/launch/host.h"
#include "harness/launch/loaded_gpus.h"
#include "harness/plan/plan.h"
#include "harness/results/run_context.h"
#include "harness/session/run_options.h"

namespace gradsync::session {

using Gpus = Known<std::vector<launch::GpuInfo>>;

// What this program was built of. Unset: no sanitizer.
struct Build {
  std::string gradsync;  // its version
  std::string commit;
  std::string build_type;
  std::optional<std::string> sanitize;
  bool timing_valid = true;
  std::string compiler;
  std::string torch;
};

// A topology as data, so that a table can describe it without its file.
struct DescribedTopology : results::TopologyShape {
  std::string about;
};

// How a plan is run. An unset field is null in the file, except those that are known at the end of
// the run, which are absent until then.
struct Conditions {
  std::vector<std::string> warnings;  // what would disturb measurements
  std::string device;
  std::string backend;
  std::optional<std::int64_t> fold_from_bytes;
  std::string blas;
  int threads_per_rank = 1;
  std::string gloo_loop;
  std::string pinning;
  std::string busy_times;
  std::optional<std::string> gpu;  // of the leading host's ranks: "4 x NVIDIA A100-SXM4-80GB"
  std::optional<std::vector<launch::GpuInfo>> gpus;
  std::optional<std::string> gpus_reason;
  std::vector<std::string> command_line;
  std::map<std::string, std::string> variables;  // time_variables() of the leading task
  std::optional<std::string> weights;
  std::optional<std::string> data;
  std::uint64_t seed = 0;
  std::string window_rule;
  std::string timing_reason;       // why its times are invalid; "": see Build
  std::string peak_memory_reason;  // why it is not known; "": it is measured
  std::map<std::string, DescribedTopology> topologies;
  nlohmann::json links = nlohmann::json::object();  // by network, what each was measured to carry
  std::string start_time;
  std::optional<std::string> end_time;
  std::optional<std::string> launcher;  // unset: this program started the ranks itself
  std::optional<std::vector<launch::HostClock>> clocks;  // of the hosts of a launcher
  std::optional<bool> resumed;
  std::optional<std::optional<double>> steal_share_run;
  std::optional<std::optional<double>> load_after;
  std::vector<launch::LoadedGpu> gpus_under_load;  // of the leading host's ranks
};

struct RunContext {
  launch::Host host;
  Build build;
  Conditions conditions;
};

// Both have one object: the fields of all parts beside each other.
void to_json(nlohmann::json& out, const Build& build);
void to_json(nlohmann::json& out, const RunContext& context);

Build build_context();

// Returns the context as it stands before the run. `gpus` is gpus_for()'s.
RunContext make_context(const RunOptions& options, const plan::Plan& plan, launch::Host host,
                        const Gpus& gpus);

// Returns the GPUs of this host that CUDA shows, or why the driver cannot be asked.
Gpus visible_gpus();

// Returns the GPUs that ranks of this host take where the plan uses them, and otherwise why the
// driver was not asked. `nodes_are_hosts`: an outside launcher started one task or more per node.
Gpus gpus_for(const plan::Plan& plan, bool nodes_are_hosts);

// Returns what is good and bad about the machine and its GPUs.
std::vector<launch::Finding> findings_about(const launch::Host& host, const Gpus& gpus);

}  // namespace gradsync::session
