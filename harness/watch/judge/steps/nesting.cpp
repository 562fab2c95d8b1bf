#include "harness/watch/judge/steps/nesting.h"

#include <algorithm>
#include <span>

#include "harness/watch/judge/steps/steps.h"

namespace gradsync::watch {
namespace {

using EventPointers = std::vector<const Event*>;

bool has_gradient(const Event& forward) {
  return forward.kind == EventKind::Forward && !has_word(forward, "no_grad");
}

bool is_after(const Event& event, const Event& interval) {
  return event.start_ns >= interval.end_ns;
}

EventPointers of_kind(const std::vector<Event>& events, EventKind kind) {
  EventPointers found;
  for (const Event& event : events) {
    if (event.kind == kind && !accumulates_nothing(event)) found.push_back(&event);
  }
  return found;
}

// Those that are within no earlier one.
std::set<const Event*> outermost(const EventPointers& events) {
  std::set<const Event*> kept;
  const Event* last = nullptr;
  for (const Event* event : events) {
    if (last != nullptr && contains(*last, *event)) continue;
    kept.insert(event);
    last = event;
  }
  return kept;
}

EventPointers by_time(const std::vector<Event>& events) {
  EventPointers order;
  for (const EventKind kind :
       {EventKind::Backward, EventKind::Forward, EventKind::InnerForward, EventKind::OptimizerStep,
        EventKind::ZeroGrad, EventKind::GradientUse, EventKind::NoSyncEnter, EventKind::NoSyncLeave,
        EventKind::Sync}) {
    const EventPointers more = of_kind(events, kind);
    order.insert(order.end(), more.begin(), more.end());
  }
  const auto time = [](const Event* event) {
    return event->kind == EventKind::OptimizerStep ? event->end_ns : event->start_ns;
  };
  std::ranges::stable_sort(order, {}, time);
  return order;
}

// Returns the first forward with a gradient within `backward` that has a backward behind it there;
// null where there is none. `behind`: what comes after its begin.
const Event* replayed_forward(const Event& backward, std::span<const Event* const> behind) {
  const Event* forward = nullptr;
  for (const Event* event : behind) {
    if (is_after(*event, backward)) break;
    if (!contains(backward, *event)) continue;
    if (forward == nullptr && has_gradient(*event)) forward = event;
    const bool is_backward = event->kind == EventKind::Backward;
    if (is_backward && forward != nullptr && is_after(*event, *forward)) return forward;
  }
  return nullptr;
}

// Whether an optimizer steps within `forward`, and a backward of the forward itself comes behind.
bool trains_another(const Event& forward, std::span<const Event* const> behind) {
  bool has_step = false;
  for (const Event* event : behind) {
    const bool is_step = event->kind == EventKind::OptimizerStep;
    if (contains(forward, *event)) {
      has_step |= is_step;
      continue;
    }
    if (!is_after(*event, forward)) continue;
    if (!has_step || is_step || has_gradient(*event)) return false;
    if (event->kind == EventKind::Backward) return true;
  }
  return false;
}

class Nesting {
 public:
  explicit Nesting(const std::vector<Event>& events)
      : all_(by_time(events)), steps_(outermost(of_kind(events, EventKind::OptimizerStep))) {
    for (std::size_t i = 0; i < all_.size(); ++i) {
      if (cuts(*all_[i], std::span(all_).subspan(i + 1))) order_.events.push_back(all_[i]);
    }
  }

  CuttingOrder take() { return std::move(order_); }

 private:
  using Behind = std::span<const Event* const>;

  static bool is_within(const Event* outer, const Event& event) {
    return outer != nullptr && contains(*outer, event);
  }

  // A part of a backward, or of a replay within it.
  bool is_recomputed(const Event& event) const {
    return is_within(backward_, event) && (!replays_ || is_within(replay_, event));
  }

  bool cuts(const Event& event, Behind behind) {
    switch (event.kind) {
      case EventKind::Forward:
        return cuts_as_forward(event, behind);
      case EventKind::InnerForward:
        return !is_recomputed(event) && !is_within(training_, event);
      case EventKind::Backward:
        return cuts_as_backward(event, behind);
      case EventKind::OptimizerStep:
        if (!steps_.contains(&event) || is_within(training_, event)) return false;
        has_open_forward_ = false;
        return true;
      case EventKind::ZeroGrad:
      case EventKind::GradientUse:
        return !is_within(training_, event);
      default:
        return true;
    }
  }

  bool cuts_as_forward(const Event& forward, Behind behind) {
    if (is_recomputed(forward) || is_within(forward_, forward)) return false;
    forward_ = &forward;
    if (has_gradient(forward)) {
      has_open_forward_ |= !is_within(backward_, forward);
      if (trains_another(forward, behind)) training_ = &forward;
    }
    return true;
  }

  bool cuts_as_backward(const Event& backward, Behind behind) {
    if (is_within(training_, backward) || is_recomputed(backward)) return false;
    if (is_within(backward_, backward)) {
      replay_ = &backward;
      order_.replays.insert(&backward);
      return true;
    }
    backward_ = &backward;
    order_.backwards.push_back(&backward);
    const Event* replayed = replayed_forward(backward, behind);
    replays_ = replayed != nullptr && !has_open_forward_;
    // A sharded one may be a unit that is recomputed.
    if (replayed != nullptr && !replays_ && !wrapper_named(replayed->name).is_sharded) {
      order_.with_replays[&backward] = replayed;
    }
    return !replays_;
  }

  EventPointers all_;
  std::set<const Event*> steps_;  // within no other
  CuttingOrder order_;
  const Event* forward_ = nullptr;   // the last that cuts
  const Event* training_ = nullptr;  // the last forward within which another model is trained
  const Event* backward_ = nullptr;  // the last that is within no other
  const Event* replay_ = nullptr;    // the last within it
  bool replays_ = false;             // what is within the backward cuts
  bool has_open_forward_ = false;    // one with a gradient and no replay, since the last step
};

}  // namespace

bool contains(const Event& outer, const Event& inner) {
  return outer.start_ns <= inner.start_ns && inner.end_ns <= outer.end_ns;
}

CuttingOrder cutting_order(const std::vector<Event>& events) {
  return Nesting(events).take();
}

}  // namespace gradsync::watch
