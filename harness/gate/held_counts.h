// What an optimizer step of a training job communicates, checked in: `gradsync gate counts FILE`
// holds the job against the file from then on.
//
// A file has no times and nothing of a machine, so it is as good on the next one. Ranks that do the
// same stand together, and so do micro-batches in a row that do. Inside of a micro-batch
// collectives are sorted: in which order two process groups begin theirs is chance.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/base/known.h"
#include "harness/gate/counts.h"
#include "harness/gate/work.h"
#include "harness/results/records.h"

namespace gradsync::gate {

inline constexpr const char* kCountsSchema = "gradsync.counts/1";

// So many collectives of one size.
struct SizedCollectives {
  std::string op;                     // "all_reduce", ...
  std::optional<std::int64_t> bytes;  // of each; absent: not known
  std::int64_t times = 1;
  bool operator==(const SizedCollectives&) const = default;
};

// So many micro-batches in a row that do the same.
struct MicroBatchCounts {
  std::int64_t times = 1;
  std::vector<SizedCollectives> collectives;
  bool operator==(const MicroBatchCounts&) const = default;
};

struct OpTotal {
  std::int64_t count = 0;
  std::optional<std::int64_t> bytes = 0;  // absent: the size of one of them is not known
  bool operator==(const OpTotal&) const = default;
};

// What each of `ranks` does in a step.
struct RankCounts {
  std::vector<int> ranks;           // in order
  std::int64_t syncs_per_step = 0;  // micro-batches that synchronize gradients
  std::map<std::string, OpTotal> per_step;
  Known<std::int64_t> peak_allocated_bytes;  // of the whole job
  std::vector<MicroBatchCounts> micro_batches;
  std::vector<SizedCollectives> outside;  // in none of them: a logged loss, say
  bool operator==(const RankCounts&) const = default;
};

struct HeldCounts {
  std::int64_t world_size = 0;
  std::vector<RankCounts> ranks;  // those that were seen; by their lowest
  std::string gpus_of_paper;      // that the job had, "8xh100"; "": the machine's own devices
  std::optional<HeldWork> work;   // absent: not counted, as in files of before it was
  bool operator==(const HeldCounts&) const = default;
};

// One rank's step as it was recorded. An event of micro-batch -1 is outside of them, and one of -1
// bytes of unknown size.
struct RecordedStep {
  int rank = 0;
  int micro_batches = 0;
  int syncs = 0;
  std::vector<results::TimelineEvent> events;
  Known<std::int64_t> peak_allocated_bytes;
};

// Returns the counts of these steps, one of each rank.
HeldCounts held_counts(std::int64_t world_size, const std::vector<RecordedStep>& steps);

// Returns what the file at `path` holds.   Errors: ConfigError where it cannot be read, or is no
// such file: an unknown field, a sum that does not add up.
HeldCounts read_held_counts(const std::string& path);

// Returns the file's text.
std::string held_counts_text(const HeldCounts& counts);

// What a job does otherwise than its file says.
struct HeldDifferences {
  // counts.h, then "micro_batches", "syncs" and "work"
  std::vector<CountDifference> differences;
  std::vector<std::string> notes;  // what was not compared, a sentence each
};

// Returns the differences of `seen`. A peak that one of the two does not know is not compared.
HeldDifferences held_differences(const HeldCounts& held, const HeldCounts& seen);

// Returns the collectives of a step, by operation: those of its micro-batches and those outside.
std::map<std::string, OpTotal> totals_of(const RankCounts& rank);

std::int64_t micro_batches_of(const RankCounts& rank);
// "all_reduce 4 (2704 bytes), broadcast 1 (64 bytes)"
std::string totals_text(const std::map<std::string, OpTotal>& totals);

}  // namespace gradsync::gate
