// Names of the fields of a plan file, for the parser and for what may follow --set.
#pragma once

#include <array>

namespace gradsync::plan {

// Fields that a plan and each of its parts may have; a part's own value wins.
inline constexpr std::array kSharedFields = {"steps",          "total_steps", "warmup_steps",
                                             "distance_steps", "rounds",      "launches"};

// Fields that only the plan has.
inline constexpr std::array kPlanFields = {"name",
                                           "about",
                                           "parts",
                                           "seed",
                                           "device",
                                           "backend",
                                           "window_rule",
                                           "timeout_s",
                                           "threads_per_rank",
                                           "fold_from_bytes",
                                           "gloo_loop"};

}  // namespace gradsync::plan
