// Finds the fastest of several ways to do the same work, without running each to the end: ways that
// cannot fit never start, and ways that fall behind stop.
//
// After each launch a way is out of the race where it is slower than the one that leads by more
// than chance explains: from three launches on, where the interval of their ratio lies above 1;
// before, when chance cannot be estimated, by a wide margin. The interval holds for all ways
// against the leader at once, launch by launch; it is not corrected for being tested after every
// launch.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/results/result.h"

namespace gradsync::summary {

inline constexpr const char* kFastestSchema = "gradsync.fastest/1";

// How many times as long as the leader a way may take after one launch, and after two.
inline constexpr double kMostAfterOne = 1.5;
inline constexpr double kMostAfterTwo = 1.25;

// Racing: still in. TooLarge: the formula says that it does not fit. OutOfMemory: it did not.
// Untimed: it ran, and has no time that counts. Close: not clearly slower than the fastest.
enum class Standing { Racing, TooLarge, OutOfMemory, Failed, Untimed, Slower, Close, Fastest };

struct Contender {
  std::string part;
  results::Parameters cell;
  std::optional<std::int64_t> predicted_peak_bytes;  // unset: no formula is declared
  Standing standing = Standing::Racing;
  std::string reason;  // of what did not fit or failed, or has no time
  std::size_t launches = 0;
  std::optional<std::int64_t> peak_allocated_bytes;
  std::optional<double> step_s;  // the mean
  // Over the one that led when it was last compared, in the launches in which both ran.
  std::optional<results::Ratio> vs_fastest;
};

struct Race {
  std::string plan;                   // its name
  int launches = 0;                   // that a way which stays to the end has
  std::vector<Contender> contenders;  // in the order of the plan
  std::optional<int> exit_status;
};

void to_json(nlohmann::json& out, const Race& race);

// Returns the contenders that do the same work, for each work, in their order.
std::vector<std::vector<Contender*>> works_of(std::vector<Contender>& contenders);

// Takes up what all trials so far say of the contenders that race, and who is out by it. `plan` and
// `context` as build_result has them.
void judge(Race& race, const results::Context& context, const nlohmann::json& plan,
           const std::vector<results::TrialRecord>& trials);

// Says of those that still race who is the fastest of its work, and who is close to it.
void end_race(Race& race);

// Returns those of `part` that run in its next launch: all that race; behind the first launch only
// where others of their work race, too. None: the race of that part is over.
std::vector<const Contender*> starters(Race& race, const std::string& part, bool is_first);

}  // namespace gradsync::summary
