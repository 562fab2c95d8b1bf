#include "harness/watch/foreign/kineto.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/watch/events/group_roles.h"
#include "harness/watch/foreign/element_bytes.h"
#include "harness/watch/foreign/gradient_runs.h"
#include "harness/watch/preload/c10d_operations.h"
#include "harness/watch/preload/fnv_1a.h"
#include "harness/watch/preload/torch_ranges.h"

namespace gradsync::watch {
namespace {

constexpr std::string_view kC10d = "c10d::";
constexpr std::string_view kGloo = "gloo:";
constexpr std::string_view kZeroGrad = "Optimizer.zero_grad#";
constexpr std::string_view kModule = "nn.Module: ";
constexpr std::string_view kSearch = "torch.distributed.ddp.reducer::search_unused_parameters";
constexpr const char* kDdp = "DistributedDataParallel";
constexpr int kFewestForReplicas = 4;  // two shards, each of them twice
constexpr const char* kUnsynced = "no_sync";
// A gradient scaler that skips an optimizer leaves no range of it.
constexpr const char* kClearing = "zero_grad, behind a step that a scaler may have skipped,";

Event event_of(const TracedRange& range, EventKind kind, std::string name) {
  Event event;
  event.kind = kind;
  event.start_ns = range.start_ns;
  event.end_ns = range.end_ns;
  event.thread = range.thread;
  event.name = std::move(name);
  return event;
}

// "SGD" of "Optimizer.step#SGD.step".
std::string optimizer_of(std::string_view range, std::string_view prefix) {
  const std::string_view name = range.substr(prefix.size());
  return std::string(name.substr(0, name.rfind('.')));
}

// Returns -1 where it is not told.
// `type`: of tensors in lists, of which the profiler tells none.
std::int64_t bytes_of(const TracedInputs* inputs, const C10dOperation& operation,
                      std::string_view type = {}) {
  if (operation.sized == kNoSize) return 0;
  const auto place = static_cast<std::size_t>(operation.sized);
  if (inputs == nullptr || place >= inputs->size() || (*inputs)[place].empty()) return -1;
  std::int64_t bytes = 0;
  for (const TracedTensor& tensor : (*inputs)[place]) {
    const std::string_view own = tensor.type;
    bytes = sum_of_known(bytes, tensor_bytes(own.empty() ? type : own, tensor.sizes));
  }
  return bytes;
}

std::int64_t bytes_of(const TracedComm& comm, const C10dOperation& operation) {
  const std::int64_t elements =
      is_sized_by_output(operation.name) ? comm.out_elements : comm.in_elements;
  return elements < 0 ? -1 : tensor_bytes(comm.type, {elements});
}

// A run of autograd with what led to it.
struct Run {
  GradientRun gradients;
  std::vector<std::size_t> forwards;  // of the events
  std::size_t step = 0;               // how many optimizers stepped before it
  bool is_behind_a_clearing = false;  // the first since an optimizer or a zero_grad
  bool is_of_ddp = false;
};

class Reader {
 public:
  explicit Reader(const TraceFile& trace) : trace_(trace) {}

  RankEvents read() {
    rank_.rank = trace_.rank;
    rank_.world_size = trace_.world_size;
    rank_.pid = trace_.pid;
    rank_.groups = trace_.groups;
    rank_.file_kind = kTraceKind;
    for (const TracedRange& range : trace_.ranges) see(range);
    find_runs();
    name_models();
    say_who_was_told_not_to();
    add_clearings();
    add_backwards();
    add_wraps();
    find_ends();
    forget_doubtful_groups();
    for (const Collective& each : collectives_) rank_.events.push_back(each.event);
    sort_by_time(rank_.events);
    name_replicas();
    assign_roles(rank_);
    drop_cut_beginning();
    say_what_is_lacking();
    return std::move(rank_);
  }

 private:
  struct Collective {
    Event event;
    const TracedRange* range;
    std::string_view op;         // c10d's own name
    bool is_group_told = false;  // by the collective itself
  };

