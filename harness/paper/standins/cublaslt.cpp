// cuBLASLt of paper: descriptors that hold nothing, and one algorithm, which needs no workspace.
//
// Declared by hand, as cublas.cpp is. Source: cuBLAS Library, 3.3 and 3.4.
#include <cstddef>
#include <cstring>

#if __has_include(<cublas_api.h>)
#include <cublas_api.h>
#else
#define CUBLAS_VERSION 120000
#endif

namespace {

constexpr std::size_t kDescriptorBytes = 256;

// cublasLtMatmulHeuristicResult_t: the algorithm, its workspace, whether it is good, and more.
struct Heuristic {
  unsigned long long algorithm[8];
  std::size_t workspace_bytes;
  int status;
  float waves;
  int reserved[4];
};

int make(void** descriptor) {
  *descriptor = new char[kDescriptorBytes]{};
  return 0;
}

int drop(void* descriptor) {
  delete[] static_cast<char*>(descriptor);
  return 0;
}

}  // namespace

extern "C" {

// cuDNN asks for it.
std::size_t cublasLtGetVersion() {
  return CUBLAS_VERSION;
}
int cublasLtCreate(void** handle) {
  return make(handle);
}
int cublasLtDestroy(void* handle) {
  return drop(handle);
}
int cublasLtMatmulDescCreate(void** descriptor, int, int) {
  return make(descriptor);
}
int cublasLtMatmulDescDestroy(void* descriptor) {
  return drop(descriptor);
}
int cublasLtMatmulDescSetAttribute(void*, int, const void*, std::size_t) {
  return 0;
}
int cublasLtMatrixLayoutCreate(void** layout, int, unsigned long long, unsigned long long,
                               long long) {
  return make(layout);
}
int cublasLtMatrixLayoutDestroy(void* layout) {
  return drop(layout);
}
int cublasLtMatrixLayoutSetAttribute(void*, int, const void*, std::size_t) {
  return 0;
}
int cublasLtMatmulPreferenceCreate(void** preference) {
  return make(preference);
}
int cublasLtMatmulPreferenceDestroy(void* preference) {
  return drop(preference);
}
int cublasLtMatmulPreferenceSetAttribute(void*, int, const void*, std::size_t) {
  return 0;
}

int cublasLtMatmulAlgoGetHeuristic(void*, void*, void*, void*, void*, void*, void*, int,
                                   Heuristic* results, int* count) {
  std::memset(results, 0, sizeof *results);
  *count = 1;
  return 0;
}

}  // extern "C"
