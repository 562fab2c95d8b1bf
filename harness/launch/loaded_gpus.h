// What holds GPUs down while they work. Clocks that are read before a run are those of an idle
// GPU, which nothing throttles: power and heat show only under load. So the driver is asked again
// whenever a trial has ended, when the ranks have begun with the next or are still warm.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/launch/gpus.h"
#include "harness/launch/host.h"

namespace gradsync::launch {

struct LoadedGpu {
  unsigned index = 0;
  std::optional<std::string> uuid;
  int readings = 0;
  std::optional<std::int64_t> least_sm_clock_hz;
  std::map<std::string, int> throttled;  // reason -> in how many readings
};

void to_json(nlohmann::json& out, const LoadedGpu& gpu);

// Adds a reading of each GPU to what was read before. Pure.
void add_readings(std::vector<LoadedGpu>& loaded, const std::vector<GpuInfo>& now);

// Returns one finding for each GPU that was held down in any reading. Pure.
std::vector<Finding> examine_loaded(const std::vector<LoadedGpu>& loaded);

}  // namespace gradsync::launch
