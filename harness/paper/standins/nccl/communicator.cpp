#include "harness/paper/standins/nccl/communicator.h"

#include <cuda_runtime_api.h>

#include <cstring>
#include <map>

#include "harness/paper/standins/nccl/log.h"

namespace gradsync::paper::nccl {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<ncclComm_t, Communicator> communicators;
};

Registry& registry() {
  static auto* known = new Registry;  // never freed: torch's threads outlive main
  return *known;
}

}  // namespace

ncclComm_t publish(const Communicator& comm) {
  const std::lock_guard lock(registry().mutex);
  registry().communicators[comm.get()] = comm;
  return comm.get();
}

Communicator find(ncclComm_t handle) {
  const std::lock_guard lock(registry().mutex);
  const auto found = registry().communicators.find(handle);
  if (found != registry().communicators.end()) return found->second;
  throw Failure(ncclInvalidArgument,
                "no such communicator: it was never opened, or is destroyed or aborted");
}

Communicator forget(ncclComm_t handle) {
  Communicator comm = find(handle);
  const std::lock_guard lock(registry().mutex);
  registry().communicators.erase(handle);
  return comm;
}

}  // namespace gradsync::paper::nccl

using namespace gradsync::paper::nccl;  // NOLINT: NCCL's type is in the global namespace

ncclComm::ncclComm(const Settings& environment, const ncclUniqueId& id, const Place& where, int gpu)
    : settings(environment), place(where), device(gpu), meeting(id, where.seats) {
  char bus[sizeof(Seat::bus)] = {};
  if (cudaDeviceGetPCIBusId(bus, sizeof(bus), device) != cudaSuccess) {
    throw Failure(ncclUnhandledCudaError, "device ", device, " has no PCI bus id");
  }
  Seat& mine = meeting.take(seat());
  mine.ranks = place.size;
  mine.device = device;
  std::memcpy(mine.bus, bus, sizeof(bus));
  std::strncpy(mine.host, host_identity().c_str(), sizeof(mine.host) - 1);
  mine.presence = Presence::kPresent;
  meeting.ring();
}

ncclComm::~ncclComm() {
  leave(Presence::kLeft);
}

void ncclComm::fail(const Failure& failure) {
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = failure;
}

std::optional<Failure> ncclComm::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void ncclComm::leave(Presence how) {
  auto present = Presence::kPresent;
  my_seat().presence.compare_exchange_strong(present, how);
  meeting.ring();
}
