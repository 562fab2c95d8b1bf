#include "harness/report/best_of_all.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "harness/report/comparison.h"
#include "harness/report/labels.h"

namespace gradsync::report {

using nlohmann::json;

namespace {

struct Option {
  const char* name;
  json by_default;
};

const std::vector<Option>& options() {
  static const std::vector<Option> table{
      {"bucket_cap_bytes", 0},   {"gradient_as_bucket_view", false}, {"compression", "none"},
      {"fused_optimizer", true}, {"find_unused_parameters", false},  {"static_graph", false}};
  return table;
}

json value_of(const json& cell, const Option& option) {
  return cell.value(option.name, option.by_default);
}

bool all_by_default(const json& cell) {
  return std::all_of(options().begin(), options().end(), [&](const Option& option) {
    return value_of(cell, option) == option.by_default;
  });
}

bool compressed(const json& cell) {
  return cell.value("compression", "none") != "none";
}

struct Timed {
  const CellGroup* group;
  double step_s;
};

json without_options(const CellGroup& group) {
  json rest = without_strategy(group.cell);
  for (const Option& option : options()) rest.erase(option.name);
  return json::array({group.part, rest});
}

// The cells that may be compared, by what they share.
std::vector<std::vector<Timed>> set_ups(const std::vector<CellGroup>& groups, const json& cells) {
  std::vector<std::pair<json, std::vector<Timed>>> found;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (cells[i].value("status", "") != "ok" || !cells[i]["step_s"].is_object()) continue;
    if (groups[i].cell.value("wrapper", "") != "ddp") continue;
    const json shared = without_options(groups[i]);
    const auto same = [&](const auto& set_up) { return set_up.first == shared; };
    auto place = std::find_if(found.begin(), found.end(), same);
    if (place == found.end()) place = found.emplace(found.end(), shared, std::vector<Timed>{});
    place->second.push_back({&groups[i], cells[i]["step_s"]["mean"]});
  }
  std::vector<std::vector<Timed>> lists;
  lists.reserve(found.size());
  for (auto& [shared, list] : found) lists.push_back(std::move(list));
  return lists;
}

// The fastest of those that `counts`, and how many those are.
template <typename Counts>
std::pair<const Timed*, std::size_t> fastest(const std::vector<Timed>& list, Counts counts) {
  const Timed* best = nullptr;
  std::size_t number = 0;
  for (const Timed& timed : list) {
    if (!counts(timed.group->cell)) continue;
    ++number;
    if (best == nullptr || timed.step_s < best->step_s) best = &timed;
  }
  return {best, number};
}

// The winner and what it is compared with were chosen because they came out fastest, and chance
// chooses, too. So the interval is one that holds for every pair that there was to choose from, all
// at once (Bonferroni's inequality).
json entry(const char* among, const std::pair<const Timed*, std::size_t>& best,
           const std::pair<const Timed*, std::size_t>& reference) {
  const CellGroup& group = *best.first->group;
  const std::size_t choices = best.second * reference.second;
  const double level = 1 - (1 - stats::kUsualLevel) / static_cast<double>(choices);
  const json comparison = compare_steps(group, *reference.first->group, level);
  const bool known = comparison.is_object();
  return {{"part", group.part},
          {"among", among},
          {"cell", group.cell},
          {"step_s", best.first->step_s},
          {"of", best.second},
          {"vs", reference.first->group->cell},
          {"ratio", known ? comparison["ratio"] : json(nullptr)},
          {"ci95", known ? comparison["ci95"] : json(nullptr)},
          {"choices", choices},
          {"launches", known ? comparison["launches"] : json(0)},
          {"pairs", known ? comparison["pairs"] : json(0)}};
}

// "no_sync, compression fp16, bucket_cap_bytes 1048576"
std::string words_for(const json& cell) {
  std::string text = strategy_label(cell.value("strategy", ""));
  for (const Option& option : options()) {
    const json value = value_of(cell, option);
    if (value != option.by_default) text += fmt::format(", {} {}", option.name, plain_text(value));
  }
  return text;
}

bool is_option(const std::string& name) {
  return std::any_of(options().begin(), options().end(),
                     [&](const Option& option) { return option.name == name; });
}

std::string place_of(const PartView& part, const json& cell) {
  std::string text = topology_label(part.context, cell).text();
  for (const std::string& name : part.varying_parameters()) {
    if (is_option(name)) continue;
    text += fmt::format(", {} {}", name, parameter_text(cell["cell"], name));
  }
  return text;
}

// That the pair was chosen for its times, and what its interval makes of that.
std::string chosen_text(const json& best) {
  const auto choices = best["choices"].get<std::size_t>();
  if (best["ci95"].is_null()) {
    return fmt::format("the fastest of {} pairs in {}", choices, launches_that_ran(best));
  }
  return fmt::format("an interval that holds for all {} pairs to choose from", choices);
}

std::string sentence(const json& best, const PartView& part, const json& cell, int decimals) {
  std::string text =
      fmt::format("Best of {} on {}{}: {}, {} s/step", best["of"].get<std::size_t>(),
                  place_of(part, cell), best["among"] == "all" ? "" : " with whole gradients",
                  words_for(best["cell"]), seconds_text(best["step_s"], decimals));
  if (best["cell"] == best["vs"]) return text + ", with every option at its default.\n";
  text += fmt::format("; {} of {} with every option at its default, {}",
                      ratio_text(best["ratio"].is_null() ? json(nullptr) : best),
                      strategy_label(best["vs"].value("strategy", "")), chosen_text(best));
  return text + (compressed(best["cell"]) ? "; its gradients are rounded on the wire.\n" : ".\n");
}

}  // namespace

json best_of_all(const std::vector<CellGroup>& groups, const json& cells) {
  json best = json::array();
  for (const std::vector<Timed>& list : set_ups(groups, cells)) {
    const auto reference = fastest(list, all_by_default);
    if (reference.first == nullptr || reference.second == list.size()) continue;
    const auto any = fastest(list, [](const json&) { return true; });
    best.push_back(entry("all", any, reference));
    if (!compressed(any.first->group->cell)) continue;
    const auto whole = fastest(list, [](const json& cell) { return !compressed(cell); });
    best.push_back(entry("whole_gradients", whole, reference));
  }
  return best;
}

std::string best_sentences(const json& best, const PartView& part) {
  std::string text;
  const int decimals = decimals_for(part.cells);
  for (const json& entry : best) {
    if (entry["part"] != part.name) continue;
    const auto is_best = [&](const json& cell) { return cell["cell"] == entry["cell"]; };
    const auto cell = std::find_if(part.cells.begin(), part.cells.end(), is_best);
    if (cell != part.cells.end()) text += sentence(entry, part, *cell, decimals);
  }
  return text;
}

}  // namespace gradsync::report
