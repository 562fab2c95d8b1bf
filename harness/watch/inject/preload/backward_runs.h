// Runs of autograd in this process, each an event from its first node to its last.
#pragma once

#include <string_view>

#include "harness/watch/inject/preload/recorder.h"
#include "harness/watch/inject/preload/turns_file.h"

namespace gradsync::watch {

// A node of that name begins on this thread. Returns the event of its run: of a node that runs
// autograd again the outermost. On a GPU several threads work at one run.
Recorder::Handle enter_node(std::string_view node);

void leave_node(Recorder::Handle run) noexcept;

// Returns the phases of the step that ends with this optimizer; its backwards are those since the
// last call. Not known where one is not recorded, or where there were more than are remembered.
StepPhases take_step_phases(Recorder::Handle optimizer) noexcept;

// Whether this thread is in a node, or in a hook of one.
bool is_at_node();

// The run lasts until now, where this thread is at a node: a reduction that a hook of the node
// begins comes after the node itself. A callback at the end of a run has no node.
void extend_run();

// In the child: another thread of the parent may have held the lock.
void forget_runs() noexcept;

}  // namespace gradsync::watch
