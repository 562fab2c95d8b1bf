// Chatter: what the job itself calls in every step, beside forwards, backwards and optimizers, that
// has ranks wait for each other or the host for its device: barriers, collectives of objects, of a
// few bytes, and reads of a GPU's tensors.
//
// Reads count wherever they are, and are never known to cost what they take: the device computes.
//
// A call takes from when the job called until it went on, on the rank on which it takes least: the
// others wait there for that one, which they would do at the next collective as well. Calls that
// follow each other at once are a run, of which one rank's count: that each is late now and then is
// what so many cost. Who reduces gradients or averages parameters by hand does not chatter, however
// small these are: a line that also moves more is none of these, nor one that moves half of the
// gradients or more.
//
// A small collective may well be needed where the step can depend on it: it is called between the
// first forward of a step and its optimizer, as an agreement to skip the step is; its numbers are
// whole, as a number of tokens is; or it reduces to the least or the largest. The page names
// such calls, and advises nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "harness/base/known.h"
#include "harness/watch/judge/wastes/wastes.h"

namespace gradsync::watch {

// A collective of no more than this is small: what it moves takes no time on any network.
inline constexpr std::int64_t kSmallBytes = 4096;

struct Call {
  const Event* event = nullptr;  // of kind Call
  bool has_ends = false;         // it is known when its collectives ended, or it waits for them
  int run = 0;                   // those of a run have the same
};

// The calls of one step, by time, by kind of waste.
using Calls = std::map<WasteKind, std::vector<Call>>;

// Returns those of step `index` of a rank's counts.
Calls calls_of(const Examined& rank, std::size_t index);

// The same of all ranks.
struct Chatter {
  std::vector<CallPlace> places;  // those that cost most first
  int calls = 0;
  Known<double> saved_s;
};

// Returns the seconds that its calls take, or those from one line of the job.
double takes_s(const Chatter& chatter);
double takes_s(const Chatter& chatter, const CallPlace& line);

// Returns what a step chatters, by kind; nothing of a kind where ranks do not call alike.
std::map<WasteKind, Chatter> chatter_of(std::span<const Examined> ranks, std::size_t index);

}  // namespace gradsync::watch
