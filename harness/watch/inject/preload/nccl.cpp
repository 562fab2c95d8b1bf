// Stands before NCCL's own functions: each records what it is called for and calls on. The results
// and errors are NCCL's.
//
// LD_PRELOAD puts these definitions before those of libnccl.so.2 for every caller that leaves its
// symbols to the dynamic linker, which torch's libtorch_cuda.so does. Not seen are callers that
// fetch a function's address from a library of their choice (dlsym, Python's ctypes), and an NCCL
// that is linked statically.
//
// NCCL calls itself through the same symbols (ncclBcast is a call of ncclBroadcast): only the
// outermost call on a thread counts. An event is the call; when the collective is complete, NCCL
// does not say. Whether a call is inside ncclGroupStart and ncclGroupEnd changes nothing of what it
// moves.
#include <atomic>
#include <iterator>

#include "harness/watch/inject/preload/event_kind.h"
#include "harness/watch/inject/preload/nccl_abi.h"
#include "harness/watch/inject/preload/nccl_calls.h"
#include "harness/watch/inject/preload/next_definition.h"

namespace gradsync::watch {
namespace {

// ROCm's has the same functions.
constexpr const char* kLibraries[] = {"libnccl.so.2", "librccl.so.1", nullptr};

thread_local int depth = 0;  // of calls under way on this thread

// Ranks of the largest communicator that lies within this process, as torch.nn.DataParallel makes
// one. It says nothing about other processes of the job.
constinit std::atomic<int> own_ranks{0};

// What the count of a call covers.
enum class Share {
  Whole,    // of all that the sync ledger counts (harness/comm/recording_backend.cpp)
  OneRank,  // of one rank's part of it
};

struct Request {
  std::string_view name;
  std::size_t count;
  ncclDataType_t type;
  ncclComm_t comm;
  cudaStream_t stream;
  Share share = Share::Whole;
};

using AskComm = ncclResult_t (*)(ncclComm_t, int*);

// Returns -1 where NCCL does not tell: then it does not do what it is called for, either.
int ask(NextDefinition& question, const void* caller, ncclComm_t comm) {
  const auto function = reinterpret_cast<AskComm>(question.find(caller));
  int answer = -1;
  return function != nullptr && function(comm, &answer) == kNcclSuccess ? answer : -1;
}

// Returns how many ranks the communicator has, and tells the file about this process's place in it.
int ranks_of(ncclComm_t comm, const void* caller) {
  static constinit NextDefinition count("ncclCommCount", kLibraries);
  static constinit NextDefinition user_rank("ncclCommUserRank", kLibraries);
  const int ranks = ask(count, caller, comm);
  const int rank = ask(user_rank, caller, comm);
  if (ranks > own_ranks && rank >= 0) set_nccl_place(rank, ranks);
  return ranks;
}

std::int64_t bytes_of(const Request& request, int ranks) {
  const auto type = static_cast<std::size_t>(request.type);  // a negative one is too large
  if (type >= std::size(kNcclTypeBytes)) return -1;
  const std::int64_t bytes = static_cast<std::int64_t>(request.count) * kNcclTypeBytes[type];
  if (request.share == Share::Whole) return bytes;
  return ranks > 0 ? bytes * ranks : -1;
}

void record(const Request& request, const void* caller) {
  const int ranks = ranks_of(request.comm, caller);
  const NcclCall call{request.name, bytes_of(request, ranks),
                      static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(request.comm))};
  const bool is_captured = capture(call, request.stream);
  record_nccl_call(call, is_captured ? kNcclCaptured : kNcclCall);
}

template <typename... Arguments>
ncclResult_t record_and_call_on(NextDefinition& next, const void* caller, const Request& request,
                                Arguments... arguments) {
  const bool is_seen = depth == 0 && nccl_is_watched() && next.find(caller) != nullptr;
  if (is_seen) record(request, caller);
  ++depth;
  const ncclResult_t result = call_on<kNcclSystemError>(next, caller, arguments...);
  --depth;
  return result;
}

}  // namespace
}  // namespace gradsync::watch

using namespace gradsync::watch;

