#include "harness/watch/events/event.h"

#include <algorithm>

namespace gradsync::watch {

bool accumulates_nothing(const Event& event) {
  return event.kind == EventKind::Backward && event.detail == "0";
}

void sort_by_time(std::vector<Event>& events) {
  std::stable_sort(events.begin(), events.end(),
                   [](const Event& a, const Event& b) { return a.start_ns < b.start_ns; });
}

}  // namespace gradsync::watch
