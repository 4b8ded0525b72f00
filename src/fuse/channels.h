// Constants that go with the channels of a convolution: reading them in f64, and scaling weights by them.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "fuse/match.h"

namespace smelt::fuse {

/// The M values of a constant that, broadcast to [N, M, spatial…] (`rank` axes), has one for each channel: it has one element,
/// or M along axis 1 and 1 along the others. Nothing for other shapes, and for a rank larger than `rank`.
std::optional<std::vector<double>> per_channel(const Tensor& t, int64_t channels, int rank);

/// The output channels of a Conv or ConvTranspose with constant weights of known rank; -1 when they are not known.
int64_t output_channels(const Graph& g, NodeId conv);

/// Weights with each output channel multiplied by its factor, computed in f64 and rounded to the weights' type.
Tensor scale_channels(const Tensor& weights, std::span<const double> factors, bool transposed, int64_t group);

/// Whether a convolution's padding depends on its input's extents: an auto_pad other than NOTSET. explicit_pads resolves it.
bool works_out_padding(const Node& conv);

/// A vector of the type.
Tensor vector_of(std::span<const double> values, DType type);

/// The bias of a Conv or ConvTranspose as numbers, zeros when it has none; nothing when it is computed.
std::optional<std::vector<double>> bias_of(const Graph& g, NodeId conv, int64_t channels);

/// y = x * factor + offset for each channel.
struct Affine {
  std::vector<double> factor, offset;
};

/// What a BatchNormalization with constant parameters computes: factor = scale / sqrt(variance + epsilon),
/// offset = shift - mean * factor. Rejected in training mode, when its statistics are outputs, and when a parameter is computed
/// or no vector.
std::variant<Affine, Rejected> batch_norm_affine(const Graph& g, NodeId norm);

/// The convolution with other weights (where valid) and another bias, standing for `after` too, whose output it gives. The new
/// constants are named after the node.
Match with_weights(const Graph& g, NodeId conv, NodeId after, Tensor weights, Tensor bias);

}  // namespace smelt::fuse
