#include "tests/harness/watch/sample_jobs.h"

#include <algorithm>
#include <utility>

namespace gradsync::test {

namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

void unsynced(MadeJob& job) {
  job.forward(1, "no_sync").backward();
}

void proper_step(MadeJob& job) {
  job.enter_no_sync().times(3, unsynced).leave_no_sync();
  job.forward().reducing().optimizer().zero_grad();
}

// As a trace tells it, of a GPU that does at once what the host asks for: a backward computes for
// 20 ms; its collectives begin `late_ns` later than the host asks, and run until it ends.
watch::RankEvents on_gpu(watch::RankEvents process, std::int64_t late_ns) {
  watch::GpuSpans communication;
  watch::GpuSpans computation;
  watch::GpuSpans all;
  std::vector<watch::GpuProgress> progress;
  std::int64_t counted_until_ns = 0;
  for (watch::Event& event : process.events) {
    const bool is_collective = event.kind == watch::EventKind::Collective;
    const bool computes = event.kind == watch::EventKind::Forward ||
                          event.kind == watch::EventKind::Backward ||
                          event.kind == watch::EventKind::OptimizerStep;
    if (!is_collective && !computes) continue;
    watch::GpuSpan ran{event.start_ns, event.end_ns};
    if (is_collective) {
      ran.start_ns += late_ns;
      if (!computation.empty())
        counted_until_ns = std::max(counted_until_ns, computation.back().end_ns);
      const std::int64_t exposed_ns =
          std::max<std::int64_t>(0, ran.end_ns - std::max(counted_until_ns, ran.start_ns));
      event.on_gpu = {ran, exposed_ns, exposed_ns};
      counted_until_ns = std::max(counted_until_ns, ran.end_ns);
      event.end_ns = event.start_ns;
    } else {
      ran.end_ns = std::min(ran.end_ns, ran.start_ns + 20 * kMillisecond);
    }
    (is_collective ? communication : computation).push_back(ran);
    all.push_back(ran);
    progress.push_back({ran.start_ns, ran.end_ns});
  }
  process.gpu = watch::gpu_work(communication, computation, all);
  process.gpu->progress = std::move(progress);
  return process;
}

// torch.profiler recorded the second to the fourth of its steps.
watch::RankEvents recorded_on_gpu(watch::RankEvents process) {
  std::vector<std::int64_t> ends_ns;
  for (const watch::Event& event : process.events) {
    if (event.kind == watch::EventKind::OptimizerStep) ends_ns.push_back(event.end_ns);
  }
  process.gpu->recorded = {ends_ns.at(0), ends_ns.at(3)};
  for (watch::Event& event : process.events) {
    if (event.start_ns < ends_ns.at(0) || event.start_ns > ends_ns.at(3)) event.on_gpu.reset();
  }
  return process;
}

void improper_step(MadeJob& job) {
  job.times(3, [](MadeJob& j) { j.forward().enter_no_sync().reducing().leave_no_sync(); });
  job.forward().reducing().optimizer().zero_grad();
}

}  // namespace

MadeJob proper_job(int rank) {
  return MadeJob(rank).wrap().times(6, proper_step);
}

MadeJob improper_job(int rank) {
  return MadeJob(rank).wrap().times(6, improper_step);
}

MadeJob never_job(int rank) {
  return MadeJob(rank).wrap().times(6, [](MadeJob& job) {
    job.enter_no_sync().times(4, unsynced).leave_no_sync().optimizer().zero_grad();
  });
}

MadeJob fsdp_job(int rank) {
  MadeJob job(rank);
  job.wrapper = "fully_shard";
  job.reduction = "reduce_scatter";
  return job.wrap().times(6, [](MadeJob& j) {
    j.times(4, [](MadeJob& k) { k.forward().reducing(); }).optimizer().zero_grad();
  });
}

MadeJob hybrid_job(int rank) {
  MadeJob job(rank, 4);
  job.wrapper = "fully_shard";
  return job.hybrid_groups().holding({1000, 1000, 2000}).wrap().times(6, [](MadeJob& j) {
    j.times(4, [](MadeJob& k) {
       k.flag(true, 19, "set_is_last_backward").forward().hybrid(true);
     }).optimizer();
    j.zero_grad();
  });
}

MadeJob several_models_job(int rank) {
  return MadeJob(rank).wrap(1).wrap(2).times(6, [](MadeJob& job) {
    job.times(3, [](MadeJob& j) { j.forward(2).reducing(); }).optimizer().zero_grad();
    job.forward(1).reducing().optimizer().zero_grad();
  });
}

