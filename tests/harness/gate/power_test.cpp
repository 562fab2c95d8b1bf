// What the rule comes to on the noise of stored starts (stored_noise.h): false alarms, slow rows
// that pass, slow rows that are found and when. Seeds are fixed, so each count is one number on
// every machine. GRADSYNC_GATES=1200 gate_power_test prints the table in row_decision.h; by default
// it takes fewer gates, and holds what they can show.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string>

#include "tests/harness/gate/stored_noise.h"
#include "tests/paths.h"

namespace gradsync::gate {
namespace {

constexpr double kTenMinutes = 600;
constexpr double kFiveMinutes = 300;

const StoredNoise& noise_of(const std::string& name) {
  static const StoredNoise quiet(test::path_of("source") + "/results/gate/quiet");
  static const StoredNoise loaded(test::path_of("source") + "/results/gate/loaded");
  return name == "quiet" ? quiet : loaded;
}

int gates_of(int by_default) {
  const char* asked = std::getenv("GRADSYNC_GATES");
  return asked == nullptr ? by_default : std::atoi(asked);
}

struct Counts {
  int gates = 0;
  int alarms = 0;     // gates that call a row slower that is not
  int undecided = 0;  // gates with that verdict
  int unfit = 0;
  int found = 0;   // gates that call the slowed row slower
  int passed = 0;  // gates in which it passes
  int found_in_five_minutes = 0;
  std::vector<double> duration_s;

  void add(const Simulated& gate, std::size_t slowed) {
    ++gates;
    bool is_alarm = false;
    for (std::size_t row = 0; row < gate.decision.rows.size(); ++row) {
      const Verdict verdict = gate.decision.rows[row].verdict;
      if (row == slowed) {
        found += verdict == Verdict::Regression ? 1 : 0;
        passed += verdict == Verdict::Pass ? 1 : 0;
        const bool soon = verdict == Verdict::Regression && gate.duration_s <= kFiveMinutes;
        found_in_five_minutes += soon ? 1 : 0;
      } else {
        is_alarm = is_alarm || verdict == Verdict::Regression;
      }
    }
    alarms += is_alarm ? 1 : 0;
    undecided += gate.decision.verdict == Verdict::Undecided ? 1 : 0;
    unfit += gate.decision.verdict == Verdict::Unfit ? 1 : 0;
    duration_s.push_back(gate.duration_s);
  }

