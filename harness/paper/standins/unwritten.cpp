#include "harness/paper/standins/unwritten.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "harness/paper/standins/memory.h"
#include "harness/paper/standins/python_line.h"

namespace gradsync::paper {
namespace {

constexpr std::size_t kMostLines = 10;

// Written ranges, start to end, never adjacent.
class Ranges {
 public:
  void add(const char* start, const char* end) {
    auto next = ends_.upper_bound(start);
    if (next != ends_.begin() && std::prev(next)->second >= start) {
      --next;
      start = next->first;
    }
    while (next != ends_.end() && next->first <= end) {
      if (next->second > end) end = next->second;
      next = ends_.erase(next);
    }
    ends_[start] = end;
  }
  // Returns those of them that were there.
  std::vector<std::pair<const char*, const char*>> remove(const char* start, const char* end) {
    std::vector<std::pair<const char*, const char*>> removed;
    auto next = ends_.upper_bound(start);
    if (next != ends_.begin() && std::prev(next)->second > start) --next;
    while (next != ends_.end() && next->first < end) {
      const auto [from, to] = *next;
      next = ends_.erase(next);
      if (from < start) ends_[from] = start;
      if (to > end) ends_[end] = to;
      removed.emplace_back(std::max(from, start), std::min(to, end));
    }
    return removed;
  }
  bool has(const char* start, const char* end) const {
    auto next = ends_.upper_bound(start);
    return next != ends_.begin() && std::prev(next)->second >= end;
  }

 private:
  std::map<const char*, const char*> ends_;
};

struct Written {
  std::mutex mutex;
  Ranges ranges;
  std::set<std::string> lines;
};

Written& written() {
  static Written* all = new Written;
  return *all;
}

bool is_device(const void* address) {
  return facts_of(address).kind == MemoryKind::Device;
}

void warn_of_read() {
  const std::string line = line_of_python();
  if (line.empty()) return;
  Written& all = written();
  {
    const std::lock_guard lock(all.mutex);
    if (all.lines.size() >= kMostLines || !all.lines.insert(line).second) return;
  }
  std::fprintf(stderr,
               "gradsync: warn: %s reads what a GPU would have computed: on GPUs of paper that is "
               "0, and what depends on it is not real\n",
               line.c_str());
}

}  // namespace

void note_copy(const void* to, const void* from, std::size_t bytes) {
  const char* source = static_cast<const char*>(from);
  const char* target = static_cast<const char*>(to);
  bool is_known = true;
  Written& all = written();
  if (is_device(from)) {
    const std::lock_guard lock(all.mutex);
    is_known = all.ranges.has(source, source + bytes);
  }
  if (!is_device(to)) {
    if (!is_known) warn_of_read();
    return;
  }
  const std::lock_guard lock(all.mutex);
  if (is_known) {
    all.ranges.add(target, target + bytes);
  } else {
    all.ranges.remove(target, target + bytes);
  }
}

void note_written(const void* to, std::size_t bytes) {
  const char* target = static_cast<const char*>(to);
  Written& all = written();
  const std::lock_guard lock(all.mutex);
  all.ranges.add(target, target + bytes);
}

void forget_written(const void* start, std::size_t bytes) {
  const char* at = static_cast<const char*>(start);
  Written& all = written();
  const std::lock_guard lock(all.mutex);
  all.ranges.remove(at, at + bytes);
}

void gradsync_paper_new_block(void* start, std::size_t bytes) {
  char* at = static_cast<char*>(start);
  Written& all = written();
  const std::lock_guard lock(all.mutex);
  for (const auto& [from, to] : all.ranges.remove(at, at + bytes)) {
    std::memset(at + (from - at), 0, static_cast<std::size_t>(to - from));
  }
}

}  // namespace gradsync::paper
