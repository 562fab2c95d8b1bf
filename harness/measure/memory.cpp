#include "harness/measure/memory.h"

#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "harness/base/errors.h"
#include "harness/measure/operator_scope.h"

namespace gradsync::measure {
namespace {

thread_local MemoryCategory current_category = MemoryCategory::Other;
thread_local bool is_for_host = false;
// Whether this thread is the rank's: it installed the meter, or has opened a scope.
thread_local bool is_own_thread = false;

std::string sentence(const OutOfMemoryReport& report) {
  if (report.budget_bytes == 0) {
    return fmt::format("asked {} bytes, which this machine does not have", report.asked_bytes);
  }
  return fmt::format("asked {} bytes, had {} of a budget of {} bytes", report.asked_bytes,
                     report.had_bytes, report.budget_bytes);
}

// A beginning is no change, and of no place.
std::vector<MemoryChange> changes_from(const HeldMemory& device, const HeldMemory& host) {
  return {{device.allocated, std::make_shared<const MemoryPlace>(), host.allocated}};
}

}  // namespace

MemoryScope::MemoryScope(MemoryCategory category)
    : outer_(std::exchange(current_category, category)) {
  is_own_thread = true;
}

MemoryScope::~MemoryScope() {
  current_category = outer_;
}

HostMemoryScope::HostMemoryScope() : outer_(std::exchange(is_for_host, true)) {}

HostMemoryScope::~HostMemoryScope() {
  is_for_host = outer_;
}

void relabel_memory(const void* data, MemoryCategory category,
                    std::optional<MemoryCategory> only_from) {
  meter().relabel(data, category, only_from);
}

// What c10 knows of the meter. The context of its pointers is the data itself, without which
// raw_allocate() would refuse it.
class MeteredAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    return owned(bytes == 0 ? nullptr : meter().allocate(static_cast<std::int64_t>(bytes)));
  }
  c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

  static c10::DataPtr owned(void* data) {
    return {data, data, &give_back, c10::Device(c10::DeviceType::CPU)};
  }
  static bool owns(const c10::DataPtr& pointer) { return pointer.get_deleter() == &give_back; }
  static void fold_output(const at::Tensor& output) {
    if (output.defined() && output.has_storage()) meter().fold(output.storage());
  }

 private:
  static void give_back(void* data) { meter().free(data); }
};

MemoryMeter& meter() {
  // Never destroyed: tensors in static variables are freed after everything else.
  static MemoryMeter& instance = *new MemoryMeter;
  return instance;
}

void MemoryMeter::install(const MemoryOptions& options) {
  const std::lock_guard lock(mutex_);
  GRADSYNC_CHECK(installed_, ==, false);
  if (options.fold_from_bytes > 0) {
    folded_ = std::make_unique<FoldedMemory>();
    observe_operators(&MeteredAllocator::fold_output);
  }
  if (options.leave_out_libraries) observe_products();
  fold_from_bytes_ = options.fold_from_bytes;
  estimate_reserved_ = options.estimate_reserved;
  if (estimate_reserved_) current_->reserved_model.emplace();
  constexpr std::uint8_t kHighestPriority = 255;
  c10::SetCPUAllocator(new MeteredAllocator, kHighestPriority);  // for the life of the process
  installed_ = true;
  is_own_thread = true;
}

bool MemoryMeter::installed() const {
  const std::lock_guard lock(mutex_);
  return installed_;
}

int MemoryMeter::account() const {
  const std::lock_guard lock(mutex_);
  return account_;
}

void MemoryMeter::switch_account(int account) {
  const std::lock_guard lock(mutex_);
  const auto [found, is_new] = accounts_.try_emplace(account);
  account_ = account;
  current_ = &found->second;
  if (is_new && estimate_reserved_) current_->reserved_model.emplace();
}

void MemoryMeter::set_budget_bytes(std::optional<std::int64_t> budget_bytes) {
  GRADSYNC_CHECK(budget_bytes.value_or(1), >, 0);
  const std::lock_guard lock(mutex_);
  budget_bytes_ = budget_bytes;
}

void MemoryMeter::set_place(int step, int micro_batch, std::string_view phase,
                            std::string_view unit) {
  auto place = std::make_shared<const MemoryPlace>(
      MemoryPlace{step, micro_batch, std::string(phase), std::string(unit)});
  const std::lock_guard lock(mutex_);
  place_ = std::move(place);
}

