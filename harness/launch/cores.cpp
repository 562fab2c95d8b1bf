#include "harness/launch/cores.h"

#include <hwloc.h>
#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <tuple>

#include "harness/base/errors.h"

namespace gradsync::launch {
namespace {

struct EndMachine {
  void operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }
};
using Machine = std::unique_ptr<hwloc_topology, EndMachine>;

// Only processors and memory are asked for. hwloc's plugins look for GPUs and displays, which takes
// seconds and CUDA's memory on machines that have some: it loads them wherever they lie.
Machine new_machine() {
  ::setenv("HWLOC_PLUGINS_PATH", "/nonexistent", /*overwrite=*/0);
  hwloc_topology_t topology = nullptr;
  GRADSYNC_CHECK(hwloc_topology_init(&topology), ==, 0);
  return Machine(topology);
}

std::set<int> allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::set<int> cpus;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.insert(cpu);
  }
  return cpus;
}

int numa_of(hwloc_topology_t topology, hwloc_obj_t pu) {
  const int node = pu->nodeset == nullptr ? -1 : hwloc_bitmap_first(pu->nodeset);
  hwloc_obj_t object =
      node < 0 ? nullptr
               : hwloc_get_numanode_obj_by_os_index(topology, static_cast<unsigned>(node));
  return object == nullptr ? 0 : static_cast<int>(object->logical_index);
}

std::vector<Processor> processors_in(hwloc_topology_t topology) {
  std::vector<Processor> found;
  for (hwloc_obj_t pu = nullptr;
       (pu = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_PU, pu)) != nullptr;) {
    hwloc_obj_t core = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_CORE, pu);
    found.push_back({static_cast<int>(pu->os_index),
                     static_cast<int>((core == nullptr ? pu : core)->logical_index),
                     numa_of(topology, pu), 0});
  }
  return found;
}

std::vector<Processor> in_order(std::vector<Processor> processors) {
  std::map<int, int> threads;  // so far, by core
  for (Processor& processor : processors) processor.thread = threads[processor.core]++;
  std::ranges::stable_sort(processors, {}, [](const Processor& processor) {
    return std::tuple(processor.thread, processor.numa, processor.core);
  });
  return processors;
}

}  // namespace

std::vector<Processor> usable_processors() {
  const std::set<int> allowed = allowed_cpus();
  const Machine machine = new_machine();
  std::vector<Processor> processors;
  if (hwloc_topology_load(machine.get()) == 0) processors = processors_in(machine.get());
  std::erase_if(processors,
                [&](const Processor& processor) { return !allowed.contains(processor.cpu); });
  if (processors.size() == allowed.size()) return in_order(std::move(processors));
  processors.clear();
  for (const int cpu : allowed) processors.push_back({cpu, cpu, 0, 0});
  return processors;
}

std::vector<Processor> processors_of(const std::string& synthetic) {
  const Machine machine = new_machine();
  GRADSYNC_CHECK(hwloc_topology_set_synthetic(machine.get(), synthetic.c_str()), ==, 0);
  GRADSYNC_CHECK(hwloc_topology_load(machine.get()), ==, 0);
  return in_order(processors_in(machine.get()));
}

int core_count(const std::vector<Processor>& processors) {
  std::set<int> cores;
  for (const Processor& processor : processors) cores.insert(processor.core);
  return static_cast<int>(cores.size());
}

std::vector<int> usable_cpus() {
  std::vector<int> cpus;
  for (const Processor& processor : usable_processors()) cpus.push_back(processor.cpu);
  return cpus;
}

}  // namespace gradsync::launch
