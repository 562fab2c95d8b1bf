#include "harness/watch/judge/steps/pipelined.h"

#include <cstdint>
#include <set>
#include <string>

namespace gradsync::watch {
namespace {

// How far the forwards of a step run ahead of its backwards.
class Order {
 public:
  explicit Order(const std::vector<Turn>& turns) {
    bool is_backward_before = false;
    for (const Turn& turn : turns) {
      const bool is_forward = turn.interval->kind == EventKind::Forward;
      if (is_forward) {
        leaves_some_ |= is_backward_before && ahead_ > 0;
        models_.insert(turn.interval->object);
      } else {
        repeats_backward_ |= is_backward_before;
        gradients_.insert(turn.interval->detail);
      }
      ahead_ += is_forward ? 1 : -1;
      has_none_ahead_ |= ahead_ < 0;
      is_backward_before = !is_forward;
    }
  }

  // Every forward has a backward behind it, and some wait for theirs.
  bool is_of_pipeline() const { return ahead_ == 0 && !has_none_ahead_ && repeats_backward_; }
  // The same beyond a group of forwards and the backwards behind it.
  bool goes_beyond_a_group() const { return is_of_pipeline() && leaves_some_; }
  // All backwards make as many gradients: else one may be of another model, which no wrapper has.
  bool may_be_of_one_model() const { return models_.size() == 1 && gradients_.size() == 1; }
  const std::set<std::int64_t>& models() const { return models_; }  // that ran forward

 private:
  std::set<std::int64_t> models_;
  std::set<std::string> gradients_;  // how many a backward makes
  int ahead_ = 0;
  bool has_none_ahead_ = false;
  bool repeats_backward_ = false;  // two follow each other
  bool leaves_some_ = false;       // a forward begins while earlier ones wait, behind a backward
};

}  // namespace

std::optional<std::vector<MicroBatch>> pipelined(const std::vector<Turn>& turns) {
  const Order order(turns);
  if (!order.is_of_pipeline() || !order.may_be_of_one_model() || order.models().contains(0)) {
    return std::nullopt;
  }
  std::vector<MicroBatch> micro_batches;
  std::size_t next = 0;
  for (const Turn& turn : turns) {
    if (turn.interval->kind == EventKind::Forward) {
      MicroBatch& begun = micro_batches.emplace_back();
      begun.forwards = {turn.interval};
      begun.no_sync_at_forward = turn.no_sync;
      begun.is_unsynced = turn.is_unsynced;
      begun.is_pipelined = true;
      continue;
    }
    MicroBatch& ended = micro_batches[next++];
    ended.backwards = {turn.interval};
    ended.no_sync_at_backward = turn.no_sync;
    if (is_of_fsdp(ended)) ended.is_unsynced = turn.is_unsynced;
  }
  return micro_batches;
}

bool are_interleaved(const std::vector<Turn>& turns) {
  const Order order(turns);
  return order.goes_beyond_a_group() && order.models().size() > 1;
}

}  // namespace gradsync::watch
