#include "harness/gate/work.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <set>
#include <tuple>
#include <utility>

#include "harness/gate/ranks_alike.h"

namespace gradsync::gate {
namespace {

std::map<int, const RankWork*> by_rank(const HeldWork& work) {
  std::map<int, const RankWork*> ranks;
  for (const RankWork& group : work.ranks) {
    for (const int rank : group.ranks) ranks[rank] = &group;
  }
  return ranks;
}

template <typename Value>
std::optional<Value> common(const std::optional<Value>& a, const std::optional<Value>& b) {
  return a == b ? a : std::nullopt;
}

OperatorWork operator_in(const RankWork& rank, const std::string& name) {
  const auto found = rank.operators.find(name);
  return found == rank.operators.end() ? OperatorWork{} : found->second;
}

std::set<std::string> operators_of(const RankWork& a, const RankWork& b) {
  std::set<std::string> names;
  for (const RankWork* rank : {&a, &b}) {
    for (const auto& [name, work] : rank->operators) names.insert(name);
  }
  return names;
}

RankWork common_work(int rank, const RankWork& first, const RankWork& second) {
  RankWork work{{rank}, {}, common(first.flops, second.flops), second.lines};
  for (const std::string& name : operators_of(first, second)) {
    const OperatorWork a = operator_in(first, name);
    const OperatorWork b = operator_in(second, name);
    work.operators[name] = {common(a.times, b.times), common(a.bytes, b.bytes)};
  }
  return work;
}

// Returns how much a difference explains: a larger one is named earlier.
std::tuple<bool, bool, std::int64_t, std::int64_t> weight(const OperatorDifference& operation) {
  return {operation.name == kHostRead && operation.held_times != operation.seen_times,
          operation.name.starts_with(kCopyPrefix),
          std::abs(operation.seen_times - operation.held_times),
          std::abs(operation.seen_bytes - operation.held_bytes)};
}

std::vector<OperatorDifference> operator_differences(const RankWork& held, const RankWork& seen) {
  std::vector<OperatorDifference> found;
  for (const std::string& name : operators_of(held, seen)) {
    const OperatorWork a = operator_in(held, name);
    const OperatorWork b = operator_in(seen, name);
    OperatorDifference difference{name};
    if (a.times && b.times) {
      difference.held_times = *a.times;
      difference.seen_times = *b.times;
    }
    if (a.bytes && b.bytes) {
      difference.held_bytes = *a.bytes;
      difference.seen_bytes = *b.bytes;
    }
    if (difference.held_times != difference.seen_times ||
        difference.held_bytes != difference.seen_bytes) {
      found.push_back(std::move(difference));
    }
  }
  std::ranges::stable_sort(found,
                           [](const auto& a, const auto& b) { return weight(a) > weight(b); });
  return found;
}

const LineWork* line_like(const LineWork& line, const std::vector<LineWork>& lines) {
  const auto found = std::ranges::find_if(lines, [&](const LineWork& other) {
    return other.file == line.file && other.text == line.text;
  });
  return found == lines.end() ? nullptr : &*found;
}

std::vector<LineWork> new_lines(const std::vector<LineWork>& held,
                                const std::vector<LineWork>& seen) {
  std::vector<LineWork> lines;
  std::ranges::copy_if(seen, std::back_inserter(lines),
                       [&](const LineWork& line) { return line_like(line, held) == nullptr; });
  return lines;
}

// The lines of `more` that do more than `less` has of them.
std::vector<LineWork> lines_with_more(const std::vector<LineWork>& less,
                                      const std::vector<LineWork>& more) {
  std::vector<LineWork> lines;
  std::ranges::copy_if(more, std::back_inserter(lines), [&](const LineWork& line) {
    const LineWork* other = line_like(line, less);
    return other == nullptr || other->times < line.times ||
           (other->times == line.times && other->bytes < line.bytes);
  });
  return lines;
}

std::vector<LineWork> lines_behind(const std::vector<LineWork>& held,
                                   const std::vector<LineWork>& seen) {
  if (held.empty() || seen.empty()) return {};
  std::vector<LineWork> lines = new_lines(held, seen);
  if (lines.empty()) lines = lines_with_more(held, seen);
  if (!lines.empty()) return lines;
  lines = lines_with_more(seen, held);
  for (LineWork& line : lines) line.line = 0;
  return lines;
}

WorkDifference difference_of(const RankWork& held, const RankWork& seen) {
  WorkDifference difference;
  difference.operators = operator_differences(held, seen);
  if (held.flops && seen.flops && held.flops != seen.flops) {
    difference.held_flops = held.flops;
    difference.seen_flops = seen.flops;
  }
  difference.lines = lines_behind(held.lines, seen.lines);
  return difference;
}

bool is_none(const WorkDifference& difference) {
  return difference.operators.empty() && !difference.held_flops;
}

}  // namespace

std::vector<RankWork> grouped(const std::vector<RankWork>& ranks) {
  std::vector<RankWork> groups;
  for (const RankWork& each : ranks) add_to_alike(groups, each);
  return groups;
}

HeldWork common_work(const HeldWork& first, const HeldWork& second) {
  HeldWork work{first.torch, {}};
  const auto others = by_rank(second);
  std::vector<RankWork> ranks;
  for (const auto& [rank, group] : by_rank(first)) {
    const auto other = others.find(rank);
    if (other != others.end()) ranks.push_back(common_work(rank, *group, *other->second));
  }
  work.ranks = grouped(ranks);
  return work;
}

std::vector<WorkDifference> work_differences(const HeldWork& held, const HeldWork& seen) {
  std::vector<WorkDifference> found;
  const auto others = by_rank(seen);
  std::size_t ranks = 0;
  for (const auto& [rank, group] : by_rank(held)) {
    const auto other = others.find(rank);
    if (other == others.end()) continue;
    ++ranks;
    WorkDifference difference = difference_of(*group, *other->second);
    if (is_none(difference)) continue;
    difference.ranks = {rank};
    add_to_alike(found, std::move(difference));
  }
  if (found.size() == 1 && found.front().ranks.size() == ranks) found.front().ranks.clear();
  return found;
}

}  // namespace gradsync::gate
