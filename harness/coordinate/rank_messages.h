// What the launcher tells its ranks when a launch starts, and what they tell it: the messages of
// the control channel, one JSON object per line.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <variant>

#include "harness/account/records.h"
#include "harness/launch/launch_spec.h"
#include "harness/launch/store_messages.h"
#include "harness/plan/plan.h"
#include "harness/results/records.h"

namespace gradsync::coordinate {

// Launcher to rank.

struct BeginLaunch {  // before anything else
  launch::LaunchSpec launch;
};
struct RunTrial {  // to resident ranks, one at a time
  plan::Trial trial;
};
using LauncherMessage = std::variant<BeginLaunch, launch::StorePort, RunTrial>;

// Rank to launcher.

struct RankReady {};  // a resident rank waits for trials
struct TrialDone {
  int order = 0;
  results::RankRecord rank;
  results::LedgerRecord ledger;
  results::ModelInfo model_info;
  std::string invalid = "";  // why the trial counts for nothing; "": it counts
  std::optional<account::AccountRecords> account = std::nullopt;
  std::string account_why_not = "";  // where there is none
};
struct RankFailure {              // then it exits
  std::string status = "failed";  // or timeout, oom, config, unfit, internal
  bool by_peer = false;           // a collective failed because of another rank
  std::string what;
  int order = -1;  // of the trial it happened in; -1: before the first
  std::optional<results::OomPlace> oom_place = std::nullopt;  // of an "oom" in a micro-batch
};
struct RankDone {};  // every trial has run
using RankMessage = std::variant<launch::StoreOpened, RankReady, TrialDone, RankFailure, RankDone>;

nlohmann::json to_json(const LauncherMessage& message);
nlohmann::json to_json(const RankMessage& message);

// Errors: InternalError where the line is no such message; `from` says whose it is.
BeginLaunch begin_launch(const nlohmann::json& line);
RunTrial run_trial(const nlohmann::json& line);
RankMessage rank_message(const nlohmann::json& line, const std::string& from);

}  // namespace gradsync::coordinate
