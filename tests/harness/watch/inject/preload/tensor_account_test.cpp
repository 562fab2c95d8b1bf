// What the tensors of a watched process hold, and the most they held.
#include "harness/watch/inject/preload/tensor_account.h"

#include <gtest/gtest.h>

#include <array>
#include <thread>
#include <vector>

namespace gradsync::watch {
namespace {

class TensorAccountTest : public ::testing::Test {
 protected:
  std::array<char, 8> blocks{};  // addresses to speak of
  TensorAccount account;
};

TEST_F(TensorAccountTest, KnowsWhatIsHeldAndTheMostThatWas) {
  account.add(&blocks[0], 100);
  account.add(&blocks[1], 20);
  account.remove(&blocks[0]);
  account.add(&blocks[2], 3);
  EXPECT_EQ(account.held_bytes(), 23);
  EXPECT_EQ(account.peak_bytes(), 120);
}

TEST_F(TensorAccountTest, APeakBeginsAnewWithWhatIsHeld) {
  account.add(&blocks[0], 100);
  account.add(&blocks[1], 20);
  account.remove(&blocks[0]);
  account.reset_peak();
  EXPECT_EQ(account.peak_bytes(), 20);
  account.add(&blocks[2], 5);
  EXPECT_EQ(account.peak_bytes(), 25);
}

TEST_F(TensorAccountTest, AnUnknownBlockChangesNothing) {
  account.add(&blocks[0], 100);
  account.remove(&blocks[1]);
  account.remove(&blocks[0]);
  account.remove(&blocks[0]);
  EXPECT_EQ(account.held_bytes(), 0);
}

TEST_F(TensorAccountTest, AnAddressMayComeAgain) {
  account.add(&blocks[0], 100);
  account.remove(&blocks[0]);
  account.add(&blocks[0], 7);
  EXPECT_EQ(account.held_bytes(), 7);
}

TEST_F(TensorAccountTest, ThreadsLoseNothing) {
  constexpr int kBlocks = 1000;
  std::vector<char> own(4 * kBlocks);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, &own, t] {
      for (int i = 0; i < kBlocks; ++i) account.add(&own[t * kBlocks + i], 2);
      for (int i = 0; i < kBlocks; i += 2) account.remove(&own[t * kBlocks + i]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(account.held_bytes(), 4 * kBlocks);
}

}  // namespace
}  // namespace gradsync::watch
