#include "benchmarks/commands/step_models.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <variant>

#include "harness/base/errors.h"
#include "harness/base/fields.h"
#include "harness/base/json_fields.h"
#include "harness/base/named.h"
#include "harness/session/rank_program.h"
#include "models/profile.h"
#include "models/suite.h"

namespace gradsync::cli {
namespace {

// The field that every file of the suite has.
struct Kind {
  std::string schema;
};

constexpr auto fields_of(const Kind*) {
  return std::tuple{field("schema", &Kind::schema).later()};
}

// Returns the schema that the file names; "" if it is no file.
std::string schema_of(const std::string& path) {
  if (!std::filesystem::is_regular_file(path)) return "";
  return read_fields<Kind>(read_json_file(path), path).schema;
}

// Returns the step of a model that computes. fully_shard divides it into the units that were
// recorded with it; in a paced model each layer is a unit.
predict::StepModel recorded_model(const std::string& file, bool is_sharded) {
  const models::Profile profile = models::read_profile(file);
  predict::StepModel model = predict::step_model_of(profile, 1);
  if (!is_sharded) return model;
  std::vector<std::string> units;
  if (profile.memory) {
    for (const std::size_t module : models::modules_named(*profile.memory, profile.memory->units)) {
      units.push_back(profile.memory->modules[module].name);
    }
  }
  return predict::divided_into(units, model);
}

}  // namespace

bool is_model(const std::string& name) {
  if (entry_named(models::suite(), name)) return true;
  return models::is_profile(name) && schema_of(name).starts_with("gradsync.profile/");
}

std::string profile_of(const std::string& name) {
  if (models::is_profile(name)) return name;
  const models::SuiteModel* model = entry_named(models::suite(), name);
  if (!model) session::find_model(name);  // names those there are
  const auto* paced = model ? std::get_if<models::PacedConfig>(&model->config) : nullptr;
  return paced ? paced->profile : "";
}

std::string what_to_record(const std::string& name) {
  return fmt::format(
      "the times of {}'s layers are not recorded; record them on the machine itself: "
      "models/record_profile.py FILE.py:build --out {}.json",
      name, name);
}

StepModels::StepModels(const std::vector<std::string>& recorded) {
  for (const std::string& each : recorded) {
    const std::size_t equals = each.find('=');
    if (equals == std::string::npos || !models::is_profile(each.substr(equals + 1))) {
      throw ConfigError(
          fmt::format("--profile: got '{}', expected MODEL=FILE, a name that ends in .json", each));
    }
    session::find_model(each.substr(0, equals));  // names those there are
    recorded_[each.substr(0, equals)] = each.substr(equals + 1);
  }
}

const Known<predict::StepModel>& StepModels::find(const plan::Cell& cell) {
  const auto key = std::tuple{cell.model, cell.scale, cell.wrapper == "fsdp"};
  const auto found = known_.find(key);
  return found != known_.end() ? found->second : known_[key] = read(cell);
}

void StepModels::refuse_unused() const {
  for (const auto& recorded : recorded_) {
    const bool is_used = std::ranges::any_of(known_, [&recorded](const auto& each) {
      return std::get<0>(each.first) == recorded.first;
    });
    if (is_used) continue;
    throw ConfigError(fmt::format("--profile: got {}={}, expected a cell's model", recorded.first,
                                  recorded.second));
  }
}

Known<predict::StepModel> StepModels::read(const plan::Cell& cell) const {
  const auto recorded = recorded_.find(cell.model);
  if (recorded != recorded_.end()) return recorded_model(recorded->second, cell.wrapper == "fsdp");
  const std::string profile = profile_of(cell.model);
  if (profile.empty()) {
    return Unknown{fmt::format("{}; --profile {}={}.json takes them", what_to_record(cell.model),
                               cell.model, cell.model)};
  }
  return predict::step_model_of(models::read_profile(profile), cell.scale);
}

}  // namespace gradsync::cli
