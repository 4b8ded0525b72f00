// Rows of a product's left operand, for the indirect product.
#pragma once

#include "ops/cpu/igemm/strided_rows.h"
#include "ops/matmul/problem.h"

namespace smelt::ops::matmul {

using MatrixRows = igemm::StridedRows;

/// All rows of a left operand whose batch is part of M.
inline igemm::RowMap tall_rows(const Product& p) {
  Shape extents = p.batch, steps = p.a_steps;
  extents.push_back(p.problem.m / elements(p.batch));
  steps.push_back(p.a_row);
  return igemm::RowMap(extents, steps);
}

}  // namespace smelt::ops::matmul
