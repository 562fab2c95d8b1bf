// What one trial left behind, as stored in trials.jsonl (schema gradsync.trial/1).
//
// Raw first: every timed step of every rank is here, so that summaries can be made again. Timelines
// are many times larger and lie in a file beside it (timelines.h).
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/results/model_info.h"
#include "harness/results/parameters.h"

namespace gradsync::results {

// The newest versions; raised when a field is renamed or changes its meaning, not for additions.
inline constexpr const char* kTrialSchema = "gradsync.trial/1";
inline constexpr const char* kResultSchema = "gradsync.result/1";

enum class Status { Ok, Oom, Timeout, Failed, Skipped, Invalid };

std::string to_string(Status status);                // "ok", "oom", "timeout", ...
Status status_from_string(const std::string& text);  // Errors: std::invalid_argument

// Collectives of one kind: how many, and the sum of their payload sizes in bytes (a collective's
// payload is its tensor, counted once per rank, not what the ring sends).
struct OpCount {
  std::int64_t count = 0;
  std::int64_t bytes = 0;
  bool operator==(const OpCount&) const = default;
};
using OpCounts = std::map<std::string, OpCount>;  // by operation: "all_reduce", "broadcast", ...

// One collective of the step kept as an example; times in seconds since that step began.
struct TimelineEvent {
  std::string op;
  std::int64_t bytes = 0;
  int micro_batch = 0;
  int bucket = -1;  // position among the all_reduces of its micro-batch; -1: not a bucket
  double start_s = 0;
  double end_s = 0;
};

// One stretch of a rank's own time: "forward", "backward", "recompute", "wait", "copy", "offload",
// "cast" or "optimizer".
struct TimelinePhase {
  std::string phase;
  int micro_batch = 0;
  double start_s = 0;
  double end_s = 0;
};

// What a rank's tensors held from one instant of a step on, in seconds since that step began.
struct MemoryTimelinePoint {
  double at_s = 0;
  int micro_batch = -1;                       // -1: before the first one
  std::string phase;                          // "recompute", "backward", ...; may be empty
  std::string unit;                           // of the model, such as "layer3"; may be empty
  std::map<std::string, std::int64_t> bytes;  // by category; one that is absent held none
};

// The running statistics of a rank's batch normalization layers, all layers' channels in a row.
struct RunningStatistics {
  std::vector<double> mean;
  std::vector<double> variance;
};

struct RankRecord {
  int rank = 0;
  int node = 0;
  std::vector<double> step_s;  // timed steps, in order
  std::vector<double> warmup_step_s;
  std::map<std::string, std::vector<double>> phase_s;  // per timed step; sums to step_s
  std::vector<double> exposed_comm_s;                  // per timed step
  double block_s = 0;  // the whole block by one pair of clock readings, on a GPU the device's
  // Seconds of the block in which the control group's CPU quota throttled the rank, or in which it
  // waited for a core that others used. Unset: the kernel does not say, or the record is older than
  // these fields.
  std::optional<double> throttled_s;
  std::optional<double> queue_wait_s;
  // Over the timed steps. On the CPU every byte of every tensor; reserved is only estimated there.
  std::optional<std::int64_t> peak_allocated_bytes;
  std::map<std::string, std::int64_t> peak_by_category;  // what it consisted of; empty: unknown
  // Likewise on the host, of what is offloaded there; unset, empty: nothing is, or on a GPU.
  std::optional<std::int64_t> host_peak_allocated_bytes;
  std::map<std::string, std::int64_t> host_peak_by_category;
  std::optional<std::int64_t> peak_reserved_bytes;
  std::optional<std::int64_t> peak_reserved_estimate_bytes;
  // |p - q| / |q| of this rank's parameters p and rank 0's q, after each step from a common start,
  // outside the clock. Empty: not measured.
  std::vector<double> parameter_distance;
  // One step, rank 0's only: a warm-up step, so that no timed one pays for it; one of the others
  // where nothing is warmed up and nothing timed. Empty: not recorded.
  std::vector<MemoryTimelinePoint> memory_timeline;
  // After the block; unset: the model has no batch normalization.
  std::optional<RunningStatistics> running_statistics;
  // When the last timed step began, in seconds on the clock of this rank's host: steps of ranks of
  // one host can be laid beside each other by it. Unset: recorded before there was this field.
  std::optional<double> timeline_start_s;
  std::vector<TimelineEvent> timeline_events;  // of that step, in the order issued
  std::vector<TimelinePhase> timeline_phases;
};

struct LedgerRecord {
  OpCounts per_step;  // one steady timed step of rank 0
  OpCounts expected;  // what the strategy declares for it
  bool matches = false;
  std::string mismatch;  // the first difference in words; empty when it matches
  // Micro-batches of that step that repeat the one before and were not run, because no time is
  // wanted: per_step has their declared counts.
  int declared_micro_batches = 0;
  int buckets = 0;  // reductions of one synced micro-batch: DDP's buckets, FSDP's units
};

// The weight of every micro-batch of every rank in the gradient that the optimizer reads
// (account/account.h), in one step after the timed ones. Weights are relative to their mean.
struct TrialAccount {
  std::string kind;     // "equal", "separate", "rounded", ... (account/account_fields.h)
  std::string verdict;  // in words: "all 8 weigh the same within 0.0002 %"
  double weight_min = 0;
  double weight_max = 0;
  double weight_error = 0;  // the largest, one standard deviation
  double factor = 0;        // their mean over what the loss says: 1, but by rounding
  double condition = 0;     // the largest of any group of parameters; NaN: some are inseparable
  double left_over = 0;     // likewise: what no sum of contributions explains, as a share
  int contributions = 0;    // that were separated
  int parameters = 0;       // that were sampled, of all ranks
};

// Where a trial ran out of memory.
struct OomPlace {
  int micro_batch = 0;  // from 1
  std::string phase;    // "backward"
  std::string unit;     // of the model, such as "layer3"; may be empty
};

// A stretch of a file, in bytes.
struct FilePart {
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
};

struct TrialRecord {
  std::string part;
  Parameters cell;
  int launch = 0;  // from 0
  int round = 0;   // from 0
  int order = 0;   // position in which the trial ran, over the whole plan, from 0
  Status status = Status::Ok;
  std::string reason;  // empty when ok
  // Unset: it ended otherwise, outside a micro-batch, or before there was this field.
  std::optional<OomPlace> oom_place;
  std::vector<double> step_s;  // slowest rank, per step (as_published: rank 0)
  std::vector<double> warmup_step_s;
  std::vector<RankRecord> ranks;
  LedgerRecord ledger;
  std::optional<TrialAccount> account;
  std::string account_why_not;  // where there is none; "": recorded before there were accounts
  // The predicted peak of any rank, made before the trial ran, so it also exists if the trial ran
  // out of memory. Unset, empty: there is no prediction for the model or its options.
  std::optional<std::int64_t> predicted_peak_allocated_bytes;
  std::map<std::string, std::int64_t> predicted_peak_by_category;
  std::optional<std::int64_t> predicted_host_peak_allocated_bytes;  // unset: nothing is offloaded
  std::optional<ModelInfo> model_info;  // unset: the model was never made
  // Where the file of timelines has what the ranks recorded of single steps (timelines.h). Unset:
  // nothing was recorded, or it is in the ranks alone, as in records of earlier versions.
  std::optional<FilePart> timelines_at;
  std::optional<FilePart> memory_timeline_at;
};

void to_json(nlohmann::json& out, const RankRecord& rank);
void from_json(const nlohmann::json& in, RankRecord& rank);
void to_json(nlohmann::json& out, const LedgerRecord& ledger);
void from_json(const nlohmann::json& in, LedgerRecord& ledger);
// The trial with its "schema". Unknown numbers are null, never 0 or NaN.
void to_json(nlohmann::json& out, const TrialRecord& trial);
void from_json(const nlohmann::json& in, TrialRecord& trial);

// Returns the trial. Errors, as of every from_json here: ConfigError that begins with `where` and
// names the field, where the object is no record of a known schema version.
TrialRecord trial_from(const nlohmann::json& in, const std::string& where);

// Returns the JSON Schema of a trial's fields (base/fields.h).
nlohmann::json trial_schema();

}  // namespace gradsync::results
