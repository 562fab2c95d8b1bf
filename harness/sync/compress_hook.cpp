#include <utility>

#include "harness/comm/storage.h"
#include "harness/measure/memory.h"
#include "harness/sync/ddp.h"

namespace gradsync::sync {
namespace {

using GroupPtr = c10::intrusive_ptr<c10d::ProcessGroup>;
using FuturePtr = c10::intrusive_ptr<c10::ivalue::Future>;

class CompressHook final : public c10d::CppCommHookInterface<GroupPtr> {
 public:
  CompressHook(GroupPtr group, c10::ScalarType dtype)
      : CppCommHookInterface(std::move(group)), dtype_(dtype) {}

  FuturePtr runHook(c10d::GradBucket& bucket) override {
    const measure::MemoryScope memory(measure::MemoryCategory::Communication);
    const at::Tensor& gradients = bucket.getBuffer();
    std::vector<at::Tensor> message{gradients.to(dtype_).div_(state_->getSize())};
    const FuturePtr sum = state_->allreduce(message)->getFuture();
    // A thread of gloo may hold the message a moment longer: its memory goes back here. On a GPU
    // the copy has only been enqueued.
    const auto cast_back = [gradients](c10::ivalue::Future& done) {
      const at::Tensor mean = done.value().toTensorVector().at(0);
      gradients.copy_(mean);
      if (mean.is_cpu()) comm::release_storage(mean);
      return c10::IValue(gradients);
    };
    return sum->then(cast_back, c10::TensorType::get());
  }

 private:
  c10::ScalarType dtype_;
};

}  // namespace

std::unique_ptr<c10d::CommHookInterface> make_compress_hook(GroupPtr group, c10::ScalarType dtype) {
  return std::make_unique<CompressHook>(std::move(group), dtype);
}

}  // namespace gradsync::sync
