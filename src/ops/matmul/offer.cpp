#include "ops/matmul/offer.h"
#include "base/error.h"
#include "ops/core/strides.h"

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

bool matmul_handles(const Node& node) {
  if (node.is("FusedMatMul", microsoft_domain)) return node.get_int("transBatchA", 0) == 0 && node.get_int("transBatchB", 0) == 0;
  return node.is("MatMul") || node.is("Gemm") || node.is("MatMul", smelt_domain);
}

void matmul_offer(const BoundNode& node, const Machine& machine, Offer& offer) {
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
  Epilogue epilogue(p.bound, 2, node.outputs[0].shape.size() - 1, {});
  p.problem.epilogue = epilogue.text();
  offer.problem = matmul::print(p.problem);
  const matmul::Request r{std::move(p), std::move(epilogue), machine.threads};
  matmul::offer_indirect(r, offer);
  matmul::offer_computed(r, offer);
  matmul::offer_skinny(r, offer);
  matmul::offer_onednn(r, offer);
}

}  // namespace smelt::ops
