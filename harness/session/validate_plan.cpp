#include "harness/session/validate_plan.h"

#include <fmt/format.h>

#include "harness/base/errors.h"
#include "harness/launch/topology.h"
#include "harness/plan/combinations.h"
#include "harness/session/paths.h"
#include "harness/session/rank_program.h"

namespace gradsync::session {
namespace {

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
    const models::ModelDescription model = named("model", [&] { return find_model(cell.model); });
    require(!use_.has_weights || model.weights().most > 0, "cells.model",
            fmt::format("'{}' with --weights", cell.model),
            "one that computes, or no --weights: " + model.weights().because);
    check_folding(cell, model);
    if (const auto misfit = plan::misfit_of(cell, model)) {
      throw ConfigError(plan_.file, "cells." + misfit->axis, misfit->got, misfit->expected);
    }
    named("topology",
          [&] { return launch::read_topology(cell.topology, topologies_directory(), cell.scale); });
  }

  void check_folding(const plan::Cell& cell, const models::ModelDescription& model) const {
    if (plan_.fold_from_bytes == 0) return;
    require(model.no_values().most > 0, "fold_from_bytes",
            fmt::format("{} for model '{}'", plan_.fold_from_bytes, cell.model),
            "0: " + model.no_values().because);
    // What an index needs at most: a router's two choices for a token, 8 bytes each.
    constexpr std::int64_t kIndexBytesPerToken = 16;
    const std::int64_t tokens = std::int64_t{cell.micro_batch_size} * cell.sequence_length;
    require(plan_.fold_from_bytes > tokens * kIndexBytesPerToken, "fold_from_bytes",
            std::to_string(plan_.fold_from_bytes),
            fmt::format("more than {}: the indices of {} tokens must not be garbage",
                        tokens * kIndexBytesPerToken, tokens));
  }

  const plan::Plan& plan_;
  const PlanUse& use_;
};

}  // namespace

void validate_plan(const plan::Plan& plan, const PlanUse& use) {
  Validation(plan, use).check();
}

}  // namespace gradsync::session
