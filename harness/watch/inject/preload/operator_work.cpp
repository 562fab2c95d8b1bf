#include "harness/watch/inject/preload/operator_work.h"

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/graph_task.h>

#include <atomic>
#include <cstdlib>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "harness/watch/inject/preload/operator_flops.h"
#include "harness/watch/inject/preload/watcher.h"

namespace gradsync::watch {
namespace {

using FindStack = int (*)();  // returns a number for the lines of the job that run on this thread

constexpr std::string_view kOwnNamespace = "aten::";
constexpr std::string_view kCopy = "aten::copy_";

// Looks names up without making strings of them.
struct Hash : std::hash<std::string_view> {
  using is_transparent = void;
};
using Totals = std::unordered_map<std::string, OperatorTotal, Hash, std::equal_to<>>;

// Never destroyed: operators run until the end of the process.
struct Work {
  std::mutex mutex;
  std::map<int, Totals> totals;  // by stack
  long steps_left = -1;          // to be counted; -1: nobody has asked yet
};
Work& work() {
  static Work& instance = *new Work;
  return instance;
}

std::optional<at::CallbackHandle> callback;  // stays in the child of a fork
std::atomic<bool> is_counting{false};
std::atomic<FindStack> find_stack{nullptr};
thread_local bool steps_optimizer = false;
thread_local int formulas = 0;  // under way: what a mode of Python's calls again counts once

bool is_counted_thread() {
  return is_counting.load(std::memory_order_relaxed) &&
         (steps_optimizer || torch::autograd::get_current_graph_task_id() >= 0);
}

// Torch also names a part of an operator, "detach", and a node of a backward, "autograd::...: N".
bool is_operator(std::string_view name) {
  return name.find("::") != std::string_view::npos && name.find(": ") == std::string_view::npos;
}

void add(std::string_view name, std::int64_t bytes, std::int64_t flops) {
  const FindStack find = find_stack.load(std::memory_order_relaxed);
  const int stack = find == nullptr ? 0 : find();
  const std::lock_guard lock(work().mutex);
  Totals& totals = work().totals[stack];
  auto found = totals.find(name);
  if (found == totals.end()) found = totals.emplace(name, OperatorTotal{}).first;
  OperatorTotal& total = found->second;
  ++total.times;
  total.bytes += bytes;
  total.flops += flops;
}

struct Flops : at::ObserverContext {
  explicit Flops(std::int64_t count) : count(count) {}
  std::int64_t count;
};

// A copy that changes neither type nor device is an operator and no more.
void count_copy(OperatorInputs inputs) {
  const at::Tensor& to = inputs.at(0).toTensor();
  const at::Tensor& from = inputs.at(1).toTensor();
  std::string name;
  if (from.device().type() != to.device().type()) {
    name = kCopyPrefix + c10::DeviceTypeName(from.device().type(), true) + " to " +
           c10::DeviceTypeName(to.device().type(), true);
  } else if (from.scalar_type() != to.scalar_type()) {
    name = std::string(kCopyPrefix) + c10::toString(from.scalar_type()) + " to " +
           c10::toString(to.scalar_type());
  }
  if (!name.empty()) add(name, static_cast<std::int64_t>(to.nbytes()), 0);
}

std::unique_ptr<at::ObserverContext> start_operator(const at::RecordFunction& call) {
  if (!is_counted_thread()) return nullptr;
  try {
    const std::string_view name = call.name();
    if (name == kCopy) count_copy(call.inputs());
    const FlopFormula flops = flop_formula(name);
    if (flops == nullptr) return nullptr;
    auto counted = std::make_unique<Flops>(formulas == 0 ? flops(call.inputs()) : 0);
    ++formulas;
    return counted;
  } catch (...) {
    recorder.fault("the work of an operator cannot be counted");
    return nullptr;
  }
}

std::int64_t bytes_of(const c10::IValue& value) {
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    return tensor.defined() && tensor.layout() == at::kStrided
               ? static_cast<std::int64_t>(tensor.numel() * tensor.itemsize())
               : 0;
  }
  std::int64_t bytes = 0;
  if (value.isTensorList()) {
    for (const at::Tensor& each : value.toTensorVector()) bytes += bytes_of(each);
  }
  return bytes;
}

void end_operator(const at::RecordFunction& call, at::ObserverContext* context) {
  const auto* flops = static_cast<Flops*>(context);
  if (flops != nullptr) --formulas;
  // One that ends by an exception has no outputs, and Python's own may wait to be seen: no function
  // of Python's may run meanwhile.
  const bool has_failed = std::uncaught_exceptions() > 0;
  if (has_failed || !is_counted_thread() || !is_operator(call.name())) return;
  try {
    std::int64_t bytes = 0;
    for (const c10::IValue& output : call.outputs()) bytes += bytes_of(output);
    add(call.name(), bytes, flops == nullptr ? 0 : flops->count);
  } catch (...) {
    recorder.fault("the work of an operator cannot be counted");
  }
}

// As late as that, since a process may be forked into a job whose environment says another number.
long steps_to_count() {
  const char* text = std::getenv(kWorkVariable);
  return text == nullptr ? 0 : std::strtol(text, nullptr, 10);
}

void start_counting(Work& all) {
  all.steps_left = steps_to_count();
  if (all.steps_left <= 0) return;
  if (!callback) {
    callback = at::addGlobalCallback(at::RecordFunctionCallback(start_operator, end_operator)
                                         .scopes({at::RecordScope::FUNCTION})
                                         .needsInputs(true)
                                         .needsOutputs(true));
  }
  steps_optimizer = true;
  is_counting = true;
}

void write_totals(Work& all) {
  const std::lock_guard lock(all.mutex);
  for (auto& [stack, totals] : all.totals) {
    for (auto& [operation, total] : totals) {
      if (total.times == 0) continue;
      std::string_view name = operation;
      if (name.starts_with(kOwnNamespace)) name.remove_prefix(kOwnNamespace.size());
      recorder.add_work(name, stack, total);
      total = {};
    }
  }
}

}  // namespace

void write_work_of_step() noexcept {
  Work& all = work();
  try {
    if (all.steps_left < 0) return start_counting(all);
    if (!is_counting || !steps_optimizer) return;
    write_totals(all);
    if (--all.steps_left > 0) return;
    is_counting = false;
    at::removeCallback(*std::exchange(callback, std::nullopt));
  } catch (...) {
    recorder.fault("the work of a step cannot be counted");
  }
}

void count_allocation(std::int64_t bytes) noexcept {
  if (!is_counted_thread() || !at::isRecordFunctionEnabled()) return;
  try {
    add(kAllocations, bytes, 0);
  } catch (...) {
    recorder.fault("the work of a step cannot be counted");
  }
}

void forget_work() noexcept {
  is_counting = false;
  steps_optimizer = false;
  new (&work()) Work;
}

}  // namespace gradsync::watch

// For the Python hook: from here on each call is counted for the stack that `find` returns.
extern "C" __attribute__((visibility("default"))) void gradsync_find_stacks(
    gradsync::watch::FindStack find) {
  gradsync::watch::find_stack = find;
}
