// Streams, events and graphs of paper. Work runs at once, so that a stream is always idle and an
// event has always happened; the exception is a stream that is captured into a graph (streams.h).
//
// With GRADSYNC_PAPER_EVENTS=late the GPU is as far behind the host as it can be: an event has
// happened once the host has waited for it, or for something that comes after it. Torch's allocator
// then gets blocks that other streams used back as late as on any GPU.
//
// A capture spreads as CUDA's does: an event that a capturing stream records carries it to every
// stream that waits for that event, until the capture ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
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

// By the id of a stream, how many of its events are meant.
using Progress = std::map<std::uint64_t, std::uint64_t>;

struct Stream {
  int device = 0;
  unsigned flags = 0;
  int priority = 0;
  std::uint64_t id = 0;
  std::shared_ptr<Capture> capture = {};  // null or inactive: work runs at once
  Progress progress = {};                 // what has happened when all of its work is done
};

struct Event {
  int device = 0;
  unsigned flags = 0;
  std::int64_t recorded_ns = -1;     // the host's time; -1: never
  std::shared_ptr<Capture> capture;  // of the stream that recorded it
  Progress progress = {};            // what has happened when this has
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
void record(Event& event, Stream& stream);
void wait(Stream& stream, const Event& event);

// Whether it has happened, or all of a stream's work is done. A thread that asks ten thousand times
// while there is no new work waits for it.
bool has_happened(const Event& event);
bool is_done(const Stream& stream);
// Returns how often this thread asked for an event or waited for one. The recorder of torch's
// allocator (harness/fit/recorder) finds it by this name.
extern "C" std::uint64_t gradsync_paper_events_asked();
// The host waits for that, or for all that there is.
void host_waits_for(const Event& event);
void host_waits_for(const Stream& stream);
void host_waits_for_all();

}  // namespace gradsync::paper
