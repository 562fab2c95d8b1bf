// gloo's loop thread, and what it costs a rank that has one core.
//
// gloo serves its sockets from one thread that waits in epoll_wait(2). A socket that is ready while
// another thread holds the lock of its pair, mostly to send, is left for later, and because its
// event is level-triggered the next wait returns at once: the loop spins until the lock is free
// (gloo/transport/tcp/pair.cc, Pair::handleEvents). With a core to spare that costs nothing. On a
// rank's only core the spinning thread keeps out the very thread that would free the lock, until
// the scheduler's next tick: 4 ms where it ticks 250 times a second. Steps of a few milliseconds
// then take one tick or two, by chance.
//
// torch has it so, and so do the ranks here, unless a plan says `"gloo_loop": "yields"`. Then a
// thread for which epoll_wait returns the same events again and again gives its core to whichever
// thread waits for it. What is sent, and in what order, stays the same.
#pragma once

namespace gradsync::comm {

// Whether the loops of this process yield, from now on. Before the first call they do not.
void let_gloo_loop_yield(bool yield);

}  // namespace gradsync::comm