  void see(const TracedRange& range) {
    if (range.kind == TracedKind::PythonFunction) {
      if (range.name.starts_with(kModule)) see_module(range);
      return;
    }
    if (range.name.starts_with(kC10d)) return see_collective(range);
    if (range.name.starts_with(kGloo)) {
      gloo_[std::string(range.name.substr(kGloo.size()))].push_back(&range);
    } else if (range.comm != nullptr) {
      see_comm(range);
    } else if (range.name == kSearch) {
      searches_.push_back(&range);
    } else if (is_forward(range)) {
      see_forward(range);
    } else if (range.kind == TracedKind::Annotation && range.name.starts_with(kOptimizer)) {
      rank_.events.push_back(
          event_of(range, EventKind::OptimizerStep, optimizer_of(range.name, kOptimizer)));
    } else if (range.kind == TracedKind::Annotation && range.name.starts_with(kZeroGrad)) {
      rank_.events.push_back(event_of(range, EventKind::ZeroGrad, kClearing));
      rank_.events.back().detail = kUnclear;
    }
  }

  void see_forward(const TracedRange& range) {
    if (forward_ != nullptr && forward_->contains(range)) return;  // of a unit inside
    forward_ = &range;
    Event event = event_of(range, EventKind::Forward, std::string(wrapper_of_range(range.name)));
    if (const TracedRange* module = module_around(range)) {
      event.object = nonzero_fnv_1a(module->name);
    }
    forwards_.push_back(rank_.events.size());
    rank_.events.push_back(std::move(event));
  }

  void see_module(const TracedRange& range) {
    auto& open = modules_[range.thread];
    while (!open.empty() && !open.back()->contains(range)) open.pop_back();
    open.push_back(&range);
  }

  // The innermost module that runs; null: modules are not in the file.
  const TracedRange* module_around(const TracedRange& range) const {
    const auto of_thread = modules_.find(range.thread);
    if (of_thread == modules_.end()) return nullptr;
    const auto& open = of_thread->second;
    const auto inner = std::find_if(open.rbegin(), open.rend(), [&](const TracedRange* module) {
      return module->contains(range);
    });
    return inner == open.rend() ? nullptr : *inner;
  }

  // The collective that runs on this range's thread when it begins; null: none does.
  Collective* collective_around(const TracedRange& range) {
    const auto last = last_collective_.find(range.thread);
    if (last == last_collective_.end()) return nullptr;
    Collective& collective = collectives_[last->second];
    return collective.range->contains(range) ? &collective : nullptr;
  }

  void see_collective(const TracedRange& range) {
    const std::string_view op = range.name.substr(kC10d.size());
    if (op == kNotCollective || collective_around(range) != nullptr) return;
    const C10dOperation operation = c10d_operation(op);
    Event event = event_of(range, EventKind::Collective, std::string(operation.name));
    event.issued_ns = range.end_ns;
    event.end_ns = range.start_ns;
    event.bytes = bytes_of(range.inputs, operation);
    if (trace_.groups.size() == 1) {
      event.detail = trace_.groups.front().name;
      event.object = trace_.groups.front().number;
    }
    last_collective_[range.thread] = collectives_.size();
    collectives_.push_back({std::move(event), &range, op});
  }

  void see_comm(const TracedRange& range) {
    rank_.world_size = std::max(rank_.world_size, range.comm->group_size);
    Collective* const around = collective_around(range);
    if (around == nullptr) return;
    Event& event = around->event;
    if (event.bytes < 0) event.bytes = bytes_of(*range.comm, c10d_operation(around->op));
    if (range.comm->group.empty()) return;
    around->is_group_told = true;
    event.detail = range.comm->group;
    event.object = nonzero_fnv_1a(range.comm->group);
  }

