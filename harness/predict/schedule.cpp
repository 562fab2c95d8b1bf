#include "harness/predict/schedule.h"

#include <algorithm>
#include <utility>

namespace gradsync::predict {
namespace {

// Largest share of the processor that a busy wire may take. The rest ensures that computations end.
constexpr double kMostTaken = 0.9;

Span span_on(Lane lane, const std::string& name, int micro_batch) {
  Span span;
  span.lane = lane;
  span.name = name;
  span.micro_batch = micro_batch;
  return span;
}

}  // namespace

// Places the span behind its lane's last and what it needs; it has no length yet.
int Schedule::append(Span span, const std::vector<int>& needs) {
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
  last = static_cast<int>(spans_.size());
  spans_.push_back(std::move(span));
  return last;
}

// What is sent while it computes has been issued before it began: later spans of the wire need its
// end.
double Schedule::end_of_computation(double start_s, double length_s) {
  double at_s = start_s;
  double left_s = length_s;
  while (first_beside_ < sent_.size() && spans_[sent_[first_beside_]].end_s <= start_s) {
    ++first_beside_;
  }
  for (std::size_t i = first_beside_; i < sent_.size(); ++i) {
    const Span& wire = spans_[sent_[i]];
    const double alone_s = std::max(0.0, wire.start_s - at_s);
    if (left_s <= alone_s) break;
    left_s -= alone_s;
    at_s += alone_s;
    const double speed = 1 - std::min(kMostTaken, wire.parts.processor_s / wire.length_s());
    const double beside_s = wire.end_s - at_s;
    if (left_s <= beside_s * speed) return at_s + left_s / speed;
    left_s -= beside_s * speed;
    at_s = wire.end_s;
  }
  return at_s + left_s;
}

int Schedule::compute(const std::string& name, int micro_batch, double length_s,
                      const std::vector<int>& needs) {
  const int number = append(span_on(Lane::Compute, name, micro_batch), needs);
  Span& span = spans_.back();
  span.end_s = end_of_computation(span.start_s, length_s);
  end_s_ = std::max(end_s_, span.end_s);
  return number;
}

int Schedule::send(const std::string& name, int micro_batch, const CollectiveTime& parts,
                   const std::vector<int>& needs) {
  const int number = append(span_on(Lane::Wire, name, micro_batch), needs);
  Span& span = spans_.back();
  span.parts = parts;
  span.end_s = span.start_s + parts.total_s();
  end_s_ = std::max(end_s_, span.end_s);
  if (span.length_s() > 0) sent_.push_back(static_cast<std::size_t>(number));
  return number;
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
