// Sees what torch does in this process, and has the recorder keep what matters to synchronization.
//
// torch calls back at the begin and end of every operator, of every node of a backward and of every
// range that its own Python code names; all but a few are let through at once. Compiled against the
// job's own torch, loaded by preload/loader.cpp. Must be compiled with NDEBUG like torch itself:
// without it, RecordFunction's header reads a field that torch's libraries do not have, and its
// inputs() throws by chance.
//
// When a collective of gloo's is complete, the range that gloo opens for it ends, on another
// thread. Which collective it belongs to travels there with torch's thread-local debug information,
// which gloo's works carry along. NCCL's end when they are enqueued: their completion is not known
// here.
#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <pthread.h>
#include <torch/csrc/autograd/graph_task.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string_view>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <utility>

#include "harness/watch/preload/fnv_1a.h"
#include "harness/watch/preload/helping_threads.h"
#include "harness/watch/preload/hold.h"
#include "harness/watch/preload/recorder.h"
#include "harness/watch/preload/tensor_memory.h"

namespace gradsync::watch {

constinit Recorder recorder;

namespace {

using Inputs = c10::ArrayRef<const c10::IValue>;

constinit Hold hold;

// What is under way on this thread: only the outermost of each is an event of its own.
thread_local int forwards = 0;    // FSDP1 wraps units inside of the root
thread_local int optimizers = 0;  // sharded ones call others
thread_local int collectives = 0;
thread_local int nodes = 0;  // a node that runs autograd again belongs to the run around it
thread_local Recorder::Handle backward;

struct Span : at::ObserverContext {
  Span(Recorder::Handle handle, int* depth) : handle(handle), depth(depth) {
    if (depth != nullptr) ++*depth;
  }
  Recorder::Handle handle;
  int* depth;  // of what this is one more of, on the thread that began it; null: of nothing
  bool ends = true;
};

// Which collective a range on another thread belongs to.
struct Carrier : c10::DebugInfoBase {
  explicit Carrier(Recorder::Handle handle) : handle(handle) {}
  Recorder::Handle handle;
};
// Its place in that information: torch's own tests apart, nobody's.
c10::DebugInfoKind carrier_kind() {
  return c10::DebugInfoKind::TEST_INFO;
}

// An operation of c10d: its name among ours, and which argument has its size, as the sync ledger
// counts it (harness/comm/recording_backend.cpp). kNoSize: it moves none of the job's data.
struct Operation {
  std::string_view c10d;
  std::string_view name;
  int sized;
};
constexpr int kNoSize = -1;
constexpr Operation kOperations[] = {
    {"allreduce_", "all_reduce", 0},
    {"allreduce_coalesced_", "all_reduce", 0},
    {"broadcast_", "broadcast", 0},
    {"_allgather_base_", "all_gather", 0},
    {"_reduce_scatter_base_", "reduce_scatter", 1},
    {"allgather_", "all_gather", 0},
    {"allgather_coalesced_", "all_gather", 0},
    {"allgather_into_tensor_coalesced_", "all_gather", 0},
    {"reduce_scatter_", "reduce_scatter", 1},
    {"reduce_scatter_tensor_coalesced_", "reduce_scatter", 1},
    {"reduce_", "reduce", 0},
    {"gather_", "gather", 1},
    {"gather_into_tensor_", "gather", 1},
    {"scatter_", "scatter", 0},
    {"alltoall_", "all_to_all", 1},
    {"alltoall_base_", "all_to_all", 1},
    {"send", "send", 0},
    {"recv_", "recv", 0},
    {"recv_any_source_", "recv", 0},
    {"barrier", "barrier", kNoSize},
    {"monitored_barrier_", "barrier", kNoSize},
};
constexpr std::string_view kNotCollective = "check_for_nan";

constexpr std::string_view kC10d = "c10d::";
constexpr std::string_view kNode = "autograd::engine::evaluate_function: ";
constexpr std::string_view kAccumulate = "torch::autograd::AccumulateGrad";
constexpr std::string_view kOptimizer = "Optimizer.step#";

// Ranges that torch opens around the forward of a wrapped model, and what we call the wrapper.
constexpr std::pair<std::string_view, std::string_view> kForwards[] = {
    {"DistributedDataParallel.forward", "DistributedDataParallel"},
    {"FullyShardedDataParallel.forward", "FullyShardedDataParallel"},
    {"FSDP::root_pre_forward", "fully_shard"},  // it ends before the forward itself
};
// Backends whose ranges end when the communication is complete.
constexpr std::string_view kCompleting[] = {"gloo:", "mpi:"};

// Returns -1 where a tensor's memory does not say what is moved.
std::int64_t bytes_of(const c10::IValue& value) {
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    if (!tensor.defined()) return 0;
    if (tensor.layout() != at::kStrided) return -1;
    return static_cast<std::int64_t>(tensor.numel() * tensor.itemsize());
  }
  if (!value.isList()) return -1;
  std::int64_t total = 0;
  for (const c10::IValue& each : value.toListRef()) {
    const std::int64_t bytes = bytes_of(each);
    if (bytes < 0) return -1;
    total += bytes;
  }
  return total;
}

std::int64_t bytes_of(const Operation& operation, Inputs inputs) {
  if (operation.sized == kNoSize) return 0;
  try {
    return bytes_of(inputs.at(static_cast<std::size_t>(operation.sized)));
  } catch (...) {
    recorder.fault("the size of a collective cannot be read");
    return -1;
  }
}

// Returns the group's name; "" where it has none. Tells the recorder this process's place in it.
std::string_view note_group(Inputs inputs) {
  try {
    for (const c10::IValue& value : inputs) {
      if (!value.isCustomClass()) continue;
      const auto group = value.toCustomClass<c10d::ProcessGroup>();
      recorder.set_place(group->getRank(), group->getSize());
      return group->getGroupName();  // lives as long as the group, which the inputs hold
    }
  } catch (...) {
    recorder.fault("a process group has no name");
  }
  return "";
}

Operation operation_of(std::string_view c10d) {
  for (const Operation& operation : kOperations) {
    if (operation.c10d == c10d) return operation;
  }
  return {c10d, c10d, static_cast<int>(std::size(kOperations))};  // no such argument: size unknown
}

std::unique_ptr<at::ObserverContext> start_collective(std::string_view c10d, Inputs inputs) {
  if (collectives > 0 || c10d == kNotCollective) return nullptr;
  const Operation operation = operation_of(c10d);
  const std::string_view group = note_group(inputs);
  const Recorder::Handle handle =
      recorder.begin({.kind = EventKind::Collective,
                      .name = operation.name,
                      .bytes = bytes_of(operation, inputs),
                      .object = group.empty() ? 0 : nonzero_fnv_1a(group),
                      .detail = group});
  c10::ThreadLocalDebugInfo::_push(carrier_kind(), std::make_shared<Carrier>(handle));
  auto span = std::make_unique<Span>(handle, &collectives);
  span->ends = false;  // it is issued when the operator returns, not complete
  return span;
}

// The latest runs of autograd by its own numbers: on a GPU several threads work at one.
struct Runs {
  struct Run {
    int graph_task = -1;
    Recorder::Handle handle;
  };
  std::array<Run, 8> latest;
  std::size_t next = 0;
  std::mutex mutex;
};
constinit Runs runs;

Recorder::Handle backward_of(int graph_task) {
  const std::lock_guard lock(runs.mutex);
  for (const Runs::Run& run : runs.latest) {
    if (run.graph_task == graph_task) return run.handle;
  }
  Runs::Run& run = runs.latest[runs.next];
  run = {graph_task, recorder.begin({.kind = EventKind::Backward, .name = "backward"})};
  runs.next = (runs.next + 1) % runs.latest.size();
  return run.handle;
}

// In the child: another thread of the parent may have held the lock.
void after_fork() {
  recorder.after_fork();
  hold.after_fork();
  new (&runs) Runs;
}

std::unique_ptr<at::ObserverContext> start_node(std::string_view node) {
  if (nodes == 0) {
    const int graph_task = torch::autograd::get_current_graph_task_id();
    backward = graph_task < 0 ? Recorder::Handle{} : backward_of(graph_task);
  }
  if (node == kAccumulate) recorder.count(backward);
  return std::make_unique<Span>(backward, &nodes);
}

std::unique_ptr<at::ObserverContext> start_operator(std::string_view name, Inputs inputs) {
  if (name.starts_with(kC10d)) return start_collective(name.substr(kC10d.size()), inputs);
  if (name.starts_with(kNode)) return start_node(name.substr(kNode.size()));
  return nullptr;
}

std::unique_ptr<at::ObserverContext> start_forward(std::string_view wrapper) {
  Recorder::Handle handle;
  if (forwards == 0) handle = recorder.begin({.kind = EventKind::Forward, .name = wrapper});
  return std::make_unique<Span>(handle, &forwards);
}

// "AdamW.step" as torch writes it.
std::unique_ptr<at::ObserverContext> start_optimizer(std::string_view optimizer) {
  Recorder::Handle handle;
  if (optimizers == 0) {
    recorder.count_optimizer_step();
    handle = recorder.begin(
        {.kind = EventKind::OptimizerStep, .name = optimizer.substr(0, optimizer.rfind(".step"))});
  }
  return std::make_unique<Span>(handle, &optimizers);
}

std::unique_ptr<at::ObserverContext> start_range(std::string_view name) {
  for (const auto& [range, wrapper] : kForwards) {
    if (name == range) return start_forward(wrapper);
  }
  if (name.starts_with(kOptimizer)) return start_optimizer(name.substr(kOptimizer.size()));
  for (const std::string_view backend : kCompleting) {
    if (!name.starts_with(backend)) continue;
    helping_threads().add_this();
    auto* carrier = dynamic_cast<Carrier*>(c10::ThreadLocalDebugInfo::get(carrier_kind()));
    return carrier == nullptr ? nullptr : std::make_unique<Span>(carrier->handle, nullptr);
  }
  return nullptr;
}

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& range) {
  try {
    const std::string_view name = range.name();
    return range.scope() == at::RecordScope::USER_SCOPE ? start_range(name)
                                                        : start_operator(name, range.inputs());
  } catch (...) {
    recorder.fault("an event could not be recorded");
    return nullptr;
  }
}

