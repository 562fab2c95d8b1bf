#include "harness/watch/judge/series.h"

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <tuple>

#include "harness/stats/sample.h"
#include "harness/watch/judge/examined.h"
#include "harness/watch/judge/series_fields.h"
#include "harness/watch/judge/steps/usual_step.h"
#include "harness/watch/judge/watched.h"

namespace gradsync::watch {
namespace {

constexpr const char* kNotRecognised = "it is not recognised what would be enough";

// Returns why the job's synchronization cannot be judged; "" where it can.
std::string why_no_claim(const Watched& watched) {
  switch (watched.verdicts.front().kind) {
    case VerdictKind::OneProcess:
      return "one process: nothing to synchronize";
    case VerdictKind::NotRecognised:
    case VerdictKind::NotInFile:
      return kNotRecognised;
    default:
      return watched.typical ? "" : "no optimizer step was seen";
  }
}

// Returns why no rank can be called the latest; "" where one can.
std::string why_none_is_latest(const Watched& watched, std::size_t compared) {
  if (std::ssize(watched.ranks) < watched.world_size) return "not all ranks were seen";
  if (compared < watched.ranks.size()) return "the ranks did not go through the same steps";
  return "";
}

Known<std::int64_t> bytes_of(const OpSums& excess) {
  const auto bytes = total_bytes(excess);
  if (!bytes) return Unknown{"the size of a collective is not known"};
  return *bytes;
}

Known<double> share_of(const Known<double>& part_s, double step_s) {
  if (!part_s) return Unknown{part_s.why_not()};
  if (*part_s > step_s || step_s <= 0) return Unknown{"synchronizations overlap each other"};
  return *part_s / step_s;
}

template <typename Value>
Known<Value> known_or(const std::optional<Value>& value, const char* because) {
  if (value) return *value;
  return Unknown{because};
}

// The ranks of a job, as far as their steps can be compared.
class Comparison {
 public:
  Comparison(const Watched& watched, const std::vector<Examined>& ranks)
      : watched_(watched),
        ranks_(comparable(ranks)),
        why_none_is_latest_(watch::why_none_is_latest(watched, ranks_.size())) {}

  Series of_step(std::size_t index) const {
    const StepCounts& step = ranks_[0].counts[index];
    Series series = unknown_series(why_no_claim(watched_));
    series.steps = static_cast<std::int64_t>(index) + 1;
    if (!why_no_claim(watched_).empty()) return series;
    series.exposed_s = known_or(waited_s(ranks_, index, &StepCounts::exposed_ns), kNoEnds);
    series.synchronization_share = share_of(series.exposed_s, step.duration_s());
    series.excess_bytes = excess_of(step.excess);
    series.latest_rank = latest_of(index);
    return series;
  }

  Series of_job(const UsualStep& usual) const {
    Series series;
    std::vector<double> exposed_s;
    std::map<int, int> times_latest;
    std::string why_not_latest = kNoEnds;
    for (const StepCounts* step : usual.all) {
      const Series one = of_step(static_cast<std::size_t>(step - ranks_[0].counts.data()));
      if (one.exposed_s) exposed_s.push_back(*one.exposed_s);
      if (one.latest_rank) {
        ++times_latest[*one.latest_rank];
      } else {
        why_not_latest = one.latest_rank.why_not();
      }
    }
    series.exposed_s = Unknown{kNoEnds};
    if (!exposed_s.empty()) series.exposed_s = stats::quantile(exposed_s, 0.5);
    series.synchronization_share = share_of(series.exposed_s, *watched_.typical->step_s);
    series.excess_bytes = excess_of(watched_.typical->excess);
    series.latest_rank = most_often(times_latest, why_not_latest);
    return series;
  }

 private:
  Known<std::int64_t> excess_of(const OpSums& excess) const {
    if (!knows_what_is_enough(watched_)) return Unknown{"no step synchronizes"};
    return bytes_of(excess);
  }

  Known<int> latest_of(std::size_t index) const {
    if (!why_none_is_latest_.empty()) return Unknown{why_none_is_latest_};
    return latest_rank(ranks_, index);
  }

  Known<int> most_often(const std::map<int, int>& times, const std::string& why_not) const {
    if (times.empty()) return Unknown{why_not};
    const auto most =
        std::max_element(times.begin(), times.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    const auto is_as_often = [&](const auto& other) { return other.second == most->second; };
    if (std::count_if(times.begin(), times.end(), is_as_often) > 1) {
      return Unknown{"several ranks were latest equally often"};
    }
    return most->first;
  }

  const Watched& watched_;
  std::span<const Examined> ranks_;
  std::string why_none_is_latest_;
};

}  // namespace

std::vector<std::pair<std::string, double>> known_values(const Series& series) {
  std::vector<std::pair<std::string, double>> values;
  const auto add = [&](const auto& field) {
    const auto& value = series.*field.member;
    if (value) values.emplace_back(field.name, static_cast<double>(*value));
  };
  std::apply([&](const auto&... fields) { (add(fields), ...); },
             fields_of(static_cast<const Series*>(nullptr)));
  return values;
}

Series unknown_series(const std::string& because) {
  const Unknown unknown{because};
  return {unknown, unknown, unknown, unknown, unknown};
}

Series series_of_job(const Watched& watched, const std::vector<Examined>& ranks) {
  const std::string why_not = why_no_claim(watched);
  Series series = unknown_series(why_not);
  if (ranks.empty()) return series;
  if (why_not.empty()) {
    series = Comparison(watched, ranks).of_job(*usual_step(ranks[0].counts));
  }
  series.steps = static_cast<std::int64_t>(watched.ranks.front().steps);
  return series;
}

std::vector<Series> series_of_steps(const Watched& watched, const std::vector<Examined>& ranks) {
  std::vector<Series> all;
  if (ranks.empty()) return all;
  const Comparison comparison(watched, ranks);
  for (std::size_t i = 0; i < ranks[0].counts.size(); ++i) all.push_back(comparison.of_step(i));
  return all;
}

}  // namespace gradsync::watch
