// A verdict on each model of a job that trains several, as a generator and its critic.
//
// It is not known which optimizer reads the gradients of which model: any of them ends a step. So a
// model can get the verdict that it synchronizes too often, or never; not the one that some of its
// steps do not synchronize, since its own optimizer may step less often.
#pragma once

#include <string>
#include <vector>

#include "harness/watch/judge/verdicts/verdict.h"

namespace gradsync::watch {

// The verdict on a model, or on several that run together.
struct ModelVerdict {
  std::string wrapper;
  std::string file;  // where its forward was called; empty: not known
  int line = 0;
  Verdict verdict;
};

// Returns the verdicts, the worst first; empty for a job of one model. As judge() otherwise.
std::vector<ModelVerdict> judge_models(const RankEvents& rank, const Steps& steps);

// Puts the worst of `models` before `verdicts`, on the job as a whole, where it is to be changed
// and these find nothing wrong.
void put_worst_first(std::vector<Verdict>& verdicts, const std::vector<ModelVerdict>& models);

// "DistributedDataParallel of train.py line 40"
std::string model_text(const ModelVerdict& model);

}  // namespace gradsync::watch
