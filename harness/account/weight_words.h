// The weights of one group of parameters, in words.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/account/account.h"

namespace gradsync::account {

// "0.02 %", two digits.
std::string percent_text(double share);

// "layer.weight, layer.bias, head.weight and 3 more"
std::string names_text(const std::vector<std::string>& names);

// "rank 1", "ranks 0 and 2"
std::string ranks_text(const std::vector<int>& ranks);

// Adds the text where it is not there yet.
void add_new(std::vector<std::string>& texts, const std::string& text);

// Whether a contribution weighs nothing, where others weigh `mean`. One that is absent does not
// weigh.
bool is_nothing(const stats::FittedWeight& estimate, double mean);

// Weights are relative to their mean. Each text is "" where there is nothing of the kind to say.
class WeightWords {
 public:
  explicit WeightWords(const WeightGroup& group);

  bool are_zero() const { return mean_ == 0; }
  // Whether errors are so large that neither equal nor unequal can be said.
  bool are_uncertain() const;

  std::string lost_ranks() const;  // "rank 1 counts for nothing"
  std::string lost_micro_batches()
      const;  // "micro-batches 1 to 3 of 4 weigh 0: only the last counts"
  std::vector<std::size_t> lost() const;  // the micro-batches that weigh 0 on every rank
  std::string unequal() const;            // "micro-batches weigh 8 4 2 1"
  // For unequal weights: "weights stand in the ratio of tokens: micro-batches have 120 to 310 of
  // them"
  std::string by_tokens() const;
  std::string rounded() const;  // "the first micro-batches lose 6 %"
  std::string not_told_apart() const;

  double spread() const;         // the largest distance from the mean
  double largest_error() const;  // one standard deviation

 private:
  struct Place {
    std::size_t rank;
    std::size_t micro_batch;
    stats::FittedWeight estimate;  // relative to the mean
  };

  // What they have in common by micro-batch or by rank; nothing where they have not.
  std::optional<std::vector<double>> profile(std::size_t Place::*by, std::size_t size) const;
  std::string profile_text(const std::vector<double>& values, const std::string& one,
                           const std::string& many, int first) const;

  // Whether each weight is to the mean of weights as its tokens to the mean of tokens.
  bool are_as(const std::vector<double>& tokens) const;

  std::vector<const Place*> nothing() const;  // those that weigh nothing

  const WeightGroup& group_;
  double mean_;
  std::size_t micro_batches_ = 0;
  std::vector<Place> places_;  // of what is there
};

}  // namespace gradsync::account
