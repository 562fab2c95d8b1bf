#include "harness/comm/store.h"

#include <fmt/format.h>

#include <cstdlib>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "harness/base/errors.h"
#include "harness/launch/store_messages.h"

namespace gradsync::comm {
namespace {

c10d::TCPStoreOptions store_options(const launch::RankPlace& place, std::uint16_t port,
                                    double timeout_s) {
  c10d::TCPStoreOptions options;
  options.port = port;
  options.isServer = place.rank == 0;
  options.numWorkers = static_cast<std::size_t>(place.world_size);
  options.waitWorkers = false;
  options.timeout = std::chrono::milliseconds(static_cast<std::int64_t>(timeout_s * 1e3));
  return options;
}

// MASTER_PORT, or 0: any free one. Errors: ConfigError where it is no port number.
std::uint16_t wanted_port() {
  const char* text = std::getenv("MASTER_PORT");
  if (text == nullptr || *text == '\0') return 0;
  char* end = nullptr;
  const long port = std::strtol(text, &end, 10);
  if (*end != '\0' || port < 0 || port > 65535) {
    throw ConfigError("environment", "MASTER_PORT", text, "a port number from 0 to 65535");
  }
  return static_cast<std::uint16_t>(port);
}

}  // namespace

c10::intrusive_ptr<c10d::Store> make_store(const launch::RankPlace& place,
                                           launch::ControlChannel& control, double timeout_s) {
  if (place.rank == 0) {
    const std::uint16_t port = wanted_port();
    try {
      auto store = c10::make_intrusive<c10d::TCPStore>(place.master_address,
                                                       store_options(place, port, timeout_s));
      control.send(write_fields(launch::StoreOpened{store->getPort()}));
      return store;
    } catch (const std::exception& error) {
      if (port == 0) throw;
      throw EnvironmentError(
          fmt::format("port {} (MASTER_PORT) cannot be opened on {}", port, place.master_address),
          "unset MASTER_PORT to let the system choose a free one, or end what holds it");
    }
  }
  const auto said = read_fields<launch::StorePort>(control.receive(timeout_s), "the launcher");
  try {
    return c10::make_intrusive<c10d::TCPStore>(place.master_address,
                                               store_options(place, said.port, timeout_s));
  } catch (const std::exception& error) {
    throw CommError(fmt::format("rank 0's store at {}:{} does not answer within {} s",
                                place.master_address, said.port, timeout_s),
                    true);
  }
}

namespace {

template <typename Use>
auto with_store(const AgentStore& where, Use use) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(where.port);
  options.isServer = false;
  options.waitWorkers = false;
  options.timeout = std::chrono::milliseconds(static_cast<std::int64_t>(where.timeout_s * 1e3));
  try {
    c10d::TCPStore store(where.host, options);
    return use(static_cast<c10d::Store&>(store));
  } catch (const c10::Error& error) {
    throw EnvironmentError(
        fmt::format("torchrun's store at {}:{} (MASTER_ADDR, MASTER_PORT) does not answer: {}",
                    where.host, where.port, error.what_without_backtrace()),
        "see that torchrun started every task; --launcher none starts without it");
  }
}

}  // namespace

void AgentStore::set(const std::string& key, const std::string& value) const {
  with_store(*this, [&](c10d::Store& store) {
    store.set(key, std::vector<std::uint8_t>(value.begin(), value.end()));
  });
}

std::string AgentStore::get(const std::string& key) const {
  return with_store(*this, [&](c10d::Store& store) {
    const std::vector<std::uint8_t> value = store.get(key);
    return std::string(value.begin(), value.end());
  });
}

}  // namespace gradsync::comm
