#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "harness/account/account_fields.h"
#include "harness/base/fields_inline.h"
#include "harness/base/json_fields.h"
#include "harness/watch/judge/flag_fields.h"
#include "harness/watch/judge/policy_fields.h"
#include "harness/watch/judge/series_fields.h"
#include "harness/watch/judge/watched.h"
#include "harness/watch/tell/watched_json.h"

namespace gradsync::watch {

using nlohmann::json;

namespace {

// Larger ones are nobody's. What is multiplied by micro-batches must stay far below.
constexpr std::int64_t kMostOfAStep = std::int64_t{1} << 53;
constexpr std::int64_t kMostOfAMicroBatch = std::int64_t{1} << 42;
constexpr std::int64_t kMostMicroBatches = 1'000'000;
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMostInt = std::numeric_limits<int>::max();

// A field of an object that is one as well.
JsonFields inner(const JsonFields& outer, const json& value, const std::string& path) {
  return {value, outer.file(), path + "."};
}

std::int64_t bounded(JsonFields& fields, const char* name, std::int64_t at_least,
                     std::int64_t at_most) {
  const std::int64_t value = fields.integer(name, at_least);
  if (value > at_most) fields.fail(name, fmt::format("an integer of at most {}", at_most));
  return value;
}

int small(JsonFields& fields, const char* name, std::int64_t at_least = 0,
          std::int64_t at_most = kMostInt) {
  return static_cast<int>(bounded(fields, name, at_least, at_most));
}

std::string sentence(JsonFields& fields, const char* name) {
  std::string text = fields.string(name);
  if (text.empty()) fields.fail(name, "a text that is not empty");
  return text;
}

bool is_null(JsonFields& fields, const char* name) {
  return fields.raw(name, true).is_null();
}

// "" for null.
std::string sentence_or_null(JsonFields& fields, const char* name) {
  return is_null(fields, name) ? "" : sentence(fields, name);
}

std::optional<double> seconds_or_null(JsonFields& fields, const char* name) {
  if (is_null(fields, name)) return std::nullopt;
  const double seconds = fields.number(name);
  if (seconds < 0) fields.fail(name, "a number of at least 0, or null");
  return seconds;
}

std::vector<std::string> sentences(JsonFields& fields, const char* name) {
  const json& values = fields.raw(name, true);
  if (!values.is_array()) fields.fail(name, "a list of texts");
  std::vector<std::string> texts;
  for (const json& value : values) {
    if (!value.is_string() || value.get<std::string>().empty()) {
      fields.fail(name, "a list of texts that are not empty");
    }
    texts.push_back(value.get<std::string>());
  }
  return texts;
}

// `most`: of anything.
OpSum read_sum(JsonFields fields, std::int64_t most) {
  OpSum sum;
  sum.count = bounded(fields, "count", 1, most);
  if (is_null(fields, "bytes")) {
    sum.bytes.reset();
  } else {
    sum.bytes = bounded(fields, "bytes", 0, most);
  }
  fields.finish();
  return sum;
}

OpSums read_sums(JsonFields& fields, const char* name, const std::string& path,
                 std::int64_t most = kMostOfAStep) {
  const json& values = fields.raw(name, true);
  if (!values.is_object()) fields.fail(name, "an object of operations");
  OpSums sums;
  for (const auto& [op, value] : values.items()) {
    sums[op] = read_sum(inner(fields, value, fmt::format("{}.{}.{}", path, name, op)), most);
  }
  return sums;
}

// A reader of the list's element, called with its fields and its path.
template <typename Element, typename Read>
std::vector<Element> read_list(JsonFields& fields, const char* name, Read read) {
  const json& values = fields.raw(name, true);
  if (!values.is_array()) fields.fail(name, "a list");
  std::vector<Element> elements;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::string path = fmt::format("{}[{}]", name, i);
    elements.push_back(read(inner(fields, values[i], path), path));
  }
  return elements;
}

// Files of before it was there have none of the three fields.
TensorPeak read_peak_if_there(JsonFields& fields) {
  TensorPeak peak;
  if (!fields.has("peak_allocated_bytes") && !fields.has("no_peak_because")) return peak;
  const bool is_known = !is_null(fields, "peak_allocated_bytes");
  const std::string because = sentence_or_null(fields, "no_peak_because");
  if (is_known != because.empty()) {
    fields.fail("no_peak_because", is_known ? "null" : "why there is no peak");
  }
  if (is_known) {
    peak.bytes = bounded(fields, "peak_allocated_bytes", 0, kMost);
  } else {
    peak.bytes = Unknown{because};
  }
  peak.is_on_gpu = fields.boolean("peak_is_on_gpu");
  return peak;
}

WatchedRank read_rank(JsonFields fields, const std::string& path) {
  WatchedRank rank;
  if (!is_null(fields, "rank")) rank.rank = small(fields, "rank");
  rank.pid = bounded(fields, "pid", 0, kMost);
  rank.steps = small(fields, "steps");
  rank.skipped_steps = small(fields, "skipped_steps");
  rank.evaluation_forwards = small(fields, "evaluation_forwards");
  rank.collectives = read_sums(fields, "collectives", path, kMost);
  rank.peak = read_peak_if_there(fields);
  fields.finish();
  return rank;
}

// A list that files of before it was there do not have.
template <typename Element>
std::vector<Element> read_later_list(JsonFields& fields, const char* name) {
  std::vector<Element> elements;
  if (!fields.has(name)) return elements;
  const json& list = fields.raw(name, true);
  if (!list.is_array()) fields.fail(name, "a list");
  for (const json& value : list) elements.push_back(read_fields<Element>(value, fields.file()));
  return elements;
}

std::vector<int> ranks_or_null(JsonFields& fields) {
  if (is_null(fields, "ranks")) return {};
  const json& list = fields.raw("ranks", true);
  const auto is_rank = [](const json& value) {
    return value.is_number_integer() && value >= 0 && value <= kMostInt;
  };
  if (!list.is_array() || list.empty() || !std::ranges::all_of(list, is_rank)) {
    fields.fail("ranks", "a list of ranks, or null");
  }
  return list.get<std::vector<int>>();
}

Axis read_axis(JsonFields fields, const std::string& path) {
  Axis axis;
  const auto role = group_role(fields.string("role"));
  if (!role) fields.fail("role", "what a process group does");
  axis.role = *role;
  axis.name = sentence_or_null(fields, "name");
  axis.ranks = ranks_or_null(fields);
  axis.collectives = read_sums(fields, "collectives", path);
  axis.ideal = read_sums(fields, "ideal", path);
  axis.excess = read_sums(fields, "excess", path);
  if (without(axis.collectives, axis.excess) != axis.ideal) {
    fields.fail("ideal", "collectives without excess");
  }
  fields.finish();
  return axis;
}

// Files of before they were there have none; null: it is not known which group did what.
void read_axes_if_there(JsonFields& fields, TypicalStep& typical) {
  if (!fields.has("axes") || is_null(fields, "axes")) return;
  typical.axes = read_list<Axis>(fields, "axes", read_axis);
  OpSums all;
  for (const Axis& axis : typical.axes) add(all, axis.collectives);
  if (all != typical.collectives) fields.fail("axes", "axes that add up to collectives");
}

StepParts read_parts(JsonFields fields) {
  const std::string path = "per_step.parts";
  StepParts parts;
  parts.fixed = read_sums(fields, "fixed", path);
  parts.micro_batch = read_sums(fields, "micro_batch", path, kMostOfAMicroBatch);
  parts.synchronization = read_sums(fields, "synchronization", path, kMostOfAMicroBatch);
  parts.fixed_s = seconds_or_null(fields, "fixed_s");
  parts.micro_batch_s = seconds_or_null(fields, "micro_batch_s");
  parts.synchronization_s = seconds_or_null(fields, "synchronization_s");
  fields.finish();
  return parts;
}

// Files of before they were there have neither of the two fields.
void read_parts_if_there(JsonFields& fields, TypicalStep& typical) {
  if (!fields.has("parts") && !fields.has("no_parts_because")) return;
  const json& parts = fields.raw("parts", true);
  typical.no_parts_because = sentence_or_null(fields, "no_parts_because");
  if (parts.is_null() == typical.no_parts_because.empty()) {
    fields.fail("no_parts_because", parts.is_null() ? "why there are no parts" : "null");
  }
  if (parts.is_null()) return;
  typical.parts = read_parts(inner(fields, parts, "per_step.parts"));
  if (collectives_of(*typical.parts, typical.micro_batches, typical.synchronized) !=
      typical.collectives) {
    fields.fail("parts", "parts that add up to collectives");
  }
}

TypicalStep read_typical(JsonFields fields) {
  TypicalStep typical;
  typical.micro_batches = small(fields, "micro_batches", 0, kMostMicroBatches);
  typical.synchronized = small(fields, "synchronized", 0, typical.micro_batches);
  typical.steps = small(fields, "steps", 1);
  typical.collectives = read_sums(fields, "collectives", "per_step");
  typical.ideal = read_sums(fields, "ideal", "per_step");
  typical.excess = read_sums(fields, "excess", "per_step");
  if (without(typical.collectives, typical.excess) != typical.ideal) {
    fields.fail("ideal", "collectives without excess");
  }
  typical.step_s = seconds_or_null(fields, "step_s");
  typical.excess_s = seconds_or_null(fields, "excess_s");
  typical.no_excess_s_because = sentence_or_null(fields, "no_excess_s_because");
  if (typical.excess_s.has_value() != typical.no_excess_s_because.empty()) {
    fields.fail("no_excess_s_because", typical.excess_s ? "null" : "why excess_s is not known");
  }
  read_axes_if_there(fields, typical);
  typical.policies = read_later_list<Policy>(fields, "policies");
  read_parts_if_there(fields, typical);
  fields.finish();
  return typical;
}

Change read_change(JsonFields fields) {
  Change change;
  change.file = sentence_or_null(fields, "file");
  if (!is_null(fields, "line")) change.line = small(fields, "line", 1);
  change.what = sentence(fields, "what");
  fields.finish();
  return change;
}

Verdict read_verdict(JsonFields fields, const std::string& path) {
  Verdict verdict;
  const auto kind = verdict_kind(fields.string("kind"));
  if (!kind) fields.fail("kind", "a kind of verdict");
  verdict.kind = *kind;
  verdict.sentence = sentence(fields, "sentence");
  verdict.why = sentence_or_null(fields, "why");
  const json& change = fields.raw("change", true);
  if (!change.is_null()) verdict.change = read_change(inner(fields, change, path + ".change"));
  verdict.fails = fields.boolean("fails");
  if (is_unjudged(verdict.kind) && verdict.fails) {
    fields.fail("fails", "false where nothing is recognised");
  }
  fields.finish();
  return verdict;
}

ModelVerdict read_model(JsonFields fields, const std::string& path) {
  ModelVerdict model;
  model.wrapper = sentence(fields, "wrapper");
  model.file = sentence_or_null(fields, "file");
  if (!is_null(fields, "line")) model.line = small(fields, "line", 1);
  model.verdict = read_verdict(inner(fields, fields.raw("verdict", true), path + ".verdict"),
                               path + ".verdict");
  fields.finish();
  return model;
}

CallPlace read_call_place(JsonFields fields, const std::string&) {
  CallPlace place;
  place.file = sentence_or_null(fields, "file");
  if (!is_null(fields, "line")) place.line = small(fields, "line", 1);
  place.calls = small(fields, "calls", 1);
  const auto takes_s = seconds_or_null(fields, "takes_s");
  if (!takes_s) fields.fail("takes_s", "seconds");
  place.takes_s = *takes_s;
  fields.finish();
  return place;
}

Waste read_waste(JsonFields fields, const std::string& path) {
  Waste waste;
  const auto kind = waste_kind(fields.string("kind"));
  if (!kind) fields.fail("kind", "a kind of waste");
  waste.kind = *kind;
  waste.reductions = small(fields, "reductions", 1);
  waste.sentence = sentence(fields, "sentence");
  waste.why = sentence_or_null(fields, "why");
  const json& change = fields.raw("change", true);
  if (!change.is_null()) waste.change = read_change(inner(fields, change, path + ".change"));
  const auto saved_s = seconds_or_null(fields, "saved_s");
  const std::string because = sentence_or_null(fields, "no_saved_s_because");
  if (saved_s.has_value() != because.empty()) {
    fields.fail("no_saved_s_because", saved_s ? "null" : "why saved_s is not known");
  }
  waste.saved_s = saved_s ? Known<double>(*saved_s) : Unknown{because};
  if (fields.has("places")) {
    waste.places = read_list<CallPlace>(fields, "places", read_call_place);
  }
  fields.finish();
  return waste;
}

// Files of before they were there have none.
Series read_series_if_there(JsonFields& fields) {
  if (!fields.has("series")) return unknown_series("the file is older than its series");
  Series series = read_fields<Series>(fields.raw("series", true), fields.file());
  for (const auto& [name, value] : known_values(series)) {
    if (value < 0) fields.fail("series", fmt::format("{} of at least 0", name));
  }
  if (series.synchronization_share && *series.synchronization_share > 1) {
    fields.fail("series", "a synchronization_share of at most 1");
  }
  return series;
}

// Files of before there were any have none; else it is null where nobody asked for it.
std::optional<account::GradientAccount> read_account_if_there(JsonFields& fields) {
  if (!fields.has("account")) return std::nullopt;
  const json& value = fields.raw("account", true);
  if (value.is_null()) return std::nullopt;
  auto account = read_fields<account::GradientAccount>(value, fields.file());
  if (account.verdicts.empty()) fields.fail("account", "one verdict or more");
  return account;
}

}  // namespace

