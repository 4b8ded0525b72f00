// The matrix product, of floats and of 8-bit integers, and its tactics.
#include "ops/matmul/offer.h"

#include "ops/core/key.h"
#include "ops/core/strides.h"
#include "ops/matmul/block_problem.h"
#include "ops/matmul/cuda_offer.h"
#include "ops/matmul/experts.h"
#include "ops/matmul/family.h"
#include "ops/matmul/int8_problem.h"

namespace smelt::ops {
namespace matmul {

std::optional<Refusal> rejects_tensors(const Product& p) {
  if (auto why = rejects_layouts(p.bound)) return why;
  if (p.bound.inputs[0].shape.size() < 2 || p.bound.inputs[1].shape.size() < 2)
    return refuse(Reason::wrong_rank, "an operand is a vector");
  if (elements(p.bound.outputs[0].shape) == 0) return refuse(Reason::wrong_shape, "an empty result");
  return std::nullopt;
}

}  // namespace matmul

namespace {

bool is_matmul(const Node& node) {
  if (node.is("FusedMatMul", microsoft_domain)) return node.get_int("transBatchA", 0) == 0 && node.get_int("transBatchB", 0) == 0;
  return node.is("MatMul") || node.is("Gemm") || node.is("MatMul", smelt_domain);
}

void offer_cpu(const BoundNode& node, const Machine& machine, Offer& offer);

/// A vector is a matrix of one row or column: the bytes are the same.
void offer_vectors(const BoundNode& node, const Machine& machine, Offer& offer) {
  BoundNode matrices = node;
  BoundTensor &a = matrices.inputs[0], &b = matrices.inputs[1], &y = matrices.outputs[0];
  if (!is_dense(a) || !is_dense(b) || !is_dense(y)) return offer.refuse("onednn", Reason::wrong_layout, "a vector that is apart");
  if (elements(y.shape) == 0 || elements(a.shape) == 0) return offer.refuse("onednn", Reason::wrong_shape, "an empty product");
  const auto reshape = [](BoundTensor& t, Shape s) {
    t.shape = std::move(s);
    t.strides.clear();
    if (t.constant.valid()) t.constant = t.constant.reshaped(t.shape);
  };
  const bool row = a.shape.size() == 1, column = b.shape.size() == 1;
  Shape result = y.shape;
  if (row) result.insert(result.end() - (column ? 0 : 1), 1);
  if (column) result.push_back(1);
  if (row) reshape(a, {1, a.shape[0]});
  if (column) reshape(b, {b.shape[0], 1});
  reshape(y, result);
  offer_cpu(matrices, machine, offer);
}

void offer_cpu(const BoundNode& node, const Machine& machine, Offer& offer) {
  if (node.node->is("MatMul") && !node.inputs[0].shape.empty() && !node.inputs[1].shape.empty() &&
      (node.inputs[0].shape.size() == 1 || node.inputs[1].shape.size() == 1))
    return offer_vectors(node, machine, offer);
  if (is_float(node.inputs[0].type) && bits(node.inputs[0].type) <= 8)
    return offer.refuse("onednn", Reason::wrong_type, "a product of {}", name(node.inputs[0].type));
  if (node.inputs[0].type == DType::f64 || !is_float(node.inputs[0].type)) return matmul::offer_wide(node, machine, offer);
  matmul::Product p = matmul::product(node);
  if (const auto why = matmul::rejects_tensors(p)) {
    offer.refuse("onednn", *why);
    offer.refuse("avx2", *why);
    return;
  }
  CpuEpilogue epilogue(p.bound, 2, node.outputs[0].shape.size() - 1, Tensor{});
  p.problem.epilogue = epilogue.text();
  offer.problem = matmul::print(p.problem);
  const matmul::Request r{std::move(p), std::move(epilogue), machine.threads};
  for (const auto offer_tactic : matmul::cpu_tactics) offer_tactic(r, offer);
}

void offer_cuda(const BoundNode& node, const Machine& machine, Offer& offer) {
  auto found = matmul::cuda_problem(node);
  if (!found) return offer.refuse("cuda", found.refusal());
  const matmul::CudaProblem& p = *found;
  offer.problem = Key(matmul::print(p.problem)).flag(";tf32", machine.gpu->tf32 && p.type == DType::f32).text();
  if (matmul::is_wide(p.type)) return matmul::offer_wide_cuda(p, machine.gpu, offer);
  if (p.gated || p.norm != kernels::HopperNorm::none || p.type == DType::f8e4m3fn)
    return matmul::offer_hopper(p, machine.gpu, offer);
  matmul::offer_cuda(p, machine.gpu, offer,
                     [p, gpu = machine.gpu](const matmul::CudaConfig& c) { return matmul::cuda_product(p, c, *gpu); });
  matmul::offer_hopper(p, machine.gpu, offer);
  matmul::offer_cublaslt(p, machine.gpu, offer);
}

bool is_int8_matmul(const Node& n) {
  return n.is("QLinearMatMul") || n.is("QLinearMatMul", smelt_domain) || n.is("MatMulInteger") || n.is("QGemm", microsoft_domain);
}

void offer_int8_cpu(const BoundNode& node, const Machine& machine, Offer& offer) {
  auto p = matmul::int8_product(node);
  if (!p) return offer.refuse("avx2", p.refusal());
  const std::optional<expr::Program>& program = p->node->program;
  Key epilogue(program ? program->print() : "none");
  for (size_t i = p->operands; i < p->bound.inputs.size() && program; ++i)
    if (p->bound.inputs[i].type != DType::undefined) epilogue.option(" ", p->bound.inputs[i]);
  const bool narrow = p->bound.inputs[p->b].type == DType::i8 && p->quantization().is_symmetric();
  p->problem.epilogue = epilogue.flag(" wide", !narrow).text();  // b's 16 bits less their zero points
  offer.problem = matmul::print(p->problem);
  for (const auto offer_tactic : matmul::int8_cpu_tactics) offer_tactic(*p, machine.threads, offer);
}

bool is_experts(const Node& n) { return n.is("MoE", microsoft_domain) || n.is("QMoE", microsoft_domain); }
bool is_block_matmul(const Node& n) { return n.is("BlockMatMul", smelt_domain); }
bool is_fused_gemm(const Node& n) { return n.is("FusedGemm", microsoft_domain); }
bool is_scaled_product(const Node& n) {
  return n.is("MatMulIntegerToFloat", microsoft_domain) || n.is("DynamicQuantizeMatMul", microsoft_domain);
}

constexpr OperatorTactics operators[] = {
    {is_fused_gemm, matmul::offer_fused_gemm, nullptr},
    {is_scaled_product, matmul::offer_scaled_product, nullptr},
    {is_matmul, offer_cpu, offer_cuda},
    {is_experts, matmul::offer_experts, nullptr},
    {is_block_matmul, matmul::offer_block_product, nullptr},
    {is_int8_matmul, offer_int8_cpu, matmul::offer_int8_cuda},
};

}  // namespace

constinit const TacticFamily matmul_family{operators};

}  // namespace smelt::ops
