#include "ops/matmul/cuda_offer.h"

namespace smelt::ops {

void matmul_gpu_offer(const BoundNode& node, const Machine& machine, Offer& offer) {
  auto found = matmul::cuda_problem(node);
  if (auto* why = std::get_if<std::string>(&found)) return offer.rejected.push_back({"cuda", *why});
  const auto& p = std::get<matmul::CudaProblem>(found);
  offer.problem = matmul::print(p.problem);
  if (machine.gpu->tf32 && p.type == DType::f32) offer.problem += ";tf32";
  matmul::offer_cuda(p, machine.gpu, offer,
                     [p, gpu = machine.gpu](const matmul::CudaConfig& c) { return matmul::cuda_product(p, c, *gpu); });
  matmul::offer_cublaslt(p, machine.gpu, offer);
}

}  // namespace smelt::ops
