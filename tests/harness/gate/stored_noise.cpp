#include "tests/harness/gate/stored_noise.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include "harness/stats/random.h"
#include "harness/stats/sample.h"
#include "tests/harness/gate/simulated_gate.h"

namespace gradsync::gate {
namespace {

constexpr double kTrimmed = 0.2;  // of both ends, where arms are made alike
// As measured on the machine of results/gate/quiet with the default plan.
constexpr double kCountsS = 25;
constexpr double kStartS = 2;
constexpr double kSwitchS = 0.0034;
constexpr int kWarmUpSteps = 3;

double trimmed_mean(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto cut = static_cast<std::ptrdiff_t>(kTrimmed * static_cast<double>(values.size()));
  return stats::mean({std::next(values.begin(), cut), std::prev(values.end(), cut)});
}

// The factors by which the arms of a row differ from the baseline, as logarithms.
std::array<double, kArms.size()> differences_of(const RowTurns& row) {
  std::array<double, kArms.size()> factors{};
  for (const Arm arm : kArms) {
    std::vector<double> logs;
    for (const Turn& turn : row.turns) {
      for (std::size_t step = 0; step < turn.of(arm).size(); ++step) {
        logs.push_back(std::log(turn.of(arm)[step] / turn.of(Arm::Baseline)[step]));
      }
    }
    factors[static_cast<std::size_t>(arm)] = trimmed_mean(std::move(logs));
  }
  return factors;
}

double normal(stats::Random& random) {
  const auto uniform = [&] {
    constexpr std::uint64_t kSteps = std::uint64_t{1} << 53;
    return (static_cast<double>(random.below(kSteps)) + 0.5) / static_cast<double>(kSteps);
  };
  const double radius = std::sqrt(-2 * std::log(uniform()));
  return radius * std::cos(2 * std::acos(-1.0) * uniform());
}

std::array<std::size_t, kArms.size()> random_roles(stats::Random& random) {
  std::array<std::size_t, kArms.size()> roles{};
  std::iota(roles.begin(), roles.end(), std::size_t{0});
  for (std::size_t i = roles.size() - 1; i > 0; --i)
    std::swap(roles[i], roles[random.below(i + 1)]);
  return roles;
}

// Passes of stored starts, one after the other; with the next start after the last of one.
class PassesOf {
 public:
  PassesOf(const StoredNoise::Row& row, stats::Random& random) : row_(row), random_(random) {}

  const std::array<std::vector<double>, kArms.size()>& next() {
    if (start_ == nullptr || turn_ == start_->size()) {
      start_ = &row_.starts[random_.below(row_.starts.size())];
      turn_ = 0;
    }
    const auto& passes = (*start_)[turn_].of;
    const auto& pass = passes[pass_];
    pass_ = (pass_ + 1) % passes.size();
    if (pass_ == 0) ++turn_;
    return pass;
  }

 private:
  const StoredNoise::Row& row_;
  stats::Random& random_;
  const std::vector<StoredNoise::Passes>* start_ = nullptr;
  std::size_t turn_ = 0;
  std::size_t pass_ = 0;
};

// The candidate's steps since its ranks began.
class SlowedSteps {
 public:
  SlowedSteps(const Slowdown& slowdown, int first_step, stats::Random& random)
      : slowdown_(slowdown),
        factor_((1 + slowdown.effect) * std::exp(slowdown.own_start_sd * normal(random))),
        step_(slowdown.phase + first_step) {}

  void skip(int steps) { step_ += steps; }
  double factor_of_next() {
    const bool is_hit = slowdown_.period > 0 && step_++ % slowdown_.period == 0;
    return is_hit ? factor_ * (1 + slowdown_.amount) : factor_;
  }

 private:
  const Slowdown& slowdown_;
  double factor_;
  int step_;
};

std::vector<Turn> start_of(const StoredNoise::Row& row, int number, const Slowdown& slowdown,
                           const Settings& settings, stats::Random& random) {
  const auto roles = random_roles(random);
  const auto delay = random.below(static_cast<std::size_t>(settings.phase_steps));
  SlowedSteps candidate(slowdown, kWarmUpSteps + 1 + static_cast<int>(delay), random);
  PassesOf passes(row, random);
  std::vector<Turn> turns(static_cast<std::size_t>(settings.start_turns));
  for (Turn& turn : turns) {
    turn.start = number;
    for (int pass = 0; pass < settings.passes; ++pass) {
      const auto& logs = passes.next();
      candidate.skip(settings.settle_steps);
      for (const Arm arm : kArms) {
        for (const double log_s : logs[roles[static_cast<std::size_t>(arm)]]) {
          const double factor = arm == Arm::Candidate ? candidate.factor_of_next() : 1.0;
          turn.of(arm).push_back(factor * std::exp(log_s));
        }
      }
    }
  }
  return turns;
}

// A gate as GateStages takes it.
class StoredGate {
 public:
  StoredGate(const std::vector<StoredNoise::Row>& noise, std::size_t slowed,
             const Slowdown& slowdown, const Settings& settings, std::uint64_t seed)
      : noise_(noise),
        slowed_(slowed),
        slowdown_(slowdown),
        settings_(settings),
        random_(seed),
        evidence_(noise.size()) {
    for (std::size_t row = 0; row < noise_.size(); ++row) {
      all_.push_back(turns_of(row, settings_.looks.back().turns));
    }
  }

