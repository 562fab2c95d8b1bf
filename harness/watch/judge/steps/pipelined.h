// A stage of a pipeline runs forwards ahead of their backwards: F F B F B F B B under 1F1B, F F F F
// B B B B before that. Micro-batches of one model are separated there by their turn: its backwards
// come in the order of its forwards. Where these do not make as many gradients each, one may be of
// a model that no wrapper has, and nothing is separated.
//
// A rank with several stages, as under interleaved 1F1B, runs backwards whose model is not known.
#pragma once

#include <optional>
#include <vector>

#include "harness/watch/judge/steps/steps.h"

namespace gradsync::watch {

// A forward or a backward of one step.
struct Turn {
  const Event* interval = nullptr;
  const Event* no_sync = nullptr;  // that was open when it began; null: none was
  bool is_unsynced = false;        // the wrapper was seen to be told so, then
};

// Returns the micro-batches of a step's turns, by time, without collectives; nothing where these
// are no pipeline of one model, or it is not known which model ran.
std::optional<std::vector<MicroBatch>> pipelined(const std::vector<Turn>& turns);

// Returns whether several models each run forwards ahead of their backwards.
bool are_interleaved(const std::vector<Turn>& turns);

}  // namespace gradsync::watch
