// The part of NCCL's interface that is watched, declared by hand: the preloaded library is compiled
// where there is neither NCCL nor CUDA.
//
// Source: nccl.h of NCCL 2.28. Values and signatures have not changed since the functions appeared
// (2.0 for the collectives, 2.7 for send and receive, 2.28 for the last three); enums are ints in
// C's calling convention.
#pragma once

#include <cstddef>
#include <cstdint>

struct ncclComm;
struct CUstream_st;

using ncclComm_t = ncclComm*;
using cudaStream_t = CUstream_st*;
using ncclResult_t = int;
using ncclDataType_t = int;
using ncclRedOp_t = int;

namespace gradsync::watch {

inline constexpr ncclResult_t kNcclSuccess = 0;
inline constexpr ncclResult_t kNcclSystemError = 2;  // "a call to the system failed"

// Bytes of each ncclDataType_t: int8, uint8, int32, uint32, int64, uint64, float16, float32,
// float64, bfloat16 (2.10), float8e4m3, float8e5m2 (both 2.24).
inline constexpr std::int64_t kNcclTypeBytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

}  // namespace gradsync::watch

// NOLINTBEGIN(readability-identifier-naming): the names are NCCL's
#pragma GCC visibility push(default)  // of who defines them
extern "C" {

// Makes a communicator of `devices` ranks, all of this process.
ncclResult_t ncclCommInitAll(ncclComm_t* comms, int devices, const int* device_list);
ncclResult_t ncclCommCount(ncclComm_t comm, int* count);
ncclResult_t ncclCommUserRank(ncclComm_t comm, int* rank);

ncclResult_t ncclAllReduce(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclBroadcast(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclBcast(void* buffer, std::size_t count, ncclDataType_t type, int root,
                       ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclReduce(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclAllGather(const void* send, void* receive, std::size_t send_count,
                           ncclDataType_t type, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclReduceScatter(const void* send, void* receive, std::size_t receive_count,
                               ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                               cudaStream_t stream);
ncclResult_t ncclSend(const void* send, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclRecv(void* receive, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream);
// `count` of these three is what goes to, or comes from, one rank.
ncclResult_t ncclAlltoAll(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                          ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclGather(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                        int root, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclScatter(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                         int root, ncclComm_t comm, cudaStream_t stream);

}  // extern "C"
#pragma GCC visibility pop
// NOLINTEND(readability-identifier-naming)
