#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <new>

#include "harness/base/errors.h"
#include "harness/comm/process_groups.h"
#include "harness/measure/memory.h"
#include "harness/run/rank_gpu.h"
#include "harness/run/rank_main.h"

namespace gradsync::run {
namespace {

std::optional<results::OomPlace> out_of_memory_place() {
  const auto report = measure::meter().last_oom();
  if (!report || report->place.micro_batch < 0 || report->place.phase.empty()) return std::nullopt;
  return results::OomPlace{report->place.micro_batch + 1, report->place.phase, report->place.unit};
}

// "micro-batch 2, backward, unit layer3; asked 1024 bytes, had 512 of a budget of 4096 bytes"
std::string out_of_memory_sentence(const std::string& what, const launch::RankProgress& progress) {
  const auto report = measure::meter().last_oom();
  if (!report) {
    return fmt::format("{} ({})", comm::CommFailure(what).sentence(), launch::describe(progress));
  }
  const measure::MemoryPlace& place = report->place;
  std::string where = place.micro_batch < 0 ? "outside a micro-batch"
                                            : fmt::format("micro-batch {}", place.micro_batch + 1);
  if (!place.phase.empty()) where += ", " + place.phase;
  if (!place.unit.empty()) where += ", unit " + place.unit;
  return fmt::format("{}; {}", where, comm::CommFailure(what).sentence());
}

// A device is also out of memory where a library takes its own, past torch's allocator, and says so
// in its own words: NCCL's for its buffers ("Cuda failure 2 'out of memory'" of 2.2x, without the
// number before), cuBLAS's, cuDNN's and cuSOLVER's for their handles and workspaces, the driver's
// for kernels that it loads.
bool is_device_out_of_memory(const std::string& what) {
  const auto says = [&](const char* text) { return what.find(text) != std::string::npos; };
  return says("CUDA error: out of memory") || says("BLAS_STATUS_ALLOC_FAILED") ||
         says("CUDNN_STATUS_ALLOC_FAILED") || says("CUSOLVER_STATUS_ALLOC_FAILED") ||
         (says("Cuda failure") && says("'out of memory'"));
}

}  // namespace

coordinate::RankFailure rank_failure(const std::exception& error,
                                     const launch::RankProgress& progress) {
  const std::string what = error.what();
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr ||
      dynamic_cast<const std::bad_alloc*>(&error) != nullptr || is_device_out_of_memory(what)) {
    return {.status = "oom",
            .what = out_of_memory_sentence(what, progress),
            .oom_place = out_of_memory_place()};
  }
  if (dynamic_cast<const ConfigError*>(&error) != nullptr) return {"config", false, what};
  if (dynamic_cast<const EnvironmentError*>(&error) != nullptr) return {"unfit", false, what};
  if (dynamic_cast<const InternalError*>(&error) != nullptr) return {"internal", false, what};
  if (const auto* comm_error = dynamic_cast<const CommError*>(&error)) {
    return {comm_error->timed_out() ? "timeout" : "failed", true, what};
  }
  if (const auto obstacle = nccl_obstacle_here(what)) {
    return {"unfit", false, EnvironmentError(obstacle->what, obstacle->remedy).what()};
  }
  const comm::CommFailure failure(what);
  if (!failure.is_comm()) return {"failed", false, failure.sentence()};
  return {failure.timed_out() ? "timeout" : "failed", true, failure.sentence()};
}

}  // namespace gradsync::run
