// Whether a GPU's clock is fine enough for paced layers, which end at moments of it.
//
// %globaltimer steps by about a microsecond on most GPUs, by a millisecond on some, and where a
// profiler has set it so. A layer that ends late by up to a step looks slower than it is.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <optional>

#include "harness/base/errors.h"

namespace gradsync::comm::cuda {

// Layers take from a tenth of a millisecond on: this is a tenth of that. Larger: paced steps come
// out longer than the profile says.
inline constexpr std::uint64_t kCoarsestStepNs = 10'000;

// Returns why layers cannot be paced by a clock that steps by `step_ns`; nothing where they can.
// Pure.
inline std::optional<EnvironmentError> clock_obstacle(std::uint64_t step_ns) {
  if (step_ns <= kCoarsestStepNs) return std::nullopt;
  return EnvironmentError(
      fmt::format("the GPU's clock (%globaltimer) steps by {:.0f} us or more, too coarse to pace "
                  "layers by",
                  static_cast<double>(step_ns) / 1e3),
      "end profilers that use this GPU, take another GPU, or pace on the CPU: --device cpu "
      "--backend gloo");
}

}  // namespace gradsync::comm::cuda