  void find_runs() {
    std::size_t forward = 0;
    std::size_t boundary = 0;
    std::vector<const Event*> boundaries;
    for (const Event& event : rank_.events) {
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
      for (; forward < forwards_.size() &&
             rank_.events[forwards_[forward]].start_ns < gradients.start_ns;
           ++forward) {
        run.forwards.push_back(forwards_[forward]);
      }
      run.is_of_ddp = std::ranges::any_of(
          run.forwards, [&](std::size_t i) { return rank_.events[i].name == kDdp; });
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

  // Models by the sizes of their gradients, where the file names none. Within a step the first
  // backward of a model makes its gradients and the others add to them: so they are of one model.
  // Where a backward adds to those of other sizes, these are parts of one model.
  void name_models() {
    if (trace_.has_python || (!trace_.has_shapes && !are_steps_alike())) return;
    std::map<std::uint64_t, std::uint64_t> same_as;  // sizes, and those of the same model
    const auto root_of = [&](std::uint64_t sizes) {
      while (same_as.contains(sizes)) sizes = same_as.at(sizes);
      return sizes;
    };
    std::set<std::uint64_t> seen;  // since gradients were cleared
    for (const Run& run : runs_) {
      if (!run.is_of_ddp) continue;
      const GradientRun& gradients = run.gradients;
      if (run.is_behind_a_clearing) seen.clear();
      const std::uint64_t own = root_of(gradients.sizes);
      const bool may_be_cut = run.step == 0;
      if (gradients.is_new() ? seen.contains(own) : seen.empty() && !may_be_cut) return;
      if (gradients.gradients == 0 || run.forwards.size() != 1) return;
      if (!gradients.is_new() && !seen.contains(own)) {
        for (const std::uint64_t other : seen) {
          if (root_of(other) != own) same_as[root_of(other)] = own;
        }
      }
      seen.insert(own);
    }
    rank_.models_are_by_size = true;
    for (const Run& run : runs_) {
      if (!run.is_of_ddp) continue;
      for (const std::size_t i : run.forwards) {
        rank_.events[i].object = static_cast<std::int64_t>(root_of(run.gradients.sizes) >> 1 | 1);
      }
    }
  }

  // Whether each backward follows a forward of its own: else no_sync around one of several forwards
  // may not be around the backward that counts. Of the first step the beginning may be missing.
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
        for (const std::size_t i : run.forwards) rank_.events[i].detail = kUnsynced;
      }
    }
    if (!has_hook) return;
    const auto first =
        std::ranges::find_if(runs_, [](const Run& run) { return run.gradients.copies_for_hook; });
    Event event;
    event.kind = EventKind::CommHook;
    event.start_ns = event.end_ns = first->gradients.start_ns;
    rank_.events.push_back(std::move(event));
  }

  void add_between(EventKind kind, std::int64_t at_ns, const char* detail,
                   std::string_view name = {}) {
    Event event;
    event.kind = kind;
    event.start_ns = event.end_ns = at_ns;
    event.detail = detail;
    event.name = name;
    rank_.events.push_back(std::move(event));
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
      for (const std::size_t i : run.forwards) {
        const std::int64_t model = rank_.events[i].object;
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
      rank_.events.push_back(std::move(event));
    }
  }

  // Of how a model was wrapped only what it then does in every step is there.
  void add_wraps() {
    std::set<std::int64_t> models;
    for (const std::size_t i : forwards_) {
      const Event& forward = rank_.events[i];
      const bool searches = std::ranges::any_of(searches_, [&](const TracedRange* search) {
        return forward.start_ns <= search->start_ns && search->end_ns <= forward.end_ns;
      });
      if (searches) models.insert(forward.object);
    }
    models.erase(0);
    for (const std::int64_t model : models) {
      Event event;
      event.kind = EventKind::Wrap;
      event.name = kDdp;
      event.object = model;
      event.detail = "find_unused_parameters=true";
      rank_.events.push_back(std::move(event));
    }
  }

  // Gloo's threads open a range for each collective, in the order in which they were begun in a
  // group, and end it when it is complete.
  void find_ends() {
    std::map<std::string, std::vector<Collective*>> by_range;
    for (Collective& each : collectives_) {
      // Gloo all-reduces what it is to scatter.
      const bool scatters = each.event.name == "reduce_scatter" && !gloo_.contains(each.event.name);
      by_range[scatters ? "all_reduce" : each.event.name].push_back(&each);
    }
    for (const auto& [name, collectives] : by_range) {
      const auto ranges = gloo_.find(name);
      if (ranges == gloo_.end() || ranges->second.size() != collectives.size()) continue;
      if (trace_.groups.size() != 1 && !are_of_one_type(ranges->second)) continue;
      for (std::size_t i = 0; i < collectives.size(); ++i) {
        take_end(*collectives[i], *ranges->second[i]);
      }
    }
  }

  // "": it is not told.
  static std::string_view type_of(const TracedRange& range) {
    const bool is_told =
        range.inputs != nullptr && !range.inputs->empty() && !range.inputs->front().empty();
    return is_told ? std::string_view(range.inputs->front().front().type) : std::string_view();
  }

  static bool are_of_one_type(const std::vector<const TracedRange*>& ranges) {
    return std::ranges::all_of(ranges, [&](const TracedRange* each) {
      return type_of(*each) == type_of(*ranges.front());
    });
  }

  // Several groups have threads of their own, and no order among each other.
  void take_end(Collective& collective, const TracedRange& range) const {
    Event& event = collective.event;
    if (trace_.groups.size() == 1) event.end_ns = std::max(event.start_ns, range.end_ns);
    if (event.bytes >= 0) return;
    event.bytes = bytes_of(collective.range->inputs, c10d_operation(collective.op), type_of(range));
  }

