#include "harness/watch/read/account_file.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

#include "harness/base/errors.h"
#include "harness/base/whole_file.h"
#include "harness/watch/read/hook_lines.h"
#include "harness/watch/read/process_files.h"

namespace gradsync::account {

constexpr auto fields_of(const Contribution*) {
  return std::tuple{field("micro_batch", &Contribution::micro_batch).at_least(0),
                    field("is_older", &Contribution::is_older),
                    field("sketch", &Contribution::sketch)};
}

constexpr auto fields_of(const ParameterRecord*) {
  return std::tuple{constant("kind", "parameter"),
                    field("step", &ParameterRecord::step).at_least(0),
                    field("optimizer", &ParameterRecord::optimizer).at_least(0),
                    field("index", &ParameterRecord::index).at_least(0),
                    field("name", &ParameterRecord::name),
                    field("dtype", &ParameterRecord::dtype),
                    field("elements", &ParameterRecord::elements).at_least(0),
                    field("offset", &ParameterRecord::offset).at_least(0),
                    field("length", &ParameterRecord::length).at_least(0),
                    field("gradient", &ParameterRecord::gradient),
                    field("value", &ParameterRecord::value),
                    field("contributions", &ParameterRecord::contributions)};
}

constexpr auto fields_of(const AccountedStep*) {
  return std::tuple{constant("kind", "step"),
                    field("step", &AccountedStep::step).at_least(0),
                    field("optimizer", &AccountedStep::optimizer).at_least(0),
                    field("micro_batches", &AccountedStep::micro_batches).at_least(0),
                    field("loss_scale", &AccountedStep::loss_scale),
                    field("clippings", &AccountedStep::clippings).at_least(0),
                    field("is_used", &AccountedStep::is_used),
                    field("comm_hook", &AccountedStep::comm_hook).later(),
                    field("tokens", &AccountedStep::tokens).later().or_null().at_least(0)};
}

void check_fields(const AccountedStep& step, const FieldCheck& check) {
  check.that(step.loss_scale > 0, "loss_scale", "a number above 0");
}

}  // namespace gradsync::account

namespace gradsync::watch {

using account::AccountedStep;
using account::AccountRecords;
using account::GradientAccount;
using account::kSketchBuckets;
using account::ParameterRecord;
using nlohmann::json;

namespace {

struct StartLine {
  std::int64_t pid = 0;
  std::int64_t buckets = 0;
  std::int64_t every = 0;
  double share = 0;
};

constexpr auto fields_of(const StartLine*) {
  return std::tuple{
      constant("kind", "start"),
      constant("schema", kAccountSchema),
      field("pid", &StartLine::pid).at_least(1),
      field("buckets", &StartLine::buckets).at_least(kSketchBuckets).at_most(kSketchBuckets),
      field("every", &StartLine::every).at_least(1),
      field("share", &StartLine::share)};
}

void read_line(const json& line, const std::string& kind, const std::string& place,
               AccountRecords& records) {
  if (kind == "start") {
    records.pid = read_only_fields<StartLine>(line, place).pid;
  } else if (kind == "rank") {
    const auto [rank, world_size] = read_only_fields<RankLine>(line, place);
    records.rank = rank;
    records.world_size = world_size;
  } else if (kind == "parameter") {
    records.parameters.push_back(read_only_fields<ParameterRecord>(line, place));
  } else if (kind == "step") {
    records.steps.push_back(read_only_fields<AccountedStep>(line, place));
  } else if (kind == "fault") {
    records.faults.push_back(read_only_fields<FaultLine>(line, place).sentence);
  } else {
    FieldPlace(place).field("kind").fail(nullptr, "start, rank, parameter, step or fault");
  }
}

}  // namespace

AccountRecords parse_account(std::string_view text, const std::string& name) {
  AccountRecords records;
  for_each_line(text, name,
                [&](const json& line, const std::string& kind, const std::string& place) {
                  read_line(line, kind, place, records);
                });
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
