#include "harness/fit/tell.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/base/fields.h"
#include "harness/base/units.h"
#include "harness/paper/words.h"
#include "harness/text/text_table.h"

namespace gradsync::fit {

GRADSYNC_FIELDS_OF(Share, who, bytes)

namespace {

using nlohmann::json;
using text::Align;
using text::TextTable;

constexpr int kSharesTold = 2;
constexpr double kPercent = 100;

std::string bytes_text(std::int64_t bytes) {
  return format_bytes(static_cast<double>(bytes));
}

const char* name_of(Outcome outcome) {
  return outcome == Outcome::Ok ? "ok" : "oom";
}

std::string place_of(const RankFit& rank) {
  return words_of(rank.place) + (rank.module.empty() ? "" : ", " + rank.module);
}

bool are_alike(const RankFit& left, const RankFit& right) {
  return left.outcome == right.outcome && left.peak_allocated_bytes == right.peak_allocated_bytes &&
         left.peak_reserved_bytes == right.peak_reserved_bytes;
}

// "0", "0 to 7": ranks that follow each other and hold the same.
std::string range_of(const RankFit& first, const RankFit& last) {
  return first.rank == last.rank ? std::to_string(first.rank)
                                 : fmt::format("{} to {}", first.rank, last.rank);
}

const char* name_of(Fits fits) {
  switch (fits) {
    case Fits::Yes:
      return "yes";
    case Fits::Barely:
      return "barely";
    case Fits::No:
      return "no";
  }
  return "";
}

std::string fits_text(const RankFit& rank, const paper::Gpus& gpus) {
  const Fits fits = fits_of(rank, gpus);
  if (fits != Fits::No) return name_of(fits);
  return rank.outcome == Outcome::OutOfMemory ? "no: out of memory" : "no: not beside its context";
}

// Where the host may run ahead of the GPU.
std::string behind_text(const RankFit& rank) {
  if (!rank.behind) return "";
  const std::string least = bytes_text(rank.peak_reserved_bytes);
  if (rank.behind->outcome == Outcome::OutOfMemory) {
    return fmt::format(
        "rank {} reserves {} or more, up to all there is and out of memory, by how far the host\n"
        "runs ahead of the GPU\n",
        rank.rank, least);
  }
  return fmt::format(
      "rank {} reserves between {} and {}, by how far the host runs ahead of the GPU\n", rank.rank,
      least, bytes_text(rank.behind->peak_reserved_bytes));
}

// Which engine cuDNN takes on a GPU is its own affair: this much is due to it.
std::string workspaces_text(const JobFit& fit) {
  if (!fit.without_workspaces) return "";
  return fmt::format("without the workspaces that cuDNN asks for, rank {} reserves {}\n",
                     fit.replayed_rank, bytes_text(fit.without_workspaces->peak_reserved_bytes));
}

std::string rank_table(const JobFit& fit) {
  TextTable table({{"ranks", Align::Left}, {"allocated"}, {"reserved"}, {"fits", Align::Left}});
  for (std::size_t first = 0; first < fit.ranks.size();) {
    std::size_t last = first;
    while (last + 1 < fit.ranks.size() && are_alike(fit.ranks[first], fit.ranks[last + 1])) ++last;
    const RankFit& rank = fit.ranks[first];
    table.add_row({range_of(rank, fit.ranks[last]), bytes_text(rank.peak_allocated_bytes),
                   bytes_text(rank.peak_reserved_bytes), fits_text(rank, fit.gpus)});
    first = last + 1;
  }
  return table.to_markdown();
}

std::string shares_text(const Part& part) {
  std::string text;
  for (int i = 0; i < std::min<int>(kSharesTold, static_cast<int>(part.shares.size())); ++i) {
    const Share& share = part.shares[static_cast<std::size_t>(i)];
    text += fmt::format("{}{} {}", i == 0 ? "" : ", ", share.who, bytes_text(share.bytes));
  }
  return text;
}

std::string part_table(const RankFit& rank) {
  TextTable table({{fmt::format("of rank {}'s peak", rank.rank), Align::Left},
                   {"bytes"},
                   {"share"},
                   {"asked for by", Align::Left}});
  for (const Part& part : rank.parts) {
    table.add_row({name_of(part.category), std::to_string(part.bytes),
                   fmt::format("{:.1f} %", kPercent * static_cast<double>(part.bytes) /
                                               static_cast<double>(rank.peak_allocated_bytes)),
                   shares_text(part)});
  }
  return table.to_markdown();
}

const RankFit& told_rank(const JobFit& fit) {
  return *std::ranges::find(fit.ranks, fit.replayed_rank, &RankFit::rank);
}

// The recording of a rank that ran out ends there.
std::string replayed_text(const Replayed& replayed, const RankFit& rank) {
  if (replayed.is_out_of_memory) return "out of memory";
  return rank.outcome == Outcome::OutOfMemory ? "gets past that point" : "";
}

std::string setting_table(const JobFit& fit) {
  TextTable table({{fit.variable, Align::Left}, {"allocated"}, {"reserved"}, {"", Align::Left}});
  const RankFit& rank = told_rank(fit);
  table.add_row({"(as the job ran)", bytes_text(rank.peak_allocated_bytes),
                 bytes_text(rank.peak_reserved_bytes), fits_text(rank, fit.gpus)});
  for (const SettingFit& tried : fit.settings) {
    table.add_row({tried.setting.empty() ? "(not set)" : std::string(tried.setting),
                   bytes_text(tried.replayed.peak_allocated_bytes),
                   bytes_text(tried.replayed.peak_reserved_bytes),
                   replayed_text(tried.replayed, rank)});
  }
  return fmt::format("The same allocations of rank {} under other settings:\n{}", fit.replayed_rank,
                     table.to_markdown());
}

std::string smi_text(const RankFit& rank) {
  const Beside beside = beside_reserved(rank.communicators);
  return fmt::format(
      "nvidia-smi would show {} to {} for rank {}, if a CUDA context\n"
      "takes 0.2 to 0.7 GiB and NCCL 0.03 to 1.6 GiB for each process group (it has {}).\n",
      bytes_text(rank.peak_reserved_bytes + beside.least),
      bytes_text(rank.peak_reserved_bytes + beside.most), rank.rank, rank.communicators);
}

json json_of(const std::optional<Behind>& behind) {
  if (!behind) return nullptr;
  return {{"peak_reserved_bytes", behind->peak_reserved_bytes},
          {"status", name_of(behind->outcome)}};
}

json json_of(const RankFit& rank, const paper::Gpus& gpus) {
  json parts = json::array();
  for (const Part& part : rank.parts) {
    json shares = json::array();
    for (const Share& share : part.shares) shares.push_back(write_fields(share));
    parts.push_back(
        {{"category", name_of(part.category)}, {"bytes", part.bytes}, {"by", std::move(shares)}});
  }
  const Beside beside = beside_reserved(rank.communicators);
  return {{"rank", rank.rank},
          {"peak_allocated_bytes", rank.peak_allocated_bytes},
          {"peak_reserved_bytes", rank.peak_reserved_bytes},
          {"status", name_of(rank.outcome)},
          {"reason", rank.reason},
          {"place", place_of(rank)},
          {"fits", name_of(fits_of(rank, gpus))},
          {"behind", json_of(rank.behind)},
          {"parts", std::move(parts)},
          {"nvidia_smi_bytes",
           {rank.peak_reserved_bytes + beside.least, rank.peak_reserved_bytes + beside.most}}};
}

json json_of(const SettingFit& tried) {
  return {{"setting", tried.setting},
          {"peak_allocated_bytes", tried.replayed.peak_allocated_bytes},
          {"peak_reserved_bytes", tried.replayed.peak_reserved_bytes},
          {"status", tried.replayed.is_out_of_memory ? "oom" : "ok"}};
}

json without_workspaces_json(const JobFit& fit) {
  if (!fit.without_workspaces) return nullptr;
  return {{"rank", fit.replayed_rank},
          {"peak_allocated_bytes", fit.without_workspaces->peak_allocated_bytes},
          {"peak_reserved_bytes", fit.without_workspaces->peak_reserved_bytes}};
}

json ranks_json(const JobFit& fit) {
  json ranks = json::array();
  for (const RankFit& rank : fit.ranks) ranks.push_back(json_of(rank, fit.gpus));
  return ranks;
}

json levers_json(const std::vector<LeverFit>& tried) {
  json list = json::array();
  for (const LeverFit& lever : tried) {
    list.push_back({{"lever", lever.name},
                    {"failure", lever.failure},
                    {"ranks", lever.fit ? ranks_json(*lever.fit) : json(nullptr)}});
  }
  return list;
}

}  // namespace

std::string fit_page(const JobFit& fit) {
  std::string page =
      fmt::format("**{}**\n\n{} x {} ({} each), {} optimizer steps, {} of {} ranks ran\n\n",
                  paper::kNothingComputed, fit.gpus.count, fit.gpus.model.product,
                  bytes_text(static_cast<std::int64_t>(fit.gpus.memory_bytes())), fit.steps,
                  fit.ranks.size(), fit.world);
  page += rank_table(fit);
  const RankFit& rank = told_rank(fit);
  page += fmt::format("\nrank {} holds most in {}\n", rank.rank, place_of(rank));
  page += behind_text(rank) + workspaces_text(fit);
  if (!rank.reason.empty()) page += fmt::format("rank {}: {}\n", rank.rank, rank.reason);
  page += "\n" + part_table(rank) + "\n" + setting_table(fit) + "\n" + smi_text(rank);
  for (const std::string& note : fit.notes) page += note + "\n";
  return page;
}

std::string levers_page(const JobFit& without, const std::vector<LeverFit>& tried) {
  TextTable table({{"lever", Align::Left},
                   {"allocated"},
                   {"reserved"},
                   {"reserves less by"},
                   {"fits", Align::Left}});
  const RankFit& before = told_rank(without);
  table.add_row({"(none)", bytes_text(before.peak_allocated_bytes),
                 bytes_text(before.peak_reserved_bytes), "", fits_text(before, without.gpus)});
  for (const LeverFit& lever : tried) {
    if (!lever.fit) {
      table.add_row({lever.name, "", "", "", lever.failure});
      continue;
    }
    const RankFit& rank = told_rank(*lever.fit);
    const std::int64_t saved = before.peak_reserved_bytes - rank.peak_reserved_bytes;
    table.add_row(
        {lever.name, bytes_text(rank.peak_allocated_bytes), bytes_text(rank.peak_reserved_bytes),
         (saved < 0 ? "-" : "") + bytes_text(std::abs(saved)), fits_text(rank, lever.fit->gpus)});
  }
  return "Each lever is a run of its own, of the rank that reserved most:\n" + table.to_markdown();
}

json fit_json(const JobFit& fit, const std::vector<LeverFit>& tried) {
  json settings = json::array();
  for (const SettingFit& setting : fit.settings) settings.push_back(json_of(setting));
  json document{
      {"schema", "gradsync.paper_memory/1"},
      {"on",
       {{"gpus", fit.gpus.count},
        {"gpu", fit.gpus.model.name},
        {"memory_bytes", fit.gpus.memory_bytes()},
        {"world", fit.world}}},
      {"steps", fit.steps},
      {"ranks", ranks_json(fit)},
      {"without_workspaces", without_workspaces_json(fit)},
      {"settings",
       {{"rank", fit.replayed_rank}, {"variable", fit.variable}, {"tried", std::move(settings)}}},
      {"failure", fit.failure},
      {"notes", fit.notes}};
  if (!tried.empty()) document.update({{"levers", levers_json(tried)}});
  return document;
}

}  // namespace gradsync::fit
