#include "harness/predict/schedule.h"

#include <algorithm>
#include <utility>

namespace gradsync::predict {
namespace {

Span span_on(Lane lane, const std::string& name, int micro_batch) {
  Span span;
  span.lane = lane;
  span.name = name;
  span.micro_batch = micro_batch;
  return span;
}

}  // namespace

int Schedule::append(Span span, double length_s, const std::vector<int>& needs) {
  int& last = last_[static_cast<std::size_t>(span.lane)];
  const auto begin_after = [&](int other) {
    if (other == Span::kNoSpan) return;
    const double end_s = spans_[static_cast<std::size_t>(other)].end_s;
    if (span.cause != Span::kNoSpan && end_s <= span.start_s) return;
    span.start_s = end_s;
    span.cause = other;
  };
  begin_after(last);
  for (const int needed : needs) begin_after(needed);
  span.end_s = span.start_s + length_s;
  end_s_ = std::max(end_s_, span.end_s);
  last = static_cast<int>(spans_.size());
  spans_.push_back(std::move(span));
  return last;
}

int Schedule::compute(const std::string& name, int micro_batch, double length_s,
                      const std::vector<int>& needs) {
  return append(span_on(Lane::Compute, name, micro_batch), length_s, needs);
}

int Schedule::send(const std::string& name, int micro_batch, const CollectiveTime& parts,
                   const std::vector<int>& needs) {
  Span span = span_on(Lane::Wire, name, micro_batch);
  span.parts = parts;
  return append(std::move(span), parts.total_s(), needs);
}

// Only a span of the computation ends a step, so whatever it did not compute it waited.
double Schedule::exposed_s() const {
  double computed_s = 0;
  for (const Span& span : spans_) {
    if (span.lane == Lane::Compute) computed_s += span.length_s();
  }
  return end_s_ - computed_s;
}

std::vector<Span> Schedule::critical_path() const {
  std::vector<Span> path;
  for (int at = last_on(Lane::Compute); at != Span::kNoSpan;) {
    path.push_back(spans_[static_cast<std::size_t>(at)]);
    at = path.back().cause;
  }
  std::ranges::reverse(path);
  return path;
}

}  // namespace gradsync::predict
