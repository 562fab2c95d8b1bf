#include "harness/watch/tell/export/exports.h"
#include "harness/watch/tell/watched_fields.h"

namespace gradsync::watch {

constexpr auto fields_of(const WatchedStep*) {
  return std::tuple{field("pid", &WatchedStep::pid),
                    field("step_s", &WatchedStep::step_s),
                    field("micro_batches", &WatchedStep::micro_batches),
                    field("synchronized", &WatchedStep::synchronized),
                    field("is_skipped", &WatchedStep::is_skipped),
                    field("collectives", &WatchedStep::collectives),
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
