// Which calls of NCCL's are part of which CUDA graph. No CUDA: handles are addresses here.
//
// A call on a stream that is being captured does not run. It becomes part of the graph in which the
// capture ends; executables are made of that, and each launch of one runs the call once more. Not
// followed: graphs that become part of another one, and executables that are updated.
#pragma once

#include <pthread.h>

#include <atomic>

#include "harness/watch/inject/preload/nccl_calls.h"

namespace gradsync::watch {

// Any thread. Constant-initialized and never destroyed.
class CapturedCalls {
 public:
  // A capture begins on `stream`; it ends there, in `graph`, or in none (null) where it fails.
  void begin(const void* stream) noexcept;
  void end(const void* stream, const void* graph) noexcept;

  bool is_under_way() const noexcept { return captures_ > 0; }

  // Keeps a call made on `stream`, which takes part in a capture. Returns false where that is not
  // known: several are under way, and none began on `stream`; or where there is no memory.
  bool add(const void* stream, const NcclCall& call) noexcept;

  void instantiate(const void* graph, const void* executable) noexcept;

  // The handles may come again, and be others.
  void forget_graph(const void* graph) noexcept;
  void forget_executable(const void* executable) noexcept;

  // Calls `act` with every call of the executable, in the order in which they were captured.
  void for_each(const void* executable, void (*act)(const NcclCall&)) noexcept;

 private:
  enum class Kind { Capture, Graph, Executable };
  struct Call;
  struct Holder;

  Holder** find(Kind kind, const void* handle) noexcept;
  Holder* only_capture() const noexcept;
  Holder* hold(Kind kind, const void* handle) noexcept;
  void drop(Kind kind, const void* handle) noexcept;

  Holder* holders_ = nullptr;
  std::atomic<int> captures_{0};
  std::atomic<int> executables_{0};  // with calls
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
};

}  // namespace gradsync::watch