ncclResult_t ncclCommInitAll(ncclComm_t* comms, int devices, const int* device_list) {
  static constinit NextDefinition next("ncclCommInitAll", kLibraries);
  const ncclResult_t result =
      call_on<kNcclSystemError>(next, __builtin_return_address(0), comms, devices, device_list);
  if (result == kNcclSuccess && devices > own_ranks) own_ranks = devices;
  return result;
}

ncclResult_t ncclAllReduce(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  static constinit NextDefinition next("ncclAllReduce", kLibraries);
  return record_and_call_on(next, __builtin_return_address(0),
                            {"all_reduce", count, type, comm, stream}, send, receive, count, type,
                            op, comm, stream);
}

ncclResult_t ncclBroadcast(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  static constinit NextDefinition next("ncclBroadcast", kLibraries);
  return record_and_call_on(next, __builtin_return_address(0),
                            {"broadcast", count, type, comm, stream}, send, receive, count, type,
                            root, comm, stream);
}

ncclResult_t ncclBcast(void* buffer, std::size_t count, ncclDataType_t type, int root,
                       ncclComm_t comm, cudaStream_t stream) {
  static constinit NextDefinition next("ncclBcast", kLibraries);
  return record_and_call_on(next, __builtin_return_address(0),
                            {"broadcast", count, type, comm, stream}, buffer, count, type, root,
                            comm, stream);
}

ncclResult_t ncclReduce(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  static constinit NextDefinition next("ncclReduce", kLibraries);
  return record_and_call_on(next, __builtin_return_address(0),
                            {"reduce", count, type, comm, stream}, send, receive, count, type, op,
                            root, comm, stream);
}

ncclResult_t ncclAllGather(const void* send, void* receive, std::size_t send_count,
                           ncclDataType_t type, ncclComm_t comm, cudaStream_t stream) {
  static constinit NextDefinition next("ncclAllGather", kLibraries);
  return record_and_call_on(next, __builtin_return_address(0),
                            {"all_gather", send_count, type, comm, stream, Share::OneRank}, send,
                            receive, send_count, type, comm, stream);
}

ncclResult_t ncclReduceScatter(const void* send, void* receive, std::size_t receive_count,
                               ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                               cudaStream_t stream) {
  static constinit NextDefinition next("ncclReduceScatter", kLibraries);
  return record_and_call_on(next, __builtin_return_address(0),
                            {"reduce_scatter", receive_count, type, comm, stream, Share::OneRank},
                            send, receive, receive_count, type, op, comm, stream);
}

ncclResult_t ncclSend(const void* send, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  static constinit NextDefinition next("ncclSend", kLibraries);
  return record_and_call_on(next, __builtin_return_address(0), {"send", count, type, comm, stream},
                            send, count, type, peer, comm, stream);
}

ncclResult_t ncclRecv(void* receive, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  static constinit NextDefinition next("ncclRecv", kLibraries);
  return record_and_call_on(next, __builtin_return_address(0), {"recv", count, type, comm, stream},
                            receive, count, type, peer, comm, stream);
}

ncclResult_t ncclAlltoAll(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                          ncclComm_t comm, cudaStream_t stream) {
  static constinit NextDefinition next("ncclAlltoAll", kLibraries);
  return record_and_call_on(next, __builtin_return_address(0),
                            {"all_to_all", count, type, comm, stream, Share::OneRank}, send,
                            receive, count, type, comm, stream);
}

ncclResult_t ncclGather(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                        int root, ncclComm_t comm, cudaStream_t stream) {
  static constinit NextDefinition next("ncclGather", kLibraries);
  return record_and_call_on(next, __builtin_return_address(0),
                            {"gather", count, type, comm, stream}, send, receive, count, type, root,
                            comm, stream);
}

ncclResult_t ncclScatter(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                         int root, ncclComm_t comm, cudaStream_t stream) {
  static constinit NextDefinition next("ncclScatter", kLibraries);
  return record_and_call_on(next, __builtin_return_address(0),
                            {"scatter", count, type, comm, stream}, send, receive, count, type,
                            root, comm, stream);
}
