// cuDNN's newer interface on paper: graphs of operations, of which torch makes its convolutions.
//
// The cuDNN beside the job's torch answers it. Given the properties of a GPU, it ranks its engines
// and says what workspace each takes without having one, so that a convolution here takes the
// workspace that it would take there. Nothing is executed. Where there is no such cuDNN, torch is
// told to use the older interface (cudnn.cpp).
// Source: cuDNN, "Deviceless Ahead-of-time Compilation", since 9.8. The names of the properties are
// those that this version asks for.
#include <unistd.h>

#include <cstdlib>

#if __has_include(<cudnn_graph.h>)
#include <cudnn_graph.h>
#endif

#if defined(GRADSYNC_PAPER_CUDNN) && CUDNN_VERSION >= 90800

#include <cuda.h>
#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <map>
#include <mutex>
#include <string>

#include "harness/paper/standins/attributes.h"
#include "harness/paper/standins/machine.h"

using namespace gradsync::paper;

namespace {

using Descriptor = cudnnBackendDescriptor_t;

// The functions of that cuDNN; null where it cannot be loaded.
struct Functions {
  decltype(&cudnnBackendCreateDescriptor) create = nullptr;
  decltype(&cudnnBackendDestroyDescriptor) destroy = nullptr;
  decltype(&cudnnBackendFinalize) finalize = nullptr;
  decltype(&cudnnBackendSetAttribute) set = nullptr;
  decltype(&cudnnBackendGetAttribute) get = nullptr;
};

Functions load() {
  Functions all;
  void* library = ::dlopen(GRADSYNC_PAPER_CUDNN, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::fprintf(stderr, "gradsync: %s\n", ::dlerror());
    return all;
  }
  const auto find = [library](auto& function, const char* name) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(::dlsym(library, name));
  };
  find(all.create, "cudnnBackendCreateDescriptor");
  find(all.destroy, "cudnnBackendDestroyDescriptor");
  find(all.finalize, "cudnnBackendFinalize");
  find(all.set, "cudnnBackendSetAttribute");
  find(all.get, "cudnnBackendGetAttribute");
  return all;
}

const Functions& real() {
  static const Functions all = load();
  return all;
}

std::string properties_text(int device) {
  const auto value = [device](CUdevice_attribute which) {
    return std::to_string(attribute(device, which));
  };
  const auto three = [&](CUdevice_attribute first) {
    std::string text = "[";
    for (int i = 0; i < 3; ++i) {
      text += (i == 0 ? "" : ",") + value(static_cast<CUdevice_attribute>(first + i));
    }
    return text + "]";
  };
  const GpuModel& model = Machine::here().model();
  const std::pair<const char*, std::string> members[] = {
      {"deviceName", "\"" + model.product + "\""},
      {"cudaDeviceId", std::to_string(device)},
      {"deviceVer", std::to_string(model.major * 100 + model.minor * 10)},
      {"driverVer", std::to_string(CUDA_VERSION)},
      {"totalGlobalMem", std::to_string(Machine::here().total_bytes())},
      {"multiProcessorCount", value(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)},
      {"l2CacheSize", value(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)},
      {"maxGridSize", three(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X)},
      {"maxBlockSize", three(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X)},
      {"maxThreadsPerBlock", value(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)},
      {"maxThreadsPerSM", value(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR)},
      {"maxCtasPerSM", value(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR)},
      {"regsPerBlock", value(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK)},
      {"maxRegistersPerSM", value(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR)},
      {"maxSharedMemoryPerBlock", value(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK)},
      {"maxSharedMemoryPerBlockOptin",
       value(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)},
      {"reservedSharedMemoryPerBlock", value(CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK)},
      {"warpSize", value(CU_DEVICE_ATTRIBUTE_WARP_SIZE)},
      {"smClockRateKHz", value(CU_DEVICE_ATTRIBUTE_CLOCK_RATE)},
      {"memClockRateKHz", value(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)},
      {"supportCoopLaunch", value(CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH)},
      {"pciDeviceId", "0"},
      {"isTccDriver", "0"},
  };
  std::string text;
  for (const auto& [name, member] : members) {
    text += std::string(text.empty() ? "{" : ",") + "\"" + name + "\":" + member;
  }
  return text + "}";
}

