#include "harness/session/context.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <limits>

#include "harness/base/build_info.h"
#include "harness/base/clock.h"
#include "harness/base/fields.h"
#include "harness/launch/cores.h"
#include "harness/launch/near_cpus.h"
#include "harness/launch/topology.h"
#include "harness/launch/visible_gpus.h"
#include "harness/paper/standins.h"
#include "harness/paper/words.h"
#include "harness/session/paths.h"
#include "harness/session/rank_program.h"
#include "harness/session/runnable_launches.h"
#include "harness/session/time_variables.h"

namespace gradsync::session {
namespace {

using nlohmann::json;

std::map<std::string, DescribedTopology> topologies_of(const plan::Plan& plan) {
  std::map<std::string, DescribedTopology> topologies;
  for (const plan::Part& part : plan.parts) {
    for (const plan::Cell& cell : part.cells) {
      const auto topology = launch::read_topology(cell.topology, topologies_directory());
      topologies[cell.topology] = {{topology.nodes, topology.ranks_per_node,
                                    topology.inter_node_bits_per_s, topology.intra_node_bits_per_s},
                                   topology.about};
    }
  }
  return topologies;
}

// The program's arguments as the kernel keeps them, each ended by a zero byte.
std::vector<std::string> command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  return words;
}

// Returns the sources of noise on this machine, for the head of the table.
std::vector<std::string> warnings_about(const launch::Host& host, const Gpus& gpus) {
  std::vector<std::string> warnings;
  for (const launch::Finding& finding : findings_about(host, gpus)) {
    if (finding.severity != launch::Finding::Severity::Ok) warnings.push_back(finding.what);
  }
  return warnings;
}

// "4 x NVIDIA A100-SXM4-80GB": what times depend on; nothing where it is not known.
std::optional<std::string> gpu_models(const Gpus& gpus) {
  if (!gpus) return std::nullopt;
  std::map<std::string, int> count;
  for (const launch::GpuInfo& gpu : *gpus) ++count[gpu.name.value_or("unknown")];
  std::vector<std::string> texts;
  for (const auto& [name, number] : count) texts.push_back(fmt::format("{} x {}", number, name));
  return fmt::format("{}", fmt::join(texts, ", "));
}

// Those that so many ranks of this host take.
Gpus gpus_of(int ranks) {
  Gpus all = launch::probe_gpus();
  if (!all) return all;
  return launch::gpus_of_ranks(*all, launch::process_environment(), ranks);
}

// GPUs whose near CPUs no rank may use.
void add_far_cpus(const std::vector<launch::GpuInfo>& gpus,
                  std::vector<launch::Finding>& findings) {
  const std::vector<int> usable = launch::usable_cpus();
  for (const launch::GpuInfo& gpu : gpus) {
    const auto far = launch::examine_nearness(
        gpu, usable, launch::cpus_near(gpu.pci_bus_id.value_or("unknown")));
    if (far) findings.push_back(*far);
  }
}

const char* pinning_on(const launch::Host& host) {
  return host.cores == host.cpus
             ? "one core per rank, round robin"
             : "one hardware thread per rank, of other cores first, round robin";
}

std::optional<std::string> unless_empty(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional(text);
}

}  // namespace

GRADSYNC_FIELDS_OF(Build, gradsync, commit, build_type, sanitize, timing_valid, compiler, torch)
GRADSYNC_FIELDS_OF(DescribedTopology, nodes, ranks_per_node, about, inter_node_bits_per_s,
                   intra_node_bits_per_s)

constexpr auto fields_of(const Conditions*) {
  return std::tuple{
      GRADSYNC_FIELDS(Conditions, warnings, device, backend, fold_from_bytes, blas,
                      threads_per_rank, gloo_loop, pinning, busy_times, gpu, gpus, gpus_reason,
                      command_line, variables, weights, data, seed, window_rule, topologies, links,
                      start_time, end_time, launcher, clocks),
      GRADSYNC_SPARED_FIELDS(Conditions, timing_reason, peak_memory_reason, resumed,
                             steal_share_run, load_after, gpus_under_load)};
}

void to_json(json& out, const Build& build) {
  out = write_fields(build);
}

void to_json(json& out, const RunContext& context) {
  out = context.host;
  out.update(write_fields(context.build));
  out.update(write_fields(context.conditions));
}

Gpus visible_gpus() {
  return gpus_of(std::numeric_limits<int>::max());
}

Gpus gpus_for(const plan::Plan& plan, bool nodes_are_hosts) {
  const bool is_paper = plan.device == "paper";
  if (is_paper && !paper::are_given()) return Unknown{paper::kNothingComputed};
  if (!is_paper && plan.device != "cuda") return Unknown{"the plan computes on the CPU"};
  int ranks = 1;
  for (const auto& [name, topology] : topologies_of(plan)) {
    const int nodes = nodes_are_hosts ? 1 : topology.nodes.value_or(1);
    ranks = std::max(ranks, nodes * topology.ranks_per_node.value_or(1));
  }
  return gpus_of(ranks);
}

std::vector<launch::Finding> findings_about(const launch::Host& host, const Gpus& gpus) {
  std::vector<launch::Finding> findings = launch::examine_host(host);
  for (launch::Finding& finding : launch::examine_gpus(gpus)) {
    findings.push_back(std::move(finding));
  }
  if (gpus) {
    const auto doubt = launch::doubt_of_order(*gpus, launch::process_environment());
    if (doubt) findings.push_back(*doubt);
    add_far_cpus(*gpus, findings);
  }
  const auto shared_memory = launch::examine_shared_memory(host);
  if (shared_memory && gpus && !gpus->empty()) findings.push_back(*shared_memory);
  return findings;
}

Build build_context() {
  const BuildInfo& build = build_info();
  return {.gradsync = build.version,
          .commit = build.commit,
          .build_type = build.build_type,
          .sanitize = unless_empty(build.sanitize),
          .timing_valid = build.timing_valid,
          .compiler = build.compiler,
          .torch = torch_of_ranks()};
}

RunContext make_context(const RunOptions& options, const plan::Plan& plan, launch::Host host,
                        const Gpus& gpus) {
  RunContext context{std::move(host), build_context(), {}};
  Conditions& run = context.conditions;
  run.warnings = warnings_about(context.host, gpus);
  run.device = plan.device;
  run.backend = plan.backend;
  if (plan.fold_from_bytes > 0) run.fold_from_bytes = plan.fold_from_bytes;
  run.blas = about_ranks().blas;
  run.threads_per_rank = plan.threads_per_rank;
  run.gloo_loop = plan.gloo_loop;
  const bool pinned = plan.device == "cpu" && plan.backend != "fake";
  run.pinning = pinned ? pinning_on(context.host) : "none";
  run.busy_times = keeps_busy_times() ? "kept" : "refused";
  run.gpu = gpu_models(gpus);
  if (gpus) {
    run.gpus = *gpus;
  } else {
    run.gpus_reason = gpus.why_not();
  }
  run.command_line = command_line();
  run.variables = time_variables(launch::process_environment(), plan.device);
  run.weights = unless_empty(options.weights);
  run.data = unless_empty(options.data);
  run.seed = plan.seed;
  run.window_rule = plan.window_rule;
  if (plan.device == "paper") {
    context.build.timing_valid = false;
    run.timing_reason = paper::kNothingComputed;
  }
  if (plan.device == "cpu") run.peak_memory_reason = "the CPU reserves no memory ahead of use";
  run.topologies = topologies_of(plan);
  run.start_time = utc_timestamp();
  return context;
}

}  // namespace gradsync::session
