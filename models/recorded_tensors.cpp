#include "models/recorded_tensors.h"

#include <algorithm>

namespace gradsync::models {
namespace {

struct Unnamed {};

// Returns whether every tensor is there that `pass` frees or, where `makes_gradients`, hands on.
bool plays(const MemoryProfile& profile, const std::vector<PassEvent>& pass, bool makes_gradients,
           RecordedTensors<Unnamed>& tensors) {
  const auto plays_change = [&](const BlockChange& change) {
    if (change.is_made) tensors.add(change.bytes, {});
    return change.is_made || tensors.take(change.bytes, change.age);
  };
  return std::ranges::all_of(pass, [&](const PassEvent& event) {
    if (event.kind == PassEvent::Kind::Hold) {
      return std::ranges::all_of(profile.changes[event.index], plays_change);
    }
    const bool hands_on =
        makes_gradients && event.kind == PassEvent::Kind::Gradient && event.net > 0;
    return !hands_on || tensors.take(event.net, event.age);
  });
}

}  // namespace

bool frees_what_it_makes(const MemoryProfile& profile) {
  const auto is_whole = [&](const std::vector<PassEvent>& backward, bool makes_gradients) {
    RecordedTensors<Unnamed> tensors;
    return plays(profile, profile.forward, false, tensors) &&
           plays(profile, backward, makes_gradients, tensors) && tensors.empty();
  };
  return is_whole(profile.backward_first, true) && is_whole(profile.backward_later, false);
}

}  // namespace gradsync::models