Watched watched_from_json(const json& value, const std::string& file) {
  JsonFields fields(value, file);
  if (fields.string("schema") != kWatchSchema) fields.fail("schema", kWatchSchema);
  Watched watched;
  watched.world_size = small(fields, "world_size");
  watched.wrappers = sentences(fields, "wrappers");
  watched.ranks = read_list<WatchedRank>(fields, "ranks", read_rank);
  const json& per_step = fields.raw("per_step", true);
  if (!per_step.is_null()) watched.typical = read_typical(inner(fields, per_step, "per_step"));
  watched.verdicts = read_list<Verdict>(fields, "verdicts", read_verdict);
  if (watched.verdicts.empty()) fields.fail("verdicts", "one verdict or more");
  if (fields.has("models")) watched.models = read_list<ModelVerdict>(fields, "models", read_model);
  if (fields.has("wastes")) watched.wastes = read_list<Waste>(fields, "wastes", read_waste);
  watched.flags = read_later_list<Flag>(fields, "flags");
  watched.faults = sentences(fields, "faults");
  if (fields.boolean("has_excess") != has_excess(watched)) {
    fields.fail("has_excess", "whether a verdict fails");
  }
  watched.series = read_series_if_there(fields);
  watched.account = read_account_if_there(fields);
  fields.finish();
  return watched;
}

}  // namespace gradsync::watch
