#include <algorithm>
#include <utility>

#include "base/value_of.h"
#include "ops/matmul/cuda_int8.h"

namespace smelt::ops::matmul {
namespace {

using expr::Fn;

constexpr size_t most_inputs = 64;  // of a node

/// (sum, column?, Σ (b − zero_b)?, zero_a?, scales?, operands…)
expr::Program program_of(const Product& q, bool column, bool b_sums) {
  expr::Program p;
  expr::Ref sum = p.input(DType::i32), add = column ? p.input(DType::i32) : 0, sums = 0, zero = 0, scales = 0;
  if (b_sums) {
    sums = p.input(DType::i32);
    zero = p.input(q.bound.inputs[value_of(q.quantization().a_zero_input, "the computed zero point")].type);
  }
  if (q.quantization().scales.size() > 1) scales = p.input(DType::f32);
  std::vector<expr::Ref> inputs{0};
  const std::optional<expr::Program>& then = q.node->program;
  for (int i = 1; then && i < then->input_count(); ++i) inputs.push_back(p.input(then->type(i)));
  if (column) sum = p.call(Fn::add, sum, add);
  if (b_sums) sum = p.call(Fn::sub, sum, p.call(Fn::mul, p.cast(zero, DType::i32), sums));
  if (!then) return p.output(sum), p;
  const expr::Ref scale = q.quantization().scales.size() > 1 ? scales : p.constant(DType::f32, q.quantization().scales[0]);
  inputs[0] = p.call(Fn::mul, p.cast(sum, DType::f32), scale);
  for (const expr::Ref r : p.splice(*then, inputs)) p.output(r);
  return p;
}

}  // namespace

bool all_of(const std::vector<int32_t>& values, int32_t v) {
  return std::ranges::all_of(values, [v](int32_t x) { return x == v; });
}

BoundTensor by_column(DType type, int64_t columns) { return {type, {columns}, Layout::plain, {}, {}}; }

std::optional<Refusal> rejects_int8_bytes(const Product& q) {
  for (const size_t i : {q.a, q.b}) {
    const DType t = q.bound.inputs[i].type;
    if (t != DType::u8 && t != DType::i8) return refuse(Reason::wrong_type, "elements of {}", smelt::name(t));
  }
  for (const auto* tensors : {&q.bound.inputs, &q.bound.outputs})
    for (const BoundTensor& t : *tensors)
      if (t.type != DType::undefined && t.layout != Layout::plain)
        return refuse(Reason::wrong_layout, "a tensor stored as {}", name(t.layout));
  return std::nullopt;
}

Result<CudaEpilogue> int8_epilogue(const Product& q, const MatrixResult& result, int64_t columns, bool column, bool sums) {
  std::vector<EpilogueOperand> operands;
  if (column) operands.push_back({by_column(DType::i32, columns), place_column, nullptr});
  if (sums) {
    const size_t a_zero = value_of(q.quantization().a_zero_input, "the computed zero point");
    operands.push_back({by_column(DType::i32, columns), place_sums, nullptr});
    BoundTensor zero = q.bound.inputs[a_zero];
    zero.shape = zero.strides = {};  // one element, whatever its rank
    operands.push_back({zero, int8_places + a_zero, nullptr});
  }
  if (q.quantization().scales.size() > 1) operands.push_back({by_column(DType::f32, columns), place_scales, nullptr});
  for (EpilogueOperand& o : epilogue_operands(q.bound, q.operands)) {
    if (!q.node->program) break;
    o.input += int8_places;
    o.tensor = result.view(o.tensor);
    operands.push_back(std::move(o));
  }
  return CudaEpilogue::make(program_of(q, column, sums), result.y, std::move(operands), result.axes);
}

void Int8Parameters::keep(const Gpu& gpu, Int8Place place, const void* from, size_t bytes) {
  kept_[place] = gpu.device->allocate(static_cast<int64_t>(bytes), "a quantised product's parameters");
  const device::cuda::Stream stream(gpu.device);
  const device::cuda::Device::Current current(*gpu.device);
  device::cuda::check(device::cuda::driver().copy_to_device(kept_[place]->address(), from, bytes, stream.get()),
                      "uploading a quantised product's parameters");
  stream.synchronize();
}

void Int8Parameters::run(Kernel& inner, const Buffers& b, std::initializer_list<std::pair<Int8Place, size_t>> others) const {
  std::array<const void*, int8_places + most_inputs> inputs{};
  for (size_t i = 0; i < kept_.size(); ++i)
    if (kept_[i]) inputs[i] = reinterpret_cast<const void*>(kept_[i]->address());
  for (const auto& [place, input] : others) inputs[place] = b.inputs[input];
  std::ranges::copy(b.inputs, inputs.begin() + int8_places);
  inner.run({std::span(inputs.data(), int8_places + b.inputs.size()), b.outputs, b.workspace, b.stream});
}

}  // namespace smelt::ops::matmul