  bool runs(std::string_view op) const {
    return std::ranges::any_of(collectives_,
                               [&](const Collective& each) { return each.event.name == op; });
  }

  // Of how many ranks one has a share; nothing where sizes are not in the file.
  static std::optional<std::int64_t> ranks_of_scatter(const Collective& each) {
    const TracedInputs* inputs = each.range->inputs;
    if (inputs == nullptr || inputs->size() < 2) return std::nullopt;
    const std::int64_t share = size_of((*inputs)[0]);
    const std::int64_t whole = size_of((*inputs)[1]);
    if (share <= 0 || whole < 0) return std::nullopt;
    return whole / share;
  }

  // As if all were of one type; -1 where it is not known.
  static std::int64_t size_of(const std::vector<TracedTensor>& tensors) {
    std::int64_t size = 0;
    for (const TracedTensor& tensor : tensors) {
      size = sum_of_known(size, tensor_bytes("float", tensor.sizes));
    }
    return size;
  }

  // Whether some may have been scattered among a part of the ranks, of whose shards others have
  // replicas.
  bool may_scatter_among_some() const {
    if (rank_.world_size < kFewestForReplicas) return false;
    return std::ranges::any_of(collectives_, [&](const Collective& each) {
      return each.event.name == "reduce_scatter" && !each.is_group_told &&
             ranks_of_scatter(each) != rank_.world_size;
    });
  }

  // A trace of gloo's may name the group of all ranks alone, whatever others there are. Who
  // scatters and reduces as well may do the latter among replicas.
  void forget_doubtful_groups() {
    if (trace_.groups.size() != 1 || !runs("reduce_scatter")) return;
    if (!runs("all_reduce") && !may_scatter_among_some()) return;
    for (Collective& each : collectives_) {
      if (each.event.object != trace_.groups.front().number) continue;
      each.event.object = 0;
      each.event.detail.clear();
    }
  }

  // replicate() is made of fully_shard, and scatters nothing.
  void name_replicas() {
    if (runs("reduce_scatter") || !runs("all_reduce")) return;
    for (Event& event : rank_.events) {
      if (event.kind == EventKind::Forward && event.name == kFullyShard) event.name = kReplicate;
    }
  }

  // A trace may begin in the middle of a step.
  void drop_cut_beginning() {
    std::vector<std::int64_t> ends_ns;
    for (const Event& event : rank_.events) {
      if (event.kind == EventKind::OptimizerStep) ends_ns.push_back(event.end_ns);
    }
    if (ends_ns.size() < 3) {
      if (!ends_ns.empty()) lacks("whether its first step has begun in it");
      return;
    }
    std::erase_if(rank_.events, [&](const Event& event) {
      return event.kind != EventKind::Wrap && event.kind != EventKind::CommHook &&
             event.start_ns < ends_ns.front();
    });
  }

  void lacks(const std::string& what) { rank_.faults.push_back("not in this file: " + what); }

  void say_what_is_lacking() {
    lacks("the lines to change, what else a step wastes, and what tensors held");
    const bool has_unknown_size = std::ranges::any_of(
        collectives_, [](const Collective& each) { return each.event.bytes < 0; });
    if (has_unknown_size) lacks("the bytes of some collectives");
    if (!trace_.has_shapes) lacks("the sizes of operators' inputs: record_shapes=True writes them");
    const bool has_unknown_group = std::ranges::any_of(
        collectives_, [](const Collective& each) { return each.event.object == 0; });
    if (has_unknown_group) lacks("in which process group collectives ran");
    const bool has_unknown_model = std::ranges::any_of(rank_.events, [](const Event& event) {
      return event.kind == EventKind::Forward && event.object == 0;
    });
    if (has_unknown_model) lacks("which model ran: with_stack=True writes it");
  }

  const TraceFile& trace_;
  RankEvents rank_;
  std::map<std::int64_t, std::vector<const TracedRange*>> modules_;  // that run, by thread
  std::map<std::string, std::vector<const TracedRange*>> gloo_;      // by operation
  std::vector<const TracedRange*> searches_;
  std::vector<Collective> collectives_;
  std::map<std::int64_t, std::size_t> last_collective_;  // by thread
  std::vector<std::size_t> forwards_;  // of the events, as long as these are not sorted
  const TracedRange* forward_ = nullptr;
  std::vector<Run> runs_;
};

}  // namespace

RankEvents events_of(const TraceFile& trace) {
  return Reader(trace).read();
}

}  // namespace gradsync::watch
