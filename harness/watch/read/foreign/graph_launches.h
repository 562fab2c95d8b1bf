// Whether the CUDA graphs of a trace may communicate.
//
// A graph runs the collectives captured into it without c10d, so a trace has no record of them: it
// has the launch of the graph, and under the launch's correlation what ran on the GPU. A launch
// counts as silent only where such work is in the file and none of it is a kernel of NCCL's.
//
// Source: Kineto's output_json.cpp; a kernel has the "correlation" of the call that launched it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace gradsync::watch {

class GraphLaunches {
 public:
  // Takes an event of any category, in any order. `correlation`: nothing where it is not told.
  void see(std::string_view category, std::string_view name,
           std::optional<std::int64_t> correlation);

  // Returns whether a graph was launched that ran a kernel of NCCL's, or of which the file does not
  // tell what it ran. To be asked when all events were seen.
  bool may_communicate() const;

 private:
  std::vector<std::optional<std::int64_t>> launches_;
  // By correlation, whatever launched it: a kernel may stand before its launch in the file.
  std::unordered_set<std::int64_t> ran_on_gpu_;
  std::unordered_set<std::int64_t> ran_nccl_;
};

}  // namespace gradsync::watch
