// The results of a run, cell by cell: result.json (schema gradsync.result/1) as types.
//
// It is computed from trials (summary/build_result.h), read by every page and table, and written in
// one place. A number that is not known says why (base/known.h): null in the file, with its reason
// in "null_reasons" of the cell. Times are seconds, sizes bytes.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/base/known.h"
#include "harness/results/parameters.h"
#include "harness/results/records.h"
#include "harness/results/run_context.h"
#include "harness/results/time_parts.h"
#include "harness/stats/interval.h"

namespace gradsync::results {

// Seconds of a step, a micro-batch or a sample. `mean` comes from elapsed time, and so does the
// interval. The others are statistics of single steps, each by its slowest rank, which add up to
// more.
struct StepTimes {
  double mean = 0;
  double median = 0;
  std::optional<double> sd;  // unset: of a single value
  double p5 = 0;
  double p95 = 0;
  double max = 0;
  std::optional<stats::Interval> ci95;
  std::size_t n = 0;  // timed steps
};

// How many times longer one thing takes than another.
struct Ratio {
  double ratio = 0;
  std::optional<stats::Interval> ci95;  // at the level that was asked for
  std::string interval;                 // what it is, or why there is none

  // Returns whether it has an interval, all of it on one side of 1.
  bool is_clearly_different() const { return ci95 && (ci95->lo > 1 || ci95->hi < 1); }
};

// A cell's mean step over that of the same cell under another strategy, paired by round.
struct StepRatio : Ratio {
  std::string vs;            // the strategy compared with; empty where that is said elsewhere
  std::size_t launches = 0;  // in which both ran
  std::size_t pairs = 0;     // rounds in which both ran
};

// What was charged to the collectives of one operation and bucket on one rank; own compute,
// recomputation and copies are what hid them.
struct CollectiveShare : TimeParts {
  std::string op;
  int bucket = -1;  // -1: not a bucket's
};

// Where the time of a step went on one rank.
struct RankShare : TimeParts {
  int rank = 0;
  int node = 0;
  std::map<std::string, double> waited_for_s;  // late_peer_s by the rank that was late
  std::vector<CollectiveShare> collectives;    // in the order issued; the same on every rank
};

// Where the time of the last timed step of each trial went; the mean over trials with a known
// attribution.
struct Attribution {
  int steps = 0;  // one of each trial
  // The border between late peer and wire may be off by this; 0: all ranks have one clock.
  double clock_error_s = 0;
  std::vector<RankShare> ranks;
};

// What a step takes at least (summary/lower_bound.h), means over launches.
struct LowerBound {
  double step_s = 0;
  double step_over_bound = 0;     // the mean step over it: 1 leaves nothing to gain
  double micro_batch_s = 0;       // one without a synchronization
  double first_bucket_s = 0;      // from a synchronized micro-batch's forward to its first bucket
  double wire_s = 0;              // of all buckets of one synchronized micro-batch
  double last_bucket_wire_s = 0;  // of the last of them
  double optimizer_s = 0;
};

// Share of its timed steps in which a rank had nothing to compute, 0 to 1.
struct IdleShare {
  double mean = 0;  // over the ranks
  std::vector<double> by_rank;
};

// |p - q| / |q| of any rank's parameters p and rank 0's q, the largest.
struct ParameterDistance {
  double last = 0;
  std::vector<double> after_step;  // from a common start
};

// How far the ranks' batch normalization has drifted apart, the widest channel of any layer.
// Equal statistics: 0 and 1. That ranks agree does not say that they are right: rank 0's, broadcast
// to all, are of rank 0's examples.
struct StatisticsSpread {
  // Between two ranks' running means, in standard deviations: the root of the ranks' mean running
  // variance, which is what a layer divides by.
  double mean_gap = 0;
  double variance_ratio = 1;  // the largest running variance over the smallest
};

// Real: the model computed. Paced: it waited as another machine would have computed. Paper: nothing
// was computed, on GPUs that are not there.
enum class Timing { Real, Paced, Paper };
std::string to_string(Timing timing);  // "real", ...

using BytesByCategory = std::map<std::string, std::int64_t>;

struct CellResult {
  std::string part;  // "" where the plan has no parts
  Parameters cell;
  Status status = Status::Ok;         // the worst of its trials
  std::string reason;                 // the first one given for it; empty when ok
  std::optional<OomPlace> oom_place;  // of that trial
  std::map<std::string, int> trials;  // how many ended in which status
  std::optional<int> nodes;
  std::optional<int> ranks_per_node;
  std::size_t launches = 0;  // with a good trial
  std::size_t blocks = 0;    // good trials
  Timing timing = Timing::Real;
  std::string host_reads_back;  // on a GPU, in the middle of every micro-batch; empty: nothing
  int scale = 1;                // bytes and link rates were divided by it

