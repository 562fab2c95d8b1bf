// What PyTorch's Flight Recorder dumped of a rank: the last collectives of a ring, with the stack
// of the job that called each.
//
// Dumps are pickles (of torch._C._distributed_c10d._dump_nccl_trace(), and files named by
// TORCH_FR_DUMP_TEMP_FILE, NAME followed by the rank), which pickle.h reads without running
// anything, or JSON, which has no stacks. Neither has forwards, backwards or optimizers, so that
// nothing can be judged: what was communicated, and from which lines, is told.
// Source: torch/csrc/distributed/c10d/FlightRecorderDetail.hpp.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "harness/watch/read/event.h"

namespace gradsync::watch {

inline constexpr const char* kFlightRecorderKind = "a dump of Flight Recorder's";

// Returns whether `value` is the content of such a dump.
bool is_flight_record(const nlohmann::json& value);

// Returns the rank of which the dump at `path` has the content `dump`; the rank is the number at
// the end of the name, before an extension.
// Errors: ConfigError with path, field, got and expected.
RankEvents events_of_dump(const nlohmann::json& dump, const std::string& path);

}  // namespace gradsync::watch
