// Matrix products by cuBLASLt: with its own epilogue where that is what follows (a bias, a residual, relu, the tanh form of
// gelu), else the plain product and then the program by a pointwise kernel.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>

#include "device/cuda/cublaslt.h"
#include "ops/core/align.h"
#include "ops/core/strides.h"
#include "ops/cuda/planned.h"
#include "ops/matmul/cuda_offer.h"
#include "ops/pointwise/offer.h"

namespace smelt::ops::matmul {
namespace {

namespace cuda = device::cuda;
namespace abi = device::cuda::abi;
using expr::Fn;

constexpr size_t none = SIZE_MAX;
constexpr int64_t most_workspace = int64_t{32} << 20;  // what NVIDIA recommends for Hopper
constexpr int most_algorithms = 32;

abi::BlasType blas_type(DType t) { return t == DType::f32 ? abi::r_f32 : t == DType::f16 ? abi::r_f16 : abi::r_bf16; }

/// What cuBLASLt does by itself after a product.
struct Fused {
  size_t bias = none, residual = none;  // inputs
  bool relu = false, gelu = false;
  double alpha = 1;
  abi::MatmulEpilogue code() const {
    const bool b = bias != none;
    if (relu) return b ? abi::epilogue_relu_bias : abi::epilogue_relu;
    if (gelu) return b ? abi::epilogue_gelu_bias : abi::epilogue_gelu;
    return b ? abi::epilogue_bias : abi::epilogue_default;
  }
};

/// The program as such; nothing where it is another one.
std::optional<Fused> fused(const CudaProblem& p) {
  const expr::Program& program = p.epilogue.program();
  const std::vector<expr::Instruction>& code = program.code();
  const auto at = [&](expr::Ref r) -> const expr::Instruction& { return code[static_cast<size_t>(r)]; };
  const BoundTensor& y = p.epilogue.output();
  Fused f;
  expr::Ref r = program.outputs()[0];
  if (at(r).fn == Fn::cast) r = at(r).args[0];
  if (program.type(r) != DType::f32) return std::nullopt;
  // Its gelu is not for results in float: NVIDIA states no error of its tanh.
  if (at(r).fn == Fn::relu)
    f.relu = true, r = at(r).args[0];
  else if (at(r).fn == Fn::gelu_tanh && y.type != DType::f32)
    f.gelu = true, r = at(r).args[0];
  // Sums of in0 and operands, whichever comes first.
  while (at(r).fn == Fn::add) {
    std::optional<expr::Ref> rest;
    for (const int side : {1, 0}) {
      expr::Ref o = at(r).args[side];
      if (at(o).fn == Fn::cast) o = at(o).args[0];
      if (at(o).fn != Fn::input || o == 0) continue;
      const EpilogueOperand& operand = p.epilogue.operands()[static_cast<size_t>(o) - 1];
      const BoundTensor& t = operand.tensor;
      const bool by_column =
          is_dense(t) && !t.shape.empty() && t.shape.back() == p.n && elements(t.shape) == p.n && t.alignment >= 16;
      const bool like_y = t.shape == y.shape && memory_strides(t) == memory_strides(y) && t.alignment >= y.alignment;
      if (t.type != y.type) continue;
      if (f.bias == none && by_column)
        f.bias = operand.input;
      else if (f.residual == none && like_y)
        f.residual = operand.input;
      else
        continue;
      rest = at(r).args[1 - side];
      break;
    }
    if (!rest) return std::nullopt;
    r = *rest;
  }
  if (at(r).fn == Fn::mul && at(r).args[0] == 0 && at(at(r).args[1]).fn == Fn::constant) f.alpha = at(at(r).args[1]).value, r = 0;
  if (r != 0) return std::nullopt;
  return f;
}

/// An operand as BLAS has it, by columns: they run along k where the operand's elements lie side by side along the other axis,
/// else along that. `first`: BLAS's left operand, our right one.
Result<cuda::BlasMatrix> operand_matrix(const CudaOperand& o, int64_t batch_stride, bool first, int64_t outer,
                                        const CudaProblem& p) {
  const bool along_k = !o.k_major;
  cuda::BlasMatrix m{.type = blas_type(p.type),
                     .rows = along_k ? outer : p.k,
                     .columns = along_k ? p.k : outer,
                     .stride = along_k ? o.k : o.outer,
                     .batch_stride = batch_stride,
                     .transposed = along_k != first,
                     .alignment = std::min<int64_t>(256, o.alignment)};
  if ((along_k ? o.outer : o.k) != 1 && m.rows != 1)
    return refuse(Reason::wrong_layout, "an operand whose elements lie side by side along neither axis");
  if (m.columns == 1) m.stride = m.rows;
  if (m.stride < m.rows)
    return refuse(Reason::wrong_layout, "an operand whose rows of {} are {} elements apart", m.rows, m.stride);
  return m;
}

/// The product with what cuBLASLt fuses, or plain into `into` (of a type and dense or y itself).
struct Plan {
  cuda::BlasProblem blas;
  Fused fused;
  bool passes = false;    // a pointwise kernel follows
  bool in_output = true;  // the plain product is written where the result will be
  PointwiseProblem pass;
};

/// y as BLAS's d: [n, rows] by columns.
Result<cuda::BlasMatrix> result_matrix(const BoundTensor& y, const CudaProblem& p) {
  const Shape steps = memory_strides(y);
  const auto batches = static_cast<std::ptrdiff_t>(p.batch.size());
  const Views rows =
      in_order(Shape(y.shape.begin() + batches, y.shape.end() - 1), {Shape(steps.begin() + batches, steps.end() - 1)});
  const Views matrices = in_order(p.batch, {Shape(steps.begin(), steps.begin() + batches)});
  if (rows.extents.size() != 1 || matrices.extents.size() != 1 || (steps.back() != 1 && p.n != 1))
    return refuse(Reason::wrong_layout, "a result whose rows are not equally far apart");
  cuda::BlasMatrix d{.type = blas_type(y.type),
                     .rows = p.n,
                     .columns = p.m,
                     .stride = p.m == 1 ? p.n : rows.strides[0][0],
                     .batch_stride = matrices.strides[0][0],
                     .alignment = std::min<int64_t>(256, y.alignment)};
  if (d.stride < p.n) return refuse(Reason::wrong_layout, "a result whose rows of {} are {} elements apart", p.n, d.stride);
  return d;
}

Result<Plan> plan(const CudaProblem& p, const Gpu& gpu) {
  if (p.k == 0 || p.m == 0 || p.n == 0 || p.batches() == 0) return refuse(Reason::wrong_shape, "an empty product");
  const Views batches = in_order(p.batch, {p.a.batch, p.b.batch});
  if (batches.extents.size() > 1) return refuse(Reason::wrong_layout, "{} batch axes, it knows one", batches.extents.size());
  constexpr int64_t most_batches = int64_t{1} << 31;
  if (p.batches() >= most_batches) return refuse(Reason::too_large, "{} batches, 2^31 are counted", p.batches());
  Plan r;
  // A row-major y = a · b is, by columns, yᵀ = bᵀ · aᵀ.
  const auto left = operand_matrix(p.b, batches.strides[1][0], true, p.n, p);
  if (!left) return left.refusal();
  const auto right = operand_matrix(p.a, batches.strides[0][0], false, p.m, p);
  if (!right) return right.refusal();
  r.blas.a = *left;
  r.blas.b = *right;
  r.blas.compute = p.type == DType::f32 && gpu.tf32 ? abi::compute_f32_tf32 : abi::compute_f32;
  r.blas.batches = p.batches();
  const BoundTensor& y = p.epilogue.output();
  const Result<cuda::BlasMatrix> in_y = result_matrix(y, p);
  if (const auto f = fused(p); f && in_y && (y.type == p.type || y.type == DType::f32)) {
    r.blas.d = *in_y;
    r.fused = *f;
    r.blas.alpha = static_cast<float>(f->alpha);
    r.blas.beta = f->residual == none ? 0.0f : 1.0f;
    r.blas.epilogue = f->code();
    r.blas.bias_type = blas_type(y.type);
    return r;
  }
  // The plain product where the result will be, if it has its type; else dense in the workspace. It is rounded to the operands'
  // type only where the result is too.
  r.passes = true;
  const DType between = y.type == p.type ? p.type : DType::f32;
  BoundTensor plain = y;
  r.in_output = between == y.type && in_y;
  if (!r.in_output) plain = {between, y.shape, Layout::plain, {}, {}};
  const Result<cuda::BlasMatrix> d = r.in_output ? in_y : result_matrix(plain, p);
  if (!d) return d.refusal();
  r.blas.d = *d;
  const expr::Program& program = p.epilogue.program();
  std::vector<expr::Ref> inputs{r.pass.program.input(between)};
  for (size_t i = 1; i < p.epilogue.operands().size() + 1; ++i)
    inputs.push_back(r.pass.program.input(program.type(static_cast<expr::Ref>(i))));
  inputs[0] = r.pass.program.cast(inputs[0], DType::f32);
  for (const expr::Ref o : r.pass.program.splice(program, inputs)) r.pass.program.output(o);
  r.pass.shape = y.shape;
  const auto add = [&](const BoundTensor& t) {
    r.pass.strides.push_back(broadcast_strides(t, y.shape.size()));
    r.pass.alignments.push_back(t.alignment);
  };
  add(plain);
  r.pass.present.push_back(0);
  for (const EpilogueOperand& o : p.epilogue.operands()) {
    add(o.tensor);
    r.pass.present.push_back(o.input);
  }
  add(y);
  return r;
}

class CublasLtProduct final : public Kernel {
 public:
  CublasLtProduct(const Plan& plan, std::shared_ptr<const cuda::BlasMatmul> matmul, cuda::BlasAlgorithm algorithm, const Gpu& gpu)
      : plan_(plan), matmul_(std::move(matmul)), algorithm_(std::move(algorithm)) {
    if (!plan_.passes) return;
    if (!plan_.in_output) plain_bytes_ = device_aligned(bytes(plan_.pass.program.type(0), elements(plan_.pass.shape)));
    Offer offer;
    offer_pointwise_cuda(plan_.pass, gpu, offer);
    pass_ = std::ranges::min_element(offer.candidates, {}, &Candidate::estimate_us)->prepare();
  }

