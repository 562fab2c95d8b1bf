#include "models/pace.h"

#include <algorithm>

#include "harness/base/clock.h"

namespace gradsync::models {
namespace {

// The work between a forward and its backward that a GPU's host would have done ahead, while the
// device was still in forward. Larger hides more of it: engine set-up takes 0.2 ms.
constexpr std::int64_t kHostLeadNs = 500'000;

class HostStretch final : public Stretch {
 public:
  HostStretch(const Clock& clock, std::int64_t start_ns) : clock_(clock), start_ns_(start_ns) {}
  void await(std::int64_t offset_ns) override { clock_.sleep_until_ns(start_ns_ + offset_ns); }
  std::int64_t start_ns() const { return start_ns_; }

 private:
  const Clock& clock_;
  std::int64_t start_ns_;
};

class HostPace final : public Pace {
 public:
  explicit HostPace(const Clock& clock) : clock_(clock) {}

  std::unique_ptr<Stretch> begin() const override {
    return std::make_unique<HostStretch>(clock_, clock_.now_ns());
  }
  std::unique_ptr<Stretch> begin_after(const Stretch& before,
                                       std::int64_t offset_ns) const override {
    const std::int64_t end_ns = static_cast<const HostStretch&>(before).start_ns() + offset_ns;
    return std::make_unique<HostStretch>(clock_, std::max(end_ns, clock_.now_ns() - kHostLeadNs));
  }

 private:
  const Clock& clock_;
};

}  // namespace

std::shared_ptr<const Pace> host_pace(const Clock& clock) {
  return std::make_shared<HostPace>(clock);
}

}  // namespace gradsync::models
