#include "ops/matmul/cuda_tactics.h"

namespace smelt::ops {

void matmul_gpu_offer(const BoundNode& node, const Machine& machine, Offer& offer) {
  auto found = matmul::cuda_problem(node);
  if (auto* why = std::get_if<std::string>(&found)) return offer.rejected.push_back({"cuda", *why});
  const auto& p = std::get<matmul::CudaProblem>(found);
  offer.problem = matmul::print(p.problem);
  matmul::offer_cuda(p, machine.gpu, offer);
  matmul::offer_cublaslt(p, machine.gpu, offer);
}

}  // namespace smelt::ops
