// The limits that the control groups of this process set, and when they throttled it: a container's
// limits, which neither sched_getaffinity nor /proc/meminfo shows.
//
// Version 1 has a tree of groups for each kind of limit, version 2 one for all; a machine may have
// both, and then the tree that has the controller counts. A limit of any group above this process's
// own applies too. A file that cannot be read sets no limit.
// Source: the kernel's Documentation/admin-guide/cgroup-v1 and cgroup-v2.rst.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gradsync::launch {

class Cgroups {
 public:
  // `root`: a folder with proc and sys in it, which stands for "/".
  explicit Cgroups(const std::string& root = "");

  // Returns how many cores' time the quota allows, 0.5 for half a core; nothing: there is no quota.
  std::optional<double> cpu_quota() const;

  // Returns for how many seconds, since the groups were made, tasks that wanted to run were
  // throttled because the quota was used up; nothing if no group counts it.
  std::optional<double> throttled_s() const;

  // Returns the lowest limit of memory, and how much the limits leave, in bytes; nothing: no limit.
  // The kernel drops unused pages of files before it ends a process, so they count as left.
  std::optional<std::int64_t> memory_limit_bytes() const;
  std::optional<std::int64_t> memory_left_bytes() const;

 private:
  // This process's own group and those above it, one tree's.
  struct Tree {
    int version = 2;
    std::vector<std::string> folders;
  };

  static Tree tree_of(const std::string& root, const std::string& controller);

  Tree cpu_;
  Tree memory_;
};

}  // namespace gradsync::launch
