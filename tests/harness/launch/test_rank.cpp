// A rank for tests of LocalRanks: does what the launcher's messages tell it.
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <string>

#include "harness/launch/control_channel.h"

using gradsync::launch::ControlChannel;
using nlohmann::json;

namespace {

json describe_self() {
  const gradsync::launch::RankPlace place = gradsync::launch::rank_place_from_environment();
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  ::sched_getaffinity(0, sizeof cpus, &cpus);
  const auto variable = [](const char* name) {
    const char* value = ::getenv(name);
    return value == nullptr ? json(nullptr) : json(value);
  };
  return {{"rank", place.rank},
          {"local_rank", place.local_rank},
          {"world_size", place.world_size},
          {"node", place.node},
          {"address", place.address},
          {"interface", place.interface},
          {"master_address", place.master_address},
          {"cpus", CPU_COUNT(&cpus)},
          {"leads_its_group", ::getpgrp() == ::getpid()},
          {"omp_num_threads", variable("OMP_NUM_THREADS")},
          {"extra", variable("GRADSYNC_TEST_EXTRA")}};
}

void obey(ControlChannel& channel, const json& order) {
  const std::string what = order.at("do");
  if (what == "place") channel.send(describe_self());
  if (what == "echo") channel.send({{"echo", order.at("text")}});
  if (what == "measure") channel.send({{"size", order.at("text").get<std::string>().size()}});
  if (what == "progress") channel.progress().step = order.at("step").get<int>();
  if (what == "flood") {
    const std::string text(order.at("bytes").get<std::size_t>(), 'x');
    for (int i = 0; i < order.at("count").get<int>(); ++i) channel.send({{"i", i}, {"text", text}});
  }
  if (what == "garbage") {
    const std::string text = "no json\n";
    const int fd = ::atoi(::getenv("GRADSYNC_CONTROL_FD"));
    if (::write(fd, text.data(), text.size()) < 0) ::_exit(9);
  }
  if (what == "die") ::raise(order.at("signal").get<int>());
  if (what == "exit") ::exit(order.at("code").get<int>());
  if (what == "ignore_term") ::signal(SIGTERM, SIG_IGN);
}

}  // namespace

int main() {
  ControlChannel channel;
  constexpr double kPatience = 600;
  for (;;) obey(channel, channel.receive(kPatience));
}
