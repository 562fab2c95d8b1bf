// The account of a watched job as a page has it.
#pragma once

#include <string>

#include "harness/account/account_verdict.h"

namespace gradsync::watch {

// Returns what a page says of it: the matrix of weights, and the verdicts.
std::string account_page(const account::GradientAccount& account, std::size_t width);

}  // namespace gradsync::watch
