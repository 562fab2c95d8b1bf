#include "harness/run/repetition.h"

#include <algorithm>

#include "harness/measure/memory.h"

namespace gradsync::run {

Repetition::Repetition(const comm::Ledger& ledger, std::vector<sync::Collectives> declared,
                       AllSay all_say)
    : ledger_(ledger), declared_(std::move(declared)), all_say_(std::move(all_say)) {}

Repetition::~Repetition() {
  measure::meter().end_changes();
}

void Repetition::begin_step() {
  before_.reset();
  measure::meter().begin_changes();
}

bool Repetition::passes_over(int step, int micro_batch) {
  if (micro_batch == 0) {
    begin_step();
    return false;
  }
  if (const auto found = passed_over_.find(step); found != passed_over_.end()) {
    return found->second.contains(micro_batch);
  }
  if (micro_batch >= last()) {
    measure::meter().end_changes();
    return false;
  }
  Seen seen = seen_in(step, micro_batch - 1);
  const bool repeated = before_ && seen.collectives == before_->collectives &&
                        measure::repeats(seen.memory, before_->memory);
  const bool asks = before_.has_value() && rest_declares_the_same(micro_batch);
  before_ = std::move(seen);
  if (!asks || !all_say_(repeated)) return false;
  measure::meter().end_changes();
  passed_over_[step] = {micro_batch, last()};
  return true;
}

PassedOver Repetition::passed_over_in(int step) const {
  const auto found = passed_over_.find(step);
  return found == passed_over_.end() ? PassedOver{} : found->second;
}

Repetition::Seen Repetition::seen_in(int step, int micro_batch) const {
  Seen seen;
  seen.memory = measure::meter().take_changes();
  for (const comm::CommEvent& event : ledger_.events()) {
    if (event.step != step || event.micro_batch != micro_batch) continue;
    seen.collectives.emplace_back(event.op, event.bytes);
  }
  return seen;
}

// From the micro-batch that has just run to the last but one.
bool Repetition::rest_declares_the_same(int micro_batch) const {
  const auto from = declared_.begin() + micro_batch - 1;
  return std::all_of(from, declared_.end() - 1,
                     [&](const sync::Collectives& each) { return each == *from; });
}

std::string why_all_run(const RankContext& context, Workload& workload, const plan::Trial& trial) {
  if (trial.timed) return "its steps are timed";
  if (context.spec.every_micro_batch) return "the plan says so";
  if (context.spec.as_published) return "windows of as_published are not alike";
  if (context.gpu != nullptr || !measure::meter().installed()) {
    return "what a rank holds is not known change by change";
  }
  if (trial.cell.lengths != "fixed" || !context.spec.data.empty()) return "examples differ";
  return workload.reads_back();
}

}  // namespace gradsync::run
