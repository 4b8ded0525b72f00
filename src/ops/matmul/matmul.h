// Matrix products with numpy's batch broadcasting: geometry and loops.
#pragma once

#include <algorithm>
#include <vector>

#include "ops/core/operator.h"

namespace smelt::ops {

/// y[batch, m, n] = a[batch, m, k] * b[batch, k, n]; strides in elements, 0 where an operand repeats along a batch axis.
struct MatMulProblem {
  int64_t m = 1, k = 1, n = 1;
  Shape batch, a_batch, b_batch;  // extents, and strides of a and b along them
  int64_t a_row = 0, a_col = 1, b_row = 0, b_col = 1;
  Shape y;  // as the operator gives it: without the axis of a 1-D operand
};

/// Throws Error with the expected and the found when the shapes do not multiply.
MatMulProblem matmul_problem(Shape a, Shape b, bool trans_a = false, bool trans_b = false);

/// Calls f(y offset, sums) for every row of n sums, accumulated in Acc.
template <class Acc, class A, class B, class F> void multiply(const MatMulProblem& p, const A* a, const B* b, F&& f) {
  std::vector<Acc> sums(static_cast<size_t>(p.n));
  Shape index(p.batch.size(), 0);
  const int64_t batches = elements(p.batch);
  for (int64_t at = 0; at < batches; ++at) {
    int64_t a_at = 0, b_at = 0;
    for (size_t d = 0; d < index.size(); ++d) {
      a_at += index[d] * p.a_batch[d];
      b_at += index[d] * p.b_batch[d];
    }
    for (int64_t i = 0; i < p.m; ++i) {
      const A* row = a + a_at + i * p.a_row;
      std::fill(sums.begin(), sums.end(), Acc{});
      if (p.b_col == 1) {  // rows of b are contiguous: add multiples of them
        for (int64_t k = 0; k < p.k; ++k) {
          const Acc factor = static_cast<Acc>(row[k * p.a_col]);
          const B* from = b + b_at + k * p.b_row;
          for (int64_t j = 0; j < p.n; ++j) sums[static_cast<size_t>(j)] += factor * static_cast<Acc>(from[j]);
        }
      } else {  // columns are: scalar products
        for (int64_t j = 0; j < p.n; ++j) {
          const B* from = b + b_at + j * p.b_col;
          Acc sum{};
          for (int64_t k = 0; k < p.k; ++k) sum += static_cast<Acc>(row[k * p.a_col]) * static_cast<Acc>(from[k * p.b_row]);
          sums[static_cast<size_t>(j)] = sum;
        }
      }
      f((at * p.m + i) * p.n, sums.data());
    }
    for (size_t d = index.size(); d-- > 0;) {
      if (++index[d] < p.batch[d]) break;
      index[d] = 0;
    }
  }
}

/// The same of integers: sums wrap, as kernels' do.
template <class F> void multiply_integers(const MatMulProblem& p, const int32_t* a, const int32_t* b, F&& f) {
  multiply<uint32_t>(p, a, b, [&](int64_t at, const uint32_t* sums) { f(at, reinterpret_cast<const int32_t*>(sums)); });
}

}  // namespace smelt::ops
