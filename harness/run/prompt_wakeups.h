// Lets a thread that wakes run at once, even while another of this process computes.
#pragma once

namespace gradsync::run {

// Asks the scheduler for the shortest time slice (0.1 ms) for this thread and those it starts
// later. For ranks of paced models: beside a GPU, communication threads find a processor free,
// while here they share one with the thread that prepares gradients and would wait up to 3 ms for
// its slice to end. Never for real compute, whose communication shares the processor in reality
// too. Without effect before Linux 6.12; never fails. Source: sched_setattr(2), sched_runtime under
// SCHED_OTHER (EEVDF's custom slices).
void prefer_prompt_wakeups();

}  // namespace gradsync::run
