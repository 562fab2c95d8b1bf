// Device memory of paper: addresses that the host could touch, and hardly ever does.
//
// One reservation of 16 TiB without memory behind it serves all devices of the process. What is
// never written costs no memory and reads as zeros; what was written is forgotten when it is freed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

namespace gradsync::paper {

class AddressSpace {
 public:
  // Returns `bytes` of addresses, aligned to 2 MiB as the driver does; null where none are left.
  void* take(std::size_t bytes);

  // Gives back what take() returned, and forgets what was written there.
  void give_back(void* start);

  // Forgets what was written there: it reads as zeros again.
  void forget(void* start, std::size_t bytes);

  bool contains(const void* address) const;

  // Returns the start of what take() returned around `address`, and its size; null: none.
  void* block_of(const void* address, std::size_t& bytes);

 private:
  char* base();

  mutable std::mutex mutex_;
  char* base_ = nullptr;
  std::map<char*, std::size_t> free_;   // by start, never adjacent
  std::map<char*, std::size_t> taken_;  // by start
};

}  // namespace gradsync::paper
