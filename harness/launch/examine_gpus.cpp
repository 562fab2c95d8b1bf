#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/base/units.h"
#include "harness/launch/gpus.h"

namespace gradsync::launch {

using nlohmann::json;

namespace {

using Severity = Finding::Severity;

std::string gpu_name(const json& gpu) {
  const json& name = gpu.at("name");
  return fmt::format("GPU {} ({})", gpu.at("index").get<int>(),
                     name.is_string() ? name.get<std::string>() : "unknown");
}

// "process 17 (1.5 GiB)".
std::string process_text(const json& process) {
  const json& bytes = process.at("memory_bytes");
  return fmt::format(
      "process {}{}", process.at("pid").get<unsigned>(),
      bytes.is_number() ? fmt::format(" ({})", format_bytes(bytes.get<double>())) : "");
}

void examine_gpu(const json& gpu, std::vector<Finding>& findings) {
  const std::size_t before = findings.size();
  const std::string name = gpu_name(gpu);
  if (const json& processes = gpu.at("processes"); processes.is_array() && !processes.empty()) {
    std::vector<std::string> texts;
    for (const json& process : processes) texts.push_back(process_text(process));
    findings.push_back(
        {Severity::Warn, fmt::format("{} is busy: {}", name, fmt::join(texts, ", ")),
         "end what computes there, or choose another GPU with CUDA_VISIBLE_DEVICES"});
  }
  if (gpu.at("compute_mode") == "prohibited") {
    findings.push_back({Severity::Fail, fmt::format("{} lets nobody compute", name),
                        "as root: nvidia-smi -c DEFAULT"});
  }
  if (const json& reasons = gpu.at("throttle_reasons"); reasons.is_array() && !reasons.empty()) {
    findings.push_back({Severity::Warn,
                        fmt::format("{} runs below its clocks: {}", name,
                                    fmt::join(reasons.get<std::vector<std::string>>(), ", ")),
                        "see to its cooling and power limit (nvidia-smi -q -d PERFORMANCE,POWER)"});
  }
  if (findings.size() == before) findings.push_back({Severity::Ok, name + " is idle", ""});
}

}  // namespace

std::vector<Finding> examine_gpus(const json& probe) {
  std::vector<Finding> findings;
  const json& gpus = probe.at("gpus");
  if (gpus.is_array()) {
    for (const json& gpu : gpus) examine_gpu(gpu, findings);
  }
  if (findings.empty()) {
    const json& reason = probe.at("reason");
    findings.push_back(
        {Severity::Ok,
         fmt::format("no GPU, --device cpu only ({})",
                     reason.is_string() ? reason.get<std::string>() : "the driver lists none"),
         ""});
  }
  return findings;
}

}  // namespace gradsync::launch
