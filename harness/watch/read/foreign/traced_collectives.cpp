#include "harness/watch/read/foreign/traced_collectives.h"

#include <algorithm>
#include <array>
#include <optional>

#include "harness/watch/inject/preload/c10d_operations.h"
#include "harness/watch/inject/preload/fnv_1a.h"

namespace gradsync::watch {
namespace {

// Bytes of an element: of torch's names, and of C++'s, as the profiler has them of operators.
constexpr std::array<std::pair<std::string_view, std::int64_t>, 36> kTypes{{
    {"Float", 4},
    {"Double", 8},
    {"Half", 2},
    {"BFloat16", 2},
    {"Long", 8},
    {"Int", 4},
    {"Short", 2},
    {"Char", 1},
    {"Byte", 1},
    {"Bool", 1},
    {"ComplexHalf", 4},
    {"ComplexFloat", 8},
    {"ComplexDouble", 16},
    {"Float8_e4m3fn", 1},
    {"Float8_e5m2", 1},
    {"UInt16", 2},
    {"UInt32", 4},
    {"UInt64", 8},
    {"float", 4},
    {"double", 8},
    {"c10::Half", 2},
    {"c10::BFloat16", 2},
    {"long int", 8},
    {"long", 8},
    {"int", 4},
    {"short int", 2},
    {"signed char", 1},
    {"unsigned char", 1},
    {"bool", 1},
    {"c10::complex<float>", 8},
    {"c10::complex<double>", 16},
    {"c10::Float8_e4m3fn", 1},
    {"c10::Float8_e5m2", 1},
    {"short unsigned int", 2},
    {"unsigned int", 4},
    {"long unsigned int", 8},
}};

std::optional<std::int64_t> element_bytes(std::string_view type) {
  const auto* const known =
      std::ranges::find(kTypes, type, &std::pair<std::string_view, std::int64_t>::first);
  if (known == kTypes.end()) return std::nullopt;
  return known->second;
}

// -1 where the type is not known, a size is negative, or they do not fit.
std::int64_t tensor_bytes(std::string_view type, const std::vector<std::int64_t>& sizes) {
  std::int64_t bytes = element_bytes(type).value_or(-1);
  if (bytes < 0) return -1;
  for (const std::int64_t size : sizes) {
    if (size < 0 || __builtin_mul_overflow(bytes, size, &bytes)) return -1;
  }
  return bytes;
}

// -1 where one of the two is.
std::int64_t sum_of_known(std::int64_t a_bytes, std::int64_t b_bytes) {
  std::int64_t sum = 0;
  if (a_bytes < 0 || b_bytes < 0 || __builtin_add_overflow(a_bytes, b_bytes, &sum)) return -1;
  return sum;
}

constexpr std::string_view kC10d = "c10d::";
constexpr std::string_view kGloo = "gloo:";
constexpr std::string_view kNccl = "nccl:";
constexpr int kFewestForReplicas = 4;  // two shards, each of them twice

// Returns -1 where it is not told.
// `type`: of tensors in lists, of which the profiler tells none.
std::int64_t bytes_of(const TracedInputs* inputs, const C10dOperation& operation,
                      std::string_view type = {}) {
  if (operation.sized == kNoSize) return 0;
  const auto place = static_cast<std::size_t>(operation.sized);
  if (inputs == nullptr || place >= inputs->size() || (*inputs)[place].empty()) return -1;
  std::int64_t bytes = 0;
  for (const TracedTensor& tensor : (*inputs)[place]) {
    const std::string_view own = tensor.type;
    bytes = sum_of_known(bytes, tensor_bytes(own.empty() ? type : own, tensor.sizes));
  }
  return bytes;
}

std::int64_t bytes_of(const TracedComm& comm, const C10dOperation& operation) {
  const std::int64_t elements =
      is_sized_by_output(operation.name) ? comm.out_elements : comm.in_elements;
  return elements < 0 ? -1 : tensor_bytes(comm.type, {elements});
}

// "": it is not told.
std::string_view type_of(const TracedRange& range) {
  const bool is_told =
      range.inputs != nullptr && !range.inputs->empty() && !range.inputs->front().empty();
  return is_told ? std::string_view(range.inputs->front().front().type) : std::string_view();
}

// As if all were of one type; -1 where it is not known.
std::int64_t size_of(const std::vector<TracedTensor>& tensors) {
  std::int64_t size = 0;
  for (const TracedTensor& tensor : tensors) {
    size = sum_of_known(size, tensor_bytes("float", tensor.sizes));
  }
  return size;
}

// Returns among how many ranks the whole is divided; nothing where sizes are not in the file.
std::optional<std::int64_t> ranks_of_scatter(const TracedInputs* inputs) {
  if (inputs == nullptr || inputs->size() < 2) return std::nullopt;
  const std::int64_t share = size_of((*inputs)[0]);
  const std::int64_t whole = size_of((*inputs)[1]);
  if (share <= 0 || whole < 0) return std::nullopt;
  return whole / share;
}

bool are_of_one_type(const std::vector<const TracedRange*>& ranges) {
  return std::ranges::all_of(
      ranges, [&](const TracedRange* each) { return type_of(*each) == type_of(*ranges.front()); });
}

}  // namespace

bool TracedCollectives::see(const TracedRange& range) {
  if (range.name.starts_with(kC10d)) {
    see_collective(range);
  } else if (range.name.starts_with(kGloo)) {
    gloo_[std::string(range.name.substr(kGloo.size()))].push_back(&range);
  } else if (range.name.starts_with(kNccl)) {
    threads_[range.thread].of_nccl.push_back(&range);
  } else if (range.comm != nullptr) {
    see_comm(range);
  } else {
    return false;
  }
  return true;
}

std::vector<Event> TracedCollectives::finish(int world_size) {
  find_ends();
  forget_doubtful_groups(world_size);
  std::vector<Event> events;
  for (const Collective& each : collectives_) events.push_back(each.event);
  events.insert(events.end(), beside_c10d_.begin(), beside_c10d_.end());
  return events;
}

bool TracedCollectives::has_unknown_size() const {
  return !beside_c10d_.empty() || std::ranges::any_of(collectives_, [](const Collective& each) {
    return each.event.bytes < 0;
  });
}

bool TracedCollectives::has_unknown_group() const {
  return std::ranges::any_of(beside_c10d_, [](const Event& each) { return each.object == 0; }) ||
         std::ranges::any_of(collectives_,
                             [](const Collective& each) { return each.event.object == 0; });
}

// The collective that runs on this range's thread when it begins; null: none does.
TracedCollectives::Collective* TracedCollectives::collective_around(const TracedRange& range) {
  const auto thread = threads_.find(range.thread);
  if (thread == threads_.end() || thread->second.collectives.empty()) return nullptr;
  Collective& collective = collectives_[thread->second.collectives.back()];
  return collective.range->contains(range) ? &collective : nullptr;
}

void TracedCollectives::see_collective(const TracedRange& range) {
  const std::string_view op = range.name.substr(kC10d.size());
  if (op == kNotCollective || collective_around(range) != nullptr) return;
  const C10dOperation operation = c10d_operation(op);
  Event event = traced_event(range, EventKind::Collective, std::string(operation.name));
  event.issued_ns = range.end_ns;
  event.end_ns = range.start_ns;
  event.bytes = bytes_of(range.inputs, operation);
  name_only_group(event);
  threads_[range.thread].collectives.push_back(collectives_.size());
  collectives_.push_back({std::move(event), &range, op});
}

void TracedCollectives::name_only_group(Event& event) const {
  if (trace_.groups.size() != 1) return;
  event.detail = trace_.groups.front().name;
  event.object = trace_.groups.front().number;
}

void TracedCollectives::see_comm(const TracedRange& range) {
  largest_group_ = std::max(largest_group_, range.comm->group_size);
  Collective* const around = collective_around(range);
  if (around == nullptr) return;
  Event& event = around->event;
  if (event.bytes < 0) event.bytes = bytes_of(*range.comm, c10d_operation(around->op));
  if (range.comm->group.empty()) return;
  around->is_group_told = true;
  event.detail = range.comm->group;
  event.object = nonzero_fnv_1a(range.comm->group);
}

// Gloo's threads open a range for each collective, in the order in which they were begun in a
// group, and end it when it is complete.
void TracedCollectives::find_ends() {
  std::map<std::string, std::vector<Collective*>> by_range;
  for (Collective& each : collectives_) {
    // Gloo all-reduces what it is to scatter.
    const bool scatters = each.event.name == "reduce_scatter" && !gloo_.contains(each.event.name);
    by_range[scatters ? "all_reduce" : each.event.name].push_back(&each);
  }
  for (const auto& [name, collectives] : by_range) {
    const auto ranges = gloo_.find(name);
    if (ranges == gloo_.end() || ranges->second.size() != collectives.size()) continue;
    if (trace_.groups.size() != 1 && !are_of_one_type(ranges->second)) continue;
    for (std::size_t i = 0; i < collectives.size(); ++i) {
      take_end(*collectives[i], *ranges->second[i]);
    }
  }
}

// Several groups have threads of their own, and no order among each other.
void TracedCollectives::take_end(Collective& collective, const TracedRange& range) const {
  Event& event = collective.event;
  if (trace_.groups.size() == 1) event.end_ns = std::max(event.start_ns, range.end_ns);
  if (event.bytes >= 0) return;
  event.bytes = bytes_of(collective.range->inputs, c10d_operation(collective.op), type_of(range));
}

bool TracedCollectives::runs(std::string_view operation) const {
  return std::ranges::any_of(collectives_,
                             [&](const Collective& each) { return each.event.name == operation; });
}

// Whether some may have been scattered among a part of the ranks, of whose shards others have
// replicas.
bool TracedCollectives::may_scatter_among_some(int world_size) const {
  if (world_size < kFewestForReplicas) return false;
  return std::ranges::any_of(collectives_, [&](const Collective& each) {
    return each.event.name == "reduce_scatter" && !each.is_group_told &&
           ranks_of_scatter(each.range->inputs) != world_size;
  });
}

// A trace of gloo's may name the group of all ranks alone, whatever others there are. Who
// scatters and reduces as well may do the latter among replicas.
void TracedCollectives::forget_doubtful_groups(int world_size) {
  if (trace_.groups.size() != 1 || !runs("reduce_scatter")) return;
  if (!runs("all_reduce") && !may_scatter_among_some(world_size)) return;
  for (Collective& each : collectives_) {
    if (each.event.object != trace_.groups.front().number) continue;
    each.event.object = 0;
    each.event.detail.clear();
  }
}

}  // namespace gradsync::watch
