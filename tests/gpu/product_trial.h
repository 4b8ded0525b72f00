// What tests of matrix products on a GPU share: the node with random operands, and how far from the reference its result may be.
#pragma once

#include <cmath>

#include "gpu_trial.h"

namespace smelt::ops {

/// A product of random operands that ends with g's program, without its result; the result's type. G: type, a, b, trans_a, trans_b,
/// program, operands.
template <class G> DType begin_product(Trial& t, const G& g) {
  t.node.domain = smelt_domain;
  t.node.op = "MatMul";
  if (g.trans_a) t.node.attrs["transA"] = int64_t{1};
  if (g.trans_b) t.node.attrs["transB"] = int64_t{1};
  t.add(random_tensor(g.type, g.a, 1, -1, 1), false);
  t.add(random_tensor(g.type, g.b, 2, -1, 1), false);
  for (const Tensor& o : g.operands) t.add(o, false);
  return t.compute(g.program, g.type);
}

/// Of a result of sums of k products of numbers within ±1, each of them off by `each`, added up in float and rounded to the type. The
/// reference's are rounded too, so that they differ by one unit in the last place where a sum lies near the middle of two.
inline double product_tolerance(DType type, double each, int64_t k) {
  const double last = type == DType::f32 ? 0 : type == DType::f16 ? 1.0 / 1024 : 1.0 / 128;
  return last + each * std::sqrt(static_cast<double>(k) + 1);
}
constexpr double off_in_float = 4e-7, off_in_tf32 = 1.0 / 1024;

}  // namespace smelt::ops
