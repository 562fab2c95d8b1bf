#include "harness/watch/inject/preload/recorder.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "harness/watch/inject/preload/inside.h"

namespace gradsync::watch {
namespace {

constexpr int kMostFilesOfAProcess = 10;  // one for each program that it became by exec

thread_local std::int64_t known_thread = 0;  // of the kernel's numbers; 0: not asked yet

std::int64_t this_thread() {
  if (known_thread == 0) known_thread = ::syscall(SYS_gettid);
  return known_thread;
}

template <std::size_t size>
void put(char (&field)[size], std::string_view text) {
  field[text.copy(field, size - 1)] = '\0';
}

int number_from_environment(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == '\0') return otherwise;
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  return *end == '\0' && value >= 0 && value < (1L << 30) ? static_cast<int>(value) : otherwise;
}

// A file that grows beyond the limit gets its process a signal, not an error.
bool may_grow_to(std::size_t size) {
  rlimit limit{};
  return ::getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
         (limit.rlim_cur == RLIM_INFINITY || size <= limit.rlim_cur);
}

// Returns 0 or an errno.
int reserve(int fd, std::size_t offset, std::size_t size) {
  if (!may_grow_to(offset + size)) return EFBIG;
  int error = EINTR;
  while (error == EINTR) {
    error = ::posix_fallocate(fd, static_cast<off_t>(offset), static_cast<off_t>(size));
  }
  return error;
}

}  // namespace

void Recorder::open(const char* directory, const char* torch_version, const char* prefix) noexcept {
  prefix_ = prefix;
  put(directory_, directory);
  put(torch_version_, torch_version);
  const Locked locked(mutex_);
  make_file();
}

// The name is the process's; where it was another program before, a number more. Room for events is
// made with the first one: data loaders import torch, too, and have none.
void Recorder::make_file() noexcept {
  int fd = -1;
  for (int i = 0; fd < 0 && i < kMostFilesOfAProcess; ++i) {
    char more[8] = "";
    if (i > 0) std::snprintf(more, sizeof more, "-%d", i);
    std::snprintf(path_, sizeof path_, "%s/%s%d%s%s", directory_, prefix_, ::getpid(), more,
                  kEventFileSuffix);
    fd = ::open(path_, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 && errno != EEXIST) break;
  }
  EventFileHeader* header = nullptr;
  if (fd >= 0) {
    ::close(fd);
    header = reinterpret_cast<EventFileHeader*>(map(0, kHeaderBytes));
  }
  if (header == nullptr) {
    full_ = true;
    return;
  }
  std::memcpy(header->magic, kEventFileMagic, kMagicBytes);
  header->pid = ::getpid();
  header->rank = -1;
  header->environment_rank = number_from_environment("RANK", -1);
  header->environment_world_size = number_from_environment("WORLD_SIZE", 0);
  put(header->torch_version, torch_version_);
  header->tensor_count = tensor_count_;
  header->tensor_peak_bytes = tensor_peak_bytes_;
  header_ = header;
}

bool Recorder::ready() noexcept {
  if (header_.load(std::memory_order_acquire) != nullptr) return true;
  if (full_ || *directory_ == '\0') return false;
  const Locked locked(mutex_);
  if (header_ == nullptr && !full_) make_file();
  return header_ != nullptr;
}

// Returns null where the disk has no room, or the file may not grow.
char* Recorder::map(std::size_t offset, std::size_t size) noexcept {
  const int fd = ::open(path_, O_RDWR | O_CLOEXEC);
  int error = fd < 0 ? errno : reserve(fd, offset, size);
  void* mapped = MAP_FAILED;
  if (error == 0) {
    mapped =
        ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, static_cast<off_t>(offset));
    if (mapped == MAP_FAILED) error = errno;
  }
  if (fd >= 0) ::close(fd);  // what stays open may be closed by the job, and its number reused
  if (error == 0) return static_cast<char*>(mapped);
  char sentence[sizeof(EventFileHeader::fault)];
  std::snprintf(sentence, sizeof sentence, "the file of events cannot grow: %s",
                std::strerror(error));
  if (header_ != nullptr && *header_.load()->fault == '\0') put(header_.load()->fault, sentence);
  return nullptr;
}

char* Recorder::grow(std::size_t chunk) noexcept {
  const Locked locked(mutex_);
  char* mapped = chunks_[chunk];
  if (mapped == nullptr && !full_) {
    mapped = map(chunk * kChunkBytes, kChunkBytes);
    chunks_[chunk] = mapped;
    if (mapped == nullptr) full_ = true;
  }
  return mapped;
}

