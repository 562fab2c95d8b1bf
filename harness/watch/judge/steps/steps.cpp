#include "harness/watch/judge/steps/steps.h"

#include <algorithm>
#include <utility>

#include "harness/watch/judge/steps/nesting.h"
#include "harness/watch/judge/steps/pipelined.h"
#include "harness/watch/judge/steps/unwrapped.h"

namespace gradsync::watch {

namespace {

using EventPointers = std::vector<const Event*>;

bool is_sharded(const Event& forward) {
  return wrapper_named(forward.name).is_sharded;
}

// Which no_sync are open as the events go by.
class OpenNoSyncs {
 public:
  void see(const Event& event) {
    if (event.kind == EventKind::NoSyncEnter) {
      open_.push_back(&event);
      return;
    }
    const auto entered = std::find_if(open_.rbegin(), open_.rend(), [&](const Event* enter) {
      return enter->object == event.object && enter->thread == event.thread;
    });
    if (entered != open_.rend()) open_.erase(std::next(entered).base());
  }

  // The last entered; null where none is open.
  const Event* innermost() const { return open_.empty() ? nullptr : open_.back(); }

  // Whether one is open of this model, or may be.
  bool covers(std::int64_t model) const {
    return std::any_of(open_.begin(), open_.end(), [&](const Event* enter) {
      return model == 0 || enter->object == 0 || enter->object == model;
    });
  }

 private:
  EventPointers open_;
};

// Where an interval of forward or backward ended up.
struct Place {
  const Event* interval = nullptr;
  std::size_t step = 0;
  std::size_t micro_batch = 0;
  bool is_evaluation = false;
};

// Takes events in the order of their time; optimizers in that of their end, so that what an
// optimizer runs by itself comes before it.
class Cutter {
 public:
  // `has_optimizers`: of torch's; else the job steps where it changes parameters.
  Cutter(const CuttingOrder& order, bool has_optimizers)
      : order_(order), has_optimizers_(has_optimizers) {}

  void see(const Event& event) {
    switch (event.kind) {
      case EventKind::Forward:
        return see_forward(event);
      case EventKind::InnerForward:
        return see_inner_forward(event);
      case EventKind::Backward:
        return see_backward(event);
      case EventKind::OptimizerStep:
        return see_optimizer(event);
      case EventKind::GradientUse:
        return is_step_by_hand(event) ? see_optimizer(event) : see_clearing(event);
      case EventKind::ZeroGrad:
        return see_clearing(event);
      case EventKind::Sync:
        if (is_of_gradients(event)) flags_[event.object] = event.detail == "true";
        return;
      default:
        return no_syncs_.see(event);
    }
  }

  // Ends with what was begun; call it once, last.
  void finish() {
    close_micro_batch();
    if (!step_.micro_batches.empty() || step_.evaluation_forwards > 0) close_step();
  }

  std::vector<Step>& steps() { return steps_; }
  const std::vector<Place>& places() const { return places_; }  // by time

 private:
  void see_forward(const Event& forward) {
    begin(forward);
    if (has_word(forward, "no_grad")) {
      ++step_.evaluation_forwards;
      places_.push_back({&forward, steps_.size(), 0, true});
      return;
    }
    if (!open_.backwards.empty()) close_micro_batch();
    if (open_.forwards.empty()) {
      open_.no_sync_at_forward = no_syncs_.innermost();
      open_.is_unsynced = true;
      first_place_ = places_.size();
    }
    const bool is_told = has_word(forward, "no_sync") || no_syncs_.covers(forward.object);
    open_.is_unsynced = open_.is_unsynced && (is_of_fsdp(forward) || is_told);
    open_.forwards.push_back(&forward);
    turns_.push_back({&forward, no_syncs_.innermost(), is_told});
    add_place(forward);
  }

  void see_inner_forward(const Event& forward) {
    if (has_word(forward, "no_grad") || open_.forwards.empty() || !open_.backwards.empty()) return;
    open_.inner_forwards.push_back(&forward);
    const bool is_told = has_word(forward, "no_sync") || no_syncs_.covers(forward.object);
    open_.is_unsynced = open_.is_unsynced && is_told;
  }

  // Returns whether synchronization is off in the backward of a model under FSDP, which reads its
  // flag there.
  bool is_told_in_backward(const Event& forward) const {
    return no_syncs_.covers(forward.object) || is_flagged_off(forward.object);
  }

