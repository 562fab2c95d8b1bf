#include "tests/harness/account/made_account.h"

#include <map>
#include <span>

namespace gradsync::test {
namespace {

using Numbers = std::vector<double>;

class Draw {
 public:
  explicit Draw(unsigned seed) : engine_(seed) {}
  Numbers operator()(std::int64_t count) {
    Numbers numbers(static_cast<std::size_t>(count));
    for (double& number : numbers) number = normal_(engine_);
    return numbers;
  }

 private:
  std::mt19937 engine_;
  std::normal_distribution<double> normal_;
};

account::Sketch sketch_of_part(const Numbers& numbers, std::int64_t from, std::int64_t length) {
  return account::sketch_of(
      std::span(numbers).subspan(static_cast<std::size_t>(from), static_cast<std::size_t>(length)),
      from);
}

}  // namespace

std::vector<account::AccountRecords> MadeAccount::records(unsigned seed) const {
  Draw draw(seed);
  std::vector<account::AccountRecords> all(static_cast<std::size_t>(ranks));
  for (int r = 0; r < ranks; ++r) {
    all[static_cast<std::size_t>(r)].pid = 100 + r;
    all[static_cast<std::size_t>(r)].rank = r;
    all[static_cast<std::size_t>(r)].world_size = ranks;
  }
  std::map<std::pair<int, int>, Numbers> reads;  // by step and parameter
  for (int step = 0; step < steps; ++step) {
    for (int p = 0; p < std::ssize(elements); ++p) {
      const std::int64_t size = elements[static_cast<std::size_t>(p)];
      const Numbers common = draw(size);
      const Numbers value = draw(size);
      Numbers& read = reads[{step, p}];
      for (const double each : value) read.push_back(besides(each));
      std::vector<std::vector<Numbers>> gradients(static_cast<std::size_t>(ranks));
      for (int r = 0; r < ranks; ++r) {
        auto& own = gradients[static_cast<std::size_t>(r)];
        for (int m = 0; m < micro_batches; ++m) {
          own.push_back(is_the_same_batch && r > 0 ? gradients[0][static_cast<std::size_t>(m)]
                                                   : draw(size));
          Numbers& gradient = own.back();
          for (std::size_t i = 0; i < gradient.size(); ++i) {
            if (!is_the_same_batch) {
              gradient[i] = alike * common[i] + (1 - alike) * gradient[i];
            }
            read[i] += weight(p, r, m) / ranks * gradient[i];
          }
        }
      }
      if (rounding > 0) {
        const Numbers errors = draw(size);
        for (std::size_t i = 0; i < read.size(); ++i) read[i] += rounding * errors[i];
      }
      if (const auto before = reads.find({step - 1, p}); before != reads.end()) {
        for (std::size_t i = 0; i < read.size(); ++i) read[i] += kept * before->second[i];
      }
      const Numbers& seen = reads[{std::max(0, step - late), p}];
      for (int r = 0; r < ranks; ++r) {
        const std::int64_t rows = (size + ranks - 1) / ranks;
        const std::int64_t from = is_sharded ? std::min<std::int64_t>(r * rows, size) : 0;
        const std::int64_t length = is_sharded ? std::min(rows, size - from) : size;
        account::ParameterRecord record;
        record.step = step;
        record.index = p;
        record.name = "layer" + std::to_string(p);
        record.dtype = dtype;
        record.elements = size;
        record.offset = from;
        record.length = length;
        record.gradient = sketch_of_part(seen, from, length);
        record.value = sketch_of_part(value, from, length);
        for (int m = 0; m < micro_batches; ++m) {
          const auto& gradient =
              gradients[static_cast<std::size_t>(r)][static_cast<std::size_t>(m)];
          record.contributions.push_back({m, false, account::sketch_of(gradient)});
        }
        all[static_cast<std::size_t>(r)].parameters.push_back(std::move(record));
      }
    }
    for (auto& process : all) {
      account::AccountedStep& accounted = process.steps.emplace_back();
      accounted.step = step;
      accounted.micro_batches = micro_batches;
    }
  }
  return all;
}

std::vector<account::AccountRecords> joined(std::vector<account::AccountRecords> first,
                                            const std::vector<account::AccountRecords>& then) {
  const std::int64_t before = first.front().steps.back().step + 1;
  for (std::size_t r = 0; r < first.size(); ++r) {
    for (account::ParameterRecord record : then[r].parameters) {
      record.step += before;
      first[r].parameters.push_back(std::move(record));
    }
    for (account::AccountedStep step : then[r].steps) {
      step.step += before;
      first[r].steps.push_back(std::move(step));
    }
  }
  return first;
}

}  // namespace gradsync::test
