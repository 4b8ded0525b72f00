// The argument that attention kernels have in common, and that of the program over their scores.
#pragma once

#include "kernels/common/args.h"

namespace smelt::kernels {

/// T: the elements' type; void on the host.
template <class T> struct AttentionProblem {
  const T* q;            // [batch, heads, queries, depth]
  const T* k;            // [batch, heads / group, keys, depth]
  const T* v;            // [batch, heads / group, keys, value_depth]
  T* y;                  // [batch, heads, queries, value_depth]
  i64 q_strides[4], k_strides[4], v_strides[4], y_strides[4];
  double scale;
  u32 batch, heads, group, queries, keys, depth, value_depth, nan_guard;
};
static_assert(sizeof(AttentionProblem<void>) == 200);

/// Which keys a query does not see: none, those beyond i + offset, or those whose scores a program makes minus infinity.
enum class MaskKind { none, causal, program };

/// An operand of the program over the scores.
struct ScoreOperandArgs {
  const void* tensor;    // broadcasts to [batch, heads, queries, keys]
  i64 strides[4];        // 0 where it repeats
};
static_assert(sizeof(ScoreOperandArgs) == 40);

/// The argument of a kernel with a program over the scores: its own, whose size is a multiple of 8, then the program's operands.
template <class A, int Operands> struct WithScores {
  A args;
  ScoreOperandArgs operands[Operands > 0 ? Operands : 1];
};

/// Bytes of the operands, for a number that the host knows at run time only.
SMELT_SHARED constexpr u64 score_operands_bytes(u64 operands) { return sizeof(ScoreOperandArgs) * (operands > 0 ? operands : 1); }
static_assert(sizeof(WithScores<AttentionProblem<void>, 0>) == sizeof(AttentionProblem<void>) + score_operands_bytes(0) &&
              sizeof(WithScores<AttentionProblem<void>, 3>) == sizeof(AttentionProblem<void>) + score_operands_bytes(3));

}  // namespace smelt::kernels
