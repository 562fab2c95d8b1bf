#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "harness/watch/inject/preload/event_kind.h"
#include "harness/watch/read/foreign/gradient_runs.h"

namespace gradsync::watch {
namespace {

constexpr const char* kUnsynced = "no_sync";

// A run of autograd with what led to it.
struct Run {
  GradientRun gradients;
  std::vector<std::size_t> forwards;  // of the events
  std::size_t step = 0;               // how many optimizers stepped before it
  bool is_behind_a_clearing = false;  // the first since an optimizer or a zero_grad
  bool is_of_ddp = false;
};

// Forwards of DDP with as many runs that answer them: one each, or several of which the first ran
// ahead of the run of the one before.
struct Turns {
  std::vector<std::size_t> forwards;  // of the events
  std::vector<const Run*> runs;

  bool wait() const { return forwards.size() > runs.size(); }

  // Who runs several models one behind the other looks the same. Where more than the last run
  // reduces, it makes a difference.
  bool may_be_of_one_model() const {
    return forwards.size() == runs.size() &&
           std::all_of(runs.begin(), std::prev(runs.end()), [&](const Run* run) {
             const GradientRun& gradients = run->gradients;
             return !gradients.copies && !gradients.copies_for_hook && run->step == runs[0]->step;
           });
  }
};

// Within a step the first backward of a model makes its gradients and the others add to them: so
// they are of one model. Where a backward adds to those of other sizes, these are parts of one
// model.
class ModelsBySize {
 public:
  // Takes runs by time; returns whether this one is of one model that is known by its sizes.
  bool see(const Run& run) {
    const GradientRun& gradients = run.gradients;
    if (run.is_behind_a_clearing) seen_.clear();
    const std::uint64_t own = model_of(run);
    const bool may_be_cut = run.step == 0;
    if (gradients.is_new() ? seen_.contains(own) : seen_.empty() && !may_be_cut) return false;
    if (gradients.gradients == 0) return false;
    if (!gradients.is_new() && !seen_.contains(own)) {
      for (const std::uint64_t other : seen_) {
        if (root_of(other) != own) same_as_[root_of(other)] = own;
      }
    }
    seen_.insert(own);
    return true;
  }

  std::uint64_t model_of(const Run& run) const { return root_of(run.gradients.sizes); }

  bool are_one(const std::vector<const Run*>& runs) const {
    return std::ranges::all_of(
        runs, [&](const Run* run) { return model_of(*run) == model_of(*runs.front()); });
  }

 private:
  std::uint64_t root_of(std::uint64_t sizes) const {
    while (same_as_.contains(sizes)) sizes = same_as_.at(sizes);
    return sizes;
  }

  std::map<std::uint64_t, std::uint64_t> same_as_;  // sizes, and those of the same model
  std::set<std::uint64_t> seen_;                    // since gradients were cleared
};

class Backwards {
 public:
  Backwards(const TraceFile& trace, RankEvents& rank)
      : trace_(trace), rank_(rank), events_(rank.events) {
    for (std::size_t i = 0; i < events_.size(); ++i) {
      if (events_[i].kind == EventKind::Forward) forwards_.push_back(i);
    }
  }

  void add() {
    find_runs();
    rank_.models_are_by_size = name_models();
    rank_.runs_ahead = replays_ || (!trace_.has_python && !rank_.models_are_by_size &&
                                    (run_ahead() || is_stage_of_a_pipeline()));
    say_who_was_told_not_to();
    add_clearings();
    add_backwards();
  }

 private:
  bool is_of_ddp(std::size_t event) const {
    return wrapper_named(events_[event].name).flag_read == FlagRead::InForward;
  }

