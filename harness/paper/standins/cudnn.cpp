// cuDNN of paper: handles, descriptors that hold nothing, and the older of its two interfaces for
// convolutions, with one algorithm for each, which needs no workspace. Torch takes the newer one
// where it can (cudnn_graphs.cpp).
//
// Declared by hand, as cublas.cpp is. Source: cuDNN API Reference, release 9.
#include <cstddef>
#include <cstring>

// torch refuses one that is older than what it was compiled with, whose header lies beside it.
#if __has_include(<cudnn_version.h>)
#include <cudnn_version.h>
#else
#define CUDNN_MAJOR 9
#define CUDNN_MINOR 19
#define CUDNN_PATCHLEVEL 0
#endif

namespace {

constexpr std::size_t kDescriptorBytes = 64;

// cudnnConvolution*AlgoPerf_t: all three are the same.
struct Performance {
  int algorithm = 0;
  int status = 0;
  float time_ms = 0;
  std::size_t memory_bytes = 0;
  int determinism = 1;
  int math_type = 0;
  int reserved[3] = {};
};

int make(void** descriptor) {
  *descriptor = new char[kDescriptorBytes]{};
  return 0;
}

int no_bytes(std::size_t* bytes) {
  *bytes = 0;
  return 0;
}

int choose(int* count, Performance* results) {
  *results = Performance{};
  *count = 1;
  return 0;
}

}  // namespace

extern "C" {

// Older than the first whose attention torch prefers on some GPUs: here it has none, and torch
// takes its own flash attention.
std::size_t cudnnGetVersion() {
  return 91002;
}
int cudnnGetProperty(int which, int* value) {
  constexpr int kVersion[] = {CUDNN_MAJOR, CUDNN_MINOR, CUDNN_PATCHLEVEL};
  *value = kVersion[which];
  return 0;
}
std::size_t cudnnGetCudartVersion() {
  return 13000;
}
const char* cudnnGetErrorString(int status) {
  return status == 0 ? "CUDNN_STATUS_SUCCESS" : "not supported on GPUs of paper";
}
void cudnnGetLastErrorString(char* text, std::size_t size) {
  std::strncpy(text, "not supported on GPUs of paper", size);
}

int cudnnCreate(void** handle) {
  return make(handle);
}
int cudnnDestroy(void* handle) {
  delete[] static_cast<char*>(handle);
  return 0;
}
int cudnnGetStream(void*, void** stream) {
  *stream = nullptr;
  return 0;
}

int cudnnCreateTensorDescriptor(void** descriptor) {
  return make(descriptor);
}
int cudnnCreateFilterDescriptor(void** descriptor) {
  return make(descriptor);
}
int cudnnCreateConvolutionDescriptor(void** descriptor) {
  return make(descriptor);
}
int cudnnCreateActivationDescriptor(void** descriptor) {
  return make(descriptor);
}
int cudnnCreatePoolingDescriptor(void** descriptor) {
  return make(descriptor);
}
int cudnnCreateDropoutDescriptor(void** descriptor) {
  return make(descriptor);
}
int cudnnCreateRNNDescriptor(void** descriptor) {
  return make(descriptor);
}
int cudnnCreateRNNDataDescriptor(void** descriptor) {
  return make(descriptor);
}

int cudnnGetConvolutionForwardAlgorithm_v7(void*, void*, void*, void*, void*, int, int* count,
                                           Performance* results) {
  return choose(count, results);
}
int cudnnGetConvolutionBackwardDataAlgorithm_v7(void*, void*, void*, void*, void*, int, int* count,
                                                Performance* results) {
  return choose(count, results);
}
int cudnnGetConvolutionBackwardFilterAlgorithm_v7(void*, void*, void*, void*, void*, int,
                                                  int* count, Performance* results) {
  return choose(count, results);
}
int cudnnFindConvolutionForwardAlgorithmEx(void*, void*, void*, void*, void*, void*, void*, void*,
                                           int, int* count, Performance* results, void*,
                                           std::size_t) {
  return choose(count, results);
}
int cudnnFindConvolutionBackwardDataAlgorithmEx(void*, void*, void*, void*, void*, void*, void*,
                                                void*, int, int* count, Performance* results, void*,
                                                std::size_t) {
  return choose(count, results);
}
int cudnnFindConvolutionBackwardFilterAlgorithmEx(void*, void*, void*, void*, void*, void*, void*,
                                                  void*, int, int* count, Performance* results,
                                                  void*, std::size_t) {
  return choose(count, results);
}
int cudnnGetConvolutionForwardWorkspaceSize(void*, void*, void*, void*, void*, int,
                                            std::size_t* bytes) {
  return no_bytes(bytes);
}
int cudnnGetConvolutionBackwardDataWorkspaceSize(void*, void*, void*, void*, void*, int,
                                                 std::size_t* bytes) {
  return no_bytes(bytes);
}
int cudnnGetConvolutionBackwardFilterWorkspaceSize(void*, void*, void*, void*, void*, int,
                                                   std::size_t* bytes) {
  return no_bytes(bytes);
}

int cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(void*, int, int, void*, void*, void*,
                                                             void*, void*, std::size_t* bytes) {
  return no_bytes(bytes);
}
int cudnnGetBatchNormalizationBackwardExWorkspaceSize(void*, int, int, void*, void*, void*, void*,
                                                      void*, void*, void*, std::size_t* bytes) {
  return no_bytes(bytes);
}
int cudnnGetBatchNormalizationTrainingExReserveSpaceSize(void*, int, int, void*, void*,
                                                         std::size_t* bytes) {
  return no_bytes(bytes);
}

}  // extern "C"
