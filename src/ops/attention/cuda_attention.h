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

/// What its kernels are given beside tensors.
kernels::AttentionProblem attention_args(const AttentionCuda& p);

/// The program over the scores as a kernel's source has it (src/kernels/attention/scores.cuh).
struct ScoresSource {
  explicit ScoresSource(const AttentionCuda& p);
  std::string definition;             // of Program; may be empty
  std::vector<Parameter> parameters;  // of the kernel: "const float* operand0", …, "const ScoreStrides<1> score_strides"
  std::string value;                  // an expression that makes ProgramScores of them, or BareScores
  std::vector<int64_t> strides;
  /// Adds what `parameters` says.
  void pass(const AttentionCuda& p, const Buffers& b, Arguments& arguments) const;
};

/// A source: what `before` declares, the program, and an entry of these parameters and the scores' that executes
/// "BODY(GIVEN, scores);".
std::string attention_source(const std::string& before, const ScoresSource& scores, std::string_view entry,
                             std::string_view bounds, std::vector<Parameter> parameters, std::string_view body);

/// "attention:bf16:4x16x1024x32": for messages.
std::string kernel_name(const AttentionCuda& p, const std::string& config);

void offer_plain_attention(const AttentionCuda& p, const Machine& machine, Offer& offer);
void offer_flash_attention(const AttentionCuda& p, ScoreMask mask, const Machine& machine, Offer& offer);
void offer_tiled_attention(const AttentionCuda& p, ScoreMask mask, const Machine& machine, Offer& offer);
void offer_cudnn_attention(const BoundNode& b, const AttentionCuda& p, ScoreMask mask, const Machine& machine, Offer& offer);

}  // namespace smelt::ops
