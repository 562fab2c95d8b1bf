#include "harness/comm/process_groups.h"

#include <fmt/format.h>

#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "harness/base/errors.h"
#include "harness/comm/recording_backend.h"

namespace gradsync::comm {
namespace {

c10::intrusive_ptr<c10d::Backend> make_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                               const GroupOptions& options, Ledger& ledger) {
  if (options.backend == "nccl") {
    GRADSYNC_CHECK(options.gpu == nullptr, ==, false);
    const NcclGroup group =
        options.gpu->make_nccl_group(store, {options.rank, options.world_size, options.timeout_s});
    return make_recording_backend(group, ledger, *options.gpu);
  }
  return make_recording_backend(options.backend == "fake"
                                    ? make_fake_backend(options.rank, options.world_size)
                                    : make_gloo_backend(store, options),
                                ledger);
}

}  // namespace

c10::intrusive_ptr<c10d::ProcessGroup> make_process_group(
    const c10::intrusive_ptr<c10d::Store>& store, const GroupOptions& options, Ledger& ledger) {
  const auto prefixed =
      c10::make_intrusive<c10d::PrefixStore>(options.backend + "/" + options.name, store);
  auto group = c10::make_intrusive<c10d::ProcessGroup>(prefixed, options.rank, options.world_size);
  constexpr auto kCustom = c10d::ProcessGroup::BackendType::CUSTOM;
  group->setBackend(options.device.type(), kCustom, make_backend(prefixed, options, ledger));
  group->setDefaultBackend(kCustom);
  group->setGroupName("gradsync/" + options.name);
  return group;
}

namespace {

// Templates, so that a name which this torch lacks is not looked up.
template <typename Group>
c10::intrusive_ptr<c10d::Work> all_gather_in(Group& group, at::Tensor& output, at::Tensor& input) {
  if constexpr (requires { group.all_gather_single(output, input); }) {
    return group.all_gather_single(output, input);
  } else {
    return group._allgather_base(output, input);
  }
}

template <typename Group>
c10::intrusive_ptr<c10d::Work> reduce_scatter_in(Group& group, at::Tensor& output,
                                                 at::Tensor& input) {
  if constexpr (requires { group.reduce_scatter_single(output, input); }) {
    return group.reduce_scatter_single(output, input);
  } else {
    return group._reduce_scatter_base(output, input);
  }
}

}  // namespace

c10::intrusive_ptr<c10d::Work> all_gather(c10d::ProcessGroup& group, at::Tensor& output,
                                          at::Tensor& input) {
  return all_gather_in(group, output, input);
}

c10::intrusive_ptr<c10d::Work> reduce_scatter(c10d::ProcessGroup& group, at::Tensor& output,
                                              at::Tensor& input) {
  return reduce_scatter_in(group, output, input);
}

void barrier(c10d::ProcessGroup& group) {
  c10d::BarrierOptions options;
  options.device = group.getDeviceTypes().front();  // c10d would look for a backend of the CPU
  group.barrier(options)->wait();
}

CommFailure::CommFailure(const std::string& what) : sentence_(what.substr(0, what.find('\n'))) {
  const auto says = [&](const char* text) { return what.find(text) != std::string::npos; };
  timed_out_ = says("imed out") || says("timeout");
  is_comm_ = timed_out_ || says("gloo") || says("onnection") || says("NCCL") || says("peer");
  // gloo begins with "[/path/to/pair.cc:536] ", which tells a reader nothing.
  const auto end_of_position = sentence_.find("] ");
  if (sentence_.starts_with('[') && end_of_position != std::string::npos) {
    sentence_ = sentence_.substr(end_of_position + 2);
  }
}

}  // namespace gradsync::comm
