#include "harness/launch/cgroup.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "harness/base/words.h"

namespace gradsync::launch {
namespace {

constexpr double kNanosecond = 1e-9;
constexpr double kMicrosecond = 1e-6;
// Version 1 writes the largest number of whole pages where there is no limit.
constexpr std::int64_t kNoLimit = std::int64_t{1} << 60;

bool names(const std::string& comma_list, const std::string& name) {
  const std::vector<std::string> words = split_at_commas(comma_list);
  return std::ranges::find(words, name) != words.end();
}

// Where a tree is mounted, and which of its groups is there.
struct Mount {
  std::string folder;
  std::string group;
};

// Of /proc/self/mountinfo: "ID PARENT DEVICE ROOT FOLDER OPTIONS [FIELDS] - TYPE SOURCE OPTIONS".
std::optional<Mount> mount_of(const std::string& root, int version, const std::string& controller) {
  std::ifstream file(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    std::istringstream before(line.substr(0, dash));
    std::istringstream after(line.substr(dash + 3));
    std::string skipped;
    Mount mount;
    std::string type;
    std::string options;
    before >> skipped >> skipped >> skipped >> mount.group >> mount.folder;
    after >> type >> skipped >> options;
    if (version == 2 ? type == "cgroup2" : type == "cgroup" && names(options, controller)) {
      return mount;
    }
  }
  return std::nullopt;
}

// Of /proc/self/cgroup: "NUMBER:CONTROLLERS:GROUP", and "0::GROUP" for version 2.
std::optional<std::string> group_of(const std::string& root, int version,
                                    const std::string& controller) {
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (version == 2 ? controllers.empty() : names(controllers, controller)) {
      return line.substr(second + 1);
    }
  }
  return std::nullopt;
}

// The group's path below the mount. In a container without a namespace of its own for groups the
// mount is the container's group, and the path begins with that; what lies outside cannot be seen.
std::string below(const Mount& mount, const std::string& group) {
  if (group.starts_with("/..")) return "";
  if (mount.group == "/") return group;
  if (group == mount.group || group.starts_with(mount.group + "/")) {
    return group.substr(mount.group.size());
  }
  return "";
}

std::optional<std::int64_t> number_in(const std::string& path) {
  std::ifstream file(path);
  std::int64_t number = 0;
  if (file >> number) return number;
  return std::nullopt;  // "max" too
}

// Returns the number behind `name` in a file with a name and a number in each line.
std::optional<std::int64_t> number_named(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  std::string word;
  std::int64_t number = 0;
  while (file >> word >> number) {
    if (word == name) return number;
  }
  return std::nullopt;
}

std::optional<double> quota_of(int version, const std::string& folder) {
  std::optional<std::int64_t> quota;
  std::optional<std::int64_t> period;
  if (version == 2) {  // "50000 100000", "max 100000"
    std::ifstream file(folder + "/cpu.max");
    std::int64_t first = 0;
    std::int64_t second = 0;
    if (file >> first >> second) {
      quota = first;
      period = second;
    }
  } else {
    quota = number_in(folder + "/cpu.cfs_quota_us");
    period = number_in(folder + "/cpu.cfs_period_us");
  }
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

std::optional<double> throttled_in(int version, const std::string& folder) {
  const bool second = version == 2;
  const auto time =
      number_named(folder + "/cpu.stat", second ? "throttled_usec" : "throttled_time");
  if (!time) return std::nullopt;
  return static_cast<double>(*time) * (second ? kMicrosecond : kNanosecond);
}

std::optional<std::int64_t> memory_limit_in(int version, const std::string& folder) {
  const auto limit = number_in(folder + (version == 2 ? "/memory.max" : "/memory.limit_in_bytes"));
  return limit && *limit < kNoLimit ? limit : std::nullopt;
}

std::int64_t memory_used_in(int version, const std::string& folder) {
  const bool second = version == 2;
  const auto used = number_in(folder + (second ? "/memory.current" : "/memory.usage_in_bytes"));
  const auto files =
      number_named(folder + "/memory.stat", second ? "inactive_file" : "total_inactive_file");
  return used.value_or(0) - files.value_or(0);
}

template <typename Number>
void lower_to(std::optional<Number>& least, const std::optional<Number>& value) {
  if (value && (!least || *value < *least)) least = value;
}

}  // namespace

Cgroups::Cgroups(const std::string& root)
    : cpu_(tree_of(root, "cpu")), memory_(tree_of(root, "memory")) {}

Cgroups::Tree Cgroups::tree_of(const std::string& root, const std::string& controller) {
  for (const int version : {1, 2}) {
    const auto mount = mount_of(root, version, controller);
    const auto group = group_of(root, version, controller);
    if (!mount || !group) continue;
    Tree tree{version, {}};
    const std::filesystem::path top = root + mount->folder;
    for (std::filesystem::path folder = top.string() + below(*mount, *group);;
         folder = folder.parent_path()) {
      if (folder.filename().empty()) folder = folder.parent_path();  // of a group "/"
      tree.folders.push_back(folder.string());
      if (folder == top) break;
    }
    return tree;
  }
  return {};
}

std::optional<double> Cgroups::cpu_quota() const {
  std::optional<double> least;
  for (const std::string& folder : cpu_.folders) lower_to(least, quota_of(cpu_.version, folder));
  return least;
}

std::optional<double> Cgroups::throttled_s() const {
  std::optional<double> total;
  for (const std::string& folder : cpu_.folders) {
    if (const auto here = throttled_in(cpu_.version, folder)) total = total.value_or(0) + *here;
  }
  return total;
}

std::optional<std::int64_t> Cgroups::memory_limit_bytes() const {
  std::optional<std::int64_t> least;
  for (const std::string& folder : memory_.folders) {
    lower_to(least, memory_limit_in(memory_.version, folder));
  }
  return least;
}

std::optional<std::int64_t> Cgroups::memory_left_bytes() const {
  std::optional<std::int64_t> least;
  for (const std::string& folder : memory_.folders) {
    const auto limit = memory_limit_in(memory_.version, folder);
    if (!limit) continue;
    const std::int64_t left = *limit - memory_used_in(memory_.version, folder);
    lower_to(least, std::optional<std::int64_t>(std::max<std::int64_t>(left, 0)));
  }
  return least;
}

}  // namespace gradsync::launch
