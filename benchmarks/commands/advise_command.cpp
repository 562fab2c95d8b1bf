// gradsync advise: the fastest ways to synchronize a model on given machines, within a budget of
// memory.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <iostream>

#include "benchmarks/commands/commands.h"
#include "benchmarks/commands/plan_options.h"
#include "benchmarks/commands/step_models.h"
#include "harness/base/fields.h"
#include "harness/base/units.h"
#include "harness/memory/memory_prediction.h"
#include "harness/plan/known_options.h"
#include "harness/predict/advice.h"
#include "harness/predict/link_file.h"
#include "harness/session/paths.h"
#include "harness/text/labels.h"
#include "harness/text/text_table.h"
#include "harness/text/text_width.h"
#include "models/profile.h"

namespace gradsync::cli {
namespace {

using nlohmann::json;
using predict::LinkFile;

// Ways whose times differ by less than this share count as equally fast.
constexpr double kAsFast = 1e-3;

struct AdviseOptions {
  std::vector<std::string> models;
  std::vector<std::string> topologies;
  int global_batch = 0;
  std::string budget;
  std::vector<std::string> units;
  std::string links;
  int most = 10;
  bool as_json = false;
};

// A profile whose micro-batch has `samples` samples.
struct Candidate {
  std::string model;
  int samples = 1;
  models::Profile profile;
  predict::StepModel step;
};

struct Way {
  plan::Cell cell;
  int micro_batch_samples = 1;
  int world_size = 0;
  double step_s = 0;
  std::optional<std::vector<double>> interval90_s;  // of those that are shown
  std::optional<std::int64_t> peak_bytes;
  std::string peak_unknown_because;
  std::vector<std::string> changes;
  std::vector<std::string> not_known;
  // What it was made of; not written.
  std::size_t candidate = 0;
  launch::Topology topology;
};

constexpr auto fields_of(const Way*) {
  return std::tuple{
      GRADSYNC_FIELDS(Way, cell, micro_batch_samples, world_size, step_s, interval90_s),
      field("predicted_peak_allocated_bytes", &Way::peak_bytes),
      GRADSYNC_FIELDS(Way, peak_unknown_because, changes, not_known)};
}

// "model.json=8": eight samples in its micro-batch.
Candidate candidate_of(const std::string& text) {
  Candidate candidate;
  const std::size_t equals = text.rfind('=');
  candidate.model = text.substr(0, equals);
  if (equals != std::string::npos) {
    const char* const end = text.data() + text.size();
    const auto [rest, bad] = std::from_chars(text.data() + equals + 1, end, candidate.samples);
    if (bad != std::errc{} || rest != end || candidate.samples < 1) {
      throw ConfigError(fmt::format(
          "advise: got \"{}\", expected PROFILE or PROFILE=SAMPLES, an integer from 1", text));
    }
  }
  const std::string path = profile_of(candidate.model);
  if (path.empty()) {
    throw ConfigError(fmt::format("{}: its step cannot be predicted: {}", candidate.model,
                                  what_to_record(candidate.model)));
  }
  candidate.profile = models::read_profile(path);
  candidate.step = predict::step_model_of(candidate.profile, 1);
  return candidate;
}

int accumulation_of(const Candidate& candidate, const launch::Topology& topology,
                    int global_batch) {
  const int at_once = candidate.samples * topology.world_size();
  if (global_batch % at_once == 0) return global_batch / at_once;
  throw ConfigError(fmt::format(
      "--global-batch: got {}, expected a multiple of {}: {} of {} on {}", global_batch, at_once,
      text::counted(static_cast<std::size_t>(candidate.samples), "sample", "samples"),
      candidate.model,
      text::counted(static_cast<std::size_t>(topology.world_size()), "rank", "ranks")));
}

void predict_peak(const Candidate& candidate, const std::vector<std::string>& units, Way& way) {
  const auto& memory = candidate.profile.memory;
  if (!memory) {
    way.peak_unknown_because = "the profile did not record what the model holds";
    return;
  }
  const auto indices = models::modules_named(*memory, units.empty() ? memory->units : units);
  const auto prediction = memory::predict_job_memory(*memory, way.cell, indices, way.world_size);
  way.peak_unknown_because = prediction.unknown_because;
  if (prediction.memory) way.peak_bytes = prediction.memory->peak_bytes;
}

void refuse_unpredicted(const plan::Cell& cell, const launch::Topology& topology) {
  std::string why = plan::why_unknown(cell, plan::Prediction::Advice);
  if (why.empty()) why = predict::why_not_predicted(cell, topology);
  if (!why.empty()) throw ConfigError("advise: " + why);
}

predict::StepOptions how(const plan::Cell& cell, const LinkFile& links) {
  predict::StepOptions options = predict::options_of(cell);
  options.rank_spread = links.rank_spread;
  return options;
}

double step_s(const Candidate& candidate, const Way& way, const LinkFile& links) {
  const auto network = predict::network_of(way.topology, links.constants);
  return predict::step_schedule(candidate.step, network, how(way.cell, links)).end_s();
}

// Returns the way without its interval: only the ways that are shown get one.
Way way_of(const plan::Cell& cell, const Candidate& candidate, const launch::Topology& topology) {
  refuse_unpredicted(cell, topology);
  Way way;
  way.cell = cell;
  way.micro_batch_samples = candidate.samples;
  way.world_size = topology.world_size();
  way.changes = predict::script_changes(cell, topology);
  way.not_known = predict::open_questions(cell);
  way.topology = topology;
  return way;
}

// Returns every way of every profile on every topology.
std::vector<Way> all_ways(const std::vector<Candidate>& candidates, const AdviseOptions& options,
                          const LinkFile& links) {
  std::vector<Way> all;
  for (const std::string& name : options.topologies) {
    const auto topology = launch::read_topology(name, session::topologies_directory());
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      const int accumulation = accumulation_of(candidates[i], topology, options.global_batch);
      for (plan::Cell cell : predict::ways(candidates[i].model, topology, accumulation)) {
        cell.topology = name;
        Way& way = all.emplace_back(way_of(cell, candidates[i], topology));
        way.candidate = i;
        way.step_s = step_s(candidates[i], way, links);
        predict_peak(candidates[i], options.units, way);
      }
    }
  }
  return all;
}

// Returns whether `a` is as fast as `b`, holds no more memory and needs no more changes.
bool is_as_good(const Way& a, const Way& b) {
  if (a.peak_bytes.has_value() != b.peak_bytes.has_value()) return false;
  return a.step_s <= b.step_s * (1 + kAsFast) && a.peak_bytes <= b.peak_bytes &&
         a.changes.size() <= b.changes.size();
}

// Returns the ways that are known to fit into the budget.
std::vector<Way> in_budget(std::vector<Way> ways, std::int64_t budget_bytes) {
  std::erase_if(ways, [budget_bytes](const Way& way) {
    return !way.peak_bytes || *way.peak_bytes > budget_bytes;
  });
  return ways;
}

// Returns the ways, fastest first, without those for which another one is as good. When two are as
// good as each other, the first is kept.
std::vector<Way> ranked(const std::vector<Way>& ways) {
  std::vector<Way> kept;
  for (std::size_t i = 0; i < ways.size(); ++i) {
    bool is_needless = false;
    for (std::size_t j = 0; j < ways.size() && !is_needless; ++j) {
      if (i == j || !is_as_good(ways[j], ways[i])) continue;
      is_needless = j < i || !is_as_good(ways[i], ways[j]);
    }
    if (!is_needless) kept.push_back(ways[i]);
  }
  std::ranges::stable_sort(kept, [](const Way& a, const Way& b) { return a.step_s < b.step_s; });
  return kept;
}

void print_ways(const std::vector<Way>& ways) {
  text::TextTable table({{"topology", text::Align::Left},
                         {"micro-batch"},
                         {"accumulation"},
                         {"s/step"},
                         {"90 % interval"},
                         {"peak"},
                         {"what to change", text::Align::Left}});
  for (const Way& way : ways) {
    const std::vector<double>& ends = *way.interval90_s;
    table.add_row(
        {way.cell.topology, std::to_string(way.micro_batch_samples),
         std::to_string(way.cell.accumulation_steps), fmt::format("{:.3f}", way.step_s),
         fmt::format("[{:.3f}, {:.3f}]", ends[0], ends[1]),
         way.peak_bytes ? format_bytes(static_cast<double>(*way.peak_bytes)) : "not known",
         way.changes.empty() ? "nothing" : fmt::format("{}", fmt::join(way.changes, "; "))});
  }
  std::cout << table.to_markdown();
}

std::string closing_words(const std::vector<Way>& shown, std::size_t compared) {
  std::string words = fmt::format(
      "{} ways were compared. A way is left out when another one is as fast, holds no more memory "
      "and needs no more changes. Changes are to a script with DistributedDataParallel(model) that "
      "synchronizes in every micro-batch.",
      compared);
  const Way& first = shown.front();
  if (!first.peak_bytes) {
    words +=
        fmt::format(" The memory of the first way is not known: {}.", first.peak_unknown_because);
  }
  if (!first.not_known.empty()) {
    words += fmt::format(" Not known about the first way: {}.", fmt::join(first.not_known, "; "));
  }
  return words;
}

void add_interval(const Candidate& candidate, const LinkFile& links, Way& way) {
  const auto network = predict::network_of(way.topology, links.constants);
  const predict::Prediction of =
      predict::predict_step(candidate.step, network, how(way.cell, links), links.doubt);
  way.interval90_s = {of.interval90.lo, of.interval90.hi};
}

void print_json(const std::vector<Way>& ways) {
  json list = json::array();
  for (const Way& way : ways) list.push_back(write_fields(way));
  std::cout << list.dump(1) << "\n";
}

void advise(const AdviseOptions& options) {
  const LinkFile links = predict::read_link_file(options.links);
  std::vector<Candidate> candidates;
  for (const std::string& text : options.models) candidates.push_back(candidate_of(text));
  const std::vector<Way> all = all_ways(candidates, options, links);
  std::vector<Way> shown =
      ranked(options.budget.empty() ? all : in_budget(all, read_budget(options.budget)));
  if (shown.empty()) {
    const std::string& why = all.front().peak_unknown_because;
    throw ConfigError(
        fmt::format("--budget: got {}, expected more: none of {} ways is known to fit{}{}",
                    options.budget, all.size(), why.empty() ? "" : ": ", why));
  }
  shown.resize(std::min(shown.size(), static_cast<std::size_t>(options.most)));
  for (Way& way : shown) add_interval(candidates[way.candidate], links, way);
  if (options.as_json) return print_json(shown);
  print_ways(shown);
  std::cout << "\n" << text::wrapped(closing_words(shown, all.size()), 0, text::kTerminalWidth);
}

}  // namespace