  void find_runs() {
    std::size_t forward = 0;
    std::size_t boundary = 0;
    std::vector<const Event*> boundaries;
    for (const Event& event : events_) {
      if (event.kind == EventKind::OptimizerStep || event.kind == EventKind::ZeroGrad) {
        boundaries.push_back(&event);
      }
    }
    std::size_t step = 0;
    for (const GradientRun& gradients : gradient_runs(trace_)) {
      Run run{.gradients = gradients, .forwards = {}};
      run.is_behind_a_clearing = runs_.empty();
      for (; boundary < boundaries.size() && boundaries[boundary]->start_ns <= gradients.start_ns;
           ++boundary) {
        step += boundaries[boundary]->kind == EventKind::OptimizerStep ? 1 : 0;
        run.is_behind_a_clearing = true;
      }
      run.step = step;
      for (;
           forward < forwards_.size() && events_[forwards_[forward]].start_ns < gradients.start_ns;
           ++forward) {
        run.forwards.push_back(forwards_[forward]);
      }
      replays_ |= forward < forwards_.size() && is_of_ddp(forwards_[forward]) &&
                  events_[forwards_[forward]].start_ns < gradients.end_ns;
      run.is_of_ddp =
          std::ranges::any_of(run.forwards, [&](std::size_t i) { return is_of_ddp(i); });
      runs_.push_back(std::move(run));
    }
  }

  // Whether all steps but the first and the last, which may be cut, have as many runs.
  bool are_steps_alike() const {
    std::map<std::size_t, int> runs;  // by step
    for (const Run& run : runs_) ++runs[run.step];
    if (runs.size() < 3) return true;
    const auto first = std::next(runs.begin());
    return std::all_of(first, std::prev(runs.end()),
                       [&](const auto& step) { return step.second == first->second; });
  }

  // Whether a run answers a forward of DDP that ran before that of an earlier run of its step. Who
  // evaluates leaves forwards without a run, and each run has a forward of its own.
  bool run_ahead() const {
    std::ptrdiff_t ahead = 0;
    std::size_t step = 0;
    for (const Run& run : runs_) {
      if (run.step != step) ahead = 0;
      step = run.step;
      if (run.is_of_ddp) ahead += std::ssize(run.forwards);
      if (run.gradients.gradients == 0) continue;
      if (run.forwards.empty() && ahead > 0) return true;
      if (run.is_of_ddp) --ahead;
    }
    return false;
  }

  // Whose backwards may follow each other with nothing but what they wait for between them.
  bool is_stage_of_a_pipeline() const {
    return std::ranges::any_of(trace_.ranges, [](const TracedRange& range) {
      return range.name.starts_with("c10d::recv");
    });
  }

  // Nothing where it is not clear which forwards a run answers.
  std::optional<std::vector<Turns>> turns() const {
    std::vector<Turns> all;
    for (const Run& run : runs_) {
      const bool goes_on = !all.empty() && all.back().wait();
      if (!run.is_of_ddp && !(goes_on && run.forwards.empty())) continue;
      if (!goes_on) all.emplace_back();
      Turns& latest = all.back();
      latest.forwards.insert(latest.forwards.end(), run.forwards.begin(), run.forwards.end());
      latest.runs.push_back(&run);
    }
    if (!std::ranges::all_of(all, &Turns::may_be_of_one_model)) return std::nullopt;
    return all;
  }

  // Models by the sizes of their gradients, where the file names none.
  bool name_models() {
    if (trace_.has_python || (!trace_.has_shapes && !are_steps_alike())) return false;
    const auto all = turns();
    if (!all) return false;
    ModelsBySize models;
    for (const Turns& turn : *all) {
      const auto fits = [&](const Run* run) { return models.see(*run); };
      if (!std::ranges::all_of(turn.runs, fits)) return false;
    }
    const auto is_of_one = [&](const Turns& turn) { return models.are_one(turn.runs); };
    if (!std::ranges::all_of(*all, is_of_one)) return false;
    for (const Turns& turn : *all) {
      const std::uint64_t model = models.model_of(*turn.runs.front());
      for (const std::size_t i : turn.forwards) {
        events_[i].object = static_cast<std::int64_t>(model >> 1 | 1);
      }
    }
    return true;
  }

