// What a run's page says first: one sentence, and how the guide's claims fared.
#pragma once

#include <string>
#include <vector>

#include "harness/results/result.h"
#include "harness/summary/guide_claims.h"

namespace gradsync::html {

// Returns one sentence, as text: what was found of memory, else the largest cost that is decided,
// else what keeps it from being decided.
std::string answer_of(const results::Result& result,
                      const std::vector<summary::GuideClaim>& claims);

// Returns one sentence as HTML, with a link to the claims (id "claims").
std::string lead_of(const std::vector<summary::GuideClaim>& claims);

}  // namespace gradsync::html
