#include "harness/paper/standins/stream_state.h"

#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <set>
#include <string_view>
#include <utility>

#include "harness/paper/standins/machine.h"
#include "harness/paper/standins/streams.h"

namespace gradsync::paper {
namespace {

constexpr int kDefaultStreams = 3;
constexpr int kMostAsked = 10'000;

struct Handles {
  std::mutex mutex;
  std::set<void*> streams, events;
  std::uint64_t next_id = kDefaultStreams;
  Progress happened;  // what the host knows of
};

std::atomic<std::uint64_t> works{0};  // that were put on streams
thread_local std::uint64_t asked = 0;

Handles& handles() {
  static Handles* all = new Handles;
  return *all;
}

bool forget(std::set<void*>& among, void* handle) {
  const std::lock_guard lock(handles().mutex);
  return among.erase(handle) > 0;
}

bool are_late() {
  static const bool late = [] {
    const char* events = std::getenv("GRADSYNC_PAPER_EVENTS");
    return events != nullptr && std::string_view(events) == "late";
  }();
  return late;
}

// Returns whether all that `wanted` means is in `known`.
bool is_within(const Progress& wanted, const Progress& known) {
  return std::all_of(wanted.begin(), wanted.end(), [&](const auto& entry) {
    const auto found = known.find(entry.first);
    return found != known.end() && found->second >= entry.second;
  });
}

void merge(Progress& known, const Progress& more) {
  for (const auto& [stream, events] : more) known[stream] = std::max(known[stream], events);
}

// Answers a host that asks whether that has happened.
bool answer(const Progress& progress) {
  thread_local std::uint64_t behind = 0;
  thread_local int times = 0;
  const std::lock_guard lock(handles().mutex);
  if (is_within(progress, handles().happened)) return true;
  if (std::exchange(behind, works) != works) times = 0;
  if (++times <= kMostAsked) return false;
  merge(handles().happened, progress);
  return true;
}

void note_happened(const Progress& progress) {
  const std::lock_guard lock(handles().mutex);
  merge(handles().happened, progress);
}

std::int64_t now_ns() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

Stream* default_stream(std::uintptr_t number) {
  static Stream streams[kDefaultStreams] = {{.id = 0}, {.id = 1}, {.id = 2}};
  return &streams[number];
}

}  // namespace

Stream* stream_of(void* handle) {
  const auto number = reinterpret_cast<std::uintptr_t>(handle);
  if (number < kDefaultStreams) return default_stream(number);
  const std::lock_guard lock(handles().mutex);
  return handles().streams.contains(handle) ? static_cast<Stream*>(handle) : nullptr;
}

Stream* make_stream(unsigned flags, int priority) {
  const std::lock_guard lock(handles().mutex);
  auto* stream = new Stream{Machine::current(), flags, priority, handles().next_id++, nullptr, {}};
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

void record(Event& event, Stream& stream) {
  event.recorded_ns = now_ns();
  event.capture = capture_of(stream) == nullptr ? nullptr : stream.capture;
  if (!are_late()) return;
  const std::lock_guard lock(handles().mutex);
  if (!event.capture) ++stream.progress[stream.id];
  event.progress = event.capture ? Progress{} : stream.progress;
  ++works;
}

void wait(Stream& stream, const Event& event) {
  if (event.capture && event.capture->is_active) stream.capture = event.capture;
  if (!are_late()) return;
  const std::lock_guard lock(handles().mutex);
  merge(stream.progress, event.progress);
}

std::uint64_t gradsync_paper_events_asked() {
  return asked;
}

bool has_happened(const Event& event) {
  ++asked;
  return answer(event.progress);
}

bool is_done(const Stream& stream) {
  return answer(stream.progress);
}

void host_waits_for(const Event& event) {
  ++asked;
  note_happened(event.progress);
}

void host_waits_for(const Stream& stream) {
  note_happened(stream.progress);
}

void host_waits_for_all() {
  const std::lock_guard lock(handles().mutex);
  for (void* stream : handles().streams) {
    merge(handles().happened, static_cast<Stream*>(stream)->progress);
  }
  for (std::uintptr_t number = 0; number < kDefaultStreams; ++number) {
    merge(handles().happened, default_stream(number)->progress);
  }
}

void enqueue(void* handle, std::function<void()> work) {
  ++works;
  const Stream* stream = stream_of(handle);
  if (Capture* capture = stream == nullptr ? nullptr : capture_of(*stream)) {
    capture->graph->work.push_back(std::move(work));
  } else {
    work();
  }
}

}  // namespace gradsync::paper
