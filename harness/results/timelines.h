// What a trial's ranks recorded of single steps: collectives, phases, memory. Many times larger
// than its steps and counts, and so beside trials.jsonl, in timelines.jsonl, where each trial's
// line says which part is its own.
//
//   trials.jsonl      {"step_s": [...], ..., "timelines_at": {"offset": 0, "bytes": 2310}}
//   timelines.jsonl   {"schema": "gradsync.timelines/1", "ranks": [{"rank": 0, "events": {}, ...}]}
//
// A part is one line and is written before the line of its trial. Memory has a line of its own:
// reports need the others of every trial, and memory of one trial of a cell.
#pragma once

#include <string>
#include <vector>

#include "harness/results/records.h"

namespace gradsync::results {

inline constexpr const char* kTimelinesFile = "timelines.jsonl";  // in a run's directory
inline constexpr const char* kTimelinesSchema = "gradsync.timelines/1";
inline constexpr const char* kMemoryTimelineSchema = "gradsync.memory_timeline/1";

// The lines of a trial, each with its newline; "" for what no rank recorded.
std::string timelines_line(const TrialRecord& trial);
std::string memory_timeline_line(const TrialRecord& trial);

// Returns the trial as trials.jsonl has it, without what the lines hold.
TrialRecord without_timelines(const TrialRecord& trial);

// DIR/timelines.jsonl, open for reading. A run whose file was not kept has none.
class TimelinesFile {
 public:
  explicit TimelinesFile(const std::string& directory);
  ~TimelinesFile();
  TimelinesFile(const TimelinesFile&) = delete;
  TimelinesFile& operator=(const TimelinesFile&) = delete;

  // Gives the trial's ranks their events and phases. Returns false where the file has no such part.
  // Errors: ConfigError with the file and the place in it, where the part is no such line.
  bool read_into(TrialRecord& trial) const;

  // Returns what rank 0 held over one step; empty where that was not recorded, or not kept. Errors:
  // as read_into().
  std::vector<MemoryTimelinePoint> memory_of(const TrialRecord& trial) const;

 private:
  std::string text_of(const FilePart& part) const;  // "": the file has no such part

  std::string path_;
  int fd_;
  std::int64_t size_;
};

}  // namespace gradsync::results
