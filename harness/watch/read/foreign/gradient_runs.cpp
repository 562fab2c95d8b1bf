#include "harness/watch/read/foreign/gradient_runs.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>

#include "harness/watch/inject/preload/event_kind.h"
#include "harness/watch/inject/preload/fnv_1a.h"
#include "harness/watch/inject/preload/wrappers.h"

namespace gradsync::watch {
namespace {

constexpr std::string_view kNode = "autograd::engine::evaluate_function: ";
constexpr std::string_view kMulOut = "torch::distributed::reducer::mul_out";
constexpr std::string_view kReducer = "torch.distributed.ddp.reducer::";
constexpr std::string_view kCopy = "torch::distributed::reducer::copy_";

// Ranges in which FSDP reduces what is left when the last node has run.
constexpr std::array<std::string_view, 2> kFinalCallbacks{
    "FSDP::root_post_backward_callback", "FullyShardedDataParallel._post_backward_final_callback"};

// Operators that read no gradient and change no parameter, whatever they are given: they make
// tensors, see one in another shape, or take one number from a tensor of one element, as
// loss.item() does.
constexpr std::array<std::string_view, 16> kInnocent{
    "aten::item",       "aten::_local_scalar_dense",
    "aten::is_nonzero", "aten::empty",
    "aten::zeros",      "aten::empty_strided",
    "aten::ones",       "aten::full",
    "aten::randn",      "aten::rand",
    "aten::randint",    "aten::arange",
    "aten::randperm",   "aten::lift_fresh",
    "aten::as_strided", "aten::view"};

using Sizes = std::vector<std::int64_t>;

template <std::size_t size>
bool is_one_of(const std::array<std::string_view, size>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

bool is_call_of_backward(const TracedRange& range) {
  return range.kind == TracedKind::PythonFunction && !range.name.starts_with("nn.Module: ");
}

// What surrounds ranges of one thread, as these come by.
struct Thread {
  std::vector<const TracedRange*> open;

  void enter(const TracedRange& range) {
    while (!open.empty() && open.back()->end_ns <= range.start_ns &&
           !(open.back()->start_ns == range.start_ns)) {
      open.pop_back();
    }
    open.push_back(&range);
  }

  // The outermost open one that holds; null: none does.
  template <typename Predicate>
  const TracedRange* outermost(Predicate holds) const {
    const auto found =
        std::ranges::find_if(open, [&](const TracedRange* each) { return holds(*each); });
    return found == open.end() ? nullptr : *found;
  }
};

bool is_node(const TracedRange& range) {
  return range.kind == TracedKind::Operator && range.name.starts_with(kNode);
}

// A dispatch mode of Python's is none of its own, and may end within the range that it opens.
bool is_operator(const TracedRange& range) {
  return range.kind == TracedKind::Operator && range.name != "PythonDispatchMode";
}

bool is_addition(const TracedRange& range) {
  return range.name == "aten::add_" || range.name == "aten::add";
}

bool is_final_callback(const TracedRange& range) {
  return range.kind == TracedKind::Annotation && is_one_of(kFinalCallbacks, range.name);
}

// Where FSDP has reduced the gradients of a unit, and adds them to those before.
bool is_behind_backward(const TracedRange& range) {
  return range.kind == TracedKind::Annotation &&
         (range.name.starts_with("FSDP::post_backward_reduce") ||
          range.name.starts_with("FullyShardedDataParallel._post_backward"));
}

bool is_step_of_optimizer(const TracedRange& range) {
  return range.kind == TracedKind::Annotation && range.name.starts_with("Optimizer.");
}

class RunFinder {
 public:
  explicit RunFinder(const TraceFile& trace)
      : trace_(trace), trains_on_(training_thread(trace)), gradient_sizes_(sizes_of_gradients()) {}

  std::vector<GradientRun> find() {
    for (const TracedRange& range : trace_.ranges) see(range);
    return std::move(runs_);
  }

 private:
  std::set<Sizes> sizes_of_gradients() const {
    std::set<Sizes> sizes;
    for (const TracedRange& range : trace_.ranges) {
      if (range.name != kAccumulate || range.inputs == nullptr) continue;
      for (const auto& argument : *range.inputs) {
        for (const TracedTensor& tensor : argument) sizes.insert(tensor.sizes);
      }
    }
    return sizes;
  }

  void see(const TracedRange& range) {
    Thread& thread = threads_[range.thread];
    thread.enter(range);
    if (is_call_of_backward(range)) return see_call(range, thread);
    see_shards(range, thread);
    const TracedRange* const node = thread.outermost(is_node);
    if (node == &range) return see_node(range);
    if (node != nullptr) return see_inside(range, thread);
    if (is_forward(range) || is_step_of_optimizer(range)) {
      is_broken_ = true;
      is_quiet_ = true;  // what comes next is theirs
      return;
    }
    if (is_final_callback(range) || range.name.starts_with(kReducer)) return see_end(range);
    if (range.thread == trains_on_ && thread.outermost(is_operator) == &range) {
      see_between(range, thread);
    }
  }

  // Python's own calls of backward tell runs apart.
  void see_call(const TracedRange& range, const Thread& thread) {
    if (thread.outermost(is_call_of_backward) == &range) call_ = &range;
  }

  bool is_in_call(const TracedRange& range) const {
    return call_ != nullptr && call_->start_ns <= range.start_ns && range.start_ns < call_->end_ns;
  }

  void begin(const TracedRange& range) {
    GradientRun run;
    run.start_ns = range.start_ns;
    run.end_ns = range.end_ns;
    run.thread = range.thread;
    if (is_in_call(range)) {
      run.start_ns = call_->start_ns;
      run.end_ns = call_->end_ns;
      run.thread = call_->thread;
    }
    runs_.push_back(run);
    is_broken_ = false;
    is_quiet_ = false;
  }

  void see_node(const TracedRange& node) {
    const bool goes_on =
        !runs_.empty() &&
        (is_in_call(node) ? runs_.back().start_ns == call_->start_ns : !is_broken_);
    if (!goes_on) begin(node);
    runs_.back().end_ns = std::max(runs_.back().end_ns, node.end_ns);
  }

  // Takes what belongs to the accumulation of a gradient, of all that runs in a node.
  void see_inside(const TracedRange& range, const Thread& thread) {
    GradientRun& run = runs_.back();
    if (range.name == kAccumulate) {
      ++run.gradients;
      add_size(run, range);
      return;
    }
    if (thread.outermost(is_node)->name.substr(kNode.size()) != kAccumulate) return;
    const bool accumulates = thread.outermost([](const TracedRange& each) {
      return each.name == kAccumulate;
    }) != nullptr;
    if (accumulates) {
      run.adds |= is_addition(range);
    } else if (range.name == kMulOut || range.name == "aten::div_" || range.name == "aten::zero_") {
      run.copies = true;
    } else if (range.name == kCopy) {
      run.copies_for_hook = true;
    }
  }

  void add_size(GradientRun& run, const TracedRange& accumulate) const {
    std::string text;
    if (accumulate.inputs != nullptr) {
      for (const auto& argument : *accumulate.inputs) {
        for (const TracedTensor& tensor : argument) {
          for (const std::int64_t size : tensor.sizes) text += std::to_string(size) + ",";
          text += ";";
        }
      }
    }
    run.sizes += fnv_1a(text) | 1U;  // in any order
  }

  void see_shards(const TracedRange& range, const Thread& thread) {
    if (runs_.empty()) return;
    if (is_behind_backward(range)) runs_.back().reduces_shards = true;
    if (is_addition(range) && thread.outermost(is_behind_backward) != nullptr)
      runs_.back().adds_shards = true;
  }

  // What a run does when its last node has run: FSDP's callback, or DDP's reducer that copies what
  // it has reduced back into gradients.
  void see_end(const TracedRange& range) {
    if (runs_.empty() || is_broken_) return;
    runs_.back().end_ns = std::max(runs_.back().end_ns, range.end_ns);
  }

  // An operator of the job's own, outside of forward, backward and optimizer.
  void see_between(const TracedRange& range, const Thread& thread) {
    if (runs_.empty() || range.start_ns < runs_.back().end_ns) return;
    if (thread.outermost(is_final_callback) != nullptr) return;
    is_broken_ = true;
    GradientRun& run = runs_.back();
    if (is_quiet_ || !run.touched_by.empty() || is_one_of(kInnocent, range.name)) return;
    if (may_touch(range)) run.touched_by = range.name;
  }

  bool may_touch(const TracedRange& range) const {
    if (gradient_sizes_.empty()) return true;
    if (range.inputs == nullptr) return false;
    return std::ranges::any_of(*range.inputs, [&](const auto& argument) {
      return std::ranges::any_of(argument, [&](const TracedTensor& tensor) {
        return gradient_sizes_.contains(tensor.sizes);
      });
    });
  }

  const TraceFile& trace_;
  std::int64_t trains_on_;
  std::set<Sizes> gradient_sizes_;
  std::map<std::int64_t, Thread> threads_;
  std::vector<GradientRun> runs_;
  const TracedRange* call_ = nullptr;  // of backward, the latest
  bool is_broken_ = false;             // something was seen behind the latest run
  bool is_quiet_ = false;              // the same of a forward or an optimizer
};

}  // namespace

bool is_forward(const TracedRange& range) {
  return range.kind == TracedKind::Annotation && !wrapper_of_range(range.name).empty();
}

std::int64_t training_thread(const TraceFile& trace) {
  for (const TracedRange& range : trace.ranges) {
    if (is_forward(range) || is_step_of_optimizer(range)) return range.thread;
  }
  return 0;
}

std::vector<GradientRun> gradient_runs(const TraceFile& trace) {
  return RunFinder(trace).find();
}

}  // namespace gradsync::watch
