// The GPUs of paper that this process sees: what they are, which one is current, who holds their
// memory.
//
// GRADSYNC_PAPER says what the machine has ("8xh100"); CUDA_VISIBLE_DEVICES chooses among them as
// it does among real ones. Every process has the whole of each GPU's memory to itself: two
// processes on one GPU do not see what the other holds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "harness/paper/gpu_models.h"

namespace gradsync::paper {

class Machine {
 public:
  // Returns the one of this process. Errors: where GRADSYNC_PAPER cannot be read, a sentence on
  // stderr and a machine without GPUs.
  static Machine& here();

  int count() const { return static_cast<int>(visible_.size()); }
  bool has(int device) const { return device >= 0 && device < count(); }
  const GpuModel& model() const { return gpus_.model; }
  std::uint64_t total_bytes() const { return gpus_.memory_bytes(); }

  // Which GPU of the machine a visible one is; names and bus numbers are by this.
  int physical(int device) const { return visible_.at(static_cast<std::size_t>(device)); }
  std::string pci_bus_id(int device) const;           // "0000:01:00.0"
  std::vector<unsigned char> uuid(int device) const;  // 16 bytes, unlike those of other GPUs
  std::string uuid_text(int device) const;            // as nvidia-smi writes it

  // Each thread has a current device, which is 0 at first.
  static int current();
  static void set_current(int device);

  // Takes memory of a device; false where it has not that much left.
  bool charge(int device, std::size_t bytes);
  void discharge(int device, std::size_t bytes);
  std::uint64_t free_bytes(int device) const;

 private:
  Machine();

  Gpus gpus_;
  std::vector<int> visible_;
  std::vector<std::uint64_t> used_;  // guarded by a mutex of the source
};

}  // namespace gradsync::paper
