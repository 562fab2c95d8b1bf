#include "harness/gate/gate_file.h"

#include <fmt/format.h>

#include <stdexcept>

#include "harness/base/json_fields.h"
#include "harness/base/units.h"

namespace gradsync::gate {

using nlohmann::json;

namespace {

const json& list_of(JsonFields& fields, const std::string& name) {
  static const json none = json::array();
  const json& list = fields.raw(name, false);
  if (!fields.has(name)) return none;
  if (!list.is_array() || list.empty()) fields.fail(name, "a list with at least one entry");
  return list;
}

std::vector<std::string> texts_of(JsonFields& fields, const std::string& name) {
  std::vector<std::string> texts;
  for (const json& text : list_of(fields, name)) {
    if (!text.is_string()) fields.fail(name, "a list of texts");
    texts.push_back(text.get<std::string>());
  }
  return texts;
}

// "1%" as a share between 0 and 1; nothing where the field is absent.
std::optional<double> share_of(JsonFields& fields, const std::string& name) {
  if (!fields.has(name)) return std::nullopt;
  const char* expected = "a percentage above 0% and below 100%, such as \"1%\"";
  try {
    const double share = parse_percent(fields.string(name));
    if (share > 0 && share < 1) return share;
  } catch (const std::invalid_argument&) {
    fields.fail(name, expected);
  }
  fields.fail(name, expected);
}

// Two objects with the same parameters.
void read_ratio(JsonFields& fields, const std::string& path, Claim& claim) {
  const json& ratio = fields.raw("ratio", true);
  if (!ratio.is_array() || ratio.size() != 2 || !ratio[0].is_object() || !ratio[1].is_object() ||
      ratio[0].empty()) {
    fields.fail("ratio", "two objects of parameters, the row above and the row below");
  }
  for (const auto& [name, value] : ratio[0].items()) {
    if (!ratio[1].contains(name)) fields.fail("ratio", "the same parameters in both rows");
  }
  if (ratio[0].size() != ratio[1].size()) {
    fields.fail("ratio", "the same parameters in both rows");
  }
  if (ratio[0] == ratio[1]) fields.fail("ratio", "two rows that differ");
  claim.above = ratio[0];
  claim.below = ratio[1];
  for (const json& row : ratio) {
    cell_with(json(plan::Cell{}), row, fmt::format("{}: {}ratio", fields.file(), path));
  }
}

void read_limit(JsonFields& fields, Claim& claim) {
  const int limits =
      int(fields.has("at_least")) + int(fields.has("at_most")) + int(fields.has("within"));
  if (limits != 1) {
    fields.fail("at_least", "exactly one of at_least, at_most and within",
                fmt::format("{} of them", limits));
  }
  if (const auto share = share_of(fields, "within")) {
    claim.kind = Claim::Kind::Within;
    claim.limit = *share;
    return;
  }
  const std::string name = fields.has("at_least") ? "at_least" : "at_most";
  claim.kind = name == "at_least" ? Claim::Kind::AtLeast : Claim::Kind::AtMost;
  claim.limit = fields.number(name);
  if (!(claim.limit > 0)) fields.fail(name, "a ratio above 0");
}

Claim claim_from(const json& in, const std::string& file, const std::string& path) {
  JsonFields fields(in, file, path);
  Claim claim;
  claim.about = fields.string("about");
  if (claim.about.empty()) fields.fail("about", "the claim in words");
  read_ratio(fields, path, claim);
  if (fields.has("where")) {
    claim.where = RowFilter::of(fields.raw("where", true), fmt::format("{}: {}where", file, path));
  }
  for (const char* name : {"at_least", "at_most", "within"}) fields.raw(name, false);
  read_limit(fields, claim);
  fields.finish();
  return claim;
}

}  // namespace

Allowed Claim::allowed() const {
  switch (kind) {
    case Kind::AtLeast:
      return {limit, std::nullopt};
    case Kind::AtMost:
      return {std::nullopt, limit};
    case Kind::Within:
      break;
  }
  return {1 - limit, 1 + limit};
}

std::string Claim::need() const {
  const Allowed ratios = allowed();
  if (!ratios.hi) return fmt::format(">= {:.2f}x", *ratios.lo);
  if (!ratios.lo) return fmt::format("<= {:.2f}x", *ratios.hi);
  return fmt::format("{:.2f}x to {:.2f}x", *ratios.lo, *ratios.hi);
}

GateFile parse_gate_file(const json& source, const std::string& file) {
  JsonFields fields(source, file);
  if (fields.string("schema") != kGateFileSchema) {
    fields.fail("schema", fmt::format("\"{}\"", kGateFileSchema));
  }
  GateFile gate;
  gate.file = file;
  gate.plan = fields.string("plan");
  if (gate.plan.empty()) fields.fail("plan", "a plan's name");
  gate.about = fields.string("about", "");
  gate.overrides = texts_of(fields, "set");
  const auto rows = texts_of(fields, "rows");
  for (std::size_t i = 0; i < rows.size(); ++i) {
    gate.rows.emplace_back(rows[i], fmt::format("{}: rows[{}]", file, i));
  }
  gate.margin = share_of(fields, "margin");
  gate.smallest_effect = share_of(fields, "smallest_effect");
  gate.alpha = share_of(fields, "alpha");
  for (const char* name : {"margin", "smallest_effect", "alpha"}) fields.raw(name, false);
  const json& claims = list_of(fields, "claims");
  for (std::size_t i = 0; i < claims.size(); ++i) {
    gate.claims.push_back(claim_from(claims[i], file, fmt::format("claims[{}].", i)));
  }
  fields.finish();
  return gate;
}

GateFile read_gate_file(const std::string& path) {
  return parse_gate_file(read_json_file(path), path);
}

}  // namespace gradsync::gate
