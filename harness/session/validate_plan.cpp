#include "harness/session/validate_plan.h"

#include <fmt/format.h>

#include "harness/base/errors.h"
#include "harness/launch/topology.h"
#include "harness/plan/known_options.h"
#include "harness/session/paths.h"
#include "harness/session/rank_program.h"

namespace gradsync::session {
namespace {

using models::ModelDescription;

class Validation {
 public:
  Validation(const plan::Plan& plan, const PlanUse& use) : plan_(plan), use_(use) {}

  void check() const {
    check_use();
    for (const plan::Part& part : plan_.parts) {
      check_steps(part);
      for (const plan::Cell& cell : part.cells) check_cell(cell);
    }
  }

 private:
  void require(bool holds, const std::string& field, const std::string& got,
               const std::string& expected) const {
    if (!holds) throw ConfigError(plan_.file, field, got, expected);
  }

  // What a name stands for; one that is not known, as the plan's reader would have said it.
  template <typename Look>
  auto named(const char* field, Look look) const {
    try {
      return look();
    } catch (const ConfigError& error) {
      throw ConfigError(fmt::format("{}: field 'cells.{}': {}", plan_.file, field, error.what()));
    }
  }

  void check_use() const {
    require(plan_.backend != "fake" || use_.launcher.empty(), "backend",
            fmt::format("\"fake\" under {}", use_.launcher),
            "another one, or --launcher none: one rank stands for all");
    // As published, every trial is a whole run of its own: there is nothing to keep for it.
    require(!use_.takes_turns || plan_.window_rule == "honest", "window_rule",
            '"' + plan_.window_rule + '"', "\"honest\": ranks that take turns are warm");
    require(plan_.fold_from_bytes == 0 || !use_.has_weights, "fold_from_bytes",
            fmt::format("{} with --weights", plan_.fold_from_bytes),
            "0, or no --weights: folded tensors hold garbage");
  }

  // As published, a run starts cold: its first two steps cannot be checked, so there must be more.
  void check_steps(const plan::Part& part) const {
    constexpr int kFewest = 3;
    require(plan_.window_rule != "as_published" || part.steps >= kFewest, "steps",
            std::to_string(part.steps),
            fmt::format("at least {} where window_rule is \"as_published\"", kFewest));
    require(!use_.takes_turns || part.timed, "timed", "false",
            "true: turns are compared by their times");
  }

  void check_cell(const plan::Cell& cell) const {
    const ModelDescription model = named("model", [&] { return find_model(cell.model); });
    check_pace(cell, model);
    check_mixtrals_options(cell, model);
    require(model.has_bfloat16 || cell.dtype == plan::Cell{}.dtype, "cells.dtype",
            fmt::format("\"{}\" for model '{}'", cell.dtype, cell.model),
            "\"float32\": only a Mixtral, a BERT and mlp have others");
    check_examples(cell, model);
    check_checkpointing(cell, model);
    check_frozen(cell, model);
    check_lora(cell, model);
    require(model.chooses_attention || cell.attention == plan::Cell{}.attention, "cells.attention",
            fmt::format("\"{}\" for model '{}'", cell.attention, cell.model),
            "\"eager\", which it is by default: only a BERT attends in both ways");
    if (model.compute == models::Compute::Paced) check_known_to_pace(cell);
    named("topology",
          [&] { return launch::read_topology(cell.topology, topologies_directory(), cell.scale); });
  }

  void check_known_to_pace(const plan::Cell& cell) const {
    const auto unknown = plan::unknown_option(cell, plan::Prediction::Pace);
    if (!unknown) return;
    throw ConfigError(plan_.file, "cells." + unknown->option,
                      fmt::format("{} for model '{}'", unknown->value.dump(), cell.model),
                      fmt::format("{}: {}", unknown->usual.dump(),
                                  unknown->because.empty() ? "a paced model does not re-enact it"
                                                           : unknown->because));
  }

