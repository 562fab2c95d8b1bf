// How long the rest of a plan will take, from the trials that are done.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace gradsync::text {

class Eta {
 public:
  // `cells[i]` names the cell of the i-th trial; trials of one name are expected to take equally
  // long.
  explicit Eta(std::vector<std::string> cells) : cells_(std::move(cells)) {}

  void finished(std::size_t trial, double duration_s);

  // Returns the seconds that `trial` and all after it will take, less `spent_s` already spent on
  // `trial`: each as long as the finished trials of its cell, or of any cell if it has none yet.
  // Time between trials (starting ranks) is added in proportion, from the `elapsed_s` since the
  // plan began. Nothing before the first trial is done.
  std::optional<double> remaining_s(std::size_t trial, double spent_s, double elapsed_s) const;

 private:
  struct Total {
    double duration_s = 0;
    int count = 0;
  };
  std::vector<std::string> cells_;
  std::map<std::string, Total> by_cell_;
  Total all_;
};

}  // namespace gradsync::text
