#include "harness/watch/read/event.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

namespace gradsync::watch {

bool accumulates_nothing(const Event& event) {
  return event.kind == EventKind::Backward && event.detail == "0";
}

bool has_communicated(const Event& event) {
  return event.kind == EventKind::Collective && !event.is_captured;
}

std::int64_t begun_ns(const Event& collective) {
  return collective.on_gpu ? collective.on_gpu->ran.start_ns : collective.start_ns;
}

std::int64_t complete_ns(const Event& collective) {
  return collective.on_gpu ? collective.on_gpu->ran.end_ns : collective.end_ns;
}

void sort_by_time(std::vector<Event>& events) {
  std::ranges::stable_sort(events, {}, &Event::start_ns);
}

void shift(RankEvents& process, std::int64_t by_ns) {
  for (Event& event : process.events) {
    event.start_ns += by_ns;
    event.end_ns += by_ns;
    if (event.issued_ns != 0) event.issued_ns += by_ns;
    if (!event.on_gpu) continue;
    event.on_gpu->ran.start_ns += by_ns;
    event.on_gpu->ran.end_ns += by_ns;
  }
  if (process.gpu) shift(*process.gpu, by_ns);
}

std::vector<const RankEvents*> training_processes(const std::vector<RankEvents>& processes) {
  std::map<int, const RankEvents*> by_rank;
  for (const RankEvents& process : processes) {
    if (process.rank < 0 && process.events.empty() && !process.is_traced) continue;
    const RankEvents*& known = by_rank[process.rank];
    if (known == nullptr || known->events.size() < process.events.size()) known = &process;
  }
  if (by_rank.size() > 1) by_rank.erase(-1);
  std::vector<const RankEvents*> chosen;
  for (const auto& [rank, process] : by_rank) chosen.push_back(process);
  return chosen;
}

const Event* wrap_of(const RankEvents& rank, std::int64_t model) {
  const Event* wrap = nullptr;
  for (const Event& event : rank.events) {
    if (event.kind == EventKind::Wrap && event.object == model && model != 0) wrap = &event;
  }
  return wrap;
}

const Group* group_named(const RankEvents& rank, const std::string& name) {
  const auto found = std::ranges::find(rank.groups, name, &Group::name);
  return found == rank.groups.end() ? nullptr : &*found;
}

std::string place_text(const std::string& file, int line) {
  if (file.empty()) return "";
  return fmt::format("{} line {}", std::filesystem::path(file).filename().string(), line);
}

}  // namespace gradsync::watch
