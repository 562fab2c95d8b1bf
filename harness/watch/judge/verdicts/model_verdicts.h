// A verdict on each model of a job that trains several, as a generator and its critic.
//
// When the gradients of one are read is known only as far as optimizers step: any of them ends a
// step. So that a model synchronizes too often, or never, is told of it; that some of its steps do
// not synchronize is not, since its own optimizer may step less often.
#pragma once

#include <string>
#include <vector>

#include "harness/watch/judge/verdicts/verdict.h"

namespace gradsync::watch {

// Of a model, or of several that run together.
struct ModelVerdict {
  std::string wrapper;
  std::string file;  // where its forward was called; empty: not known
  int line = 0;
  Verdict verdict;
};

// Returns them, the worst first; empty of a job of one model. As judge() otherwise.
std::vector<ModelVerdict> judge_models(const RankEvents& rank, const Steps& steps);

// Puts the worst of `models` before `verdicts`, on the job as a whole, where it is to be changed
// and these find nothing wrong.
void put_worst_first(std::vector<Verdict>& verdicts, const std::vector<ModelVerdict>& models);

// "DistributedDataParallel of train.py line 40"
std::string model_text(const ModelVerdict& model);

}  // namespace gradsync::watch
