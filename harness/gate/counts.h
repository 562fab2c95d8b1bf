// The exact differences between the steps of two builds: collectives, their order and sizes,
// buckets, and peak memory.
//
// Counts and bytes belong to the code, not to the machine: they are the same in every run, and a
// trial of each build is enough to compare them. So there are no statistics here and no margin, and
// any difference fails. Less is a difference too: if it is intended, make the new build the
// baseline; if it is not, a synchronization is lost.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/gate/rows.h"
#include "harness/results/records.h"

namespace gradsync::gate {

inline constexpr const char* kPeakDifference = "peak_allocated_bytes";
inline constexpr const char* kWorkDifference = "work";

struct CountDifference {
  std::string what;      // "row", "ranks", "events", "collectives", "buckets", "gradient_bytes",
                         // "peak_allocated_bytes" or "status"; of training commands "verdict",
                         // the watcher's words for what the others mean, and "work"; of held
                         // counts also "world_size", "micro_batches" and "syncs" (held_counts.h)
  std::string sentence;  // "micro-batch 1: 14 more all_reduces, 413.1 MiB (no_sync has no effect)"
  bool operator==(const CountDifference&) const = default;
};

void to_json(nlohmann::json& out, const CountDifference& difference);

// Returns what `candidate` does otherwise than `baseline`, two trials of one row: at most one entry
// of each kind, in the order above, so that the first one says where the two part. Empty: the same.
//
//   events      the step that each rank recorded, collective by collective: the first that differs,
//               by micro-batch, then by rank. Micro-batches and buckets count from 1.
//   peak        of every rank, to the byte, and the categories that grew
//   status      only ok and oom are comparable: what ended otherwise has nothing to compare
std::vector<CountDifference> count_differences(const results::TrialRecord& baseline,
                                               const results::TrialRecord& candidate);

// What all trials of a row say.
struct RowCounts {
  std::vector<CountDifference> differences;  // of the first trial of the candidate that has any
  std::string unfit_because;  // set where the baseline gives nothing to hold it against: its trials
                              // failed, or differ among themselves. A kind in which they do is not
                              // among the differences.
  std::string no_peaks_because;  // set where peaks are not held; see Peaks
};

// What is asked of peaks of memory. Our own builds have the same one in every start. A training
// command may have one that is chance, or none that can be seen: then its peaks are not held.
enum class Peaks { Exact, WhereSteady };

// Returns the comparison of a row's trials; those of a second process group of the baseline belong
// to the baseline. What the machine could not run, status skipped, says nothing of the candidate.
RowCounts compare_counts(const std::vector<const results::TrialRecord*>& baseline,
                         const std::vector<const results::TrialRecord*>& candidate,
                         Peaks peaks = Peaks::Exact);

// A row that one side lacks.
struct MissingRow {
  Row row;
  CountDifference difference;
};

// Returns the rows that only one of the two has: those of the baseline first.
std::vector<MissingRow> missing_rows(const std::vector<Row>& baseline,
                                     const std::vector<Row>& candidate);

}  // namespace gradsync::gate
