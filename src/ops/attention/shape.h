// The shapes of ai.smelt's Attention and RotaryEmbedding, read off a node and its inputs' shapes. Both throw Error for shapes
// that do not fit.
#pragma once

#include "graph/fused.h"
#include "graph/graph.h"

namespace smelt::ops {

struct AttentionShape {
  AttentionShape(const Node& n, const Shape& q, const Shape& k, const Shape& v);
  /// Of query pair (batch, head) p = batch · heads + head, the key and value pair it reads.
  int64_t kv_pair(int64_t p) const { return p / heads * kv_heads + p % heads / (heads / kv_heads); }

  int64_t batch = 0, heads = 0, kv_heads = 0, queries = 0, keys = 0, depth = 0, value_depth = 0;
  bool k_transposed, nan_guard;
  double scale;
};

/// ai.smelt.CachedAttention: keys and values are those of a cache's past and the new ones behind them.
inline bool keeps_cache(const Node& n) { return n.is("CachedAttention", smelt_domain); }
/// [batch, heads, keys, depth] of both together. Throws Error where they do not fit.
Shape joined_keys(const Shape& past, const Shape& fresh);

/// The shape that a rotary embedding's table of shape `table` is broadcast to over x: x's, or with half the last extent.
Shape rotary_table_shape(const Shape& table, const Shape& x);

}  // namespace smelt::ops
