// What was found out of a job's memory, as a page and as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "harness/fit/job_fit.h"

namespace gradsync::fit {

// Markdown tables and sentences, at most 100 characters wide.
std::string fit_page(const JobFit& fit);

// An object, schema gradsync.paper_memory/1.
nlohmann::json fit_json(const JobFit& fit);

}  // namespace gradsync::fit
