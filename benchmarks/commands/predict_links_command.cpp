// gradsync predict links: what a cluster's links cost, from collectives that were timed on it.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "benchmarks/commands/commands.h"
#include "harness/base/errors.h"
#include "harness/base/fields.h"
#include "harness/base/units.h"
#include "harness/predict/link_file.h"
#include "harness/predict/link_fit.h"
#include "harness/text/text_table.h"

namespace gradsync::cli {
namespace {

using nlohmann::json;
using predict::FittedLink;
using predict::LinkFile;
using predict::MeasuredCollective;
using Rows = std::vector<MeasuredCollective>;

constexpr double kBitsOfByte = 8;
constexpr double kMicro = 1e6;

struct LinksOptions {
  std::vector<std::string> files;
  predict::NotInFile more;
  std::string out;
  std::string topology_out;
  bool as_json = false;
};

// What all files say together.
struct Links {
  Rows rows;
  std::optional<FittedLink> within;  // of ranks on one node
  std::optional<FittedLink> across;
  int nodes = 1;  // of the largest of them
  int ranks_per_node = 1;

  // A step waits for the slower ones.
  const FittedLink& decisive() const { return across ? *across : *within; }
  const FittedLink& of(const MeasuredCollective& row) const {
    return row.nodes > 1 ? *across : *within;
  }
};

std::optional<FittedLink> fitted(const Rows& rows, bool is_across) {
  Rows chosen;
  std::ranges::copy_if(rows, std::back_inserter(chosen),
                       [&](const MeasuredCollective& row) { return (row.nodes > 1) == is_across; });
  if (chosen.empty()) return std::nullopt;
  return predict::fit_link(chosen);
}

Links links_of(const LinksOptions& options) {
  Links links;
  for (const std::string& file : options.files) {
    const Rows rows = predict::read_collectives(file, options.more);
    links.rows.insert(links.rows.end(), rows.begin(), rows.end());
  }
  for (const MeasuredCollective& row : links.rows) {
    if (row.nodes * row.ranks_per_node <= links.nodes * links.ranks_per_node) continue;
    links.nodes = row.nodes;
    links.ranks_per_node = row.ranks_per_node;
  }
  links.within = fitted(links.rows, false);
  links.across = fitted(links.rows, true);
  return links;
}

std::string sources_of(const LinksOptions& options) {
  return fmt::format("{}", fmt::join(options.files, ", "));
}

LinkFile link_file_of(const Links& links, const LinksOptions& options) {
  const FittedLink& fit = links.decisive();
  LinkFile file;
  file.source = "gradsync predict links " + sources_of(options);
  predict::LinkConstants& known = file.constants;
  known.payload_share = 1;  // the topology's rate is that of payload
  known.latency_s = fit.latency_s;
  known.host.collective_s = fit.collective_s;
  known.scatters_by_all_reduce = fit.scatters_by_all_reduce.value_or(known.scatters_by_all_reduce);
  known.gathers_half_late = fit.gathers_half_late.value_or(known.gathers_half_late);
  if (fit.rate_doubt) file.doubt.rate = *fit.rate_doubt;
  if (fit.host_doubt) file.doubt.host = *fit.host_doubt;
  return file;
}

json rate_of(const std::optional<FittedLink>& link) {
  if (!link) return nullptr;
  return {{"rate", fmt::format("{:.6g}Mbps", link->bytes_per_s * kBitsOfByte / kMicro)}};
}

json topology_of(const Links& links, const LinksOptions& options) {
  return {{"schema", "gradsync.topology/1"},
          {"about", "rates of payload, from " + sources_of(options)},
          {"nodes", links.nodes},
          {"ranks_per_node", links.ranks_per_node},
          {"inter_node", rate_of(links.across)},
          {"intra_node", rate_of(links.within)}};
}

void write_file(const std::string& path, const json& content) {
  std::ofstream file(path);
  file << content.dump(1) << "\n";
  if (!file.flush()) throw ConfigError(path + ": cannot be written");
}

std::string rate_text(const FittedLink& link) {
  return format_rate(link.bytes_per_s * kBitsOfByte) + " of payload";
}

std::string microseconds(double seconds) {
  return fmt::format("{:.1f} us", kMicro * seconds);
}

void print_constants(const Links& links) {
  text::TextTable table({{"constant", text::Align::Left}, {"value", text::Align::Left}});
  if (links.across) table.add_row({"a node's link", rate_text(*links.across)});
  if (links.within) table.add_row({"a rank's link inside of a node", rate_text(*links.within)});
  const FittedLink& fit = links.decisive();
  table.add_row({"latency of a message", fit.is_latency_apart
                                             ? microseconds(fit.latency_s)
                                             : "not known apart from the next: it is in there"});
  table.add_row({"a collective costs the host", microseconds(fit.collective_s)});
  if (fit.scatters_by_all_reduce) {
    table.add_row({"a reduce_scatter moves", *fit.scatters_by_all_reduce
                                                 ? "what an all_reduce does"
                                                 : "half of what an all_reduce does"});
  }
  if (fit.gathers_half_late) {
    table.add_row({"an all_gather ends",
                   *fit.gathers_half_late ? "half a rank's share late" : "with its last byte"});
  }
  std::cout << table.to_markdown();
}

// The relative errors of one collective over so many ranks.
struct Errors {
  double sum = 0;
  double worst = 0;
  double worst_bytes = 0;
  int rows = 0;

