#include "harness/plan/combinations.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>

#include "harness/base/named.h"
#include "harness/plan/strategies.h"

namespace gradsync::plan {

using nlohmann::json;

namespace {

using Found = std::optional<Misfit>;

std::string quoted(const std::string& text) {
  return json(text).dump();
}

std::ptrdiff_t reductions_of(const Cell& cell) {
  return std::ranges::count(declared_syncs(cell.wrapper, cell.strategy, cell.accumulation_steps),
                            true);
}

Found misfit_of_strategy(const Cell& cell) {
  const auto allowed = strategies_under(cell.wrapper);
  if (std::ranges::find(allowed, cell.strategy) != allowed.end()) return {};
  return Misfit{"strategy",
                fmt::format("{} under wrapper {}", fmt::join(allowed, ", "), cell.wrapper),
                quoted(cell.strategy)};
}

Found misfit_of_pipeline(const Cell& cell) {
  if (cell.wrapper != "pipeline") return {};
  if (cell.lengths != "fixed") {
    return Misfit{"lengths", "fixed under wrapper pipeline", quoted(cell.lengths)};
  }
  if (cell.dtype != "float32") {
    return Misfit{"dtype", "float32 under wrapper pipeline, whose stages send float32",
                  quoted(cell.dtype)};
  }
  if (cell.frozen_units > 0) {
    return Misfit{"frozen_units", "0 under wrapper pipeline, whose stages all send gradients back",
                  std::to_string(cell.frozen_units)};
  }
  return {};
}

Found misfit_of_dtypes(const Cell& cell) {
  if (cell.wrapper != "ddp") return {};
  if (cell.dtype != "float32" && cell.compression != "none") {
    return Misfit{"compression",
                  "none where dtype is " + cell.dtype + ", which has 2 bytes already",
                  quoted(cell.compression)};
  }
  if (cell.autocast != "none" && cell.dtype != "float32") {
    return Misfit{"autocast", "none where dtype is " + cell.dtype + ": there is nothing to cast",
                  quoted(cell.autocast)};
  }
  if (cell.master_weights && cell.dtype == "float32") {
    return Misfit{"master_weights",
                  "false where dtype is float32: parameters are their own masters", "true"};
  }
  if (cell.master_weights && !cell.fused_optimizer) {
    return Misfit{"master_weights", "false where fused_optimizer is false", "true"};
  }
  return {};
}

Found misfit_of_training(const Cell& cell) {
  if (cell.lora_rank > 0 && cell.frozen_units > 0) {
    return Misfit{"frozen_units",
                  fmt::format("0 where lora_rank is {}: the weights of every unit are frozen then",
                              cell.lora_rank),
                  std::to_string(cell.frozen_units)};
  }
  if (cell.lora_modules != Cell{}.lora_modules && cell.lora_rank == 0) {
    return Misfit{"lora_modules",
                  fmt::format("{} where lora_rank is 0: there are no updates", Cell{}.lora_modules),
                  quoted(cell.lora_modules)};
  }
  if (cell.wrapper == "fsdp" && cell.optimizer_in_backward && reductions_of(cell) > 1) {
    return Misfit{"optimizer_in_backward",
                  fmt::format("false where strategy {} reduces in each of {} micro-batches: every "
                              "reduction would be a step",
                              cell.strategy, cell.accumulation_steps),
                  "true"};
  }
  if (cell.sync_batch_norm && cell.wrapper != "ddp") {
    return Misfit{"sync_batch_norm", "false under wrapper " + cell.wrapper, "true"};
  }
  return {};
}

Found misfit_of_checkpointing(const Cell& cell) {
  if (cell.selective_checkpointing == "none" || cell.activation_checkpointing > 0) return {};
  return Misfit{"selective_checkpointing",
                "none where activation_checkpointing is none: nothing is made again",
                quoted(cell.selective_checkpointing)};
}

Found misfit_of_offload(const Cell& cell) {
  if (cell.offload != "none" && cell.wrapper != "ddp" && cell.wrapper != "fsdp") {
    return Misfit{"offload", "\"none\" under wrapper " + cell.wrapper, quoted(cell.offload)};
  }
  if (cell.offload == "parameters" && cell.wrapper != "fsdp") {
    return Misfit{"offload",
                  "\"none\" or \"optimizer_state\" under wrapper " + cell.wrapper +
                      ", whose parameters are all in use all the time",
                  quoted(cell.offload)};
  }
  return {};
}

using Value = std::pair<std::string, std::string>;  // of an axis, as JSON

std::set<Value> levers_of(const Cell& cell) {
  std::set<Value> values;
  for (const Axis& axis : axes()) {
    if (axis.trades_memory) values.emplace(axis.name, axis.get(cell).dump());
  }
  return values;
}

bool is_lever(const std::string& axis) {
  return entry_named(axes(), axis)->trades_memory;
}

}  // namespace

std::optional<Misfit> misfit_of(const Cell& cell) {
  for (const auto check : {misfit_of_strategy, misfit_of_pipeline, misfit_of_dtypes,
                           misfit_of_training, misfit_of_checkpointing, misfit_of_offload}) {
    if (Found misfit = check(cell)) return misfit;
  }
  return {};
}

std::optional<Misfit> drop_misfits(std::vector<Cell>& cells) {
  std::set<Value> in_use;
  for (const Cell& cell : cells) {
    if (!misfit_of(cell)) in_use.merge(levers_of(cell));
  }
  std::vector<Cell> kept;
  for (Cell& cell : cells) {
    const Found misfit = misfit_of(cell);
    if (misfit && !(is_lever(misfit->axis) && std::ranges::includes(in_use, levers_of(cell)))) {
      return misfit;
    }
    if (!misfit) kept.push_back(std::move(cell));
  }
  cells = std::move(kept);
  return {};
}

}  // namespace gradsync::plan
