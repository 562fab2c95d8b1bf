#include "harness/paper/standins/machine.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <sstream>

namespace gradsync::paper {
namespace {

std::mutex memory_mutex;
thread_local int current_device = 0;

// A UUID as nvidia-smi writes it: 4, 2, 2, 2 and 6 bytes.
std::string text_of(const char* start, const std::vector<unsigned char>& bytes) {
  std::string text = start;
  char byte[3];
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i >= 4 && i <= 10 && i % 2 == 0) text += '-';
    std::snprintf(byte, sizeof byte, "%02x", bytes[i]);
    text += byte;
  }
  return text;
}

// `instance`: -1 is the GPU itself.
std::vector<unsigned char> uuid_of(int gpu, int instance) {
  std::vector<unsigned char> bytes{'p', 'a', 'p', 'e', 'r', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  bytes[14] = static_cast<unsigned char>(instance + 1);
  bytes[15] = static_cast<unsigned char>(gpu + 1);
  return bytes;
}

int number_in(const char* variable) {
  const char* text = std::getenv(variable);
  return text == nullptr ? 0 : std::atoi(text);
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
  instances_ = std::max(0, number_in("GRADSYNC_PAPER_MIG"));
  visible_ = visible();
  used_.resize(visible_.size());
}

// Returns the part that one entry of CUDA_VISIBLE_DEVICES names, a number or the start of a UUID;
// -1 where it names none.
int Machine::part_named(const std::string& entry) const {
  const int count = gpus_.count * parts();
  if (entry.rfind("GPU-", 0) == 0 || entry.rfind("MIG-", 0) == 0) {
    for (int part = 0; part < count; ++part) {
      const int instance = instances_ == 0 ? -1 : part % parts();
      if (uuid_text(part / parts(), instance).rfind(entry, 0) == 0) return part;
    }
    return -1;
  }
  char* end = nullptr;
  const long number = std::strtol(entry.c_str(), &end, 10);
  const bool is_number = !entry.empty() && *end == '\0';
  return is_number && number >= 0 && number < count ? static_cast<int>(number) : -1;
}

// As the driver reads CUDA_VISIBLE_DEVICES: up to the first entry that names none.
std::vector<int> Machine::visible() const {
  std::vector<int> parts_seen;
  const char* wanted = std::getenv("CUDA_VISIBLE_DEVICES");
  if (wanted == nullptr) {
    for (int part = 0; part < gpus_.count * parts(); ++part) parts_seen.push_back(part);
  } else {
    std::istringstream entries(wanted);
    for (std::string entry; std::getline(entries, entry, ',');) {
      const int part = part_named(entry);
      if (part < 0) break;
      parts_seen.push_back(part);
    }
  }
  if (instances_ > 0 && parts_seen.size() > 1) parts_seen.resize(1);
  return parts_seen;
}

std::string Machine::name() const {
  return model().product + (instances_ == 0 ? "" : " MIG 1g");
}

std::string Machine::bus_id_of(int gpu) {
  char text[16];
  std::snprintf(text, sizeof text, "0000:%02x:00.0", gpu + 1);
  return text;
}

std::vector<unsigned char> Machine::uuid(int device) const {
  return uuid_of(physical(device), instances_ == 0 ? -1 : part(device) % parts());
}

std::string Machine::uuid_text(int gpu, int instance) const {
  return text_of(instance < 0 ? "GPU-" : "MIG-", uuid_of(gpu, instance));
}

std::uint64_t Machine::used_of(int gpu) const {
  std::uint64_t used = 0;
  for (int device = 0; device < count(); ++device) {
    if (physical(device) == gpu) used += total_bytes() - free_bytes(device);
  }
  return used;
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
