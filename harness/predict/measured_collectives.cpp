#include "harness/predict/measured_collectives.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "harness/base/errors.h"
#include "harness/base/fields.h"
#include "harness/base/json_fields.h"
#include "harness/base/whole_file.h"

namespace gradsync::predict {

// The fields that are read from Google Benchmark's file.
struct GoogleRun {
  std::string name;  // "all_reduce/65536/iterations:100/manual_time"
  std::string run_type;
  double real_time = 0;
  std::string time_unit;
};

GRADSYNC_FIELDS_OF(GoogleRun, name, run_type, real_time, time_unit)

struct GoogleContext {  // a custom context is text
  std::string nodes;
  std::string ranks_per_node;
};

GRADSYNC_FIELDS_OF(GoogleContext, nodes, ranks_per_node)

struct GoogleBenchmark {
  GoogleContext context;
  std::vector<GoogleRun> benchmarks;
};

GRADSYNC_FIELDS_OF(GoogleBenchmark, context, benchmarks)

namespace {

using nlohmann::json;
using Rows = std::vector<MeasuredCollective>;

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::optional<double> number(const std::string& word) {
  char* end = nullptr;
  const double value = std::strtod(word.c_str(), &end);
  if (word.empty() || *end != '\0' || !std::isfinite(value)) return std::nullopt;
  return value;
}

int nodes_of(const std::string& path, int ranks, int ranks_per_node) {
  if (ranks_per_node > 0 && ranks % ranks_per_node == 0) return ranks / ranks_per_node;
  throw ConfigError(path, "ranks", std::to_string(ranks),
                    fmt::format("a multiple of the {} ranks of a node", ranks_per_node));
}

// ---- micro_collectives -----------------------------------------------------------------------

double unit_s(const std::string& path, const std::string& unit) {
  static const std::map<std::string, double> kUnits{
      {"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}};
  const auto known = kUnits.find(unit);
  if (known == kUnits.end()) throw ConfigError(path, "time_unit", unit, "ns, us, ms or s");
  return known->second;
}

// How many there are of what the context counts.
int count_of(const std::string& path, const std::string& field, const std::string& text) {
  const int count = std::atoi(text.c_str());
  if (count < 1) throw ConfigError(path, "context." + field, text, "1 or more");
  return count;
}

Rows read_google_benchmark(const std::string& path, const std::string& text) {
  json parsed;
  try {
    parsed = parse_json(std::string_view(text).substr(text.find('{')));
  } catch (const json::exception&) {
    throw ConfigError(path + ": expected what micro_collectives --benchmark_format=json prints");
  }
  const auto file = read_fields<GoogleBenchmark>(parsed, path);
  const int nodes = count_of(path, "nodes", file.context.nodes);
  const int ranks_per_node = count_of(path, "ranks_per_node", file.context.ranks_per_node);
  const int ranks = nodes * ranks_per_node;
  Rows rows;
  for (const GoogleRun& run : file.benchmarks) {
    const auto slash = run.name.find('/');
    const auto operation = value_named<Operation>(run.name.substr(0, slash));
    if (run.run_type != "iteration" || !operation || slash == std::string::npos) continue;
    const double bytes = std::atof(run.name.c_str() + slash + 1);
    rows.push_back({*operation, nodes, ranks_per_node, std::floor(bytes / ranks) * ranks,
                    run.real_time * unit_s(path, run.time_unit)});
  }
  return rows;
}

// ---- nccl-tests ------------------------------------------------------------------------------

struct Layout {
  int nodes = 0;
  int ranks_per_node = 0;
};

// Returns the layout from lines like "#  Rank  0 Group 0 Pid 4242 on host-a device 0 [0x10] NVIDIA
// H100".
Layout nccl_layout(const std::string& path, const std::vector<std::string>& lines) {
  static const std::regex kRank(R"(#\s+Rank\s+\d+\s.*\bon\s+(\S+)\s+device\b.*)");
  std::map<std::string, int> ranks_on;
  std::smatch found;
  for (const std::string& line : lines) {
    if (std::regex_match(line, found, kRank)) ++ranks_on[found[1]];
  }
  if (ranks_on.empty()) throw ConfigError(path + ": expected a line \"# Rank ...\" for each rank");
  const auto& [host, ranks] = *ranks_on.begin();
  for (const auto& [other, count] : ranks_on) {
    if (count == ranks) continue;
    throw ConfigError(fmt::format("{}: got {} ranks on {} and {} on {}, expected as many on each",
                                  path, ranks, host, count, other));
  }
  return {static_cast<int>(ranks_on.size()), ranks};
}

Operation nccl_operation(const std::string& path, const std::string& text, const NotInFile& more) {
  static const std::regex kStarting(R"(# Collective test starting: (\w+)_perf\b)");
  std::smatch found;
  if (std::regex_search(text, found, kStarting)) {
    if (const auto operation = value_named<Operation>(found[1].str())) return *operation;
    throw ConfigError(path, "Collective test starting", found[1], kOperations);
  }
  if (more.operation) return *more.operation;
  throw ConfigError(path + ": does not say which collective it is: name it by --operation");
}

// What busbw is of algbw, which the file's own columns must agree with.
double bus_factor(Operation operation, int ranks) {
  if (operation == Operation::Broadcast) return 1;
  const double passes = operation == Operation::AllReduce ? 2 : 1;
  return passes * (ranks - 1) / ranks;
}

// Columns of a line of numbers; the heading has one word more, the "#" before them.
struct Columns {
  std::size_t time = 0;
  double unit_s = 0;
};

std::optional<Columns> nccl_columns(const std::vector<std::string>& heading) {
  if (heading.size() < 2 || heading[0] != "#" || heading[1] != "size") return std::nullopt;
  for (std::size_t i = 2; i < heading.size(); ++i) {
    if (heading[i] == "time" || heading[i] == "cputime") return Columns{i - 1, 1e-6};
  }
  return std::nullopt;
}

void refuse_other_ratio(const std::string& path, const MeasuredCollective& row, double algbw,
                        double busbw) {
  constexpr double kLegible = 1;  // GB/s: two decimals tell the ratio from there on
  constexpr double kRounding = 0.02;
  const double expected = bus_factor(row.operation, row.nodes * row.ranks_per_node);
  if (algbw < kLegible || std::abs(busbw / algbw - expected) < kRounding * expected) return;
  throw ConfigError(path, "busbw", fmt::format("{:.3f} of algbw", busbw / algbw),
                    fmt::format("{:.3f}, as of {} over {} ranks", expected, name_of(row.operation),
                                row.nodes * row.ranks_per_node));
}

Rows read_nccl_tests(const std::string& path, const std::string& text, const NotInFile& more) {
  const std::vector<std::string> lines = lines_of(text);
  const Layout layout = nccl_layout(path, lines);
  const Operation operation = nccl_operation(path, text, more);
  std::optional<Columns> columns;
  Rows rows;
  for (const std::string& line : lines) {
    const std::vector<std::string> words = words_of(line);
    if (const auto heading = nccl_columns(words)) columns = heading;
    if (!columns || words.size() < columns->time + 3) continue;
    const auto bytes = number(words[0]);
    const auto time = number(words[columns->time]);
    const auto algbw = number(words[columns->time + 1]);
    const auto busbw = number(words[columns->time + 2]);
    if (!bytes || !time || !algbw || !busbw || *bytes <= 0 || *time <= 0) continue;
    rows.push_back(
        {operation, layout.nodes, layout.ranks_per_node, *bytes, *time * columns->unit_s});
    refuse_other_ratio(path, rows.back(), *algbw, *busbw);
  }
  return rows;
}

// ---- gloo ------------------------------------------------------------------------------------

// "allreduce_ring_chunked", "new_allreduce_ring", "allgather_ring", "cuda_broadcast_one_to_all"
std::optional<Operation> gloo_operation(const std::string& algorithm) {
  static const std::regex kAlgorithm(
      R"((?:cuda_|new_)*(allreduce|reduce_scatter|allgather|broadcast)(?:_\w+)?)");
  static const std::map<std::string, Operation> kOf{{"allreduce", Operation::AllReduce},
                                                    {"reduce_scatter", Operation::ReduceScatter},
                                                    {"allgather", Operation::AllGather},
                                                    {"broadcast", Operation::Broadcast}};
  std::smatch found;
  if (!std::regex_match(algorithm, found, kAlgorithm)) return std::nullopt;
  return kOf.at(found[1]);
}

int gloo_option(const std::string& path, const std::string& text, const std::string& name) {
  std::smatch found;
  if (std::regex_search(text, found, std::regex(name + R"(=(\d+))"))) return std::stoi(found[1]);
  throw ConfigError(path + ": expected \"" + name + "=\" among gloo's options");
}

// Elements are floats: what gloo measures without --halfprecision.
Rows read_gloo(const std::string& path, const std::string& text, const NotInFile& more) {
  constexpr double kFloat = 4;
  constexpr std::size_t kMedian = 2;  // elements, min, p50, ...
  std::smatch found;
  std::regex_search(text, found, std::regex(R"(Algorithm:\s+(\S+))"));
  const auto operation = gloo_operation(found[1]);
  if (!operation) throw ConfigError(path, "Algorithm", found[1], kOperations);
  const int ranks = gloo_option(path, text, "processes");
  const int inputs = gloo_option(path, text, "inputs");
  if (inputs != 1 || gloo_option(path, text, "threads") != 1) {
    throw ConfigError(path + ": expected inputs=1 and threads=1 among gloo's options");
  }
  const int nodes = nodes_of(path, ranks, more.ranks_per_node);
  // An all_gather's elements are a rank's share.
  const double shares = *operation == Operation::AllGather ? ranks : 1;
  Rows rows;
  double unit_s = 0;
  for (const std::string& line : lines_of(text)) {
    if (line.find("p50 (us)") != std::string::npos) unit_s = 1e-6;
    if (line.find("p50 (ns)") != std::string::npos) unit_s = 1e-9;
    const std::vector<std::string> words = words_of(line);
    if (unit_s == 0 || words.size() <= kMedian) continue;
    const auto elements = number(words[0]);
    const auto median = number(words[kMedian]);
    if (!elements || !median || *elements <= 0 || *median <= 0) continue;
    rows.push_back(
        {*operation, nodes, more.ranks_per_node, *elements * kFloat * shares, *median * unit_s});
  }
  return rows;
}

Rows read_rows(const std::string& path, const NotInFile& more) {
  const std::string text = whole_file(path);
  if (text.find("\"benchmarks\"") != std::string::npos) return read_google_benchmark(path, text);
  if (text.find("# Using devices") != std::string::npos) return read_nccl_tests(path, text, more);
  if (text.find("Algorithm:") != std::string::npos) return read_gloo(path, text, more);
  throw ConfigError(path +
                    ": expected the output of micro_collectives, nccl-tests or gloo's benchmark");
}

}  // namespace

std::vector<MeasuredCollective> read_collectives(const std::string& path, const NotInFile& more) {
  Rows rows = read_rows(path, more);
  if (rows.empty()) throw ConfigError(path + ": holds no times of collectives");
  for (const MeasuredCollective& row : rows) {
    if (row.nodes * row.ranks_per_node > 1) continue;
    throw ConfigError(path, "ranks", "1", "2 or more: one alone sends nothing");
  }
  return rows;
}

}  // namespace gradsync::predict
