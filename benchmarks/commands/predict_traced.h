// What a step of traces would take synchronized otherwise, and on other links: the rest of
// gradsync predict step knows no trace.
#pragma once

#include <string>
#include <vector>

#include "benchmarks/commands/predict_elsewhere.h"

namespace gradsync::cli {

// Prints a row for the step as the traces have it, with what they measured beside it, and for each
// number of micro-batches with one synchronization, and with one in each.
// Errors: ConfigError for an option that needs a model's own layers, and as traced_model().
void predict_traced(const std::vector<std::string>& traces, const ElsewhereOptions& options,
                    const std::vector<int>& accumulation_steps);

}  // namespace gradsync::cli
