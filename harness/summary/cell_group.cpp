#include "harness/summary/cell_group.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <utility>

#include "harness/plan/strategies.h"
#include "harness/summary/plan_source.h"

namespace gradsync::summary {

using nlohmann::json;
using results::Status;
using results::TrialRecord;

namespace {

// From the mildest to the worst: what a whole cell is called when its trials differ.
constexpr std::array kSeverity = {Status::Ok,      Status::Skipped, Status::Oom,
                                  Status::Timeout, Status::Invalid, Status::Failed};

template <typename List, typename Value>
std::size_t position_in(const List& list, const Value& value) {
  return static_cast<std::size_t>(std::find(list.begin(), list.end(), value) - list.begin());
}

// Something that sorts: [place in the plan's list, the value itself].
json sort_key(const json& plan, const CellGroup& group) {
  json key = json::array();
  for (const auto& [parameter, value] : group.cell.written().items()) {
    if (parameter == "strategy" || parameter == "topology") continue;
    const json list = listed_values(plan, group.part, parameter);
    key.push_back(json::array({list.is_array() ? position_in(list, value) : 0, value}));
  }
  key.push_back(place_of_strategy(group.cell.strategy()));
  return key;
}

class Grouper {
 public:
  explicit Grouper(bool as_published) : as_published_(as_published) {}

  CellGroup& group(const std::string& part, const results::Parameters& cell) {
    const auto [place, is_new] = index_.try_emplace({part, cell.written().dump()}, groups_.size());
    if (is_new) groups_.push_back({part, cell, {}, "", as_published_});
    return groups_[place->second];
  }

  std::vector<CellGroup> sorted(const json& plan) && {
    std::map<std::string, std::size_t> part_order;
    std::map<std::string, std::size_t> topology_order;
    std::vector<std::pair<json, CellGroup>> keyed;
    for (CellGroup& group : groups_) {
      const auto part = part_order.try_emplace(group.part, part_order.size()).first->second;
      const auto topology =
          topology_order.try_emplace(group.cell.topology(), topology_order.size()).first->second;
      keyed.emplace_back(json::array({part, topology, sort_key(plan, group)}), std::move(group));
    }
    std::ranges::stable_sort(keyed, std::less<>(), &std::pair<json, CellGroup>::first);
    std::vector<CellGroup> sorted;
    sorted.reserve(keyed.size());
    for (auto& [key, group] : keyed) sorted.push_back(std::move(group));
    return sorted;
  }

 private:
  bool as_published_;
  std::map<std::pair<std::string, std::string>, std::size_t> index_;
  std::vector<CellGroup> groups_;
};

}  // namespace

std::size_t place_of_strategy(const std::string& name) {
  const auto& known = plan::strategies();
  const auto place = std::ranges::find(known, name, &plan::StrategyEntry::name);
  return static_cast<std::size_t>(place - known.begin());
}

std::vector<const TrialRecord*> CellGroup::ok_trials() const {
  std::vector<const TrialRecord*> ok;
  for (const TrialRecord* trial : trials) {
    if (trial->status == Status::Ok) ok.push_back(trial);
  }
  return ok;
}

std::vector<CellGroup> group_by_cell(const json& plan, const std::vector<TrialRecord>& trials,
                                     const std::vector<SkippedCell>& skipped) {
  std::vector<const TrialRecord*> in_order;
  in_order.reserve(trials.size());
  for (const TrialRecord& trial : trials) in_order.push_back(&trial);
  std::ranges::stable_sort(in_order, {}, &TrialRecord::order);
  Grouper grouper(is_as_published(plan));
  for (const TrialRecord* trial : in_order) {
    grouper.group(trial->part, trial->cell).trials.push_back(trial);
  }
  for (const SkippedCell& cell : skipped) {
    grouper.group(cell.part, cell.cell).skipped_because = cell.reason;
  }
  return std::move(grouper).sorted(plan);
}

GroupOutcome outcome_of(const CellGroup& group) {
  GroupOutcome outcome;
  if (!group.skipped_because.empty()) outcome = {Status::Skipped, group.skipped_because};
  for (const TrialRecord* trial : group.trials) {
    if (position_in(kSeverity, trial->status) > position_in(kSeverity, outcome.status)) {
      outcome = {trial->status, trial->reason, trial->oom_place};
    }
  }
  return outcome;
}

}  // namespace gradsync::summary
