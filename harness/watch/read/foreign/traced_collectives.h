// The collectives of a trace: what c10d was asked for, in which group, of how many bytes, and when
// it was complete.
//
// c10d's operator says what is begun. What the profiler says of it (record_param_comms) stands
// inside of that and may have its group and its size. Gloo's threads open a range of their own for
// each, which ends with it. NCCL's kernel was launched inside of the operator; or behind it, where
// several are coalesced into one. A kernel that no operator launched, as those of CUDA graphs, is a
// collective by itself, of unknown size.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/watch/read/event.h"
#include "harness/watch/read/foreign/nccl_kernels.h"
#include "harness/watch/read/foreign/trace_file.h"

namespace gradsync::watch {

// Returns the event that a range of a trace stands for.
inline Event traced_event(const TracedRange& range, EventKind kind, std::string name) {
  Event event;
  event.kind = kind;
  event.start_ns = range.start_ns;
  event.end_ns = range.end_ns;
  event.thread = range.thread;
  event.name = std::move(name);
  return event;
}

class TracedCollectives {
 public:
  // `trace` must outlive it.
  explicit TracedCollectives(const TraceFile& trace) : trace_(trace) {}

  // Takes the next range of the trace; returns whether it is one of a collective.
  bool see(const TracedRange& range);

  // Takes the kernels of NCCL's, by their launch, when all ranges were seen.
  void take_kernels(const std::vector<NcclKernel>& kernels);

  // Ends it, when all of these were taken, and returns the events. What follows is known then.
  // `world_size`: of the job.
  std::vector<Event> finish(int world_size);

  int largest_group() const { return largest_group_; }  // 0: not told
  bool runs(std::string_view operation) const;
  bool has_unknown_size() const;
  bool has_unknown_group() const;

 private:
  struct Collective {
    Event event;
    const TracedRange* range;
    std::string_view op;         // c10d's own name
    bool is_group_told = false;  // by the collective itself
  };

  struct OfThread {
    std::vector<std::size_t> collectives;     // by start
    std::vector<const TracedRange*> of_nccl;  // "nccl:all_reduce", by start
    std::size_t taken = 0;  // of the collectives, up to the last one with a kernel
  };

  Collective* collective_around(const TracedRange& range);
  void take_kernel(const NcclKernel& kernel);
  void add_by_itself(const NcclKernel& kernel, std::string name);
  void see_collective(const TracedRange& range);
  void see_comm(const TracedRange& range);
  void name_only_group(Event& event) const;
  void find_ends();
  void take_end(Collective& collective, const TracedRange& range) const;
  bool may_scatter_among_some(int world_size) const;
  void forget_doubtful_groups(int world_size);

  const TraceFile& trace_;
  int largest_group_ = 0;
  std::vector<Collective> collectives_;
  std::vector<Event> beside_c10d_;
  std::map<std::int64_t, OfThread> threads_;
  std::map<std::string, std::vector<const TracedRange*>> gloo_;  // by operation
};

}  // namespace gradsync::watch
