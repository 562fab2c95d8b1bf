// Verdicts on the parameters themselves, from what all ranks had of each: whether replicas drift,
// which of them, since when and why; and gradients that are reduced twice.
//
// Bits decide, not counts. A job is accused where it is certain that ranks train one model: some
// parameter beside those that drift stays equal, by a wrapper or by hand. Where layers are parted
// among ranks (experts, stages, tensor parallel), what no wrapper reduces may be a rank's own.
#pragma once

#include <vector>

#include "harness/watch/judge/examined.h"

namespace gradsync::watch {

// Puts these verdicts where they belong among those on when the job synchronizes, which they may
// refute. `ranks` must not be empty. `reduced_again`: by hand, of gradients that are equal on all
// ranks, as exchanges_of_equals().
void add_parameter_verdicts(std::vector<Verdict>& verdicts, const std::vector<Examined>& ranks,
                            const std::vector<const Exchange*>& reduced_again);

}  // namespace gradsync::watch
