// Products of 8-bit integers on a GPU: exact 32-bit sums on tensor cores, then what follows as an epilogue over them. In this
// order, as the reference has it, without fused multiply-adds:
//
//   sum = Σ a · b' − zero_b · Σ a                  b': the weights; u8 of zero point 128 as i8 of 0. Without the second term where
//                                                  it is 0
//   sum = sum + (bias − zero_a · Σ (b − zero_b))   one number for each column; sums wrap as 32-bit integers do
//   in0 = float(sum) · scale
//   y   = program(in0, operands)                   MatMulInteger: y = sum
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "device/cuda/device.h"
#include "ops/core/key.h"
#include "ops/matmul/cuda_offer.h"
#include "ops/matmul/int8_problem.h"

namespace smelt::ops {
namespace matmul {
namespace {

using expr::Fn;

/// Where the kernel finds what it reads: the product's operands, what is kept on the device, then the node's inputs.
enum BufferRef : size_t { place_a, place_b, place_b_zeros, place_column, place_sums, place_scales, places };

struct CudaInt8Problem {
  Product q;
  CudaProblem problem;
  DType packed = DType::i8;  // of the weights as the kernel reads them
  bool column = false;       // there is a number to add for each column
  bool less_zeros = false;   // these are the weights less their zero points
};

int64_t packed_row(int64_t k) { return (k + 15) / 16 * 16; }  // whole copies of 16 bytes

bool all_of(const std::vector<int32_t>& values, int32_t v) {
  return std::ranges::all_of(values, [v](int32_t x) { return x == v; });
}

/// One i32 or float a column.
BoundTensor by_column(DType type, int64_t columns) { return {type, {columns}, Layout::plain, {}, {}}; }

/// (sum, column?, Σ (b − zero_b)?, zero_a?, scales?, operands…): the last lines of the head of this file.
expr::Program program_of(const Product& q, bool column) {
  expr::Program p;
  expr::Ref sum = p.input(DType::i32), add = column ? p.input(DType::i32) : 0, sums = 0, zero = 0, scales = 0;
  if (const std::optional<size_t> a_zero = q.quantization().a_zero_input) {
    sums = p.input(DType::i32);
    zero = p.input(q.bound.inputs[*a_zero].type);
  }
  if (q.quantization().scales.size() > 1) scales = p.input(DType::f32);
  std::vector<expr::Ref> inputs{0};
  const std::optional<expr::Program>& then = q.node->program;
  for (int i = 1; then && i < then->input_count(); ++i) inputs.push_back(p.input(then->type(i)));
  if (column) sum = p.call(Fn::add, sum, add);
  if (q.quantization().a_zero_input) sum = p.call(Fn::sub, sum, p.call(Fn::mul, p.cast(zero, DType::i32), sums));
  if (!then) return p.output(sum), p;
  const expr::Ref scale = q.quantization().scales.size() > 1 ? scales : p.constant(DType::f32, q.quantization().scales[0]);
  inputs[0] = p.call(Fn::mul, p.cast(sum, DType::f32), scale);
  for (const expr::Ref r : p.splice(*then, inputs)) p.output(r);
  return p;
}

std::optional<Refusal> rejects(const Product& q) {
  const Problem& p = q.problem;
  for (const size_t i : {q.a, q.b}) {
    const DType t = q.bound.inputs[i].type;
    if (t != DType::u8 && t != DType::i8) return refuse(Reason::wrong_type, "elements of {}", smelt::name(t));
  }
  for (const auto* tensors : {&q.bound.inputs, &q.bound.outputs})
    for (const BoundTensor& t : *tensors)
      if (t.type != DType::undefined && t.layout != Layout::plain)
        return refuse(Reason::wrong_layout, "a tensor stored as {}", name(t.layout));
  if (!q.bound.inputs[q.b].constant.valid()) return refuse(Reason::not_constant, "the right operand is not constant");
  if (!p.b_batch.empty() && !std::ranges::all_of(p.b_batch, [](int64_t n) { return n == 1; }))
    return refuse(Reason::wrong_shape, "the right operand has a batch of its own");
  return std::nullopt;
}

Result<CudaInt8Problem> problem_of(const BoundNode& node) {
  auto found = int8_product(node);
  if (!found) return found.refusal();
  if (auto why = rejects(*found)) return *why;
  CudaInt8Problem r{*found, {}, found->bound.inputs[found->b].type, false};
  const Product& q = r.q;
  const auto [g, result] = cuda_geometry(q, q.bound.inputs[q.a], q.bound.inputs[q.b], q.bound.outputs[0]);
  if (auto why = uncountable(g)) return *why;
  if (!g.a.k_major) return refuse(Reason::wrong_layout, "the left operand is stored by columns, 8-bit operands lie along k");
  CudaProblem& p = r.problem;
  const bool row_sums = !all_of(q.quantization().b_zeros, 0) && !(r.packed == DType::u8 && all_of(q.quantization().b_zeros, 128));
  if (!row_sums && !all_of(q.quantization().b_zeros, 0)) r.packed = DType::i8;
  r.column = !q.quantization().bias.empty() || (q.quantization().a_zero != 0 && !q.quantization().a_zero_input);
  std::vector<EpilogueOperand> operands;
  if (r.column) operands.push_back({by_column(DType::i32, g.n), place_column, nullptr});
  if (const std::optional<size_t> a_zero = q.quantization().a_zero_input) {
    operands.push_back({by_column(DType::i32, g.n), place_sums, nullptr});
    BoundTensor zero = q.bound.inputs[*a_zero];
    zero.shape = zero.strides = {};  // one element, whatever its rank
    operands.push_back({zero, places + *a_zero, nullptr});
  }
  if (q.quantization().scales.size() > 1) operands.push_back({by_column(DType::f32, g.n), place_scales, nullptr});
  for (EpilogueOperand& o : epilogue_operands(q.bound, q.operands)) {
    if (!q.node->program) break;
    o.input += places;
    o.tensor = result.view(o.tensor);
    operands.push_back(std::move(o));
  }
  auto epilogue = CudaEpilogue::make(program_of(q, r.column), result.y, std::move(operands), result.axes);
  if (!epilogue) return epilogue.refusal();
  static_cast<CudaGeometry&>(p) = g;
  p.type = q.bound.inputs[q.a].type;
  p.type_b = r.packed;
  p.b = {packed_row(p.k), 1, Shape(p.batch.size(), 0), 256, true, 16};
  p.row_sums = row_sums;
  p.fused_multiply_add = false, p.constant_b = true;
  p.epilogue = std::move(*epilogue);
  p.problem = q.problem;
  p.problem.input = p.type;
  Key key(smelt::name(p.type_b));
  key.flag("-zeros", row_sums).field(p.epilogue.text());
  add_operand(key, 'a', q.bound.inputs[q.a]);
  p.problem.epilogue = key.text();
  return r;
}

std::shared_ptr<device::cuda::Memory> upload(const Gpu& gpu, const void* from, size_t bytes) {
  const auto memory = gpu.device->allocate(static_cast<int64_t>(bytes), "a quantised product's parameters");
  const device::cuda::Stream stream(gpu.device);
  const device::cuda::Device::Current current(*gpu.device);
  device::cuda::check(device::cuda::driver().copy_to_device(memory->address(), from, bytes, stream.get()),
                      "uploading a quantised product's parameters");
  stream.synchronize();
  return memory;
}

/// The problem with weights of i8 that lack nothing: less their zero points, where all of them then have 8 bits.
Result<CudaInt8Problem> without_zeros(const CudaInt8Problem& r) {
  if (!r.problem.row_sums && r.packed == DType::i8) return r;
  const auto [k, n] = std::pair(r.problem.k, r.problem.n);
  for (int64_t i = 0; i < k; ++i)
    for (int64_t j = 0; j < n; ++j)
      if (const int16_t w = int8_weight(r.q, i, j); w < -128 || w > 127)
        return refuse(Reason::wrong_value, "a weight is {} less its zero point, which 8 bits with a sign do not hold", w);
  CudaInt8Problem less = r;
  less.packed = less.problem.type_b = DType::i8;
  less.problem.row_sums = false, less.less_zeros = true;
  return less;
}

/// b as the kernel reads it: lines along K, each a column.
Tensor packed_weights(const CudaInt8Problem& r, const HopperConfig& order) {
  const Product& q = r.q;
  const Tensor& b = q.bound.inputs[q.b].constant;
  const int64_t k = r.problem.k, row = packed_row(k), lines = order.b_lines(r.problem.n);
  const uint8_t flip = r.packed != b.type() ? 0x80 : 0;  // less 128
  Tensor t = Tensor::zeros(DType::u8, {std::max<int64_t>(1, lines * row)});
  const auto* from = static_cast<const uint8_t*>(b.raw());
  for (int64_t l = 0; l < lines; ++l) {
    const int64_t j = order.column_of(l);
    for (int64_t i = 0; i < k && j < r.problem.n; ++i)
      t.data<uint8_t>()[l * row + i] = r.less_zeros ? static_cast<uint8_t>(int8_weight(q, i, j))
                                                    : static_cast<uint8_t>(from[i * q.b_row + j * q.b_column] ^ flip);
  }
  return t;
}

class Int8Cuda final : public Kernel {
 public:
  /// `order`: of b's columns.
  Int8Cuda(const CudaInt8Problem& r, std::unique_ptr<Kernel> inner, const HopperConfig& order, const Gpu& gpu)
      : a_(r.q.a), first_operand_(r.q.operands), zero_(r.q.quantization().a_zero_input), inner_(std::move(inner)) {
    if (!gpu.device) return;
    const Product& q = r.q;
    const int64_t k = r.problem.k, n = r.problem.n, row = packed_row(k);
    const auto count = static_cast<size_t>(n);
    const auto spread = [&]<class T>(const std::vector<T>& values) {
      return values.size() == count ? values : std::vector<T>(count, values.empty() ? T{} : values[0]);
    };
    const Tensor& b = q.bound.inputs[q.b].constant;
    Key form = Key("gemm:nk").field(r.packed).field(row).field(q.b_row).field(q.b_column);
    if (order.width > 0) form.field(order.width);
    if (r.less_zeros)
      for (const int32_t zero : q.quantization().b_zeros) form.field(zero);
    kept_[place_b] = gpu.weights->packed(gpu.device, b, form.text(), [&] { return packed_weights(r, order); });
    std::vector<int32_t> sums(count), column = spread(q.quantization().bias);
    for (int64_t i = 0; i < k; ++i)
      for (int64_t j = 0; j < n; ++j) sums[static_cast<size_t>(j)] += int8_weight(q, i, j);
    if (!q.quantization().a_zero_input)  // wrapping, as the sums do
      for (size_t j = 0; j < count; ++j)
        column[j] = static_cast<int32_t>(static_cast<uint32_t>(column[j]) -
                                         static_cast<uint32_t>(q.quantization().a_zero) * static_cast<uint32_t>(sums[j]));
    const auto keep = [&](BufferRef place, const auto& values) {
      if (!values.empty()) kept_[place] = upload(gpu, values.data(), values.size() * 4);
    };
    if (r.problem.row_sums) keep(place_b_zeros, spread(q.quantization().b_zeros));
    if (r.column) keep(place_column, column);
    if (q.quantization().a_zero_input) keep(place_sums, sums);
    if (q.quantization().scales.size() > 1) keep(place_scales, q.quantization().scales);
  }

