#include "harness/run/memory_recording.h"

#include <map>
#include <memory>

#include "harness/measure/memory.h"

namespace gradsync::run {
namespace {

// Enough for a picture, and less than the rest of a trial's record; larger: finer, and longer
// files. The first and the last instant are apart from these, which are merged into higher ones.
constexpr std::size_t kPoints = 398;

// Returns whether the trial is recorded for a trace. If trials are not about memory, the first one
// of a cell is enough, and no timed step may notice the recording.
bool serves_the_trace(const RankContext& context, const plan::Trial& trial) {
  constexpr int kEnough = 2;  // the recorded step, and one in which the others wait for this rank
  return context.spec.launch == 0 && trial.round == 0 && trial.warmup_steps >= kEnough &&
         !context.spec.resident;
}

// Returns the categories that are not empty.
std::map<std::string, std::int64_t> held_by_name(const measure::CategoryBytes& bytes) {
  auto named = measure::by_name(bytes);
  std::erase_if(named, [](const auto& item) { return item.second == 0; });
  return named;
}

}  // namespace

MemoryRecording::MemoryRecording(const RankContext& context, const plan::Trial& trial)
    : clock_(context.clock),
      wanted_(context.rank == 0 && context.gpu == nullptr && measure::meter().installed() &&
              (trial.cell.wrapper == "fsdp" || serves_the_trace(context, trial))) {}

MemoryRecording::~MemoryRecording() {
  if (wanted_) measure::meter().end_timeline();
}

void MemoryRecording::begin(int step) {
  if (!wanted_) return;
  measure::meter().set_place(step, -1, "");
  start_ns_ = clock_.now_ns();
  at_start_ = measure::meter().allocated_by_category();
  measure::meter().begin_timeline(clock_, kPoints);
}

void MemoryRecording::end() {
  if (!wanted_) return;
  points_ = measure::meter().end_timeline();
  const auto last_place = points_.back().place;
  const auto no_place = std::make_shared<const measure::MemoryPlace>();
  points_.insert(points_.begin(), {start_ns_, at_start_, no_place});
  points_.push_back({clock_.now_ns(), measure::meter().allocated_by_category(), last_place});
}

std::vector<results::MemoryTimelinePoint> MemoryRecording::points() const {
  std::vector<results::MemoryTimelinePoint> points;
  points.reserve(points_.size());
  for (const measure::MemoryPoint& point : points_) {
    points.push_back({seconds(point.time_ns - start_ns_), point.place->micro_batch,
                      point.place->phase, point.place->unit, held_by_name(point.bytes)});
  }
  return points;
}

}  // namespace gradsync::run
