// Has torch's caching allocator tell what it does, and keeps it (allocation_file.h). A library for
// inside a job, compiled against the job's own torch; the Python hook of gradsync watch loads it
// when the job first uses a GPU.
//
// torch asks where Python is before it takes the lock of a device's allocator, and tells what was
// done while it holds that: only the first may take the interpreter's.
#include <c10/cuda/CUDACachingAllocator.h>
#include <dlfcn.h>

#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <tuple>

#include "harness/fit/recorder/allocation_file.h"
#include "harness/fit/recorder/record_file.h"
#include "harness/paper/standins/python_frames.h"

namespace gradsync::fit {
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

// What names a site: where Python is, and in which module.
using Place = std::tuple<std::string, int, std::string, const void*>;

struct State {
  std::mutex mutex;  // taken last, within the allocator's: nothing else is done under it
  RecordFile file;
  std::FILE* names = nullptr;
  std::map<Place, std::uint32_t> sites;
};

State& state() {
  static State& state = *new State;  // frees come after main, too
  return state;
}

constexpr const char* kModuleFile = "/torch/nn/modules/module.py";
constexpr const char* kModuleCall = "_call_impl";

// Files of torch that allocate for their callers.
bool is_go_between(std::string_view file) {
  return file.ends_with("/torch/storage.py") || file.ends_with("/torch/_tensor.py") ||
         file.ends_with("/torch/_ops.py");
}

// What torch keeps with a block for us.
struct Context : c10::GatheredContext {
  Place place{"", 0, "", nullptr};
};

// The innermost frame that counts, and the innermost module whose forward is under way on this
// thread.
std::shared_ptr<c10::GatheredContext> gather() {
  auto context = std::make_shared<Context>();
  auto& [file, line, function, module] = context->place;
  paper::with_interpreter([&] {
    paper::for_each_frame([&](const paper::PythonFrame& frame) {
      if (file.empty() && !is_go_between(frame.file())) {
        file = frame.file();
        line = frame.line();
        function = frame.function();
      }
      if (frame.function() != kModuleCall || !frame.file().ends_with(kModuleFile)) return true;
      module = frame.local("self");
      return false;
    });
  });
  return context;
}

// Torch keeps contexts only with its own history: the shortest there is.
void ask_for_contexts() {
  const auto ask = [](auto* own) {
    constexpr auto kWhen = allocator::RecordContext::ALLOC;
    if constexpr (requires { own->recordHistory(true, gather, 1, kWhen, false, {}); }) {
      own->recordHistory(true, gather, 1, kWhen, false, {});
    } else {
      own->recordHistory(true, gather, 1, kWhen, false);
    }
  };
  ask(allocator::get());
}

// Call with the state's lock.
std::uint32_t number_of(State& state, const Place& place) {
  const auto next = static_cast<std::uint32_t>(state.sites.size() + 1);
  const auto [found, is_new] = state.sites.try_emplace(place, next);
  if (is_new && state.names != nullptr) {
    const auto& [file, line, function, module] = place;
    std::fprintf(state.names, "site\t%u\t%llu\t%d\t%s\t%s\n", next,
                 static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(module)), line,
                 function.c_str(), file.c_str());
    std::fflush(state.names);
  }
  return found->second;
}

template <typename Entry>
Action action_of(const Entry& entry) {
  switch (entry.action_) {
    case Entry::ALLOC:
      return Action::Alloc;
    case Entry::FREE_REQUESTED:
      return Action::Free;
    case Entry::FREE_COMPLETED:
      return Action::FreeCompleted;
    case Entry::SEGMENT_ALLOC:
      return Action::SegmentAlloc;
    case Entry::SEGMENT_FREE:
      return Action::SegmentFree;
    case Entry::SEGMENT_MAP:
      return Action::SegmentMap;
    case Entry::SEGMENT_UNMAP:
      return Action::SegmentUnmap;
    case Entry::OOM:
      return Action::OutOfMemory;
    default:
      return Action::End;
  }
}

// Torch's releases differ in both.
template <typename Entry>
std::uint64_t stream_of(const Entry& entry) {
  if constexpr (requires { entry.stream_.id(); }) {
    return static_cast<std::uint64_t>(entry.stream_.id());
  } else {
    return reinterpret_cast<std::uint64_t>(entry.stream_);
  }
}

template <typename Entry>
std::uint64_t pool_of(const Entry& entry) {
  if constexpr (requires { entry.mempool_.first; }) {
    return entry.mempool_.first != 0 ? entry.mempool_.first : entry.mempool_.second << 32U;
  }
  return 0;
}

// Returns a function that the GPUs of paper have for this; null where a process has real ones.
template <typename Function>
Function* of_paper(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_DEFAULT, name));
}

