// What the help screen and the man page say beside what the parser knows.
#pragma once

#include <array>

namespace gradsync::cli {

struct Example {
  const char* command;
  const char* about;
  bool is_on_first_screen = false;
};

// A command's own help shows those that begin with its name.
inline constexpr std::array kExamples = {
    Example{"gradsync demo", "a tour of a minute", true},
    Example{"gradsync watch -- torchrun --nproc-per-node 2 train.py", "watch your training job",
            true},
    Example{"gradsync gate counts counts.json -- torchrun --nproc-per-node 2 train.py",
            "fail where it synchronizes more than is checked in", true},
    Example{"gradsync run smoke", "the guide's four ways, tiny", true},
    Example{"gradsync judge rank0.json.gz rank1.json.gz", "judge by traces of torch.profiler"},
    Example{"gradsync equal -- torchrun --nproc-per-node {ranks} train.py "
            "--accumulate {micro_batches} --batch-size {micro_batch_size}",
            "compare gradients of three splits"},
    Example{"gradsync gate commands --baseline 'torchrun old.py' --candidate 'torchrun new.py'",
            "is the new script slower?"},
    Example{"gradsync gate builds gate --baseline old/build/release --candidate build/release",
            "is the new build slower?"},
    Example{"gradsync gate selftest --starts 13 --extra-work 0%,3% --out rates",
            "how often is such a gate right here?"},
    Example{"gradsync search bert_mini --set memory_budget_bytes=2GiB --largest accumulation_steps "
            "--to 64",
            "the most micro-batches that fit"},
    Example{"gradsync report results/runs/RUN --format html", "a page of a finished run"},
    Example{"gradsync predict memory --on 8xh100 -- torchrun --nproc-per-node 8 train.py",
            "peak memory of the job on GPUs that you do not have"},
    Example{"gradsync predict step paced_bert_base_t4 --topology t4_2x1 --strategy no_sync",
            "what a step will take on that cluster"},
    Example{"gradsync predict links nccl.txt --out links.json", "the links that nccl-tests timed"},
    Example{"gradsync advise paced_bert_base_t4 --topology t4_2x1,t4_4x1 --global-batch 16",
            "the fastest ways to train it there"},
};

inline constexpr const char* kDoctorFirst =
    "When something is wrong, gradsync doctor says what this machine lacks.";

struct ExitMeaning {
  int status;
  const char* meaning;
};

// As in benchmarks/README.md, in short.
inline constexpr std::array kExitMeanings = {
    ExitMeaning{0, "done, passed; also where cells ran out of their memory budget or were skipped"},
    ExitMeaning{1, "gate: a regression; watch --fail-on-excess: an excess"},
    ExitMeaning{2,
                "wrong usage or configuration: names file, field, what it got, what it expected"},
    ExitMeaning{3, "gate: undecided"},
    ExitMeaning{4, "the machine is unfit, or nothing could be measured or watched"},
    ExitMeaning{5, "a trial or a job failed, or results could not be written"},
    ExitMeaning{70, "an internal check failed: a bug"},
    ExitMeaning{130, "interrupted"},
};

}  // namespace gradsync::cli
