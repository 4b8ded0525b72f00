// What every attention kernel is given beside its tensors.
#pragma once

#include "kernels/common/args.h"

namespace smelt::kernels {

struct AttentionProblem {
  u32 batch, heads, group, queries, keys, depth, value_depth, nan_guard;
  i64 q[4], k[4], v[4], y[4];          // elements from one index to the next along [batch, head, row, column]; k's rows are keys
  double scale;
};
static_assert(sizeof(AttentionProblem) == 168);

/// Which keys a query does not see: none, those beyond i + offset, or those whose scores a program makes minus infinity.
enum class MaskKind { none, causal, program };

/// Where a program's operands lie: elements from one index to the next along [batch, head, query, key], 0 where they repeat.
template <int Operands> struct ScoreStrides { i64 of[Operands][4]; };
template <> struct ScoreStrides<0> {};
static_assert(sizeof(ScoreStrides<3>) == 3 * 32);

}  // namespace smelt::kernels
