// The event that a range of a trace stands for.
#pragma once

#include <string>
#include <utility>

#include "harness/watch/read/event.h"
#include "harness/watch/read/foreign/trace_file.h"

namespace gradsync::watch {

inline Event traced_event(const TracedRange& range, EventKind kind, std::string name) {
  Event event;
  event.kind = kind;
  event.start_ns = range.start_ns;
  event.end_ns = range.end_ns;
  event.thread = range.thread;
  event.name = std::move(name);
  return event;
}

}  // namespace gradsync::watch
