#include "harness/gate/turns.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

#include "harness/base/errors.h"
#include "harness/base/json_fields.h"

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

Turn turn_from(const json& in, const std::string& file, const std::string& path) {
  JsonFields fields(in, file, path);
  Turn turn;
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
  row.cell = fields.raw("cell", true);
  if (!row.cell.is_object()) fields.fail("cell", "an object");
  const json& turns = list_field(fields, "turns");
  for (std::size_t i = 0; i < turns.size(); ++i) {
    const std::string place = fmt::format("{}turns[{}].", path, i);
    row.turns.push_back(turn_from(turns[i], file, place));
    const int earlier = i == 0 ? 0 : row.turns[i - 1].start;
    const int start = row.turns[i].start;
    if (start != earlier && start != earlier + 1) {
      throw ConfigError(file, place + "start", fmt::format("{}", start),
                        fmt::format("{} or {}", earlier, earlier + 1));
    }
  }
  fields.finish();
  return row;
}

json turn_to_json(const Turn& turn) {
  json order = json::array();
  for (const Arm arm : turn.order) order.push_back(to_string(arm));
  json out = {{"start", turn.start}, {"order", order}};
  for (const Arm arm : kArms) out[to_string(arm) + "_s"] = turn.of(arm);
  return out;
}

}  // namespace

std::string to_string(Arm arm) {
  return kArmNames[static_cast<std::size_t>(arm)];
}

json to_json(const TurnFamily& family) {
  json rows = json::array();
  for (const RowTurns& row : family.rows) {
    json turns = json::array();
    for (const Turn& turn : row.turns) turns.push_back(turn_to_json(turn));
    rows.push_back({{"part", row.part}, {"cell", row.cell}, {"turns", turns}});
  }
  return {{"schema", kTurnsSchema},
          {"context", family.context},
          {"extra_work", family.extra_work},
          {"settings", {{"passes", family.passes}, {"settle_steps", family.settle_steps}}},
          {"rows", rows}};
}

TurnFamily turn_family_from_json(const json& in, const std::string& file) {
  JsonFields fields(in, file);
  if (fields.string("schema") != kTurnsSchema) fields.fail("schema", kTurnsSchema);
  TurnFamily family;
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
    ArmOrder order = kArms;
    for (std::size_t i = order.size() - 1; i > 0; --i) {
      std::swap(order[i], order[random.below(i + 1)]);
    }
    orders.push_back(order);
    std::reverse(order.begin(), order.end());
    orders.push_back(order);
  }
  return orders;
}

}  // namespace gradsync::gate
