// Paced layers on a GPU: they occupy its stream for as long as they would compute.
#pragma once

#include <memory>

#include "models/pace.h"

namespace gradsync::comm::cuda {

// Returns the pace of GPU `index`. Stretches and waits go to the calling thread's current stream of
// that GPU. A stretch that follows another starts when the queue comes to it: the host is ahead, so
// that is when the one before has ended, unless the host was late.
std::shared_ptr<const models::Pace> device_pace(int index);

}  // namespace gradsync::comm::cuda
