// Which forwards, backwards and optimizer steps cut a process's events into steps, where they run
// within each other.
//
//   F[ F ]                a unit or a wrapper within a wrapper: the outer forward cuts
//   F  B[ F ]             recomputed by checkpointing: nothing of it cuts
//   B[ F B  F B ]         no forward waits for this backward, and a hook within it runs forwards
//   and
//                         backwards of its own, as cached losses do: these replays cut in its place
//   F  B[ F B ]           both: it is not known how often each model synchronizes
//   F[ B S ]  B           an optimizer within a forward that has a backward of its own, as of a
//                         codebook: it ends no step of that model, and its backward and what it
//                         clears are none of it
//   F[ B S ]              the same without one, as trainers that run a whole step within forward
//   B[ S ]                an optimizer of a layer, when its gradient is ready: it ends the step
#pragma once

#include <map>
#include <set>
#include <vector>

#include "harness/watch/read/event.h"

namespace gradsync::watch {

struct CuttingOrder {
  // Forwards, inner forwards, backwards, optimizers, clearings, uses, no_sync and flags, by time;
  // optimizers by the time of their end, so that what they run by themselves comes before.
  std::vector<const Event*> events;
  std::vector<const Event*> backwards;  // those that are within no other, by time
  std::set<const Event*> replays;       // backwards within a backward
  // Backwards for which forwards waited, each with a forward that has a backward within them.
  std::map<const Event*, const Event*> with_replays;
};

// Returns those of a process. `events` must be sorted by start_ns, and outlive what is returned.
CuttingOrder cutting_order(const std::vector<Event>& events);

bool contains(const Event& outer, const Event& inner);

}  // namespace gradsync::watch
