#include "harness/watch/inject/preload/c10d_operators.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string_view>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

#include "harness/watch/inject/preload/backward_runs.h"
#include "harness/watch/inject/preload/c10d_operations.h"
#include "harness/watch/inject/preload/fnv_1a.h"
#include "harness/watch/inject/preload/watcher.h"

namespace gradsync::watch {
namespace {

using Inputs = c10::ArrayRef<const c10::IValue>;

thread_local int depth = 0;  // of collectives under way: only the outermost is an event of its own

// Which collective a range on another thread belongs to.
struct Carrier : c10::DebugInfoBase {
  explicit Carrier(Recorder::Handle handle) : handle(handle) {}
  Recorder::Handle handle;
};
// Its place in that information, which torch's own tests alone use. No constant: from torch 2.15 on
// it is an object of torch's libraries.
c10::DebugInfoKind carrier_kind() {
  return c10::DebugInfoKind::TEST_INFO;
}

constexpr const char* kC10d = "c10d";

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

std::int64_t bytes_of(const C10dOperation& operation, Inputs inputs) {
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

Recorder::Handle begin_collective(std::string_view c10d, Inputs inputs) {
  const C10dOperation operation = c10d_operation(c10d);
  const std::string_view group = note_group(inputs);
  return recorder.begin({.kind = EventKind::Collective,
                         .name = operation.name,
                         .bytes = bytes_of(operation, inputs),
                         .object = group.empty() ? 0 : nonzero_fnv_1a(group),
                         .detail = group});
}

// From the call of a collective to its return, when it is issued and not complete.
class Issue {
 public:
  Issue(std::string_view c10d, Inputs inputs) : handle_(begin_collective(c10d, inputs)) {
    ++depth;
    carries_ = carry();
  }
  ~Issue() {
    --depth;
    recorder.issued(handle_);
    try {
      extend_run();
      if (carries_) c10::ThreadLocalDebugInfo::_pop(carrier_kind());
    } catch (...) {
      recorder.fault("torch's thread-local information was left changed");
    }
  }
  Issue(const Issue&) = delete;
  Issue& operator=(const Issue&) = delete;

 private:
  bool carry() noexcept {
    try {
      c10::ThreadLocalDebugInfo::_push(carrier_kind(), std::make_shared<Carrier>(handle_));
      return true;
    } catch (...) {
      recorder.fault("the end of a collective cannot be recorded");
      return false;
    }
  }

  Recorder::Handle handle_;
  bool carries_ = false;
};

void call_on(const c10::OperatorHandle& operation, c10::DispatchKeySet keys,
             torch::jit::Stack* stack) {
  constexpr c10::DispatchKeySet kAfter(c10::DispatchKeySet::FULL_AFTER,
                                       c10::DispatchKey::BackendSelect);
  operation.redispatchBoxed(keys & kAfter, stack);
}

std::string_view name_of(const c10::OperatorHandle& operation) {
  const std::string_view name = operation.operator_name().name;  // "c10d::allreduce_"
  return name.substr(name.rfind(':') + 1);
}

// Stands before all backends' kernels of c10d's operators, tensors of whatever device they take.
void call_collective(const c10::OperatorHandle& operation, c10::DispatchKeySet keys,
                     torch::jit::Stack* stack) {
  const std::string_view name = name_of(operation);
  if (depth > 0 || name == kNotCollective) return call_on(operation, keys, stack);
  const std::size_t taken = operation.schema().arguments().size();
  const Issue issue(name, Inputs(stack->data() + stack->size() - taken, taken));
  call_on(operation, keys, stack);
}

// Never destroyed at the end of the process: torch's dispatcher may be gone by then.
std::vector<c10::RegistrationHandleRAII>* registered = nullptr;

}  // namespace

bool watch_c10d() {
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  unwatch_c10d();
  registered = new std::vector<c10::RegistrationHandleRAII>;
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    if (name.getNamespace() != kC10d) continue;
    registered->push_back(
        dispatcher.registerImpl(name, c10::DispatchKey::BackendSelect,
                                c10::KernelFunction::makeFromBoxedFunction<&call_collective>(), {},
                                nullptr, "gradsync watch"));
  }
  return !registered->empty();
}

void unwatch_c10d() {
  delete registered;
  registered = nullptr;
}

bool is_in_collective() {
  return depth > 0;
}

std::optional<Recorder::Handle> carried_collective() {
  auto* carrier = dynamic_cast<Carrier*>(c10::ThreadLocalDebugInfo::get(carrier_kind()));
  if (carrier == nullptr) return std::nullopt;
  return carrier->handle;
}

}  // namespace gradsync::watch
