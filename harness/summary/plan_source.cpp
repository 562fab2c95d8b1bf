#include "harness/summary/plan_source.h"

namespace gradsync::summary {

using nlohmann::json;

namespace {

// Something of this name inside of an object; null where there is no such thing.
json member(const json& owner, const std::string& name) {
  return owner.is_object() ? owner.value(name, json()) : json();
}

// The entry of a part in the plan's own list of parts; null where there is none.
json part_named(const json& plan, const std::string& name) {
  for (const json& part : member(plan, "parts")) {
    if (member(part, "name") == name) return part;
  }
  return nullptr;
}

json list_in(const json& owner, const std::string& parameter) {
  const json list = member(member(owner, "cells"), parameter);
  return list.is_array() ? list : json();
}

}  // namespace

std::optional<std::string> name_of_plan(const json& plan) {
  const json name = member(plan, "name");
  return name.is_string() ? std::optional(name.get<std::string>()) : std::nullopt;
}

std::string about_part(const json& plan, const std::string& part) {
  const json about = member(part_named(plan, part), "about");
  return about.is_string() ? about.get<std::string>() : "";
}

json listed_values(const json& plan, const std::string& part, const std::string& parameter) {
  const json own = list_in(part_named(plan, part), parameter);
  return own.is_null() ? list_in(plan, parameter) : own;
}

bool is_as_published(const json& plan) {
  return member(plan, "window_rule") == "as_published";
}

}  // namespace gradsync::summary