  Known<StepTimes> step_s;         // one optimizer step
  Known<StepTimes> micro_batch_s;  // that over accumulation_steps
  Known<StepTimes> sample_s;       // that over the examples of all ranks
  std::string interval;            // how their intervals were made; empty where there are no times
  std::string
      no_interval_because;    // not in the file, where `interval` says it; empty: they have one
  Known<StepRatio> slowdown;  // against no_sync
  std::optional<Known<StepRatio>> vs_baseline;          // of no_sync_improper alone
  std::optional<Known<StepRatio>> vs_local_statistics;  // of sync_batch_norm alone
  Known<std::map<std::string, double>> phase_s;         // mean per step in each phase
  Known<double> exposed_comm_s;  // communication ran and no computation did, mean per step
  Known<double> unaccounted_s;   // in the block and in none of its steps, mean per step
  Known<LowerBound> lower_bound;
  Known<IdleShare> idle_share;
  Known<Attribution> attribution;
  Known<ParameterDistance> parameter_distance;
  Known<TrialAccount> account;  // of the trial whose weights are farthest from equal
  std::optional<StatisticsSpread> running_statistics;  // of models that have them
  Known<OpCounts> collectives_per_step;                // of a steady step
  // Micro-batches of a step that repeat the one before and were not run: their collectives are the
  // declared ones. 0: all were run, as in results older than this field.
  int declared_micro_batches = 0;
  // The largest of any rank; what it consisted of, on that rank.
  Known<std::int64_t> peak_allocated_bytes;
  Known<BytesByCategory> peak_by_category;
  Known<std::int64_t> peak_reserved_bytes;
  Known<std::int64_t> peak_reserved_estimate_bytes;  // by a model of a GPU's allocator
  // By the formula, before the trials ran.
  Known<std::int64_t> predicted_peak_allocated_bytes;
  Known<BytesByCategory> predicted_peak_by_category;
  // On the host, the same two. Unset: nothing is offloaded, or on a GPU.
  std::optional<std::int64_t> host_peak_allocated_bytes;
  std::optional<std::int64_t> predicted_host_peak_allocated_bytes;

  bool is_ok() const { return status == Status::Ok; }
  // Returns whether its model waited instead of computing.
  bool is_paced() const { return timing == Timing::Paced; }
  bool is_paper() const { return timing == Timing::Paper; }
  // Returns the bytes of all collectives, per rank and step; unset: not known.
  std::optional<double> moved_bytes() const;
  // Returns whether it has times and none of its trials failed.
  bool is_timed() const { return is_ok() && step_s; }
};

// One cell of a sweep beside the law that was fitted to it.
struct LawPoint {
  std::string strategy;
  int accumulation_steps = 0;
  int syncs = 0;      // micro-batches that reduce gradients
  double step_s = 0;  // as measured, the mean
  double law_s = 0;
  double error = 0;       // law_s over step_s, less 1
  bool held_out = false;  // not fitted: the law is checked by it
};

// A step of m micro-batches, s of them synchronized, takes fixed_s + m micro_batch_s + s sync_s.
struct Law {
  std::string part;
  Parameters cell;  // what the points share: all but strategy and accumulation_steps
  double fixed_s = 0;
  double micro_batch_s = 0;
  double sync_s = 0;
  double largest_residual = 0;          // of the points that were fitted, as a share
  std::optional<double> largest_error;  // of those held out; unset where none was
  std::vector<LawPoint> points;
};

// All: the fastest of all. WholeGradients: of those that send gradients as they are.
enum class Among { All, WholeGradients };

// Where options vary, the fastest of all their settings, against the fastest of those with every
// option at its default.
struct Best {
  std::string part;
  Among among = Among::All;
  Parameters cell;
  double step_s = 0;  // the mean
  std::size_t of = 0;
  Parameters vs;
  std::optional<double> ratio;          // its time over that of vs; unset: both ran in no round
  std::optional<stats::Interval> ci95;  // one that holds for all choices at once
  std::size_t choices = 0;              // pairs that there were to choose from
  std::size_t launches = 0;
  std::size_t pairs = 0;
};

// One of several ways to do the same work.
struct FrontPoint {
  Parameters cell;
  std::int64_t peak_allocated_bytes = 0;
  double step_s = 0;      // the mean
  bool on_front = false;  // no other holds as little and is as fast, by their means
  // Its time over that of the fastest; an interval holds for all pairs at once. Unset: there is no
  // round in which both ran.
  std::optional<Ratio> vs_fastest;
};

// Memory against time, over all measured ways to do the same work: they differ only in levers
// (plan::Axis), which trade one for the other. Within any budget of memory, the best way is one on
// the front.
struct ParetoFront {
  std::string part;
  Parameters cell;                 // what the points share
  std::vector<FrontPoint> points;  // by peak, then by time
  std::size_t choices = 0;         // pairs of points

  const FrontPoint& fastest() const;
};

// The name of a strategy in tables and pictures.
struct StrategyName {
  std::string name;   // as in a plan
  std::string label;  // as in the guide's table
};

struct Result {
  Context context;
  nlohmann::json plan;                   // the plan file with every override applied
  std::vector<StrategyName> strategies;  // those of the cells, in the order of tables
  std::vector<CellResult> cells;         // in the order of the plan
  std::vector<Law> laws;
  std::vector<Best> best;
  std::vector<ParetoFront> fronts;
  std::optional<int> exit_status;  // of the program; unset while the run goes on, or where it died
};

void to_json(nlohmann::json& out, const StepRatio& ratio);
void to_json(nlohmann::json& out, const Result& result);

// Returns the JSON Schema of a result's fields (base/fields.h).
nlohmann::json result_schema();

// [lo, hi], or null.
nlohmann::json interval_to_json(const std::optional<stats::Interval>& interval);

}  // namespace gradsync::results
