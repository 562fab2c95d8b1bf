// cuBLAS of paper: handles and modes. What computes does nothing and succeeds (symbols.h).
//
// Declared by hand, with what the calling convention needs of each: its header comes with a package
// of 400 MB. Source: cuBLAS Library, 2.4 and 2.5; CUBLAS_STATUS_SUCCESS is 0.
#include <cstdlib>

namespace {

struct Handle {
  int math_mode = 0;
  int pointer_mode = 0;
};

Handle& handle(void* opaque) {
  return *static_cast<Handle*>(opaque);
}

}  // namespace

extern "C" {

int cublasCreate_v2(void** opaque) {
  *opaque = new Handle;
  return 0;
}

int cublasDestroy_v2(void* opaque) {
  delete static_cast<Handle*>(opaque);
  return 0;
}

int cublasSetMathMode(void* opaque, int mode) {
  handle(opaque).math_mode = mode;
  return 0;
}

int cublasGetMathMode(void* opaque, int* mode) {
  *mode = handle(opaque).math_mode;
  return 0;
}

int cublasSetPointerMode_v2(void* opaque, int mode) {
  handle(opaque).pointer_mode = mode;
  return 0;
}

int cublasGetPointerMode_v2(void* opaque, int* mode) {
  *mode = handle(opaque).pointer_mode;
  return 0;
}

int cublasSetStream_v2(void*, void*) {
  return 0;
}

int cublasSetWorkspace_v2(void*, void*, std::size_t) {
  return 0;
}

}  // extern "C"
