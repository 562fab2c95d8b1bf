#include "harness/watch/read/account_file.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "harness/account/account_fields.h"
#include "harness/base/errors.h"
#include "harness/base/program_files.h"
#include "harness/base/whole_file.h"
#include "harness/watch/read/hook_lines.h"

namespace gradsync::watch {

using account::AccountedStep;
using account::AccountRecords;
using account::GradientAccount;
using account::kSketchBuckets;
using account::ParameterRecord;
using nlohmann::json;

namespace {

// Lines of the file. They are types of their own, since ranks of ours write the same records with
// other fields (harness/coordinate/rank_messages.cpp), and a type has one list.
struct ContributionLine : account::Contribution {};

struct ParameterLine : ParameterRecord {
  std::vector<ContributionLine> lines;
};

struct AccountedStepLine : AccountedStep {};

constexpr auto fields_of(const ContributionLine*) {
  return std::tuple{field("micro_batch", &ContributionLine::micro_batch).at_least(0),
                    GRADSYNC_FIELDS(ContributionLine, is_older, sketch)};
}

constexpr auto fields_of(const ParameterLine*) {
  return std::tuple{constant("kind", "parameter"),
                    GRADSYNC_FIELDS_FROM(0, ParameterLine, step, optimizer, index),
                    GRADSYNC_FIELDS(ParameterLine, name, dtype),
                    GRADSYNC_FIELDS_FROM(0, ParameterLine, elements, offset, length),
                    GRADSYNC_FIELDS(ParameterLine, gradient, value),
                    field("contributions", &ParameterLine::lines)};
}

constexpr auto fields_of(const AccountedStepLine*) {
  return std::tuple{
      constant("kind", "step"),
      GRADSYNC_FIELDS_FROM(0, AccountedStepLine, step, optimizer, micro_batches),
      field("loss_scale", &AccountedStepLine::loss_scale),
      field("clippings", &AccountedStepLine::clippings).at_least(0),
      GRADSYNC_LATER_FIELDS(AccountedStepLine, max_norm, clipped_by, scaled_after, loss_weights),
      field("is_used", &AccountedStepLine::is_used),
      field("comm_hook", &AccountedStepLine::comm_hook).later(),
      field("tokens", &AccountedStepLine::tokens).later().or_null().at_least(0),
      field("places", &AccountedStepLine::places).later().at_least(0),
      field("functions", &AccountedStepLine::functions).later().at_least(0),
      GRADSYNC_LATER_FIELDS(AccountedStepLine, calls, is_wrapped)};
}

void check_fields(const AccountedStepLine& step, const FieldCheck& check) {
  check.that(step.loss_scale > 0, "loss_scale", "a number above 0");
}

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
    auto parameter = read_only_fields<ParameterLine>(line, place);
    parameter.contributions.assign(parameter.lines.begin(), parameter.lines.end());
    records.parameters.push_back(std::move(parameter));
  } else if (kind == "step") {
    records.steps.push_back(read_only_fields<AccountedStepLine>(line, place));
  } else if (kind == "fault") {
    records.faults.push_back(read_only_fields<FaultLine>(line, place).sentence);
  } else {
    FieldPlace(place).field("kind").fail(nullptr, "start, rank, parameter, step or fault");
  }
}

// The first micro-batches of a step that are no micro-batches of its model.
int foreign_first(const AccountRecords& records, std::int64_t step) {
  int first = std::numeric_limits<int>::max();
  for (const ParameterRecord& parameter : records.parameters) {
    if (parameter.step != step) continue;
    for (const account::Contribution& each : parameter.contributions) {
      if (!each.is_older) first = std::min(first, each.micro_batch);
    }
  }
  return first == std::numeric_limits<int>::max() ? 0 : first;
}

template <typename Number>
void drop_first(std::vector<Number>& numbers, int count) {
  numbers.erase(numbers.begin(),
                numbers.begin() + std::min<std::ptrdiff_t>(count, std::ssize(numbers)));
}

// A backward of something else before the model's own, as of a trainer that counts operations, adds
// nothing to any parameter of an optimizer: it is no micro-batch of the step.
void drop_foreign_first(AccountRecords& records) {
  std::map<std::int64_t, int> foreign;
  for (AccountedStep& step : records.steps) {
    const auto known = foreign.find(step.step);
    const int count = known != foreign.end() ? known->second : foreign_first(records, step.step);
    foreign[step.step] = count;
    step.micro_batches = std::max(0, step.micro_batches - count);
    drop_first(step.tokens, count);
    drop_first(step.places, count);
    drop_first(step.functions, count);
    for (account::GradientCall& call : step.calls) call.after = std::max(0, call.after - count);
  }
  for (ParameterRecord& parameter : records.parameters) {
    const int count = foreign[parameter.step];
    for (account::Contribution& each : parameter.contributions) {
      if (!each.is_older) each.micro_batch -= count;
    }
  }
}

}  // namespace

AccountRecords parse_account(std::string_view text, const std::string& name) {
  AccountRecords records;
  for_each_line(text, name,
                [&](const json& line, const std::string& kind, const std::string& place) {
                  read_line(line, kind, place, records);
                });
  drop_foreign_first(records);
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

std::optional<GradientAccount> account_in(const std::vector<std::string>& directories,
                                          const account::SeenBeside& beside) {
  std::vector<AccountRecords> ranks;
  for (const std::string& directory : directories) {
    std::ranges::move(read_accounts(directory), std::back_inserter(ranks));
  }
  if (ranks.empty()) return std::nullopt;
  return account_of(ranks, beside);
}

}  // namespace gradsync::watch
