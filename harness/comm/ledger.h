// The sync ledger: every collective that a rank issued, with its size, its place in the training
// step and when it began and ended.
//
// Counts and bytes are exact and prove a strategy right without statistics; the times give exposed
// communication. Written by the recording backend, read between blocks. No torch in this header.
//
// On a device (measure/timeline.h) a collective is ready when the queue that computes has come to
// it, and NCCL runs those of a communicator one after the other: it begins when it is ready and the
// one before it has ended, and ends when NCCL's own queue has passed it. That is what NCCL's own
// pair of events would say, without holding on to the tensors of every collective until the end of
// the block, which would spoil the peak of memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "harness/base/clock.h"
#include "harness/launch/rank_progress.h"
#include "harness/measure/timeline.h"

namespace gradsync::comm {

// One collective as this rank saw it. `bytes` is the size of its tensors on this rank, once.
struct CommEvent {
  const char* op = "";  // "all_reduce", "broadcast", ..., or as RecordedAs says; a string literal
  std::int64_t bytes = 0;
  std::int32_t step = -1;  // -1: outside any step (set-up, barriers between blocks)
  std::int32_t micro_batch = -1;
  std::int32_t bucket = -1;   // position among the all_reduces of its micro-batch
  std::int64_t start_ns = 0;  // when it was issued; on a device: when it could begin
  std::int64_t end_ns = 0;    // when it completed here; 0: not yet
};

// While it lives, collectives that this thread begins are recorded under another name, in whatever
// ledger. For those whose number must not be taken for that of the gradients' (an all_reduce of
// another name is no bucket's). Scopes nest: the innermost counts.
class RecordedAs {
 public:
  explicit RecordedAs(const char* op);  // a string literal
  ~RecordedAs();
  RecordedAs(const RecordedAs&) = delete;
  RecordedAs& operator=(const RecordedAs&) = delete;

 private:
  const char* outer_;
};

class Ledger {
 public:
  // `progress` (may be null) records every start and completion, for the launcher to watch.
  // `timeline`: that of the device whose tensors are communicated; null: they are the host's.
  explicit Ledger(const Clock& clock, launch::RankProgress* progress = nullptr,
                  measure::Timeline* timeline = nullptr)
      : clock_(clock), progress_(progress), timeline_(timeline) {}

  // Events recorded from now on belong to this place in the training loop. Local, any thread.
  void set_place(std::int32_t step, std::int32_t micro_batch);

  // Records a collective about to be issued. Returns its index, for complete(). Local, any thread.
  // Cost: about 0.1 us.
  std::size_t start(const char* op, std::int64_t bytes);

  // Records that it completed (or failed). May run on a communication thread.
  void complete(std::size_t index);

  // Records that it completes when the timeline's `mark` is reached. `queue`: of the communicator
  // that runs it, from 0.
  void complete_on_device(std::size_t index, std::int64_t mark, int queue);

  // Blocks until every started event is completed, on the device too: a waiter can return a moment
  // before the completion callback has run. Errors: CommError after `timeout_s`, and as
  // Timeline::reached.
  void settle(double timeout_s);

  // Returns the events since the last clear(), in the order issued.
  std::vector<CommEvent> events() const;

  // Forgets the events. Call only after settle().
  void clear();

 private:
  struct Record {
    CommEvent event;
    std::atomic<std::int64_t> end_ns{0};
    std::int64_t start_mark = -1;  // on the device, until settle(); -1: the time is known
    std::int64_t end_mark = -1;
    int queue = 0;  // of end_mark
  };

  void count_completion();
  void resolve_marks();

  const Clock& clock_;
  launch::RankProgress* progress_;
  measure::Timeline* timeline_;
  mutable std::mutex mutex_;
  std::deque<Record> records_;  // a deque: addresses stay valid while it grows
  std::int32_t step_ = -1;
  std::int32_t micro_batch_ = -1;
  std::int32_t next_bucket_ = 0;
  std::atomic<std::size_t> completed_{0};
};

}  // namespace gradsync::comm
