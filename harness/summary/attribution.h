// Where the time of one step went, rank by rank and collective by collective: this rank's own
// compute, what it computed twice, copies of what was reduced or offloaded, casts, a late peer, or
// the wire.
//
// At each instant of a step, the rank's thread either computed activations again that checkpointed
// units had not kept (phase "recompute"), copied reduced gradients to where they belong (phase
// "copy"), copied offloaded tensors (phase "offload"), copied to another type (phase "cast"), only
// waited (phase "wait"), or did something of its own (any other phase, and the time between
// phases). Waiting while a collective of the rank was in flight is exposed communication
// (measure/step_recorder.h). Each such instant is charged to one collective, the one in flight that
// was issued first: later ones queue behind it.
//
//   own compute   the thread worked, or nothing was in flight
//   recompute     it ran checkpointed units again, in backward
//   copy          between two waits it copied a bucket to where its gradients are
//   offload       it copied between the device and the host
//   cast          it copied to another type of numbers
//   late peer     it waited for a collective that some rank had not issued yet: nothing that any
//                 link could do would have ended the wait
//   wire          it waited for a collective that all ranks had issued: the transfer, and what the
//                 library does for it
//
//   rank 0  |-- backward --|·····late peer·····|######wire######|
//   rank 1  |-------- backward ----------------|######wire######|
//                          ^ rank 0 issues     ^ rank 1 issues
//
// The seven are a partition: they sum to the step. It takes times of several ranks on one clock.
// All pure functions of records.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/base/known.h"
#include "harness/results/result.h"
#include "harness/results/run_context.h"

namespace gradsync::summary {

// The clocks of a run's hosts, aligned with each other by its context.
//
// Every rank's times are on its own host's steady clock. Ranks that this program started itself
// share one, also across namespaces. Under an outside launcher the leading task compared the hosts'
// clocks before and after the run ("clocks" of the context; launch/clock_offset.h says how).

class HostClocks {
 public:
  // All ranks on one clock.
  HostClocks() = default;
  // As the context of a result says.
  explicit HostClocks(const results::Context& context);

  // A node's clock minus that of the leading host, true within +- error_s, in seconds.
  struct Offset {
    double offset_s = 0;
    double error_s = 0;
  };

  // Returns nothing where the node's clock was not compared: the run was interrupted, the task was
  // gone by then, or earlier trials were made under another start, whose clocks are not known.
  std::optional<Offset> of(int node) const;

 private:
  bool one_clock_ = true;
  std::map<int, Offset> by_node_;
};

using results::TimeParts;

// What was charged to one collective of the step on one rank. Own compute, recomputation, copies,
// offloading and casts are what hid it.
struct CollectiveParts {
  TimeParts parts;
  int last_rank = 0;        // the one that issued it last
  double all_issued_s = 0;  // when that was, in seconds since this rank's step began
};

struct RankParts {
  int rank = 0;
  int node = 0;
  TimeParts parts;                           // of the whole step
  std::vector<CollectiveParts> collectives;  // one for each of its timeline_events, in their order
};

struct AttributedStep {
  std::vector<RankParts> ranks;
  // Two hosts' clocks are compared within this: the border between late peer and wire of one
  // collective may be off by as much. 0: one clock.
  double clock_error_s = 0;
  std::string unknown_because;  // where there are no ranks; empty otherwise
};

// Returns when the step whose timeline the trial has, the last timed one, began on each rank, in
// the order of its ranks and in seconds since it began on the first. Empty if that is not known,
// and `why_unknown` says why.
std::vector<double> step_starts_s(const results::TrialRecord& trial, const HostClocks& clocks,
                                  std::string& why_unknown);

// Returns the parts of that step. Unknown if the ranks' clocks cannot be aligned, or if the ranks
// did not take part in the same collectives.
AttributedStep attribute_step(const results::TrialRecord& trial, const HostClocks& clocks);

// Returns the mean over those of `trials` whose parts are known; its collectives are gathered by
// operation and bucket. Not known where no trial's are.
Known<results::Attribution> attribution_of(const std::vector<const results::TrialRecord*>& trials,
                                           const HostClocks& clocks);

}  // namespace gradsync::summary