  void see_backward(const Event& backward) {
    begin(backward);
    // Without a forward, each run of autograd is taken for a micro-batch of its own.
    if (open_.forwards.empty() && !open_.backwards.empty()) close_micro_batch();
    if (open_.backwards.empty()) {
      open_.no_sync_at_backward = no_syncs_.innermost();
      open_.is_unsynced =
          open_.is_unsynced &&
          std::all_of(open_.forwards.begin(), open_.forwards.end(), [&](const Event* forward) {
            return !is_of_fsdp(*forward) || is_told_in_backward(*forward);
          });
    }
    open_.backwards.push_back(&backward);
    open_.is_replayed = order_.replays.contains(&backward);
    const auto replays = order_.with_replays.find(&backward);
    if (replays != order_.with_replays.end()) step_.replayed_beside = replays->second;
    const bool is_told = !open_.forwards.empty() && is_told_in_backward(*open_.forwards.front());
    turns_.push_back({&backward, no_syncs_.innermost(), is_told});
    if (clearing_ != nullptr) step_.clearings.push_back(std::exchange(clearing_, nullptr));
    add_place(backward);
  }

  void see_optimizer(const Event& optimizer) {
    close_micro_batch();
    clearing_ = nullptr;
    if (!step_.micro_batches.empty()) {
      extend(step_, optimizer);
      step_.is_complete = true;
      close_step();
    } else if (!steps_.empty()) {  // another optimizer of the same step
      extend(steps_.back(), optimizer);
      step_.start_ns = steps_.back().end_ns;
    }
  }

  // Only one that a backward of the same step precedes and another one follows is between two.
  // A use tells less than what came before it: who reads a gradient may change parameters by it.
  void see_clearing(const Event& clearing) {
    if (step_.micro_batches.empty() && open_.backwards.empty()) return;
    if (clearing.kind == EventKind::ZeroGrad || clearing_ == nullptr) clearing_ = &clearing;
  }

  // Not one between a forward and its backward.
  bool is_step_by_hand(const Event& use) const {
    const bool waits = !open_.forwards.empty() && open_.backwards.empty();
    return !has_optimizers_ && use.detail == kParameters && !waits;
  }

  bool is_flagged_off(std::int64_t model) const {
    const auto flag = flags_.find(model);
    return flag != flags_.end() && !flag->second;
  }

  void begin(const Event& event) {
    if (!has_begun_) step_.start_ns = event.start_ns;
    has_begun_ = true;
  }

  void add_place(const Event& interval) {
    places_.push_back({&interval, steps_.size(), step_.micro_batches.size(), false});
  }

  // Forwards without a backward were evaluation.
  void close_micro_batch() {
    if (!open_.backwards.empty()) {
      step_.micro_batches.push_back(std::move(open_));
    } else if (!open_.forwards.empty()) {
      step_.evaluation_forwards += static_cast<int>(open_.forwards.size());
      turns_.resize(turns_.size() - open_.forwards.size());
      for (std::size_t i = first_place_; i < places_.size(); ++i) places_[i].is_evaluation = true;
    }
    open_ = {};
  }

  void extend(Step& step, const Event& optimizer) const {
    step.is_skipped =
        has_word(optimizer, "skipped") && (step.optimizers.empty() || step.is_skipped);
    step.optimizers.push_back(&optimizer);
    step.end_ns = std::max(step.end_ns, optimizer.end_ns);
    auto inside =
        std::ranges::lower_bound(order_.backwards, optimizer.start_ns, {},
                                 [](const Event* backward) { return backward->start_ns; });
    int runs = 0;
    for (; inside != order_.backwards.end() && contains(optimizer, **inside); ++inside) {
      step.in_closure = *inside;
      ++runs;
    }
    // Who counted how often a closure ran knows better: one run may have all micro-batches.
    const auto closures = word_value(optimizer, "closures");
    step.repeats_closure |= closures ? *closures != "0" && *closures != "1" : runs > 1;
  }

  // The micro-batches of a pipeline's stage, in place of those that were cut.
  void cut_pipeline() {
    step_.is_interleaved = are_interleaved(turns_);
    if (auto micro_batches = pipelined(turns_)) {
      step_.micro_batches = std::move(*micro_batches);
      move_places();
    }
    turns_.clear();
  }

  // To the micro-batches that the step has now.
  void move_places() {
    std::map<const Event*, std::size_t> moved;
    for (std::size_t i = 0; i < step_.micro_batches.size(); ++i) {
      moved[step_.micro_batches[i].forwards.front()] = i;
      moved[step_.micro_batches[i].backwards.front()] = i;
    }
    for (auto place = places_.rbegin(); place != places_.rend(); ++place) {
      if (place->step != steps_.size()) return;  // of the step before
      const auto found = moved.find(place->interval);
      if (found != moved.end()) place->micro_batch = found->second;
    }
  }

  void close_step() {
    cut_pipeline();
    const std::int64_t end_ns = step_.end_ns;
    steps_.push_back(std::move(step_));
    step_ = {};
    step_.start_ns = end_ns;
  }

