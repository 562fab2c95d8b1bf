// gradsync predict external: what others published of their machines, predicted from a part of it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iostream>

#include "benchmarks/commands/commands.h"
#include "harness/base/named_files.h"
#include "harness/base/program_files.h"
#include "harness/predict/external.h"
#include "harness/stats/sample.h"
#include "harness/text/text_table.h"
#include "harness/text/text_width.h"

namespace gradsync::cli {
namespace {

using nlohmann::json;
using predict::External;
using predict::PredictedRow;

constexpr std::size_t kExternalWidth = 105;
// Nobody publishes how far a number of theirs may be off.
constexpr predict::Doubt kDoubt{.compute = 0.03, .rate = 0.1, .host = 0};
constexpr double kInHundred = 100;

struct PublishedRow {
  External external;
  PredictedRow predicted;
};

std::vector<std::string> files_of(const std::vector<std::string>& names) {
  if (!names.empty()) return names;
  const std::string directory = data_file("results/evidence/external");
  std::vector<std::string> files;
  for (const std::string& name : list_json_files(directory)) {
    files.push_back(find_json_file("published set-up", name, directory));
  }
  return files;
}

// The worst first.
std::vector<PublishedRow> rows_of(const std::vector<std::string>& files) {
  std::vector<PublishedRow> rows;
  for (const std::string& file : files) {
    const External external = predict::read_external(file);
    for (PredictedRow& row : predict::predict_external(external, kDoubt)) {
      rows.push_back({external, std::move(row)});
    }
  }
  std::ranges::stable_sort(rows, [](const PublishedRow& a, const PublishedRow& b) {
    return std::abs(a.predicted.error()) > std::abs(b.predicted.error());
  });
  return rows;
}

const char* unit_text(predict::PublishedUnit unit) {
  switch (unit) {
    case predict::PublishedUnit::SamplesPerSecond:
      return "/s";
    case predict::PublishedUnit::SamplesPerSecondAndRank:
      return "/s/rank";
    case predict::PublishedUnit::SecondsPerStep:
      return "s";
  }
  return "";
}

bool is_covered(const PublishedRow& row) {
  return row.predicted.interval90.contains(row.predicted.row.value);
}

void print_table(const std::vector<PublishedRow>& rows) {
  text::TextTable table({{"set-up", text::Align::Left},
                         {"predicted row", text::Align::Left},
                         {"published"},
                         {"predicted"},
                         {"error"},
                         {"90 % interval"},
                         {"holds it", text::Align::Left}});
  for (const PublishedRow& row : rows) {
    const PredictedRow& of = row.predicted;
    table.add_row({row.external.name, of.row.label,
                   fmt::format("{:.4g} {}", of.row.value, unit_text(row.external.unit)),
                   fmt::format("{:.4g}", of.predicted),
                   fmt::format("{:+.1f} %", kInHundred * of.error()),
                   fmt::format("[{:.4g}, {:.4g}]", of.interval90.lo, of.interval90.hi),
                   is_covered(row) ? "yes" : "no"});
  }
  std::cout << table.to_markdown();
}

std::string summary_of(const std::vector<PublishedRow>& rows, std::size_t files) {
  std::vector<double> errors;
  for (const PublishedRow& row : rows) errors.push_back(std::abs(row.predicted.error()));
  const auto covered = std::ranges::count_if(rows, is_covered);
  return fmt::format(
      "{} rows of {} set-ups: the median error is {:.1f} %, the worst {:.1f} %; {} lie in their "
      "intervals, which cover compute that is {:g} % and rates that are {:g} % off (1 sd), both "
      "assumed: nobody says how far what he published may be off.",
      rows.size(), files, kInHundred * stats::quantile(errors, 0.5),
      kInHundred * std::abs(rows.front().predicted.error()), covered, kInHundred * kDoubt.compute,
      kInHundred * kDoubt.rate);
}

json to_json(const PublishedRow& row) {
  const PredictedRow& of = row.predicted;
  return {{"name", row.external.name},
          {"address", row.external.address},
          {"label", of.row.label},
          {"published", of.row.value},
          {"predicted", of.predicted},
          {"error", of.error()},
          {"interval90", {of.interval90.lo, of.interval90.hi}}};
}

void predict_published(const std::vector<std::string>& names, bool as_json) {
  const std::vector<std::string> files = files_of(names);
  const std::vector<PublishedRow> rows = rows_of(files);
  if (rows.empty()) {
    throw ConfigError("predict external: got no file with a row to predict, expected one");
  }
  if (as_json) {
    json list = json::array();
    for (const PublishedRow& row : rows) list.push_back(to_json(row));
    std::cout << list.dump(1) << "\n";
    return;
  }
  print_table(rows);
  std::cout << "\n" << text::wrapped(summary_of(rows, files.size()), 0, kExternalWidth);
}

}  // namespace

void add_predict_external_command(CLI::App& predict) {
  CLI::App* command = predict.add_subcommand(
      "external", "Numbers that others published, predicted from a part of them");
  auto names = std::make_shared<std::vector<std::string>>();
  auto as_json = std::make_shared<bool>(false);
  command->add_option("FILE", *names, "Of schema gradsync.external/1 (all of results/evidence/external)");
  command->add_flag("--json", *as_json, "Print JSON instead of the table");
  command->callback([names, as_json] { predict_published(*names, *as_json); });
}

}  // namespace gradsync::cli
