#include "harness/watch/tell/export/step_lines.h"

#include <nlohmann/json.hpp>

#include "harness/base/fields_inline.h"
#include "harness/watch/judge/series_fields.h"

namespace gradsync::watch {

std::string step_line(const WatchedStep& step, double ended_s) {
  nlohmann::json line{{"schema", kWatchStepSchema},
                      {"pid", step.pid},
                      {"ended_s", ended_s},
                      {"step_s", step.step_s},
                      {"micro_batches", step.micro_batches},
                      {"synchronized", step.synchronized},
                      {"is_skipped", step.is_skipped},
                      {"collectives", to_json(step.collectives)}};
  line.update(write_fields(step.series));
  return line.dump() + "\n";
}

}  // namespace gradsync::watch