  std::string text() {
    std::sort(duration_s.begin(), duration_s.end());
    const auto share = [&](int count) { return 100.0 * count / gates; };
    const auto minutes = [&](double quantile) {
      return duration_s[static_cast<std::size_t>(quantile * (gates - 1))] / 60;
    };
    return fmt::format(
        "{} gates: alarms {}, found {} ({:.1f} %), in five minutes {} ({:.1f} %), passed {}, "
        "undecided {} ({:.1f} %), unfit {}, minutes {:.1f} to {:.1f} (median, 95 %)",
        gates, alarms, found, share(found), found_in_five_minutes, share(found_in_five_minutes),
        passed, undecided, share(undecided), unfit, minutes(0.5), minutes(0.95));
  }
};

// No row is slowed where `slowed` is beyond the rows.
constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

// So many gates, evenly on all files, with one slowed row after the other.
Counts count(const std::string& machine, const Slowdown& slowdown, int gates, bool slows = true,
             const Settings& settings = {}) {
  const StoredNoise& noise = noise_of(machine);
  Counts counts;
  for (int gate = 0; gate < gates; ++gate) {
    const auto number = static_cast<std::size_t>(gate);
    const std::size_t slowed = slows ? number / noise.files() % noise.rows() : kNone;
    const std::uint64_t seed = number + 1'000'000 * static_cast<std::uint64_t>(slowdown.phase);
    counts.add(noise.run(number % noise.files(), slowed, slowdown, settings, kTenMinutes, seed),
               slowed);
  }
  fmt::print("{}\n", counts.text());
  return counts;
}

// Three minutes, of which the counts are a part.
constexpr double kThreeMinutes = 180;

// The rows that plan `gate` has times of in the short form, as rows_that_stand_for picks them.
const StoredNoise& four_rows_of(const std::string& folder) {
  static const std::vector<std::size_t> rows = {0, 6, 11, 13};
  static const StoredNoise quiet(test::path_of("source") + "/results/gate/quiet", rows);
  static const StoredNoise drawn(test::path_of("source") + "/results/gate/quiet_drawn", rows);
  return folder == "quiet" ? quiet : drawn;
}

Counts count_short(const std::string& folder, double effect, int gates,
                   const Settings& settings = short_form()) {
  const StoredNoise& noise = four_rows_of(folder);
  Counts counts;
  for (int gate = 0; gate < gates; ++gate) {
    const auto number = static_cast<std::size_t>(gate);
    const std::size_t slowed = effect > 0 ? number / noise.files() % noise.rows() : kNone;
    counts.add(noise.run(number % noise.files(), slowed, {.effect = effect}, settings,
                         kThreeMinutes, number),
               slowed);
  }
  fmt::print("short, {}, {:g} %: {}\n", folder, 100 * effect, counts.text());
  return counts;
}

TEST(StoredNoise, IsWhatItWasSeededWith) {
  const Settings settings;
  const auto reason = [&](std::uint64_t seed) {
    return noise_of("loaded")
        .run(0, 0, {.effect = 0.05}, settings, kTenMinutes, seed)
        .decision.rows[0]
        .reason;
  };
  EXPECT_EQ(reason(1), reason(1));
  EXPECT_NE(reason(1), reason(2));
}

TEST(Power, TheSameIsDecidedWithoutAnAlarm) {
  const Counts counts = count("quiet", {}, gates_of(90), false);
  EXPECT_EQ(counts.alarms, 0);
  EXPECT_LE(counts.undecided, 0.05 * counts.gates);
}

TEST(Power, TheMarginRaisesNoAlarm) {
  const Counts counts = count("quiet", {.effect = 0.01}, gates_of(48));
  EXPECT_EQ(counts.found + counts.alarms, 0);
}

TEST(Power, ThreePercentIsFoundInTenMinutesAndDoesNotPass) {
  const Counts counts = count("quiet", {.effect = 0.03}, gates_of(192));
  EXPECT_GE(counts.found, 0.95 * counts.gates);
  EXPECT_EQ(counts.passed, 0);
  EXPECT_EQ(counts.alarms, 0);
}

TEST(Power, FivePercentIsFoundInFive) {
  const Counts counts = count("quiet", {.effect = 0.05}, gates_of(192));
  EXPECT_GE(counts.found, 0.99 * counts.gates);
  EXPECT_GE(counts.found_in_five_minutes, 0.95 * counts.gates);
  EXPECT_EQ(counts.passed, 0);
}

TEST(Power, BesideLoadTheSame) {
  EXPECT_EQ(count("loaded", {}, gates_of(48), false).alarms, 0);
  const Counts counts = count("loaded", {.effect = 0.03}, gates_of(48));
  EXPECT_GE(counts.found, 0.95 * counts.gates);
  EXPECT_EQ(counts.passed, 0);
}

TEST(Power, SlowDownsThatComeAndGoDoNotPass) {
  constexpr int kGatesOfAPhase = 6;
  for (const Slowdown& stall : {Slowdown{.period = 20, .amount = 1},
                                {.period = 10, .amount = 0.6},
                                {.period = 3, .amount = 0.15}}) {
    for (int phase = 0; phase < stall.period; ++phase) {
      Slowdown at_phase = stall;
      at_phase.phase = phase;
      EXPECT_EQ(count("quiet", at_phase, std::min(300, gates_of(kGatesOfAPhase))).passed, 0)
          << stall.period << " " << phase;
    }
  }
}

TEST(Power, TheShortFormFindsFivePercentInThreeMinutes) {
  for (const char* folder : {"quiet", "quiet_drawn"}) {
    EXPECT_EQ(count_short(folder, 0, gates_of(96)).alarms, 0) << folder;
    EXPECT_LE(count_short(folder, 0.01, gates_of(96)).found, 0.01 * gates_of(96)) << folder;
    const Counts three = count_short(folder, 0.03, gates_of(192));
    EXPECT_GE(three.found, 0.5 * three.gates) << folder;
    const Counts five = count_short(folder, 0.05, gates_of(192));
    EXPECT_GE(five.found, 0.95 * five.gates) << folder;
    EXPECT_EQ(five.passed, 0) << folder;
    EXPECT_LE(five.duration_s.back(), kThreeMinutes) << folder;
  }
}

TEST(Power, TheShortFormNeedsItsConfirmationToBeShort) {
  Settings strict = short_form();
  strict.confirmation_factor = 1;
  EXPECT_LT(count_short("quiet_drawn", 0.03, 192, strict).found,
            count_short("quiet_drawn", 0.03, 192).found);
}

TEST(Power, AStallThatIsNeverTimedWouldPass) {
  Settings settings;
  settings.settle_steps = 1;  // of three steps, where passes have two
  settings.phase_steps = 1;
  int passed = 0;
  for (int phase = 0; phase < 3; ++phase) {
    const Slowdown stall{.period = 3, .amount = 0.15, .phase = phase};
    passed += count("quiet", stall, 12, true, settings).passed;
  }
  EXPECT_GE(passed, 3) << "what settle_steps = 0 is for";
}

TEST(Power, ACandidateWhoseOwnStartsVaryDoesNotPassByTheOthers) {
  for (const double sd : {0.02, 0.03, 0.04}) {
    const Counts slower = count("quiet", {.effect = 0.03, .own_start_sd = sd}, gates_of(96));
    EXPECT_LE(slower.passed, 1) << sd;
    const Counts same = count("quiet", {.own_start_sd = sd}, gates_of(48));
    EXPECT_EQ(same.found + same.alarms, 0) << sd;
  }
}

}  // namespace
}  // namespace gradsync::gate
