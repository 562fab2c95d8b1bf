// A file that grows by a piece for each step of a watched job.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "harness/results/write_file.h"
#include "harness/watch/judge/watched_steps.h"

namespace gradsync::watch {

class StepFile {
 public:
  // Returns what is written of a step that ended `ended_s` seconds after 1970 began.
  using Piece = std::function<std::string(const WatchedStep&, double ended_s)>;

  // Opens the file at `path`, or makes it; what it has stays, and `head` follows it.
  // Errors: ResultsError where it cannot be written, or is no regular file: only these can be cut
  // where they were, when a piece does not fit.
  StepFile(const std::string& path, const std::string& head, Piece piece);

  // Adds those of `steps`, all of a job so far, that were not added before. Steps of another
  // process than before are of a job that was started again. `since_1970_s`: when Event's clock was
  // 0. Errors: ResultsError; the file then ends as before, and append may be tried again.
  void append(const std::vector<WatchedStep>& steps, double since_1970_s);

 private:
  std::unique_ptr<results::GrowingFile> file_;
  Piece piece_;
  std::int64_t pid_ = 0;  // whose steps were added
  std::size_t added_ = 0;
};

}  // namespace gradsync::watch
