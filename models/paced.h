// A model with another machine's compute profile: its layers wait on the clock while everything
// around them, the Reducer, the hooks, the bytes on the link, is real.
//
// Deadlines are absolute (start of forward or backward plus the layers so far), so that the work of
// hooks and copies hides in the waits, as it does beside a GPU, and errors do not add up.
#pragma once

#include <memory>
#include <vector>

#include "models/model.h"
#include "models/profile.h"

namespace gradsync::models {

class PacedModel : public Model {
 public:
  // `scale` divides the elements of every parameter (rounded, at least one); shapes become flat.
  // `clock` must outlive the model.
  PacedModel(const Profile& profile, int scale, const Clock& clock, at::Device device);

  // Returns a scalar of no meaning whose backward takes the profile's time and gives every parameter
  // a gradient: a layer's together, when its backward is over, last registered first.
  at::Tensor loss(const Batch& batch) override;

  Compute compute() const override { return Compute::Paced; }
  double paced_optimizer_s() const override { return profile_.optimizer_s; }

  // Where the current forward and backward began, and what they have used up; for the layers.
  struct Pace {
    const Clock* clock = nullptr;
    std::int64_t backward_start_ns = 0;  // 0: backward has not begun
  };

 private:
  struct Layer {
    std::vector<at::Tensor> parameters;
    double forward_until_s = 0;   // since forward began
    double backward_until_s = 0;  // since backward began
  };

  Profile profile_;
  std::vector<Layer> layers_;
  std::shared_ptr<Pace> pace_;
};

}  // namespace gradsync::models
