// Finds the models whose steps are predicted, and the times of their layers.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "harness/base/known.h"
#include "harness/plan/plan.h"
#include "harness/predict/step_model.h"

namespace gradsync::cli {

// Returns whether `name` is a model or a profile, as opposed to a watched job.
bool is_model(const std::string& name);

// Returns the path of the profile that `model` is or has; "" where it has none.
// Errors: ConfigError naming the models there are.
std::string profile_of(const std::string& model);

// Returns why the step of a model without layer times cannot be predicted, and what to record.
std::string what_to_record(const std::string& model);

// Finds the step of each cell's model, or why it is not known. Files are read once.
class StepModels {
 public:
  // `recorded`: "MODEL=FILE" of models that compute, as --profile has them.
  // Errors: ConfigError if one of them is not of that form.
  explicit StepModels(const std::vector<std::string>& recorded = {});

  // Errors: ConfigError for a file that is no profile, or one without times.
  const Known<predict::StepModel>& find(const plan::Cell& cell);

  // Throws ConfigError for a recorded model that no cell has had so far.
  void refuse_unused() const;

 private:
  Known<predict::StepModel> read(const plan::Cell& cell) const;

  std::map<std::string, std::string> recorded_;  // model to file
  std::map<std::tuple<std::string, int, bool>, Known<predict::StepModel>> known_;
};

}  // namespace gradsync::cli
