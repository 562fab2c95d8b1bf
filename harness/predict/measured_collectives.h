// Times of collectives, as programs wrote them that measure nothing else.
//
//   micro_collectives   Google Benchmark's JSON (--benchmark_format=json)
//   nccl-tests          what all_reduce_perf and its like print: the columns out of place
//   gloo                what its benchmark prints: the medians
#pragma once

#include <optional>
#include <string>
#include <string_view>
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

// What a file may not say.
struct NotInFile {
  int ranks_per_node = 1;                   // gloo's says how many ranks there are, and not where
  std::optional<Operation> operation = {};  // nccl-tests before 2.18 do not name theirs
};

std::string to_string(Operation operation);  // "all_reduce", ...
std::optional<Operation> operation_named(std::string_view name);

// Errors: ConfigError that names the file, where it is none of these, holds no times, or has
// ranks that are dealt out unevenly.
std::vector<MeasuredCollective> read_collectives(const std::string& path, const NotInFile& more);

}  // namespace gradsync::predict
