// A libnccl.so.2 that moves nothing: each function prints what it was given, and returns what
// STUB_RESULT says. As in NCCL, ncclBcast is a call of ncclBroadcast by its symbol.
#include "tests/harness/watch/inject/preload/nccl_stub.h"

#include <cstdio>
#include <cstdlib>

#include "harness/watch/inject/preload/nccl_abi.h"

namespace {

constexpr ncclResult_t kInvalidArgument = 4;

ncclResult_t tell(const char* function, const void* send, const void* receive, std::size_t count,
                  ncclDataType_t type, int other, ncclComm_t comm, cudaStream_t stream) {
  std::printf(STUB_NAME " %s %p %p %zu type %d, %d, rank %d, stream %p\n", function, send, receive,
              count, type, other, comm == nullptr ? -1 : comm->rank, static_cast<void*>(stream));
  const char* result = std::getenv("STUB_RESULT");
  return result == nullptr ? gradsync::watch::kNcclSuccess : std::atoi(result);
}

}  // namespace

ncclResult_t ncclCommInitAll(ncclComm_t* comms, int devices, const int* device_list) {
  static ncclComm made[8];
  for (int i = 0; i < devices; ++i) {
    made[i] = {i, devices};
    comms[i] = &made[i];
  }
  std::printf(STUB_NAME " ncclCommInitAll %d of %p\n", devices,
              static_cast<const void*>(device_list));
  return gradsync::watch::kNcclSuccess;
}

ncclResult_t ncclCommCount(ncclComm_t comm, int* count) {
  if (comm == nullptr) return kInvalidArgument;
  *count = comm->ranks;
  return gradsync::watch::kNcclSuccess;
}

ncclResult_t ncclCommUserRank(ncclComm_t comm, int* rank) {
  if (comm == nullptr) return kInvalidArgument;
  *rank = comm->rank;
  return gradsync::watch::kNcclSuccess;
}

ncclResult_t ncclAllReduce(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return tell("ncclAllReduce", send, receive, count, type, op, comm, stream);
}

ncclResult_t ncclBroadcast(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return tell("ncclBroadcast", send, receive, count, type, root, comm, stream);
}

ncclResult_t ncclBcast(void* buffer, std::size_t count, ncclDataType_t type, int root,
                       ncclComm_t comm, cudaStream_t stream) {
  return ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}

ncclResult_t ncclReduce(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  return tell("ncclReduce", send, receive, count, type, 10 * op + root, comm, stream);
}

ncclResult_t ncclAllGather(const void* send, void* receive, std::size_t send_count,
                           ncclDataType_t type, ncclComm_t comm, cudaStream_t stream) {
  return tell("ncclAllGather", send, receive, send_count, type, 0, comm, stream);
}

ncclResult_t ncclReduceScatter(const void* send, void* receive, std::size_t receive_count,
                               ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                               cudaStream_t stream) {
  return tell("ncclReduceScatter", send, receive, receive_count, type, op, comm, stream);
}

ncclResult_t ncclSend(const void* send, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return tell("ncclSend", send, nullptr, count, type, peer, comm, stream);
}

ncclResult_t ncclRecv(void* receive, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return tell("ncclRecv", nullptr, receive, count, type, peer, comm, stream);
}

ncclResult_t ncclAlltoAll(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                          ncclComm_t comm, cudaStream_t stream) {
  return tell("ncclAlltoAll", send, receive, count, type, 0, comm, stream);
}

ncclResult_t ncclGather(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                        int root, ncclComm_t comm, cudaStream_t stream) {
  return tell("ncclGather", send, receive, count, type, root, comm, stream);
}

ncclResult_t ncclScatter(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                         int root, ncclComm_t comm, cudaStream_t stream) {
  return tell("ncclScatter", send, receive, count, type, root, comm, stream);
}
