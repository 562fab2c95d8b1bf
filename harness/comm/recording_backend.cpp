#include "harness/comm/recording_backend.h"

#include <ATen/core/ivalue_inl.h>

#include <utility>

namespace gradsync::comm {
namespace {

using c10d::Work;
using WorkPtr = c10::intrusive_ptr<Work>;
using Tensors = std::vector<at::Tensor>;

std::int64_t bytes_of(const at::Tensor& tensor) {
  return static_cast<std::int64_t>(tensor.nbytes());
}

std::int64_t bytes_of(const Tensors& tensors) {
  std::int64_t total = 0;
  for (const at::Tensor& tensor : tensors) total += bytes_of(tensor);
  return total;
}

std::int64_t bytes_of(const std::vector<Tensors>& lists) {
  std::int64_t total = 0;
  for (const Tensors& tensors : lists) total += bytes_of(tensors);
  return total;
}

// What has no future, gloo's receipts among it: complete when somebody has waited for it.
class AwaitedWork final : public Work {
 public:
  AwaitedWork(WorkPtr inner, Ledger& ledger, std::size_t index)
      : inner_(std::move(inner)), ledger_(ledger), index_(index) {}

  bool wait(std::chrono::milliseconds timeout) override {
    const bool done = inner_->wait(timeout);
    if (!std::exchange(recorded_, true)) ledger_.complete(index_);
    return done;
  }
  bool isCompleted() override { return inner_->isCompleted(); }
  int sourceRank() const override { return inner_->sourceRank(); }
  void abort() override { inner_->abort(); }

 private:
  WorkPtr inner_;
  Ledger& ledger_;
  std::size_t index_;
  bool recorded_ = false;
};

class RecordingBackend final : public c10d::Backend {
 public:
  // `nccl_on`: the GPU whose NCCL it is, with its queue there; null: gloo.
  RecordingBackend(c10::intrusive_ptr<c10d::Backend> inner, Ledger& ledger, Gpu* nccl_on, int queue)
      : Backend(inner->getRank(), inner->getSize()),
        inner_(std::move(inner)),
        ledger_(ledger),
        nccl_on_(nccl_on),
        queue_(queue) {}

