// Streams, events and graphs of paper. Work runs at once, so that a stream is always idle and an
// event has always happened; the exception is a stream that is captured into a graph (streams.h).
//
// A capture spreads as CUDA's does: an event that a capturing stream records carries it to every
// stream that waits for that event, until the capture ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace gradsync::paper {

// The work of each launch, in the order in which it was captured.
struct Graph {
  std::vector<std::function<void()>> work;
};

struct Capture {
  std::uint64_t id = 0;
  std::shared_ptr<Graph> graph;
  bool is_active = true;
};

struct Stream {
  int device = 0;
  unsigned flags = 0;
  int priority = 0;
  std::uint64_t id = 0;
  std::shared_ptr<Capture> capture;  // null or inactive: work runs at once
};

struct Event {
  int device = 0;
  unsigned flags = 0;
  std::int64_t recorded_ns = -1;     // the host's time; -1: never
  std::shared_ptr<Capture> capture;  // of the stream that recorded it
};

// Returns the stream behind a handle: null, 1 and 2 are the default streams, as in CUDA. Null where
// no such stream was made.
Stream* stream_of(void* handle);
Stream* make_stream(unsigned flags, int priority);
bool destroy_stream(void* handle);

Event* make_event(unsigned flags);
bool destroy_event(void* handle);
bool is_event(const void* handle);

// Returns the capture under way on a stream, or null.
Capture* capture_of(const Stream& stream);
bool begin_capture(Stream& stream);                  // false: one is under way
std::shared_ptr<Graph> end_capture(Stream& stream);  // null: none was
void record(Event& event, const Stream& stream);
void wait(Stream& stream, const Event& event);

}  // namespace gradsync::paper