MadeJob cleared_job(int rank) {
  return MadeJob(rank).wrap().times(6, [](MadeJob& job) {
    job.forward().reducing().zero_grad(33).forward().reducing().optimizer().zero_grad();
  });
}

MadeJob batch_norm_job(int rank) {
  return MadeJob(rank).wrap(1, "find_unused_parameters=true").times(6, [](MadeJob& job) {
    job.times(4, [](MadeJob& j) { j.forward_with_buffers().reducing(); }).optimizer();
  });
}

MadeJob one_bucket_job(int rank) {
  return MadeJob(rank)
      .wrap(1, "bucket_bytes_cap=1048576000 largest_parameter_bytes=524288", 16 * kMiB)
      .times(6, [](MadeJob& job) {
        job.forward().reducing_paced(64, 80, {{80, 40, 16 * kMiB}}).optimizer().zero_grad();
      });
}

MadeJob by_hand_job(int rank) {
  std::vector<MadeJob::Paced> reductions;
  for (int i = 0; i < 32; ++i) {
    reductions.push_back({0, 1, 4096});
    reductions.push_back({0, 2, kMiB / 2});
  }
  return MadeJob(rank).times(
      6, [&](MadeJob& job) { job.reduced_by_hand(64, 80, reductions).optimizer().zero_grad(); });
}

// Without a wrapper: gradients are reduced behind each backward, which adds to what was reduced.
MadeJob each_by_hand_job(int rank) {
  return MadeJob(rank).times(6, [](MadeJob& job) {
    for (int i = 0; i < 4; ++i) {
      job.backward_of(kMiB, i == 0 ? 0 : kMiB).call("all_reduce", 9, "all_reduce", kMiB, 39);
    }
    job.optimizer().zero_grad();
  });
}

MadeJob chattering_job(int rank) {
  return MadeJob(rank).wrap(1, "", 8000).times(6, [](MadeJob& job) {
    job.forward().reducing().optimizer().zero_grad();
    job.times(3, [](MadeJob& j) { j.call("all_reduce", 4, "all_reduce", 4, 71); });
    job.call("all_reduce", 5, "all_reduce", 8, 74).call("barrier", 20, "barrier", 0, 75);
    job.call("all_gather_object", 30, "all_gather", 2000, 76);
  });
}

std::vector<watch::RankEvents> job_without_times() {
  std::vector<watch::RankEvents> processes;
  for (const int rank : {0, 1}) {
    MadeJob job(rank);
    job.ends_are_known = false;
    job.wrap().times(4, [](MadeJob& j) {
      j.times(4, [](MadeJob& k) { k.forward().reducing(kBuckets, -1); }).optimizer();
    });
    processes.push_back(job.process());
  }
  return processes;
}

std::vector<SampleJob> sample_jobs() {
  const auto two = [](MadeJob (*job)(int)) {
    return std::vector<watch::RankEvents>{job(0).process(), job(1).process()};
  };
  MadeJob alone = MadeJob(0, 4).wrap().forward(1, "no_grad eval").times(6, proper_step);
  alone.fault("12 of 900 events are not in its file").optimizer();
  MadeJob no_group = MadeJob(-1, 0).times(6, [](MadeJob& job) { job.backward().optimizer(); });
  return {
      {"proper", two(proper_job)},
      {"improper", two(improper_job)},
      {"never", two(never_job)},
      {"fsdp", two(fsdp_job)},
      {"hybrid", two(hybrid_job)},
      {"several_models", two(several_models_job)},
      {"cleared", two(cleared_job)},
      {"batch_norm", two(batch_norm_job)},
      {"one_bucket", two(one_bucket_job)},
      {"by_hand", two(by_hand_job)},
      {"each_by_hand", two(each_by_hand_job)},
      {"chattering", two(chattering_job)},
      {"without_times", job_without_times()},
      {"on_gpus",
       {on_gpu(improper_job(0).process(), 0), on_gpu(improper_job(1).process(), 2 * kMillisecond)}},
      {"recorded_on_gpus",
       {recorded_on_gpu(on_gpu(improper_job(0).process(), 0)),
        recorded_on_gpu(on_gpu(improper_job(1).process(), 2 * kMillisecond))}},
      {"one_of_four", {alone.process()}},
      {"one_process", {no_group.process()}},
      {"nothing", {}}};
}

}  // namespace gradsync::test
