// What the parts of the watcher share. No torch.
#pragma once

#include "harness/watch/inject/preload/recorder.h"

namespace gradsync::watch {

// The recorder of this process's events.
extern constinit Recorder recorder;

// Looks whether tensors are still counted: the job may have put an allocator of its own before the
// one that counts. Call where an optimizer steps, on the thread that steps it.
void check_tensor_count() noexcept;

}  // namespace gradsync::watch
