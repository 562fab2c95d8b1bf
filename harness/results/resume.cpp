#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/base/errors.h"
#include "harness/base/readable_json.h"
#include "harness/results/store.h"

namespace gradsync::results {

using nlohmann::json;

namespace {

json value_of(const Context& context, const char* name) {
  return context.written.is_object() ? context.written.value(name, json()) : json();
}

}  // namespace

std::string trial_key(const std::string& part, const Parameters& cell, int launch, int round) {
  return json({part, cell.written(), launch, round}).dump();
}

std::set<std::string> done_keys(const std::vector<TrialRecord>& trials) {
  std::set<std::string> keys;
  for (const TrialRecord& trial : trials) {
    const bool lasting = trial.status == Status::Ok || trial.status == Status::Oom ||
                         trial.status == Status::Invalid;
    if (lasting) keys.insert(trial_key(trial.part, trial.cell, trial.launch, trial.round));
  }
  return keys;
}

void check_resumable(const StoredResult& earlier, const json& plan_source, const Context& context) {
  std::vector<std::string> differences;
  for (const auto& [path, before, now] : json_differences(earlier.plan, plan_source)) {
    differences.push_back(fmt::format("plan{} was {}, is {}", path, before, now));
  }
  for (const char* name : {"commit", "host", "weights", "data"}) {
    const json before = value_of(earlier.context, name);
    const json now = value_of(context, name);
    if (before == now) continue;
    differences.push_back(fmt::format("{} was {}, is {}", name, before.dump(), now.dump()));
  }
  if (differences.empty()) return;
  throw ConfigError(
      fmt::format("--resume: this run would not continue the earlier one: {}; run it as it was, or "
                  "start anew in another --out",
                  fmt::join(differences, "; ")));
}

}  // namespace gradsync::results
