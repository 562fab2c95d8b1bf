#include "harness/gate/turns.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <limits>
#include <utility>

#include "harness/base/errors.h"
#include "harness/base/json_fields.h"
#include "harness/plan/cell.h"
#include "harness/stats/sample.h"

namespace gradsync::gate {

using nlohmann::json;

namespace {

constexpr std::array<const char*, kArms.size()> kArmNames = {"baseline", "candidate", "control"};

int int_field(JsonFields& fields, const std::string& name, std::int64_t at_least) {
  const std::int64_t value = fields.integer(name, at_least);
  if (value > std::numeric_limits<int>::max()) fields.fail(name, "a smaller number");
  return static_cast<int>(value);
}

const json& list_field(JsonFields& fields, const std::string& name) {
  const json& list = fields.raw(name, true);
  if (!list.is_array()) fields.fail(name, "a list");
  return list;
}

ArmOrder order_from(JsonFields& fields) {
  const json& names = list_field(fields, "order");
  for (ArmOrder order = kArms;;) {
    json candidate = json::array();
    for (const Arm arm : order) candidate.push_back(to_string(arm));
    if (candidate == names) return order;
    if (!std::next_permutation(order.begin(), order.end())) break;
  }
  fields.fail("order", "baseline, candidate and control, each once");
}

std::vector<double> steps_from(JsonFields& fields, Arm arm) {
  const std::string name = to_string(arm) + "_s";
  std::vector<double> steps;
  for (const json& step : list_field(fields, name)) {
    const double value = step.is_number() ? step.get<double>() : 0.0;
    if (!(value > 0) || !std::isfinite(value)) {
      fields.fail(name, "a list of positive numbers", step.dump());
    }
    steps.push_back(value);
  }
  if (steps.empty()) fields.fail(name, "at least one step", "none");
  return steps;
}

ByArm<double> elapsed_from(JsonFields& fields) {
  const json& list = list_field(fields, "elapsed_s");
  ByArm<double> elapsed_s{};
  if (list.size() != elapsed_s.size()) fields.fail("elapsed_s", "one number for each arm");
  for (std::size_t arm = 0; arm < elapsed_s.size(); ++arm) {
    elapsed_s[arm] = list[arm].is_number() ? list[arm].get<double>() : 0.0;
    if (!(elapsed_s[arm] > 0) || !std::isfinite(elapsed_s[arm])) {
      fields.fail("elapsed_s", "positive numbers", list[arm].dump());
    }
  }
  return elapsed_s;
}

std::map<std::string, ByArm<double>> phases_from(JsonFields& fields) {
  const json& phases = fields.raw("phase_s", true);
  if (!phases.is_object()) fields.fail("phase_s", "an object");
  std::map<std::string, ByArm<double>> phase_s;
  for (const auto& [phase, list] : phases.items()) {
    ByArm<double>& by_arm = phase_s[phase];
    const bool has_all = list.is_array() && list.size() == by_arm.size();
    for (std::size_t arm = 0; arm < by_arm.size(); ++arm) {
      by_arm[arm] = has_all && list[arm].is_number() ? list[arm].get<double>() : -1.0;
      if (by_arm[arm] >= 0 && std::isfinite(by_arm[arm])) continue;
      fields.fail("phase_s", "one number of at least 0 for each arm", list.dump());
    }
  }
  return phase_s;
}

Turn turn_from(const json& in, const std::string& file, const std::string& path) {
  JsonFields fields(in, file, path);
  Turn turn;
  if (fields.has("elapsed_s")) turn.elapsed_s = elapsed_from(fields);
  if (fields.has("phase_s")) turn.phase_s = phases_from(fields);
  turn.start = int_field(fields, "start", 0);
  turn.order = order_from(fields);
  for (const Arm arm : kArms) {
    turn.of(arm) = steps_from(fields, arm);
    const std::size_t expected = turn.of(Arm::Baseline).size();
    if (turn.of(arm).size() == expected) continue;
    fields.fail(to_string(arm) + "_s", fmt::format("{} steps, as many as the baseline's", expected),
                fmt::format("{}", turn.of(arm).size()));
  }
  fields.finish();
  return turn;
}

RowTurns row_from(const json& in, const std::string& file, const std::string& path) {
  JsonFields fields(in, file, path);
  RowTurns row;
  row.part = fields.string("part");
  const json& cell = fields.raw("cell", true);
  if (!cell.is_object()) fields.fail("cell", "an object");
  row.cell = plan::whole_cell(cell);
  const json& turns = list_field(fields, "turns");
  for (std::size_t i = 0; i < turns.size(); ++i) {
    const std::string place = fmt::format("{}turns[{}].", path, i);
    row.turns.push_back(turn_from(turns[i], file, place));
    const int earlier = i == 0 ? 0 : row.turns[i - 1].start;
    const int start = row.turns[i].start;
    if (start < earlier) {
      throw ConfigError(file, place + "start", fmt::format("{}", start),
                        fmt::format("{} or more", earlier));
    }
  }
  fields.finish();
  return row;
}

StartDraw draw_from(const json& in, const std::string& file, const std::string& path) {
  JsonFields fields(in, file, path);
  StartDraw draw;
  draw.order = order_from(fields);
  draw.exchanges_baselines = fields.boolean("exchanges_baselines");
  fields.finish();
  return draw;
}

// Every one equally likely, by Fisher and Yates's shuffle.
ArmOrder random_order(stats::Random& random) {
  ArmOrder order = kArms;
  for (std::size_t i = order.size() - 1; i > 0; --i) {
    std::swap(order[i], order[random.below(i + 1)]);
  }
  return order;
}

json order_to_json(const ArmOrder& order) {
  json names = json::array();
  for (const Arm arm : order) names.push_back(to_string(arm));
  return names;
}

json turn_to_json(const Turn& turn) {
  json out = {{"start", turn.start}, {"order", order_to_json(turn.order)}};
  for (const Arm arm : kArms) out[to_string(arm) + "_s"] = turn.of(arm);
  const bool knows_elapsed = std::all_of(turn.elapsed_s.begin(), turn.elapsed_s.end(),
                                         [](double elapsed_s) { return elapsed_s > 0; });
  if (knows_elapsed) out["elapsed_s"] = turn.elapsed_s;
  if (!turn.phase_s.empty()) out["phase_s"] = turn.phase_s;
  return out;
}

// Adds the orders of three starts, a Latin square of places: the second row is the first one
// shifted by one or by two.
void add_latin_square(std::vector<ArmOrder>& orders, stats::Random& random) {
  std::array<ArmOrder, kArms.size()> square{};
  square.fill(random_order(random));
  for (std::size_t row = 0; row < square.size(); ++row) {
    std::rotate(square[row].begin(), std::next(square[row].begin(), static_cast<int>(row)),
                square[row].end());
  }
  if (random.below(2) == 1) std::swap(square[1], square[2]);
  orders.insert(orders.end(), square.begin(), square.end());
}

}  // namespace

std::string to_string(Arm arm) {
  return kArmNames[static_cast<std::size_t>(arm)];
}

double Turn::mean_step_s(Arm arm) const {
  GRADSYNC_CHECK(of(arm).size(), >, std::size_t{0});
  const double known_s = elapsed_s[static_cast<std::size_t>(arm)];
  return known_s > 0 ? known_s / static_cast<double>(of(arm).size()) : stats::mean(of(arm));
}

std::size_t start_count(const TurnFamily& family) {
  std::size_t count = 0;
  for (const RowTurns& row : family.rows) {
    if (row.turns.empty()) continue;
    count = std::max(count, static_cast<std::size_t>(row.turns.back().start) + 1);
  }
  return count;
}

json to_json(const TurnFamily& family) {
  json rows = json::array();
  for (const RowTurns& row : family.rows) {
    json turns = json::array();
    for (const Turn& turn : row.turns) turns.push_back(turn_to_json(turn));
    rows.push_back({{"part", row.part}, {"cell", row.cell.written()}, {"turns", turns}});
  }
  json starts = json::array();
  for (const StartDraw& draw : family.starts) {
    starts.push_back(
        {{"order", order_to_json(draw.order)}, {"exchanges_baselines", draw.exchanges_baselines}});
  }
  return {{"schema", kTurnsSchema},
          {"starts", starts},
          {"context", family.context},
          {"extra_work", family.extra_work},
          {"settings", {{"passes", family.passes}, {"settle_steps", family.settle_steps}}},
          {"rows", rows}};
}

TurnFamily turn_family_from_json(const json& in, const std::string& file) {
  JsonFields fields(in, file);
  const std::string schema = fields.string("schema");
  if (schema != kTurnsSchema && schema != kOlderTurnsSchema) fields.fail("schema", kTurnsSchema);
  TurnFamily family;
  if (schema == kTurnsSchema) {
    const json& starts = list_field(fields, "starts");
    for (std::size_t i = 0; i < starts.size(); ++i) {
      family.starts.push_back(draw_from(starts[i], file, fmt::format("starts[{}].", i)));
    }
  }
  family.context = fields.raw("context", true);
  if (!family.context.is_object()) fields.fail("context", "an object");
  family.extra_work = fields.number("extra_work");
  if (!(family.extra_work >= 0)) fields.fail("extra_work", "a share of at least 0");
  JsonFields settings(fields.raw("settings", true), file, "settings.");
  family.passes = int_field(settings, "passes", 1);
  family.settle_steps = int_field(settings, "settle_steps", 0);
  settings.finish();
  const json& rows = list_field(fields, "rows");
  for (std::size_t i = 0; i < rows.size(); ++i) {
    family.rows.push_back(row_from(rows[i], file, fmt::format("rows[{}].", i)));
  }
  fields.finish();
  return family;
}

std::vector<ArmOrder> turn_orders(int turns, stats::Random& random) {
  GRADSYNC_CHECK(turns, >=, 0);
  GRADSYNC_CHECK(turns % 2, ==, 0);
  std::vector<ArmOrder> orders;
  for (int pair = 0; pair < turns / 2; ++pair) {
    ArmOrder order = random_order(random);
    orders.push_back(order);
    std::reverse(order.begin(), order.end());
    orders.push_back(order);
  }
  return orders;
}

std::vector<StartDraw> start_draws(std::size_t starts, stats::Random& random) {
  std::vector<ArmOrder> orders;
  while (orders.size() < starts) add_latin_square(orders, random);
  std::vector<StartDraw> draws;
  for (std::size_t start = 0; start < starts; ++start) {
    draws.push_back({orders[start], random.below(2) == 1});
  }
  return draws;
}

}  // namespace gradsync::gate
