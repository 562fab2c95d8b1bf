// A model in a file of its own, linked in: logistic regression on bags of words.
//
//   cmake build/release -DGRADSYNC_MODELS=models/examples/logistic.cpp
//   benchmarks/run smoke --model logistic
#include <ATen/ATen.h>

#include <memory>

#include "models/model.h"

namespace {

using gradsync::models::Batch;
using gradsync::models::Model;
using gradsync::models::ModelOptions;

constexpr std::int64_t kVocabulary = 5000;
constexpr std::int64_t kClasses = 2;

class Logistic : public Model {
 public:
  // All zero is a good start where there is but one layer.
  explicit Logistic(at::Device device)
      : weight_(register_parameter("weight", at::zeros({kVocabulary, kClasses}, device))),
        bias_(register_parameter("bias", at::zeros({kClasses}, device))) {}

  at::Tensor loss(const Batch& batch) override {
    const at::Tensor words = at::embedding(weight_, batch.input_ids);
    return at::cross_entropy_loss(words.mean(1) + bias_, batch.labels);
  }

  std::int64_t vocabulary_size() const override { return kVocabulary; }

 private:
  at::Tensor weight_;
  at::Tensor bias_;
};

std::shared_ptr<Model> make(const ModelOptions& options) {
  auto model = std::make_shared<Logistic>(options.device);
  gradsync::models::load_weights(options, *model);
  return model;
}

const gradsync::models::Registration kRegistration{
    {{.name = "logistic", .about = "logistic regression on bags of words"}, make}};

}  // namespace
