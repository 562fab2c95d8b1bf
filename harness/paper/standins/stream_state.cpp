#include "harness/paper/standins/stream_state.h"

#include <time.h>

#include <mutex>
#include <set>

#include "harness/paper/standins/machine.h"
#include "harness/paper/standins/streams.h"

namespace gradsync::paper {
namespace {

struct Handles {
  std::mutex mutex;
  std::set<void*> streams, events;
  std::uint64_t next_id = 1;
};

Handles& handles() {
  static Handles* all = new Handles;
  return *all;
}

bool forget(std::set<void*>& among, void* handle) {
  const std::lock_guard lock(handles().mutex);
  return among.erase(handle) > 0;
}

std::int64_t now_ns() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

Stream* stream_of(void* handle) {
  static Stream default_streams[3];
  const auto number = reinterpret_cast<std::uintptr_t>(handle);
  if (number <= 2) return &default_streams[number];
  const std::lock_guard lock(handles().mutex);
  return handles().streams.contains(handle) ? static_cast<Stream*>(handle) : nullptr;
}

Stream* make_stream(unsigned flags, int priority) {
  const std::lock_guard lock(handles().mutex);
  auto* stream = new Stream{Machine::current(), flags, priority, handles().next_id++, nullptr};
  handles().streams.insert(stream);
  return stream;
}

bool destroy_stream(void* handle) {
  if (!forget(handles().streams, handle)) return false;
  delete static_cast<Stream*>(handle);
  return true;
}

Event* make_event(unsigned flags) {
  const std::lock_guard lock(handles().mutex);
  auto* event = new Event{Machine::current(), flags, -1, nullptr};
  handles().events.insert(event);
  return event;
}

bool destroy_event(void* handle) {
  if (!forget(handles().events, handle)) return false;
  delete static_cast<Event*>(handle);
  return true;
}

bool is_event(const void* handle) {
  const std::lock_guard lock(handles().mutex);
  return handles().events.contains(const_cast<void*>(handle));
}

Capture* capture_of(const Stream& stream) {
  return stream.capture && stream.capture->is_active ? stream.capture.get() : nullptr;
}

bool begin_capture(Stream& stream) {
  if (capture_of(stream) != nullptr) return false;
  const std::lock_guard lock(handles().mutex);
  stream.capture =
      std::make_shared<Capture>(Capture{handles().next_id++, std::make_shared<Graph>(), true});
  return true;
}

std::shared_ptr<Graph> end_capture(Stream& stream) {
  if (capture_of(stream) == nullptr) return nullptr;
  const std::shared_ptr<Capture> capture = std::move(stream.capture);
  capture->is_active = false;  // for the streams that it spread to, too
  return capture->graph;
}

void record(Event& event, const Stream& stream) {
  event.recorded_ns = now_ns();
  event.capture = capture_of(stream) == nullptr ? nullptr : stream.capture;
}

void wait(Stream& stream, const Event& event) {
  if (event.capture && event.capture->is_active) stream.capture = event.capture;
}

void enqueue(void* handle, std::function<void()> work) {
  const Stream* stream = stream_of(handle);
  if (Capture* capture = stream == nullptr ? nullptr : capture_of(*stream)) {
    capture->graph->work.push_back(std::move(work));
  } else {
    work();
  }
}

}  // namespace gradsync::paper
