// Gradients that are reduced and then cleared before anything reads them: of a model that another
// one's backward runs through, as a discriminator in the step of its generator.
#pragma once

#include <optional>

#include "harness/watch/judge/wastes/wastes.h"
#include "harness/watch/read/event.h"

namespace gradsync::watch {

// Returns it of the model that has most of them, in two steps or more; nothing where there is none,
// or the hook was not told of which models optimizers and clearings are.
std::optional<Waste> unread_gradients(const Examined& rank);

}  // namespace gradsync::watch
