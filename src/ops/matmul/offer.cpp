// The matrix product, of floats and of 8-bit integers, and its tactics.
#include "ops/matmul/offer.h"

#include "ops/core/key.h"
#include "ops/core/strides.h"
#include "ops/matmul/cuda_offer.h"
#include "ops/matmul/family.h"
#include "ops/matmul/int8_problem.h"

namespace smelt::ops {
namespace matmul {

std::optional<std::string> rejects_tensors(const Product& p) {
  for (const auto* tensors : {&p.bound.inputs, &p.bound.outputs}) {
    for (const BoundTensor& t : *tensors) {
      if (t.type != DType::undefined && (t.layout != Layout::plain || !is_dense(t)))
        return "a tensor that is not dense and row-major";
    }
  }
  if (p.bound.inputs[0].shape.size() < 2 || p.bound.inputs[1].shape.size() < 2) return "an operand is a vector";
  if (elements(p.bound.outputs[0].shape) == 0) return "an empty result";
  return std::nullopt;
}

}  // namespace matmul

namespace {

bool is_matmul(const Node& node) {
  if (node.is("FusedMatMul", microsoft_domain)) return node.get_int("transBatchA", 0) == 0 && node.get_int("transBatchB", 0) == 0;
  return node.is("MatMul") || node.is("Gemm") || node.is("MatMul", smelt_domain);
}

void offer_cpu(const BoundNode& node, const Machine& machine, Offer& offer) {
  if (!is_float(node.outputs[0].type)) {
    offer.rejected.push_back({"onednn", "a product of integers"});
    return;
  }
  matmul::Product p = matmul::product(node);
  if (auto reason = matmul::rejects_tensors(p)) {
    offer.rejected.push_back({"onednn", *reason});
    offer.rejected.push_back({"avx2", *reason});
    return;
  }
  CpuEpilogue epilogue(p.bound, 2, node.outputs[0].shape.size() - 1, Tensor{});
  p.problem.epilogue = epilogue.text();
  offer.problem = matmul::print(p.problem);
  const matmul::Request r{std::move(p), std::move(epilogue), machine.threads};
  matmul::offer_indirect(r, offer);
  matmul::offer_indirect_packed_in_run(r, offer);
  matmul::offer_skinny(r, offer);
  matmul::offer_onednn(r, offer);
}

void offer_cuda(const BoundNode& node, const Machine& machine, Offer& offer) {
  auto found = matmul::cuda_problem(node);
  if (auto* why = std::get_if<std::string>(&found)) return offer.rejected.push_back({"cuda", *why});
  const auto& p = std::get<matmul::CudaProblem>(found);
  offer.problem = matmul::print(p.problem);
  if (machine.gpu->tf32 && p.type == DType::f32) offer.problem += ";tf32";
  matmul::offer_cuda(p, machine.gpu, offer,
                     [p, gpu = machine.gpu](const matmul::CudaConfig& c) { return matmul::cuda_product(p, c, *gpu); });
  matmul::offer_cublaslt(p, machine.gpu, offer);
}

bool is_int8_matmul(const Node& n) {
  return n.is("QLinearMatMul") || n.is("QLinearMatMul", smelt_domain) || n.is("MatMulInteger") || n.is("QGemm", microsoft_domain);
}

void offer_int8_cpu(const BoundNode& node, const Machine& machine, Offer& offer) {
  std::string why;
  auto p = matmul::int8_product(node, why);
  if (!p) return offer.rejected.push_back({"avx2", why});
  Key epilogue(p->node->program ? p->node->program->print() : "none");
  for (size_t i = p->operands; i < p->bound.inputs.size() && p->node->program; ++i)
    if (p->bound.inputs[i].type != DType::undefined) epilogue.option(" ", p->bound.inputs[i]);
  const bool narrow = p->bound.inputs[p->b].type == DType::i8 && p->quantization().is_symmetric();
  p->problem.epilogue = epilogue.flag(" wide", !narrow).text();  // b's 16 bits less their zero points
  offer.problem = matmul::print(p->problem);
  matmul::offer_int8_indirect(*p, machine.threads, offer);
  matmul::offer_int8_onednn(*p, machine.threads, offer);
}

constexpr OperatorTactics operators[] = {
    {is_matmul, offer_cpu, offer_cuda},
    {is_int8_matmul, offer_int8_cpu, matmul::offer_int8_cuda},
};

}  // namespace

constinit const TacticFamily matmul_family{operators};

}  // namespace smelt::ops
