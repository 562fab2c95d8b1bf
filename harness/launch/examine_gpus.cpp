#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/base/units.h"
#include "harness/launch/gpus.h"

namespace gradsync::launch {

namespace {

using Severity = Finding::Severity;

std::string gpu_name(const GpuInfo& gpu) {
  return fmt::format("GPU {} ({})", gpu.index, gpu.name.value_or("unknown"));
}

// "process 17 (1.5 GiB)".
std::string process_text(const GpuProcess& process) {
  const std::string memory =
      process.memory_bytes
          ? fmt::format(" ({})", format_bytes(static_cast<double>(*process.memory_bytes)))
          : "";
  return fmt::format("process {}{}", process.pid, memory);
}

// Where a GPU is divided (MIG), CUDA shows its instances, a process one of them.
void examine_instances(const GpuInfo& gpu, std::vector<Finding>& findings) {
  if (!gpu.mig_instances) return;
  constexpr const char* kUndivided = "for the whole GPU, as root: nvidia-smi -mig 0";
  if (gpu.mig_instances->empty()) {
    findings.push_back({Severity::Fail,
                        gpu_name(gpu) + " is in MIG mode and has no instance: CUDA does not see it",
                        kUndivided});
    return;
  }
  findings.push_back(
      {Severity::Warn,
       fmt::format("{} is divided into {} MIG instance{}, of which a process sees one",
                   gpu_name(gpu), gpu.mig_instances->size(),
                   gpu.mig_instances->size() == 1 ? "" : "s"),
       fmt::format("start each rank with an instance of its own in CUDA_VISIBLE_DEVICES, under "
                   "torchrun or srun, with NCCL 2.30 or later; {}",
                   kUndivided)});
}

void examine_gpu(const GpuInfo& gpu, std::vector<Finding>& findings) {
  const std::size_t before = findings.size();
  const std::string name = gpu_name(gpu);
  if (gpu.processes && !gpu.processes->empty()) {
    std::vector<std::string> texts;
    for (const GpuProcess& process : *gpu.processes) texts.push_back(process_text(process));
    findings.push_back(
        {Severity::Warn, fmt::format("{} is busy: {}", name, fmt::join(texts, ", ")),
         "end what computes there, or choose another GPU with CUDA_VISIBLE_DEVICES"});
  }
  if (gpu.compute_mode == "prohibited") {
    findings.push_back({Severity::Fail, fmt::format("{} forbids all processes to compute", name),
                        "as root: nvidia-smi -c DEFAULT"});
  }
  examine_instances(gpu, findings);
  if (gpu.throttle_reasons && !gpu.throttle_reasons->empty()) {
    findings.push_back(
        {Severity::Warn,
         fmt::format("{} runs below its clocks: {}", name, fmt::join(*gpu.throttle_reasons, ", ")),
         "see to its cooling and power limit (nvidia-smi -q -d PERFORMANCE,POWER)"});
  }
  if (findings.size() == before) findings.push_back({Severity::Ok, name + " is idle", ""});
}

}  // namespace

std::vector<Finding> examine_gpus(const Known<std::vector<GpuInfo>>& gpus) {
  std::vector<Finding> findings;
  if (gpus) {
    for (const GpuInfo& gpu : *gpus) examine_gpu(gpu, findings);
  }
  if (findings.empty()) {
    const std::string reason = gpus ? "the driver lists none" : gpus.why_not();
    findings.push_back({Severity::Ok, fmt::format("no GPU, --device cpu only ({})", reason), ""});
  }
  return findings;
}

}  // namespace gradsync::launch