  const std::string getBackendName() const override {  // NOLINT: the base class's signature
    return "recording_" + inner_->getBackendName();
  }
  c10::intrusive_ptr<Options> getBackendOptions() override { return inner_->getBackendOptions(); }
  void setGroupUid(const std::string& uid) override {
    Backend::setGroupUid(uid);
    inner_->setGroupUid(uid);
  }
  void setTimeout(std::chrono::milliseconds timeout) override { inner_->setTimeout(timeout); }
  void setSequenceNumberForGroup() override { inner_->setSequenceNumberForGroup(); }
  uint64_t getSequenceNumberForGroup() override { return inner_->getSequenceNumberForGroup(); }
  void abort() override { inner_->abort(); }
  void shutdown() override { inner_->shutdown(); }

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    return record("broadcast", bytes_of(tensors),
                  [&] { return inner_->broadcast(tensors, options); });
  }
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    return record("all_reduce", bytes_of(tensors),
                  [&] { return inner_->allreduce(tensors, options); });
  }
  WorkPtr allreduce_coalesced(Tensors& tensors,
                              const c10d::AllreduceCoalescedOptions& options) override {
    return record("all_reduce", bytes_of(tensors),
                  [&] { return inner_->allreduce_coalesced(tensors, options); });
  }
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override {
    return record("reduce", bytes_of(tensors), [&] { return inner_->reduce(tensors, options); });
  }
  WorkPtr allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                    const c10d::AllgatherOptions& options) override {
    return record("all_gather", bytes_of(outputs),
                  [&] { return inner_->allgather(outputs, inputs, options); });
  }
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input,
                          const c10d::AllgatherOptions& options) override {
    return record("all_gather", bytes_of(output),
                  [&] { return inner_->_allgather_base(output, input, options); });
  }
  WorkPtr gather(std::vector<Tensors>& outputs, Tensors& inputs,
                 const c10d::GatherOptions& options) override {
    return record("gather", bytes_of(inputs),
                  [&] { return inner_->gather(outputs, inputs, options); });
  }
  WorkPtr scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                  const c10d::ScatterOptions& options) override {
    return record("scatter", bytes_of(outputs),
                  [&] { return inner_->scatter(outputs, inputs, options); });
  }
  WorkPtr reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                         const c10d::ReduceScatterOptions& options) override {
    return record(
        "reduce_scatter", bytes_of(inputs),
        [&] { return inner_->reduce_scatter(outputs, inputs, options); },
        WithoutFuture::EndsWhenAwaited);
  }
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override {
    return record(
        "reduce_scatter", bytes_of(input),
        [&] { return inner_->_reduce_scatter_base(output, input, options); },
        WithoutFuture::EndsWhenAwaited);
  }
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                        std::vector<int64_t>& input_splits,
                        const c10d::AllToAllOptions& options) override {
    return record("all_to_all", bytes_of(input), [&] {
      return inner_->alltoall_base(output, input, output_splits, input_splits, options);
    });
  }
  WorkPtr send(Tensors& tensors, int destination, int tag) override {
    return record("send", bytes_of(tensors),
                  [&] { return inner_->send(tensors, destination, tag); });
  }
  // On gloo it is the waiting for it that takes until the peer has sent.
  WorkPtr recv(Tensors& tensors, int source, int tag) override {
    const auto issue = [&] { return inner_->recv(tensors, source, tag); };
    if (nccl_on_ != nullptr) return record("recv", bytes_of(tensors), issue);
    const std::size_t index = ledger_.start("recv", bytes_of(tensors));
    return c10::make_intrusive<AwaitedWork>(issue(), ledger_, index);
  }
  WorkPtr barrier(const c10d::BarrierOptions& options) override {
    return record("barrier", 0, [&] { return inner_->barrier(options); });
  }

 private:
  enum class WithoutFuture { EndsWhenIssued, EndsWhenAwaited };

  template <typename Issue>
  WorkPtr record(const char* op, std::int64_t bytes, Issue issue,
                 WithoutFuture otherwise = WithoutFuture::EndsWhenIssued) {
    const std::size_t index = ledger_.start(op, bytes);
    WorkPtr work = issue();
    if (nccl_on_ != nullptr) {
      ledger_.complete_on_device(index, nccl_on_->mark_end(*work, queue_), queue_);
    } else if (!complete_with_future(*work, index)) {
      if (otherwise == WithoutFuture::EndsWhenAwaited) {
        return c10::make_intrusive<AwaitedWork>(std::move(work), ledger_, index);
      }
      ledger_.complete(index);
    }
    return work;
  }

  bool complete_with_future(Work& work, std::size_t index) {
    c10::intrusive_ptr<c10::ivalue::Future> future;
    try {
      future = work.getFuture();
    } catch (const c10::Error&) {
      return false;
    }
    if (!future) return false;
    Ledger* ledger = &ledger_;
    future->addCallback([ledger, index](c10::ivalue::Future&) { ledger->complete(index); });
    return true;
  }

  c10::intrusive_ptr<c10d::Backend> inner_;
  Ledger& ledger_;
  Gpu* nccl_on_;
  int queue_;
};

}  // namespace

c10::intrusive_ptr<c10d::Backend> make_recording_backend(c10::intrusive_ptr<c10d::Backend> inner,
                                                         Ledger& ledger) {
  return c10::make_intrusive<RecordingBackend>(std::move(inner), ledger, nullptr, 0);
}

c10::intrusive_ptr<c10d::Backend> make_recording_backend(const NcclGroup& inner, Ledger& ledger,
                                                         Gpu& gpu) {
  return c10::make_intrusive<RecordingBackend>(inner.backend, ledger, &gpu, inner.queue);
}

}  // namespace gradsync::comm
