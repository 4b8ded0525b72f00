// The matrix product's tactics on a GPU; offer.cpp lists them.
#pragma once

#include <functional>
#include <memory>

#include "ops/matmul/cuda_configs.h"
#include "ops/matmul/cuda_hopper.h"

namespace smelt::ops::matmul {

using MakeProduct = std::function<std::unique_ptr<Kernel>(const CudaConfig&)>;
using MakeHopperProduct = std::function<std::unique_ptr<Kernel>(const HopperConfig&)>;

/// "cuda": src/kernels/gemm, in the configurations that rank first, made by `make`.
void offer_cuda(const CudaProblem& p, const std::shared_ptr<const Gpu>& gpu, Offer& offer, const MakeProduct& make);
/// "hopper": src/kernels/gemm/hopper.cuh, likewise.
void offer_hopper(const CudaProblem& p, const std::shared_ptr<const Gpu>& gpu, Offer& offer, const MakeHopperProduct& make);
void offer_hopper(const CudaProblem& p, const std::shared_ptr<const Gpu>& gpu, Offer& offer);
void offer_cublaslt(const CudaProblem& p, const std::shared_ptr<const Gpu>& gpu, Offer& offer);  // "cublaslt"
/// "cuda" of doubles and of wide integers: cuda_wide.cpp.
void offer_wide_cuda(const CudaProblem& p, const std::shared_ptr<const Gpu>& gpu, Offer& offer);

/// "cuda" and "hopper" of 8-bit products: cuda_int8.cpp.
void offer_int8_cuda(const BoundNode& node, const Machine& machine, Offer& offer);

/// cuda_product of a config whose stages tensor maps bring: cuda_fed.cpp.
std::unique_ptr<Kernel> fed_product(const CudaProblem& p, const CudaConfig& c, const Gpu& gpu);
/// One kernel of "cuda": inputs 0 and 1 are a and b, 2 to 4 zero points as CudaProblem has them, and
/// the epilogue's as its operands say.
std::unique_ptr<Kernel> cuda_product(const CudaProblem& p, const CudaConfig& c, const Gpu& gpu);

}  // namespace smelt::ops::matmul
