// The sync ledger: every collective that a rank issued, with its size, its place in the training
// step and when it began and ended.
//
// Counts and bytes are exact and prove a strategy right without statistics; the times give exposed
// communication. Written by the recording backend, read between blocks. No torch in this header.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "harness/base/clock.h"
#include "harness/launch/rank_page.h"

namespace gradsync::comm {

// One collective as this rank saw it. `bytes` is the size of its tensors on this rank, once.
struct CommEvent {
  const char* op = "";  // "all_reduce", "broadcast", ...; a string literal
  std::int64_t bytes = 0;
  std::int32_t step = -1;  // -1: outside any step (set-up, barriers between blocks)
  std::int32_t micro_batch = -1;
  std::int32_t bucket = -1;   // position among the all_reduces of its micro-batch
  std::int64_t start_ns = 0;  // when it was issued
  std::int64_t end_ns = 0;    // when it completed here; 0: not yet
};

class Ledger {
 public:
  // `page` (may be null) is told of every start and completion, for the launcher to watch.
  explicit Ledger(const Clock& clock, launch::RankPage* page = nullptr)
      : clock_(clock), page_(page) {}

  // Events recorded from now on belong to this place in the training loop. Local, any thread.
  void set_place(std::int32_t step, std::int32_t micro_batch);

  // Records a collective about to be issued. Returns its index, for complete(). Local, any thread.
  // Cost: about 0.1 us.
  std::size_t start(const char* op, std::int64_t bytes);

  // Records that it completed (or failed). May run on a communication thread.
  void complete(std::size_t index);

  // Blocks until every started event is completed: a waiter can return a moment before the
  // completion callback has run. Errors: CommError after `timeout_s`.
  void settle(double timeout_s) const;

  // Returns the events since the last clear(), in the order issued.
  std::vector<CommEvent> events() const;

  // Forgets the events. Call only after settle().
  void clear();

 private:
  struct Record {
    CommEvent event;
    std::atomic<std::int64_t> end_ns{0};
  };

  const Clock& clock_;
  launch::RankPage* page_;
  mutable std::mutex mutex_;
  std::deque<Record> records_;  // a deque: addresses stay valid while it grows
  std::int32_t step_ = -1;
  std::int32_t micro_batch_ = -1;
  std::int32_t next_bucket_ = 0;
  std::atomic<std::size_t> completed_{0};
};

}  // namespace gradsync::comm
