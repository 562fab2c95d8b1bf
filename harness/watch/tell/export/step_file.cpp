#include "harness/watch/tell/export/step_file.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "harness/base/clock.h"
#include "harness/base/errors.h"

namespace gradsync::watch {
namespace {

std::int64_t size_so_far(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) return 0;
  if (!std::filesystem::is_regular_file(status)) {
    throw ResultsError(fmt::format("{}: is there, and no regular file", path));
  }
  return static_cast<std::int64_t>(std::filesystem::file_size(path, error));
}

}  // namespace

StepFile::StepFile(const std::string& path, const std::string& head, Piece piece)
    : file_(
          std::make_unique<results::GrowingFile>(AT_FDCWD, path.c_str(), path, size_so_far(path))),
      piece_(std::move(piece)) {
  file_->append(head);
}

void StepFile::append(const std::vector<WatchedStep>& steps, double since_1970_s) {
  if (steps.empty()) return;
  if (std::exchange(pid_, steps.front().pid) != steps.front().pid) added_ = 0;
  std::string pieces;
  for (std::size_t i = added_; i < steps.size(); ++i) {
    pieces += piece_(steps[i], since_1970_s + seconds(steps[i].end_ns));
  }
  if (!pieces.empty()) file_->append(pieces);
  added_ = std::max(added_, steps.size());
}

}  // namespace gradsync::watch
