// Memory that is taken from the other holders of a tensor.
#include "harness/comm/storage.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace gradsync::comm {
namespace {

TEST(Storage, ReclaimedIsTheSameMemoryAndNobodyElses) {
  const at::Tensor held = at::arange(6, at::kFloat).reshape({2, 3}).t();
  const void* const memory = held.data_ptr();
  const at::Tensor values = held.clone();
  const at::Tensor own = reclaim_storage(held);
  EXPECT_EQ(own.data_ptr(), memory);
  EXPECT_EQ(own.storage().nbytes(), 24U);
  EXPECT_TRUE(at::equal(own, values));
  EXPECT_EQ(held.storage().nbytes(), 0U);
  EXPECT_EQ(held.storage().data(), nullptr);
  release_storage(held);  // has nothing left to free
  EXPECT_TRUE(at::equal(own, values));
}

}  // namespace
}  // namespace gradsync::comm
