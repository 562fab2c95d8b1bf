#include "harness/report/published.h"

#include <filesystem>

#include "harness/base/fields.h"
#include "harness/base/json_fields.h"

namespace gradsync::report {

GRADSYNC_FIELDS_OF(PublishedSlowdowns, published, raw_runs)
GRADSYNC_FIELDS_OF(PublishedFit, no_sync, accumulation_steps, result)
GRADSYNC_FIELDS_OF(MemorySetup, gpus, unpublished)
GRADSYNC_FIELDS_OF(PublishedMemory, setup, published)

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
