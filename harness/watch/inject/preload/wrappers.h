// The known wrappers, a row each: verdicts read what a row says and compare no names. Compiled into
// the job as well: it needs nothing of the rest.
//
// Another wrapper is a row here, one of WRAPPERS in hook/gradsync_watch_models.py, and a job of its
// own among tests/harness/watch/jobs/.
#pragma once

#include <string_view>

namespace gradsync::watch {

inline constexpr const char* kDdp = "DistributedDataParallel";
inline constexpr const char* kFullyShard = "fully_shard";
inline constexpr const char* kReplicate = "replicate";  // that is made of fully_shard

enum class FlagRead { InForward, InBackward };  // when it is decided whether backward synchronizes

struct Wrapper {
  std::string_view name;   // of its Forwards
  std::string_view range;  // torch's own around its forward; "": none of its own
  FlagRead flag_read = FlagRead::InForward;
  bool is_sharded = false;  // each rank has its share of the gradients; else all have the whole
  // Gradients that are not synchronized are kept from the optimizer until a later micro-batch is.
  bool keeps_back = false;
  bool is_told_by_flag = false;           // by set_requires_gradient_sync(); else by no_sync()
  bool reduces_replicas_at_once = false;  // behind each reduce-scatter: they cannot be deferred
  // How to defer synchronization to the last micro-batch of a step.
  std::string_view deferral =
      "run every micro-batch of a step except the last, forward and backward, under the model's "
      "no_sync()";
};

inline constexpr std::string_view kDeferralByFlag =
    "call set_requires_gradient_sync(False) on the model in every micro-batch of a step except the "
    "last";

inline constexpr Wrapper kWrappers[] = {
    {.name = kDdp, .range = "DistributedDataParallel.forward"},
    {.name = "FullyShardedDataParallel",
     .range = "FullyShardedDataParallel.forward",
     .flag_read = FlagRead::InBackward,
     .is_sharded = true,
     .reduces_replicas_at_once = true},
    {.name = kFullyShard,
     .range = "FSDP::root_pre_forward",  // it ends before the forward itself
     .flag_read = FlagRead::InBackward,
     .is_sharded = true,
     .keeps_back = true,
     .is_told_by_flag = true,
     .deferral = kDeferralByFlag},
    {.name = kReplicate,
     .range = "",
     .flag_read = FlagRead::InBackward,
     .keeps_back = true,
     .is_told_by_flag = true,
     .deferral = kDeferralByFlag},
    {.name = "replicate over DDP",
     .range = "",
     .is_told_by_flag = true,
     .deferral = kDeferralByFlag},
};

// Returns the row of a wrapper; one without a name where there is none.
constexpr Wrapper wrapper_named(std::string_view name) {
  for (const Wrapper& wrapper : kWrappers) {
    if (wrapper.name == name) return wrapper;
  }
  return {};
}

// Returns the wrapper whose forward a range of torch's is; "" where it is none's.
constexpr std::string_view wrapper_of_range(std::string_view range) {
  for (const Wrapper& wrapper : kWrappers) {
    if (!range.empty() && wrapper.range == range) return wrapper.name;
  }
  return "";
}

}  // namespace gradsync::watch
