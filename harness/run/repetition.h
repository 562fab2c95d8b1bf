// Which micro-batches of a step need not run, where no time is wanted.
//
// Under accumulation most micro-batches repeat the one before: the same collectives, and tensors
// that come and go in the same way, to the byte. Once one has done so, all after it that declare
// the same will do so too, since nothing has changed that they could depend on. They are then
// passed over up to the last, which always runs, and the optimizer after it. Their counts are the
// declared ones, and a result says how many micro-batches that concerns
// (results::LedgerRecord::declared_micro_batches).
//
// All ranks must pass over the same ones, or one would wait in a collective that the others never
// begin. The time of the question and the declared collectives are the same on all ranks by
// construction. What a rank saw need not be, so all of them vote (comm/agreement.h).
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/comm/ledger.h"
#include "harness/measure/memory_changes.h"
#include "harness/run/expectation.h"
#include "harness/run/workload.h"
#include "harness/sync/collectives.h"

namespace gradsync::run {

class Repetition {
 public:
  using AllSay = std::function<bool(bool yes)>;

  // For steps with one micro-batch per item of `declared`; the item says what it communicates.
  // `all_say` returns whether every rank says yes. The ledger must outlive it.
  Repetition(const comm::Ledger& ledger, std::vector<sync::Collectives> declared, AllSay all_say);
  // Ends a recording that an exception cut off.
  ~Repetition();
  Repetition(const Repetition&) = delete;
  Repetition& operator=(const Repetition&) = delete;

  // Returns whether micro-batch `micro_batch` of `step`, which is about to begin, need not run; the
  // same on every rank. Call before each of them in its turn. Collective, without a collective.
  // Errors: as `all_say`.
  bool passes_over(int step, int micro_batch);

  // Returns what did not run of a step that has ended.
  PassedOver passed_over_in(int step) const;

 private:
  // One micro-batch as this rank saw it.
  struct Seen {
    std::vector<std::pair<std::string, std::int64_t>> collectives;  // operation, bytes; as issued
    measure::MemoryChanges memory;
  };

  void begin_step();
  Seen seen_in(int step, int micro_batch) const;
  bool rest_declares_the_same(int micro_batch) const;
  int last() const { return static_cast<int>(declared_.size()) - 1; }

  const comm::Ledger& ledger_;
  std::vector<sync::Collectives> declared_;
  AllSay all_say_;
  std::optional<Seen> before_;
  std::map<int, PassedOver> passed_over_;  // by step
};

// Returns why every micro-batch of `trial` runs; "": those that repeat need not run. The answer is
// the same on every rank. Even where no time is wanted, a micro-batch may depend on something that
// no earlier one shows: on its examples, or on a device's queue.
std::string why_all_run(const RankContext& context, Workload& workload, const plan::Trial& trial);

}  // namespace gradsync::run
