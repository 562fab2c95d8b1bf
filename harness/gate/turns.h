// What a gate measured, raw: every turn of every row, as it is stored, replayed and decided on.
//
// Three rank groups are resident and take turns on the same cores: the baseline build, the
// candidate, and the control, which is the baseline build once more. A turn is one block of steps
// in each of the three, in passes: a few steps of each arm, then a few more in the mirrored order,
// and so on. What disturbs the machine longer than a pass disturbs all three, and so cancels in the
// ratios of a turn. On a shared machine with two cores that is most of it: the ratio of two arms
// spread by 1.4 % where single steps alternated, by 8.7 % where blocks of 20 did (24 ms per step).
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/results/parameters.h"
#include "harness/stats/random.h"

namespace gradsync::gate {

inline constexpr const char* kTurnsSchema = "gradsync.gate_turns/2";
// Without "starts", whose arms started as kArms has them, and without "elapsed_s".
inline constexpr const char* kOlderTurnsSchema = "gradsync.gate_turns/1";

enum class Arm { Baseline, Candidate, Control };
inline constexpr std::array kArms = {Arm::Baseline, Arm::Candidate, Arm::Control};
using ArmOrder = std::array<Arm, kArms.size()>;

// Something of each arm, by Arm.
template <typename Value>
using ByArm = std::array<Value, kArms.size()>;

std::string to_string(Arm arm);  // "baseline", "candidate", "control"

struct Turn {
  int start = 0;                      // which start of the arms, from 0
  ArmOrder order = kArms;             // of the first pass
  ByArm<std::vector<double>> step_s;  // slowest rank, per step
  // Elapsed seconds of the block's steps, the slowest rank's of each pass; 0: not known.
  ByArm<double> elapsed_s{};
  // Seconds of the block in each phase (measure/step_recorder.h), mean over ranks; empty: not
  // known.
  std::map<std::string, ByArm<double>> phase_s = {};

  const std::vector<double>& of(Arm arm) const { return step_s[static_cast<std::size_t>(arm)]; }
  std::vector<double>& of(Arm arm) { return step_s[static_cast<std::size_t>(arm)]; }

  // Returns the mean step of the arm's block: elapsed time over steps. Where it is not known, the
  // mean of the slowest rank's steps, which is up to 2 % longer where ranks take turns in being it.
  // Errors: InternalError without steps.
  double mean_step_s(Arm arm) const;
};

// How the arms of one fresh start came up. Whatever is drawn at a start, memory, cores and links,
// may favour who comes first or last: the same build was 0.28 % faster where it started third. So
// places are dealt out evenly, and which of the two processes of the baseline is the control in a
// start is drawn.
struct StartDraw {
  ArmOrder order = kArms;            // in which ranks start and warm up
  bool exchanges_baselines = false;  // the process that first was the control is the baseline
  bool operator==(const StartDraw&) const = default;
};

struct RowTurns {
  std::string part;
  results::Parameters cell;
  std::vector<Turn> turns;  // in the order they ran
};

// The rows of one gate run, which are decided on together.
struct TurnFamily {
  nlohmann::json context;  // as in result.json, of the gate; {} where it is not known
  double extra_work = 0;   // share of work that was really added to the candidate; 0: the same work
  int passes = 0;          // of a block
  int settle_steps = 0;    // untimed steps before each of them
  std::vector<StartDraw> starts;  // by Turn::start; those beyond the end came up as kArms
  std::vector<RowTurns> rows;
};

// Returns how many starts the turns of the rows are of.
std::size_t start_count(const TurnFamily& family);

// Returns the family as one JSON object, schema kTurnsSchema.
nlohmann::json to_json(const TurnFamily& family);

// Returns the family that `in` says; the inverse of to_json, also of what older versions wrote.
// `file`: its name, for messages.
// Errors: ConfigError with file and field for another schema, a missing or unknown field, an order
// that does not name each arm once, a step that is no positive number, a block without
// steps or with more or fewer than the baseline's of its turn, or starts that fall. Some may be
// left out: those that only other rows took part in.
TurnFamily turn_family_from_json(const nlohmann::json& in, const std::string& file);

// Returns the orders of `turns` turns, in mirrored pairs: a random order of the three arms, every
// one equally likely, then the same from its end. So each arm's mean place in a pair is the same,
// and a machine that drifts steadily drifts for all of them.
// Errors: InternalError where `turns` is odd or negative.
std::vector<ArmOrder> turn_orders(int turns, stats::Random& random);

// Returns the draws of `starts` starts. In the first three, the next three, and so on, every arm
// has every place once: a Latin square, of which all twelve are equally likely. The exchange is
// drawn by itself, either way equally likely.
// So without a difference between the three processes every way to call them by these roles was as
// likely as the one that came about, which is what relabelling rests on (replay.h).
std::vector<StartDraw> start_draws(std::size_t starts, stats::Random& random);

}  // namespace gradsync::gate
