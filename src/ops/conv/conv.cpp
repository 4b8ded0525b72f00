// Conv, ConvInteger, ConvTranspose, and ONNX Runtime's FusedConv.
#include "ops/conv/conv.h"
#include "ops/conv/flops.h"

#include "base/error.h"
#include "ops/conv/family.h"
#include "ops/conv/transposed.h"
#include "ops/core/float_reference.h"
#include "ops/core/list_inputs.h"
#include "ops/pointwise/named_activation.h"
#include "ops/quantize/shifted.h"

namespace smelt::ops {

ConvProblem conv_problem(const Node& node, const Shape& x, const Shape& w) {
  if (x.size() < 3) fail("X has shape {}, expected [N, C, spatial…]", to_string(x));
  if (w.size() != x.size()) {
    fail("W has shape {}, expected rank {} for a {}-D convolution over x {}", to_string(w), x.size(), x.size() - 2, to_string(x));
  }
  ConvProblem p{x[0], x[1], w[0], node.get_int("group", 1), spatial_of(x), {}, {}};
  if (p.group < 1 || p.c % p.group || p.m % p.group) fail("group {} does not divide C = {} and M = {}", p.group, p.c, p.m);
  if (w[1] != p.c / p.group)
    fail("W has shape {}, expected {} channels (C {} / group {})", to_string(w), p.c / p.group, p.c, p.group);
  const Shape kernel = spatial_of(w);
  if (node.has("kernel_shape") && node.get_ints("kernel_shape") != kernel) {
    fail("kernel_shape is {}, but W has shape {}", to_string(node.get_ints("kernel_shape")), to_string(w));
  }
  p.window = window_of(node, kernel, p.in);
  p.out = window_places(p.window, p.in);
  return p;
}

namespace {

void check_bias(const InferContext& c, size_t i, int64_t m) {
  if (c.has(i) && c.in(i).shape_known && c.shape(i) != Shape{m}) fail("B has shape {}, expected [{}]", to_string(c.shape(i)), m);
}

void infer_conv(InferContext& c) {
  const ConvProblem p = conv_problem(c.node, c.shape(0), c.shape(1));
  check_bias(c, 2, p.m);
  c.set(0, c.in(0).type, with_spatial(p.n, p.m, p.out));
}

void run_conv(ComputeContext& ctx) {
  in_float(ctx, [](ComputeContext& c, auto zero) {
    using T = decltype(zero);
    const ConvProblem p = conv_problem(c.node, c.in(0).shape(), c.in(1).shape());
    const T* bias = optional_data<T>(c, 2);
    T* y = c.outputs[0].data<T>();
    const int64_t plane = elements(p.out);
    convolve<double>(p, c.in(0).data<T>(), c.in(1).data<T>(), [&](int64_t n, int64_t m, const double* sums) {
      for (int64_t i = 0; i < plane; ++i) y[(n * p.m + m) * plane + i] = static_cast<T>(sums[i] + (bias ? bias[m] : T{}));
    });
  });
}

void infer_conv_integer(InferContext& c) {
  const ConvProblem p = conv_problem(c.node, c.shape(0), c.shape(1));
  if (c.has(3) && c.in(3).shape_known && elements(c.shape(3)) != 1 && elements(c.shape(3)) != p.m)
    fail("w_zero_point has shape {}, expected one element or [{}]", to_string(c.shape(3)), p.m);
  c.set(0, DType::i32, with_spatial(p.n, p.m, p.out));
}

void run_conv_integer(ComputeContext& c) {
  const ConvProblem p = conv_problem(c.node, c.in(0).shape(), c.in(1).shape());
  const std::vector<int32_t> x = shifted(c.in(0), c.in(2)), w = shifted(c.in(1), c.in(3), p.in.size() + 1);
  int32_t* y = c.outputs[0].data<int32_t>();
  const int64_t plane = elements(p.out);
  convolve_integers(p, x.data(), w.data(),
                    [&](int64_t n, int64_t m, const int32_t* sums) { std::copy(sums, sums + plane, y + (n * p.m + m) * plane); });
}

void infer_transposed(InferContext& c) {
  const TransposedConv t = transposed_conv(c.node, c.shape(0), c.shape(1));
  check_bias(c, 2, t.m);
  c.set(0, c.in(0).type, with_spatial(t.n, t.m, t.out));
}

void run_transposed(ComputeContext& ctx) {
  in_float(ctx, [](ComputeContext& c, auto zero) {
    using T = decltype(zero);
    const TransposedConv t = transposed_conv(c.node, c.in(0).shape(), c.in(1).shape());
    const T *x = c.in(0).data<T>(), *w = c.in(1).data<T>(), *bias = optional_data<T>(c, 2);
    T* y = c.outputs[0].data<T>();
    const int64_t work = elements(t.out) * t.n * t.m * (1 + t.c / t.group);
    parallel(useful_threads(threads::team_threads(), work), t.n * t.m, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) transposed_plane<T>(t, i / t.m, i % t.m, x, w, bias, y);
    });
  });
}

// FusedConv of x, w, bias?, z?: activation(conv(x, w) + bias + z)
void infer_conv_activation(InferContext& c) {
  const ConvProblem p = conv_problem(c.node, c.shape(0), c.shape(1));
  const Shape y = with_spatial(p.n, p.m, p.out);
  if (c.has(2) && c.shape(2) != Shape{p.m}) fail("B has shape {}, expected [{}]", to_string(c.shape(2)), p.m);
  if (c.has(3) && c.shape(3) != y) fail("Z has shape {}, expected {}", to_string(c.shape(3)), to_string(y));
  c.set(0, type_of(c, 0), y);
}

void run_conv_activation(ComputeContext& ctx) {
  const Activation activate = fused_activation(ctx.node);
  in_float(ctx, [&](ComputeContext& c, auto zero) {
    using T = decltype(zero);
    const ConvProblem p = conv_problem(c.node, c.in(0).shape(), c.in(1).shape());
    const T *bias = optional_data<T>(c, 2), *z = optional_data<T>(c, 3);
    T* y = c.outputs[0].data<T>();
    const int64_t plane = elements(p.out);
    convolve<double>(p, c.in(0).data<T>(), c.in(1).data<T>(), [&](int64_t n, int64_t m, const double* sums) {
      for (int64_t i = 0; i < plane; ++i) {
        const int64_t at = (n * p.m + m) * plane + i;
        const double v = sums[i] + static_cast<double>(bias ? bias[m] : T{}) + static_cast<double>(z ? z[at] : T{});
        y[at] = static_cast<T>(activate(v));
      }
    });
  });
}

}  // namespace

std::span<const OpRow> conv_ops() {
  static constexpr OpRow table[] = {
      {{"Conv", onnx_domain, infer_conv, run_conv}, {.flops = {.count = conv_flops<1>}, .contracts = true}},
      {{"ConvInteger", onnx_domain, infer_conv_integer, run_conv_integer},
       {.flops = {.count = conv_flops<1>}, .contracts = true}},
      {{"ConvTranspose", onnx_domain, infer_transposed, run_transposed},
       {.flops = {.count = conv_transpose_flops}, .contracts = true}},
      {{"DeformConv", onnx_domain, infer_deform, run_deform}, {.contracts = true}},
      {{"Col2Im", onnx_domain, infer_col2im, run_col2im}},
      {{"FusedConv", microsoft_domain, infer_conv_activation, run_conv_activation},
       {.flops = {.count = conv_flops<1>}, .contracts = true}},
  };
  return table;
}

}  // namespace smelt::ops
