// Operators on a channels-last image as the same operators on its memory, [N, pixels…, C], their axes renumbered.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "plan/segment.h"

namespace smelt::plan {

/// The axis of the memory of a channels-last image of so many axes that holds an axis of the image.
int64_t turned_axis(int64_t axis, int64_t rank);
/// The image's extents as they lie in its memory.
Shape turned_shape(const Shape& image);

/// A step on its image's memory: views of its image, the step, and views that make images of its results.
struct TurnedSteps {
  std::vector<Step> before;
  Step step;
  std::vector<Step> after;
};

/// The step, whose first input is a channels-last image, on that image's memory; its results become channels-last. Nothing where
/// the operator does more than to move along an axis, or to be the same along all of them, where a result must stay plain, or where
/// `runs` says that no kernel takes it so: the segment is as it was then.
std::optional<TurnedSteps> turned_steps(Segment& s, const Step& step,
                                        const std::function<bool(const Step&, const ops::BoundNode&)>& runs);

}  // namespace smelt::plan
