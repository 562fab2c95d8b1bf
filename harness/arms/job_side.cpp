#include "harness/arms/job_side.h"

#include <algorithm>
#include <optional>

#include "harness/base/build_info.h"
#include "harness/base/fields.h"

namespace gradsync::arms {
namespace {

// What is known of a training command, beside its words.
struct JobContext {
  std::string gradsync;  // this program's version
  std::string commit;
  std::string torch;  // of the command
  std::optional<int> world_size;
  std::optional<std::string> verdict;  // on what it synchronizes
};

constexpr auto fields_of(const JobContext*) {
  return std::tuple{GRADSYNC_FIELDS(JobContext, gradsync, commit, torch),
                    GRADSYNC_SPARED_FIELDS(JobContext, world_size, verdict)};
}

}  // namespace

gate::Side side_of_job(const std::string& command, const std::string& torch,
                       const watch::Watched* watched) {
  JobContext context{build_info().version, build_info().commit, torch, {}, {}};
  if (watched != nullptr) {
    context.world_size = std::max(watched->world_size, 1);  // without a process group it is alone
    context.verdict = watched->verdicts.front().sentence;
  }
  return {command, write_fields(context)};
}

}  // namespace gradsync::arms
