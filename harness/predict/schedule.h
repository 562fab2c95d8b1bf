// A step of one rank as spans on two lanes, the computation and the wire, each of which begins when
// its lane is free and what it needs is there. Every span knows which other one it waited for last,
// so that the critical path can be read back from the end.
//
//   compute  |-- forward --|-- layer 2 --|-- layer 1 --|·····wait·····|
//   wire                                 |==== bucket 1 ====|= bucket 2 =|
//
// Where the library takes the processor that computes, a computation goes on more slowly while the
// wire is at work: by the share of its time that the collective needs of the processor.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "harness/predict/collective_time.h"

namespace gradsync::predict {

enum class Lane { Compute, Wire };

struct Span {
  Lane lane = Lane::Compute;
  std::string name;  // "forward", "backward", "optimizer", "copy", or what a collective carries
  int micro_batch = 0;
  double start_s = 0;
  double end_s = 0;
  CollectiveTime parts;  // on the wire: of what it consists
  int cause = kNoSpan;   // the span at whose end this one could begin

  static constexpr int kNoSpan = -1;
  double length_s() const { return end_s - start_s; }
};

class Schedule {
 public:
  // Appends a span to its lane: it begins at the end of the last of the lane and of those it
  // `needs`. Returns its number.
  int compute(const std::string& name, int micro_batch, double length_s,
              const std::vector<int>& needs = {});
  int send(const std::string& name, int micro_batch, const CollectiveTime& parts,
           const std::vector<int>& needs = {});

  int last_on(Lane lane) const { return last_[static_cast<std::size_t>(lane)]; }
  const std::vector<Span>& spans() const { return spans_; }
  double end_s() const { return end_s_; }

  // Returns how long the computation stood still while the wire did not.
  double exposed_s() const;

  // Returns the spans of the critical path in order of time: they follow each other without a gap,
  // from 0 to the end.
  std::vector<Span> critical_path() const;

 private:
  int append(Span span, const std::vector<int>& needs);
  double end_of_computation(double start_s, double length_s);

  std::vector<Span> spans_;
  std::vector<int> last_{Span::kNoSpan, Span::kNoSpan};
  std::vector<std::size_t> sent_;  // spans of the wire
  std::size_t first_beside_ = 0;   // of sent_: what ended earlier is beside no computation any more
  double end_s_ = 0;
};

}  // namespace gradsync::predict
