#include "harness/account/sought.h"

#include <algorithm>

namespace gradsync::account {
namespace {

// Gradients of replicas differ by less, as a share of their length: they were reduced alike. In 16
// bits replicas of one reduction are equal too.
constexpr double kSameGradient = 1e-4;
constexpr double kSameValue = 1e-6;

bool are_alike(const Sketch& a, const Sketch& b, double share) {
  const double size = std::max(squared_length(a), squared_length(b));
  return squared_distance(a, b) <= share * share * size;
}

// A part of the ranks that have or read the same.
struct Part {
  Sketch sketch{};
  std::vector<int> ranks;
};

void add_to_parts(std::vector<Part>& parts, const Sketch& sketch, int rank, double share) {
  for (Part& part : parts) {
    if (!are_alike(part.sketch, sketch, share)) continue;
    part.ranks.push_back(rank);
    return;
  }
  parts.push_back({sketch, {rank}});
}

Sought sought_of(const OfRanks& records, const std::vector<int>& ranks) {
  const ParameterRecord& first = *records.at(ranks.front());
  Sought sought;
  sought.key = {first.optimizer, first.index};
  sought.name = first.name;
  sought.dtype = first.dtype;
  sought.elements = first.elements;
  sought.ranks = ranks;
  for (const int rank : ranks) {
    for (const Contribution& each : records.at(rank)->contributions) {
      sought.columns[{rank, each.micro_batch, each.is_older}] = each.sketch;
    }
  }
  return sought;
}

bool are_whole(const OfRanks& records) {
  return std::ranges::all_of(
      records, [](const auto& record) { return record.second->length == record.second->elements; });
}

std::vector<Sought> of_replicas(const OfRanks& records, const Owners& owners) {
  std::vector<Sought> all;
  for (std::vector<int> ranks : owners) {
    std::erase_if(ranks, [&](int rank) { return !records.contains(rank); });
    std::vector<Part> reads;
    for (const int rank : ranks) {
      add_to_parts(reads, records.at(rank)->gradient, rank, kSameGradient);
    }
    for (const Part& read : reads) {
      Sought sought = sought_of(records, ranks);
      sought.readers = read.ranks;
      sought.gradient = read.sketch;
      sought.value = records.at(read.ranks.front())->value;
      all.push_back(std::move(sought));
    }
  }
  return all;
}

// A whole made of one shard of each place.
struct Whole {
  Sketch gradient{};
  Sketch value{};
  std::vector<int> ranks;
};

std::vector<Sought> of_shards(const OfRanks& records) {
  std::map<std::int64_t, std::vector<int>> by_offset;
  std::int64_t covered = 0;
  for (const auto& [rank, record] : records) {
    if (record->length == 0) continue;
    std::vector<int>& ranks = by_offset[record->offset];
    if (ranks.empty()) covered += record->length;
    ranks.push_back(rank);
  }
  const ParameterRecord& first = *records.begin()->second;
  if (covered < first.elements) return {};
  std::size_t replicas = records.size();
  for (const auto& [offset, ranks] : by_offset) replicas = std::min(replicas, ranks.size());
  std::vector<int> everybody;
  for (const auto& [rank, record] : records) everybody.push_back(rank);
  std::vector<Sought> all;
  for (std::size_t k = 0; k < replicas; ++k) {
    Sought sought = sought_of(records, everybody);
    for (const auto& [offset, ranks] : by_offset) {
      add(sought.gradient, records.at(ranks[k])->gradient);
      sought.shards[ranks[k]] = records.at(ranks[k])->gradient;
      add(sought.value, records.at(ranks[k])->value);
      sought.readers.push_back(ranks[k]);
    }
    const auto same = std::ranges::find_if(all, [&](const Sought& known) {
      return are_alike(known.gradient, sought.gradient, kSameGradient);
    });
    if (same == all.end()) {
      all.push_back(std::move(sought));
    } else {
      same->readers.insert(same->readers.end(), sought.readers.begin(), sought.readers.end());
    }
  }
  // Who has no part of it reads as the others do.
  if (all.size() == 1) all.front().readers = everybody;
  return all;
}

bool contributes(const Sought& sought) {
  return std::ranges::any_of(sought.columns,
                             [](const auto& column) { return squared_length(column.second) > 0; });
}

}  // namespace

Owners owners_of(const OfRanks& records) {
  std::vector<Part> parts;
  if (are_whole(records)) {
    for (const auto& [rank, record] : records) add_to_parts(parts, record->value, rank, kSameValue);
  } else {
    parts.emplace_back();
    for (const auto& [rank, record] : records) parts.back().ranks.push_back(rank);
  }
  Owners owners;
  for (Part& part : parts) owners.push_back(std::move(part.ranks));
  return owners;
}

std::vector<Sought> put_together(const OfRanks& records, const Owners& owners) {
  std::vector<Sought> all = are_whole(records) ? of_replicas(records, owners) : of_shards(records);
  std::erase_if(all, [](const Sought& sought) { return !contributes(sought); });
  return all;
}

}  // namespace gradsync::account
