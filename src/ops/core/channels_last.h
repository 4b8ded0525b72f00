// Images [N, C, H, W] whose pixels' channels lie side by side, whatever their layout is called: a plain image of one channel, or
// of one pixel, is channels-last too.
#pragma once

#include "ops/core/tactic.h"

namespace smelt::ops {

bool is_channels_last(const BoundTensor& t);
/// Elements along the axes of an image (or of weights) [N, C, H, W] that lies densely as [N, H, W, C].
Shape channels_last_strides(const Shape& image);
/// True when plain and channels-last order are the same bytes: one channel, or one pixel.
bool is_same_either_way(const Shape& image);

/// Elements along [N, H, W] of an image whose channels are adjacent; one without extent in space may be called plain.
Shape pixel_steps(const BoundTensor& image);

}  // namespace smelt::ops
