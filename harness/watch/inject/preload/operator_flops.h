// Floating point operations of one call of an operator, from the shapes of its inputs, by the
// formulas of torch.utils.flop_counter.
#pragma once

#include <ATen/core/ivalue.h>

#include <cstdint>
#include <string_view>

namespace gradsync::watch {

using OperatorInputs = c10::ArrayRef<const c10::IValue>;
using FlopFormula = std::int64_t (*)(OperatorInputs inputs);

// Returns the formula of the operator "aten::mm"; null where there is none: its operations are not
// counted, or those of the operators that it calls are.
FlopFormula flop_formula(std::string_view name);

}  // namespace gradsync::watch
