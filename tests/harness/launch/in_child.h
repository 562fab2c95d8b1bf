// Helpers for tests that need a process of their own: to change what it may do, or to lose it.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

#include "harness/launch/fabric.h"

namespace gradsync::launch {

// Runs `body` in a forked child and returns what it returned, or the words of what it threw.
std::string in_child(const std::function<std::string()>& body);

// Becomes the user "nobody", for good. For in_child. The process is then like a fresh program of
// that user, and not marked as one that has just dropped its privileges.
void become_nobody();

// "" where a TCP connection from `sender`'s network reaches `receiver`'s address; else what failed.
std::string try_to_connect(const Fabric& fabric, int sender, int receiver);

// "" where namespaces can be made here; else why not, for GTEST_SKIP.
std::string why_no_namespaces();

// "" where root can become a user without privilege who may make namespaces; else why not. Asks the
// kernel itself, so that a fault of ours is no reason to skip.
std::string why_no_unprivileged_namespaces();

// True once `condition` holds; false when it still does not after a minute, which is for faults:
// however busy a machine is, what takes milliseconds does not take that long.
bool eventually(const std::function<bool()>& condition);

}  // namespace gradsync::launch
