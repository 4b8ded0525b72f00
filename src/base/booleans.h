// Elements of bool tensors: kernels, and C++, know the bytes 0 and 1 alone; files and callers may give others, which are true.
#pragma once

#include "smelt/tensor.h"

namespace smelt {

/// Whether an element of a bool tensor in the host's memory is another byte than 0 and 1; never of other types.
bool has_other_booleans(const Tensor& t);

/// Makes them 1.
void make_booleans_0_or_1(Tensor& t);

}  // namespace smelt
