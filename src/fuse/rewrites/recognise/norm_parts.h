// A normalisation spelled out in parts: what recognise_rms_norm and recognise_layer_norm have in common.
#pragma once

#include "fuse/match/match.h"

namespace smelt::fuse {

/// v * v, as Pow(v, 2) or Mul(v, v); the node and v.
struct Square {
  NodeId node = NodeId::none;
  ValueId of = ValueId::none;
};
std::optional<Square> square(const Graph& g, ValueId v);

/// The mean over the last axes, kept as extents of 1.
struct Mean {
  NodeId node = NodeId::none;
  ValueId of = ValueId::none;
  int axes = 0;  // how many, from the end
};
/// The mean that a ReduceMean takes, or why it is not one over last axes.
Result<Mean> mean_of(const Graph& g, NodeId reduce);
/// The same for the ReduceMean that makes v; nothing where another node does.
std::optional<Result<Mean>> mean(const Graph& g, ValueId v);

/// numerator / sqrt(variance + epsilon), with gamma and beta where they follow.
struct NormTail {
  std::vector<NodeId> nodes;  // from the addition of epsilon on
  double epsilon = 0;
  ValueId gamma = ValueId::none, beta = ValueId::none;
  ValueId result = ValueId::none;
};
/// What is divided: x itself or, where a mean is taken off, x - mean; `centred` is none where no node computes that.
struct Numerator {
  ValueId centred = ValueId::none, x = ValueId::none, mean = ValueId::none;
};
/// Follows the mean of squares: Add(eps), Sqrt, then Reciprocal or 1/ and Mul, or Div, or Pow(-1/2) and Mul; then any casts
/// between float types, Mul by gamma and (with `with_beta`) Add of beta, where those do not enlarge the result. Gamma may be a
/// factor of the reciprocal root s, and the rest be spelled x * s + (beta - mean * s).
Result<NormTail> norm_tail(const Graph& g, const Mean& variance, const Numerator& numerator, bool with_beta);

/// The match that puts one ai.smelt.Norm in the place of these parts. A Cast that makes x of a narrower float, for these nodes
/// alone, is taken in too: Norm reads the narrower one.
Outcome make_norm(const Graph& g, std::string kind, ValueId x, std::vector<NodeId> nodes, const Mean& variance,
                  const NormTail& tail);

}  // namespace smelt::fuse
