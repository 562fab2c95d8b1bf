// Which options of a cell a prediction knows. An option that is off its default and not known is
// refused: a number that silently leaves an option out is wrong.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/plan/cell.h"

namespace gradsync::plan {

struct UnknownOption {
  std::string option;
  nlohmann::json value;
  nlohmann::json usual;  // the default, which is known
  Prediction prediction = Prediction::Memory;
  std::string because;  // "": the prediction does not know the option at all
};

// Returns the first option, in the order of axes(), that `prediction` does not know in the cell of
// a plan or of a results file.
std::optional<UnknownOption> unknown_option(const nlohmann::json& cell, Prediction prediction);

// Returns a sentence about the unknown option, without its full stop.
std::string sentence(const UnknownOption& unknown);

// Returns the sentence of unknown_option(); "": all options are known.
std::string why_unknown(const nlohmann::json& cell, Prediction prediction);

// Sets the options that `prediction` does not know to their defaults.
void forget_unknown(Cell& cell, Prediction prediction);

// Refuses options that the `overrides` of --set ask for and that `prediction` does not know in
// `cells`. A prediction from a profile also refuses another micro-batch size than the recorded one.
// Errors: ConfigError, which begins with `who`.
void refuse_unknown(const std::vector<std::string>& overrides, const std::vector<Cell>& cells,
                    Prediction prediction, const std::string& who);

}  // namespace gradsync::plan
