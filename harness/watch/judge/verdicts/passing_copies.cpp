#include "harness/watch/judge/verdicts/passing_copies.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <tuple>
#include <utility>

namespace gradsync::watch {
namespace {

constexpr int kCopies = 3;

using HashedValue = std::pair<std::int64_t, std::string>;  // elements, hash

// Returns what it was at the looks at it, in their order. A constant may be like any other one.
std::vector<HashedValue> values_of(const ParameterFate& of) {
  std::vector<HashedValue> values;
  if (of.parameter->is_constant) return values;
  for (const HashLook& look : of.optimizer->looks) {
    const auto found = look.values.find(std::to_string(of.parameter->index));
    if (found != look.values.end()) values.emplace_back(of.parameter->elements, found->second);
  }
  return values;
}

// The optimizers that the job makes at one line, of which ranks keep no parameter equal.
struct MadeAtALine {
  std::set<std::int64_t> optimizers;
  std::set<std::int64_t> of_copies;  // of these
  int gone = 0;                      // before another one was made
  std::set<HashedValue> begun_with;
  std::set<HashedValue> left;  // as the last look has it, if it is another value

  bool has_passing_copies() const {
    const bool goes_on = std::ranges::any_of(
        begun_with, [&](const HashedValue& value) { return left.contains(value); });
    return std::ssize(of_copies) >= kCopies && gone >= kCopies && !goes_on;
  }
};

void add(MadeAtALine& line, const ParameterFate& of, const std::set<HashedValue>& kept) {
  line.optimizers.insert(of.object);
  line.gone = std::max(line.gone, of.optimizer->gone_before);
  const std::vector<HashedValue> values = values_of(of);
  if (values.empty()) return;
  if (kept.contains(values.front())) line.of_copies.insert(of.object);
  line.begun_with.insert(values.front());
  if (values.back() != values.front()) line.left.insert(values.back());
}

}  // namespace

std::set<std::int64_t> optimizers_of_passing_copies(const std::vector<ParameterFate>& fates,
                                                    const RankEvents& rank) {
  std::set<HashedValue> kept;
  std::set<std::int64_t> keeping;
  for (const ParameterFate& of : fates) {
    const bool is_kept = is_kept_equal(of, rank);
    if (is_kept) std::ranges::move(values_of(of), std::inserter(kept, kept.end()));
    if (is_kept || of.parameter->owner != Owner::None) keeping.insert(of.object);
  }
  std::map<std::tuple<std::string, std::string, int>, MadeAtALine> lines;
  for (const ParameterFate& of : fates) {
    const TrackedOptimizer& made = *of.optimizer;
    if (keeping.contains(of.object) || made.file.empty()) continue;
    add(lines[{made.name, made.file, made.line}], of, kept);
  }
  std::set<std::int64_t> passing;
  for (const auto& [place, line] : lines) {
    if (line.has_passing_copies()) {
      passing.insert(line.optimizers.begin(), line.optimizers.end());
    }
  }
  return passing;
}

}  // namespace gradsync::watch
