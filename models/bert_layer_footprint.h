// An encoder layer of a BERT on its way through a micro-batch.   No torch.
#pragma once

#include "models/bert_operations.h"
#include "models/footprint.h"

namespace gradsync::models::bert {

PassScript layer_pass(const Sizes& sizes, const UnitKind& kind);

}  // namespace gradsync::models::bert
