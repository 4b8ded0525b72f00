// The matrix product's tactics on a GPU; offer_cuda.cpp lists them.
#pragma once

#include <memory>

#include "ops/matmul/cuda_configs.h"

namespace smelt::ops::matmul {

void offer_cuda(const CudaProblem& p, const std::shared_ptr<const Gpu>& gpu, Offer& offer);   // "cuda": src/kernels/gemm
void offer_cublaslt(const CudaProblem& p, const std::shared_ptr<const Gpu>& gpu, Offer& offer);   // "cublaslt"

/// One kernel of that tactic.
std::unique_ptr<Kernel> cuda_product(const CudaProblem& p, const CudaConfig& c, const Gpu& gpu);

}  // namespace smelt::ops::matmul