  void check_pace(const plan::Cell& cell, const ModelDescription& model) const {
    const bool paced = model.compute == models::Compute::Paced;
    require(paced || cell.scale == 1, "cells.model",
            fmt::format("'{}' with scale {}", cell.model, cell.scale), "a paced model or scale 1");
    require(!paced || !use_.has_weights, "cells.model",
            fmt::format("'{}' with --weights", cell.model),
            "one that computes, or no --weights: a paced model has none");
  }

  void check_mixtrals_options(const plan::Cell& cell, const ModelDescription& model) const {
    if (model.has_mixtrals_options) return check_folding(cell);
    require(!cell.balanced_routing, "cells.balanced_routing",
            fmt::format("true for model '{}'", cell.model), "false: only a Mixtral has a router");
    require(plan_.fold_from_bytes == 0, "fold_from_bytes",
            fmt::format("{} for model '{}'", plan_.fold_from_bytes, cell.model),
            "0: only a Mixtral can do without values");
  }

  void check_folding(const plan::Cell& cell) const {
    // What an index needs at most: a router's two choices for a token, 8 bytes each.
    constexpr std::int64_t kIndexBytesPerToken = 16;
    const std::int64_t tokens = std::int64_t{cell.micro_batch_size} * cell.sequence_length;
    require(plan_.fold_from_bytes == 0 || plan_.fold_from_bytes > tokens * kIndexBytesPerToken,
            "fold_from_bytes", std::to_string(plan_.fold_from_bytes),
            fmt::format("more than {}: the indices of {} tokens must not be garbage",
                        tokens * kIndexBytesPerToken, tokens));
  }

  void check_examples(const plan::Cell& cell, const ModelDescription& model) const {
    require(model.longest_sequence == 0 || cell.sequence_length <= model.longest_sequence,
            "cells.sequence_length",
            fmt::format("{} for model '{}'", cell.sequence_length, cell.model),
            fmt::format("at most {}", model.longest_sequence));
    require(!model.reads_pictures || cell.lengths == "fixed", "cells.lengths",
            fmt::format("\"{}\" for model '{}'", cell.lengths, cell.model),
            "\"fixed\": its examples are pictures");
  }

  void check_checkpointing(const plan::Cell& cell, const ModelDescription& model) const {
    const int units = model.checkpointable_units;
    const std::string got =
        fmt::format("\"{}\" for model '{}'",
                    nlohmann::json(cell).value("activation_checkpointing", ""), cell.model);
    require(cell.activation_checkpointing <= units, "cells.activation_checkpointing", got,
            units == 0 ? "\"none\": it has no units that can run again in backward"
                       : fmt::format("at most \"every_{}\": it has so many units", units));
    const bool replays = model.replays_memory && cell.scale == 1;
    require(!replays || cell.activation_checkpointing == 0, "cells.activation_checkpointing", got,
            "\"none\": at scale 1 a profile holds what was recorded: record the model with its "
            "activation checkpointing");
  }

  void check_frozen(const plan::Cell& cell, const ModelDescription& model) const {
    // A paced layer takes as long, whatever is frozen.
    const int units = model.compute == models::Compute::Paced ? 0 : model.checkpointable_units;
    require(cell.frozen_units <= units, "cells.frozen_units",
            fmt::format("{} for model '{}'", cell.frozen_units, cell.model),
            units == 0 ? "0: its units cannot be frozen"
                       : fmt::format("at most {}: it has so many units", units));
  }

  void check_lora(const plan::Cell& cell, const ModelDescription& model) const {
    const std::int64_t highest = model.highest_lora_rank;
    require(cell.lora_rank <= highest, "cells.lora_rank",
            fmt::format("{} for model '{}'", cell.lora_rank, cell.model),
            highest == 0 ? "0: only a BERT has low-rank updates"
                         : fmt::format("at most {}: it is so wide", highest));
  }

  const plan::Plan& plan_;
  const PlanUse& use_;
};

}  // namespace

void validate_plan(const plan::Plan& plan, const PlanUse& use) {
  Validation(plan, use).check();
}

}  // namespace gradsync::session
