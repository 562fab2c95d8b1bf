// All that was seen of a job, put together: what `gradsync watch` prints and writes (tell/).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/account/account_verdict.h"
#include "harness/base/errors.h"
#include "harness/watch/judge/axes.h"
#include "harness/watch/judge/flags.h"
#include "harness/watch/judge/on_gpu.h"
#include "harness/watch/judge/policies.h"
#include "harness/watch/judge/series.h"
#include "harness/watch/judge/step_kinds.h"
#include "harness/watch/judge/steps/step_parts.h"
#include "harness/watch/judge/verdicts/model_verdicts.h"
#include "harness/watch/judge/verdicts/verdict.h"
#include "harness/watch/judge/wastes/wastes.h"
#include "harness/watch/read/event.h"
#include "harness/watch/read/op_sums.h"
#include "harness/watch/read/read_events.h"

namespace gradsync::watch {

// The step that stands for most of one rank's; see UsualStep.
struct TypicalStep {
  int micro_batches = 0;
  int synchronized = 0;
  int steps = 0;  // how many have this shape
  OpSums collectives;
  OpSums excess;                 // of these, more than enough
  OpSums ideal;                  // without the excess
  std::vector<Axis> axes;        // the same by axis; empty: not known
  std::optional<double> step_s;  // median; from the end of the optimizer before
  Known<double> excess_s;        // median of what the excess took
  std::optional<StepOnGpu> gpu;  // absent: it is not known what its GPU ran
  std::vector<Policy> policies;  // what it costs to defer them; empty: there is nothing to defer
  // With times. Not known where its micro-batches are not alike; without a reason in older files.
  Known<StepParts> parts;
};

struct WatchedRank {
  int rank = -1;
  std::int64_t pid = 0;
  int steps = 0;
  int skipped_steps = 0;
  int evaluation_forwards = 0;
  int backwards = -1;           // that accumulate gradients; -1: not known, of an older file
  OpSums collectives;           // all that the process took part in, set-up included
  TensorPeak peak;              // of the whole process
  std::optional<GpuTimes> gpu;  // from the first work to the last; absent: as above
};

struct Watched {
  int world_size = 0;
  std::vector<std::string> wrappers;   // of the models that ran, such as "DistributedDataParallel"
  std::vector<WatchedRank> ranks;      // by rank; those that were seen
  std::optional<TypicalStep> typical;  // of the lowest rank
  std::vector<StepKind> kinds;         // of its other steps
  std::vector<Verdict> verdicts;       // the first is on when the job synchronizes
  std::vector<ModelVerdict> models;    // the worst first; empty: it trains one, or ranks disagree
  std::vector<Waste> wastes;           // of necessary synchronizations; fail no job
  std::vector<Flag> flags;             // of the lowest rank
  std::vector<std::string> faults;     // what was not seen, a sentence each
  std::optional<account::GradientAccount> account;  // absent: it was not asked for
  Series series;  // in five numbers, of the step that most are like
};

// Returns what the processes of a job amount to: verdicts and numbers are the lowest rank's, where
// the ranks agree. `processes` may come in any order; training_processes count.
// The excess in seconds of a step is the least over the ranks, where these went through the same
// steps: the rank that comes last to a collective waits for the wire alone, and a late peer would
// be waited for without the excess too.
// On GPUs of paper no number of seconds is known.
Watched summarize(const std::vector<RankEvents>& processes);

// Adds the account of the same job. Counts may say that no rank's gradients reach the others, and
// the account that every rank reads all of them: one of the two is wrong then, and the job is not
// recognised. Where no verdict fails, the first one says that the account does, or that it is lost.
void add_account(Watched& watched, std::optional<account::GradientAccount> account);

// Returns whether it was recognised what would be enough: `ideal` and `excess` mean something.
bool knows_what_is_enough(const Watched& watched);

// Returns whether anything was judged: else who wants to fail on excess has no reason to pass it.
bool was_judged(const Watched& watched);

// Returns whether a verdict fails the job: it certainly synchronizes more often than needed, or
// never.
bool has_excess(const Watched& watched);

// Returns the exit status under `--fail-on-excess`: Regression where a verdict or the account
// fails, Unfit where nothing was judged, or the account of a rank is lost.
ExitStatus gate_status(const Watched& watched);

}  // namespace gradsync::watch
