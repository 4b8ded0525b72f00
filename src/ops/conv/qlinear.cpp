// QLinearConv (ONNX and com.microsoft).
#include "base/error.h"
#include "ops/conv/conv.h"
#include "ops/conv/family.h"
#include "ops/conv/flops.h"
#include "ops/quantize/requantize.h"

namespace smelt::ops {
namespace {

// inputs: x, x_scale, x_zero_point, w, w_scale, w_zero_point, y_scale, y_zero_point, bias?
void infer_qlinear_conv(InferContext& c) {
  if (c.node.get_int("channels_last", 0)) fail_unsupported("channels_last is not supported");
  const ConvProblem p = conv_problem(c.node, c.shape(0), c.shape(3));
  if (c.has(8) && c.shape(8) != Shape{p.m}) fail("B has shape {}, expected [{}]", to_string(c.shape(8)), p.m);
  c.set(0, c.has(7) ? c.in(7).type : c.in(0).type, with_spatial(p.n, p.m, p.out));
}

void run_qlinear_conv(ComputeContext& c) {
  const ConvProblem p = conv_problem(c.node, c.in(0).shape(), c.in(3).shape());
  const std::vector<int32_t> x = shifted(c.in(0), c.in(2)), w = shifted(c.in(3), c.in(5), p.in.size() + 1);
  const float x_scale = scalar_float(c.in(1), "x_scale");
  const Tensor w_scales = c.in(4).cast(DType::f32);
  const BroadcastOperand<float> w_scale(w_scales, {p.m}, parameter_shape(w_scales, 0));
  const int32_t* bias = c.has(8) ? c.in(8).data<int32_t>() : nullptr;
  Requantize y(c.in(6), c.in(7), c.outputs[0]);
  const int64_t plane = elements(p.out);
  convolve_integers(p, x.data(), w.data(), [&](int64_t n, int64_t m, const int32_t* sums) {
    for (int64_t i = 0; i < plane; ++i) {
      const uint32_t sum = static_cast<uint32_t>(sums[i]) + static_cast<uint32_t>(bias ? bias[m] : 0);
      y.set((n * p.m + m) * plane + i, static_cast<int32_t>(sum), x_scale * w_scale.at(m, 1));
    }
  });
  y.store();
}

}  // namespace

std::span<const OpRow> qlinear_conv_ops() {
  static constexpr OpRow table[] = {
      {{"QLinearConv", onnx_domain, infer_qlinear_conv, run_qlinear_conv},
       {.flops = {.count = conv_flops<3>}, .autocast = Autocast::fp32, .contracts = true}},
      {{"QLinearConv", microsoft_domain, infer_qlinear_conv, run_qlinear_conv},
       {.flops = {.count = conv_flops<3>}, .autocast = Autocast::fp32, .contracts = true}},
  };
  return table;
}

}  // namespace smelt::ops
