// SkipLayerNormalization and SkipSimplifiedLayerNormalization (com.microsoft): a residual added before the norm.
//
//   s = input + skip (+ bias);   output = (s - mean) * rsqrt(var + epsilon) * gamma (+ beta), mean 0 in the simplified form
#include <cmath>

#include "base/error.h"
#include "ops/core/broadcast_operand.h"
#include "ops/core/float_reference.h"
#include "ops/core/list_inputs.h"
#include "ops/norm/moments.h"

namespace smelt::ops {
namespace {

// inputs: input, skip, gamma, then (beta in the full form), bias; outputs: output, mean, inverse deviation, s
bool simplified(const Node& node) { return node.op == "SkipSimplifiedLayerNormalization"; }
size_t bias_input(const Node& node) { return simplified(node) ? 3 : 4; }

}  // namespace

void infer_skip_layer(InferContext& c) {
  const Shape& x = c.shape(0);
  if (x.size() < 2) fail("input has shape {}, expected [batch, sequence, hidden]", to_string(x));
  broadcast_strides(c.shape(1), x);
  for (size_t i = 2; i <= bias_input(c.node); ++i) {
    if (c.has(i) && c.shape(i) != Shape{x.back()})
      fail("input {} has shape {}, expected [{}]", i, to_string(c.shape(i)), x.back());
  }
  Shape kept = x;
  kept.back() = 1;
  c.set(0, type_of(c, 0), x);
  c.set(1, DType::f32, kept);
  c.set(2, DType::f32, kept);
  c.set(3, type_of(c, 0), x);
}

void run_skip_layer(ComputeContext& ctx) {
  in_float(ctx, [](ComputeContext& c, auto zero) {
    using T = decltype(zero);
    const Shape& shape = c.in(0).shape();
    const int64_t row = shape.back();
    const double epsilon = c.node.get_float("epsilon", 1e-12f);
    const BroadcastOperand<T> skip(c.in(1), shape), gamma(c.in(2), shape), bias(c.in(bias_input(c.node)), shape);
    const BroadcastOperand<T> beta(simplified(c.node) ? Tensor() : c.in(3), shape);
    const T* x = c.in(0).data<T>();
    std::vector<T> sum(static_cast<size_t>(row));
    for (int64_t r = 0; row && r < c.in(0).size() / row; ++r) {
      for (int64_t i = 0; i < row; ++i) {
        const int64_t at = r * row + i;
        sum[static_cast<size_t>(i)] = static_cast<T>(static_cast<double>(x[at]) + static_cast<double>(skip.at(at, 0)) +
                                                     static_cast<double>(bias.at(at, 0)));
      }
      const Moments m = simplified(c.node) ? mean_square(sum.data(), row) : moments(sum.data(), row);
      const double inverse = 1 / std::sqrt(m.variance + epsilon);
      for (int64_t i = 0; i < row; ++i) {
        const int64_t at = r * row + i;
        const double s = static_cast<double>(sum[static_cast<size_t>(i)]);
        c.outputs[0].data<T>()[at] =
            static_cast<T>((s - m.mean) * inverse * static_cast<double>(gamma.at(at, 1)) + static_cast<double>(beta.at(at, 0)));
        if (c.outputs.size() > 3 && c.wants(3)) c.outputs[3].data<T>()[at] = sum[static_cast<size_t>(i)];
      }
      if (c.outputs.size() > 1 && c.wants(1)) c.outputs[1].data<T>()[r] = static_cast<T>(m.mean);
      if (c.outputs.size() > 2 && c.wants(2)) c.outputs[2].data<T>()[r] = static_cast<T>(inverse);
    }
  });
}

}  // namespace smelt::ops
