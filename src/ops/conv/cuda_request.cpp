#include "ops/conv/cuda_request.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "ops/core/channels_last.h"
#include "ops/core/strides.h"
#include "ops/core/window.h"
#include "ops/cpu/strided_copy.h"

namespace smelt::ops::conv {
namespace {

bool is_given(const BoundNode& node, size_t i) { return i < node.inputs.size() && node.inputs[i].type != DType::undefined; }

/// `program`, its in0 the sum of in0 and a bias of this type, which becomes in1.
expr::Program with_bias(const expr::Program& program, DType bias) {
  expr::Program p;
  std::vector<expr::Ref> inputs = {p.input(program.type(0))};
  const expr::Ref b = p.input(bias);
  for (int i = 1; i < program.input_count(); ++i) inputs.push_back(p.input(program.type(i)));
  inputs[0] = p.call(expr::Fn::add, inputs[0], p.cast(b, program.type(0)));
  for (const expr::Ref r : p.splice(program, inputs)) p.output(r);
  return p;
}

}  // namespace

Result<SharedRequest> gpu_request(const BoundNode& node, const Machine& machine) {
  GpuRequest r{{node, problem(node), arguments(*node.node)}, machine.gpu, {}, {}};
  const DType sum = r.problem.input == DType::f64 ? DType::f64 : DType::f32;
  r.program = node.node->program ? *node.node->program : expr::conversion(sum, r.problem.output);
  if (r.program.type(0) != sum)
    return refuse(Reason::wrong_type, "a program over {}, expected {}", smelt::name(r.program.type(0)), smelt::name(sum));
  r.operands = epilogue_operands(node, r.at.operands);
  if (is_given(node, r.at.b)) {
    BoundTensor bias = node.inputs[r.at.b];
    bias.shape.resize(r.problem.spatial() + 1, 1);  // along the channels
    r.program = with_bias(r.program, bias.type);
    r.operands.insert(r.operands.begin(), {std::move(bias), r.at.b, nullptr});
  }
  const auto epilogue = CudaEpilogue::make(r.program, node.outputs[0], r.operands, {1, {}}, 1);
  if (!epilogue) return epilogue.refusal();
  r.problem.epilogue = epilogue->text();
  return std::make_shared<const GpuRequest>(std::move(r));
}

EpilogueAxes GpuRequest::axes() const {
  if (!problem.blocked) return {1, {}};
  return {node.outputs[0].shape.size() - 1, {1}};
}

CudaEpilogue GpuRequest::epilogue(int64_t width) const {
  CudaEpilogue e = *CudaEpilogue::make(program, node.outputs[0], operands, axes(), width);
  if (problem.quantization) e.sums_at_most(most_of_sums(problem));
  return e;
}

double GpuRequest::moved_bytes() const {
  double sum = static_cast<double>(bytes(problem.output, elements(problem.y)) + bytes(weight().type, elements(problem.w)));
  for (const Input& x : problem.x) sum += static_cast<double>(bytes(problem.input, elements(x.shape)));
  for (const EpilogueOperand& o : operands) sum += static_cast<double>(bytes(o.tensor.type, elements(o.tensor.shape)));
  return sum;
}

std::shared_ptr<device::cuda::Memory> channels_last_weights(const Gpu& gpu, const Tensor& w, uint8_t less) {
  return gpu.weights->packed(gpu.device, w, Key("conv:channels last").field(less).text(), [&] {
    const Shape& s = w.shape();
    Shape last(s.begin() + 2, s.end());
    last.insert(last.begin(), s[0]);
    last.push_back(s[1]);
    Tensor to = Tensor::empty(w.type(), std::move(last));
    StridedCopy(s, strides(s), channels_last_strides(s), bytes(w.type(), 1), 1).run(to.raw(), w.raw());
    for (int64_t i = 0; less != 0 && i < to.size(); ++i) static_cast<uint8_t*>(to.raw())[i] -= less;
    return to;
  });
}

Tensor taps_by_channels(const Tensor& w, const Problem& p) {
  const Shape& s = w.shape();
  const int64_t taps = elements(spatial_of(s)), size = bytes(w.type(), 1), m = p.outputs();
  const int64_t group_m = m / p.group, channels = p.transposed ? s[0] / p.group : s[1];
  Tensor to = Tensor::empty(w.type(), {taps, channels, m});
  // Along [group, output of the group, channel, tap].
  const int64_t output = p.transposed ? taps : channels * taps, channel = p.transposed ? group_m * taps : taps;
  const Shape extents{p.group, group_m, channels, taps};
  StridedCopy(extents, {group_m * channels * taps, output, channel, 1}, {group_m, 1, m, channels * m}, size, 1)
      .run(to.raw(), w.raw());
  return to;
}

Shape three(const Shape& spatial, int64_t fill) {
  Shape all(3 - spatial.size(), fill);
  all.insert(all.end(), spatial.begin(), spatial.end());
  return all;
}

Shape five_strides(const BoundTensor& t) {
  const Shape s = memory_strides(t);
  Shape all = {s[0], s[1]};
  const Shape spatial = three(spatial_of(s), 0);
  all.insert(all.end(), spatial.begin(), spatial.end());
  return all;
}

std::optional<Refusal> rejects_depthwise(const GpuRequest& r) {
  const Problem& p = r.problem;
  const BoundTensor &x = r.node.inputs[0], &y = r.node.outputs[0], &w = r.weight();
  const bool half = p.input == DType::f16 || p.input == DType::bf16;
  if (!p.quantization && ((!half && p.input != DType::f32) || w.type != p.input))
    return refuse(Reason::wrong_type, "{} by {}", smelt::name(p.input), smelt::name(w.type));
  if (p.transposed || p.x.size() > 1 || p.x[0].upsample != 1)
    return refuse(Reason::unsupported, "transposed, upsampled or of several inputs");
  if (!w.constant.valid()) return refuse(Reason::not_constant, "weights that are not constant");
  if (elements(x.shape) == 0 || elements(y.shape) == 0) return refuse(Reason::wrong_shape, "an empty image");
  if (const int64_t most = std::max(elements(x.shape), elements(y.shape)); most >= int64_t{1} << 31)
    return refuse(Reason::too_large, "{} elements; it counts to 2^31", most);
  return std::nullopt;
}

int64_t widest_channels(const BoundTensor& t) {
  const Shape strides = memory_strides(t);
  if (t.shape[1] > 1 && strides[1] != 1) return 1;
  Shape others;
  for (size_t a = 0; a < strides.size(); ++a)
    if (a != 1 && t.shape[a] > 1) others.push_back(strides[a]);
  return widest_access(std::move(others), t.shape[1], bytes(t.type, 1), t.alignment);
}

}  // namespace smelt::ops::conv
