#include "harness/session/context.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "harness/base/clock.h"
#include "harness/launch/gpus.h"
#include "harness/launch/host.h"
#include "harness/launch/topology.h"
#include "harness/session/launch_jobs.h"
#include "harness/session/paths.h"
#include "harness/session/rank_program.h"

namespace gradsync::session {
namespace {

using nlohmann::json;

// The topologies of the plan as data, so that a table can describe them without the files.
json topologies_of(const plan::Plan& plan) {
  json topologies = json::object();
  const auto rate = [](const std::optional<double>& bits_per_s) {
    return bits_per_s ? json(*bits_per_s) : json(nullptr);
  };
  for (const plan::Part& part : plan.parts) {
    for (const plan::Cell& cell : part.cells) {
      const auto topology = launch::read_topology(cell.topology, topologies_directory());
      topologies[cell.topology] = {{"nodes", topology.nodes},
                                   {"ranks_per_node", topology.ranks_per_node},
                                   {"about", topology.about},
                                   {"inter_node_bits_per_s", rate(topology.inter_node_bits_per_s)},
                                   {"intra_node_bits_per_s", rate(topology.intra_node_bits_per_s)}};
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

// What would spoil a number on this machine, for the head of the table.
json warnings_about(const launch::Host& host, const Gpus& gpus) {
  json warnings = json::array();
  for (const launch::Finding& finding : findings_about(host, gpus)) {
    if (finding.severity != launch::Finding::Severity::Ok) warnings.push_back(finding.what);
  }
  return warnings;
}

// "4 x NVIDIA A100-SXM4-80GB": what times depend on; null where it is not known.
json gpu_models(const Gpus& gpus) {
  if (!gpus) return nullptr;
  std::map<std::string, int> count;
  for (const launch::GpuInfo& gpu : *gpus) ++count[gpu.name.value_or("unknown")];
  std::vector<std::string> texts;
  for (const auto& [name, number] : count) texts.push_back(fmt::format("{} x {}", number, name));
  return fmt::format("{}", fmt::join(texts, ", "));
}

const char* pinning_on(const launch::Host& host) {
  return host.cores == host.cpus
             ? "one core per rank, round robin"
             : "one hardware thread per rank, of other cores first, round robin";
}

}  // namespace

Gpus gpus_for(const plan::Plan& plan) {
  if (plan.device == "cuda") return launch::probe_gpus();
  return Unknown{"the plan computes on the CPU"};
}

std::vector<launch::Finding> findings_about(const launch::Host& host, const Gpus& gpus) {
  std::vector<launch::Finding> findings = launch::examine_host(host);
  for (launch::Finding& finding : launch::examine_gpus(gpus)) {
    findings.push_back(std::move(finding));
  }
  return findings;
}

json build_context() {
  const BuildInfo& build = build_info();
  return {{"gradsync", build.version},
          {"commit", build.commit},
          {"build_type", build.build_type},
          {"sanitize", build.sanitize.empty() ? json(nullptr) : json(build.sanitize)},
          {"timing_valid", build.timing_valid},
          {"compiler", build.compiler},
          {"torch", build.torch_version}};
}

json make_context(const RunOptions& options, const plan::Plan& plan, const launch::Host& host,
                  const Gpus& gpus) {
  json context = host;
  context["warnings"] = warnings_about(host, gpus);
  context.update(build_context());
  context["device"] = plan.device;
  context["backend"] = plan.backend;
  context["fold_from_bytes"] =
      plan.fold_from_bytes > 0 ? json(plan.fold_from_bytes) : json(nullptr);
  context["blas"] = about_ranks().blas;
  context["threads_per_rank"] = plan.threads_per_rank;
  context["gloo_loop"] = plan.gloo_loop;
  const bool pinned = plan.device == "cpu" && plan.backend != "fake";
  context["pinning"] = pinned ? pinning_on(host) : "none";
  context["busy_times"] = keeps_busy_times() ? "kept" : "refused";
  context["gpu"] = gpu_models(gpus);
  context["gpus"] = gpus ? json(*gpus) : json(nullptr);
  context["gpus_reason"] = gpus ? json(nullptr) : json(gpus.why_not());
  context["command_line"] = command_line();
  context["weights"] = options.weights.empty() ? json(nullptr) : json(options.weights);
  context["data"] = options.data.empty() ? json(nullptr) : json(options.data);
  context["seed"] = plan.seed;
  context["window_rule"] = plan.window_rule;
  if (plan.device == "cpu") {
    context["peak_memory_reason"] = "the CPU reserves no memory ahead of use";
  }
  context["topologies"] = topologies_of(plan);
  context["links"] = json::object();
  context["start_time"] = utc_timestamp();
  context["end_time"] = nullptr;
  return context;
}

}  // namespace gradsync::session
