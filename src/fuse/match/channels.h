// Constants that go with the channels of a convolution: reading them in f64, and scaling weights by them.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "fuse/match/match.h"

namespace smelt::fuse {

/// The M values of a constant that, broadcast to [N, M, spatial…] (`rank` axes), has one for each channel: it has one element,
/// or M along axis 1 and 1 along the others. Nothing for other shapes, and for a rank larger than `rank`.
std::optional<std::vector<double>> per_channel(const Tensor& t, int64_t channels, int rank);

/// Whether a convolution's padding depends on its input's extents: an auto_pad other than NOTSET. explicit_pads resolves it.
bool works_out_padding(const Node& conv);

/// A vector of the type.
Tensor vector_of(std::span<const double> values, DType type);

/// Whether a Conv or ConvTranspose makes the value, and which.
bool is_convolution(const Graph& g, ValueId v, NodeId* conv);

/// A convolution whose weights and bias are constants that fit it.
struct Filters {
  int64_t channels;  // of the output
  Tensor weights;
  std::vector<double> bias;  // one for each output channel; zeros when the convolution has none
  bool transposed;
  int64_t group;

  /// The weights with each output channel multiplied by its factor, computed in f64 and rounded to the weights' type.
  Tensor scaled(std::span<const double> factors) const;
};

/// Of a Conv or ConvTranspose; refused when the weights or the bias are computed, or do not fit.
Result<Filters> filters(const Graph& g, NodeId conv);

/// y = x * factor + offset for each channel.
struct Affine {
  std::vector<double> factor, offset;
};

/// What a BatchNormalization with constant parameters computes: factor = scale / sqrt(variance + epsilon),
/// offset = shift - mean * factor. Refusal in training mode, when its statistics are outputs, and when a parameter is computed
/// or no vector.
Result<Affine> batch_norm_affine(const Graph& g, NodeId norm);

/// The convolution with other weights (where valid) and another bias, standing for `after` too, whose output it gives. The new
/// constants are named after the node.
Match with_weights(const Graph& g, NodeId conv, NodeId after, Tensor weights, Tensor bias);

}  // namespace smelt::fuse
