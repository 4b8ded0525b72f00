// Pad's geometry, which faster tactics use too.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "smelt/shape.h"

namespace smelt::ops {

struct Pads {
  Shape before, after;  // one entry an axis; negative crops
};
/// `listed`: what goes before each of the axes, then what goes after each; all axes where none are given.
Pads pads_of(const std::vector<int64_t>& listed, const std::optional<std::vector<int64_t>>& axes, size_t rank);

/// The input index that output index `at` (relative to the input's first) reads, in a mode other than constant.
int64_t pad_source(const std::string& mode, int64_t at, int64_t extent);

}  // namespace smelt::ops
