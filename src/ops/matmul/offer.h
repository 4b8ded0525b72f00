// The matrix product's tactics on the processor, and the list of them.
#pragma once

#include "ops/cpu/epilogue.h"
#include "ops/matmul/problem.h"

namespace smelt::ops::matmul {

struct Request {
  Product product;
  CpuEpilogue epilogue;  // over the result's columns
  int threads;
};

void offer_indirect(const Request& r, Offer& offer);                // "avx2": src/ops/igemm
void offer_indirect_packed_in_run(const Request& r, Offer& offer);  // "avx2": the same, operands packed in the run
void offer_skinny(const Request& r, Offer& offer);                  // "cpu": a few rows, weights read where they lie
void offer_float_shallow(const Request& r, Offer& offer);           // "cpu": little depth
void offer_onednn(const Request& r, Offer& offer);                  // "onednn"
/// Products of f64 and of integers of 32 and 64 bits, "cpu": cpu_wide.cpp.
void offer_wide(const BoundNode& b, const Machine& machine, Offer& offer);

void offer_fused_gemm(const BoundNode& b, const Machine& machine,
                      Offer& offer);  // Gemm's tactics, then a sweep: cpu_composed.cpp
/// MatMulIntegerToFloat and DynamicQuantizeMatMul by MatMulInteger's tactics: cpu_composed.cpp.
void offer_scaled_product(const BoundNode& b, const Machine& machine, Offer& offer);

/// Of floats: all of them, in the order in which they are offered.
inline constexpr void (*cpu_tactics[])(const Request& r, Offer& offer) = {offer_indirect, offer_indirect_packed_in_run,
                                                                          offer_skinny, offer_float_shallow, offer_onednn};

/// Why a node's tensors suit no tactic: layouts, slices, vectors, empty results. Nothing when they do.
std::optional<Refusal> rejects_tensors(const Product& p);

}  // namespace smelt::ops::matmul
