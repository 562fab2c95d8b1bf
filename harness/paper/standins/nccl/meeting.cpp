#include "harness/paper/standins/nccl/meeting.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <string>

#include "harness/paper/standins/nccl/failure.h"

namespace gradsync::paper::nccl {
namespace {

constexpr char kName[] = "gradsync_paper_nccl";
constexpr std::size_t kPage = 4096;
constexpr const char* kFolder = "GRADSYNC_PAPER_FOLDER";
constexpr int kInFolder = -1;

// What a unique id says.
struct Where {
  char name[sizeof(kName)];
  pid_t process;
  int descriptor;        // kInFolder: it is a file of kFolder
  std::uint64_t random;  // the memory begins with it
  std::uint64_t space;   // the process namespace of `process`
};
static_assert(sizeof(Where) <= sizeof(ncclUniqueId));

struct Head {
  std::atomic<std::uint64_t> random;
  std::atomic<std::uint32_t> bell;
};
static_assert(sizeof(Head) <= kPage && std::atomic<std::uint64_t>::is_always_lock_free);

std::size_t whole_pages(std::size_t bytes) {
  return (bytes + kPage - 1) / kPage * kPage;
}

Where where(const ncclUniqueId& id) {
  Where place{};
  std::memcpy(&place, &id, sizeof(place));
  return place;
}

struct Memory {
  int descriptor;
  std::string path;  // "": it has no name
};

// Meetings that this process made and keeps open, by their random numbers.
struct Open {
  std::mutex mutex;
  std::map<std::uint64_t, Memory> memories;
};

Open& made_here() {
  static auto* open = new Open;  // threads may still use it while the process ends
  return *open;
}

// Returns when a process was started, in the kernel's ticks, or 0 where it is gone or a zombie.
std::uint64_t start_of(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string line;
  if (!std::getline(file, line)) return 0;
  std::istringstream fields(line.substr(line.rfind(')') + 1));
  std::string field;
  for (int i = 3; i <= 22 && fields >> field; ++i) {  // proc(5): 3 is the state, 22 the start
    if (i == 3 && (field == "Z" || field == "X")) return 0;
  }
  return std::strtoull(field.c_str(), nullptr, 10);
}

// Returns the number of this process's process namespace: in another one, its pid is no name.
std::uint64_t own_space() {
  struct stat status {};
  return ::stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

// "": none is set.
std::string shared_folder() {
  const char* folder = std::getenv(kFolder);
  return folder == nullptr ? "" : folder;
}

std::string file_in_folder(const Where& place) {
  const std::string folder = shared_folder();
  if (!folder.empty()) return folder + "/" + kName + "." + std::to_string(place.random);
  throw Failure(ncclInvalidUsage, "the other ranks meet in a folder: set ", kFolder,
                " to it for every rank");
}

// Returns where another process finds the memory.
std::string path_of(const Where& place) {
  if (place.descriptor == kInFolder) return file_in_folder(place);
  if (place.space != own_space()) {
    throw Failure(ncclSystemError,
                  "the unique id was made in another process namespace, as in a container of its "
                  "own: give all ranks one (docker run --pid), or set ",
                  kFolder, " for every rank to a folder that all of them have");
  }
  return "/proc/" + std::to_string(place.process) + "/fd/" + std::to_string(place.descriptor);
}

int open_descriptor(const Where& place) {
  const std::string path = path_of(place);
  char target[128] = {};
  const bool is_ours =
      place.descriptor == kInFolder || (::readlink(path.c_str(), target, sizeof(target) - 1) > 0 &&
                                        std::strncmp(target, "/memfd:", 7) == 0);
  const int descriptor = is_ours ? ::open(path.c_str(), O_RDWR | O_CLOEXEC) : -1;
  if (descriptor >= 0) return descriptor;
  if (errno == EACCES || errno == EPERM) {
    throw Failure(ncclSystemError, path,
                  ", in which ranks meet, may not be opened: run all as one user, in one user "
                  "namespace");
  }
  throw Failure(
      ncclSystemError, path,
      ", in which ranks meet, is not there: the process that made the unique id has ended "
      "or has closed that communicator",
      place.descriptor == kInFolder ? ", or its folder is another one" : "");
}

Memory make_memory(Where& place) {
  if (shared_folder().empty()) {
    place.descriptor = ::memfd_create(kName, MFD_CLOEXEC);
    return {place.descriptor, ""};
  }
  place.descriptor = kInFolder;
  const std::string path = file_in_folder(place);
  return {::open(path.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600), path};
}

}  // namespace

bool Seat::alive() const {
  return space != own_space() || start_of(process) == started;
}

ncclUniqueId invite() {
  Where place{};
  std::memcpy(place.name, kName, sizeof(kName));
  place.process = ::getpid();
  place.space = own_space();
  const bool is_named = ::getrandom(&place.random, sizeof(place.random), 0) == sizeof(place.random);
  const Memory memory = is_named ? make_memory(place) : Memory{-1, ""};
  if (memory.descriptor < 0 || ::ftruncate(memory.descriptor, kPage) != 0 ||
      ::pwrite(memory.descriptor, &place.random, sizeof(place.random), 0) < 0) {
    throw Failure(ncclSystemError, "no memory to meet in", memory.path.empty() ? "" : ", ",
                  memory.path, ": ", std::strerror(errno));
  }
  const std::lock_guard lock(made_here().mutex);
  made_here().memories[place.random] = memory;
  ncclUniqueId id{};
  std::memcpy(&id, &place, sizeof(place));
  return id;
}

void withdraw(const ncclUniqueId& id) {
  const Where place = where(id);
  if (place.process != ::getpid()) return;
  const std::lock_guard lock(made_here().mutex);
  const auto found = made_here().memories.find(place.random);
  if (found == made_here().memories.end()) return;
  const Memory& memory = found->second;
  ::close(memory.descriptor);
  if (!memory.path.empty()) ::unlink(memory.path.c_str());
  made_here().memories.erase(found);
}

Meeting::Meeting(const ncclUniqueId& id, int seats) : id_(id), seats_(seats) {
  const Where place = where(id);
  if (std::memcmp(place.name, kName, sizeof(kName)) != 0) {
    throw Failure(ncclInvalidArgument, "that unique id is not from ncclGetUniqueId of paper");
  }
  const auto ranks = static_cast<std::size_t>(seats);
  bytes_ = kPage + whole_pages(ranks * sizeof(Seat)) + 2 * ranks * ranks * kMovedBytes +
           ranks * ranks * sizeof(Channel);
  const int descriptor = open_descriptor(place);
  struct stat status {};
  void* memory = MAP_FAILED;
  if (::fstat(descriptor, &status) == 0 &&
      (static_cast<std::size_t>(status.st_size) >= bytes_ ||
       ::ftruncate(descriptor, static_cast<off_t>(bytes_)) == 0)) {
    memory =
        ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, descriptor, 0);
  }
  const int error = errno;
  ::close(descriptor);
  if (memory == MAP_FAILED) {
    throw Failure(ncclSystemError, std::string("cannot map the meeting: ") + std::strerror(error));
  }
  memory_ = static_cast<char*>(memory);
  if (reinterpret_cast<Head*>(memory_)->random != place.random) {
    ::munmap(memory_, bytes_);
    throw Failure(ncclSystemError, "the communicator of that unique id is closed");
  }
}

Meeting::~Meeting() {
  close();
  ::munmap(memory_, bytes_);
}

Seat& Meeting::take(int index) {
  Seat& mine = seat(index);
  auto away = Presence::kAway;
  if (!mine.presence.compare_exchange_strong(away, Presence::kComing)) {
    throw Failure(ncclInvalidUsage, "rank " + std::to_string(index) + " came twice");
  }
  mine.process = ::getpid();
  mine.space = own_space();
  mine.started = start_of(mine.process);
  return mine;
}

Seat& Meeting::seat(int index) const {
  return reinterpret_cast<Seat*>(memory_ + kPage)[index];
}

char* Meeting::given(int seat, std::uint64_t number, int reader) const {
  const auto ranks = static_cast<std::size_t>(seats_);
  const std::size_t buffer = static_cast<std::size_t>(seat) * 2 + number % 2;
  return memory_ + kPage + whole_pages(ranks * sizeof(Seat)) +
         (buffer * ranks + static_cast<std::size_t>(reader)) * kMovedBytes;
}

Channel& Meeting::channel(int from, int to) const {
  auto* channels = reinterpret_cast<Channel*>(given(seats_, 0, 0));
  return channels[from * seats_ + to];
}

void Meeting::ring() {
  auto& bell = reinterpret_cast<Head*>(memory_)->bell;
  bell.fetch_add(1);
  ::syscall(SYS_futex, &bell, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

std::uint32_t Meeting::bell() const {
  return reinterpret_cast<Head*>(memory_)->bell;
}

void Meeting::listen(std::uint32_t heard, std::chrono::milliseconds at_most) const {
  const timespec time{at_most.count() / 1000, at_most.count() % 1000 * 1000000};
  ::syscall(SYS_futex, &reinterpret_cast<Head*>(memory_)->bell, FUTEX_WAIT, heard, &time, nullptr,
            0);
}

}  // namespace gradsync::paper::nccl
