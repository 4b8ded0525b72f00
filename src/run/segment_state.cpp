#include "run/segment_state.h"

namespace smelt::run {
namespace {

std::vector<StepRange> ranges_of(const plan::Segment& s) {
  std::vector<StepRange> all;
  for (size_t i = 0; i < s.steps.size(); ++i) {
    if (all.empty() || all.back().on_host != s.steps[i].on_host) all.push_back({i, i, s.steps[i].on_host});
    all.back().end = i + 1;
  }
  return all;
}

}  // namespace

SegmentState::SegmentState(plan::PlannedSegment planned)
    : PlannedSegment(std::move(planned)),
      ranges(ranges_of(segment)),
      arguments(segment.steps.size()),
      branches(segment.steps.size()),
      own_results(segment.results.size()),
      device_copies(segment.externals.size()) {}

int64_t SegmentState::held_bytes() const {
  // A kernel of oneDNN's is generated code of some 4 to 60 KiB, with its descriptors; the others are lists of extents and addresses.
  constexpr int64_t of_generated = 40 << 10, of_step = 4 << 10;
  int64_t held = 0;
  for (const plan::Step& step : segment.steps) held += step.tactic == "onednn" ? of_generated : of_step;
  for (const auto* tensors : {&own_results, &device_copies})
    for (const Tensor& t : *tensors)
      if (t.valid() && t.type() != DType::string) held += t.nbytes();
  for (const auto& [found, state] : next) held += state->held_bytes();
  return held;
}

}  // namespace smelt::run
