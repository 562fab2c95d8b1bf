// What was found out of a job's memory, as a page and as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/fit/job_fit.h"

namespace gradsync::fit {

// Markdown tables and sentences, at most 100 characters wide.
std::string fit_page(const JobFit& fit);

// The job as it is, and with each lever.
struct LeverFit {
  std::string name;
  std::optional<JobFit> fit;  // unset: see `failure`
  std::string failure;
};

std::string levers_page(const JobFit& without, const std::vector<LeverFit>& tried);

// An object, schema gradsync.paper_memory/1; with "levers" where some were tried.
nlohmann::json fit_json(const JobFit& fit, const std::vector<LeverFit>& tried = {});

}  // namespace gradsync::fit
