// What an event of a trace says of a GPU: work that it ran, or the call of the host that launched
// such work. Both have the same "correlation".
//
// A kernel is NCCL's by its name alone, which it has in every version of NCCL and of RCCL. Which
// collective it is, its name does not tell: before NCCL 2.19 one kernel ran what has none of its
// own, and was called after whichever it was made for ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t"
// runs all-reduces, too); RCCL's is "ncclDevKernel_Generic".
//
// Source: Kineto's output_json.cpp.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>

#include "harness/watch/read/foreign/trace_file.h"

namespace gradsync::watch {

// Returns whether events of this category are work of a GPU.
bool is_work(std::string_view category);

// Returns the work that `event` of such a category tells; its name is a view of the event's.
// Where a field is absent or of another type, it is not known.
TracedWork work_of(std::string_view category, const nlohmann::json& event);

// Returns the launch that another event tells; nothing where it tells none.
std::optional<TracedLaunch> launch_of(std::string_view category, const nlohmann::json& event);

// Returns whether a graph was launched that ran a kernel of NCCL's, or of which the file does not
// tell what it ran.
bool graphs_may_communicate(const TraceFile& trace);

}  // namespace gradsync::watch
