#include "harness/report/published.h"

#include <filesystem>

#include "harness/base/fields.h"
#include "harness/base/json_fields.h"

namespace gradsync::report {

constexpr auto fields_of(const PublishedSlowdowns*) {
  return std::tuple{field("published", &PublishedSlowdowns::published),
                    field("raw_runs", &PublishedSlowdowns::raw_runs)};
}

constexpr auto fields_of(const PublishedFit*) {
  return std::tuple{field("no_sync", &PublishedFit::no_sync),
                    field("accumulation_steps", &PublishedFit::accumulation_steps),
                    field("result", &PublishedFit::result)};
}

constexpr auto fields_of(const MemorySetup*) {
  return std::tuple{field("gpus", &MemorySetup::gpus),
                    field("unpublished", &MemorySetup::unpublished)};
}

constexpr auto fields_of(const PublishedMemory*) {
  return std::tuple{field("setup", &PublishedMemory::setup),
                    field("published", &PublishedMemory::published)};
}

namespace {

template <typename Table>
std::optional<Table> read_table(const std::string& file) {
  if (!std::filesystem::exists(file)) return std::nullopt;
  return read_fields<Table>(read_json_file(file), file);
}

}  // namespace

References read_references(const std::string& directory) {
  return {.slowdown_table = read_table<PublishedSlowdowns>(directory + "/slowdown_table.json"),
          .memory_table = read_table<PublishedMemory>(directory + "/memory_table.json")};
}

}  // namespace gradsync::report
