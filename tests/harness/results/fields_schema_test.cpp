// The lists of fields that files are read and written by, against the JSON Schemas that say what
// every field means: the same names, of the same types, and what a reader needs is required.
// Covers: result.cpp.
#include <gmock/gmock.h>

#include <algorithm>

#include "harness/base/json_fields.h"
#include "harness/results/result.h"
#include "tests/paths.h"

namespace gradsync::results {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

json types_of(const json& schema) {
  json types = schema.value("type", json::array());
  for (const json& value : schema.value("enum", json::array())) {
    types.push_back(value.is_number() ? "integer" : value.type_name());
  }
  return types.is_array() ? types : json::array({types});
}

bool contains(const json& list, const json& value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

class Comparison {
 public:
  Comparison(const json& list, const std::string& file)
      : file_(read_json_file(test::path_of("source") + "/results/schema/" + file)) {
    compare(list, file_, "");
  }

  std::vector<std::string> differences;
  std::vector<std::string> only_in_file;

 private:
  json resolved(json schema) const {
    while (schema.contains("$ref")) {
      schema = file_.at(json::json_pointer(schema["$ref"].get<std::string>().substr(1)));
    }
    return schema;
  }

  void compare(const json& list, const json& in_file, const std::string& path) {
    const json file = resolved(in_file);
    for (const char* exact : {"enum", "const"}) {
      if (list.contains(exact) && list[exact] != file.value(exact, json())) {
        differences.push_back(path + ": " + exact);
      }
    }
    for (const json& type : types_of(list)) {
      if (!contains(types_of(file), type)) differences.push_back(path + ": " + type.dump());
    }
    if (list.contains("properties")) compare_fields(list, file, path);
    for (const char* inner : {"items", "additionalProperties"}) {
      if (list.contains(inner))
        compare(list[inner], file.value(inner, json::object()), path + "[]");
    }
  }

  void compare_fields(const json& list, const json& file, const std::string& path) {
    for (const auto& [name, field] : list["properties"].items()) {
      const bool known = file["properties"].contains(name);
      if (known) compare(field, file["properties"][name], path + "." + name);
      if (!known) differences.push_back(path + "." + name + ": not in the file");
    }
    for (const auto& [name, field] : file["properties"].items()) {
      if (!list["properties"].contains(name)) only_in_file.push_back(path + "." + name);
    }
    for (const json& name : list["required"]) {
      if (contains(file["required"], name)) continue;
      differences.push_back(path + "." + name.get<std::string>() + ": not required in the file");
    }
  }

  json file_;
};

TEST(FieldsSchema, OfATrialIsThatOfTheFile) {
  const Comparison trial(trial_schema(), "trial.schema.json");
  EXPECT_THAT(trial.differences, IsEmpty());
  EXPECT_THAT(trial.only_in_file, IsEmpty());
}

TEST(FieldsSchema, OfAResultIsThatOfTheFile) {
  const Comparison result(result_schema(), "result.schema.json");
  EXPECT_THAT(result.differences, IsEmpty());
  EXPECT_THAT(result.only_in_file, ElementsAre(".cells[].model_info")) << "of earlier files";
}

TEST(FieldsSchema, AnotherFilesSchemaDiffers) {
  EXPECT_THAT(Comparison(trial_schema(), "result.schema.json").differences,
              ::testing::Contains(".ranks: not in the file"));
}

}  // namespace
}  // namespace gradsync::results
