// The matrix product, of floats and of 8-bit integers, and its tactics.
#include "ops/matmul/offer.h"

#include "ops/core/key.h"
#include "ops/core/strides.h"
#include "ops/matmul/cuda_offer.h"
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

void offer_cpu(const BoundNode& node, const Machine& machine, Offer& offer) {
  if (!is_float(node.outputs[0].type)) return offer.refuse("onednn", Reason::wrong_type, "a product of integers");
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
  matmul::offer_cuda(p, machine.gpu, offer,
                     [p, gpu = machine.gpu](const matmul::CudaConfig& c) { return matmul::cuda_product(p, c, *gpu); });
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

constexpr OperatorTactics operators[] = {
    {is_matmul, offer_cpu, offer_cuda},
    {is_int8_matmul, offer_int8_cpu, matmul::offer_int8_cuda},
};

}  // namespace

constinit const TacticFamily matmul_family{operators};

}  // namespace smelt::ops
