#include "harness/gate/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "harness/base/errors.h"

namespace gradsync::gate {

using nlohmann::json;

namespace {

constexpr double kSumTolerance = 1e-9;
constexpr int kFewestStarts = 2;
constexpr int kFirstToPass = 5;  // starts
constexpr double kLongestBlockS = 3600;
constexpr long kFewestPassSteps = 2;

void require(bool holds, const std::string& file, const std::string& field, double got,
             const std::string& expected) {
  if (!holds) throw ConfigError(file, field, fmt::format("{:g}", got), expected);
}

// Written so that NaN fails.
bool is_inside(double value, double low, double high) {
  return value > low && value < high;
}

void validate_looks(const std::vector<Look>& looks, int start_turns, const std::string& file) {
  if (looks.empty()) throw ConfigError(file, "looks", "none", "at least one");
  int earlier = 0;
  double slower = 0;
  double not_slower = 0;
  for (std::size_t i = 0; i < looks.size(); ++i) {
    const Look& look = looks[i];
    const std::string path = fmt::format("looks[{}].", i);
    require(look.turns > earlier && look.turns % start_turns == 0, file, path + "turns", look.turns,
            fmt::format("a multiple of the {} turns of a start, above {}", start_turns, earlier));
    require(look.turns >= kFewestStarts * start_turns, file, path + "turns", look.turns,
            fmt::format("at least {} starts of {} turns: one start cannot know what it drew",
                        kFewestStarts, start_turns));
    require(look.slower_weight >= 0, file, path + "slower_weight", look.slower_weight, "0 or more");
    require(look.not_slower_weight >= 0, file, path + "not_slower_weight", look.not_slower_weight,
            "0 or more");
    earlier = look.turns;
    slower += look.slower_weight;
    not_slower += look.not_slower_weight;
  }
  const std::string sum = "weights that sum to 1";
  require(std::abs(slower - 1) < kSumTolerance, file, "looks.slower_weight", slower, sum);
  require(std::abs(not_slower - 1) < kSumTolerance, file, "looks.not_slower_weight", not_slower,
          sum);
}

// Looks of equal weight after so many starts.
std::vector<Look> looks_after(const std::vector<int>& starts, int start_turns) {
  const auto can_pass = [](int count) { return count >= kFirstToPass; };
  const auto passing = static_cast<double>(std::ranges::count_if(starts, can_pass));
  std::vector<Look> looks;
  for (const int count : starts) {
    looks.push_back({count * start_turns, 1.0 / static_cast<double>(starts.size()),
                     can_pass(count) ? 1.0 / passing : 0.0});
  }
  return looks;
}

}  // namespace

std::vector<Look> default_looks(int start_turns) {
  return looks_after({2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 18, 22, 27, 33}, start_turns);
}

Settings short_form() {
  constexpr int kConfirmationStarts = 4;
  Settings settings;
  settings.smallest_effect = 0.05;
  settings.mean_smallest_effect = kMeanToSmallestEffect * settings.smallest_effect;
  settings.looks = looks_after({3, 4, 5, 6, 8, 10}, settings.start_turns);
  settings.confirmation_turns = kConfirmationStarts * settings.start_turns;
  settings.confirmation_factor = 5;
  settings.confirmed_rows = 1;
  return settings;
}

double confirmation_level(const Settings& settings) {
  return settings.confirmation_factor * settings.alpha;
}

int pass_steps(const Settings& settings, double step_s) {
  const long fit = std::lround(settings.block_s / settings.passes / step_s);
  return static_cast<int>(std::max(kFewestPassSteps, fit));
}

void validate(const Settings& settings, const std::string& file) {
  require(settings.margin >= 0 && settings.margin < 1, file, "margin", settings.margin,
          "a share from 0 to below 1");
  require(is_inside(settings.smallest_effect, settings.margin, 1), file, "smallest_effect",
          settings.smallest_effect,
          fmt::format("a share above the margin of {:g} and below 1", settings.margin));
  require(is_inside(settings.mean_smallest_effect, settings.margin, 1), file,
          "mean_smallest_effect", settings.mean_smallest_effect,
          fmt::format("a share above the margin of {:g} and below 1", settings.margin));
  require(is_inside(settings.alpha, 0, 1), file, "alpha", settings.alpha,
          "a share between 0 and 1");
  require(is_inside(settings.miss_rate, 0, 1), file, "miss_rate", settings.miss_rate,
          "a share between 0 and 1");
  require(settings.low_quantile >= 0 && settings.low_quantile <= 0.5, file, "low_quantile",
          settings.low_quantile, "a share from 0 to 0.5");
  const int start_turns = settings.start_turns;
  require(start_turns > 0 && start_turns % 2 == 0, file, "start_turns", start_turns,
          "an even number, because turns come in pairs");
  validate_looks(settings.looks, start_turns, file);
  require(settings.confirmation_turns > 0 && settings.confirmation_turns % start_turns == 0, file,
          "confirmation_turns", settings.confirmation_turns,
          fmt::format("a multiple of the {} turns of a start", start_turns));
  require(settings.confirmation_factor >= 1 && settings.confirmation_factor * settings.alpha < 1,
          file, "confirmation_factor", settings.confirmation_factor, "1 to below 1 / alpha");
  require(settings.confirmed_rows > 0, file, "confirmed_rows", settings.confirmed_rows,
          "1 or more");
  require(settings.block_s > 0 && settings.block_s <= kLongestBlockS, file, "block_s",
          settings.block_s, fmt::format("seconds above 0, at most {:g}", kLongestBlockS));
  require(settings.passes > 0 && settings.passes % 2 == 0, file, "passes", settings.passes,
          "an even number, because every order is followed by its mirror");
  require(settings.settle_steps >= 0, file, "settle_steps", settings.settle_steps, "0 or more");
  require(settings.phase_steps > 0, file, "phase_steps", settings.phase_steps, "1 or more");
}

Settings with_start_turns(const Settings& settings, int start_turns) {
  GRADSYNC_CHECK(start_turns, >, 0);
  Settings other = settings;
  const auto scaled = [&](int turns) { return turns / settings.start_turns * start_turns; };
  other.start_turns = start_turns;
  for (Look& look : other.looks) look.turns = scaled(look.turns);
  other.confirmation_turns = scaled(settings.confirmation_turns);
  return other;
}

Settings within_starts(const Settings& settings, int starts) {
  Settings fewer = settings;
  const int confirmation = std::max(1, starts * 2 / 5) * settings.start_turns;
  fewer.confirmation_turns = std::min(settings.confirmation_turns, confirmation);
  const int turns = starts * settings.start_turns - fewer.confirmation_turns;
  while (fewer.looks.size() > 1 && fewer.looks.back().turns > turns) fewer.looks.pop_back();
  return fewer;
}

int turns_to_pass(const Settings& settings) {
  for (const Look& look : settings.looks) {
    if (look.not_slower_weight > 0) return look.turns;
  }
  return settings.looks.back().turns;
}

bool can_find_slower(const Settings& settings) {
  return std::any_of(settings.looks.begin(), settings.looks.end(),
                     [](const Look& look) { return look.slower_weight > 0; });
}

json to_json(const Settings& settings) {
  json looks = json::array();
  for (const Look& look : settings.looks) {
    looks.push_back({{"turns", look.turns},
                     {"slower_weight", look.slower_weight},
                     {"not_slower_weight", look.not_slower_weight}});
  }
  return {{"margin", settings.margin},
          {"smallest_effect", settings.smallest_effect},
          {"mean_smallest_effect", settings.mean_smallest_effect},
          {"alpha", settings.alpha},
          {"miss_rate", settings.miss_rate},
          {"low_quantile", settings.low_quantile},
          {"looks", looks},
          {"start_turns", settings.start_turns},
          {"confirmation_turns", settings.confirmation_turns},
          {"confirmation_factor", settings.confirmation_factor},
          {"confirmed_rows", settings.confirmed_rows},
          {"block_s", settings.block_s},
          {"passes", settings.passes},
          {"settle_steps", settings.settle_steps},
          {"phase_steps", settings.phase_steps}};
}

}  // namespace gradsync::gate
