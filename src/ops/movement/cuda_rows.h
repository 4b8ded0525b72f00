// Rows of elements moved to where a map says, on a GPU: the one kernel behind Gather, Pad, nearest Resize, Trilu, OneHot and what
// else only moves (src/kernels/movement/rows.cuh).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ops/cuda/launches.h"

namespace smelt::ops {

/// A map of src/kernels/movement/rows.h.
struct RowMap {
  std::string type;                   // "Gather<int>"
  std::function<void(Launch&)> give;  // appends it
};

struct RowMove {
  BufferRef from{BufferRef::input, 0, 0}, to{BufferRef::output, 0, 0};
  int64_t rows = 0, width = 1;         // elements a row
  int64_t bytes = 4;                   // an element
  int64_t vec = 1;                     // elements that a thread moves at once
  std::vector<std::byte> fill;         // an element; empty: zero
  std::optional<BufferRef> fill_from;  // where it lies instead, if it is computed
  RowMap map;

  /// Sets vec: the widest access of the memory's alignment, where all rows begin at multiples of `unit` elements.
  void widen(int64_t alignment, int64_t unit);
  /// More threads than one launch has, or elements of a row than are counted.
  bool too_large() const { return width >= int64_t{1} << 31 || rows * ((width + vec - 1) / vec) >= int64_t{1} << 31; }
  /// Adds the launch of its kernel, called `name`, to the plan.
  void add_to(LaunchPlan& plan, const std::string& name) const;
};

/// The bytes of a tensor of one element.
std::vector<std::byte> element_of(const Tensor& t);

/// #include of the maps, which a plan's source begins with.
extern const char* const rows_source;

/// Adds the one candidate of a node that is this move, after `before` (may be null) has added its own steps.
void offer_row_move(const RowMove& move, const std::string& name, const Gpu& gpu, Offer& offer,
                    const std::function<void(LaunchPlan&)>& before = {});

/// An element's CUDA type by its size: "u32". Empty for sizes that are not 1, 2, 4 or 8.
std::string moved_type(int64_t bytes);

}  // namespace smelt::ops