// A job can be held where an optimizer's step ends and nothing else is under way on its thread: an
// optimizer that steps inside of backward would keep back gradients that peers wait for.
void end_optimizer() {
  if (optimizers > 0 || nodes > 0 || forwards > 0 || collectives > 0) return;
  if (const char* fault = hold.step_ended()) recorder.fault(fault);
}

void keep_tensor_peak(Recorder::Handle optimizer_step) {
  check_tensor_count();
  recorder.mark_tensor_peak(optimizer_step);
}

void on_end(const at::RecordFunction&, at::ObserverContext* context) {
  auto* span = static_cast<Span*>(context);
  if (span == nullptr) return;
  if (span->depth == &optimizers) keep_tensor_peak(span->handle);
  if (span->ends) recorder.end(span->handle);
  if (span->depth == nullptr) return;
  --*span->depth;
  if (span->depth == &optimizers) end_optimizer();
  if (span->depth != &collectives) return;
  recorder.issued(span->handle);
  try {
    c10::ThreadLocalDebugInfo::_pop(carrier_kind());
  } catch (...) {
    recorder.fault("torch's thread-local information was left changed");
  }
}

// The handle by which torch knows us; nothing: it does not.
std::optional<at::CallbackHandle> callback;

// Returns whether torch calls back from here on. `version`: torch's, as who starts the watching
// knows it: any with the same minor version takes this library. Null: the one it was built for.
bool open(const char* directory, const char* version) {
  recorder.open(directory, version == nullptr ? GRADSYNC_WATCH_TORCH_VERSION : version);
  try {
    callback = at::addGlobalCallback(
        at::RecordFunctionCallback(on_start, on_end)
            .needsInputs(true)
            .scopes({at::RecordScope::FUNCTION, at::RecordScope::USER_SCOPE}));
  } catch (...) {
    recorder.fault("torch refused to be watched");
  }
  return callback.has_value();
}

__attribute__((constructor)) void begin() {
  ::pthread_atfork(nullptr, nullptr, after_fork);
  const char* directory = std::getenv("GRADSYNC_WATCH_DIR");
  if (directory == nullptr || *directory == '\0') return;
  open(directory, std::getenv("GRADSYNC_WATCH_TORCH_VERSION"));
  hold.open(directory);
}

}  // namespace
}  // namespace gradsync::watch

// For a process that watches a part of itself (harness/python/gradsync/session.py): events from
// open to close are kept in `directory`, which is a new one each time. One thread at a time. open()
// returns whether torch can be watched; false, too, where it is already.
extern "C" __attribute__((visibility("default"))) bool gradsync_watch_open(const char* directory,
                                                                           const char* version) {
  return !gradsync::watch::callback && gradsync::watch::open(directory, version);
}

extern "C" __attribute__((visibility("default"))) void gradsync_watch_close() {
  if (gradsync::watch::callback) at::removeCallback(*gradsync::watch::callback);
  gradsync::watch::callback.reset();
  gradsync::watch::recorder.close();
}
