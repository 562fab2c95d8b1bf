#include "harness/account/weight_words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace gradsync::account {
namespace {

using stats::FittedWeight;

// Weights closer to each other, as a share of their mean, count as the same: a factor of 1.02 is
// seen with a margin.
constexpr double kSame = 5e-3;
constexpr double kErrors = 6;
// Weights with larger errors are not reported.
constexpr double kUncertain = 0.02;
constexpr double kMostNames = 3;
constexpr double kLargestRatio = 65536;

double tolerance(const FittedWeight& relative) {
  return std::max(kSame, kErrors * relative.error);
}

std::string numbers_text(const std::vector<double>& values, const char* format) {
  std::vector<std::string> texts;
  for (const double value : values) texts.push_back(fmt::format(fmt::runtime(format), value));
  return fmt::format("{}", fmt::join(texts, " "));
}

// The values as whole multiples of the smallest; nothing where they are none.
std::optional<std::vector<double>> whole_ratios(const std::vector<double>& values) {
  const double least = *std::ranges::min_element(values);
  if (least <= 0) return std::nullopt;
  std::vector<double> ratios;
  for (const double value : values) {
    const double ratio = value / least;
    if (ratio > kLargestRatio || std::abs(ratio - std::round(ratio)) > 0.01) return std::nullopt;
    ratios.push_back(std::round(ratio));
  }
  return ratios;
}

// The one that differs from all others, which are alike; nothing where there is no such.
std::optional<std::size_t> odd_one(const std::vector<double>& values) {
  if (values.size() < 3) return std::nullopt;
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::vector<double> others = values;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    const auto [least, most] = std::minmax_element(others.begin(), others.end());
    if (*most - *least <= kSame * std::abs(*most)) return i;
  }
  return std::nullopt;
}

// "micro-batches 1 to 3", "micro-batch 2", "micro-batches 1 and 4", of numbers from 1.
std::string listed(const std::vector<std::size_t>& numbers) {
  const std::size_t first = numbers.front() + 1;
  const std::size_t last = numbers.back() + 1;
  if (numbers.size() == 1) return fmt::format("micro-batch {}", first);
  if (numbers.size() == 2) return fmt::format("micro-batches {} and {}", first, last);
  if (last - first + 1 == numbers.size()) return fmt::format("micro-batches {} to {}", first, last);
  std::vector<std::size_t> from_one;
  for (const std::size_t number : numbers) from_one.push_back(number + 1);
  return fmt::format("micro-batches {}", fmt::join(from_one, ", "));
}

}  // namespace

std::string percent_text(double share) {
  return fmt::format("{:.2g} %", 100 * share);
}

