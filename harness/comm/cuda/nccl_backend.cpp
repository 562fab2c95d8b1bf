#include "harness/comm/cuda/nccl_backend.h"

#include <fmt/format.h>
#include <nccl.h>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "harness/base/errors.h"

namespace gradsync::comm::cuda {
namespace {

// The event that NCCL's stream passes when a collective is done. What is public does more than
// wait: synchronize() lets go of the tensors, and the future ties their memory to the stream that
// waits. This is only for classes derived from WorkNCCL; hence one.
struct EndOf : c10d::ProcessGroupNCCL::WorkNCCL {
  static auto& event(WorkNCCL& work) { return *(work.*(&EndOf::ncclEndEvent_)); }
};

}  // namespace

NcclBackend make_nccl_backend(const c10::intrusive_ptr<c10d::Store>& store,
                              const NcclOptions& options, int index) {
  // Of normal priority, as torch.distributed.init_process_group has it.
  auto nccl = c10d::ProcessGroupNCCL::Options::create();
  nccl->timeout = std::chrono::milliseconds(static_cast<std::int64_t>(options.timeout_s * 1e3));
  auto backend =
      c10::make_intrusive<c10d::ProcessGroupNCCL>(store, options.rank, options.world_size, nccl);
  // Or a barrier guesses a GPU by the rank's number.
  backend->setBoundDeviceId(at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(index)));
  const auto watch = [group = backend.get(), timeout_s = options.timeout_s] {
    const c10d::ErrorType error = group->getError();
    if (error == c10d::ErrorType::SUCCESS) return;
    if (error == c10d::ErrorType::TIMEOUT) {
      throw CommError(fmt::format("an NCCL collective timed out after {:.0f} s", timeout_s), true);
    }
    throw CommError("an NCCL collective failed: a peer is gone, or the connection to it");
  };
  return {backend, watch};
}

void await_end(c10d::Work& collective, const c10::cuda::CUDAStream& stream) {
  EndOf::event(dynamic_cast<c10d::ProcessGroupNCCL::WorkNCCL&>(collective)).block(stream);
}

int nccl_version() {
  int version = 0;
  const ncclResult_t result = ncclGetVersion(&version);
  if (result != ncclSuccess) {
    throw EnvironmentError(
        fmt::format("NCCL does not tell its version: error {}", static_cast<int>(result)),
        "install the NCCL that torch asks for");
  }
  return version;
}

}  // namespace gradsync::comm::cuda
