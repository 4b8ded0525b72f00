// Before   BatchNormalization(Conv(x, w, b), scale, shift, mean, var); ConvTranspose likewise
// After    Conv(x, w', b') with w' = w * s, b' = (b - mean) * s + shift, s = scale / sqrt(var + epsilon) for each output channel
// Unless   the convolution's result has another reader, or is a graph output
//          a weight or parameter is computed
//          the normalization is in training mode, or its running statistics are read
#include "fuse/match/channels.h"
#include "fuse/rewrites/rewrites.h"

namespace smelt::fuse {
Outcome fold_batch_norm(const Graph& g, NodeId norm) {
  if (!g.node(norm).is("BatchNormalization")) return NotHere{};
  NodeId conv;
  if (!is_convolution(g, g.node(norm).in(0), &conv))
    return refuse(Reason::wrong_producer, g.producer(norm, 0), "{} normalizes no convolution", describe(g, norm));
  const auto only = reader_of(g, g.node(conv).out());
  if (!only) return only.refusal();
  const auto parameters = batch_norm_affine(g, norm);
  if (!parameters) return parameters.refusal();
  const Affine& a = *parameters;
  const auto constants = filters(g, conv);
  if (!constants) return constants.refusal();
  const Filters& f = *constants;
  if (f.channels != static_cast<int64_t>(a.factor.size()))
    return refuse(Reason::wrong_shape, norm, "{} channels, the convolution has {}", a.factor.size(), f.channels);

  std::vector<double> bias = f.bias;
  for (size_t c = 0; c < bias.size(); ++c) bias[c] = bias[c] * a.factor[c] + a.offset[c];
  return with_weights(g, conv, norm, f.scaled(a.factor), vector_of(bias, f.weights.type()));
}

}  // namespace smelt::fuse
