#include "harness/paper/standins/machine.h"

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <sstream>

namespace gradsync::paper {
namespace {

std::mutex memory_mutex;
thread_local int current_device = 0;

constexpr const char* kUuidStart = "GPU-";

// A UUID as nvidia-smi writes it: 4, 2, 2, 2 and 6 bytes.
std::string text_of(const std::vector<unsigned char>& bytes) {
  std::string text = kUuidStart;
  char byte[3];
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i >= 4 && i <= 10 && i % 2 == 0) text += '-';
    std::snprintf(byte, sizeof byte, "%02x", bytes[i]);
    text += byte;
  }
  return text;
}

std::vector<unsigned char> uuid_of(int physical) {
  std::vector<unsigned char> bytes{'p', 'a', 'p', 'e', 'r', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  bytes.back() = static_cast<unsigned char>(physical + 1);
  return bytes;
}

// Returns the GPU that one entry of CUDA_VISIBLE_DEVICES names, a number or the start of a UUID; -1
// where it names none.
int gpu_named(const std::string& entry, int count) {
  if (entry.rfind(kUuidStart, 0) == 0) {
    for (int gpu = 0; gpu < count; ++gpu) {
      if (text_of(uuid_of(gpu)).rfind(entry, 0) == 0) return gpu;
    }
    return -1;
  }
  char* end = nullptr;
  const long number = std::strtol(entry.c_str(), &end, 10);
  const bool is_number = !entry.empty() && *end == '\0';
  return is_number && number >= 0 && number < count ? static_cast<int>(number) : -1;
}

// As the driver reads CUDA_VISIBLE_DEVICES: up to the first entry that names no GPU.
std::vector<int> visible_of(int count) {
  std::vector<int> visible;
  const char* wanted = std::getenv("CUDA_VISIBLE_DEVICES");
  if (wanted == nullptr) {
    for (int gpu = 0; gpu < count; ++gpu) visible.push_back(gpu);
    return visible;
  }
  std::istringstream entries(wanted);
  for (std::string entry; std::getline(entries, entry, ',');) {
    const int gpu = gpu_named(entry, count);
    if (gpu < 0) break;
    visible.push_back(gpu);
  }
  return visible;
}

}  // namespace

Machine& Machine::here() {
  static Machine* machine = new Machine;  // calls come from destructors of static objects, too
  return *machine;
}

Machine::Machine() {
  const char* text = std::getenv("GRADSYNC_PAPER");
  std::string wrong = "GRADSYNC_PAPER is not set";
  if (text != nullptr) gpus_ = parse_gpus(text, wrong);
  if (gpus_.count == 0) std::fprintf(stderr, "gradsync: %s\n", wrong.c_str());
  visible_ = visible_of(gpus_.count);
  used_.resize(visible_.size());
}

std::string Machine::pci_bus_id(int device) const {
  char text[16];
  std::snprintf(text, sizeof text, "0000:%02x:00.0", physical(device) + 1);
  return text;
}

std::vector<unsigned char> Machine::uuid(int device) const {
  return uuid_of(physical(device));
}

std::string Machine::uuid_text(int device) const {
  return text_of(uuid(device));
}

int Machine::current() {
  return current_device;
}

void Machine::set_current(int device) {
  current_device = device;
}

bool Machine::charge(int device, std::size_t bytes) {
  const std::lock_guard lock(memory_mutex);
  std::uint64_t& used = used_.at(static_cast<std::size_t>(device));
  if (bytes > total_bytes() - used) return false;
  used += bytes;
  return true;
}

void Machine::discharge(int device, std::size_t bytes) {
  const std::lock_guard lock(memory_mutex);
  used_.at(static_cast<std::size_t>(device)) -= bytes;
}

std::uint64_t Machine::free_bytes(int device) const {
  const std::lock_guard lock(memory_mutex);
  return total_bytes() - used_.at(static_cast<std::size_t>(device));
}

}  // namespace gradsync::paper
