#include "harness/arms/gate_progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <iostream>

#include "harness/base/clock.h"
#include "harness/base/log.h"
#include "harness/base/units.h"

namespace gradsync::arms {
namespace {

constexpr double kRefreshS = 0.2;
constexpr const char* kClearLine = "\r\033[K";

}  // namespace

GateProgressLine::GateProgressLine(bool quiet)
    : quiet_(quiet), terminal_(isatty(STDERR_FILENO) != 0), begin_ns_(steady_clock().now_ns()) {}

GateProgressLine::~GateProgressLine() {
  if (!stage_.empty() && terminal_ && !quiet_) std::cerr << kClearLine << std::flush;
}

double GateProgressLine::elapsed_s() const {
  return seconds(steady_clock().now_ns() - begin_ns_);
}

void GateProgressLine::show(const GateProgress& progress) {
  if (quiet_) return;
  const bool new_stage = progress.stage != stage_;
  stage_ = progress.stage;
  if (!terminal_) {
    if (new_stage) log::info(fmt::format("{}: {} passes", progress.stage, progress.of));
    return;
  }
  const std::int64_t now_ns = steady_clock().now_ns();
  if (!new_stage && seconds(now_ns - shown_ns_) < kRefreshS) return;
  shown_ns_ = now_ns;
  std::cerr << kClearLine
            << fmt::format("{} | pass {}/{} | {}", progress.stage, progress.done, progress.of,
                           format_duration(elapsed_s()))
            << (budget_s_ > 0 ? " of at most " + format_duration(budget_s_) : "") << std::flush;
}

}  // namespace gradsync::arms
