// Sees what torch does in this process, and has the recorder keep what matters to synchronization:
// collectives (c10d_operators.h), runs of autograd, and ranges that torch names itself.
//
// torch calls back at the begin and end of every node of a backward and of every range that its own
// Python code names; all but a few are let through at once. It does not call back for the operators
// in between: a job runs ten thousand of them a step. Compiled against the job's own torch, loaded
// by preload/loader.cpp. Must be compiled with NDEBUG like torch itself: without it,
// RecordFunction's header reads a field that torch's libraries do not have.
#include "harness/watch/inject/preload/watcher.h"

#include <ATen/record_function.h>
#include <pthread.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "harness/watch/inject/preload/backward_runs.h"
#include "harness/watch/inject/preload/c10d_operators.h"
#include "harness/watch/inject/preload/event_kind.h"
#include "harness/watch/inject/preload/helping_threads.h"
#include "harness/watch/inject/preload/hold.h"
#include "harness/watch/inject/preload/operator_work.h"
#include "harness/watch/inject/preload/wrappers.h"

namespace gradsync::watch {

constinit Recorder recorder;

namespace {

constinit Hold hold;

// What is under way on this thread: only the outermost of each is an event of its own.
thread_local int forwards = 0;    // FSDP1 wraps units inside of the root
thread_local int optimizers = 0;  // sharded ones call others

enum class SpanOf { Forward, Optimizer, Node, Completion };

struct Span : at::ObserverContext {
  Span(SpanOf of, Recorder::Handle handle) : of(of), handle(handle) {}
  SpanOf of;
  Recorder::Handle handle;
};

// Backends whose ranges end when the communication is complete.
constexpr std::string_view kCompleting[] = {"gloo:", "mpi:"};

// In the child: another thread of the parent may have held a lock.
void after_fork() {
  recorder.after_fork();
  hold.after_fork();
  forget_runs();
  forget_work();
}

std::unique_ptr<at::ObserverContext> start_forward(std::string_view wrapper) {
  Recorder::Handle handle;
  if (forwards++ == 0) handle = recorder.begin({.kind = EventKind::Forward, .name = wrapper});
  return std::make_unique<Span>(SpanOf::Forward, handle);
}

// "AdamW.step" as torch writes it.
std::unique_ptr<at::ObserverContext> start_optimizer(std::string_view optimizer) {
  Recorder::Handle handle;
  if (optimizers++ == 0) {
    recorder.count_optimizer_step();
    handle = recorder.begin(
        {.kind = EventKind::OptimizerStep, .name = optimizer.substr(0, optimizer.rfind(".step"))});
  }
  return std::make_unique<Span>(SpanOf::Optimizer, handle);
}

std::unique_ptr<at::ObserverContext> start_range(std::string_view name) {
  if (const auto wrapper = wrapper_of_range(name); !wrapper.empty()) return start_forward(wrapper);
  if (name.starts_with(kOptimizer)) return start_optimizer(name.substr(kOptimizer.size()));
  for (const std::string_view backend : kCompleting) {
    if (!name.starts_with(backend)) continue;
    helping_threads().add_this();
    const std::optional<Recorder::Handle> carried = carried_collective();
    return carried ? std::make_unique<Span>(SpanOf::Completion, *carried) : nullptr;
  }
  return nullptr;
}

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& range) {
  try {
    const std::string_view name = range.name();
    if (range.scope() == at::RecordScope::USER_SCOPE) return start_range(name);
    return std::make_unique<Span>(SpanOf::Node, enter_node(name));
  } catch (...) {
    recorder.fault("an event could not be recorded");
    return nullptr;
  }
}

// A job can be held where an optimizer's step ends and nothing else is under way on its thread: an
// optimizer that steps inside of backward would keep back gradients that peers wait for.
void hold_job(Recorder::Handle optimizer) {
  if (optimizers > 0 || forwards > 0 || is_in_collective() || is_at_node()) return;
  if (const char* fault = hold.step_ended(take_step_phases(optimizer))) recorder.fault(fault);
}

void end_optimizer(Recorder::Handle handle) {
  check_tensor_count();
  recorder.mark_tensor_peak(handle);
  if (optimizers == 1) write_work_of_step();
  recorder.end(handle);
  --optimizers;
  hold_job(handle);
}

void on_end(const at::RecordFunction&, at::ObserverContext* context) {
  auto* span = static_cast<Span*>(context);
  if (span == nullptr) return;
  switch (span->of) {
    case SpanOf::Optimizer:
      return end_optimizer(span->handle);
    case SpanOf::Node:
      return leave_node(span->handle);
    case SpanOf::Forward:
      --forwards;
      break;
    case SpanOf::Completion:
      break;
  }
  recorder.end(span->handle);
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
            .scopes({at::RecordScope::BACKWARD_FUNCTION, at::RecordScope::USER_SCOPE}));
    if (!watch_c10d()) recorder.fault("torch has no collectives");
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
  gradsync::watch::unwatch_c10d();
  gradsync::watch::callback.reset();
  gradsync::watch::recorder.close();
}
