// Which tensors a paced model makes and frees to hold what the recorded model held: a profile's
// memory, layer by layer.
//
// The recording has how far memory rose between two marks and where it then stood, not each tensor.
// So the held memory is a stack of tensors, and memory that was freed is taken from its top: a
// tensor that is freed in part is replaced by a smaller one. Every high and every end is the
// recorded one.
//
//   forward of a layer    from the beginning of its first module to that of the next layer's
//   backward of a layer   to its last gradient; its gradients become the parameters' at its end
//
// Memory after the last gradient of all belongs to the first layer.   No torch, pure.
#pragma once

#include <vector>

#include "models/footprint.h"
#include "models/profile.h"

namespace gradsync::models {

struct LayerReplay {
  MemoryScript forward;
  MemoryScript backward;  // up to its gradients, which are made next
};

// Returns one for each layer of `profile`; none where there is nothing to replay: it recorded no
// memory, or that of another dtype than a paced model's, or is scaled, as its memory is not.
// Every script frees last what was held last. After all of them nothing is held.
std::vector<LayerReplay> replay_of(const Profile& profile, int scale);

}  // namespace gradsync::models
