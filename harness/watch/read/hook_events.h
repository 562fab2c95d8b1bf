// What the Python hook saw of a training job: its file of JSON lines, and how it joins what the
// native library saw of the same process.
//
// The library counts what torch runs; the hook alone knows which model that was, whether a no_sync
// was open, and the line of the job that called. A file begins with
//
//   {"kind": "start", "schema": "gradsync.watch_hook/1", "pid": 4711, "python": "3.11.2"}
//
// and goes on with one event per line, in fields named as in event.h ("kind": "forward",
// "no_sync_enter", ...), and with
//
//   {"kind": "rank", "rank": 0, "world_size": 2}      as soon as the process has a group
//   {"kind": "group", "name": "3", "ranks": [0, 2],    of a process group of torch's, once or more
//    "axis": "dp_replicate", "role": "replicate",      often; "axis" from the mesh, and of the
//    "replicas": ""}                                   groups of a wrapper its role
//   {"kind": "held_gradients", "object": 2,           of a sharded model, as HeldGradients
//    "shard_bytes": 8, "reduced_bytes": 8,
//    "whole_bytes": 16, "gathered_bytes": 0}
//   {"kind": "gpu_peak", "bytes": 4096,               at its end, of a process that used a GPU; -1
//    "reserved_bytes": 8192}                          and a "sentence" where it is not known
//   {"kind": "parameters", ...}                       and more on these, as tracked_parameters.h
//   {"kind": "fault", "sentence": "..."}              what the hook could not see
//   {"kind": "full", "sentence": "..."}               the last line of a file that grew too large
#pragma once

#include <string>
#include <string_view>

#include "harness/watch/read/event.h"

namespace gradsync::watch {

inline constexpr const char* kHookSchema = "gradsync.watch_hook/1";
inline constexpr const char* kHookFilePrefix = "hook-";  // then the process id
inline constexpr const char* kHookFileSuffix = ".jsonl";

// Returns what `text`, the content of a hook's file named `name`, says. A last line that a dying
// process left unfinished is a fault, not an error.
// Errors: ConfigError with name and line for a line that is no event, or a newer schema.
RankEvents parse_hook_events(std::string_view text, const std::string& name);

// The same of the file at `path`.   Errors: also ConfigError where it cannot be read.
RankEvents read_hook_events(const std::string& path);

// Adds to `native` what the hook saw of the same process. A forward or an optimizer step that both
// saw is one event, from when either saw it begin until neither saw it run, with the hook's name,
// object, place and detail; so are its bytes, which are a GPU's. A backward takes the hook's times:
// they end when the job goes on, the library's with autograd's last node. Rank and world size are
// those of whichever side knows the larger group.
void merge(RankEvents& native, const RankEvents& hook);

// Reads the hooks' files in `directory` and merges each into the process of `ranks` with its
// process id, or adds it. A file that cannot be used is a fault of its process.
void add_hook_events(const std::string& directory, std::vector<RankEvents>& ranks);

}  // namespace gradsync::watch
