#include "harness/plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "harness/base/json_fields.h"
#include "harness/plan/cell.h"
#include "harness/plan/overrides.h"
#include "harness/plan/plan_fields.h"

namespace gradsync::plan {

using nlohmann::json;

namespace {

constexpr const char* kSchema = "gradsync.plan/1";
constexpr double kMostTrials = 1e6;  // a plan of more would not end in a lifetime

// Names end up in file names and in --set PART.field.
bool is_name(const std::string& text) {
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '-';
  });
}

std::string read_name(JsonFields& fields) {
  auto name = fields.string("name");
  if (!is_name(name) || name == "cells") {
    fields.fail("name", "a name of letters, digits, _ and - (and not \"cells\")");
  }
  return name;
}

int read_count(JsonFields& fields, const char* field, int at_least, int fallback) {
  const auto value = fields.integer(field, at_least, fallback);
  if (value > kLargestCount) fields.fail(field, fmt::format("at most {}", kLargestCount));
  return static_cast<int>(value);
}

// Reads the counts that a plan and its parts share; what is absent stays as it is in `part`.
void read_counts(JsonFields& fields, bool needs_warmup, Part& part) {
  if (fields.has("steps") && fields.has("total_steps")) {
    fields.fail("total_steps", "either steps or total_steps, not both");
  }
  part.steps = read_count(fields, "steps", 1, part.steps);
  part.total_steps = read_count(fields, "total_steps", 1, part.total_steps);
  if (fields.has("steps")) part.total_steps = 0;
  part.rounds = read_count(fields, "rounds", 1, part.rounds);
  part.launches = read_count(fields, "launches", 1, part.launches);
  part.warmup_steps = read_count(fields, "warmup_steps", 0, part.warmup_steps);
  part.distance_steps = read_count(fields, "distance_steps", 0, part.distance_steps);
  part.timed = fields.boolean("timed", part.timed);
  if (needs_warmup && part.timed && part.warmup_steps < 1) {
    fields.fail("warmup_steps",
                "at least 1: the first step after another cell's is not a steady one (window_rule "
                "\"as_published\" has no warm-up, backend \"fake\" and what is not timed may do "
                "without)");
  }
  // From a common start, but one that a training with every micro-batch would not come to.
  if (!part.timed && part.distance_steps > 0) {
    fields.fail("distance_steps", "0 where \"timed\" is false");
  }
}

// Makes the counts final once the levels above and the window rule are known.
void finish_counts(const JsonFields& fields, bool honest, Part& part) {
  const double trials = double(part.launches) * part.rounds * double(part.cells.size());
  if (trials > kMostTrials) {
    fields.fail("launches", fmt::format("at most {:.0f} trials", kMostTrials),
                fmt::format("{:.0f} trials (cells x launches x rounds)", trials));
  }
  if (!honest) {
    part.warmup_steps = 0;
    if (part.total_steps > 0) part.steps = part.total_steps;
    part.total_steps = 0;
  }
  const int shares = part.launches * part.rounds;
  if (part.total_steps > 0 && part.total_steps < shares) {
    fields.fail("total_steps", "at least one step for each launch and round",
                fmt::format("{} for {} launches x {} rounds", part.total_steps, part.launches,
                            part.rounds));
  }
}

// The cells of a part: the plan's lists, each replaced where the part has its own.
json merge_cells(const json& plan_cells, const json& own, const JsonFields& fields) {
  if (own.is_null()) return plan_cells;
  if (!own.is_object()) fields.fail("cells", "an object of lists");
  json merged = plan_cells;
  merged.update(own);
  return merged;
}

