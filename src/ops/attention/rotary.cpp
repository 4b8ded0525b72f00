// RotaryEmbedding, ONNX's and ONNX Runtime's: pairs of elements of each head rotated by an angle that grows with the
// token's position. Su et al., arXiv:2104.09864.
#include "ops/attention/rotary.h"

#include "base/error.h"
#include "ops/attention/attention.h"
#include "ops/core/float_reference.h"
#include "ops/core/list_inputs.h"

namespace smelt::ops {
Rotary rotary_of(const Node& node, const Shape& x, const Shape& cos_of_onnx, const Shape& cos_of_runtime) {
  Rotary r;
  if (node.domain == microsoft_domain) {
    r.position_input = 1;
    r.cos_input = 2;
    r.sin_input = 3;
    if (node.get_int("is_packed_batching", 0)) fail_unsupported("is_packed_batching is not supported");
  }
  const Shape& cos = r.cos_input == 1 ? cos_of_onnx : cos_of_runtime;
  if (x.size() != 3 && x.size() != 4) fail("the input has shape {}, expected rank 3 or 4", to_string(x));
  if (cos.empty()) fail("the cosine cache is a scalar, expected [positions, half of the rotated size]");
  r.packed = x.size() == 3;
  r.batch = x[0];
  r.steps = r.packed ? x[1] : x[2];
  r.rotated = node.get_int("rotary_embedding_dim", 0);
  r.heads = r.packed ? node.get_int("num_heads", 0) : x[1];
  if (r.packed && r.heads == 0 && node.domain == microsoft_domain)
    r.heads = r.rotated ? 0 : x[2] / std::max<int64_t>(1, 2 * cos.back());
  if (r.heads < 1 || (r.packed && x[2] % r.heads)) fail("num_heads {} does not divide the input's {}", r.heads, x.back());
  r.size = r.packed ? x[2] / r.heads : x[3];
  if (r.rotated == 0) r.rotated = r.size;
  if (r.rotated > r.size || r.rotated % 2 || cos.back() != r.rotated / 2) {
    fail("the cosine cache has shape {}, expected {} last for {} rotated of {} elements", to_string(cos), r.rotated / 2,
         r.rotated, r.size);
  }
  return r;
}

void infer_rotary(InferContext& c) {
  const Rotary r = rotary_of(c.node, c.shape(0), c.shape(1), c.shape(2));
  const TensorDesc &cos = c.in(r.cos_input), &sin = c.in(r.sin_input);
  if (sin.shape_known && sin.shape != cos.shape)
    fail("the sine cache has shape {}, the cosine cache {}", to_string(sin.shape), to_string(cos.shape));
  const bool placed = c.has(r.position_input) && c.in(r.position_input).shape_known;
  const int64_t positions = placed ? elements(c.in(r.position_input).shape) : 0;
  if (positions > 1 && positions != r.batch * r.steps)
    fail("{} positions, expected {} for {} sequences of {}", positions, r.batch * r.steps, r.batch, r.steps);
  same_as(c, 0, 0);
}

void run_rotary(ComputeContext& ctx) {
  in_float(ctx, [](ComputeContext& c, auto zero) {
    using T = decltype(zero);
    const Rotary r = rotary_of(c.node, c.in(0).shape(), c.in(1).shape(), c.in(2).shape());
    const Tensor &cos = c.in(r.cos_input), &sin = c.in(r.sin_input);
    if (c.in(0).size() == 0) return;
    const bool interleaved = c.node.get_int("interleaved", 0) != 0;
    const double scale = c.node.get_float("scale", 1.0f);
    const int64_t half = r.rotated / 2, rows = cos.size() / half;
    const std::vector<int64_t> positions = c.has(r.position_input) ? c.in(r.position_input).to_ints() : std::vector<int64_t>{};
    const auto cache_row = [&](int64_t b, int64_t s) {
      if (positions.empty()) return b * r.steps + s;       // a cache of [batch, steps, half]
      if (positions.size() == 1) return positions[0] + s;  // ONNX Runtime's single offset
      return positions[static_cast<size_t>(b * r.steps + s)];
    };
    const T* x = c.in(0).data<T>();
    T* y = c.outputs[0].data<T>();
    for (int64_t b = 0; b < r.batch; ++b) {
      for (int64_t h = 0; h < r.heads; ++h) {
        for (int64_t s = 0; s < r.steps; ++s) {
          const int64_t row = cache_row(b, s);
          if (row < 0 || row >= rows) fail("position {} is outside the cache's {} rows", row, rows);
          const int64_t at = (r.packed ? (b * r.steps + s) * r.heads + h : (b * r.heads + h) * r.steps + s) * r.size;
          for (int64_t k = 0; k < half; ++k) {
            const int64_t real = at + (interleaved ? 2 * k : k), imaginary = interleaved ? real + 1 : real + half;
            const double u = static_cast<double>(cos.data<T>()[row * half + k]) * scale;
            const double w = static_cast<double>(sin.data<T>()[row * half + k]) * scale;
            const double a = static_cast<double>(x[real]), e = static_cast<double>(x[imaginary]);
            y[real] = static_cast<T>(u * a - w * e);
            y[imaginary] = static_cast<T>(w * a + u * e);
          }
          std::copy(x + at + r.rotated, x + at + r.size, y + at + r.rotated);
        }
      }
    }
  });
}

}  // namespace smelt::ops
