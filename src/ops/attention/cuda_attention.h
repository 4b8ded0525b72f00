// ai.smelt.Attention on a GPU: what its kernels have in common, and their offers.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "kernels/attention/problem.h"
#include "ops/attention/shape.h"
#include "ops/cuda/gpu.h"
#include "ops/cuda/source.h"

namespace smelt::ops {

using kernels::MaskKind;

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

/// What a CachedAttention has beside its past: the new keys and values, then both presents.
struct CachedKeys {
  int64_t past = 0;              // rows
  std::array<Shape, 4> strides;  // along [batch, key head, row, column]
  std::array<int64_t, 4> alignments;
};

/// A bound Attention or CachedAttention as the kernels see it; strides along [batch, head, row, column], k's rows being keys however it lies.
struct AttentionCuda {
  explicit AttentionCuda(const BoundNode& b);

  AttentionShape shape;
  DType type;
  std::array<Shape, 4> strides;  // q, k, v, y; k and v of a cache: its past
  std::array<int64_t, 4> alignments;
  std::optional<expr::Program> program;  // over a score and `operands`
  std::vector<ScoreOperand> operands;
  std::optional<CachedKeys> cache;
  size_t first_operand;  // of the node's inputs
  /// The widest access in elements (a power of two, 16 bytes at most) to the rows of tensor `t` of q, k, v, y; 1 where a row's
  /// elements are apart.
  int64_t access(size_t t) const;
  /// The same of tensor `t` of CachedKeys.
  int64_t cache_access(size_t t) const;
  double flops() const;        // of the two products
  double bytes_moved() const;  // each tensor once
};

/// The argument that its kernels have in common, without the addresses of tensors.
kernels::AttentionProblem<void> attention_args(const AttentionCuda& p);
void set_tensors(kernels::AttentionProblem<void>& args, const Buffers& b);

/// The program over the scores as a kernel has it (src/kernels/attention/scores.cuh).
class CudaScores {
 public:
  explicit CudaScores(const AttentionCuda& p);

  /// ProgramScores, or BareScores where there is no program.
  const std::string& type() const { return type_; }
  /// Declares Program, if there is one, then the entry; its argument is WithScores<entry.arguments, operands>, the first of them of
  /// `bytes`, aligned so.
  std::string source(KernelEntry entry, size_t bytes, size_t alignment = 8) const;
  /// Appends the operands.
  void pass(const Buffers& b, Arguments& arguments) const;

 private:
  std::string definition_, type_;
  std::vector<size_t> inputs_;
  std::vector<kernels::ScoreOperandArgs> operands_;  // one of zeros where there is none
};

/// "attention:bf16:4x16x1024x32": for messages.
std::string kernel_name(const AttentionCuda& p, const std::string& config);

void offer_plain_attention(const AttentionCuda& p, const Machine& machine, Offer& offer);
void offer_flash_attention(const AttentionCuda& p, ScoreMask mask, const Machine& machine, Offer& offer);
void offer_hopper_attention(const AttentionCuda& p, ScoreMask mask, const Machine& machine, Offer& offer);
void offer_tiled_attention(const AttentionCuda& p, ScoreMask mask, const Machine& machine, Offer& offer);
void offer_cudnn_attention(const BoundNode& b, const AttentionCuda& p, ScoreMask mask, const Machine& machine, Offer& offer);

}  // namespace smelt::ops
