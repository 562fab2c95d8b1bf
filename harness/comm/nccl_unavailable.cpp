// Stands in for the NCCL backend in builds without CUDA.
#include "harness/base/errors.h"
#include "harness/comm/process_groups.h"

namespace gradsync::comm {

c10::intrusive_ptr<c10d::Backend> make_nccl_backend(const c10::intrusive_ptr<c10d::Store>&,
                                                    const GroupOptions&) {
  throw EnvironmentError("backend 'nccl' is not in this build",
                         "build where a CUDA toolkit and NCCL are found, or use --backend gloo");
}

}  // namespace gradsync::comm
