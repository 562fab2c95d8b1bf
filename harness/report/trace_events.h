// The events of a trace that Perfetto and about:tracing open, written one process at a time.
//
// Viewers silently drop what breaks their rules: slices of one thread must nest or follow each
// other, an arrow must end inside of a slice, times are microseconds. Here they are whole
// nanoseconds until they are written, since viewers round every time for itself and spans that
// touch must not overlap.
// Source: "Trace Event Format", Google, the events X, M, C, s and f.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace gradsync::report {

inline constexpr int kComputeThread = 1;

struct TraceSpan {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
};

class TraceProcess {
 public:
  // Adds to `events`, the list that is to be written, which must outlive it.
  TraceProcess(nlohmann::json& events, int process) : events_(events), process_(process) {}

  void add_process_name(const std::string& name);
  void add_thread_name(int thread, const std::string& name);
  // "compute" and "compute 2" from `first` on, for `count` threads.
  void add_thread_names(int first, int count, const std::string& name);

  void add_slice(int thread, const std::string& name, const TraceSpan& span,
                 nlohmann::json arguments);

  // From the slice of the compute thread at `from_ns` to the slice of `thread` at `to_ns`. `number`
  // is its own in the whole trace.
  void add_arrow(const std::string& name, int number, std::int64_t from_ns, int thread,
                 std::int64_t to_ns);

  void add_counter(const std::string& name, std::int64_t at_ns, nlohmann::json values);

 private:
  void add(const char* phase, const std::string& name, int thread, nlohmann::json rest);

  nlohmann::json& events_;
  int process_;
};

// Assigns rows to spans that come in the order of their starts, so that the spans of a row never
// overlap.
class Rows {
 public:
  // Returns the first row whose spans so far have all ended when this one begins.
  int place(const TraceSpan& span);
  int count() const { return static_cast<int>(ends_ns_.size()); }

 private:
  std::vector<std::int64_t> ends_ns_;
};

// Assigns rows to spans that may lie inside of each other. They must come in the order of their
// starts; of two with the same start, the longer one first.
class NestingRows {
 public:
  // Returns the first row in which it follows every other span or lies inside of those it meets.
  int place(const TraceSpan& span);
  int count() const { return static_cast<int>(open_ends_ns_.size()); }

 private:
  std::vector<std::vector<std::int64_t>> open_ends_ns_;  // by row, the innermost last
};

}  // namespace gradsync::report
