// The footprints of the suite's models, each beside the arithmetic it describes: what a model and
// its footprint say is compared byte for byte by tests.   No torch.
#pragma once

#include <cstdint>
#include <optional>

#include "models/bert_config.h"
#include "models/checkpointed_units.h"
#include "models/footprint.h"
#include "models/mixtral_shapes.h"
#include "models/profile.h"

namespace gradsync::models {

Footprint mlp_footprint(const MicroBatchShape& shape, CheckpointedUnits checkpointed = {});

// Nothing for a single example or token, whose products take another way through torch, and for
// more tokens than there are positions.
std::optional<Footprint> bert_footprint(const BertConfig& config, const MicroBatchShape& shape,
                                        CheckpointedUnits checkpointed = {});

// With balanced routing. A router that is free to choose gives its experts any number of tokens,
// and what they hold depends on it.
Footprint mixtral_footprint(const MixtralConfig& config, const MicroBatchShape& shape,
                            CheckpointedUnits checkpointed = {});

// `scale` as PacedModel has it. Reads no batch.
Footprint paced_footprint(const Profile& profile, int scale);

}  // namespace gradsync::models
