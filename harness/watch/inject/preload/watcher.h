// What the parts of the watcher share. No torch.
#pragma once

#include "harness/watch/inject/preload/recorder.h"

namespace gradsync::watch {

// Of this process's events.
extern constinit Recorder recorder;

}  // namespace gradsync::watch
