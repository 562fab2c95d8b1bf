#include "harness/report/published.h"

#include <filesystem>

#include "harness/base/fields.h"
#include "harness/base/json_fields.h"

namespace gradsync::report {

constexpr auto fields_of(const PublishedSlowdowns*) {
  return std::tuple{GRADSYNC_FIELDS(PublishedSlowdowns, published, raw_runs)};
}

constexpr auto fields_of(const PublishedFit*) {
  return std::tuple{GRADSYNC_FIELDS(PublishedFit, no_sync, accumulation_steps, result)};
}

constexpr auto fields_of(const MemorySetup*) {
  return std::tuple{GRADSYNC_FIELDS(MemorySetup, gpus, unpublished)};
}

constexpr auto fields_of(const PublishedMemory*) {
  return std::tuple{GRADSYNC_FIELDS(PublishedMemory, setup, published)};
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
