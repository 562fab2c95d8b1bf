// What jobs that are made up waste.
#pragma once

#include <vector>

#include "harness/watch/judge/examined.h"
#include "harness/watch/judge/wastes/wastes.h"
#include "tests/harness/watch/judged_job.h"

namespace gradsync::watch {

inline std::vector<Waste> wastes_on(const std::vector<MadeJob>& ranks) {
  std::vector<RankEvents> processes;
  for (const MadeJob& rank : ranks) {
    processes.push_back(rank.process());
    processes.back().rank = static_cast<int>(processes.size()) - 1;
  }
  const std::vector<Examined> seen = examined(processes);
  return wastes_of(comparable(seen));
}

inline std::vector<WasteKind> kinds_on(const MadeJob& job) {
  std::vector<WasteKind> kinds;
  for (const Waste& waste : wastes_on({job})) kinds.push_back(waste.kind);
  return kinds;
}

}  // namespace gradsync::watch
