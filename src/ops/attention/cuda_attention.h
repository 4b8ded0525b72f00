// ai.smelt.Attention on a GPU: what its kernels have in common, and their offers.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "ops/attention/shape.h"
#include "ops/cuda/gpu.h"

namespace smelt::ops {

/// How keys are hidden: none are, those beyond a query's own position, or as the program says.
enum class MaskKind { none, causal, program };

struct ScoreMask {
  MaskKind kind = MaskKind::program;
  int64_t offset = 0;  // causal: query i sees the keys up to i + offset
};

/// An operand of the program over the scores.
struct ScoreOperand {
  size_t input;  // of the node
  DType type;
  Shape strides;  // elements along [batch, head, query, key]; 0 where it repeats
  int64_t alignment;
};

/// A bound Attention as the kernels see it; strides along [batch, head, row, column], k's rows being keys however it lies.
struct AttentionCuda {
  explicit AttentionCuda(const BoundNode& b);

  AttentionShape shape;
  DType type;
  std::array<Shape, 4> strides;  // q, k, v, y
  std::array<int64_t, 4> alignments;
  std::optional<expr::Program> program;  // over a score and `operands`
  std::vector<ScoreOperand> operands;
  /// The widest access in elements (a power of two, 16 bytes at most) to the rows of tensor `t` of q, k, v, y; 1 where a row's
  /// elements are apart.
  int64_t access(size_t t) const;
  double flops() const;        // of the two products
  double bytes_moved() const;  // each tensor once
};

/// AttentionProblem of src/kernels/attention/problem.cuh.
struct AttentionArgument {
  explicit AttentionArgument(const AttentionCuda& p);
  uint32_t batch, heads, group, queries, keys, depth, value_depth, nan_guard;
  int64_t q[4], k[4], v[4], y[4];
  double scale;
};

/// The struct Scores of a kernel's source: the program, its operands and where they lie.
struct ScoresSource {
  explicit ScoresSource(const AttentionCuda& p);
  std::string definition;  // of Program and Scores
  std::string parameters;  // of the kernel, ", const float* operand0, …, const ScoreStrides<1> score_strides"; may be empty
  std::string value;       // an expression that makes a Scores of them
  std::vector<int64_t> strides;
  /// Adds what `parameters` says.
  void pass(const AttentionCuda& p, const Buffers& b, Arguments& arguments) const;
};

/// "attention:bf16:4x16x1024x32": for messages.
std::string kernel_name(const AttentionCuda& p, const std::string& config);

void offer_plain_attention(const AttentionCuda& p, const Machine& machine, Offer& offer);
void offer_flash_attention(const AttentionCuda& p, ScoreMask mask, const Machine& machine, Offer& offer);
void offer_tiled_attention(const AttentionCuda& p, ScoreMask mask, const Machine& machine, Offer& offer);
void offer_cudnn_attention(const BoundNode& b, const AttentionCuda& p, ScoreMask mask, const Machine& machine, Offer& offer);

}  // namespace smelt::ops
