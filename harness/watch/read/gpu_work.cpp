#include "harness/watch/read/gpu_work.h"

#include <algorithm>
#include <utility>

#include "harness/base/clock.h"

namespace gradsync::watch {
namespace {

// The times of `spans` that `others` do not cover.
GpuSpans difference(const GpuSpans& spans, const GpuSpans& others) {
  GpuSpans left;
  auto other = others.begin();
  for (GpuSpan span : spans) {
    while (other != others.end() && other->end_ns <= span.start_ns) ++other;
    for (auto next = other; next != others.end() && next->start_ns < span.end_ns; ++next) {
      if (next->start_ns > span.start_ns) left.push_back({span.start_ns, next->start_ns});
      span.start_ns = std::max(span.start_ns, next->end_ns);
    }
    if (span.start_ns < span.end_ns) left.push_back(span);
  }
  return left;
}

void shift(GpuSpans& spans, std::int64_t by_ns) {
  for (GpuSpan& span : spans) {
    span.start_ns += by_ns;
    span.end_ns += by_ns;
  }
}

}  // namespace

GpuSpans merged(GpuSpans spans) {
  std::ranges::sort(spans, {}, &GpuSpan::start_ns);
  GpuSpans all;
  for (const GpuSpan& span : spans) {
    if (span.end_ns <= span.start_ns) continue;
    if (all.empty() || all.back().end_ns < span.start_ns) {
      all.push_back(span);
    } else {
      all.back().end_ns = std::max(all.back().end_ns, span.end_ns);
    }
  }
  return all;
}

GpuSpans intersection(const GpuSpans& a, const GpuSpans& b) {
  GpuSpans both;
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < a.size() && j < b.size()) {
    const GpuSpan shared{std::max(a[i].start_ns, b[j].start_ns),
                         std::min(a[i].end_ns, b[j].end_ns)};
    if (shared.start_ns < shared.end_ns) both.push_back(shared);
    ++(a[i].end_ns < b[j].end_ns ? i : j);
  }
  return both;
}

std::int64_t covered_ns(const GpuSpans& spans, const GpuSpan& span) {
  auto next = std::ranges::upper_bound(spans, span.start_ns, {}, &GpuSpan::end_ns);
  std::int64_t covered = 0;
  for (; next != spans.end() && next->start_ns < span.end_ns; ++next) {
    covered += std::min(next->end_ns, span.end_ns) - std::max(next->start_ns, span.start_ns);
  }
  return covered;
}

GpuWork gpu_work(GpuSpans communication, GpuSpans computation, GpuSpans all) {
  GpuWork work;
  work.communication = merged(std::move(communication));
  work.computation = merged(std::move(computation));
  work.overlapped = intersection(work.communication, work.computation);
  work.waited = difference(work.communication, work.computation);
  work.busy = merged(std::move(all));
  return work;
}

GpuTimes times_within(const GpuWork& work, const GpuSpan& span) {
  const auto covered_s = [&](const GpuSpans& spans) { return seconds(covered_ns(spans, span)); };
  GpuTimes times;
  times.span_s = seconds(span.end_ns - span.start_ns);
  times.communication_s = covered_s(work.communication);
  times.computation_s = covered_s(work.computation);
  times.overlapped_s = covered_s(work.overlapped);
  times.exposed_s = times.communication_s - times.overlapped_s;
  times.waited_s = covered_s(work.waited);
  times.idle_s = times.span_s - covered_s(work.busy);
  return times;
}

GpuTimes times_of(const GpuWork& work) {
  if (work.busy.empty()) return {};
  return times_within(work, {work.busy.front().start_ns, work.busy.back().end_ns});
}

std::optional<std::int64_t> done_ns(const GpuWork& work, std::int64_t at_ns) {
  const auto behind = std::ranges::upper_bound(work.progress, at_ns, {}, &GpuProgress::launched_ns);
  if (behind == work.progress.begin()) return std::nullopt;
  return std::prev(behind)->done_ns;
}

void shift(GpuWork& work, std::int64_t by_ns) {
  for (GpuSpans* spans :
       {&work.communication, &work.computation, &work.overlapped, &work.waited, &work.busy}) {
    shift(*spans, by_ns);
  }
  for (GpuProgress& each : work.progress) {
    each.launched_ns += by_ns;
    each.done_ns += by_ns;
  }
}

}  // namespace gradsync::watch
