// The clocks of a run's hosts, laid over each other: what its context says of them.
//
// Every rank's times are on its own host's steady clock. Ranks that this program started itself
// share one, also across namespaces. Under an outside launcher the leading task compared the hosts'
// clocks before and after the run ("clocks" of the context; launch/clock_offset.h says how).
#pragma once

#include <map>
#include <optional>

#include "harness/results/run_context.h"

namespace gradsync::summary {

class HostClocks {
 public:
  // All ranks on one clock.
  HostClocks() = default;
  // As the context of a result says.
  explicit HostClocks(const results::Context& context);

  // A node's clock minus that of the leading host, true within +- error_s, in seconds.
  struct Offset {
    double offset_s = 0;
    double error_s = 0;
  };

  // Returns nothing where the node's clock was not compared: the run was interrupted, the task was
  // gone by then, or earlier trials were made under another start, whose clocks nobody knows.
  std::optional<Offset> of(int node) const;

 private:
  bool one_clock_ = true;
  std::map<int, Offset> by_node_;
};

}  // namespace gradsync::summary
