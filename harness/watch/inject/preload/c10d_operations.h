// The operations of torch's c10d, as its dispatcher calls them. Compiled into the job as well: it
// needs nothing of the rest.
#pragma once

#include <iterator>
#include <string_view>

namespace gradsync::watch {

// Its name among ours, and which argument has its size, as the sync ledger counts it
// (harness/comm/recording_backend.cpp). kNoSize: it moves none of the job's data.
struct C10dOperation {
  std::string_view c10d;
  std::string_view name;
  int sized;
};

inline constexpr int kNoSize = -1;
inline constexpr C10dOperation kC10dOperations[] = {
    {"allreduce_", "all_reduce", 0},
    {"allreduce_coalesced_", "all_reduce", 0},
    {"broadcast_", "broadcast", 0},
    {"_allgather_base_", "all_gather", 0},
    {"_reduce_scatter_base_", "reduce_scatter", 1},
    {"allgather_", "all_gather", 0},
    {"allgather_coalesced_", "all_gather", 0},
    {"allgather_into_tensor_coalesced_", "all_gather", 0},
    {"reduce_scatter_", "reduce_scatter", 1},
    {"reduce_scatter_tensor_coalesced_", "reduce_scatter", 1},
    {"reduce_", "reduce", 0},
    {"gather_", "gather", 1},
    {"gather_into_tensor_", "gather", 1},
    {"scatter_", "scatter", 0},
    {"alltoall_", "all_to_all", 1},
    {"alltoall_base_", "all_to_all", 1},
    {"send", "send", 0},
    {"recv_", "recv", 0},
    {"recv_any_source_", "recv", 0},
    {"barrier", "barrier", kNoSize},
    {"monitored_barrier_", "barrier", kNoSize},
};
inline constexpr std::string_view kNotCollective = "check_for_nan";

// Returns the operation of this name; of one that is not known the name is its own, and no argument
// has its size.
inline C10dOperation c10d_operation(std::string_view c10d) {
  for (const C10dOperation& operation : kC10dOperations) {
    if (operation.c10d == c10d) return operation;
  }
  return {c10d, c10d, static_cast<int>(std::size(kC10dOperations))};
}

// Whether what a rank gets has that size, and not what it gives. `name`: ours.
inline bool is_sized_by_output(std::string_view name) {
  return name == "all_gather" || name == "scatter" || name == "recv";
}

}  // namespace gradsync::watch
