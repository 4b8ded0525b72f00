// Convolutions of 8-bit integers on a GPU by kernels of smelt's own, which make exact 32-bit sums of any geometry. In this order,
// as the reference has it, without fused multiply-adds:
//
//   sum = Σ (x − x_zero) · (w − w_zero) + bias,   in0 = float(sum) · scale,   y = program(in0, operands)     ConvInteger: y = sum
//
// Where x_zero is computed, sums are of x as it is, less x_zero · Σ (w − w_zero): a number of the channel's and one that the run knows.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/value_of.h"
#include "ops/conv/cuda_request.h"
#include "ops/conv/int8_problem.h"
#include "ops/core/channel_blocks.h"
#include "ops/core/quantized_program.h"
#include "ops/core/window.h"

namespace smelt::ops::conv {
namespace {

using expr::Fn;

/// One number for all output channels, or one for each; `memory` may be none, where nothing runs.
EpilogueOperand by_channel(DType type, int64_t numbers, const Problem& p, std::shared_ptr<device::cuda::Memory> memory) {
  BoundTensor t{type, Shape(p.spatial() + 1, 1), Layout::plain, {}, {}};
  t.shape[0] = numbers;
  if (p.blocked && numbers > 1) t.shape = in_blocks(Shape{1, numbers, 1, 1}), t.shape.erase(t.shape.begin());
  return {std::move(t), EpilogueOperand::no_input, std::move(memory)};
}

}  // namespace

double most_of_sums(const Problem& p) {
  const double sums = 255.0 * 255.0 * static_cast<double>(depth(p));
  if (!p.quantization || p.quantization->more.empty()) return sums;
  double most = 0;
  const auto add = [&](const std::vector<float>& scales) {
    for (const float s : scales)
      most = std::isnan(s) || std::isnan(most) ? NAN : std::max(most, std::abs(static_cast<double>(s)));
  };
  add(p.quantization->scales);
  for (const SegmentQuantization& s : p.quantization->more) add(s.scales);
  constexpr double rounding = 1.001;  // of each segment's product and sum
  return std::isnan(most) ? std::numeric_limits<double>::infinity() : sums * most * rounding;
}

expr::Program over_sums(const Request& q, bool column, bool outside) {
  expr::Program p;
  expr::Ref sum = p.input(DType::i32), sums = 0, zero = 0, scales = 0;
  std::vector<expr::Ref> added, inputs{0};
  for (const bool there : {column, outside})
    if (there) added.push_back(p.input(DType::i32));
  const Quantization& numbers = q.quantization();
  if (numbers.a_zero_input) sums = p.input(DType::i32), zero = p.input(q.node.inputs[*numbers.a_zero_input].type);
  if (!numbers.scales.empty()) scales = p.input(DType::f32);
  const std::optional<expr::Program>& then = q.node.node->program;
  for (int i = 1; then && i < then->input_count(); ++i) inputs.push_back(p.input(then->type(i)));
  for (const expr::Ref a : added) sum = p.call(Fn::add, sum, a);
  if (numbers.a_zero_input) sum = p.call(Fn::sub, sum, p.call(Fn::mul, p.cast(zero, DType::i32), sums));
  if (numbers.scales.empty()) return p.output(sum), p;
  inputs[0] = p.call(Fn::mul, p.cast(sum, DType::f32), scales);
  for (const expr::Ref r : p.splice(value_of(then, "the program over the sums"), inputs)) p.output(r);
  return p;
}

// What is kept beside weights must be named by all that it depends on but them.
std::shared_ptr<device::cuda::Memory> kept_column(const Gpu& gpu, const Request& q, int32_t zero) {
  KeyHash hash;
  for (const int32_t b : q.quantization().bias) hash.add(std::to_string(b));
  const std::string name = int8_packing(q, "conv:column").field(zero).field(hash.text()).text();
  return gpu.weights->packed(gpu.device, q.weight().constant, name, [&] {
    const Problem& p = q.problem;
    Tensor column = Tensor::empty(DType::i32, {p.w[0]});
    const int64_t taps = elements(spatial_of(p.w));
    for (int64_t m = 0; m < p.w[0]; ++m) {
      uint32_t sum = 0;
      for (int64_t c = 0; zero != 0 && c < p.w[1]; ++c)
        for (int64_t t = 0; t < taps; ++t) sum += static_cast<uint32_t>(int8_weight(q, m, c, t));
      const auto bias = static_cast<uint32_t>(q.quantization().bias.empty() ? 0 : q.quantization().bias[static_cast<size_t>(m)]);
      column.data<int32_t>()[m] = static_cast<int32_t>(bias - static_cast<uint32_t>(zero) * sum);
    }
    return column;
  });
}

namespace {

/// Σ (w − w_zero) of each output channel.
std::shared_ptr<device::cuda::Memory> kept_sums(const Gpu& gpu, const Request& q) {
  return gpu.weights->packed(gpu.device, q.weight().constant, int8_packing(q, "conv:sums").text(), [&] {
    std::vector<int32_t> sums = sums_of_weights(q);
    sums.resize(static_cast<size_t>(q.problem.outputs()));
    return Tensor::of<int32_t>({q.problem.outputs()}, sums);
  });
}

}  // namespace

std::shared_ptr<device::cuda::Memory> kept_scales(const Gpu& gpu, const Request& q) {
  KeyHash hash;
  for (const float s : q.quantization().scales) hash.add(fmt::format("{:a}", s));
  return gpu.weights->packed(gpu.device, q.weight().constant, Key("conv:scales").field(hash.text()).text(), [&] {
    Tensor scales = Tensor::empty(DType::f32, {q.problem.w[0]});
    for (size_t m = 0; m < scales.span<float>().size(); ++m)
      scales.data<float>()[m] = q.quantization().scales[q.quantization().scales.size() > 1 ? m : 0];
    return scales;
  });
}

void set_integer_program(GpuRequest& r, int32_t zero, std::optional<EpilogueOperand> outside) {
  if (!r.quantization().more.empty()) {  // in0 is made by the kernel, of the segments' sums and scales
    r.program = value_of(r.node.node->program, "the program over the sums");
    r.operands = epilogue_operands(r.node, r.at.operands);
    return;
  }
  const bool column = !r.quantization().bias.empty() || zero != 0;
  r.program = over_sums(r, column, outside.has_value());
  r.operands.clear();
  const auto keep = [&](DType type, int64_t numbers, const auto& made) {
    r.operands.push_back(by_channel(type, numbers, r.problem, r.gpu->device ? made(*r.gpu) : nullptr));
  };
  if (column) {
    keep(DType::i32, r.problem.outputs(), [&](const Gpu& gpu) { return kept_column(gpu, r, zero); });
    double most = 0;
    for (const int32_t b : r.quantization().bias) most = std::max(most, std::abs(static_cast<double>(b)));
    r.operands.back().most = most + most_of_sums(r.problem);  // zero points have 8 bits, as pixels do
  }
  if (outside) r.operands.push_back(*std::move(outside));
  if (const std::optional<size_t> computed = r.quantization().a_zero_input) {
    keep(DType::i32, r.problem.outputs(), [&](const Gpu& gpu) { return kept_sums(gpu, r); });
    BoundTensor number = r.node.inputs[*computed];
    number.shape = number.strides = {};  // one element, whatever its rank
    r.operands.push_back({std::move(number), *computed, nullptr});
  }
  if (r.quantization().scales.empty()) return;
  keep(DType::f32, static_cast<int64_t>(r.quantization().scales.size()), [&](const Gpu& gpu) { return kept_scales(gpu, r); });
  double most = 0;
  for (const float s : r.quantization().scales) most = std::isnan(s) ? s : std::max(most, std::abs(static_cast<double>(s)));
  if (!std::isnan(most)) r.operands.back().most = most;
  for (EpilogueOperand& o : epilogue_operands(r.node, r.at.operands)) r.operands.push_back(std::move(o));
}

Result<SharedRequest> int8_gpu_request(const Request& q, const std::shared_ptr<const Gpu>& gpu) {
  if (auto why = rejects_sums(q.problem.input, q.weight().type, depth(q.problem))) return *why;
  GpuRequest r{q, gpu, {}, {}};
  set_integer_program(r, 0);
  const auto epilogue = CudaEpilogue::make(r.program, r.node.outputs[0], r.operands, r.axes(), 1);
  if (!epilogue) return epilogue.refusal();
  return std::make_shared<const GpuRequest>(std::move(r));
}

Tensor GpuRequest::weights() const {
  const Tensor& w = weight().constant;
  if (!problem.quantization) return w;
  Tensor narrow = Tensor::empty(DType::i16, w.shape());
  const int64_t taps = elements(spatial_of(problem.w));
  int16_t* to = narrow.data<int16_t>();
  for (int64_t m = 0; m < problem.w[0]; ++m)
    for (int64_t c = 0; c < problem.w[1]; ++c)
      for (int64_t t = 0; t < taps; ++t) *to++ = int8_weight(*this, m, c, t);
  return narrow;
}

Key GpuRequest::packing(std::string_view form) const {
  return problem.quantization ? int8_packing(*this, form).field(weight_type()) : Key(form);
}

int32_t GpuRequest::zero() const { return problem.quantization ? quantization().a_zero : 0; }

std::vector<std::string> GpuRequest::compile_options() const {
  return problem.quantization ? std::vector<std::string>{"--fmad=false"} : std::vector<std::string>{};
}

}  // namespace smelt::ops::conv
