// What gathering and scattering on a GPU share: which row of the data each row of the index names.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "ops/movement/cuda_rows.h"

namespace smelt::ops {

/// AtNd or AtElement of src/kernels/movement/rows.h for a GatherND, ScatterND, GatherElements or ScatterElements.
struct IndexedRows {
  int64_t rows = 0;   // of the index
  int64_t width = 1;  // elements that a row of the index names
  int64_t slots = 0;  // rows of the data
  RowMap at;          // no type: the index names no axes
};
IndexedRows indexed_rows(const BoundNode& b);

/// Why there is no kernel: layouts, types.
std::optional<Refusal> gather_rejects(const BoundNode& b);

}  // namespace smelt::ops