  void add(double error, double bytes) {
    sum += std::abs(error);
    ++rows;
    if (std::abs(error) <= std::abs(worst)) return;
    worst = error;
    worst_bytes = bytes;
  }
};

void print_errors(const Links& links) {
  constexpr double kPercent = 100;
  std::map<std::tuple<int, int, std::string>, Errors> errors;
  for (const MeasuredCollective& row : links.rows) {
    errors[{row.nodes, row.ranks_per_node, name_of(row.operation)}].add(
        predict::predicted_s(links.of(row), row) / row.seconds - 1, row.bytes);
  }
  text::TextTable table({{"nodes x ranks", text::Align::Left},
                         {"collective", text::Align::Left},
                         {"sizes"},
                         {"mean error, without sign"},
                         {"worst"},
                         {"at"}});
  for (const auto& [of, seen] : errors) {
    const auto& [nodes, ranks, name] = of;
    table.add_row({fmt::format("{} x {}", nodes, ranks), name, std::to_string(seen.rows),
                   fmt::format("{:.1f} %", kPercent * seen.sum / seen.rows),
                   fmt::format("{:+.1f} %", kPercent * seen.worst),
                   format_bytes(seen.worst_bytes)});
  }
  std::cout << "\n" << table.to_markdown();
}

void predict_links(const LinksOptions& options) {
  const Links links = links_of(options);
  const json file = to_json(link_file_of(links, options));
  if (!options.out.empty()) write_file(options.out, file);
  if (!options.topology_out.empty()) write_file(options.topology_out, topology_of(links, options));
  if (options.as_json) {
    std::cout << file.dump(1) << "\n";
    return;
  }
  print_constants(links);
  print_errors(links);
}

predict::Operation parse_operation(const std::string& name) {
  if (const auto operation = value_named<predict::Operation>(name)) return *operation;
  throw ConfigError(
      fmt::format("--operation: got \"{}\", expected {}", name, predict::kOperations));
}

}  // namespace

void add_predict_links_command(CLI::App& predict) {
  CLI::App* command = predict.add_subcommand(
      "links", "Fit a cluster's links to collectives timed on it: for --links");
  auto options = std::make_shared<LinksOptions>();
  command
      ->add_option(
          "FILE", options->files,
          "Output of micro_collectives --benchmark_format=json, of a program of nccl-tests "
          "or of gloo's benchmark")
      ->required();
  command
      ->add_option("--ranks-per-node", options->more.ranks_per_node,
                   "Ranks per node of gloo's files, which do not say it (1)")
      ->check(CLI::PositiveNumber);
  command->add_option_function<std::string>(
      "--operation",
      [options](const std::string& name) { options->more.operation = parse_operation(name); },
      "Operation of nccl-tests' files that do not name it");
  command->add_option("--out", options->out, "Write what --links takes");
  command->add_option("--topology-out", options->topology_out,
                      "Write the topology, with the rates that were found");
  command->add_flag("--json", options->as_json, "Print what --links takes instead of the tables");
  command->callback([options] { predict_links(*options); });
}

}  // namespace gradsync::cli
