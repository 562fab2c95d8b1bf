// Threads that finish what others began, and let go of its memory a moment later: gloo's, which
// hold a collective's tensors until they look for their next work.
//
// Who asks what a process holds waits until they rest, so that the answer does not depend on when
// the kernel let them run. No torch.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>

namespace gradsync::watch {

class HelpingThreads {
 public:
  // The calling thread is one from now on; also where it is one already. Those after the 16th are
  // not waited for.
  void add_this();

  // Waits until none of them runs or is about to: they sleep, until there is more work or a peer
  // answers. Not longer than 0.2 s at once and some 2 s in all, so that a job whose threads never
  // rest runs as it would without us; and not at all on one of them.   Cost: 10 us for each.
  void wait_until_resting();

 private:
  static constexpr std::size_t kMost = 16;
  std::array<std::atomic<pid_t>, kMost> threads_{};
  std::atomic<std::size_t> count_{0};
  std::atomic<int> looks_left_{40'000};  // of at least 50 us each
};

// Returns those of this process.
HelpingThreads& helping_threads();

}  // namespace gradsync::watch
