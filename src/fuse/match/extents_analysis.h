// How extents.h follows the graph. extents.cpp asks, extents_axes.cpp follows one extent through an operator, extents_values.cpp
// the numbers that shape arithmetic computes.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "fuse/match/extents.h"

namespace smelt::fuse {

/// Answers the questions of one proof. Everything is followed once, since an Add of two branches doubles the ways to what is
/// above it. What max_depth cuts off is remembered too: an answer may then depend on the questions before it, so an Analysis
/// lives for one call from outside, whose questions always come in the same order.
class Analysis {
 public:
  explicit Analysis(const Graph& g) : g_(g) {}
  std::optional<Extents> all(ValueId v);
  Extent one(ValueId v, int axis);
  std::optional<std::vector<Extent>> values(ValueId v);

 private:
  /// An extent that is asked for: that of `axis` of `v`, which node `id` makes.
  struct Asked {
    ValueId v;
    NodeId id;
    const Node& n;
    int axis;
    int rank;   // of v
    int rank0;  // of the node's first input, -1 when it is not known or there is none
    Extent unknown;
  };
  struct Rule;
  static const Rule rules[];

  Extent unknown(ValueId v, int axis) const { return {-1, {}, v, axis}; }
  Extent followed(ValueId v, int axis);
  Extent derived(ValueId v, int axis);
  Extent broadcast(const Asked& a, size_t skip_last, int from_end);
  Extent matmul(const Asked& a);
  Extent attention(const Asked& a);
  Extent reshape(const Asked& a);
  Extent transpose(const Asked& a);
  Extent expand(const Asked& a);
  Extent squeeze(const Asked& a);
  Extent concat(const Asked& a);
  Extent split(const Asked& a);
  Extent slice(const Asked& a);
  Extent gather(const Asked& a);
  Extent gather_elements(const Asked& a);
  Extent range(const Asked& a);
  Extent filled(const Asked& a);
  Extent reduction(const Asked& a);

  std::optional<std::vector<Extent>> computed_values(NodeId id);
  std::optional<std::vector<Extent>> concat_values(const Node& n);
  std::optional<std::vector<Extent>> gather_values(NodeId id);
  std::optional<std::vector<Extent>> slice_values(NodeId id);
  std::optional<std::vector<Extent>> arithmetic(const Node& n);

  const Graph& g_;
  int depth_ = 0;
  std::map<std::pair<ValueId, int>, Extent> extents_;
  std::map<ValueId, std::optional<std::vector<Extent>>> values_;
};

constexpr int max_depth = 256;  // operators followed from one value, some 80 residual blocks; it bounds the stack

}  // namespace smelt::fuse
