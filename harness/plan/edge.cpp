#include "harness/plan/edge.h"

#include <map>
#include <vector>

#include "harness/base/errors.h"

namespace gradsync::plan {

namespace {

// Raised where a probe gives no verdict; never leaves this file.
class Stop {};

// "Easy" is the end at which fitting is easiest, "hard" the other one.
class Search {
 public:
  Search(const EdgeQuestion& question, const std::function<Probe(std::int64_t)>& probe)
      : question_(question),
        probe_(probe),
        easy_(question.wanted == Wanted::Largest ? question.from : question.to),
        hard_(question.wanted == Wanted::Largest ? question.to : question.from) {}

  Edge run() {
    const bool easy_fits = fits(easy_);
    const bool hard_fits = fits(hard_);
    using Outcome = Edge::Outcome;
    if (!easy_fits && hard_fits) return {Outcome::NotMonotone, hard_, easy_};
    if (!easy_fits) return {Outcome::NoneFits, std::nullopt, easy_};
    if (hard_fits) return {Outcome::AllFit, hard_, std::nullopt};
    Edge edge{Outcome::Found, easy_, hard_};
    narrow(*edge.fits, *edge.does_not_fit);
    return confirmed(edge);
  }

 private:
  bool fits(std::int64_t value) {
    const Probe probe = probe_(value);
    if (probe.verdict == ProbeVerdict::Unknown) throw Stop();
    seen_[value] = probe;
    return probe.verdict == ProbeVerdict::Fits;
  }

  // Moves both together until nothing is between them.
  void narrow(std::int64_t& fitting, std::int64_t& failing) {
    while (fitting - failing > 1 || failing - fitting > 1) {
      const auto guess = believed_ ? guess_below(fitting, failing) : std::nullopt;
      const std::int64_t middle = guess.value_or(fitting + (failing - fitting) / 2);
      const bool middle_fits = fits(middle);
      // A needed value should fit, and one less should not.
      if (guess && middle_fits == (*seen_[fitting].needed == fitting)) believed_ = false;
      (middle_fits ? fitting : failing) = middle;
    }
  }

  // Returns the value that the probe of `fitting` says was needed; if that is `fitting` itself, one
  // less.
  std::optional<std::int64_t> guess_below(std::int64_t fitting, std::int64_t failing) {
    const auto needed = seen_.at(fitting).needed;
    if (question_.wanted == Wanted::Largest || !needed) return std::nullopt;
    const std::int64_t guess = *needed == fitting ? fitting - 1 : *needed;
    if (guess <= failing || guess >= fitting) return std::nullopt;
    return guess;
  }

  // Tries further values on both sides. The first that contradicts the edge is named beside it.
  Edge confirmed(const Edge& edge) {
    for (const std::int64_t value : spread(easy_, *edge.fits)) {
      if (!fits(value)) return {Edge::Outcome::NotMonotone, edge.fits, value};
    }
    for (const std::int64_t value : spread(*edge.does_not_fit, hard_)) {
      if (fits(value)) return {Edge::Outcome::NotMonotone, value, edge.does_not_fit};
    }
    return edge;
  }

  // Values strictly between two, evenly apart, that were not tried yet.
  std::vector<std::int64_t> spread(std::int64_t first, std::int64_t last) const {
    std::vector<std::int64_t> values;
    const std::int64_t gap = last - first;
    const int parts = question_.checks + 1;
    for (int i = 1; i < parts; ++i) {
      const std::int64_t value = first + gap / parts * i + gap % parts * i / parts;
      const bool is_new = values.empty() || values.back() != value;
      if (is_new && !seen_.contains(value)) values.push_back(value);
    }
    return values;
  }

  EdgeQuestion question_;
  const std::function<Probe(std::int64_t)>& probe_;
  std::int64_t easy_;
  std::int64_t hard_;
  std::map<std::int64_t, Probe> seen_;
  bool believed_ = true;  // what probes say is needed
};

}  // namespace

Edge find_edge(const EdgeQuestion& question, const std::function<Probe(std::int64_t)>& probe) {
  GRADSYNC_CHECK(question.from, <, question.to);
  try {
    return Search(question, probe).run();
  } catch (const Stop&) {
    return {};
  }
}

}  // namespace gradsync::plan
