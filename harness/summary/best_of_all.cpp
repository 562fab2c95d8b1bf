#include "harness/summary/best_of_all.h"

#include <algorithm>
#include <utility>

#include "harness/base/grouped.h"
#include "harness/summary/comparison.h"

namespace gradsync::summary {

using nlohmann::json;
using results::Among;
using results::Best;
using results::CellResult;
using results::Parameters;

namespace {

bool all_by_default(const Parameters& cell) {
  return std::ranges::all_of(communication_options(), [&](const plan::Axis& option) {
    return !cell.has(option.name) || cell.value(option.name) == plan::default_of(option);
  });
}

bool compressed(const Parameters& cell) {
  return cell.compression() != "none";
}

struct Timed {
  const CellGroup* group;
  double step_s;
};

// What cells share that may be compared: their part, and all but strategy and options.
std::pair<std::string, json> set_up_of(const Timed& timed) {
  const CellGroup& group = *timed.group;
  Parameters rest = group.cell.without({"strategy"});
  for (const plan::Axis& option : communication_options()) {
    rest = rest.without({option.name.c_str()});
  }
  return {group.part, rest.written()};
}

std::vector<Timed> timed_under_ddp(const std::vector<CellGroup>& groups,
                                   const std::vector<CellResult>& cells) {
  std::vector<Timed> timed;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (!cells[i].is_timed() || groups[i].cell.wrapper() != "ddp") continue;
    timed.push_back({&groups[i], cells[i].step_s->mean});
  }
  return timed;
}

// The fastest of those that `counts`, and how many those are.
template <typename Counts>
std::pair<const Timed*, std::size_t> fastest(const std::vector<const Timed*>& list, Counts counts) {
  const Timed* best = nullptr;
  std::size_t number = 0;
  for (const Timed* timed : list) {
    if (!counts(timed->group->cell)) continue;
    ++number;
    if (best == nullptr || timed->step_s < best->step_s) best = timed;
  }
  return {best, number};
}

// The winner and what it is compared with were chosen because they came out fastest, and chance
// chooses, too. So the interval is one that holds for every pair that there was to choose from, all
// at once (Bonferroni's inequality).
Best entry(Among among, const std::pair<const Timed*, std::size_t>& best,
           const std::pair<const Timed*, std::size_t>& reference) {
  const CellGroup& group = *best.first->group;
  Best out;
  out.part = group.part;
  out.among = among;
  out.cell = group.cell;
  out.step_s = best.first->step_s;
  out.of = best.second;
  out.vs = reference.first->group->cell;
  out.choices = best.second * reference.second;
  const double level = 1 - (1 - stats::kUsualLevel) / static_cast<double>(out.choices);
  const auto ratio = compare_steps(group, *reference.first->group, level);
  if (!ratio) return out;
  out.ratio = ratio->ratio;
  out.ci95 = ratio->ci95;
  out.launches = ratio->launches;
  out.pairs = ratio->pairs;
  return out;
}

}  // namespace

const std::vector<plan::Axis>& communication_options() {
  static const std::vector<plan::Axis> options = [] {
    std::vector<plan::Axis> found = plan::axes();
    std::erase_if(found, [](const plan::Axis& axis) { return !axis.changes_way_alone; });
    return found;
  }();
  return options;
}

std::vector<Best> best_of_all(const std::vector<CellGroup>& groups,
                              const std::vector<CellResult>& cells) {
  std::vector<Best> best;
  const std::vector<Timed> timed = timed_under_ddp(groups, cells);
  for (const auto& list : grouped(timed, set_up_of)) {
    const auto reference = fastest(list, all_by_default);
    if (reference.first == nullptr || reference.second == list.size()) continue;
    const auto any = fastest(list, [](const Parameters&) { return true; });
    best.push_back(entry(Among::All, any, reference));
    if (!compressed(any.first->group->cell)) continue;
    const auto whole = fastest(list, [](const Parameters& cell) { return !compressed(cell); });
    best.push_back(entry(Among::WholeGradients, whole, reference));
  }
  return best;
}

}  // namespace gradsync::summary
