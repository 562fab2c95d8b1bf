#include "harness/watch/read/account_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <utility>

#include "harness/base/errors.h"
#include "harness/base/fields.h"
#include "harness/base/json_fields.h"
#include "harness/base/whole_file.h"
#include "harness/watch/read/process_files.h"

namespace gradsync::watch {

using account::AccountedStep;
using account::AccountRecords;
using account::Contribution;
using account::GradientAccount;
using account::kSketchBuckets;
using account::ParameterRecord;
using account::Sketch;
using nlohmann::json;

namespace {

int small(JsonFields& fields, const char* name, std::int64_t at_least = 0) {
  const std::int64_t value = fields.integer(name, at_least);
  if (value > std::numeric_limits<int>::max()) fields.fail(name, "a smaller number");
  return static_cast<int>(value);
}

// A number that is not finite is null.
Sketch read_sketch(const json& values, JsonFields& fields, const char* name) {
  const bool is_list = values.is_array() && values.size() == kSketchBuckets;
  if (!is_list) fields.fail(name, fmt::format("a list of {} numbers", kSketchBuckets));
  Sketch sketch{};
  for (std::size_t b = 0; b < kSketchBuckets; ++b) {
    if (!values[b].is_number() && !values[b].is_null()) fields.fail(name, "numbers");
    sketch[b] = values[b].is_null() ? std::nan("") : values[b].get<double>();
  }
  return sketch;
}

std::vector<Contribution> read_contributions(JsonFields& fields) {
  const json& values = fields.raw("contributions", true);
  if (!values.is_array()) fields.fail("contributions", "a list");
  std::vector<Contribution> contributions;
  for (const json& value : values) {
    JsonFields inner(value, fields.file());
    Contribution contribution;
    contribution.micro_batch = small(inner, "micro_batch");
    contribution.is_older = inner.boolean("is_older");
    contribution.sketch = read_sketch(inner.raw("sketch", true), inner, "sketch");
    inner.finish();
    contributions.push_back(contribution);
  }
  return contributions;
}

ParameterRecord read_parameter(JsonFields& fields) {
  ParameterRecord record;
  record.step = fields.integer("step", 0);
  record.optimizer = small(fields, "optimizer");
  record.index = small(fields, "index");
  record.name = fields.string("name");
  record.dtype = fields.string("dtype");
  record.elements = fields.integer("elements", 0);
  record.offset = fields.integer("offset", 0);
  record.length = fields.integer("length", 0);
  record.gradient = read_sketch(fields.raw("gradient", true), fields, "gradient");
  record.value = read_sketch(fields.raw("value", true), fields, "value");
  record.contributions = read_contributions(fields);
  return record;
}

std::vector<std::int64_t> read_tokens(JsonFields& fields) {
  const json& values = fields.raw("tokens", false);
  std::vector<std::int64_t> tokens;
  if (values.is_null()) return tokens;
  if (!values.is_array()) fields.fail("tokens", "a list");
  for (const json& value : values) {
    if (!value.is_number_unsigned()) fields.fail("tokens", "whole numbers of at least 0");
    tokens.push_back(value.get<std::int64_t>());
  }
  return tokens;
}

AccountedStep read_step(JsonFields& fields) {
  AccountedStep step;
  step.step = fields.integer("step", 0);
  step.optimizer = small(fields, "optimizer");
  step.micro_batches = small(fields, "micro_batches");
  step.loss_scale = fields.number("loss_scale");
  if (!(step.loss_scale > 0)) fields.fail("loss_scale", "a number above 0");
  step.clippings = small(fields, "clippings");
  step.is_used = fields.boolean("is_used");
  step.comm_hook = fields.string("comm_hook", "");
  step.tokens = read_tokens(fields);
  return step;
}

void read_start(JsonFields& fields, AccountRecords& records) {
  if (fields.string("schema") != kAccountSchema) fields.fail("schema", kAccountSchema);
  records.pid = fields.positive_int("pid");
  if (fields.integer("buckets", 1) != static_cast<std::int64_t>(kSketchBuckets)) {
    fields.fail("buckets", std::to_string(kSketchBuckets));
  }
  fields.positive_int("every");
  fields.number("share");
}

void read_line(const json& line, const std::string& place, AccountRecords& records) {
  JsonFields fields(line, place);
  const std::string kind = fields.string("kind");
  if (kind == "start") {
    read_start(fields, records);
  } else if (kind == "rank") {
    records.rank = small(fields, "rank");
    records.world_size = small(fields, "world_size", 1);
  } else if (kind == "parameter") {
    records.parameters.push_back(read_parameter(fields));
  } else if (kind == "step") {
    records.steps.push_back(read_step(fields));
  } else if (kind == "fault") {
    records.faults.push_back(fields.string("sentence"));
  } else {
    fields.fail("kind", "start, rank, parameter, step or fault");
  }
  fields.finish();
}

}  // namespace

AccountRecords parse_account(std::string_view text, const std::string& name) {
  AccountRecords records;
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) break;
    const std::string place = fmt::format("{} line {}", name, number);
    read_line(parse_json(text.substr(0, end), place), place, records);
    text.remove_prefix(end + 1);
  }
  return records;
}

std::vector<AccountRecords> read_accounts(const std::string& directory) {
  std::map<int, AccountRecords> by_rank;
  std::vector<AccountRecords> all;
  for (const std::string& path : files_with(directory, kAccountFilePrefix, kAccountFileSuffix)) {
    try {
      AccountRecords records = parse_account(whole_file(path), path);
      AccountRecords& known = by_rank[records.rank];
      if (known.pid == 0 || known.steps.size() < records.steps.size()) known = std::move(records);
    } catch (const ConfigError& error) {
      all.push_back({});
      all.back().faults.emplace_back(error.what());
    }
  }
  if (by_rank.size() > 1) by_rank.erase(-1);
  for (auto& [rank, records] : by_rank) all.push_back(std::move(records));
  return all;
}

std::optional<GradientAccount> account_in(const std::vector<std::string>& directories) {
  std::vector<AccountRecords> ranks;
  for (const std::string& directory : directories) {
    std::ranges::move(read_accounts(directory), std::back_inserter(ranks));
  }
  if (ranks.empty()) return std::nullopt;
  return account_of(ranks);
}

}  // namespace gradsync::watch
