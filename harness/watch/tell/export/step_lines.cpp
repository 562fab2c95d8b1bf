#include "harness/watch/tell/export/exports.h"
#include "harness/watch/tell/watched_fields.h"

namespace gradsync::watch {

constexpr auto fields_of(const WatchedStep*) {
  return std::tuple{GRADSYNC_FIELDS(WatchedStep, pid, step_s, micro_batches, synchronized,
                                    is_skipped, collectives),
                    beside(&WatchedStep::series)};
}

namespace {

struct StepLine {
  WatchedStep step;
  double ended_s = 0;
};

constexpr auto fields_of(const StepLine*) {
  return std::tuple{constant("schema", kWatchStepSchema), beside(&StepLine::step),
                    field("ended_s", &StepLine::ended_s)};
}

}  // namespace

std::string step_line(const WatchedStep& step, double ended_s) {
  return write_fields(StepLine{step, ended_s}).dump() + "\n";
}

}  // namespace gradsync::watch
