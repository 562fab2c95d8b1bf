// What the clock covers: the phases of every step of one rank.
//
// Inside a step's time: fetching its micro-batches from memory, every forward, backward, wait for
// communication and buffer broadcast, the optimizer, the scheduler and zeroing gradients.
// Outside: making the data, warm-up and the bucket rebuild, barriers, writing results. Steps of a
// block touch: one ends where the next begins, so nothing can hide between them.
//
// On a device the same boundaries are marks in its queue (measure/timeline.h): a phase lasts from
// when the device came to the phase's first work until it came to the next one's.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "harness/base/clock.h"
#include "harness/launch/rank_progress.h"
#include "harness/measure/timeline.h"

namespace gradsync::measure {

// Where a rank's own thread is. Recompute: inside of backward, what forward did not keep. Wait:
// blocked on communication with no computation of its own left. Copy: between such waits it copies
// what was communicated to where it belongs. Offload: it copies between the device and the host.
// Cast: it copies to another type.
enum class Phase : std::uint8_t {
  Forward,
  Backward,
  Recompute,
  Wait,
  Copy,
  Offload,
  Cast,
  Optimizer
};
constexpr std::array kPhases{Phase::Forward, Phase::Backward, Phase::Recompute, Phase::Wait,
                             Phase::Copy,    Phase::Offload,  Phase::Cast,      Phase::Optimizer};
constexpr std::array<const char*, kPhases.size()> kPhaseNames{
    "forward", "backward", "recompute", "wait", "copy", "offload", "cast", "optimizer"};

// A thread that blocks is not woken sooner, so a shorter interval was no wait. Larger: short waits
// count as copying.
constexpr std::int64_t kShortestWaitNs = 5'000;

struct PhaseInterval {
  Phase phase = Phase::Forward;
  std::int32_t micro_batch = 0;
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
};

struct RecordedStep {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::vector<PhaseInterval> intervals;  // in order, not overlapping

  // Seconds spent in `phase`.
  double phase_s(Phase phase) const;
  double total_s() const { return seconds(end_ns - start_ns); }
};

// Notes times; costs three clock readings per phase. One per rank; its own thread only.
class StepRecorder {
 public:
  // `timeline`: that of the device which computes; null: the thread computes itself.
  explicit StepRecorder(const Clock& clock, launch::RankProgress* progress = nullptr,
                        measure::Timeline* timeline = nullptr)
      : clock_(clock), progress_(progress), timeline_(timeline) {}

  // Forgets everything; the next step begins now.
  void begin_block();
  // The current step begins where the last one ended.
  void begin_micro_batch(std::int32_t micro_batch);
  void end_step();
  // Call after the last step of a block, before its times are read. Blocks until the device, if
  // there is one, has done them. Copies with less than kShortestWaitNs of Wait between them become
  // one: those of a bucket's gradients. Errors: as Timeline::reached.
  void end_block();

  // Notes that the thread is in `phase` from now on, until the next enter() or leave().
  void enter(Phase phase);
  void leave();
  // Returns the current phase; nothing between phases.
  std::optional<Phase> phase() const;

  const std::vector<RecordedStep>& steps() const { return steps_; }

 private:
  // Now: a time, or on a device the number of a mark, which end_block() turns into one.
  std::int64_t moment();
  void resolve_marks();
  void publish(launch::Activity activity);

  const Clock& clock_;
  launch::RankProgress* progress_;
  measure::Timeline* timeline_;
  std::vector<RecordedStep> steps_;  // finished ones
  RecordedStep current_;
  std::int32_t micro_batch_ = 0;
  bool open_ = false;  // an interval is running
};

// Keeps the recorder in a phase for a scope; does nothing without a recorder.
class PhaseScope {
 public:
  PhaseScope(StepRecorder* recorder, Phase phase) : recorder_(recorder) {
    if (recorder_ != nullptr) recorder_->enter(phase);
  }
  ~PhaseScope() {
    if (recorder_ != nullptr) recorder_->leave();
  }
  PhaseScope(const PhaseScope&) = delete;
  PhaseScope& operator=(const PhaseScope&) = delete;

 private:
  StepRecorder* recorder_;
};

// Keeps the recorder in a phase for a scope inside of another phase, then returns to that. Does
// nothing without a recorder.
class InnerPhaseScope {
 public:
  InnerPhaseScope(StepRecorder* recorder, Phase phase) : recorder_(recorder) {
    if (recorder_ == nullptr) return;
    outer_ = recorder_->phase();
    recorder_->enter(phase);
  }
  ~InnerPhaseScope() {
    if (recorder_ == nullptr) return;
    outer_ ? recorder_->enter(*outer_) : recorder_->leave();
  }
  InnerPhaseScope(const InnerPhaseScope&) = delete;
  InnerPhaseScope& operator=(const InnerPhaseScope&) = delete;

 private:
  StepRecorder* recorder_;
  std::optional<Phase> outer_;
};

// Exposed communication: the part of a step in which communication ran and no computation did.
using Span = std::pair<std::int64_t, std::int64_t>;  // [start, end), nanoseconds

// Returns the length, in nanoseconds, of (union of `communication`) intersected with (union of
// `waiting`): the times when something was on the wire and this rank had nothing else to do.
// The spans may overlap and come in any order. Pure.
std::int64_t exposed_ns(std::vector<Span> communication, std::vector<Span> waiting);

}  // namespace gradsync::measure
