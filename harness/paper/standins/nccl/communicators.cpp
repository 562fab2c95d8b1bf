// NCCL's interface to communicators, errors and memory.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "harness/paper/standins/nccl/open.h"
#include "harness/paper/standins/nccl/reduce.h"

namespace gradsync::paper::nccl {
namespace {

int current_device() {
  int device = 0;
  if (cudaGetDevice(&device) == cudaSuccess) return device;
  throw Failure(ncclUnhandledCudaError, "cudaGetDevice failed");
}

Communicator seated(const Settings& settings, ncclUniqueId id, const Place& place, int device) {
  if (place.seats == 1) {  // it meets no other rank, and an absent rank would have made no valid id
    withdraw(id);
    id = invite();
  }
  return std::make_shared<ncclComm>(settings, id, place, device);
}

void join(ncclComm_t* out, int ranks, const ncclUniqueId& id, int rank) {
  *out = nullptr;
  const Settings settings = read_settings();
  const Communicator comm = seated(settings, id, place_of(ranks, rank, settings), current_device());
  perform({comm, kSetupLane, Join(comm, out)}, nullptr);
}

void need(const void* argument, const char* name) {
  if (argument == nullptr) throw Failure(ncclInvalidArgument, name, " is null");
}

void end(ncclComm_t handle, Presence how) {
  if (handle == nullptr) return;
  const Communicator comm = forget(handle);
  comm->aborted = how == Presence::kAborted;
  comm->fail(Failure(ncclInvalidUsage, "the communicator is destroyed or aborted"));
  comm->leave(how);
}

void succeed_if(cudaError_t error, const char* call) {
  if (error != cudaSuccess) throw Failure(ncclUnhandledCudaError, call, " failed");
}

}  // namespace
}  // namespace gradsync::paper::nccl

using namespace gradsync::paper::nccl;  // NOLINT: what follows is NCCL's interface

// NOLINTBEGIN(readability-identifier-naming): the names are NCCL's
extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  return answer([&] {
    need(version, "version");
    *version = NCCL_VERSION_CODE;
  });
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  return answer([&] {
    need(id, "uniqueId");
    *id = invite();
  });
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  return answer([&] {
    need(comm, "comm");
    join(comm, ranks, id, rank);
  });
}

// Paper has no use for a configuration. A communicator that need not block has nothing in progress
// when a call returns, which is allowed.
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* /*config*/) {
  return ncclCommInitRank(comm, ranks, id, rank);
}

#if NCCL_VERSION_CODE >= 22300
// One id is enough for all ranks.
ncclResult_t ncclCommInitRankScalable(ncclComm_t* comm, int ranks, int rank, int ids,
                                      ncclUniqueId* id, ncclConfig_t* /*config*/) {
  return answer([&] {
    need(comm, "newcomm");
    need(ids > 0 ? id : nullptr, "commIds");
    join(comm, ranks, *id, rank);
  });
}
#endif

ncclResult_t ncclCommInitAll(ncclComm_t* comms, int devices, const int* device_list) {
  ncclGroupStart();
  const ncclResult_t called = answer([&] {
    need(comms, "comm");
    const Settings settings = read_settings();
    const ncclUniqueId id = invite();
    for (int i = 0; i < devices; ++i) {
      const int device = device_list == nullptr ? i : device_list[i];
      const Place all_here{devices, i, devices};
      const auto comm = std::make_shared<ncclComm>(settings, id, all_here, device);
      perform({comm, kSetupLane, Join(comm, &comms[i])}, nullptr);
    }
  });
  const ncclResult_t ended = ncclGroupEnd();
  return called != ncclSuccess ? called : ended;
}

ncclResult_t ncclCommSplit(ncclComm_t handle, int color, int key, ncclComm_t* out,
                           ncclConfig_t* /*config*/) {
  return answer([&] {
    need(out, "newcomm");
    const Communicator parent = find(handle);
    if (parent->all_real()) {
      perform({parent, kSetupLane, Regroup(parent, out, color, key, {})}, nullptr);
      return;
    }
    *out = nullptr;
    if (color == NCCL_SPLIT_NOCOLOR) return;
    throw Failure(ncclInvalidUsage,
                  "ncclCommSplit of a communicator with absent ranks: only they know how many are "
                  "in the new one. Call init_process_group without device_id, so that torch opens "
                  "each group by itself");
  });
}

