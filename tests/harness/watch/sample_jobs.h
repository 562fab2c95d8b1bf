// Jobs that several tests look at: one rank of each.
#pragma once

#include <string>
#include <vector>

#include "tests/harness/watch/made_job.h"

namespace gradsync::test {

// Six steps of 4 micro-batches, as their names say.
MadeJob proper_job(int rank);
MadeJob improper_job(int rank);        // no_sync round backward alone
MadeJob never_job(int rank);           // all under no_sync
MadeJob fsdp_job(int rank);            // without no_sync
MadeJob hybrid_job(int rank);          // all in every micro-batch
MadeJob several_models_job(int rank);  // one with an optimizer of its own, every micro-batch
MadeJob cleared_job(int rank);         // gradients cleared between two micro-batches
MadeJob batch_norm_job(int rank);      // every micro-batch, buffers too, unused parameters searched
MadeJob one_bucket_job(int rank);      // one micro-batch, and one bucket for 16 MiB
MadeJob by_hand_job(int rank);         // the same without a wrapper, tensor by tensor
MadeJob chattering_job(int rank);      // barriers, objects and numbers in every step

// Two ranks of a job that synchronizes in every micro-batch; sizes and ends were not seen.
std::vector<watch::RankEvents> job_without_times();

struct SampleJob {
  std::string name;
  std::vector<watch::RankEvents> processes;
};

// All of these, of two ranks each, and an odd one: one of four ranks was seen, with faults.
std::vector<SampleJob> sample_jobs();

}  // namespace gradsync::test
