// Images [N, C, H, W] whose pixels' channels lie side by side, whatever their layout is called: a plain image of one channel, or of one
// pixel, is channels-last too.
#pragma once

#include "ops/tactic.h"

namespace smelt::ops {

bool is_channels_last(const BoundTensor& t);
/// True when plain and channels-last order are the same bytes: one channel, or one pixel.
bool is_same_either_way(const Shape& image);

}  // namespace smelt::ops
