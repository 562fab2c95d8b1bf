// What NCCL Inspector, NCCL's own profiler plugin, wrote of a process: an object of JSON for each
// collective of each communicator, with its bytes and how long its kernels ran.
//
// There are no forwards, backwards or optimizers in it, and the job's ranks are those of
// communicators, so that nothing can be judged: what was communicated is told.
// Source: ext-profiler/inspector/README.md of NCCL, output format v4.0.
#pragma once

#include <string>
#include <string_view>

#include "harness/watch/read/event.h"

namespace gradsync::watch {

inline constexpr const char* kInspectorKind = "a file of NCCL Inspector's";

// Returns whether `text` begins as such a file does.
bool is_inspector_file(std::string_view text);

// Returns the events of the process that wrote `text`, the content of the file named `name`. Its
// rank is that in its largest communicator. An object that a dying process left unfinished is a
// fault, not an error.
// Errors: ConfigError with name, field, got and expected.
RankEvents parse_inspector_file(std::string_view text, const std::string& name);

}  // namespace gradsync::watch
