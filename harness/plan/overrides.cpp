#include "harness/plan/overrides.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "harness/base/errors.h"
#include "harness/base/named.h"
#include "harness/base/nearest.h"
#include "harness/base/words.h"
#include "harness/plan/cell.h"
#include "harness/plan/plan_fields.h"

namespace gradsync::plan {

using nlohmann::json;

namespace {

struct Override {
  std::string text;   // "fast.model=mlp", for messages
  std::string part;   // "fast"; "" for all
  std::string field;  // "model"
  std::string value;  // "mlp"
};

bool is_axis(const std::string& field) {
  return std::any_of(axes().begin(), axes().end(),
                     [&](const Axis& axis) { return axis.name == field; });
}

template <typename Names>
bool contains(const Names& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_of_the_plan(const std::string& field) {
  return contains(kStructure, field) || entry_named(conditions(), field) != nullptr;
}

// "" where it has no name; the parser complains about that later.
std::string name_of(const json& part) {
  const json name = part.is_object() ? part.value("name", json()) : json();
  return name.is_string() ? name.get<std::string>() : "";
}

std::vector<std::string> part_names(const json& plan) {
  std::vector<std::string> names;
  const json parts = plan.value("parts", json::array());
  for (const json& part : parts) {
    if (!name_of(part).empty()) names.push_back(name_of(part));
  }
  return names;
}

[[noreturn]] void fail_unknown(const Override& change, const json& plan) {
  std::vector<std::string> keys(kSharedFields.begin(), kSharedFields.end());
  keys.insert(keys.end(), kStructure.begin(), kStructure.end());
  for (const Condition& condition : conditions()) keys.push_back(condition.name);
  for (const Axis& axis : axes()) keys.push_back(axis.name);
  std::sort(keys.begin(), keys.end());
  const std::string key = change.text.substr(0, change.text.find('='));
  std::string expected = one_of_names(key, keys);
  const auto parts = part_names(plan);
  if (!parts.empty()) {
    expected +=
        fmt::format(", or a part's name ({}), a dot and one of these", fmt::join(parts, ", "));
  }
  throw ConfigError("--set " + change.text, key, "an unknown field", expected);
}

Override split(const std::string& text, const json& plan) {
  const auto equals = text.find('=');
  if (equals == 0 || equals == std::string::npos) {
    throw ConfigError(fmt::format("--set {}: got no KEY=VALUE, expected one, as in steps=3", text));
  }
  Override change{text, "", text.substr(0, equals), text.substr(equals + 1)};
  const auto strip = [&](const std::string& prefix) {
    if (!change.field.starts_with(prefix)) return false;
    change.field.erase(0, prefix.size());
    return true;
  };
  for (const auto& part : part_names(plan)) {
    if (change.part.empty() && strip(part + ".")) change.part = part;
  }
  if (strip("cells.") && !is_axis(change.field)) fail_unknown(change, plan);
  return change;
}

json parse_list(const std::string& text) {
  json value = json::parse(text, nullptr, false);
  if (value.is_array()) return value;
  if (!value.is_discarded()) return json::array({value});
  json list = json::array();
  for (const std::string& word : split_at_commas(text)) list.push_back(json_or_word(word));
  return list;
}

// Takes `field` out of a plan or part, so that a value set elsewhere holds for it. `steps` and
// `total_steps` are two ways to say one thing.
void clear(json& level, const std::string& field) {
  if (is_axis(field)) {
    if (level.contains("cells") && level["cells"].is_object()) level["cells"].erase(field);
    return;
  }
  level.erase(field);
  if (field == "steps") level.erase("total_steps");
  if (field == "total_steps") level.erase("steps");
}

void set(json& level, const Override& change) {
  clear(level, change.field);
  if (!is_axis(change.field)) {
    level[change.field] = json_or_word(change.value);
  } else if (!level.contains("cells") || level["cells"].is_object()) {
    level["cells"][change.field] = parse_list(change.value);
  }
}

void keep_parts(json& plan, const Override& change) {
  const auto names = part_names(plan);
  const json wanted = parse_list(change.value);
  for (const json& name : wanted) {
    if (name.is_string() && contains(names, name.get<std::string>())) continue;
    throw ConfigError("--set " + change.text, "parts", name.dump(),
                      names.empty() ? "no parts, this plan has none"
                                    : fmt::format("some of {}", fmt::join(names, ", ")));
  }
  json kept = json::array();
  for (const json& part : plan["parts"]) {
    if (contains(wanted, name_of(part))) kept.push_back(part);
  }
  plan["parts"] = kept;
}

// Makes each path of a list relative to the working directory; it is relative to `folder`.
void resolve(json& names, const std::filesystem::path& folder) {
  for (json& name : names) {
    if (!name.is_string() || !name.get_ref<const std::string&>().ends_with(".json")) continue;
    name = (folder / name.get<std::string>()).lexically_normal().string();
  }
}

}  // namespace

void apply_override(json& plan, const std::string& text) {
  if (!plan.is_object()) return;  // the parser says what is wrong with it
  const Override change = split(text, plan);
  const bool shared = contains(kSharedFields, change.field) || is_axis(change.field);
  if (!shared && (!change.part.empty() || !is_of_the_plan(change.field))) {
    fail_unknown(change, plan);
  }
  if (change.field == "parts") return keep_parts(plan, change);
  if (change.part.empty()) set(plan, change);
  if (!plan.contains("parts")) return;
  for (json& part : plan["parts"]) {
    if (!part.is_object()) continue;
    if (change.part.empty()) clear(part, change.field);
    if (!change.part.empty() && name_of(part) == change.part) set(part, change);
  }
}

void resolve_files(json& plan, const std::string& path) {
  if (!plan.is_object()) return;
  const auto folder = std::filesystem::path(path).parent_path();
  std::vector<json*> holders{&plan};
  if (plan.contains("parts")) {
    for (json& part : plan["parts"]) holders.push_back(&part);
  }
  for (json* holder : holders) {
    if (!holder->is_object() || !holder->contains("cells")) continue;
    for (auto& [axis, values] : (*holder)["cells"].items()) {
      // What is no list of words is refused by the parser.
      if ((axis == "topology" || axis == "model") && values.is_array()) resolve(values, folder);
    }
  }
}

json overridden_cells(const std::vector<std::string>& texts, const std::string& model,
                      const std::string& who) {
  json plan{{"cells", json::object()}};
  for (const std::string& text : texts) apply_override(plan, text);
  for (const auto& [field, value] : plan.items()) {
    if (field != "cells") {
      throw ConfigError(who, field, value.dump(), "fields of a plan's cells alone");
    }
  }
  plan["cells"]["model"] = {model};
  return plan["cells"];
}

}  // namespace gradsync::plan
