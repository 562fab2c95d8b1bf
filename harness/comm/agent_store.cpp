#include "harness/comm/agent_store.h"

#include <fmt/format.h>

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "harness/base/errors.h"

namespace gradsync::comm {
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
