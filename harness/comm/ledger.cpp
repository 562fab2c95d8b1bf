#include "harness/comm/ledger.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "harness/base/errors.h"

namespace gradsync::comm {
namespace {

thread_local const char* recorded_as = nullptr;  // null: under its own name

}  // namespace

RecordedAs::RecordedAs(const char* op) : outer_(recorded_as) {
  recorded_as = op;
}

RecordedAs::~RecordedAs() {
  recorded_as = outer_;
}

void Ledger::set_place(std::int32_t step, std::int32_t micro_batch) {
  const std::lock_guard lock(mutex_);
  step_ = step;
  micro_batch_ = micro_batch;
  next_bucket_ = 0;
}

std::size_t Ledger::start(const char* op, std::int64_t bytes) {
  if (recorded_as != nullptr) op = recorded_as;
  const std::lock_guard lock(mutex_);
  Record& record = records_.emplace_back();
  const bool is_bucket = micro_batch_ >= 0 && std::string_view(op) == "all_reduce";
  record.event = {op, bytes, step_, micro_batch_, is_bucket ? next_bucket_++ : -1, clock_.now_ns(),
                  0};
  if (timeline_ != nullptr) record.start_mark = timeline_->mark();
  if (progress_ != nullptr) {
    progress_->collective.fetch_add(1, std::memory_order_relaxed);
    progress_->changed_ns.store(record.event.start_ns, std::memory_order_relaxed);
  }
  return records_.size() - 1;
}

void Ledger::complete(std::size_t index) {
  const std::int64_t now_ns = clock_.now_ns();
  {
    const std::lock_guard lock(mutex_);
    records_[index].end_ns.store(now_ns, std::memory_order_relaxed);
  }
  count_completion();
}

void Ledger::complete_on_device(std::size_t index, std::int64_t mark, int queue) {
  {
    const std::lock_guard lock(mutex_);
    records_[index].end_mark = mark;
    records_[index].queue = queue;
  }
  count_completion();
}

void Ledger::count_completion() {
  if (progress_ != nullptr) progress_->completed.fetch_add(1, std::memory_order_relaxed);
  completed_.fetch_add(1, std::memory_order_release);
}

void Ledger::settle(double timeout_s) {
  constexpr std::int64_t kPollNs = 20'000;
  const std::int64_t deadline_ns = clock_.now_ns() + nanoseconds(timeout_s);
  std::size_t started = 0;
  {
    const std::lock_guard lock(mutex_);
    started = records_.size();
  }
  while (completed_.load(std::memory_order_acquire) < started) {
    if (clock_.now_ns() > deadline_ns) {
      throw CommError(
          fmt::format("{} of {} collectives never completed", started - completed_.load(), started),
          true);
    }
    clock_.sleep_until_ns(clock_.now_ns() + kPollNs);
  }
  if (timeline_ != nullptr) resolve_marks();
}

void Ledger::resolve_marks() {
  const std::vector<std::int64_t> moments_ns = timeline_->reached([this] {
    if (progress_ != nullptr)
      progress_->changed_ns.store(clock_.now_ns(), std::memory_order_relaxed);
  });
  const auto moment_ns = [&](std::int64_t mark) {
    return moments_ns.at(static_cast<std::size_t>(mark));
  };
  const std::lock_guard lock(mutex_);
  std::map<int, std::int64_t> free_from_ns;  // when a communicator's queue has done all before
  for (Record& record : records_) {
    if (record.start_mark >= 0) record.event.start_ns = moment_ns(record.start_mark);
    if (record.end_mark < 0) continue;
    std::int64_t& free_ns = free_from_ns[record.queue];
    record.event.start_ns = std::max(record.event.start_ns, free_ns);
    free_ns = std::max(record.event.start_ns, moment_ns(record.end_mark));
    record.end_ns.store(free_ns, std::memory_order_relaxed);
  }
}

std::vector<CommEvent> Ledger::events() const {
  const std::lock_guard lock(mutex_);
  std::vector<CommEvent> events;
  events.reserve(records_.size());
  for (const Record& record : records_) {
    events.push_back(record.event);
    events.back().end_ns = record.end_ns.load(std::memory_order_relaxed);
  }
  return events;
}

void Ledger::clear() {
  const std::lock_guard lock(mutex_);
  records_.clear();
  completed_ = 0;
}

}  // namespace gradsync::comm
