#include "models/data_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "harness/base/errors.h"
#include "harness/base/json_fields.h"

namespace gradsync::models {
namespace {

using nlohmann::json;

std::vector<std::int64_t> ids_in(JsonFields& fields, std::int64_t vocabulary_size) {
  const json& list = fields.raw("input_ids", true);
  if (!list.is_array() || list.empty()) fields.fail("input_ids", "a list of token ids");
  std::vector<std::int64_t> ids;
  for (const json& id : list) {
    if (!id.is_number_unsigned() ||
        id.get<std::uint64_t>() >= static_cast<std::uint64_t>(vocabulary_size)) {
      fields.fail("input_ids", fmt::format("ids from 0 to {}", vocabulary_size - 1), id.dump());
    }
    ids.push_back(id.get<std::int64_t>());
  }
  return ids;
}

Example example_of_line(const std::string& line, const std::string& place,
                        std::int64_t vocabulary_size) {
  const json parsed = parse_json(line, place);
  JsonFields fields(parsed, place);
  Example example;
  example.ids = ids_in(fields, vocabulary_size);
  example.label = fields.integer("label", 0);
  if (example.label > 1) fields.fail("label", "0 or 1");
  fields.finish();
  return example;
}

}  // namespace

std::vector<Example> read_examples(const std::string& path, std::int64_t vocabulary_size,
                                   std::int64_t longest) {
  std::ifstream file(path);
  if (!file) throw ConfigError(fmt::format("{}: cannot be read: {}", path, std::strerror(errno)));
  std::vector<Example> examples;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    const std::string place = fmt::format("{}:{}", path, number);
    examples.push_back(example_of_line(line, place, vocabulary_size));
    std::vector<std::int64_t>& ids = examples.back().ids;
    if (std::ssize(ids) > longest) ids.resize(static_cast<std::size_t>(longest));
  }
  if (examples.empty()) throw ConfigError(fmt::format("{}: holds no example", path));
  return examples;
}

}  // namespace gradsync::models
