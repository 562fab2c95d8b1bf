#include "harness/report/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "harness/base/units.h"
#include "harness/text/labels.h"
#include "harness/text/text_table.h"

namespace gradsync::report {

using results::CellResult;
using results::Parameters;
using summary::CellView;
using summary::PartView;
using text::Align;
using text::Blocks;
using text::Prose;

namespace {

constexpr int kWorldSize = 8;
constexpr double kGiB = 0x1p30;

struct PublishedFitRow {
  std::string label;  // the guide's head of it
  std::string strategy;
  int accumulation_steps = 0;
  std::string result;  // "69G", "OOM"

  bool fits() const { return result != "OOM"; }
};

std::vector<PublishedFitRow> published_rows(const PublishedMemory& reference) {
  std::vector<PublishedFitRow> rows;
  for (const PublishedFit& fit : reference.published) {
    rows.push_back({fmt::format("no_sync{} (accum={})", fit.no_sync ? "" : " disabled",
                                fit.accumulation_steps),
                    fit.no_sync ? "no_sync" : "sync_each_batch", fit.accumulation_steps,
                    fit.result});
  }
  return rows;
}

using Cells = std::vector<const CellView*>;

bool is_twin(const CellView& cell) {
  const text::TopologyLabel& topology = cell.name.topology;
  return cell.cell.model() == "mixtral_8x7b" && cell.cell.wrapper() == "fsdp" &&
         topology.nodes * topology.ranks_per_node == kWorldSize;
}

// All but what tells the published rows apart.
Parameters setting_of(const CellResult& cell) {
  return cell.cell.without({"strategy", "accumulation_steps"});
}

const CellResult* find_cell(const Cells& cells, const Parameters& setting,
                            const PublishedFitRow& row) {
  const auto found = std::ranges::find_if(cells, [&](const CellView* cell) {
    return setting_of(*cell) == setting && cell->cell.strategy() == row.strategy &&
           cell->cell.accumulation_steps() == row.accumulation_steps;
  });
  return found == cells.end() ? nullptr : *found;
}

bool measured(const CellResult* cell) {
  return cell != nullptr && (cell->is_ok() || cell->status == results::Status::Oom);
}

double bytes_or_0(const Known<std::int64_t>& bytes) {
  return bytes ? static_cast<double>(*bytes) : 0;
}

// "58.2 to 63.1 GiB": from the peak of the tensors to what an allocator would have reserved.
std::string range_text(const CellResult& cell) {
  const double allocated = bytes_or_0(cell.peak_allocated_bytes);
  const double reserved = bytes_or_0(cell.peak_reserved_estimate_bytes);
  if (!cell.is_ok() || allocated == 0) return "-";
  if (reserved == 0) return fmt::format("{:.1f} GiB", allocated / kGiB);
  return fmt::format("{:.1f} to {:.1f} GiB", allocated / kGiB, reserved / kGiB);
}

// "69G" in bytes, G as 1e9 and as 2^30: which of them is meant was not published.
struct Readings {
  double low = 0;
  double high = 0;
};
Readings readings_of(const std::string& published) {
  const double number = std::stod(published);
  return {number * 1e9, number * kGiB};
}

// What speaks against the published row; "" for nothing.
std::string contradiction(const PublishedFitRow& row, const CellResult& cell) {
  if (row.fits() != cell.is_ok()) {
    return fmt::format("{}: published {}, here {}", row.label, row.result, verdict_text(cell));
  }
  const double allocated = bytes_or_0(cell.peak_allocated_bytes);
  if (!row.fits() || allocated <= readings_of(row.result).high) return "";
  return fmt::format("{}: published {}, here the tensors alone take {}", row.label, row.result,
                     format_bytes(allocated));
}

std::string verdict(const Cells& cells, const Parameters& setting,
                    const std::vector<PublishedFitRow>& rows) {
  std::vector<std::string> missing;
  std::vector<std::string> against;
  for (const PublishedFitRow& row : rows) {
    const CellResult* cell = find_cell(cells, setting, row);
    if (!measured(cell)) {
      missing.push_back(row.label);
    } else if (std::string text = contradiction(row, *cell); !text.empty()) {
      against.push_back(std::move(text));
    }
  }
  if (!against.empty()) {
    return fmt::format("This differs from the published table. {}.\n", fmt::join(against, "; "));
  }
  if (!missing.empty()) {
    return fmt::format("No verdict: not measured here: {}.\n", fmt::join(missing, ", "));
  }
  return fmt::format(
      "This is consistent with the published table: whether it fits agrees in all {} rows.\n",
      rows.size());
}

// How a published number lies to the peaks of the rows that it was published for.
std::string number_text(const Cells& cells, const Parameters& setting,
                        const std::vector<PublishedFitRow>& rows, const std::string& published) {
  double highest = 0;
  for (const PublishedFitRow& row : rows) {
    const CellResult* cell = find_cell(cells, setting, row);
    if (row.result != published || cell == nullptr || !cell->is_ok()) continue;
    highest = std::max(highest, bytes_or_0(cell->peak_allocated_bytes));
  }
  const Readings readings = readings_of(published);
  if (highest == 0 || highest > readings.low) return "";
  return fmt::format(
      "{} is {:.1f} GiB, or {:.1f} if G is 1e9: {:.1f} to {:.1f} GiB above the highest peak "
      "allocated.\nThere lies what is not counted: fragments of the allocator (the upper end is an "
      "estimate with\nthem), buffers of NCCL and other libraries, the GPU's context, activations "
      "of more tokens.\n",
      published, readings.high / kGiB, readings.low / kGiB, (readings.low - highest) / kGiB,
      (readings.high - highest) / kGiB);
}

std::string hypotheses(const Parameters& setting, const PublishedMemory& reference) {
  std::string text = fmt::format(
      "Supposed: {} parameters ({} to compute, {} to reduce), AdamW with two moments of the same "
      "type,\n{} x {} tokens per micro-batch",
      setting.dtype(), setting.param_dtype(), setting.reduce_dtype(), setting.micro_batch_size(),
      setting.sequence_length());
  if (const auto budget = setting.memory_budget_bytes()) {
    text += fmt::format(", {} for a rank's tensors", format_bytes(*budget));
  }
  return text +
         fmt::format(".\nNot published: {}.\n", fmt::join(reference.setup.unpublished, ", "));
}

Blocks table_of(const Cells& cells, const Parameters& setting, const PublishedMemory& reference) {
  const auto rows = published_rows(reference);
  text::TextTable table({{"the guide's row", Align::Left},
                         {"published", Align::Left},
                         {"here", Align::Left},
                         {"of a rank", Align::Right}});
  std::set<std::string> numbers;
  for (const PublishedFitRow& row : rows) {
    const CellResult* cell = find_cell(cells, setting, row);
    table.add_row({row.label, row.result, cell ? verdict_text(*cell) : "not run",
                   cell ? range_text(*cell) : "-"});
    if (row.fits()) numbers.insert(row.result);
  }
  const std::string head = fmt::format(
      "The guide's second table ({}), beside one rank of {} here; of a\nrank: peak allocated, to "
      "what an allocator would have reserved (an estimate).\n",
      reference.setup.gpus, kWorldSize);
  std::string text = verdict(cells, setting, rows);
  for (const std::string& number : numbers) text += number_text(cells, setting, rows, number);
  return {Prose{head}, table, Prose{text + hypotheses(setting, reference)}};
}

}  // namespace

Blocks guide_memory_table(const std::vector<PartView>& parts,
                          const std::optional<PublishedMemory>& reference) {
  if (!reference) return {};
  Cells cells;
  std::vector<Parameters> settings;
  for (const PartView& part : parts) {
    for (const CellView& cell : part.cells) {
      cells.push_back(&cell);
      const Parameters setting = setting_of(cell);
      if (is_twin(cell) && std::ranges::find(settings, setting) == settings.end())
        settings.push_back(setting);
    }
  }
  Blocks tables;
  for (const Parameters& setting : settings)
    text::append(tables, table_of(cells, setting, *reference));
  return tables;
}

}  // namespace gradsync::report
