// A gate file: what must hold for a plan, kept beside the code whose steps it guards.
//
// It picks rows for the comparison of two builds and says how much slower they may be, and it makes
// claims: fixed statements about one result, such as "baseline / no_sync on two nodes is at least
// 1.5". A claim needs no second build, since both of its rows ran side by side.
//
//   {"schema": "gradsync.gates/1", "plan": "slowdown_table", "about": "one sentence",
//    "set": ["launches=6"], "rows": ["part=your_machine"], "margin": "1%",
//    "claims": [{"about": "...", "ratio": [{"strategy": "baseline"}, {"strategy": "no_sync"}],
//                "where": {"topology": "2x1_1gbit"}, "at_least": 1.5}]}
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/gate/rows.h"

namespace gradsync::gate {

inline constexpr const char* kGateFileSchema = "gradsync.gates/1";

// The ratios that a claim allows; an end that is absent is open.
struct Allowed {
  std::optional<double> lo;
  std::optional<double> hi;
};

// A ratio of step times, and what it must be.
struct Claim {
  enum class Kind { AtLeast, AtMost, Within };

  std::string about;
  nlohmann::json above;  // parameters of the row whose steps are divided: {"strategy": "baseline"}
  nlohmann::json below;  // the same parameters, as the row has them by whose steps it is divided
  RowFilter where;       // which rows above; "part" is a parameter here, too
  Kind kind = Kind::AtLeast;
  double limit = 0;  // a ratio; of Within a share: 0.02 for "2%", a ratio from 0.98 to 1.02

  Allowed allowed() const;
  std::string need() const;  // ">= 1.50x", "0.98x to 1.02x"
};

struct GateFile {
  std::string file;  // where it was read from, for messages
  std::string plan;
  std::string about;
  std::vector<std::string> overrides;  // of the plan, as --set takes them
  std::vector<RowFilter> rows;         // that take part in comparing builds; none: all
  std::optional<double> margin;        // these three: absent where the file leaves the default
  std::optional<double> smallest_effect;
  std::optional<double> alpha;
  std::vector<Claim> claims;
};

// Returns what the file says; strict.   Errors: ConfigError with file, field, got and expected.
GateFile parse_gate_file(const nlohmann::json& source, const std::string& file);
GateFile read_gate_file(const std::string& path);

}  // namespace gradsync::gate
