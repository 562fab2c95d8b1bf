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
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/stats/random.h"

namespace gradsync::gate {

inline constexpr const char* kTurnsSchema = "gradsync.gate_turns/1";

enum class Arm { Baseline, Candidate, Control };
inline constexpr std::array kArms = {Arm::Baseline, Arm::Candidate, Arm::Control};
using ArmOrder = std::array<Arm, kArms.size()>;

std::string to_string(Arm arm);  // "baseline", "candidate", "control"

struct Turn {
  int start = 0;                                         // which start of the arms, from 0
  ArmOrder order = kArms;                                // of the first pass
  std::array<std::vector<double>, kArms.size()> step_s;  // by Arm: slowest rank, per step

  const std::vector<double>& of(Arm arm) const { return step_s[static_cast<std::size_t>(arm)]; }
  std::vector<double>& of(Arm arm) { return step_s[static_cast<std::size_t>(arm)]; }
};

struct RowTurns {
  std::string part;
  nlohmann::json cell;
  std::vector<Turn> turns;  // in the order they ran
};

// The rows of one gate run, which are decided on together.
struct TurnFamily {
  nlohmann::json context;  // as in result.json, of the gate; {} where it is not known
  double extra_work = 0;   // share of work that was really added to the candidate; 0: the same work
  int passes = 0;          // of a block
  int settle_steps = 0;    // untimed steps before each of them
  std::vector<RowTurns> rows;
};

// Returns the family as one JSON object, schema gradsync.gate_turns/1.
nlohmann::json to_json(const TurnFamily& family);

// Returns the family that `in` says; the inverse of to_json. `file`: its name, for messages.
// Errors: ConfigError with file and field for another schema, a missing or unknown field, an order
// that does not name each arm once, a step that is no positive number, a block without
// steps or with more or fewer than the baseline's of its turn, or starts that do not follow each
// other.
TurnFamily turn_family_from_json(const nlohmann::json& in, const std::string& file);

// Returns the orders of `turns` turns, in mirrored pairs: a random order of the three arms, every
// one equally likely, then the same from its end. So each arm's mean place in a pair is the same,
// and a machine that drifts steadily drifts for all of them.
// Errors: InternalError where `turns` is odd or negative.
std::vector<ArmOrder> turn_orders(int turns, stats::Random& random);

}  // namespace gradsync::gate
