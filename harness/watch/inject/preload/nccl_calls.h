// What NCCL is called for in this process, and the file that says so: DIRECTORY/nccl-PID.events, in
// the format of event_file.h, made at the first call; and how a function of the preloaded library
// goes on to the one that it stands before. No torch, no C++ library.
#pragma once

#include <cstdint>
#include <string_view>

#include "harness/watch/inject/preload/nccl_abi.h"
#include "harness/watch/inject/preload/next_definition.h"

namespace gradsync::watch {

// One call of a collective, or of a send or a receive.
struct NcclCall {
  std::string_view name;    // as in event.h; lives as long as the process
  std::int64_t bytes = -1;  // as the sync ledger counts them; -1: not known
  std::int64_t object = 0;  // tells communicators of this process apart that live at once
};

// Records a call that is made now, with its detail, one of event_file.h. Any thread. Nothing
// happens in a process that is not watched.
void record_nccl_call(const NcclCall& call, std::string_view detail) noexcept;

// The process is this rank of a communicator of `ranks`. The largest communicator counts.
void set_nccl_place(int rank, int ranks) noexcept;

// Keeps the first of all sentences.
void record_nccl_fault(const char* sentence) noexcept;

// The same of a function that was called although no library has it. Without the preloaded library
// the dynamic linker would have ended the process.
void record_undefined(const char* function) noexcept;

// Whether GRADSYNC_WATCH_DIR names a folder.
bool nccl_is_watched() noexcept;

// Calls the definition that `caller` would have been bound to, and returns its result; `undefined`,
// with a fault in the file, where no library that is loaded has one.
template <auto undefined, typename... Arguments>
decltype(undefined) call_on(NextDefinition& next, const void* caller, Arguments... arguments) {
  using Function = decltype(undefined) (*)(Arguments...);
  const auto function = reinterpret_cast<Function>(next.find(caller));
  if (function != nullptr) return function(arguments...);
  record_undefined(next.name());
  return undefined;
}

// Returns whether a call on `stream` is captured into a CUDA graph. Then it is kept, and recorded
// whenever the graph is launched.   Cost: of an atomic read while nothing is captured.
bool capture(const NcclCall& call, cudaStream_t stream) noexcept;

}  // namespace gradsync::watch
