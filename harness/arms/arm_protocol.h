// How a gate talks to one of its builds: `gradsync arm PLAN`, a launcher that keeps its ranks and
// lets them run a block of steps on request. One JSON object per line, requests on its standard
// input, answers on its standard output, which carries nothing else.
//
//   arm -> gate   {"schema": "gradsync.arm/1", "event": "hello", "build": {...},
//                  "launches": [{"part", "topology", "scale", "cells": [{...}, ...]}, ...]}
//                 unasked and first. "build" is build_context()'s (context.h). A launch has the
//                 cells of a part that share ranks, in the plan's order.
//   gate -> arm   {"open": K}     starts the ranks of launch K afresh; what was open is closed
//   arm -> gate   {"event": "opened", "launch": K}          every rank is up, every cell's model
//   made gate -> arm   {"turn": {"cell": I, "warmup_steps": W, "steps": N}}   I: in the open launch
//   arm -> gate   {"event": "trial", "trial": {...}}        gradsync.trial/1; "launch" counts how
//                                                           often K was opened, "round" the cell's
//                                                           turns since, "order" all turns since
//   gate -> arm   {"close": true}
//   arm -> gate   {"event": "closed"}                       no rank is left
//
// One answer to each request, in their order. In place of "opened", and of "trial" where no record
// can be made, comes
//                 {"event": "failed", "status": "...", "reason": "..."}
// with a status of a trial, or "config", "unfit", "internal" for errors that every other trial
// would have too. After it, and after a trial whose status is neither "ok" nor "invalid", no launch
// is open. While a request takes long, {"event": "busy"} comes about once a second: an arm that is
// silent for longer than kSilenceS has stopped. The arm ends, with all that it started, at the end
// of its input, when its answers are no longer read, and on SIGINT, SIGTERM and SIGHUP.
//
// A reader ignores fields that it does not know; the schema's number is raised when a field changes
// its meaning.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "harness/results/parameters.h"
#include "harness/results/records.h"
#include "harness/results/run_context.h"

namespace gradsync::arms {

inline constexpr const char* kArmSchema = "gradsync.arm/1";

// Between two signs that a request is still being worked on.
inline constexpr double kBusyS = 1;
// Longer: a machine may be so loaded; shorter: a stopped arm is noticed sooner.
inline constexpr double kSilenceS = 60;

// Cells that are resident together; as the arm said them, which is as its plan has them.
struct ArmLaunch {
  std::string part;
  std::string topology;
  int scale = 1;
  std::vector<results::Parameters> cells;
  bool operator==(const ArmLaunch&) const = default;
};

struct ArmHello {
  results::Context build;
  std::vector<ArmLaunch> launches;
};

// A block of steps of one cell.
struct ArmTurn {
  std::size_t cell = 0;  // of the open launch
  int warmup_steps = 1;
  int steps = 1;
};

// One of these is set.
struct ArmRequest {
  std::optional<std::size_t> open{};
  std::optional<ArmTurn> turn{};
  std::optional<bool> close{};
};

struct ArmOpened {
  std::size_t launch = 0;
};
struct ArmRan {
  results::TrialRecord trial;
};
struct ArmClosed {};
// Why something could not be done: a trial's status, or "config", "unfit" or "internal".
struct ArmFailure {
  std::string status;
  std::string reason;
};
struct ArmBusy {};
using ArmAnswer = std::variant<ArmOpened, ArmRan, ArmClosed, ArmFailure, ArmBusy>;

nlohmann::json to_json(const ArmHello& hello);
nlohmann::json to_json(const ArmRequest& request);
nlohmann::json to_json(const ArmAnswer& answer);

// Errors: ConfigError, where the line is none; `from` says whose it is.
ArmHello arm_hello(const nlohmann::json& line, const std::string& from);
ArmRequest arm_request(const nlohmann::json& line);
ArmAnswer arm_answer(const nlohmann::json& line, const std::string& from);

}  // namespace gradsync::arms
