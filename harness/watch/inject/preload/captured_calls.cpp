#include "harness/watch/inject/preload/captured_calls.h"

#include <stdlib.h>

#include <new>

#include "harness/watch/inject/preload/inside.h"

namespace gradsync::watch {

// Lists by hand: containers would bring the C++ library into every process of a job.
struct CapturedCalls::Call {
  NcclCall call;
  Call* next;
};

struct CapturedCalls::Holder {
  Kind kind;
  const void* handle;
  Call* calls;
  Holder* next;
};

namespace {

// Returns null where there is no memory.
template <typename Node>
Node* make(const Node& node) {
  void* memory = ::malloc(sizeof(Node));
  return memory == nullptr ? nullptr : new (memory) Node(node);
}

template <typename Node>
Node** end_of(Node** list) {
  while (*list != nullptr) list = &(*list)->next;
  return list;
}

template <typename Node>
void free_all(Node* list) {
  while (list != nullptr) {
    Node* next = list->next;
    ::free(list);
    list = next;
  }
}

}  // namespace

// Returns the place of the pointer to it; null where there is none.
CapturedCalls::Holder** CapturedCalls::find(Kind kind, const void* handle) noexcept {
  for (Holder** holder = &holders_; *holder != nullptr; holder = &(*holder)->next) {
    if ((*holder)->kind == kind && (*holder)->handle == handle) return holder;
  }
  return nullptr;
}

CapturedCalls::Holder* CapturedCalls::only_capture() const noexcept {
  Holder* only = nullptr;
  for (Holder* holder = holders_; holder != nullptr; holder = holder->next) {
    if (holder->kind != Kind::Capture) continue;
    if (only != nullptr) return nullptr;
    only = holder;
  }
  return only;
}

// Returns a new one without calls, in place of any that has this handle.
CapturedCalls::Holder* CapturedCalls::hold(Kind kind, const void* handle) noexcept {
  drop(kind, handle);
  Holder* holder = make(Holder{kind, handle, nullptr, holders_});
  if (holder == nullptr) return nullptr;
  holders_ = holder;
  if (kind == Kind::Capture) ++captures_;
  if (kind == Kind::Executable) ++executables_;
  return holder;
}

void CapturedCalls::drop(Kind kind, const void* handle) noexcept {
  Holder** place = find(kind, handle);
  if (place == nullptr) return;
  Holder* holder = *place;
  *place = holder->next;
  if (kind == Kind::Capture) --captures_;
  if (kind == Kind::Executable) --executables_;
  free_all(holder->calls);
  ::free(holder);
}

void CapturedCalls::begin(const void* stream) noexcept {
  const Locked locked(mutex_);
  hold(Kind::Capture, stream);
}

bool CapturedCalls::add(const void* stream, const NcclCall& call) noexcept {
  const Locked locked(mutex_);
  Holder** own = find(Kind::Capture, stream);
  Holder* capture = own != nullptr ? *own : only_capture();
  Call* added = capture == nullptr ? nullptr : make(Call{call, nullptr});
  if (added == nullptr) return false;
  *end_of(&capture->calls) = added;
  return true;
}

void CapturedCalls::end(const void* stream, const void* graph) noexcept {
  const Locked locked(mutex_);
  Holder** place = find(Kind::Capture, stream);
  if (place == nullptr) return;
  Call* calls = (*place)->calls;
  (*place)->calls = nullptr;
  drop(Kind::Capture, stream);
  Holder* holder = graph == nullptr || calls == nullptr ? nullptr : hold(Kind::Graph, graph);
  if (holder == nullptr) {
    free_all(calls);
  } else {
    holder->calls = calls;
  }
}

void CapturedCalls::instantiate(const void* graph, const void* executable) noexcept {
  const Locked locked(mutex_);
  drop(Kind::Executable, executable);
  Holder** place = find(Kind::Graph, graph);
  Holder* holder = place == nullptr ? nullptr : hold(Kind::Executable, executable);
  if (holder == nullptr) return;
  for (const Call* call = (*find(Kind::Graph, graph))->calls; call != nullptr; call = call->next) {
    Call* copy = make(Call{call->call, nullptr});
    if (copy == nullptr) return;
    *end_of(&holder->calls) = copy;
  }
}

void CapturedCalls::forget_graph(const void* graph) noexcept {
  const Locked locked(mutex_);
  drop(Kind::Graph, graph);
}

void CapturedCalls::forget_executable(const void* executable) noexcept {
  const Locked locked(mutex_);
  drop(Kind::Executable, executable);
}

void CapturedCalls::for_each(const void* executable, void (*act)(const NcclCall&)) noexcept {
  if (executables_ == 0) return;
  const Locked locked(mutex_);
  Holder** place = find(Kind::Executable, executable);
  if (place == nullptr) return;
  for (const Call* call = (*place)->calls; call != nullptr; call = call->next) act(call->call);
}

}  // namespace gradsync::watch
