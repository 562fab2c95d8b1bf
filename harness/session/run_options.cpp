#include "harness/session/run_options.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/base/errors.h"
#include "harness/launch/gpus.h"
#include "harness/launch/topology.h"
#include "harness/session/paths.h"
#include "harness/session/rank_program.h"

namespace gradsync::session {
namespace {

// A name that only the program can judge, as the plan reader would have said it.
template <typename Look>
void check_name(const plan::Plan& plan, const std::string& field, Look look) {
  try {
    look();
  } catch (const ConfigError& error) {
    throw ConfigError(fmt::format("{}: field 'cells.{}': {}", plan.file, field, error.what()));
  }
}

// What an index needs at most: a router's two choices for a token, 8 bytes each.
constexpr std::int64_t kIndexBytesPerToken = 16;

void check_folding(const plan::Plan& plan, const plan::Cell& cell) {
  const std::int64_t tokens = std::int64_t{cell.micro_batch_size} * cell.sequence_length;
  if (plan.fold_from_bytes > tokens * kIndexBytesPerToken) return;
  throw ConfigError(plan.file, "fold_from_bytes", std::to_string(plan.fold_from_bytes),
                    fmt::format("more than {}: the indices of {} tokens must not be garbage",
                                tokens * kIndexBytesPerToken, tokens));
}

void check_mixtrals_options(const plan::Plan& plan, const plan::Cell& cell) {
  const bool has_them = find_model(cell.model).has_mixtrals_options;
  if (cell.dtype != plan::Cell{}.dtype && !has_them) {
    throw ConfigError(plan.file, "cells.dtype",
                      fmt::format("\"{}\" for model '{}'", cell.dtype, cell.model),
                      "\"float32\": only a Mixtral has others");
  }
  if (cell.balanced_routing && !has_them) {
    throw ConfigError(plan.file, "cells.balanced_routing",
                      fmt::format("true for model '{}'", cell.model),
                      "false: only a Mixtral has a router");
  }
  if (plan.fold_from_bytes == 0) return;
  if (!has_them) {
    throw ConfigError(plan.file, "fold_from_bytes",
                      fmt::format("{} for model '{}'", plan.fold_from_bytes, cell.model),
                      "0: only a Mixtral can do without values");
  }
  check_folding(plan, cell);
}

void check_cell(const plan::Plan& plan, const plan::Cell& cell) {
  check_name(plan, "model", [&] {
    const auto model = find_model(cell.model);
    if (cell.scale > 1 && model.compute != models::Compute::Paced) {
      throw ConfigError(fmt::format("got '{}' with scale {}, expected a paced model or scale 1",
                                    cell.model, cell.scale));
    }
  });
  check_mixtrals_options(plan, cell);
  check_name(plan, "topology",
             [&] { launch::read_topology(cell.topology, topologies_directory(), cell.scale); });
  if (cell.hybrid_shard && plan.backend == "nccl") {
    throw ConfigError(plan.file, "cells.hybrid_shard", "true with backend " + plan.backend,
                      "backend gloo: a rank has one NCCL group");
  }
}

constexpr const char* kCudaDriver = "libcuda.so.1";

bool has_cuda_driver() {
  void* driver = ::dlopen(kCudaDriver, RTLD_LAZY | RTLD_LOCAL);
  if (driver != nullptr) ::dlclose(driver);
  return driver != nullptr;
}

// As published, a run starts cold: its first two steps cannot be checked, so there must be more.
void check_steps(const plan::Plan& plan, const plan::Part& part) {
  constexpr int kFewest = 3;
  if (plan.window_rule != "as_published") return;
  if (part.steps < kFewest) {
    throw ConfigError(plan.file, "steps", std::to_string(part.steps),
                      fmt::format("at least {} where window_rule is \"as_published\"", kFewest));
  }
}

}  // namespace

void check_directory_flags(const RunOptions& options) {
  if ((!options.resume && !options.force) || !options.out.empty()) return;
  throw ConfigError(fmt::format("{} needs --out DIR: the directory of the earlier run",
                                options.resume ? "--resume" : "--force"));
}

plan::Plan checked_plan(const RunOptions& options) {
  const std::string file = plan::resolve_plan(options.plan, plans_directory());
  plan::Plan plan = plan::read_plan(file, options.overrides);
  if (plan.fold_from_bytes > 0 && !options.weights.empty()) {
    throw ConfigError(plan.file, "fold_from_bytes",
                      fmt::format("{} with --weights", plan.fold_from_bytes),
                      "0, or no --weights: folded tensors hold garbage");
  }
  for (const plan::Part& part : plan.parts) {
    check_steps(plan, part);
    for (const plan::Cell& cell : part.cells) check_cell(plan, cell);
  }
  return plan;
}

std::vector<std::string> plan_arguments(const RunOptions& options) {
  std::vector<std::string> arguments{plan::resolve_plan(options.plan, plans_directory())};
  const auto add = [&](const char* option, const std::string& value) {
    arguments.emplace_back(option);
    arguments.push_back(value);
  };
  for (const std::string& text : options.overrides) add("--set", text);
  if (!options.weights.empty()) add("--weights", options.weights);
  if (!options.data.empty()) add("--data", options.data);
  return arguments;
}

void require_device(const plan::Plan& plan) {
  if (plan.device == "cpu") return;
  constexpr const char* kWithout = "use --device cpu --backend gloo";
  if (!about_ranks().has_gpu_module) {
    throw EnvironmentError(
        "--device cuda: this build has no CUDA",
        fmt::format("build where nvcc, NCCL's header and a torch with CUDA are found, or {}",
                    kWithout));
  }
  // The driver's other library may be missing in a container that only computes; then the ranks
  // find out.
  const nlohmann::json probe = launch::probe_gpus();
  if (probe.at("gpus").is_array() && probe.at("gpus").empty()) {
    throw EnvironmentError("--device cuda: the NVIDIA driver lists no GPU",
                           fmt::format("run where there is one, or {}", kWithout));
  }
  if (probe.at("gpus").is_null() && !has_cuda_driver()) {
    throw EnvironmentError(
        fmt::format("--device cuda: no NVIDIA driver is here: {} cannot be loaded", kCudaDriver),
        fmt::format("install the driver, start the container with its GPUs, or {}", kWithout));
  }
}

}  // namespace gradsync::session
