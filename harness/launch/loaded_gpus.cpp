#include "harness/launch/loaded_gpus.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "harness/base/fields.h"

namespace gradsync::launch {

GRADSYNC_FIELDS_OF(LoadedGpu, index, uuid, readings, least_sm_clock_hz, throttled)

void to_json(nlohmann::json& out, const LoadedGpu& gpu) {
  out = write_fields(gpu);
}

void add_readings(std::vector<LoadedGpu>& loaded, const std::vector<GpuInfo>& now) {
  for (const GpuInfo& gpu : now) {
    auto known = std::ranges::find(loaded, gpu.index, &LoadedGpu::index);
    if (known == loaded.end()) {
      known = loaded.emplace(known);
      known->index = gpu.index;
      known->uuid = gpu.uuid;
    }
    ++known->readings;
    if (gpu.sm_clock_hz) {
      known->least_sm_clock_hz =
          std::min(known->least_sm_clock_hz.value_or(*gpu.sm_clock_hz), *gpu.sm_clock_hz);
    }
    for (const std::string& reason : gpu.throttle_reasons.value_or(std::vector<std::string>{})) {
      ++known->throttled[reason];
    }
  }
}

std::vector<Finding> examine_loaded(const std::vector<LoadedGpu>& loaded) {
  std::vector<Finding> findings;
  for (const LoadedGpu& gpu : loaded) {
    if (gpu.throttled.empty()) continue;
    std::vector<std::string> texts;
    for (const auto& [reason, count] : gpu.throttled) {
      texts.push_back(fmt::format("{} in {} of {} readings", reason, count, gpu.readings));
    }
    findings.push_back({Finding::Severity::Warn,
                        fmt::format("GPU {} ran below its clocks under load: {}", gpu.index,
                                    fmt::join(texts, ", ")),
                        "see to its cooling and power limit (nvidia-smi -q -d PERFORMANCE,POWER)"});
  }
  return findings;
}

}  // namespace gradsync::launch
