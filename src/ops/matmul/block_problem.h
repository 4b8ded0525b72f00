// ai.smelt.BlockMatMul: a product with constant weights of 2, 4 or 8 bits that have a scale for each block along K.
//
//   blocks:f32>f32:1x4096x4096:u4/32 f16+zeros+bytes:bias+relu
//
// Fields: element types of a and the result; M x N x K; the weights' type, elements of a block, the scales' type, whether there
// are zero points, and whether a's rows may be rounded to 8 bits; the epilogue.
#pragma once

#include <optional>

#include "ops/cpu/epilogue.h"
#include "ops/matmul/simd/block.h"

namespace smelt::ops::matmul {

/// Inputs of the node.
enum BlockInput : size_t { block_a, block_weights, block_scales, block_zeros, block_operands };

/// Why no kernel takes weights [N, row] of this type in blocks of so many; nothing where kernels do. Rewrites ask it too.
std::optional<Refusal> rejects_blocks(DType type, int64_t row, int64_t block);

/// Whether kernels may round the rows of a to 8 bits, a scale for each block: the node's accuracy_level, which says the least.
inline constexpr int64_t level_of_bytes = 4;
inline bool rounds_to_bytes(const Node& node) { return node.get_int("accuracy_level", 0) >= level_of_bytes; }

struct BlockProduct {
  BoundNode bound;
  BlockWeights weights;  // of the run: q and scales are the buffers'
  int64_t m = 0, n = 0, k = 0;
};
/// Refused where the types, the blocks or the layouts suit no kernel.
Result<BlockProduct> block_product(const BoundNode& node);

struct BlockRequest {
  BlockProduct product;
  CpuEpilogue epilogue;  // over the result's columns
  int threads;
};

/// Zero points as bytes [N, blocks] of the numbers read as unsigned; not valid() where all are the same: that one in w.zero.
Tensor block_zero_points(const BlockProduct& p, BlockWeights& w);

void offer_block_rows(const BlockRequest& r, Offer& offer);    // "cpu": a few rows, weights widened in registers
void offer_block_bytes(const BlockRequest& r, Offer& offer);   // "cpu": rows rounded to 8 bits, where the node lets them be
void offer_block_panels(const BlockRequest& r, Offer& offer);  // "avx2": many rows, a panel of weights at a time as floats

/// All of them, in the order in which they are offered.
inline constexpr void (*block_tactics[])(const BlockRequest& r, Offer& offer) = {offer_block_rows, offer_block_bytes,
                                                                                 offer_block_panels};

void offer_block_product(const BoundNode& b, const Machine& machine, Offer& offer);

}  // namespace smelt::ops::matmul
