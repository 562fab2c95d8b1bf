// NCCL's interface to collectives and messages.
#include <string>
#include <utility>

#include "harness/paper/standins/nccl/operations.h"
#include "harness/paper/standins/nccl/reduce.h"

namespace gradsync::paper::nccl {
namespace {

void check(const ncclComm& comm, const Call& call) {
  const auto refuse = [](const auto&... what) { throw Failure(ncclInvalidArgument, what...); };
  if (call.type < 0 || call.type >= ncclNumTypes) {
    refuse("data type ", call.type, " is none of NCCL's");
  }
  const bool has_root =
      call.kind == Kind::kBroadcast || call.kind == Kind::kReduce || call.kind >= Kind::kGather;
  if (has_root && (call.root < 0 || call.root >= comm.place.size)) {
    refuse("rank ", call.root, " is not of this communicator of ", comm.place.size, " ranks");
  }
  if (call.op < ncclNumOps) return;
  const auto index = static_cast<std::size_t>(call.op - ncclNumOps);
  if (index >= comm.scalars.size() || comm.scalars[index].type != call.type) {
    refuse("reduction operator ", call.op, " is none of this communicator for ",
           type_name(call.type));
  }
}

ncclResult_t issue(Call call, ncclComm_t handle, cudaStream_t stream) {
  return answer([&] {
    const Communicator comm = find(handle);
    check(*comm, call);
    if (call.op >= ncclNumOps) call.scalar = comm->scalars[call.op - ncclNumOps];
    if (call.kind == Kind::kSend) {
      perform({comm, send_lane(call.root), Send(comm, call)}, stream);
    } else if (call.kind == Kind::kReceive) {
      perform({comm, receive_lane(call.root), Receive(comm, call)}, stream);
    } else if (call.count > 0) {  // NCCL drops empty collectives
      perform({comm, kCollectiveLane, Collective(comm, call)}, stream);
    }
  });
}

}  // namespace
}  // namespace gradsync::paper::nccl

using namespace gradsync::paper::nccl;  // NOLINT: what follows is NCCL's interface

// NOLINTBEGIN(readability-identifier-naming): the names are NCCL's
extern "C" {

ncclResult_t ncclAllReduce(const void* send, void* receive, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return issue({Kind::kAllReduce, send, receive, count, type, op}, comm, stream);
}

ncclResult_t ncclReduce(const void* send, void* receive, size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  return issue({Kind::kReduce, send, receive, count, type, op, root}, comm, stream);
}

ncclResult_t ncclReduceScatter(const void* send, void* receive, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return issue({Kind::kReduceScatter, send, receive, count, type, op}, comm, stream);
}

ncclResult_t ncclBroadcast(const void* send, void* receive, size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return issue({Kind::kBroadcast, send, receive, count, type, -1, root}, comm, stream);
}

ncclResult_t ncclBcast(void* buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                       cudaStream_t stream) {
  return ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}

ncclResult_t ncclAllGather(const void* send, void* receive, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return issue({Kind::kAllGather, send, receive, count, type}, comm, stream);
}

ncclResult_t ncclSend(const void* send, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return issue({Kind::kSend, send, nullptr, count, type, -1, peer}, comm, stream);
}

ncclResult_t ncclRecv(void* receive, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return issue({Kind::kReceive, nullptr, receive, count, type, -1, peer}, comm, stream);
}

#if NCCL_VERSION_CODE >= 22800
ncclResult_t ncclAlltoAll(const void* send, void* receive, size_t count, ncclDataType_t type,
                          ncclComm_t comm, cudaStream_t stream) {
  return issue({Kind::kAlltoAll, send, receive, count, type}, comm, stream);
}

ncclResult_t ncclGather(const void* send, void* receive, size_t count, ncclDataType_t type,
                        int root, ncclComm_t comm, cudaStream_t stream) {
  return issue({Kind::kGather, send, receive, count, type, -1, root}, comm, stream);
}

ncclResult_t ncclScatter(const void* send, void* receive, size_t count, ncclDataType_t type,
                         int root, ncclComm_t comm, cudaStream_t stream) {
  return issue({Kind::kScatter, send, receive, count, type, -1, root}, comm, stream);
}
#endif

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
