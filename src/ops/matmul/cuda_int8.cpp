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
#include <span>

#include "ops/core/key.h"
#include "ops/matmul/cuda_int8.h"

namespace smelt::ops {
namespace matmul {
namespace {

struct CudaInt8Problem {
  Product q;
  CudaProblem problem;
  DType packed = DType::i8;  // of the weights as the kernel reads them
  bool column = false;       // there is a number to add for each column
  bool less_zeros = false;   // these are the weights less their zero points
};

int64_t packed_row(int64_t k) { return (k + 15) / 16 * 16; }  // whole copies of 16 bytes

/// Whether b, with what its zero points add, is laid out before the run: lines along K, which a's are too.
bool laid_before(const Product& q) {
  const bool repeats = std::ranges::all_of(q.problem.b_batch, [](int64_t n) { return n == 1; });
  if (!q.bound.inputs[q.b].constant.valid() || q.quantization().b_zero_input || !repeats) return false;
  return cuda_geometry(q, q.bound.inputs[q.a], q.bound.inputs[q.b], q.bound.outputs[0]).first.a.k_major;
}

Result<CudaInt8Problem> problem_of(const Product& found) {
  CudaInt8Problem r{found, {}, found.bound.inputs[found.b].type, false};
  const Product& q = r.q;
  const auto [g, result] = cuda_geometry(q, q.bound.inputs[q.a], q.bound.inputs[q.b], q.bound.outputs[0]);
  if (auto why = uncountable(g)) return *why;
  CudaProblem& p = r.problem;
  const bool row_sums = !all_of(q.quantization().b_zeros, 0) && !(r.packed == DType::u8 && all_of(q.quantization().b_zeros, 128));
  if (!row_sums && !all_of(q.quantization().b_zeros, 0)) r.packed = DType::i8;
  r.column = !q.quantization().bias.empty() || (q.quantization().a_zero != 0 && !q.quantization().a_zero_input);
  auto epilogue = int8_epilogue(q, result, g.n, r.column, q.quantization().a_zero_input.has_value());
  if (!epilogue) return epilogue.refusal();
  static_cast<CudaGeometry&>(p) = g;
  p.type = q.bound.inputs[q.a].type;
  p.type_b = r.packed;
  p.b = {packed_row(p.k), 1, Shape(p.batch.size(), 0), 256, true, 16};
  if (row_sums) p.zeros = kernels::zeros_of_b;
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

/// The problem with weights of i8 that lack nothing: less their zero points, where all of them then have 8 bits.
Result<CudaInt8Problem> without_zeros(const CudaInt8Problem& r) {
  if (r.problem.zeros == 0 && r.packed == DType::i8) return r;
  const auto [k, n] = std::pair(r.problem.k, r.problem.n);
  for (int64_t i = 0; i < k; ++i)
    for (int64_t j = 0; j < n; ++j)
      if (const int16_t w = int8_weight(r.q, i, j); w < -128 || w > 127)
        return refuse(Reason::wrong_value, "a weight is {} less its zero point, which 8 bits with a sign do not hold", w);
  CudaInt8Problem less = r;
  less.packed = less.problem.type_b = DType::i8;
  less.problem.zeros = 0, less.less_zeros = true;
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
    const Tensor& b = q.bound.inputs[q.b].constant;
    Key form = Key("gemm:nk").field(r.packed).field(row).field(q.b_row).field(q.b_column);
    if (order.width > 0) form.field(order.width);
    if (r.less_zeros)
      for (const int32_t zero : q.quantization().b_zeros) form.field(zero);
    parameters_.keep(place_b, gpu.weights->packed(gpu.device, b, form.text(), [&] { return packed_weights(r, order); }));
    std::vector<int32_t> sums(static_cast<size_t>(n)), column = spread(q.quantization().bias, n);
    for (int64_t i = 0; i < k; ++i)
      for (int64_t j = 0; j < n; ++j) sums[static_cast<size_t>(j)] += int8_weight(q, i, j);
    if (!q.quantization().a_zero_input)  // wrapping, as the sums do
      for (size_t j = 0; j < column.size(); ++j)
        column[j] = static_cast<int32_t>(static_cast<uint32_t>(column[j]) -
                                         static_cast<uint32_t>(q.quantization().a_zero) * static_cast<uint32_t>(sums[j]));
    if (r.problem.zeros != 0) parameters_.keep(gpu, place_b_zeros, spread(q.quantization().b_zeros, n));
    if (r.column) parameters_.keep(gpu, place_column, column);
    if (q.quantization().a_zero_input) parameters_.keep(gpu, place_sums, sums);
    if (q.quantization().scales.size() > 1) parameters_.keep(gpu, place_scales, q.quantization().scales);
  }

  int64_t workspace() const override { return inner_->workspace(); }
  bool in_place(size_t i) const override { return i >= first_operand_ && inner_->in_place(int8_places + i); }
  bool reads(size_t i) const override { return i == a_ || i >= first_operand_ || i == zero_; }

  void run(const Buffers& b) override { parameters_.run(*inner_, b, {{place_a, a_}}); }

 private:
  size_t a_, first_operand_;
  std::optional<size_t> zero_;
  std::unique_ptr<Kernel> inner_;
  Int8Parameters parameters_;
};

}  // namespace

void offer_int8_cuda(const BoundNode& node, const Machine& machine, Offer& offer) {
  auto product = int8_product(node);
  if (!product) return offer.refuse("cuda", product.refusal());
  if (auto why = rejects_int8_bytes(*product)) return offer.refuse("cuda", *why);
  if (!laid_before(*product)) return offer_int8_computed_cuda(*product, machine, offer);
  auto found = problem_of(*product);
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
