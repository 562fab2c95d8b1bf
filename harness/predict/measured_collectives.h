// Reads times of collectives from the output of programs that measure them.
//
//   micro_collectives   Google Benchmark's JSON (--benchmark_format=json)
//   nccl-tests          what all_reduce_perf and its like print: the columns out of place
//   gloo                what its benchmark prints: the medians
#pragma once

#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/predict/collective_time.h"

namespace gradsync::predict {

struct MeasuredCollective {
  Operation operation = Operation::AllReduce;
  int nodes = 1;
  int ranks_per_node = 1;
  double bytes = 0;    // of the whole message, as collective_time() takes it
  double seconds = 0;  // of one, on the slowest rank where the program says so
};

// What some files do not say.
struct NotInFile {
  int ranks_per_node = 1;                   // gloo's says how many ranks there are, and not where
  std::optional<Operation> operation = {};  // nccl-tests before 2.18 do not name theirs
};

constexpr auto names_of(const Operation*) {
  return std::array{std::pair{Operation::AllReduce, "all_reduce"},
                    std::pair{Operation::ReduceScatter, "reduce_scatter"},
                    std::pair{Operation::AllGather, "all_gather"},
                    std::pair{Operation::Broadcast, "broadcast"}};
}
inline constexpr const char* kOperations = "all_reduce, reduce_scatter, all_gather or broadcast";

// Errors: ConfigError that names the file if it is none of these, has no times, or has different
// numbers of ranks per node.
std::vector<MeasuredCollective> read_collectives(const std::string& path, const NotInFile& more);

}  // namespace gradsync::predict
