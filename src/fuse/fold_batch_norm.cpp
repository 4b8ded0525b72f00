// Before   BatchNormalization(Conv(x, w, b), scale, shift, mean, var); ConvTranspose likewise
// After    Conv(x, w', b') with w' = w * s, b' = (b - mean) * s + shift, s = scale / sqrt(var + epsilon) for each output channel
// Unless   the convolution's result has another reader, or is a graph output
//          a weight or parameter is computed
//          the normalization is in training mode, or its running statistics are read
#include "fuse/channels.h"
#include "fuse/rewrites.h"

namespace smelt::fuse {
Outcome fold_batch_norm(const Graph& g, NodeId norm) {
  if (!g.node(norm).is("BatchNormalization")) return NotHere{};
  NodeId conv;
  const bool transposed = made_by(g, g.node(norm).in(0), "ConvTranspose", &conv);
  if (!transposed && !made_by(g, g.node(norm).in(0), "Conv", &conv))
    return reject(Reason::wrong_producer, g.producer(norm, 0), "{} normalizes no convolution", describe(g, norm));
  const auto only = reader_of(g, g.node(conv).out());
  if (const auto* no = std::get_if<Rejected>(&only)) return *no;
  const auto parameters = batch_norm_affine(g, norm);
  if (const auto* no = std::get_if<Rejected>(&parameters)) return *no;
  const Affine& a = std::get<Affine>(parameters);
  const int64_t channels = output_channels(g, conv);
  if (channels < 0)
    return reject(Reason::not_constant, g.producer(conv, 1), "the weights of {} are computed, or do not fit its groups",
                  describe(g, conv));
  if (channels != static_cast<int64_t>(a.factor.size()))
    return reject(Reason::wrong_shape, norm, "{} channels, the convolution has {}", a.factor.size(), channels);
  auto bias = bias_of(g, conv, channels);
  if (!bias)
    return reject(Reason::not_constant, g.producer(conv, 2), "the bias of {} is computed, or not one for each channel",
                  describe(g, conv));

  const Tensor& w = g.constant(conv, 1);
  const Tensor scaled = scale_channels(w, a.factor, transposed, g.node(conv).get_int("group", 1));
  for (size_t c = 0; c < bias->size(); ++c) (*bias)[c] = (*bias)[c] * a.factor[c] + a.offset[c];
  return with_weights(g, conv, norm, scaled, vector_of(*bias, w.type()));
}

}  // namespace smelt::fuse