std::vector<Part> read_parts(const JsonFields& plan_fields, const json& list,
                             const json& plan_cells, bool honest, bool needs_warmup,
                             const Part& defaults) {
  if (!list.is_array() || list.empty()) plan_fields.fail("parts", "a list with at least one part");
  std::vector<Part> parts;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string path = fmt::format("parts[{}].", i);
    JsonFields fields(list[i], plan_fields.file(), path);
    Part part = defaults;
    part.name = read_name(fields);
    for (const Part& other : parts) {
      if (other.name == part.name) fields.fail("name", "a name no other part has");
    }
    part.about = fields.string("about", "");
    part.expected_failure = fields.string("expected_failure", "");
    read_counts(fields, needs_warmup, part);
    const json cells = merge_cells(plan_cells, fields.raw("cells", false), fields);
    fields.finish();
    part.cells = multiply_out(cells, plan_fields.file(), path + "cells.");
    finish_counts(fields, honest, part);
    parts.push_back(std::move(part));
  }
  return parts;
}

// GPUs of paper have NCCL of paper; what is meant needs no saying.
void complete_conditions(const JsonFields& fields, Plan& plan) {
  if (plan.device == "paper" && !fields.has("backend")) plan.backend = "nccl";
}

// Which conditions go together.
void check_conditions(const JsonFields& fields, const Plan& plan) {
  if (plan.device == "paper" && plan.backend != "nccl") {
    fields.fail("backend", "\"nccl\" where device is \"paper\"");
  }
  if (!plan.on.empty() && plan.device != "paper") {
    fields.fail("on", "none where device is not \"paper\"");
  }
  if (plan.backend == "nccl" && plan.device == "cpu") {
    fields.fail("backend", "\"gloo\" or \"fake\" where device is \"cpu\"");
  }
  if (plan.backend == "fake" && plan.device != "cpu") {
    fields.fail("backend", "\"gloo\" or \"nccl\" where device is \"cuda\"");
  }
  if (plan.gloo_loop == "yields" && plan.backend != "gloo") {
    fields.fail("gloo_loop", "\"spins\" where backend is not \"gloo\"");
  }
  if (plan.fold_from_bytes > 0 && plan.backend != "fake") {
    fields.fail("fold_from_bytes", "0, or backend \"fake\": folded tensors hold garbage");
  }
}

// Under backend fake a rank has no peers, and a stage would wait for them.
void refuse_lonely_stages(const JsonFields& fields, const Plan& plan) {
  if (plan.backend != "fake") return;
  for (const Part& part : plan.parts) {
    for (const Cell& cell : part.cells) {
      if (cell.wrapper == "pipeline") {
        fields.fail("backend", "\"gloo\" or \"nccl\" where a cell's wrapper is pipeline",
                    "\"fake\"");
      }
    }
  }
}

}  // namespace

Plan parse_plan(const json& source, const std::string& file) {
  JsonFields fields(source, file);
  if (fields.string("schema") != kSchema) fields.fail("schema", fmt::format("\"{}\"", kSchema));
  Plan plan;
  plan.file = file;
  plan.source = source;
  plan.name = read_name(fields);
  plan.about = fields.string("about", "");
  for (const Condition& condition : conditions()) condition.read(fields, plan);
  complete_conditions(fields, plan);
  check_conditions(fields, plan);
  const bool honest = plan.window_rule == "honest";
  const bool needs_warmup = honest && plan.backend != "fake";  // which has no times to spoil
  Part whole;
  read_counts(fields, needs_warmup, whole);
  const json cells = merge_cells(json::object(), fields.raw("cells", !fields.has("parts")), fields);
  const json& parts = fields.raw("parts", false);
  if (fields.has("parts")) {
    plan.parts = read_parts(fields, parts, cells, honest, needs_warmup, whole);
  } else {
    whole.cells = multiply_out(cells, file, "cells.");
    finish_counts(fields, honest, whole);
    plan.parts = {whole};
  }
  fields.finish();
  refuse_lonely_stages(fields, plan);
  return plan;
}

Plan read_plan(const std::string& path, const std::vector<std::string>& overrides) {
  json source = read_json_file(path);
  resolve_files(source, path);
  std::string origin = path;  // a bad value may come from either
  for (const std::string& text : overrides) {
    apply_override(source, text);
    origin += (&text == &overrides.front() ? " with --set " : " --set ") + text;
  }
  Plan plan = parse_plan(source, origin);
  plan.file = path;
  return plan;
}

}  // namespace gradsync::plan
