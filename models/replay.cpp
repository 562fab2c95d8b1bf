#include "models/replay.h"

#include <algorithm>
#include <map>
#include <string>

namespace gradsync::models {
namespace {

// What stays of what was made, the last on top.
class Stack {
 public:
  // Memory rose by `high` at most and then stood `net` higher.
  void change(std::int64_t high, std::int64_t net, MemoryScript& script) {
    const std::int64_t stays = std::max<std::int64_t>(net, 0);
    if (stays > 0) pieces_.push_back(stays);
    script.hold({stays, high - stays});
    script.free({high - stays});
    shrink(-net, script);
  }
  void shrink(std::int64_t bytes, MemoryScript& script) {
    while (bytes > 0 && !pieces_.empty()) {
      const std::int64_t top = pieces_.back();
      pieces_.pop_back();
      script.free({top});
      const std::int64_t rest = top - bytes;
      bytes -= top;
      if (rest <= 0) continue;
      pieces_.push_back(rest);
      script.hold({rest});
    }
  }
  void clear(MemoryScript& script) {
    for (; !pieces_.empty(); pieces_.pop_back()) script.free({pieces_.back()});
  }

 private:
  std::vector<std::int64_t> pieces_;
};

// A layer's names have slashes where dots would not nest.
std::string dotted(std::string name) {
  std::ranges::replace(name, '/', '.');
  return name;
}

std::string owner_of(const std::string& parameter) {
  const auto dot = parameter.rfind('.');
  return dot == std::string::npos ? "" : parameter.substr(0, dot);
}

class Replay {
 public:
  explicit Replay(const Profile& profile)
      : profile_(profile), memory_(*profile.memory), replays_(profile.layers.size()) {}

  std::vector<LayerReplay> take() {
    forward();
    backward();
    return std::move(replays_);
  }

 private:
  void forward() {
    const std::vector<std::size_t> begins = forward_begins();
    for (std::size_t i = 0; i < replays_.size(); ++i) {
      play(memory_.forward, begins[i], begins[i + 1], replays_[i].forward);
    }
  }

  // The event with which each layer's forward begins, and behind them the end.
  std::vector<std::size_t> forward_begins() const {
    std::map<std::string, std::size_t> entered;
    for (std::size_t i = 0; i < memory_.forward.size(); ++i) {
      const PassEvent& event = memory_.forward[i];
      if (event.kind == PassEvent::Kind::Enter) {
        entered.try_emplace(memory_.modules[event.index].name, i);
      }
    }
    std::vector<std::size_t> begins{0};
    for (std::size_t i = 1; i < replays_.size(); ++i) {
      const auto& parameters = profile_.layers[i].parameters;
      const auto found =
          parameters.empty() ? entered.end() : entered.find(owner_of(dotted(parameters[0].name)));
      begins.push_back(std::max(begins.back(), found == entered.end() ? 0 : found->second));
    }
    begins.push_back(memory_.forward.size());
    return begins;
  }

  void backward() {
    std::map<std::string, const PassEvent*> gradients;
    for (const PassEvent& event : memory_.backward_first) {
      if (event.kind != PassEvent::Kind::Gradient) continue;
      gradients[memory_.parameters[event.index].name] = &event;
    }
    const PassEvent* const first = memory_.backward_first.data();
    std::size_t begin = 0;
    for (std::size_t i = replays_.size(); i-- > 0;) {
      std::size_t end = begin;
      std::int64_t gradient_bytes = 0;
      for (const ProfileTensor& parameter : profile_.layers[i].parameters) {
        const auto found = gradients.find(dotted(parameter.name));
        if (found == gradients.end()) continue;
        end = std::max(end, static_cast<std::size_t>(found->second - first) + 1);
        gradient_bytes += found->second->net;
      }
      if (i == 0) end = memory_.backward_first.size();
      MemoryScript& script = replays_[i].backward;
      play(memory_.backward_first, begin, end, script);
      stack_.shrink(gradient_bytes, script);
      if (i == 0) stack_.clear(script);
      begin = end;
    }
  }

  void play(const std::vector<PassEvent>& pass, std::size_t begin, std::size_t end,
            MemoryScript& script) {
    for (std::size_t i = begin; i < end; ++i) {
      if (pass[i].kind == PassEvent::Kind::Hold) stack_.change(pass[i].high, pass[i].net, script);
    }
  }

  const Profile& profile_;
  const MemoryProfile& memory_;
  Stack stack_;
  std::vector<LayerReplay> replays_;
};

}  // namespace

std::vector<LayerReplay> replay_of(const Profile& profile, int scale) {
  if (!profile.memory || scale != 1 || profile.memory->dtype != "float32") return {};
  return Replay(profile).take();
}

}  // namespace gradsync::models