  const CuttingOrder& order_;
  const bool has_optimizers_;
  OpenNoSyncs no_syncs_;
  std::map<std::int64_t, bool> flags_;  // FSDP2's, by model: whether gradients synchronize
  std::vector<Step> steps_;
  std::vector<Place> places_;
  std::size_t first_place_ = 0;  // of the micro-batch that is open
  Step step_;
  std::vector<Turn> turns_;  // of the step
  MicroBatch open_;
  const Event* clearing_ = nullptr;
  bool has_begun_ = false;
};

// Puts a collective where it was issued. Collectives must come by time.
class Placer {
 public:
  explicit Placer(Cutter& cutter) : cutter_(cutter) {}

  void place(const Event& collective, Steps& into) {
    const auto& places = cutter_.places();
    const std::int64_t at_ns = collective.start_ns;
    while (next_ < places.size() && places[next_].interval->end_ns < at_ns) ++next_;
    const Place* innermost = nullptr;  // a backward may be within a forward
    for (std::size_t i = next_; i < places.size() && places[i].interval->start_ns <= at_ns; ++i) {
      if (at_ns <= places[i].interval->end_ns) innermost = &places[i];
    }
    if (innermost != nullptr) return put_into(*innermost, collective);
    if (places.empty() || at_ns < places.front().interval->start_ns) {
      into.set_up.push_back(&collective);
      return;
    }
    std::vector<Step>& steps = cutter_.steps();
    while (step_ < steps.size() && steps[step_].is_complete && steps[step_].end_ns < at_ns) {
      ++step_;
    }
    (step_ < steps.size() ? steps[step_].outside : into.closing).push_back(&collective);
  }

 private:
  void put_into(const Place& place, const Event& collective) {
    Step& step = cutter_.steps()[place.step];
    if (place.is_evaluation) {
      step.in_evaluation.push_back(&collective);
      return;
    }
    MicroBatch& micro_batch = step.micro_batches[place.micro_batch];
    const bool in_backward = place.interval->kind == EventKind::Backward;
    (in_backward ? micro_batch.in_backward : micro_batch.in_forward).push_back(&collective);
  }

  Cutter& cutter_;
  std::size_t next_ = 0;  // of the places
  std::size_t step_ = 0;
};

}  // namespace

Steps cut_into_steps(const std::vector<Event>& events) {
  const CuttingOrder order = cutting_order(events);
  const bool has_optimizers = std::ranges::any_of(
      events, [](const Event& event) { return event.kind == EventKind::OptimizerStep; });
  Cutter cutter(order, has_optimizers);
  for (const Event* event : order.events) cutter.see(*event);
  cutter.finish();
  Steps steps;
  Placer placer(cutter);
  for (const Event& event : events) {
    if (event.kind == EventKind::Collective) placer.place(event, steps);
    if (event.kind == EventKind::Wrap && event.object != 0 && event.bytes >= 0) {
      steps.gradient_bytes[event.object] = event.bytes;
    }
  }
  steps.steps = std::move(cutter.steps());
  find_reductions(steps);
  return steps;
}

bool is_of_fsdp(const Event& forward) {
  return wrapper_named(forward.name).flag_read == FlagRead::InBackward;
}

bool is_of_fsdp(const MicroBatch& micro_batch) {
  return std::ranges::any_of(micro_batch.forwards,
                             [](const Event* forward) { return is_of_fsdp(*forward); });
}

bool is_sharded(const MicroBatch& micro_batch) {
  return std::ranges::any_of(micro_batch.forwards,
                             [](const Event* forward) { return is_sharded(*forward); });
}

bool is_of_gradients(const Event& flag) {
  return flag.name.empty() || flag.name == kGradientFlag;
}

OpSums collectives_of(const Step& step) {
  OpSums sums;
  const auto add_all = [&](const EventPointers& collectives) {
    for (const Event* collective : collectives) add(sums, *collective);
  };
  for (const MicroBatch& micro_batch : step.micro_batches) {
    add_all(micro_batch.in_forward);
    add_all(micro_batch.in_backward);
  }
  add_all(step.in_evaluation);
  add_all(step.outside);
  return sums;
}

bool has_word(const Event& event, std::string_view word) {
  const std::string_view detail = event.detail;
  for (std::size_t at = detail.find(word); at != std::string_view::npos;
       at = detail.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || detail[at - 1] == ' ') && (end == detail.size() || detail[end] == ' ')) {
      return true;
    }
  }
  return false;
}

std::optional<std::string_view> word_value(const Event& event, std::string_view name) {
  const std::string_view detail = event.detail;
  for (std::size_t at = 0; at < detail.size();) {
    const std::size_t end = std::min(detail.find(' ', at), detail.size());
    const std::string_view word = detail.substr(at, end - at);
    if (word.starts_with(name) && word.substr(name.size()).starts_with('=')) {
      return word.substr(name.size() + 1);
    }
    at = end + 1;
  }
  return std::nullopt;
}

}  // namespace gradsync::watch
