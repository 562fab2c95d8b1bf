// The GPUs of paper that this process sees: what they are, which one is current, who holds their
// memory.
//
// GRADSYNC_PAPER says what the machine has ("8xh100"); CUDA_VISIBLE_DEVICES chooses among them as
// it does among real ones. Every process has the whole of each GPU's memory to itself: two
// processes on one GPU do not see what the other holds. GRADSYNC_PAPER_MIG=N divides each GPU into
// N instances (MIG), of which CUDA shows a process one.
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
  std::string name() const;  // of each device, as the driver says it
  std::uint64_t total_bytes() const { return gpus_.memory_bytes() / parts(); }

  // Which GPU of the machine a visible one is, or is an instance of; bus numbers are by this.
  int physical(int device) const { return part(device) / parts(); }
  std::string pci_bus_id(int device) const { return bus_id_of(physical(device)); }
  std::vector<unsigned char> uuid(int device) const;  // 16 bytes, unlike those of other devices

  // What the machine has, whatever this process sees: NVML's order is that of the bus.
  int gpus() const { return gpus_.count; }
  int instances() const { return instances_; }  // of each GPU; 0: it is not divided
  static std::string bus_id_of(int gpu);        // "0000:01:00.0"
  // As nvidia-smi writes it. `instance`: -1 is the GPU itself.
  std::string uuid_text(int gpu, int instance = -1) const;
  std::uint64_t used_of(int gpu) const;  // by this process

  // Each thread has a current device, which is 0 at first.
  static int current();
  static void set_current(int device);

  // Takes memory of a device; false where it has not that much left.
  bool charge(int device, std::size_t bytes);
  void discharge(int device, std::size_t bytes);
  std::uint64_t free_bytes(int device) const;

 private:
  Machine();

  int parts() const { return instances_ == 0 ? 1 : instances_; }
  int part(int device) const { return visible_.at(static_cast<std::size_t>(device)); }
  int part_named(const std::string& entry) const;
  std::vector<int> visible() const;

  Gpus gpus_;
  int instances_ = 0;
  std::vector<int> visible_;  // parts: GPUs or, where they are divided, instances, GPU by GPU
  std::vector<std::uint64_t> used_;  // guarded by a mutex of the source
};

}  // namespace gradsync::paper
