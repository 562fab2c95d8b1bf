#include <fmt/format.h>

#include <algorithm>

#include "harness/watch/tell/watched_fields.h"
#include "harness/watch/tell/watched_files.h"

namespace gradsync::watch {

using nlohmann::json;

namespace {

void check_sums(const FieldCheck& check, const char* name, const OpSums& sums, std::int64_t most) {
  const bool fits = std::ranges::all_of(sums, [&](const auto& sum) {
    return sum.second.count <= most && sum.second.bytes.value_or(0) <= most;
  });
  check.that(fits, name, fmt::format("integers of at most {}", most));
}

// Checks the collectives of an axis or a step.
template <typename Communicates>
void check_collectives(const Communicates& all, const FieldCheck& check) {
  check_sums(check, "collectives", all.collectives, kMostOfAStep);
  check_sums(check, "ideal", all.ideal, kMostOfAStep);
  check_sums(check, "excess", all.excess, kMostOfAStep);
  check.that(without(all.collectives, all.excess) == all.ideal, "ideal",
             "collectives without excess");
}

void check_texts(const FieldCheck& check, const char* name, const std::vector<std::string>& texts) {
  check.that(std::ranges::find(texts, "") == texts.end(), name,
             "a list of texts that are not empty");
}

}  // namespace

json field_to_json(const Cause& cause) {
  return cause == Cause::None ? json() : json(to_string(cause));
}

void field_from_json(const json& in, Cause& cause, const FieldPlace& place) {
  cause = Cause::None;
  if (in.is_null()) return;
  const auto named = in.is_string() ? cause_named(in.get<std::string>()) : std::nullopt;
  if (!named) place.fail(&in, "a cause of a verdict, or null");
  cause = *named;
}

void check_fields(const Verdict& verdict, const FieldCheck& check) {
  check.that(!verdict.fails || !is_unjudged(verdict.kind), "fails",
             "false where nothing is recognised");
}

void check_fields(const Axis& axis, const FieldCheck& check) {
  check_collectives(axis, check);
}

void check_fields(const StepParts& parts, const FieldCheck& check) {
  check_sums(check, "fixed", parts.fixed, kMostOfAStep);
  check_sums(check, "micro_batch", parts.micro_batch, kMostOfAMicroBatch);
  check_sums(check, "synchronization", parts.synchronization, kMostOfAMicroBatch);
}

void check_fields(const TypicalStep& typical, const FieldCheck& check) {
  check.that(typical.synchronized <= typical.micro_batches, "synchronized",
             fmt::format("an integer of at most {}", typical.micro_batches));
  check_collectives(typical, check);
  OpSums all;
  for (const Axis& axis : typical.axes) add(all, axis.collectives);
  check.that(typical.axes.empty() || all == typical.collectives, "axes",
             "axes that add up to collectives");
  check.that(!typical.parts || collectives_of(*typical.parts, typical.micro_batches,
                                              typical.synchronized) == typical.collectives,
             "parts", "parts that add up to collectives");
}

void check_fields(const Watched& watched, const FieldCheck& check) {
  check_texts(check, "wrappers", watched.wrappers);
  check_texts(check, "faults", watched.faults);
  check.that(!watched.account || !watched.account->verdicts.empty(), "account",
             "one verdict or more");
}

json watch_json(const Watched& watched) {
  return write_fields(watched);
}

Watched watched_from_json(const json& value, const std::string& file) {
  Watched watched = read_fields<Watched>(value, file);
  refuse_other_fields<Watched>(value, file);
  if (watched.series == Series{}) {
    watched.series = unknown_series("the file is older than its series");
  }
  return watched;
}

}  // namespace gradsync::watch
