#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>

#include "harness/plan/axis_kinds.h"
#include "harness/plan/cell.h"
#include "harness/plan/plan_fields.h"

namespace gradsync::plan {

using nlohmann::json;

namespace {

constexpr double kLongestTimeoutS = 86'400;

// The first of `choices` is the default.
Condition choice(const char* name, std::string Plan::*field,
                 const std::vector<std::string>& choices) {
  return {name, [=](JsonFields& fields, Plan& plan) {
            plan.*field = fields.string(name, choices.front());
            if (std::ranges::find(choices, plan.*field) != choices.end()) return;
            fields.fail(name, fmt::format("\"{}\"", fmt::join(choices, "\" or \"")));
          }};
}

Condition count(const char* name, int Plan::*field) {
  return {name, [=](JsonFields& fields, Plan& plan) {
            const std::int64_t value = fields.integer(name, 1, plan.*field);
            if (value > kLargestCount) fields.fail(name, fmt::format("at most {}", kLargestCount));
            plan.*field = static_cast<int>(value);
          }};
}

Condition seconds(const char* name, double Plan::*field) {
  return {name, [=](JsonFields& fields, Plan& plan) {
            plan.*field = fields.number(name, plan.*field);
            if (plan.*field > 0 && plan.*field <= kLongestTimeoutS) return;
            fields.fail(name, fmt::format("seconds above 0, at most {:.0f}", kLongestTimeoutS));
          }};
}

Condition size(const char* name, std::int64_t Plan::*field) {
  return {name, [=](JsonFields& fields, Plan& plan) {
            const json& value = fields.raw(name, false);
            if (!fields.has(name)) return;
            try {
              plan.*field = size_from_json(value, "none", "1MiB");
            } catch (const std::invalid_argument& error) {
              fields.fail(name, error.what());
            }
          }};
}

Condition text(const char* name, std::string Plan::*field) {
  return {name, [=](JsonFields& fields, Plan& plan) { plan.*field = fields.string(name, ""); }};
}

Condition flag(const char* name, bool Plan::*field) {
  return {name,
          [=](JsonFields& fields, Plan& plan) { plan.*field = fields.boolean(name, plan.*field); }};
}

Condition seed(const char* name, std::uint64_t Plan::*field) {
  return {name, [=](JsonFields& fields, Plan& plan) {
            plan.*field = static_cast<std::uint64_t>(
                fields.integer(name, 0, static_cast<std::int64_t>(plan.*field)));
          }};
}

}  // namespace

const std::vector<Condition>& conditions() {
  static const std::vector<Condition> rows = {
      seed("seed", &Plan::seed),
      seconds("timeout_s", &Plan::timeout_s),
      choice("window_rule", &Plan::window_rule, {"honest", "as_published"}),
      count("threads_per_rank", &Plan::threads_per_rank),
      choice("device", &Plan::device, {"cpu", "cuda", "paper"}),
      text("on", &Plan::on),
      choice("backend", &Plan::backend, {"gloo", "nccl", "fake"}),
      choice("gloo_loop", &Plan::gloo_loop, {"spins", "yields"}),
      size("fold_from_bytes", &Plan::fold_from_bytes),
      flag("every_micro_batch", &Plan::every_micro_batch)};
  return rows;
}

}  // namespace gradsync::plan
