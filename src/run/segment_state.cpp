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

}  // namespace smelt::run
