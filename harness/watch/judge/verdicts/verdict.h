// The verdict on a rank's steps, in words: whether it synchronizes when it should, why not, and the
// line to change. Pure functions of what was seen.
//
// The rule of all of it: no job is accused on a guess. Where what was seen has an innocent
// explanation (other models, an optimizer that runs the model by itself, gradients averaged by hand
// or cleared in between), the verdict is "not recognised" and says so. For a file of another tool
// it is "not in this file" where the watcher would have seen what decides.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/watch/judge/steps/counts.h"
#include "harness/watch/judge/steps/steps.h"
#include "harness/watch/judge/steps/usual_step.h"
#include "harness/watch/judge/verdicts/cause.h"
#include "harness/watch/read/event.h"

namespace gradsync::watch {

enum class VerdictKind {
  OncePerStep,          // good
  MoreThanOnce,         // DDP synchronizes in more micro-batches of a step than the last
  Never,                // in no step: ranks drift
  TooEarly,             // micro-batches behind the last that does are not synchronized: as above
  SomeStepsNever,       // in some steps
  FsdpEveryMicroBatch,  // FSDP does, which saves memory: by choice or mistake
  EveryMicroBatch,      // without a known wrapper; no whole gradient is kept between: the same
  // On the replicas of hybrid sharding alone:
  ReplicasMoreThanOnce,  // in more micro-batches of a step than the last, which saves no memory
  ReplicasNever,
  ReplicasTooEarly,     // not in the last micro-batch of a step
  ReplicasOncePerStep,  // good, beside FsdpEveryMicroBatch
  UnusedParameters,     // beside another: they are searched in every step
  // By the bits of each parameter on each rank:
  ReplicasDrift,    // some are equal at first and differ later
  ReducedTwice,     // gradients, by a wrapper and again by hand
  AveragedAtTimes,  // beside another: they differ in between, and are equal again
  DiffersInBits,    // beside another: on unlike hardware, by rounding
  OwnParameters,    // beside another: never equal, and no wrapper's
  BuffersDiffer,    // beside another: each rank has its own
  Buffers,          // beside another: broadcast in more than one micro-batch of a step
  OneProcess,       // nothing to synchronize
  NoSteps,          // no optimizer step was seen
  NotRecognised,
  NotInFile,  // of files that others wrote: they do not hold what it takes to judge
};

// Whether the kind says nothing for or against the job.
bool is_unjudged(VerdictKind kind);

// Where the job can be changed, and how.
struct Change {
  std::string file;  // as Python names it; empty: not known
  int line = 0;      // 0: not known
  std::string what;
  std::string inside = {};  // what a library runs there, "ignite, engine/__init__.py line 133"
};

// What the sentence of a verdict counts. 0: its kind counts no such thing.
struct VerdictNumbers {
  int micro_batches = 0;         // of a usual step
  int synchronized = 0;          // of these
  int behind_the_last = 0;       // of these, behind the last one that is synchronized
  std::size_t steps = 0;         // that do otherwise than the usual one
  std::size_t of_steps = 0;      // of so many
  std::int64_t reductions = 0;   // of a step
  bool are_scatters = false;     // these are reduce-scatters
  bool are_kept_back = false;    // gradients that are not synchronized, from the optimizer
  bool models_are_known = true;  // which of them ran
  bool are_replayed = false;     // these micro-batches, within the backward of a loss
  // Verdicts on parameters:
  std::int64_t step = 0;  // after which they differ; steps between averages, 0 where not known
  std::int64_t equal_until = 0;              // the last step after which they are seen to be equal
  std::int64_t bytes = 0;                    // of a step
  bool are_broadcast = false;                // buffers, by DDP
  bool is_certain = false;                   // that they are meant to be equal
  std::vector<std::string> parameters = {};  // "`proxies`"; the first of them are named
};

// `sentence` and `why` are made of the rest (verdict_words.h), unless it was read from a file.
struct Verdict {
  VerdictKind kind = VerdictKind::NotRecognised;
  Cause cause = Cause::None;  // None: not known
  VerdictNumbers numbers;     // not in files
  std::string sentence;       // without a full stop
  std::string why;            // what was seen that explains it; empty: not known
  std::optional<Change> change;
  bool fails = false;  // it is certain that the job should be changed: `--fail-on-excess` fails
};

// Returns the verdicts on a rank: the first is on when it synchronizes, others stand beside it.
// `steps` must be those of `rank`, and `counts` those of `steps`.
std::vector<Verdict> judge(const RankEvents& rank, const Steps& steps,
                           const std::vector<StepCounts>& counts);

// "change train.py line 11: enclose the forward too"; "change train.py line 11, which runs ignite,
// engine/__init__.py line 133: ..."
std::string change_text(const Change& change);

// Returns all of it in one sentence: "synchronizes in every micro-batch (4 x per step; 1 is
// enough): no_sync encloses backward but not forward, train.py line 11; change train.py line 11:
// enclose the forward too"
std::string verdict_sentence(const Verdict& verdict);

}  // namespace gradsync::watch
