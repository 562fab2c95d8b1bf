#include "harness/summary/search.h"

#include "harness/results/result_fields.h"

namespace gradsync::plan {

constexpr auto names_of(const Wanted*) {
  return std::to_array<std::pair<Wanted, const char*>>(
      {{Wanted::Largest, "largest"}, {Wanted::Smallest, "smallest"}});
}

constexpr auto names_of(const Edge::Outcome*) {
  using Outcome = Edge::Outcome;
  return std::to_array<std::pair<Outcome, const char*>>({{Outcome::Found, "found"},
                                                         {Outcome::AllFit, "all_fit"},
                                                         {Outcome::NoneFits, "none_fits"},
                                                         {Outcome::NotMonotone, "not_monotone"},
                                                         {Outcome::Stopped, "stopped"}});
}

}  // namespace gradsync::plan

namespace gradsync::summary {

GRADSYNC_FIELDS_OF(SearchProbe, order, value, status, reason, peak_allocated_bytes)

GRADSYNC_FIELDS_OF(SearchedCell, part, cell, from, to, outcome, edge, peak_allocated_bytes, reason,
                   probes)

constexpr auto fields_of(const Search*) {
  return std::tuple{constant("schema", kSearchSchema),
                    GRADSYNC_FIELDS(Search, plan, wanted, axis, checks, cells, exit_status)};
}

void to_json(nlohmann::json& out, const Search& search) {
  out = write_fields(search);
}

}  // namespace gradsync::summary