EventRecord* Recorder::place(std::int64_t index) noexcept {
  if (index >= kMostRecords) return nullptr;
  const std::size_t offset = kHeaderBytes + static_cast<std::size_t>(index) * sizeof(EventRecord);
  char* chunk = chunks_[offset / kChunkBytes].load(std::memory_order_acquire);
  if (chunk == nullptr) chunk = grow(offset / kChunkBytes);
  if (chunk == nullptr) return nullptr;
  return reinterpret_cast<EventRecord*>(chunk + offset % kChunkBytes);
}

Recorder::Handle Recorder::begin(const Begin& event) noexcept {
  if (!ready()) return {};
  EventFileHeader* header = header_.load(std::memory_order_acquire);
  EventRecord* record = place(std::atomic_ref(header->claimed).fetch_add(1));
  if (record == nullptr) return {};
  record->kind = static_cast<std::uint32_t>(event.kind);
  record->start_ns = now_ns();
  record->bytes = event.bytes;
  record->object = event.object;
  record->thread = this_thread();
  put(record->name, event.name);
  put(record->detail, event.detail);
  std::atomic_ref(record->written).store(1, std::memory_order_release);
  return {record, life_};
}

void Recorder::end(Handle handle) noexcept {
  if (handle.record == nullptr || handle.life != life_) return;
  const std::int64_t now = now_ns();
  std::atomic_ref<std::int64_t> end(handle.record->end_ns);
  std::int64_t known = end.load();
  while (known < now && !end.compare_exchange_weak(known, now)) {
  }
}

Recorder::Extent Recorder::extent(Handle handle) const noexcept {
  if (handle.record == nullptr || handle.life != life_) return {};
  return {handle.record->start_ns, std::atomic_ref(handle.record->end_ns).load()};
}

void Recorder::issued(Handle handle) noexcept {
  if (handle.record == nullptr || handle.life != life_) return;
  const std::int64_t took_ns = now_ns() - handle.record->start_ns;
  std::atomic_ref(handle.record->count).store(std::max<std::int64_t>(took_ns, 1));
}

void Recorder::count(Handle handle, int more) noexcept {
  if (handle.record == nullptr || handle.life != life_) return;
  std::atomic_ref(handle.record->count).fetch_add(more);
}

void Recorder::add_gradient(Handle handle, std::int64_t bytes, bool is_added) noexcept {
  if (handle.record == nullptr || handle.life != life_) return;
  std::atomic_ref(handle.record->bytes).fetch_add(bytes);
  if (is_added) std::atomic_ref(handle.record->object).fetch_add(bytes);
}

void Recorder::add_work(std::string_view name, std::int64_t stack,
                        const OperatorTotal& total) noexcept {
  constexpr std::size_t kInName = sizeof(EventRecord::name) - 1;
  const auto rest = name.substr(std::min(name.size(), kInName));
  const Handle handle = begin({EventKind::Work, name, total.bytes, total.flops, rest});
  if (handle.record == nullptr) return;
  handle.record->thread = stack;
  handle.record->count = total.times;
}

void Recorder::count_optimizer_step() noexcept {
  if (ready()) std::atomic_ref(header_.load()->optimizer_steps).fetch_add(1);
}

void Recorder::set_tensor_peak(std::int64_t bytes) noexcept {
  tensor_peak_bytes_ = bytes;
  EventFileHeader* header = header_;
  if (header != nullptr) std::atomic_ref(header->tensor_peak_bytes).store(bytes);
}

void Recorder::set_tensor_count(TensorCount count) noexcept {
  tensor_count_ = count;
  EventFileHeader* header = header_;
  if (header != nullptr) header->tensor_count = count;
}

void Recorder::mark_tensor_peak(Handle handle) noexcept {
  if (handle.record == nullptr || handle.life != life_) return;
  if (tensor_count_ != TensorCount::Counted) return;
  std::atomic_ref(handle.record->bytes).store(tensor_peak_bytes_);
}

void Recorder::set_place(int rank, int world_size) noexcept {
  if (!ready() || std::atomic_ref(header_.load()->world_size).load() >= world_size) return;
  const Locked locked(mutex_);
  EventFileHeader* header = header_;
  if (header->world_size >= world_size) return;
  header->rank = rank;
  std::atomic_ref(header->world_size).store(world_size);
}

void Recorder::fault(const char* sentence) noexcept {
  if (!ready()) return;
  const Locked locked(mutex_);
  if (*header_.load()->fault == '\0') put(header_.load()->fault, sentence);
}

void Recorder::close() noexcept {
  const Locked locked(mutex_);
  *directory_ = '\0';
  forget_file();
}

// The parent's memory stays mapped, but nothing points there any more.
void Recorder::after_fork() noexcept {
  mutex_ = PTHREAD_MUTEX_INITIALIZER;
  known_thread = 0;
  forget_file();
}

void Recorder::forget_file() noexcept {
  ++life_;
  header_ = nullptr;
  for (auto& chunk : chunks_) chunk = nullptr;
  full_ = false;
}

}  // namespace gradsync::watch