  int64_t workspace() const override { return plain_bytes_ + algorithm_.workspace_bytes; }
  bool in_place(size_t i) const override { return !plan_.passes && i == plan_.fused.residual && i != none; }

  void run(const Buffers& b) override {
    char* memory = static_cast<char*>(b.workspace);
    void* d = plan_.in_output ? b.outputs[0] : memory;
    cuda::BlasMatmul::Operands o{.a = b.inputs[1], .b = b.inputs[0], .d = d, .workspace = memory + plain_bytes_};
    if (plan_.fused.bias != none) o.bias = b.inputs[plan_.fused.bias];
    if (plan_.fused.residual != none) o.c = b.inputs[plan_.fused.residual];
    if (auto* planned = PlannedLaunches::current())
      planned->add_other("cuBLASLt");
    else
      matmul_->run(algorithm_, o, static_cast<abi::Stream>(b.stream));
    if (!pass_) return;
    std::array<const void*, 64> inputs;
    std::ranges::copy(b.inputs, inputs.begin());
    inputs[0] = d;
    pass_->run({std::span(inputs.data(), b.inputs.size()), b.outputs, nullptr, b.stream});
  }

 private:
  Plan plan_;
  std::shared_ptr<const cuda::BlasMatmul> matmul_;
  cuda::BlasAlgorithm algorithm_;
  int64_t plain_bytes_ = 0;
  std::unique_ptr<Kernel> pass_;
};

}  // namespace

void offer_cublaslt(const CudaProblem& p, const std::shared_ptr<const Gpu>& gpu, Offer& offer) {
  if (const std::string missing = cuda::cublaslt_missing(); !missing.empty())
    return offer.refuse("cublaslt", Reason::wrong_machine, "{}", missing);
  if (!gpu->device)
    return offer.refuse("cublaslt", Reason::wrong_machine, "its algorithms are asked for on the device that they run on");
  const Result<Plan> made = plan(p, *gpu);
  if (!made) return offer.refuse("cublaslt", made.refusal());
  const Plan& r = *made;
  const auto matmul = std::make_shared<const cuda::BlasMatmul>(gpu->device, r.blas);
  const std::vector<cuda::BlasAlgorithm> algorithms = matmul->algorithms(most_algorithms, most_workspace);
  if (algorithms.empty()) return offer.refuse("cublaslt", Reason::unsupported, "it has no algorithm for this product");
  const double y_bytes = static_cast<double>(p.epilogue.moved_bytes());
  double estimate = gpu_estimate_us(*gpu, p.moved_bytes(), p.flops() * (p.type == DType::f32 ? gpu->tf32 ? 2 : 16 : 1)) + 2;
  if (r.passes) estimate += gpu_estimate_us(*gpu, 2 * y_bytes);
  for (size_t i = 0; i < algorithms.size(); ++i)
    offer.candidates.push_back(
        {"cublaslt", algorithms[i].name + (r.passes ? "+pointwise" : ""), estimate * (1 + 0.03 * static_cast<double>(i)),
         [r, matmul, algorithm = algorithms[i], gpu] { return std::make_unique<CublasLtProduct>(r, matmul, algorithm, *gpu); }});
}

}  // namespace smelt::ops::matmul
