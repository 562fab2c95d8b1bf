#include "models/module_path.h"

#include <memory>

namespace gradsync::models {

ModulePath module_path(torch::nn::Module& root, const std::string& dotted) {
  torch::nn::Module* owner = &root;
  std::size_t start = 0;
  for (std::size_t dot = 0; (dot = dotted.find('.', start)) != std::string::npos; start = dot + 1) {
    const std::string name = dotted.substr(start, dot - start);
    const auto children = owner->named_children();
    const std::shared_ptr<torch::nn::Module>* child = children.find(name);
    if (child == nullptr) {
      owner = owner->register_module(name, std::make_shared<torch::nn::Module>(name)).get();
    } else {
      owner = child->get();
    }
  }
  return {*owner, dotted.substr(start)};
}

std::vector<std::string> parameters_below(const torch::nn::Module& root,
                                          const std::string& prefix) {
  std::vector<std::string> names;
  for (const auto& item : root.named_parameters()) {
    if (item.key().starts_with(prefix)) names.push_back(item.key());
  }
  return names;
}

}  // namespace gradsync::models
