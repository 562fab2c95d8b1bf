#include <ATen/core/ivalue_inl.h>

#include <utility>

#include "harness/comm/process_groups.h"

namespace gradsync::comm {
namespace {

using c10d::Work;
using WorkPtr = c10::intrusive_ptr<Work>;
using Tensors = std::vector<at::Tensor>;

// Done before it began.
class CompletedWork final : public Work {
 public:
  explicit CompletedWork(Tensors result) : result_(std::move(result)) {}

  bool isCompleted() override { return true; }
  bool isSuccess() const override { return true; }
  bool wait(std::chrono::milliseconds) override { return true; }
  Tensors result() override { return result_; }
  // The Reducer takes a bucket's sum from it.
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    auto future =
        c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
    future->markCompleted(result_);
    return future;
  }

 private:
  Tensors result_;
};

WorkPtr completed(Tensors result = {}) {
  return c10::make_intrusive<CompletedWork>(std::move(result));
}

class FakeBackend final : public c10d::Backend {
 public:
  using Backend::Backend;

  const std::string getBackendName() const override { return "fake"; }  // NOLINT: as the base class
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override { return 0; }

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions&) override {
    return completed(tensors);
  }
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions&) override {
    return completed(tensors);
  }
  WorkPtr allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions&) override {
    return completed(tensors);
  }
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions&) override {
    return completed(tensors);
  }
  WorkPtr allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                    const c10d::AllgatherOptions&) override {
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      for (at::Tensor& output : outputs[i]) output.copy_(inputs[i]);
    }
    return completed();
  }
  WorkPtr _allgather_base(at::Tensor&, at::Tensor&, const c10d::AllgatherOptions&) override {
    return completed();
  }
  WorkPtr gather(std::vector<Tensors>&, Tensors&, const c10d::GatherOptions&) override {
    return completed();
  }
  WorkPtr scatter(Tensors&, std::vector<Tensors>&, const c10d::ScatterOptions&) override {
    return completed();
  }
  WorkPtr reduce_scatter(Tensors&, std::vector<Tensors>&,
                         const c10d::ReduceScatterOptions&) override {
    return completed();
  }
  WorkPtr _reduce_scatter_base(at::Tensor&, at::Tensor&,
                               const c10d::ReduceScatterOptions&) override {
    return completed();
  }
  WorkPtr alltoall_base(at::Tensor&, at::Tensor&, std::vector<int64_t>&, std::vector<int64_t>&,
                        const c10d::AllToAllOptions&) override {
    return completed();
  }
  WorkPtr send(Tensors&, int, int) override { return completed(); }
  WorkPtr recv(Tensors&, int, int) override { return completed(); }
  WorkPtr barrier(const c10d::BarrierOptions&) override { return completed(); }
};

}  // namespace

c10::intrusive_ptr<c10d::Backend> make_fake_backend(int rank, int world_size) {
  return c10::make_intrusive<FakeBackend>(rank, world_size);
}

}  // namespace gradsync::comm
