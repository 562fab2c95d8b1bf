// The processors that ranks can be pinned to, and which of them are threads of one core.
//
// Two hardware threads share the units that compute: two ranks on one core are each slower than
// alone, and one that has a core beside them waits for both. So ranks take a core each while there
// are any, node of memory by node of memory, and second threads after that.
#pragma once

#include <string>
#include <vector>

namespace gradsync::launch {

// One hardware thread.
struct Processor {
  int cpu = 0;     // as the kernel counts, for sched_setaffinity
  int core = 0;    // as hwloc counts, over the whole machine
  int numa = 0;    // likewise
  int thread = 0;  // which of those of its core that may be used
};

// Returns the processors that this process may use, in the order in which ranks take them. Where
// hwloc finds no cores, every processor counts as one.
std::vector<Processor> usable_processors();

// The same of a machine as hwloc's synthetic topologies describe one, "pack:2 core:4 pu:2", all of
// it. For tests. Errors: InternalError where hwloc does not understand it.
std::vector<Processor> processors_of(const std::string& synthetic);

// Returns how many cores the processors belong to.
int core_count(const std::vector<Processor>& processors);

// Returns the kernel's numbers of the usable processors, in the order in which ranks take them.
std::vector<int> usable_cpus();

}  // namespace gradsync::launch
