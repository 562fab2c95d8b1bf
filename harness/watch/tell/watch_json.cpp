#include "harness/account/account_fields.h"
#include "harness/base/fields_inline.h"
#include "harness/watch/judge/flag_fields.h"
#include "harness/watch/judge/policy_fields.h"
#include "harness/watch/judge/series_fields.h"
#include "harness/watch/judge/watched.h"
#include "harness/watch/tell/watched_json.h"

namespace gradsync::watch {

using nlohmann::json;

namespace {

template <typename Value>
json or_null(const std::optional<Value>& value) {
  return value ? json(*value) : json();
}

json text_or_null(const std::string& text) {
  return text.empty() ? json() : json(text);
}

json to_json(const std::optional<Change>& change) {
  if (!change) return {};
  return {{"file", text_or_null(change->file)},
          {"line", change->line > 0 ? json(change->line) : json()},
          {"what", change->what}};
}

json to_json(const Verdict& verdict) {
  return {{"kind", to_string(verdict.kind)},
          {"sentence", verdict.sentence},
          {"why", text_or_null(verdict.why)},
          {"change", to_json(verdict.change)},
          {"fails", verdict.fails}};
}

json to_json(const std::vector<CallPlace>& places) {
  json list = json::array();
  for (const CallPlace& place : places) {
    list.push_back({{"file", text_or_null(place.file)},
                    {"line", place.line > 0 ? json(place.line) : json()},
                    {"calls", place.calls},
                    {"takes_s", place.takes_s}});
  }
  return list;
}

json to_json(const Waste& waste) {
  return {{"kind", to_string(waste.kind)},
          {"reductions", waste.reductions},
          {"sentence", waste.sentence},
          {"why", text_or_null(waste.why)},
          {"change", to_json(waste.change)},
          {"saved_s", waste.saved_s ? json(*waste.saved_s) : json()},
          {"no_saved_s_because", text_or_null(waste.saved_s.why_not())},
          {"places", to_json(waste.places)}};
}

json to_json(const std::vector<ModelVerdict>& models) {
  json list = json::array();
  for (const ModelVerdict& model : models) {
    list.push_back({{"wrapper", model.wrapper},
                    {"file", text_or_null(model.file)},
                    {"line", model.line > 0 ? json(model.line) : json()},
                    {"verdict", to_json(model.verdict)}});
  }
  return list;
}

json to_json(const Axis& axis) {
  return {{"role", to_string(axis.role)},
          {"name", text_or_null(axis.name)},
          {"ranks", axis.ranks.empty() ? json() : json(axis.ranks)},
          {"collectives", to_json(axis.collectives)},
          {"ideal", to_json(axis.ideal)},
          {"excess", to_json(axis.excess)}};
}

json to_json(const std::vector<Axis>& axes) {
  json list = json::array();
  for (const Axis& axis : axes) list.push_back(to_json(axis));
  return axes.empty() ? json() : list;
}

json to_json(const StepParts& parts) {
  return {{"fixed", to_json(parts.fixed)},
          {"micro_batch", to_json(parts.micro_batch)},
          {"synchronization", to_json(parts.synchronization)},
          {"fixed_s", or_null(parts.fixed_s)},
          {"micro_batch_s", or_null(parts.micro_batch_s)},
          {"synchronization_s", or_null(parts.synchronization_s)}};
}

json to_json(const std::vector<Policy>& policies) {
  json list = json::array();
  for (const Policy& policy : policies) list.push_back(write_fields(policy));
  return list;
}

json to_json(const TypicalStep& typical) {
  return {{"micro_batches", typical.micro_batches},
          {"synchronized", typical.synchronized},
          {"steps", typical.steps},
          {"collectives", to_json(typical.collectives)},
          {"ideal", to_json(typical.ideal)},
          {"excess", to_json(typical.excess)},
          {"axes", to_json(typical.axes)},
          {"step_s", or_null(typical.step_s)},
          {"excess_s", or_null(typical.excess_s)},
          {"no_excess_s_because", text_or_null(typical.no_excess_s_because)},
          {"policies", to_json(typical.policies)},
          {"parts", typical.parts ? to_json(*typical.parts) : json()},
          {"no_parts_because", text_or_null(typical.no_parts_because)}};
}

json to_json(const WatchedRank& rank) {
  return {{"rank", rank.rank < 0 ? json() : json(rank.rank)},
          {"pid", rank.pid},
          {"steps", rank.steps},
          {"skipped_steps", rank.skipped_steps},
          {"evaluation_forwards", rank.evaluation_forwards},
          {"collectives", to_json(rank.collectives)},
          {"peak_allocated_bytes", rank.peak.bytes ? json(*rank.peak.bytes) : json()},
          {"peak_is_on_gpu", rank.peak.is_on_gpu},
          {"no_peak_because", text_or_null(rank.peak.bytes.why_not())}};
}

}  // namespace

json watch_json(const Watched& watched) {
  json ranks = json::array();
  for (const WatchedRank& rank : watched.ranks) ranks.push_back(to_json(rank));
  json verdicts = json::array();
  for (const Verdict& verdict : watched.verdicts) verdicts.push_back(to_json(verdict));
  json wastes = json::array();
  for (const Waste& waste : watched.wastes) wastes.push_back(to_json(waste));
  json flags = json::array();
  for (const Flag& flag : watched.flags) flags.push_back(write_fields(flag));
  return {{"schema", kWatchSchema},
          {"world_size", watched.world_size},
          {"wrappers", watched.wrappers},
          {"ranks", std::move(ranks)},
          {"per_step", watched.typical ? to_json(*watched.typical) : json()},
          {"verdicts", std::move(verdicts)},
          {"has_excess", has_excess(watched)},
          {"models", to_json(watched.models)},
          {"wastes", std::move(wastes)},
          {"flags", std::move(flags)},
          {"faults", watched.faults},
          {"account", watched.account ? write_fields(*watched.account) : json()},
          {"series", write_fields(watched.series)}};
}

}  // namespace gradsync::watch