// Torch completes a free at once, or asks for an event of each stream that used the block first.
std::uint32_t events_asked_since_free(Action action) {
  static auto* count = of_paper<std::uint64_t()>("gradsync_paper_events_asked");
  thread_local std::uint64_t at_free = 0;
  if (count == nullptr) return 0;
  if (action == Action::Free) at_free = count();
  return static_cast<std::uint32_t>(count() - at_free);
}

// Nothing is computed into it: it is to read as zeros, not as what was there before.
void renew(const AllocationRecord& record) {
  static auto* new_block = of_paper<void(void*, std::size_t)>("gradsync_paper_new_block");
  if (new_block == nullptr) return;
  new_block(reinterpret_cast<void*>(static_cast<std::uintptr_t>(record.address)), record.size);
}

void keep(AllocationRecord record, const Place* place) {
  const auto statistics = allocator::getDeviceStats(static_cast<c10::DeviceIndex>(record.device));
  record.peak_allocated = statistics.allocated_bytes[0].peak;
  record.peak_reserved = statistics.reserved_bytes[0].peak;
  const std::lock_guard lock(state().mutex);
  if (place != nullptr) record.site = number_of(state(), *place);
  state().file.append(record);
}

template <typename Entry>
void see(const Entry& entry) {
  AllocationRecord record{};
  record.action = action_of(entry);
  if (record.action == Action::End) return;  // a snapshot
  record.device = static_cast<std::uint16_t>(entry.device_);
  record.address = entry.addr_;
  record.size = entry.size_;
  record.stream = stream_of(entry);
  record.pool = pool_of(entry);
  const std::uint32_t asked = events_asked_since_free(record.action);
  if (record.action == Action::FreeCompleted) record.site = asked;
  if (record.action == Action::Alloc) renew(record);
  const auto* context = dynamic_cast<const Context*>(entry.context_.get());
  const bool is_known = context != nullptr && !std::get<0>(context->place).empty();
  keep(record, record.action == Action::Alloc && is_known ? &context->place : nullptr);
}

void label(int device, std::uint64_t address, Holds holds) {
  AllocationRecord record{};
  record.action = Action::Label;
  record.holds = holds;
  record.device = static_cast<std::uint16_t>(device);
  record.address = address;
  keep(record, nullptr);
}

void mark(int device, Action action) {
  AllocationRecord record{};
  record.action = action;
  record.device = static_cast<std::uint16_t>(device);
  keep(record, nullptr);
}

}  // namespace
}  // namespace gradsync::fit

#define GRADSYNC_EXPORT extern "C" __attribute__((visibility("default")))

// Records from here on into PATH.records and PATH.names. Call once, after torch has initialized its
// GPUs. Returns whether it does.
GRADSYNC_EXPORT bool gradsync_record_allocations(const char* path) {
  using namespace gradsync::fit;
  State& own = state();
  if (!own.file.open(std::string(path) + kAllocationSuffix)) return false;
  own.names = std::fopen((std::string(path) + kNamesSuffix).c_str(), "a");
  if (own.names == nullptr) return false;
  ask_for_contexts();
  using Told = void(int device, void* workspace);
  if (auto* tell = of_paper<void(Told*)>("gradsync_paper_tell_workspaces"); tell != nullptr) {
    tell([](int device, void* workspace) {
      label(device, reinterpret_cast<std::uintptr_t>(workspace), Holds::Workspace);
    });
  }
  allocator::attachAllocatorTraceTracker([](const auto& entry) { see(entry); });
  return true;
}

// Each says what the block that holds `address` is for.
GRADSYNC_EXPORT void gradsync_label_parameter(int device, std::uint64_t address) {
  gradsync::fit::label(device, address, gradsync::fit::Holds::Parameter);
}
GRADSYNC_EXPORT void gradsync_label_gradient(int device, std::uint64_t address) {
  gradsync::fit::label(device, address, gradsync::fit::Holds::Gradient);
}
GRADSYNC_EXPORT void gradsync_label_optimizer_state(int device, std::uint64_t address) {
  gradsync::fit::label(device, address, gradsync::fit::Holds::OptimizerState);
}

// What torch does not call back for.
GRADSYNC_EXPORT void gradsync_mark_empty_cache(int device) {
  gradsync::fit::mark(device, gradsync::fit::Action::EmptyCache);
}
GRADSYNC_EXPORT void gradsync_mark_end(int device) {
  gradsync::fit::mark(device, gradsync::fit::Action::End);
}

// Adds a line to the file of names.
GRADSYNC_EXPORT void gradsync_name_allocations(const char* line) {
  using namespace gradsync::fit;
  const std::lock_guard lock(state().mutex);
  if (state().names == nullptr) return;
  std::fprintf(state().names, "%s\n", line);
  std::fflush(state().names);
}
