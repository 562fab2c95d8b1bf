// A GPU as the harness sees it, and the shared module that has one.
//
// CUDA and NCCL are in a library of their own, libgradsync_cuda.so, which a rank loads only for
// --device cuda: with torch's CUDA libraries linked, every start would take four times the memory,
// on machines without a GPU too. Only the two abstract classes below cross the border. A build
// without a CUDA toolkit has no such library, and says so on request.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <memory>
#include <string>

#include "harness/base/clock.h"
#include "harness/measure/timeline.h"
#include "harness/results/model_info.h"
#include "models/pace.h"

// Their headers are heavy, and the module's other file does without them.
namespace c10d {
class Backend;
class Store;
class Work;
}  // namespace c10d

namespace gradsync::comm {

// The most that torch's allocator has handed out, and has taken from the device for it.
struct MemoryPeaks {
  std::int64_t allocated_bytes = 0;
  std::int64_t reserved_bytes = 0;
};

// One communicator of NCCL, whose collectives run one after the other, beside those of others.
struct NcclGroup {
  c10::intrusive_ptr<c10d::Backend> backend;
  int queue = 0;  // which of this GPU's communicators
};

struct NcclOptions {
  int rank = 0;
  int world_size = 1;
  double timeout_s = 60;  // of every collective
};

// The device of this process; its marks (measure/timeline.h) are CUDA events.
class Gpu : public measure::Timeline {
 public:
  virtual results::GpuDescription description() const = 0;

  // As NCCL_VERSION_CODE counts: 22809 is 2.28.9.
  virtual int nccl_version() const = 0;

  // Returns torch's ProcessGroupNCCL with torch's defaults, except that failures do not end the
  // process: those of any group made here show in reached(). Collectives run on a stream of its own
  // and wait() does not block the host. Local: ranks meet in the first collective. The group stays
  // until this object goes.
  virtual NcclGroup make_nccl_group(const c10::intrusive_ptr<c10d::Store>& store,
                                    const NcclOptions& options) = 0;

  // Blocks until torch has noticed the end of every collective so far, of every group. Until then
  // it may hold their tensors; it lets go of them when the next one is asked for.
  // Cost: up to 0.1 s a group.
  virtual void finish_collectives() = 0;

  // Queues a mark behind a collective of that queue, on a stream that does nothing else: the end of
  // one group's must not wait for another's. Returns its number, as mark() does. Never blocks.
  virtual std::int64_t mark_end(c10d::Work& collective, int queue) = 0;

  // Peaks since the last reset_peaks(). Local; neither waits for the device.
  virtual MemoryPeaks peaks() const = 0;
  virtual void reset_peaks() = 0;

  // Gives back to the device what torch's allocator has reserved and no tensor uses, and what
  // cuBLAS keeps to work in.
  virtual void release_unused() = 0;

  // Makes every allocation that would take more than this from the device throw
  // c10::OutOfMemoryError from now on; this call throws it too if tensors already hold more. Unused
  // memory is given back first: it would be handed out again despite the budget.
  // Units: bytes reserved by torch's allocator; contexts and NCCL's buffers come on top.
  virtual void set_memory_budget(std::int64_t bytes) = 0;

  // Returns the pace on which paced layers wait: kernels of one thread that spin on the device's
  // clock. Valid while this object lives.
  virtual std::shared_ptr<const models::Pace> pace() = 0;
};

class GpuModule {
 public:
  virtual ~GpuModule() = default;

  // Returns how many GPUs CUDA shows this process, at least 1.
  // Errors: EnvironmentError where there is none or the driver is missing or too old.
  virtual int count() = 0;

  // Makes GPU `index` this process's device. `clock` must outlive it; `timeout_s`: how long
  // reached() waits without progress. Errors: EnvironmentError where the GPU is busy or full.
  virtual std::unique_ptr<Gpu> open(int index, const Clock& clock, double timeout_s) = 0;
};

// Returns where the module is, beside the program or in the folder above; empty: this build has
// none.
std::string find_gpu_module();

// Returns the module, loaded once. Call before torch is asked anything about CUDA: it looks for
// CUDA once and remembers what it found. Cost: a second, 350 MB.
// Errors: EnvironmentError where this build has none or one of its libraries is missing.
GpuModule& load_gpu_module();

}  // namespace gradsync::comm
