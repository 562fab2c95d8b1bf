#include <gmock/gmock.h>

#include "harness/text/labels.h"

namespace gradsync::text {
namespace {

using nlohmann::json;
using results::Parameters;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

Parameters cell_with(const json& changes) {
  json written{{"topology", "1x2"}, {"strategy", "no_sync"}, {"wrapper", "ddp"}};
  written.update(changes);
  return written;
}

TEST(VaryingNames, AreThoseThatDifferButForTopologyAndStrategy) {
  const Parameters first = cell_with(json::object());
  const Parameters second =
      cell_with({{"topology", "2x1"}, {"strategy", "baseline"}, {"scale", 50}});
  EXPECT_THAT(varying_names({&first, &second}), ElementsAre("scale"));
  EXPECT_THAT(varying_names({&first, &first}), IsEmpty());
  EXPECT_THAT(varying_names({}), IsEmpty());
}

TEST(VaryingNames, AWrappersOwnParametersAreThoseThatVaryUnderIt) {
  const Parameters ddp = cell_with(json::object());
  const Parameters kept = cell_with({{"wrapper", "fsdp"}, {"reshard_after_forward", false}});
  const Parameters freed = cell_with({{"wrapper", "fsdp"}, {"reshard_after_forward", true}});
  EXPECT_THAT(varying_names({&ddp, &kept}), ElementsAre("wrapper"));
  EXPECT_THAT(varying_names({&ddp, &kept, &freed}),
              ElementsAre("reshard_after_forward", "wrapper"));
}

TEST(VaryingNames, WhatIsLeftOutIsAValueOfItsOwn) {
  const Parameters none = cell_with(json::object());
  const Parameters fp16 = cell_with({{"compression", "fp16"}});
  EXPECT_THAT(varying_names({&none, &fp16}), ElementsAre("compression"));
  const Parameters full = cell_with({{"wrapper", "fsdp"}, {"activation_checkpointing", "full"}});
  EXPECT_THAT(varying_names({&none, &full}), ElementsAre("activation_checkpointing", "wrapper"));
}

}  // namespace
}  // namespace gradsync::text
