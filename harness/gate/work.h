// What a training job computes in a step, exactly: its operators, the bytes that they write, its
// floating point operations. Held in a file of counts beside collectives (held_counts.h).
//
// A file holds what all steps, and two starts, have in common; the rest is chance. A file has no
// numbers of lines, which every edit moves: a line of the job is known by its file and its text.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace gradsync::gate {

// The operator that waits for a device to read a number of it, as item() does.
inline constexpr const char* kHostRead = "_local_scalar_dense";
// Begins the name of a copy between types or devices, "copy Float to BFloat16".
inline constexpr const char* kCopyPrefix = "copy ";

// What an operator, or a line of the job, does in a step.
struct OperatorWork {
  std::optional<std::int64_t> times = 0;  // absent: not the same in all steps or starts
  std::optional<std::int64_t> bytes = 0;  // of its outputs; absent: as above
  bool operator==(const OperatorWork&) const = default;
};

// A line of the job's own files that calls operators.
struct LineWork {
  std::string file;  // without its folders
  std::string text;
  int line = 0;            // in the job that was seen; 0: in what that is held against
  std::int64_t times = 0;  // of the operators that it calls; 0: it leads to such a line
  std::int64_t bytes = 0;  // of their outputs
  bool operator==(const LineWork&) const = default;
};

// What each of `ranks` does in a step.
struct RankWork {
  std::vector<int> ranks;  // in order
  std::map<std::string, OperatorWork> operators;
  std::optional<std::int64_t> flops;  // absent: not the same in all steps or starts
  std::vector<LineWork> lines;        // in the order in which they first ran; empty: not looked for
  bool operator==(const RankWork&) const = default;
};

struct HeldWork {
  std::string torch;  // another version has other operators
  std::vector<RankWork> ranks;
  bool operator==(const HeldWork&) const = default;
};

// Returns the work of these ranks; those that do the same stand together.
std::vector<RankWork> grouped(const std::vector<RankWork>& ranks);

// Returns what is the same in two starts of a job, with the lines of `second`.
HeldWork common_work(const HeldWork& first, const HeldWork& second);

// An operator that does more, or less, than is held.
struct OperatorDifference {
  std::string name;
  std::int64_t held_times = 0;
  std::int64_t seen_times = 0;
  std::int64_t held_bytes = 0;
  std::int64_t seen_bytes = 0;
  bool operator==(const OperatorDifference&) const = default;
};

// What some ranks do otherwise.
struct WorkDifference {
  std::vector<int> ranks;  // empty: every rank
  // Those that tell most first: host reads, copies, then by how many more or fewer they ran.
  std::vector<OperatorDifference> operators;
  std::optional<std::int64_t> held_flops;  // both are set where they differ, and only there
  std::optional<std::int64_t> seen_flops;
  // The lines that are not held, in the order in which they run; where there is none, those that do
  // more than is held; where there is none either, those held that do less, or that are gone.
  std::vector<LineWork> lines;
  bool operator==(const WorkDifference&) const = default;
};

// Returns the differences, of each set of ranks that differ alike. What one of the two does not
// know is not compared.
std::vector<WorkDifference> work_differences(const HeldWork& held, const HeldWork& seen);

// Returns the sentence for a difference (phrasebook.cpp).
std::string sentence(const WorkDifference& difference);

}  // namespace gradsync::gate