#if NCCL_VERSION_CODE >= 22700
ncclResult_t ncclCommShrink(ncclComm_t handle, int* excluded, int count, ncclComm_t* out,
                            ncclConfig_t* /*config*/, int flags) {
  return answer([&] {
    need(out, "newcomm");
    need(count > 0 ? excluded : nullptr, "excludeRanksList");
    const Communicator parent = find(handle);
    const std::set<int> gone(excluded, excluded + count);
    if (*gone.begin() < 0 || *gone.rbegin() >= parent->place.size ||
        gone.count(parent->place.rank) != 0) {
      throw Failure(ncclInvalidArgument, "ncclCommShrink excludes a rank that is none, or itself");
    }
    if ((flags & NCCL_SHRINK_ABORT) != 0) {
      parent->fail(Failure(ncclRemoteError, "the communicator is given up by ncclCommShrink"));
      parent->meeting.ring();
    }
    perform({parent, kSetupLane, Regroup(parent, out, 0, parent->place.rank, gone)}, nullptr);
  });
}
#endif

// Nothing is ever in flight when a call has returned.
ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  return answer([&] { find(comm); });
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  return answer([&] { end(comm, Presence::kLeft); });
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  return answer([&] { end(comm, Presence::kAborted); });
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  return answer([&] { *count = find(comm)->place.size; });
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  return answer([&] { *rank = find(comm)->place.rank; });
}

ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device) {
  return answer([&] { *device = find(comm)->device; });
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  return answer([&] {
    const auto failure = find(comm)->failure();
    *error = failure ? failure->result : ncclSuccess;
  });
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case ncclSystemError:
      return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInternalError:
      return "internal error - please report this issue to the NCCL developers";
    case ncclInvalidArgument:
      return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage:
      return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "unknown result code";
  }
}

const char* ncclGetLastError(ncclComm_t /*comm*/) {
  return last_error();
}

ncclResult_t ncclMemAlloc(void** pointer, size_t bytes) {
  return answer([&] { succeed_if(cudaMalloc(pointer, bytes), "cudaMalloc"); });
}

ncclResult_t ncclMemFree(void* pointer) {
  return answer([&] { succeed_if(cudaFree(pointer), "cudaFree"); });
}

// Registered memory is used as any other. A handle is the memory itself.
ncclResult_t ncclCommRegister(const ncclComm_t comm, void* buffer, size_t /*bytes*/,
                              void** handle) {
  return answer([&] {
    find(comm);
    *handle = buffer;
  });
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void* /*handle*/) {
  return answer([&] { find(comm); });
}

#if NCCL_VERSION_CODE >= 22700
ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* buffer, size_t /*bytes*/,
                                    ncclWindow_t* window, int /*flags*/) {
  return answer([&] {
    find(comm);
    *window = static_cast<ncclWindow_t>(buffer);
  });
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t /*window*/) {
  return answer([&] { find(comm); });
}
#endif

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t type,
                                      ncclScalarResidence_t residence, ncclComm_t handle) {
  return answer([&] {
    need(op, "op");
    need(scalar, "scalar");
    const Communicator comm = find(handle);
    if (width(type) == 0) throw Failure(ncclInvalidArgument, "no such data type");
    Scalar kept{type};
    if (residence == ncclScalarDevice) {
      kept.device = scalar;
    } else {
      std::memcpy(kept.value.data(), scalar, width(type));
    }
    auto& scalars = comm->scalars;
    auto place = std::find_if(scalars.begin(), scalars.end(),
                              [](const Scalar& scalar) { return scalar.type < 0; });
    if (place == scalars.end()) place = scalars.insert(place, Scalar{});
    *place = kept;
    *op = static_cast<ncclRedOp_t>(ncclNumOps + (place - scalars.begin()));
  });
}

ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t handle) {
  return answer([&] {
    const Communicator comm = find(handle);
    const std::size_t index = static_cast<std::size_t>(op) - ncclNumOps;
    if (op < ncclNumOps || index >= comm->scalars.size()) {
      throw Failure(ncclInvalidArgument, "no such reduction operator");
    }
    comm->scalars[index].type = -1;
  });
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
