#include "run/segment_state.h"

#include <algorithm>

#include "ops/core/any_booleans.h"

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

bool reads_any_boolean(const plan::Segment& s, ValueId v) {
  const auto port = std::ranges::find(s.externals, v, &plan::Port::value);
  // Nothing reads it where its extents alone are asked for. Branches may read more than their steps list.
  if (port == s.externals.end()) {
    const auto has_branches = [](const plan::Step& step) {
      return step.kind == plan::StepKind::dynamic || step.kind == plan::StepKind::control;
    };
    return std::ranges::find(s.results, v, &plan::Port::value) == s.results.end() && std::ranges::none_of(s.steps, has_branches);
  }
  const auto is_same = [&](plan::TensorIndex t) {
    return t != plan::absent && s.tensor(t).buffer == s.tensor(port->tensor).buffer;
  };
  if (std::ranges::any_of(s.results, is_same, &plan::Port::tensor)) return false;
  const auto takes = [](const plan::Step& step, size_t i) {
    const auto* any = dynamic_cast<const ops::TakesAnyBooleans*>(step.kernel.get());
    return step.kind == plan::StepKind::kernel && any && any->takes_any_boolean(i);
  };
  for (const plan::Step& step : s.steps)
    for (size_t i = 0; i < step.inputs.size(); ++i)
      if (is_same(step.inputs[i]) && !takes(step, i)) return false;
  return true;
}

/// A kernel of oneDNN's is generated code of some 4 to 60 KiB, with its descriptors; the others are lists of extents and addresses.
int64_t bytes_of(const std::vector<plan::Step>& steps) {
  constexpr int64_t of_generated = 40 << 10, of_step = 4 << 10;
  const auto generated = std::ranges::count(steps, "onednn", &plan::Step::tactic);
  return generated * of_generated + (std::ssize(steps) - generated) * of_step;
}

}  // namespace

bool SegmentState::takes_any_boolean(ValueId v) {
  const auto [at, is_new] = any_booleans.try_emplace(v, false);
  if (is_new) at->second = reads_any_boolean(segment, v);
  return at->second;
}

SegmentState::SegmentState(plan::PlannedSegment planned)
    : PlannedSegment(std::move(planned)),
      ranges(ranges_of(segment)),
      arguments(segment.steps.size()),
      branches(segment.steps.size()),
      own_results(segment.results.size()),
      device_copies(segment.externals.size()),
      step_bytes(bytes_of(segment.steps)) {}

int64_t SegmentState::held_bytes() const {
  int64_t held = step_bytes;
  for (const auto* tensors : {&own_results, &device_copies})
    for (const Tensor& t : *tensors)
      if (t.valid() && t.type() != DType::string) held += t.nbytes();
  for (const auto& [found, state] : next) held += state->held_bytes();
  return held;
}

}  // namespace smelt::run
