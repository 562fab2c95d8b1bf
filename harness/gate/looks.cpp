#include "harness/gate/looks.h"

#include <algorithm>
#include <cstddef>

namespace gradsync::gate {

namespace {

constexpr std::size_t kControlDirections = 2;

double spent(double so_far, double p, double weight) {
  return weight > 0 ? std::min(so_far, p / weight) : so_far;
}

void spend(PValues& so_far, const PValues& p, const Look& look) {
  so_far.slower = spent(so_far.slower, p.slower, look.slower_weight);
  so_far.not_slower = spent(so_far.not_slower, p.not_slower, look.not_slower_weight);
  so_far.control_slower = spent(so_far.control_slower, p.control_slower, look.slower_weight);
  so_far.control_faster = spent(so_far.control_faster, p.control_faster, look.slower_weight);
}

bool is_clear(const ByMeasure<PValues>& p, std::size_t rows, const Settings& settings) {
  if (is_pass(p, settings)) return true;
  const double slower_level = settings.alpha / static_cast<double>(slower_tests(rows));
  const double control_level = settings.alpha / static_cast<double>(control_tests(rows));
  return std::any_of(p.values.begin(), p.values.end(), [&](const PValues& of_measure) {
    return of_measure.slower <= slower_level || of_measure.control_slower <= control_level ||
           of_measure.control_faster <= control_level;
  });
}

// One family, look after look.
class Looks {
 public:
  Looks(const std::vector<RowDifferences>& rows, const Settings& settings)
      : rows_(rows), settings_(settings), shifts_(rows.size()), progress_(rows.size()) {
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      for (const Measure measure : kMeasures) {
        shifts_[row][measure] = shifts_of(rows_[row][measure]);
      }
    }
  }

  std::vector<RowProgress> go_through() {
    for (const Look& look : settings_.looks) take(look);
    for (std::size_t row = 0; row < rows_.size(); ++row) show(row, progress_[row].turns);
    spread();
    return progress_;
  }

 private:
  // What is known of a row after so many turns; of all it has where it was never looked at.
  void show(std::size_t row, int turns) {
    for (const Measure measure : kMeasures) {
      const Differences& all = rows_[row][measure];
      const std::size_t count = turns > 0 ? static_cast<std::size_t>(turns) : all.turns();
      progress_[row].shifts[measure] = shifts_[row][measure].first(starts_within(all, count));
    }
  }

  void spread() {
    for (const Measure measure : kMeasures) {
      std::vector<StartSpread> spreads;
      for (const RowProgress& row : progress_) {
        spreads.push_back(start_spread(row.shifts[measure]));
      }
      spreads = moderated(spreads);
      for (std::size_t row = 0; row < rows_.size(); ++row) {
        progress_[row].spread[measure] = spreads[row];
      }
    }
  }

  void take(const Look& look) {
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      show(row, progress_[row].is_open ? look.turns : progress_[row].turns);
    }
    spread();
    const bool is_last = look.turns == settings_.looks.back().turns;
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      RowProgress& progress = progress_[row];
      const bool has_turns =
          rows_[row][Measure::Low].turns() >= static_cast<std::size_t>(look.turns);
      if (!progress.is_open || !has_turns) continue;
      progress.turns = look.turns;
      for (const Measure measure : kMeasures) {
        spend(progress.p[measure],
              p_values(progress.shifts[measure], progress.spread[measure], settings_.margin,
                       smallest_effect_of(measure, settings_)),
              look);
      }
      progress.is_open = !is_last && !is_clear(progress.p, rows_.size(), settings_);
    }
  }

  const std::vector<RowDifferences>& rows_;
  const Settings& settings_;
  std::vector<ByMeasure<Shifts>> shifts_;  // of all starts
  std::vector<RowProgress> progress_;
};

}  // namespace

std::vector<RowProgress> go_through_looks(const std::vector<RowDifferences>& rows,
                                          const Settings& settings) {
  return Looks(rows, settings).go_through();
}

bool is_pass(const ByMeasure<PValues>& p, const Settings& settings) {
  return std::all_of(p.values.begin(), p.values.end(), [&](const PValues& of_measure) {
    return of_measure.not_slower <= settings.miss_rate;
  });
}

double smallest_effect_of(Measure measure, const Settings& settings) {
  return measure == Measure::Low ? settings.smallest_effect : settings.mean_smallest_effect;
}

std::size_t slower_tests(std::size_t rows) {
  return rows * kMeasures.size();
}

std::size_t control_tests(std::size_t rows) {
  return slower_tests(rows) * kControlDirections;
}

}  // namespace gradsync::gate
