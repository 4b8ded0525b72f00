// Why a step of the processor's that stands for several nodes was not compared with them: a closed list.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>

#include "smelt/session.h"

namespace smelt::plan {

enum class NotCompared : uint8_t { no, one_operator, sizes_in_a_run, no_parts, weights_as_floats, carried, one_of_onnx, count };

/// Nothing for `no`.
constexpr std::string_view text(NotCompared why) {
  constexpr std::array<std::string_view, static_cast<size_t>(NotCompared::count)> all = {
      "",
      "the step stands for one operator",
      "only a run knows the sizes of its parts",
      "a part has no kernel for these tensors",
      "its parts hold the weights in blocks as floats",
      "decided when the plan was written",
      "one of ONNX's operators in the place of several",
  };
  return all[static_cast<size_t>(why)];
}

/// What Step::fused is in place of times: for each reason one object, which why_not() knows.
std::shared_ptr<const FusedTimes> no_times(NotCompared why);
/// `no` of times, and of a step that has none.
NotCompared why_not(const std::shared_ptr<const FusedTimes>& times);

}  // namespace smelt::plan
