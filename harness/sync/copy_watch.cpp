#include "harness/sync/copy_watch.h"

#include <ATen/record_function.h>

#include <memory>
#include <string_view>

namespace gradsync::sync {
namespace {

using measure::Phase;

constexpr std::string_view kCopy = "torch.distributed.ddp.reducer::copy_bucket_to_grad";

struct Watch {
  measure::StepRecorder* recorder = nullptr;
  at::CallbackHandle handle = at::INVALID_CALLBACK_HANDLE;
};
thread_local Watch watch;

struct Copying : at::ObserverContext {};

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& range) {
  if (range.name() != kCopy) return nullptr;
  watch.recorder->enter(Phase::Copy);
  return std::make_unique<Copying>();
}

void on_end(const at::RecordFunction&, at::ObserverContext* copying) {
  if (copying != nullptr) watch.recorder->enter(Phase::Wait);
}

}  // namespace

void watch_copies(measure::StepRecorder& recorder) {
  unwatch_copies();
  watch.recorder = &recorder;
  watch.handle = at::addThreadLocalCallback(
      at::RecordFunctionCallback(on_start, on_end).scopes({at::RecordScope::FUNCTION}));
}

void unwatch_copies() {
  if (watch.recorder == nullptr) return;
  at::removeCallback(watch.handle);
  watch = {};
}

}  // namespace gradsync::sync