void MemoryMeter::set_phase(std::string_view phase, std::string_view unit) {
  const std::lock_guard lock(mutex_);
  place_ = std::make_shared<const MemoryPlace>(
      MemoryPlace{place_->step, place_->micro_batch, std::string(phase), std::string(unit)});
}

std::shared_ptr<const MemoryPlace> MemoryMeter::place() const {
  const std::lock_guard lock(mutex_);
  return place_;
}

std::optional<OutOfMemoryReport> MemoryMeter::last_oom() const {
  const std::lock_guard lock(mutex_);
  return last_oom_;
}

std::int64_t MemoryMeter::allocated_bytes() const {
  const std::lock_guard lock(mutex_);
  return current_->device.allocated_bytes;
}

CategoryBytes MemoryMeter::allocated_by_category() const {
  const std::lock_guard lock(mutex_);
  return current_->device.allocated;
}

HeldMemory MemoryMeter::host() const {
  const std::lock_guard lock(mutex_);
  return current_->host;
}

void MemoryMeter::reset_peak() {
  const std::lock_guard lock(mutex_);
  current_->device.reset_peak();
  current_->host.reset_peak();
  if (current_->reserved_model) current_->reserved_model->reset_peak();
}

std::int64_t MemoryMeter::peak_bytes() const {
  const std::lock_guard lock(mutex_);
  return current_->device.peak_bytes;
}

CategoryBytes MemoryMeter::peak_by_category() const {
  const std::lock_guard lock(mutex_);
  return current_->device.peak;
}

CategoryBytes MemoryMeter::highest_by_category() const {
  const std::lock_guard lock(mutex_);
  return current_->device.highest;
}

std::optional<std::int64_t> MemoryMeter::peak_reserved_estimate_bytes() const {
  const std::lock_guard lock(mutex_);
  if (!current_->reserved_model) return std::nullopt;
  return current_->reserved_model->peak_reserved_bytes();
}

void MemoryMeter::begin_timeline(const Clock& clock, std::size_t max_points) {
  const std::lock_guard lock(mutex_);
  clock_ = &clock;
  timeline_.emplace(max_points);
  timeline_->add({clock_->now_ns(), current_->device.allocated, place_});
}

std::vector<MemoryPoint> MemoryMeter::end_timeline() {
  const std::lock_guard lock(mutex_);
  auto points = timeline_ ? timeline_->take() : std::vector<MemoryPoint>{};
  timeline_.reset();
  return points;
}

void MemoryMeter::begin_changes() {
  const std::lock_guard lock(mutex_);
  changes_ = changes_from(current_->device, current_->host);
}

MemoryChanges MemoryMeter::take_changes() {
  const std::lock_guard lock(mutex_);
  GRADSYNC_CHECK(changes_.has_value(), ==, true);
  MemoryChanges taken{std::exchange(*changes_, changes_from(current_->device, current_->host)), {}};
  if (current_->reserved_model) taken.reserved_like = current_->reserved_model->blocks();
  return taken;
}

void MemoryMeter::end_changes() {
  const std::lock_guard lock(mutex_);
  changes_.reset();
}

void* MemoryMeter::allocate(std::int64_t bytes) {
  if (!is_own_thread || library_asks()) return c10::alloc_cpu(static_cast<std::size_t>(bytes));
  const std::lock_guard lock(mutex_);
  if (fold_failure_) std::rethrow_exception(std::exchange(fold_failure_, nullptr));
  if (!is_for_host) require_budget(bytes);
  const bool fold = is_to_fold(bytes) && !inside_operator();
  void* const data = ask_system(bytes, fold);
  const Block block{bytes, current_category, fold, is_for_host, account_, next_name_++};
  blocks_[data] = block;
  if (current_->reserved_model && !block.on_host) {
    const bool fits = current_->reserved_model->allocate(block.name, bytes);
    GRADSYNC_CHECK(fits, ==, true);  // it has no limit
  }
  current_->of(block).add(current_category, bytes);
  current_->of(block).raise_peak();
  record_change(block);
  return data;
}

void MemoryMeter::require_budget(std::int64_t bytes) {
  const std::int64_t held_bytes = current_->device.allocated_bytes;
  if (!budget_bytes_ || held_bytes + bytes <= *budget_bytes_) return;
  refuse({bytes, std::max<std::int64_t>(0, *budget_bytes_ - held_bytes), *budget_bytes_, *place_});
}

