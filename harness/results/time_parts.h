// The parts of a step, and the one list of them: code that adds parts up, charges time to one,
// writes or prints them walks this list.
#pragma once

#include <array>
#include <cstdint>

namespace gradsync::results {

// Seconds of a step or of a collective; summary/attribution.h says what each is.
struct TimeParts {
  double own_compute_s = 0;
  double recompute_s = 0;
  double copy_s = 0;
  double offload_s = 0;
  double cast_s = 0;
  double late_peer_s = 0;
  double wire_s = 0;

  double exposed_s() const { return late_peer_s + wire_s; }
  constexpr double total_s() const;
};

// Where a part is shown even if a step does not have it. Parts that few steps have are not shown
// then.
enum class PartShown : std::uint8_t {
  Always,
  InFiles,    // but in no table
  WhereSome,  // nowhere
};

struct TimePart {
  double TimeParts::*seconds;
  const char* field;    // in result.json and traces
  const char* phase;    // of a rank's timeline, that is this part; "": none alone
  const char* column;   // the head of a table's
  const char* meaning;  // in prose
  PartShown shown = PartShown::Always;
  bool is_waiting = false;  // for a collective: exposed
};

// In the order of files and tables. Where phases overlap the earlier part has the time.
inline constexpr std::array kTimeParts{
    TimePart{&TimeParts::own_compute_s, "own_compute_s", "", "own compute", "own compute"},
    TimePart{&TimeParts::recompute_s, "recompute_s", "recompute", "recompute", "computing again",
             PartShown::WhereSome},
    TimePart{&TimeParts::copy_s, "copy_s", "copy", "copy", "copying buckets", PartShown::InFiles},
    TimePart{&TimeParts::offload_s, "offload_s", "offload", "offload",
             "copying to the host and back", PartShown::WhereSome},
    TimePart{&TimeParts::cast_s, "cast_s", "cast", "cast", "casts", PartShown::WhereSome},
    TimePart{&TimeParts::late_peer_s, "late_peer_s", "", "late peer",
             "waiting for a peer that had not come to the same collective", PartShown::Always,
             true},
    TimePart{&TimeParts::wire_s, "wire_s", "", "wire", "waiting for the wire", PartShown::Always,
             true}};

constexpr double TimeParts::total_s() const {
  double sum_s = 0;
  for (const TimePart& part : kTimeParts) sum_s += this->*part.seconds;
  return sum_s;
}

}  // namespace gradsync::results
