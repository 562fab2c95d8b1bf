// What all ranks say yes to, asked over the rendezvous store: no collective, so that no ledger and
// no peak of memory has anything of it.
//
// For decisions that rest on what a rank saw itself, and that all must take alike: a rank that went
// another way would wait for its peers in a collective that they never begin.
#pragma once

#include <cstdint>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace gradsync::comm {

class Agreement {
 public:
  // `ranks`: how many of them vote; of one alone its own word counts, and the store is not used.
  Agreement(c10::intrusive_ptr<c10d::Store> store, int ranks, double timeout_s)
      : store_(std::move(store)), ranks_(ranks), timeout_s_(timeout_s) {}

  // Returns whether every rank says yes: the same on all of them. Every rank asks the same
  // questions in the same order. Blocks until all have answered, `timeout_s` at most.
  // Errors: CommError where one does not, or rank 0, which holds the store, is gone.
  bool all_say(bool yes);

 private:
  c10::intrusive_ptr<c10d::Store> store_;
  int ranks_;
  double timeout_s_;
  std::int64_t questions_ = 0;
};

}  // namespace gradsync::comm
