// Products of two computed matrices of 8-bit integers on a GPU: attention's scores and what they weigh, with batches of both operands,
// stored along K or across it. As the reference has it, without fused multiply-adds:
//
//   sum = Σ a · b − y · (Σ a − K · x) − x · Σ b    x, y: a's and b's zero points. The tile has Σ a and Σ b from the fragments that it
//                                                  multiplies; sums wrap as 32-bit integers do
//   sum = sum + bias,   in0 = float(sum) · scale,   y = program(in0, operands)
//
// A zero point may be computed in the run too. "hopper" takes what needs no such sums and lies along K.
#include <utility>

#include "ops/core/key.h"
#include "ops/matmul/cuda_int8.h"

namespace smelt::ops::matmul {
namespace {

struct ComputedProblem {
  Product q;
  CudaProblem problem;
};

Result<ComputedProblem> problem_of(const Product& q) {
  ComputedProblem r{q, {}};
  const Quantization& numbers = q.quantization();
  const BoundTensor &a = q.bound.inputs[q.a], &b = q.bound.inputs[q.b];
  const auto [g, result] = cuda_geometry(q, a, b, q.bound.outputs[0]);
  if (auto why = uncountable(g)) return *why;
  auto epilogue = int8_epilogue(q, result, g.n, !numbers.bias.empty(), false);
  if (!epilogue) return epilogue.refusal();
  CudaProblem& p = r.problem;
  static_cast<CudaGeometry&>(p) = g;
  p.type = a.type, p.type_b = b.type;
  p.a_zero = numbers.a_zero;
  p.computed_a_zero = numbers.a_zero_input.has_value(), p.computed_b_zero = numbers.b_zero_input.has_value();
  if (p.computed_a_zero || p.a_zero != 0) p.zeros |= kernels::zeros_of_a;
  if (p.computed_b_zero || !all_of(numbers.b_zeros, 0)) p.zeros |= kernels::zeros_of_b;
  p.fused_multiply_add = false;
  p.epilogue = std::move(*epilogue);
  p.problem = q.problem;
  p.problem.input = p.type;
  Key key(smelt::name(p.type_b));
  key.flag("-zero", (p.zeros & kernels::zeros_of_a) != 0).flag("-zeros", (p.zeros & kernels::zeros_of_b) != 0);
  key.field(p.epilogue.text());
  add_operand(key, 'a', a);
  add_operand(key, 'b', b);
  p.problem.epilogue = key.flag(";tile sums", true).text();  // a constant b may come here
  return r;
}

class ComputedInt8Cuda final : public Kernel {
 public:
  ComputedInt8Cuda(const ComputedProblem& r, std::unique_ptr<Kernel> inner, const Gpu& gpu)
      : a_(r.q.a),
        b_(r.q.b),
        first_operand_(r.q.operands),
        a_zero_(r.q.quantization().a_zero_input),
        b_zero_(r.q.quantization().b_zero_input),
        inner_(std::move(inner)) {
    if (!gpu.device) return;
    const Quantization& numbers = r.q.quantization();
    if ((r.problem.zeros & kernels::zeros_of_b) && !b_zero_)
      parameters_.keep(gpu, place_b_zeros, spread(numbers.b_zeros, r.problem.n));
    if (!numbers.bias.empty()) parameters_.keep(gpu, place_column, spread(numbers.bias, r.problem.n));
    if (numbers.scales.size() > 1) parameters_.keep(gpu, place_scales, numbers.scales);
  }

  int64_t workspace() const override { return inner_->workspace(); }
  bool in_place(size_t i) const override { return i >= first_operand_ && inner_->in_place(int8_places + i); }
  bool reads(size_t i) const override { return i == a_ || i == b_ || i >= first_operand_ || i == a_zero_ || i == b_zero_; }

  void run(const Buffers& b) override {
    // Where a zero point is not computed, its place is not read.
    parameters_.run(*inner_, b,
                    {{place_a, a_}, {place_b, b_}, {place_a_zero, a_zero_.value_or(a_)}, {place_b_zero, b_zero_.value_or(b_)}});
  }

 private:
  size_t a_, b_, first_operand_;
  std::optional<size_t> a_zero_, b_zero_;
  std::unique_ptr<Kernel> inner_;
  Int8Parameters parameters_;
};

}  // namespace

void offer_int8_computed_cuda(const Product& q, const Machine& machine, Offer& offer) {
  auto found = problem_of(q);
  if (!found) return offer.refuse("cuda", found.refusal());
  const auto& r = *found;
  offer.problem = print(r.problem.problem);
  offer_cuda(r.problem, machine.gpu, offer, [r, gpu = machine.gpu](const CudaConfig& c) {
    return std::make_unique<ComputedInt8Cuda>(r, cuda_product(r.problem, c, *gpu), *gpu);
  });
  offer_hopper(r.problem, machine.gpu, offer, [r, gpu = machine.gpu](const HopperConfig& c) {
    return std::make_unique<ComputedInt8Cuda>(r, hopper_product(r.problem, c, *gpu), *gpu);
  });
}

}  // namespace smelt::ops::matmul
