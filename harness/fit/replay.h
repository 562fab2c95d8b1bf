// The same allocations under other settings of torch's caching allocator: replayed through the
// allocator itself, without the job.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harness/fit/libraries.h"
#include "harness/fit/read_allocations.h"

namespace gradsync::fit {

// Returns the values of the variable that are tried; "": torch's defaults. Source: torch's notes on
// CUDA, "Optimizing memory usage".
const std::vector<std::string_view>& settings();

// Returns the variable that this torch reads them from. Torch 2.9 was the first to know the shorter
// name.
std::string settings_variable(const watch::JobTorch& torch);

struct Replayed {
  std::int64_t peak_allocated_bytes = 0;
  std::int64_t peak_reserved_bytes = 0;
  bool is_out_of_memory = false;
};

// Replays what one process asked of a device. `paper`: the variables that give the replay the GPUs
// of the job; `setting`: "VARIABLE=value", or "" for torch's defaults. Without workspaces: as if
// cuDNN's convolutions took none.
// Errors: EnvironmentError where the replay cannot run.
Replayed replay(const Libraries& libraries, const Allocations& allocations, int device,
                const std::vector<std::string>& paper, const std::string& setting,
                bool without_workspaces = false);

}  // namespace gradsync::fit
