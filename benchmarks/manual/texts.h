// What the help screen and the man page say beside what the parser knows.
#pragma once

#include <array>

namespace gradsync::cli {

struct Example {
  const char* command;
  const char* about;
};

inline constexpr std::array kExamples = {
    Example{"gradsync demo", "a tour of a minute"},
    Example{"gradsync watch -- torchrun --nproc-per-node 2 train.py", "watch a job of yours"},
    Example{"gradsync gate --counts counts.json -- torchrun --nproc-per-node 2 train.py",
            "fail where it synchronizes more than is checked in"},
    Example{"gradsync run smoke", "the guide's four ways, tiny"},
};

inline constexpr const char* kDoctorFirst =
    "When something is wrong, gradsync doctor says what this machine lacks.";

struct ExitMeaning {
  int status;
  const char* meaning;
};

// As in benchmarks/README.md, in short.
inline constexpr std::array kExitMeanings = {
    ExitMeaning{0, "done, passed; what is out of memory within a budget, or skipped with a reason"},
    ExitMeaning{1, "gate: a regression; watch --fail-on-excess: an excess"},
    ExitMeaning{2, "usage or configuration: names file, field, what it got, what it expected"},
    ExitMeaning{3, "gate: undecided"},
    ExitMeaning{4, "the machine is unfit, or nothing could be measured or watched"},
    ExitMeaning{5, "a trial or a job failed, or results could not be written"},
    ExitMeaning{70, "an internal check failed: a bug"},
    ExitMeaning{130, "interrupted"},
};

}  // namespace gradsync::cli
