#include "harness/base/program_files.h"
#include "harness/plan/plan.h"

namespace gradsync::plan {

std::vector<std::string> list_plans(const std::string& directory) {
  return list_json_files(directory);
}

std::string resolve_plan(const std::string& name, const std::string& directory) {
  return find_json_file("plan", name, directory);
}

}  // namespace gradsync::plan
