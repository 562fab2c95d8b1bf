#include "harness/watch/inject/preload/backward_runs.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <new>
#include <utility>

#include "harness/watch/inject/preload/event_kind.h"
#include "harness/watch/inject/preload/watcher.h"

namespace gradsync::watch {
namespace {

// The latest by autograd's own numbers, and what those before them took.
struct Runs {
  struct Run {
    int graph_task = -1;
    Recorder::Handle handle;
  };
  std::array<Run, 8> latest;
  std::size_t next = 0;
  StepPhases phases{};  // of the step that is under way
  std::int64_t last_end_ns = 0;
  std::mutex mutex;
};
constinit Runs runs;

// Adds a run that has ended to the step.
void close_run(Runs::Run& run) noexcept {
  if (run.graph_task < 0) return;
  const Recorder::Extent extent = recorder.extent(run.handle);
  const bool is_known = extent.end_ns > 0 && runs.phases.backward_ns >= 0;
  runs.phases.backward_ns =
      is_known ? runs.phases.backward_ns + extent.end_ns - extent.start_ns : -1;
  runs.last_end_ns = std::max(runs.last_end_ns, extent.end_ns);
  run = {};
}

thread_local int nodes = 0;         // that this thread is in
thread_local Recorder::Handle run;  // of these

// Leaves of which the run under way returns the gradient instead of accumulating it: their nodes
// are not run.
int returned_leaves() {
  const auto* wanted = torch::autograd::get_current_graph_task_exec_info();
  int leaves = 0;
  if (wanted == nullptr) return leaves;
  for (const auto& [node, info] : *wanted) {
    const bool is_returned = info.captures_ != nullptr && !info.needed_;
    if (is_returned && dynamic_cast<torch::autograd::AccumulateGrad*>(node) != nullptr) ++leaves;
  }
  return leaves;
}

// Counts the gradient of the leaf whose node begins.
void add_gradient(Recorder::Handle run) {
  const auto node = torch::autograd::get_current_node();
  const auto* leaf = dynamic_cast<torch::autograd::AccumulateGrad*>(node.get());
  if (leaf == nullptr || !leaf->variable.defined()) return;
  const auto size = static_cast<std::int64_t>(leaf->variable.element_size());
  recorder.add_gradient(run, leaf->variable.numel() * size, leaf->variable.grad().defined());
}

Recorder::Handle run_of(int graph_task) {
  const std::lock_guard lock(runs.mutex);
  for (const Runs::Run& each : runs.latest) {
    if (each.graph_task == graph_task) return each.handle;
  }
  Runs::Run& begun = runs.latest[runs.next];
  close_run(begun);
  begun = {graph_task,
           recorder.begin({.kind = EventKind::Backward, .name = "backward", .bytes = 0})};
  recorder.count(begun.handle, returned_leaves());
  runs.next = (runs.next + 1) % runs.latest.size();
  return begun.handle;
}

Recorder::Handle current_run() {
  if (nodes > 0) return run;
  const int graph_task = torch::autograd::get_current_graph_task_id();
  return graph_task < 0 ? Recorder::Handle{} : run_of(graph_task);
}

}  // namespace

Recorder::Handle enter_node(std::string_view node) {
  run = current_run();
  ++nodes;
  if (node == kAccumulate) {
    recorder.count(run, 1);
    add_gradient(run);
  }
  return run;
}

void leave_node(Recorder::Handle run) noexcept {
  recorder.end(run);
  --nodes;
}

StepPhases take_step_phases(Recorder::Handle optimizer) noexcept {
  const std::lock_guard lock(runs.mutex);
  for (Runs::Run& each : runs.latest) close_run(each);
  StepPhases phases = std::exchange(runs.phases, {});
  const std::int64_t last_end_ns = std::exchange(runs.last_end_ns, 0);
  const Recorder::Extent extent = recorder.extent(optimizer);
  if (extent.end_ns == 0) return kPhasesNotKnown;
  if (last_end_ns > 0) phases.between_ns = extent.start_ns - last_end_ns;
  phases.optimizer_ns = extent.end_ns - extent.start_ns;
  return phases;
}

bool is_at_node() {
  return torch::autograd::get_current_node() != nullptr;
}

void extend_run() {
  if (is_at_node()) recorder.end(current_run());
}

void forget_runs() noexcept {
  new (&runs) Runs;
}

}  // namespace gradsync::watch
