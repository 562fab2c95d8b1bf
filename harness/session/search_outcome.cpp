#include "harness/session/search_outcome.h"

#include <fmt/format.h>

#include <algorithm>

namespace gradsync::session {
namespace {

using plan::Edge;
using summary::SearchedCell;
using summary::SearchProbe;

const SearchProbe& probe_at(const SearchedCell& found, std::int64_t value) {
  return *std::ranges::find(found.probes, value, &SearchProbe::value);
}

// "oom: micro-batch 2, backward ..."
std::string why(const SearchProbe& probe) {
  return fmt::format("{}: {}", results::to_string(probe.status), probe.reason);
}

std::string sentence(const Edge& edge, const std::string& axis, const SearchedCell& found) {
  switch (edge.outcome) {
    case Edge::Outcome::Found:
      return fmt::format("{} fits, {} does not: {}", *edge.fits, *edge.does_not_fit,
                         why(probe_at(found, *edge.does_not_fit)));
    case Edge::Outcome::AllFit:
      return fmt::format("{} fits: the edge, if there is one, lies beyond", *edge.fits);
    case Edge::Outcome::NoneFits:
      return fmt::format("{} does not fit: {}", *edge.does_not_fit,
                         why(probe_at(found, *edge.does_not_fit)));
    case Edge::Outcome::NotMonotone:
      return fmt::format("not monotone: {} does not fit, {} does", *edge.does_not_fit, *edge.fits);
    case Edge::Outcome::Stopped:
      break;
  }
  const SearchProbe& last = found.probes.back();
  return fmt::format("{} {}: {}", axis, last.value ? std::to_string(*last.value) : "none",
                     why(last));
}

bool went_wrong(const SearchedCell& cell) {
  if (cell.outcome == Edge::Outcome::NotMonotone) return true;
  return cell.outcome == Edge::Outcome::Stopped &&
         cell.probes.back().status != results::Status::Skipped;
}

}  // namespace

void conclude(const Edge& edge, const std::string& axis, SearchedCell& found) {
  found.outcome = edge.outcome;
  found.reason = sentence(edge, axis, found);
  if (edge.outcome != Edge::Outcome::Found) return;
  found.edge = edge.fits;
  found.peak_allocated_bytes = probe_at(found, *edge.fits).peak_allocated_bytes;
}

ExitStatus exit_status_of(const std::vector<SearchedCell>& cells) {
  if (std::ranges::any_of(cells, went_wrong)) return ExitStatus::Failed;
  const bool answered = std::ranges::any_of(cells, [](const SearchedCell& cell) {
    return cell.outcome == Edge::Outcome::Found || cell.outcome == Edge::Outcome::AllFit;
  });
  return answered ? ExitStatus::Ok : ExitStatus::Unfit;
}

}  // namespace gradsync::session