std::string names_text(const std::vector<std::string>& names) {
  const auto shown = std::min(names.size(), static_cast<std::size_t>(kMostNames));
  std::string text = fmt::format(
      "{}", fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  if (names.size() > shown) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

std::string ranks_text(const std::vector<int>& ranks) {
  if (ranks.size() == 1) return fmt::format("rank {}", ranks[0]);
  if (ranks.size() == 2) return fmt::format("ranks {} and {}", ranks[0], ranks[1]);
  return fmt::format("ranks {}", fmt::join(ranks, ", "));
}

void add_new(std::vector<std::string>& texts, const std::string& text) {
  if (std::ranges::find(texts, text) == texts.end()) texts.push_back(text);
}

bool is_nothing(const FittedWeight& estimate, double mean) {
  if (estimate.kind == FittedWeight::Kind::Absent) return true;
  const double within = std::max(kSame * std::abs(mean), kErrors * estimate.error);
  return std::abs(estimate.weight) <= within && kErrors * estimate.error < 0.5 * std::abs(mean);
}

WeightWords::WeightWords(const WeightGroup& group) : group_(group), mean_(group.mean()) {
  for (std::size_t r = 0; r < group.weights.size(); ++r) {
    micro_batches_ = std::max(micro_batches_, group.weights[r].size());
    for (std::size_t m = 0; m < group.weights[r].size(); ++m) {
      FittedWeight estimate = group.weights[r][m];
      if (estimate.kind == FittedWeight::Kind::Absent) continue;
      if (mean_ != 0) {
        estimate.weight /= mean_;
        estimate.error /= std::abs(mean_);
      }
      places_.push_back({r, m, estimate});
    }
  }
}

double WeightWords::spread() const {
  double most = 0;
  for (const Place& place : places_) most = std::max(most, std::abs(place.estimate.weight - 1));
  return most;
}

double WeightWords::largest_error() const {
  double most = 0;
  for (const Place& place : places_) most = std::max(most, place.estimate.error);
  return most;
}

bool WeightWords::are_uncertain() const {
  return largest_error() > kUncertain;
}

std::string WeightWords::lost_ranks() const {
  std::vector<int> lost;
  for (std::size_t r = 0; r < group_.ranks.size(); ++r) {
    const auto& weights = group_.weights[r];
    const bool is_there = std::ranges::any_of(
        weights, [](const FittedWeight& each) { return each.kind != FittedWeight::Kind::Absent; });
    if (is_there && std::ranges::all_of(weights, [&](const FittedWeight& each) {
          return is_nothing(each, mean_);
        })) {
      lost.push_back(group_.ranks[r]);
    }
  }
  if (lost.empty()) return "";
  return fmt::format("{} {} for nothing", ranks_text(lost), lost.size() == 1 ? "counts" : "count");
}

std::vector<const WeightWords::Place*> WeightWords::nothing() const {
  std::vector<const Place*> found;
  for (const Place& place : places_) {
    if (is_nothing(place.estimate, 1)) found.push_back(&place);
  }
  return found;
}

std::vector<std::size_t> WeightWords::lost() const {
  std::vector<std::size_t> all(micro_batches_, 0);
  std::vector<std::size_t> weightless(micro_batches_, 0);
  for (const Place& place : places_) ++all[place.micro_batch];
  for (const Place* place : nothing()) ++weightless[place->micro_batch];
  std::vector<std::size_t> lost;
  for (std::size_t m = 0; m < micro_batches_; ++m) {
    if (all[m] > 0 && weightless[m] == all[m]) lost.push_back(m);
  }
  return lost;
}

std::string WeightWords::lost_micro_batches() const {
  const std::vector<const Place*> weightless = nothing();
  if (weightless.empty()) return "";
  const std::vector<std::size_t> lost = this->lost();
  const bool are_all = std::ranges::all_of(weightless, [&](const Place* place) {
    return std::ranges::find(lost, place->micro_batch) != lost.end();
  });
  if (!are_all) {
    const Place& one = *weightless.front();
    return fmt::format("{} of {} contributions weigh 0, such as micro-batch {} of rank {}",
                       weightless.size(), places_.size(), one.micro_batch + 1,
                       group_.ranks[one.rank]);
  }
  std::string text = fmt::format("{} of {} {} 0", listed(lost), micro_batches_,
                                 lost.size() == 1 ? "weighs" : "weigh");
  if (lost.size() + 1 == micro_batches_) {
    if (lost.back() + 1 < micro_batches_) text += ": only the last counts";
    if (lost.front() > 0) text += ": only the first counts";
  }
  return text;
}

std::optional<std::vector<double>> WeightWords::profile(std::size_t Place::*by,
                                                        std::size_t size) const {
  std::vector<double> sums(size, 0);
  std::vector<double> counts(size, 0);
  for (const Place& place : places_) {
    sums[place.*by] += place.estimate.weight;
    counts[place.*by] += 1;
  }
  for (std::size_t i = 0; i < size; ++i) sums[i] /= std::max(1.0, counts[i]);
  for (const Place& place : places_) {
    const double within = tolerance(place.estimate) * std::max(1.0, std::abs(sums[place.*by]));
    if (std::abs(place.estimate.weight - sums[place.*by]) > within) return std::nullopt;
  }
  return sums;
}

std::string WeightWords::profile_text(const std::vector<double>& values, const std::string& one,
                                      const std::string& many, int first) const {
  if (const auto odd = odd_one(values)) {
    const double other = values[*odd == 0 ? 1 : 0];
    return fmt::format("{} {}{} weighs {:.4g} x the others", one, first + static_cast<int>(*odd),
                       first == 0 ? "" : fmt::format(" of {}", values.size()),
                       values[*odd] / other);
  }
  if (const auto ratios = whole_ratios(values)) {
    return fmt::format("{} weigh {}", many, numbers_text(*ratios, "{:.0f}"));
  }
  return fmt::format("{} weigh {}", many, numbers_text(values, "{:.3f}"));
}

std::string WeightWords::unequal() const {
  const bool are_equal = std::ranges::all_of(places_, [](const Place& place) {
    return std::abs(place.estimate.weight - 1) <= tolerance(place.estimate);
  });
  if (are_equal) return "";
  if (const auto by_micro_batch = profile(&Place::micro_batch, micro_batches_)) {
    return profile_text(*by_micro_batch, "micro-batch", "micro-batches", 1);
  }
  if (const auto by_rank = profile(&Place::rank, group_.ranks.size())) {
    return profile_text(*by_rank, "rank", "ranks", group_.ranks[0]);
  }
  const auto lighter = [](const Place& a, const Place& b) {
    return a.estimate.weight < b.estimate.weight;
  };
  const auto [least, most] = std::minmax_element(places_.begin(), places_.end(), lighter);
  return fmt::format(
      "contributions weigh from {:.3f} (micro-batch {} of rank {}) to {:.3f} (micro-batch {} of "
      "rank {})",
      least->estimate.weight, least->micro_batch + 1, group_.ranks[least->rank],
      most->estimate.weight, most->micro_batch + 1, group_.ranks[most->rank]);
}

bool WeightWords::are_as(const std::vector<double>& tokens) const {
  const double mean =
      std::accumulate(tokens.begin(), tokens.end(), 0.0) / static_cast<double>(tokens.size());
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const FittedWeight& estimate = places_[i].estimate;
    const double due = tokens[i] / mean;
    if (std::abs(estimate.weight - due) > tolerance(estimate) * std::max(1.0, due)) return false;
  }
  return true;
}

std::string WeightWords::by_tokens() const {
  if (group_.tokens.empty()) return "";
  std::vector<double> own;
  std::vector<double> of_rank;
  for (const Place& place : places_) {
    const auto& tokens = group_.tokens[place.rank];
    own.push_back(static_cast<double>(tokens[place.micro_batch]));
    of_rank.push_back(static_cast<double>(std::accumulate(tokens.begin(), tokens.end(), 0L)));
  }
  if (std::ranges::min(own) == 0) return "";  // one is not known
  for (const auto& [who, tokens] : {std::pair{"micro-batches", own}, {"ranks", of_rank}}) {
    if (!are_as(tokens)) continue;
    const auto [least, most] = std::ranges::minmax(tokens);
    return fmt::format("weights stand in the ratio of tokens: {} have {:.0f} to {:.0f} of them",
                       who, least, most);
  }
  return "";
}

std::string WeightWords::rounded() const {
  std::vector<double> sums(micro_batches_, 0);
  std::vector<double> counts(micro_batches_, 0);
  for (const Place& place : places_) {
    sums[place.micro_batch] += place.estimate.weight;
    counts[place.micro_batch] += 1;
  }
  for (std::size_t m = 0; m < micro_batches_; ++m) sums[m] /= std::max(1.0, counts[m]);
  const auto least = std::ranges::min_element(sums);
  const auto most = std::ranges::max_element(sums);
  return fmt::format("micro-batch {} counts {} less than micro-batch {}", least - sums.begin() + 1,
                     percent_text(1 - *least / *most), most - sums.begin() + 1);
}

std::string WeightWords::not_told_apart() const {
  const auto is_apart = [](const Place& place) {
    return place.estimate.kind == FittedWeight::Kind::Apart;
  };
  const auto first = std::ranges::find_if(places_, is_apart);
  if (first == places_.end()) return "";
  const auto count = std::ranges::count_if(places_, is_apart);
  const auto second = std::find_if(first + 1, places_.end(), [&](const Place& place) {
    return is_apart(place) && place.estimate.together == first->estimate.together;
  });
  std::string text =
      fmt::format("{} of {} contributions cannot be distinguished", count, places_.size());
  if (second != places_.end()) {
    text += fmt::format(": micro-batch {} of rank {} and micro-batch {} of rank {}",
                        first->micro_batch + 1, group_.ranks[first->rank], second->micro_batch + 1,
                        group_.ranks[second->rank]);
  }
  return text;
}

}  // namespace gradsync::account
