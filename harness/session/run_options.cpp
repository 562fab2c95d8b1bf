#include "harness/session/run_options.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "harness/base/errors.h"
#include "harness/launch/gpus.h"
#include "harness/paper/standins.h"
#include "harness/session/paths.h"
#include "harness/session/rank_program.h"
#include "harness/session/validate_plan.h"

namespace gradsync::session {
namespace {

constexpr const char* kCudaDriver = "libcuda.so.1";

bool has_cuda_driver() {
  void* driver = ::dlopen(kCudaDriver, RTLD_LAZY | RTLD_LOCAL);
  if (driver != nullptr) ::dlclose(driver);
  return driver != nullptr;
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
  validate_plan(plan, {.has_weights = !options.weights.empty(),
                       .takes_turns = options.takes_turns,
                       .launcher = options.started_by});
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
        fmt::format("--device {}: this build has no CUDA", plan.device),
        fmt::format("build where nvcc, NCCL's header and a torch with CUDA are found, or {}",
                    kWithout));
  }
  if (plan.device == "paper") {
    if (!plan.on.empty()) paper::require_gpus(plan.on);
    return;
  }
  if (paper::are_given()) {
    throw ConfigError("--device cuda: the GPUs that are here are of paper: use --device paper");
  }
  // The driver's other library may be missing in a container that only computes; then the ranks
  // find out.
  const auto gpus = launch::probe_gpus();
  if (gpus && gpus->empty()) {
    throw EnvironmentError::seen_by_doctor("--device cuda: the NVIDIA driver lists no GPU",
                                           fmt::format("run where there is one, or {}", kWithout));
  }
  if (!gpus && !has_cuda_driver()) {
    throw EnvironmentError::seen_by_doctor(
        fmt::format("--device cuda: no NVIDIA driver is here: {} cannot be loaded", kCudaDriver),
        fmt::format("install the driver, start the container with its GPUs, or {}", kWithout));
  }
}

}  // namespace gradsync::session
