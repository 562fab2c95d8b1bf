
#include <fmt/format.h>

#include <set>

#include "harness/text/labels.h"
#include "harness/text/text_table.h"
#include "harness/text/text_width.h"
#include "harness/watch/tell/pages.h"

namespace gradsync::watch {

namespace {

OpSums collectives_of(const NamedJob& job) {
  return job.watched.typical ? job.watched.typical->collectives : OpSums{};
}

std::string table_of_both(const OpSums& a, const OpSums& b) {
  std::set<std::string> ops;
  for (const OpSums* sums : {&a, &b}) {
    for (const auto& [op, sum] : *sums) ops.insert(op);
  }
  if (ops.empty()) return "neither communicates in a step\n";
  text::TextTable table(
      {{"per step and rank", text::Align::Left}, {"a"}, {"bytes"}, {"b"}, {"bytes"}});
  for (const std::string& op : ops) {
    std::vector<std::string> row{op};
    add_cells(row, a, op);
    add_cells(row, b, op);
    table.add_row(std::move(row));
  }
  return table.to_markdown();
}

std::string step_text(const NamedJob& job, const char* letter) {
  const auto& typical = job.watched.typical;
  if (!typical || !typical->step_s) return "";
  return text::wrapped(
      fmt::format("{}: {:.3f} s per step (median of {}) of {}", letter, *typical->step_s,
                  text::counted(static_cast<std::size_t>(typical->steps), "step", "steps"),
                  text::counted(static_cast<std::size_t>(typical->micro_batches), "micro-batch",
                                "micro-batches")),
      0, kPageWidth);
}

std::string verdict_of(const NamedJob& job, const char* letter) {
  return text::wrapped(fmt::format("VERDICT {}: {}", letter, job.watched.verdicts.front().sentence),
                       0, kPageWidth);
}

// Returns the sentences on both steps together.
std::string together(const NamedJob& a, const NamedJob& b) {
  for (const NamedJob* job : {&a, &b}) {
    if (!job->watched.typical) return fmt::format("No step of {} was seen.\n", job->name);
  }
  return fmt::format(
      "They did not take turns: no ratio is stated.\n\nA step {} the same in both.\n",
      collectives_of(a) == collectives_of(b) ? "communicates" : "does not communicate");
}

}  // namespace

std::string watch_comparison(const NamedJob& a, const NamedJob& b) {
  return fmt::format("a: {}\nb: {}\n\n", a.name, b.name) +
         table_of_both(collectives_of(a), collectives_of(b)) + "\n" + step_text(a, "a") +
         step_text(b, "b") + together(a, b) + verdict_of(a, "a") + verdict_of(b, "b");
}

}  // namespace gradsync::watch