  int64_t workspace() const override { return inner_->workspace(); }
  bool in_place(size_t i) const override { return i >= first_operand_ && inner_->in_place(places + i); }
  bool reads(size_t i) const override { return i == a_ || i >= first_operand_ || i == zero_; }

  void run(const Buffers& b) override {
    std::array<const void*, 64 + places> inputs{};
    for (size_t i = 0; i < kept_.size(); ++i)
      if (kept_[i]) inputs[i] = reinterpret_cast<const void*>(kept_[i]->address());
    inputs[place_a] = b.inputs[a_];
    std::ranges::copy(b.inputs, inputs.begin() + places);
    inner_->run({std::span(inputs.data(), places + b.inputs.size()), b.outputs, b.workspace, b.stream});
  }

 private:
  size_t a_, first_operand_;
  std::optional<size_t> zero_;
  std::unique_ptr<Kernel> inner_;
  std::array<std::shared_ptr<device::cuda::Memory>, places> kept_;
};

}  // namespace

void offer_int8_cuda(const BoundNode& node, const Machine& machine, Offer& offer) {
  auto found = problem_of(node);
  if (!found) return offer.refuse("cuda", found.refusal());
  const auto& r = *found;
  offer.problem = print(r.problem.problem);
  offer_cuda(r.problem, machine.gpu, offer, [r, gpu = machine.gpu](const CudaConfig& c) {
    return std::make_unique<Int8Cuda>(r, cuda_product(r.problem, c, *gpu), HopperConfig{}, *gpu);
  });
  if (machine.gpu->info.major != 9) return offer.refuse("hopper", Reason::wrong_machine, "wgmma is Hopper's alone (9.0)");
  const auto own = without_zeros(r);
  if (!own) return offer.refuse("hopper", own.refusal());
  offer.problem = Key(offer.problem).flag(";8 bits", own->less_zeros).text();  // the weights' values decide
  offer_hopper(own->problem, machine.gpu, offer, [r = *own, gpu = machine.gpu](const HopperConfig& c) {
    return std::make_unique<Int8Cuda>(r, hopper_product(r.problem, c, *gpu), c, *gpu);
  });
}

}  // namespace matmul

}  // namespace smelt::ops
