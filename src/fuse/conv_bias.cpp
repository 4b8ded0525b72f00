// Before   Add(Conv(x, w, b), c) or Sub or Mul or Div with a constant c for each channel; ConvTranspose likewise
// After    Conv with the constant in its bias, for Mul and Div in its weights too
// Unless   c varies along another axis than the channels', or is [M] without the spatial axes after it
//          c, the weights or the bias are computed
//          the convolution's result has another reader, or is a graph output
#include <algorithm>

#include "fuse/channels.h"
#include "fuse/rewrites.h"

namespace smelt::fuse {
namespace {

bool is_convolution(const Graph& g, ValueId v, NodeId* conv) {
  return made_by(g, v, "Conv", conv) || made_by(g, v, "ConvTranspose", conv);
}

}  // namespace

Outcome conv_bias(const Graph& g, NodeId n) {
  const Node& node = g.node(n);
  const bool adds = node.is("Add") || node.is("Sub"), scales = node.is("Mul") || node.is("Div");
  const bool commutes = node.op == "Add" || node.op == "Mul";
  NodeId conv;
  size_t side = 0;
  if ((!adds && !scales) || node.inputs.size() != 2) return NotHere{};
  if (!is_convolution(g, node.in(0), &conv)) {
    if (!commutes || !is_convolution(g, node.in(1), &conv)) return NotHere{};
    side = 1;
  }
  const Tensor& c = g.constant(n, 1 - side);
  if (!c.valid()) return NotHere{};                 // a residual: conv_epilogue's
  const auto only = reader_of(g, g.node(conv).out());
  if (const auto* no = std::get_if<Rejected>(&only)) return *no;
  const int64_t channels = output_channels(g, conv);
  if (channels < 0)
    return reject(Reason::not_constant, g.producer(conv, 1), "the weights of {} are computed, or do not fit its groups",
                  describe(g, conv));
  const Tensor& w = g.constant(conv, 1);
  if (c.rank() == 1 && c.size() == channels && channels > 1)
    return reject(Reason::wrong_rank, n, "the constant has shape {}: it goes with the last axis, not with the channels",
                  to_string(c.shape()));
  auto values = per_channel(c, channels, static_cast<int>(w.rank()));
  if (!values)
    return reject(Reason::wrong_shape, n, "the constant has shape {}, the convolution {} channels", to_string(c.shape()),
                  channels);
  auto bias = bias_of(g, conv, channels);
  if (!bias)
    return reject(Reason::not_constant, g.producer(conv, 2), "the bias of {} is computed, or not one for each channel",
                  describe(g, conv));

  Tensor weights;
  for (size_t i = 0; i < bias->size(); ++i) {
    double& v = (*values)[i];
    if (node.op == "Div") v = 1 / v;
    if (scales) (*bias)[i] *= v;
    else (*bias)[i] += node.op == "Sub" ? -v : v;
  }
  if (scales) weights = scale_channels(w, *values, g.node(conv).op == "ConvTranspose", g.node(conv).get_int("group", 1));
  return with_weights(g, conv, n, weights, vector_of(*bias, w.type()));
}

}  // namespace smelt::fuse