void add_advise_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("advise", "The fastest ways to synchronize a model, and what they change")
          ->group(kRuns);
  auto options = std::make_shared<AdviseOptions>();
  command
      ->add_option("PROFILE", options->models,
                   "A profile, or a model with one; PROFILE=SAMPLES says how many samples its "
                   "micro-batch has (1)")
      ->required();
  command->add_option("--topology", options->topologies, "Machines to choose from: A,B")
      ->delimiter(',')
      ->required();
  command
      ->add_option("--global-batch", options->global_batch,
                   "Samples of one step, over all ranks and micro-batches")
      ->check(CLI::Range(1, 1 << 30))
      ->required();
  command->add_option("--budget", options->budget,
                      "Memory that a rank may hold, as in 79GiB: show ways that are known to fit");
  command
      ->add_option("--units", options->units,
                   "Modules or classes that fully_shard is given (as it was recorded)")
      ->delimiter(',');
  command->add_option("--links", options->links,
                      "What links and hosts cost, and how sure that is (gradsync.links/1)");
  command->add_option("--most", options->most, "Show at most this many ways (10)")
      ->check(CLI::Range(1, 1000));
  command->add_flag("--json", options->as_json, "Print JSON instead of the table");
  command->callback([options] { advise(*options); });
}

}  // namespace gradsync::cli