// Returns the descriptor of a GPU's properties; null where that cuDNN does not take it.
Descriptor describe(int device) {
  Descriptor properties = nullptr;
  const std::string text = properties_text(device);
  if (real().create(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &properties) == CUDNN_STATUS_SUCCESS &&
      real().set(properties, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                 static_cast<std::int64_t>(text.size()), text.data()) == CUDNN_STATUS_SUCCESS &&
      real().finalize(properties) == CUDNN_STATUS_SUCCESS) {
    return properties;
  }
  std::fprintf(stderr, "gradsync: cuDNN does not take the properties %s\n", text.c_str());
  return nullptr;
}

// Descriptors that need a GPU's properties before they are finalized have their attribute here.
struct Books {
  std::mutex mutex;
  std::map<int, Descriptor> properties;  // by device
  std::map<Descriptor, cudnnBackendAttributeName_t> open;
};

Books& books() {
  static Books* all = new Books;  // descriptors are destroyed by static objects, too
  return *all;
}

cudnnStatus_t add_properties(Descriptor descriptor) {
  const std::lock_guard lock(books().mutex);
  const auto wanting = books().open.find(descriptor);
  if (wanting == books().open.end()) return CUDNN_STATUS_SUCCESS;
  const int device = Machine::current();
  const auto [found, is_new] = books().properties.try_emplace(device, nullptr);
  if (is_new) found->second = describe(device);
  const auto name = wanting->second;
  books().open.erase(wanting);
  return real().set(descriptor, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &found->second);
}

using Told = void(int device, void* workspace);
std::atomic<Told*> told{nullptr};

}  // namespace

extern "C" {

// Has `wanted` called with each workspace that something is executed with. The recorder of torch's
// allocator (harness/fit/recorder) finds it by this name.
void gradsync_paper_tell_workspaces(Told* wanted) {
  told = wanted;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           Descriptor* descriptor) {
  if (real().get == nullptr) return CUDNN_STATUS_NOT_SUPPORTED;
  const cudnnStatus_t status = real().create(type, descriptor);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  const std::lock_guard lock(books().mutex);
  if (type == CUDNN_BACKEND_ENGINE_DESCRIPTOR) {
    books().open[*descriptor] = CUDNN_ATTR_ENGINE_DEVICEPROP;
  } else if (type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR) {
    books().open[*descriptor] = CUDNN_ATTR_ENGINEHEUR_DEVICEPROP;
  } else if (type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) {
    books().open[*descriptor] = CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP;
  }
  return status;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(Descriptor descriptor) {
  {
    const std::lock_guard lock(books().mutex);
    books().open.erase(descriptor);
  }
  return real().destroy(descriptor);
}

// A handle of paper means nothing to it.
cudnnStatus_t cudnnBackendSetAttribute(Descriptor descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t count,
                                       const void* values) {
  if (type == CUDNN_TYPE_HANDLE) return CUDNN_STATUS_SUCCESS;
  if (name == CUDNN_ATTR_VARIANT_PACK_WORKSPACE && count == 1) {
    void* workspace = *static_cast<void* const*>(values);
    if (workspace != nullptr && told != nullptr) told.load()(Machine::current(), workspace);
  }
  return real().set(descriptor, name, type, count, values);
}

cudnnStatus_t cudnnBackendGetAttribute(Descriptor descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t count,
                                       std::int64_t* found, void* values) {
  return real().get(descriptor, name, type, count, found, values);
}

cudnnStatus_t cudnnBackendFinalize(Descriptor descriptor) {
  const cudnnStatus_t status = add_properties(descriptor);
  return status == CUDNN_STATUS_SUCCESS ? real().finalize(descriptor) : status;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t, Descriptor, Descriptor) {
  return CUDNN_STATUS_SUCCESS;
}

}  // extern "C"

namespace {
constexpr const char* kLibrary = GRADSYNC_PAPER_CUDNN;
}
#else
namespace {
constexpr const char* kLibrary = "";
}
#endif

namespace {

// Before torch looks for it.
__attribute__((constructor)) void choose_interface() {
  if (::access(kLibrary, R_OK) != 0) ::setenv("TORCH_CUDNN_V8_API_DISABLED", "1", 0);
}

}  // namespace
