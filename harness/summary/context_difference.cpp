#include "harness/summary/context_difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string_view>

namespace gradsync::summary {

using nlohmann::json;

namespace {

using Differences = std::vector<ContextDifference>;

// What decides how long a step takes, other than what a comparison may be about.
constexpr std::array<std::string_view, 15> kForbidding = {
    "cpu_model",        "cpus",    "cores",      "cpu_quota",   "device",
    "backend",          "gpu",     "build_type", "sanitize",    "data",
    "threads_per_rank", "pinning", "gloo_loop",  "window_rule", "timing_valid"};

// What is different in every run, is no property of it, or is compared in another way below.
constexpr std::array<std::string_view, 26> kWithoutEffect = {"start_time",
                                                             "end_time",
                                                             "command_line",
                                                             "clocks",
                                                             "namespaces",
                                                             "tools",
                                                             "link_shaping",
                                                             "other_gradsync",
                                                             "gpus",
                                                             "gpus_reason",
                                                             "gpus_under_load",
                                                             "peak_memory_reason",
                                                             "timing_reason",
                                                             "memory_total_bytes",
                                                             "memory_available_bytes",
                                                             "memory_limit_bytes",
                                                             "swap_used_bytes",
                                                             "shared_memory_bytes",
                                                             "steal_share",
                                                             "steal_share_since_boot",
                                                             "steal_share_run",
                                                             "load_1min",
                                                             "load_after",
                                                             "topologies",
                                                             "links",
                                                             "warnings"};

template <typename Names>
bool contains(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

json value_of(const json& object, const std::string& name) {
  return object.is_object() && object.contains(name) ? object[name] : json();
}

std::set<std::string> all_fields(const json& a, const json& b) {
  std::set<std::string> names;
  for (const json* object : {&a, &b}) {
    if (!object->is_object()) continue;
    for (const auto& [name, value] : object->items()) names.insert(name);
  }
  return names;
}

std::set<std::string> shared_fields(const json& a, const json& b) {
  std::set<std::string> names = all_fields(a, b);
  std::erase_if(names, [&](const std::string& name) {
    return value_of(a, name).is_null() || value_of(b, name).is_null();
  });
  return names;
}

EffectOnTimes effect_of(const std::string& name, const json& a, const json& b) {
  if (contains(kWithoutEffect, name)) return EffectOnTimes::None;
  const bool known = !a.is_null() && !b.is_null();
  return known && contains(kForbidding, name) ? EffectOnTimes::ForbidsTimes : EffectOnTimes::Warns;
}

void compare_fields(const json& a, const json& b, Differences& found) {
  for (const std::string& name : all_fields(a, b)) {
    if (name == "topologies" || name == "links" || name == "variables") continue;
    const json in_a = value_of(a, name);
    const json in_b = value_of(b, name);
    const bool invalid = name == "timing_valid" && (in_a == false || in_b == false);
    if (in_a == in_b && !invalid) continue;
    const EffectOnTimes effect =
        invalid ? EffectOnTimes::ForbidsTimes : effect_of(name, in_a, in_b);
    found.push_back({name, in_a, in_b, effect, {}, {}});
  }
}

// Marks a measured number as a difference that warns where the two are further apart than noise.
void compare_noise(Differences& found, const std::string& name, double within) {
  for (ContextDifference& difference : found) {
    if (difference.field != name || !difference.a.is_number() || !difference.b.is_number())
      continue;
    const double apart = std::abs(difference.a.get<double>() - difference.b.get<double>());
    if (apart > within) difference.effect = EffectOnTimes::Warns;
  }
}

double cpus_of(const json& context) {
  const json cpus = value_of(context, "cpus");
  return cpus.is_number() ? std::max(cpus.get<double>(), 1.0) : 1.0;
}

void compare_topologies(const json& a, const json& b, Differences& found) {
  for (const std::string& name : shared_fields(a, b)) {
    for (const std::string& part : all_fields(a[name], b[name])) {
      const json in_a = value_of(a[name], part);
      const json in_b = value_of(b[name], part);
      if (in_a == in_b) continue;
      const EffectOnTimes effect =
          part == "about" ? EffectOnTimes::None : EffectOnTimes::ForbidsTimes;
      found.push_back({fmt::format("topologies.{}.{}", name, part), in_a, in_b, effect, name, {}});
    }
  }
}

// Set in one of the two, or to something else. An older file has none at all: it does not tell.
void compare_variables(const json& a, const json& b, Differences& found) {
  const bool both_known = a.is_object() && b.is_object();
  for (const std::string& name : all_fields(a, b)) {
    const json in_a = value_of(a, name);
    const json in_b = value_of(b, name);
    if (in_a == in_b) continue;
    found.push_back({fmt::format("variables.{}", name),
                     in_a,
                     in_b,
                     both_known ? EffectOnTimes::ForbidsTimes : EffectOnTimes::Warns,
                     {},
                     {}});
  }
}

// What a link was measured to carry depends on what else the host did meanwhile.
EffectOnTimes effect_of_measured_rate(const json& a, const json& b) {
  if (!a.is_number() || !b.is_number()) return EffectOnTimes::Warns;
  const double larger = std::max(std::abs(a.get<double>()), std::abs(b.get<double>()));
  const double apart = std::abs(a.get<double>() - b.get<double>());
  if (apart > kBusyRateWithin * larger) return EffectOnTimes::ForbidsTimes;
  return apart > kSameRateWithin * larger ? EffectOnTimes::Warns : EffectOnTimes::None;
}

EffectOnTimes effect_on_link(const std::string& part, const json& a, const json& b) {
  if (part == "rate_bits_per_s") return EffectOnTimes::ForbidsTimes;
  if (part == "measured_payload_bits_per_s") return effect_of_measured_rate(a, b);
  return part == "congestion_control" ? EffectOnTimes::Warns : EffectOnTimes::None;
}

// "2x1_1gbit / 50": a topology and the scale by which its rates were divided.
std::optional<int> scale_in(const std::string& link) {
  const auto slash = link.rfind(" / ");
  const int scale = slash == std::string::npos ? 0 : std::atoi(link.c_str() + slash + 3);
  return scale == 0 ? std::nullopt : std::optional(scale);
}

void compare_links(const json& a, const json& b, Differences& found) {
  for (const std::string& link : shared_fields(a, b)) {
    for (const std::string& part : all_fields(a[link], b[link])) {
      const json in_a = value_of(a[link], part);
      const json in_b = value_of(b[link], part);
      if (in_a == in_b) continue;
      found.push_back({fmt::format("links.{}.{}", link, part), in_a, in_b,
                       effect_on_link(part, in_a, in_b), link.substr(0, link.rfind(" / ")),
                       scale_in(link)});
    }
  }
}

}  // namespace

bool ContextDifference::concerns(const results::Parameters& cell) const {
  if (topology && cell.topology() != *topology) return false;
  return !scale || cell.scale() == *scale;
}

std::vector<ContextDifference> context_differences(const json& a, const json& b) {
  Differences found;
  compare_fields(a, b, found);
  compare_noise(found, "steal_share_run", kSameStealWithin);
  compare_noise(found, "load_1min", kSameLoadWithin * std::min(cpus_of(a), cpus_of(b)));
  compare_topologies(value_of(a, "topologies"), value_of(b, "topologies"), found);
  compare_links(value_of(a, "links"), value_of(b, "links"), found);
  compare_variables(value_of(a, "variables"), value_of(b, "variables"), found);
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& left, const auto& right) { return left.effect < right.effect; });
  return found;
}

}  // namespace gradsync::summary
