// The one translation unit that includes gloo's headers, which the torch wheel lacks (Debian:
// libgloo-dev). Nothing but the options, the device and the constructor is used, because only those
// agree between Debian's headers and the gloo inside libtorch.
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "harness/comm/process_groups.h"

namespace gradsync::comm {

c10::intrusive_ptr<c10d::Backend> make_gloo_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                    const GroupOptions& options) {
  auto gloo = c10d::ProcessGroupGloo::Options::create();
  gloo->timeout = std::chrono::milliseconds(static_cast<std::int64_t>(options.timeout_s * 1e3));
  gloo->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(options.address));
  gloo->threads = 2;  // what torch.distributed uses: two collectives in flight at a time
  return c10::make_intrusive<c10d::ProcessGroupGloo>(store, options.rank, options.world_size, gloo);
}

}  // namespace gradsync::comm
