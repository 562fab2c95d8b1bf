#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "harness/watch/tell/export/exports.h"
#include "harness/watch/tell/watched_fields.h"

namespace gradsync::watch {
namespace {

using Labels = std::vector<std::pair<std::string, std::string>>;

// In UTF-8, which the format demands; a command line may be of any bytes.
std::string as_utf8(const std::string& bytes) {
  using nlohmann::json;
  const std::string replaced = json(bytes).dump(-1, ' ', false, json::error_handler_t::replace);
  return json::parse(replaced).get<std::string>();
}

std::string escaped(const std::string& value) {
  std::string text;
  for (const char letter : value) {
    if (letter == '\n') {
      text += "\\n";
      continue;
    }
    if (letter == '\\' || letter == '"') text += '\\';
    text += letter;
  }
  return text;
}

// One metric with all its lines; one without lines is left out.
class Metric {
 public:
  Metric(const char* name, const char* type, const char* help, const Labels& job)
      : name_(name),
        head_(fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", name, help, type)),
        job_(job) {}

  template <typename Value>
  Metric& line(Value value, const Labels& more = {}) {
    std::string labels;
    for (const Labels& all : {job_, more}) {
      for (const auto& [label, text] : all) {
        labels += fmt::format("{}{}=\"{}\"", labels.empty() ? "" : ",", label, escaped(text));
      }
    }
    lines_ += fmt::format("{}{{{}}} {}\n", name_, labels, value);
    return *this;
  }

  template <typename Value>
  Metric& line_if(const Value& value) {
    if (value) line(*value);
    return *this;
  }

  std::string text() const { return lines_.empty() ? "" : head_ + lines_; }

 private:
  std::string name_;
  std::string head_;
  Labels job_;
  std::string lines_;
};

// A process without a group has no rank.
Labels labels_of(const WatchedRank& rank) {
  if (rank.rank < 0) return {};
  return {{"rank", std::to_string(rank.rank)}};
}

std::string counters_of(const Watched& watched, const Labels& job) {
  Metric steps("gradsync_steps_total", "counter", "Optimizer steps that ended, by rank.", job);
  Metric collectives("gradsync_collectives_total", "counter",
                     "Collectives that a rank took part in, by operation.", job);
  Metric bytes("gradsync_collective_bytes_total", "counter",
               "Bytes of their tensors, each counted once per rank.", job);
  for (const WatchedRank& rank : watched.ranks) {
    steps.line(rank.steps, labels_of(rank));
    for (const auto& [operation, sum] : rank.collectives) {
      Labels labels = labels_of(rank);
      labels.emplace_back("operation", operation);
      collectives.line(sum.count, labels);
      if (sum.bytes) bytes.line(*sum.bytes, labels);
    }
  }
  return steps.text() + collectives.text() + bytes.text();
}

std::string gauges_of(const Watched& watched, const Labels& job) {
  const auto gauge = [&](const char* name, const char* help, const auto& value) {
    return Metric(name, "gauge", help, job).line_if(value).text();
  };
  const Series& series = watched.series;
  return gauge("gradsync_step_seconds", "Seconds of an optimizer step.",
               watched.typical ? watched.typical->step_s : std::nullopt) +
         gauge("gradsync_step_exposed_seconds",
               "Seconds that an optimizer step waits for synchronizations.", series.exposed_s) +
         gauge("gradsync_synchronization_ratio",
               "Share of an optimizer step that waits for synchronizations, from 0 to 1.",
               series.synchronization_share) +
         gauge("gradsync_step_excess_bytes",
               "Bytes that a rank synchronizes in an optimizer step beyond what is enough.",
               series.excess_bytes) +
         gauge("gradsync_latest_rank", "The rank for which the others wait most often.",
               series.latest_rank);
}

}  // namespace

std::string prometheus_text(const Watched& watched, const std::string& job, bool is_running) {
  const Labels labels{{"job", as_utf8(job)}};
  Metric running("gradsync_job_running", "gauge", "1 while the watched job runs, then 0.", labels);
  Metric verdict("gradsync_verdict_info", "gauge", "The verdict on when the job synchronizes.",
                 labels);
  verdict.line(1, {{"kind", name_of(watched.verdicts.front().kind)}});
  return running.line(is_running ? 1 : 0).text() + verdict.text() + counters_of(watched, labels) +
         gauges_of(watched, labels);
}

}  // namespace gradsync::watch
