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

constexpr auto fields_of(const SearchProbe*) {
  return std::tuple{field("order", &SearchProbe::order), field("value", &SearchProbe::value),
                    field("status", &SearchProbe::status), field("reason", &SearchProbe::reason),
                    field("peak_allocated_bytes", &SearchProbe::peak_allocated_bytes)};
}

constexpr auto fields_of(const SearchedCell*) {
  return std::tuple{field("part", &SearchedCell::part),
                    field("cell", &SearchedCell::cell),
                    field("from", &SearchedCell::from),
                    field("to", &SearchedCell::to),
                    field("outcome", &SearchedCell::outcome),
                    field("edge", &SearchedCell::edge),
                    field("peak_allocated_bytes", &SearchedCell::peak_allocated_bytes),
                    field("reason", &SearchedCell::reason),
                    field("probes", &SearchedCell::probes)};
}

constexpr auto fields_of(const Search*) {
  return std::tuple{constant("schema", kSearchSchema),         field("plan", &Search::plan),
                    field("wanted", &Search::wanted),          field("axis", &Search::axis),
                    field("checks", &Search::checks),          field("cells", &Search::cells),
                    field("exit_status", &Search::exit_status)};
}

void to_json(nlohmann::json& out, const Search& search) {
  out = write_fields(search);
}

}  // namespace gradsync::summary
