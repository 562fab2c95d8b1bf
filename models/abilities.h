// The abilities of a model, and what follows for options that not every model can have. Rows of
// plans (harness/plan/options.cpp) and the registry ask the same functions. No torch.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

namespace gradsync::models {

// How compute happens. Real: arithmetic. Paced: the layers wait.
enum class Compute { Real, Paced };

// Which values of an option a model can have.
struct Allowance {
  std::int64_t most = 0;     // of numbers; of other values 0: the default alone, 1: all
  std::string because = {};  // why no more; "": nothing to add
};
inline constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();

// The name and abilities of a model: all that a plan must know about it.
struct ModelDescription {
  std::string name;   // as in a plan: "bert_mini"
  std::string about;  // one line for `gradsync list models`
  Compute compute = Compute::Real;
  bool has_mixtrals_options = false;  // those of ModelOptions that only a Mixtral has
  bool has_bfloat16 = false;          // parameters may be stored in it
  bool reads_pictures = false;
  std::int64_t longest_sequence = 0;   // tokens; 0: any
  int checkpointable_units = 0;        // of its units: that have no effect beside their output and
                                       // may run again in backward; 0: none may
  std::int64_t highest_lora_rank = 0;  // of its low-rank updates; 0: it has none
  bool chooses_attention = false;      // it attends in both ways
  bool replays_memory = false;         // a paced model that makes what the recorded one held

  // What it allows of the options that not every model can have.
  Allowance scaling() const {
    return {compute == Compute::Paced ? kAny : 1, "only the bytes of a paced model can be scaled"};
  }
  Allowance weights() const { return {compute == Compute::Real, "a paced model has none"}; }
  Allowance bfloat16() const {
    return {has_bfloat16, "only a Mixtral, a BERT and mlp have others"};
  }
  Allowance attention() const { return {chooses_attention, "only a BERT attends in both ways"}; }
  Allowance routing() const { return {has_mixtrals_options, "only a Mixtral has a router"}; }
  Allowance no_values() const {
    return {has_mixtrals_options, "only a Mixtral can do without values"};
  }
  Allowance lengths() const { return {!reads_pictures, "its examples are pictures"}; }
  Allowance sequence_length() const { return {longest_sequence == 0 ? kAny : longest_sequence}; }
  Allowance checkpointing() const {
    if (replays_memory) {
      return {0,
              "at scale 1 a profile holds what was recorded: record the model with its activation "
              "checkpointing"};
    }
    return {checkpointable_units, checkpointable_units == 0
                                      ? "it has no units that can run again in backward"
                                      : "it has so many units"};
  }
  Allowance freezing() const {
    // A paced layer takes the same time, whatever is frozen.
    const int units = compute == Compute::Paced ? 0 : checkpointable_units;
    return {units, units == 0 ? "its units cannot be frozen" : "it has so many units"};
  }
  Allowance low_rank_updates() const {
    return {highest_lora_rank,
            highest_lora_rank == 0 ? "only a BERT has low-rank updates" : "it is so wide"};
  }
};

using Ability = Allowance (ModelDescription::*)() const;

}  // namespace gradsync::models