  // Returns whether each backward follows a forward of its own: else no_sync around one of several
  // forwards may not be around the backward that counts. The first step may lack its beginning.
  bool take_turns() const {
    return std::ranges::all_of(runs_, [](const Run& run) {
      return run.step == 0 || run.gradients.gradients == 0 || run.forwards.size() == 1;
    });
  }

  // DDP copies gradients into buckets, unless they lie there already: under a communication hook
  // nothing is left to be seen then.
  void say_who_was_told_not_to() {
    const bool copies = std::ranges::any_of(
        runs_, [](const Run& run) { return run.is_of_ddp && run.gradients.copies; });
    const bool has_hook =
        std::ranges::any_of(runs_, [](const Run& run) { return run.gradients.copies_for_hook; });
    bool may_lie_there = true;
    const bool is_clear_of_which = take_turns();
    for (const Run& run : runs_) {
      const GradientRun& gradients = run.gradients;
      if (!is_clear_of_which || !run.is_of_ddp || gradients.gradients == 0) continue;
      if (run.is_behind_a_clearing) may_lie_there = !gradients.is_new();
      if (gradients.copies || gradients.copies_for_hook) {
        may_lie_there = true;
      } else if (!may_lie_there || (copies && !has_hook)) {
        for (const std::size_t i : run.forwards) events_[i].detail = kUnsynced;
      }
    }
    if (!has_hook) return;
    const auto first =
        std::ranges::find_if(runs_, [](const Run& run) { return run.gradients.copies_for_hook; });
    Event event;
    event.kind = EventKind::CommHook;
    event.start_ns = event.end_ns = first->gradients.start_ns;
    events_.push_back(std::move(event));
  }

  void add_between(EventKind kind, std::int64_t at_ns, const char* detail,
                   std::string_view name = {}) {
    Event event;
    event.kind = kind;
    event.start_ns = event.end_ns = at_ns;
    event.detail = detail;
    event.name = name;
    events_.push_back(std::move(event));
  }

  void add_clearings() {
    std::set<std::int64_t> seen;  // models with gradients
    bool has_shards = false;
    for (const Run& run : runs_) {
      if (run.is_behind_a_clearing) {
        seen.clear();
        has_shards = false;
      }
      if (run.gradients.reduces_shards && !run.gradients.adds_shards && has_shards) {
        add_between(EventKind::GradientUse, run.gradients.start_ns - 1, kUnclear);
      }
      has_shards |= run.gradients.reduces_shards;
      std::set<std::int64_t> models;
      for (const std::size_t i : run.forwards) models.insert(events_[i].object);
      for (const std::int64_t model : models) {
        const bool is_known = run.is_of_ddp && model != 0;
        if (is_known && run.gradients.is_new() && seen.contains(model)) {
          add_between(EventKind::ZeroGrad, run.gradients.start_ns - 1, kByHand);
        }
        seen.insert(model);
      }
      if (!run.gradients.touched_by.empty()) {
        add_between(EventKind::GradientUse, run.gradients.end_ns + 1, kUnclear,
                    run.gradients.touched_by);
      }
    }
  }

  void add_backwards() {
    for (const Run& run : runs_) {
      Event event;
      event.kind = EventKind::Backward;
      event.start_ns = run.gradients.start_ns;
      event.end_ns = run.gradients.end_ns;
      event.thread = run.gradients.thread;
      event.name = "backward";
      event.detail = std::to_string(run.gradients.gradients);
      events_.push_back(std::move(event));
    }
  }

  const TraceFile& trace_;
  RankEvents& rank_;
  std::vector<Event>& events_;
  std::vector<std::size_t> forwards_;  // of the events
  std::vector<Run> runs_;
  bool replays_ = false;  // a forward of DDP runs within a backward
};

}  // namespace

void add_backwards(const TraceFile& trace, RankEvents& rank) {
  Backwards(trace, rank).add();
}

}  // namespace gradsync::watch