  Simulated run(double budget_s) {
    Simulated gate{decide(evidence_, settings_), kCountsS};
    int taken = 0;
    for (const Look& look : settings_.looks) {
      const std::vector<std::size_t> open = open_rows(gate.decision);
      const double needed_s = turns_s(costs_of(open), settings_, look.turns - taken);
      const bool has_time = gate.duration_s + needed_s + reserve_s(open) <= budget_s;
      if (open.empty() || (taken > 0 && !has_time)) break;
      taken = look.turns;
      gate.duration_s += needed_s;
      gate.decision = decide_after(taken, open);
      gate.duration_s += turns_s(costs_of(confirming_), settings_, settings_.confirmation_turns);
      if (has_regression(gate.decision)) break;
    }
    return gate;
  }

 private:
  RowDifferences turns_of(std::size_t row, int count) {
    std::vector<Turn> turns;
    for (int start = 0; start < count / settings_.start_turns; ++start) {
      const auto more =
          start_of(noise_[row], start, row == slowed_ ? slowdown_ : Slowdown{}, settings_, random_);
      turns.insert(turns.end(), more.begin(), more.end());
    }
    return differences(turns, settings_.low_quantile);
  }

  std::vector<LaunchCost> costs_of(const std::vector<std::size_t>& rows) const {
    if (rows.empty()) return {};
    LaunchCost cost{kStartS, kSwitchS, kWarmUpSteps, {}};
    for (const std::size_t row : rows) cost.step_s.push_back(noise_[row].step_s);
    return {cost};
  }

  double reserve_s(const std::vector<std::size_t>& rows) const {
    Settings one_row = settings_;
    one_row.confirmed_rows = 1;
    return confirmation_s(costs_of(rows), one_row);
  }

  Decision decide_after(int turns, const std::vector<std::size_t>& open) {
    for (const std::size_t row : open) {
      for (const Measure measure : kMeasures) {
        evidence_[row].turns[measure] = all_[row][measure].first(static_cast<std::size_t>(turns));
      }
    }
    confirming_.clear();
    return decide_with_confirmations(evidence_, settings_, [&](std::size_t row) {
      confirming_.push_back(row);
      return turns_of(row, settings_.confirmation_turns);
    });
  }

  static std::vector<std::size_t> open_rows(const Decision& decision) {
    std::vector<std::size_t> open;
    for (std::size_t row = 0; row < decision.rows.size(); ++row) {
      if (decision.rows[row].is_open) open.push_back(row);
    }
    return open;
  }

  static bool has_regression(const Decision& decision) {
    return std::any_of(decision.rows.begin(), decision.rows.end(),
                       [](const auto& row) { return row.verdict == Verdict::Regression; });
  }

  const std::vector<StoredNoise::Row>& noise_;
  std::size_t slowed_;
  Slowdown slowdown_;
  Settings settings_;
  stats::Random random_;
  std::vector<RowDifferences> all_;  // all turns of all looks, of which rows take what they need
  std::vector<RowEvidence> evidence_;
  std::vector<std::size_t> confirming_;  // after the last look
};

}  // namespace

StoredNoise::StoredNoise(const std::string& folder, const std::vector<std::size_t>& kept) {
  for (const StoredFamily& family : read_families(folder)) {
    const auto passes = static_cast<std::size_t>(family.turns.passes);
    std::vector<Row>& rows = files_.emplace_back();
    for (std::size_t number = 0; number < family.turns.rows.size(); ++number) {
      if (!kept.empty() && std::ranges::find(kept, number) == kept.end()) continue;
      const RowTurns& stored = family.turns.rows[number];
      const auto factors = differences_of(stored);
      Row& row = rows.emplace_back();
      std::vector<double> all;
      for (const Turn& turn : stored.turns) {
        row.starts.resize(std::max(row.starts.size(), static_cast<std::size_t>(turn.start) + 1));
        Passes& cut = row.starts[static_cast<std::size_t>(turn.start)].emplace_back();
        cut.of.resize(passes);
        for (const Arm arm : kArms) {
          const std::vector<double>& steps = turn.of(arm);
          const auto index = static_cast<std::size_t>(arm);
          for (std::size_t step = 0; step < steps.size(); ++step) {
            cut.of[step * passes / steps.size()][index].push_back(std::log(steps[step]) -
                                                                  factors[index]);
            all.push_back(steps[step]);
          }
        }
      }
      row.step_s = stats::mean(all);
    }
  }
}

Simulated StoredNoise::run(std::size_t file, std::size_t slowed, const Slowdown& slowdown,
                           const Settings& settings, double budget_s, std::uint64_t seed) const {
  return StoredGate(files_[file], slowed, slowdown, settings, seed).run(budget_s);
}

}  // namespace gradsync::gate
