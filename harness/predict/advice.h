// Lists the ways to synchronize a model on given machines, and what each changes in a training
// script. All of them end with the same gradients as the baseline, apart from rounding where
// gradients cross the wire in two bytes.   Pure.
#pragma once

#include <string>
#include <vector>

#include "harness/launch/topology.h"
#include "harness/plan/plan.h"

namespace gradsync::predict {

// Returns every way for a step of `accumulation_steps` micro-batches of `model`, each once: DDP by
// strategy, bucket, compression and bucket views; FSDP by strategy, what it reshards, the type of
// what it reduces and, where there are several nodes of several ranks, hybrid axes. Strategies that
// communicate the same are one way.
std::vector<plan::Cell> ways(const std::string& model, const launch::Topology& topology,
                             int accumulation_steps);

// Returns the changes to a script with DistributedDataParallel(model) that synchronizes in every
// micro-batch, each a line of code or a sentence. Empty for that script's own way.
std::vector<std::string> script_changes(const plan::Cell& way, const launch::Topology& topology);

// Returns what the model does not know about this way, a sentence each.
std::vector<std::string> open_questions(const plan::Cell& way);

}  // namespace gradsync::predict
