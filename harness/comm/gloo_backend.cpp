// The one translation unit that includes gloo's headers, which the torch wheel lacks (Debian:
// libgloo-dev). Nothing but the options, the device and the constructor is used, because only those
// agree between Debian's headers and the gloo inside libtorch.
#include <csignal>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "harness/comm/process_groups.h"
#include "harness/comm/storage.h"
#include "harness/measure/memory.h"

namespace gradsync::comm {
namespace {

using WorkPtr = c10::intrusive_ptr<c10d::Work>;

// The end of a reduce-scatter made of an all-reduce: this rank's part goes to the output, and the
// buffer's memory goes back at once, though a thread of gloo may hold the tensor a moment longer.
class ReduceScatterWork final : public c10d::Work {
 public:
  ReduceScatterWork(WorkPtr all_reduce, at::Tensor buffer, at::Tensor output, int rank)
      : all_reduce_(std::move(all_reduce)),
        buffer_(std::move(buffer)),
        output_(std::move(output)),
        rank_of_part_(rank) {}

  bool isCompleted() override { return all_reduce_->isCompleted(); }
  bool isSuccess() const override { return all_reduce_->isSuccess(); }
  std::exception_ptr exception() const override { return all_reduce_->exception(); }
  // When the wire is done; the output is written by wait().
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return all_reduce_->getFuture(); }

  bool wait(std::chrono::milliseconds timeout) override {
    const bool done = all_reduce_->wait(timeout);
    if (!buffer_.defined()) return done;
    const at::NoGradGuard no_grad;
    const std::int64_t part = output_.numel();
    output_.view({part}).copy_(buffer_.narrow(0, rank_of_part_ * part, part));
    release_storage(buffer_);
    buffer_.reset();
    return done;
  }

 private:
  WorkPtr all_reduce_;
  at::Tensor buffer_;  // [elements of the input]; undefined once waited for
  at::Tensor output_;
  int rank_of_part_;
};

// gloo in torch has no reduce-scatter: torch's own stand-in all-reduces a clone of the input and
// keeps a part. So does this one, with the same bytes on the wire. But the clone's end is known, so
// that a rank's peak of memory is the same byte every time; and there is a future, which tells the
// ledger when communication ended.
class GlooBackend final : public c10d::ProcessGroupGloo {
 public:
  using ProcessGroupGloo::ProcessGroupGloo;

  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override {
    if (!input.is_cpu()) return ProcessGroupGloo::_reduce_scatter_base(output, input, options);
    const measure::MemoryScope scope(measure::MemoryCategory::Communication);
    const at::Tensor buffer = input.detach().clone().view({input.numel()});
    c10d::AllreduceOptions all_reduce;
    all_reduce.reduceOp = options.reduceOp;
    all_reduce.timeout = options.timeout;
    std::vector<at::Tensor> buffers{buffer};
    return c10::make_intrusive<ReduceScatterWork>(allreduce(buffers, all_reduce), buffer, output,
                                                  getRank());
  }
};

}  // namespace

c10::intrusive_ptr<c10d::Backend> make_gloo_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                    const GroupOptions& options) {
  std::signal(SIGPIPE, SIG_IGN);
  auto gloo = c10d::ProcessGroupGloo::Options::create();
  gloo->timeout = std::chrono::milliseconds(static_cast<std::int64_t>(options.timeout_s * 1e3));
  gloo->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(options.address));
  gloo->threads = 2;  // what torch.distributed uses: two collectives in flight at a time
  return c10::make_intrusive<GlooBackend>(store, options.rank, options.world_size, gloo);
}

}  // namespace gradsync::comm
