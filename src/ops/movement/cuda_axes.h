// Moves by mapped axes on a GPU.
#pragma once

#include "ops/movement/cuda_rows.h"
#include "ops/movement/mapped_axes.h"

namespace smelt::ops {

/// kernels::Axes (src/kernels/movement/axes.h); the places, in elements of x, are added to `tables`.
std::vector<std::byte> axes_argument(const std::vector<MappedAxis>& axes, std::vector<int64_t>& tables);

/// What lies outside: an element, zero where it is empty, or the node's input that has it.
struct AxesFill {
  std::vector<std::byte> element = {};
  std::optional<size_t> input = std::nullopt;
};

/// Adds the candidate. `axes`: y's, in any order. x and y are input 0 and output 0.
void offer_by_axes(std::vector<MappedAxis> axes, const BoundNode& b, AxesFill fill, const std::string& name, const Gpu& gpu,
                   Offer& offer);

}  // namespace smelt::ops
