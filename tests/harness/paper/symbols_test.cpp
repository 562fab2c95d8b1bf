#include "harness/paper/symbols.h"

#include <gmock/gmock.h>

#include "harness/base/errors.h"
#include "tests/models/temporary_folder.h"

namespace gradsync::paper {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

TEST(Symbols, AreWhatAHeaderDeclaresOrRenames) {
  const test::TemporaryFolder folder;
  const auto names = functions_of_header(folder.write("cuda.h",
                                                      "#define cuMemFree cuMemFree_v2\n"
                                                      "CUresult CUDAAPI cuMemFree(CUdeviceptr d);\n"
                                                      "CUresult CUDAAPI cuInit (unsigned Flags);\n"
                                                      "typedef struct CUctx_st *CUcontext;\n"));
  for (const char* name : {"cuMemFree", "cuMemFree_v2", "cuInit"}) {
    EXPECT_THAT(names, Contains(name));
  }
  EXPECT_THAT(names, Not(Contains("d")));
  EXPECT_THAT(names, Not(Contains("CUcontext")));
}

TEST(Symbols, AMissingHeaderIsNamed) {
  EXPECT_THAT([] { functions_of_header("/nowhere/cuda.h"); },
              ThrowsMessage<EnvironmentError>(HasSubstr("/nowhere/cuda.h is missing")));
}

TEST(Symbols, ATorchWithoutCudaIsRefused) {
  const test::TemporaryFolder folder;
  EXPECT_THAT([&] { needs_of_torch(folder.path()); },
              ThrowsMessage<EnvironmentError>(HasSubstr("is built without CUDA")));
}

}  // namespace
}  // namespace gradsync::paper