void MemoryMeter::free(void* data) {
  std::unique_lock lock(mutex_);
  const auto found = blocks_.find(data);
  if (found == blocks_.end()) {  // a tensor of no bytes, or a library's
    c10::free_cpu(data);
    return;
  }
  const Block block = found->second;
  blocks_.erase(found);
  Account& account = accounts_.at(block.account);
  if (account.reserved_model && !block.on_host) account.reserved_model->free(block.name);
  account.of(block).add(block.category, -block.bytes);
  record_change(block);
  lock.unlock();
  if (block.folded) {
    folded_->give_back(data, static_cast<std::size_t>(block.bytes));
  } else {
    c10::free_cpu(data);
  }
}

// The block keeps its place in every account; only its address changes.
void MemoryMeter::fold(const c10::Storage& storage) {
  if (!MeteredAllocator::owns(storage.data_ptr())) return;
  c10::DataPtr unfolded;  // freed after the lock, as a block that the meter does not know
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find(storage.data());
  if (found == blocks_.end() || found->second.folded || !is_to_fold(found->second.bytes)) return;
  const auto bytes = static_cast<std::size_t>(found->second.bytes);
  void* data = nullptr;
  try {
    data = folded_->map(bytes);
  } catch (const EnvironmentError&) {
    fold_failure_ = std::current_exception();  // torch lets none out of its callbacks
    return;
  }
  std::memcpy(data, storage.data(), bytes);
  auto block = blocks_.extract(found);
  block.key() = data;
  block.mapped().folded = true;
  blocks_.insert(std::move(block));
  unfolded = storage.set_data_ptr(MeteredAllocator::owned(data));
  if (spare_.try_emplace(bytes, unfolded.get()).second) unfolded.release_context();
}

void MemoryMeter::relabel(const void* data, MemoryCategory category,
                          std::optional<MemoryCategory> only_from) {
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find(data);
  if (found == blocks_.end()) return;
  Block& block = found->second;
  if (only_from && block.category != *only_from) return;
  accounts_.at(block.account).of(block).relabel(block.category, category, block.bytes);
  block.category = category;
  record_change(block);
}

bool MemoryMeter::is_to_fold(std::int64_t bytes) const {
  return fold_from_bytes_ > 0 && bytes >= fold_from_bytes_;
}

void* MemoryMeter::ask_system(std::int64_t bytes, bool fold) {
  if (fold) return folded_->map(static_cast<std::size_t>(bytes));
  if (const auto spare = spare_.extract(static_cast<std::size_t>(bytes))) return spare.mapped();
  try {
    return c10::alloc_cpu(static_cast<std::size_t>(bytes));
  } catch (const c10::Error&) {
    refuse({.asked_bytes = bytes, .place = *place_});
  }
}

void MemoryMeter::refuse(const OutOfMemoryReport& report) {
  last_oom_ = report;
  C10_THROW_ERROR(OutOfMemoryError, sentence(report));
}

void HeldMemory::add(MemoryCategory category, std::int64_t bytes) {
  bytes_of(allocated, category) += bytes;
  bytes_of(highest, category) =
      std::max(bytes_of(highest, category), bytes_of(allocated, category));
  allocated_bytes += bytes;
}

void HeldMemory::raise_peak() {
  peak_was_last = allocated_bytes > peak_bytes;
  if (!peak_was_last) return;
  peak_bytes = allocated_bytes;
  peak = allocated;
}

void HeldMemory::reset_peak() {
  peak_bytes = allocated_bytes;
  peak = allocated;
  highest = allocated;
  peak_was_last = true;
}

void HeldMemory::relabel(MemoryCategory from, MemoryCategory to, std::int64_t bytes) {
  add(from, -bytes);
  add(to, bytes);
  if (!peak_was_last) return;  // else the block, which is alive, was part of it
  bytes_of(peak, from) -= bytes;
  bytes_of(peak, to) += bytes;
}

// A timeline is the device's alone.
void MemoryMeter::record_change(const Block& block) {
  if (changes_) {
    changes_->push_back({current_->device.allocated, place_, current_->host.allocated});
  }
  if (timeline_ && !block.on_host) {
    timeline_->add({clock_->now_ns(), current_->device.allocated, place_});
  }
}

}  // namespace gradsync::measure
